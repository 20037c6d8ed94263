/* layers.c - see layers.h. */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- linear ---- */

void sg_want_linear(sg_bind *b, sg_linear_weights *l, sg_dtype as, const char *name, int64_t o, int64_t i)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, &l->w, as, full, o, i);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &l->b, SG_F32, full, o);
}

void sg_mlp(sg_stream *s, sg_tensor y, sg_tensor x, const sg_linear_weights l[2], sg_act act)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor hidden = sg_new(s, x.dtype, x.dim[0], l[0].w.dim[0]);
    sg_linear(s, .y = hidden, .x = x, .w = l[0].w, .b = l[0].b, .act = act);
    sg_linear(s, .y = y, .x = hidden, .w = l[1].w, .b = l[1].b);
    s->scratch.used = mark;
}

/* ---- modulation ---- */

void sg_modulation_rows(sg_stream *s, sg_tensor e, sg_tensor table, sg_tensor v)
{
    const int64_t rows = e.dim[0], d = e.dim[1];
    sg_add(s, .y = e, .a = sg_reshape(table, rows, d), .b = sg_reshape(v, sg_count(v) / d, d));
}

sg_tensor sg_modulation_by(sg_stream *s, const sg_linear_weights *w, sg_tensor time, int64_t width)
{
    const sg_tensor e = sg_new(s, SG_F32, w->w.dim[0] / width, width);
    sg_linear(s, .y = sg_reshape(e, 1, w->w.dim[0]), .x = time, .w = w->w, .b = w->b);
    return e;
}

static sg_tensor row(sg_tensor table, int64_t i) { return sg_reshape(sg_rows(table, i, 1), table.dim[1]); }

sg_modulation sg_modulation_at(sg_tensor e, int64_t first)
{
    return (sg_modulation){.shift = row(e, first),
                           .scale = row(e, first + 1),
                           .gate = first + 2 < e.dim[0] ? row(e, first + 2) : (sg_tensor){0}};
}

/* ---- attention ---- */

void sg_want_attention(sg_bind *b, sg_attention_weights *w, sg_dtype act, int64_t width, int64_t norm)
{
    sg_want_linear(b, &w->q, act, "to_q", width, width);
    sg_want_linear(b, &w->k, act, "to_k", width, width);
    sg_want_linear(b, &w->v, act, "to_v", width, width);
    sg_want_linear(b, &w->out, act, "to_out.0", width, width);
    if (!norm) return;
    sg_bind_tensor(b, &w->norm_q, SG_F32, "norm_q.weight", norm);
    sg_bind_tensor(b, &w->norm_k, SG_F32, "norm_k.weight", norm);
}

/* Tables [n, columns] of the tokens of a grid. */
static void fill_rotary(float *cosines, float *sines, int64_t n, int64_t columns, const int64_t *grid,
                        const sg_rotary_axis *axis, int axes, const int32_t *order)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = order ? order[i] : i, column = (i + 1) * columns;
        for (int k = axes - 1; k >= 0; k--) { /* the last axis counts fastest */
            const int64_t number = rest % grid[k];
            const double  place = axis[k].place ? axis[k].place[number] : (double)number;
            rest /= grid[k];
            column -= axis[k].size / 2;
            for (int64_t j = 0; j < axis[k].size / 2; j++) {
                const double angle = place * pow(axis[k].theta, -2.0 * (double)j / (double)axis[k].size);
                cosines[column + j] = (float)cos(angle);
                sines[column + j] = (float)sin(angle);
            }
        }
    }
}

sg_rotary sg_rotary_place(sg_stream *s, const int64_t *grid, const sg_rotary_axis *axis, int axes, const int32_t *order)
{
    int64_t n = 1, columns = 0;
    for (int k = 0; k < axes; k++) {
        n *= grid[k];
        columns += axis[k].size / 2;
    }
    const sg_rotary t = {.cos = sg_new_keep(s, SG_F32, n, columns), .sin = sg_new_keep(s, SG_F32, n, columns)};
    if (!s->memory->alloc) return t; /* a plan needs no angles */
    float *const table = calloc((size_t)(2 * n * columns), sizeof *table);
    if (table) {
        fill_rotary(table, table + n * columns, n, columns, grid, axis, axes, order);
        sg_upload(s, t.cos, table);
        sg_upload(s, t.sin, table + n * columns);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for rotary tables of %lld tokens", (long long)n);
    }
    free(table);
    return t;
}

void sg_project_heads(sg_stream *s, sg_tensor y, sg_tensor x, const sg_linear_weights *l, sg_tensor norm, double eps,
                      const sg_rotary *rotary)
{
    const int64_t   n = y.dim[0], width = y.dim[1] * y.dim[2], together = norm.dim[0];
    const bool      rotated = rotary && rotary->cos.rank, plain = !norm.rank && !rotated;
    const size_t    mark = s->scratch.used;
    const sg_tensor p = plain ? sg_reshape(y, n, width) : sg_new(s, x.dtype, n, width);
    sg_linear(s, .y = p, .x = x, .w = l->w, .b = l->b);
    if (plain) return;
    if (rotated)
        sg_rope(s, .y = y, .x = sg_reshape(p, n, y.dim[1], y.dim[2]), .w = norm, .cos = rotary->cos, .sin = rotary->sin,
                .eps = (float)eps);
    else
        sg_norm(s, .y = sg_reshape(y, n * width / together, together),
                .x = sg_reshape(p, n * width / together, together), .w = norm, .kind = SG_NORM_RMS, .eps = (float)eps);
    s->scratch.used = mark;
}

void sg_project_out(sg_stream *s, sg_tensor x, sg_tensor o, const sg_linear_weights *l, sg_tensor gate)
{
    sg_linear(s, .y = x, .x = sg_reshape(o, o.dim[0], o.dim[1] * o.dim[2]), .w = l->w, .b = l->b, .gate = gate,
              .add = true);
}

/* ---- feed-forward ---- */

void sg_feed_forward(sg_stream *s, sg_tensor x, sg_tensor y, const sg_feed_forward_weights *w, sg_act act,
                     sg_tensor gate)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor u = sg_new(s, y.dtype, y.dim[0], w->up.w.dim[0]);
    sg_linear(s, .y = u, .x = y, .w = w->up.w, .b = w->up.b, .act = act);
    sg_linear(s, .y = x, .x = u, .w = w->down.w, .b = w->down.b, .gate = gate, .add = true);
    s->scratch.used = mark;
}

/* ---- tokens ---- */

void sg_patchify(sg_stream *s, sg_tensor y, sg_tensor latent, const int64_t g[3], const int64_t p[3])
{
    sg_permute(s, .y = y, .x = latent, .rank = 7, .dim = {latent.dim[0], g[0], p[0], g[1], p[1], g[2], p[2]},
               .perm = {1, 3, 5, 0, 2, 4, 6});
}

void sg_unpatchify_outermost(sg_stream *s, sg_tensor latent, sg_tensor y, const int64_t g[3], const int64_t p[3])
{
    sg_permute(s, .y = latent, .x = y, .rank = 7, .dim = {g[0], g[1], g[2], latent.dim[0], p[0], p[1], p[2]},
               .perm = {3, 0, 4, 1, 5, 2, 6});
}

void sg_unpatchify(sg_stream *s, sg_tensor latent, sg_tensor y, const int64_t g[3], const int64_t p[3])
{
    sg_permute(s, .y = latent, .x = y, .rank = 7, .dim = {g[0], g[1], g[2], p[0], p[1], p[2], latent.dim[0]},
               .perm = {6, 0, 3, 1, 4, 2, 5});
}

sg_token_order sg_token_order_place(sg_stream *s, const sg_self_attention *self, int64_t n)
{
    if (!self->ordered) return (sg_token_order){0};
    const sg_token_order t = {.order = sg_new_keep(s, SG_I32, n), .inverse = sg_new_keep(s, SG_I32, n)};
    if (!s->memory->alloc) return t; /* a plan has no data */
    int32_t *const inverse = calloc((size_t)n, sizeof *inverse);
    if (inverse) {
        sg_order_invert(inverse, self->order, n);
        sg_upload(s, t.order, self->order);
        sg_upload(s, t.inverse, inverse);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for the order of %lld tokens", (long long)n);
    }
    free(inverse);
    return t;
}

sg_tensor sg_rows_of(sg_stream *s, sg_tensor x, sg_tensor rows)
{
    if (!rows.rank) return x;
    const sg_tensor y = sg_alloc(s, &s->scratch, x.dtype, x.rank, x.dim);
    sg_embed(s, .y = y, .w = x, .ids = rows);
    return y;
}
