/* file_parts.c - see file_parts.h.
 *
 * What bites:
 *  - a T5 of one block is also a UMT5;
 *  - no file of Llama or CLIP but a GGUF says how many heads there are: they have 128 and 64 numbers each;
 *  - nor which GELU an image encoder of CLIP has: that follows from the width, as the heads of some do. */
#include "file_parts.h"
#include "file_names.h"

enum { BLOCKS_MAX = 4096 };

const char *const sg_denoiser_prefixes[] = {
    "", "model.diffusion_model.", "diffusion_model.", "net.", "model.", "model.model.", NULL};
const char *const sg_vae_prefixes[] = {"", "vae.", "first_stage_model.", NULL};

/* ---- T5 ---- */

static const char *const t5_prefixes[] = {"", "text_encoders.umt5xxl.transformer.", "text_encoders.t5xxl.transformer.",
                                          NULL};

static sg_status describe_t5(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    static const char             attention[] = "encoder.block.0.layer.0.SelfAttention";
    const char                   *name = "encoder.embed_tokens.weight";
    const sg_source_tensor       *table = sg_found_tensor(p, "%s", name);
    const sg_source_tensor *const bias = sg_found_tensor(p, "%s.relative_attention_bias.weight", attention);
    const int64_t                 inner = sg_found_rows(p, "%s.q.weight", attention);
    int                           layers = 0;
    if (!table) table = sg_found_tensor(p, "shared.weight");
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "encoder.block.%d.layer.0.SelfAttention.q.weight", layers))
        layers++;
    const bool    gated = sg_found_tensor(p, "encoder.block.0.layer.1.DenseReluDense.wi_0.weight") != NULL;
    const int64_t ffn = sg_found_rows(p, "encoder.block.0.layer.1.DenseReluDense.%s.weight", gated ? "wi_0" : "wi");
    if (!table || table->rank != 2 || !bias || bias->rank != 2 || bias->dim[1] < 1)
        return sg_error_set(
            e, SG_E_FORMAT,
            "%s: has no table of embeddings (shared.weight) or none of position biases, of two dimensions",
            sg_source_path(p->source));
    sg_textbuf_printf(json,
                      "{\"%s\": {\"d_model\": %lld, \"vocab_size\": %lld, \"num_layers\": %d, "
                      "\"num_heads\": %lld, \"d_kv\": %lld, \"d_ff\": %lld, \"relative_attention_num_buckets\": %lld, "
                      "\"feed_forward_proj\": \"%s\"}}",
                      p->component, (long long)table->dim[1], (long long)table->dim[0], layers, (long long)bias->dim[1],
                      (long long)(inner / bias->dim[1]), (long long)ffn, (long long)bias->dim[0],
                      gated ? "gated-gelu" : "relu");
    return SG_OK;
}

/* Beside what the models want. */
static const sg_name_rule t5_drops[] = {{.file = "spiece_model"}, {.file = "logit_scale"}};
static const sg_name_map  t5_names = {.rules = t5_drops, .count = sizeof t5_drops / sizeof *t5_drops};

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

const sg_file_part sg_umt5_file = {UMT5, .probe = SECOND_BIAS, .names = &t5_names};
const sg_file_part sg_umt5_gguf_file = {UMT5, .probe = SECOND_BIAS_GGUF, .names = &sg_t5_gguf_names};
const sg_file_part sg_wan_t5_file = {UMT5, .probe = "blocks.0.attn.q.weight", .names = &sg_wan_t5_names};
const sg_file_part sg_t5_file = {T5_1, .probe = "encoder.block.0.layer.0.SelfAttention.q.weight",
                                 .not_probe = SECOND_BIAS, .names = &t5_names};
const sg_file_part sg_t5_gguf_file = {T5_1, .probe = "enc.blk.0.attn_q.weight", .not_probe = SECOND_BIAS_GGUF,
                                      .names = &sg_t5_gguf_names};

/* ---- Llama ---- */

/* A number above 0 that a GGUF has under this key; else the usual one. */
static double number_of(const sg_found_part *p, const char *key, double usual)
{
    sg_source_list l;
    if (!sg_source_metadata_list(p->source, key, &l) || l.kind == 's' || l.count != 1) return usual;
    const double x = sg_source_number(&l, 0);
    return x > 0 && x < 1e12 ? x : usual;
}

/* Llama 3 has heads of 128 numbers. Numbers are written without a point, which some locales have as a comma. */
static sg_status describe_llama_as(sg_textbuf *json, const sg_found_part *p, bool by_pairs, sg_error *e)
{
    const sg_source_tensor *const table = sg_found_tensor(p, "embed_tokens.weight");
    const int64_t                 head = (int64_t)number_of(p, "llama.rope.dimension_count", 128), d = head ? head : 1;
    const double                  eps = number_of(p, "llama.attention.layer_norm_rms_epsilon", 1e-5);
    const int64_t                 q = sg_found_rows(p, "layers.0.self_attn.q_proj.weight");
    const int64_t                 k = sg_found_rows(p, "layers.0.self_attn.k_proj.weight");
    int                           layers = 0;
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "layers.%d.input_layernorm.weight", layers)) layers++;
    if (!table || table->rank != 2)
        return sg_error_set(e, SG_E_FORMAT, "%s: has no table of embeddings (embed_tokens.weight) of two dimensions",
                            sg_source_path(p->source));
    sg_textbuf_printf(json,
                      "{\"%s\": {\"hidden_size\": %lld, \"vocab_size\": %lld, \"num_hidden_layers\": %d, "
                      "\"intermediate_size\": %lld, \"num_attention_heads\": %lld, \"num_key_value_heads\": %lld, "
                      "\"head_dim\": %lld, \"rms_norm_eps\": %llde-18, \"rope_theta\": %lld, \"rope_by_pairs\": %s}}",
                      p->component, (long long)table->dim[1], (long long)table->dim[0], layers,
                      (long long)sg_found_rows(p, "layers.0.mlp.up_proj.weight"), (long long)(q / d),
                      (long long)(k / d), (long long)head, (long long)(eps < 1 ? eps * 1e18 : 0),
                      (long long)number_of(p, "llama.rope.freq_base", 500000), by_pairs ? "true" : "false");
    return SG_OK;
}

static sg_status describe_llama(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    return describe_llama_as(json, p, false, e);
}

/* llama.cpp puts the channels of q and k that are rotated together side by side. */
static sg_status describe_llama_gguf(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    return describe_llama_as(json, p, true, e);
}

static const char *const llama_prefixes[] = {"", "model.", "language_model.model.",
                                             "text_encoders.llama.transformer.model.", NULL};

#define LLAMA                                                                                                          \
    .component = SG_TEXT_ENCODER, .what = "text encoder of the Llama family", .class_name = "LlamaModel",              \
    .tokenizer = "llava-llama-3-8b-text-encoder-tokenizer",                                                            \
    .usual = "llava_llama3_fp8_scaled.safetensors, llava_llama3_fp16.safetensors or a GGUF",                           \
    .prefixes = llama_prefixes

const sg_file_part sg_llama_file = {LLAMA, .probe = "layers.0.input_layernorm.weight", .describe = describe_llama};
const sg_file_part sg_llama_gguf_file = {LLAMA, .probe = "blk.0.attn_norm.weight", .names = &sg_llama_gguf_names,
                                         .describe = describe_llama_gguf};

/* ---- CLIP's text encoders ---- */

/* Where a file lacks a projection's weights, the projection is the identity, as it is for ComfyUI and for diffusers. */
static void describe_clip(sg_textbuf *json, const sg_found_part *p, const char *act)
{
    const char *const t = sg_found_tensor(p, "text_model.final_layer_norm.bias") ? "text_model." : "";
    const int64_t     width = sg_found_rows(p, "%sfinal_layer_norm.bias", t);
    int               layers = 0;
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "%sencoder.layers.%d.layer_norm1.weight", t, layers)) layers++;
    sg_textbuf_printf(json,
                      "{\"%s\": {\"hidden_size\": %lld, \"num_hidden_layers\": %d, \"intermediate_size\": %lld, "
                      "\"num_attention_heads\": %lld, \"vocab_size\": %lld, \"max_position_embeddings\": %lld, "
                      "\"projection_dim\": %lld, \"hidden_act\": \"%s\"}}",
                      p->component, (long long)width, layers,
                      (long long)sg_found_rows(p, "%sencoder.layers.0.mlp.fc1.bias", t),
                      (long long)(width % 64 == 0 ? width / 64 : 0),
                      (long long)sg_found_rows(p, "%sembeddings.token_embedding.weight", t),
                      (long long)sg_found_rows(p, "%sembeddings.position_embedding.weight", t),
                      (long long)sg_found_rows(p, "text_projection.weight"), act);
}

static sg_status describe_clip_l(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    (void)e;
    describe_clip(json, p, "quick_gelu");
    return SG_OK;
}

static sg_status describe_clip_g(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    (void)e;
    describe_clip(json, p, "gelu");
    return SG_OK;
}

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

const sg_file_part sg_clip_l_file = {CLIP_L, .probe = "text_model." TOKENS};
const sg_file_part sg_clip_l_bare_file = {CLIP_L, .probe = TOKENS};
const sg_file_part sg_clip_g_file = {CLIP_G, .probe = "text_model." TOKENS};
const sg_file_part sg_clip_g_bare_file = {CLIP_G, .probe = TOKENS};

/* ---- CLIP's image encoder ---- */

/* OpenCLIP's as they are published. All other widths are OpenAI's: 64 numbers a head, quick GELU. */
static const struct {
    int64_t     width;
    int         heads;
    const char *act;
} clip_widths[] = {{1280, 16, "gelu"}, {1664, 16, "gelu"}};

static sg_status describe_clip_vision(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const int64_t width = sg_found_count(p, "embeddings.class_embedding"), d = width ? width : 1;
    const int64_t area = sg_found_count(p, "embeddings.patch_embedding.weight") / d / 3;
    const int64_t places = sg_found_count(p, "embeddings.position_embedding.weight") / d - 1;
    int64_t       heads = width % 64 == 0 ? width / 64 : 0;
    const char   *act = "quick_gelu";
    int           layers = 0, patch = 1, side = 1;
    while ((patch + 1) * (patch + 1) <= area && patch < 4096) patch++;
    while ((side + 1) * (side + 1) <= places && side < 4096) side++;
    const sg_source_tensor *const table = sg_found_tensor(p, "embeddings.position_embedding.weight");
    if (table && width && side * side != places)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: %s of %lld tokens: one is for the class, the others should be a square of patches",
                            sg_source_path(p->source), sg_show(table->name), (long long)places + 1);
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "encoder.layers.%d.layer_norm1.weight", layers)) layers++;
    for (size_t i = 0; i < sizeof clip_widths / sizeof *clip_widths; i++)
        if (clip_widths[i].width == width) {
            heads = clip_widths[i].heads;
            act = clip_widths[i].act;
        }
    sg_textbuf_printf(json,
                      "{\"%s\": {\"hidden_size\": %lld, \"num_hidden_layers\": %d, \"intermediate_size\": %lld, "
                      "\"patch_size\": %d, \"image_size\": %d, \"hidden_act\": \"%s\", \"num_attention_heads\": %lld}}",
                      p->component, (long long)width, layers,
                      (long long)sg_found_rows(p, "encoder.layers.0.mlp.fc1.bias"), patch, side * patch, act,
                      (long long)heads);
    return SG_OK;
}

#define CLIP_VISION                                                                                                    \
    .component = "image_encoder", .what = "image encoder of CLIP", .class_name = "CLIPVisionModel",                    \
    .usual = "clip_vision_h.safetensors or models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth",                   \
    .describe = describe_clip_vision

const sg_file_part sg_clip_vision_file = {CLIP_VISION, .probe = "pre_layrnorm.weight",
                                          .prefixes = (const char *const[]){"", "vision_model.", NULL}};
const sg_file_part sg_wan_clip_vision_file = {CLIP_VISION, .probe = "transformer.0.attn.to_qkv.weight",
                                              .prefixes = (const char *const[]){"", "visual.", NULL},
                                              .names = &sg_wan_clip_vision_names};

/* ---- a VAE of pictures ---- */

static const char *text_of(bool b) { return b ? "true" : "false"; }

/* What its latents are scaled by no file says: the denoiser's part knows it. */
static sg_status describe_kl_vae(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    enum { LEVELS_MAX = 16 };
    const sg_source_tensor *const in = sg_found_tensor(p, "decoder.conv_in.weight");
    int                           levels = 0, layers = 0;
    (void)e;
    while (levels < LEVELS_MAX && sg_found_tensor(p, "decoder.up_blocks.%d.resnets.0.conv1.bias", levels)) levels++;
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "decoder.up_blocks.0.resnets.%d.conv1.bias", layers)) layers++;
    sg_textbuf_printf(json,
                      "{\"vae\": {\"latent_channels\": %lld, \"layers_per_block\": %d, \"out_channels\": %lld, "
                      "\"use_quant_conv\": %s, \"use_post_quant_conv\": %s, \"mid_block_add_attention\": %s, "
                      "\"block_out_channels\": [",
                      (long long)(in && in->rank > 1 ? in->dim[1] : 0), layers - 1,
                      (long long)sg_found_rows(p, "decoder.conv_out.bias"),
                      text_of(sg_found_tensor(p, "quant_conv.weight")),
                      text_of(sg_found_tensor(p, "post_quant_conv.weight")),
                      text_of(sg_found_tensor(p, "decoder.mid_block.attentions.0.group_norm.weight")));
    for (int i = levels; i-- > 0;)
        sg_textbuf_printf(json, "%lld%s", (long long)sg_found_rows(p, "decoder.up_blocks.%d.resnets.0.conv1.bias", i),
                          i ? ", " : "");
    sg_textbuf_printf(json, "]}}");
    return SG_OK;
}

#define KL_VAE                                                                                                         \
    .component = "vae", .what = "VAE of Flux.1 or Stable Diffusion 3", .class_name = "AutoencoderKL",                  \
    .usual = "ae.safetensors, sd3.5_vae.safetensors, ...", .prefixes = sg_vae_prefixes, .describe = describe_kl_vae

const sg_file_part sg_kl_vae_file = {KL_VAE, .probe = "decoder.mid.block_1.conv1.weight", .names = &sg_ldm_vae_names,
                                     .span = "decoder.up_blocks.0.resnets.0.conv1.weight"};
const sg_file_part sg_kl_vae_diffusers_file = {KL_VAE, .probe = "decoder.mid_block.resnets.0.conv1.weight",
                                               .not_probe = "decoder.mid_block.resnets.0.norm1.gamma" /* of Wan */};
