/* hunyuan_vae.c - AutoencoderKLHunyuanVideo of diffusers (arXiv:2412.03603): config, tensors, what they must be.
 *
 * What bites:
 *  - the first levels change in space, the two before the last in time, some in both; levels count from the pixels on in
 *    the encoder, from the latents on in the decoder;
 *  - the mean and variance of a group norm, attention and the frames before the first are those of a window, so that the
 *    windows are part of the model: hunyuan_vae_decode.c. */
#include "hunyuan_vae_parts.h"

#include <stdio.h>
#include <stdlib.h>

enum { PUBLISHED_LEVELS = 4 };

sg_component *sg_hunyuan_vae_component(sg_hunyuan_vae *v) { return &v->component; }
sg_component *sg_hunyuan_vae_encoder(sg_hunyuan_vae *v) { return &v->encoder_component; }

sg_vae_info sg_hunyuan_vae_describe(const sg_hunyuan_vae *v)
{
    sg_vae_info i = {.z = v->z, .scale_time = 1, .scale_space = 1};
    for (int k = 0; k < v->decoder.levels; k++) {
        i.scale_time <<= v->decoder.level[k].time;
        i.scale_space <<= v->decoder.level[k].space;
    }
    return i;
}

/* ---- config ---- */

/* Which levels change, and in what. */
static void set_scales(sg_kl_coder *k, sg_config *f)
{
    const int64_t time = sg_config_int(f, "temporal_compression_ratio", 1, 1 << SG_KL_LEVELS, &(int64_t){4});
    const int64_t space = sg_config_int(f, "spatial_compression_ratio", 1, 1 << SG_KL_LEVELS, &(int64_t){8});
    const int     doublings = 2; /* in time */
    int           made = 1;
    if (time != SG_HUNYUAN_TIME)
        sg_config_fail(f, "temporal_compression_ratio", "%lld is not supported; only %d is", (long long)time,
                       SG_HUNYUAN_TIME);
    if (k->levels <= doublings)
        sg_config_fail(f, "block_out_channels", "%d entries are too few for a temporal_compression_ratio of %d",
                       k->levels, SG_HUNYUAN_TIME);
    for (int i = 0; i < k->levels; i++) {
        k->level[i].time = i >= k->levels - 1 - doublings && i + 1 < k->levels;
        k->level[i].space = made < space;
        made *= k->level[i].space ? 2 : 1;
    }
    if (made != space)
        sg_config_fail(f, "spatial_compression_ratio", "%lld, but %d levels make powers of 2 up to %d",
                       (long long)space, k->levels, 1 << k->levels);
}

static sg_status read_config(sg_hunyuan_vae *v, sg_config *f)
{
    sg_kl_coders_read(&v->decoder, &v->encoder, v->component.act, 2, f);
    SG_TRY(sg_config_status(f)); /* what follows goes by these */
    v->decoder.video = v->encoder.video = true;
    set_scales(&v->decoder, f);
    set_scales(&v->encoder, f);
    v->z = (int)sg_config_int(f, "latent_channels", 1, SG_KL_Z, &(int64_t){16});
    v->scaling = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &(double){0.476986});
    sg_kl_check_types(f, "up_block_types", "HunyuanVideoUpBlock3D", v->decoder.levels, PUBLISHED_LEVELS);
    sg_kl_check_types(f, "down_block_types", "HunyuanVideoDownBlock3D", v->encoder.levels, PUBLISHED_LEVELS);
    sg_kl_check_fixed(f);
    return sg_config_status(f);
}

/* ---- opening ---- */

static sg_status open_component(sg_hunyuan_vae *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", "AutoencoderKLHunyuanVideo", act, f, e));
    SG_TRY(read_config(v, *f));
    const sg_vae_info i = sg_hunyuan_vae_describe(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d x %d, %d latent channels, %d levels from %d",
             i.scale_time, i.scale_space, i.scale_space, i.z, v->encoder.levels, (int)v->encoder.level[0].out);
    return sg_kl_coders_bind(&v->component, &v->encoder_component, &v->decoder, &v->encoder, v->z, e);
}

sg_status sg_hunyuan_vae_open(sg_hunyuan_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e)
{
    sg_hunyuan_vae *v = *out = calloc(1, sizeof *v);
    sg_config      *f = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "%s/vae: out of memory", sg_checkpoint_path(c));
    const sg_status st = open_component(v, c, act, &f, e);
    sg_config_close(&f);
    if (st) sg_hunyuan_vae_close(out);
    return st;
}

void sg_hunyuan_vae_close(sg_hunyuan_vae **v)
{
    if (!*v) return;
    sg_bind_close(&(*v)->encoder_component.bind);
    sg_component_close(&(*v)->component);
    free(*v);
    *v = NULL;
}
