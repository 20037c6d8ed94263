/* wan_vae_run.c - AutoencoderKLWan as a stream: one latent frame at a time, any number of them in the same memory.
 *
 * Every convolution over time is causal and keeps the last frames that it has seen, zeros before the start, so that
 * chunks one after another give what the whole clip would. What bites:
 *  - the first latent frame stands for one pixel frame. There an upsampler passes its frame on once and its convolution
 *    over time neither runs nor remembers: it starts with the second latent frame, zeros before it;
 *  - a downsampler that halves the frames passes the first one on and remembers it; the others go in pairs behind it;
 *  - a shortcut that doubles the frames leaves out those before the clip's first;
 *  - a patch's channels count columns before rows: c p^2 + column p + row.
 *
 * What blocks add to is of the dtype that products take, as in diffusers. F32 there makes a BF16 decode of tiny-wan 56 dB
 * instead of 52, but then half of the convolutions are none of cuDNN's, which are three times as fast as ours.
 *
 * Scratch is a stack, so what a level gives lies below what it is made from: see reserve(). */
#include "wan_vae_weights.h"

#include <math.h>
#include <stdlib.h>

enum {
    PIXELS_MAX = 1 << 16, /* of a side; with SG_VAE_CHANNELS and 2^7 frames no product of sizes overflows */
    ZEROS = 1 << 18,      /* bytes */
};

/* One clip being decoded or encoded: the history of every causal convolution. */
typedef struct vae_run {
    const sg_wan_vae   *vae;
    const sg_vae_coder *coder;
    int64_t             grid[2]; /* of the latent: rows, columns */
    bool                begun;
    sg_tensor           scale, shift; /* F32 [z]: to or from normalised latents */
    sg_tensor           history[];    /* act [2, y, x, c]; [1, y, x, c] of the encoder's time_conv */
} vae_run;

static sg_tensor vector(sg_tensor t) { return sg_reshape(t, sg_count(t)); }
static sg_tensor rows_of(sg_tensor t, int64_t c) { return sg_reshape(t, sg_count(t) / c, c); }

/* ---- convolutions ---- */

/* What a causal convolution reads: its history, then room for f frames, which the caller fills: present(). */
static sg_tensor conv_open(const vae_run *r, sg_stream *s, const sg_vae_conv *k, int64_t f)
{
    const sg_tensor h = r->history[k->history];
    const sg_tensor input = sg_new(s, h.dtype, h.dim[0] + f, h.dim[1], h.dim[2], h.dim[3]);
    sg_copy(s, .y = sg_rows(input, 0, h.dim[0]), .x = h);
    return input;
}

static sg_tensor present(const vae_run *r, const sg_vae_conv *k, sg_tensor input)
{
    const int64_t past = r->history[k->history].dim[0];
    return sg_rows(input, past, input.dim[0] - past);
}

static void conv_remember(const vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor input)
{
    const sg_tensor h = r->history[k->history];
    sg_copy(s, .y = h, .x = sg_rows(input, input.dim[0] - h.dim[0], h.dim[0]));
}

/* y = or, with add, += the 3x3x3 convolution of all that is in input. */
static void conv_close(const vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor input, bool add)
{
    sg_conv(s, .y = y, .x = input, .w = k->w, .b = k->b, .stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .add = add);
    conv_remember(r, s, k, input);
}

/* y = or += conv(silu(norm(x))). x is read before y is written. */
static void norm_conv(const vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor gamma, sg_tensor y, sg_tensor x,
                      bool add)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor input = conv_open(r, s, k, x.dim[0]);
    sg_norm(s, .y = present(r, k, input), .x = x, .w = vector(gamma), .kind = SG_NORM_L2, .act = SG_ACT_SILU);
    conv_close(r, s, k, y, input, add);
    s->scratch.used = mark;
}

/* y = or += w x + b for every place; the kernel is one place large. */
static void mix(sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x, bool add)
{
    const int64_t o = k->w.dim[0], i = k->w.dim[1];
    sg_linear(s, .y = rows_of(y, o), .x = rows_of(x, i), .w = sg_reshape(k->w, o, i), .b = k->b, .add = add);
}

/* ---- blocks ---- */

/* x itself, changed, or a new tensor when the channels change. */
static sg_tensor residual_block(const vae_run *r, sg_stream *s, const sg_vae_block *w, sg_tensor x)
{
    const int64_t c = w->conv[1].w.dim[0];
    const bool    same = w->shortcut.w.rank == 0;
    sg_tensor     y = same ? x : sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], c);
    const size_t  mark = s->scratch.used;
    if (!same) mix(s, &w->shortcut, y, x, false);
    const sg_tensor inner = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], c);
    norm_conv(r, s, &w->conv[0], w->norm[0], inner, x, false);
    norm_conv(r, s, &w->conv[1], w->norm[1], y, inner, true);
    s->scratch.used = mark;
    return y;
}

/* x += attention over the places of its one frame. */
static void attend(const vae_run *r, sg_stream *s, const sg_vae_attention *w, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const int64_t   c = x.dim[3], n = sg_count(x) / c;
    const sg_dtype  act = r->vae->component.act;
    const sg_tensor y = sg_new(s, act, n, c);
    const sg_tensor rows = sg_reshape(w->qkv.w, 3 * c, c);
    sg_tensor       qkv[3];
    sg_norm(s, .y = y, .x = rows_of(x, c), .w = vector(w->norm), .kind = SG_NORM_L2);
    for (int i = 0; i < 3; i++) {
        qkv[i] = sg_new(s, act, n, 1, c);
        sg_linear(s, .y = rows_of(qkv[i], c), .x = y, .w = sg_rows(rows, i * c, c), .b = sg_rows(w->qkv.b, i * c, c));
    }
    sg_attend(s, .y = sg_reshape(y, n, 1, c), .q = qkv[0], .k = qkv[1], .v = qkv[2], .scale = 1 / sqrtf((float)c));
    mix(s, &w->proj, x, y, true);
    s->scratch.used = mark;
}

static sg_tensor middle(const vae_run *r, sg_stream *s, sg_tensor x)
{
    residual_block(r, s, &r->coder->mid[0], x);
    attend(r, s, &r->coder->attention, x);
    residual_block(r, s, &r->coder->mid[1], x);
    sg_tap(s, x, r->coder->up ? "vae.mid" : "enc.mid");
    return x;
}

/* ---- changes of scale ---- */

/* y = or += the convolution of one frame x at twice its rows and columns. */
static void upsample_frame(sg_stream *s, const sg_vae_level *l, sg_tensor y, sg_tensor x)
{
    const sg_tensor w = l->space_conv.w;
    sg_conv(s, .y = y, .x = x, .w = sg_reshape(w, w.dim[0], w.dim[1], 1, 3, 3), .b = l->space_conv.b,
            .stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .add = l->shortcut, .twice = true);
}

/* Frame by frame: the tensors of all of them would be the largest of the whole decoder. */
static void upsample(const vae_run *r, sg_stream *s, const sg_vae_level *l, sg_tensor y, sg_tensor x)
{
    const bool    twice = l->time && r->begun;
    const int64_t f = x.dim[0], c = x.dim[3];
    sg_tensor     input = {0};
    if (twice) {
        input = conv_open(r, s, &l->time_conv, f);
        sg_copy(s, .y = present(r, &l->time_conv, input), .x = x);
        conv_remember(r, s, &l->time_conv, input);
    }
    for (int64_t i = 0; i < y.dim[0]; i++) {
        const size_t mark = s->scratch.used;
        sg_tensor    one = sg_rows(x, twice ? i / 2 : i, 1);
        if (twice) {
            one = sg_new(s, x.dtype, 1, x.dim[1], x.dim[2], c);
            sg_conv(s, .y = one, .x = sg_rows(input, i / 2, 3), .w = sg_rows(l->time_conv.w, i % 2 * c, c),
                    .b = sg_rows(l->time_conv.b, i % 2 * c, c), .stride = {1, 1, 1});
        }
        upsample_frame(s, l, sg_rows(y, i, 1), one);
        s->scratch.used = mark;
    }
}

/* y = or += x of half the rows and columns: a row and a column of zeros at the end. */
static void halve(sg_stream *s, const sg_vae_level *l, sg_tensor y, sg_tensor x, bool add)
{
    const sg_tensor w = l->space_conv.w;
    sg_conv(s, .y = y, .x = x, .w = sg_reshape(w, w.dim[0], w.dim[1], 1, 3, 3), .b = l->space_conv.b,
            .stride = {1, 2, 2}, .pad = {0, 1, 0, 1}, .add = add);
}

static void downsample(const vae_run *r, sg_stream *s, const sg_vae_level *l, sg_tensor y, sg_tensor x)
{
    if (l->time && r->begun) {
        const sg_tensor input = conv_open(r, s, &l->time_conv, x.dim[0]);
        halve(s, l, present(r, &l->time_conv, input), x, false);
        conv_remember(r, s, &l->time_conv, input);
        sg_conv(s, .y = y, .x = input, .w = l->time_conv.w, .b = l->time_conv.b, .stride = {2, 1, 1},
                .add = l->shortcut);
    } else if (l->time) { /* the first frame is remembered as it is without the shortcut */
        const sg_tensor first = l->shortcut ? sg_alloc(s, &s->scratch, y.dtype, y.rank, y.dim) : y;
        halve(s, l, first, x, false);
        sg_copy(s, .y = r->history[l->time_conv.history], .x = first);
        if (l->shortcut) sg_gate_add(s, .x = y, .r = first);
    } else
        halve(s, l, y, x, l->shortcut);
}

/* y = the input of a level as its output begins: channels averaged or repeated, places in or out of them. */
static void shortcut(const vae_run *r, sg_stream *s, const sg_vae_level *l, sg_tensor y, sg_tensor x)
{
    const int ft = l->time ? 2 : 1, fs = l->scale ? 2 : 1;
    if (r->coder->up)
        sg_dup_up(s, .y = y, .x = x, .ft = ft, .fs = fs, .drop = r->begun ? 0 : ft - 1);
    else
        sg_avg_down(s, .y = y, .x = x, .ft = ft, .fs = fs);
}

/* ---- levels ---- */

static void tap_level(const vae_run *r, sg_stream *s, int index, sg_tensor x)
{
    sg_tap(s, x, r->coder->up ? "vae.up.%d" : "enc.down.%d", index);
}

/* Changes x; the result is y, or, where y is absent, in scratch. */
static sg_tensor level(const vae_run *r, sg_stream *s, const sg_vae_level *l, sg_tensor x, sg_tensor y)
{
    const bool flat = r->coder->flat;
    if (l->shortcut) {
        if (!l->scale) y = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], l->next);
        shortcut(r, s, l, y, x);
    }
    for (int j = 0; j < l->blocks; j++) {
        x = residual_block(r, s, &l->block[j], x);
        if (flat) tap_level(r, s, l->index + j, x);
    }
    if (!l->scale && l->shortcut) sg_gate_add(s, .x = y, .r = x);
    if (!l->scale && !l->shortcut) y = x;
    if (l->scale && r->coder->up) upsample(r, s, l, y, x);
    if (l->scale && !r->coder->up) downsample(r, s, l, y, x);
    if (l->scale || !flat) tap_level(r, s, flat ? l->index + l->blocks : l->index, y);
    return y;
}

/* What each level reads, the last level's lowest on the stack: a level's working memory lies above its input, which may
 * go as soon as the next level's has been written. mark[i]: the stack with in[i] on top. */
typedef struct level_inputs {
    sg_tensor in[SG_VAE_LEVELS];
    size_t    mark[SG_VAE_LEVELS];
} level_inputs;

static level_inputs reserve(const vae_run *r, sg_stream *s, int64_t f, int64_t y, int64_t x)
{
    const sg_vae_coder *const k = r->coder;
    level_inputs              m = {0};
    int64_t                   dim[SG_VAE_LEVELS][4];
    for (int i = 0; i < k->levels; i++) {
        const sg_vae_level *const l = &k->level[i];
        const int64_t             shape[4] = {f, y, x, l->in};
        memcpy(dim[i], shape, sizeof shape);
        if (l->time && r->begun) f = k->up ? 2 * f : f / 2;
        y = k->up ? 2 * y : y / 2;
        x = k->up ? 2 * x : x / 2;
    }
    for (int i = k->levels - 1; i >= 0; i--) {
        m.in[i] = sg_alloc(s, &s->scratch, r->vae->component.act, 4, dim[i]);
        m.mark[i] = s->scratch.used;
    }
    return m;
}

static sg_tensor levels(const vae_run *r, sg_stream *s, const level_inputs *m)
{
    sg_tensor x = {0};
    for (int i = 0; i < r->coder->levels; i++) {
        const bool more = i + 1 < r->coder->levels;
        x = level(r, s, &r->coder->level[i], m->in[i], more ? m->in[i + 1] : (sg_tensor){0});
        if (more) s->scratch.used = m->mark[i + 1];
    }
    return x;
}

/* ---- the two directions ---- */

static sg_tensor decode_next(void *run, sg_stream *s, sg_tensor z, bool last_chunk)
{
    (void)last_chunk;
    vae_run *const            r = run;
    const sg_vae_coder *const k = r->coder;
    const sg_wan_vae_info     v = sg_wan_vae_describe(r->vae);
    const int64_t             y = r->grid[0], x = r->grid[1], p = v.patch, f = r->begun ? v.scale_time : 1;
    const sg_tensor           frames = sg_new(s, SG_F32, f, y * v.scale_space, x * v.scale_space, 3);
    const size_t              mark = s->scratch.used;
    const level_inputs        m = reserve(r, s, 1, y, x);

    const sg_tensor latent = sg_new(s, SG_F32, 1, y, x, v.z), quant = sg_new(s, SG_F32, 1, y, x, v.z);
    sg_norm(s, .y = latent, .x = z, .w = r->scale, .b = r->shift, .kind = SG_NORM_NONE);
    mix(s, &k->quant, quant, latent, false);
    sg_tap(s, quant, "vae.post_quant");
    const sg_tensor input = conv_open(r, s, &k->conv_in, 1);
    sg_copy(s, .y = present(r, &k->conv_in, input), .x = quant);
    conv_close(r, s, &k->conv_in, m.in[0], input, false);
    s->scratch.used = m.mark[0];
    sg_tap(s, m.in[0], "vae.conv_in");

    middle(r, s, m.in[0]);
    const sg_tensor last = levels(r, s, &m);

    const int64_t   rows = last.dim[1], columns = last.dim[2];
    const sg_tensor out = sg_new(s, r->vae->component.act, f, rows, columns, 3 * p * p);
    norm_conv(r, s, &k->conv_out, k->norm_out, out, last, false);
    sg_tap(s, out, "vae.conv_out");
    const sg_tensor pixels = sg_new(s, SG_F32, f, rows * p, columns * p, 3);
    sg_permute(s, .y = pixels, .x = out, .rank = 6, .dim = {f, rows, columns, 3, p, p}, .perm = {0, 1, 5, 2, 4, 3});
    sg_activate(s, .y = frames, .x = pixels, .act = SG_ACT_CLAMP);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    r->begun = true;
    return frames;
}

static sg_tensor encode_next(void *run, sg_stream *s, sg_tensor frames)
{
    vae_run *const            r = run;
    const sg_vae_coder *const k = r->coder;
    const sg_wan_vae_info     v = sg_wan_vae_describe(r->vae);
    const int64_t             y = r->grid[0], x = r->grid[1], n = y * x, p = v.patch, f = r->begun ? v.scale_time : 1;
    const int64_t             rows = y * (v.scale_space / p), columns = x * (v.scale_space / p);
    const sg_tensor           mean = sg_new(s, SG_F32, 1, y, x, v.z);
    const size_t              mark = s->scratch.used;
    const level_inputs        m = reserve(r, s, f, rows, columns);

    const sg_tensor input = conv_open(r, s, &k->conv_in, f);
    sg_permute(s, .y = present(r, &k->conv_in, input), .x = frames, .rank = 6, .dim = {f, rows, p, columns, p, 3},
               .perm = {0, 1, 3, 5, 4, 2});
    conv_close(r, s, &k->conv_in, m.in[0], input, false);
    s->scratch.used = m.mark[0];
    sg_tap(s, m.in[0], "enc.conv_in");

    const sg_tensor last = middle(r, s, levels(r, s, &m));

    const sg_tensor out = sg_new(s, SG_F32, 1, y, x, 2 * v.z), quant = sg_new(s, SG_F32, 1, y, x, 2 * v.z);
    norm_conv(r, s, &k->conv_out, k->norm_out, out, last, false);
    mix(s, &k->quant, quant, out, false);
    sg_tap(s, quant, "enc.quant");
    const sg_tensor halves = sg_new(s, SG_F32, 2, y, x, v.z); /* mean, logarithm of the variance */
    sg_permute(s, .y = halves, .x = quant, .rank = 3, .dim = {n, 2, v.z}, .perm = {1, 0, 2});
    sg_norm(s, .y = mean, .x = sg_rows(halves, 0, 1), .w = r->scale, .b = r->shift, .kind = SG_NORM_NONE);
    sg_tap(s, mean, "enc.mean");
    s->scratch.used = mark;
    r->begun = true;
    return mean;
}

/* ---- a run's memory ---- */

/* Its first ZEROS bytes come from the host, which is waited for; the device doubles them. */
static void zero(sg_stream *s, sg_tensor t, const void *zeros)
{
    if (s->status) return;
    const int64_t step = ZEROS / (int64_t)sg_dtype_size(t.dtype);
    t = vector(t);
    const int64_t all = t.dim[0], first = all < step ? all : step;
    sg_upload(s, sg_rows(t, 0, first), zeros);
    for (int64_t done = first; done < all; done *= 2) {
        const int64_t more = all - done < done ? all - done : done;
        sg_copy(s, .y = sg_rows(t, done, more), .x = sg_rows(t, 0, more));
    }
}

static void keep_frames(vae_run *r, sg_stream *s, const sg_vae_conv *k, int64_t f, int64_t y, int64_t x,
                        const void *zeros)
{
    r->history[k->history] = sg_new_keep(s, r->vae->component.act, f, y, x, k->w.dim[1]);
    zero(s, r->history[k->history], zeros);
}

static void keep_block(vae_run *r, sg_stream *s, const sg_vae_block *w, int64_t y, int64_t x, const void *zeros)
{
    for (int i = 0; i < 2; i++) keep_frames(r, s, &w->conv[i], 2, y, x, zeros);
}

/* Histories in the sizes that data of y x x places at the way in will have. */
static void keep_all(vae_run *r, sg_stream *s, int64_t y, int64_t x, const void *zeros)
{
    const sg_vae_coder *const k = r->coder;
    keep_frames(r, s, &k->conv_in, 2, y, x, zeros);
    for (int i = 0; i < k->levels; i++) {
        const sg_vae_level *const l = &k->level[i];
        for (int j = 0; j < l->blocks; j++) keep_block(r, s, &l->block[j], y, x, zeros);
        if (!l->scale) continue;
        if (l->time && k->up) keep_frames(r, s, &l->time_conv, 2, y, x, zeros);
        y = k->up ? 2 * y : y / 2;
        x = k->up ? 2 * x : x / 2;
        if (l->time && !k->up) keep_frames(r, s, &l->time_conv, 1, y, x, zeros);
    }
    keep_frames(r, s, &k->conv_out, 2, y, x, zeros);
    for (int i = 0; i < 2; i++) keep_block(r, s, &k->mid[i], r->grid[0], r->grid[1], zeros);
}

/* The affine map between latents and normalised latents, in the coder's direction. */
static void keep_latent_map(vae_run *r, sg_stream *s)
{
    const sg_vae_config *const c = &r->vae->config;
    float                      scale[SG_VAE_Z], shift[SG_VAE_Z];
    for (int i = 0; i < c->z; i++) {
        scale[i] = (float)(r->coder->up ? c->std[i] : 1 / c->std[i]);
        shift[i] = (float)(r->coder->up ? c->mean[i] : -c->mean[i] / c->std[i]);
    }
    r->scale = sg_new_keep(s, SG_F32, c->z);
    r->shift = sg_new_keep(s, SG_F32, c->z);
    sg_upload(s, r->scale, scale);
    sg_upload(s, r->shift, shift);
}

static sg_status run_open(void **out, const sg_wan_vae *v, const sg_vae_coder *k, sg_stream *s, int64_t y, int64_t x,
                          sg_error *e)
{
    const int      side = k->up ? 1 : sg_wan_vae_describe(v).scale_space / v->config.patch;
    vae_run *const r = *out = calloc(1, sizeof *r + (size_t)k->histories * sizeof *r->history);
    void *const    zeros = calloc(1, ZEROS);
    if (!r || !zeros) {
        free(zeros);
        free(r);
        *out = NULL;
        return sg_error_memory(e, v->component.dir);
    }
    r->vae = v;
    r->coder = k;
    r->grid[0] = y;
    r->grid[1] = x;
    keep_latent_map(r, s);
    keep_all(r, s, y * side, x * side, zeros);
    free(zeros);
    return SG_OK;
}

static sg_status check_size(const sg_wan_vae *v, int64_t height, int64_t width, sg_error *e)
{
    const int m = sg_wan_vae_describe(v).scale_space;
    if (height > 0 && height <= PIXELS_MAX && height % m == 0 && width > 0 && width <= PIXELS_MAX && width % m == 0)
        return SG_OK;
    return sg_error_set(e, SG_E_ARG, "frames of %lld x %lld: width and height must be multiples of %d up to %d",
                        (long long)width, (long long)height, m, PIXELS_MAX);
}

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    const sg_wan_vae *const v = of;
    const int               m = sg_wan_vae_describe(v).scale_space;
    *out = NULL;
    if (y < 1 || y > PIXELS_MAX || x < 1 || x > PIXELS_MAX)
        return sg_error_set(e, SG_E_ARG, "latents of %lld x %lld places cannot be decoded", (long long)x, (long long)y);
    SG_TRY(check_size(v, y * m, x * m, e));
    return run_open(out, v, &v->decoder, s, y, x, e);
}

static sg_status encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    const sg_wan_vae *const v = of;
    const int               m = sg_wan_vae_describe(v).scale_space;
    *out = NULL;
    SG_TRY(check_size(v, height, width, e));
    return run_open(out, v, &v->encoder, s, height / m, width / m, e);
}

static void run_close(void **run)
{
    free(*run);
    *run = NULL;
}

/* ---- as vae.h has it ---- */

static sg_component *component(void *of) { return sg_wan_vae_component(of); }
static sg_component *encoder(void *of) { return sg_wan_vae_encoder(of); }

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return done < total;
}

/* Frames beyond the last whole chunk of scale_time have no latent frame, and no family asks for them. */
static int64_t encode_chunk(const void *of, int64_t total, int64_t done)
{
    const int64_t many = sg_wan_vae_describe(of).scale_time, left = total - done;
    return done == 0 ? 1 : left < many ? left : many;
}

/* The first frame has no history, the second makes its first changes of the frame rate. */
static int special(const void *of)
{
    (void)of;
    return 2;
}

static void vae_close(void *of)
{
    sg_wan_vae *v = of;
    sg_wan_vae_close(&v);
}

const sg_vae_ops sg_wan_vae_ops = {.component = component,
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
                                   .close = vae_close};
