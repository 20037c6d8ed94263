/* sd3_files.c - Stable Diffusion 3 and 3.5 in files: the names of their tensors, by which of them the denoiser is
 * known, and its config from the shapes of others. Sources of the names: the modules of Stability-AI/sd3.5 (mmditx.py)
 * and diffusers' converter; of the colours: comfy/latent_formats.py.
 *
 * What bites:
 *  - the modulation of the text's stream is six parts in every block but the last, where it is shift and scale in the
 *    file, scale and shift in Diffusers;
 *  - heads have 64 numbers, which no file of SD3 medium says, since it has no norms of queries and keys;
 *  - the latents of its VAE are scaled otherwise than those of Flux.1, whose file has the same names and shapes;
 *  - T5 may be missing. */
#include "family_files.h"

enum { PLACES_MAX = 4096, HEAD = 64, PATCH = 4 /* 2 x 2 */ };

/* ---- names ---- */

/* The map's span is the number of blocks. A name of the last one finds it in a file. */
#define LAST "last_block.x_block.adaLN_modulation.1.weight"

#define E "time_text_embed."
#define T "transformer_blocks.%d."
#define X "joint_blocks.%d.x_block."
#define C "joint_blocks.%d.context_block."

static const sg_name_rule dit[] = {
    AS("pos_embed.pos_embed", "pos_embed"),
    AS("pos_embed.proj", "x_embedder.proj"),
    AS(E "timestep_embedder.linear_1", "t_embedder.mlp.0"),
    AS(E "timestep_embedder.linear_2", "t_embedder.mlp.2"),
    AS(E "text_embedder.linear_1", "y_embedder.mlp.0"),
    AS(E "text_embedder.linear_2", "y_embedder.mlp.2"),
    SWAPPED("transformer_blocks.%1.norm1_context.linear", "joint_blocks.%1.context_block.adaLN_modulation.1"),
    AS("last_block", "joint_blocks.%1"),
    AS(T "norm1.linear", X "adaLN_modulation.1"),
    AS(T "norm1_context.linear", C "adaLN_modulation.1"),
    QKV(T "attn.to_q", T "attn.to_k", T "attn.to_v", X "attn.qkv"),
    QKV(T "attn2.to_q", T "attn2.to_k", T "attn2.to_v", X "attn2.qkv"),
    QKV(T "attn.add_q_proj", T "attn.add_k_proj", T "attn.add_v_proj", C "attn.qkv"),
    AS(T "attn.norm_q", X "attn.ln_q"),
    AS(T "attn.norm_k", X "attn.ln_k"),
    AS(T "attn.to_out.0", X "attn.proj"),
    AS(T "attn2.norm_q", X "attn2.ln_q"),
    AS(T "attn2.norm_k", X "attn2.ln_k"),
    AS(T "attn2.to_out.0", X "attn2.proj"),
    AS(T "attn.norm_added_q", C "attn.ln_q"),
    AS(T "attn.norm_added_k", C "attn.ln_k"),
    AS(T "attn.to_add_out", C "attn.proj"),
    AS(T "ff.net.0.proj", X "mlp.fc1"),
    AS(T "ff.net.2", X "mlp.fc2"),
    AS(T "ff_context.net.0.proj", C "mlp.fc1"),
    AS(T "ff_context.net.2", C "mlp.fc2"),
    AS("proj_out", "final_layer.linear"),
    SWAPPED("norm_out.linear", "final_layer.adaLN_modulation.1"),
};
static const sg_name_map dit_names = {MAP(dit)};

/* ---- the denoiser ---- */

/* The root of a square, rounded down. */
static int64_t root_of(int64_t area)
{
    int64_t side = 0;
    while (side < PLACES_MAX && (side + 1) * (side + 1) <= area) side++;
    return side;
}

static sg_status describe_dit(const sg_found_part *p)
{
    const int64_t width = sg_found_rows(p, "pos_embed.proj.bias");
    const int64_t norm = sg_found_rows(p, "transformer_blocks.0.attn.norm_q.weight"), head = norm ? norm : HEAD;
    const int     layers = sg_found_list(p, SG_BLOCKS_MAX, "transformer_blocks", "norm1.linear.bias");
    int64_t       dual[SG_BLOCKS_MAX];
    int           duals = 0;
    for (int i = 0; i < layers; i++)
        if (sg_found_tensor(p, "transformer_blocks.%d.attn2.to_q.weight", i)) dual[duals++] = i;
    sg_config_set(
        p->made, p->component, SG_NUMBER("patch_size", 2), SG_NUMBER("num_layers", layers),
        SG_NUMBER("in_channels", sg_found_row(p, width, "pos_embed.proj.weight") / PATCH),
        SG_NUMBER("out_channels", sg_found_rows(p, "proj_out.bias") / PATCH),
        SG_NUMBER("joint_attention_dim", sg_found_row(p, width, "context_embedder.weight")),
        SG_NUMBER("caption_projection_dim", width),
        SG_NUMBER("pooled_projection_dim", sg_found_row(p, width, "time_text_embed.text_embedder.linear_1.weight")),
        SG_NUMBER("pos_embed_max_size", root_of(sg_found_row(p, width, "pos_embed.pos_embed"))),
        SG_NUMBER("sample_size", 128), SG_NUMBER("num_attention_heads", sg_heads_of(width, head)),
        SG_NUMBER("attention_head_dim", head), SG_TEXT(norm ? "qk_norm" : NULL, "rms_norm"),
        SG_NUMBERS("dual_attention_layers", dual, duals));
    sg_config_set(p->made, "scheduler", SG_TEXT("_class_name", "FlowMatchEulerDiscreteScheduler"), SG_REAL("shift", 3));
    sg_config_set(p->made, "vae", SG_REAL("scaling_factor", 1.5305), SG_REAL("shift_factor", 0.0609),
                  SG_NUMBER("sample_size", 1024));
    sg_config_set(p->made, "model_index", SG_TEXT("_class_name", "StableDiffusion3Pipeline"));
    return SG_OK;
}

static const sg_file_part *const with[] = {SHARED(CLIP_L_TEXT), SHARED(CLIP_G_TEXT), SHARED(T5), SHARED(KL_VAE), NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of Stable Diffusion 3", .class_name = "SD3Transformer2DModel",       \
    .usual = "sd3.5_large.safetensors, sd3.5_medium-Q8_0.gguf, ...", .prefixes = sg_denoiser_prefixes,                 \
    .describe = describe_dit, .with = with, .spare = SHARED(T5)

static const sg_file_part parts[] = {
    {DENOISER, .probe = "joint_blocks.0.context_block.attn.qkv.weight", .names = &dit_names, .span = LAST},
    {DENOISER, .probe = "pos_embed.pos_embed"}};

/* ---- the family ---- */

static const sg_repository_file repository[] = {{NULL, ".", "sd3", ""},
                                                {SG_CLIP_L, "text_encoders", "clip_l", ""},
                                                {SG_CLIP_G, "text_encoders", "clip_g", ""},
                                                {SG_TEXT_ENCODER, "text_encoders", "t5xxl", ""}};

static const sg_latent_rgb rgb[] = {{.z = 16,
                                     .bias = {0.2394f, 0.2135f, 0.1925f},
                                     .factor = {{-0.0922f, -0.0175f, 0.0749f},
                                                {0.0311f, 0.0633f, 0.0954f},
                                                {0.1994f, 0.0927f, 0.0458f},
                                                {0.0856f, 0.0339f, 0.0902f},
                                                {0.0587f, 0.0272f, -0.0496f},
                                                {-0.0006f, 0.1104f, 0.0309f},
                                                {0.0978f, 0.0306f, 0.0427f},
                                                {-0.0042f, 0.1038f, 0.1358f},
                                                {-0.0194f, 0.0020f, 0.0669f},
                                                {-0.0488f, 0.0130f, -0.0268f},
                                                {0.0922f, 0.0988f, 0.0951f},
                                                {-0.0278f, 0.0524f, -0.0542f},
                                                {0.0332f, 0.0456f, 0.0895f},
                                                {-0.0069f, -0.0030f, -0.0810f},
                                                {-0.0596f, -0.0465f, -0.0293f},
                                                {-0.1448f, -0.1463f, -0.1189f}}},
                                    {.z = 0}};

const sg_family_files sg_files_sd3 = {.checkpoint = {PARTS(parts), REPOSITORY(repository),
                                                     .repository_usual = "sd3*.safetensors of Stable Diffusion 3's"},
                                      .names = &dit_names,
                                      .rgb = rgb};
