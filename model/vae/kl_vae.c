/* kl_vae.c - AutoencoderKL of diffusers (arXiv:2112.10752): config, tensors, decoder and encoder as vae.h has them.
 *
 * What bites:
 *  - use_quant_conv, use_post_quant_conv and mid_block_add_attention are true where the config lacks them, shift_factor is 0;
 *  - the pipelines of its models subtract shift_factor before they multiply by scaling_factor, and draw latents from the
 *    distribution;
 *  - a tile has sample_size pixels a side, so that frames up to that size are decoded whole in tiles too;
 *  - force_upcast is for pipelines that run in F16: those of Flux.1 and Stable Diffusion 3 do not read it, and neither do
 *    we. */
#include "kl_vae.h"

#include "kl_coder.h"
#include "tiles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct sg_kl_vae {
    sg_component component, encoder_component; /* the second borrows all but its binding from the first */
    int          z;
    int64_t      tile; /* pixels */
    double       scaling, shift;
    bool         tiled;
    sg_kl_coder  decoder, encoder;
};

/* One clip being decoded or encoded. */
typedef struct run {
    const sg_kl_vae *vae;
    sg_tensor scale, shift; /* F32 [z]: of latents that come; F32 [2 z]: of those that are made, and of variances */
} run;

sg_component *sg_kl_vae_component(sg_kl_vae *v) { return &v->component; }
sg_component *sg_kl_vae_encoder(sg_kl_vae *v) { return &v->encoder_component; }

sg_vae_info sg_kl_vae_describe(const sg_kl_vae *v)
{
    return (sg_vae_info){
        .z = v->z, .scale_time = 1, .scale_space = 1 << (v->decoder.levels - 1), .scaling = v->scaling};
}

/* ---- config ---- */

static sg_status read_config(sg_kl_vae *v, sg_config *f)
{
    static const char *const absent[] = {"latents_mean", "latents_std"};
    const bool               yes = true;
    const double             none = 0;
    sg_kl_coders_read(&v->decoder, &v->encoder, v->component.act, 1, f);
    SG_TRY(sg_config_status(f)); /* what follows goes by these */
    for (int i = 0; i + 1 < v->decoder.levels; i++) v->decoder.level[i].space = v->encoder.level[i].space = true;
    v->z = (int)sg_config_int(f, "latent_channels", 1, SG_KL_Z, &(int64_t){4});
    v->decoder.has_quant = sg_config_bool(f, "use_post_quant_conv", &yes);
    v->encoder.has_quant = sg_config_bool(f, "use_quant_conv", &yes);
    v->scaling = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &(double){0.18215});
    v->shift = sg_config_real(f, "shift_factor", -1e6, 1e6, &none);
    v->tile = sg_config_int(f, "sample_size", 1, SG_KL_SIDE, &(int64_t){32});
    sg_kl_check_types(f, "up_block_types", "UpDecoderBlock2D", v->decoder.levels, 1);
    sg_kl_check_types(f, "down_block_types", "DownEncoderBlock2D", v->encoder.levels, 1);
    sg_kl_check_fixed(f);
    for (int i = 0; i < 2; i++)
        if (sg_config_has(f, absent[i])) sg_config_fail(f, absent[i], "only null is supported");
    return sg_config_status(f);
}

/* ---- opening ---- */

static sg_status open_component(sg_kl_vae *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", "AutoencoderKL", act, f, e));
    SG_TRY(read_config(v, *f));
    const sg_vae_info i = sg_kl_vae_describe(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d, %d latent channels, %d levels from %d",
             i.scale_space, i.scale_space, i.z, v->encoder.levels, (int)v->encoder.level[0].out);
    return sg_kl_coders_bind(&v->component, &v->encoder_component, &v->decoder, &v->encoder, v->z, e);
}

sg_status sg_kl_vae_open(sg_kl_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e)
{
    sg_kl_vae *v = *out = calloc(1, sizeof *v);
    sg_config *f = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "%s/vae: out of memory", sg_checkpoint_path(c));
    const sg_status st = open_component(v, c, act, &f, e);
    sg_config_close(&f);
    if (st) sg_kl_vae_close(out);
    return st;
}

void sg_kl_vae_close(sg_kl_vae **v)
{
    if (!*v) return;
    sg_bind_close(&(*v)->encoder_component.bind);
    sg_component_close(&(*v)->component);
    free(*v);
    *v = NULL;
}

/* ---- both directions ---- */

static sg_component *component(void *of) { return sg_kl_vae_component(of); }
static sg_component *encoder(void *of) { return sg_kl_vae_encoder(of); }

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return done < total;
}

static int special(const void *of)
{
    (void)of;
    return 0;
}

static bool set_tiles(void *of, bool on)
{
    sg_kl_vae *const v = of;
    v->tiled = on && sg_tiles_fit(v->tile, sg_kl_vae_describe(v).scale_space);
    return v->tiled == on;
}

static sg_status run_open(void **out, const sg_kl_vae *v, sg_error *e)
{
    run *const r = *out = calloc(1, sizeof *r);
    if (!r) return sg_error_memory(e, v->component.dir);
    r->vae = v;
    return SG_OK;
}

/* y = scale x + shift, of so many numbers. */
static void keep_map(run *r, sg_stream *s, const float *scale, const float *shift, int64_t numbers)
{
    r->scale = sg_new_keep(s, SG_F32, numbers);
    r->shift = sg_new_keep(s, SG_F32, numbers);
    sg_upload(s, r->scale, scale);
    sg_upload(s, r->shift, shift);
}

static void run_close(void **r)
{
    free(*r);
    *r = NULL;
}

/* ---- the decoder ---- */

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    const sg_kl_vae *const v = of;
    const int64_t          most = SG_KL_SIDE / sg_kl_vae_describe(v).scale_space;
    float                  scale[SG_KL_Z], shift[SG_KL_Z];
    *out = NULL;
    if (y < 1 || y > most || x < 1 || x > most)
        return sg_error_set(e, SG_E_ARG, "latents of %lld x %lld places cannot be decoded", (long long)x, (long long)y);
    SG_TRY(run_open(out, v, e));
    for (int i = 0; i < v->z; i++) {
        scale[i] = (float)(1 / v->scaling);
        shift[i] = (float)v->shift;
    }
    keep_map(*out, s, scale, shift, v->z);
    return SG_OK;
}

/* Not clamped, F32 in s->scratch. */
static sg_tensor decode_whole(void *of, sg_stream *s, sg_tensor z)
{
    const run *const r = of;
    const int        scale = sg_kl_vae_describe(r->vae).scale_space;
    const sg_tensor  frame = sg_new(s, SG_F32, 1, z.dim[1] * scale, z.dim[2] * scale, SG_KL_RGB);
    const size_t     mark = s->scratch.used;
    sg_copy(s, .y = frame, .x = sg_kl_decode(&r->vae->decoder, s, z, r->scale, r->shift));
    s->scratch.used = mark;
    return frame;
}

static sg_tensor decode_next(void *of, sg_stream *s, sg_tensor z, bool last)
{
    run *const       r = of;
    const sg_kl_vae *v = r->vae;
    const int        scale = sg_kl_vae_describe(v).scale_space;
    const sg_tiles   tiles = {
          .run = r, .x_side = v->tile / scale, .y_side = v->tile, .count = 1, .next = decode_whole, .clamp = true};
    const sg_tensor frame = sg_new(s, SG_F32, 1, z.dim[1] * scale, z.dim[2] * scale, SG_KL_RGB);
    const size_t    mark = s->scratch.used;
    (void)last;
    if (v->tiled)
        sg_tiles_run(&tiles, s, frame, z);
    else
        sg_activate(s, .y = frame, .x = decode_whole(r, s, z), .act = SG_ACT_CLAMP);
    sg_tap(s, frame, "vae.frames");
    s->scratch.used = mark;
    return frame;
}

/* ---- the encoder ---- */

static sg_status encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    const sg_kl_vae *const v = of;
    const int              m = sg_kl_vae_describe(v).scale_space, z = v->z;
    float                  scale[2 * SG_KL_Z], shift[2 * SG_KL_Z];
    *out = NULL;
    if (height < 1 || height > SG_KL_SIDE || height % m || width < 1 || width > SG_KL_SIDE || width % m)
        return sg_error_set(e, SG_E_ARG, "frames of %lldx%lld: width and height must be multiples of %d up to %d",
                            (long long)width, (long long)height, m, SG_KL_SIDE);
    SG_TRY(run_open(out, v, e));
    for (int i = 0; i < z; i++) {
        scale[i] = (float)v->scaling;
        shift[i] = (float)(-v->shift * v->scaling);
        scale[z + i] = 1;
        shift[z + i] = (float)(2 * log(v->scaling));
    }
    keep_map(*out, s, scale, shift, 2 * (int64_t)z);
    return SG_OK;
}

static sg_tensor encode_whole(void *of, sg_stream *s, sg_tensor frame)
{
    const run *const r = of;
    const int        scale = sg_kl_vae_describe(r->vae).scale_space;
    const sg_tensor  both = sg_new(s, SG_F32, 1, frame.dim[1] / scale, frame.dim[2] / scale, 2 * (int64_t)r->vae->z);
    const size_t     mark = s->scratch.used;
    sg_copy(s, .y = both, .x = sg_kl_encode(&r->vae->encoder, s, frame));
    s->scratch.used = mark;
    return both;
}

static sg_tensor encode_next(void *of, sg_stream *s, sg_tensor frame)
{
    run *const       r = of;
    const sg_kl_vae *v = r->vae;
    const int        scale = sg_kl_vae_describe(v).scale_space;
    const int64_t    numbers = 2 * (int64_t)v->z;
    const sg_tiles   tiles = {.run = r, .x_side = v->tile, .y_side = v->tile / scale, .count = 1, .next = encode_whole};
    const sg_tensor  latents = sg_new(s, SG_F32, 1, frame.dim[1] / scale, frame.dim[2] / scale, numbers);
    const size_t     mark = s->scratch.used;
    sg_tensor        both;
    if (v->tiled)
        sg_tiles_run(&tiles, s, both = sg_alloc(s, &s->scratch, SG_F32, 4, latents.dim), frame);
    else
        both = encode_whole(r, s, frame);
    sg_norm(s, .y = latents, .x = both, .w = r->scale, .b = r->shift, .kind = SG_NORM_NONE);
    s->scratch.used = mark;
    return latents;
}

static void vae_close(void *of)
{
    sg_kl_vae *v = of;
    sg_kl_vae_close(&v);
}

const sg_vae_ops sg_kl_vae_ops = {.component = component,
                                  .chunk = chunk,
                                  .special = special,
                                  .set_tiles = set_tiles,
                                  .decode_open = decode_open,
                                  .decode_next = decode_next,
                                  .decode_close = run_close,
                                  .encoder = encoder,
                                  .encode_chunk = chunk,
                                  .encode_open = encode_open,
                                  .encode_next = encode_next,
                                  .encode_close = run_close,
                                  .sampled = true,
                                  .close = vae_close};
