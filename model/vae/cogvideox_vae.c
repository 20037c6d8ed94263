/* cogvideox_vae.c - the decoder of AutoencoderKLCogVideoX (arXiv:2408.06072): config, tensors, and one chunk after another.
 *
 * Tensor names and chunks are those of diffusers. What bites:
 *  - the mean and variance of a group norm are those of a chunk, so that the chunks are part of the model: two latent frames,
 *    three in the first of an odd number;
 *  - every norm multiplies and adds maps of the chunk's latents, enlarged to its own size by nearest neighbours;
 *  - in time, enlarging keeps the first of an odd number of frames, and a single frame, apart;
 *  - before the clip a causal convolution sees its first frame again, not zeros;
 *  - an upsampler's convolution works on single frames, and those that enlarging in time repeats come out the same: they are
 *    computed once. */
#include "cogvideox_vae.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEVELS = 8, /* at most, as are the next three */
    BLOCKS = 9, /* of a level */
    Z = 1024,   /* latent channels */
    CHANNELS = 16384,
    PAST = 2,             /* frames that a causal convolution keeps */
    MID = 2,              /* blocks */
    CHUNK = 2,            /* latent frames */
    PIXELS_MAX = 1 << 16, /* of a side */
};

static const float eps = 1e-6f;

/* ---- weights ---- */

typedef struct conv {
    sg_tensor w, b;    /* [o, i, 3, 3, 3], of single frames [o, i, 1, 3, 3]; [o] */
    int       history; /* of a causal one: which of the run's */
} conv;

typedef struct mix { /* w x + b at every place */
    sg_tensor w, b;  /* [o, i] [o] */
} mix;

typedef struct norm { /* silu(group_norm(x) scale(latents) + shift(latents)) */
    sg_tensor w, b;   /* [c] x 2 */
    mix       scale, shift;
} norm;

typedef struct block { /* shortcut(x) + conv[1](norm[1](conv[0](norm[0](x)))) */
    norm norm[2];
    conv conv[2];
    mix  shortcut; /* the identity when absent */
} block;

typedef struct level {
    int64_t in, out; /* channels that come, and of the blocks */
    bool    space, time;
    block   block[BLOCKS];
    conv    up; /* with space */
} level;

struct sg_cogvideox_vae {
    sg_component component;
    int          z, groups, levels, blocks, histories;
    double       scaling;
    conv         conv_in, conv_out;
    block        mid[MID];
    level        level[LEVELS];
    norm         norm_out;
};

sg_component *sg_cogvideox_vae_component(sg_cogvideox_vae *v) { return &v->component; }

sg_vae_info sg_cogvideox_vae_describe(const sg_cogvideox_vae *v)
{
    sg_vae_info i = {.z = v->z, .scale_time = 1, .scale_space = 1};
    for (int k = 0; k < v->levels; k++) {
        i.scale_time <<= v->level[k].time;
        i.scale_space <<= v->level[k].space;
    }
    return i;
}

/* ---- config ---- */

static void check_blocks(const sg_cogvideox_vae *v, sg_config *f)
{
    const char *type[LEVELS] = {NULL};
    const int   count = sg_config_strings(f, "up_block_types", type, 0, LEVELS);
    if (count && count != v->levels)
        sg_config_fail(f, "up_block_types", "%d of them, but block_out_channels has %d", count, v->levels);
    for (int i = 0; i < count; i++)
        if (type[i] && strcmp(type[i], "CogVideoXUpBlock3D") != 0)
            sg_config_fail(f, "up_block_types", "\"%s\" is not supported; only \"CogVideoXUpBlock3D\" is", type[i]);
    const char *const act = sg_config_string(f, "act_fn", "silu");
    if (act && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        sg_config_fail(f, "act_fn", "\"%s\" is not supported; only \"silu\" is", act);
}

/* The first levels that are made larger in time, one for each factor of 2. */
static void set_time(sg_cogvideox_vae *v, int64_t ratio, sg_config *f)
{
    int made = 1;
    for (int i = 0; i + 1 < v->levels && made < ratio; i++, made *= 2) v->level[i].time = true;
    if (made != ratio)
        sg_config_fail(f, "temporal_compression_ratio", "%lld, but %d levels make powers of 2 up to %d",
                       (long long)ratio, v->levels, 1 << (v->levels - 1));
}

static sg_status read_config(sg_cogvideox_vae *v, sg_config *f)
{
    int64_t       out[LEVELS];
    const int64_t rgb = 3;
    v->levels = sg_config_ints(f, "block_out_channels", 1, CHANNELS, out, 1, LEVELS);
    v->blocks = (int)sg_config_int(f, "layers_per_block", 1, BLOCKS - 1, &(int64_t){3}) + 1;
    v->z = (int)sg_config_int(f, "latent_channels", 1, Z, &(int64_t){16});
    v->groups = (int)sg_config_int(f, "norm_num_groups", 1, CHANNELS, &(int64_t){32});
    v->scaling = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &(double){1.15258426});
    if (sg_config_int(f, "out_channels", 1, CHANNELS, &rgb) != rgb)
        sg_config_fail(f, "out_channels", "only 3, of RGB frames, are supported");
    if (sg_config_bool(f, "use_post_quant_conv", &(bool){false}))
        sg_config_fail(f, "use_post_quant_conv", "true is not supported");
    SG_TRY(sg_config_status(f));
    for (int i = 0; i < v->levels; i++) {
        level *const l = &v->level[i];
        l->out = out[v->levels - 1 - i];
        l->in = i ? l[-1].out : l->out;
        l->space = i + 1 < v->levels;
        if (l->out % v->groups)
            sg_config_fail(f, "block_out_channels", "%lld is no multiple of the %d norm_num_groups", (long long)l->out,
                           v->groups);
    }
    set_time(v, sg_config_int(f, "temporal_compression_ratio", 1, 1 << LEVELS, &(int64_t){4}), f);
    check_blocks(v, f);
    return sg_config_status(f);
}

/* ---- tensors ---- */

static void bind_conv(sg_bind *b, sg_cogvideox_vae *v, conv *c, const char *name, int64_t o, int64_t i, int kt)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, &c->w, v->component.act, full, o, i, kt, 3, 3);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &c->b, SG_F32, full, o);
    if (kt > 1) c->history = v->histories++;
}

static void bind_mix(sg_bind *b, const sg_cogvideox_vae *v, mix *m, const char *name, int64_t o, int64_t i)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, &m->w, v->component.act, full, o, i);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &m->b, SG_F32, full, o);
}

static void bind_norm(sg_bind *b, const sg_cogvideox_vae *v, norm *n, const char *name, int64_t c)
{
    char full[64];
    snprintf(full, sizeof full, "%s.norm_layer.weight", name);
    sg_bind_tensor(b, &n->w, SG_F32, full, c);
    snprintf(full, sizeof full, "%s.norm_layer.bias", name);
    sg_bind_tensor(b, &n->b, SG_F32, full, c);
    snprintf(full, sizeof full, "%s.conv_y.conv", name);
    bind_mix(b, v, &n->scale, full, c, v->z);
    snprintf(full, sizeof full, "%s.conv_b.conv", name);
    bind_mix(b, v, &n->shift, full, c, v->z);
}

static void bind_block(sg_bind *b, sg_cogvideox_vae *v, block *w, int64_t i, int64_t o)
{
    bind_norm(b, v, &w->norm[0], "norm1", i);
    bind_conv(b, v, &w->conv[0], "conv1.conv", o, i, 3);
    bind_norm(b, v, &w->norm[1], "norm2", o);
    bind_conv(b, v, &w->conv[1], "conv2.conv", o, o, 3);
    if (i != o) bind_mix(b, v, &w->shortcut, "conv_shortcut", o, i);
}

static void bind_all(sg_bind *b, sg_cogvideox_vae *v)
{
    const int64_t first = v->level[0].in, last = v->level[v->levels - 1].out;
    sg_bind_ignore(b, "encoder."); /* text to video has no use for it */
    sg_bind_ignore(b, "quant_conv.");
    sg_bind_prefix(b, "decoder.");
    bind_conv(b, v, &v->conv_in, "conv_in.conv", first, v->z, 3);
    bind_norm(b, v, &v->norm_out, "norm_out", last);
    bind_conv(b, v, &v->conv_out, "conv_out.conv", 3, last, 3);
    for (int j = 0; j < MID; j++) {
        sg_bind_prefix(b, "decoder.mid_block.resnets.%d.", j);
        bind_block(b, v, &v->mid[j], first, first);
    }
    for (int i = 0; i < v->levels; i++) {
        level *const l = &v->level[i];
        for (int j = 0; j < v->blocks; j++) {
            sg_bind_prefix(b, "decoder.up_blocks.%d.resnets.%d.", i, j);
            bind_block(b, v, &l->block[j], j ? l->out : l->in, l->out);
        }
        sg_bind_prefix(b, "decoder.up_blocks.%d.", i);
        if (l->space) bind_conv(b, v, &l->up, "upsamplers.0.conv", l->out, l->out, 1);
    }
}

/* ---- opening ---- */

static sg_status open_component(sg_cogvideox_vae *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", "AutoencoderKLCogVideoX", act, f, e));
    SG_TRY(read_config(v, *f));
    const sg_vae_info i = sg_cogvideox_vae_describe(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d x %d, %d latent channels, %d levels from %d",
             i.scale_time, i.scale_space, i.scale_space, i.z, v->levels, (int)v->level[v->levels - 1].out);
    bind_all(v->component.bind, v);
    return sg_bind_check(v->component.bind, e);
}

sg_status sg_cogvideox_vae_open(sg_cogvideox_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e)
{
    sg_cogvideox_vae *v = *out = calloc(1, sizeof *v);
    sg_config        *f = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "%s/vae: out of memory", sg_checkpoint_path(c));
    const sg_status st = open_component(v, c, act, &f, e);
    sg_config_close(&f);
    if (st) sg_cogvideox_vae_close(out);
    return st;
}

void sg_cogvideox_vae_close(sg_cogvideox_vae **v)
{
    if (!*v) return;
    sg_component_close(&(*v)->component);
    free(*v);
    *v = NULL;
}

/* ---- a run ---- */

/* One clip being decoded. */
typedef struct run {
    const sg_cogvideox_vae *vae;
    bool                    begun;
    sg_tensor               scale;     /* F32 [z]: of the latents */
    sg_tensor               history[]; /* act [PAST, y, x, c] */
} run;

static sg_tensor rows_of(sg_tensor t) { return sg_reshape(t, sg_count(t) / t.dim[t.rank - 1], t.dim[t.rank - 1]); }

/* The beginning of t as a tensor of x's frames and places, and c channels. */
static sg_tensor shaped(sg_tensor t, sg_tensor x, int64_t c)
{
    const int64_t places = x.dim[0] * x.dim[1] * x.dim[2];
    return sg_reshape(sg_rows(sg_reshape(t, sg_count(t)), 0, places * c), x.dim[0], x.dim[1], x.dim[2], c);
}

/* Which of n frames is the t-th of f, by nearest neighbours. */
static int64_t nearest_frame(int64_t t, int64_t f, int64_t n)
{
    if (f == 1 || f % 2 == 0) return t * n / f;
    return t ? 1 + (t - 1) * (n - 1) / (f - 1) : 0;
}

static int64_t frames_after(const level *l, int64_t f)
{
    if (!l->time || f == 1) return f;
    return 2 * f - f % 2;
}

/* y = or += what k makes of input, whose frames behind the first PAST are there. */
static void causal(run *r, sg_stream *s, const conv *k, sg_tensor y, sg_tensor input, bool add)
{
    const sg_tensor history = r->history[k->history];
    for (int i = 0; i < PAST && !r->begun; i++) sg_copy(s, .y = sg_rows(input, i, 1), .x = sg_rows(input, PAST, 1));
    if (r->begun) sg_copy(s, .y = sg_rows(input, 0, PAST), .x = history);
    sg_conv(s, .y = y, .x = input, .w = k->w, .b = k->b, .stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .add = add);
    sg_copy(s, .y = history, .x = sg_rows(input, input.dim[0] - PAST, PAST));
}

static void apply_mix(sg_stream *s, const mix *m, sg_tensor y, sg_tensor x)
{
    sg_linear(s, .y = rows_of(y), .x = rows_of(x), .w = m->w, .b = m->b);
}

/* z: the chunk's latents, as many frames as x has. */
static void apply_norm(const run *r, sg_stream *s, const norm *n, sg_tensor y, sg_tensor x, sg_tensor z)
{
    const size_t    mark = s->scratch.used;
    const sg_dtype  act = r->vae->component.act;
    const int64_t   c = x.dim[3];
    const sg_tensor scale = sg_new(s, act, z.dim[0], z.dim[1], z.dim[2], c);
    const sg_tensor shift = sg_new(s, act, z.dim[0], z.dim[1], z.dim[2], c);
    apply_mix(s, &n->scale, scale, z);
    apply_mix(s, &n->shift, shift, z);
    sg_norm(s, .y = y, .x = x, .w = n->w, .b = n->b, .place_scale = scale, .place_shift = shift, .kind = SG_NORM_GROUP,
            .eps = eps, .act = SG_ACT_SILU, .groups = r->vae->groups);
    s->scratch.used = mark;
}

/* y = or += conv(norm(x)). x is read before y is written. */
static void norm_conv(run *r, sg_stream *s, const conv *k, const norm *n, sg_tensor y, sg_tensor x, sg_tensor z,
                      bool add)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor input = sg_new(s, x.dtype, PAST + x.dim[0], x.dim[1], x.dim[2], x.dim[3]);
    apply_norm(r, s, n, sg_rows(input, PAST, x.dim[0]), x, z);
    causal(r, s, k, y, input, add);
    s->scratch.used = mark;
}

/* Through blocks of `out` channels. room has x at its beginning, and room for out channels; what lies there may change.
 * The result is there, or above it in scratch. */
static sg_tensor blocks(run *r, sg_stream *s, const block *w, int count, sg_tensor room, sg_tensor x, int64_t out,
                        sg_tensor z)
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

/* The latents z as f frames. */
static sg_tensor enlarge(sg_stream *s, sg_tensor z, int64_t f)
{
    if (f == z.dim[0]) return z;
    const sg_tensor y = sg_new(s, z.dtype, f, z.dim[1], z.dim[2], z.dim[3]);
    for (int64_t t = 0; t < f; t++)
        sg_copy(s, .y = sg_rows(y, t, 1), .x = sg_rows(z, nearest_frame(t, f, z.dim[0]), 1));
    return y;
}

static void upsample(sg_stream *s, const conv *k, sg_tensor y, sg_tensor x)
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

/* What each level reads, with room for its blocks, the last level's lowest on the stack: a level's working memory lies above
 * its input, which may go as soon as the next level's has been written. mark[i]: the stack with in[i] on top. */
typedef struct level_inputs {
    sg_tensor room[LEVELS], in[LEVELS];
    size_t    mark[LEVELS];
} level_inputs;

static level_inputs reserve(const run *r, sg_stream *s, sg_tensor z)
{
    const sg_cogvideox_vae *const v = r->vae;
    level_inputs                  m = {0};
    int64_t                       dim[LEVELS][3] = {{z.dim[0], z.dim[1], z.dim[2]}};
    for (int i = 0; i + 1 < v->levels; i++) {
        dim[i + 1][0] = frames_after(&v->level[i], dim[i][0]);
        for (int k = 1; k < 3; k++) dim[i + 1][k] = 2 * dim[i][k];
    }
    for (int i = v->levels - 1; i >= 0; i--) {
        const level *const l = &v->level[i];
        const int64_t      c = l->in > l->out ? l->in : l->out;
        m.room[i] = sg_new(s, v->component.act, dim[i][0], dim[i][1], dim[i][2], c);
        m.in[i] = shaped(m.room[i], m.room[i], l->in);
        m.mark[i] = s->scratch.used;
    }
    return m;
}

/* The way in and the middle, into m->in[0]. */
static void begin(run *r, sg_stream *s, const level_inputs *m, sg_tensor z)
{
    const sg_cogvideox_vae *const v = r->vae;
    const sg_tensor               x = m->in[0];
    const sg_tensor               input = sg_new(s, z.dtype, PAST + z.dim[0], z.dim[1], z.dim[2], z.dim[3]);
    sg_copy(s, .y = sg_rows(input, PAST, z.dim[0]), .x = z);
    causal(r, s, &v->conv_in, x, input, false);
    s->scratch.used = m->mark[0];
    sg_tap(s, x, "vae.conv_in");
    blocks(r, s, v->mid, MID, m->room[0], x, x.dim[3], z);
    s->scratch.used = m->mark[0];
    sg_tap(s, x, "vae.mid");
}

static sg_tensor levels(run *r, sg_stream *s, const level_inputs *m, sg_tensor z)
{
    const sg_cogvideox_vae *const v = r->vae;
    sg_tensor                     x = {0};
    for (int i = 0; i < v->levels; i++) {
        const level *const l = &v->level[i];
        x = blocks(r, s, l->block, v->blocks, m->room[i], m->in[i], l->out, enlarge(s, z, m->in[i].dim[0]));
        if (l->space) {
            upsample(s, &l->up, m->in[i + 1], x);
            s->scratch.used = m->mark[i + 1];
        }
        sg_tap(s, l->space ? m->in[i + 1] : x, "vae.up.%d", i);
    }
    return x;
}

/* ---- as a decoder of vae.h ---- */

static sg_component *ops_component(void *of) { return sg_cogvideox_vae_component(of); }

static int64_t ops_chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    if (done) return CHUNK;
    return total > CHUNK ? CHUNK + total % CHUNK : total;
}

/* The first may have a frame more. */
static int ops_special(const void *of)
{
    (void)of;
    return 1;
}

static void keep_history(run *r, sg_stream *s, const conv *k, int64_t y, int64_t x)
{
    r->history[k->history] = sg_new_keep(s, r->vae->component.act, PAST, y, x, k->w.dim[1]);
}

static void keep_blocks(run *r, sg_stream *s, const block *w, int count, int64_t y, int64_t x)
{
    for (int j = 0; j < count; j++)
        for (int i = 0; i < 2; i++) keep_history(r, s, &w[j].conv[i], y, x);
}

static void keep_all(run *r, sg_stream *s, int64_t y, int64_t x)
{
    const sg_cogvideox_vae *const v = r->vae;
    float                         scale[Z];
    for (int i = 0; i < v->z; i++) scale[i] = (float)(1 / v->scaling);
    r->scale = sg_new_keep(s, SG_F32, v->z);
    sg_upload(s, r->scale, scale);
    keep_history(r, s, &v->conv_in, y, x);
    keep_blocks(r, s, v->mid, MID, y, x);
    for (int i = 0; i < v->levels; i++) {
        keep_blocks(r, s, v->level[i].block, v->blocks, y << i, x << i);
    }
    keep_history(r, s, &v->conv_out, y << (v->levels - 1), x << (v->levels - 1));
}

static sg_status ops_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    const sg_cogvideox_vae *const v = of;
    const int64_t                 most = PIXELS_MAX >> (v->levels - 1);
    *out = NULL;
    if (y < 1 || y > most || x < 1 || x > most)
        return sg_error_set(e, SG_E_ARG, "latents of %lld x %lld places cannot be decoded", (long long)x, (long long)y);
    run *const r = calloc(1, sizeof *r + (size_t)v->histories * sizeof *r->history);
    if (!r) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", v->component.dir);
    r->vae = v;
    keep_all(r, s, y, x);
    *out = r;
    return SG_OK;
}

static sg_tensor ops_next(void *of, sg_stream *s, sg_tensor z, bool last_chunk)
{
    (void)last_chunk;
    run *const                    r = of;
    const sg_cogvideox_vae *const v = r->vae;
    const sg_vae_info             info = sg_cogvideox_vae_describe(v);
    int64_t                       f = z.dim[0];
    for (int i = 0; i < v->levels; i++) f = frames_after(&v->level[i], f);
    const sg_tensor frames = sg_new(s, SG_F32, f, z.dim[1] * info.scale_space, z.dim[2] * info.scale_space, 3);
    const size_t    mark = s->scratch.used;
    const sg_tensor latents = sg_alloc(s, &s->scratch, v->component.act, 4, z.dim);
    sg_norm(s, .y = latents, .x = z, .w = r->scale, .kind = SG_NORM_NONE);
    const level_inputs m = reserve(r, s, latents);
    begin(r, s, &m, latents);
    const sg_tensor last = levels(r, s, &m, latents);
    const sg_tensor out = sg_new(s, v->component.act, f, last.dim[1], last.dim[2], 3);
    norm_conv(r, s, &v->conv_out, &v->norm_out, out, last, enlarge(s, latents, f), false);
    sg_tap(s, out, "vae.conv_out");
    sg_activate(s, .y = frames, .x = out, .act = SG_ACT_CLAMP);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    r->begun = true;
    return frames;
}

static void ops_run_close(void **r)
{
    free(*r);
    *r = NULL;
}

static void ops_close(void *of)
{
    sg_cogvideox_vae *v = of;
    sg_cogvideox_vae_close(&v);
}

const sg_vae_ops sg_cogvideox_vae_ops = {.component = ops_component,
                                         .chunk = ops_chunk,
                                         .special = ops_special,
                                         .decode_open = ops_open,
                                         .decode_next = ops_next,
                                         .decode_close = ops_run_close,
                                         .close = ops_close};
