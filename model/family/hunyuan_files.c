/* hunyuan_files.c - HunyuanVideo in files: the names of its tensors, by which of them each part is known, and its
 * config from the shapes of others. Sources of the names: the modules of Tencent/HunyuanVideo (hyvideo/modules) and
 * diffusers' converter; ComfyUI (comfy/supported_models.py) for what it saves; of the colours: comfy/latent_formats.py.
 *
 * What bites:
 *  - a denoiser of image to video has the names of one of text to video, and more channels or no guidance;
 *  - no file says how many groups the norms of a VAE have. */
#include "family_files.h"
#include "flux_rules.h"

enum { PATCH = 4 /* 2 x 2 */ };

/* ---- names ---- */

#define C "context_embedder."
#define R "context_embedder.token_refiner.refiner_blocks.%d."
#define I "txt_in.individual_token_refiner.blocks.%d."

static const sg_name_rule dit[] = {
    AS("x_embedder", "img_in"),
    AS(C "proj_in", "txt_in.input_embedder"),
    AS(C E "text_embedder", "txt_in.c_embedder"),
    AS(C E "timestep_embedder.linear_1", "txt_in.t_embedder.mlp.0"),
    AS(C E "timestep_embedder.linear_2", "txt_in.t_embedder.mlp.2"),
    AS(R "norm1", I "norm1"),
    AS(R "norm2", I "norm2"),
    QKV(R "attn.to_q", R "attn.to_k", R "attn.to_v", I "self_attn_qkv"),
    AS(R "attn.to_out.0", I "self_attn_proj"),
    AS(R "ff.net.0.proj", I "mlp.fc1"),
    AS(R "ff.net.2", I "mlp.fc2"),
    AS(R "norm_out.linear", I "adaLN_modulation.1"),
    AS(E "timestep_embedder.linear_1", "time_in.mlp.0"),
    AS(E "timestep_embedder.linear_2", "time_in.mlp.2"),
    AS(E "guidance_embedder.linear_1", "guidance_in.mlp.0"),
    AS(E "guidance_embedder.linear_2", "guidance_in.mlp.2"),
    AS(E "text_embedder.linear_1", "vector_in.in_layer"),
    AS(E "text_embedder.linear_2", "vector_in.out_layer"),
    AS(T "norm1.linear", D "img_mod.linear"),
    AS(T "norm1_context.linear", D "txt_mod.linear"),
    QKV(T "attn.to_q", T "attn.to_k", T "attn.to_v", D "img_attn_qkv"),
    QKV(T "attn.add_q_proj", T "attn.add_k_proj", T "attn.add_v_proj", D "txt_attn_qkv"),
    AS(T "attn.norm_q", D "img_attn_q_norm"),
    AS(T "attn.norm_k", D "img_attn_k_norm"),
    AS(T "attn.norm_added_q", D "txt_attn_q_norm"),
    AS(T "attn.norm_added_k", D "txt_attn_k_norm"),
    AS(T "attn.to_out.0", D "img_attn_proj"),
    AS(T "attn.to_add_out", D "txt_attn_proj"),
    AS(T "ff.net.0.proj", D "img_mlp.fc1"),
    AS(T "ff.net.2", D "img_mlp.fc2"),
    AS(T "ff_context.net.0.proj", D "txt_mlp.fc1"),
    AS(T "ff_context.net.2", D "txt_mlp.fc2"),
    LINEAR1,
    AS(U "proj_out", S "linear2"),
    AS(U "attn.norm_q", S "q_norm"),
    AS(U "attn.norm_k", S "k_norm"),
    AS(U "norm.linear", S "modulation.linear"),
    AS("proj_out", "final_layer.linear"),
    SWAPPED("norm_out.linear", "final_layer.adaLN_modulation.1"),
};
static const sg_name_map dit_names = {MAP(dit)};

/* As ComfyUI saves it: of its blocks and their norms what Flux.1 has. */
#define SAVED(norm)                                                                                                    \
    SG_FLUX_RULES(norm), AS(C "proj_in", "txt_in.input_embedder"),                                                     \
        AS(C E "text_embedder.linear_1", "txt_in.c_embedder.in_layer"),                                                \
        AS(C E "text_embedder.linear_2", "txt_in.c_embedder.out_layer"),                                               \
        AS(C E "timestep_embedder.linear_1", "txt_in.t_embedder.in_layer"),                                            \
        AS(C E "timestep_embedder.linear_2", "txt_in.t_embedder.out_layer"), AS(R "norm1", I "norm1"),                 \
        AS(R "norm2", I "norm2"), QKV(R "attn.to_q", R "attn.to_k", R "attn.to_v", I "self_attn.qkv"),                 \
        AS(R "attn.to_out.0", I "self_attn.proj"), AS(R "ff.net.0.proj", I "mlp.0"), AS(R "ff.net.2", I "mlp.2"),      \
        AS(R "norm_out.linear", I "adaLN_modulation.1")

static const sg_name_rule saved[] = {SAVED("weight")};
static const sg_name_map  dit_saved_names = {MAP(saved)};

static const sg_name_rule saved_before[] = {SAVED("scale")};
static const sg_name_map  dit_saved_before_names = {MAP(saved_before)};

/* ---- the denoiser ---- */

static sg_status describe_dit(const sg_found_part *p)
{
    const int64_t width = sg_found_rows(p, "x_embedder.proj.bias"), d = width ? width : 1;
    const int64_t head = sg_found_rows(p, "transformer_blocks.0.attn.norm_q.weight");
    const int64_t in = sg_found_row(p, width, "x_embedder.proj.weight") / PATCH;
    const int64_t out = sg_found_rows(p, "proj_out.bias") / PATCH;
    if (in > out && out)
        return sg_error_set(p->e, SG_E_UNSUPPORTED,
                            "%s: has %lld channels where it gives %lld: this is HunyuanVideo for image to video, which "
                            "is not supported; text to video is",
                            sg_source_path(p->source), (long long)in, (long long)out);
    sg_config_set(
        p->made, p->component, SG_NUMBER("patch_size", 2), SG_NUMBER("patch_size_t", 1),
        SG_NUMBER("num_layers", sg_found_list(p, SG_BLOCKS_MAX, "transformer_blocks", "attn.norm_q.weight")),
        SG_NUMBER("num_single_layers",
                  sg_found_list(p, SG_BLOCKS_MAX, "single_transformer_blocks", "attn.norm_q.weight")),
        SG_NUMBER("num_refiner_layers",
                  sg_found_list(p, SG_BLOCKS_MAX, "context_embedder.token_refiner.refiner_blocks", "norm1.weight")),
        SG_NUMBER("in_channels", in), SG_NUMBER("out_channels", out),
        SG_NUMBER("text_embed_dim", sg_found_row(p, width, "context_embedder.proj_in.weight")),
        SG_NUMBER("pooled_projection_dim", sg_found_row(p, width, "time_text_embed.text_embedder.linear_1.weight")),
        SG_REAL("mlp_ratio", (double)sg_found_rows(p, "transformer_blocks.0.ff.net.0.proj.bias") / (double)d),
        SG_BOOL("guidance_embeds", sg_found_tensor(p, "time_text_embed.guidance_embedder.linear_1.weight") != NULL),
        SG_NUMBER("num_attention_heads", sg_heads_of(width, head)), SG_NUMBER("attention_head_dim", head));
    sg_config_set(p->made, "scheduler", SG_TEXT("_class_name", "FlowMatchEulerDiscreteScheduler"), SG_REAL("shift", 7));
    sg_config_set(p->made, "model_index", SG_TEXT("_class_name", "HunyuanVideoPipeline"));
    return SG_OK;
}

/* ---- parts ---- */

enum { VAE, ALL = 6 };
static const sg_file_part        parts[ALL];
static const sg_file_part *const with[] = {SHARED(LLAMA), SHARED(CLIP_L_TEXT), &parts[VAE], NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of HunyuanVideo", .class_name = "HunyuanVideoTransformer3DModel",    \
    .usual = "hunyuan_video_t2v_720p_bf16.safetensors, mp_rank_00_model_states.pt, ...",                               \
    .prefixes = sg_denoiser_prefixes, .describe = describe_dit, .with = with

#define A_VAE                                                                                                          \
    .component = "vae", .what = "VAE of HunyuanVideo", .class_name = "AutoencoderKLHunyuanVideo",                      \
    .usual = "hunyuan_video_vae_bf16.safetensors or vae/pytorch_model.pt", .prefixes = sg_vae_prefixes,                \
    .describe = sg_describe_causal_vae

#define SAVED_DENOISER DENOISER, .probe = "txt_in.individual_token_refiner.blocks.0.self_attn.qkv.weight"
#define NORM "double_blocks.0.img_attn.norm.key_norm."

static const sg_file_part parts[ALL] = {
    [VAE] = {A_VAE, .probe = "decoder.mid.block_1.conv1.conv.weight",
             .not_probe = "decoder.mid.block_1.norm1.conv_y.conv.weight" /* of CogVideoX */, .names = &sg_ldm_vae_names,
             .span = "decoder.up_blocks.0.resnets.0.conv1.conv.weight"},
    {A_VAE, .probe = "decoder.mid_block.attentions.0.group_norm.weight",
     .not_probe = "decoder.mid_block.resnets.0.conv1.weight" /* of pictures */},
    {DENOISER, .probe = "double_blocks.0.img_attn_qkv.weight", .names = &dit_names},
    {DENOISER, .probe = "context_embedder.token_refiner.refiner_blocks.0.attn.to_q.weight"},
    {SAVED_DENOISER, .not_probe = NORM "scale", .names = &dit_saved_names},
    {SAVED_DENOISER, .not_probe = NORM "weight", .names = &dit_saved_before_names}};

/* ---- the family ---- */

static const sg_repository_file repository[] = {{"transformer", "transformers", "mp_rank_00", ""},
                                                {"vae", "vae", "pytorch_model", ""}};

static const sg_latent_rgb rgb[] = {{.z = 16,
                                     .bias = {0.0259f, -0.0192f, -0.0761f},
                                     .factor = {{-0.0395f, -0.0331f, 0.0445f},
                                                {0.0696f, 0.0795f, 0.0518f},
                                                {0.0135f, -0.0945f, -0.0282f},
                                                {0.0108f, -0.0250f, -0.0765f},
                                                {-0.0209f, 0.0032f, 0.0224f},
                                                {-0.0804f, -0.0254f, -0.0639f},
                                                {-0.0991f, 0.0271f, -0.0669f},
                                                {-0.0646f, -0.0422f, -0.0400f},
                                                {-0.0696f, -0.0595f, -0.0894f},
                                                {-0.0799f, -0.0208f, -0.0375f},
                                                {0.1166f, 0.1627f, 0.0962f},
                                                {0.1165f, 0.0432f, 0.0407f},
                                                {-0.2315f, -0.1920f, -0.1355f},
                                                {-0.0270f, 0.0401f, -0.0821f},
                                                {-0.0616f, -0.0997f, -0.0727f},
                                                {0.0249f, -0.0469f, -0.1703f}}},
                                    {.z = 0}};

const sg_family_files sg_files_hunyuan = {
    .checkpoint = {PARTS(parts), REPOSITORY(repository), .repository_usual = "transformers/ of HunyuanVideo's"},
    .names = &dit_names,
    .rgb = rgb};
