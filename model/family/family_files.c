/* family_files.c - see family_files.h. Sources of the names: Wan2.1 (wan/modules/t5.py, clip.py), llama.cpp (gguf-py),
 * CompVis/latent-diffusion (ldm/modules/diffusionmodules/model.py).
 *
 * What bites:
 *  - a T5 of one block is also a UMT5: UMT5 has a table of position biases in every block, T5 one alone;
 *  - no file of Llama or CLIP but a GGUF says how many heads there are: they have 128 and 64 numbers each;
 *  - nor which GELU an image encoder of CLIP has: that follows from the width, as the heads of some do. */
#include "family_files.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

const char *const sg_denoiser_prefixes[] = {
    "", "model.diffusion_model.", "diffusion_model.", "net.", "model.", "model.model.", NULL};
const char *const sg_vae_prefixes[] = {"", "vae.", "first_stage_model.", NULL};

/* ---- T5 ---- */

/* As Wan's own repository spells UMT5. */
#define E "encoder.block.%d.layer."
#define A "0.SelfAttention."
#define F "1.DenseReluDense."
#define B "blocks.%d."

static const sg_name_rule t5_own[] = {
    AS("shared", "token_embedding"),
    AS("encoder.final_layer_norm", "norm"),
    AS(E "0.layer_norm", B "norm1"),
    AS(E "1.layer_norm", B "norm2"),
    AS(E A "q", B "attn.q"),
    AS(E A "k", B "attn.k"),
    AS(E A "v", B "attn.v"),
    AS(E A "o", B "attn.o"),
    AS(E A "relative_attention_bias", B "pos_embedding.embedding"),
    AS(E F "wi_0", B "ffn.gate.0"),
    AS(E F "wi_1", B "ffn.fc1"),
    AS(E F "wo", B "ffn.fc2"),
};
static const sg_name_map t5_own_names = {MAP(t5_own)};

/* As llama.cpp spells both. */
#define G "enc.blk.%d."

static const sg_name_rule t5_gguf[] = {
    AS("shared", "token_embd"),
    AS("encoder.final_layer_norm", "enc.output_norm"),
    AS(E "0.layer_norm", G "attn_norm"),
    AS(E "1.layer_norm", G "ffn_norm"),
    AS(E A "q", G "attn_q"),
    AS(E A "k", G "attn_k"),
    AS(E A "v", G "attn_v"),
    AS(E A "o", G "attn_o"),
    AS(E A "relative_attention_bias", G "attn_rel_b"),
    AS(E F "wi_0", G "ffn_gate"),
    AS(E F "wi_1", G "ffn_up"),
    AS(E F "wo", G "ffn_down"),
};
static const sg_name_map t5_gguf_names = {MAP(t5_gguf)};

static const char *const t5_prefixes[] = {"", "text_encoders.umt5xxl.transformer.", "text_encoders.t5xxl.transformer.",
                                          NULL};

static sg_status describe_t5(const sg_found_part *p)
{
    static const char             attention[] = "encoder.block.0.layer.0.SelfAttention";
    const sg_source_tensor       *table = sg_found_tensor(p, "encoder.embed_tokens.weight");
    const sg_source_tensor *const bias = sg_found_tensor(p, "%s.relative_attention_bias.weight", attention);
    const int64_t                 inner = sg_found_rows(p, "%s.q.weight", attention);
    if (!table) table = sg_found_tensor(p, "shared.weight");
    const bool    gated = sg_found_tensor(p, "encoder.block.0.layer.1.DenseReluDense.wi_0.weight") != NULL;
    const int64_t ffn = sg_found_rows(p, "encoder.block.0.layer.1.DenseReluDense.%s.weight", gated ? "wi_0" : "wi");
    if (!table || table->rank != 2 || !bias || bias->rank != 2 || bias->dim[1] < 1)
        return sg_error_set(
            p->e, SG_E_FORMAT,
            "%s: has no table of embeddings (shared.weight) or none of position biases, of two dimensions",
            sg_source_path(p->source));
    sg_config_set(
        p->made, p->component, SG_NUMBER("d_model", table->dim[1]), SG_NUMBER("vocab_size", table->dim[0]),
        SG_NUMBER("num_layers", sg_found_list(p, SG_BLOCKS_MAX, "encoder.block", "layer.0.SelfAttention.q.weight")),
        SG_NUMBER("num_heads", bias->dim[1]), SG_NUMBER("d_kv", inner / bias->dim[1]), SG_NUMBER("d_ff", ffn),
        SG_NUMBER("relative_attention_num_buckets", bias->dim[0]),
        SG_TEXT("feed_forward_proj", gated ? "gated-gelu" : "relu"));
    return SG_OK;
}

/* Beside what the models want. */
static const sg_name_rule t5_drops[] = {{.file = "spiece_model"}, {.file = "logit_scale"}};
static const sg_name_map  t5_names = {MAP(t5_drops)};

#define T5                                                                                                             \
    .component = SG_TEXT_ENCODER, .what = "text encoder of the T5 family", .prefixes = t5_prefixes, .pieces = true,    \
    .describe = describe_t5
#define UMT5                                                                                                           \
    T5, .class_name = "UMT5EncoderModel", .tokenizer = "google/umt5-xxl",                                              \
        .usual = "umt5_xxl_fp8_e4m3fn_scaled.safetensors or models_t5_umt5-xxl-enc-bf16.pth"
#define T5_1                                                                                                           \
    T5, .class_name = "T5EncoderModel", .tokenizer = "google/t5-v1_1-xxl",                                             \
        .usual = "t5xxl_fp16.safetensors, t5-v1_1-xxl-encoder-Q8_0.gguf, ..."
#define SECOND_BIAS "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"
#define SECOND_BIAS_GGUF "enc.blk.1.attn_rel_b.weight"

/* ---- Llama ---- */

#define M "layers.%d."
#define K "blk.%d."

static const sg_name_rule llama_gguf[] = {
    AS("embed_tokens", "token_embd"),
    AS("norm", "output_norm"),
    AS("layers.%d", "blk.%d"), /* those as a whole that nobody reads */
    AS(M "input_layernorm", K "attn_norm"),
    AS(M "post_attention_layernorm", K "ffn_norm"),
    AS(M "self_attn.q_proj", K "attn_q"),
    AS(M "self_attn.k_proj", K "attn_k"),
    AS(M "self_attn.v_proj", K "attn_v"),
    AS(M "self_attn.o_proj", K "attn_output"),
    AS(M "mlp.gate_proj", K "ffn_gate"),
    AS(M "mlp.up_proj", K "ffn_up"),
    AS(M "mlp.down_proj", K "ffn_down"),
    AS(M "self_attn.q_norm", K "attn_q_norm"),
    AS(M "self_attn.k_norm", K "attn_k_norm"),
    AS("lm_head", "output"),
};
static const sg_name_map llama_gguf_names = {MAP(llama_gguf)};

/* What a GGUF is of; a file that does not say so is of Llama. */
static const char *architecture_of(const sg_found_part *p)
{
    const char *const name = sg_source_metadata(p->source, "general.architecture");
    return name ? name : "llama";
}

/* A number above 0 that a GGUF has under this key, behind its architecture; else the usual one. */
static double number_of(const sg_found_part *p, const char *name, double usual)
{
    char           key[128];
    sg_source_list l;
    snprintf(key, sizeof key, "%.64s.%s", architecture_of(p), name);
    if (!sg_source_metadata_list(p->source, key, &l) || l.kind == 's' || l.count != 1) return usual;
    const double x = sg_source_number(&l, 0);
    return x > 0 && x < 1e12 ? x : usual;
}

/* Llama 3 has heads of 128 numbers. A GGUF says how many its heads have, or how many heads there are. */
static int64_t head_of(const sg_found_part *p, int64_t width)
{
    const double heads = number_of(p, "attention.head_count", 0), whole = heads >= 1 ? (double)width / heads : 128;
    return (int64_t)number_of(p, "attention.key_length", number_of(p, "rope.dimension_count", whole));
}

static sg_status describe_llama(const sg_found_part *p)
{
    const sg_source_tensor *const table = sg_found_tensor(p, "embed_tokens.weight");
    if (!table || table->rank != 2)
        return sg_error_set(p->e, SG_E_FORMAT, "%s: has no table of embeddings (embed_tokens.weight) of two dimensions",
                            sg_source_path(p->source));
    const int64_t head = head_of(p, table->dim[1]), d = head ? head : 1;
    sg_config_set(
        p->made, p->component, SG_NUMBER("hidden_size", table->dim[1]), SG_NUMBER("vocab_size", table->dim[0]),
        SG_NUMBER("num_hidden_layers", sg_found_list(p, SG_BLOCKS_MAX, "layers", "input_layernorm.weight")),
        SG_NUMBER("intermediate_size", sg_found_rows(p, "layers.0.mlp.up_proj.weight")),
        SG_NUMBER("num_attention_heads", sg_found_rows(p, "layers.0.self_attn.q_proj.weight") / d),
        SG_NUMBER("num_key_value_heads", sg_found_rows(p, "layers.0.self_attn.k_proj.weight") / d),
        SG_NUMBER("head_dim", head), SG_REAL("rms_norm_eps", number_of(p, "attention.layer_norm_rms_epsilon", 1e-5)),
        SG_REAL("rope_theta", number_of(p, "rope.freq_base", 500000)));
    return SG_OK;
}

/* The ids that end a text, as a GGUF has them: of a text, and of a turn. */
static void add_ends(const sg_found_part *p)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    int64_t                  id[2];
    int                      count = 0;
    sg_source_list           l;
    for (int i = 0; i < 2; i++)
        if (sg_source_metadata_list(p->source, keys[i], &l) && l.kind == 'u' && l.count == 1)
            id[count++] = (int64_t)sg_source_number(&l, 0);
    sg_config_set(p->made, p->component, SG_NUMBERS("eos_token_id", id, count));
}

/* llama.cpp puts the channels of q and k of Llama that are rotated together side by side. It has the scaling "llama3" as
 * a tensor, rope_freqs. */
static sg_status describe_llama_gguf(const sg_found_part *p)
{
    char              key[128];
    const char *const name = architecture_of(p);
    const double      longest = number_of(p, "context_length", 0);
    snprintf(key, sizeof key, "%.64s.rope.scaling.type", name);
    const char *const scaling = sg_source_metadata(p->source, key);
    if (scaling && strcmp(scaling, "none") != 0)
        return sg_error_set(p->e, SG_E_UNSUPPORTED, "%s: key \"%s\": \"%s\" is not supported; \"none\" is",
                            sg_source_path(p->source), sg_show(key), sg_show(scaling));
    SG_TRY(describe_llama(p));
    sg_config_set(p->made, p->component, SG_TEXT("model_type", name),
                  SG_BOOL("rope_by_pairs", strcmp(name, "llama") == 0));
    add_ends(p);
    if (longest >= 1) sg_config_set(p->made, p->component, SG_NUMBER("max_position_embeddings", (int64_t)longest));
    return SG_OK;
}

static const char *const llama_prefixes[] = {"", "model.", "language_model.model.",
                                             "text_encoders.llama.transformer.model.", NULL};

#define LLAMA                                                                                                          \
    .component = SG_TEXT_ENCODER, .what = "text encoder of the Llama family", .class_name = "LlamaModel",              \
    .tokenizer = "llava-llama-3-8b-text-encoder-tokenizer",                                                            \
    .usual = "llava_llama3_fp8_scaled.safetensors, llava_llama3_fp16.safetensors or a GGUF",                           \
    .prefixes = llama_prefixes

/* ---- CLIP's text encoders ---- */

/* Where a file lacks a projection's weights, the projection is the identity, as it is for ComfyUI and for diffusers. */
static sg_status describe_clip(const sg_found_part *p, const char *act)
{
    const char *const t = sg_found_tensor(p, "text_model.final_layer_norm.bias") ? "text_model." : "";
    const int64_t     width = sg_found_rows(p, "%sfinal_layer_norm.bias", t);
    const char *const layers = *t ? "text_model.encoder.layers" : "encoder.layers";
    sg_config_set(p->made, p->component, SG_NUMBER("hidden_size", width),
                  SG_NUMBER("num_hidden_layers", sg_found_list(p, SG_BLOCKS_MAX, layers, "layer_norm1.weight")),
                  SG_NUMBER("intermediate_size", sg_found_rows(p, "%s.0.mlp.fc1.bias", layers)),
                  SG_NUMBER("num_attention_heads", sg_heads_of(width, 64)),
                  SG_NUMBER("vocab_size", sg_found_rows(p, "%sembeddings.token_embedding.weight", t)),
                  SG_NUMBER("max_position_embeddings", sg_found_rows(p, "%sembeddings.position_embedding.weight", t)),
                  SG_NUMBER("projection_dim", sg_found_rows(p, "text_projection.weight")), SG_TEXT("hidden_act", act));
    return SG_OK;
}

static sg_status describe_clip_l(const sg_found_part *p) { return describe_clip(p, "quick_gelu"); }
static sg_status describe_clip_g(const sg_found_part *p) { return describe_clip(p, "gelu"); }

/* SD3 projects CLIP-L's row, too. The tokenizer that people have for CLIP-G is CLIP-L's, which has other pads. */
#define CLIP_L                                                                                                         \
    .component = SG_CLIP_L, .class_name = "CLIPTextModel", .tokenizer = "clip-vit-large-patch14",                      \
    .what = "text encoder of CLIP-L", .usual = "clip_l.safetensors",                                                   \
    .prefixes = (const char *const[]){"", "text_encoders.clip_l.transformer.", NULL}, .describe = describe_clip_l
#define CLIP_G                                                                                                         \
    .component = SG_CLIP_G, .pad = "!", .class_name = "CLIPTextModelWithProjection",                                   \
    .tokenizer = "clip-vit-large-patch14", .what = "text encoder of CLIP-G", .usual = "clip_g.safetensors",            \
    .prefixes = (const char *const[]){"", "text_encoders.clip_g.transformer.", NULL}, .describe = describe_clip_g
#define TOKENS "embeddings.token_embedding.weight"

/* ---- CLIP's image encoder ---- */

/* As Wan's own repository spells it. */
#define L "encoder.layers.%d."
#define T "transformer.%d."

static const sg_name_rule clip_vision[] = {
    AS("embeddings.class_embedding", "cls_embedding"),
    AS("embeddings.patch_embedding", "patch_embedding"),
    AS("embeddings.position_embedding.weight", "pos_embedding"),
    AS("pre_layrnorm", "pre_norm"),
    AS("encoder.layers.%d", "transformer.%d"), /* the last one as a whole, which nobody reads */
    AS(L "layer_norm1", T "norm1"),
    AS(L "layer_norm2", T "norm2"),
    PART(L "self_attn.q_proj", T "attn.to_qkv", 0, 3),
    PART(L "self_attn.k_proj", T "attn.to_qkv", 1, 3),
    PART(L "self_attn.v_proj", T "attn.to_qkv", 2, 3),
    AS(L "self_attn.out_proj", T "attn.proj"),
    AS(L "mlp.fc1", T "mlp.0"),
    AS(L "mlp.fc2", T "mlp.2"),
    {.file = "post_norm"},
    {.file = "head"},
};
static const sg_name_map clip_vision_names = {MAP(clip_vision)};

/* OpenCLIP's as they are published. All other widths are OpenAI's: 64 numbers a head, quick GELU. */
static const struct {
    int64_t     width;
    int         heads;
    const char *act;
} clip_widths[] = {{1280, 16, "gelu"}, {1664, 16, "gelu"}};

static sg_status describe_clip_vision(const sg_found_part *p)
{
    const int64_t width = sg_found_count(p, "embeddings.class_embedding");
    const int64_t area = sg_found_row(p, width, "embeddings.patch_embedding.weight") / 3;
    const int64_t places = sg_found_row(p, width, "embeddings.position_embedding.weight") - 1;
    int64_t       heads = sg_heads_of(width, 64);
    const char   *act = "quick_gelu";
    int           patch = 1, side = 1;
    while ((patch + 1) * (patch + 1) <= area && patch < 4096) patch++;
    while ((side + 1) * (side + 1) <= places && side < 4096) side++;
    const sg_source_tensor *const table = sg_found_tensor(p, "embeddings.position_embedding.weight");
    if (table && width && side * side != places)
        return sg_error_set(p->e, SG_E_FORMAT,
                            "%s: %s of %lld tokens: one is for the class, the others should be a square of patches",
                            sg_source_path(p->source), sg_show(table->name), (long long)places + 1);
    for (size_t i = 0; i < sizeof clip_widths / sizeof *clip_widths; i++)
        if (clip_widths[i].width == width) {
            heads = clip_widths[i].heads;
            act = clip_widths[i].act;
        }
    sg_config_set(
        p->made, p->component, SG_NUMBER("hidden_size", width),
        SG_NUMBER("num_hidden_layers", sg_found_list(p, SG_BLOCKS_MAX, "encoder.layers", "layer_norm1.weight")),
        SG_NUMBER("intermediate_size", sg_found_rows(p, "encoder.layers.0.mlp.fc1.bias")),
        SG_NUMBER("patch_size", patch), SG_NUMBER("image_size", side * patch), SG_TEXT("hidden_act", act),
        SG_NUMBER("num_attention_heads", heads));
    return SG_OK;
}

#define CLIP_VISION                                                                                                    \
    .component = "image_encoder", .what = "image encoder of CLIP", .class_name = "CLIPVisionModel",                    \
    .usual = "clip_vision_h.safetensors or models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth",                   \
    .describe = describe_clip_vision

/* ---- VAEs with the levels of latent-diffusion ---- */

/* The encoder and the decoder have these names in common. */
#define CODER(side)                                                                                                    \
    AS(side ".conv_norm_out", side ".norm_out"), AS(side ".mid_block.resnets.0", side ".mid.block_1"),                 \
        AS(side ".mid_block.resnets.1", side ".mid.block_2"),                                                          \
        AS(side ".mid_block.attentions.0.group_norm", side ".mid.attn_1.norm"),                                        \
        AS(side ".mid_block.attentions.0.to_q", side ".mid.attn_1.q"),                                                 \
        AS(side ".mid_block.attentions.0.to_k", side ".mid.attn_1.k"),                                                 \
        AS(side ".mid_block.attentions.0.to_v", side ".mid.attn_1.v"),                                                 \
        AS(side ".mid_block.attentions.0.to_out.0", side ".mid.attn_1.proj_out")

static const sg_name_rule ldm_vae[] = {
    CODER("encoder"),
    CODER("decoder"),
    AS("encoder.down_blocks.%d.resnets.%d", "encoder.down.%d.block.%d"),
    AS("encoder.down_blocks.%d.resnets.%d.conv_shortcut", "encoder.down.%d.block.%d.nin_shortcut"),
    AS("encoder.down_blocks.%d.downsamplers.0", "encoder.down.%d.downsample"),
    AS("decoder.up_blocks.%d.resnets.%d", "decoder.up.%r.block.%d"),
    AS("decoder.up_blocks.%d.resnets.%d.conv_shortcut", "decoder.up.%r.block.%d.nin_shortcut"),
    AS("decoder.up_blocks.%d.upsamplers.0", "decoder.up.%r.upsample"),
};
const sg_name_map sg_ldm_vae_names = {MAP(ldm_vae)};

/* Names of convolutions end in `conv`. */
static void describe_levels(const sg_found_part *p, const char *conv)
{
    char                          resnets[64];
    const sg_source_tensor *const in = sg_found_tensor(p, "decoder.conv_in%s.weight", conv);
    int64_t                       out[SG_LEVELS_MAX];
    snprintf(resnets, sizeof resnets, "resnets.0.conv1%s.bias", conv);
    const int levels = sg_found_list(p, SG_LEVELS_MAX, "decoder.up_blocks", resnets), first = (int)strlen("resnets.0.");
    for (int i = 0; i < levels; i++) out[levels - 1 - i] = sg_found_rows(p, "decoder.up_blocks.%d.%s", i, resnets);
    sg_config_set(p->made, "vae", SG_NUMBER("latent_channels", in && in->rank > 1 ? in->dim[1] : 0),
                  SG_NUMBER("layers_per_block",
                            sg_found_list(p, SG_BLOCKS_MAX, "decoder.up_blocks.0.resnets", resnets + first) - 1),
                  SG_NUMBER("out_channels", sg_found_rows(p, "decoder.conv_out%s.bias", conv)),
                  SG_NUMBERS("block_out_channels", out, levels));
}

sg_status sg_describe_causal_vae(const sg_found_part *p)
{
    describe_levels(p, ".conv");
    return SG_OK;
}

/* What its latents are scaled by, and how large a picture it was trained for, no file says: the denoiser's part knows
 * it. */
static sg_status describe_kl_vae(const sg_found_part *p)
{
    describe_levels(p, "");
    sg_config_set(p->made, "vae", SG_BOOL("use_quant_conv", sg_found_tensor(p, "quant_conv.weight") != NULL),
                  SG_BOOL("use_post_quant_conv", sg_found_tensor(p, "post_quant_conv.weight") != NULL),
                  SG_BOOL("mid_block_add_attention",
                          sg_found_tensor(p, "decoder.mid_block.attentions.0.group_norm.weight") != NULL));
    return SG_OK;
}

#define KL_VAE                                                                                                         \
    .component = "vae", .what = "VAE of Flux.1 or Stable Diffusion 3", .class_name = "AutoencoderKL",                  \
    .usual = "ae.safetensors, sd3.5_vae.safetensors, ...", .prefixes = sg_vae_prefixes, .describe = describe_kl_vae

/* ---- the parts ---- */

#define STRANGER .component = SG_NOBODYS, .prefixes = sg_denoiser_prefixes

const sg_file_part sg_shared_parts[SG_SHARED_PARTS] = {
    [SG_UMT5] = {UMT5, .probe = SECOND_BIAS, .names = &t5_names},
    [SG_UMT5_GGUF] = {UMT5, .probe = SECOND_BIAS_GGUF, .names = &t5_gguf_names},
    [SG_UMT5_WAN] = {UMT5, .probe = "blocks.0.attn.q.weight", .names = &t5_own_names},
    [SG_T5] = {T5_1, .probe = "encoder.block.0.layer.0.SelfAttention.q.weight", .not_probe = SECOND_BIAS,
               .names = &t5_names},
    [SG_T5_GGUF] = {T5_1, .probe = "enc.blk.0.attn_q.weight", .not_probe = SECOND_BIAS_GGUF, .names = &t5_gguf_names},
    [SG_LLAMA] = {LLAMA, .probe = "layers.0.input_layernorm.weight", .describe = describe_llama},
    [SG_LLAMA_GGUF] = {LLAMA, .probe = "blk.0.attn_norm.weight", .names = &llama_gguf_names,
                       .describe = describe_llama_gguf},
    [SG_CLIP_L_TEXT] = {CLIP_L, .probe = "text_model." TOKENS},
    [SG_CLIP_L_BARE] = {CLIP_L, .probe = TOKENS},
    [SG_CLIP_G_TEXT] = {CLIP_G, .probe = "text_model." TOKENS},
    [SG_CLIP_G_BARE] = {CLIP_G, .probe = TOKENS},
    [SG_CLIP_VISION] = {CLIP_VISION, .probe = "pre_layrnorm.weight",
                        .prefixes = (const char *const[]){"", "vision_model.", NULL}},
    [SG_CLIP_VISION_WAN] = {CLIP_VISION, .probe = "transformer.0.attn.to_qkv.weight",
                            .prefixes = (const char *const[]){"", "visual.", NULL}, .names = &clip_vision_names},
    [SG_KL_VAE] = {KL_VAE, .probe = "decoder.mid.block_1.conv1.weight", .names = &sg_ldm_vae_names,
                   .span = "decoder.up_blocks.0.resnets.0.conv1.weight"},
    [SG_KL_VAE_DIFFUSERS] = {KL_VAE, .probe = "decoder.mid_block.resnets.0.conv1.weight",
                             .not_probe = "decoder.mid_block.resnets.0.norm1.gamma" /* of Wan */},
    /* models that people may take for one that is rendered */
    [SG_STRANGERS] = {STRANGER, .what = "the U-Net of Stable Diffusion", .probe = "input_blocks.0.0.weight"},
    {STRANGER, .what = "a ControlNet", .probe = "controlnet_blocks.0.weight"},
    {STRANGER, .what = "the denoiser of LTX-Video", .probe = "patchify_proj.weight"}};

const sg_model_files sg_shared_files = {PARTS(sg_shared_parts)};
