/* test_part_refused.c - files of parts that are missing, are another family's, or lie: a message each, with what to do. */
#include "part_files.h"

#include "cogvideox_names.h"
#include "file_names.h"
#include "flux_names.h"
#include "hunyuan_names.h"
#include "mochi_names.h"
#include "sd3_names.h"
#include "wan_names.h"

static void what_is_missing_is_named_by_its_family(void **state)
{
    assert_int_equal(system("mkdir -p alone && rm -f alone/sparge-gen.json"), 0);
    write_component("alone/i2v.safetensors", I2V, "transformer", &sg_wan_dit_names, 0, "");
    write_component("alone/cog.safetensors", COG, "transformer", &sg_cogvideox_dit_names, 0, "");
    write_component("alone/mochi.safetensors", MOCHI, "transformer", &sg_mochi_dit_names, 0, "");
    refused("alone/i2v.safetensors", NULL, "the image encoder: give it by --clip-vision (clip_vision_h.safetensors or");
    refused("alone/i2v.safetensors", NULL, "the text encoder: give it by --text-encoder (umt5_xxl_");
    refused("alone/cog.safetensors", NULL, "the text encoder: give it by --text-encoder (t5xxl_fp16.safetensors");
    refused("alone/cog.safetensors", NULL,
            "the tokenizer: give it by --tokenizer (spiece.model, or google/t5-v1_1-xxl/ beside the text encoder)");
    refused("alone/cog.safetensors", NULL, "the VAE: give it by --vae (cogvideox_vae_bf16.safetensors or");
    refused("alone/mochi.safetensors", NULL, "the VAE: give it by --vae (mochi_vae.safetensors or");
    write_component("alone/hunyuan.safetensors", HUNYUAN, "transformer", &sg_hunyuan_dit_names, 0, "");
    refused("alone/hunyuan.safetensors", NULL, "the text encoder: give it by --text-encoder (llava_llama3_fp8_scaled");
    refused("alone/hunyuan.safetensors", NULL,
            "the tokenizer: give it by --tokenizer (llava-llama-3-8b-text-encoder-tokenizer/ beside the text encoder)");
    refused("alone/hunyuan.safetensors", NULL, "the CLIP-L text encoder: give it by --clip-l (clip_l.safetensors)");
    refused("alone/hunyuan.safetensors", NULL,
            "give it by --clip-tokenizer (clip-vit-large-patch14/ beside the text encoder)");
    refused("alone/hunyuan.safetensors", NULL, "the VAE: give it by --vae (hunyuan_video_vae_bf16.safetensors or");
    refused("alone/hunyuan.safetensors", &(sg_model_parts){.clip_tokenizer = "nowhere"},
            "--clip-tokenizer: nowhere: No such file");
    /* a folder that lost it, and a denoiser in a folder that never had it */
    sg_error   e = {0};
    sg_engine *g = NULL;
    assert_int_equal(system("cp -rL " I2V " lost && rm -r lost/image_encoder"), 0);
    assert_int_equal(sg_engine_open(&g, &(sg_engine_options){.model_dir = "lost", .backend = "cpu"}, &e), SG_E_FILE);
    if (!strstr(e.text, "there is none: give it by --clip-vision (clip_vision_h.safetensors)")) fail_msg("%s", e.text);
}

static void refused_by_the_engine(const char *dir, sg_model_parts parts, const char *file, const char *says)
{
    sg_error   e = {0};
    sg_engine *g = NULL;
    assert_int_not_equal(
        sg_engine_open(&g, &(sg_engine_options){.model_dir = dir, .parts = parts, .backend = "cpu"}, &e), SG_OK);
    if (!strstr(e.text, says) || !strstr(e.text, file)) fail_msg("\"%s\" lacks \"%s\" or \"%s\"", e.text, file, says);
}

/* A component with one tensor of another shape, which has as few numbers as can be; rank 0: without it. */
static void write_wrong(const char *path, const char *dir, const char *component, const sg_name_map *names, int span,
                        const char *name, int rank, const int64_t *dim)
{
    static const float x[4096];
    put_component(&now, dir, component, names, span, "");
    int i = 0;
    while (i < now.count && strcmp(now.name[i], name) != 0) i++;
    assert_true(i < now.count);
    if (rank) {
        now.all[i].t = (sg_tensor){.data = (void *)(uintptr_t)x, .dtype = SG_F32, .rank = rank};
        memcpy(now.all[i].t.dim, dim, (size_t)rank * sizeof *dim);
    } else {
        free(now.name[i]);
        free(now.joined[i]);
        now.count--;
        now.all[i] = now.all[now.count];
        now.name[i] = now.name[now.count];
        now.joined[i] = now.joined[now.count];
        now.joined[now.count] = NULL;
    }
    write_out(&now, path);
}

/* A file of each component with one tensor that is wrong, and what is said of it. */
static const struct {
    const char        *dir, *component;
    const sg_name_map *names;
    int                span;
    const char        *name;
    int                rank;
    int64_t            dim[5];
    const char        *own, *says;
} wrong[] = {
    {I2V,
     "image_encoder",
     &sg_wan_clip_vision_names,
     0,
     "transformer.1.mlp.0.bias",
     0,
     {0},
     clip_own,
     "missing: encoder.layers.1.mlp.fc1.bias (in the file transformer.1.mlp.0.bias) [24]"},
    {I2V,
     "image_encoder",
     &sg_wan_clip_vision_names,
     0,
     "transformer.0.attn.to_qkv.bias",
     1,
     {47},
     clip_own,
     "misshapen: encoder.layers.0.self_attn.q_proj.bias is part 1 of 3 of transformer.0.attn.to_qkv.bias [47]"},
    {I2V,
     "image_encoder",
     &sg_wan_clip_vision_names,
     0,
     "pos_embedding",
     2,
     {16, 16},
     clip_own,
     "pos_embedding of 16 tokens: one is for the class, the others should be a square"},
    {I2V,
     "image_encoder",
     &sg_wan_clip_vision_names,
     0,
     "pos_embedding",
     1,
     {0},
     clip_own,
     "pos_embedding of 0 tokens"},
    {I2V,
     "image_encoder",
     &sg_wan_clip_vision_names,
     0,
     "cls_embedding",
     1,
     {0},
     clip_own,
     "hidden_size: should be a whole number from 1"},
    {I2V,
     "image_encoder",
     NULL,
     0,
     "embeddings.class_embedding",
     0,
     {0},
     clip_own,
     "hidden_size: should be a whole number from 1"},
    {I2V,
     "image_encoder",
     NULL,
     0,
     "pre_layrnorm.bias",
     0,
     {0},
     "",
     "num_attention_heads: should be a whole number from 1"},
    {I2V,
     "transformer",
     &sg_wan_dit_names,
     0,
     "img_emb.proj.1.bias",
     0,
     {0},
     clip_own,
     "missing: condition_embedder.image_embedder.ff.net.0.proj.bias (in the file img_emb.proj.1.bias)"},
    {I2V,
     "transformer",
     &sg_wan_dit_names,
     0,
     "blocks.1.cross_attn.norm_k_img.weight",
     1,
     {12},
     clip_own,
     "misshapen: blocks.1.attn2.norm_added_k.weight (in the file blocks.1.cross_attn.norm_k_img.weight) is [12]"},
    {I2V,
     "transformer",
     &sg_wan_dit_names,
     0,
     "img_emb.proj.0.weight",
     1,
     {9},
     clip_own,
     "misshapen: condition_embedder.image_embedder.norm1.weight (in the file img_emb.proj.0.weight) is [9]"},
    {COG,
     "transformer",
     &sg_cogvideox_dit_names,
     0,
     "transformer.layers.1.attention.query_key_value.bias",
     1,
     {100},
     "",
     "misshapen: transformer_blocks.1.attn1.to_q.bias is part 1 of 3"},
    {COG,
     "transformer",
     &sg_cogvideox_dit_names,
     0,
     "mixins.adaln_layer.adaLN_modulations.0.1.weight",
     2,
     {24, 20},
     "",
     "misshapen: transformer_blocks.0.norm1.linear.weight is part 1 to 3, 7 to 9 of 12"},
    {COG,
     "transformer",
     &sg_cogvideox_dit_names,
     0,
     "mixins.adaln_layer.query_layernorm_list.0.weight",
     1,
     {0},
     "",
     "num_attention_heads: should be a whole number from 1"},
    {COG, "transformer", &sg_cogvideox_dit_names, 0, "time_embed.0.bias", 0, {0}, "", "time_embed_dim"},
    {COG,
     "vae",
     &sg_cogvideox_vae_names,
     4,
     "decoder.up.3.block.0.conv1.conv.bias",
     0,
     {0},
     ", \"vae\": {\"norm_num_groups\": 4}",
     "block_out_channels"},
    {COG,
     "vae",
     &sg_cogvideox_vae_names,
     4,
     "decoder.up.1.upsample.conv.bias",
     0,
     {0},
     ", \"vae\": {\"norm_num_groups\": 4}",
     "missing: decoder.up_blocks.2.upsamplers.0.conv.bias (in the file decoder.up.1.upsample.conv.bias)"},
    {MOCHI,
     "transformer",
     &sg_mochi_dit_names,
     0,
     "blocks.0.mlp_y.w1.weight",
     2,
     {7, 20},
     "",
     "misshapen: transformer_blocks.0.ff_context.net.0.proj.weight is part 2, 1 of 2"},
    {HUNYUAN,
     "transformer",
     &sg_hunyuan_dit_names,
     0,
     "single_blocks.0.linear1.weight",
     2,
     {13, 48},
     ", \"transformer\": {\"rope_axes_dim\": [4, 6, 6]}",
     "misshapen: single_transformer_blocks.0.attn.to_q.weight is part 1 of 7"},
    {HUNYUAN,
     "transformer",
     &sg_hunyuan_dit_names,
     0,
     "img_in.proj.weight",
     5,
     {48, 9, 1, 2, 2},
     "",
     "has 9 channels where it gives 4: this is HunyuanVideo for image to video"},
    {HUNYUAN,
     "vae",
     &sg_ldm_vae_names,
     4,
     "decoder.up.3.upsample.conv.conv.bias",
     0,
     {0},
     ", \"vae\": {\"norm_num_groups\": 4}",
     "missing: decoder.up_blocks.0.upsamplers.0.conv.conv.bias (in the file decoder.up.3.upsample.conv.conv.bias)"},
    {MOCHI, "transformer", &sg_mochi_dit_names, 0, "pos_frequencies", 0, {0}, "", "missing: pos_frequencies [3, 3, 8]"},
    {FLUX,
     "transformer",
     &sg_flux_dit_names,
     0,
     "single_blocks.1.linear1.bias",
     1,
     {421},
     ", \"transformer\": {\"axes_dims_rope\": [4, 10, 6]}",
     "misshapen: single_transformer_blocks.1.proj_mlp.bias is part 4 to 7 of 7 of single_blocks.1.linear1.bias [421]"},
    {FLUX,
     "transformer",
     &sg_flux_dit_names,
     0,
     "double_blocks.0.txt_attn.qkv.bias",
     1,
     {60},
     ", \"transformer\": {\"axes_dims_rope\": [4, 10, 6]}",
     "misshapen: transformer_blocks.0.attn.add_k_proj.bias is part 2 of 3 of double_blocks.0.txt_attn.qkv.bias [60]"},
    {FLUX,
     "transformer",
     &sg_flux_dit_names,
     0,
     "double_blocks.1.img_attn.norm.key_norm.scale",
     0,
     {0},
     ", \"transformer\": {\"axes_dims_rope\": [4, 10, 6]}",
     "missing: transformer_blocks.1.attn.norm_k.weight (in the file double_blocks.1.img_attn.norm.key_norm.scale) "
     "[20]"},
    {FLUX,
     "transformer",
     &sg_flux_dit_names,
     0,
     "guidance_in.out_layer.bias",
     0,
     {0},
     ", \"transformer\": {\"axes_dims_rope\": [4, 10, 6]}",
     "missing: time_text_embed.guidance_embedder.linear_2.bias (in the file guidance_in.out_layer.bias)"},
    {FLUX,
     "transformer",
     &sg_flux_dit_names,
     0,
     "img_in.bias",
     0,
     {0},
     ", \"transformer\": {\"axes_dims_rope\": [4, 10, 6]}",
     "num_attention_heads"},
    {FLUX,
     "transformer",
     &sg_flux_dit_names,
     0,
     "double_blocks.0.img_attn.norm.query_norm.scale",
     1,
     {7},
     ", \"transformer\": {\"axes_dims_rope\": [4, 10, 6]}",
     "num_attention_heads"},
    {FLUX,
     "transformer",
     &sg_flux_dit_names,
     0,
     "final_layer.adaLN_modulation.1.bias",
     1,
     {121},
     ", \"transformer\": {\"axes_dims_rope\": [4, 10, 6]}",
     "misshapen: norm_out.linear.bias is part 2, 1 of 2 of final_layer.adaLN_modulation.1.bias [121]"},
    {SD35,
     "transformer",
     &sg_sd3_dit_names,
     3,
     "joint_blocks.2.context_block.adaLN_modulation.1.bias",
     1,
     {97},
     "",
     "misshapen: transformer_blocks.2.norm1_context.linear.bias is part 2, 1 of 2"},
    {SD35,
     "transformer",
     &sg_sd3_dit_names,
     3,
     "joint_blocks.1.x_block.attn2.qkv.bias",
     1,
     {100},
     "",
     "misshapen: transformer_blocks.1.attn2.to_q.bias is part 1 of 3"},
    {SD35,
     "transformer",
     &sg_sd3_dit_names,
     3,
     "joint_blocks.1.context_block.mlp.fc1.bias",
     0,
     {0},
     "",
     "missing: transformer_blocks.1.ff_context.net.0.proj.bias (in the file "
     "joint_blocks.1.context_block.mlp.fc1.bias)"},
    {SD35, "transformer", &sg_sd3_dit_names, 3, "pos_embed", 3, {1, 8, 48}, "", "pos_embed"},
    {SD35, "transformer", &sg_sd3_dit_names, 3, "x_embedder.proj.bias", 0, {0}, "", "num_attention_heads"},
    {SD35, "vae", &sg_ldm_vae_names, 4, "decoder.conv_in.weight", 0, {0}, "", "latent_channels"},
    {SD35,
     "vae",
     &sg_ldm_vae_names,
     4,
     "decoder.mid.attn_1.q.bias",
     0,
     {0},
     "",
     "missing: decoder.mid_block.attentions.0.to_q.bias (in the file decoder.mid.attn_1.q.bias)"},
};

static void files_that_do_not_fit_are_refused(void **state)
{
    static const char bad[] = "bad/part.safetensors";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sg_model_parts parts = {.vae = NULL};
        const char   **to = strcmp(wrong[i].component, "vae") == 0             ? &parts.vae
                            : strcmp(wrong[i].component, "image_encoder") == 0 ? &parts.clip_vision
                                                                               : &parts.diffusion_model;
        char           command[256];
        *to = bad;
        snprintf(command, sizeof command, "rm -rf bad && cp -rL '%s' bad", wrong[i].dir);
        assert_int_equal(system(command), 0);
        write_wrong(bad, wrong[i].dir, wrong[i].component, wrong[i].names, wrong[i].span, wrong[i].name, wrong[i].rank,
                    wrong[i].dim);
        write_text("bad/sparge-gen.json", "");
        FILE *const f = fopen("bad/sparge-gen.json", "wb");
        fprintf(f, "{\"scheduler\": {}%s}", wrong[i].own);
        assert_int_equal(fclose(f), 0);
        if (strcmp(wrong[i].dir, I2V) == 0 && to == &parts.diffusion_model) write_beside("bad", I2V, wrong[i].own);
        refused_by_the_engine("bad", parts, bad, wrong[i].says);
    }
}

static void parts_of_another_family_are_refused(void **state)
{
    write_component("alone/clip.safetensors", I2V, "image_encoder", NULL, 0, "");
    write_component("alone/umt5.safetensors", I2V, "text_encoder", NULL, 0, "");
    write_component("alone/wan_vae.safetensors", I2V, "vae", &sg_wan_vae_names, 3, "");
    refused(I2V, &(sg_model_parts){.clip_vision = "alone/i2v.safetensors"},
            "holds no image encoder that this program knows (image encoder of CLIP); by its tensors it is the denoiser "
            "of Wan");
    refused(I2V, &(sg_model_parts){.vae = "alone/clip.safetensors"},
            "; by its tensors it is the image encoder of CLIP");
    refused_by_the_engine(I2V, (sg_model_parts){.diffusion_model = "alone/cog.safetensors"}, "alone/cog.safetensors",
                          "_class_name: is \"CogVideoXTransformer3DModel\", which is not read here");
    refused_by_the_engine(SG_FIXTURES "/wan21_hd12", (sg_model_parts){.clip_vision = I2V "/image_encoder"},
                          "image_encoder", "this model has no image encoder");
    refused_by_the_engine(COG, (sg_model_parts){.clip_l = HUNYUAN "/text_encoder_2"}, "--clip-l",
                          "this model has no CLIP-L text encoder");
    refused_by_the_engine(COG, (sg_model_parts){.tokenizer = SG_FIXTURES "/wan22_a14b/tokenizer"},
                          "wan22_a14b/tokenizer", "the tokenizer has 290 ids, but the table of the text encoder");
    refused_by_the_engine(MOCHI, (sg_model_parts){.vae = "alone/wan_vae.safetensors"}, "alone/wan_vae.safetensors",
                          "_class_name: is \"AutoencoderKLWan\", which is not read here; AutoencoderKLMochi is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_named_by_its_family),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
        cmocka_unit_test(parts_of_another_family_are_refused),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
