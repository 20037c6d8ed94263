/* hunyuan_vae.c - AutoencoderKLHunyuanVideo of diffusers (arXiv:2412.03603): in windows, the decoder in tiles if asked.
 *
 * What bites:
 *  - the first levels change in space, the two before the last in time, some in both; levels count from the pixels on
 *    in the encoder, from the latents on in the decoder;
 *  - the mean and variance of a group norm, attention and the frames before the first are those of a window, so that
 *    the windows are part of the model.
 *
 * diffusers decodes clips of more than four latent frames in windows. A window has five latent frames, the next begins
 * three on and leaves out its first frame, which the window before has made. The last four frames of a window are then
 * blended with the first four of the next. A chunk is what a window has that the one before it has not; where its five
 * end the clip, two of them are a window once more, and come with it. Fewer than five latent frames are decoded at
 * once.
 *
 * It encodes clips of more than 16 frames in windows of 17, the next of which begins 12 on. It leaves out a later
 * window's first latent frame and blends the second with the last one of the window before, by weights of 1 and 0: so
 * the first two are that window's, and a window gives the others. Fewer than 17 frames are encoded at once.
 *
 * L latent frames give 4 (L - 1) + 1 frames. The taps of each window, in tiles of each tile of it, are those of
 * sg_kl_decode; then comes "vae.frames". The encoder always takes whole frames, and taps as sg_kl_encode;
 * "enc.mean". */
#include "kl_coder.h"

enum {
    PUBLISHED_LEVELS = 4,
    TIME = 4, /* frames a latent frame */
    /* A window has so many latent frames, and the next begins so many frames after it. The last frames of a window are
     * blended with the first of the next. */
    WINDOW = 5,
    STRIDE = 3,
    KEPT = WINDOW - STRIDE,
    BLEND = (WINDOW - 1 - STRIDE) * TIME,
    PIXEL_WINDOW = (WINDOW - 1) * TIME + 1, /* the same of frames that are encoded */
    PIXEL_STRIDE = STRIDE * TIME,
    PIXEL_KEPT = PIXEL_WINDOW - PIXEL_STRIDE
};

/* One clip being decoded or encoded. */
typedef struct run {
    sg_vae_run base;
    bool       begun;
    sg_tensor  kept; /* F32: the last latents, or frames, of a window, the first of the next */
    sg_tensor  tail; /* F32 [BLEND, H, W, 3]: the last frames that were decoded of a window, not clamped */
} run;

static const sg_vae_kind kind = {.norm_w = ".weight",
                                 .norm_b = ".bias",
                                 .conv = ".conv",
                                 .shortcut = "conv_shortcut.conv",
                                 .kt = 3,
                                 .edge = SG_EDGE_REPLICATE,
                                 .norm = sg_kl_norm};

/* ---- config ---- */

/* Which levels change, and in what. */
static void set_scales(sg_vae_coder *k, sg_config *f)
{
    const int64_t time = sg_config_int(f, "temporal_compression_ratio", 1, 1 << SG_VAE_LEVELS, &(int64_t){4});
    const int64_t space = sg_config_int(f, "spatial_compression_ratio", 1, 1 << SG_VAE_LEVELS, &(int64_t){8});
    const int     doublings = 2; /* in time */
    int           made = 1;
    if (time != TIME)
        sg_config_fail(f, "temporal_compression_ratio", "%lld is not supported; only %d is", (long long)time, TIME);
    if (k->levels <= doublings)
        sg_config_fail(f, "block_out_channels", "%d entries are too few for a temporal_compression_ratio of %d",
                       k->levels, TIME);
    for (int i = 0; i < k->levels; i++) {
        k->level[i].time = i >= k->levels - 1 - doublings && i + 1 < k->levels ? 2 : 1;
        k->level[i].space = made < space ? 2 : 1;
        made *= k->level[i].space;
    }
    if (made != space)
        sg_config_fail(f, "spatial_compression_ratio", "%lld, but %d levels make powers of 2 up to %d",
                       (long long)space, k->levels, 1 << k->levels);
}

static sg_status read_config(void *of, sg_config *f)
{
    sg_kl_model *const  v = of;
    sg_vae_model *const m = &v->vae;
    sg_kl_read(v, &kind, 2, f);
    SG_TRY(sg_config_status(f)); /* what follows goes by these */
    for (int i = 0; i < 2; i++) set_scales(&m->coder[i], f);
    sg_vae_read_latents(m, 16, 0.476986, f);
    sg_vae_check_types(f, "up_block_types", "HunyuanVideoUpBlock3D", m->coder[0].levels, PUBLISHED_LEVELS);
    sg_vae_check_types(f, "down_block_types", "HunyuanVideoDownBlock3D", m->coder[0].levels, PUBLISHED_LEVELS);
    sg_vae_check_rgb(f, "in_channels");
    sg_vae_check_rgb(f, "out_channels");
    sg_vae_check_act(f);
    sg_vae_measure(m);
    return sg_config_status(f);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- the decoder ---- */

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return least(done ? STRIDE : WINDOW, total - done);
}

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    SG_TRY(sg_vae_run_open(out, sizeof(run), of, true, s, y, x, e));
    run *const        r = *out;
    const sg_vae_info i = r->base.vae->info;
    r->kept = sg_new_keep(s, SG_F32, KEPT, y, x, i.z);
    r->tail = sg_new_keep(s, SG_F32, BLEND, y * i.scale_space, x * i.scale_space, SG_VAE_RGB);
    return SG_OK;
}

/* Room for what latents z are decoded to when all of them see each other. */
static sg_tensor frames_of(const run *r, sg_stream *s, sg_tensor z)
{
    const sg_vae_info i = r->base.vae->info;
    return sg_new(s, SG_F32, (z.dim[0] - 1) * i.scale_time + 1, z.dim[1] * i.scale_space, z.dim[2] * i.scale_space,
                  SG_VAE_RGB);
}

/* All latents of it see each other: their frames, not clamped. */
static sg_tensor next_of_tile(void *of, sg_stream *s, sg_tensor z)
{
    const run *const r = of;
    const sg_tensor  frames = frames_of(r, s, z);
    const size_t     mark = s->scratch.used;
    sg_copy(s, .y = frames, .x = sg_kl_decode(&r->base, s, z));
    s->scratch.used = mark;
    return frames;
}

/* Frames of one window in s->scratch, not clamped. */
static sg_tensor decode_window(run *r, sg_stream *s, sg_tensor z)
{
    const sg_vae_model *const v = r->base.vae;
    const sg_tiles            tiles = {
                   .run = r, .x_side = v->tile / v->info.scale_space, .y_side = v->tile, .count = z.dim[0],
                   .next = next_of_tile};
    if (!v->tiled) return next_of_tile(r, s, z);
    const sg_tensor frames = frames_of(r, s, z);
    sg_tiles_run(&tiles, s, frames, z);
    return frames;
}

/* Decodes the window z and puts its frames behind the first `done` of `frames`, blended with those of the window
 * before; with `more` the last ones are kept for the next window. Returns how many frames there are then. */
static int64_t put_window(run *r, sg_stream *s, sg_tensor frames, int64_t done, sg_tensor z, bool more)
{
    const size_t mark = s->scratch.used;
    sg_tensor    x = decode_window(r, s, z);
    if (r->begun) {
        const sg_tensor first = sg_new(s, SG_F32, BLEND, x.dim[1], x.dim[2], SG_VAE_RGB);
        x = sg_rows(x, 1, x.dim[0] - 1);
        for (int i = 0; i < BLEND; i++) {
            const float share = (float)i / BLEND;
            sg_combine(s, .y = sg_rows(first, i, 1), .x = {sg_rows(r->tail, i, 1), sg_rows(x, i, 1)},
                       .a = {1 - share, share}, .count = 2);
        }
        sg_copy(s, .y = sg_rows(x, 0, BLEND), .x = first);
    }
    const int64_t n = x.dim[0] - (more ? BLEND : 0);
    sg_activate(s, .y = sg_rows(frames, done, n), .x = sg_rows(x, 0, n), .act = SG_ACT_CLAMP);
    if (more) sg_copy(s, .y = r->tail, .x = sg_rows(x, n, BLEND));
    r->begun = true;
    s->scratch.used = mark;
    return done + n;
}

static sg_tensor decode_next(void *of, sg_stream *s, sg_tensor z, bool last)
{
    run *const        r = of;
    const sg_vae_info i = r->base.vae->info;
    const int64_t     old = r->begun ? KEPT : 0, f = old + z.dim[0];
    const bool        more = f == WINDOW; /* another window blends with this one */
    const int64_t     n = (f - 1) * i.scale_time + !old - (more && !last ? BLEND : 0);
    const sg_tensor   frames = sg_new(s, SG_F32, n, z.dim[1] * i.scale_space, z.dim[2] * i.scale_space, SG_VAE_RGB);
    const size_t      mark = s->scratch.used;
    const sg_tensor   window = sg_new(s, SG_F32, f, z.dim[1], z.dim[2], z.dim[3]);
    if (old) sg_copy(s, .y = sg_rows(window, 0, old), .x = r->kept);
    sg_copy(s, .y = sg_rows(window, old, z.dim[0]), .x = z);
    if (more) sg_copy(s, .y = r->kept, .x = sg_rows(window, STRIDE, KEPT));
    const int64_t done = put_window(r, s, frames, 0, window, more);
    if (more && last) put_window(r, s, frames, done, r->kept, false);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    return frames;
}

/* ---- the encoder ---- */

static int64_t encode_chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return least(done ? PIXEL_STRIDE : PIXEL_WINDOW, total - done);
}

static sg_status encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    SG_TRY(sg_vae_run_open(out, sizeof(run), of, false, s, height, width, e));
    run *const r = *out;
    r->kept = sg_new_keep(s, SG_F32, PIXEL_KEPT, height, width, SG_VAE_RGB);
    return SG_OK;
}

/* Frames that see each other: the means of their latents, times the scale, F32 [(n - 1) / 4 + 1, y, x, c] in
 * s->scratch. */
static sg_tensor encode_window(const run *r, sg_stream *s, sg_tensor frames)
{
    const sg_vae_info i = r->base.vae->info;
    const int64_t     f = (frames.dim[0] - 1) / i.scale_time + 1, y = frames.dim[1] / i.scale_space,
                  x = frames.dim[2] / i.scale_space;
    const sg_tensor z = sg_new(s, SG_F32, f, y, x, i.z);
    const size_t    mark = s->scratch.used;
    const sg_tensor both = sg_kl_encode(&r->base, s, frames), mean = sg_new(s, SG_F32, f * y * x, 1, i.z);
    sg_strided_copy(s, .y = mean, .x = sg_reshape(both, sg_count(both)), .token = 2 * i.z, .head = i.z);
    sg_norm(s, .y = z, .x = sg_reshape(mean, f, y, x, i.z), .w = r->base.scale, .kind = SG_NORM_NONE);
    s->scratch.used = mark;
    return z;
}

static sg_tensor encode_next(void *of, sg_stream *s, sg_tensor frames)
{
    run *const        r = of;
    const sg_vae_info i = r->base.vae->info;
    const int64_t     old = r->begun ? PIXEL_KEPT : 0, n = old + frames.dim[0], skip = old ? KEPT : 0;
    const int64_t     f = (n - 1) / i.scale_time + 1 - skip;
    const sg_tensor   z = sg_new(s, SG_F32, f, frames.dim[1] / i.scale_space, frames.dim[2] / i.scale_space, i.z);
    const size_t      mark = s->scratch.used;
    const sg_tensor   window = sg_new(s, SG_F32, n, frames.dim[1], frames.dim[2], frames.dim[3]);
    if (old) sg_copy(s, .y = sg_rows(window, 0, old), .x = r->kept);
    sg_copy(s, .y = sg_rows(window, old, frames.dim[0]), .x = frames);
    if (n == PIXEL_WINDOW) sg_copy(s, .y = r->kept, .x = sg_rows(window, PIXEL_STRIDE, PIXEL_KEPT));
    sg_copy(s, .y = z, .x = sg_rows(encode_window(r, s, window), skip, f));
    sg_tap(s, z, "enc.mean");
    s->scratch.used = mark;
    r->begun = true;
    return z;
}

const sg_vae_ops sg_hunyuan_vae_ops = {.class_name = "AutoencoderKLHunyuanVideo",
                                       .size = sizeof(sg_kl_model),
                                       .read = read_config,
                                       .bind = sg_kl_bind,
                                       .component = sg_vae_component,
                                       .chunk = chunk,
                                       .special = 1,
                                       .set_tiles = sg_vae_set_tiles,
                                       .decode_open = decode_open,
                                       .decode_next = decode_next,
                                       .decode_close = sg_vae_run_close,
                                       .encoder = sg_vae_encoder,
                                       .encode_chunk = encode_chunk,
                                       .encode_open = encode_open,
                                       .encode_next = encode_next,
                                       .encode_close = sg_vae_run_close,
                                       .close = sg_vae_model_close};
