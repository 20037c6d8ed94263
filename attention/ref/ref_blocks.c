/* ref_blocks.c - the oracle of sparse attention: pool, self_similarity, quantise, score, select and tail_bias, each as
 * its formula in op.h says. Compiled twice, see ref.c. quantise and select's decisions are the same in both builds. */
#include "ref/ref.h"

/* ---- pool, self_similarity ---- */

static float own_scale(const sg_quantise_args *a, int64_t g, const int64_t row[2], const int64_t to[2]);

/* The rms error of so many roundings of results up to `peak`, each off by at most 2^-24 of its result, by 1 / sqrt(3)
 * of that on average. Where one value is far above all others its mean and variance alone make the budget, and a sum
 * in F32 may by chance be nearly exact here, but not in a kernel of another order. So the float build has no sample of
 * these errors: it adds up in double, too, and is off by as much as that. */
static double error_of(double peak, int64_t roundings)
{
    return SG_REF_IS_TRUTH ? 0 : 0x1p-24 * peak * sqrt((double)roundings / 3);
}

/* Mean of rows [from, to) of channel c of all heads: rows - 1 additions and a quotient. */
static double mean_of(const sg_tensor *x, int64_t from, int64_t to, int64_t c)
{
    double sum = 0, peak = 0;
    for (int64_t r = from; r < to; r++) {
        sum += (double)sg_load(x, r * x->dim[1] * x->dim[2] + c);
        peak = fmax(peak, fabs(sum));
    }
    return (sum + error_of(peak, to - from)) / (double)(to - from);
}

/* Their variance. The roundings of a difference are doubled by the square and count four times. */
static double variance_of(const sg_tensor *x, int64_t from, int64_t to, int64_t c)
{
    const double mean = mean_of(x, from, to, c);
    double       sum = 0;
    for (int64_t r = from; r < to; r++) {
        const double u = (double)sg_load(x, r * x->dim[1] * x->dim[2] + c) - mean;
        sum += u * u;
    }
    return (sum + error_of(sum, to - from + 5)) / (double)(to - from);
}

typedef double statistic(const sg_tensor *x, int64_t from, int64_t to, int64_t c);

static void put_blocks(const sg_tensor *y, statistic *of, const sg_tensor *x, int64_t block)
{
    const int64_t c = x->dim[1] * x->dim[2];
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < sg_count(*y); i++) {
        const int64_t from = i / c * block;
        sg_store(y, i, (float)of(x, from, sg_min64(from + block, x->dim[0]), i % c));
    }
}

/* Its sums are in double in both builds, as y depends on their bits. */
static void put_center(const sg_tensor *y, const sg_tensor *x)
{
    const int64_t n = x->dim[0], c = x->dim[1] * x->dim[2], rows = sg_div_up(n, SG_CENTER_STEP);
    for (int64_t e = 0; e < sg_count(*y); e++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += (double)sg_load(x, r * SG_CENTER_STEP * c + e);
        sg_store(y, e, (float)(sum / (double)rows));
    }
}

SG_REF(pool)
{
    const int64_t n = a->x.dim[0], d = a->x.dim[2];
    put_blocks(&a->total, mean_of, &a->x, n);
    put_center(&a->center, &a->x);
    put_blocks(&a->mean, mean_of, &a->x, a->block);
    put_blocks(&a->sub, mean_of, &a->x, SG_BLOCK_SUB);
    put_blocks(&a->var, variance_of, &a->x, a->block);
    const sg_quantise_args channels = {.x = a->x, .center = a->total},
                           rows = {a->y, a->scale, a->x, a->center, a->group};
    const int64_t all[2] = {0, n};
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
            const real u = get(&a->x, (r * h + g) * d + e) - get_or(&a->center, g * d + e, 0);
            square += u * u;
        }
        const real length = FN(sqrt)(square);
        for (int64_t e = 0; e < d; e++) {
            const real u = get(&a->x, (r * h + g) * d + e) - get_or(&a->center, g * d + e, 0);
            sum[e] += u / length;
        }
    }
    return dot(sum, sum, d) / ((real)(to - from) * (real)(to - from));
}

SG_REF(self_similarity)
{
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2];
    real *const   sum = of_threads(d, sizeof *sum);
    if (!sum) return SG_E_MEMORY;
#pragma omp parallel for num_threads(omp_get_max_threads()) schedule(static)
    for (int64_t i = 0; i < sg_count(a->y); i++) {
        const int64_t from = i / h * a->block, to = sg_min64(from + a->block, n);
        put(&a->y, i, self_similarity_of(a, from, to, i % h, sum + omp_get_thread_num() * d));
    }
    free(sum);
    return SG_OK;
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
    if (a->group) sg_store(&a->scale, at, own);
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

SG_REF(quantise)
{
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2], group = a->group;
    if (a->y.dtype == SG_F8) memset(a->y.data, 0, sg_bytes(a->y)); /* what fills up rows */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < sg_count(a->scale); i++) {
        const int64_t rows[2] = {i / h * group, sg_min64(i / h * group + group, n)};
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
    int64_t          q_block;
} rules;

#define RULES(a, heads)                                                                                                \
    (rules)                                                                                                            \
    {                                                                                                                  \
        &(a)->q_similarity, &(a)->k_similarity, &(a)->theta, heads, (a)->n, (a)->m, (a)->text_prefix,                  \
            (a)->text_suffix, (a)->ragged, (a)->causal, sg_q_block((a)->q_block)                                       \
    }

/* Block i of `tokens` has text, or is partial where that makes it fixed. */
static bool is_text_or_ragged(const rules *o, int64_t i, int64_t size, int64_t tokens, bool ragged)
{
    const int64_t end = ragged ? sg_min64((i + 1) * size, tokens) : (i + 1) * size;
    return i * size < o->text_prefix || end > tokens - o->text_suffix;
}

static bool q_fixed(const rules *o, int64_t g, int64_t i)
{
    return is_text_or_ragged(o, i, o->q_block, o->n, o->ragged) ||
           (o->theta->rank && !(sg_load(o->q_similarity, i * o->h + g) > sg_load(o->theta, g)));
}

static bool k_fixed(const rules *o, int64_t g, int64_t j)
{
    if (is_text_or_ragged(o, j, SG_BLOCK_K, o->m, false)) return true;
    if (!o->theta->rank) return false;
    const int64_t hk = o->k_similarity->dim[1];
    return !(sg_load(o->k_similarity, j * hk + g / (o->h / hk)) > sg_load(o->theta, g));
}

static bool is_visible(const rules *o, int64_t i, int64_t j) { return j < sg_visible_blocks(o->causal, i, o->n, o->m); }

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
    const int64_t per_q = a->sub ? x->rules.q_block / SG_BLOCK_SUB : 1, per_k = a->sub ? SG_BLOCK_K / SG_BLOCK_SUB : 1;
    const int64_t end = sg_min64((i + 1) * per_q, a->q.dim[0]);
    for (int64_t q = i * per_q; q < end; q++) {
        real max = -INFINITY, sum = 0;
        for (int64_t b = 0; b < means; b++) {
            if (!counts(x, g, i, b / per_k)) continue;
            p[b] = dot(x->q + (q * h + g) * d, x->k + (b * hk + gk) * d, d);
            if (p[b] > max || p[b] != p[b]) max = p[b];
        }
        for (int64_t b = 0; b < means; b++)
            if (counts(x, g, i, b / per_k)) sum += p[b] = FN(exp2)(p[b] - max);
        for (int64_t j = 0; j < a->y.dim[2]; j++) {
            real share = 0;
            for (int64_t b = j * per_k; b < sg_min64((j + 1) * per_k, means) && counts(x, g, i, j); b++) share += p[b] / sum;
            y[j] += a->k_var.rank ? share * share : share;
        }
    }
    for (int64_t j = 0; j < a->y.dim[2]; j++) {
        if (y[j] == 0) continue;
        y[j] /= (real)(end - i * per_q);
        if (a->k_var.rank) y[j] = FN(sqrt)(y[j] * channel_mean(&a->k_var, j, gk) * channel_mean(&a->v_var, j, gk));
    }
}

/* The nearest number of 11 bits, where a kernel may round so. */
static real to_11_bits(real v)
{
    int        exponent;
    const real part = FN(frexp)(v, &exponent);
    if (SG_REF_IS_TRUTH || !isfinite(v)) return v;
    return FN(ldexp)(FN(rint)(FN(ldexp)(part, 11)), exponent - 11);
}

SG_REF(score)
{
    const int64_t h = a->y.dim[0], nq = a->y.dim[1], nk = a->y.dim[2], means = a->k.dim[0];
    real *const q = widen(a->q), *const k = widen(a->k), *const p = of_threads(means + nk, sizeof *p);
    const scoring x = {a, RULES(a, h), q, k};
    const bool    ok = q && k && p;
    /* Queries are scaled first, to powers of two, as in kernels: so their products with integers are not exact. */
    for (int64_t t = 0; ok && t < sg_count(a->q); t++)
        q[t] = to_11_bits(q[t] * ((real)a->scale * (real)1.44269504088896340736));
    for (int64_t t = 0; ok && !SG_REF_IS_TRUTH && t < sg_count(a->k); t++)
        k[t] = to_11_bits(k[t] - get_or(&a->k_center, t % (a->k.dim[1] * a->k.dim[2]), 0));
#pragma omp parallel for num_threads(omp_get_max_threads()) schedule(static) if (h * nq * sg_count(a->k) > SG_REF_WORK)
    for (int64_t row = 0; row < (ok ? h * nq : 0); row++) {
        real *const own = p + omp_get_thread_num() * (means + nk), *const y = own + means;
        for (int64_t j = 0; j < nk; j++) y[j] = 0;
        if (!q_fixed(&x.rules, row / nq, row % nq)) score_row(&x, row / nq, row % nq, own, y);
        for (int64_t j = 0; j < nk; j++) put(&a->y, row * nk + j, y[j]);
    }
    free(p);
    free(q);
    free(k);
    return ok ? SG_OK : SG_E_MEMORY;
}

/* ---- select, its decisions in double in both builds ---- */

typedef struct place {
    float   score;
    int64_t at; /* in the tensor of scores */
} place;

/* From the highest score down. Of equal ones the first comes first, and NaN comes last. */
static int by_score(const void *x, const void *y)
{
    const place *const a = x, *const b = y;
    const bool lost = a->score != a->score, other_lost = b->score != b->score;
    if (lost != other_lost) return lost ? 1 : -1;
    if (!lost && a->score != b->score) return a->score > b->score ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

/* How many of nk ranked scores, at least 1, have a sum of at most `amount` times the sum of all. */
static int64_t mass_count(const place *p, int64_t nk, float amount)
{
    int64_t count = 0;
    double  all = 0, sum = 0;
    for (int64_t j = 0; j < nk; j++) all += (double)p[j].score;
    while (count < nk && (sum += (double)p[count].score) <= (double)amount * all) count++;
    return count ? count : 1;
}

/* How many of a row's blocks, the best first, the rule takes. */
static int64_t rule_count(const sg_select_args *a, int64_t row, const place *p)
{
    const int64_t nq = a->score.dim[1], nk = a->score.dim[2];
    const int64_t of = sg_visible_blocks(a->causal && !a->count_hidden, row % nq, a->n, a->m);
    const float   amount = sg_load(&a->amount, row / nq);
    return a->rule == SG_SELECT_TOPK ? sg_topk_count(amount, of) : mass_count(p, nk, amount);
}

/* Gives the rest of the budget of all heads' rows to the best blocks that are not taken. */
static void take_shared(const sg_select_args *a, place *p, bool *taken, int64_t budget)
{
    int64_t rest = 0;
    for (int64_t i = 0; i < sg_count(a->score); i++)
        if (!taken[p[i].at]) p[rest++] = p[i];
    qsort(p, (size_t)rest, sizeof *p, by_score);
    for (int64_t i = 0; i < sg_min64(budget, rest); i++) taken[p[i].at] = true;
}

/* Lists what a row keeps: what is taken and what is always kept, but nothing hidden. Returns the kept share of the
 * mass; -1: the row has none. */
static real finish_row(const sg_select_args *a, const rules *o, int64_t row, const bool *taken)
{
    const int64_t   nq = a->score.dim[1], nk = a->score.dim[2], g = row / nq, i = row % nq;
    uint16_t *const list = (uint16_t *)a->list.data + row * nk;
    const bool      all = q_fixed(o, g, i);
    const int64_t   diagonal = sg_whole_blocks(a->causal && !a->count_hidden, i, o->n, o->m);
    real            sum = 0, mass = 0;
    place           best = {NAN, 0};
    int64_t         count = 0, best_at = 0;
    for (int64_t j = 0; j < nk; j++) {
        const place here = {sg_load(&a->score, row * nk + j), j};
        const real  score = get(&a->score, row * nk + j);
        sum += score;
        if (!(taken[j] || all || j < a->sink || j >= diagonal || k_fixed(o, g, j)) || !is_visible(o, i, j)) continue;
        mass += score;
        if (count == 0 || by_score(&here, &best) < 0) {
            best = here;
            best_at = count;
        }
        list[count++] = (uint16_t)j;
    }
    memmove(list + 1, list, (size_t)best_at * sizeof *list);
    list[0] = (uint16_t)best.at; /* 0 where there is none */
    for (int64_t j = count; j < nk; j++) list[j] = 0;
    ((int32_t *)a->count.data)[row] = (int32_t)count;
    return sum == 0 ? -1 : mass / sum;
}

SG_REF(select)
{
    const int64_t h = a->score.dim[0], nq = a->score.dim[1], nk = a->score.dim[2];
    const rules   o = RULES(a, h);
    place *const  p = malloc((size_t)(h * nq * nk) * sizeof *p);
    bool *const   taken = calloc((size_t)(h * nq * nk), sizeof *taken);
    int64_t       budget = 0;
    if (!p || !taken) {
        free(p);
        free(taken);
        return SG_E_MEMORY;
    }
#pragma omp parallel for schedule(static) reduction(+ : budget)
    for (int64_t row = 0; row < h * nq; row++) {
        place *const own = p + row * nk;
        for (int64_t j = 0; j < nk; j++) own[j] = (place){sg_load(&a->score, row * nk + j), row * nk + j};
        qsort(own, (size_t)nk, sizeof *own, by_score);
        const int64_t count = rule_count(a, row, own), now = a->heads ? count / 4 : count;
        for (int64_t k = 0; k < now; k++) taken[own[k].at] = true;
        budget += count - now;
    }
    if (a->heads) take_shared(a, p, taken, budget);
    for (int64_t g = 0; g < h; g++) {
        const int32_t *const count = (const int32_t *)a->count.data + g * nq;
        int32_t              kept = 0;
        int64_t              rows = 0;
        real                 mass = 0;
        for (int64_t i = 0; i < nq; i++) {
            const real share = finish_row(a, &o, g * nq + i, taken + (g * nq + i) * nk);
            kept += count[i];
            if (share == -1) continue;
            mass += share;
            rows++;
        }
        ((int32_t *)a->kept.data)[2 * g] = kept;
        ((int32_t *)a->kept.data)[2 * g + 1] = count[nq - 1];
        put(&a->mass, g, rows ? mass / (real)rows : 1);
    }
    free(p);
    free(taken);
    return SG_OK;
}

/* ---- tail_bias ---- */

SG_REF(tail_bias)
{
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
