/* hunyuan_vae_decode.c - AutoencoderKLHunyuanVideo as vae.h has it, the decoder: window after window, whole or in tiles.
 *
 * diffusers decodes clips of more than four latent frames in windows. A window has five latent frames, the next begins
 * three on and leaves out its first frame, which the window before has made. The last four frames of a window are then
 * blended with the first four of the next. A chunk is what a window has that the one before it has not; where its five end
 * the clip, two of them are a window once more, and come with it. Fewer than five latent frames are decoded at once. */
#include "hunyuan_vae_parts.h"
#include "tiles.h"

#include <stdlib.h>

/* One clip being decoded. */
typedef struct run {
    const sg_hunyuan_vae *vae;
    bool                  begun;
    sg_tensor             scale; /* F32 [z]: of the latents */
    sg_tensor             kept;  /* F32 [KEPT, y, x, z]: the last latents of a window, the first of the next */
    sg_tensor             tail;  /* F32 [BLEND, H, W, 3]: the last frames of a window, not clamped */
} run;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static sg_component *component(void *of) { return sg_hunyuan_vae_component(of); }
static sg_component *encoder(void *of) { return sg_hunyuan_vae_encoder(of); }

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return least(done ? SG_HUNYUAN_STRIDE : SG_HUNYUAN_WINDOW, total - done);
}

/* Nothing stands before the first. */
static int special(const void *of)
{
    (void)of;
    return 1;
}

static bool set_tiles(void *of, bool on)
{
    sg_hunyuan_vae *const v = of;
    v->tiled = on && sg_tiles_fit(SG_TILE, sg_hunyuan_vae_describe(v).scale_space);
    return v->tiled == on;
}

static void keep_all(run *r, sg_stream *s, int64_t y, int64_t x)
{
    const sg_vae_info i = sg_hunyuan_vae_describe(r->vae);
    float             scale[SG_KL_Z];
    for (int k = 0; k < i.z; k++) scale[k] = (float)(1 / r->vae->scaling);
    r->scale = sg_new_keep(s, SG_F32, i.z);
    sg_upload(s, r->scale, scale);
    r->kept = sg_new_keep(s, SG_F32, SG_HUNYUAN_KEPT, y, x, i.z);
    r->tail = sg_new_keep(s, SG_F32, SG_HUNYUAN_BLEND, y * i.scale_space, x * i.scale_space, SG_KL_RGB);
}

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    const sg_hunyuan_vae *const v = of;
    const int64_t               most = SG_KL_SIDE / sg_hunyuan_vae_describe(v).scale_space;
    *out = NULL;
    if (y < 1 || y > most || x < 1 || x > most)
        return sg_error_set(e, SG_E_ARG, "latents of %lld x %lld places cannot be decoded", (long long)x, (long long)y);
    run *const r = calloc(1, sizeof *r);
    if (!r) return sg_error_memory(e, v->component.dir);
    r->vae = v;
    keep_all(r, s, y, x);
    *out = r;
    return SG_OK;
}

/* All latents of it see each other: their frames, not clamped. */
static sg_tensor next_of_tile(void *of, sg_stream *s, sg_tensor z)
{
    const run *const  r = of;
    const sg_vae_info i = sg_hunyuan_vae_describe(r->vae);
    const sg_tensor   frames = sg_new(s, SG_F32, (z.dim[0] - 1) * i.scale_time + 1, z.dim[1] * i.scale_space,
                                      z.dim[2] * i.scale_space, SG_KL_RGB);
    const size_t      mark = s->scratch.used;
    sg_copy(s, .y = frames, .x = sg_kl_decode(&r->vae->decoder, s, z, r->scale, (sg_tensor){0}));
    s->scratch.used = mark;
    return frames;
}

/* Frames of one window in s->scratch, not clamped. */
static sg_tensor decode_window(run *r, sg_stream *s, sg_tensor z)
{
    const sg_vae_info i = sg_hunyuan_vae_describe(r->vae);
    const sg_tiles    tiles = {
           .run = r, .x_side = SG_TILE / i.scale_space, .y_side = SG_TILE, .count = z.dim[0], .next = next_of_tile};
    if (!r->vae->tiled) return next_of_tile(r, s, z);
    const sg_tensor frames = sg_new(s, SG_F32, (z.dim[0] - 1) * i.scale_time + 1, z.dim[1] * i.scale_space,
                                    z.dim[2] * i.scale_space, SG_KL_RGB);
    sg_tiles_run(&tiles, s, frames, z);
    return frames;
}

/* Decodes the window z and puts its frames behind the first `done` of `frames`, blended with those of the window before;
 * with `more` the last ones are kept for the next window. Returns how many frames there are then. */
static int64_t put_window(run *r, sg_stream *s, sg_tensor frames, int64_t done, sg_tensor z, bool more)
{
    const size_t mark = s->scratch.used;
    sg_tensor    x = decode_window(r, s, z);
    if (r->begun) {
        const sg_tensor first = sg_new(s, SG_F32, SG_HUNYUAN_BLEND, x.dim[1], x.dim[2], SG_KL_RGB);
        x = sg_rows(x, 1, x.dim[0] - 1);
        for (int i = 0; i < SG_HUNYUAN_BLEND; i++) {
            const float share = (float)i / SG_HUNYUAN_BLEND;
            sg_combine(s, .y = sg_rows(first, i, 1), .x = {sg_rows(r->tail, i, 1), sg_rows(x, i, 1)},
                       .a = {1 - share, share}, .count = 2);
        }
        sg_copy(s, .y = sg_rows(x, 0, SG_HUNYUAN_BLEND), .x = first);
    }
    const int64_t n = x.dim[0] - (more ? SG_HUNYUAN_BLEND : 0);
    sg_activate(s, .y = sg_rows(frames, done, n), .x = sg_rows(x, 0, n), .act = SG_ACT_CLAMP);
    if (more) sg_copy(s, .y = r->tail, .x = sg_rows(x, n, SG_HUNYUAN_BLEND));
    r->begun = true;
    s->scratch.used = mark;
    return done + n;
}

static sg_tensor decode_next(void *of, sg_stream *s, sg_tensor z, bool last)
{
    run *const        r = of;
    const sg_vae_info i = sg_hunyuan_vae_describe(r->vae);
    const int64_t     old = r->begun ? SG_HUNYUAN_KEPT : 0, f = old + z.dim[0];
    const bool        more = f == SG_HUNYUAN_WINDOW; /* another window blends with this one */
    const int64_t     n = (f - 1) * i.scale_time + !old - (more && !last ? SG_HUNYUAN_BLEND : 0);
    const sg_tensor   frames = sg_new(s, SG_F32, n, z.dim[1] * i.scale_space, z.dim[2] * i.scale_space, SG_KL_RGB);
    const size_t      mark = s->scratch.used;
    const sg_tensor   window = sg_new(s, SG_F32, f, z.dim[1], z.dim[2], z.dim[3]);
    if (old) sg_copy(s, .y = sg_rows(window, 0, old), .x = r->kept);
    sg_copy(s, .y = sg_rows(window, old, z.dim[0]), .x = z);
    if (more) sg_copy(s, .y = r->kept, .x = sg_rows(window, SG_HUNYUAN_STRIDE, SG_HUNYUAN_KEPT));
    const int64_t done = put_window(r, s, frames, 0, window, more);
    if (more && last) put_window(r, s, frames, done, r->kept, false);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    return frames;
}

static void decode_close(void **r)
{
    free(*r);
    *r = NULL;
}

static void close_vae(void *of)
{
    sg_hunyuan_vae *v = of;
    sg_hunyuan_vae_close(&v);
}

const sg_vae_ops sg_hunyuan_vae_ops = {.component = component,
                                       .chunk = chunk,
                                       .special = special,
                                       .set_tiles = set_tiles,
                                       .decode_open = decode_open,
                                       .decode_next = decode_next,
                                       .decode_close = decode_close,
                                       .encoder = encoder,
                                       .encode_chunk = sg_hunyuan_vae_encode_chunk,
                                       .encode_open = sg_hunyuan_vae_encode_open,
                                       .encode_next = sg_hunyuan_vae_encode_next,
                                       .encode_close = sg_hunyuan_vae_encode_close,
                                       .close = close_vae};
