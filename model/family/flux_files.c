/* flux_files.c - Flux.1 in files: the names of its tensors, by which of them its denoiser is known, and its config
 * from the shapes of others. Sources of the names: the modules of black-forest-labs/flux (src/flux/model.py) and
 * diffusers' converter; ComfyUI (comfy/supported_models.py) for what it saves; of the colours: comfy/latent_formats.py.
 *
 * What bites:
 *  - dev and schnell differ in the embedding of guidance alone, and have other schedules;
 *  - the latents of a VAE of Flux.1 are scaled otherwise than those of one of Stable Diffusion 3, whose file has the
 *    same names and shapes;
 *  - Kontext's denoiser has the names and shapes of dev's. */
#include "family_files.h"
#include "flux_rules.h"

/* ---- names ---- */

static const sg_name_rule dit[] = {SG_FLUX_RULES("scale"), AS("context_embedder", "txt_in")};
static const sg_name_map  dit_names = {MAP(dit)};

/* As ComfyUI saves it today: norms have a weight, not a scale. */
static const sg_name_rule saved[] = {SG_FLUX_RULES("weight"), AS("context_embedder", "txt_in")};
static const sg_name_map  saved_names = {MAP(saved)};

/* ---- the denoiser ---- */

/* What is not rendered: other models with blocks of these names; Fill, which is given a picture and a mask beside the
 * latents, Canny and Depth, which are given a picture. */
static sg_status check_variant(const sg_found_part *p, int64_t in, int64_t out)
{
    static const struct {
        const char *begins, *what;
    } others[] = {{"distilled_guidance_layer.", "Chroma"},
                  {"double_stream_modulation_img.", "Flux.2"},
                  {"controlnet_blocks.", "a ControlNet"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (sg_found_any(p, others[i].begins))
            return sg_error_set(p->e, SG_E_UNSUPPORTED, "%s: is %s, which is not supported; Flux.1 dev and schnell are",
                                sg_source_path(p->source), others[i].what);
    if (!in || !out || in == out) return SG_OK;
    return sg_error_set(
        p->e, SG_E_UNSUPPORTED,
        "%s: has %lld numbers a token where it gives %lld: this is Flux.1 %s, which is not supported; dev "
        "and schnell are",
        sg_source_path(p->source), (long long)in, (long long)out,
        in == 6 * out   ? "Fill"
        : in == 2 * out ? "Canny or Depth"
                        : "for pictures");
}

static sg_status describe_dit(const sg_found_part *p)
{
    const int64_t width = sg_found_rows(p, "x_embedder.bias"), out = sg_found_rows(p, "proj_out.bias");
    const int64_t head = sg_found_rows(p, "transformer_blocks.0.attn.norm_q.weight");
    const int64_t in = sg_found_row(p, width, "x_embedder.weight"), axes[] = {16, 56, 56};
    const bool    dev = sg_found_tensor(p, "time_text_embed.guidance_embedder.linear_1.weight") != NULL;
    SG_TRY(check_variant(p, in, out));
    sg_config_set(
        p->made, p->component, SG_NUMBER("patch_size", 1), SG_NUMBER("in_channels", in),
        SG_NUMBER("num_layers", sg_found_list(p, SG_BLOCKS_MAX, "transformer_blocks", "attn.norm_q.weight")),
        SG_NUMBER("num_single_layers",
                  sg_found_list(p, SG_BLOCKS_MAX, "single_transformer_blocks", "attn.norm_q.weight")),
        SG_NUMBER("joint_attention_dim", sg_found_row(p, width, "context_embedder.weight")),
        SG_NUMBER("pooled_projection_dim", sg_found_row(p, width, "time_text_embed.text_embedder.linear_1.weight")),
        SG_BOOL("guidance_embeds", dev), SG_NUMBERS(head == 128 ? "axes_dims_rope" : NULL, axes, 3),
        SG_NUMBER("num_attention_heads", sg_heads_of(width, head)), SG_NUMBER("attention_head_dim", head));
    sg_config_set(p->made, "scheduler", SG_TEXT("_class_name", "FlowMatchEulerDiscreteScheduler"),
                  SG_REAL("shift", dev ? 3 : 1), SG_BOOL("use_dynamic_shifting", dev), SG_REAL("base_shift", 0.5),
                  SG_REAL("max_shift", 1.15), SG_NUMBER("base_image_seq_len", 256),
                  SG_NUMBER("max_image_seq_len", 4096));
    sg_config_set(p->made, "vae", SG_REAL("scaling_factor", 0.3611), SG_REAL("shift_factor", 0.1159),
                  SG_NUMBER("sample_size", 1024));
    sg_config_set(p->made, "model_index", SG_TEXT("_class_name", "FluxPipeline"));
    return SG_OK;
}

static const sg_file_part *const with[] = {SHARED(CLIP_L_TEXT), SHARED(T5), SHARED(KL_VAE), NULL};

#define HUNYUAN "txt_in.individual_token_refiner.blocks.0.norm1.weight"
#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of Flux.1", .class_name = "FluxTransformer2DModel",                  \
    .usual = "flux1-dev.safetensors, flux1-schnell-Q8_0.gguf, ...", .prefixes = sg_denoiser_prefixes,                  \
    .describe = describe_dit, .with = with

static const sg_file_part parts[] = {
    {DENOISER, .probe = "double_blocks.0.img_attn.norm.key_norm.scale", .not_probe = HUNYUAN, .names = &dit_names},
    {DENOISER, .probe = "double_blocks.0.img_attn.norm.key_norm.weight", .not_probe = HUNYUAN, .names = &saved_names},
    {DENOISER, .probe = "single_transformer_blocks.0.attn.norm_q.weight",
     .not_probe = "context_embedder.token_refiner.refiner_blocks.0.attn.to_q.weight" /* of HunyuanVideo */}};

/* ---- the family ---- */

static const sg_repository_file repository[] = {{"transformer", ".", "flux1-", ""}, {"vae", ".", "ae.", ""}};

static const sg_latent_rgb rgb[] = {{.z = 16,
                                     .bias = {-0.0329f, -0.0718f, -0.0851f},
                                     .factor = {{-0.0346f, 0.0244f, 0.0681f},
                                                {0.0034f, 0.0210f, 0.0687f},
                                                {0.0275f, -0.0668f, -0.0433f},
                                                {-0.0174f, 0.0160f, 0.0617f},
                                                {0.0859f, 0.0721f, 0.0329f},
                                                {0.0004f, 0.0383f, 0.0115f},
                                                {0.0405f, 0.0861f, 0.0915f},
                                                {-0.0236f, -0.0185f, -0.0259f},
                                                {-0.0245f, 0.0250f, 0.1180f},
                                                {0.1008f, 0.0755f, -0.0421f},
                                                {-0.0515f, 0.0201f, 0.0011f},
                                                {0.0428f, -0.0012f, -0.0036f},
                                                {0.0817f, 0.0765f, 0.0749f},
                                                {-0.1264f, -0.0522f, -0.1103f},
                                                {-0.0280f, -0.0881f, -0.0499f},
                                                {-0.1262f, -0.0982f, -0.0778f}}},
                                    {.z = 0}};

const sg_family_files sg_files_flux = {
    .checkpoint = {PARTS(parts), REPOSITORY(repository), .repository_usual = "flux1-*.safetensors of Flux.1's"},
    .names = &dit_names,
    .rgb = rgb};
