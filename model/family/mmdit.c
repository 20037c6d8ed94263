/* mmdit.c - see mmdit.h. */
#include "mmdit.h"
#include "base/text.h"
#include "op.h"
#include "quant.h"

#include <stdio.h>
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

static bool is_dual(const sg_mmdit *m, int i) { return m->dual && m->dual[i]; }

/* Whether the text ends in block i. */
static bool ends_text(const sg_mmdit *m, int i) { return m->text_ends && i == (int)m->layers - 1; }

/* All of attention but the way out. */
static void bind_heads(const sg_mmdit *m, sg_attention_weights *w, const side_names *n)
{
    sg_bind *const b = m->dit.component.bind;
    const sg_dtype act = m->dit.component.act;
    const int64_t  o = m->dit.width;
    sg_want_linear(b, &w->q, act, n->q, o, o);
    sg_want_linear(b, &w->k, act, n->k, o, o);
    sg_want_linear(b, &w->v, act, n->v, o, o);
    if (m->plain_heads) return;
    sg_bind_tensor(b, &w->norm_q, SG_F32, n->norm_q, m->dit.head_dim);
    sg_bind_tensor(b, &w->norm_k, SG_F32, n->norm_k, m->dit.head_dim);
}

static void bind_side(const sg_mmdit *m, sg_mmdit_side *w, int i, int stream)
{
    const side_names *const n = &names[stream];
    sg_bind *const          b = m->dit.component.bind;
    const sg_dtype          act = m->dit.component.act;
    const int64_t           o = m->dit.width;
    const bool              ends = stream == SG_MMDIT_TEXT && ends_text(m, i);
    const bool              dual = stream == SG_MMDIT_PICTURE && is_dual(m, i);
    sg_bind_prefix(b, "transformer_blocks.%d.", i);
    bind_heads(m, &w->attn, n);
    if (ends) return;
    sg_want_linear(b, &w->attn.out, act, n->out, o, o);
    sg_want_linear(b, &w->ff.up, act, n->up, m->ffn, o);
    sg_want_linear(b, &w->ff.down, act, n->down, o, m->ffn);
    if (!dual) return;
    sg_bind_prefix(b, "transformer_blocks.%d.attn2.", i);
    sg_want_attention(b, &w->attn2, act, o, m->plain_heads ? 0 : m->dit.head_dim);
}

static void bind_single(const sg_mmdit *m, sg_mmdit_single *w)
{
    sg_bind *const b = m->dit.component.bind;
    const sg_dtype act = m->dit.component.act;
    const int64_t  o = m->dit.width;
    bind_heads(m, &w->attn, &names[SG_MMDIT_PICTURE]);
    sg_want_linear(b, &w->up, act, "proj_mlp", m->ffn, o);
    sg_want_linear(b, &w->out, act, "proj_out", o, o + m->ffn);
}

void sg_mmdit_want_embedder(const sg_mmdit *m, sg_bind *b, sg_linear_weights l[2], const char *prefix, int64_t i)
{
    const int64_t o = m->dit.width;
    sg_bind_prefix(b, "%s.", prefix);
    sg_want_linear(b, &l[0], m->dit.component.act, "linear_1", o, i);
    sg_want_linear(b, &l[1], m->dit.component.act, "linear_2", o, o);
    sg_bind_prefix(b, "%s", "");
}

static void want_mod(sg_mmdit *m, sg_mmdit_mod *mod, const char *name, int64_t rows)
{
    *mod = (sg_mmdit_mod){.first = m->modulation_rows, .rows = rows};
    sg_want_linear(m->modulation.bind, &mod->weights, m->modulation.act, name, rows * m->dit.width, m->dit.width);
    m->modulation_rows += rows;
}

/* In the order of mod_at. */
static void bind_modulations(sg_mmdit *m)
{
    sg_bind *const b = m->modulation.bind;
    sg_mmdit_want_embedder(m, b, m->time, "time_text_embed.timestep_embedder", SG_MMDIT_WAVE);
    sg_mmdit_want_embedder(m, b, m->row, "time_text_embed.text_embedder", m->row_dim);
    if (m->guided) sg_mmdit_want_embedder(m, b, m->guidance, "time_text_embed.guidance_embedder", SG_MMDIT_WAVE);
    for (int i = 0; i < m->layers; i++) {
        sg_bind_prefix(b, "transformer_blocks.%d.", i);
        sg_bind_block(b, i);
        want_mod(m, &m->block[i][SG_MMDIT_PICTURE].mod, names[SG_MMDIT_PICTURE].mod, is_dual(m, i) ? 9 : 6);
        want_mod(m, &m->block[i][SG_MMDIT_TEXT].mod, names[SG_MMDIT_TEXT].mod, ends_text(m, i) ? 2 : 6);
    }
    for (int i = 0; i < m->singles; i++) {
        sg_bind_prefix(b, "single_transformer_blocks.%d.", i);
        sg_bind_block(b, (int)m->layers + i);
        want_mod(m, &m->single[i].mod, "norm.linear", 3);
    }
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    want_mod(m, &m->mod_out, "norm_out.linear", 2);
}

sg_status sg_mmdit_bind(sg_mmdit *m, sg_error *e)
{
    sg_component *const whole = &m->dit.component;
    sg_bind *const      b = whole->bind;
    m->block = calloc((size_t)m->layers + 1, sizeof *m->block);
    m->single = calloc((size_t)m->singles + 1, sizeof *m->single);
    if (!m->block || !m->single) return sg_error_memory(e, whole->dir);
    m->modulation = (sg_component){.name = "modulation", .source = whole->source, .map = whole->map, .act = whole->act};
    SG_TRY(sg_bind_open(&m->modulation.bind, whole->source, whole->map, e));
    bind_modulations(m);
    sg_bind_share(b, m->modulation.bind);
    sg_bind_ignore(m->modulation.bind, ""); /* what neither wants is extra to b */
    for (int i = 0; i < m->layers; i++) {
        sg_bind_block(b, i);
        for (int k = 0; k < SG_MMDIT_STREAMS; k++) bind_side(m, &m->block[i][k], i, k);
    }
    for (int i = 0; i < m->singles; i++) {
        sg_bind_prefix(b, "single_transformer_blocks.%d.", i);
        sg_bind_block(b, (int)m->layers + i);
        bind_single(m, &m->single[i]);
    }
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &m->dit.proj_out, whole->act, "proj_out", sg_dit_patch_size(&m->dit, m->dit.channels),
                   m->dit.width);
    return SG_OK;
}

/* Which layer of attention the second one of block i is. */
static int64_t second_layer(const sg_mmdit *m, int64_t i)
{
    int64_t layer = m->layers + m->singles;
    for (int k = 0; k < i; k++) layer += is_dual(m, k);
    return layer;
}

static int64_t layers_of(const sg_mmdit *m) { return second_layer(m, m->layers); }

void sg_components_add_mmdit(sg_components *c, sg_mmdit *m, const sg_name_map *map)
{
    sg_components_add_dit(c, &m->dit, map, layers_of(m));
    c->modulation = (sg_modulations){.component = &m->modulation, .rows = m->modulation_rows, .width = m->dit.width};
}

sg_status sg_mmdit_check(sg_mmdit *m, sg_error *e)
{
    sg_bind *const blocks = m->dit.component.bind, *const modulations = m->modulation.bind;
    const int64_t all = m->layers + m->singles, duals = layers_of(m) - all;
    char          kinds[64] = "";
    if (m->singles) snprintf(kinds, sizeof kinds, ", %lld of two streams", (long long)m->layers);
    if (duals) snprintf(kinds, sizeof kinds, ", %lld with a second attention", (long long)duals);
    SG_TRY(sg_bind_check_both(blocks, modulations, e));
    return sg_dit_check(&m->dit, e, "%lld layer%s%s, %lld heads x %lld, ffn %lld, %lld latent channels", (long long)all,
                        sg_plural(all), kinds, (long long)m->dit.heads, (long long)m->dit.head_dim, (long long)m->ffn,
                        (long long)m->dit.channels);
}

void sg_mmdit_close(sg_mmdit *m)
{
    sg_bind_close(&m->modulation.bind);
    sg_dit_close(&m->dit);
    free(m->block);
    free(m->single);
}

/* ---- modulations: time, guidance, the row of the text ---- */

/* Guidance as an embedder takes it: the pipelines multiply in the dtype of the denoiser. */
static float guidance_input(double guidance, sg_dtype act)
{
    if (act != SG_BF16) return (float)guidance * 1000;
    return sg_bf16_to_f32(sg_f32_to_bf16(sg_bf16_to_f32(sg_f32_to_bf16((float)guidance)) * 1000));
}

/* F32 [1, D], what the time is added to in all steps: of the row of a text [row_dim], on the host and NULL on a
 * plan, and of the guidance. */
static sg_tensor embed_row(const sg_mmdit *m, sg_stream *s, const float *row, double guidance)
{
    const int64_t   width = m->dit.width;
    const sg_tensor y = sg_new(s, SG_F32, 1, width);
    const size_t    mark = s->scratch.used;
    const sg_tensor x = sg_new(s, SG_F32, 1, m->row_dim), t = sg_new(s, SG_F32, 1);
    const sg_tensor wave = sg_new(s, SG_F32, 1, SG_MMDIT_WAVE);
    const sg_tensor text = sg_new(s, SG_F32, 1, width), guided = sg_new(s, SG_F32, 1, width);
    if (row) sg_upload(s, x, row);
    sg_mlp(s, m->guided ? text : y, x, m->row, SG_ACT_SILU);
    if (m->guided) {
        sg_upload(s, t, &(float){guidance_input(guidance, m->dit.component.act)});
        sg_sinusoid(s, .y = wave, .t = t);
        sg_mlp(s, guided, wave, m->guidance, SG_ACT_SILU);
        sg_add(s, .y = y, .a = text, .b = guided);
    }
    s->scratch.used = mark;
    return y;
}

/* Number k of all modulations, in the order of their rows; NULL past the last. *block is the binding's block. */
static const sg_mmdit_mod *mod_at(const sg_mmdit *m, int64_t k, int *block)
{
    const int64_t of_two = SG_MMDIT_STREAMS * m->layers;
    *block = (int)(k < of_two ? k / SG_MMDIT_STREAMS : k - of_two + m->layers);
    if (k < of_two) return &m->block[*block][k % SG_MMDIT_STREAMS].mod;
    if (k < of_two + m->singles) return &m->single[k - of_two].mod;
    *block = -1;
    return k == of_two + m->singles ? &m->mod_out : NULL;
}

/* Columns first, first + 1, .. of y [n, columns] become x [n, ..]. */
static void put_columns(sg_stream *s, sg_tensor y, int64_t first, sg_tensor x)
{
    const int64_t n = x.dim[0], c = sg_count(x) / n;
    sg_strided_copy(s, .y = sg_reshape(y, sg_count(y)), .x = sg_reshape(x, n, 1, c), .first = first, .token = y.dim[1],
                    .head = c, .scatter = true);
}

void sg_mmdit_modulate(const sg_mmdit *m, sg_stream *s, const sg_conditioning *c,
                       const float *const row[SG_TEXT_PASSES], sg_tensor t, sg_tensor y)
{
    const size_t        mark = s->scratch.used;
    const int64_t       width = m->dit.width, times = y.dim[0] * y.dim[1];
    const sg_tensor     time = sg_new(s, SG_F32, times, width);
    const sg_tensor     by_time = sg_reshape(y, times, m->modulation_rows * width);
    sg_tensor           text[SG_TEXT_PASSES];
    const sg_mmdit_mod *mod;
    int                 block, last = -1;
    for (int k = 0; k < c->passes; k++) text[k] = embed_row(m, s, row[k], c->guidance);
    for (int64_t i = 0; i < times; i++) {
        const size_t before = s->scratch.used;
        sg_copy(s, .y = sg_rows(time, i, 1),
                .x = sg_dit_time(s, sg_rows(t, i / c->passes, 1), m->time, text[i % c->passes], "dit.temb"));
        s->scratch.used = before;
    }
    for (int64_t k = 0; (mod = mod_at(m, k, &block)) != NULL; k++) {
        if (block >= 0 && block != last) sg_bind_fetch(m->modulation.bind, s, block);
        last = block;
        const size_t    before = s->scratch.used;
        const sg_tensor own = sg_new(s, SG_F32, times, mod->rows * width); /* of all steps, so that weights are read once */
        const int64_t   most = mod->weights.w.quant.type ? SG_GPU_FEW_ROWS : times; /* of more they would be widened */
        for (int64_t i = 0; i < times; i += most) {
            const int64_t n = sg_min64(most, times - i);
            sg_linear(s, .y = sg_rows(own, i, n), .x = sg_rows(time, i, n), .w = mod->weights.w, .b = mod->weights.b);
        }
        put_columns(s, by_time, mod->first * width, own);
        s->scratch.used = before;
    }
    s->scratch.used = mark;
}

/* F32 [rows, D]: of this pass. */
static sg_tensor modulation(const sg_mmdit_pass *p, const sg_mmdit_mod *mod)
{
    return sg_rows(p->pass->modulation, mod->first, mod->rows);
}

/* ---- the blocks ---- */

sg_mmdit_pass sg_mmdit_pass_of(const sg_mmdit *m, const sg_dit_run *r, const sg_pass *p)
{
    const int64_t text = r->text[p->text].dim[0];
    return (sg_mmdit_pass){
        .pass = p,
        .run = r,
        .first = {[SG_MMDIT_PICTURE] = m->text_first ? text : 0, [SG_MMDIT_TEXT] = m->text_first ? 0 : r->n},
        .count = {[SG_MMDIT_PICTURE] = r->n, [SG_MMDIT_TEXT] = text}};
}

sg_tensor sg_mmdit_rows(const sg_mmdit_pass *p, sg_tensor x, int stream)
{
    return sg_rows(x, p->first[stream], p->count[stream]);
}

/* [n, h, d], in s->scratch. */
static sg_tensor new_heads(const sg_mmdit *m, sg_stream *s, int64_t n)
{
    return sg_new(s, m->dit.component.act, n, m->dit.heads, m->dit.head_dim);
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
    const sg_tensor     y = sg_new(s, m->dit.component.act, x.dim[0], x.dim[1]);
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

/* [n, h, d], in s->scratch: the second attention of block i, of the picture's rows x alone. */
static sg_tensor attend_again(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, int i, sg_tensor x, sg_tensor e)
{
    const int64_t       n = x.dim[0];
    const sg_modulation mod = sg_modulation_at(e, 6);
    const sg_tensor     o = new_heads(m, s, n);
    const size_t        mark = s->scratch.used;
    const sg_tensor     y = sg_reshape(o, n, m->dit.width); /* used up by then */
    sg_tensor           qkv[3];
    for (int k = 0; k < 3; k++) qkv[k] = new_heads(m, s, n);
    modulated(s, y, x, &mod, (sg_tensor){0});
    project_in(s, &m->block[i][SG_MMDIT_PICTURE].attn2, p->run->rotary, qkv, y);
    sg_dit_attend(&m->dit, p->run, s, p->pass, (int)second_layer(m, i), o, qkv);
    s->scratch.used = mark;
    return o;
}

/* A block of two streams. */
static void block(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, int i, sg_tensor x)
{
    const size_t               mark = s->scratch.used;
    const sg_mmdit_side *const side = m->block[i];
    const int64_t              all = x.dim[0];
    const bool                 ends = ends_text(m, i);
    sg_tensor                  e[SG_MMDIT_STREAMS];
    for (int k = 0; k < SG_MMDIT_STREAMS; k++) e[k] = modulation(p, &side[k].mod);
    const sg_tensor o = new_heads(m, s, all);
    const size_t    held = s->scratch.used;
    sg_tensor       qkv[3];
    for (int k = 0; k < 3; k++) qkv[k] = new_heads(m, s, all);
    for (int k = 0; k < SG_MMDIT_STREAMS; k++) {
        const sg_modulation attn = k == SG_MMDIT_TEXT && ends ? last_modulation(e[k]) : sg_modulation_at(e[k], 0);
        const sg_tensor     own[3] = {sg_mmdit_rows(p, qkv[0], k), sg_mmdit_rows(p, qkv[1], k),
                                      sg_mmdit_rows(p, qkv[2], k)};
        const sg_tensor     y = sg_reshape(sg_mmdit_rows(p, o, k), p->count[k], m->dit.width); /* used up by then */
        modulated(s, y, sg_mmdit_rows(p, x, k), &attn, sg_rows(p->pass->non_finite, i, 1));
        project_in(s, &side[k].attn, k == SG_MMDIT_PICTURE ? p->run->rotary : NULL, own, y);
    }
    sg_dit_attend(&m->dit, p->run, s, p->pass, i, o, qkv);
    s->scratch.used = held;
    const sg_tensor picture = sg_mmdit_rows(p, x, SG_MMDIT_PICTURE);
    const sg_tensor o2 = is_dual(m, i) ? attend_again(m, p, s, i, picture, e[SG_MMDIT_PICTURE]) : (sg_tensor){0};
    project_back(m, s, &side[SG_MMDIT_PICTURE], picture, sg_mmdit_rows(p, o, SG_MMDIT_PICTURE), o2, e[SG_MMDIT_PICTURE],
                 i, "");
    if (!ends)
        project_back(m, s, &side[SG_MMDIT_TEXT], sg_mmdit_rows(p, x, SG_MMDIT_TEXT), sg_mmdit_rows(p, o, SG_MMDIT_TEXT),
                     (sg_tensor){0}, e[SG_MMDIT_TEXT], i, "_text");
    s->scratch.used = mark;
}

/* y [all, h, d] = RMS of x l by head, the picture's rows rotated. */
static void project_heads(const sg_mmdit_pass *p, sg_stream *s, sg_tensor y, sg_tensor x, const sg_linear_weights *l,
                          sg_tensor norm)
{
    const size_t  mark = s->scratch.used;
    const int64_t all = y.dim[0], h = y.dim[1], d = y.dim[2];
    for (int64_t i = 0, n; i < all; i += n) {
        n = sg_rows_at_once(s, all - i);
        const sg_tensor v = sg_new(s, y.dtype, n, h, d);
        sg_linear(s, .y = sg_reshape(v, n, h * d), .x = sg_rows(x, i, n), .w = l->w, .b = l->b);
        for (int k = 0; k < SG_MMDIT_STREAMS; k++) {
            const int64_t first = p->first[k] > i ? p->first[k] : i;
            const int64_t rows = sg_min64(i + n, p->first[k] + p->count[k]) - first;
            if (rows <= 0) continue;
            const sg_tensor to = sg_rows(y, first, rows), from = sg_rows(v, first - i, rows);
            if (k == SG_MMDIT_PICTURE) {
                const sg_rotary own = sg_rotary_rows(p->run->rotary, first - p->first[k], rows);
                sg_rope(s, .y = to, .x = from, .w = norm, .cos = own.cos, .sin = own.sin, .eps = eps);
            } else {
                sg_norm(s, .y = sg_reshape(to, rows * h, d), .x = sg_reshape(from, rows * h, d), .w = norm,
                        .kind = SG_NORM_RMS, .eps = eps);
            }
        }
        s->scratch.used = mark;
    }
}

/* x += gate ([o | gelu(y up)] out), where y is x modulated, or absent: then it is computed again. The feed-forward of all
 * rows would take nine times as much as o, so it always works in pieces. */
static void single_out(const sg_mmdit *m, sg_stream *s, const sg_mmdit_single *w, sg_tensor x, sg_tensor y, sg_tensor o,
                       const sg_modulation *e)
{
    enum { ROWS = 8192 };
    const sg_dtype act = m->dit.component.act;
    const size_t   mark = s->scratch.used;
    for (int64_t i = 0, n; i < x.dim[0]; i += n) {
        n = sg_rows_piece(x.dim[0] - i, s->rows_at_once ? s->rows_at_once : ROWS);
        const sg_tensor to = sg_rows(x, i, n), u = sg_new(s, act, n, m->ffn);
        const sg_tensor both = sg_new(s, act, n, m->dit.width + m->ffn);
        const sg_tensor from = y.rank ? sg_rows(y, i, n) : sg_new(s, act, n, m->dit.width);
        if (!y.rank) modulated(s, from, to, e, (sg_tensor){0});
        sg_linear(s, .y = u, .x = from, .w = w->up.w, .b = w->up.b, .act = SG_ACT_GELU_TANH);
        put_columns(s, both, 0, sg_rows(o, i, n));
        put_columns(s, both, m->dit.width, u);
        sg_linear(s, .y = to, .x = both, .w = w->out.w, .b = w->out.b, .gate = e->gate, .add = true);
        s->scratch.used = mark;
    }
}

/* A block of one stream, number i of all blocks. */
static void single(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, int i, sg_tensor x)
{
    const sg_mmdit_single *const w = &m->single[i - (int)m->layers];
    const size_t                 mark = s->scratch.used;
    const int64_t                all = x.dim[0];
    const sg_tensor              e = modulation(p, &w->mod);
    const sg_modulation          mod = sg_modulation_at(e, 0);
    const sg_tensor              o = new_heads(m, s, all);
    /* where memory is short y has o's place until attention, and is computed again for the feed-forward */
    const bool      again = s->rows_at_once > 0;
    const sg_tensor y = again ? sg_reshape(o, all, m->dit.width) : sg_new(s, m->dit.component.act, all, m->dit.width);
    const size_t    held = s->scratch.used;
    sg_tensor       qkv[3];
    for (int k = 0; k < 3; k++) qkv[k] = new_heads(m, s, all);
    modulated(s, y, x, &mod, sg_rows(p->pass->non_finite, i, 1));
    project_heads(p, s, qkv[0], y, &w->attn.q, w->attn.norm_q);
    project_heads(p, s, qkv[1], y, &w->attn.k, w->attn.norm_k);
    sg_linear(s, .y = sg_reshape(qkv[2], all, m->dit.width), .x = y, .w = w->attn.v.w, .b = w->attn.v.b);
    sg_dit_attend(&m->dit, p->run, s, p->pass, i, o, qkv);
    s->scratch.used = held;
    single_out(m, s, w, x, again ? (sg_tensor){0} : y, o, &mod);
    sg_tap(s, sg_mmdit_rows(p, x, SG_MMDIT_PICTURE), "dit.block.%d.out", i);
    sg_tap(s, sg_mmdit_rows(p, x, SG_MMDIT_TEXT), "dit.block.%d.out_text", i);
    s->scratch.used = mark;
}

void sg_mmdit_blocks(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, sg_tensor x)
{
    const int layers = (int)m->layers, all = layers + (int)m->singles;
    for (int i = 0; i < all; i++) {
        if (sg_layers_have(p->pass->skipped, i)) continue;
        sg_bind_fetch(m->dit.component.bind, s, i);
        if (i < layers)
            block(m, p, s, i, x);
        else
            single(m, p, s, i, x);
    }
}

void sg_mmdit_project_out(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, sg_tensor x)
{
    const size_t        mark = s->scratch.used;
    const sg_modulation mod = last_modulation(modulation(p, &m->mod_out));
    const sg_tensor     y = sg_new(s, m->dit.component.act, p->run->n, m->dit.width);
    modulated(s, y, sg_mmdit_rows(p, x, SG_MMDIT_PICTURE), &mod,
              sg_rows(p->pass->non_finite, m->layers + m->singles, 1));
    sg_dit_project_out(&m->dit, p->run, s, p->pass, y);
    s->scratch.used = mark;
}
