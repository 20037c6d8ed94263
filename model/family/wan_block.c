/* wan_block.c - see wan_block.h. What bites:
 *  - modulation rows come as shift, scale, gate of attention, then of the feed-forward;
 *  - q and k are normalised over the whole width, before the heads are split;
 *  - the padding rows of the text are zeros, not masked: all of them are one key, weighted by its count. */
#include "wan_block.h"
#include "op.h"

#include <math.h>
#include <stdlib.h>

void sg_wan_bind_block(sg_wan_dit *d, int i)
{
    sg_wan_block *const k = &d->block[i];
    const sg_dtype      act = d->dit.component.act;
    const int64_t       w = d->dit.width;
    sg_bind *const      b = d->dit.component.bind;
    sg_bind_block(b, i);
    sg_bind_prefix(b, "blocks.%d.attn1.", i);
    sg_want_attention(b, &k->self, act, w, w);
    sg_bind_prefix(b, "blocks.%d.attn2.", i);
    sg_want_attention(b, &k->cross, act, w, w);
    if (d->image_dim) {
        sg_want_linear(b, &k->image_k, act, "add_k_proj", w, w);
        sg_want_linear(b, &k->image_v, act, "add_v_proj", w, w);
        sg_bind_tensor(b, &k->image_norm, SG_F32, "norm_added_k.weight", w);
    }
    sg_bind_prefix(b, "blocks.%d.", i);
    sg_bind_tensor(b, &k->table, SG_F32, "scale_shift_table", 1, 6, w);
    if (d->cross_norm) {
        sg_bind_tensor(b, &k->norm_w, SG_F32, "norm2.weight", w);
        sg_bind_tensor(b, &k->norm_b, SG_F32, "norm2.bias", w);
    }
    sg_want_linear(b, &k->ffn.up, act, "ffn.net.0.proj", d->ffn, w);
    sg_want_linear(b, &k->ffn.down, act, "ffn.net.2", w, d->ffn);
}

/* ---- keys of texts and pictures ---- */

/* Those of layer i from the rows x, in that arena. */
static sg_keys project_keys(const sg_wan_dit *d, sg_stream *s, sg_arena *where, int which, int i, sg_tensor x)
{
    const sg_wan_block *const b = &d->block[i];
    const bool                pictures = which == SG_WAN_PICTURES;
    return sg_keys_of(s, where, x, d->dit.heads, pictures ? &b->image_k : &b->cross.k,
                      pictures ? &b->image_v : &b->cross.v, pictures ? b->image_norm : b->cross.norm_k, d->eps);
}

/* Those of every layer from the rows x. Where memory is short the rows are kept, and each layer makes its own in every
 * step. */
static void keep_keys(sg_wan_run *r, const sg_wan_dit *d, sg_stream *s, int which, sg_tensor x)
{
    if (s->rows_at_once) {
        r->rows[which] = sg_new_keep(s, x.dtype, x.dim[0], x.dim[1]);
        sg_copy(s, .y = r->rows[which], .x = x);
        return;
    }
    for (int i = 0; i < d->layers; i++) {
        sg_bind_fetch(d->dit.component.bind, s, i);
        r->keys[SG_WAN_KEYS * i + which] = project_keys(d, s, &s->keep, which, i, x);
    }
}

/* Those of layer i. */
static sg_keys keys_at(const sg_wan_run *r, const sg_wan_dit *d, sg_stream *s, int which, int i)
{
    if (r->rows[which].rank) return project_keys(d, s, &s->scratch, which, i, r->rows[which]);
    return r->keys[SG_WAN_KEYS * i + which];
}

void sg_wan_picture_keys(sg_wan_run *r, const sg_wan_dit *d, sg_stream *s, const float *given, int rows)
{
    const sg_dtype  act = d->dit.component.act;
    const int64_t   m = rows, w = d->dit.width, in = d->image_dim;
    const size_t    mark = s->scratch.used;
    const sg_tensor states = sg_new(s, SG_F32, m, in), placed = sg_new(s, SG_F32, m, in), x = sg_new(s, act, m, in);
    const sg_tensor y = sg_new(s, SG_F32, m, w), ya = sg_new(s, act, m, w);
    if (given) sg_upload(s, states, given);
    if (d->places.rank) sg_add(s, .y = placed, .a = states, .b = sg_reshape(d->places, m, in));
    sg_norm(s, .y = x, .x = d->places.rank ? placed : states, .w = d->norm_w[0], .b = d->norm_b[0],
            .kind = SG_NORM_LAYER, .eps = 1e-5f);
    sg_mlp(s, y, x, d->image, SG_ACT_GELU_ERF);
    sg_norm(s, .y = ya, .x = y, .w = d->norm_w[1], .b = d->norm_b[1], .kind = SG_NORM_LAYER, .eps = 1e-5f);
    sg_tap(s, ya, "dit.image");
    keep_keys(r, d, s, SG_WAN_PICTURES, ya);
    s->scratch.used = mark;
}

void sg_wan_text_keys(sg_wan_run *r, const sg_wan_dit *d, sg_stream *s, int pass, const float *given, int rows)
{
    const int     pads = SG_WAN_TEXT_LEN - rows;
    const int64_t m = rows + (pads > 0), in = d->dit.text_dim;
    const size_t  mark = s->scratch.used;
    float *const states = calloc((size_t)(m * in + m), sizeof *states), *const bias = states ? states + m * in : NULL;
    r->bias[pass] = sg_new_keep(s, SG_F32, m);
    if (states) {
        if (given) memcpy(states, given, (size_t)(rows * in) * sizeof *states);
        if (pads > 0) bias[m - 1] = (float)log((double)pads);
        sg_upload(s, r->bias[pass], bias);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for %lld text states", (long long)m);
    }
    keep_keys(r, d, s, pass, sg_dit_embed_text(&d->dit, s, d->text, states, m));
    free(states);
    s->scratch.used = mark;
}

/* ---- modulation ---- */

void sg_wan_modulate(const sg_wan_run *r, sg_stream *s, int64_t rows, sg_tensor table, sg_tensor v)
{
    const int64_t w = r->e.dim[1];
    for (int64_t k = 0; k < v.dim[0]; k++)
        sg_add(s, .y = sg_rows(r->e, SG_WAN_ROWS * k, rows), .a = sg_reshape(table, rows, w),
               .b = sg_reshape(sg_rows(v, k, 1), v.dim[1] / w, w));
}

/* Row i of the modulation; where tokens have two, the rows that r->row counts in. */
static sg_tensor modulation(const sg_wan_run *r, int i)
{
    return r->row.rank ? sg_rows(r->e, i, SG_WAN_ROWS + 1) : sg_reshape(sg_rows(r->e, i, 1), r->e.dim[1]);
}

void sg_wan_norm(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, sg_tensor y, sg_tensor x, int first,
                 sg_tensor non_finite, sg_tensor row)
{
    sg_norm(s, .y = y, .non_finite = non_finite, .x = x, .shift = modulation(r, first),
            .scale = modulation(r, first + 1), .row = row, .kind = SG_NORM_LAYER, .eps = (float)d->eps);
}

/* Which modulation each of these tokens has; absent where all have one. */
static sg_tensor row_of(const sg_wan_run *r, int64_t first, int64_t count)
{
    return r->row.rank ? sg_rows(r->row, first, count) : (sg_tensor){0};
}

/* x += row i of the modulation times x l. */
static void add_gated(const sg_wan_run *r, sg_stream *s, sg_tensor x, sg_tensor by, const sg_linear_weights *l, int i,
                      sg_tensor row)
{
    sg_linear(s, .y = x, .x = by, .w = l->w, .b = l->b, .gate = modulation(r, i), .row = row, .add = true);
}

/* ---- the parts of a block ---- */

/* How many of the n rows that are left are worked on at once, where q, k and v of all rows are not there: there is room
 * for twice as many, and a quantised weight is widened half as often. */
static int64_t more_rows_at_once(const sg_stream *s, int64_t n)
{
    return s->rows_at_once ? sg_rows_piece(n, 2 * s->rows_at_once) : n;
}

void sg_wan_self_attention(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, const sg_pass *p, int i, sg_tensor x)
{
    const sg_attention_weights *const a = &d->block[i].self;
    const int64_t                     n = x.dim[0], w = d->dit.width, h = d->dit.heads, hd = d->dit.head_dim;
    const sg_dtype                    act = d->dit.component.act;
    const size_t                      mark = s->scratch.used;
    const sg_tensor qkv[3] = {sg_new(s, act, n, h, hd), sg_new(s, act, n, h, hd), sg_new(s, act, n, h, hd)};
    const size_t    inner = s->scratch.used;

    for (int64_t t = 0, count; t < n; t += count) {
        count = sg_rows_at_once(s, n - t);
        const sg_tensor y = sg_new(s, act, count, w);
        const sg_rotary rotary = sg_rotary_rows(r->dit.rotary, t, count);
        sg_wan_norm(d, r, s, y, sg_rows(x, t, count), 0, sg_rows(p->non_finite, i, 1), row_of(r, t, count));
        sg_project_heads(s, sg_rows(qkv[0], t, count), y, &a->q, a->norm_q, d->eps, &rotary);
        sg_project_heads(s, sg_rows(qkv[1], t, count), y, &a->k, a->norm_k, d->eps, &rotary);
        sg_linear(s, .y = sg_reshape(sg_rows(qkv[2], t, count), count, w), .x = y, .w = a->v.w, .b = a->v.b);
        s->scratch.used = inner;
    }
    const sg_tensor o = sg_dit_attended(&r->dit, s, p, i, qkv[0], qkv[1]);
    sg_dit_attend(&d->dit, &r->dit, s, p, i, o, qkv);
    add_gated(r, s, x, sg_reshape(o, n, w), &a->out, 2, r->row);
    sg_tap(s, x, "dit.block.%d.attn1", i);
    s->scratch.used = mark;
}

/* x += cross-attention, of these rows with the keys of a text and, where there are some, of pictures. */
static void cross_piece(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, int pass, int i, sg_tensor x,
                        const sg_keys keys[2])
{
    const sg_wan_block *const b = &d->block[i];
    const int64_t             n = x.dim[0], w = d->dit.width, h = d->dit.heads, hd = d->dit.head_dim;
    const float               scale = 1.0f / sqrtf((float)hd);
    const sg_dtype            act = d->dit.component.act;
    const size_t              mark = s->scratch.used;
    const sg_tensor           y = sg_new(s, act, n, w), q = sg_new(s, act, n, h, hd);

    if (d->cross_norm)
        sg_norm(s, .y = y, .x = x, .w = b->norm_w, .b = b->norm_b, .kind = SG_NORM_LAYER, .eps = (float)d->eps);
    else
        sg_copy(s, .y = y, .x = x);
    sg_project_heads(s, q, y, &b->cross.q, b->cross.norm_q, d->eps, NULL);
    sg_tensor o = sg_new(s, act, n, h, hd);
    sg_attend(s, .y = o, .q = q, .k = keys[0].key, .v = keys[0].value, .key_bias = r->bias[pass], .scale = scale);
    if (d->image_dim) {
        const sg_tensor of = sg_new(s, act, n, h, hd);
        sg_attend(s, .y = of, .q = q, .k = keys[1].key, .v = keys[1].value, .scale = scale);
        sg_add(s, .y = y, .a = sg_reshape(o, n, w), .b = sg_reshape(of, n, w));
        o = sg_reshape(y, n, h, hd);
    }
    sg_project_out(s, x, o, &b->cross.out, (sg_tensor){0});
    s->scratch.used = mark;
}

void sg_wan_cross_attention(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, int pass, int i, sg_tensor x)
{
    const int64_t n = x.dim[0];
    const size_t  mark = s->scratch.used;
    sg_keys       keys[2];
    keys[0] = keys_at(r, d, s, pass, i);
    if (d->image_dim) keys[1] = keys_at(r, d, s, SG_WAN_PICTURES, i);
    for (int64_t t = 0, count; t < n; t += count) {
        count = more_rows_at_once(s, n - t);
        cross_piece(d, r, s, pass, i, sg_rows(x, t, count), keys);
    }
    s->scratch.used = mark;
    sg_tap(s, x, "dit.block.%d.attn2", i);
}

void sg_wan_feed_forward(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, int i, sg_tensor x)
{
    const sg_feed_forward_weights *const w = &d->block[i].ffn;
    const sg_dtype                       act = d->dit.component.act;
    const int64_t                        n = x.dim[0];
    const size_t                         mark = s->scratch.used;
    for (int64_t t = 0, count; t < n; t += count) {
        count = more_rows_at_once(s, n - t);
        const sg_tensor own = sg_rows(x, t, count), row = row_of(r, t, count);
        const sg_tensor y = sg_new(s, act, count, d->dit.width), u = sg_new(s, act, count, d->ffn);
        sg_wan_norm(d, r, s, y, own, 3, (sg_tensor){0}, row);
        sg_linear(s, .y = u, .x = y, .w = w->up.w, .b = w->up.b, .act = SG_ACT_GELU_TANH);
        add_gated(r, s, own, u, &w->down, 5, row);
        s->scratch.used = mark;
    }
    sg_tap(s, x, "dit.block.%d.ffn", i);
}
