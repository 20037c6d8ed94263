/* mochi_vae_decode.c - AutoencoderKLMochi as a decoder of vae.h: a stream, or in tiles. */
#include "mochi_vae_parts.h"
#include "tiles.h"

#include <stdlib.h>

enum { PIXELS_MAX = 1 << 16 };

static sg_component *component(void *of) { return sg_mochi_vae_component(of); }

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    const sg_mochi_vae *const v = of;
    return v->tiled ? total - done : done < total;
}

/* The first latent makes one frame. */
static int special(const void *of)
{
    (void)of;
    return 1;
}

static sg_status decode_open(void **run, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    const sg_mochi_vae *const v = of;
    const int                 scale = sg_mochi_vae_describe(v).scale_space;
    *run = NULL;
    if (y < 1 || y > PIXELS_MAX / scale || x < 1 || x > PIXELS_MAX / scale)
        return sg_error_set(e, SG_E_ARG, "latents of %lld x %lld places cannot be decoded", (long long)x, (long long)y);
    *run = sg_mochi_vae_run_open(s, v);
    if (!*run) return sg_error_memory(e, v->component.dir);
    if (!v->tiled) sg_mochi_vae_run_begin(*run, s, y, x);
    return SG_OK;
}

static void      begin_tile(void *run, sg_stream *s, int64_t y, int64_t x) { sg_mochi_vae_run_begin(run, s, y, x); }
static sg_tensor next_of_tile(void *run, sg_stream *s, sg_tensor z) { return sg_mochi_vae_run_next(run, s, z); }

/* All latents, tile by tile, so that only one tile's histories are held; the frames are small beside them. */
static sg_tensor decode_in_tiles(sg_mochi_vae_run *r, sg_stream *s, sg_tensor z)
{
    const sg_vae_info v = sg_mochi_vae_describe(r->vae);
    const int64_t     n = (z.dim[0] - 1) * v.scale_time + 1;
    const sg_tensor   frames = sg_new(s, SG_F32, n, z.dim[1] * v.scale_space, z.dim[2] * v.scale_space, 3);
    const sg_tiles    tiles = {.run = r,
                               .x_side = SG_TILE / v.scale_space,
                               .y_side = SG_TILE,
                               .count = 1,
                               .begin = begin_tile,
                               .next = next_of_tile,
                               .clamp = true};
    sg_tiles_run(&tiles, s, frames, z);
    sg_tap(s, frames, "vae.frames");
    return frames;
}

static sg_tensor decode_next(void *run, sg_stream *s, sg_tensor z, bool last)
{
    (void)last;
    sg_mochi_vae_run *const r = run;
    if (r->vae->tiled) return decode_in_tiles(r, s, z);
    const int       scale = sg_mochi_vae_describe(r->vae).scale_space;
    const int64_t   n = r->begun ? sg_mochi_vae_describe(r->vae).scale_time : 1;
    const sg_tensor frames = sg_new(s, SG_F32, n, z.dim[1] * scale, z.dim[2] * scale, 3);
    const size_t    mark = s->scratch.used;
    sg_activate(s, .y = frames, .x = sg_mochi_vae_run_next(r, s, z), .act = SG_ACT_CLAMP);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    return frames;
}

static void decode_close(void **run)
{
    free(*run);
    *run = NULL;
}

static bool set_tiles(void *of, bool on)
{
    sg_mochi_vae *const v = of;
    v->tiled = on && sg_tiles_fit(SG_TILE, sg_mochi_vae_describe(v).scale_space);
    return v->tiled == on;
}

static void close_vae(void *of)
{
    sg_mochi_vae *v = of;
    sg_mochi_vae_close(&v);
}

const sg_vae_ops sg_mochi_vae_ops = {.component = component,
                                     .chunk = chunk,
                                     .special = special,
                                     .set_tiles = set_tiles,
                                     .decode_open = decode_open,
                                     .decode_next = decode_next,
                                     .decode_close = decode_close,
                                     .close = close_vae};
