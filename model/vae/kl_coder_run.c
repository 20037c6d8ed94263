/* kl_coder_run.c - what a decoder or encoder of residual blocks computes: see kl_coder.h.
 *
 * What bites:
 *  - a token of the middle's attention sees those of its own frame and of the frames before it, one head as wide as the
 *    channels;
 *  - before the first frame a causal convolution sees that frame again;
 *  - enlarging in time repeats every frame but the first, enlarging in space all of them; the other way round a causal
 *    convolution of stride 2 takes the first frame and every other after it. */
#include "kl_coder.h"

#include <math.h>

enum {
    PAST = 2,      /* most frames before its own that a convolution sees */
    RESAMPLED = 4, /* frames at once, so that what stands between takes little memory */
};

static const float eps = 1e-6f;

/* Frames before its own that a convolution sees. */
static int past(const sg_kl_coder *k) { return k->video ? PAST : 0; }

static sg_edge edge(const sg_kl_coder *k) { return k->video ? SG_EDGE_REPLICATE : SG_EDGE_ZERO; }

static sg_tensor rows_of(sg_tensor t) { return sg_reshape(t, sg_count(t) / t.dim[3], t.dim[3]); }

/* The beginning of t as a tensor of x's frames and places, and c channels. */
static sg_tensor shaped(sg_tensor t, sg_tensor x, int64_t c)
{
    const int64_t places = x.dim[0] * x.dim[1] * x.dim[2];
    return sg_reshape(sg_rows(sg_reshape(t, sg_count(t)), 0, places * c), x.dim[0], x.dim[1], x.dim[2], c);
}

static void apply_map(sg_stream *s, const sg_kl_map *m, sg_tensor y, sg_tensor x, bool add)
{
    sg_linear(s, .y = rows_of(y), .x = rows_of(x), .w = m->w, .b = m->b, .add = add);
}

static void apply_norm(const sg_kl_coder *k, sg_stream *s, const sg_kl_norm *n, sg_tensor y, sg_tensor x, sg_act act)
{
    sg_norm(s, .y = y, .x = x, .w = n->w, .b = n->b, .kind = SG_NORM_GROUP, .groups = k->groups, .eps = eps,
            .act = act);
}

/* How many of f frames a convolution makes at once, at most `most`, with so many numbers in a frame of what it reads or
 * writes: libraries refuse tensors of 2^31 numbers. */
static int64_t at_once(int64_t f, int64_t most, int64_t numbers)
{
    const int64_t fit = INT32_MAX / numbers - PAST, n = fit < most ? fit : most;
    return sg_div_up(f, sg_div_up(f, n < 1 ? 1 : n));
}

/* y = or += the convolution of input, whose frames behind the past ones are there. */
static void convolve(const sg_kl_coder *k, sg_stream *s, const sg_kl_map *m, sg_tensor y, sg_tensor input, bool add)
{
    const int64_t f = y.dim[0], c = input.dim[3] > y.dim[3] ? input.dim[3] : y.dim[3];
    const int64_t n = at_once(f, f, input.dim[1] * input.dim[2] * c);
    for (int i = 0; i < past(k); i++) sg_copy(s, .y = sg_rows(input, i, 1), .x = sg_rows(input, past(k), 1));
    for (int64_t t = 0, count; t < f; t += count) {
        count = n < f - t ? n : f - t;
        sg_conv(s, .y = sg_rows(y, t, count), .x = sg_rows(input, t, past(k) + count), .w = m->w, .b = m->b,
                .stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .add = add, .edge = edge(k));
    }
}

/* y = or += conv(silu(norm(x))). x is read before y is written. */
static void norm_conv(const sg_kl_coder *k, sg_stream *s, const sg_kl_norm *n, const sg_kl_map *m, sg_tensor y,
                      sg_tensor x, bool add)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor input = sg_new(s, x.dtype, past(k) + x.dim[0], x.dim[1], x.dim[2], x.dim[3]);
    apply_norm(k, s, n, sg_rows(input, past(k), x.dim[0]), x, SG_ACT_SILU);
    convolve(k, s, m, y, input, add);
    s->scratch.used = mark;
}

/* Through blocks of `out` channels. room has x at its beginning, and room for out channels; what lies there may change.
 * The result is there, or above it in scratch. */
static sg_tensor blocks(const sg_kl_coder *k, sg_stream *s, const sg_kl_block *w, int count, sg_tensor room,
                        sg_tensor x, int64_t out)
{
    const bool      same = x.dim[3] == out;
    const sg_tensor more = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], out);
    const sg_tensor y = same ? x : more, inner = same ? more : shaped(room, x, out);
    if (!same) apply_map(s, &w->shortcut, y, x, false);
    for (int j = 0; j < count; j++) {
        norm_conv(k, s, &w[j].norm[0], &w[j].conv[0], inner, j ? y : x, false);
        norm_conv(k, s, &w[j].norm[1], &w[j].conv[1], y, inner, true);
    }
    return y;
}

/* x += what its tokens make of those that they see. A frame of queries at a time, with the keys up to its end. */
static void attention(const sg_kl_coder *w, sg_stream *s, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const int64_t   f = x.dim[0], frame = x.dim[1] * x.dim[2], c = x.dim[3];
    const sg_tensor normed = sg_new(s, x.dtype, f, x.dim[1], x.dim[2], c), y = sg_new(s, x.dtype, f * frame, 1, c);
    const sg_tensor q = sg_new(s, x.dtype, f * frame, 1, c), k = sg_new(s, x.dtype, f * frame, 1, c),
                    values = sg_new(s, x.dtype, f * frame, 1, c);
    const sg_tensor seen = rows_of(normed);
    apply_norm(w, s, &w->attention_norm, normed, x, SG_ACT_NONE);
    sg_linear(s, .y = sg_reshape(q, f * frame, c), .x = seen, .w = w->q.w, .b = w->q.b);
    sg_linear(s, .y = sg_reshape(k, f * frame, c), .x = seen, .w = w->k.w, .b = w->k.b);
    sg_linear(s, .y = sg_reshape(values, f * frame, c), .x = seen, .w = w->v.w, .b = w->v.b);
    for (int64_t t = 0; t < f; t++)
        sg_attend(s, .y = sg_rows(y, t * frame, frame), .q = sg_rows(q, t * frame, frame),
                  .k = sg_rows(k, 0, (t + 1) * frame), .v = sg_rows(values, 0, (t + 1) * frame),
                  .scale = (float)(1 / sqrt((double)c)));
    sg_linear(s, .y = rows_of(x), .x = sg_reshape(y, f * frame, c), .w = w->attention_out.w, .b = w->attention_out.b,
              .add = true);
    s->scratch.used = mark;
}

/* y = conv(x made larger), or a convolution with strides, some frames at a time. An image's has no padding before it. */
static void resample(const sg_kl_coder *k, sg_stream *s, const sg_kl_level *l, sg_tensor y, sg_tensor x)
{
    const int     time = !k->up && l->time ? 2 : 1, space = !k->up && l->space ? 2 : 1; /* strides */
    const int     before = k->up || k->video;
    const int64_t larger = (k->up ? y.dim[1] * y.dim[2] : x.dim[1] * x.dim[2]) * x.dim[3];
    const int64_t f = y.dim[0], n = at_once(f, RESAMPLED, time * larger);
    for (int64_t t = 0, count; t < f; t += count) {
        const size_t mark = s->scratch.used;
        count = n < f - t ? n : f - t;
        sg_tensor input = sg_rows(x, t, count); /* of an image */
        if (k->video) {
            input = sg_new(s, x.dtype, PAST + (count - 1) * time + 1, x.dim[1], x.dim[2], x.dim[3]);
            for (int64_t i = 0; i < input.dim[0]; i++) {
                const int64_t at = t * time + i > PAST ? t * time + i - PAST : 0; /* which frame of the larger clip */
                sg_copy(s, .y = sg_rows(input, i, 1), .x = sg_rows(x, k->up && l->time ? (at + 1) / 2 : at, 1));
            }
        }
        sg_conv(s, .y = sg_rows(y, t, count), .x = input, .w = l->resample.w, .b = l->resample.b,
                .stride = {time, space, space}, .pad = {before, 1, before, 1}, .twice = k->up && l->space,
                .edge = edge(k));
        s->scratch.used = mark;
    }
}

/* What levels work on, the last one's lowest on the stack: a level's working memory lies above it, which may go as soon as
 * the next level's has been written. Below the last one's is what it makes, if it resamples. */
typedef struct level_inputs {
    sg_tensor room[SG_KL_LEVELS + 1]; /* for the channels that come, and for the blocks' */
    sg_tensor in[SG_KL_LEVELS + 1];   /* its beginning: the channels that come */
    size_t    mark[SG_KL_LEVELS + 1];
} level_inputs;

static bool resamples(const sg_kl_level *l) { return l->space || l->time; }

/* x has the frames and places of what comes. */
static level_inputs reserve(const sg_kl_coder *k, sg_stream *s, sg_tensor x)
{
    level_inputs m = {0};
    int64_t      dim[SG_KL_LEVELS + 1][3] = {{x.dim[0], x.dim[1], x.dim[2]}};
    for (int i = 0; i < k->levels; i++) {
        const bool change[3] = {k->level[i].time, k->level[i].space, k->level[i].space};
        for (int j = 0; j < 3; j++) {
            const int64_t d = dim[i][j];
            dim[i + 1][j] = !change[j] ? d : !k->up ? (d - 1) / 2 + 1 : j ? 2 * d : 2 * d - 1;
        }
    }
    for (int i = resamples(&k->level[k->levels - 1]) ? k->levels : k->levels - 1; i >= 0; i--) {
        const int64_t in = i < k->levels ? k->level[i].in : k->level[i - 1].out;
        const int64_t out = i < k->levels ? k->level[i].out : in;
        m.room[i] = sg_new(s, k->act, dim[i][0], dim[i][1], dim[i][2], in > out ? in : out);
        m.in[i] = shaped(m.room[i], m.room[i], in);
        m.mark[i] = s->scratch.used;
    }
    return m;
}

/* From m->in[0] on; the result lies in m->in, or above what is reserved for the last level. */
static sg_tensor levels(const sg_kl_coder *k, sg_stream *s, const level_inputs *m)
{
    sg_tensor x = {0};
    for (int i = 0; i < k->levels; i++) {
        const sg_kl_level *const l = &k->level[i];
        x = blocks(k, s, l->block, k->blocks, m->room[i], m->in[i], l->out);
        if (resamples(l))
            resample(k, s, l, m->in[i + 1], x);
        else if (i + 1 < k->levels)
            sg_copy(s, .y = m->in[i + 1], .x = x);
        if (m->in[i + 1].rank) {
            x = m->in[i + 1];
            s->scratch.used = m->mark[i + 1];
        }
        sg_tap(s, x, k->up ? "vae.up.%d" : "enc.down.%d", i);
    }
    return x;
}

/* x through the middle. */
static void middle(const sg_kl_coder *k, sg_stream *s, sg_tensor x)
{
    for (int j = 0; j < SG_KL_MID; j++) {
        const size_t mark = s->scratch.used;
        blocks(k, s, &k->mid[j], 1, x, x, x.dim[3]);
        s->scratch.used = mark;
        if (j == 0 && k->attention) attention(k, s, x);
    }
    sg_tap(s, x, k->up ? "vae.mid" : "enc.mid");
}

/* ---- the whole ---- */

sg_tensor sg_kl_decode(const sg_kl_coder *k, sg_stream *s, sg_tensor z, sg_tensor scale, sg_tensor shift)
{
    const level_inputs m = reserve(k, s, z);
    const sg_tensor    latent = sg_alloc(s, &s->scratch, SG_F32, 4, z.dim);
    const sg_tensor    input = sg_new(s, k->act, past(k) + z.dim[0], z.dim[1], z.dim[2], z.dim[3]);
    const sg_tensor    given = sg_rows(input, past(k), z.dim[0]);
    sg_norm(s, .y = latent, .x = z, .w = scale, .b = shift, .kind = SG_NORM_NONE);
    if (k->has_quant)
        apply_map(s, &k->quant, given, latent, false);
    else
        sg_copy(s, .y = given, .x = latent);
    sg_tap(s, given, "vae.post_quant");
    convolve(k, s, &k->conv_in, m.in[0], input, false);
    sg_tap(s, m.in[0], "vae.conv_in");
    s->scratch.used = m.mark[0];
    middle(k, s, m.in[0]);
    const sg_tensor x = levels(k, s, &m), frames = sg_new(s, k->act, x.dim[0], x.dim[1], x.dim[2], SG_KL_RGB);
    norm_conv(k, s, &k->norm_out, &k->conv_out, frames, x, false);
    sg_tap(s, frames, "vae.conv_out");
    return frames;
}

sg_tensor sg_kl_encode(const sg_kl_coder *k, sg_stream *s, sg_tensor frames)
{
    const int64_t      f = frames.dim[0];
    const level_inputs m = reserve(k, s, frames);
    const sg_tensor    input = sg_new(s, k->act, past(k) + f, frames.dim[1], frames.dim[2], frames.dim[3]);
    sg_copy(s, .y = sg_rows(input, past(k), f), .x = frames);
    convolve(k, s, &k->conv_in, m.in[0], input, false);
    sg_tap(s, m.in[0], "enc.conv_in");
    s->scratch.used = m.mark[0];
    const sg_tensor x = levels(k, s, &m);
    middle(k, s, x);
    const int64_t   c = k->conv_out.w.dim[0];
    const sg_tensor out = sg_new(s, k->act, x.dim[0], x.dim[1], x.dim[2], c);
    const sg_tensor both = sg_new(s, SG_F32, x.dim[0], x.dim[1], x.dim[2], c);
    norm_conv(k, s, &k->norm_out, &k->conv_out, out, x, false);
    if (k->has_quant)
        apply_map(s, &k->quant, both, out, false);
    else
        sg_copy(s, .y = both, .x = out);
    sg_tap(s, both, "enc.quant");
    return both;
}
