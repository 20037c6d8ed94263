/* layers.c - see layers.h. */
#include "layers.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- linear ---- */

void sg_want_linear(sg_bind *b, sg_linear_weights *l, sg_dtype as, const char *name, int64_t o, int64_t i)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_matrix(b, &l->w, as, full, o, i);
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

sg_rotary sg_rotary_rows(const sg_rotary *r, int64_t first, int64_t count)
{
    if (!r || !r->cos.rank) return (sg_rotary){0};
    return (sg_rotary){.cos = sg_rows(r->cos, first, count), .sin = sg_rows(r->sin, first, count)};
}

static void project_piece(sg_stream *s, sg_tensor y, sg_tensor x, const sg_linear_weights *l, sg_tensor norm,
                          double eps, const sg_rotary *rotary)
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

void sg_project_heads(sg_stream *s, sg_tensor y, sg_tensor x, const sg_linear_weights *l, sg_tensor norm, double eps,
                      const sg_rotary *rotary)
{
    const int64_t n = x.dim[0];
    for (int64_t i = 0, count; i < n; i += count) {
        count = sg_rows_at_once(s, n - i);
        const sg_rotary own = sg_rotary_rows(rotary, i, count);
        project_piece(s, sg_rows(y, i, count), sg_rows(x, i, count), l, norm, eps, &own);
    }
}

void sg_project_out(sg_stream *s, sg_tensor x, sg_tensor o, const sg_linear_weights *l, sg_tensor gate)
{
    sg_linear(s, .y = x, .x = sg_reshape(o, o.dim[0], o.dim[1] * o.dim[2]), .w = l->w, .b = l->b, .gate = gate,
              .add = true);
}

void sg_keys_new(sg_keys **keys, sg_stream *s, int64_t count)
{
    free(*keys);
    *keys = calloc((size_t)count, sizeof **keys);
    if (!*keys) sg_fail(s, SG_E_MEMORY, "no memory for %lld text keys", (long long)count);
}

sg_keys sg_keys_of(sg_stream *s, sg_arena *where, sg_tensor x, int64_t heads, const sg_linear_weights *k,
                   const sg_linear_weights *v, sg_tensor norm, double eps)
{
    const int64_t n = x.dim[0], w = x.dim[1], dim[] = {n, heads, w / heads};
    const sg_keys y = {sg_alloc(s, where, x.dtype, 3, dim), sg_alloc(s, where, x.dtype, 3, dim)};
    sg_project_heads(s, y.key, x, k, norm, eps, NULL);
    sg_linear(s, .y = sg_reshape(y.value, n, w), .x = x, .w = v->w, .b = v->b);
    return y;
}

/* ---- feed-forward ---- */

void sg_feed_forward(sg_stream *s, sg_tensor x, sg_tensor y, const sg_feed_forward_weights *w, sg_act act,
                     sg_tensor gate)
{
    const size_t  mark = s->scratch.used;
    const int64_t n = y.dim[0];
    for (int64_t i = 0, count; i < n; i += count) {
        count = sg_rows_at_once(s, n - i);
        const sg_tensor u = sg_new(s, y.dtype, count, w->up.w.dim[0]);
        sg_linear(s, .y = u, .x = sg_rows(y, i, count), .w = w->up.w, .b = w->up.b, .act = act);
        sg_linear(s, .y = sg_rows(x, i, count), .x = u, .w = w->down.w, .b = w->down.b, .gate = gate, .add = true);
        s->scratch.used = mark;
    }
}

/* ---- tokens ---- */

sg_tensor sg_rows_of(sg_stream *s, sg_tensor x, sg_tensor rows)
{
    if (!rows.rank) return x;
    const sg_tensor y = sg_alloc(s, &s->scratch, x.dtype, x.rank, x.dim);
    sg_embed(s, .y = y, .w = x, .ids = rows);
    return y;
}
