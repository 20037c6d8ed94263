/* test_names.c - the names of parts, of published size, in every spelling: both lists whole, and one to one. */
#include "part_names.h"
#include "unit.h"

enum { NAMES_MAX = 1300 };

typedef struct names {
    char name[NAMES_MAX][96];
    int  count;
} names;

/* Every name that a list of patterns makes: {a,b} is one or the other, <n> each number below n. */
static void expand(names *to, const char *pattern)
{
    char              text[512];
    const char *const at = strpbrk(pattern, "{<");
    if (!at) {
        assert_true(to->count < NAMES_MAX && strlen(pattern) < sizeof *to->name);
        strcpy(to->name[to->count++], pattern);
        return;
    }
    const char *const end = strchr(at, *at == '<' ? '>' : '}');
    for (int i = 0; *at == '<' && i < atoi(at + 1); i++) {
        snprintf(text, sizeof text, "%.*s%d%s", (int)(at - pattern), pattern, i, end + 1);
        expand(to, text);
    }
    for (const char *one = at + 1; *at == '{' && one <= end;) {
        const size_t n = strcspn(one, ",}");
        snprintf(text, sizeof text, "%.*s%.*s%s", (int)(at - pattern), pattern, (int)n, one, end + 1);
        expand(to, text);
        one += n + 1;
    }
}

static void expand_all(names *to, const char *const *pattern)
{
    to->count = 0;
    for (; *pattern; pattern++) expand(to, *pattern);
}

#define BLOCK(i, names) "blocks.<" i ">." names
#define WB ".{weight,bias}"

static const char *const dit_bound[] = {
    "patch_embedding" WB,
    "condition_embedder.{text,time}_embedder.linear_{1,2}" WB,
    "condition_embedder.time_proj" WB,
    "{proj_out.weight,proj_out.bias,scale_shift_table}",
    BLOCK("30", "scale_shift_table"),
    BLOCK("30", "norm2" WB),
    BLOCK("30", "attn{1,2}.{to_q,to_k,to_v,to_out.0}" WB),
    BLOCK("30", "attn{1,2}.norm_{q,k}.weight"),
    BLOCK("30", "ffn.net.{0.proj,2}" WB),
    NULL,
};
static const char *const dit_file[] = {
    "patch_embedding" WB,
    "{text,time}_embedding.{0,2}" WB,
    "time_projection.1" WB,
    "head.{head.weight,head.bias,modulation}",
    BLOCK("30", "modulation"),
    BLOCK("30", "norm3" WB),
    BLOCK("30", "{self,cross}_attn.{q,k,v,o}" WB),
    BLOCK("30", "{self,cross}_attn.norm_{q,k}.weight"),
    BLOCK("30", "ffn.{0,2}" WB),
    NULL,
};
static const char *const image_bound[] = {
    "condition_embedder.image_embedder.{norm1,ff.net.0.proj,ff.net.2,norm2}" WB,
    "condition_embedder.image_embedder.pos_embed",
    BLOCK("40", "attn2.add_{k,v}_proj" WB),
    BLOCK("40", "attn2.norm_added_k.weight"),
    NULL,
};
static const char *const image_file[] = {
    "img_emb.proj.{0,1,3,4}" WB,
    "img_emb.emb_pos",
    BLOCK("40", "cross_attn.{k,v}_img" WB),
    BLOCK("40", "cross_attn.norm_k_img.weight"),
    NULL,
};

#define RESNET "{norm1.gamma,conv1.weight,conv1.bias,norm2.gamma,conv2.weight,conv2.bias}"
#define RESIDUAL "residual.{0.gamma,2.weight,2.bias,3.gamma,6.weight,6.bias}"
#define CODER_BOUND                                                                                                    \
    "{quant_conv,post_quant_conv}" WB, "{encoder,decoder}.{conv_in,conv_out}" WB, "{encoder,decoder}.norm_out.gamma",  \
        "{encoder,decoder}.mid_block.resnets.<2>." RESNET,                                                             \
        "{encoder,decoder}.mid_block.attentions.0.{norm.gamma,to_qkv.weight,to_qkv.bias,proj.weight,proj.bias}"
#define CODER_FILE                                                                                                     \
    "conv{1,2}" WB, "{encoder,decoder}.{conv1,head.2}" WB, "{encoder,decoder}.head.0.gamma",                           \
        "{encoder,decoder}.middle.{0,2}." RESIDUAL,                                                                    \
        "{encoder,decoder}.middle.1.{norm.gamma,to_qkv.weight,to_qkv.bias,proj.weight,proj.bias}"

static const char *const vae_bound[] = {
    CODER_BOUND,
    "encoder.down_blocks.{0,1,3,4,6,7,9,10}." RESNET,
    "encoder.down_blocks.{3,6}.conv_shortcut" WB,
    "encoder.down_blocks.{2,5,8}.resample.1" WB,
    "encoder.down_blocks.{5,8}.time_conv" WB,
    "decoder.up_blocks.<4>.resnets.<3>." RESNET,
    "decoder.up_blocks.1.resnets.0.conv_shortcut" WB,
    "decoder.up_blocks.<3>.upsamplers.0.resample.1" WB,
    "decoder.up_blocks.<2>.upsamplers.0.time_conv" WB,
    NULL,
};
static const char *const vae_file[] = {
    CODER_FILE,
    "encoder.downsamples.{0,1,3,4,6,7,9,10}." RESIDUAL,
    "encoder.downsamples.{3,6}.shortcut" WB,
    "encoder.downsamples.{2,5,8}.resample.1" WB,
    "encoder.downsamples.{5,8}.time_conv" WB,
    "decoder.upsamples.{0,1,2,4,5,6,8,9,10,12,13,14}." RESIDUAL,
    "decoder.upsamples.4.shortcut" WB,
    "decoder.upsamples.{3,7,11}.resample.1" WB,
    "decoder.upsamples.{3,7}.time_conv" WB,
    NULL,
};
static const char *const residual_bound[] = {
    CODER_BOUND,
    "encoder.down_blocks.<4>.resnets.<2>." RESNET,
    "encoder.down_blocks.{1,2}.resnets.0.conv_shortcut" WB,
    "encoder.down_blocks.<3>.downsampler.resample.1" WB,
    "encoder.down_blocks.{1,2}.downsampler.time_conv" WB,
    "decoder.up_blocks.<4>.resnets.<3>." RESNET,
    "decoder.up_blocks.{2,3}.resnets.0.conv_shortcut" WB,
    "decoder.up_blocks.<3>.upsampler.resample.1" WB,
    "decoder.up_blocks.<2>.upsampler.time_conv" WB,
    NULL,
};
static const char *const residual_file[] = {
    CODER_FILE,
    "encoder.downsamples.<4>.downsamples.<2>." RESIDUAL,
    "encoder.downsamples.{1,2}.downsamples.0.shortcut" WB,
    "encoder.downsamples.<3>.downsamples.2.resample.1" WB,
    "encoder.downsamples.{1,2}.downsamples.2.time_conv" WB,
    "decoder.upsamples.<4>.upsamples.<3>." RESIDUAL,
    "decoder.upsamples.{2,3}.upsamples.0.shortcut" WB,
    "decoder.upsamples.<3>.upsamples.3.resample.1" WB,
    "decoder.upsamples.<2>.upsamples.3.time_conv" WB,
    NULL,
};

static const char *const t5_bound[] = {
    "{shared,encoder.final_layer_norm}.weight",
    "encoder.block.<24>.layer.{0,1}.layer_norm.weight",
    "encoder.block.<24>.layer.0.SelfAttention.{q,k,v,o,relative_attention_bias}.weight",
    "encoder.block.<24>.layer.1.DenseReluDense.{wi_0,wi_1,wo}.weight",
    NULL,
};
static const char *const t5_file[] = {
    "{token_embedding,norm}.weight",
    BLOCK("24", "norm{1,2}.weight"),
    BLOCK("24", "{attn.q,attn.k,attn.v,attn.o,pos_embedding.embedding}.weight"),
    BLOCK("24", "ffn.{gate.0,fc1,fc2}.weight"),
    NULL,
};
static const char *const gguf_file[] = {
    "{token_embd,enc.output_norm}.weight",
    "enc.blk.<24>.{attn,ffn}_norm.weight",
    "enc.blk.<24>.attn_{q,k,v,o,rel_b}.weight",
    "enc.blk.<24>.ffn_{gate,up,down}.weight",
    NULL,
};

static const char *const flux_bound[] = {
    "{x_embedder,context_embedder,norm_out.linear,proj_out}" WB,
    "time_text_embed.{timestep,guidance,text}_embedder.linear_{1,2}" WB,
    "transformer_blocks.<19>.{norm1,norm1_context}.linear" WB,
    "transformer_blocks.<19>.attn.{to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out}" WB,
    "transformer_blocks.<19>.attn.{norm_q,norm_k,norm_added_q,norm_added_k}.weight",
    "transformer_blocks.<19>.{ff,ff_context}.net.{0.proj,2}" WB,
    "single_transformer_blocks.<38>.{norm.linear,proj_mlp,proj_out,attn.to_q,attn.to_k,attn.to_v}" WB,
    "single_transformer_blocks.<38>.attn.norm_{q,k}.weight",
    NULL,
};
#define FLUX_FILE(norm)                                                                                                \
    {                                                                                                                  \
        "{img_in,txt_in,final_layer.linear,final_layer.adaLN_modulation.1}" WB,                                        \
            "{time,guidance,vector}_in.{in,out}_layer" WB, "double_blocks.<19>.{img,txt}_mod.lin" WB,                  \
            "double_blocks.<19>.{img,txt}_attn.{qkv,proj}" WB,                                                         \
            "double_blocks.<19>.{img,txt}_attn.norm.{query,key}_norm." norm,                                           \
            "double_blocks.<19>.{img,txt}_mlp.{0,2}" WB, "single_blocks.<38>.{linear1,linear2,modulation.lin}" WB,     \
            "single_blocks.<38>.norm.{query,key}_norm." norm, NULL,                                                    \
    }
static const char *const flux_file[] = FLUX_FILE("scale"), *const flux_saved[] = FLUX_FILE("weight");

/* 3.5 medium; the last block's text goes nowhere. */
static const char *const sd3_bound[] = {
    "pos_embed.pos_embed",
    "{pos_embed.proj,context_embedder,norm_out.linear,proj_out}" WB,
    "time_text_embed.{timestep,text}_embedder.linear_{1,2}" WB,
    "transformer_blocks.<24>.{norm1,norm1_context}.linear" WB,
    "transformer_blocks.<24>.attn.{to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj}" WB,
    "transformer_blocks.<24>.attn.{norm_q,norm_k,norm_added_q,norm_added_k}.weight",
    "transformer_blocks.<24>.ff.net.{0.proj,2}" WB,
    "transformer_blocks.<23>.{attn.to_add_out,ff_context.net.0.proj,ff_context.net.2}" WB,
    "transformer_blocks.<13>.attn2.{to_q,to_k,to_v,to_out.0}" WB,
    "transformer_blocks.<13>.attn2.norm_{q,k}.weight",
    NULL,
};
static const char *const sd3_file[] = {
    "pos_embed",
    "{x_embedder.proj,context_embedder,final_layer.linear,final_layer.adaLN_modulation.1}" WB,
    "{t,y}_embedder.mlp.{0,2}" WB,
    "joint_blocks.<24>.{x_block,context_block}.adaLN_modulation.1" WB,
    "joint_blocks.<24>.{x_block,context_block}.attn.qkv" WB,
    "joint_blocks.<24>.{x_block,context_block}.attn.ln_{q,k}.weight",
    "joint_blocks.<24>.x_block.{attn.proj,mlp.fc1,mlp.fc2}" WB,
    "joint_blocks.<23>.context_block.{attn.proj,mlp.fc1,mlp.fc2}" WB,
    "joint_blocks.<13>.x_block.attn2.{qkv,proj}" WB,
    "joint_blocks.<13>.x_block.attn2.ln_{q,k}.weight",
    NULL,
};

static const char *const ldm_bound[] = {
    "{encoder,decoder}.{conv_in,conv_out,conv_norm_out}" WB,
    "{encoder,decoder}.mid_block.resnets.<2>.{norm1,conv1,norm2,conv2}" WB,
    "{encoder,decoder}.mid_block.attentions.0.{group_norm,to_q,to_k,to_v,to_out.0}" WB,
    "encoder.down_blocks.<4>.resnets.<2>.{norm1,conv1,norm2,conv2}" WB,
    "encoder.down_blocks.{1,2}.resnets.0.conv_shortcut" WB,
    "encoder.down_blocks.<3>.downsamplers.0.conv" WB,
    "decoder.up_blocks.<4>.resnets.<3>.{norm1,conv1,norm2,conv2}" WB,
    "decoder.up_blocks.{2,3}.resnets.0.conv_shortcut" WB,
    "decoder.up_blocks.<3>.upsamplers.0.conv" WB,
    NULL,
};
static const char *const ldm_file[] = {
    "{encoder,decoder}.{conv_in,conv_out,norm_out}" WB,
    "{encoder,decoder}.mid.block_{1,2}.{norm1,conv1,norm2,conv2}" WB,
    "{encoder,decoder}.mid.attn_1.{norm,q,k,v,proj_out}" WB,
    "encoder.down.<4>.block.<2>.{norm1,conv1,norm2,conv2}" WB,
    "encoder.down.{1,2}.block.0.nin_shortcut" WB,
    "encoder.down.<3>.downsample.conv" WB,
    "decoder.up.<4>.block.<3>.{norm1,conv1,norm2,conv2}" WB,
    "decoder.up.{0,1}.block.0.nin_shortcut" WB,
    "decoder.up.{1,2,3}.upsample.conv" WB,
    NULL,
};

static const char *const llama_bound[] = {
    "{embed_tokens,norm}.weight",
    "layers.<32>.{input,post_attention}_layernorm.weight",
    "layers.<32>.self_attn.{q,k,v,o}_proj.weight",
    "layers.<32>.mlp.{gate,up,down}_proj.weight",
    NULL,
};
static const char *const llama_file[] = {
    "{token_embd,output_norm}.weight",
    "blk.<32>.{attn,ffn}_norm.weight",
    "blk.<32>.attn_{q,k,v,output}.weight",
    "blk.<32>.ffn_{gate,up,down}.weight",
    NULL,
};

/* Each name of the file is meant by one of the model, or each of its parts is. */
static void every_name_of_a_published_model_has_its_own(void **state)
{
    enum { PARTS = 8 };
    static const struct {
        const sg_name_map *map;
        const char *const *bound, *const *file;
        int count, in_file, span; /* span 0: the map's own */
    } parts[] = {
        {&wan_dit_names, dit_bound, dit_file, 825, 825, 0}, /* as the published files have them */
        {&wan_dit_names, image_bound, image_file, 209, 209, 0},
        {&wan_vae_names, vae_bound, vae_file, 194, 194, 0},
        {&wan_vae_residual_names, residual_bound, residual_file, 196, 196, 0},
        {&wan_t5_names, t5_bound, t5_file, 242, 242, 0},
        {&t5_gguf_names, t5_bound, gguf_file, 242, 242, 0},
        {&flux_dit_names, flux_bound, flux_file, 1160, 780, 0},
        {&flux_dit_saved_names, flux_bound, flux_saved, 1160, 780, 0},
        {&sd3_dit_names, sd3_bound, sd3_file, 909, 665, 24},
        {&ldm_vae_names, ldm_bound, ldm_file, 244, 244, 4},
        {&llama_gguf_names, llama_bound, llama_file, 290, 290, 0},
    };
    static names bound, file;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        static bool hit[NAMES_MAX][PARTS];
        sg_name_map map = *parts[i].map;
        int         hits = 0;
        if (parts[i].span) map.span = parts[i].span;
        memset(hit, 0, sizeof hit);
        expand_all(&bound, parts[i].bound);
        expand_all(&file, parts[i].file);
        assert_int_equal(bound.count, parts[i].count);
        assert_int_equal(file.count, parts[i].in_file);
        for (int k = 0; k < bound.count; k++) {
            char                name[SG_NAME_MAX];
            const sg_name_rule *rule;
            int                 at = 0;
            assert_true(sg_name_map_find(&map, bound.name[k], name, &rule));
            while (at < file.count && strcmp(file.name[at], name) != 0) at++;
            if (at == file.count) fail_msg("%s becomes %s", bound.name[k], name);
            hits += !memchr(hit[at], true, PARTS);
            bool *const part = &hit[at][rule && rule->of ? rule->rows[0].first : 0];
            assert_false(*part);
            *part = true;
        }
        assert_int_equal(hits, file.count);
    }
}

/* Of one part each: the one to one lists above would not see two that have changed places. */
static const struct {
    const sg_name_map *map;
    int                span;
    const char        *bound, *file; /* NULL: there is none */
} pairs[] = {
    {&wan_dit_names, 0, "blocks.29.attn2.to_out.0.bias", "blocks.29.cross_attn.o.bias"},
    {&wan_dit_names, 0, "blocks.0.attn1.norm_k.weight", "blocks.0.self_attn.norm_k.weight"},
    {&wan_dit_names, 0, "blocks.3.norm2.weight", "blocks.3.norm3.weight"},
    {&wan_dit_names, 0, "blocks.3.ffn.net.2.weight", "blocks.3.ffn.2.weight"},
    {&wan_dit_names, 0, "condition_embedder.time_embedder.linear_2.bias", "time_embedding.2.bias"},
    {&wan_dit_names, 0, "scale_shift_table", "head.modulation"},
    {&wan_dit_names, 0, "blocks.7.scale_shift_table", "blocks.7.modulation"},
    {&wan_dit_names, 0, "blocks.1.attn2.add_v_proj.bias", "blocks.1.cross_attn.v_img.bias"},
    {&wan_vae_names, 4, "quant_conv.bias", "conv1.bias"},
    {&wan_vae_names, 4, "decoder.conv_in.bias", "decoder.conv1.bias"},
    {&wan_vae_names, 4, "decoder.mid_block.resnets.1.conv1.bias", "decoder.middle.2.residual.2.bias"},
    {&wan_vae_names, 4, "decoder.up_blocks.1.resnets.2.norm2.gamma", "decoder.upsamples.6.residual.3.gamma"},
    {&wan_vae_names, 4, "decoder.up_blocks.2.upsamplers.0.resample.1.bias", "decoder.upsamples.11.resample.1.bias"},
    {&wan_vae_names, 3, "decoder.up_blocks.2.resnets.1.conv2.bias", "decoder.upsamples.7.residual.6.bias"},
    {&wan_vae_names, 3, "decoder.up_blocks.1.upsamplers.0.time_conv.bias", "decoder.upsamples.5.time_conv.bias"},
    {&wan_vae_names, 3, "decoder.up_blocks.1.resnets.3.conv2.bias", NULL}, /* of the next level */
    {&wan_vae_names, 4, "decoder.up_blocks.99999999999999999999.resnets.0.conv2.bias", NULL},
    {&wan_vae_residual_names, 3, "decoder.up_blocks.1.upsampler.time_conv.bias",
     "decoder.upsamples.1.upsamples.2.time_conv.bias"},
    {&wan_vae_residual_names, 3, "encoder.down_blocks.1.downsampler.resample.1.bias",
     "encoder.downsamples.1.downsamples.1.resample.1.bias"},
    {&wan_t5_names, 0, "encoder.block.5.layer.1.DenseReluDense.wi_0.weight", "blocks.5.ffn.gate.0.weight"},
    {&wan_t5_names, 0, "encoder.block.5.layer.1.DenseReluDense.wo.weight", "blocks.5.ffn.fc2.weight"},
    {&t5_gguf_names, 0, "encoder.block.5.layer.1.DenseReluDense.wi_1.weight", "enc.blk.5.ffn_up.weight"},
    {&t5_gguf_names, 0, "encoder.block.23.layer.1.layer_norm.weight", "enc.blk.23.ffn_norm.weight"},
    {&cogvideox_vae_names, 4, "decoder.up_blocks.0.resnets.3.norm2.conv_b.conv.bias",
     "decoder.up.3.block.3.norm2.conv_b.conv.bias"},
    {&cogvideox_vae_names, 4, "decoder.up_blocks.3.resnets.0.conv_shortcut.weight",
     "decoder.up.0.block.0.nin_shortcut.weight"},
    {&cogvideox_vae_names, 4, "decoder.up_blocks.2.upsamplers.0.conv.weight", "decoder.up.1.upsample.conv.weight"},
    {&cogvideox_vae_names, 4, "decoder.up_blocks.4.upsamplers.0.conv.weight", NULL}, /* beyond the last level */
    {&cogvideox_vae_names, 4, "encoder.down_blocks.2.downsamplers.0.conv.bias", "encoder.down.2.downsample.conv.bias"},
    {&cogvideox_vae_names, 4, "encoder.mid_block.resnets.1.conv1.conv.bias", "encoder.mid.block_2.conv1.conv.bias"},
    {&cogvideox_vae_names, 4, "decoder.norm_out.norm_layer.bias", "decoder.norm_out.norm_layer.bias"},
    {&mochi_vae_names, 0, "decoder.conv_in.bias", "blocks.0.0.bias"},
    {&mochi_vae_names, 0, "decoder.block_in.resnets.2.conv2.conv.weight", "blocks.0.3.stack.5.weight"},
    {&mochi_vae_names, 0, "decoder.up_blocks.1.resnets.3.norm2.norm_layer.bias", "blocks.2.blocks.3.stack.3.bias"},
    {&mochi_vae_names, 0, "decoder.up_blocks.2.proj.bias", "blocks.3.proj.bias"},
    {&mochi_vae_names, 0, "decoder.block_out.resnets.1.norm1.norm_layer.weight", "blocks.4.1.stack.0.weight"},
    {&mochi_vae_names, 0, "decoder.proj_out.bias", "output_proj.bias"},
    {&cogvideox_dit_names, 0, "transformer_blocks.7.norm2.norm.bias",
     "transformer.layers.7.post_attention_layernorm.bias"},
    {&cogvideox_dit_names, 0, "transformer_blocks.7.ff.net.2.bias", "transformer.layers.7.mlp.dense_4h_to_h.bias"},
    {&cogvideox_dit_names, 0, "transformer_blocks.7.attn1.norm_k.bias", "mixins.adaln_layer.key_layernorm_list.7.bias"},
    {&cogvideox_dit_names, 0, "patch_embed.text_proj.bias", "mixins.patch_embed.text_proj.bias"},
    {&cogvideox_dit_names, 0, "norm_out.linear.bias", "mixins.final_layer.adaLN_modulation.1.bias"},
    {&mochi_dit_names, 0, "transformer_blocks.47.norm1_context.linear_1.bias", "blocks.47.mod_y.bias"},
    {&mochi_dit_names, 0, "transformer_blocks.3.attn1.to_add_out.bias", "blocks.3.attn.proj_y.bias"},
    {&mochi_dit_names, 0, "time_embed.pooler.to_kv.bias", "t5_y_embedder.to_kv.bias"},
    {&mochi_dit_names, 0, "time_embed.caption_proj.bias", "t5_yproj.bias"},
    {&hunyuan_dit_names, 0, "context_embedder.time_text_embed.text_embedder.linear_1.bias",
     "txt_in.c_embedder.linear_1.bias"},
    {&hunyuan_dit_names, 0, "context_embedder.token_refiner.refiner_blocks.1.norm_out.linear.bias",
     "txt_in.individual_token_refiner.blocks.1.adaLN_modulation.1.bias"},
    {&hunyuan_dit_names, 0, "single_transformer_blocks.39.attn.norm_k.weight", "single_blocks.39.k_norm.weight"},
    {&hunyuan_dit_saved_names, 0, "context_embedder.token_refiner.refiner_blocks.1.attn.to_out.0.bias",
     "txt_in.individual_token_refiner.blocks.1.self_attn.proj.bias"},
    {&hunyuan_dit_saved_names, 0, "context_embedder.time_text_embed.timestep_embedder.linear_2.bias",
     "txt_in.t_embedder.out_layer.bias"},
    {&hunyuan_dit_saved_names, 0, "transformer_blocks.3.attn.norm_k.weight",
     "double_blocks.3.img_attn.norm.key_norm.weight"},
    {&hunyuan_dit_saved_before_names, 0, "transformer_blocks.3.attn.norm_k.weight",
     "double_blocks.3.img_attn.norm.key_norm.scale"},
    {&flux_dit_names, 0, "transformer_blocks.18.attn.norm_added_q.weight",
     "double_blocks.18.txt_attn.norm.query_norm.scale"},
    {&flux_dit_names, 0, "transformer_blocks.18.attn.to_add_out.bias", "double_blocks.18.txt_attn.proj.bias"},
    {&flux_dit_names, 0, "transformer_blocks.18.ff.net.2.bias", "double_blocks.18.img_mlp.2.bias"},
    {&flux_dit_names, 0, "single_transformer_blocks.37.proj_out.bias", "single_blocks.37.linear2.bias"},
    {&flux_dit_names, 0, "context_embedder.bias", "txt_in.bias"},
    {&flux_dit_names, 0, "time_text_embed.text_embedder.linear_1.bias", "vector_in.in_layer.bias"},
    {&flux_dit_names, 0, "time_text_embed.guidance_embedder.linear_2.bias", "guidance_in.out_layer.bias"},
    {&sd3_dit_names, 38, "pos_embed.pos_embed", "pos_embed"},
    {&sd3_dit_names, 38, "time_text_embed.text_embedder.linear_2.bias", "y_embedder.mlp.2.bias"},
    {&sd3_dit_names, 38, "transformer_blocks.5.ff_context.net.0.proj.bias",
     "joint_blocks.5.context_block.mlp.fc1.bias"},
    {&sd3_dit_names, 38, "transformer_blocks.5.attn.norm_added_k.weight",
     "joint_blocks.5.context_block.attn.ln_k.weight"},
    {&sd3_dit_names, 38, "transformer_blocks.5.attn2.to_out.0.bias", "joint_blocks.5.x_block.attn2.proj.bias"},
    {&sd3_dit_names, 38, SD3_LAST, "joint_blocks.37.x_block.adaLN_modulation.1.weight"},
    {&llama_gguf_names, 0, "layers.5.post_attention_layernorm.weight", "blk.5.ffn_norm.weight"},
    {&llama_gguf_names, 0, "layers.5.mlp.up_proj.weight", "blk.5.ffn_up.weight"},
    {&ldm_vae_names, 4, "decoder.up_blocks.3.resnets.0.conv_shortcut.bias", "decoder.up.0.block.0.nin_shortcut.bias"},
    {&ldm_vae_names, 4, "encoder.mid_block.attentions.0.to_out.0.bias", "encoder.mid.attn_1.proj_out.bias"},
    {&ldm_vae_names, 4, "decoder.up_blocks.0.resnets.2.conv1.conv.bias", "decoder.up.3.block.2.conv1.conv.bias"},
    {&ldm_vae_names, 4, "encoder.down_blocks.1.resnets.0.conv_shortcut.conv.bias",
     "encoder.down.1.block.0.nin_shortcut.conv.bias"},
    {&wan_clip_vision_names, 0, "embeddings.class_embedding", "cls_embedding"},
    {&wan_clip_vision_names, 0, "encoder.layers.31.self_attn.out_proj.bias", "transformer.31.attn.proj.bias"},
    {&wan_clip_vision_names, 0, "encoder.layers.31.mlp.fc2.bias", "transformer.31.mlp.2.bias"},
};

static void names_mean_what_they_mean(void **state)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char                file[SG_NAME_MAX];
        const sg_name_rule *rule;
        sg_name_map         map = *pairs[i].map;
        map.span = pairs[i].span;
        const bool found = sg_name_map_find(&map, pairs[i].bound, file, &rule);
        assert_int_equal(found, pairs[i].file != NULL);
        if (found) assert_string_equal(file, pairs[i].file);
    }
}

/* Which rows of what, of tensors that files have joined. */
static void rows_mean_what_they_mean(void **state)
{
    enum { BLOCKS = 24 };
    static const struct {
        const sg_name_map *map;
        const char        *bound, *file;
        int                of, rows[SG_NAME_ROWS][2];
    } cuts[] = {
        {&flux_dit_names,
         "transformer_blocks.7.attn.add_v_proj.bias",
         "double_blocks.7.txt_attn.qkv.bias",
         3,
         {{2, 1}}},
        {&flux_dit_names,
         "single_transformer_blocks.7.attn.to_k.weight",
         "single_blocks.7.linear1.weight",
         7,
         {{1, 1}}},
        {&flux_dit_names, "single_transformer_blocks.7.proj_mlp.weight", "single_blocks.7.linear1.weight", 7, {{3, 4}}},
        {&flux_dit_names, "norm_out.linear.bias", "final_layer.adaLN_modulation.1.bias", 2, {{1, 1}, {0, 1}}},
        {&sd3_dit_names, "transformer_blocks.7.attn2.to_v.bias", "joint_blocks.7.x_block.attn2.qkv.bias", 3, {{2, 1}}},
        {&sd3_dit_names,
         "transformer_blocks.23.norm1_context.linear.bias", /* the last block's are swapped, */
         "joint_blocks.23.context_block.adaLN_modulation.1.bias",
         2,
         {{1, 1}, {0, 1}}},
        {&sd3_dit_names,
         "transformer_blocks.22.norm1_context.linear.bias", /* and of no other */
         "joint_blocks.22.context_block.adaLN_modulation.1.bias",
         0,
         {{0, 0}}},
        {&sd3_dit_names, "norm_out.linear.bias", "final_layer.adaLN_modulation.1.bias", 2, {{1, 1}, {0, 1}}},
        {&cogvideox_dit_names,
         "transformer_blocks.7.norm1.linear.bias",
         "mixins.adaln_layer.adaLN_modulations.7.1.bias",
         12,
         {{0, 3}, {6, 3}}},
        {&cogvideox_dit_names,
         "transformer_blocks.7.norm2.linear.bias",
         "mixins.adaln_layer.adaLN_modulations.7.1.bias",
         12,
         {{3, 3}, {9, 3}}},
        {&cogvideox_dit_names,
         "transformer_blocks.7.attn1.to_k.bias",
         "transformer.layers.7.attention.query_key_value.bias",
         3,
         {{1, 1}}},
        {&mochi_dit_names, "transformer_blocks.7.attn1.add_v_proj.weight", "blocks.7.attn.qkv_y.weight", 3, {{2, 1}}},
        {&mochi_dit_names,
         "transformer_blocks.7.ff.net.0.proj.weight",
         "blocks.7.mlp_x.w1.weight",
         2,
         {{1, 1}, {0, 1}}},
        {&hunyuan_dit_names,
         "single_transformer_blocks.7.attn.to_v.weight",
         "single_blocks.7.linear1.weight",
         7,
         {{2, 1}}},
        {&hunyuan_dit_names, "single_transformer_blocks.7.proj_mlp.bias", "single_blocks.7.linear1.bias", 7, {{3, 4}}},
        {&hunyuan_dit_names, "norm_out.linear.bias", "final_layer.adaLN_modulation.1.bias", 2, {{1, 1}, {0, 1}}},
        {&mochi_dit_names, "norm_out.linear.bias", "final_layer.mod.bias", 2, {{1, 1}, {0, 1}}},
        {&wan_clip_vision_names,
         "encoder.layers.7.self_attn.v_proj.bias",
         "transformer.7.attn.to_qkv.bias",
         3,
         {{2, 1}}},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char                file[SG_NAME_MAX];
        const sg_name_rule *rule;
        sg_name_map         map = *cuts[i].map;
        map.span = BLOCKS;
        assert_true(sg_name_map_find(&map, cuts[i].bound, file, &rule));
        assert_string_equal(file, cuts[i].file);
        assert_int_equal(rule->of, cuts[i].of);
        for (int k = 0; k < SG_NAME_ROWS; k++) {
            assert_int_equal(rule->rows[k].first, cuts[i].rows[k][0]);
            assert_int_equal(rule->rows[k].count, cuts[i].rows[k][1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_of_a_published_model_has_its_own),
        cmocka_unit_test(names_mean_what_they_mean),
        cmocka_unit_test(rows_mean_what_they_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
