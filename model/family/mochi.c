/* mochi.c - Mochi 1 (Genmo, 2024), text to video: MochiPipeline of diffusers.
 *
 * T5, MochiTransformer3DModel, an asymmetric diffusion transformer whose tensors have diffusers' names,
 * AutoencoderKLMochi. Video and text are two streams of tokens, of two widths, each with weights of its own; they meet
 * in attention, where the tokens stand as [video | text]. What bites:
 *  - the denoiser sees the text's real tokens alone, so that the passes of guidance differ in length;
 *  - with force_zeros_for_empty_prompt an empty prompt has no token at all, otherwise it has the end;
 *  - timesteps rise from 0, the noise, to 1000;
 *  - modulation rows come as scale, gate of attention, scale, gate of the feed-forward: no shift, tanh of every gate;
 *  - what a gate lets through is normalised first: x += RMS(attention) tanh(gate);
 *  - the last block has no use for its text: norm1_context is a scale alone, to_add_out and ff_context are not there;
 *  - rotary angles are learned, each head its own, of the video alone: t f_t + y f_y + x f_x, y and x the centres of
 *    patches in a grid about 0 whose area is 192 x 192 whatever the video's size;
 *  - the feed-forward is a silu(b), [a | b] one product;
 *  - the output modulation has scale before shift; its norm is LayerNorm, all others are RMS;
 *  - the patch vector is (c, ph, pw) on the way in, (ph, pw, c) on the way out. */
#include "base/text.h"
#include "dit.h"
#include "op.h"
#include "solver.h"
#include "t5.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_LEN = 256, /* MochiPipeline's max_sequence_length */
    POOL_HEADS = 8
};

static const float eps = 1e-6f, eps_head = 1e-5f;

/* One stream of tokens in one block: w numbers a token, D those of the video. */
typedef struct stream_weights {
    sg_linear_weights mod;            /* [4 w, D]: scale, gate, scale, gate; of the last block's text [w, D]: scale */
    sg_linear_weights q, k, v;        /* [D, w], no bias */
    sg_tensor         norm_q, norm_k; /* [d] */
    sg_linear_weights out;            /* [w, D]? */
    sg_tensor         up, down;       /* [2 inner, w]? [w, inner]? */
} stream_weights;

typedef struct block_weights {
    stream_weights video, text;
} block_weights;

typedef struct mochi {
    sg_components     components;
    sg_dit            dit;              /* patch_in [D, C, p, p], text_in [text_width, T] */
    int64_t           layers, freq_dim; /* blocks; numbers of the time's sinusoid */
    int64_t           text_width;       /* of the text's tokens inside; the video's have D numbers, T5's states T */
    sg_linear_weights time[2];          /* [D, freq_dim] [D, D] */
    sg_linear_weights pool_kv, pool_q;  /* [2 T, T]: k, v; [T, T] */
    sg_linear_weights pool_out;         /* [D, T] */
    sg_tensor         frequencies;      /* [3, heads, d/2] */
    sg_linear_weights mod_out;          /* [2 D, D]: scale, shift */
    block_weights    *block;            /* [layers] */
    sg_dit_run        run; /* of one render; a text without a token is absent, its row is that of the pool */
} mochi;

/* ---- opening ---- */

static sg_status read_config(mochi *m, sg_config *f)
{
    sg_dit *const d = &m->dit;
    d->patch[0] = 1;
    d->patch[1] = d->patch[2] = sg_config_int(f, "patch_size", 1, 16, NULL);
    d->heads = sg_config_int(f, "num_attention_heads", 1, 1024, NULL);
    d->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, NULL);
    d->width = d->heads * d->head_dim;
    d->channels = d->input = sg_config_int(f, "in_channels", 1, 4096, NULL);
    d->channels_last = true;
    d->text_dim = sg_config_int(f, "text_embed_dim", POOL_HEADS, 1 << 18, NULL);
    m->layers = sg_config_int(f, "num_layers", 1, 4096, NULL);
    m->text_width = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, NULL);
    m->freq_dim = sg_config_int(f, "time_embed_dim", 2, 1 << 16, NULL);
    const int64_t out = sg_config_int(f, "out_channels", 1, 4096, &d->channels);
    if (out != d->channels)
        sg_config_fail(f, "out_channels", "%lld, but in_channels is %lld: they should agree", (long long)out,
                       (long long)d->channels);
    if (d->head_dim % 2) sg_config_fail(f, "attention_head_dim", "%lld is odd", (long long)d->head_dim);
    if (m->freq_dim % 2) sg_config_fail(f, "time_embed_dim", "%lld is odd", (long long)m->freq_dim);
    if (d->text_dim % POOL_HEADS)
        sg_config_fail(f, "text_embed_dim", "%lld is no multiple of the %d heads of the text's pool",
                       (long long)d->text_dim, POOL_HEADS);
    sg_config_only(f, "qk_norm", "rms_norm", "rms_norm");
    sg_config_only(f, "activation_fn", "swiglu", "swiglu");
    return sg_config_status(f);
}

static int64_t inner(int64_t width) { return width * 8 / 3; }

/* The names of the two streams' tensors in a block. */
typedef struct stream_names {
    const char *mod, *q, *k, *v, *norm_q, *norm_k, *out, *up, *down;
} stream_names;

static const stream_names video_names = {"norm1.linear",      "attn1.to_q.weight",    "attn1.to_k.weight",
                                         "attn1.to_v.weight", "attn1.norm_q.weight",  "attn1.norm_k.weight",
                                         "attn1.to_out.0",    "ff.net.0.proj.weight", "ff.net.2.weight"};
static const stream_names text_names = {
    "norm1_context.linear",    "attn1.add_q_proj.weight",      "attn1.add_k_proj.weight",
    "attn1.add_v_proj.weight", "attn1.norm_added_q.weight",    "attn1.norm_added_k.weight",
    "attn1.to_add_out",        "ff_context.net.0.proj.weight", "ff_context.net.2.weight"};

/* read_only: its tokens are attended to, and nothing comes of them. */
static void bind_stream(sg_dit *d, stream_weights *w, const stream_names *n, int64_t width, bool read_only)
{
    const sg_dtype act = d->component.act;
    sg_bind *const b = d->component.bind;
    char           scale[32];
    snprintf(scale, sizeof scale, "%s%s", n->mod, read_only ? "_1" : "");
    sg_want_linear(b, &w->mod, act, scale, read_only ? width : 4 * width, d->width);
    sg_bind_matrix(b, &w->q.w, act, n->q, d->width, width);
    sg_bind_matrix(b, &w->k.w, act, n->k, d->width, width);
    sg_bind_matrix(b, &w->v.w, act, n->v, d->width, width);
    sg_bind_tensor(b, &w->norm_q, SG_F32, n->norm_q, d->head_dim);
    sg_bind_tensor(b, &w->norm_k, SG_F32, n->norm_k, d->head_dim);
    if (read_only) return;
    sg_want_linear(b, &w->out, act, n->out, width, d->width);
    sg_bind_matrix(b, &w->up, act, n->up, 2 * inner(width), width);
    sg_bind_matrix(b, &w->down, act, n->down, width, inner(width));
}

static void bind_weights(mochi *m)
{
    sg_dit *const  d = &m->dit;
    const sg_dtype act = d->component.act;
    const int64_t  w = d->width, t = d->text_dim, p = d->patch[1];
    sg_bind *const b = d->component.bind;

    sg_bind_tensor(b, &d->patch_in.w, act, "patch_embed.proj.weight", w, d->channels, p, p);
    sg_bind_tensor(b, &d->patch_in.b, SG_F32, "patch_embed.proj.bias", w);
    sg_bind_tensor(b, &m->frequencies, SG_F32, "pos_frequencies", 3, d->heads, d->head_dim / 2);
    sg_bind_prefix(b, "time_embed.");
    sg_want_linear(b, &m->time[0], SG_F32, "timestep_embedder.linear_1", w, m->freq_dim);
    sg_want_linear(b, &m->time[1], SG_F32, "timestep_embedder.linear_2", w, w);
    sg_want_linear(b, &m->pool_kv, act, "pooler.to_kv", 2 * t, t);
    sg_want_linear(b, &m->pool_q, act, "pooler.to_q", t, t);
    sg_want_linear(b, &m->pool_out, act, "pooler.to_out", w, t);
    sg_want_linear(b, &d->text_in, act, "caption_proj", m->text_width, t);
    for (int i = 0; i < m->layers; i++) {
        sg_bind_block(b, i);
        sg_bind_prefix(b, "transformer_blocks.%d.", i);
        bind_stream(d, &m->block[i].video, &video_names, w, false);
        bind_stream(d, &m->block[i].text, &text_names, m->text_width, i + 1 == m->layers);
    }
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &m->mod_out, act, "norm_out.linear", 2 * w, w);
    sg_want_linear(b, &d->proj_out, act, "proj_out", sg_dit_patch_size(d, d->channels), w);
}

static sg_status open_denoiser(mochi *m, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_dit *const d = &m->dit;
    SG_TRY(sg_dit_open(d, from, "transformer", "MochiTransformer3DModel", act, e));
    SG_TRY(read_config(m, d->config));
    m->block = calloc((size_t)m->layers, sizeof *m->block);
    if (!m->block) return sg_error_memory(e, d->component.dir);
    bind_weights(m);
    return sg_dit_check(d, e, "%lld layer%s, %lld heads x %lld, text width %lld, %lld latent channels",
                        (long long)m->layers, sg_plural(m->layers), (long long)d->heads, (long long)d->head_dim,
                        (long long)m->text_width, (long long)d->channels);
}

static sg_status mochi_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    mochi *const         m = model;
    sg_components *const c = &m->components;
    c->text[0].none_for_empty = sg_config_bool(index, "force_zeros_for_empty_prompt", &(bool){false});
    SG_TRY(sg_config_status(index));
    SG_TRY(sg_sampler_config_read_own(&c->sampler, from, &sg_solver_flow_mochi, e));
    SG_TRY(sg_t5_encoder_open(&c->text[0].encoder, from, "text_encoder", "tokenizer", act, e));
    c->text[0].tokens_max = TEXT_LEN;
    c->texts = 1;
    SG_TRY(open_denoiser(m, from, act, e));
    sg_components_add_dit(c, &m->dit, sg_files_mochi.names, m->layers);
    SG_TRY(sg_components_open_vae(c, &sg_mochi_vae_ops, from, act, e));
    c->frames.step = c->vae.info.scale_time;
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    c->defaults = (sg_request){.width = 848, .height = 480, .frames = 19, .fps = 30, .steps = 64, .cfg_scale = 4.5};

    const sg_fit fit[] = {
        {sg_text_width(c, 0), "the width of text_encoder", m->dit.text_dim, "transformer/config.json: text_embed_dim"},
        {c->vae.info.z, "vae/config.json: latent_channels", m->dit.channels, "transformer/config.json: in_channels"},
        {0}};
    return sg_check_fit(fit, sg_checkpoint_path(from), e);
}

static void mochi_close(void *model)
{
    mochi *const m = model;
    sg_dit_close(&m->dit);
    free(m->block);
}

/* ---- text ---- */

/* pooled [1, D]: the mean of the tokens, row 0 of x, attends to itself and to them. */
static void pool(const mochi *m, sg_stream *s, sg_tensor pooled, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const int64_t   n = x.dim[0], t = x.dim[1], hd = t / POOL_HEADS;
    const sg_tensor q = sg_new(s, x.dtype, 1, t), k = sg_new(s, x.dtype, n, t), v = sg_new(s, x.dtype, n, t);
    const sg_tensor o = sg_new(s, x.dtype, 1, t);
    sg_linear(s, .y = q, .x = sg_rows(x, 0, 1), .w = m->pool_q.w, .b = m->pool_q.b);
    sg_linear(s, .y = k, .x = x, .w = sg_rows(m->pool_kv.w, 0, t), .b = sg_rows(m->pool_kv.b, 0, t));
    sg_linear(s, .y = v, .x = x, .w = sg_rows(m->pool_kv.w, t, t), .b = sg_rows(m->pool_kv.b, t, t));
    sg_attend(s, .y = sg_reshape(o, 1, POOL_HEADS, hd), .q = sg_reshape(q, 1, POOL_HEADS, hd),
              .k = sg_reshape(k, n, POOL_HEADS, hd), .v = sg_reshape(v, n, POOL_HEADS, hd),
              .scale = 1.0f / sqrtf((float)hd));
    sg_linear(s, .y = pooled, .x = o, .w = m->pool_out.w, .b = m->pool_out.b);
    s->scratch.used = mark;
}

/* Sets the text's tokens, where there are any, and the row of its pool. `states` F32 [len, T] is NULL on a plan. */
static void embed_text(mochi *m, sg_stream *s, int k, const float *states, int64_t len)
{
    const int64_t t = m->dit.text_dim;
    m->run.row[k] = sg_new_keep(s, SG_F32, 1, m->dit.width);
    if (len) {
        sg_dit_run_text(&m->run, &m->dit, s, k, states, len);
        sg_tap(s, m->run.text[k], "dit.text");
    }
    const size_t    mark = s->scratch.used;
    const sg_tensor given = sg_new(s, SG_F32, 1 + len, t), x = sg_new(s, m->dit.component.act, 1 + len, t);
    float *const    host = calloc((size_t)((1 + len) * t), sizeof *host);
    if (!host) sg_fail(s, SG_E_MEMORY, "no memory for %lld text states", (long long)len);
    if (host && states) {
        sg_dit_mean(host, states, len, t);
        memcpy(host + t, states, (size_t)(len * t) * sizeof *host);
    }
    if (host) sg_upload(s, given, host);
    free(host);
    sg_copy(s, .y = x, .x = given);
    pool(m, s, m->run.row[k], x);
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
static void fill_rows(float *cosines, float *sines, const phasor *const axis[3], const sg_dit_run *run, int64_t first,
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

static void place_rotary(mochi *m, sg_stream *s)
{
    enum { ROWS = 1024 }; /* that are made at once */
    sg_dit_run *const run = &m->run;
    const int64_t     n = run->n, heads = m->dit.heads, half = m->dit.head_dim / 2, pairs = heads * half;
    const int64_t     places = run->grid[0] + run->grid[1] + run->grid[2];
    run->rotary->cos = sg_new_keep(s, SG_F32, n, heads, half);
    run->rotary->sin = sg_new_keep(s, SG_F32, n, heads, half);
    if (!s->memory->alloc) return; /* a plan needs no angles */
    float *const  host = malloc((size_t)((3 + 2 * ROWS) * pairs) * sizeof *host);
    phasor *const phasors = malloc((size_t)(places * pairs) * sizeof *phasors);
    if (host && phasors) {
        const phasor *const axis[3] = {phasors, phasors + run->grid[0] * pairs,
                                       phasors + (run->grid[0] + run->grid[1]) * pairs};
        float *const cosines = host + 3 * pairs, *const sines = cosines + ROWS * pairs;
        sg_download(s, host, m->frequencies);
        for (int k = 0; k < 3 && !s->status; k++) fill_axis((phasor *)axis[k], host, k, run->grid, pairs);
        for (int64_t i = 0; i < n && !s->status; i += ROWS) {
            const int64_t rows = n - i < ROWS ? n - i : ROWS;
            fill_rows(cosines, sines, axis, run, i, rows, pairs);
            sg_upload(s, sg_rows(run->rotary->cos, i, rows), cosines);
            sg_upload(s, sg_rows(run->rotary->sin, i, rows), sines);
        }
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for rotary tables of %lld tokens", (long long)n);
    }
    free(phasors);
    free(host);
}

/* ---- a render ---- */

static void mochi_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                            sg_attention_shape *shape)
{
    (void)layer;
    sg_dit_shape(&((const mochi *)model)->dit, g, 0, c->text[pass][0].len, shape);
}

static void mochi_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    mochi *const m = model;
    sg_dit_run_open(&m->run, &m->dit, s, g, self);
}

static void mochi_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    mochi *const m = model;
    (void)denoiser;
    for (int k = 0; k < c->passes; k++) embed_text(m, s, k, c->text[k][0].states, c->text[k][0].len);
    place_rotary(m, s); /* now, for it takes weights */
}

/* ---- one forward ---- */

/* One stream of tokens while a block works on it. */
typedef struct stream {
    const stream_weights *w;
    sg_tensor             x;     /* F32 [n, width]: what blocks add to; absent: a text without tokens */
    sg_tensor             mod;   /* F32 [4, width] or [1, width] */
    int64_t               first; /* of its rows in attention */
    const char           *tap;   /* behind the names of its taps */
} stream;

static sg_tensor mod_row(const stream *k, int64_t i) { return sg_reshape(sg_rows(k->mod, i, 1), k->mod.dim[1]); }

/* y = RMS(x) (1 + scale), where x are rows of the stream. */
static void norm_rows(sg_stream *s, sg_tensor y, const stream *k, sg_tensor x, int64_t scale)
{
    sg_norm(s, .y = y, .x = x, .scale = mod_row(k, scale), .kind = SG_NORM_RMS, .eps = eps);
}

/* x += RMS(r) tanh(gate), where x are rows of the stream. */
static void add_normed(sg_stream *s, const stream *k, sg_tensor x, sg_tensor r, int64_t gate)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor y = sg_new(s, r.dtype, r.dim[0], r.dim[1]);
    sg_norm(s, .y = y, .x = r, .kind = SG_NORM_RMS, .eps = eps);
    sg_gate_add(s, .x = x, .r = y, .gate = mod_row(k, gate), .tanh_gate = true);
    s->scratch.used = mark;
}

/* q, k, v of one stream, into its rows of all. Those of o are free until attention: they have what is projected, where the
 * stream is as wide. */
static void project_in(const sg_dit *d, sg_stream *s, const stream *k, const sg_tensor qkv[3], sg_tensor o,
                       const sg_rotary *rotary)
{
    const size_t    mark = s->scratch.used;
    const int64_t   n = k->x.dim[0], w = k->x.dim[1];
    const sg_tensor y = w == d->width ? sg_reshape(sg_rows(o, k->first, n), n, w) : sg_new(s, o.dtype, n, w);
    norm_rows(s, y, k, k->x, 0);
    sg_project_heads(s, sg_rows(qkv[0], k->first, n), y, &k->w->q, k->w->norm_q, eps_head, rotary);
    sg_project_heads(s, sg_rows(qkv[1], k->first, n), y, &k->w->k, k->w->norm_k, eps_head, rotary);
    sg_linear(s, .y = sg_reshape(sg_rows(qkv[2], k->first, n), n, d->width), .x = y, .w = k->w->v.w);
    s->scratch.used = mark;
}

static void project_back(const sg_dit *d, sg_stream *s, const stream *k, sg_tensor o, int i)
{
    const size_t    mark = s->scratch.used;
    const int64_t   n = k->x.dim[0];
    const sg_tensor r = sg_new(s, d->component.act, n, k->x.dim[1]);
    sg_linear(s, .y = r, .x = sg_reshape(sg_rows(o, k->first, n), n, d->width), .w = k->w->out.w, .b = k->w->out.b);
    add_normed(s, k, k->x, r, 1);
    sg_tap(s, k->x, "dit.block.%d.attn1%s", i, k->tap);
    s->scratch.used = mark;
}

static void feed_forward(const sg_dit *d, sg_stream *s, const stream *k, int i)
{
    const size_t   mark = s->scratch.used;
    const sg_dtype act = d->component.act;
    const int64_t  all = k->x.dim[0], width = k->x.dim[1], o = inner(width);
    for (int64_t t = 0, n; t < all; t += n) {
        n = sg_rows_at_once(s, all - t);
        const sg_tensor x = sg_rows(k->x, t, n), r = sg_new(s, act, n, width), u = sg_new(s, act, n, o);
        const size_t    wide = s->scratch.used;
        const sg_tensor a = sg_new(s, act, n, o), b = sg_new(s, act, n, o), y = sg_new(s, act, n, width);
        norm_rows(s, y, k, x, 2);
        sg_linear(s, .y = a, .x = y, .w = sg_rows(k->w->up, 0, o));
        sg_linear(s, .y = b, .x = y, .w = sg_rows(k->w->up, o, o), .act = SG_ACT_SILU);
        sg_mul(s, .y = u, .a = a, .b = b);
        s->scratch.used = wide;
        sg_linear(s, .y = r, .x = u, .w = k->w->down);
        add_normed(s, k, x, r, 3);
        s->scratch.used = mark;
    }
    sg_tap(s, k->x, "dit.block.%d.ff%s", i, k->tap);
}

/* Block i, on the video's tokens x and the text's, which are absent where there is none. */
static void block(const mochi *m, sg_stream *s, const sg_pass *p, int i, sg_tensor x, sg_tensor text, sg_tensor time)
{
    const sg_dit *const  d = &m->dit;
    const sg_dtype       act = d->component.act;
    const size_t         mark = s->scratch.used;
    const int64_t        n = x.dim[0], all = n + (text.rank ? text.dim[0] : 0), heads = d->heads, hd = d->head_dim;
    const bool           speaks = text.rank && i + 1 < m->layers; /* its text's tokens change */
    const block_weights *w = &m->block[i];
    stream               video = {.w = &w->video, .x = x, .tap = ""};
    stream               words = {.w = &w->text, .x = text, .first = n, .tap = "_text"};

    video.mod = sg_modulation_by(s, &w->video.mod, time, d->width);
    if (text.rank) words.mod = sg_modulation_by(s, &w->text.mod, time, m->text_width);
    const size_t    held = s->scratch.used;
    const sg_tensor o = sg_new(s, act, all, heads, hd);
    const size_t    joint = s->scratch.used;
    const sg_tensor qkv[3] = {sg_new(s, act, all, heads, hd), sg_new(s, act, all, heads, hd),
                              sg_new(s, act, all, heads, hd)};
    project_in(d, s, &video, qkv, o, m->run.rotary);
    if (text.rank) project_in(d, s, &words, qkv, o, NULL);
    sg_dit_attend(d, &m->run, s, p, i, o, qkv);
    s->scratch.used = joint;
    project_back(d, s, &video, o, i);
    if (speaks) project_back(d, s, &words, o, i);
    s->scratch.used = held;
    feed_forward(d, s, &video, i);
    if (speaks) feed_forward(d, s, &words, i);
    s->scratch.used = mark;
}

static void mochi_forward(void *model, sg_stream *s, const sg_pass *p)
{
    const mochi *const      m = model;
    const sg_dit *const     d = &m->dit;
    const sg_dit_run *const r = &m->run;
    const size_t            mark = s->scratch.used;
    const sg_tensor         x = sg_new(s, SG_F32, r->n, d->width), given = r->text[p->text];
    const sg_tensor         text = given.rank ? sg_alloc(s, &s->scratch, SG_F32, given.rank, given.dim) : given;
    const sg_tensor         time = sg_dit_time(s, p->t, m->time, r->row[p->text], "dit.temb");
    sg_dit_patch_embed(d, r, s, p, x, false);
    if (text.rank) sg_copy(s, .y = text, .x = given);
    for (int i = 0; i < m->layers; i++) {
        sg_bind_fetch(d->component.bind, s, i);
        sg_count_non_finite(s, .y = sg_rows(p->non_finite, i, 1), .x = x);
        block(m, s, p, i, x, text, time);
    }
    const stream    out = {.x = x, .mod = sg_modulation_by(s, &m->mod_out, time, d->width)};
    const sg_tensor y = sg_new(s, d->component.act, r->n, d->width);
    sg_norm(s, .y = y, .non_finite = sg_rows(p->non_finite, m->layers, 1), .x = x, .scale = mod_row(&out, 0),
            .shift = mod_row(&out, 1), .kind = SG_NORM_LAYER, .eps = eps);
    sg_dit_project_out(d, r, s, p, y);
    s->scratch.used = mark;
}

static const sg_class_rule classes[] = {{.component = "text_encoder", .name = "T5EncoderModel"},
                                        {.component = "transformer", .name = "MochiTransformer3DModel"},
                                        {.component = "vae", .name = "AutoencoderKLMochi"},
                                        {0}};

static const sg_known_shape shapes[] = {
    {"mochi", 24, 128, 48, {28, 30, 53}, 0, TEXT_LEN}, /* 848x480, 163 frames */
    {0},
};

const sg_family sg_family_mochi = {
    .name = "mochi",
    .files = &sg_files_mochi,
    .class_names = (const char *const[]){"MochiPipeline", NULL},
    .shapes = shapes,
    .classes = classes,
    .size = sizeof(mochi),
    .open = mochi_open,
    .close = mochi_close,
    .attention = mochi_attention,
    .render_open = mochi_render_open,
    .denoiser_open = mochi_denoiser_open,
    .forward = mochi_forward,
};
