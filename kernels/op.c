/* op.c - shape rules, stated once for every backend, then dispatch. */
#include "op.h"
#include "quant.h"

#include <stdarg.h>
#include <stdio.h>

sg_status sg_fail(sg_stream *s, sg_status code, const char *fmt, ...)
{
    if (s->status) return s->status;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->why, sizeof s->why, fmt, ap);
    va_end(ap);
    return s->status = code;
}

/* Whether ops do nothing any more. */
static bool has_ended(sg_stream *s)
{
    if (!s->status && s->cancel && __atomic_load_n(s->cancel, __ATOMIC_RELAXED))
        sg_fail(s, SG_E_CANCELLED, "cancelled");
    return s->status != SG_OK;
}

sg_tensor sg_alloc(sg_stream *s, sg_arena *a, sg_dtype type, int rank, const int64_t *dim)
{
    sg_tensor t = {.dtype = type, .rank = rank};
    size_t    bytes = sg_dtype_size(type);
    bool      fits = true;
    for (int i = 0; i < rank; i++) {
        t.dim[i] = dim[i];
        fits = fits && dim[i] >= 0 && !__builtin_mul_overflow(bytes, (size_t)dim[i], &bytes);
    }
    if (s->status) return t;
    t.data = fits ? (void *)sg_arena_take(a, bytes) : NULL;
    if (!t.data)
        sg_fail(s, SG_E_MEMORY, "an arena of %zu bytes, %zu of them used, cannot give %zu more", a->cap, a->used,
                bytes);
    return t;
}

void sg_upload(sg_stream *s, sg_tensor t, const void *host)
{
    if (s->status || sg_bytes(t) == 0) return;
    const sg_status e = s->memory->upload(s, t.data, host, sg_bytes(t));
    if (e) sg_fail(s, e, "upload of %zu bytes failed", sg_bytes(t));
}

void sg_download(sg_stream *s, void *host, sg_tensor t)
{
    if (s->status || sg_bytes(t) == 0) return;
    const sg_status e = s->memory->download(s, host, t.data, sg_bytes(t));
    if (e) sg_fail(s, e, "download of %zu bytes failed", sg_bytes(t));
}

void sg_step_begin(sg_stream *s, int repeats)
{
    if (has_ended(s) || !s->ops->step_begin) return;
    const sg_status e = s->ops->step_begin(s, repeats);
    if (e) sg_fail(s, e, "a step cannot begin");
}

void sg_step_end(sg_stream *s)
{
    const sg_status e = s->ops->step_end ? s->ops->step_end(s) : SG_OK; /* also what has failed comes to its end */
    if (e) sg_fail(s, e, "a step failed");
}

/* The table of the device itself, where a decorator stands before it. */
static const sg_ops *device_ops(const sg_stream *s) { return s->inner ? s->inner : s->ops; }

int64_t sg_rows_piece(int64_t n, int64_t most)
{
    enum { TILE = 128 };
    return n <= most ? n : sg_div_up(sg_div_up(n, sg_div_up(n, most)), TILE) * TILE;
}

int64_t sg_rows_at_once(const sg_stream *s, int64_t n)
{
    return s->rows_at_once ? sg_rows_piece(n, s->rows_at_once) : n;
}

void sg_fetch(sg_stream *s, const sg_fetch_args *a)
{
    if (s->status || !device_ops(s)->fetch) return;
    const sg_status e = device_ops(s)->fetch(s, a);
    if (e) sg_fail(s, e, "a fetch of %zu bytes failed", a->bytes);
}

void sg_tap(sg_stream *s, sg_tensor t, const char *fmt, ...)
{
    if (!s->tap || has_ended(s)) return;
    char    name[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    s->tap(s->tap_context, name, s, t);
}

/* ---- what fits ---- */

static bool is_float(sg_tensor t) { return t.dtype == SG_F32 || t.dtype == SG_BF16; }
static bool is_real(sg_tensor t) { return t.rank > 0 && is_float(t); }
static bool is_f32(sg_tensor t) { return t.rank > 0 && t.dtype == SG_F32; }

static bool is1(sg_tensor t, int64_t a) { return t.rank == 1 && t.dim[0] == a; }
static bool is2(sg_tensor t, int64_t a, int64_t b) { return t.rank == 2 && t.dim[0] == a && t.dim[1] == b; }
static bool is3(sg_tensor t, int64_t a, int64_t b, int64_t c)
{
    return t.rank == 3 && t.dim[0] == a && t.dim[1] == b && t.dim[2] == c;
}
static bool is4(sg_tensor t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return t.rank == 4 && t.dim[0] == a && t.dim[1] == b && t.dim[2] == c && t.dim[3] == d;
}
static bool f32_1(sg_tensor t, int64_t a) { return t.dtype == SG_F32 && is1(t, a); }
static bool f32_2(sg_tensor t, int64_t a, int64_t b) { return t.dtype == SG_F32 && is2(t, a, b); }
static bool f32_3(sg_tensor t, int64_t a, int64_t b, int64_t c) { return t.dtype == SG_F32 && is3(t, a, b, c); }
static bool maybe1(sg_tensor t, int64_t a) { return t.rank == 0 || f32_1(t, a); }
static bool maybe2(sg_tensor t, int64_t a, int64_t b) { return t.rank == 0 || f32_2(t, a, b); }
static bool maybe3(sg_tensor t, int64_t a, int64_t b, int64_t c) { return t.rank == 0 || f32_3(t, a, b, c); }

static bool same_shape(sg_tensor a, sg_tensor b)
{
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

static int64_t last(sg_tensor t) { return t.rank ? t.dim[t.rank - 1] : 0; }

/* Ops read their inputs after they start to write, so an output may not overlap one. Memory that is not there yet
 * (NULL: planned weights) overlaps nothing. */
static bool apart(sg_tensor y, sg_tensor x)
{
    const uintptr_t a = (uintptr_t)y.data, b = (uintptr_t)x.data;
    return x.rank == 0 || !a || !b || a + sg_bytes(y) <= b || b + sg_bytes(x) <= a;
}

/* The first `outputs` of t overlap none of t. */
static bool all_apart(const sg_tensor *t, int tensors, int outputs)
{
    for (int i = 0; i < outputs; i++)
        for (int k = 0; k < tensors; k++)
            if (k != i && t[i].rank && !apart(t[i], t[k])) return false;
    return true;
}

/* What is added or multiplied along the last dimension of rows: one vector of c numbers, or with `row` some of them. */
static bool by_row(sg_tensor v, sg_tensor row, int64_t rows, int64_t c)
{
    if (row.rank == 0) return maybe1(v, c);
    return row.dtype == SG_I32 && is1(row, rows) && (v.rank == 0 || (is_f32(v) && v.dim[0] > 0 && is2(v, v.dim[0], c)));
}

/* Whether w is plain, or quantised in whole blocks of a row. */
static bool weights_fit(sg_tensor w)
{
    const sg_quant q = w.quant;
    if (q.type == SG_QUANT_NONE) return true;
    return q.type > 0 && q.type < SG_QUANT_COUNT && w.dim[1] % sg_quant_block((sg_quant_type)q.type) == 0 &&
           (q.scale_rows ? q.scale_rows > 0 && q.scale_columns > 0 && q.scale_columns % 16 == 0 : q.scale_columns == 0);
}

static bool linear_fits(const sg_linear_args *a)
{
    const int64_t n = a->x.dim[0], i = a->x.dim[1], o = a->w.dim[0];
    return is_real(a->y) && is_real(a->x) && is_real(a->w) && is2(a->x, n, i) && is2(a->w, o, i) && is2(a->y, n, o) &&
           weights_fit(a->w) && maybe1(a->b, o) && by_row(a->gate, a->row, n, o) && (a->gate.rank || !a->row.rank) &&
           (a->add ? a->act == SG_ACT_NONE : a->gate.rank == 0);
}

static bool place_fits(const sg_norm_args *a, sg_tensor place)
{
    return place.rank == 0 || (is_float(place) && is4(place, a->x.dim[0], place.dim[1], place.dim[2], a->x.dim[3]) &&
                               place.dim[1] > 0 && place.dim[2] > 0);
}

/* What GROUP needs, and the others have not. */
static bool group_fits(const sg_norm_args *a)
{
    const sg_tensor scale = a->place_scale, shift = a->place_shift;
    if (a->kind != SG_NORM_GROUP) return a->groups == 0 && a->chunk == 0 && scale.rank == 0 && shift.rank == 0;
    return a->x.rank == 4 && a->groups > 0 && a->x.dim[3] % a->groups == 0 && a->chunk >= 0 &&
           (a->chunk == 0 || a->x.dim[0] % a->chunk == 0) && a->scale.rank == 0 && a->shift.rank == 0 &&
           place_fits(a, scale) && place_fits(a, shift) &&
           (scale.rank == 0 || shift.rank == 0 || same_shape(scale, shift));
}

static bool norm_fits(const sg_norm_args *a)
{
    const int64_t c = last(a->x), rows = c > 0 ? sg_count(a->x) / c : 0;
    return is_real(a->y) && is_real(a->x) && same_shape(a->y, a->x) && maybe1(a->w, c) && maybe1(a->b, c) &&
           by_row(a->scale, a->row, rows, c) && by_row(a->shift, a->row, rows, c) &&
           (a->row.rank == 0 || a->scale.rank || a->shift.rank) && group_fits(a) &&
           (a->non_finite.rank == 0 ||
            (a->kind == SG_NORM_LAYER && a->non_finite.dtype == SG_I32 && is1(a->non_finite, 1)));
}

static bool rope_fits(const sg_rope_args *a)
{
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2];
    const bool    angles = is2(a->cos, n, d / 2) || is3(a->cos, n, h, d / 2);
    return is_real(a->y) && is_real(a->x) && d % 2 == 0 && is3(a->x, n, h, d) && is3(a->y, n, h, d) &&
           (maybe1(a->w, d) || maybe1(a->w, h * d)) && is_f32(a->cos) && is_f32(a->sin) && angles &&
           same_shape(a->sin, a->cos);
}

static bool serves(int64_t h, int64_t hk) { return hk > 0 && h % hk == 0; }

static bool attend_fits(const sg_attend_args *a)
{
    const int64_t n = a->q.dim[0], m = a->k.dim[0], h = a->q.dim[1], d = a->q.dim[2], hk = a->k.dim[1];
    const bool    bias_ok = a->bias.rank == 0 || (a->bias.dtype == SG_F32 && is3(a->bias, h, n, m));
    return is_real(a->q) && a->k.dtype == a->q.dtype && a->v.dtype == a->q.dtype && a->y.dtype == a->q.dtype &&
           is3(a->q, n, h, d) && is3(a->y, n, h, d) && is3(a->k, m, hk, d) && is3(a->v, m, hk, d) && serves(h, hk) &&
           bias_ok && maybe1(a->key_bias, m) && (!a->causal || (n <= m && a->bias.rank + a->key_bias.rank == 0));
}

static bool gate_add_fits(const sg_gate_add_args *a)
{
    const int64_t c = last(a->x), rows = c > 0 ? sg_count(a->x) / c : 0;
    return is_real(a->x) && is_real(a->r) && same_shape(a->x, a->r) && by_row(a->gate, a->row, rows, c) &&
           (a->gate.rank || (!a->tanh_gate && !a->row.rank));
}

static bool add_fits(const sg_add_args *a)
{
    const int64_t n = a->a.dim[0], c = a->a.dim[1];
    return is_real(a->y) && is_real(a->a) && is_real(a->b) && is2(a->a, n, c) && is2(a->y, n, c) &&
           (is2(a->b, n, c) || is2(a->b, 1, c));
}

static bool mul_fits(const sg_mul_args *a)
{
    return is_real(a->y) && is_real(a->a) && is_real(a->b) && same_shape(a->y, a->a) && same_shape(a->y, a->b);
}

static bool act_fits(const sg_act_args *a) { return is_real(a->y) && is_real(a->x) && same_shape(a->y, a->x); }

static bool embed_fits(const sg_embed_args *a)
{
    const int64_t n = a->ids.dim[0], c = a->w.dim[1], o = a->w.dim[0];
    return is_real(a->y) && is_real(a->w) && a->ids.dtype == SG_I32 && is1(a->ids, n) && is2(a->w, o, c) &&
           is2(a->y, n, c);
}

static bool sinusoid_fits(const sg_sinusoid_args *a)
{
    const int64_t n = a->t.dim[0], c = a->y.dim[1];
    return is_f32(a->y) && f32_1(a->t, n) && is2(a->y, n, c) && c % 2 == 0;
}

static bool conv_fits(const sg_conv_args *a)
{
    const sg_tensor x = a->x, w = a->w;
    if (!is_real(a->y) || !is_real(x) || !is_real(w) || x.rank != 4 || w.rank != 5 || w.dim[1] != x.dim[3])
        return false;
    int64_t out[3];
    for (int k = 0; k < 3; k++) {
        const int64_t pad = k ? (int64_t)a->pad[2 * k - 2] + a->pad[2 * k - 1] : 0;
        const int64_t extent = x.dim[k] * (k && a->twice ? 2 : 1) + pad - w.dim[2 + k];
        if (a->stride[k] < 1 || extent < 0 || pad < 0) return false;
        out[k] = extent / a->stride[k] + 1;
    }
    for (int k = 0; k < 4; k++)
        if (a->pad[k] < 0) return false;
    return is4(a->y, out[0], out[1], out[2], w.dim[0]) && maybe1(a->b, w.dim[0]);
}

static bool upsample_fits(const sg_upsample_args *a)
{
    const sg_tensor x = a->x;
    if (!(a->near == 0 || (a->linear && a->near > 0 && a->near <= 1))) return false;
    return is_real(a->y) && is_real(x) && a->y.dtype == x.dtype && x.rank == 4 &&
           is4(a->y, a->near > 0 ? 2 * (x.dim[0] - 1) : x.dim[0], 2 * x.dim[1], 2 * x.dim[2], x.dim[3]);
}

static bool avg_down_fits(const sg_avg_down_args *a)
{
    const sg_tensor x = a->x;
    if (!is_real(a->y) || !is_real(x) || x.rank != 4 || a->y.rank != 4 || a->ft < 1 || a->fs < 1) return false;
    const int64_t o = a->y.dim[3], block = (int64_t)a->ft * a->fs * a->fs;
    return x.dim[1] % a->fs == 0 && x.dim[2] % a->fs == 0 && o > 0 && x.dim[3] * block % o == 0 &&
           is4(a->y, (x.dim[0] + a->ft - 1) / a->ft, x.dim[1] / a->fs, x.dim[2] / a->fs, o);
}

static bool dup_up_fits(const sg_dup_up_args *a)
{
    const sg_tensor x = a->x;
    if (!is_real(a->y) || !is_real(x) || x.rank != 4 || a->y.rank != 4 || a->ft < 1 || a->fs < 1) return false;
    const int64_t o = a->y.dim[3], block = (int64_t)a->ft * a->fs * a->fs;
    return a->drop >= 0 && a->drop < x.dim[0] * a->ft && x.dim[3] > 0 && o * block % x.dim[3] == 0 &&
           is4(a->y, x.dim[0] * a->ft - a->drop, x.dim[1] * a->fs, x.dim[2] * a->fs, o);
}

static bool permute_fits(const sg_permute_args *a)
{
    int64_t  count = 1;
    unsigned seen = 0;
    if (!is_real(a->y) || !is_real(a->x) || a->rank < 1 || a->rank > SG_PERMUTE_RANK) return false;
    for (int k = 0; k < a->rank; k++) {
        if (a->perm[k] < 0 || a->perm[k] >= a->rank) return false;
        count *= a->dim[k];
        seen |= 1u << a->perm[k];
    }
    return seen + 1 == 1u << a->rank && count == sg_count(a->x) && count == sg_count(a->y);
}

static bool copy_fits(const sg_copy_args *a)
{
    return is_real(a->y) && is_real(a->x) && sg_count(a->y) == sg_count(a->x);
}

/* Whether first and first + (n - 1) token + (h - 1) head + d - 1, and what lies between, are in [0, e): without a row. */
static bool strides_fit(const sg_strided_copy_args *a, sg_tensor t, int64_t e)
{
    const int64_t by[2] = {a->token, a->head};
    int64_t       low = a->first, high = a->first, end;
    for (int k = 0; k < 2; k++) {
        if (__builtin_mul_overflow(t.dim[k] - 1, by[k], &end) ||
            __builtin_add_overflow(end < 0 ? low : high, end, end < 0 ? &low : &high))
            return false;
    }
    return !__builtin_add_overflow(high, t.dim[2] - 1, &high) && low >= 0 && high < e;
}

static bool strided_copy_fits(const sg_strided_copy_args *a)
{
    const sg_tensor t = a->scatter ? a->x : a->y, span = a->scatter ? a->y : a->x;
    if (t.rank != 3 || span.rank != 1 || !(is_float(t) || t.dtype == SG_F16) ||
        !(is_float(span) || span.dtype == SG_F16))
        return false;
    return (a->row.rank == 0 || (a->row.dtype == SG_I32 && is1(a->row, t.dim[0]))) &&
           (sg_count(t) == 0 || strides_fit(a, t, span.dim[0]));
}

static bool combine_fits(const sg_combine_args *a)
{
    if (!is_f32(a->y) || a->count < 1 || a->count > SG_COMBINE_MAX) return false;
    for (int k = 0; k < a->count; k++)
        if (!is_f32(a->x[k]) || sg_count(a->x[k]) != sg_count(a->y) || !apart(a->y, a->x[k])) return false;
    return true;
}

static bool rgb8_fits(const sg_rgb8_args *a)
{
    return is_real(a->x) && a->y.dtype == SG_U8 && same_shape(a->y, a->x) && last(a->x) == 3;
}

static bool count_non_finite_fits(const sg_count_non_finite_args *a)
{
    return is_real(a->x) && a->y.dtype == SG_I32 && is1(a->y, 1);
}

static bool distance_fits(const sg_distance_args *a)
{
    return is_f32(a->y) && is_f32(a->a) && is_f32(a->b) && is2(a->y, a->y.dim[0], 2) && a->y.dim[0] > 0 &&
           sg_count(a->a) == sg_count(a->b);
}

/* ---- sparse attention ---- */

/* Heads of queries and of keys. */

static bool pool_fits(const sg_pool_args *a)
{
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2];
    if (!is_real(a->x) || a->x.rank != 3 || a->block < 1 || a->block % SG_BLOCK_SUB) return false;
    const int64_t b = sg_div_up(n, a->block), group = a->group;
    const bool    packed = a->y.rank
                               ? group > 0 && group % SG_BLOCK_SUB == 0 && a->block % group == 0 && a->y.dtype == SG_I8 &&
                                  is3(a->y, h, n, d) && f32_2(a->scale, sg_div_up(n, group), h)
                               : group == 0 && a->scale.rank == 0;
    return f32_3(a->mean, b, h, d) && maybe3(a->var, b, h, d) && maybe3(a->sub, sg_div_up(n, SG_BLOCK_SUB), h, d) &&
           maybe2(a->total, h, d) && maybe2(a->center, h, d) &&
           (a->channel_scale.rank == 0 || (a->total.rank && f32_2(a->channel_scale, h, d))) && packed;
}

static bool self_similarity_fits(const sg_self_similarity_args *a)
{
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2];
    return is_real(a->x) && a->x.rank == 3 && a->block > 0 && f32_2(a->y, sg_div_up(n, a->block), h) &&
           maybe2(a->center, h, d);
}

/* I8 [h, n, d], or F8 [h, d, n] of whole blocks */
static bool is_packed(sg_tensor t, int64_t h, int64_t n, int64_t d)
{
    return t.dtype == SG_F8 ? is3(t, h, d, sg_f8_row(n)) : t.dtype == SG_I8 && is3(t, h, n, d);
}

static bool quantise_fits(const sg_quantise_args *a)
{
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2], group = a->group;
    if (!is_real(a->x) || a->x.rank != 3 || group < 0) return false;
    return is_packed(a->y, h, n, d) && (a->y.dtype == SG_I8 || !group) && is_f32(a->scale) &&
           (group ? is2(a->scale, sg_div_up(n, group), h) : is2(a->scale, h, d)) && maybe2(a->center, h, d);
}

/* Whether what fixes blocks is there as it should be; nq blocks of the n queries, h and hk the heads of the two sides. */
static bool fixed_fits(sg_tensor q_similarity, sg_tensor k_similarity, sg_tensor theta, int64_t nq, int64_t n, int64_t m,
                       int64_t h, int64_t text_prefix, int64_t text_suffix)
{
    if (n < 1 || m < 1 || text_prefix < 0 || text_suffix < 0) return false;
    const bool judged = theta.rank > 0;
    if (judged != (q_similarity.rank > 0) || judged != (k_similarity.rank > 0)) return false;
    return !judged || (f32_1(theta, h) && f32_2(q_similarity, nq, h) && is_f32(k_similarity) &&
                       k_similarity.rank == 2 && serves(h, k_similarity.dim[1]) &&
                       is2(k_similarity, sg_div_up(m, SG_BLOCK_K), k_similarity.dim[1]));
}

static bool q_block_fits(int q, bool causal) { return q == 0 || q == SG_BLOCK_Q || (q == SG_BLOCK_Q_F8 && !causal); }

static bool score_fits(const sg_score_args *a)
{
    const int64_t h = a->q.dim[1], d = a->q.dim[2], hk = a->k.dim[1], n = a->n, m = a->m;
    if (!is_f32(a->q) || !is_f32(a->k) || a->q.rank != 3 || a->k.rank != 3 || !serves(h, hk) || n < 1 || m < 1 ||
        !q_block_fits(a->q_block, a->causal))
        return false;
    const int64_t nq = sg_div_up(n, sg_q_block(a->q_block)), nk = sg_div_up(m, SG_BLOCK_K);
    return is3(a->q, a->sub ? sg_div_up(n, SG_BLOCK_SUB) : nq, h, d) &&
           is3(a->k, a->sub ? sg_div_up(m, SG_BLOCK_SUB) : nk, hk, d) && f32_3(a->y, h, nq, nk) &&
           maybe2(a->k_center, hk, d) && maybe3(a->k_var, nk, hk, d) && (a->k_var.rank > 0) == (a->v_var.rank > 0) &&
           (a->v_var.rank == 0 || f32_3(a->v_var, nk, hk, a->v_var.dim[2])) &&
           fixed_fits(a->q_similarity, a->k_similarity, a->theta, nq, n, m, h, a->text_prefix, a->text_suffix) &&
           (!a->causal || n <= m);
}

static bool listed(sg_tensor list, sg_tensor count, int64_t h, int64_t nq, int64_t nk)
{
    return nk <= SG_LISTED && nq * nk <= INT32_MAX && list.dtype == SG_U16 && is3(list, h, nq, nk) &&
           count.dtype == SG_I32 && is2(count, h, nq);
}

static bool select_fits(const sg_select_args *a)
{
    const int64_t h = a->score.dim[0], nq = a->score.dim[1], nk = a->score.dim[2];
    return is_f32(a->score) && a->score.rank == 3 && a->n > 0 && a->m > 0 && q_block_fits(a->q_block, a->causal) &&
           nq == sg_div_up(a->n, sg_q_block(a->q_block)) &&
           nk == sg_div_up(a->m, SG_BLOCK_K) && listed(a->list, a->count, h, nq, nk) && a->kept.dtype == SG_I32 &&
           is2(a->kept, h, 2) && f32_1(a->mass, h) && a->sink >= 0 && a->rule != SG_SELECT_GIVEN &&
           f32_1(a->amount, h) && (!a->heads || a->rule == SG_SELECT_TOPK) && (!a->causal || a->n <= a->m) &&
           (a->causal || !a->count_hidden) &&
           fixed_fits(a->q_similarity, a->k_similarity, a->theta, nq, a->n, a->m, h, a->text_prefix, a->text_suffix);
}

static bool tail_bias_fits(const sg_tail_bias_args *a)
{
    const int64_t nq = a->q_mean.dim[0], h = a->q_mean.dim[1], d = a->q_mean.dim[2], nk = a->k_var.dim[0];
    return is_f32(a->q_mean) && a->q_mean.rank == 3 && f32_3(a->q_var, nq, h, d) && is_f32(a->k_var) &&
           a->k_var.rank == 3 && serves(h, a->k_var.dim[1]) && a->k_var.dim[2] == d && f32_3(a->y, h, nq, nk);
}

static bool is_group(int group, int most)
{
    return group == 16 || group == 32 || group == 64 || (group == 128 && most == 128);
}

static bool tail_fits(const sg_attend_blocks_args *a, int64_t h, int64_t hk, int64_t nq, int64_t nk, int64_t d)
{
    if (a->tail_k.rank == 0) return a->tail_k_scale.rank + a->tail_v.rank + a->tail_bias.rank == 0;
    const bool values =
        is_real(a->v) ? f32_3(a->tail_v, nk, hk, d) : a->tail_v.dtype == a->v.dtype && is_packed(a->tail_v, hk, nk, d);
    return a->list.rank && a->tail_k.dtype == SG_I8 && is3(a->tail_k, hk, nk, d) && is_f32(a->tail_k_scale) &&
           is2(a->tail_k_scale, sg_div_up(nk, SG_BLOCK_K), hk) && values && maybe3(a->tail_bias, h, nq, nk);
}

static bool attend_blocks_fits(const sg_attend_blocks_args *a)
{
    const int64_t h = a->q.dim[0], n = a->q.dim[1], d = a->q.dim[2], hk = a->k.dim[0], m = a->k.dim[1];
    if (a->q.rank != 3 || a->k.rank != 3 || a->q.dtype != SG_I8 || a->k.dtype != SG_I8 || !serves(h, hk) ||
        !is_group(a->q_group, SG_BLOCK_Q) || !is_group(a->k_group, SG_BLOCK_K) || !q_block_fits(a->q_block, a->causal) ||
        (a->q_block > SG_BLOCK_Q && (a->v.dtype != SG_F8 || a->pv_threshold.rank || SG_BLOCK_Q_F8 % a->q_group)))
        return false;
    const int64_t nq = sg_div_up(n, sg_q_block(a->q_block)), nk = sg_div_up(m, SG_BLOCK_K);
    const bool    values = is_real(a->v) ? is3(a->v, m, hk, d) && a->v_scale.rank == 0
                                         : is_packed(a->v, hk, m, d) && f32_2(a->v_scale, hk, d);
    const bool    keeps = a->list.rank ? listed(a->list, a->count, h, nq, nk) : a->count.rank == 0;
    const bool filters = a->pv_threshold.rank ? f32_1(a->pv_threshold, h) && is_f32(a->skips) && is2(a->skips, h, 2) &&
                                                    (a->pv_group == 32 || a->pv_group == 64)
                                              : a->skips.rank == 0;
    return is_real(a->y) && is3(a->y, n, h, d) && a->k.dim[2] == d && is_f32(a->q_scale) &&
           is2(a->q_scale, sg_div_up(n, a->q_group), h) && is_f32(a->k_scale) &&
           is2(a->k_scale, sg_div_up(m, a->k_group), hk) && values && maybe2(a->v_center, hk, d) && keeps &&
           tail_fits(a, h, hk, nq, nk, d) && filters && (!a->causal || n <= m);
}

/* Of all ops linear alone reads quantised weights, its third tensor. */
static bool quantised_fits(const char *op, const sg_tensor *t, int tensors)
{
    const int w = strcmp(op, "linear") == 0 ? 2 : -1;
    for (int k = 0; k < tensors; k++)
        if (t[k].quant.type && k != w) return false;
    return true;
}

/* The message tells the shape of the first tensor, which is enough to find the call. */
static void refuse(sg_stream *s, const char *op, sg_tensor y)
{
    char shape[96];
    sg_shape_text(shape, sizeof shape, y.rank, y.dim);
    sg_fail(s, SG_E_SHAPE, "%s: shapes or dtypes disagree, or the output %s overlaps an input", op, shape);
}

int sg_op_outputs(const char *op, const void *args)
{
    if (strcmp(op, "quantise") == 0 && !((const sg_quantise_args *)args)->group) return 1;
#define X(name)                                                                                                        \
    if (strcmp(op, #name) == 0) return sg_##name##_outputs;
    SG_OPS(X)
#undef X
    return 1;
}

bool sg_reads_output(const char *op, const void *args)
{
    if (strcmp(op, "linear") == 0) return ((const sg_linear_args *)args)->add;
    if (strcmp(op, "conv") == 0) return ((const sg_conv_args *)args)->add;
    if (strcmp(op, "norm") == 0) return ((const sg_norm_args *)args)->non_finite.rank > 0;
    if (strcmp(op, "strided_copy") == 0) return ((const sg_strided_copy_args *)args)->scatter;
    return strcmp(op, "gate_add") == 0 || strcmp(op, "count_non_finite") == 0;
}

/* Convolves a picture at twice its size, where the backend does not make that on the way. */
static void upsample_conv(sg_stream *s, const sg_conv_args *a)
{
    const size_t         mark = s->scratch.used;
    const int64_t *const d = a->x.dim;
    sg_conv_args         wide = *a;
    wide.twice = false;
    wide.x = sg_alloc(s, &s->scratch, a->x.dtype, 4, (const int64_t[]){d[0], 2 * d[1], 2 * d[2], d[3]});
    sg_upsample_(s, &(sg_upsample_args){.y = wide.x, .x = a->x});
    sg_conv_(s, &wide);
    s->scratch.used = mark;
}

static bool upsamples_first(const sg_stream *s, const sg_conv_args *a)
{
    return a->twice && !(device_ops(s)->conv_twice && device_ops(s)->conv_twice(s, a));
}

/* Multiplies by weights and, before the activation, by what is beside them. */
static void linear_by_two(sg_stream *s, const sg_linear_args *a)
{
    const sg_adapter *const adapter = a->w.adapter;
    const size_t            mark = s->scratch.used;
    const int64_t           n = a->x.dim[0], o = a->w.dim[0];
    sg_linear_args          first = *a;
    first.w.adapter = NULL;
    first.act = SG_ACT_NONE;
    if (a->act != SG_ACT_NONE) first.y = sg_alloc(s, &s->scratch, a->y.dtype, 2, (const int64_t[]){n, o});
    const sg_tensor few = sg_alloc(s, &s->scratch, a->x.dtype, 2, (const int64_t[]){n, adapter->down.dim[0]});
    sg_linear_(s, &first);
    sg_linear_(s, &(sg_linear_args){.y = few, .x = a->x, .w = adapter->down});
    sg_linear_(s, &(sg_linear_args){.y = first.y,
                                    .x = few,
                                    .w = sg_rows(adapter->up, a->w.quant.first, o),
                                    .gate = a->gate,
                                    .row = a->row,
                                    .add = true});
    if (a->act != SG_ACT_NONE) sg_act_(s, &(sg_act_args){.y = a->y, .x = first.y, .act = a->act});
    s->scratch.used = mark;
}

/* Runs what is made of several ops. False: it is one. */
static bool ran_as_several(sg_stream *s, const char *op, const void *args)
{
    if (strcmp(op, "conv") == 0 && upsamples_first(s, args))
        upsample_conv(s, args);
    else if (strcmp(op, "linear") == 0 && ((const sg_linear_args *)args)->w.adapter)
        linear_by_two(s, args);
    else
        return false;
    return true;
}

#define X(op)                                                                                                          \
    void sg_##op##_(sg_stream *s, const sg_##op##_args *a)                                                             \
    {                                                                                                                  \
        if (has_ended(s)) return;                                                                                      \
        sg_tensor y;                                                                                                   \
        memcpy(&y, a, sizeof y); /* the first member of every struct */                                                \
        if (!op##_fits(a) || !all_apart((const void *)a, sg_##op##_tensors, sg_##op##_outputs) ||                      \
            !quantised_fits(#op, (const void *)a, sg_##op##_tensors)) {                                                \
            refuse(s, #op, y);                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        if (sg_count(y) == 0) return;                                                                                  \
        if (ran_as_several(s, #op, a)) return;                                                                         \
        const sg_status e = s->ops->op ? s->ops->op(s, a) : SG_E_UNSUPPORTED;                                          \
        if (e) sg_fail(s, e, #op ": the backend failed");                                                              \
    }
SG_OPS(X)
#undef X
