/* mochi_vae_run.c - the decoder of AutoencoderKLMochi as a stream: one latent frame at a time, any number of them in the
 * same memory.
 *
 * diffusers decodes the whole clip at once. Group norm is of single frames, and every convolution over time is causal and
 * keeps the last two frames that it has seen, so that frames one after another give the same. What bites:
 *  - before the clip's start a convolution sees its first frame twice, and beyond the edges of a frame the nearest pixel;
 *  - an up_block makes `time` frames of each, of the first one too; of the frames that the first latent makes all but the
 *    last are left out at the very end;
 *  - the channels of an up_block's projection count c before frames, rows, columns.
 *
 * What blocks add to is of the dtype that products take, as in diffusers. */
#include "mochi_vae_parts.h"

#include <stdlib.h>
#include <string.h>

enum { GROUPS = 32 };

static sg_tensor rows_of(sg_tensor t) { return sg_reshape(t, sg_count(t) / t.dim[3], t.dim[3]); }

/* y = or += conv(silu(norm(x))). x is read before y is written. */
static void norm_conv(const sg_mochi_vae_run *r, sg_stream *s, const sg_mochi_block *w, int i, sg_tensor y, sg_tensor x,
                      bool add)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor history = r->history[w->conv[i].history];
    const int64_t   f = x.dim[0];
    const sg_tensor input = sg_new(s, x.dtype, 2 + f, x.dim[1], x.dim[2], x.dim[3]);
    sg_norm(s, .y = sg_rows(input, 2, f), .x = x, .w = w->norm[i].w, .b = w->norm[i].b, .kind = SG_NORM_GROUP,
            .groups = GROUPS, .chunk = 1, .eps = 1e-5f, .act = SG_ACT_SILU);
    for (int k = 0; k < 2; k++)
        sg_copy(s, .y = sg_rows(input, k, 1), .x = r->begun ? sg_rows(history, k, 1) : sg_rows(input, 2, 1));
    sg_conv(s, .y = y, .x = input, .w = w->conv[i].w, .b = w->conv[i].b, .stride = {1, 1, 1}, .pad = {1, 1, 1, 1},
            .add = add, .edge = SG_EDGE_REPLICATE);
    sg_copy(s, .y = history, .x = sg_rows(input, f, 2));
    s->scratch.used = mark;
}

static void residual_block(const sg_mochi_vae_run *r, sg_stream *s, const sg_mochi_block *w, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor inner = sg_alloc(s, &s->scratch, x.dtype, x.rank, x.dim);
    norm_conv(r, s, w, 0, inner, x, false);
    norm_conv(r, s, w, 1, x, inner, true);
    s->scratch.used = mark;
}

/* Channels of x become frames, rows and columns of y. Frame by frame: all of them would be the largest of the decoder. */
static void expand(sg_stream *s, const sg_mochi_stage *t, sg_tensor y, sg_tensor x)
{
    const int64_t rows = x.dim[1], columns = x.dim[2], c = y.dim[3];
    for (int64_t i = 0; i < x.dim[0]; i++) {
        const size_t    mark = s->scratch.used;
        const sg_tensor wide = sg_new(s, x.dtype, rows * columns, t->proj_w.dim[0]);
        sg_linear(s, .y = wide, .x = rows_of(sg_rows(x, i, 1)), .w = t->proj_w, .b = t->proj_b);
        sg_permute(s, .y = sg_rows(y, i * t->time, t->time), .x = wide, .rank = 6,
                   .dim = {rows, columns, c, t->time, t->space, t->space}, .perm = {3, 0, 4, 1, 5, 2});
        s->scratch.used = mark;
    }
}

/* What stages work on, the last one's lowest on the stack: a stage's working memory lies above it, which may go as soon as
 * the next stage's has been written. block_in shares that of the first up_block. */
typedef struct stage_inputs {
    sg_tensor in[SG_MOCHI_STAGES];
    size_t    mark[SG_MOCHI_STAGES];
} stage_inputs;

static stage_inputs reserve(const sg_mochi_vae_run *r, sg_stream *s, int64_t y, int64_t x)
{
    const sg_mochi_vae *const v = r->vae;
    stage_inputs              m = {0};
    int64_t                   dim[SG_MOCHI_STAGES][4], f = 1;
    for (int k = 0; k < v->stages; k++) {
        const int64_t shape[4] = {f, y, x, v->stage[k].channels};
        memcpy(dim[k], shape, sizeof shape);
        f *= v->stage[k].time;
        y *= v->stage[k].space;
        x *= v->stage[k].space;
    }
    for (int k = v->stages - 1; k > 0; k--) {
        m.in[k] = sg_alloc(s, &s->scratch, v->component.act, 4, dim[k]);
        m.mark[k] = s->scratch.used;
    }
    m.in[0] = m.in[1];
    m.mark[0] = m.mark[1];
    return m;
}

static void tap_stage(const sg_mochi_vae *v, sg_stream *s, int k, sg_tensor x)
{
    if (k > 0 && k + 1 < v->stages)
        sg_tap(s, x, "vae.up.%d", k - 1);
    else
        sg_tap(s, x, k ? "vae.block_out" : "vae.block_in");
}

/* Frames of the last stage become pixels, frame by frame. */
static void project_out(const sg_mochi_vae_run *r, sg_stream *s, sg_tensor frames, sg_tensor x)
{
    for (int64_t i = 0; i < x.dim[0]; i++) {
        const size_t    mark = s->scratch.used;
        const sg_tensor y = sg_new(s, x.dtype, 1, x.dim[1], x.dim[2], x.dim[3]);
        sg_activate(s, .y = y, .x = sg_rows(x, i, 1), .act = SG_ACT_SILU);
        sg_linear(s, .y = rows_of(sg_rows(frames, i, 1)), .x = rows_of(y), .w = r->vae->out_w, .b = r->vae->out_b);
        s->scratch.used = mark;
    }
    sg_tap(s, frames, "vae.conv_out");
}

sg_tensor sg_mochi_vae_run_next(sg_mochi_vae_run *r, sg_stream *s, sg_tensor z)
{
    const sg_mochi_vae *const v = r->vae;
    const sg_vae_info         i = sg_mochi_vae_describe(v);
    const int64_t             y = z.dim[1], x = z.dim[2], made = i.scale_time, n = r->begun ? made : 1;
    const sg_tensor           frames = sg_new(s, SG_F32, made, y * i.scale_space, x * i.scale_space, 3);
    const size_t              mark = s->scratch.used;
    const stage_inputs        m = reserve(r, s, y, x);
    const sg_tensor           latent = sg_new(s, SG_F32, 1, y, x, i.z);
    sg_norm(s, .y = latent, .x = z, .w = r->scale, .b = r->shift, .kind = SG_NORM_NONE);
    sg_linear(s, .y = rows_of(m.in[0]), .x = rows_of(latent), .w = sg_reshape(v->conv_in_w, v->stage[0].channels, i.z),
              .b = v->conv_in_b);
    sg_tap(s, m.in[0], "vae.conv_in");
    for (int k = 0; k < v->stages; k++) {
        const sg_mochi_stage *const t = &v->stage[k];
        s->scratch.used = m.mark[k];
        for (int j = 0; j < t->blocks; j++) residual_block(r, s, &t->block[j], m.in[k]);
        if (t->proj_w.rank) expand(s, t, m.in[k + 1], m.in[k]);
        tap_stage(v, s, k, t->proj_w.rank ? m.in[k + 1] : m.in[k]);
    }
    project_out(r, s, frames, m.in[v->stages - 1]);
    s->scratch.used = mark;
    r->begun = true;
    return sg_rows(frames, made - n, n);
}

/* ---- a run's memory ---- */

void sg_mochi_vae_run_begin(sg_mochi_vae_run *r, sg_stream *s, int64_t y, int64_t x)
{
    s->keep.used = r->mark;
    r->begun = false;
    for (int k = 0; k < r->vae->stages; k++) {
        const sg_mochi_stage *const t = &r->vae->stage[k];
        for (int j = 0; j < 2 * t->blocks; j++)
            r->history[t->block[j / 2].conv[j % 2].history] =
                sg_new_keep(s, r->vae->component.act, 2, y, x, t->channels);
        y *= t->space;
        x *= t->space;
    }
}

/* The affine map from normalised latents. */
static void keep_latent_map(sg_mochi_vae_run *r, sg_stream *s, const sg_mochi_vae *v)
{
    float scale[SG_MOCHI_Z], shift[SG_MOCHI_Z];
    for (int i = 0; i < v->z; i++) {
        scale[i] = (float)v->scale[i];
        shift[i] = (float)v->shift[i];
    }
    r->scale = sg_new_keep(s, SG_F32, v->z);
    r->shift = sg_new_keep(s, SG_F32, v->z);
    sg_upload(s, r->scale, scale);
    sg_upload(s, r->shift, shift);
}

sg_mochi_vae_run *sg_mochi_vae_run_open(sg_stream *s, const sg_mochi_vae *v)
{
    sg_mochi_vae_run *const r = calloc(1, sizeof *r + (size_t)v->histories * sizeof *r->history);
    if (!r) return NULL;
    r->vae = v;
    keep_latent_map(r, s, v);
    r->mark = s->keep.used;
    return r;
}
