/* ref_blocks.c - the oracle of sparse attention: pool, self_similarity, quantise, score, select, tail_bias and
 * attend_blocks, each as its formula in op.h says.
 *
 * Compiled twice, see ref.c, and once more by ref_blocks_published.c. Beside its sums the float build rounds the
 * weights of the softmax, and v, to what a kernel multiplies. With I8 values weights have 8 bits: the largest of a row
 * in 64 neighbouring keys (or means of the tail) is 255, and is rounded to BF16, as a kernel may have BF16 weights here
 * too. With other values weights are BF16, and F32 values are rounded to BF16, the widest type of tiles. With F8 values
 * weights are F8: half a unit in the last of their 3 bits is 2^-5 to 2^-4 of a weight, root mean square 2^-4 / sqrt(3)
 * sqrt((1 - 1/4) / (2 ln 2)) = 0.0265 for log-uniform mantissas, so y's error is 0.0265 sqrt(sum (w v)^2) / sum w. A
 * row's largest weight is between 2^7 and 448 here and in kernels; weights below 2^-17 of it become 0; tensor cores
 * truncate a tile's F8 sum by 2^-13 of its largest, which is small beside that. Bases are whole numbers, as a kernel's
 * need not be the largest logit, so no weight is exact for being its row's largest. The denominator is the sum of the
 * unrounded weights. quantise and select's decisions are the same in both builds. */
#include "ranked_scores.h"

enum { GROUP_ROWS = 32 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- pool, self_similarity ---- */

static float own_scale(const sg_quantise_args *a, int64_t g, const int64_t row[2], const int64_t to[2]);

/* Mean of rows [from, to) of head g, channel e, minus center's. */
static real mean_of(const sg_tensor *x, const sg_tensor *center, int64_t from, int64_t to, int64_t g, int64_t e)
{
    const int64_t h = x->dim[1], d = x->dim[2];
    const real    middle = get_or(center, g * d + e, 0);
    real          sum = 0;
    ADD_UP(sum, r, to - from, stored(get(x, ((from + r) * h + g) * d + e) - middle));
    return stored(sum / (real)(to - from));
}

static void put_means(const sg_tensor *y, const sg_tensor *x, const sg_tensor *center, int64_t block)
{
    const int64_t n = x->dim[0], h = x->dim[1], d = x->dim[2];
    if (y->rank == 0) return;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < sg_count(*y); i++) {
        const int64_t from = i / (h * d) * block;
        put(y, i, mean_of(x, center, from, least(from + block, n), i / d % h, i % d));
    }
}

sg_status SG_REF_OP(pool)(sg_stream *s, const sg_pool_args *a)
{
    (void)s;
    const int64_t   n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2];
    const sg_tensor none = {0}, center = SG_REF_IS_PUBLISHED ? a->total : none;
    put_means(&a->total, &a->x, &none, n);
    put_means(&a->mean, &a->x, &center, a->block);
    put_means(&a->sub, &a->x, &center, SG_BLOCK_SUB);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < sg_count(a->var); i++) {
        const int64_t from = i / (h * d) * a->block, to = least(from + a->block, n), g = i / d % h, e = i % d;
        const real    mean = mean_of(&a->x, &none, from, to, g, e);
        real          sum = 0;
        for (int64_t r = from; r < to; r++) {
            const real u = get(&a->x, (r * h + g) * d + e) - mean;
            sum += u * u;
        }
        put(&a->var, i, sum / (real)(to - from));
    }
    const sg_quantise_args channels = {.x = a->x, .center = a->total}, rows = {a->y, a->scale, a->x, .group = a->group};
    const int64_t          all[2] = {0, n};
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < sg_count(a->channel_scale); i++)
        sg_store(&a->channel_scale, i, own_scale(&channels, i / d, all, (const int64_t[2]){i % d, i % d + 1}));
    return a->y.rank ? SG_REF_OP(quantise)(s, &rows) : SG_OK;
}

/* Rows [from, to) of head g; sum has room for d. */
static real self_similarity_of(const sg_self_similarity_args *a, int64_t from, int64_t to, int64_t g, real *sum)
{
    const int64_t h = a->x.dim[1], d = a->x.dim[2];
    for (int64_t e = 0; e < d; e++) sum[e] = 0;
    for (int64_t r = from; r < to; r++) {
        real square = 0;
        for (int64_t e = 0; e < d; e++) {
            const real u = stored(get(&a->x, (r * h + g) * d + e) - get_or(&a->center, g * d + e, 0));
            square += u * u;
        }
        const real length = FN(sqrt)(square);
        for (int64_t e = 0; e < d; e++) {
            const real u = stored(get(&a->x, (r * h + g) * d + e) - get_or(&a->center, g * d + e, 0));
            sum[e] += stored_unit(u / length);
        }
    }
    return dot(sum, sum, d) / ((real)(to - from) * (real)(to - from));
}

sg_status SG_REF_OP(self_similarity)(sg_stream *s, const sg_self_similarity_args *a)
{
    (void)s;
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2];
    int           ok = 1;
#pragma omp parallel reduction(&& : ok)
    {
        real *const sum = malloc((size_t)d * sizeof *sum + 1);
        ok = sum != NULL;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < sg_count(a->y); i++) {
            const int64_t from = i / h * a->block;
            if (sum) put(&a->y, i, self_similarity_of(a, from, least(from + a->block, n), i % h, sum));
        }
        free(sum);
    }
    return ok ? SG_OK : SG_E_MEMORY;
}

/* ---- quantise, in F32 in both builds ---- */

static float centred(const sg_quantise_args *a, int64_t r, int64_t g, int64_t e)
{
    const int64_t h = a->x.dim[1], d = a->x.dim[2];
    return sg_load(&a->x, (r * h + g) * d + e) - (a->center.rank ? sg_load(&a->center, g * d + e) : 0.0f);
}

/* The common scale of these rows and channels; NaN where one is not finite. */
static float own_scale(const sg_quantise_args *a, int64_t g, const int64_t row[2], const int64_t to[2])
{
    float max = 0;
    bool  finite = true;
    for (int64_t r = row[0]; r < row[1]; r++)
        for (int64_t e = to[0]; e < to[1]; e++) {
            const float u = fabsf(centred(a, r, g, e));
            finite = finite && isfinite(u);
            max = u > max ? u : max;
        }
    return finite ? max * (1.0f / 127.0f) : NAN;
}

/* Quantises rows and channels that share scale `at` of a->scale. Where the result does not matter the builds write
 * different values: budget.h. */
static void quantise_group(const sg_quantise_args *a, int64_t at, int64_t g, const int64_t row[2], const int64_t to[2])
{
    const int64_t n = a->x.dim[0], d = a->x.dim[2];
    const float   own = own_scale(a, g, row, to);
    if (!a->given) sg_store(&a->scale, at, own);
    const float scale = sg_load(&a->scale, at), inverse = scale == 0 ? 0.0f : 1 / scale;
    for (int64_t r = row[0]; r < row[1]; r++)
        for (int64_t e = to[0]; e < to[1]; e++) {
            const float   v = centred(a, r, g, e) * inverse;
            const bool    matters = isfinite(own) && isfinite(inverse), f8 = a->y.dtype == SG_F8;
            const int64_t i = f8 ? (g * d + e) * sg_f8_row(n) + sg_f8_position(r) : (g * n + r) * d + e;
            const float   number = f8 ? v : rintf(fminf(fmaxf(v, -127), 127));
            sg_store(&a->y, i, matters ? number : SG_REF_IS_TRUTH ? 0 : -128);
        }
}

sg_status SG_REF_OP(quantise)(sg_stream *s, const sg_quantise_args *a)
{
    (void)s;
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2], group = a->group;
    if (a->y.dtype == SG_F8) memset(a->y.data, 0, sg_bytes(a->y)); /* what fills up rows */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < sg_count(a->scale); i++) {
        const int64_t rows[2] = {i / h * group, least(i / h * group + group, n)};
        if (group)
            quantise_group(a, i, i % h, rows, (const int64_t[2]){0, d});
        else
            quantise_group(a, i, i / d, (const int64_t[2]){0, n}, (const int64_t[2]){i % d, i % d + 1});
    }
    return SG_OK;
}

/* ---- which blocks are fixed and which visible ---- */

typedef struct rules {
    const sg_tensor *q_similarity, *k_similarity, *theta;
    int64_t          h, n, m, text_prefix, text_suffix;
    bool             ragged, causal;
} rules;

#define RULES(a, heads)                                                                                                \
    (rules)                                                                                                            \
    {                                                                                                                  \
        &(a)->q_similarity, &(a)->k_similarity, &(a)->theta, heads, (a)->n, (a)->m, (a)->text_prefix,                  \
            (a)->text_suffix, (a)->ragged, (a)->causal                                                                 \
    }

/* Block i of `tokens` has text, or is partial where that makes it fixed. */
static bool is_text_or_ragged(const rules *o, int64_t i, int64_t size, int64_t tokens, bool ragged)
{
    const int64_t end = ragged ? least((i + 1) * size, tokens) : (i + 1) * size;
    return i * size < o->text_prefix || end > tokens - o->text_suffix;
}

static bool q_fixed(const rules *o, int64_t g, int64_t i)
{
    return is_text_or_ragged(o, i, SG_BLOCK_Q, o->n, o->ragged) ||
           (o->theta->rank && !(sg_load(o->q_similarity, i * o->h + g) > sg_load(o->theta, g)));
}

static bool k_fixed(const rules *o, int64_t g, int64_t j)
{
    if (is_text_or_ragged(o, j, SG_BLOCK_K, o->m, false)) return true;
    if (!o->theta->rank) return false;
    const int64_t hk = o->k_similarity->dim[1];
    return !(sg_load(o->k_similarity, j * hk + g / (o->h / hk)) > sg_load(o->theta, g));
}

static bool is_visible(const rules *o, int64_t i, int64_t j)
{
    return !o->causal || j * SG_BLOCK_K < least((i + 1) * SG_BLOCK_Q, o->n);
}

/* ---- score ---- */

typedef struct scoring {
    const sg_score_args *a;
    rules                rules;
    const real          *q, *k;
} scoring;

/* Mean over the channels of block j, head g, of x [nk, hk, c]. */
static real channel_mean(const sg_tensor *t, int64_t j, int64_t g)
{
    const int64_t hk = t->dim[1], c = t->dim[2];
    real          sum = 0;
    for (int64_t e = 0; e < c; e++) sum += get(t, (j * hk + g) * c + e);
    return sum / (real)c;
}

static bool counts(const scoring *x, int64_t g, int64_t i, int64_t j)
{
    return is_visible(&x->rules, i, j) && !k_fixed(&x->rules, g, j);
}

/* Scores row i of head g; p holds the means of keys, y nk numbers. */
static void score_row(const scoring *x, int64_t g, int64_t i, real *p, real *y)
{
    const sg_score_args *const a = x->a;
    const int64_t h = a->q.dim[1], d = a->q.dim[2], means = a->k.dim[0], hk = a->k.dim[1], gk = g / (h / hk);
    const int64_t per_q = a->sub ? SG_BLOCK_Q / SG_BLOCK_SUB : 1, per_k = a->sub ? SG_BLOCK_K / SG_BLOCK_SUB : 1;
    const int64_t end = least((i + 1) * per_q, a->q.dim[0]);
    const real    scale = SG_REF_IS_PUBLISHED ? (real)a->scale : 1;
    for (int64_t q = i * per_q; q < end; q++) {
        real max = -INFINITY, sum = 0;
        for (int64_t b = 0; b < means; b++) {
            if (!counts(x, g, i, b / per_k)) continue;
            p[b] = stored(scale * stored(dot(x->q + (q * h + g) * d, x->k + (b * hk + gk) * d, d)));
            if (p[b] > max || p[b] != p[b]) max = p[b];
        }
        for (int64_t b = 0; b < means; b++)
            if (counts(x, g, i, b / per_k))
                sum += p[b] = SG_REF_IS_PUBLISHED ? FN(exp)(p[b] - max) : FN(exp2)(p[b] - max);
        for (int64_t b = 0; b < means; b++)
            if (counts(x, g, i, b / per_k)) y[b / per_k] += stored(p[b] / sum);
    }
    for (int64_t j = 0; j < a->y.dim[2]; j++) {
        if (y[j] == 0) continue;
        y[j] /= (real)(end - i * per_q);
        if (a->k_var.rank) y[j] *= FN(sqrt)(channel_mean(&a->k_var, j, gk) * channel_mean(&a->v_var, j, gk));
    }
}

sg_status SG_REF_OP(score)(sg_stream *s, const sg_score_args *a)
{
    (void)s;
    const int64_t h = a->y.dim[0], nq = a->y.dim[1], nk = a->y.dim[2], means = a->k.dim[0];
    real *const q = widen(a->q), *const k = widen(a->k);
    const scoring x = {a, RULES(a, h), q, k};
    int           ok = q && k;
    /* Queries are scaled first, to powers of two, as in kernels: so their products with integers are not exact. */
    for (int64_t t = 0; ok && !SG_REF_IS_PUBLISHED && t < sg_count(a->q); t++)
        q[t] *= (real)a->scale * (real)1.44269504088896340736;
    if (ok) {
#pragma omp parallel reduction(&& : ok) if (h * nq * sg_count(a->k) > SG_REF_WORK)
        {
            real *const p = malloc((size_t)(means + nk) * sizeof *p);
            ok = p != NULL;
#pragma omp for schedule(static)
            for (int64_t row = 0; row < h * nq; row++) {
                if (!p) continue;
                for (int64_t j = 0; j < nk; j++) p[means + j] = 0;
                if (!q_fixed(&x.rules, row / nq, row % nq)) score_row(&x, row / nq, row % nq, p, p + means);
                for (int64_t j = 0; j < nk; j++) put(&a->y, row * nk + j, p[means + j]);
            }
            free(p);
        }
    }
    free(q);
    free(k);
    return ok ? SG_OK : SG_E_MEMORY;
}

/* ---- select, its decisions in double in both builds ---- */

static uint8_t *bits_of(const sg_tensor *keep, int64_t row) { return (uint8_t *)keep->data + row * keep->dim[2]; }

static bool has_bit(const uint8_t *bits, int64_t j) { return bits[j / 8] >> j % 8 & 1; }

static void take(const sg_select_args *a, int64_t at)
{
    const int64_t nk = a->score.dim[2];
    bits_of(&a->keep, at / nk)[at % nk / 8] |= (uint8_t)(1u << at % nk % 8);
}

/* How many of a row's blocks, the best first, the rule takes. */
static int64_t rule_count(const sg_select_args *a, int64_t g, place *p)
{
    const int64_t nk = a->score.dim[2];
    int64_t       count = 0;
    if (a->rule == SG_SELECT_GIVEN) {
        while (count < nk && p[count].score > 0) count++;
        return count;
    }
    const float amount = sg_load(&a->amount, g);
    if (a->rule == SG_SELECT_TOPK) {
        const float share = floorf(amount * (float)nk);
        return share >= (float)nk ? nk : share >= 1 ? (int64_t)share : 1;
    }
    return mass_count(p, nk, a->score.dim[0] * a->score.dim[1], amount);
}

/* Gives the rest of the budget of all heads' rows to the best blocks that are not taken. */
static void take_shared(const sg_select_args *a, place *p, int64_t budget)
{
    const int64_t nk = a->score.dim[2];
    int64_t       rest = 0;
    for (int64_t i = 0; i < sg_count(a->score); i++)
        if (!has_bit(bits_of(&a->keep, p[i].at / nk), p[i].at % nk)) p[rest++] = p[i];
    qsort(p, (size_t)rest, sizeof *p, by_score);
    for (int64_t i = 0; i < least(budget, rest); i++) take(a, p[i].at);
}

/* Adds blocks that are always kept, removes hidden ones. Returns the kept share of the mass; -1: the row has none. */
static real finish_row(const sg_select_args *a, const rules *o, int64_t row, int32_t *kept)
{
    const int64_t  nq = a->score.dim[1], nk = a->score.dim[2], g = row / nq, i = row % nq;
    uint8_t *const bits = bits_of(&a->keep, row);
    const bool     all = q_fixed(o, g, i);
    real           sum = 0, mass = 0;
    for (int64_t j = 0; j < nk; j++) {
        if (a->rule != SG_SELECT_GIVEN && (all || j < a->sink || k_fixed(o, g, j))) take(a, row * nk + j);
        if (!is_visible(o, i, j)) bits[j / 8] &= (uint8_t) ~(1u << j % 8);
        const real score = get(&a->score, row * nk + j);
        sum += score;
        if (has_bit(bits, j)) {
            mass += score;
            ++*kept;
        }
    }
    return sum == 0 ? -1 : mass / sum;
}

sg_status SG_REF_OP(select)(sg_stream *s, const sg_select_args *a)
{
    (void)s;
    const int64_t h = a->score.dim[0], nq = a->score.dim[1], nk = a->score.dim[2];
    const rules   o = RULES(a, h);
    place *const  p = malloc((size_t)(h * nq * nk) * sizeof *p);
    int64_t       budget = 0;
    if (!p) return SG_E_MEMORY;
    memset(a->keep.data, 0, sg_bytes(a->keep));
#pragma omp parallel for schedule(static) reduction(+ : budget)
    for (int64_t row = 0; row < h * nq; row++) {
        place *const own = p + row * nk;
        for (int64_t j = 0; j < nk; j++) own[j] = (place){sg_load(&a->score, row * nk + j), row * nk + j};
        qsort(own, (size_t)nk, sizeof *own, by_score);
        const int64_t count = rule_count(a, row / nq, own), now = a->heads ? count / 4 : count;
        for (int64_t k = 0; k < now; k++) take(a, own[k].at);
        budget += count - now;
    }
    if (a->heads) take_shared(a, p, budget);
    free(p);
    for (int64_t g = 0; g < h; g++) {
        int32_t kept = 0, before = 0;
        int64_t rows = 0;
        real    mass = 0;
        for (int64_t i = 0; i < nq; i++) {
            before = kept;
            const real share = finish_row(a, &o, g * nq + i, &kept);
            if (share == -1) continue;
            mass += share;
            rows++;
        }
        ((int32_t *)a->kept.data)[2 * g] = kept;
        ((int32_t *)a->kept.data)[2 * g + 1] = kept - before;
        put(&a->mass, g, rows ? mass / (real)rows : 1);
    }
    return SG_OK;
}

/* ---- tail_bias ---- */

sg_status SG_REF_OP(tail_bias)(sg_stream *s, const sg_tail_bias_args *a)
{
    (void)s;
    const int64_t h = a->y.dim[0], nq = a->y.dim[1], nk = a->y.dim[2], d = a->q_mean.dim[2], hk = a->k_var.dim[1];
    const real    scale = (real)a->scale;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < h * nq * nk; at++) {
        const int64_t g = at / (nq * nk), i = at / nk % nq, j = at % nk, gk = g / (h / hk);
        real          both = 0, e_sum = 0;
        for (int64_t c = 0; c < d; c++) {
            const real mean = get(&a->q_mean, (i * h + g) * d + c);
            const real e = get(&a->q_var, (i * h + g) * d + c) + mean * mean;
            both += e * get(&a->k_var, (j * hk + gk) * d + c);
            e_sum += e;
        }
        const real half = scale * scale / 4 * both, rank1 = scale * scale / 2 * e_sum * channel_mean(&a->k_var, j, gk);
        const real c = a->rule == SG_TAIL_HALF ? half : rank1;
        put(&a->y, at, FN(log)(SG_BLOCK_K) + (c > 3 ? 3 : c));
    }
    return SG_OK;
}

/* ---- attend_blocks ---- */

typedef struct attend_job {
    const sg_attend_blocks_args *a;
    int64_t                      n, m, h, hk, d, nq, nk;
    real                        *v, *tail_v; /* as a->v and a->tail_v lie */
} attend_job;

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

static bool keeps(const attend_job *x, int64_t g, int64_t i, int64_t j)
{
    return x->a->keep.rank == 0 || has_bit(bits_of(&x->a->keep, g * x->nq + i), j);
}

static real product(const sg_tensor *q, int64_t q_row, const sg_tensor *k, int64_t k_row, int64_t d)
{
    const int8_t *const x = (const int8_t *)q->data + q_row * d, *const y = (const int8_t *)k->data + k_row * d;
    int32_t sum = 0;
    for (int64_t e = 0; e < d; e++) sum += x[e] * y[e];
    return (real)sum;
}

/* Logits of row r: the m keys, then the nk means of the tail; -infinity where hidden. */
static void logits(const attend_job *x, int64_t g, int64_t r, real *l)
{
    const sg_attend_blocks_args *const a = x->a;
    const int64_t                      gk = g / (x->h / x->hk), i = r / SG_BLOCK_Q;
    const real                         scale = (real)a->scale * get(&a->q_scale, r / a->q_group * x->h + g);
    for (int64_t t = 0; t < x->m; t++) {
        l[t] = -INFINITY;
        if (!keeps(x, g, i, t / SG_BLOCK_K) || (a->causal && t > r)) continue;
        l[t] = scale * get(&a->k_scale, t / a->k_group * x->hk + gk) *
               product(&a->q, g * x->n + r, &a->k, gk * x->m + t, x->d);
    }
    for (int64_t j = 0; j < x->nk; j++) {
        const int64_t end = (j + 1) * SG_BLOCK_K;
        l[x->m + j] = -INFINITY;
        if (!a->tail_k.rank || keeps(x, g, i, j) || end > x->m || (a->causal && end - 1 > i * SG_BLOCK_Q)) continue;
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
static int64_t leave_out(const attend_job *x, int64_t g, int64_t first, int64_t rows, const real *l, bool *out)
{
    const int64_t i = first / SG_BLOCK_Q, last = least((i + 1) * SG_BLOCK_Q, x->n) - 1;
    real          peak[GROUP_ROWS];
    int64_t       count = 0;
    bool          any = false;
    for (int64_t j = 0; j < x->nk; j++) {
        const int64_t from = j * SG_BLOCK_K, keys = least(SG_BLOCK_K, x->m - from);
        out[j] = any;
        if (!keeps(x, g, i, j) || (x->a->causal && from > last)) {
            out[j] = false;
            continue;
        }
        for (int64_t r = 0; r < rows; r++) {
            const real max = largest(l + r * (x->m + x->nk) + from, keys);
            if (any && !((peak[r] - max) * (real)1.44269504088896340736 > get(&x->a->pv_threshold, g))) out[j] = false;
            if (!any || max > peak[r]) peak[r] = max;
        }
        any = true;
        count += out[j];
    }
    return count;
}

/* Rounds the weights of one row over up to 64 keys. Returns their unit. */
static real round_weights(sg_dtype v, real *p, int64_t count)
{
    if (SG_REF_IS_TRUTH) return 1;
    const real     max = largest(p, count);
    const real     unit = v == SG_F8 ? 128 : 1; /* of what is 1 to e where it is largest */
    const sg_dtype to = v == SG_F8 ? SG_F8 : SG_BF16;
    if (v == SG_I8 && !(max > 0)) return 1;
    for (int64_t t = 0; t < count; t++) p[t] = v == SG_I8 ? FN(rint)(p[t] * (255 / max)) : round_as(to, unit * p[t]);
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
        const int64_t count = least(SG_BLOCK_K, x->m - from);
        real *const   part = out[from / SG_BLOCK_K] ? &left : &sum;
        for (int64_t t = from; t < from + count; t++) *part += l[t];
        if (part == &sum)
            add_pv(o, scratch, a->v.dtype, l + from, x->v + (packed ? (gk * x->m + from) : from * x->hk + gk) * d,
                   count, step, d);
    }
    for (int64_t from = 0; a->tail_k.rank && from < x->nk; from += SG_BLOCK_K) {
        const int64_t count = least(SG_BLOCK_K, x->nk - from);
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

/* Up to 32 rows from `first` on; skips: how many blocks, and the sum of the shares. */
static void attend_group(const attend_job *x, int64_t g, int64_t first, real *scratch, bool *out, real skips[2])
{
    const int64_t rows = least(GROUP_ROWS, x->n - first), keys = x->m + x->nk;
    real *const   o = scratch + GROUP_ROWS * keys;
    skips[0] = skips[1] = 0;
    for (int64_t r = 0; r < rows; r++) logits(x, g, first + r, scratch + r * keys);
    if (x->a->pv_threshold.rank) skips[0] = (real)leave_out(x, g, first, rows, scratch, out);
    for (int64_t r = 0; r < rows; r++) skips[1] += attend_row(x, g, first + r, scratch + r * keys, out, o, o + x->d);
}

static int attend_heads(const attend_job *x, real *skips)
{
    const int64_t groups = sg_div_up(x->n, GROUP_ROWS), keys = x->m + x->nk;
    int           ok = 1;
#pragma omp parallel reduction(&& : ok)
    {
        real *const scratch = malloc((size_t)(GROUP_ROWS * keys + 2 * x->d) * sizeof *scratch);
        bool *const out = calloc((size_t)x->nk + 1, sizeof *out);
        ok = scratch && out;
#pragma omp for schedule(dynamic)
        for (int64_t at = 0; at < x->h * groups; at++)
            if (scratch && out) attend_group(x, at / groups, at % groups * GROUP_ROWS, scratch, out, skips + 2 * at);
        free(scratch);
        free(out);
    }
    return ok;
}

sg_status SG_REF_OP(attend_blocks)(sg_stream *s, const sg_attend_blocks_args *a)
{
    (void)s;
    const int64_t h = a->q.dim[0], n = a->q.dim[1], d = a->q.dim[2], hk = a->k.dim[0], m = a->k.dim[1];
    const int64_t groups = sg_div_up(n, GROUP_ROWS);
    attend_job    x = {a, n, m, h, hk, d, sg_div_up(n, SG_BLOCK_Q), sg_div_up(m, SG_BLOCK_K), NULL, NULL};
    real *const   skips = malloc((size_t)(h * groups * 2) * sizeof *skips);
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
