/* flux_files.c - see flux_files.h: by which tensor the denoiser of Flux.1 is known, and its config from the shapes of others.
 *
 * What bites:
 *  - dev and schnell differ in the embedding of guidance alone, and have other schedules;
 *  - the latents of a VAE of Flux.1 are scaled otherwise than those of one of Stable Diffusion 3, whose file has the same names and
 *    shapes;
 *  - Kontext's denoiser has the names and shapes of dev's. */
#include "flux_files.h"
#include "file_parts.h"
#include "flux_names.h"

enum { BLOCKS_MAX = 4096 };

static int blocks_of(const sg_found_part *p, const char *list)
{
    int n = 0;
    while (n < BLOCKS_MAX && sg_found_tensor(p, "%s.%d.attn.norm_q.weight", list, n)) n++;
    return n;
}

/* What is not rendered: other models with blocks of these names; Fill, which is given a picture and a mask beside the latents,
 * Canny and Depth, which are given a picture. */
static sg_status check_variant(const sg_found_part *p, int64_t in, int64_t out, sg_error *e)
{
    static const struct {
        const char *begins, *what;
    } others[] = {{"distilled_guidance_layer.", "Chroma"},
                  {"double_stream_modulation_img.", "Flux.2"},
                  {"controlnet_blocks.", "a ControlNet"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (sg_found_any(p, others[i].begins))
            return sg_error_set(e, SG_E_UNSUPPORTED, "%s: is %s, which is not supported; Flux.1 dev and schnell are",
                                sg_source_path(p->source), others[i].what);
    if (!in || !out || in == out) return SG_OK;
    return sg_error_set(
        e, SG_E_UNSUPPORTED,
        "%s: has %lld numbers a token where it gives %lld: this is Flux.1 %s, which is not supported; dev "
        "and schnell are",
        sg_source_path(p->source), (long long)in, (long long)out,
        in == 6 * out   ? "Fill"
        : in == 2 * out ? "Canny or Depth"
                        : "for pictures");
}

static sg_status describe_dit(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const int64_t width = sg_found_rows(p, "x_embedder.bias"), d = width ? width : 1;
    const int64_t head = sg_found_rows(p, "transformer_blocks.0.attn.norm_q.weight");
    const int64_t in = sg_found_count(p, "x_embedder.weight") / d, out = sg_found_rows(p, "proj_out.bias");
    const bool    dev = sg_found_tensor(p, "time_text_embed.guidance_embedder.linear_1.weight") != NULL;
    SG_TRY(check_variant(p, width ? in : 0, out, e));
    sg_textbuf_printf(
        json,
        "{\"%s\": {\"patch_size\": 1, \"num_layers\": %d, \"num_single_layers\": %d, \"in_channels\": %lld, "
        "\"joint_attention_dim\": %lld, \"pooled_projection_dim\": %lld, \"guidance_embeds\": %s",
        p->component, blocks_of(p, "transformer_blocks"), blocks_of(p, "single_transformer_blocks"), (long long)in,
        (long long)(sg_found_count(p, "context_embedder.weight") / d),
        (long long)(sg_found_count(p, "time_text_embed.text_embedder.linear_1.weight") / d), dev ? "true" : "false");
    if (head == 128) sg_textbuf_printf(json, ", \"axes_dims_rope\": [16, 56, 56]");
    sg_textbuf_printf(
        json,
        ", \"num_attention_heads\": %lld, \"attention_head_dim\": %lld}, \"scheduler\": {\"_class_name\": "
        "\"FlowMatchEulerDiscreteScheduler\", \"shift\": %s, \"use_dynamic_shifting\": %s, \"base_shift\": 0.5, "
        "\"max_shift\": 1.15, \"base_image_seq_len\": 256, \"max_image_seq_len\": 4096}, \"vae\": {\"scaling_factor\": "
        "0.3611, \"shift_factor\": 0.1159}, \"model_index\": {\"_class_name\": \"FluxPipeline\"}}",
        (long long)(head && width % head == 0 ? width / head : 0), (long long)head, dev ? "3.0" : "1.0",
        dev ? "true" : "false");
    return SG_OK;
}

static const sg_file_part *const with[] = {&sg_clip_l_file, &sg_t5_file, &sg_kl_vae_file, NULL};

#define HUNYUAN "txt_in.individual_token_refiner.blocks.0.norm1.weight"
#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of Flux.1", .class_name = "FluxTransformer2DModel",                  \
    .usual = "flux1-dev.safetensors, flux1-schnell-Q8_0.gguf, ...", .prefixes = sg_denoiser_prefixes,                  \
    .describe = describe_dit, .with = with

const sg_file_part sg_flux_dit_file = {DENOISER, .probe = "double_blocks.0.img_attn.norm.key_norm.scale",
                                       .not_probe = HUNYUAN, .names = &sg_flux_dit_names};
const sg_file_part sg_flux_dit_saved_file = {DENOISER, .probe = "double_blocks.0.img_attn.norm.key_norm.weight",
                                             .not_probe = HUNYUAN, .names = &sg_flux_dit_saved_names};
const sg_file_part sg_flux_dit_diffusers_file = {
    DENOISER, .probe = "single_transformer_blocks.0.attn.norm_q.weight",
    .not_probe = "context_embedder.token_refiner.refiner_blocks.0.attn.to_q.weight" /* of HunyuanVideo */};
