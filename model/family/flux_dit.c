/* flux_dit.c - the denoiser of Flux.1 (Black Forest Labs, 2024).
 *
 * Tensor names are those of diffusers' FluxTransformer2DModel. Tokens stand as [text | picture] throughout. What bites:
 *  - the model takes packed latents: in_channels counts the numbers of 2 x 2 places, (c, py, px);
 *  - the text's rows have place (0, 0, 0), which rotates nothing; the picture's rotate by row and column, theta 10000;
 *  - in BF16 the time is rounded thrice: the timestep, its thousandth, and a thousand times that. */
#include "flux_dit.h"
#include "base/text.h"
#include "op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sg_flux_dit {
    sg_component      component;
    sg_flux_config    config;
    sg_mmdit          blocks;
    sg_linear_weights patch_in; /* [D, C p p] */
    sg_linear_weights text_in;  /* [D, text_dim] */
};

sg_component         *sg_flux_dit_component(sg_flux_dit *d) { return &d->component; }
const sg_flux_config *sg_flux_dit_config(const sg_flux_dit *d) { return &d->config; }

/* ---- opening ---- */

static sg_status read_config(sg_flux_config *c, sg_config *f)
{
    sg_mmdit_config *const m = &c->blocks;
    const int64_t          places = SG_FLUX_PATCH * SG_FLUX_PATCH;
    m->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){24});
    m->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, &(int64_t){128});
    m->width = m->heads * m->head_dim;
    m->ffn = 4 * m->width;
    m->layers = sg_config_int(f, "num_layers", 1, 4096, &(int64_t){19});
    m->singles = sg_config_int(f, "num_single_layers", 0, 4096, &(int64_t){38});
    m->row_dim = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, &(int64_t){768});
    m->features = sg_config_int(f, "in_channels", 1, 1 << 14, &(int64_t){64});
    m->guided = sg_config_bool(f, "guidance_embeds", &(bool){false});
    c->text_dim = sg_config_int(f, "joint_attention_dim", 1, 1 << 18, &(int64_t){4096});
    c->channels = m->features / places;
    sg_config_int(f, "patch_size", 1, 1, &(int64_t){1});
    const int64_t out = sg_config_int(f, "out_channels", 1, 1 << 14, &m->features);
    if (out != m->features)
        sg_config_fail(f, "out_channels",
                       "%lld, but in_channels is %lld: a model that is given a picture beside its "
                       "latents is not supported",
                       (long long)out, (long long)m->features);
    if (m->features % places)
        sg_config_fail(f, "in_channels", "%lld is no multiple of %lld, the places of a patch", (long long)m->features,
                       (long long)places);
    sg_mmdit_read_axes(f, "axes_dims_rope", m->head_dim, c->axis);
    return sg_config_status(f);
}

static sg_status bind_weights(sg_flux_dit *d, const char *what, sg_error *e)
{
    const sg_flux_config *const c = &d->config;
    const sg_dtype              act = d->component.act;
    sg_bind *const              b = d->component.bind;
    d->blocks.config = c->blocks;
    SG_TRY(sg_mmdit_bind(&d->blocks, b, act, what, e));
    sg_want_linear(b, &d->patch_in, act, "x_embedder", c->blocks.width, c->blocks.features);
    sg_want_linear(b, &d->text_in, act, "context_embedder", c->blocks.width, c->text_dim);
    return sg_bind_check(b, e);
}

sg_status sg_flux_dit_open(sg_flux_dit **out, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    static const char name[] = "transformer";
    sg_flux_dit      *d = calloc(1, sizeof *d);
    sg_config        *f = NULL;
    if (!d) return sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    sg_status st = sg_component_open(&d->component, from, name, "FluxTransformer2DModel", act, &f, e);
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
    if (st) sg_flux_dit_close(&d);
    *out = d;
    return st;
}

void sg_flux_dit_close(sg_flux_dit **d)
{
    if (!*d) return;
    sg_component_close(&(*d)->component);
    sg_mmdit_free(&(*d)->blocks);
    free(*d);
    *d = NULL;
}

/* ---- what steps share ---- */

static const int64_t patch[3] = {1, SG_FLUX_PATCH, SG_FLUX_PATCH};

static int64_t tokens(const sg_flux_run *run) { return run->grid[0] * run->grid[1] * run->grid[2]; }

void sg_flux_run_open(sg_flux_run *run, const sg_flux_dit *d, sg_stream *s, const int64_t grid[3],
                      const sg_self_attention *self)
{
    sg_rotary_axis axis[3];
    for (int k = 0; k < 3; k++) axis[k] = (sg_rotary_axis){.size = d->config.axis[k], .theta = 10000};
    *run = (sg_flux_run){.self = self};
    memcpy(run->grid, grid, sizeof run->grid);
    run->tokens = sg_token_order_place(s, self, tokens(run));
    run->rotary = sg_rotary_place(s, grid, axis, 3, self->order);
}

void sg_flux_run_text(sg_flux_run *run, const sg_flux_dit *d, sg_stream *s, int pass, const float *states, int len,
                      const float *row, double guidance)
{
    const sg_flux_config *const c = &d->config;
    run->text[pass] = sg_new_keep(s, SG_F32, len, c->blocks.width);
    run->row[pass] = sg_new_keep(s, SG_F32, 1, c->blocks.width);
    const size_t    mark = s->scratch.used;
    const sg_tensor given = sg_new(s, SG_F32, len, c->text_dim), x = sg_new(s, d->component.act, len, c->text_dim);
    if (states) sg_upload(s, given, states);
    sg_copy(s, .y = x, .x = given);
    sg_linear(s, .y = run->text[pass], .x = x, .w = d->text_in.w, .b = d->text_in.b);
    sg_tap(s, run->text[pass], "dit.text");
    sg_mmdit_row(&d->blocks, s, run->row[pass], row, guidance);
    s->scratch.used = mark;
}

/* ---- one forward ---- */

/* F32 [1]: the timestep as the embedder takes it: FluxPipeline and the model round in the dtype of the denoiser. */
static sg_tensor time_input(sg_stream *s, sg_tensor t, sg_dtype act)
{
    static const float factor[] = {1, 0.001f, 1000};
    if (act != SG_BF16) return t;
    const sg_tensor y = sg_new(s, SG_F32, 1);
    const size_t    mark = s->scratch.used;
    const sg_tensor product = sg_new(s, SG_F32, 1), rounded = sg_new(s, SG_BF16, 1);
    for (size_t i = 0; i < sizeof factor / sizeof *factor; i++) {
        sg_combine(s, .y = product, .x = {i ? y : t}, .a = {factor[i]}, .count = 1);
        sg_copy(s, .y = rounded, .x = product);
        sg_copy(s, .y = y, .x = rounded);
    }
    s->scratch.used = mark;
    return y;
}

/* x [n, D] = the patches of latent [c, 1, y, x], in order, embedded. */
static void patch_embed(const sg_flux_dit *d, const sg_flux_run *run, sg_stream *s, sg_tensor x, sg_tensor latent)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor patches = sg_new(s, d->component.act, x.dim[0], d->config.blocks.features);
    sg_patchify(s, patches, latent, run->grid, patch);
    sg_linear(s, .y = x, .x = sg_rows_of(s, patches, run->tokens.order), .w = d->patch_in.w, .b = d->patch_in.b);
    sg_tap(s, x, "dit.patch_embed");
    s->scratch.used = mark;
}

void sg_flux_dit_forward(const sg_flux_dit *d, const sg_flux_run *run, sg_stream *s, const sg_pass *p)
{
    const sg_mmdit_config *const c = &d->config.blocks;
    const size_t                 mark = s->scratch.used;
    const sg_tensor              text = run->text[p->text];
    const int64_t                n = tokens(run), len = text.dim[0];
    const sg_tensor              x = sg_new(s, SG_F32, len + n, c->width);
    sg_pass                      rounded = *p;
    rounded.t = time_input(s, p->t, d->component.act);
    const sg_mmdit_pass blocks = {.pass = p,
                                  .self = run->self,
                                  .first = {[SG_MMDIT_TEXT] = 0, [SG_MMDIT_PICTURE] = len},
                                  .count = {[SG_MMDIT_TEXT] = len, [SG_MMDIT_PICTURE] = n},
                                  .rotary = &run->rotary,
                                  .time = sg_mmdit_time(s, &rounded, d->blocks.time, run->row[p->text], "dit.temb")};
    sg_copy(s, .y = sg_rows(x, 0, len), .x = text);
    patch_embed(d, run, s, sg_rows(x, len, n), p->x);
    sg_mmdit_blocks(&d->blocks, &blocks, s, x);
    const sg_tensor v = sg_rows_of(s, sg_mmdit_out(&d->blocks, &blocks, s, x), run->tokens.inverse);
    sg_tap(s, v, "dit.proj_out");
    sg_unpatchify_outermost(s, p->out, v, run->grid, patch);
    sg_count_non_finite(s, .y = sg_rows(p->non_finite, c->layers + c->singles + 1, 1), .x = p->out);
    s->scratch.used = mark;
}
