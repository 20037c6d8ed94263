/* mmdit.c - see mmdit.h. */
#include "mmdit.h"
#include "op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float eps = 1e-6f;

/* ---- opening ---- */

void sg_mmdit_read_axes(sg_config *f, const char *key, int64_t head_dim, int64_t axis[3])
{
    static const int64_t usual[3] = {16, 56, 56};
    memcpy(axis, usual, sizeof usual);
    if (sg_config_has(f, key)) sg_config_ints(f, key, 2, 256, axis, 3, 3);
    for (int k = 0; k < 3; k++)
        if (axis[k] % 2) sg_config_fail(f, key, "%lld is odd", (long long)axis[k]);
    const int64_t sum = axis[0] + axis[1] + axis[2];
    if (sum != head_dim)
        sg_config_fail(f, key, "the three are %lld together, but attention_head_dim is %lld", (long long)sum,
                       (long long)head_dim);
}

/* The names of the tensors of one stream in a block. */
typedef struct side_names {
    const char *mod, *q, *k, *v, *norm_q, *norm_k, *out, *up, *down;
} side_names;

static const side_names names[SG_MMDIT_STREAMS] = {
    [SG_MMDIT_PICTURE] = {"norm1.linear", "attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q.weight",
                          "attn.norm_k.weight", "attn.to_out.0", "ff.net.0.proj", "ff.net.2"},
    [SG_MMDIT_TEXT] = {"norm1_context.linear", "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj",
                       "attn.norm_added_q.weight", "attn.norm_added_k.weight", "attn.to_add_out",
                       "ff_context.net.0.proj", "ff_context.net.2"},
};

/* All of attention but the way out. */
static void bind_heads(const sg_mmdit *m, sg_attention_weights *w, const side_names *n)
{
    const int64_t o = m->config.width;
    sg_want_linear(m->bind, &w->q, m->act, n->q, o, o);
    sg_want_linear(m->bind, &w->k, m->act, n->k, o, o);
    sg_want_linear(m->bind, &w->v, m->act, n->v, o, o);
    if (m->config.plain_heads) return;
    sg_bind_tensor(m->bind, &w->norm_q, SG_F32, n->norm_q, m->config.head_dim);
    sg_bind_tensor(m->bind, &w->norm_k, SG_F32, n->norm_k, m->config.head_dim);
}

static bool is_dual(const sg_mmdit *m, int i) { return m->config.dual && m->config.dual[i]; }

/* Whether the text ends in block i. */
static bool ends_text(const sg_mmdit *m, int i) { return m->config.text_ends && i == (int)m->config.layers - 1; }

static void bind_side(const sg_mmdit *m, sg_mmdit_side *w, int i, int stream)
{
    const side_names *const n = &names[stream];
    const int64_t           o = m->config.width, ffn = m->config.ffn;
    const bool              ends = stream == SG_MMDIT_TEXT && ends_text(m, i);
    const bool              dual = stream == SG_MMDIT_PICTURE && is_dual(m, i);
    sg_bind_prefix(m->bind, "transformer_blocks.%d.", i);
    sg_want_linear(m->bind, &w->mod, m->act, n->mod, (ends ? 2 : dual ? 9 : 6) * o, o);
    bind_heads(m, &w->attn, n);
    if (ends) return;
    sg_want_linear(m->bind, &w->attn.out, m->act, n->out, o, o);
    sg_want_linear(m->bind, &w->ff.up, m->act, n->up, ffn, o);
    sg_want_linear(m->bind, &w->ff.down, m->act, n->down, o, ffn);
    if (!dual) return;
    sg_bind_prefix(m->bind, "transformer_blocks.%d.attn2.", i);
    sg_want_attention(m->bind, &w->attn2, m->act, o, m->config.plain_heads ? 0 : m->config.head_dim);
}

static void bind_single(const sg_mmdit *m, sg_mmdit_single *w)
{
    const int64_t o = m->config.width, ffn = m->config.ffn;
    sg_want_linear(m->bind, &w->mod, m->act, "norm.linear", 3 * o, o);
    bind_heads(m, &w->attn, &names[SG_MMDIT_PICTURE]);
    sg_want_linear(m->bind, &w->up, m->act, "proj_mlp", ffn, o);
    sg_want_linear(m->bind, &w->out, m->act, "proj_out", o, o + ffn);
}

void sg_mmdit_want_embedder(sg_mmdit *m, sg_linear_weights l[2], const char *prefix, int64_t i)
{
    const int64_t o = m->config.width;
    sg_bind_prefix(m->bind, "%s.", prefix);
    sg_want_linear(m->bind, &l[0], m->act, "linear_1", o, i);
    sg_want_linear(m->bind, &l[1], m->act, "linear_2", o, o);
    sg_bind_prefix(m->bind, "%s", "");
}

sg_status sg_mmdit_bind(sg_mmdit *m, sg_bind *b, sg_dtype act, const char *what, sg_error *e)
{
    const sg_mmdit_config *const c = &m->config;
    m->bind = b;
    m->act = act;
    m->block = calloc((size_t)c->layers + 1, sizeof *m->block);
    m->single = calloc((size_t)c->singles + 1, sizeof *m->single);
    if (!m->block || !m->single) return sg_error_memory(e, what);
    sg_mmdit_want_embedder(m, m->time, "time_text_embed.timestep_embedder", SG_MMDIT_WAVE);
    sg_mmdit_want_embedder(m, m->row, "time_text_embed.text_embedder", c->row_dim);
    if (c->guided) sg_mmdit_want_embedder(m, m->guidance, "time_text_embed.guidance_embedder", SG_MMDIT_WAVE);
    for (int i = 0; i < c->layers; i++) {
        sg_bind_block(b, i);
        for (int k = 0; k < SG_MMDIT_STREAMS; k++) bind_side(m, &m->block[i][k], i, k);
    }
    for (int i = 0; i < c->singles; i++) {
        sg_bind_prefix(b, "single_transformer_blocks.%d.", i);
        sg_bind_block(b, (int)c->layers + i);
        bind_single(m, &m->single[i]);
    }
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &m->mod_out, act, "norm_out.linear", 2 * c->width, c->width);
    sg_want_linear(b, &m->proj_out, act, "proj_out", c->features, c->width);
    return SG_OK;
}

void sg_mmdit_free(sg_mmdit *m)
{
    free(m->block);
    free(m->single);
    m->block = NULL;
    m->single = NULL;
}

/* ---- time, guidance, the row of the text ---- */

/* Guidance as an embedder takes it: the pipelines multiply in the dtype of the denoiser. */
static float guidance_input(double guidance, sg_dtype act)
{
    if (act != SG_BF16) return (float)guidance * 1000;
    return sg_bf16_to_f32(sg_f32_to_bf16(sg_bf16_to_f32(sg_f32_to_bf16((float)guidance)) * 1000));
}

/* y F32 [1, D] = what an embedder makes of the sinusoid of t F32 [1]. */
static void embed_time(sg_stream *s, sg_tensor y, sg_tensor t, const sg_linear_weights l[2])
{
    const size_t    mark = s->scratch.used;
    const sg_tensor wave = sg_new(s, SG_F32, 1, SG_MMDIT_WAVE);
    sg_sinusoid(s, .y = wave, .t = t);
    sg_mlp(s, y, wave, l, SG_ACT_SILU);
    s->scratch.used = mark;
}

void sg_mmdit_row(const sg_mmdit *m, sg_stream *s, sg_tensor y, const float *row, double guidance)
{
    const sg_mmdit_config *const c = &m->config;
    const size_t                 mark = s->scratch.used;
    const sg_tensor              x = sg_new(s, SG_F32, 1, c->row_dim), t = sg_new(s, SG_F32, 1);
    const sg_tensor              text = sg_new(s, SG_F32, 1, c->width), guided = sg_new(s, SG_F32, 1, c->width);
    if (row) sg_upload(s, x, row);
    sg_mlp(s, c->guided ? text : y, x, m->row, SG_ACT_SILU);
    if (c->guided) {
        sg_upload(s, t, &(float){guidance_input(guidance, m->act)});
        embed_time(s, guided, t, m->guidance);
        sg_add(s, .y = y, .a = text, .b = guided);
    }
    s->scratch.used = mark;
}

sg_tensor sg_mmdit_time(sg_stream *s, const sg_pass *p, const sg_linear_weights l[2], sg_tensor added, const char *tap)
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

sg_tensor sg_mmdit_modulation(sg_stream *s, const sg_linear_weights *w, sg_tensor time)
{
    const int64_t   width = time.dim[1];
    const sg_tensor e = sg_new(s, SG_F32, w->w.dim[0] / width, width);
    sg_linear(s, .y = sg_reshape(e, 1, w->w.dim[0]), .x = time, .w = w->w, .b = w->b);
    return e;
}

/* ---- the blocks ---- */

/* The rows of a stream in x, which has all. */
static sg_tensor rows_of(const sg_mmdit_pass *p, sg_tensor x, int stream)
{
    return sg_rows(x, p->first[stream], p->count[stream]);
}

/* y = LN(x) (1 + scale) + shift. */
static void modulated(sg_stream *s, sg_tensor y, sg_tensor x, const sg_modulation *e, sg_tensor non_finite)
{
    sg_norm(s, .y = y, .non_finite = non_finite, .x = x, .scale = e->scale, .shift = e->shift, .kind = SG_NORM_LAYER,
            .eps = eps);
}

/* Scale before shift, as where the stream does not go on. */
static sg_modulation last_modulation(sg_tensor e)
{
    const sg_modulation swapped = sg_modulation_at(e, 0);
    return (sg_modulation){.scale = swapped.shift, .shift = swapped.scale};
}

/* q, k, v of the rows y of one stream. */
static void project_in(sg_stream *s, const sg_attention_weights *w, const sg_rotary *rotary, const sg_tensor qkv[3],
                       sg_tensor y)
{
    sg_project_heads(s, qkv[0], y, &w->q, w->norm_q, eps, rotary);
    sg_project_heads(s, qkv[1], y, &w->k, w->norm_k, eps, rotary);
    sg_linear(s, .y = sg_reshape(qkv[2], y.dim[0], y.dim[1]), .x = y, .w = w->v.w, .b = w->v.b);
}

/* x, the rows of one stream, += attention, the second one o2 where there is one, and feed-forward. */
static void project_back(const sg_mmdit *m, sg_stream *s, const sg_mmdit_side *w, sg_tensor x, sg_tensor o,
                         sg_tensor o2, sg_tensor e, int i, const char *tap)
{
    const size_t        mark = s->scratch.used;
    const sg_modulation ff = sg_modulation_at(e, 3);
    const sg_tensor     y = sg_new(s, m->act, x.dim[0], x.dim[1]);
    sg_project_out(s, x, o, &w->attn.out, sg_modulation_at(e, 0).gate);
    sg_tap(s, x, "dit.block.%d.attn1%s", i, tap);
    if (o2.rank) {
        sg_project_out(s, x, o2, &w->attn2.out, sg_modulation_at(e, 6).gate);
        sg_tap(s, x, "dit.block.%d.attn2", i);
    }
    modulated(s, y, x, &ff, (sg_tensor){0});
    sg_feed_forward(s, x, y, &w->ff, SG_ACT_GELU_TANH, ff.gate);
    sg_tap(s, x, "dit.block.%d.ff%s", i, tap);
    s->scratch.used = mark;
}

/* By layer i of attention. */
static void self_attention(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, int i, sg_tensor o,
                           const sg_tensor qkv[3])
{
    sg_self_attention_run(
        p->self, s, p->pass->first_layer + i, p->pass->step, p->pass->index, p->pass->timestep,
        &(sg_attend_args){
            .y = o, .q = qkv[0], .k = qkv[1], .v = qkv[2], .scale = 1.0f / sqrtf((float)m->config.head_dim)});
}

/* Which layer of attention the second one of block i is. */
static int second_layer(const sg_mmdit *m, int i)
{
    int layer = (int)(m->config.layers + m->config.singles);
    for (int k = 0; k < i; k++) layer += is_dual(m, k);
    return layer;
}

/* [n, h, d], in s->scratch: the second attention of block i, of the picture's rows x alone. */
static sg_tensor attend_again(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, int i, sg_tensor x, sg_tensor e)
{
    const sg_mmdit_config *const c = &m->config;
    const int64_t                n = x.dim[0];
    const sg_modulation          mod = sg_modulation_at(e, 6);
    const sg_tensor              o = sg_new(s, m->act, n, c->heads, c->head_dim);
    const size_t                 mark = s->scratch.used;
    const sg_tensor              y = sg_new(s, m->act, n, c->width);
    sg_tensor                    qkv[3];
    for (int k = 0; k < 3; k++) qkv[k] = sg_new(s, m->act, n, c->heads, c->head_dim);
    modulated(s, y, x, &mod, (sg_tensor){0});
    project_in(s, &m->block[i][SG_MMDIT_PICTURE].attn2, p->rotary, qkv, y);
    self_attention(m, p, s, second_layer(m, i), o, qkv);
    s->scratch.used = mark;
    return o;
}

/* A block of two streams. */
static void block(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, int i, sg_tensor x)
{
    const sg_mmdit_config *const c = &m->config;
    const size_t                 mark = s->scratch.used;
    const sg_mmdit_side *const   side = m->block[i];
    const int64_t                all = x.dim[0];
    const bool                   ends = ends_text(m, i);
    sg_tensor                    e[SG_MMDIT_STREAMS];
    for (int k = 0; k < SG_MMDIT_STREAMS; k++) e[k] = sg_mmdit_modulation(s, &side[k].mod, p->time);
    const sg_tensor o = sg_new(s, m->act, all, c->heads, c->head_dim);
    const size_t    held = s->scratch.used;
    sg_tensor       qkv[3];
    for (int k = 0; k < 3; k++) qkv[k] = sg_new(s, m->act, all, c->heads, c->head_dim);
    for (int k = 0; k < SG_MMDIT_STREAMS; k++) {
        const sg_modulation attn = k == SG_MMDIT_TEXT && ends ? last_modulation(e[k]) : sg_modulation_at(e[k], 0);
        const sg_tensor     own[3] = {rows_of(p, qkv[0], k), rows_of(p, qkv[1], k), rows_of(p, qkv[2], k)};
        const size_t        before = s->scratch.used;
        const sg_tensor     y = sg_new(s, m->act, p->count[k], c->width);
        modulated(s, y, rows_of(p, x, k), &attn, sg_rows(p->pass->non_finite, i, 1));
        project_in(s, &side[k].attn, k == SG_MMDIT_PICTURE ? p->rotary : NULL, own, y);
        s->scratch.used = before;
    }
    self_attention(m, p, s, i, o, qkv);
    s->scratch.used = held;
    const sg_tensor picture = rows_of(p, x, SG_MMDIT_PICTURE);
    const sg_tensor o2 = is_dual(m, i) ? attend_again(m, p, s, i, picture, e[SG_MMDIT_PICTURE]) : (sg_tensor){0};
    project_back(m, s, &side[SG_MMDIT_PICTURE], picture, rows_of(p, o, SG_MMDIT_PICTURE), o2, e[SG_MMDIT_PICTURE], i,
                 "");
    if (!ends)
        project_back(m, s, &side[SG_MMDIT_TEXT], rows_of(p, x, SG_MMDIT_TEXT), rows_of(p, o, SG_MMDIT_TEXT),
                     (sg_tensor){0}, e[SG_MMDIT_TEXT], i, "_text");
    s->scratch.used = mark;
}

/* y [all, h, d] = RMS of x l by head, the picture's rows rotated. */
static void project_heads(const sg_mmdit_pass *p, sg_stream *s, sg_tensor y, sg_tensor x, const sg_linear_weights *l,
                          sg_tensor norm)
{
    const size_t    mark = s->scratch.used;
    const int64_t   all = y.dim[0], h = y.dim[1], d = y.dim[2], text = p->count[SG_MMDIT_TEXT];
    const sg_tensor v = sg_new(s, y.dtype, all, h, d);
    sg_linear(s, .y = sg_reshape(v, all, h * d), .x = x, .w = l->w, .b = l->b);
    sg_rope(s, .y = rows_of(p, y, SG_MMDIT_PICTURE), .x = rows_of(p, v, SG_MMDIT_PICTURE), .w = norm,
            .cos = p->rotary->cos, .sin = p->rotary->sin, .eps = eps);
    sg_norm(s, .y = sg_reshape(rows_of(p, y, SG_MMDIT_TEXT), text * h, d),
            .x = sg_reshape(rows_of(p, v, SG_MMDIT_TEXT), text * h, d), .w = norm, .kind = SG_NORM_RMS, .eps = eps);
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
static void single_out(const sg_mmdit *m, sg_stream *s, const sg_mmdit_single *w, sg_tensor x, sg_tensor y, sg_tensor o,
                       sg_tensor gate)
{
    enum { ROWS = 8192 };
    const sg_mmdit_config *const c = &m->config;
    for (int64_t i = 0; i < x.dim[0]; i += ROWS) {
        const size_t    mark = s->scratch.used;
        const int64_t   n = x.dim[0] - i < ROWS ? x.dim[0] - i : ROWS;
        const sg_tensor u = sg_new(s, m->act, n, c->ffn), both = sg_new(s, m->act, n, c->width + c->ffn);
        sg_linear(s, .y = u, .x = sg_rows(y, i, n), .w = w->up.w, .b = w->up.b, .act = SG_ACT_GELU_TANH);
        put_columns(s, both, 0, sg_rows(o, i, n));
        put_columns(s, both, c->width, u);
        sg_linear(s, .y = sg_rows(x, i, n), .x = both, .w = w->out.w, .b = w->out.b, .gate = gate, .add = true);
        s->scratch.used = mark;
    }
}

/* A block of one stream, number i of all blocks. */
static void single(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, int i, sg_tensor x)
{
    const sg_mmdit_config *const c = &m->config;
    const sg_mmdit_single *const w = &m->single[i - (int)c->layers];
    const size_t                 mark = s->scratch.used;
    const int64_t                all = x.dim[0];
    const sg_tensor              e = sg_mmdit_modulation(s, &w->mod, p->time);
    const sg_modulation          mod = sg_modulation_at(e, 0);
    const sg_tensor y = sg_new(s, m->act, all, c->width), o = sg_new(s, m->act, all, c->heads, c->head_dim);
    const size_t    held = s->scratch.used;
    sg_tensor       qkv[3];
    for (int k = 0; k < 3; k++) qkv[k] = sg_new(s, m->act, all, c->heads, c->head_dim);
    modulated(s, y, x, &mod, sg_rows(p->pass->non_finite, i, 1));
    project_heads(p, s, qkv[0], y, &w->attn.q, w->attn.norm_q);
    project_heads(p, s, qkv[1], y, &w->attn.k, w->attn.norm_k);
    sg_linear(s, .y = sg_reshape(qkv[2], all, c->width), .x = y, .w = w->attn.v.w, .b = w->attn.v.b);
    self_attention(m, p, s, i, o, qkv);
    s->scratch.used = held;
    single_out(m, s, w, x, y, o, mod.gate);
    sg_tap(s, rows_of(p, x, SG_MMDIT_PICTURE), "dit.block.%d.out", i);
    sg_tap(s, rows_of(p, x, SG_MMDIT_TEXT), "dit.block.%d.out_text", i);
    s->scratch.used = mark;
}

void sg_mmdit_blocks(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, sg_tensor x)
{
    const int layers = (int)m->config.layers, all = layers + (int)m->config.singles;
    for (int i = 0; i < all; i++) {
        if (sg_layers_have(p->pass->skipped, i)) continue;
        sg_bind_fetch(m->bind, s, i);
        if (i < layers)
            block(m, p, s, i, x);
        else
            single(m, p, s, i, x);
    }
}

sg_tensor sg_mmdit_out(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, sg_tensor x)
{
    const sg_mmdit_config *const c = &m->config;
    const int64_t                n = p->count[SG_MMDIT_PICTURE];
    const sg_tensor              v = sg_new(s, SG_F32, n, c->features);
    const size_t                 mark = s->scratch.used;
    const sg_tensor              e = sg_mmdit_modulation(s, &m->mod_out, p->time), y = sg_new(s, m->act, n, c->width);
    const sg_modulation          mod = last_modulation(e);
    modulated(s, y, rows_of(p, x, SG_MMDIT_PICTURE), &mod, sg_rows(p->pass->non_finite, c->layers + c->singles, 1));
    sg_linear(s, .y = v, .x = y, .w = m->proj_out.w, .b = m->proj_out.b);
    s->scratch.used = mark;
    return v;
}
