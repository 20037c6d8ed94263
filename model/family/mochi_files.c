/* mochi_files.c - Mochi in files: the names of its tensors, by which of them each part is known, and its config from
 * the shapes of others. Sources of the names: the modules of genmoai/mochi (dit/joint_model, vae/models.py) and
 * diffusers' converter; of the colours: comfy/latent_formats.py.
 *
 * What bites:
 *  - a file of the VAE may hold its encoder too, or the decoder alone without a prefix;
 *  - how much a level of the decoder makes longer and how much larger is one number in its shapes, their product:
 *    published levels make pictures twice as large. */
#include "family_files.h"

#include <stdio.h>

enum { LEVELS_MAX = 8, RESNETS_MAX = 32, PATCH = 4 /* 2 x 2 */ };

/* ---- names of the denoiser ---- */

#define T "transformer_blocks.%d."
#define A "transformer_blocks.%d.attn1."
#define B "blocks.%d."

static const sg_name_rule dit[] = {
    AS("patch_embed.proj", "x_embedder.proj"),
    AS("time_embed.pooler", "t5_y_embedder"),
    AS("time_embed.caption_proj", "t5_yproj"),
    AS("time_embed.timestep_embedder.linear_1", "t_embedder.mlp.0"),
    AS("time_embed.timestep_embedder.linear_2", "t_embedder.mlp.2"),
    AS(T "norm1.linear", B "mod_x"),
    AS(T "norm1_context.linear", B "mod_y"),
    AS(T "norm1_context.linear_1", B "mod_y"), /* of the last block */
    PART(A "to_q", B "attn.qkv_x", 0, 3),
    PART(A "to_k", B "attn.qkv_x", 1, 3),
    PART(A "to_v", B "attn.qkv_x", 2, 3),
    PART(A "add_q_proj", B "attn.qkv_y", 0, 3),
    PART(A "add_k_proj", B "attn.qkv_y", 1, 3),
    PART(A "add_v_proj", B "attn.qkv_y", 2, 3),
    AS(A "norm_q", B "attn.q_norm_x"),
    AS(A "norm_k", B "attn.k_norm_x"),
    AS(A "norm_added_q", B "attn.q_norm_y"),
    AS(A "norm_added_k", B "attn.k_norm_y"),
    AS(A "to_out.0", B "attn.proj_x"),
    AS(A "to_add_out", B "attn.proj_y"),
    SWAPPED(T "ff.net.0.proj", B "mlp_x.w1"),
    SWAPPED(T "ff_context.net.0.proj", B "mlp_y.w1"),
    AS(T "ff.net.2", B "mlp_x.w2"),
    AS(T "ff_context.net.2", B "mlp_y.w2"),
    AS("proj_out", "final_layer.linear"),
    SWAPPED("norm_out.linear", "final_layer.mod"),
};
static const sg_name_map dit_names = {MAP(dit)};

/* ---- names of the VAE ---- */

#define RESNET(bound, file)                                                                                            \
    AS(bound ".norm1.norm_layer", file ".stack.0"), AS(bound ".conv1.conv", file ".stack.2"),                          \
        AS(bound ".norm2.norm_layer", file ".stack.3"), AS(bound ".conv2.conv", file ".stack.5")
#define LEVEL(bound, file) RESNET(bound ".resnets.%d", file ".blocks.%d"), AS(bound ".proj", file ".proj")

static const sg_name_rule vae[] = {
    AS("decoder.conv_in", "blocks.0.0"),
    AS("decoder.proj_out", "output_proj"),
    RESNET("decoder.block_in.resnets.0", "blocks.0.1"),
    RESNET("decoder.block_in.resnets.1", "blocks.0.2"),
    RESNET("decoder.block_in.resnets.2", "blocks.0.3"),
    LEVEL("decoder.up_blocks.0", "blocks.1"),
    LEVEL("decoder.up_blocks.1", "blocks.2"),
    LEVEL("decoder.up_blocks.2", "blocks.3"),
    RESNET("decoder.block_out.resnets.%d", "blocks.4.%d"),
};
static const sg_name_map vae_names = {MAP(vae)};

/* ---- the denoiser ---- */

static sg_status describe_dit(const sg_found_part *p)
{
    const int64_t width = sg_found_rows(p, "patch_embed.proj.bias");
    const int64_t text = sg_found_rows(p, "time_embed.caption_proj.bias");
    const int64_t head = sg_found_rows(p, "transformer_blocks.0.attn1.norm_q.weight");
    const int64_t heads = sg_heads_of(width, head);
    sg_config_set(p->made, p->component, SG_NUMBER("patch_size", 2),
                  SG_NUMBER("num_layers", sg_found_list(p, SG_BLOCKS_MAX, "transformer_blocks", "norm1.linear.bias")),
                  SG_NUMBER("in_channels", sg_found_row(p, width, "patch_embed.proj.weight") / PATCH),
                  SG_NUMBER("pooled_projection_dim", text),
                  SG_NUMBER("text_embed_dim", sg_found_row(p, text, "time_embed.caption_proj.weight")),
                  SG_NUMBER("time_embed_dim", sg_found_row(p, width, "time_embed.timestep_embedder.linear_1.weight")),
                  SG_NUMBER(heads ? "num_attention_heads" : NULL, heads),
                  SG_NUMBER(heads ? "attention_head_dim" : NULL, head));
    sg_config_set(p->made, "scheduler", SG_TEXT("_class_name", "FlowMatchEulerDiscreteScheduler"), SG_REAL("shift", 1),
                  SG_BOOL("invert_sigmas", true));
    sg_config_set(p->made, "model_index", SG_TEXT("_class_name", "MochiPipeline"));
    return SG_OK;
}

/* ---- the VAE ---- */

/* These are the mean and the deviation of the latents, in the order of the channels, from diffusers'
 * AutoencoderKLMochi. */
static const double mean[] = {-0.06730895953510081, -0.038011381506090416, -0.07477820912866141,  -0.05565264470995561,
                              0.012767231469026969, -0.04703542746246419,  0.043896967884726704,  -0.09346305707025976,
                              -0.09918314763016893, -0.008729793427399178, -0.011931556316503654, -0.0321993391887285};
static const double deviation[] = {0.9263795028493863, 0.9248894543193766, 0.9393059390890617, 0.959253732819592,
                                   0.8244560132752793, 0.917259975397747,  0.9294154431013696, 1.3720942357788521,
                                   0.881393668867029,  0.9168315692124348, 0.9185249279345552, 0.9274757570805041};

static int64_t channels_of(const sg_found_part *p, const char *stage)
{
    return sg_found_rows(p, "decoder.%s.resnets.0.conv1.conv.bias", stage);
}

static int resnets_of(const sg_found_part *p, const char *stage)
{
    char list[64];
    snprintf(list, sizeof list, "decoder.%s.resnets", stage);
    return sg_found_list(p, RESNETS_MAX, list, "conv1.conv.bias");
}

/* Every list of the config begins at the end of the decoder: block_out, the levels, block_in. */
static sg_status describe_vae(const sg_found_part *p)
{
    const int     levels = sg_found_list(p, LEVELS_MAX, "decoder.up_blocks", "proj.bias");
    const int64_t in = channels_of(p, "block_in"), z = sg_found_row(p, in, "decoder.conv_in.weight");
    int64_t       resnets[LEVELS_MAX + 2], out[LEVELS_MAX + 1], time[LEVELS_MAX], space[LEVELS_MAX];
    resnets[0] = resnets_of(p, "block_out");
    resnets[levels + 1] = resnets_of(p, "block_in");
    out[0] = channels_of(p, "block_out");
    for (int i = 0; i < levels; i++) {
        char stage[24];
        snprintf(stage, sizeof stage, "up_blocks.%d", levels - 1 - i);
        resnets[i + 1] = resnets_of(p, stage);
        out[i + 1] = channels_of(p, stage);
        space[i] = 2;
        time[i] = out[i] ? sg_found_rows(p, "decoder.up_blocks.%d.proj.bias", levels - 1 - i) / out[i] / 4 : 0;
    }
    sg_config_set(
        p->made, "vae", SG_NUMBER("latent_channels", z),
        SG_NUMBER("out_channels", sg_found_rows(p, "decoder.proj_out.bias")),
        SG_NUMBERS("layers_per_block", resnets, levels + 2), SG_NUMBERS("decoder_block_out_channels", out, levels + 1),
        SG_NUMBERS("temporal_expansions", time, levels), SG_NUMBERS("spatial_expansions", space, levels),
        SG_REALS(z == 12 ? "latents_mean" : NULL, mean, 12), SG_REALS(z == 12 ? "latents_std" : NULL, deviation, 12));
    return SG_OK;
}

/* ---- parts ---- */

enum { VAE, ALL = 4 };
static const sg_file_part        parts[ALL];
static const sg_file_part *const with[] = {SHARED(T5), &parts[VAE], NULL};
static const char *const         vae_prefixes[] = {"", "decoder.", "vae.decoder.", "first_stage_model.decoder.", NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of Mochi", .class_name = "MochiTransformer3DModel",                  \
    .usual = "mochi_preview_bf16.safetensors, dit.safetensors, ...", .prefixes = sg_denoiser_prefixes,                 \
    .describe = describe_dit, .with = with

#define A_VAE                                                                                                          \
    .component = "vae", .what = "VAE of Mochi", .class_name = "AutoencoderKLMochi",                                    \
    .usual = "mochi_vae.safetensors or decoder.safetensors", .describe = describe_vae

static const sg_file_part parts[ALL] = {
    [VAE] = {A_VAE, .probe = "blocks.0.1.stack.0.weight", .prefixes = vae_prefixes, .names = &vae_names},
    {A_VAE, .probe = "decoder.block_in.resnets.0.norm1.norm_layer.weight", .prefixes = sg_vae_prefixes},
    {DENOISER, .probe = "t5_yproj.weight", .names = &dit_names},
    {DENOISER, .probe = "time_embed.caption_proj.weight"}};

/* ---- the family ---- */

static const sg_repository_file repository[] = {{"transformer", ".", "dit.", ""}, {"vae", ".", "decoder.", ""}};

static const sg_latent_rgb rgb[] = {{.z = 12,
                                     .bias = {-0.0940f, -0.1418f, -0.1453f},
                                     .factor = {{-0.0069f, -0.0045f, 0.0018f},
                                                {0.0154f, -0.0692f, -0.0274f},
                                                {0.0333f, 0.0019f, 0.0206f},
                                                {-0.1390f, 0.0628f, 0.1678f},
                                                {-0.0725f, 0.0134f, -0.1898f},
                                                {0.0074f, -0.0270f, -0.0209f},
                                                {-0.0176f, -0.0277f, -0.0221f},
                                                {0.5294f, 0.5204f, 0.3852f},
                                                {-0.0326f, -0.0446f, -0.0143f},
                                                {-0.0659f, 0.0153f, -0.0153f},
                                                {0.0185f, -0.0217f, 0.0014f},
                                                {-0.0396f, -0.0495f, -0.0281f}}},
                                    {.z = 0}};

const sg_family_files sg_files_mochi = {
    .checkpoint = {PARTS(parts), REPOSITORY(repository), .repository_usual = "dit.safetensors of Mochi's"},
    .names = &dit_names,
    .rgb = rgb};
