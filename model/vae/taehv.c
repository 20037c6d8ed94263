/* taehv.c - TAEHV, the small decoder of video latents for previews, as a stream: a latent frame at a time. It is
 * taehv.py of github.com/madebyollin/taehv, as taew2_1 and taew2_2 are published, or any other of its widths.
 *
 * z = 3 tanh(z / 3); a 3x3 convolution and ReLU; three stages, each of three blocks and a change of scale; ReLU; a 3x3
 * convolution to RGB in patches, clamped to [0, 1]. A block is
 *   y = relu(x + conv(relu(conv(relu(conv([x, past]))))))
 * and past its x of the frame before, zero before the first. A change of scale doubles rows and columns, then a matrix
 * makes one frame (first stage) or two (the others) of each place, then comes a 3x3 convolution. What bites:
 *  - all convolutions are of single frames; only `past` looks back;
 *  - names are places in torch's Sequential: decoder.3 to 5 are blocks, 7 the matrix, 8 the convolution, and so on by
 *    six;
 *  - a clip begins with one frame: the first three that come out are dropped;
 *  - the latents are normalised, and the encoder, if it is in the file, is not wanted.
 * The matrix is applied before rows and columns are doubled, which is the same and takes a quarter of the work. */
#include "vae.h"

#include <stdio.h>
#include <stdlib.h>

enum { STAGES = 3, BLOCKS = 3, CONVS = 3, CHANNELS_MAX = 4096, PATCH_MAX = 8, SCALE_TIME = 4, SCALE_SPACE = 8 };
enum { PIXELS_MAX = 1 << 16 };

static const int grows[STAGES] = {1, 2, 2}; /* frames of one */

typedef struct weights {
    sg_tensor w, b;
} weights;

typedef struct stage {
    weights   conv[BLOCKS][CONVS];
    sg_tensor grow, next; /* [grows c, c, 1, 1]; [o, c, 3, 3] */
} stage;

typedef struct taehv {
    sg_component component;
    int          z, patch;
    int64_t      channels[STAGES + 1]; /* of the stages, and of the last convolution's input */
    weights      in, out;
    stage        stage[STAGES];
} taehv;

typedef struct run {
    const taehv *of;
    bool         begun;
    sg_tensor    zero, two, minus;     /* F32 vectors: zeros; of the last affine map */
    sg_tensor    past[STAGES][BLOCKS]; /* act [1, y, x, c] */
} run;

/* ---- the file ---- */

/* The channels that this convolution makes, and takes. */
static sg_status read_channels(const taehv *t, const char *name, int64_t *o, int64_t *i, sg_error *e)
{
    const int64_t                 at = sg_source_index(t->component.source, name);
    const sg_source_tensor *const w = at < 0 ? NULL : sg_source_at(t->component.source, (size_t)at);
    if (!w) return sg_error_set(e, SG_E_FORMAT, "%s: %s: is missing: this is no TAEHV", t->component.dir, name);
    if (w->rank != 4 || w->dim[2] != 3 || w->dim[3] != 3 || w->dim[0] < 1 || w->dim[0] > CHANNELS_MAX ||
        w->dim[1] < 1 || w->dim[1] > CHANNELS_MAX) {
        char shape[96];
        sg_shape_text(shape, sizeof shape, w->rank, w->dim);
        return sg_error_set(e, SG_E_FORMAT, "%s: %s: is %s, not [o, i, 3, 3] with up to %d channels", t->component.dir,
                            name, shape, CHANNELS_MAX);
    }
    *o = w->dim[0];
    *i = w->dim[1];
    return SG_OK;
}

/* Widths are the file's. What latents it takes and how many pixels it makes of one must be the model's. */
static sg_status read_widths(taehv *t, const sg_vae_info *of, sg_error *e)
{
    static const char *const names[STAGES + 2] = {"decoder.1.weight", "decoder.8.weight", "decoder.14.weight",
                                                  "decoder.20.weight", "decoder.22.weight"};
    int64_t                  o[STAGES + 2], i[STAGES + 2];
    for (int k = 0; k < STAGES + 2; k++) SG_TRY(read_channels(t, names[k], &o[k], &i[k], e));
    for (int k = 0; k <= STAGES; k++) t->channels[k] = o[k];
    while (t->patch < PATCH_MAX && 3 * t->patch * t->patch < o[STAGES + 1]) t->patch++;
    t->z = (int)i[0];
    if (i[0] != of->z)
        return sg_error_set(e, SG_E_FORMAT, "%s: %s: is for latents of %lld channels, but this model's have %d",
                            t->component.dir, names[0], (long long)i[0], of->z);
    if (3 * t->patch * t->patch != o[STAGES + 1])
        return sg_error_set(e, SG_E_FORMAT, "%s: %s: makes %lld channels, which are no patches of RGB",
                            t->component.dir, names[STAGES + 1], (long long)o[STAGES + 1]);
    if (of->scale_space != SCALE_SPACE * t->patch || of->scale_time != SCALE_TIME)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: %s: makes %d frames and %dx%d pixels of a latent, but this model has %d and %dx%d",
                            t->component.dir, names[STAGES + 1], SCALE_TIME, SCALE_SPACE * t->patch,
                            SCALE_SPACE * t->patch, of->scale_time, of->scale_space, of->scale_space);
    return SG_OK;
}

static void bind_conv(sg_bind *b, sg_dtype act, weights *w, const char *name, int64_t o, int64_t i)
{
    char full[80];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, &w->w, act, full, o, i, 3, 3);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &w->b, SG_F32, full, o);
}

static sg_status bind_all(taehv *t, sg_error *e)
{
    sg_bind *const b = t->component.bind;
    const sg_dtype act = t->component.act;
    char           name[64];
    sg_bind_prefix(b, "decoder.");
    bind_conv(b, act, &t->in, "1", t->channels[0], t->z);
    for (int k = 0; k < STAGES; k++) {
        const int64_t c = t->channels[k];
        const int     first = 3 + 6 * k;
        stage *const  g = &t->stage[k];
        for (int j = 0; j < BLOCKS; j++)
            for (int n = 0; n < CONVS; n++) {
                snprintf(name, sizeof name, "%d.conv.%d", first + j, 2 * n);
                bind_conv(b, act, &g->conv[j][n], name, c, n ? c : 2 * c);
            }
        snprintf(name, sizeof name, "%d.conv.weight", first + BLOCKS + 1);
        sg_bind_tensor(b, &g->grow, act, name, grows[k] * c, c, 1, 1);
        snprintf(name, sizeof name, "%d.weight", first + BLOCKS + 2);
        sg_bind_tensor(b, &g->next, act, name, t->channels[k + 1], c, 3, 3);
    }
    bind_conv(b, act, &t->out, "22", 3 * t->patch * t->patch, t->channels[STAGES]);
    sg_bind_ignore(b, "encoder.");
    return sg_bind_check(b, e);
}

static void close_decoder(void *of)
{
    taehv *const t = of;
    sg_component_close(&t->component);
    free(t);
}

static sg_status open_file(taehv *t, const char *path, const sg_vae_info *of, sg_error *e)
{
    SG_TRY(sg_source_open(&t->component.source, path, e));
    SG_TRY(sg_bind_open(&t->component.bind, t->component.source, NULL, e));
    SG_TRY(read_widths(t, of, e));
    return bind_all(t, e);
}

/* ---- decoding ---- */

static sg_tensor flat(sg_tensor t) { return sg_reshape(t, sg_count(t)); }

static void conv(sg_stream *s, sg_tensor y, sg_tensor x, sg_tensor w, sg_tensor b, bool twice)
{
    sg_conv(s, .y = y, .x = x, .w = sg_reshape(w, w.dim[0], w.dim[1], 1, 3, 3), .b = b, .stride = {1, 1, 1},
            .pad = {1, 1, 1, 1}, .twice = twice);
}

/* The frames x become channels [first, first + c) of the frames of `both` that begin at number `frame`. */
static void place(sg_stream *s, sg_tensor both, int64_t frame, sg_tensor x, int64_t first)
{
    const int64_t c = x.dim[3], wide = both.dim[3], n = sg_count(x) / c;
    if (n == 0) return;
    sg_strided_copy(s, .y = flat(both), .x = sg_reshape(x, n, 1, c),
                    .first = frame * both.dim[1] * both.dim[2] * wide + first, .token = wide, .head = c,
                    .scatter = true);
}

/* Changes the frames x. */
static void block(const run *r, sg_stream *s, const weights conv_of[CONVS], sg_tensor past, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const int64_t   f = x.dim[0], c = x.dim[3];
    const sg_tensor y = sg_alloc(s, &s->scratch, x.dtype, 4, x.dim), a = sg_alloc(s, &s->scratch, x.dtype, 4, x.dim);
    const sg_tensor both = sg_new(s, x.dtype, f, x.dim[1], x.dim[2], 2 * c);
    if (!r->begun) sg_norm(s, .y = past, .x = sg_rows(x, 0, 1), .w = sg_rows(r->zero, 0, c), .kind = SG_NORM_NONE);
    place(s, both, 0, x, 0);
    place(s, both, 0, past, c);
    if (f > 1) place(s, both, 1, sg_rows(x, 0, f - 1), c);
    sg_copy(s, .y = past, .x = sg_rows(x, f - 1, 1));
    conv(s, y, both, conv_of[0].w, conv_of[0].b, false);
    for (int n = 1; n < CONVS; n++) {
        sg_activate(s, .y = a, .x = y, .act = SG_ACT_RELU);
        conv(s, y, a, conv_of[n].w, conv_of[n].b, false);
    }
    sg_gate_add(s, .x = y, .r = x);
    sg_activate(s, .y = x, .x = y, .act = SG_ACT_RELU);
    s->scratch.used = mark;
}

/* y = the j-th of the frames that the stage's change of scale makes of one frame x. */
static void grow(sg_stream *s, const stage *g, int j, sg_tensor y, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const int64_t   c = x.dim[3], n = sg_count(x) / c;
    const sg_tensor one = sg_alloc(s, &s->scratch, x.dtype, 4, x.dim);
    const sg_tensor w = sg_reshape(g->grow, g->grow.dim[0], c);
    sg_linear(s, .y = sg_reshape(one, n, c), .x = sg_reshape(x, n, c), .w = sg_rows(w, j * c, c));
    conv(s, y, one, g->next, (sg_tensor){0}, true);
    s->scratch.used = mark;
}

static sg_tensor way_in(const run *r, sg_stream *s, sg_tensor z)
{
    const taehv *const t = r->of;
    const sg_tensor    x = sg_new(s, t->component.act, 1, z.dim[1], z.dim[2], t->channels[0]);
    const size_t       mark = s->scratch.used;
    const sg_tensor    a = sg_alloc(s, &s->scratch, SG_F32, 4, z.dim), b = sg_alloc(s, &s->scratch, SG_F32, 4, z.dim);
    const sg_tensor    y = sg_alloc(s, &s->scratch, x.dtype, 4, x.dim);
    sg_combine(s, .y = a, .x = {z}, .a = {1.0f / 3.0f}, .count = 1);
    sg_activate(s, .y = b, .x = a, .act = SG_ACT_TANH);
    sg_combine(s, .y = a, .x = {b}, .a = {3}, .count = 1);
    conv(s, y, a, t->in.w, t->in.b, false);
    sg_activate(s, .y = x, .x = y, .act = SG_ACT_RELU);
    s->scratch.used = mark;
    return x;
}

/* frame [1, H, W, 3] = what the last stage makes of x, as the j-th. In [-1, 1], which is 2 y - 1. */
static void way_out(const run *r, sg_stream *s, int j, sg_tensor frame, sg_tensor x)
{
    const taehv *const t = r->of;
    const size_t       mark = s->scratch.used;
    const int64_t      rows = 2 * x.dim[1], columns = 2 * x.dim[2], p = t->patch, c = t->channels[STAGES];
    const sg_tensor    a = sg_new(s, x.dtype, 1, rows, columns, c), b = sg_new(s, x.dtype, 1, rows, columns, c);
    const sg_tensor    rgb = sg_new(s, SG_F32, 1, rows, columns, 3 * p * p);
    const sg_tensor    pixels = sg_new(s, SG_F32, 1, rows, columns, 3 * p * p);
    grow(s, &t->stage[STAGES - 1], j, a, x);
    sg_activate(s, .y = b, .x = a, .act = SG_ACT_RELU);
    conv(s, rgb, b, t->out.w, t->out.b, false);
    sg_norm(s, .y = pixels, .x = rgb, .w = r->two, .b = r->minus, .kind = SG_NORM_NONE, .act = SG_ACT_CLAMP);
    sg_permute(s, .y = frame, .x = pixels, .rank = 5, .dim = {rows, columns, 3, p, p}, .perm = {0, 3, 1, 4, 2});
    s->scratch.used = mark;
}

/* ---- as a decoder of vae.h ---- */

static sg_component *component(void *of) { return &((taehv *)of)->component; }

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return done < total;
}

static sg_tensor vector(sg_stream *s, int64_t n, float v)
{
    float           all[CHANNELS_MAX];
    const sg_tensor t = sg_new_keep(s, SG_F32, n);
    for (int64_t i = 0; i < n; i++) all[i] = v;
    sg_upload(s, t, all);
    return t;
}

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    const taehv *const t = of;
    const int64_t      most = PIXELS_MAX / (SCALE_SPACE * t->patch);
    int64_t            widest = 0;
    *out = NULL;
    if (y < 1 || y > most || x < 1 || x > most)
        return sg_error_set(e, SG_E_ARG, "latents of %lld x %lld places cannot be decoded", (long long)x, (long long)y);
    run *const r = *out = calloc(1, sizeof *r);
    if (!r) return sg_error_memory(e, t->component.dir);
    r->of = t;
    for (int k = 0; k < STAGES; k++) {
        if (t->channels[k] > widest) widest = t->channels[k];
        for (int j = 0; j < BLOCKS; j++)
            r->past[k][j] = sg_new_keep(s, t->component.act, 1, y << k, x << k, t->channels[k]);
    }
    r->zero = vector(s, widest, 0);
    r->two = vector(s, 3 * t->patch * t->patch, 2);
    r->minus = vector(s, 3 * t->patch * t->patch, -1);
    return SG_OK;
}

static sg_tensor decode_next(void *context, sg_stream *s, sg_tensor z, bool last)
{
    (void)last;
    run *const         r = context;
    const taehv *const t = r->of;
    const int64_t      side = SCALE_SPACE * t->patch, dropped = r->begun ? 0 : SCALE_TIME - 1;
    const sg_tensor    frames = sg_new(s, SG_F32, SCALE_TIME - dropped, z.dim[1] * side, z.dim[2] * side, 3);
    const size_t       mark = s->scratch.used;
    sg_tensor          x = way_in(r, s, z);
    for (int k = 0; k < STAGES; k++) {
        const stage *const g = &t->stage[k];
        for (int j = 0; j < BLOCKS; j++) block(r, s, g->conv[j], r->past[k][j], x);
        if (k + 1 == STAGES) break;
        const int       n = grows[k];
        const sg_tensor next = sg_new(s, x.dtype, n * x.dim[0], 2 * x.dim[1], 2 * x.dim[2], t->channels[k + 1]);
        for (int64_t i = 0; i < next.dim[0]; i++) grow(s, g, (int)(i % n), sg_rows(next, i, 1), sg_rows(x, i / n, 1));
        x = next;
    }
    for (int64_t i = dropped; i < SCALE_TIME; i++)
        way_out(r, s, (int)(i % 2), sg_rows(frames, i - dropped, 1), sg_rows(x, i / 2, 1));
    s->scratch.used = mark;
    r->begun = true;
    return frames;
}

static void decode_close(void **out)
{
    free(*out);
    *out = NULL;
}

static const sg_vae_ops ops = {.component = component,
                               .chunk = chunk,
                               .special = 1, /* the first latent makes one frame */
                               .decode_open = decode_open,
                               .decode_next = decode_next,
                               .decode_close = decode_close,
                               .close = close_decoder};

sg_status sg_taehv_open(sg_vae *out, const char *path, const sg_vae_info *of, sg_dtype act, sg_error *e)
{
    taehv *const t = calloc(1, sizeof *t);
    if (!t) return sg_error_memory(e, path);
    snprintf(t->component.name, sizeof t->component.name, "preview decoder");
    snprintf(t->component.class_name, sizeof t->component.class_name, "TAEHV");
    snprintf(t->component.dir, sizeof t->component.dir, "%s", path);
    t->component.act = act;
    t->patch = 1;
    const sg_status st = open_file(t, path, of, e);
    if (st)
        close_decoder(t);
    else
        *out = (sg_vae){.ops = &ops, .of = t, .info = *of};
    return st;
}
