/* ref_attend_blocks.c - the oracle of attend_blocks, as op.h says; compiled like ref_blocks.c.
 *
 * Beside its sums the float build rounds the weights of the softmax, and v, to what a kernel multiplies. With I8 values
 * weights have 8 bits: the largest of a row in 64 neighbouring keys (or means of the tail) is 255, and is rounded to BF16,
 * as a kernel may have BF16 weights here too. With other values weights are BF16, and F32 values are rounded to BF16, the
 * widest type of tiles. With F8 values weights are F8: half a unit in the last of their 3 bits is 2^-5 to 2^-4 of a weight,
 * root mean square 2^-4 / sqrt(3) sqrt((1 - 1/4) / (2 ln 2)) = 0.0265 for log-uniform mantissas. A kernel may make them without
 * exponentials, as (1 + f) 2^E for 2^(E + f): that is 1 / (2 ln^2 2) times as much in the mean, which its sum of weights
 * shares and the one here does not, so it is taken out; about it the root mean square is 0.019. Together y's error is 0.0327
 * sqrt(sum (w v)^2) / sum w. A row's largest weight is between 2^7 and 448 here and in kernels; weights below 2^-17 of it
 * become 0; tensor cores truncate a tile's F8 sum by 2^-13 of its largest, which is small beside that. Bases are whole
 * numbers, as a kernel's need not be the largest logit, so no weight is exact for being its row's largest. The denominator
 * is the sum of the unrounded weights. */
#include "ref/ref.h"

enum { GROUP_ROWS = 64 }; /* at most */

typedef struct attend_job {
    const sg_attend_blocks_args *a;
    int64_t                      n, m, h, hk, d, q_block, nq, nk;
    int64_t                      group;      /* rows that leave out a block together */
    real                        *v, *tail_v; /* as a->v and a->tail_v lie */
} attend_job;

/* What a group of rows keeps: its list, in the order of visits; of each block, whether it is in there and whether the
 * group leaves it out. */
typedef struct group_blocks {
    int64_t  count;
    int64_t *list;
    bool    *kept, *out;
} group_blocks;

/* F8, too, as [h, n, d]. */
static real *values_of(sg_tensor v, int64_t n)
{
    real *const   r = widen(v);
    const int64_t d = v.dim[1]; /* of F8 */
    for (int64_t i = 0; r && v.dtype == SG_F8 && i < v.dim[0] * n * d; i++)
        r[i] = get(&v, (i / (n * d) * d + i % d) * v.dim[2] + sg_f8_position(i / d % n));
    for (int64_t i = 0; r && v.dtype == SG_F32 && i < sg_count(v); i++) r[i] = round_as(SG_BF16, r[i]);
    return r;
}

static void list_blocks(const attend_job *x, int64_t g, int64_t i, group_blocks *b)
{
    const bool all = x->a->list.rank == 0;
    b->count = all ? x->nk : ((const int32_t *)x->a->count.data)[g * x->nq + i];
    for (int64_t j = 0; j < x->nk; j++) b->kept[j] = b->out[j] = false;
    for (int64_t at = 0; at < b->count; at++) {
        b->list[at] = all ? at : ((const uint16_t *)x->a->list.data)[(g * x->nq + i) * x->nk + at];
        b->kept[b->list[at]] = true;
    }
}

static real product(const sg_tensor *q, int64_t q_row, const sg_tensor *k, int64_t k_row, int64_t d)
{
    const int8_t *const x = (const int8_t *)q->data + q_row * d, *const y = (const int8_t *)k->data + k_row * d;
    int32_t sum = 0;
    for (int64_t e = 0; e < d; e++) sum += x[e] * y[e];
    return (real)sum;
}

/* Logits of row r: the m keys, then the nk means of the tail; -infinity where hidden. */
static void logits(const attend_job *x, int64_t g, int64_t r, const bool *kept, real *l)
{
    const sg_attend_blocks_args *const a = x->a;
    const int64_t                      gk = g / (x->h / x->hk), i = r / x->q_block;
    const real                         scale = (real)a->scale * get(&a->q_scale, r / a->q_group * x->h + g);
    for (int64_t t = 0; t < x->m; t++) {
        l[t] = -INFINITY;
        if (!kept[t / SG_BLOCK_K] || (a->causal && t > r + x->m - x->n)) continue;
        l[t] = scale * get(&a->k_scale, t / a->k_group * x->hk + gk) *
               product(&a->q, g * x->n + r, &a->k, gk * x->m + t, x->d);
    }
    for (int64_t j = 0; j < x->nk; j++) {
        const int64_t end = (j + 1) * SG_BLOCK_K;
        l[x->m + j] = -INFINITY;
        if (!a->tail_k.rank || kept[j] || end > x->m || (a->causal && end - 1 > i * x->q_block + x->m - x->n)) continue;
        l[x->m + j] = scale * get(&a->tail_k_scale, j / SG_BLOCK_K * x->hk + gk) *
                          product(&a->q, g * x->n + r, &a->tail_k, gk * x->nk + j, x->d) +
                      get_or(&a->tail_bias, (g * x->nq + i) * x->nk + j, FN(log)(SG_BLOCK_K));
    }
}

static real largest(const real *l, int64_t count)
{
    real max = -INFINITY;
    for (int64_t t = 0; t < count; t++)
        if (l[t] > max || l[t] != l[t]) max = l[t];
    return max;
}

/* Marks the blocks that the `rows` rows with logits l skip. Returns how many. A block that is hidden from all of them,
 * but not from others of their block, counts as infinitely far below. */
static int64_t leave_out(const attend_job *x, int64_t g, int64_t first, int64_t rows, const real *l, group_blocks *b)
{
    const int64_t i = first / x->q_block, last = sg_min64((i + 1) * x->q_block, x->n) - 1;
    real          peak[GROUP_ROWS];
    int64_t       count = 0;
    bool          any = false;
    for (int64_t at = 0; at < b->count; at++) {
        const int64_t j = b->list[at], from = j * SG_BLOCK_K, keys = sg_min64(SG_BLOCK_K, x->m - from);
        if (x->a->causal && from > last + x->m - x->n) continue;
        b->out[j] = any;
        for (int64_t r = 0; r < rows; r++) {
            const real max = largest(l + r * (x->m + x->nk) + from, keys);
            if (any && !((peak[r] - max) * (real)1.44269504088896340736 > get(&x->a->pv_threshold, g)))
                b->out[j] = false;
            if (!any || max > peak[r]) peak[r] = max;
        }
        any = true;
        count += b->out[j];
    }
    return count;
}

/* p rounded to BF16, and off by half a unit / sqrt(3) at least, the root mean square of that error, unless BF16 holds it.
 * Where one value is far above all others its weight alone makes the budget, and may by chance be nearly exact here, but
 * not in a kernel with another base. */
static real rounded_weight(real p)
{
    const real off = round_as(SG_BF16, p) - p;
    if (!(FN(fabs)(off) > 0)) return p + off;
    return p + FN(copysign)(FN(fmax)(FN(fabs)(off), FN(ldexp)((real)0.288675135, FN(ilogb)(p) - 7)), off);
}

/* p rounded to F8 as by kernels without exponentials. */
static real linear_weight(real p)
{
    int        e;
    const real m = 2 * FN(frexp)(p, &e); /* 2^f in [1, 2) */
    return p > 0 ? round_as(SG_F8, FN(ldexp)((1 + FN(log2)(m)) * (real)0.960906028, e - 1)) : p;
}

/* Rounds the weights of one row over up to 64 keys. Returns their unit. */
static real round_weights(sg_dtype v, real *p, int64_t count)
{
    if (SG_REF_IS_TRUTH) return 1;
    const real max = largest(p, count);
    const real unit = v == SG_F8 ? 128 : 1; /* of what is 1 to e where it is largest */
    if (v == SG_I8 && !(max > 0)) return 1;
    for (int64_t t = 0; t < count; t++)
        p[t] = v == SG_I8   ? FN(rint)(p[t] * (255 / max))
               : v == SG_F8 ? linear_weight(unit * p[t])
                            : rounded_weight(p[t]);
    return v == SG_I8 ? round_as(SG_BF16, max) / 255 : 1 / unit;
}

/* o += the sum of p[t] v[t] over `count` rows of v, `step` apart. */
static void add_pv(real *o, real *sum, sg_dtype type, real *p, const real *v, int64_t count, int64_t step, int64_t d)
{
    const real unit = round_weights(type, p, count);
    for (int64_t e = 0; e < d; e++) sum[e] = 0;
    for (int64_t t = 0; t < count; t++)
        for (int64_t e = 0; p[t] != 0 && e < d; e++) sum[e] += p[t] * v[t * step + e];
    for (int64_t e = 0; e < d; e++) o[e] += unit * sum[e];
}

/* Row r with logits l, which become weights; o and scratch hold d numbers. Returns the share that it skips. */
static real attend_row(const attend_job *x, int64_t g, int64_t r, real *l, const bool *out, real *o, real *scratch)
{
    const sg_attend_blocks_args *const a = x->a;
    const int64_t                      gk = g / (x->h / x->hk), d = x->d;
    const bool                         packed = a->v.dtype == SG_I8 || a->v.dtype == SG_F8; /* heads before tokens */
    const int64_t                      step = packed ? d : x->hk * d;
    const real                         base = FN(floor)(largest(l, x->m + x->nk));
    real                               sum = 0, left = 0;
    for (int64_t e = 0; e < d; e++) o[e] = 0;
    for (int64_t t = 0; t < x->m + x->nk; t++) l[t] = l[t] == -INFINITY ? 0 : FN(exp)(l[t] - base);
    for (int64_t from = 0; from < x->m; from += SG_BLOCK_K) {
        const int64_t count = sg_min64(SG_BLOCK_K, x->m - from);
        real *const   part = out[from / SG_BLOCK_K] ? &left : &sum;
        for (int64_t t = from; t < from + count; t++) *part += l[t];
        if (part == &sum)
            add_pv(o, scratch, a->v.dtype, l + from, x->v + (packed ? (gk * x->m + from) : from * x->hk + gk) * d,
                   count, step, d);
    }
    for (int64_t from = 0; a->tail_k.rank && from < x->nk; from += SG_BLOCK_K) {
        const int64_t count = sg_min64(SG_BLOCK_K, x->nk - from);
        for (int64_t j = from; j < from + count; j++) sum += l[x->m + j];
        add_pv(o, scratch, a->v.dtype, l + x->m + from,
               x->tail_v + (packed ? (gk * x->nk + from) : from * x->hk + gk) * d, count, step, d);
    }
    for (int64_t e = 0; e < d; e++) {
        const real v = o[e] / sum * get_or(&a->v_scale, gk * d + e, 1) + get_or(&a->v_center, gk * d + e, 0);
        put(&a->y, (r * x->h + g) * d + e, sum == 0 ? 0 : v);
    }
    return left == 0 ? 0 : left / (sum + left);
}

/* A group of rows from `first` on; skips: how many blocks, and the sum of the shares. */
static void attend_group(const attend_job *x, int64_t g, int64_t first, real *scratch, group_blocks *b, real skips[2])
{
    const int64_t rows = sg_min64(x->group, x->n - first), keys = x->m + x->nk;
    real *const   o = scratch + x->group * keys;
    skips[0] = skips[1] = 0;
    list_blocks(x, g, first / x->q_block, b);
    for (int64_t r = 0; r < rows; r++) logits(x, g, first + r, b->kept, scratch + r * keys);
    if (x->a->pv_threshold.rank) skips[0] = (real)leave_out(x, g, first, rows, scratch, b);
    for (int64_t r = 0; r < rows; r++) skips[1] += attend_row(x, g, first + r, scratch + r * keys, b->out, o, o + x->d);
}

static bool attend_heads(const attend_job *x, real *skips)
{
    const int64_t  groups = sg_div_up(x->n, x->group), size = x->group * (x->m + x->nk) + 2 * x->d;
    real *const    scratch = of_threads(size, sizeof *scratch);
    bool *const    marks = of_threads(2 * x->nk, sizeof *marks);
    int64_t *const list = of_threads(x->nk, sizeof *list);
    const bool     ok = scratch && marks && list;
#pragma omp parallel for num_threads(omp_get_max_threads()) schedule(dynamic)
    for (int64_t at = 0; at < (ok ? x->h * groups : 0); at++) {
        const int    thread = omp_get_thread_num();
        bool *const  kept = marks + thread * 2 * x->nk;
        group_blocks b = {.list = list + thread * x->nk, .kept = kept, .out = kept + x->nk};
        attend_group(x, at / groups, at % groups * x->group, scratch + thread * size, &b, skips + 2 * at);
    }
    free(scratch);
    free(marks);
    free(list);
    return ok;
}

SG_REF(attend_blocks)
{
    const int64_t h = a->q.dim[0], n = a->q.dim[1], d = a->q.dim[2], hk = a->k.dim[0], m = a->k.dim[1];
    const int64_t group = a->pv_threshold.rank ? a->pv_group : GROUP_ROWS, groups = sg_div_up(n, group);
    attend_job    x = {a, n, m, h, hk, d, sg_q_block(a->q_block), .nk = sg_div_up(m, SG_BLOCK_K), .group = group};
    real *const   skips = malloc((size_t)(h * groups * 2) * sizeof *skips);
    x.nq = sg_div_up(n, x.q_block);
    x.v = values_of(a->v, m);
    x.tail_v = values_of(a->tail_v, x.nk);
    const bool ok = skips && x.v && x.tail_v && attend_heads(&x, skips);
    for (int64_t at = 0; ok && a->pv_threshold.rank && at < 2 * h; at++) {
        real sum = 0;
        for (int64_t k = 0; k < groups; k++) sum += skips[(at / 2 * groups + k) * 2 + at % 2];
        put(&a->skips, at, at % 2 ? sum / (real)n : sum);
    }
    free(skips);
    free(x.v);
    free(x.tail_v);
    return ok ? SG_OK : SG_E_MEMORY;
}
