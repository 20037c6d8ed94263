/* cogvideox_vae_run.c - AutoencoderKLCogVideoX as a stream, chunk after chunk. What bites:
 *  - the mean and variance of a group norm are those of a chunk, so that the chunks are part of the model: two latent frames,
 *    three in the first of an odd number; eight pixel frames, the first takes what is left over;
 *  - every norm of the decoder multiplies and adds maps of the chunk's latents, enlarged to its own size by nearest
 *    neighbours;
 *  - in time, enlarging keeps the first of an odd number of frames, and a single frame, apart, and so does averaging, which
 *    comes before the encoder's change of size;
 *  - before the clip a causal convolution sees its first frame again, not zeros;
 *  - an upsampler's convolution works on single frames, and those that enlarging in time repeats come out the same: they are
 *    computed once. */
#include "cogvideox_vae_weights.h"

#include <math.h>
#include <stdlib.h>

enum {
    PAST = 2,             /* frames that a causal convolution keeps */
    CHUNK = 2,            /* latent frames */
    PIXEL_CHUNK = 8,      /* pixel frames */
    PIXELS_MAX = 1 << 16, /* of a side */
};

/* One clip being decoded or encoded. */
typedef struct run {
    const sg_cogvideox_vae *vae;
    const sg_cog_coder     *coder;
    bool                    begun;
    sg_tensor               scale;     /* F32 [z]: of the latents that are decoded; [2 z] of what the encoder gives */
    sg_tensor               shift;     /* F32 [2 z], of the encoder */
    sg_tensor               history[]; /* act [PAST, y, x, c] */
} run;

static sg_tensor rows_of(sg_tensor t) { return sg_reshape(t, sg_count(t) / t.dim[t.rank - 1], t.dim[t.rank - 1]); }

/* The beginning of t as a tensor of x's frames and places, and c channels. */
static sg_tensor shaped(sg_tensor t, sg_tensor x, int64_t c)
{
    const int64_t places = x.dim[0] * x.dim[1] * x.dim[2];
    return sg_reshape(sg_rows(sg_reshape(t, sg_count(t)), 0, places * c), x.dim[0], x.dim[1], x.dim[2], c);
}

/* ---- changes of scale ---- */

/* Which of n frames is the t-th of f, by nearest neighbours. */
static int64_t nearest_frame(int64_t t, int64_t f, int64_t n)
{
    if (f == 1 || f % 2 == 0) return t * n / f;
    return t ? 1 + (t - 1) * (n - 1) / (f - 1) : 0;
}

static int64_t frames_after(const sg_cog_coder *k, const sg_cog_level *l, int64_t f)
{
    if (!l->time || f == 1) return f;
    return k->up ? 2 * f - f % 2 : f / 2 + f % 2;
}

static int64_t frames_of_all(const sg_cog_coder *k, int64_t f)
{
    for (int i = 0; i < k->levels; i++) f = frames_after(k, &k->level[i], f);
    return f;
}

static int64_t side_after(const sg_cog_coder *k, int64_t n) { return k->up ? 2 * n : n / 2; }

static void upsample(sg_stream *s, const sg_cog_conv *k, sg_tensor y, sg_tensor x)
{
    int64_t last = -1;
    for (int64_t t = 0; t < y.dim[0]; t++) {
        const int64_t from = nearest_frame(t, y.dim[0], x.dim[0]);
        if (from == last)
            sg_copy(s, .y = sg_rows(y, t, 1), .x = sg_rows(y, t - 1, 1));
        else
            sg_conv(s, .y = sg_rows(y, t, 1), .x = sg_rows(x, from, 1), .w = k->w, .b = k->b, .stride = {1, 1, 1},
                    .pad = {1, 1, 1, 1}, .twice = true);
        last = from;
    }
}

/* Where there are fewer frames in y, each is the mean of two of x; of an odd number the first stays as it is. */
static void downsample(sg_stream *s, const sg_cog_conv *k, sg_tensor y, sg_tensor x)
{
    const int64_t alone = y.dim[0] == x.dim[0] ? y.dim[0] : x.dim[0] % 2;
    for (int64_t t = 0; t < y.dim[0]; t++) {
        const size_t mark = s->scratch.used;
        sg_tensor    one = sg_rows(x, t, 1);
        if (t >= alone) {
            one = sg_new(s, x.dtype, 1, x.dim[1], x.dim[2], x.dim[3]);
            sg_avg_down(s, .y = one, .x = sg_rows(x, 2 * t - alone, 2), .ft = 2, .fs = 1);
        }
        sg_conv(s, .y = sg_rows(y, t, 1), .x = one, .w = k->w, .b = k->b, .stride = {1, 2, 2}, .pad = {0, 1, 0, 1});
        s->scratch.used = mark;
    }
}

/* ---- blocks ---- */

/* y = or += what k makes of input, whose frames behind the first PAST are there. */
static void causal(run *r, sg_stream *s, const sg_cog_conv *k, sg_tensor y, sg_tensor input, bool add)
{
    const sg_tensor history = r->history[k->history];
    for (int i = 0; i < PAST && !r->begun; i++) sg_copy(s, .y = sg_rows(input, i, 1), .x = sg_rows(input, PAST, 1));
    if (r->begun) sg_copy(s, .y = sg_rows(input, 0, PAST), .x = history);
    sg_conv(s, .y = y, .x = input, .w = k->w, .b = k->b, .stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .add = add);
    sg_copy(s, .y = history, .x = sg_rows(input, input.dim[0] - PAST, PAST));
}

static void apply_mix(sg_stream *s, const sg_cog_mix *m, sg_tensor y, sg_tensor x)
{
    sg_linear(s, .y = rows_of(y), .x = rows_of(x), .w = m->w, .b = m->b);
}

/* z: of the decoder, the chunk's latents, as many frames as x has. */
static void apply_norm(const run *r, sg_stream *s, const sg_cog_norm *n, sg_tensor y, sg_tensor x, sg_tensor z)
{
    const size_t mark = s->scratch.used;
    sg_tensor    map[2] = {{0}};
    for (int i = 0; i < 2 && z.rank; i++) {
        map[i] = sg_new(s, r->vae->component.act, z.dim[0], z.dim[1], z.dim[2], x.dim[3]);
        apply_mix(s, i ? &n->shift : &n->scale, map[i], z);
    }
    sg_norm(s, .y = y, .x = x, .w = n->w, .b = n->b, .place_scale = map[0], .place_shift = map[1],
            .kind = SG_NORM_GROUP, .eps = n->eps, .act = SG_ACT_SILU, .groups = r->vae->groups);
    s->scratch.used = mark;
}

/* y = or += conv(norm(x)). x is read before y is written. */
static void norm_conv(run *r, sg_stream *s, const sg_cog_conv *k, const sg_cog_norm *n, sg_tensor y, sg_tensor x,
                      sg_tensor z, bool add)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor input = sg_new(s, x.dtype, PAST + x.dim[0], x.dim[1], x.dim[2], x.dim[3]);
    apply_norm(r, s, n, sg_rows(input, PAST, x.dim[0]), x, z);
    causal(r, s, k, y, input, add);
    s->scratch.used = mark;
}

/* Through blocks of `out` channels. room has x at its beginning, and room for out channels; what lies there may change.
 * The result is there, or above it in scratch. */
static sg_tensor blocks(run *r, sg_stream *s, const sg_cog_block *w, int count, sg_tensor room, sg_tensor x,
                        int64_t out, sg_tensor z)
{
    const bool      same = x.dim[3] == out;
    const sg_tensor more = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], out);
    const sg_tensor y = same ? x : more, inner = same ? more : shaped(room, x, out);
    if (!same) apply_mix(s, &w->shortcut, y, x);
    for (int j = 0; j < count; j++) {
        norm_conv(r, s, &w[j].conv[0], &w[j].norm[0], inner, j ? y : x, z, false);
        norm_conv(r, s, &w[j].conv[1], &w[j].norm[1], y, inner, z, true);
    }
    return y;
}

/* ---- levels ---- */

/* The latents z as f frames; there are none in the encoder. */
static sg_tensor enlarge(sg_stream *s, sg_tensor z, int64_t f)
{
    if (!z.rank || f == z.dim[0]) return z;
    const sg_tensor y = sg_new(s, z.dtype, f, z.dim[1], z.dim[2], z.dim[3]);
    for (int64_t t = 0; t < f; t++)
        sg_copy(s, .y = sg_rows(y, t, 1), .x = sg_rows(z, nearest_frame(t, f, z.dim[0]), 1));
    return y;
}

/* What each level reads, with room for its blocks, the last level's lowest on the stack: a level's working memory lies above
 * its input, which may go as soon as the next level's has been written. mark[i]: the stack with in[i] on top. */
typedef struct level_inputs {
    sg_tensor room[SG_COG_LEVELS], in[SG_COG_LEVELS];
    size_t    mark[SG_COG_LEVELS];
} level_inputs;

/* first: as many frames, rows and columns as the first level has. */
static level_inputs reserve(const run *r, sg_stream *s, sg_tensor first)
{
    const sg_cog_coder *const k = r->coder;
    level_inputs              m = {0};
    int64_t                   dim[SG_COG_LEVELS][3] = {{first.dim[0], first.dim[1], first.dim[2]}};
    for (int i = 0; i + 1 < k->levels; i++) {
        dim[i + 1][0] = frames_after(k, &k->level[i], dim[i][0]);
        for (int j = 1; j < 3; j++) dim[i + 1][j] = side_after(k, dim[i][j]);
    }
    for (int i = k->levels - 1; i >= 0; i--) {
        const sg_cog_level *const l = &k->level[i];
        const int64_t             c = l->in > l->out ? l->in : l->out;
        m.room[i] = sg_new(s, r->vae->component.act, dim[i][0], dim[i][1], dim[i][2], c);
        m.in[i] = shaped(m.room[i], m.room[i], l->in);
        m.mark[i] = s->scratch.used;
    }
    return m;
}

/* The way in: what conv_in makes of x, into m->in[0]. */
static void begin(run *r, sg_stream *s, const level_inputs *m, sg_tensor x)
{
    const sg_tensor input = sg_new(s, r->vae->component.act, PAST + x.dim[0], x.dim[1], x.dim[2], x.dim[3]);
    sg_copy(s, .y = sg_rows(input, PAST, x.dim[0]), .x = x);
    causal(r, s, &r->coder->conv_in, m->in[0], input, false);
    s->scratch.used = m->mark[0];
    sg_tap(s, m->in[0], r->coder->up ? "vae.conv_in" : "enc.conv_in");
}

/* Changes x. */
static void middle(run *r, sg_stream *s, sg_tensor x, sg_tensor z)
{
    const size_t mark = s->scratch.used;
    blocks(r, s, r->coder->mid, SG_COG_MID, x, x, x.dim[3], z);
    s->scratch.used = mark;
    sg_tap(s, x, r->coder->up ? "vae.mid" : "enc.mid");
}

static sg_tensor levels(run *r, sg_stream *s, const level_inputs *m, sg_tensor z)
{
    const sg_cog_coder *const k = r->coder;
    sg_tensor                 x = {0};
    for (int i = 0; i < k->levels; i++) {
        const sg_cog_level *const l = &k->level[i];
        x = blocks(r, s, l->block, k->blocks, m->room[i], m->in[i], l->out, enlarge(s, z, m->in[i].dim[0]));
        if (l->space) {
            (k->up ? upsample : downsample)(s, &l->resize, m->in[i + 1], x);
            s->scratch.used = m->mark[i + 1];
        }
        sg_tap(s, l->space ? m->in[i + 1] : x, k->up ? "vae.up.%d" : "enc.down.%d", i);
    }
    return x;
}

/* ---- a run's memory ---- */

static void keep_history(run *r, sg_stream *s, const sg_cog_conv *k, int64_t y, int64_t x)
{
    r->history[k->history] = sg_new_keep(s, r->vae->component.act, PAST, y, x, k->w.dim[1]);
}

static void keep_blocks(run *r, sg_stream *s, const sg_cog_block *w, int count, int64_t y, int64_t x)
{
    for (int j = 0; j < count; j++)
        for (int i = 0; i < 2; i++) keep_history(r, s, &w[j].conv[i], y, x);
}

/* y, x: of what goes in; the middle has the latents' rows and columns. */
static void keep_all(run *r, sg_stream *s, int64_t y, int64_t x)
{
    const sg_cog_coder *const k = r->coder;
    keep_history(r, s, &k->conv_in, y, x);
    if (k->up) keep_blocks(r, s, k->mid, SG_COG_MID, y, x);
    for (int i = 0; i < k->levels; i++) {
        keep_blocks(r, s, k->level[i].block, k->blocks, y, x);
        if (!k->level[i].space) continue;
        y = side_after(k, y);
        x = side_after(k, x);
    }
    if (!k->up) keep_blocks(r, s, k->mid, SG_COG_MID, y, x);
    keep_history(r, s, &k->conv_out, y, x);
}

/* To or from normalised latents; of those that are encoded the logarithm of the variance follows the mean. */
static void keep_latent_map(run *r, sg_stream *s)
{
    const int    z = r->vae->z;
    const double scaling = r->vae->scaling;
    float        scale[2 * SG_COG_Z], shift[2 * SG_COG_Z] = {0};
    for (int i = 0; i < z; i++) {
        scale[i] = (float)(r->coder->up ? 1 / scaling : scaling);
        scale[z + i] = 1;
        shift[z + i] = (float)(2 * log(scaling));
    }
    r->scale = sg_new_keep(s, SG_F32, r->coder->up ? z : 2 * z);
    sg_upload(s, r->scale, scale);
    if (r->coder->up) return;
    r->shift = sg_new_keep(s, SG_F32, 2 * z);
    sg_upload(s, r->shift, shift);
}

static sg_status run_open(void **out, const sg_cogvideox_vae *v, const sg_cog_coder *k, sg_stream *s, int64_t y,
                          int64_t x, sg_error *e)
{
    run *const r = *out = calloc(1, sizeof *r + (size_t)k->histories * sizeof *r->history);
    if (!r) return sg_error_memory(e, v->component.dir);
    r->vae = v;
    r->coder = k;
    keep_latent_map(r, s);
    keep_all(r, s, y, x);
    return SG_OK;
}

/* ---- the two directions ---- */

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    const sg_cogvideox_vae *const v = of;
    const int64_t                 most = PIXELS_MAX >> (v->decoder.levels - 1);
    *out = NULL;
    if (y < 1 || y > most || x < 1 || x > most)
        return sg_error_set(e, SG_E_ARG, "latents of %lld x %lld places cannot be decoded", (long long)x, (long long)y);
    return run_open(out, v, &v->decoder, s, y, x, e);
}

static sg_tensor decode_next(void *of, sg_stream *s, sg_tensor z, bool last_chunk)
{
    (void)last_chunk;
    run *const                    r = of;
    const sg_cogvideox_vae *const v = r->vae;
    const sg_cog_coder *const     k = r->coder;
    const sg_vae_info             info = sg_cogvideox_vae_describe(v);
    const int64_t                 f = frames_of_all(k, z.dim[0]);
    const sg_tensor frames = sg_new(s, SG_F32, f, z.dim[1] * info.scale_space, z.dim[2] * info.scale_space, 3);
    const size_t    mark = s->scratch.used;
    const sg_tensor latents = sg_alloc(s, &s->scratch, v->component.act, 4, z.dim);
    sg_norm(s, .y = latents, .x = z, .w = r->scale, .kind = SG_NORM_NONE);
    const level_inputs m = reserve(r, s, latents);
    begin(r, s, &m, latents);
    middle(r, s, m.in[0], latents);
    const sg_tensor last = levels(r, s, &m, latents);
    const sg_tensor out = sg_new(s, v->component.act, f, last.dim[1], last.dim[2], 3);
    norm_conv(r, s, &k->conv_out, &k->norm_out, out, last, enlarge(s, latents, f), false);
    sg_tap(s, out, "vae.conv_out");
    sg_activate(s, .y = frames, .x = out, .act = SG_ACT_CLAMP);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    r->begun = true;
    return frames;
}

static sg_status encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    const sg_cogvideox_vae *const v = of;
    const int                     m = sg_cogvideox_vae_describe(v).scale_space;
    *out = NULL;
    if (height < 1 || height > PIXELS_MAX || height % m || width < 1 || width > PIXELS_MAX || width % m)
        return sg_error_set(e, SG_E_ARG, "frames of %lld x %lld: width and height must be multiples of %d up to %d",
                            (long long)width, (long long)height, m, PIXELS_MAX);
    return run_open(out, v, &v->encoder, s, height, width, e);
}

static sg_tensor encode_next(void *of, sg_stream *s, sg_tensor frames)
{
    run *const                r = of;
    const sg_cog_coder *const k = r->coder;
    const sg_tensor           none = {0};
    const int                 m = sg_cogvideox_vae_describe(r->vae).scale_space, numbers = 2 * r->vae->z;
    const int64_t             f = frames_of_all(k, frames.dim[0]), y = frames.dim[1] / m, x = frames.dim[2] / m;
    const sg_tensor           latents = sg_new(s, SG_F32, f, y, x, numbers);
    const size_t              mark = s->scratch.used;
    const sg_tensor           out = sg_new(s, SG_F32, f, y, x, numbers);
    const level_inputs        in = reserve(r, s, frames);
    begin(r, s, &in, frames);
    const sg_tensor last = levels(r, s, &in, none);
    middle(r, s, last, none);
    norm_conv(r, s, &k->conv_out, &k->norm_out, out, last, none, false);
    sg_tap(s, out, "enc.quant");
    sg_norm(s, .y = latents, .x = out, .w = r->scale, .b = r->shift, .kind = SG_NORM_NONE);
    s->scratch.used = mark;
    r->begun = true;
    return latents;
}

static void run_close(void **r)
{
    free(*r);
    *r = NULL;
}

/* ---- as vae.h has it ---- */

static sg_component *component(void *of) { return sg_cogvideox_vae_component(of); }
static sg_component *encoder(void *of) { return sg_cogvideox_vae_encoder(of); }

/* In the first chunk is what is left over of whole ones. */
static int64_t next_chunk(int64_t most, int64_t total, int64_t done)
{
    if (done) return most;
    return total > most ? most + total % most : total;
}

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return next_chunk(CHUNK, total, done);
}

static int64_t encode_chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return next_chunk(PIXEL_CHUNK, total, done);
}

/* The first may have a frame more. */
static int special(const void *of)
{
    (void)of;
    return 1;
}

static void vae_close(void *of)
{
    sg_cogvideox_vae *v = of;
    sg_cogvideox_vae_close(&v);
}

const sg_vae_ops sg_cogvideox_vae_ops = {.component = component,
                                         .chunk = chunk,
                                         .special = special,
                                         .decode_open = decode_open,
                                         .decode_next = decode_next,
                                         .decode_close = run_close,
                                         .encoder = encoder,
                                         .encode_chunk = encode_chunk,
                                         .encode_open = encode_open,
                                         .encode_next = encode_next,
                                         .encode_close = run_close,
                                         .sampled = true,
                                         .close = vae_close};
