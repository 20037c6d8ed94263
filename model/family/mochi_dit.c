/* mochi_dit.c - the denoiser of Mochi 1 (Genmo, 2024), an asymmetric diffusion transformer.
 *
 * Tensor names are those of diffusers' MochiTransformer3DModel. Video and text are two streams of tokens, of two widths, each
 * with weights of its own; they meet in attention, where the tokens stand as [video | text]. What bites:
 *  - the text has its real tokens alone, so that the two passes differ in length; a text may have none;
 *  - modulation rows come as scale, gate of attention, scale, gate of the feed-forward: no shift, tanh of every gate;
 *  - what a gate lets through is normalised first: x += RMS(attention) tanh(gate);
 *  - the last block has no use for its text: norm1_context is a scale alone, to_add_out and ff_context are not there;
 *  - rotary angles are learned, each head its own, of the video alone: t f_t + y f_y + x f_x, y and x the centres of
 *    patches in a grid about 0 whose area is 192 x 192 whatever the video's size;
 *  - the feed-forward is a silu(b), [a | b] one product;
 *  - the output modulation has scale before shift; its norm is LayerNorm, all others are RMS;
 *  - the patch vector is (c, ph, pw) on the way in, (ph, pw, c) on the way out. */
#include "mochi_dit.h"
#include "base/text.h"
#include "op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_HEADS = 8 };

static const float eps = 1e-6f, eps_head = 1e-5f;

/* One stream of tokens in one block: w numbers a token, D those of the video. */
typedef struct mochi_side {
    sg_linear_weights mod;            /* [4 w, D]: scale, gate, scale, gate; of the last block's text [w, D]: scale */
    sg_linear_weights q, k, v;        /* [D, w], no bias */
    sg_tensor         norm_q, norm_k; /* [d] */
    sg_linear_weights out;            /* [w, D]? */
    sg_tensor         up, down;       /* [2 inner, w]? [w, inner]? */
} mochi_side;

typedef struct mochi_block {
    mochi_side video, text;
} mochi_block;

struct sg_mochi_dit {
    sg_component      component;
    sg_mochi_config   config;
    sg_tensor         patch_w, patch_b; /* [D, C, p, p] [D] */
    sg_linear_weights time[2];          /* [D, freq] [D, D] */
    sg_linear_weights pool_kv, pool_q;  /* [2 T, T]: k, v; [T, T] */
    sg_linear_weights pool_out;         /* [D, T] */
    sg_linear_weights caption;          /* [w of the text, T] */
    sg_tensor         frequencies;      /* [3, heads, d/2] */
    sg_linear_weights mod_out;          /* [2 D, D]: scale, shift */
    sg_linear_weights proj_out;         /* [p p C, D] */
    mochi_block      *block;            /* [layers] */
};

sg_component          *sg_mochi_dit_component(sg_mochi_dit *d) { return &d->component; }
const sg_mochi_config *sg_mochi_dit_config(const sg_mochi_dit *d) { return &d->config; }

/* ---- opening ---- */

static sg_status read_config(sg_mochi_config *c, sg_config *f)
{
    c->patch[0] = 1;
    c->patch[1] = c->patch[2] = sg_config_int(f, "patch_size", 1, 16, NULL);
    c->heads = sg_config_int(f, "num_attention_heads", 1, 1024, NULL);
    c->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, NULL);
    c->width = c->heads * c->head_dim;
    c->layers = sg_config_int(f, "num_layers", 1, 4096, NULL);
    c->text_width = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, NULL);
    c->channels = sg_config_int(f, "in_channels", 1, 4096, NULL);
    c->text_dim = sg_config_int(f, "text_embed_dim", POOL_HEADS, 1 << 18, NULL);
    c->freq_dim = sg_config_int(f, "time_embed_dim", 2, 1 << 16, NULL);
    const int64_t out = sg_config_int(f, "out_channels", 1, 4096, &c->channels);
    if (out != c->channels)
        sg_config_fail(f, "out_channels", "%lld, but in_channels is %lld: they should agree", (long long)out,
                       (long long)c->channels);
    if (c->head_dim % 2) sg_config_fail(f, "attention_head_dim", "%lld is odd", (long long)c->head_dim);
    if (c->freq_dim % 2) sg_config_fail(f, "time_embed_dim", "%lld is odd", (long long)c->freq_dim);
    if (c->text_dim % POOL_HEADS)
        sg_config_fail(f, "text_embed_dim", "%lld is no multiple of the %d heads of the text's pool",
                       (long long)c->text_dim, POOL_HEADS);
    sg_config_only(f, "qk_norm", "rms_norm", "rms_norm");
    sg_config_only(f, "activation_fn", "swiglu", "swiglu");
    return sg_config_status(f);
}

static int64_t inner(int64_t width) { return width * 8 / 3; }

/* The names of the two streams' tensors in a block. */
typedef struct side_names {
    const char *mod, *q, *k, *v, *norm_q, *norm_k, *out, *up, *down;
} side_names;

static const side_names video_names = {"norm1.linear",      "attn1.to_q.weight",    "attn1.to_k.weight",
                                       "attn1.to_v.weight", "attn1.norm_q.weight",  "attn1.norm_k.weight",
                                       "attn1.to_out.0",    "ff.net.0.proj.weight", "ff.net.2.weight"};
static const side_names text_names = {
    "norm1_context.linear",    "attn1.add_q_proj.weight",      "attn1.add_k_proj.weight",
    "attn1.add_v_proj.weight", "attn1.norm_added_q.weight",    "attn1.norm_added_k.weight",
    "attn1.to_add_out",        "ff_context.net.0.proj.weight", "ff_context.net.2.weight"};

/* read_only: its tokens are attended to, and nothing comes of them. */
static void bind_side(sg_mochi_dit *d, mochi_side *w, const side_names *n, int64_t width, bool read_only)
{
    const sg_mochi_config *const c = &d->config;
    const sg_dtype               act = d->component.act;
    sg_bind *const               b = d->component.bind;
    char                         scale[32];
    snprintf(scale, sizeof scale, "%s%s", n->mod, read_only ? "_1" : "");
    sg_want_linear(b, &w->mod, act, scale, read_only ? width : 4 * width, c->width);
    sg_bind_tensor(b, &w->q.w, act, n->q, c->width, width);
    sg_bind_tensor(b, &w->k.w, act, n->k, c->width, width);
    sg_bind_tensor(b, &w->v.w, act, n->v, c->width, width);
    sg_bind_tensor(b, &w->norm_q, SG_F32, n->norm_q, c->head_dim);
    sg_bind_tensor(b, &w->norm_k, SG_F32, n->norm_k, c->head_dim);
    if (read_only) return;
    sg_want_linear(b, &w->out, act, n->out, width, c->width);
    sg_bind_tensor(b, &w->up, act, n->up, 2 * inner(width), width);
    sg_bind_tensor(b, &w->down, act, n->down, width, inner(width));
}

static void bind_weights(sg_mochi_dit *d)
{
    const sg_mochi_config *const c = &d->config;
    const sg_dtype               act = d->component.act;
    const int64_t                w = c->width, t = c->text_dim, p = c->patch[1];
    sg_bind *const               b = d->component.bind;

    sg_bind_tensor(b, &d->patch_w, act, "patch_embed.proj.weight", w, c->channels, p, p);
    sg_bind_tensor(b, &d->patch_b, SG_F32, "patch_embed.proj.bias", w);
    sg_bind_tensor(b, &d->frequencies, SG_F32, "pos_frequencies", 3, c->heads, c->head_dim / 2);
    sg_bind_prefix(b, "time_embed.");
    sg_want_linear(b, &d->time[0], SG_F32, "timestep_embedder.linear_1", w, c->freq_dim);
    sg_want_linear(b, &d->time[1], SG_F32, "timestep_embedder.linear_2", w, w);
    sg_want_linear(b, &d->pool_kv, act, "pooler.to_kv", 2 * t, t);
    sg_want_linear(b, &d->pool_q, act, "pooler.to_q", t, t);
    sg_want_linear(b, &d->pool_out, act, "pooler.to_out", w, t);
    sg_want_linear(b, &d->caption, act, "caption_proj", c->text_width, t);
    for (int i = 0; i < c->layers; i++) {
        sg_bind_block(b, i);
        sg_bind_prefix(b, "transformer_blocks.%d.", i);
        bind_side(d, &d->block[i].video, &video_names, w, false);
        bind_side(d, &d->block[i].text, &text_names, c->text_width, i + 1 == c->layers);
    }
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &d->mod_out, act, "norm_out.linear", 2 * w, w);
    sg_want_linear(b, &d->proj_out, act, "proj_out", c->channels * p * p, w);
}

sg_status sg_mochi_dit_open(sg_mochi_dit **out, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    static const char name[] = "transformer";
    sg_mochi_dit     *d = calloc(1, sizeof *d);
    sg_config        *f = NULL;
    if (!d) return sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    sg_status st = sg_component_open(&d->component, from, name, "MochiTransformer3DModel", act, &f, e);
    if (!st) st = read_config(&d->config, f);
    if (!st && !(d->block = calloc((size_t)d->config.layers, sizeof *d->block)))
        st = sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    if (!st) {
        const sg_mochi_config *const c = &d->config;
        snprintf(d->component.summary, sizeof d->component.summary,
                 "%lld layer%s, %lld heads x %lld, text width %lld, %lld latent channels", (long long)c->layers,
                 sg_plural(c->layers), (long long)c->heads, (long long)c->head_dim, (long long)c->text_width,
                 (long long)c->channels);
        bind_weights(d);
        st = sg_bind_check(d->component.bind, e);
    }
    sg_config_close(&f);
    if (st) sg_mochi_dit_close(&d);
    *out = d;
    return st;
}

void sg_mochi_dit_close(sg_mochi_dit **d)
{
    if (!*d) return;
    sg_component_close(&(*d)->component);
    free((*d)->block);
    free(*d);
    *d = NULL;
}

/* ---- what steps share ---- */

static int64_t tokens(const sg_mochi_run *run) { return run->grid[0] * run->grid[1] * run->grid[2]; }

void sg_mochi_run_open(sg_mochi_run *run, sg_stream *s, const int64_t grid[3], const sg_self_attention *self)
{
    *run = (sg_mochi_run){.self = self};
    memcpy(run->grid, grid, sizeof run->grid);
    run->tokens = sg_token_order_place(s, self, tokens(run));
}

/* pooled [1, D]: the mean of the tokens, row 0 of x, attends to itself and to them. */
static void pool(const sg_mochi_dit *d, sg_stream *s, sg_tensor pooled, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const int64_t   m = x.dim[0], t = x.dim[1], hd = t / POOL_HEADS;
    const sg_tensor q = sg_new(s, x.dtype, 1, t), k = sg_new(s, x.dtype, m, t), v = sg_new(s, x.dtype, m, t);
    const sg_tensor o = sg_new(s, x.dtype, 1, t);
    sg_linear(s, .y = q, .x = sg_rows(x, 0, 1), .w = d->pool_q.w, .b = d->pool_q.b);
    sg_linear(s, .y = k, .x = x, .w = sg_rows(d->pool_kv.w, 0, t), .b = sg_rows(d->pool_kv.b, 0, t));
    sg_linear(s, .y = v, .x = x, .w = sg_rows(d->pool_kv.w, t, t), .b = sg_rows(d->pool_kv.b, t, t));
    sg_attend(s, .y = sg_reshape(o, 1, POOL_HEADS, hd), .q = sg_reshape(q, 1, POOL_HEADS, hd),
              .k = sg_reshape(k, m, POOL_HEADS, hd), .v = sg_reshape(v, m, POOL_HEADS, hd),
              .scale = 1.0f / sqrtf((float)hd));
    sg_linear(s, .y = pooled, .x = o, .w = d->pool_out.w, .b = d->pool_out.b);
    s->scratch.used = mark;
}

/* y [1 + len, c]: the mean of the states, zeros where there is none, then the states. */
static void upload_states(sg_stream *s, sg_tensor y, const float *states, int len)
{
    const int64_t c = y.dim[1];
    float *const  host = calloc((size_t)sg_count(y), sizeof *host);
    if (!host) {
        sg_fail(s, SG_E_MEMORY, "no memory for %d text states", len);
        return;
    }
    for (int64_t j = 0; states && len && j < c; j++) {
        double sum = 0;
        for (int64_t i = 0; i < len; i++) sum += states[i * c + j];
        host[j] = (float)(sum / len);
    }
    if (states) memcpy(host + c, states, (size_t)(len * c) * sizeof *host);
    sg_upload(s, y, host);
    free(host);
}

void sg_mochi_run_text(sg_mochi_run *run, const sg_mochi_dit *d, sg_stream *s, int pass, const float *states, int len)
{
    const sg_mochi_config *const c = &d->config;
    run->pooled[pass] = sg_new_keep(s, SG_F32, 1, c->width);
    if (len) run->text[pass] = sg_new_keep(s, SG_F32, len, c->text_width);
    const size_t    mark = s->scratch.used;
    const sg_tensor given = sg_new(s, SG_F32, 1 + len, c->text_dim);
    const sg_tensor x = sg_new(s, d->component.act, 1 + len, c->text_dim);
    upload_states(s, given, states, len);
    sg_copy(s, .y = x, .x = given);
    pool(d, s, run->pooled[pass], x);
    if (len) {
        sg_linear(s, .y = run->text[pass], .x = sg_rows(x, 1, len), .w = d->caption.w, .b = d->caption.b);
        sg_tap(s, run->text[pass], "dit.text");
    }
    s->scratch.used = mark;
}

/* ---- rotary tables ---- */

typedef struct phasor { /* exp(i angle) */
    double cos, sin;
} phasor;

static phasor times(phasor a, phasor b)
{
    return (phasor){a.cos * b.cos - a.sin * b.sin, a.sin * b.cos + a.cos * b.sin};
}

/* The place of i of n patches, where the grid's area is that of 192 x 192. */
static double centre(int64_t i, int64_t n, const int64_t grid[3])
{
    return ((double)i + 0.5 - 0.5 * (double)n) * sqrt(192.0 * 192.0 / (double)(grid[1] * grid[2]));
}

/* Fills in the phasors of every place of one axis, by head and pair. */
static void fill_axis(phasor *t, const float *frequency, int axis, const int64_t grid[3], int64_t pairs)
{
    for (int64_t i = 0; i < grid[axis]; i++)
        for (int64_t j = 0; j < pairs; j++) {
            const double place = axis ? centre(i, grid[axis], grid) : (double)i;
            const double angle = place * (double)frequency[axis * pairs + j];
            t[i * pairs + j] = (phasor){cos(angle), sin(angle)};
        }
}

/* The tables of tokens first .. first + rows. The angle of a token is the sum of those of its three places. */
static void fill_rows(float *cosines, float *sines, const phasor *const axis[3], const sg_mochi_run *run, int64_t first,
                      int64_t rows, int64_t pairs)
{
    for (int64_t i = 0; i < rows; i++) {
        const int64_t       token = run->self->ordered ? run->self->order[first + i] : first + i;
        const int64_t       x = token % run->grid[2], y = token / run->grid[2] % run->grid[1];
        const int64_t       f = token / run->grid[2] / run->grid[1];
        const phasor *const of_f = axis[0] + f * pairs, *const of_y = axis[1] + y * pairs;
        const phasor *const of_x = axis[2] + x * pairs;
        for (int64_t j = 0; j < pairs; j++) {
            const phasor t = times(times(of_f[j], of_y[j]), of_x[j]);
            cosines[i * pairs + j] = (float)t.cos;
            sines[i * pairs + j] = (float)t.sin;
        }
    }
}

void sg_mochi_run_rotary(sg_mochi_run *run, const sg_mochi_dit *d, sg_stream *s)
{
    enum { ROWS = 1024 }; /* that are made at once */
    const sg_mochi_config *const c = &d->config;
    const int64_t                n = tokens(run), half = c->head_dim / 2, pairs = c->heads * half;
    const int64_t                places = run->grid[0] + run->grid[1] + run->grid[2];
    run->rotary.cos = sg_new_keep(s, SG_F32, n, c->heads, half);
    run->rotary.sin = sg_new_keep(s, SG_F32, n, c->heads, half);
    if (!s->memory->alloc) return; /* a plan needs no angles */
    float *const  host = malloc((size_t)((3 + 2 * ROWS) * pairs) * sizeof *host);
    phasor *const phasors = malloc((size_t)(places * pairs) * sizeof *phasors);
    if (host && phasors) {
        const phasor *const axis[3] = {phasors, phasors + run->grid[0] * pairs,
                                       phasors + (run->grid[0] + run->grid[1]) * pairs};
        float *const cosines = host + 3 * pairs, *const sines = cosines + ROWS * pairs;
        sg_download(s, host, d->frequencies);
        for (int k = 0; k < 3 && !s->status; k++) fill_axis((phasor *)axis[k], host, k, run->grid, pairs);
        for (int64_t i = 0; i < n && !s->status; i += ROWS) {
            const int64_t rows = n - i < ROWS ? n - i : ROWS;
            fill_rows(cosines, sines, axis, run, i, rows, pairs);
            sg_upload(s, sg_rows(run->rotary.cos, i, rows), cosines);
            sg_upload(s, sg_rows(run->rotary.sin, i, rows), sines);
        }
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for rotary tables of %lld tokens", (long long)n);
    }
    free(phasors);
    free(host);
}

/* ---- one forward ---- */

/* One stream of tokens while a block works on it. */
typedef struct side {
    const mochi_side *w;
    sg_tensor         x;     /* F32 [n, width]: what blocks add to; absent: a text without tokens */
    sg_tensor         mod;   /* F32 [4, width] or [1, width] */
    int64_t           first; /* of its rows in attention */
    const char       *tap;   /* behind the names of its taps */
} side;

static sg_tensor mod_row(const side *k, int64_t i) { return sg_reshape(sg_rows(k->mod, i, 1), k->mod.dim[1]); }

/* Rows of a modulation by the step's time, silu(temb) [1, D]. */
static sg_tensor modulation(sg_stream *s, const sg_linear_weights *w, sg_tensor time, int64_t width)
{
    const sg_tensor e = sg_new(s, SG_F32, w->w.dim[0] / width, width);
    sg_linear(s, .y = sg_reshape(e, 1, w->w.dim[0]), .x = time, .w = w->w, .b = w->b);
    return e;
}

/* y = RMS(x) (1 + scale), in the dtype of products. */
static sg_tensor normed(const sg_mochi_dit *d, sg_stream *s, const side *k, int64_t scale)
{
    const sg_tensor y = sg_new(s, d->component.act, k->x.dim[0], k->x.dim[1]);
    sg_norm(s, .y = y, .x = k->x, .scale = mod_row(k, scale), .kind = SG_NORM_RMS, .eps = eps);
    return y;
}

/* x += RMS(r) tanh(gate). */
static void add_normed(sg_stream *s, const side *k, sg_tensor r, int64_t gate)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor y = sg_new(s, r.dtype, r.dim[0], r.dim[1]);
    sg_norm(s, .y = y, .x = r, .kind = SG_NORM_RMS, .eps = eps);
    sg_gate_add(s, .x = k->x, .r = y, .gate = mod_row(k, gate), .tanh_gate = true);
    s->scratch.used = mark;
}

/* q, k, v of one stream, into its rows of all. */
static void project_in(const sg_mochi_dit *d, sg_stream *s, const side *k, const sg_tensor qkv[3],
                       const sg_rotary *rotary)
{
    const size_t    mark = s->scratch.used;
    const int64_t   n = k->x.dim[0];
    const sg_tensor y = normed(d, s, k, 0);
    sg_project_heads(s, sg_rows(qkv[0], k->first, n), y, &k->w->q, k->w->norm_q, eps_head, rotary);
    sg_project_heads(s, sg_rows(qkv[1], k->first, n), y, &k->w->k, k->w->norm_k, eps_head, rotary);
    sg_linear(s, .y = sg_reshape(sg_rows(qkv[2], k->first, n), n, d->config.width), .x = y, .w = k->w->v.w);
    s->scratch.used = mark;
}

static void project_back(const sg_mochi_dit *d, sg_stream *s, const side *k, sg_tensor o, int i)
{
    const size_t    mark = s->scratch.used;
    const int64_t   n = k->x.dim[0];
    const sg_tensor r = sg_new(s, d->component.act, n, k->x.dim[1]);
    sg_linear(s, .y = r, .x = sg_reshape(sg_rows(o, k->first, n), n, d->config.width), .w = k->w->out.w,
              .b = k->w->out.b);
    add_normed(s, k, r, 1);
    sg_tap(s, k->x, "dit.block.%d.attn1%s", i, k->tap);
    s->scratch.used = mark;
}

static void feed_forward(const sg_mochi_dit *d, sg_stream *s, const side *k, int i)
{
    const size_t    mark = s->scratch.used;
    const sg_dtype  act = d->component.act;
    const int64_t   n = k->x.dim[0], width = k->x.dim[1], o = inner(width);
    const sg_tensor r = sg_new(s, act, n, width), u = sg_new(s, act, n, o);
    const size_t    wide = s->scratch.used;
    const sg_tensor a = sg_new(s, act, n, o), b = sg_new(s, act, n, o);
    const sg_tensor y = normed(d, s, k, 2);
    sg_linear(s, .y = a, .x = y, .w = sg_rows(k->w->up, 0, o));
    sg_linear(s, .y = b, .x = y, .w = sg_rows(k->w->up, o, o), .act = SG_ACT_SILU);
    sg_mul(s, .y = u, .a = a, .b = b);
    s->scratch.used = wide;
    sg_linear(s, .y = r, .x = u, .w = k->w->down);
    add_normed(s, k, r, 3);
    sg_tap(s, k->x, "dit.block.%d.ff%s", i, k->tap);
    s->scratch.used = mark;
}

static void block(const sg_mochi_dit *d, const sg_mochi_run *run, sg_stream *s, const sg_pass *p, int i, sg_tensor x,
                  sg_tensor text, sg_tensor time)
{
    const sg_mochi_config *const c = &d->config;
    const sg_dtype               act = d->component.act;
    const size_t                 mark = s->scratch.used;
    const int64_t                n = x.dim[0], all = n + (text.rank ? text.dim[0] : 0);
    const bool                   speaks = text.rank && i + 1 < c->layers; /* its text's tokens change */
    side                         video = {.w = &d->block[i].video, .x = x, .tap = ""},
         words = {.w = &d->block[i].text, .x = text, .first = n, .tap = "_text"};

    video.mod = modulation(s, &video.w->mod, time, c->width);
    if (text.rank) words.mod = modulation(s, &words.w->mod, time, c->text_width);
    const size_t    held = s->scratch.used;
    const sg_tensor o = sg_new(s, act, all, c->heads, c->head_dim);
    const size_t    joint = s->scratch.used;
    const sg_tensor qkv[3] = {sg_new(s, act, all, c->heads, c->head_dim), sg_new(s, act, all, c->heads, c->head_dim),
                              sg_new(s, act, all, c->heads, c->head_dim)};
    project_in(d, s, &video, qkv, &run->rotary);
    if (text.rank) project_in(d, s, &words, qkv, NULL);
    sg_self_attention_run(
        run->self, s, p->first_layer + i, p->step, p->index, p->timestep,
        &(sg_attend_args){.y = o, .q = qkv[0], .k = qkv[1], .v = qkv[2], .scale = 1.0f / sqrtf((float)c->head_dim)});
    s->scratch.used = joint;
    project_back(d, s, &video, o, i);
    if (speaks) project_back(d, s, &words, o, i);
    s->scratch.used = held;
    feed_forward(d, s, &video, i);
    if (speaks) feed_forward(d, s, &words, i);
    s->scratch.used = mark;
}

/* F32 [1, D]: silu of time and pooled text. */
static sg_tensor embed_time(const sg_mochi_dit *d, const sg_mochi_run *run, sg_stream *s, const sg_pass *p)
{
    const int64_t   w = d->config.width;
    const sg_tensor y = sg_new(s, SG_F32, 1, w);
    const size_t    mark = s->scratch.used;
    const sg_tensor wave = sg_new(s, SG_F32, 1, d->config.freq_dim), time = sg_new(s, SG_F32, 1, w);
    const sg_tensor temb = sg_new(s, SG_F32, 1, w);
    sg_sinusoid(s, .y = wave, .t = p->t);
    sg_mlp(s, time, wave, d->time, SG_ACT_SILU);
    sg_add(s, .y = temb, .a = time, .b = run->pooled[p->text]);
    sg_tap(s, temb, "dit.temb");
    sg_activate(s, .y = y, .x = temb, .act = SG_ACT_SILU);
    s->scratch.used = mark;
    return y;
}

/* x [n, D] = the patches of latent [c, f, y, x], in order, embedded. */
static void patch_embed(const sg_mochi_dit *d, const sg_mochi_run *run, sg_stream *s, sg_tensor x, sg_tensor latent)
{
    const sg_mochi_config *const c = &d->config;
    const int64_t                i = c->channels * c->patch[1] * c->patch[2];
    const size_t                 mark = s->scratch.used;
    sg_tensor                    patches = sg_new(s, d->component.act, x.dim[0], i);
    sg_patchify(s, patches, latent, run->grid, c->patch);
    patches = sg_rows_of(s, patches, run->tokens.order);
    sg_linear(s, .y = x, .x = patches, .w = sg_reshape(d->patch_w, c->width, i), .b = d->patch_b);
    sg_tap(s, x, "dit.patch_embed");
    s->scratch.used = mark;
}

/* p->out = the modulated, projected tokens, put back in place. */
static void project_out(const sg_mochi_dit *d, const sg_mochi_run *run, sg_stream *s, const sg_pass *p, sg_tensor x,
                        sg_tensor time)
{
    const sg_mochi_config *const c = &d->config;
    const size_t                 mark = s->scratch.used;
    const side                   out = {.x = x, .mod = modulation(s, &d->mod_out, time, c->width)};
    const sg_tensor              y = sg_new(s, d->component.act, x.dim[0], c->width);
    sg_tensor                    v = sg_new(s, SG_F32, x.dim[0], d->proj_out.w.dim[0]);
    sg_norm(s, .y = y, .non_finite = sg_rows(p->non_finite, c->layers, 1), .x = x, .scale = mod_row(&out, 0),
            .shift = mod_row(&out, 1), .kind = SG_NORM_LAYER, .eps = eps);
    sg_linear(s, .y = v, .x = y, .w = d->proj_out.w, .b = d->proj_out.b);
    v = sg_rows_of(s, v, run->tokens.inverse);
    sg_tap(s, v, "dit.proj_out");
    sg_unpatchify(s, p->out, v, run->grid, c->patch);
    s->scratch.used = mark;
}

void sg_mochi_dit_forward(const sg_mochi_dit *d, const sg_mochi_run *run, sg_stream *s, const sg_pass *p)
{
    const int       layers = (int)d->config.layers;
    const size_t    mark = s->scratch.used;
    const sg_tensor x = sg_new(s, SG_F32, tokens(run), d->config.width), given = run->text[p->text];
    const sg_tensor text = given.rank ? sg_alloc(s, &s->scratch, SG_F32, given.rank, given.dim) : given;
    const sg_tensor time = embed_time(d, run, s, p);
    patch_embed(d, run, s, x, p->x);
    if (text.rank) sg_copy(s, .y = text, .x = given);
    for (int i = 0; i < layers; i++) {
        sg_bind_fetch(d->component.bind, s, i);
        sg_count_non_finite(s, .y = sg_rows(p->non_finite, i, 1), .x = x);
        block(d, run, s, p, i, x, text, time);
    }
    project_out(d, run, s, p, x, time);
    sg_count_non_finite(s, .y = sg_rows(p->non_finite, layers + 1, 1), .x = p->out);
    s->scratch.used = mark;
}
