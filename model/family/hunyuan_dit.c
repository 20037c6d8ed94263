/* hunyuan_dit.c - the denoiser of HunyuanVideo (arXiv:2412.03603), made of the blocks of Flux.
 *
 * Tensor names are those of diffusers' HunyuanVideoTransformer3DModel. Tokens stand as [video | text] throughout. What bites:
 *  - the text's states go through a refiner first: blocks of its own, whose gates come from time and text, so that it runs in
 *    every step;
 *  - the time that modulates the refiner is its own too: time, and the mean of the text's states before any layer;
 *  - the first blocks have weights for video and text each; later ones the same for both, attention and feed-forward beside
 *    each other, and one product out of both;
 *  - only the video's rows are rotated, by whole places, theta 256;
 *  - timesteps are of 1000; guidance is 1000 times the number, in BF16 rounded twice, so that 6 becomes 6016;
 *  - the output modulation has scale before shift;
 *  - the patch vector is (c, pt, ph, pw) on the way in and on the way out. */
#include "hunyuan_dit.h"
#include "base/text.h"
#include "op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAVE = 256 }; /* numbers of a sinusoid */

static const float eps = 1e-6f;

/* Video, or text, in a block of two streams. */
typedef struct hunyuan_side {
    sg_linear_weights       mod; /* [6 D, D]: shift, scale, gate of attention, of the feed-forward */
    sg_attention_weights    attn;
    sg_feed_forward_weights ff;
} hunyuan_side;

typedef struct hunyuan_single {
    sg_linear_weights    mod;  /* [3 D, D]: shift, scale, gate */
    sg_attention_weights attn; /* without out */
    sg_linear_weights    up;   /* [ffn, D] */
    sg_linear_weights    out;  /* [D, D + ffn] */
} hunyuan_single;

typedef struct hunyuan_refiner {
    sg_tensor               norm_w[2], norm_b[2]; /* [D] */
    sg_attention_weights    attn;                 /* without norms */
    sg_feed_forward_weights ff;
    sg_linear_weights       gates; /* [2 D, D] */
} hunyuan_refiner;

struct sg_hunyuan_dit {
    sg_component      component;
    sg_hunyuan_config config;
    sg_tensor         patch_w, patch_b;             /* [D, C, pt, p, p] [D] */
    sg_linear_weights time[2], guidance[2], row[2]; /* [D, WAVE] [D, D]; the same?; [D, row_dim] [D, D] */
    sg_linear_weights text_time[2], text_mean[2];   /* [D, WAVE] [D, D]; [D, text_dim] [D, D] */
    sg_linear_weights text_in;                      /* [D, text_dim] */
    sg_linear_weights mod_out;                      /* [2 D, D]: scale, shift */
    sg_linear_weights proj_out;                     /* [C pt p p, D] */
    hunyuan_refiner  *refiner;                      /* [refiners] */
    hunyuan_side (*block)[2];                       /* [layers]: video, text */
    hunyuan_single *single;                         /* [singles] */
};

sg_component            *sg_hunyuan_dit_component(sg_hunyuan_dit *d) { return &d->component; }
const sg_hunyuan_config *sg_hunyuan_dit_config(const sg_hunyuan_dit *d) { return &d->config; }

/* ---- opening ---- */

static void read_rotary(sg_hunyuan_config *c, sg_config *f)
{
    static const int64_t usual[3] = {16, 56, 56};
    memcpy(c->axis, usual, sizeof usual);
    c->theta = sg_config_real(f, "rope_theta", 1, 1e9, &(double){256});
    if (sg_config_has(f, "rope_axes_dim")) sg_config_ints(f, "rope_axes_dim", 2, 256, c->axis, 3, 3);
    for (int k = 0; k < 3; k++)
        if (c->axis[k] % 2) sg_config_fail(f, "rope_axes_dim", "%lld is odd", (long long)c->axis[k]);
    const int64_t sum = c->axis[0] + c->axis[1] + c->axis[2];
    if (sum != c->head_dim)
        sg_config_fail(f, "rope_axes_dim", "the three are %lld together, but attention_head_dim is %lld",
                       (long long)sum, (long long)c->head_dim);
}

static sg_status read_config(sg_hunyuan_config *c, sg_config *f)
{
    c->patch[0] = sg_config_int(f, "patch_size_t", 1, 1, &(int64_t){1});
    c->patch[1] = c->patch[2] = sg_config_int(f, "patch_size", 1, 16, &(int64_t){2});
    c->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){24});
    c->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, &(int64_t){128});
    c->width = c->heads * c->head_dim;
    c->layers = sg_config_int(f, "num_layers", 1, 4096, &(int64_t){20});
    c->singles = sg_config_int(f, "num_single_layers", 0, 4096, &(int64_t){40});
    c->refiners = sg_config_int(f, "num_refiner_layers", 0, 4096, &(int64_t){2});
    c->ffn = (int64_t)((double)c->width * sg_config_real(f, "mlp_ratio", 0.01, 64, &(double){4}));
    c->channels = sg_config_int(f, "in_channels", 1, 4096, &(int64_t){16});
    c->text_dim = sg_config_int(f, "text_embed_dim", 1, 1 << 18, &(int64_t){4096});
    c->row_dim = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, &(int64_t){768});
    c->guided = sg_config_bool(f, "guidance_embeds", &(bool){true});
    const int64_t out = sg_config_int(f, "out_channels", 1, 4096, &c->channels);
    if (out != c->channels)
        sg_config_fail(f, "out_channels", "%lld, but in_channels is %lld: they should agree", (long long)out,
                       (long long)c->channels);
    if (c->ffn < 1) sg_config_fail(f, "mlp_ratio", "leaves the feed-forward without a channel");
    if (sg_config_has(f, "image_condition_type"))
        sg_config_fail(f, "image_condition_type",
                       "is not null: this is a model of image to video, which is not supported");
    sg_config_only(f, "qk_norm", "rms_norm", "rms_norm");
    read_rotary(c, f);
    return sg_config_status(f);
}

/* The names of the tensors of one stream in a block. */
typedef struct side_names {
    const char *mod, *q, *k, *v, *norm_q, *norm_k, *out, *up, *down;
} side_names;

static const side_names video_names = {"norm1.linear",  "attn.to_q",          "attn.to_k",
                                       "attn.to_v",     "attn.norm_q.weight", "attn.norm_k.weight",
                                       "attn.to_out.0", "ff.net.0.proj",      "ff.net.2"};
static const side_names text_names = {"norm1_context.linear", "attn.add_q_proj",          "attn.add_k_proj",
                                      "attn.add_v_proj",      "attn.norm_added_q.weight", "attn.norm_added_k.weight",
                                      "attn.to_add_out",      "ff_context.net.0.proj",    "ff_context.net.2"};

static void bind_heads(sg_hunyuan_dit *d, sg_attention_weights *w, const side_names *n, bool normed)
{
    const int64_t  o = d->config.width;
    sg_bind *const b = d->component.bind;
    sg_want_linear(b, &w->q, d->component.act, n->q, o, o);
    sg_want_linear(b, &w->k, d->component.act, n->k, o, o);
    sg_want_linear(b, &w->v, d->component.act, n->v, o, o);
    if (!normed) return;
    sg_bind_tensor(b, &w->norm_q, SG_F32, n->norm_q, d->config.head_dim);
    sg_bind_tensor(b, &w->norm_k, SG_F32, n->norm_k, d->config.head_dim);
}

static void bind_side(sg_hunyuan_dit *d, hunyuan_side *w, const side_names *n)
{
    const sg_hunyuan_config *const c = &d->config;
    const sg_dtype                 act = d->component.act;
    sg_bind *const                 b = d->component.bind;
    const int64_t                  o = c->width;
    sg_want_linear(b, &w->mod, act, n->mod, 6 * o, o);
    bind_heads(d, &w->attn, n, true);
    sg_want_linear(b, &w->attn.out, act, n->out, o, o);
    sg_want_linear(b, &w->ff.up, act, n->up, c->ffn, o);
    sg_want_linear(b, &w->ff.down, act, n->down, o, c->ffn);
}

static void bind_single(sg_hunyuan_dit *d, hunyuan_single *w)
{
    const sg_dtype act = d->component.act;
    sg_bind *const b = d->component.bind;
    const int64_t  o = d->config.width, ffn = d->config.ffn;
    sg_want_linear(b, &w->mod, act, "norm.linear", 3 * o, o);
    bind_heads(d, &w->attn, &video_names, true);
    sg_want_linear(b, &w->up, act, "proj_mlp", ffn, o);
    sg_want_linear(b, &w->out, act, "proj_out", o, o + ffn);
}

static void bind_refiner(sg_hunyuan_dit *d, hunyuan_refiner *w)
{
    const sg_dtype act = d->component.act;
    sg_bind *const b = d->component.bind;
    const int64_t  o = d->config.width;
    for (int k = 0; k < 2; k++) {
        char name[32];
        snprintf(name, sizeof name, "norm%d.weight", k + 1);
        sg_bind_tensor(b, &w->norm_w[k], SG_F32, name, o);
        snprintf(name, sizeof name, "norm%d.bias", k + 1);
        sg_bind_tensor(b, &w->norm_b[k], SG_F32, name, o);
    }
    bind_heads(d, &w->attn, &video_names, false);
    sg_want_linear(b, &w->attn.out, act, "attn.to_out.0", o, o);
    sg_want_linear(b, &w->ff.up, act, "ff.net.0.proj", 4 * o, o);
    sg_want_linear(b, &w->ff.down, act, "ff.net.2", o, 4 * o);
    sg_want_linear(b, &w->gates, act, "norm_out.linear", 2 * o, o);
}

/* linear_1 and linear_2 of an embedder. */
static void bind_embedder(sg_hunyuan_dit *d, sg_linear_weights l[2], const char *prefix, int64_t i)
{
    const int64_t o = d->config.width;
    sg_bind_prefix(d->component.bind, "%s.", prefix);
    sg_want_linear(d->component.bind, &l[0], d->component.act, "linear_1", o, i);
    sg_want_linear(d->component.bind, &l[1], d->component.act, "linear_2", o, o);
}

static void bind_weights(sg_hunyuan_dit *d)
{
    const sg_hunyuan_config *const c = &d->config;
    const sg_dtype                 act = d->component.act;
    const int64_t o = c->width, *const p = c->patch;
    sg_bind *const b = d->component.bind;
    bind_embedder(d, d->time, "time_text_embed.timestep_embedder", WAVE);
    bind_embedder(d, d->row, "time_text_embed.text_embedder", c->row_dim);
    if (c->guided) bind_embedder(d, d->guidance, "time_text_embed.guidance_embedder", WAVE);
    bind_embedder(d, d->text_time, "context_embedder.time_text_embed.timestep_embedder", WAVE);
    bind_embedder(d, d->text_mean, "context_embedder.time_text_embed.text_embedder", c->text_dim);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &d->text_in, act, "context_embedder.proj_in", o, c->text_dim);
    sg_bind_tensor(b, &d->patch_w, act, "x_embedder.proj.weight", o, c->channels, p[0], p[1], p[2]);
    sg_bind_tensor(b, &d->patch_b, SG_F32, "x_embedder.proj.bias", o);
    for (int i = 0; i < c->refiners; i++) {
        sg_bind_prefix(b, "context_embedder.token_refiner.refiner_blocks.%d.", i);
        bind_refiner(d, &d->refiner[i]);
    }
    for (int i = 0; i < c->layers; i++) {
        sg_bind_prefix(b, "transformer_blocks.%d.", i);
        sg_bind_block(b, i);
        bind_side(d, &d->block[i][0], &video_names);
        bind_side(d, &d->block[i][1], &text_names);
    }
    for (int i = 0; i < c->singles; i++) {
        sg_bind_prefix(b, "single_transformer_blocks.%d.", i);
        sg_bind_block(b, (int)c->layers + i);
        bind_single(d, &d->single[i]);
    }
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &d->mod_out, act, "norm_out.linear", 2 * o, o);
    sg_want_linear(b, &d->proj_out, act, "proj_out", c->channels * p[0] * p[1] * p[2], o);
}

static bool make_room(sg_hunyuan_dit *d)
{
    const sg_hunyuan_config *const c = &d->config;
    d->refiner = calloc((size_t)c->refiners + 1, sizeof *d->refiner);
    d->block = calloc((size_t)c->layers, sizeof *d->block);
    d->single = calloc((size_t)c->singles + 1, sizeof *d->single);
    return d->refiner && d->block && d->single;
}

sg_status sg_hunyuan_dit_open(sg_hunyuan_dit **out, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    static const char name[] = "transformer";
    sg_hunyuan_dit   *d = calloc(1, sizeof *d);
    sg_config        *f = NULL;
    if (!d) return sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    sg_status st = sg_component_open(&d->component, from, name, "HunyuanVideoTransformer3DModel", act, &f, e);
    if (!st) st = read_config(&d->config, f);
    if (!st && !make_room(d)) st = sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    if (!st) {
        const sg_hunyuan_config *const c = &d->config;
        snprintf(d->component.summary, sizeof d->component.summary,
                 "%lld layer%s, %lld of two streams, %lld heads x %lld, ffn %lld, %lld latent channels",
                 (long long)(c->layers + c->singles), sg_plural(c->layers + c->singles), (long long)c->layers,
                 (long long)c->heads, (long long)c->head_dim, (long long)c->ffn, (long long)c->channels);
        bind_weights(d);
        st = sg_bind_check(d->component.bind, e);
    }
    sg_config_close(&f);
    if (st) sg_hunyuan_dit_close(&d);
    *out = d;
    return st;
}

void sg_hunyuan_dit_close(sg_hunyuan_dit **d)
{
    if (!*d) return;
    sg_component_close(&(*d)->component);
    free((*d)->refiner);
    free((*d)->block);
    free((*d)->single);
    free(*d);
    *d = NULL;
}

/* ---- what steps share ---- */

static int64_t tokens(const sg_hunyuan_run *run) { return run->grid[0] * run->grid[1] * run->grid[2]; }

void sg_hunyuan_run_open(sg_hunyuan_run *run, const sg_hunyuan_dit *d, sg_stream *s, const int64_t grid[3],
                         const sg_self_attention *self)
{
    const sg_hunyuan_config *const c = &d->config;
    sg_rotary_axis                 axis[3];
    for (int k = 0; k < 3; k++) axis[k] = (sg_rotary_axis){.size = c->axis[k], .theta = c->theta};
    *run = (sg_hunyuan_run){.self = self};
    memcpy(run->grid, grid, sizeof run->grid);
    run->tokens = sg_token_order_place(s, self, tokens(run));
    run->rotary = sg_rotary_place(s, grid, axis, 3, self->order);
}

/* What a denoiser computing in `act` is told of a guidance: the pipeline of its makers multiplies in that dtype. */
static float told(double guidance, sg_dtype act)
{
    if (act != SG_BF16) return (float)guidance * 1000;
    return sg_bf16_to_f32(sg_f32_to_bf16(sg_bf16_to_f32(sg_f32_to_bf16((float)guidance)) * 1000));
}

/* y F32 [1, D] = what an embedder makes of the sinusoid of t F32 [1]. */
static void embed_time(sg_stream *s, sg_tensor y, sg_tensor t, const sg_linear_weights l[2])
{
    const size_t    mark = s->scratch.used;
    const sg_tensor wave = sg_new(s, SG_F32, 1, WAVE);
    sg_sinusoid(s, .y = wave, .t = t);
    sg_mlp(s, y, wave, l, SG_ACT_SILU);
    s->scratch.used = mark;
}

/* y F32 [1, D]: the row of the text and the guidance. */
static void embed_row(const sg_hunyuan_dit *d, sg_stream *s, sg_tensor y, const float *row, double guidance)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor x = sg_new(s, SG_F32, 1, d->config.row_dim), t = sg_new(s, SG_F32, 1);
    const sg_tensor text = sg_new(s, SG_F32, 1, d->config.width), told_of = sg_new(s, SG_F32, 1, d->config.width);
    if (row) sg_upload(s, x, row);
    sg_mlp(s, d->config.guided ? text : y, x, d->row, SG_ACT_SILU);
    if (d->config.guided) {
        sg_upload(s, t, &(float){told(guidance, d->component.act)});
        embed_time(s, told_of, t, d->guidance);
        sg_add(s, .y = y, .a = text, .b = told_of);
    }
    s->scratch.used = mark;
}

/* y F32 [1, c] = the mean of the states. */
static void upload_mean(sg_stream *s, sg_tensor y, const float *states, int len)
{
    const int64_t c = y.dim[1];
    float *const  mean = calloc((size_t)c, sizeof *mean);
    if (!mean) {
        sg_fail(s, SG_E_MEMORY, "no memory for the mean of %d text states", len);
        return;
    }
    for (int64_t j = 0; states && j < c; j++) {
        double sum = 0;
        for (int64_t i = 0; i < len; i++) sum += (double)states[i * c + j];
        mean[j] = (float)(sum / len);
    }
    sg_upload(s, y, mean);
    free(mean);
}

void sg_hunyuan_run_text(sg_hunyuan_run *run, const sg_hunyuan_dit *d, sg_stream *s, int pass, const float *states,
                         int len, const float *row, double guidance)
{
    const sg_hunyuan_config *const c = &d->config;
    run->text[pass] = sg_new_keep(s, SG_F32, len, c->width);
    run->mean[pass] = sg_new_keep(s, SG_F32, 1, c->width);
    run->row[pass] = sg_new_keep(s, SG_F32, 1, c->width);
    const size_t    mark = s->scratch.used;
    const sg_tensor given = sg_new(s, SG_F32, len, c->text_dim), mean = sg_new(s, SG_F32, 1, c->text_dim);
    const sg_tensor x = sg_new(s, d->component.act, len, c->text_dim);
    if (states) sg_upload(s, given, states);
    upload_mean(s, mean, states, len);
    sg_mlp(s, run->mean[pass], mean, d->text_mean, SG_ACT_SILU);
    sg_copy(s, .y = x, .x = given);
    sg_linear(s, .y = run->text[pass], .x = x, .w = d->text_in.w, .b = d->text_in.b);
    sg_tap(s, run->text[pass], "dit.text_in");
    embed_row(d, s, run->row[pass], row, guidance);
    s->scratch.used = mark;
}

/* ---- one forward ---- */

/* Rows of a modulation by the step's time, silu(temb) F32 [1, D]. */
static sg_tensor modulation(sg_stream *s, const sg_linear_weights *w, sg_tensor time)
{
    const int64_t   width = time.dim[1];
    const sg_tensor e = sg_new(s, SG_F32, w->w.dim[0] / width, width);
    sg_linear(s, .y = sg_reshape(e, 1, w->w.dim[0]), .x = time, .w = w->w, .b = w->b);
    return e;
}

/* F32 [1, D] = silu of a time and what is added to it. */
static sg_tensor time_of(sg_stream *s, const sg_pass *p, const sg_linear_weights l[2], sg_tensor added, const char *tap)
{
    const sg_tensor y = sg_new(s, SG_F32, 1, added.dim[1]);
    const size_t    mark = s->scratch.used;
    const sg_tensor time = sg_new(s, SG_F32, 1, added.dim[1]), temb = sg_new(s, SG_F32, 1, added.dim[1]);
    embed_time(s, time, p->t, l);
    sg_add(s, .y = temb, .a = time, .b = added);
    sg_tap(s, temb, "%s", tap);
    sg_activate(s, .y = y, .x = temb, .act = SG_ACT_SILU);
    s->scratch.used = mark;
    return y;
}

/* y = LN(x) (1 + scale) + shift. */
static void modulated(sg_stream *s, sg_tensor y, sg_tensor x, const sg_modulation *e, sg_tensor non_finite)
{
    sg_norm(s, .y = y, .non_finite = non_finite, .x = x, .scale = e->scale, .shift = e->shift, .kind = SG_NORM_LAYER,
            .eps = eps);
}

static void refine(const sg_hunyuan_dit *d, sg_stream *s, sg_tensor x, sg_tensor time, int i)
{
    const sg_hunyuan_config *const c = &d->config;
    const hunyuan_refiner *const   w = &d->refiner[i];
    const size_t                   mark = s->scratch.used;
    const int64_t                  n = x.dim[0];
    const sg_tensor                gates = modulation(s, &w->gates, time);
    const sg_tensor                y = sg_new(s, d->component.act, n, c->width);
    const sg_linear_weights *const l[3] = {&w->attn.q, &w->attn.k, &w->attn.v};
    sg_tensor                      qkv[3];
    const sg_tensor                o = sg_new(s, d->component.act, n, c->heads, c->head_dim);
    sg_norm(s, .y = y, .x = x, .w = w->norm_w[0], .b = w->norm_b[0], .kind = SG_NORM_LAYER, .eps = eps);
    for (int k = 0; k < 3; k++) {
        qkv[k] = sg_new(s, d->component.act, n, c->heads, c->head_dim);
        sg_linear(s, .y = sg_reshape(qkv[k], n, c->width), .x = y, .w = l[k]->w, .b = l[k]->b);
    }
    sg_attend(s, .y = o, .q = qkv[0], .k = qkv[1], .v = qkv[2], .scale = 1.0f / sqrtf((float)c->head_dim));
    sg_project_out(s, x, o, &w->attn.out, sg_reshape(sg_rows(gates, 0, 1), c->width));
    sg_tap(s, x, "dit.refiner.%d.attn", i);
    sg_norm(s, .y = y, .x = x, .w = w->norm_w[1], .b = w->norm_b[1], .kind = SG_NORM_LAYER, .eps = eps);
    sg_feed_forward(s, x, y, &w->ff, SG_ACT_SILU, sg_reshape(sg_rows(gates, 1, 1), c->width));
    sg_tap(s, x, "dit.refiner.%d.ff", i);
    s->scratch.used = mark;
}

/* q, k, v of one stream, into its rows of all. */
static void project_in(const sg_hunyuan_dit *d, sg_stream *s, const hunyuan_side *w, const sg_tensor qkv[3],
                       int64_t first, sg_tensor y, const sg_rotary *rotary)
{
    const int64_t n = y.dim[0];
    sg_project_heads(s, sg_rows(qkv[0], first, n), y, &w->attn.q, w->attn.norm_q, eps, rotary);
    sg_project_heads(s, sg_rows(qkv[1], first, n), y, &w->attn.k, w->attn.norm_k, eps, rotary);
    sg_linear(s, .y = sg_reshape(sg_rows(qkv[2], first, n), n, d->config.width), .x = y, .w = w->attn.v.w,
              .b = w->attn.v.b);
}

/* x, the rows of one stream, += attention and feed-forward. */
static void project_back(const sg_hunyuan_dit *d, sg_stream *s, const hunyuan_side *w, sg_tensor x, sg_tensor o,
                         sg_tensor e, int i, const char *tap)
{
    const size_t        mark = s->scratch.used;
    const sg_modulation ff = sg_modulation_at(e, 3);
    const sg_tensor     y = sg_new(s, d->component.act, x.dim[0], x.dim[1]);
    sg_project_out(s, x, o, &w->attn.out, sg_modulation_at(e, 0).gate);
    sg_tap(s, x, "dit.block.%d.attn1%s", i, tap);
    modulated(s, y, x, &ff, (sg_tensor){0});
    sg_feed_forward(s, x, y, &w->ff, SG_ACT_GELU_TANH, ff.gate);
    sg_tap(s, x, "dit.block.%d.ff%s", i, tap);
    s->scratch.used = mark;
}

static void self_attention(const sg_hunyuan_dit *d, const sg_hunyuan_run *run, sg_stream *s, const sg_pass *p, int i,
                           sg_tensor o, const sg_tensor qkv[3])
{
    sg_self_attention_run(
        run->self, s, p->first_layer + i, p->step, p->index, p->timestep,
        &(sg_attend_args){
            .y = o, .q = qkv[0], .k = qkv[1], .v = qkv[2], .scale = 1.0f / sqrtf((float)d->config.head_dim)});
}

/* A block of two streams; x has the video's rows, then the text's. */
static void block(const sg_hunyuan_dit *d, const sg_hunyuan_run *run, sg_stream *s, const sg_pass *p, int i,
                  sg_tensor x, sg_tensor time)
{
    const sg_hunyuan_config *const c = &d->config;
    const sg_dtype                 act = d->component.act;
    const size_t                   mark = s->scratch.used;
    const hunyuan_side *const      side = d->block[i];
    const int64_t                  all = x.dim[0], n = tokens(run), first[2] = {0, n}, count[2] = {n, all - n};
    sg_tensor                      e[2];
    for (int k = 0; k < 2; k++) e[k] = modulation(s, &side[k].mod, time);
    const sg_tensor o = sg_new(s, act, all, c->heads, c->head_dim);
    const size_t    held = s->scratch.used;
    const sg_tensor qkv[3] = {sg_new(s, act, all, c->heads, c->head_dim), sg_new(s, act, all, c->heads, c->head_dim),
                              sg_new(s, act, all, c->heads, c->head_dim)};
    for (int k = 0; k < 2; k++) {
        const sg_modulation attn = sg_modulation_at(e[k], 0);
        const size_t        before = s->scratch.used;
        const sg_tensor     y = sg_new(s, act, count[k], c->width);
        modulated(s, y, sg_rows(x, first[k], count[k]), &attn, sg_rows(p->non_finite, i, 1));
        project_in(d, s, &side[k], qkv, first[k], y, k ? NULL : &run->rotary);
        s->scratch.used = before;
    }
    self_attention(d, run, s, p, i, o, qkv);
    s->scratch.used = held;
    for (int k = 0; k < 2; k++)
        project_back(d, s, &side[k], sg_rows(x, first[k], count[k]), sg_rows(o, first[k], count[k]), e[k], i,
                     k ? "_text" : "");
    s->scratch.used = mark;
}

/* y [all, h, d] = RMS of x l by head, the video's rows rotated. */
static void project_heads(sg_stream *s, const sg_hunyuan_run *run, sg_tensor y, sg_tensor x, const sg_linear_weights *l,
                          sg_tensor norm)
{
    const size_t    mark = s->scratch.used;
    const int64_t   all = y.dim[0], h = y.dim[1], d = y.dim[2], n = tokens(run);
    const sg_tensor p = sg_new(s, y.dtype, all, h, d);
    sg_linear(s, .y = sg_reshape(p, all, h * d), .x = x, .w = l->w, .b = l->b);
    sg_rope(s, .y = sg_rows(y, 0, n), .x = sg_rows(p, 0, n), .w = norm, .cos = run->rotary.cos, .sin = run->rotary.sin,
            .eps = eps);
    sg_norm(s, .y = sg_reshape(sg_rows(y, n, all - n), (all - n) * h, d),
            .x = sg_reshape(sg_rows(p, n, all - n), (all - n) * h, d), .w = norm, .kind = SG_NORM_RMS, .eps = eps);
    s->scratch.used = mark;
}

/* Columns first, first + 1, .. of y [n, columns] become x [n, ..]. */
static void put_columns(sg_stream *s, sg_tensor y, int64_t first, sg_tensor x)
{
    const int64_t n = x.dim[0], c = sg_count(x) / n;
    sg_strided_copy(s, .y = sg_reshape(y, sg_count(y)), .x = sg_reshape(x, n, 1, c), .first = first, .token = y.dim[1],
                    .head = c, .scatter = true);
}

/* x += gate ([o | gelu(y up)] out), so many rows at once that the feed-forward takes little memory. */
static void single_out(const sg_hunyuan_dit *d, sg_stream *s, const hunyuan_single *w, sg_tensor x, sg_tensor y,
                       sg_tensor o, sg_tensor gate)
{
    enum { ROWS = 8192 };
    const sg_hunyuan_config *const c = &d->config;
    const sg_dtype                 act = d->component.act;
    for (int64_t i = 0; i < x.dim[0]; i += ROWS) {
        const size_t    mark = s->scratch.used;
        const int64_t   n = x.dim[0] - i < ROWS ? x.dim[0] - i : ROWS;
        const sg_tensor u = sg_new(s, act, n, c->ffn), both = sg_new(s, act, n, c->width + c->ffn);
        sg_linear(s, .y = u, .x = sg_rows(y, i, n), .w = w->up.w, .b = w->up.b, .act = SG_ACT_GELU_TANH);
        put_columns(s, both, 0, sg_rows(o, i, n));
        put_columns(s, both, c->width, u);
        sg_linear(s, .y = sg_rows(x, i, n), .x = both, .w = w->out.w, .b = w->out.b, .gate = gate, .add = true);
        s->scratch.used = mark;
    }
}

/* A block of one stream; x as of block. */
static void single(const sg_hunyuan_dit *d, const sg_hunyuan_run *run, sg_stream *s, const sg_pass *p, int i,
                   sg_tensor x, sg_tensor time)
{
    const sg_hunyuan_config *const c = &d->config;
    const hunyuan_single *const    w = &d->single[i - (int)c->layers];
    const sg_dtype                 act = d->component.act;
    const size_t                   mark = s->scratch.used;
    const int64_t                  all = x.dim[0], n = tokens(run);
    const sg_tensor                e = modulation(s, &w->mod, time);
    const sg_modulation            mod = sg_modulation_at(e, 0);
    const sg_tensor                y = sg_new(s, act, all, c->width), o = sg_new(s, act, all, c->heads, c->head_dim);
    const size_t                   held = s->scratch.used;
    const sg_tensor qkv[3] = {sg_new(s, act, all, c->heads, c->head_dim), sg_new(s, act, all, c->heads, c->head_dim),
                              sg_new(s, act, all, c->heads, c->head_dim)};
    modulated(s, y, x, &mod, sg_rows(p->non_finite, i, 1));
    project_heads(s, run, qkv[0], y, &w->attn.q, w->attn.norm_q);
    project_heads(s, run, qkv[1], y, &w->attn.k, w->attn.norm_k);
    sg_linear(s, .y = sg_reshape(qkv[2], all, c->width), .x = y, .w = w->attn.v.w, .b = w->attn.v.b);
    self_attention(d, run, s, p, i, o, qkv);
    s->scratch.used = held;
    single_out(d, s, w, x, y, o, mod.gate);
    sg_tap(s, sg_rows(x, 0, n), "dit.block.%d.out", i);
    sg_tap(s, sg_rows(x, n, all - n), "dit.block.%d.out_text", i);
    s->scratch.used = mark;
}

/* x [n, D] = the patches of latent [c, f, y, x], in order, embedded. */
static void patch_embed(const sg_hunyuan_dit *d, const sg_hunyuan_run *run, sg_stream *s, sg_tensor x, sg_tensor latent)
{
    const sg_hunyuan_config *const c = &d->config;
    const int64_t                  i = c->channels * c->patch[0] * c->patch[1] * c->patch[2];
    const size_t                   mark = s->scratch.used;
    sg_tensor                      patches = sg_new(s, d->component.act, x.dim[0], i);
    sg_patchify(s, patches, latent, run->grid, c->patch);
    patches = sg_rows_of(s, patches, run->tokens.order);
    sg_linear(s, .y = x, .x = patches, .w = sg_reshape(d->patch_w, c->width, i), .b = d->patch_b);
    sg_tap(s, x, "dit.patch_embed");
    s->scratch.used = mark;
}

/* p->out = the modulated, projected tokens, put back in place. */
static void project_out(const sg_hunyuan_dit *d, const sg_hunyuan_run *run, sg_stream *s, const sg_pass *p, sg_tensor x,
                        sg_tensor time)
{
    const sg_hunyuan_config *const c = &d->config;
    const int64_t *const g = run->grid, *const k = c->patch;
    const size_t        mark = s->scratch.used;
    const sg_tensor     e = modulation(s, &d->mod_out, time);
    const sg_tensor     y = sg_new(s, d->component.act, x.dim[0], c->width);
    sg_tensor           v = sg_new(s, SG_F32, x.dim[0], d->proj_out.w.dim[0]);
    const sg_modulation mod = {.scale = sg_reshape(sg_rows(e, 0, 1), c->width),
                               .shift = sg_reshape(sg_rows(e, 1, 1), c->width)};
    modulated(s, y, x, &mod, sg_rows(p->non_finite, c->layers + c->singles, 1));
    sg_linear(s, .y = v, .x = y, .w = d->proj_out.w, .b = d->proj_out.b);
    v = sg_rows_of(s, v, run->tokens.inverse);
    sg_tap(s, v, "dit.proj_out");
    sg_permute(s, .y = p->out, .x = v, .rank = 7, .dim = {g[0], g[1], g[2], c->channels, k[0], k[1], k[2]},
               .perm = {3, 0, 4, 1, 5, 2, 6});
    s->scratch.used = mark;
}

void sg_hunyuan_dit_forward(const sg_hunyuan_dit *d, const sg_hunyuan_run *run, sg_stream *s, const sg_pass *p)
{
    const int       layers = (int)d->config.layers, all = layers + (int)d->config.singles;
    const size_t    mark = s->scratch.used;
    const int64_t   n = tokens(run);
    const sg_tensor given = run->text[p->index], x = sg_new(s, SG_F32, n + given.dim[0], d->config.width);
    const sg_tensor video = sg_rows(x, 0, n), text = sg_rows(x, n, given.dim[0]);
    const sg_tensor text_time = time_of(s, p, d->text_time, run->mean[p->index], "dit.text_temb");
    const sg_tensor time = time_of(s, p, d->time, run->row[p->index], "dit.temb");
    sg_copy(s, .y = text, .x = given);
    for (int i = 0; i < d->config.refiners; i++) refine(d, s, text, text_time, i);
    patch_embed(d, run, s, video, p->x);
    for (int i = 0; i < all; i++) {
        sg_bind_fetch(d->component.bind, s, i);
        if (i < layers)
            block(d, run, s, p, i, x, time);
        else
            single(d, run, s, p, i, x, time);
    }
    project_out(d, run, s, p, video, time);
    sg_count_non_finite(s, .y = sg_rows(p->non_finite, all + 1, 1), .x = p->out);
    s->scratch.used = mark;
}
