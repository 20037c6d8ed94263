/* file_parts.c - see file_parts.h.
 *
 * What bites:
 *  - a T5 of one block is also a UMT5;
 *  - no file of Llama or CLIP says how many heads there are: they have 128 and 64 numbers each;
 *  - nor which GELU an image encoder of CLIP has: that follows from the width, as the heads of some do. */
#include "file_parts.h"
#include "file_names.h"

enum { BLOCKS_MAX = 4096 };

const char *const sg_denoiser_prefixes[] = {"", "model.diffusion_model.", "diffusion_model.", "net.", "model.", NULL};
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
    .component = "text_encoder", .what = "text encoder of the T5 family", .prefixes = t5_prefixes, .pieces = true,     \
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

/* Llama 3 has heads of 128 numbers. */
static sg_status describe_llama(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    enum { HEAD = 128 };
    const sg_source_tensor *const table = sg_found_tensor(p, "embed_tokens.weight");
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
                      "\"head_dim\": %d, \"rms_norm_eps\": 1e-5, \"rope_theta\": 500000.0}}",
                      p->component, (long long)table->dim[1], (long long)table->dim[0], layers,
                      (long long)sg_found_rows(p, "layers.0.mlp.up_proj.weight"), (long long)(q / HEAD),
                      (long long)(k / HEAD), HEAD);
    return SG_OK;
}

static const char *const llama_prefixes[] = {"", "model.", "language_model.model.",
                                             "text_encoders.llama.transformer.model.", NULL};

const sg_file_part sg_llama_file = {.component = "text_encoder",
                                    .what = "text encoder of the Llama family",
                                    .class_name = "LlamaModel",
                                    .tokenizer = "llava-llama-3-8b-text-encoder-tokenizer",
                                    .usual = "llava_llama3_fp8_scaled.safetensors or llava_llama3_fp16.safetensors",
                                    .probe = "layers.0.input_layernorm.weight",
                                    .prefixes = llama_prefixes,
                                    .describe = describe_llama};

/* ---- CLIP's text encoder ---- */

static sg_status describe_clip_text(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const int64_t width = sg_found_rows(p, "final_layer_norm.bias");
    int           layers = 0;
    (void)e;
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "encoder.layers.%d.layer_norm1.weight", layers)) layers++;
    sg_textbuf_printf(
        json,
        "{\"%s\": {\"hidden_size\": %lld, \"num_hidden_layers\": %d, \"intermediate_size\": %lld, "
        "\"num_attention_heads\": %lld, \"vocab_size\": %lld, \"max_position_embeddings\": %lld, "
        "\"hidden_act\": \"quick_gelu\"}}",
        p->component, (long long)width, layers, (long long)sg_found_rows(p, "encoder.layers.0.mlp.fc1.bias"),
        (long long)(width % 64 == 0 ? width / 64 : 0), (long long)sg_found_rows(p, "embeddings.token_embedding.weight"),
        (long long)sg_found_rows(p, "embeddings.position_embedding.weight"));
    return SG_OK;
}

static const char *const clip_text_prefixes[] = {"", "text_model.", "text_encoders.clip_l.transformer.text_model.",
                                                 NULL};

const sg_file_part sg_clip_text_file = {.component = "text_encoder_2",
                                        .what = "text encoder of CLIP",
                                        .class_name = "CLIPTextModel",
                                        .tokenizer = "clip-vit-large-patch14",
                                        .usual = "clip_l.safetensors",
                                        .probe = "embeddings.token_embedding.weight",
                                        .prefixes = clip_text_prefixes,
                                        .describe = describe_clip_text};

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
