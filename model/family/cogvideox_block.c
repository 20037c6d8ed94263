/* cogvideox_block.c - see cogvideox_block.h. What bites:
 *  - text and video are one sequence, the text first, and share every weight but the modulation: six rows of a norm's
 *    linear are shift, scale, gate of the video, then of the text;
 *  - the norms have weights, which come before the modulation;
 *  - q and k are normalised by head, mean too, with an eps of their own, 1e-6; only the video's rows are rotated. */
#include "cogvideox_block.h"
#include "op.h"

#include <stdio.h>

/* ---- weights ---- */

void sg_cogvideox_bind_affine(sg_cogvideox_dit *d, sg_tensor *w, sg_tensor *b, const char *name, int64_t width,
                              bool always)
{
    char full[104];
    if (!d->norm_affine && !always) return;
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(d->dit.component.bind, w, SG_F32, full, width);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(d->dit.component.bind, b, SG_F32, full, width);
}

void sg_cogvideox_bind_norm(sg_cogvideox_dit *d, sg_cogvideox_norm *n, const char *name, int64_t rows)
{
    const int64_t w = d->dit.width;
    char          full[96];
    snprintf(full, sizeof full, "%s.linear", name);
    sg_want_linear(d->dit.component.bind, &n->linear, d->dit.component.act, full, rows * w, d->time_dim);
    snprintf(full, sizeof full, "%s.norm", name);
    sg_cogvideox_bind_affine(d, &n->w, &n->b, full, w, false);
}

static void bind_projection(const sg_cogvideox_dit *d, sg_linear_weights *l, const char *name)
{
    const int64_t  w = d->dit.width;
    const sg_dtype act = d->dit.component.act;
    char           full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    if (d->attention_bias)
        sg_want_linear(d->dit.component.bind, l, act, name, w, w);
    else
        sg_bind_matrix(d->dit.component.bind, &l->w, act, full, w, w);
}

void sg_cogvideox_bind_block(sg_cogvideox_dit *d, int i)
{
    const sg_dtype            act = d->dit.component.act;
    const int64_t             w = d->dit.width;
    sg_bind *const            b = d->dit.component.bind;
    sg_cogvideox_block *const k = &d->block[i];
    sg_bind_block(b, i);
    sg_bind_prefix(b, "transformer_blocks.%d.", i);
    sg_cogvideox_bind_norm(d, &k->norm[0], "norm1", 6);
    bind_projection(d, &k->attn.q, "attn1.to_q");
    bind_projection(d, &k->attn.k, "attn1.to_k");
    bind_projection(d, &k->attn.v, "attn1.to_v");
    sg_want_linear(b, &k->attn.out, act, "attn1.to_out.0", w, w);
    sg_cogvideox_bind_affine(d, &k->attn.norm_q, &k->norm_q_b, "attn1.norm_q", d->dit.head_dim, true);
    sg_cogvideox_bind_affine(d, &k->attn.norm_k, &k->norm_k_b, "attn1.norm_k", d->dit.head_dim, true);
    sg_cogvideox_bind_norm(d, &k->norm[1], "norm2", 6);
    sg_want_linear(b, &k->ff.up, act, "ff.net.0.proj", 4 * w, w);
    sg_want_linear(b, &k->ff.down, act, "ff.net.2", w, 4 * w);
}

/* ---- a block ---- */

void sg_cogvideox_norm_rows(const sg_cogvideox_dit *d, sg_stream *s, sg_tensor y, sg_tensor x,
                            const sg_cogvideox_norm *w, const sg_modulation *e, sg_tensor non_finite)
{
    sg_norm(s, .y = y, .non_finite = non_finite, .x = x, .w = w->w, .b = w->b, .shift = e->shift, .scale = e->scale,
            .kind = SG_NORM_LAYER, .eps = (float)d->eps);
}

/* Which rows of the tokens are the text's, or the video's, and what modulates them. */
typedef struct rows {
    int64_t       first, count;
    sg_modulation attn, ff;
} rows;

static sg_tensor rows_of(sg_tensor x, const rows *k) { return sg_rows(x, k->first, k->count); }

static void tap_rows(sg_stream *s, sg_tensor x, const rows of[2], const char *name, int i)
{
    sg_tap(s, rows_of(x, &of[1]), "dit.block.%d.%s", i, name);
    sg_tap(s, rows_of(x, &of[0]), "dit.block.%d.%s_text", i, name);
}

/* y [N, h, d] = the norm of x l by head, the video's rows rotated. spare has y's shape. */
static void project_heads(sg_stream *s, const sg_dit_run *r, sg_tensor y, sg_tensor spare, sg_tensor x,
                          const sg_linear_weights *l, sg_tensor w, sg_tensor b)
{
    const int64_t   n = y.dim[0], h = y.dim[1], d = y.dim[2], text = n - r->n;
    const bool      rotary = r->rotary->cos.rank > 0;
    const sg_tensor p = rotary ? y : spare, normed = rotary ? spare : y;
    sg_linear(s, .y = sg_reshape(p, n, h * d), .x = x, .w = l->w, .b = l->b);
    sg_norm(s, .y = sg_reshape(normed, n * h, d), .x = sg_reshape(p, n * h, d), .w = w, .b = b, .kind = SG_NORM_LAYER,
            .eps = 1e-6f);
    if (!rotary) return;
    sg_copy(s, .y = sg_rows(y, 0, text), .x = sg_rows(normed, 0, text));
    sg_rope(s, .y = sg_rows(y, text, n - text), .x = sg_rows(normed, text, n - text), .cos = r->rotary->cos,
            .sin = r->rotary->sin);
}

static void self_attention(const sg_cogvideox_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, int i,
                           sg_tensor x, const rows of[2])
{
    const sg_cogvideox_block *const w = &d->block[i];
    const int64_t                   n = x.dim[0], h = d->dit.heads, hd = d->dit.head_dim;
    const sg_dtype                  act = d->dit.component.act;
    const size_t                    mark = s->scratch.used;
    const sg_tensor qkv[3] = {sg_new(s, act, n, h, hd), sg_new(s, act, n, h, hd), sg_new(s, act, n, h, hd)};
    const sg_tensor y = sg_new(s, act, n, h * hd), o = sg_reshape(y, n, h, hd); /* y is used up by then */

    for (int k = 0; k < 2; k++)
        sg_cogvideox_norm_rows(d, s, rows_of(y, &of[k]), rows_of(x, &of[k]), &w->norm[0], &of[k].attn,
                               sg_rows(p->non_finite, i, 1));
    project_heads(s, r, qkv[0], qkv[2], y, &w->attn.q, w->attn.norm_q, w->norm_q_b);
    project_heads(s, r, qkv[1], qkv[2], y, &w->attn.k, w->attn.norm_k, w->norm_k_b);
    sg_linear(s, .y = sg_reshape(qkv[2], n, h * hd), .x = y, .w = w->attn.v.w, .b = w->attn.v.b);
    sg_dit_attend(&d->dit, r, s, p, i, o, qkv);
    for (int k = 0; k < 2; k++)
        sg_project_out(s, rows_of(x, &of[k]), rows_of(o, &of[k]), &w->attn.out, of[k].attn.gate);
    tap_rows(s, x, of, "attn1", i);
    s->scratch.used = mark;
}

static void feed_forward(const sg_cogvideox_dit *d, sg_stream *s, int i, sg_tensor x, const rows of[2])
{
    for (int k = 0; k < 2; k++) {
        const size_t    mark = s->scratch.used;
        const sg_tensor own = rows_of(x, &of[k]), y = sg_new(s, d->dit.component.act, own.dim[0], own.dim[1]);
        sg_cogvideox_norm_rows(d, s, y, own, &d->block[i].norm[1], &of[k].ff, (sg_tensor){0});
        sg_feed_forward(s, own, y, &d->block[i].ff, SG_ACT_GELU_TANH, of[k].ff.gate);
        s->scratch.used = mark;
    }
    tap_rows(s, x, of, "ff", i);
}

void sg_cogvideox_block_run(const sg_cogvideox_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, int i,
                            sg_tensor x, sg_tensor e)
{
    const int64_t text = x.dim[0] - r->n;

    const rows of[2] = {{.count = text, .attn = sg_modulation_at(e, 3), .ff = sg_modulation_at(e, 9)},
                        {.first = text, .count = r->n, .attn = sg_modulation_at(e, 0), .ff = sg_modulation_at(e, 6)}};
    self_attention(d, r, s, p, i, x, of);
    feed_forward(d, s, i, x, of);
}
