/* wan_files.c - see wan_files.h: by which tensor each part of Wan is known, and its config from the shapes of others.
 *
 * What bites:
 *  - no single file says how many heads there are: published models have heads of 128;
 *  - 2.1 T2V 14B and both experts of 2.2 A14B have the same names and shapes, and so have 2.1's image to video for 480p and
 *    for 720p, of which the first has a flow shift of 3, the second 5;
 *  - a file may have a tensor in another shape of as many numbers (GGUF): counts and biases are surer than dimensions;
 *  - no file of a VAE has the mean and the deviation of its latents. */
#include "wan_files.h"
#include "file_parts.h"
#include "wan_names.h"

#include <stdio.h>

enum { BLOCKS_MAX = 4096, LEVELS_MAX = 8, RESNETS_MAX = 9, HEAD = 128, PATCH = 4 /* 1 x 2 x 2 */ };

/* ---- the denoiser ---- */

#define EMBEDDER "condition_embedder.image_embedder."

/* What is not rendered, by what the names of its tensors begin with. */
static const struct {
    const char *begins, *what;
} variants[] = {{"vace_patch_embedding.", "VACE"},
                {"control_adapter.", "camera control"},
                {"casual_audio_encoder.", "S2V (speech to video)"},
                {"audio_proj.", "HuMo"},
                {"face_adapter.", "Animate"},
                {"ref_conv.", "Fun with a reference image"}};

static sg_status refuse(const sg_found_part *p, const char *what, sg_error *e)
{
    return sg_error_set(e, SG_E_UNSUPPORTED,
                        "%s: is Wan %s, which is not rendered; Wan text to video and image to video are",
                        sg_source_path(p->source), what);
}

/* Which channels go in where a model sees pictures through CLIP, its parts check among themselves. */
static sg_status check_variant(const sg_found_part *p, int64_t in, int64_t out, bool clip, sg_error *e)
{
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (sg_found_any(p, variants[i].begins)) return refuse(p, variants[i].what, e);
    if (in == out || (in == 36 && out == 16) || clip) return SG_OK;
    char what[96];
    snprintf(what, sizeof what, "of %lld channels in and %lld out", (long long)in, (long long)out);
    return refuse(p, what, e);
}

/* The heads where somebody says it: an original repository's config.json. */
static int64_t heads_of(const sg_found_part *p, int64_t width)
{
    const int64_t unknown = width % HEAD == 0 ? width / HEAD : 0;
    if (!p->beside || strcmp(sg_config_string(p->beside, "_class_name", ""), "WanModel") != 0) return unknown;
    const int64_t heads = sg_config_int(p->beside, "num_heads", 1, 1024, &unknown);
    return heads && width % heads == 0 ? heads : unknown;
}

static sg_status describe_dit(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const int64_t width = sg_found_rows(p, "patch_embedding.bias"), d = width ? width : 1;
    const int64_t in = sg_found_count(p, "patch_embedding.weight") / d / PATCH;
    const int64_t out = sg_found_rows(p, "proj_out.bias") / PATCH, heads = heads_of(p, width);
    int           layers = 0;
    while (layers < BLOCKS_MAX && sg_found_tensor(p, "blocks.%d.scale_shift_table", layers)) layers++;
    /* of pictures: numbers of a token, and how many tokens have places of their own */
    const int64_t image_dim = sg_found_rows(p, EMBEDDER "norm1.weight");
    const int64_t places = image_dim ? sg_found_count(p, EMBEDDER "pos_embed") / image_dim : 0;
    SG_TRY(check_variant(p, in, out, image_dim > 0, e));
    const bool ti2v = in == 48 && out == 48, image = in != out;
    const int  shift = places ? 16 : ti2v || (image && !image_dim) ? 5 : p->two ? 12 : 3;
    sg_textbuf_printf(
        json,
        "{\"%s\": {\"patch_size\": [1, 2, 2], \"ffn_dim\": %lld, \"num_layers\": %d, \"in_channels\": %lld, "
        "\"out_channels\": %lld, \"text_dim\": %lld, \"freq_dim\": %lld",
        p->component, (long long)sg_found_rows(p, "blocks.0.ffn.net.0.proj.bias"), layers, (long long)in,
        (long long)out, (long long)sg_found_count(p, "condition_embedder.text_embedder.linear_1.weight") / d,
        (long long)sg_found_count(p, "condition_embedder.time_embedder.linear_1.weight") / d);
    if (image_dim)
        sg_textbuf_printf(json, ", \"image_dim\": %lld, \"added_kv_proj_dim\": %lld", (long long)image_dim,
                          (long long)width);
    if (places) sg_textbuf_printf(json, ", \"pos_embed_seq_len\": %lld", (long long)places);
    if (heads)
        sg_textbuf_printf(json, ", \"num_attention_heads\": %lld, \"attention_head_dim\": %lld", (long long)heads,
                          (long long)(width / heads));
    sg_textbuf_printf(json,
                      "}, \"scheduler\": {\"_class_name\": \"UniPCMultistepScheduler\", \"prediction_type\": "
                      "\"flow_prediction\", \"use_flow_sigmas\": true, \"flow_shift\": %d}, "
                      "\"model_index\": {\"_class_name\": \"WanPipeline\", \"expand_timesteps\": %s",
                      shift, ti2v ? "true" : "false");
    if (p->two) sg_textbuf_printf(json, ", \"boundary_ratio\": %s", image ? "0.9" : "0.875");
    sg_textbuf_printf(json, "}}");
    return SG_OK;
}

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of Wan", .class_name = "WanTransformer3DModel",                      \
    .prefixes = sg_denoiser_prefixes, .describe = describe_dit
#define USUAL .usual = "wan2.1_t2v_1.3B_fp16.safetensors, Wan2.2-T2V-A14B-HighNoise-Q4_K_M.gguf, ..."
#define USUAL_IMAGE .usual = "wan2.1_i2v_480p_14B_fp16.safetensors, wan2.1-flf2v-14b-720p-Q4_K_M.gguf, ..."

static const sg_file_part *const with[] = {&sg_umt5_file, &sg_wan_vae_file, NULL};
static const sg_file_part *const with_image[] = {&sg_umt5_file, &sg_wan_vae_file, &sg_clip_vision_file, NULL};

const sg_file_part sg_wan_dit_file = {
    DENOISER,    USUAL, .probe = "head.modulation", .not_probe = "img_emb.proj.0.weight", .names = &sg_wan_dit_names,
    .with = with};
const sg_file_part sg_wan_dit_diffusers_file = {DENOISER, USUAL, .probe = "condition_embedder.time_proj.weight",
                                                .not_probe = EMBEDDER "norm1.weight", .with = with};
/* 2.1 image to video, which sees the pictures through CLIP too */
const sg_file_part sg_wan_dit_image_file = {DENOISER, USUAL_IMAGE, .probe = "img_emb.proj.0.weight",
                                            .names = &sg_wan_dit_names, .with = with_image};
const sg_file_part sg_wan_dit_image_diffusers_file = {DENOISER, USUAL_IMAGE, .probe = EMBEDDER "norm1.weight",
                                                      .with = with_image};

/* ---- the VAE ---- */

/* These are the means and deviations of the latents of 2.1 and 2.2, from wan/modules/vae2_1.py and vae2_2.py. */
static const char mean16[] =
    "-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517, "
    "-0.3632, -0.1922, -0.9497, 0.2503, -0.2921";
static const char std16[] =
    "2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579, "
    "1.6382, 1.1253, 2.8251, 1.916";
static const char mean48[] =
    "-0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542, 0.2813, "
    "0.0891, 0.157, -0.0098, 0.0375, -0.1825, -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, "
    "-0.2158, 0.2502, -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.123, -0.0313, "
    "-0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.052, 0.3748, 0.0152, 0.1957, 0.1433, -0.2944, 0.3573, "
    "-0.0548, -0.1681, -0.0667";
static const char std48[] =
    "0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.499, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901, "
    "0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659, "
    "0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944, "
    "0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.06, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744";

/* The encoder's level: where its first block, and its way to the next level, stand. */
static const sg_source_tensor *block_of(const sg_found_part *p, bool residual, int level, int blocks)
{
    if (residual) return sg_found_tensor(p, "encoder.down_blocks.%d.resnets.0.conv1.bias", level);
    return sg_found_tensor(p, "encoder.down_blocks.%d.conv1.bias", level * (blocks + 1));
}

static bool halves_time(const sg_found_part *p, bool residual, int level, int blocks)
{
    if (residual) return sg_found_tensor(p, "encoder.down_blocks.%d.downsampler.time_conv.weight", level) != NULL;
    return sg_found_tensor(p, "encoder.down_blocks.%d.time_conv.weight", level * (blocks + 1) + blocks) != NULL;
}

static int64_t dim_of(const sg_source_tensor *t, int i) { return t && t->rank > i ? t->dim[i] : 0; }

static sg_status describe_vae_as(sg_textbuf *json, const sg_found_part *p, bool residual)
{
    const int64_t base = sg_found_rows(p, "encoder.conv_in.bias"), z = sg_found_rows(p, "post_quant_conv.bias");
    const int64_t in = dim_of(sg_found_tensor(p, "encoder.conv_in.weight"), 1);
    int64_t       mult[LEVELS_MAX] = {1};
    int           resnets = 0, levels = 0, patch = 1, time = 1;
    while (resnets < RESNETS_MAX && sg_found_tensor(p, "decoder.up_blocks.0.resnets.%d.conv1.bias", resnets)) resnets++;
    for (; levels < LEVELS_MAX && sg_found_tensor(p, "decoder.up_blocks.%d.resnets.0.conv1.bias", levels); levels++)
        mult[levels] = base ? dim_of(block_of(p, residual, levels, resnets - 1), 0) / base : 0;
    while (patch < 32 && 3 * patch * patch < in) patch++;
    sg_textbuf_printf(
        json,
        "{\"vae\": {\"base_dim\": %lld, \"decoder_base_dim\": %lld, \"z_dim\": %lld, \"num_res_blocks\": %d, "
        "\"patch_size\": %d, \"is_residual\": %s, \"in_channels\": %lld, \"out_channels\": %lld, \"dim_mult\": [",
        (long long)base, (long long)(mult[0] ? sg_found_count(p, "decoder.norm_out.gamma") / mult[0] : 0), (long long)z,
        resnets - 1, patch, residual ? "true" : "false", (long long)in,
        (long long)sg_found_rows(p, "decoder.conv_out.bias"));
    for (int i = 0; i < levels; i++) sg_textbuf_printf(json, "%s%lld", i ? ", " : "", (long long)mult[i]);
    sg_textbuf_printf(json, "], \"temperal_downsample\": [");
    for (int i = 0; i + 1 < levels; i++) {
        const bool halves = halves_time(p, residual, i, resnets - 1);
        time <<= halves;
        sg_textbuf_printf(json, "%s%s", i ? ", " : "", halves ? "true" : "false");
    }
    sg_textbuf_printf(json, "], \"scale_factor_temporal\": %d, \"scale_factor_spatial\": %d", time,
                      levels ? patch << (levels - 1) : 1);
    if (z == 16 || z == 48)
        sg_textbuf_printf(json, ", \"latents_mean\": [%s], \"latents_std\": [%s]", z == 16 ? mean16 : mean48,
                          z == 16 ? std16 : std48);
    sg_textbuf_printf(json, "}}");
    return SG_OK;
}

static sg_status describe_vae(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    (void)e;
    return describe_vae_as(json, p, false);
}

static sg_status describe_residual(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    (void)e;
    return describe_vae_as(json, p, true);
}

#define VAE                                                                                                            \
    .component = "vae", .what = "VAE of Wan", .class_name = "AutoencoderKLWan", .prefixes = sg_vae_prefixes,           \
    .usual = "wan_2.1_vae.safetensors or Wan2.1_VAE.pth; for 2.2 5B wan2.2_vae.safetensors or Wan2.2_VAE.pth"
#define RESIDUAL "decoder.upsamples.0.upsamples.0.residual.2.weight" /* only 2.2 has levels in lists */
#define RESIDUAL_DIFFUSERS "encoder.down_blocks.0.resnets.0.conv1.weight"

const sg_file_part sg_wan_vae_file = {VAE,
                                      .probe = "decoder.middle.0.residual.0.gamma",
                                      .not_probe = RESIDUAL,
                                      .names = &sg_wan_vae_names,
                                      .span = "decoder.up_blocks.0.upsamplers.0.resample.1.weight",
                                      .describe = describe_vae};
const sg_file_part sg_wan_vae_residual_file = {VAE, .probe = RESIDUAL, .names = &sg_wan_vae_residual_names,
                                               .span = "decoder.up_blocks.0.upsampler.resample.1.weight",
                                               .describe = describe_residual};
const sg_file_part sg_wan_vae_diffusers_file = {VAE, .probe = "decoder.mid_block.resnets.0.norm1.gamma",
                                                .not_probe = RESIDUAL_DIFFUSERS, .describe = describe_vae};
const sg_file_part sg_wan_vae_residual_diffusers_file = {VAE, .probe = RESIDUAL_DIFFUSERS,
                                                         .describe = describe_residual};
