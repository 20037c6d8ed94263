/* wan_dit.c - the denoiser of Wan 2.1 and 2.2 (arXiv:2503.20314).
 *
 * Tensor names are those of diffusers' WanTransformer3DModel. What bites:
 *  - modulation rows come as shift, scale, gate of attention, then of the feed-forward;
 *  - q and k are normalised over the whole width, before the heads are split;
 *  - rotary axes are [t | y | x] of sizes hd - 2h, h, h with h = 2 (hd / 6), interleaved pairs, angles in double;
 *  - the padding rows of the text are zeros, not masked: all of them are one key, weighted by its count;
 *  - the patch vector is (c, pt, ph, pw) on the way in, (pt, ph, pw, c) on the way out;
 *  - the output modulation takes the time embedding itself, the blocks take its projection. */
#include "wan_dit.h"
#include "base/text.h"
#include "op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct wan_block {
    sg_tensor               table; /* [1, 6, D]: shift, scale, gate, shift, scale, gate */
    sg_attention_weights    self, cross;
    sg_linear_weights       image_k, image_v; /* [D, D]? */
    sg_tensor               image_norm;       /* [D]?, of image_k */
    sg_tensor               norm_w, norm_b;   /* [D], of norm2 */
    sg_feed_forward_weights ffn;
} wan_block;

struct sg_wan_dit {
    sg_component      component;
    sg_wan_config     config;
    sg_tensor         patch_w, patch_b;     /* [D, C, pt, ph, pw] [D] */
    sg_linear_weights time[2], time_proj;   /* [D, freq] [D, D]; [6 D, D] */
    sg_linear_weights text[2];              /* [D, text_dim] [D, D] */
    sg_tensor         norm_w[2], norm_b[2]; /* of pictures, before and after image: [image_dim]? [D]? */
    sg_tensor         places;               /* [1, image_places, image_dim]? */
    sg_linear_weights image[2];             /* [image_dim, image_dim]? [D, image_dim]? */
    sg_tensor         table;                /* [1, 2, D]: shift, scale of the output */
    sg_linear_weights proj_out;             /* [C pt ph pw, D] */
    wan_block        *block;                /* [layers] */
};

sg_component        *sg_wan_dit_component(sg_wan_dit *d) { return &d->component; }
const sg_wan_config *sg_wan_dit_config(const sg_wan_dit *d) { return &d->config; }

/* ---- opening ---- */

/* The tokens of pictures. */
static void read_image(sg_wan_config *c, sg_config *f)
{
    const int64_t none = 0, width = c->width;
    c->image_dim = sg_config_int(f, "image_dim", 1, 1 << 20, &none);
    c->image_places = sg_config_int(f, "pos_embed_seq_len", 1, 1 << 20, &none);
    const int64_t added = sg_config_int(f, "added_kv_proj_dim", 1, 1 << 20, &none);
    if (added != (c->image_dim ? width : 0))
        sg_config_fail(f, "added_kv_proj_dim", "%lld; with image_dim %lld it should be %lld", (long long)added,
                       (long long)c->image_dim, (long long)(c->image_dim ? width : 0));
    if (c->image_places && !c->image_dim) sg_config_fail(f, "pos_embed_seq_len", "there is no image_dim");
    if (c->image_dim && c->input == c->channels)
        sg_config_fail(f, "image_dim", "%lld, but no channels of a picture go in", (long long)c->image_dim);
}

static sg_status read_config(sg_wan_config *c, sg_config *f)
{
    const int64_t rope_max = 1024;
    const double  eps = 1e-6;
    const bool    yes = true;
    sg_config_ints(f, "patch_size", 1, 16, c->patch, 3, 3);
    c->heads = sg_config_int(f, "num_attention_heads", 1, 1024, NULL);
    c->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, NULL);
    c->width = c->heads * c->head_dim;
    c->ffn = sg_config_int(f, "ffn_dim", 1, 1 << 20, NULL);
    c->layers = sg_config_int(f, "num_layers", 1, 4096, NULL);
    c->input = sg_config_int(f, "in_channels", 1, 4096, NULL);
    c->channels = sg_config_int(f, "out_channels", 1, 4096, &c->input);
    c->text_dim = sg_config_int(f, "text_dim", 1, 1 << 20, NULL);
    c->freq_dim = sg_config_int(f, "freq_dim", 2, 1 << 16, NULL);
    c->rope_max = sg_config_int(f, "rope_max_seq_len", 1, 1 << 20, &rope_max);
    c->eps = sg_config_real(f, "eps", 0, 1, &eps);
    c->cross_norm = sg_config_bool(f, "cross_attn_norm", &yes);

    if (c->channels > c->input)
        sg_config_fail(f, "out_channels", "%lld, but only %lld go in", (long long)c->channels, (long long)c->input);
    if (c->patch[0] > 1)
        sg_config_fail(f, "patch_size",
                       "entry 0 is %lld, but patches of several latent frames cannot be rendered: it should be 1",
                       (long long)c->patch[0]);
    if (c->head_dim % 2) sg_config_fail(f, "attention_head_dim", "%lld is odd", (long long)c->head_dim);
    if (c->freq_dim % 2) sg_config_fail(f, "freq_dim", "%lld is odd", (long long)c->freq_dim);
    sg_config_only(f, "qk_norm", "rms_norm_across_heads", "rms_norm_across_heads");
    read_image(c, f);
    return sg_config_status(f);
}

static void bind_image(sg_wan_dit *d)
{
    const sg_wan_config *const c = &d->config;
    const int64_t              w = c->width, i = c->image_dim;
    sg_bind *const             b = d->component.bind;
    sg_bind_prefix(b, "condition_embedder.image_embedder.");
    sg_bind_tensor(b, &d->norm_w[0], SG_F32, "norm1.weight", i);
    sg_bind_tensor(b, &d->norm_b[0], SG_F32, "norm1.bias", i);
    sg_want_linear(b, &d->image[0], d->component.act, "ff.net.0.proj", i, i);
    sg_want_linear(b, &d->image[1], d->component.act, "ff.net.2", w, i);
    sg_bind_tensor(b, &d->norm_w[1], SG_F32, "norm2.weight", w);
    sg_bind_tensor(b, &d->norm_b[1], SG_F32, "norm2.bias", w);
    if (c->image_places) sg_bind_tensor(b, &d->places, SG_F32, "pos_embed", 1, c->image_places, i);
}

static void bind_weights(sg_wan_dit *d)
{
    const sg_wan_config *const c = &d->config;
    const sg_dtype             act = d->component.act;
    const int64_t              w = c->width, patch = c->patch[0] * c->patch[1] * c->patch[2];
    sg_bind *const             b = d->component.bind;

    sg_bind_tensor(b, &d->patch_w, act, "patch_embedding.weight", w, c->input, c->patch[0], c->patch[1], c->patch[2]);
    sg_bind_tensor(b, &d->patch_b, SG_F32, "patch_embedding.bias", w);
    sg_bind_prefix(b, "condition_embedder.");
    sg_want_linear(b, &d->time[0], SG_F32, "time_embedder.linear_1", w, c->freq_dim);
    sg_want_linear(b, &d->time[1], SG_F32, "time_embedder.linear_2", w, w);
    sg_want_linear(b, &d->time_proj, act, "time_proj", 6 * w, w);
    sg_want_linear(b, &d->text[0], act, "text_embedder.linear_1", w, c->text_dim);
    sg_want_linear(b, &d->text[1], act, "text_embedder.linear_2", w, w);
    if (c->image_dim) bind_image(d);
    for (int i = 0; i < c->layers; i++) {
        wan_block *const k = &d->block[i];
        sg_bind_block(b, i);
        sg_bind_prefix(b, "blocks.%d.attn1.", i);
        sg_want_attention(b, &k->self, act, w, w);
        sg_bind_prefix(b, "blocks.%d.attn2.", i);
        sg_want_attention(b, &k->cross, act, w, w);
        if (c->image_dim) {
            sg_want_linear(b, &k->image_k, act, "add_k_proj", w, w);
            sg_want_linear(b, &k->image_v, act, "add_v_proj", w, w);
            sg_bind_tensor(b, &k->image_norm, SG_F32, "norm_added_k.weight", w);
        }
        sg_bind_prefix(b, "blocks.%d.", i);
        sg_bind_tensor(b, &k->table, SG_F32, "scale_shift_table", 1, 6, w);
        if (c->cross_norm) {
            sg_bind_tensor(b, &k->norm_w, SG_F32, "norm2.weight", w);
            sg_bind_tensor(b, &k->norm_b, SG_F32, "norm2.bias", w);
        }
        sg_want_linear(b, &k->ffn.up, act, "ffn.net.0.proj", c->ffn, w);
        sg_want_linear(b, &k->ffn.down, act, "ffn.net.2", w, c->ffn);
    }
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &d->proj_out, act, "proj_out", c->channels * patch, w);
    sg_bind_tensor(b, &d->table, SG_F32, "scale_shift_table", 1, 2, w);
    sg_bind_ignore(b, "norm_added_q"); /* left over in some published files */
}

sg_status sg_wan_dit_open(sg_wan_dit **out, const sg_checkpoint *from, const char *name, sg_dtype act, sg_error *e)
{
    sg_wan_dit *d = calloc(1, sizeof *d);
    sg_config  *f = NULL;
    if (!d) return sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    sg_status st = sg_component_open(&d->component, from, name, "WanTransformer3DModel", act, &f, e);
    if (!st) st = read_config(&d->config, f);
    if (!st && !(d->block = calloc((size_t)d->config.layers, sizeof *d->block)))
        st = sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    if (!st) {
        const sg_wan_config *const c = &d->config;
        snprintf(d->component.summary, sizeof d->component.summary,
                 "%lld layer%s, %lld heads x %lld, ffn %lld, %lld latent channels", (long long)c->layers,
                 sg_plural(c->layers), (long long)c->heads, (long long)c->head_dim, (long long)c->ffn,
                 (long long)c->channels);
        bind_weights(d);
        st = sg_bind_check(d->component.bind, e);
    }
    sg_config_close(&f);
    if (st) sg_wan_dit_close(&d);
    *out = d;
    return st;
}

void sg_wan_dit_close(sg_wan_dit **d)
{
    if (!*d) return;
    sg_component_close(&(*d)->component);
    free((*d)->block);
    free(*d);
    *d = NULL;
}

/* ---- what steps share ---- */

static int64_t tokens(const sg_wan_run *run) { return run->grid[0] * run->grid[1] * run->grid[2]; }

/* Returns how many tokens the held frame, the first of the grid, has. */
static int64_t held_tokens(const sg_wan_run *run) { return run->held.rank ? run->grid[1] * run->grid[2] : 0; }

/* Which rows they are; absent: the first ones. */
static sg_tensor held_rows(const sg_wan_run *run)
{
    return run->tokens.inverse.rank ? sg_rows(run->tokens.inverse, 0, held_tokens(run)) : (sg_tensor){0};
}

/* A copy of the held tokens' rows of x [n, ..]. */
static sg_tensor take_held(const sg_wan_run *run, sg_stream *s, sg_tensor x)
{
    const int64_t   n = held_tokens(run), c = sg_count(x) / x.dim[0];
    const sg_tensor y = sg_new(s, x.dtype, n, c);
    sg_strided_copy(s, .y = sg_reshape(y, n, 1, c), .x = sg_reshape(x, sg_count(x)), .row = held_rows(run), .token = c);
    return y;
}

static void put_held(const sg_wan_run *run, sg_stream *s, sg_tensor x, sg_tensor y)
{
    sg_strided_copy(s, .y = sg_reshape(x, sg_count(x)), .x = sg_reshape(y, y.dim[0], 1, y.dim[1]),
                    .row = held_rows(run), .token = y.dim[1], .scatter = true);
}

void sg_wan_run_tables(sg_wan_run *run, const sg_wan_dit *d, sg_stream *s, const int64_t grid[3],
                       const sg_self_attention *self)
{
    const int64_t        hd = d->config.head_dim, side = 2 * (hd / 6);
    const sg_rotary_axis axis[3] = {
        {.size = hd - 2 * side, .theta = 10000}, {.size = side, .theta = 10000}, {.size = side, .theta = 10000}};
    memcpy(run->grid, grid, sizeof run->grid);
    run->self = self;
    run->rotary = sg_rotary_place(s, grid, axis, 3, self->order);
    run->tokens = sg_token_order_place(s, self, tokens(run));
}

void sg_wan_run_image(sg_wan_run *run, const sg_wan_dit *d, sg_stream *s, const float *image, const int64_t latent[4])
{
    const int64_t c = d->config.channels, more = d->config.input - c;
    if (more) {
        run->input = sg_new_keep(s, SG_F32, c + more, latent[1], latent[2], latent[3]);
        if (image) sg_upload(s, sg_rows(run->input, c, more), image);
        sg_tap(s, sg_rows(run->input, c, more), "image");
        return;
    }
    run->held = sg_new_keep(s, SG_F32, c, 1, latent[2] * latent[3]);
    run->t = sg_new_keep(s, SG_F32, 2);
    sg_upload(s, run->t, ((const float[2]){0, 0}));
    if (image) sg_upload(s, run->held, image);
    sg_tap(s, run->held, "image");
}

void sg_wan_run_hold(const sg_wan_run *run, sg_stream *s, sg_tensor x)
{
    const int64_t clip = sg_count(x) / x.dim[0];
    if (run->held.rank)
        sg_strided_copy(s, .y = sg_reshape(x, sg_count(x)), .x = run->held, .token = clip, .scatter = true);
}

enum { PICTURES = 2, KEYS = 3 }; /* keys of a layer: those of each pass, those of pictures */

static void picture_keys(sg_wan_run *run, const sg_wan_dit *d, sg_stream *s, const sg_wan_text *t)
{
    const sg_wan_config *const c = &d->config;
    const sg_dtype             act = d->component.act;
    const int64_t              m = t->rows, w = c->width, in = c->image_dim;
    for (int i = 0; i < c->layers; i++) {
        run->key[KEYS * i + PICTURES] = sg_new_keep(s, act, m, c->heads, c->head_dim);
        run->value[KEYS * i + PICTURES] = sg_new_keep(s, act, m, c->heads, c->head_dim);
    }
    const size_t    mark = s->scratch.used;
    const sg_tensor states = sg_new(s, SG_F32, m, in), placed = sg_new(s, SG_F32, m, in), x = sg_new(s, act, m, in);
    const sg_tensor y = sg_new(s, SG_F32, m, w), ya = sg_new(s, act, m, w);
    if (t->states) sg_upload(s, states, t->states);
    if (d->places.rank) sg_add(s, .y = placed, .a = states, .b = sg_reshape(d->places, m, in));
    sg_norm(s, .y = x, .x = d->places.rank ? placed : states, .w = d->norm_w[0], .b = d->norm_b[0],
            .kind = SG_NORM_LAYER, .eps = 1e-5f);
    sg_mlp(s, y, x, d->image, SG_ACT_GELU_ERF);
    sg_norm(s, .y = ya, .x = y, .w = d->norm_w[1], .b = d->norm_b[1], .kind = SG_NORM_LAYER, .eps = 1e-5f);
    sg_tap(s, ya, "dit.image");
    for (int i = 0; i < c->layers; i++) {
        const wan_block *const b = &d->block[i];
        sg_bind_fetch(d->component.bind, s, i);
        sg_project_heads(s, run->key[KEYS * i + PICTURES], ya, &b->image_k, b->image_norm, c->eps, NULL);
        sg_linear(s, .y = sg_reshape(run->value[KEYS * i + PICTURES], m, w), .x = ya, .w = b->image_v.w,
                  .b = b->image_v.b);
    }
    s->scratch.used = mark;
}

static void text_pass(sg_wan_run *run, const sg_wan_dit *d, sg_stream *s, const sg_wan_text *text, int text_len,
                      int pass)
{
    const sg_wan_config *const c = &d->config;
    const sg_dtype             act = d->component.act;
    const int                  pads = text_len - text->rows;
    const int64_t              m = text->rows + (pads > 0), w = c->width;
    for (int i = 0; i < c->layers; i++) {
        run->key[KEYS * i + pass] = sg_new_keep(s, act, m, c->heads, c->head_dim);
        run->value[KEYS * i + pass] = sg_new_keep(s, act, m, c->heads, c->head_dim);
    }
    run->bias[pass] = sg_new_keep(s, SG_F32, m);

    const size_t    mark = s->scratch.used;
    const sg_tensor states = sg_new(s, SG_F32, m, c->text_dim), x = sg_new(s, act, m, c->text_dim);
    const sg_tensor y = sg_new(s, SG_F32, m, w), ya = sg_new(s, act, m, w);
    float *const    host = calloc((size_t)(m * c->text_dim + m), sizeof *host);
    if (!host) sg_fail(s, SG_E_MEMORY, "no memory for %lld text states", (long long)m);
    if (host) {
        if (text->states) memcpy(host, text->states, (size_t)(text->rows * c->text_dim) * sizeof *host);
        float *const bias = host + m * c->text_dim;
        if (pads > 0) bias[m - 1] = (float)log((double)pads);
        sg_upload(s, states, host);
        sg_upload(s, run->bias[pass], bias);
    }
    free(host);

    sg_copy(s, .y = x, .x = states);
    sg_mlp(s, y, x, d->text, SG_ACT_GELU_TANH);
    sg_tap(s, y, "dit.text");
    sg_copy(s, .y = ya, .x = y);
    for (int i = 0; i < c->layers; i++) {
        const sg_attention_weights *const a = &d->block[i].cross;
        sg_bind_fetch(d->component.bind, s, i);
        sg_project_heads(s, run->key[KEYS * i + pass], ya, &a->k, a->norm_k, c->eps, NULL);
        sg_linear(s, .y = sg_reshape(run->value[KEYS * i + pass], m, w), .x = ya, .w = a->v.w, .b = a->v.b);
    }
    s->scratch.used = mark;
}

void sg_wan_run_text(sg_wan_run *run, const sg_wan_dit *d, sg_stream *s, const sg_wan_text *text, int passes,
                     int text_len, const sg_wan_text *pictures)
{
    const size_t slots = KEYS * (size_t)d->config.layers;
    free(run->key);
    run->key = calloc(2 * slots, sizeof *run->key);
    if (!run->key) {
        sg_fail(s, SG_E_MEMORY, "no memory for %zu text keys", slots);
        return;
    }
    run->value = run->key + slots;
    for (int pass = 0; pass < passes; pass++) text_pass(run, d, s, &text[pass], text_len, pass);
    if (d->config.image_dim) picture_keys(run, d, s, pictures);
}

void sg_wan_run_close(sg_wan_run *run)
{
    free(run->key);
    *run = (sg_wan_run){0};
}

/* ---- one forward ---- */

static float score_scale(const sg_wan_config *c) { return 1.0f / sqrtf((float)c->head_dim); }

/* y = the norm of x, modulated by rows first and first + 1 of e. */
static void norm(sg_stream *s, const sg_wan_dit *d, const sg_wan_run *run, sg_tensor y, sg_tensor x, int first,
                 sg_tensor non_finite)
{
    const sg_modulation e = sg_modulation_at(run->now.e, first);
    const float         eps = (float)d->config.eps;
    sg_norm(s, .y = y, .non_finite = non_finite, .x = x, .shift = e.shift, .scale = e.scale, .kind = SG_NORM_LAYER,
            .eps = eps);
    if (!held_tokens(run)) return;
    const size_t        mark = s->scratch.used;
    const sg_modulation still = sg_modulation_at(run->now.still, first);
    const sg_tensor     given = take_held(run, s, x), made = sg_new(s, y.dtype, given.dim[0], given.dim[1]);
    sg_norm(s, .y = made, .x = given, .shift = still.shift, .scale = still.scale, .kind = SG_NORM_LAYER, .eps = eps);
    put_held(run, s, y, made);
    s->scratch.used = mark;
}

static void self_attention(sg_stream *s, const sg_wan_dit *d, const sg_wan_run *run, const sg_pass *p, int i,
                           sg_tensor x)
{
    const sg_wan_config *const        c = &d->config;
    const sg_attention_weights *const a = &d->block[i].self;
    const int64_t                     n = x.dim[0], held = held_tokens(run);
    const sg_dtype                    act = d->component.act;
    const size_t                      mark = s->scratch.used;
    const sg_tensor q = sg_new(s, act, n, c->heads, c->head_dim), k = sg_new(s, act, n, c->heads, c->head_dim);
    const sg_tensor v = sg_new(s, act, n, c->heads, c->head_dim);
    const size_t    inner = s->scratch.used;
    const sg_tensor y = sg_new(s, act, n, c->width);

    norm(s, d, run, y, x, 0, sg_rows(p->non_finite, i, 1));
    sg_project_heads(s, q, y, &a->q, a->norm_q, c->eps, &run->rotary);
    sg_project_heads(s, k, y, &a->k, a->norm_k, c->eps, &run->rotary);
    sg_linear(s, .y = sg_reshape(v, n, c->width), .x = y, .w = a->v.w, .b = a->v.b);
    s->scratch.used = inner;
    const sg_tensor o = sg_new(s, act, n, c->heads, c->head_dim);
    sg_self_attention_run(run->self, s, p->first_layer + i, p->step, p->index, p->timestep,
                          &(sg_attend_args){.y = o, .q = q, .k = k, .v = v, .scale = score_scale(c)});
    const sg_tensor still = held ? take_held(run, s, x) : (sg_tensor){0};
    if (held)
        sg_project_out(s, still, sg_reshape(take_held(run, s, o), held, c->heads, c->head_dim), &a->out,
                       sg_modulation_at(run->now.still, 0).gate);
    sg_project_out(s, x, o, &a->out, sg_modulation_at(run->now.e, 0).gate);
    if (held) put_held(run, s, x, still);
    sg_tap(s, x, "dit.block.%d.attn1", i);
    s->scratch.used = mark;
}

static void cross_attention(sg_stream *s, const sg_wan_dit *d, const sg_wan_run *run, int i, int pass, sg_tensor x)
{
    const sg_wan_config *const c = &d->config;
    const wan_block *const     b = &d->block[i];
    const int64_t              n = x.dim[0];
    const sg_dtype             act = d->component.act;
    const size_t               mark = s->scratch.used;
    const sg_tensor            y = sg_new(s, act, n, c->width), q = sg_new(s, act, n, c->heads, c->head_dim);

    if (c->cross_norm)
        sg_norm(s, .y = y, .x = x, .w = b->norm_w, .b = b->norm_b, .kind = SG_NORM_LAYER, .eps = (float)c->eps);
    else
        sg_copy(s, .y = y, .x = x);
    sg_project_heads(s, q, y, &b->cross.q, b->cross.norm_q, c->eps, NULL);
    sg_tensor o = sg_new(s, act, n, c->heads, c->head_dim);
    sg_attend(s, .y = o, .q = q, .k = run->key[KEYS * i + pass], .v = run->value[KEYS * i + pass],
              .key_bias = run->bias[pass], .scale = score_scale(c));
    if (c->image_dim) {
        const sg_tensor of = sg_new(s, act, n, c->heads, c->head_dim);
        sg_attend(s, .y = of, .q = q, .k = run->key[KEYS * i + PICTURES], .v = run->value[KEYS * i + PICTURES],
                  .scale = score_scale(c));
        sg_add(s, .y = y, .a = sg_reshape(o, n, c->width), .b = sg_reshape(of, n, c->width));
        o = sg_reshape(y, n, c->heads, c->head_dim);
    }
    sg_project_out(s, x, o, &b->cross.out, (sg_tensor){0});
    sg_tap(s, x, "dit.block.%d.attn2", i);
    s->scratch.used = mark;
}

static void feed_forward(sg_stream *s, const sg_wan_dit *d, const sg_wan_run *run, int i, sg_tensor x)
{
    const sg_feed_forward_weights *const w = &d->block[i].ffn;
    const size_t                         mark = s->scratch.used;
    const bool                           held = held_tokens(run) > 0;
    const sg_tensor                      y = sg_new(s, d->component.act, x.dim[0], d->config.width);
    norm(s, d, run, y, x, 3, (sg_tensor){0});
    const sg_tensor still = held ? take_held(run, s, x) : (sg_tensor){0};
    if (held)
        sg_feed_forward(s, still, take_held(run, s, y), w, SG_ACT_GELU_TANH, sg_modulation_at(run->now.still, 3).gate);
    sg_feed_forward(s, x, y, w, SG_ACT_GELU_TANH, sg_modulation_at(run->now.e, 3).gate);
    if (held) put_held(run, s, x, still);
    sg_tap(s, x, "dit.block.%d.ffn", i);
    s->scratch.used = mark;
}

/* x [n, D] = the patches of latent [c, f, y, x], in order, embedded. */
static void patch_embed(sg_stream *s, const sg_wan_dit *d, const sg_wan_run *run, sg_tensor x, sg_tensor latent)
{
    const sg_wan_config *const c = &d->config;
    const int64_t              i = c->input * c->patch[0] * c->patch[1] * c->patch[2];
    const size_t               mark = s->scratch.used;
    sg_tensor                  patches = sg_new(s, d->component.act, tokens(run), i);
    if (run->input.rank) {
        sg_copy(s, .y = sg_rows(run->input, 0, c->channels), .x = latent);
        latent = run->input;
    }
    sg_patchify(s, patches, latent, run->grid, c->patch);
    patches = sg_rows_of(s, patches, run->tokens.order);
    sg_linear(s, .y = x, .x = patches, .w = sg_reshape(d->patch_w, c->width, i), .b = d->patch_b);
    sg_tap(s, x, "dit.patch_embed");
    s->scratch.used = mark;
}

/* pass->out = the modulated, projected tokens, put back in place. */
static void project_out(sg_stream *s, const sg_wan_dit *d, const sg_wan_run *run, const sg_pass *pass, sg_tensor x)
{
    const sg_wan_config *const c = &d->config;
    const int64_t              n = tokens(run);
    const size_t               mark = s->scratch.used;
    const sg_tensor            y = sg_new(s, d->component.act, n, c->width);
    sg_tensor                  v = sg_new(s, SG_F32, n, c->channels * c->patch[0] * c->patch[1] * c->patch[2]);
    norm(s, d, run, y, x, 0, sg_rows(pass->non_finite, c->layers, 1));
    sg_linear(s, .y = v, .x = y, .w = d->proj_out.w, .b = d->proj_out.b);
    v = sg_rows_of(s, v, run->tokens.inverse);
    sg_tap(s, v, "dit.proj_out");
    sg_unpatchify(s, pass->out, v, run->grid, c->patch);
    s->scratch.used = mark;
}

/* Time and tokens, for all passes of the step. */
static void step_open(const sg_wan_dit *d, sg_wan_run *run, sg_stream *s, const sg_pass *p)
{
    const sg_wan_config *const c = &d->config;
    const int64_t              n = tokens(run), w = c->width;
    const int64_t              times = held_tokens(run) ? 2 : 1;
    const sg_tensor            wave = sg_new(s, SG_F32, times, c->freq_dim), hidden = sg_new(s, SG_F32, times, w);
    run->now.temb = sg_new(s, SG_F32, times, w);
    run->now.e6 = sg_new(s, SG_F32, times, 6 * w);
    run->now.e = sg_new(s, SG_F32, 6, w);
    run->now.still = times > 1 ? sg_new(s, SG_F32, 6, w) : (sg_tensor){0};
    run->now.x = sg_new(s, SG_F32, n, w);
    run->now.copy = p->count > 1 ? sg_new(s, SG_F32, n, w) : (sg_tensor){0};

    if (s->status) return; /* keys and values may be missing */
    if (times > 1) sg_copy(s, .y = sg_rows(run->t, 0, 1), .x = p->t);
    sg_sinusoid(s, .y = wave, .t = times > 1 ? run->t : p->t);
    sg_mlp(s, run->now.temb, wave, d->time, SG_ACT_SILU);
    sg_tap(s, run->now.temb, "dit.temb");
    sg_activate(s, .y = hidden, .x = run->now.temb, .act = SG_ACT_SILU);
    sg_linear(s, .y = run->now.e6, .x = hidden, .w = d->time_proj.w, .b = d->time_proj.b);
    sg_tap(s, run->now.e6, "dit.time_proj");
    patch_embed(s, d, run, run->now.x, p->x);
}

/* The first rows of e, and of held tokens, from what the step's time gives. */
static void modulate(sg_stream *s, const sg_wan_step *now, int64_t rows, sg_tensor table, sg_tensor v)
{
    sg_modulation_rows(s, sg_rows(now->e, 0, rows), table, sg_rows(v, 0, 1));
    if (now->still.rank) sg_modulation_rows(s, sg_rows(now->still, 0, rows), table, sg_rows(v, 1, 1));
}

void sg_wan_dit_forward(const sg_wan_dit *d, sg_wan_run *run, sg_stream *s, const sg_pass *p)
{
    const sg_wan_config *const c = &d->config;
    const bool                 first = p->index == 0, last = p->index + 1 == p->count;
    const sg_wan_step *const   now = &run->now;
    if (first) step_open(d, run, s, p);
    if (s->status) return;
    const sg_tensor y = last ? now->x : now->copy; /* the last pass may use up what was shared */
    for (int i = 0; i < c->layers; i++) {
        sg_bind_fetch(d->component.bind, s, i);
        modulate(s, now, 6, d->block[i].table, now->e6);
        if (i > 0)
            self_attention(s, d, run, p, i, y);
        else if (first)
            self_attention(s, d, run, p, i, now->x); /* for all passes */
        if (i == 0 && !last) sg_copy(s, .y = now->copy, .x = now->x);
        cross_attention(s, d, run, i, p->text, y);
        feed_forward(s, d, run, i, y);
    }
    modulate(s, now, 2, d->table, now->temb);
    project_out(s, d, run, p, y);
    sg_count_non_finite(s, .y = sg_rows(p->non_finite, c->layers + 1, 1), .x = p->out);
}
