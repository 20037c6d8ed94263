/* mochi_files.c - see mochi_files.h: by which tensor each part of Mochi is known, and its config from the shapes of others.
 *
 * What bites:
 *  - a file of the VAE may hold its encoder too, or the decoder alone without a prefix;
 *  - how much a level of the decoder makes longer and how much larger is one number in its shapes, their product: published
 *    levels make pictures twice as large. */
#include "mochi_files.h"
#include "file_parts.h"
#include "mochi_names.h"

#include <stdio.h>

enum { BLOCKS_MAX = 4096, LEVELS_MAX = 8, RESNETS_MAX = 32, PATCH = 4 /* 2 x 2 */ };

/* ---- the denoiser ---- */

static sg_status describe_dit(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const int64_t width = sg_found_rows(p, "patch_embed.proj.bias"), d = width ? width : 1;
    const int64_t text = sg_found_rows(p, "time_embed.caption_proj.bias");
    const int64_t head = sg_found_rows(p, "transformer_blocks.0.attn1.norm_q.weight");
    int           layers = 0;
    (void)e;
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "transformer_blocks.%d.norm1.linear.bias", layers)) layers++;
    sg_textbuf_printf(
        json,
        "{\"%s\": {\"patch_size\": 2, \"num_layers\": %d, \"in_channels\": %lld, \"pooled_projection_dim\": %lld, "
        "\"text_embed_dim\": %lld, \"time_embed_dim\": %lld",
        p->component, layers, (long long)(sg_found_count(p, "patch_embed.proj.weight") / d / PATCH), (long long)text,
        (long long)(text ? sg_found_count(p, "time_embed.caption_proj.weight") / text : 0),
        (long long)(sg_found_count(p, "time_embed.timestep_embedder.linear_1.weight") / d));
    if (head && width % head == 0)
        sg_textbuf_printf(json, ", \"num_attention_heads\": %lld, \"attention_head_dim\": %lld",
                          (long long)(width / head), (long long)head);
    sg_textbuf_printf(json, "}, \"scheduler\": {\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", \"shift\": 1.0, "
                            "\"invert_sigmas\": true}, \"model_index\": {\"_class_name\": \"MochiPipeline\"}}");
    return SG_OK;
}

static const sg_file_part *const with[] = {&sg_t5_file, &sg_mochi_vae_file, NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of Mochi", .class_name = "MochiTransformer3DModel",                  \
    .usual = "mochi_preview_bf16.safetensors, dit.safetensors, ...", .prefixes = sg_denoiser_prefixes,                 \
    .describe = describe_dit, .with = with

const sg_file_part sg_mochi_dit_file = {DENOISER, .probe = "t5_yproj.weight", .names = &sg_mochi_dit_names};
const sg_file_part sg_mochi_dit_diffusers_file = {DENOISER, .probe = "time_embed.caption_proj.weight"};

/* ---- the VAE ---- */

/* These are the mean and the deviation of the latents, in the order of the channels, from diffusers'
 * AutoencoderKLMochi. */
static const char mean[] = "-0.06730895953510081, -0.038011381506090416, -0.07477820912866141, -0.05565264470995561, "
                           "0.012767231469026969, -0.04703542746246419, 0.043896967884726704, -0.09346305707025976, "
                           "-0.09918314763016893, -0.008729793427399178, -0.011931556316503654, -0.0321993391887285";
static const char deviation[] = "0.9263795028493863, 0.9248894543193766, 0.9393059390890617, 0.959253732819592, "
                                "0.8244560132752793, 0.917259975397747, 0.9294154431013696, 1.3720942357788521, "
                                "0.881393668867029, 0.9168315692124348, 0.9185249279345552, 0.9274757570805041";

static int64_t channels_of(const sg_found_part *p, const char *stage)
{
    return sg_found_rows(p, "decoder.%s.resnets.0.conv1.conv.bias", stage);
}

static int resnets_of(const sg_found_part *p, const char *stage)
{
    int n = 0;
    while (n < RESNETS_MAX && sg_found_tensor(p, "decoder.%s.resnets.%d.conv1.conv.bias", stage, n)) n++;
    return n;
}

/* Every list of the config begins at the end of the decoder. */
static sg_status describe_vae(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    char          name[LEVELS_MAX][24];
    int           levels = 0;
    const int64_t in = channels_of(p, "block_in"), z = in ? sg_found_count(p, "decoder.conv_in.weight") / in : 0;
    (void)e;
    for (; levels < LEVELS_MAX && sg_found_tensor(p, "decoder.up_blocks.%d.proj.bias", levels); levels++)
        snprintf(name[levels], sizeof name[levels], "up_blocks.%d", levels);
    sg_textbuf_printf(json, "{\"vae\": {\"latent_channels\": %lld, \"out_channels\": %lld, \"layers_per_block\": [%d",
                      (long long)z, (long long)sg_found_rows(p, "decoder.proj_out.bias"), resnets_of(p, "block_out"));
    for (int i = levels; i-- > 0;) sg_textbuf_printf(json, ", %d", resnets_of(p, name[i]));
    sg_textbuf_printf(json, ", %d], \"decoder_block_out_channels\": [%lld", resnets_of(p, "block_in"),
                      (long long)channels_of(p, "block_out"));
    for (int i = levels; i-- > 0;) sg_textbuf_printf(json, ", %lld", (long long)channels_of(p, name[i]));
    sg_textbuf_printf(json, "], \"temporal_expansions\": [");
    for (int i = levels; i-- > 0;) {
        const int64_t after = channels_of(p, i + 1 < levels ? name[i + 1] : "block_out");
        sg_textbuf_printf(json, "%lld%s",
                          (long long)(after ? sg_found_rows(p, "decoder.up_blocks.%d.proj.bias", i) / after / 4 : 0),
                          i ? ", " : "");
    }
    sg_textbuf_printf(json, "], \"spatial_expansions\": [");
    for (int i = levels; i-- > 0;) sg_textbuf_printf(json, "2%s", i ? ", " : "");
    sg_textbuf_printf(json, "]");
    if (z == 12) sg_textbuf_printf(json, ", \"latents_mean\": [%s], \"latents_std\": [%s]", mean, deviation);
    sg_textbuf_printf(json, "}}");
    return SG_OK;
}

static const char *const vae_prefixes[] = {"", "decoder.", "vae.decoder.", "first_stage_model.decoder.", NULL};

#define VAE                                                                                                            \
    .component = "vae", .what = "VAE of Mochi", .class_name = "AutoencoderKLMochi",                                    \
    .usual = "mochi_vae.safetensors or decoder.safetensors", .describe = describe_vae

const sg_file_part sg_mochi_vae_file = {VAE, .probe = "blocks.0.1.stack.0.weight", .prefixes = vae_prefixes,
                                        .names = &sg_mochi_vae_names};
const sg_file_part sg_mochi_vae_diffusers_file = {VAE, .probe = "decoder.block_in.resnets.0.norm1.norm_layer.weight",
                                                  .prefixes = sg_vae_prefixes};
