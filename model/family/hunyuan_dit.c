/* hunyuan_dit.c - the denoiser of HunyuanVideo (arXiv:2412.03603), made of the blocks of mmdit.h.
 *
 * Tensor names are those of diffusers' HunyuanVideoTransformer3DModel. Tokens stand as [video | text] throughout. What bites:
 *  - the text's states go through a refiner first: blocks of its own, whose gates come from time and text, so that it runs in
 *    every step;
 *  - the time that modulates the refiner is its own too: time, and the mean of the text's states before any layer;
 *  - only the video's rows are rotated, by whole places, theta 256;
 *  - timesteps are of 1000; guidance is 1000 times the number, in BF16 rounded twice, so that 6 becomes 6016;
 *  - the patch vector is (c, pt, ph, pw) on the way in and on the way out. */
#include "hunyuan_dit.h"
#include "base/text.h"
#include "op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float eps = 1e-6f;

typedef struct hunyuan_refiner {
    sg_tensor               norm_w[2], norm_b[2]; /* [D] */
    sg_attention_weights    attn;                 /* without norms */
    sg_feed_forward_weights ff;
    sg_linear_weights       gates; /* [2 D, D] */
} hunyuan_refiner;

struct sg_hunyuan_dit {
    sg_component      component;
    sg_hunyuan_config config;
    sg_mmdit          blocks;
    sg_tensor         patch_w, patch_b;           /* [D, C, pt, p, p] [D] */
    sg_linear_weights text_time[2], text_mean[2]; /* [D, WAVE] [D, D]; [D, text_dim] [D, D] */
    sg_linear_weights text_in;                    /* [D, text_dim] */
    hunyuan_refiner  *refiner;                    /* [refiners] */
};

sg_component            *sg_hunyuan_dit_component(sg_hunyuan_dit *d) { return &d->component; }
const sg_hunyuan_config *sg_hunyuan_dit_config(const sg_hunyuan_dit *d) { return &d->config; }

/* ---- opening ---- */

static sg_status read_config(sg_hunyuan_config *c, sg_config *f)
{
    sg_mmdit_config *const m = &c->blocks;
    c->patch[0] = sg_config_int(f, "patch_size_t", 1, 16, &(int64_t){1});
    c->patch[1] = c->patch[2] = sg_config_int(f, "patch_size", 1, 16, &(int64_t){2});
    m->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){24});
    m->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, &(int64_t){128});
    m->width = m->heads * m->head_dim;
    m->layers = sg_config_int(f, "num_layers", 1, 4096, &(int64_t){20});
    m->singles = sg_config_int(f, "num_single_layers", 0, 4096, &(int64_t){40});
    c->refiners = sg_config_int(f, "num_refiner_layers", 0, 4096, &(int64_t){2});
    m->ffn = (int64_t)((double)m->width * sg_config_real(f, "mlp_ratio", 0.01, 64, &(double){4}));
    c->channels = sg_config_int(f, "in_channels", 1, 4096, &(int64_t){16});
    c->text_dim = sg_config_int(f, "text_embed_dim", 1, 1 << 18, &(int64_t){4096});
    m->row_dim = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, &(int64_t){768});
    m->guided = sg_config_bool(f, "guidance_embeds", &(bool){true});
    const int64_t out = sg_config_int(f, "out_channels", 1, 4096, &c->channels);
    if (out != c->channels)
        sg_config_fail(f, "out_channels", "%lld, but in_channels is %lld: they should agree", (long long)out,
                       (long long)c->channels);
    m->features = c->channels * c->patch[0] * c->patch[1] * c->patch[2];
    if (m->ffn < 1) sg_config_fail(f, "mlp_ratio", "leaves the feed-forward without a channel");
    if (sg_config_has(f, "image_condition_type"))
        sg_config_fail(f, "image_condition_type",
                       "is not null: this is a model of image to video, which is not supported");
    sg_config_only(f, "qk_norm", "rms_norm", "rms_norm");
    c->theta = sg_config_real(f, "rope_theta", 1, 1e9, &(double){256});
    sg_mmdit_read_axes(f, "rope_axes_dim", m->head_dim, c->axis);
    return sg_config_status(f);
}

static void bind_refiner(sg_hunyuan_dit *d, hunyuan_refiner *w, int i)
{
    const sg_dtype act = d->component.act;
    sg_bind *const b = d->component.bind;
    const int64_t  o = d->config.blocks.width;
    sg_bind_prefix(b, "context_embedder.token_refiner.refiner_blocks.%d.", i);
    for (int k = 0; k < 2; k++) {
        char name[32];
        snprintf(name, sizeof name, "norm%d.weight", k + 1);
        sg_bind_tensor(b, &w->norm_w[k], SG_F32, name, o);
        snprintf(name, sizeof name, "norm%d.bias", k + 1);
        sg_bind_tensor(b, &w->norm_b[k], SG_F32, name, o);
    }
    sg_want_linear(b, &w->ff.up, act, "ff.net.0.proj", 4 * o, o);
    sg_want_linear(b, &w->ff.down, act, "ff.net.2", o, 4 * o);
    sg_want_linear(b, &w->gates, act, "norm_out.linear", 2 * o, o);
    sg_bind_prefix(b, "context_embedder.token_refiner.refiner_blocks.%d.attn.", i);
    sg_want_attention(b, &w->attn, act, o, 0);
}

static void bind_own(sg_hunyuan_dit *d)
{
    const sg_hunyuan_config *const c = &d->config;
    const sg_dtype                 act = d->component.act;
    const int64_t o = c->blocks.width, *const p = c->patch;
    sg_bind *const b = d->component.bind;
    sg_mmdit_want_embedder(&d->blocks, d->text_time, "context_embedder.time_text_embed.timestep_embedder",
                           SG_MMDIT_WAVE);
    sg_mmdit_want_embedder(&d->blocks, d->text_mean, "context_embedder.time_text_embed.text_embedder", c->text_dim);
    sg_want_linear(b, &d->text_in, act, "context_embedder.proj_in", o, c->text_dim);
    sg_bind_tensor(b, &d->patch_w, act, "x_embedder.proj.weight", o, c->channels, p[0], p[1], p[2]);
    sg_bind_tensor(b, &d->patch_b, SG_F32, "x_embedder.proj.bias", o);
    for (int i = 0; i < c->refiners; i++) bind_refiner(d, &d->refiner[i], i);
    sg_bind_prefix(b, "%s", "");
}

static sg_status bind_weights(sg_hunyuan_dit *d, const char *what, sg_error *e)
{
    d->blocks.config = d->config.blocks;
    d->refiner = calloc((size_t)d->config.refiners + 1, sizeof *d->refiner);
    if (!d->refiner) return sg_error_memory(e, what);
    SG_TRY(sg_mmdit_bind(&d->blocks, d->component.bind, d->component.act, what, e));
    bind_own(d);
    return sg_bind_check(d->component.bind, e);
}

sg_status sg_hunyuan_dit_open(sg_hunyuan_dit **out, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    static const char name[] = "transformer";
    sg_hunyuan_dit   *d = calloc(1, sizeof *d);
    sg_config        *f = NULL;
    if (!d) return sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    sg_status st = sg_component_open(&d->component, from, name, "HunyuanVideoTransformer3DModel", act, &f, e);
    if (!st) st = read_config(&d->config, f);
    if (!st) {
        const sg_mmdit_config *const c = &d->config.blocks;
        snprintf(d->component.summary, sizeof d->component.summary,
                 "%lld layer%s, %lld of two streams, %lld heads x %lld, ffn %lld, %lld latent channels",
                 (long long)(c->layers + c->singles), sg_plural(c->layers + c->singles), (long long)c->layers,
                 (long long)c->heads, (long long)c->head_dim, (long long)c->ffn, (long long)d->config.channels);
        st = bind_weights(d, sg_checkpoint_path(from), e);
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
    sg_mmdit_free(&(*d)->blocks);
    free((*d)->refiner);
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
    run->text[pass] = sg_new_keep(s, SG_F32, len, c->blocks.width);
    run->mean[pass] = sg_new_keep(s, SG_F32, 1, c->blocks.width);
    run->row[pass] = sg_new_keep(s, SG_F32, 1, c->blocks.width);
    const size_t    mark = s->scratch.used;
    const sg_tensor given = sg_new(s, SG_F32, len, c->text_dim), mean = sg_new(s, SG_F32, 1, c->text_dim);
    const sg_tensor x = sg_new(s, d->component.act, len, c->text_dim);
    if (states) sg_upload(s, given, states);
    upload_mean(s, mean, states, len);
    sg_mlp(s, run->mean[pass], mean, d->text_mean, SG_ACT_SILU);
    sg_copy(s, .y = x, .x = given);
    sg_linear(s, .y = run->text[pass], .x = x, .w = d->text_in.w, .b = d->text_in.b);
    sg_tap(s, run->text[pass], "dit.text_in");
    sg_mmdit_row(&d->blocks, s, run->row[pass], row, guidance);
    s->scratch.used = mark;
}

/* ---- one forward ---- */

static void refine(const sg_hunyuan_dit *d, sg_stream *s, sg_tensor x, sg_tensor time, int i)
{
    const sg_hunyuan_config *const c = &d->config;
    const hunyuan_refiner *const   w = &d->refiner[i];
    const size_t                   mark = s->scratch.used;
    const int64_t                  n = x.dim[0];
    const sg_tensor                gates = sg_mmdit_modulation(s, &w->gates, time);
    const sg_tensor                y = sg_new(s, d->component.act, n, c->blocks.width);
    const sg_linear_weights *const l[3] = {&w->attn.q, &w->attn.k, &w->attn.v};
    sg_tensor                      qkv[3];
    const sg_tensor                o = sg_new(s, d->component.act, n, c->blocks.heads, c->blocks.head_dim);
    sg_norm(s, .y = y, .x = x, .w = w->norm_w[0], .b = w->norm_b[0], .kind = SG_NORM_LAYER, .eps = eps);
    for (int k = 0; k < 3; k++) {
        qkv[k] = sg_new(s, d->component.act, n, c->blocks.heads, c->blocks.head_dim);
        sg_linear(s, .y = sg_reshape(qkv[k], n, c->blocks.width), .x = y, .w = l[k]->w, .b = l[k]->b);
    }
    sg_attend(s, .y = o, .q = qkv[0], .k = qkv[1], .v = qkv[2], .scale = 1.0f / sqrtf((float)c->blocks.head_dim));
    sg_project_out(s, x, o, &w->attn.out, sg_reshape(sg_rows(gates, 0, 1), c->blocks.width));
    sg_tap(s, x, "dit.refiner.%d.attn", i);
    sg_norm(s, .y = y, .x = x, .w = w->norm_w[1], .b = w->norm_b[1], .kind = SG_NORM_LAYER, .eps = eps);
    sg_feed_forward(s, x, y, &w->ff, SG_ACT_SILU, sg_reshape(sg_rows(gates, 1, 1), c->blocks.width));
    sg_tap(s, x, "dit.refiner.%d.ff", i);
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
    sg_linear(s, .y = x, .x = patches, .w = sg_reshape(d->patch_w, c->blocks.width, i), .b = d->patch_b);
    sg_tap(s, x, "dit.patch_embed");
    s->scratch.used = mark;
}

void sg_hunyuan_dit_forward(const sg_hunyuan_dit *d, const sg_hunyuan_run *run, sg_stream *s, const sg_pass *p)
{
    const sg_mmdit_config *const c = &d->config.blocks;
    const size_t                 mark = s->scratch.used;
    const int64_t                n = tokens(run);
    const sg_tensor              given = run->text[p->text], x = sg_new(s, SG_F32, n + given.dim[0], c->width);
    const sg_tensor              video = sg_rows(x, 0, n), text = sg_rows(x, n, given.dim[0]);
    const sg_tensor              text_time = sg_mmdit_time(s, p, d->text_time, run->mean[p->text], "dit.text_temb");
    const sg_mmdit_pass          blocks = {.pass = p,
                                           .self = run->self,
                                           .first = {[SG_MMDIT_PICTURE] = 0, [SG_MMDIT_TEXT] = n},
                                           .count = {[SG_MMDIT_PICTURE] = n, [SG_MMDIT_TEXT] = given.dim[0]},
                                           .rotary = &run->rotary,
                                           .time = sg_mmdit_time(s, p, d->blocks.time, run->row[p->text], "dit.temb")};
    sg_copy(s, .y = text, .x = given);
    for (int i = 0; i < d->config.refiners; i++) refine(d, s, text, text_time, i);
    patch_embed(d, run, s, video, p->x);
    sg_mmdit_blocks(&d->blocks, &blocks, s, x);
    const sg_tensor v = sg_rows_of(s, sg_mmdit_out(&d->blocks, &blocks, s, x), run->tokens.inverse);
    sg_tap(s, v, "dit.proj_out");
    sg_unpatchify_outermost(s, p->out, v, run->grid, d->config.patch);
    sg_count_non_finite(s, .y = sg_rows(p->non_finite, c->layers + c->singles + 1, 1), .x = p->out);
    s->scratch.used = mark;
}
