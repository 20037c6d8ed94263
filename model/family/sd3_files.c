/* sd3_files.c - see sd3_files.h: by which tensor the denoiser of Stable Diffusion 3 and 3.5 is known, and its config from the shapes of
 * others.
 *
 * What bites:
 *  - heads have 64 numbers, which no file of SD3 medium says, since it has no norms of queries and keys;
 *  - the latents of its VAE are scaled otherwise than those of Flux.1, whose file has the same names and shapes;
 *  - T5 may be missing. */
#include "sd3_files.h"
#include "file_parts.h"
#include "sd3_names.h"

enum { BLOCKS_MAX = 4096, PLACES_MAX = 4096, HEAD = 64, PATCH = 4 /* 2 x 2 */ };

/* The root of a square, rounded down. */
static int64_t root_of(int64_t area)
{
    int64_t side = 0;
    while (side < PLACES_MAX && (side + 1) * (side + 1) <= area) side++;
    return side;
}

static sg_status describe_dit(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const int64_t width = sg_found_rows(p, "pos_embed.proj.bias"), d = width ? width : 1;
    const int64_t norm = sg_found_rows(p, "transformer_blocks.0.attn.norm_q.weight"), head = norm ? norm : HEAD;
    int           layers = 0, duals = 0;
    (void)e;
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "transformer_blocks.%d.norm1.linear.bias", layers)) layers++;
    sg_textbuf_printf(
        json,
        "{\"%s\": {\"patch_size\": 2, \"num_layers\": %d, \"in_channels\": %lld, \"out_channels\": %lld, "
        "\"joint_attention_dim\": %lld, \"caption_projection_dim\": %lld, \"pooled_projection_dim\": %lld, "
        "\"pos_embed_max_size\": %lld, \"sample_size\": 128, \"num_attention_heads\": %lld, \"attention_head_dim\": "
        "%lld, "
        "\"qk_norm\": %s, \"dual_attention_layers\": [",
        p->component, layers, (long long)(sg_found_count(p, "pos_embed.proj.weight") / d / PATCH),
        (long long)(sg_found_rows(p, "proj_out.bias") / PATCH),
        (long long)(sg_found_count(p, "context_embedder.weight") / d), (long long)width,
        (long long)(sg_found_count(p, "time_text_embed.text_embedder.linear_1.weight") / d),
        (long long)root_of(sg_found_count(p, "pos_embed.pos_embed") / d),
        (long long)(width % head == 0 ? width / head : 0), (long long)head, norm ? "\"rms_norm\"" : "null");
    for (int i = 0; i < layers; i++)
        if (sg_found_tensor(p, "transformer_blocks.%d.attn2.to_q.weight", i))
            sg_textbuf_printf(json, "%s%d", duals++ ? ", " : "", i);
    sg_textbuf_printf(json,
                      "]}, \"scheduler\": {\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", \"shift\": 3.0}, "
                      "\"vae\": {\"scaling_factor\": 1.5305, \"shift_factor\": 0.0609}, \"model_index\": "
                      "{\"_class_name\": \"StableDiffusion3Pipeline\"}}");
    return SG_OK;
}

static const sg_file_part *const with[] = {&sg_clip_l_file, &sg_clip_g_file, &sg_t5_file, &sg_kl_vae_file, NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of Stable Diffusion 3", .class_name = "SD3Transformer2DModel",       \
    .usual = "sd3.5_large.safetensors, sd3.5_medium-Q8_0.gguf, ...", .prefixes = sg_denoiser_prefixes,                 \
    .describe = describe_dit, .with = with, .spare = &sg_t5_file

const sg_file_part sg_sd3_dit_file = {DENOISER, .probe = "joint_blocks.0.context_block.attn.qkv.weight",
                                      .names = &sg_sd3_dit_names, .span = SG_SD3_LAST};
const sg_file_part sg_sd3_dit_diffusers_file = {DENOISER, .probe = "pos_embed.pos_embed"};
