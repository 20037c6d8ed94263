/* run_fixture.h - a policy and its run, on the oracle, and the same by arithmetic in double from the lists of blocks that
 * the run kept. */
#ifndef SG_RUN_FIXTURE_H
#define SG_RUN_FIXTURE_H

#include "block_lists.h"
#include "host_memory.h"
#include "meta.h"
#include "run.h"
#include "unit.h"

enum { LAYERS = 3, STEPS = 5, PASSES = 2, MOST = 1600 }; /* tokens at most */

/* One attention's inputs and what comes of it. */
typedef struct bench {
    sg_attention_shape shape;
    sg_policy          policy;
    sg_attention      *a;
    sg_stream          s;
    float             *q, *k, *v, *y;
    block_lists        lists; /* as tapped */
    float             *tail_bias;
    int64_t            q_block, nq, nk;
    bool               quantised;
} bench;

static inline float gauss(uint64_t *seed)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*seed >> 40) * 0x1p-24f - 0.5f;
    }
    return sum * 1.7320508f;
}

/* Rows that drift: neighbours are similar, far ones are not, and all have something in common. */
static inline float *rows(int64_t n, int64_t h, int64_t d, float common, uint64_t seed)
{
    float *const x = calloc((size_t)(n * h * d), sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < h * d; i++) {
        const float mean = common * gauss(&seed);
        float       at = gauss(&seed);
        for (int64_t r = 0; r < n; r++) {
            at = 0.97f * at + 0.24f * gauss(&seed);
            x[r * h * d + i] = mean + 1.6f * at + 0.4f * gauss(&seed);
        }
    }
    return x;
}

static inline void take_tap(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    bench *const     b = context;
    sg_tensor *const own = strstr(name, ".list") ? &b->lists.list : strstr(name, ".count") ? &b->lists.count : NULL;
    if (!own) return;
    free(own->data);
    *own = t;
    own->data = malloc(sg_bytes(t));
    assert_non_null(own->data);
    memcpy(own->data, t.data, sg_bytes(t));
}

/* Of n queries and m keys. */
static inline bench make_sized(int64_t n, int64_t m, int64_t h, int64_t hk, int64_t d, sg_policy p)
{
    bench b = {.shape = {.n = n,
                         .m = m,
                         .h = h,
                         .hk = hk,
                         .d = d,
                         .layers = LAYERS,
                         .steps = STEPS,
                         .passes = PASSES,
                         .values = SG_BF16},
               .policy = p,
               .q_block = SG_BLOCK_Q,
               .nq = (n + SG_BLOCK_Q - 1) / SG_BLOCK_Q,
               .nk = (m + SG_BLOCK_K - 1) / SG_BLOCK_K};
    assert_true(m <= MOST);
    b.policy.named = true;
    b.policy.dense_steps = 0;
    b.q = rows(n, h, d, 0.3f, 1);
    b.k = rows(m, hk, d, 2, 2);
    b.v = rows(m, hk, d, 1, 3);
    b.y = calloc((size_t)(n * h * d), sizeof *b.y);
    assert_non_null(b.y);
    return b;
}

static inline bench make(int64_t n, int64_t h, int64_t hk, int64_t d, sg_policy p)
{
    bench b = make_sized(n, n, h, hk, d, p);
    b.shape.m = 0;
    return b;
}

/* As part of a long sequence on a backend that attends faster with FP8 values, by blocks of SG_BLOCK_Q_F8 queries. */
static inline void take_f8(bench *b)
{
    b->shape.f8 = SG_F8_FAST;
    b->shape.whole = SG_LONGER_TOKENS;
    b->q_block = SG_BLOCK_Q_F8;
    b->nq = (b->shape.n + SG_BLOCK_Q_F8 - 1) / SG_BLOCK_Q_F8;
}

/* Causal, the last n of m tokens. */
static inline bench make_causal(int64_t n, int64_t m, int64_t h, int64_t hk, int64_t d, sg_policy p)
{
    bench b = make_sized(n, m, h, hk, d, p);
    b.shape.causal = true;
    b.shape.whole = m;
    return b;
}

static inline int64_t keys_of(const bench *b) { return b->shape.m ? b->shape.m : b->shape.n; }

static inline sg_attend_args arguments(const bench *b)
{
    const sg_attention_shape *const x = &b->shape;
    return (sg_attend_args){.y = {b->y, SG_F32, 3, {x->n, x->h, x->d}},
                            .q = {b->q, SG_F32, 3, {x->n, x->h, x->d}},
                            .k = {b->k, SG_F32, 3, {keys_of(b), x->hk, x->d}},
                            .v = {b->v, SG_F32, 3, {keys_of(b), x->hk, x->d}},
                            .scale = 1 / sqrtf((float)x->d)};
}

/* Binds the policy and gives the stream exactly what a plan asks for. */
static inline void bind(bench *b)
{
    sg_error             e = {0};
    sg_plan_totals       totals = {0};
    sg_stream            plan = sg_plan_stream(&totals);
    const sg_attend_args args = arguments(b);
    if (sg_attention_open(&b->a, &b->policy, &b->shape, &e)) fail_msg("%s", e.text);
    sg_attention_upload(b->a, &plan);
    for (int step = 0; step < STEPS; step++)
        for (int layer = 0; layer < LAYERS; layer++) sg_attention_run(b->a, &plan, layer, step, 0, 500, &args);
    if (plan.status) fail_msg("%s", plan.why);
    assert_true(plan.scratch.used == 0);
    const size_t keep = (plan.keep.peak + SG_ALIGN) / SG_ALIGN * SG_ALIGN, scratch = plan.scratch.peak;
    char *const  buffer = host_alloc(NULL, keep + scratch + SG_ALIGN);
    assert_non_null(buffer);
    b->s = (sg_stream){.ops = &sg_ref_ops,
                       .memory = &host_memory,
                       .keep = {.base = (uintptr_t)buffer, .cap = keep},
                       .scratch = {.base = (uintptr_t)buffer + keep, .cap = scratch},
                       .tap = take_tap,
                       .tap_context = b};
    sg_attention_upload(b->a, &b->s);
}

static inline void run_at(bench *b, int layer, int step, int pass, double timestep)
{
    const sg_attend_args args = arguments(b);
    sg_attention_run(b->a, &b->s, layer, step, pass, timestep, &args);
    if (b->s.status) fail_msg("%s", b->s.why);
}

static inline sg_attention_count count_of(const bench *b, int layer, int step, int pass)
{
    sg_attention_count *const all = calloc(PASSES * LAYERS, sizeof *all);
    sg_stream                 s = b->s;
    assert_non_null(all);
    assert_int_equal(sg_attention_counts(b->a, &s, step, all), SG_OK);
    const sg_attention_count one = all[pass * LAYERS + layer];
    free(all);
    return one;
}

static inline void finish(bench *b)
{
    sg_attention_close(&b->a);
    free((void *)b->s.keep.base);
    free(b->q);
    free(b->k);
    free(b->v);
    free(b->y);
    free(b->lists.list.data);
    free(b->lists.count.data);
}

static inline bool kept(const bench *b, int64_t head, int64_t i, int64_t j)
{
    return !b->lists.list.data || is_listed(&b->lists, head * b->nq + i, j);
}

/* ---- the same in double ---- */

static inline void means(const float *x, int64_t n, int64_t width, int64_t at, int64_t d, int64_t first, int64_t count,
                         double *mean, double *var)
{
    for (int64_t c = 0; c < d; c++) {
        double sum = 0, squares = 0;
        for (int64_t r = first; r < first + count && r < n; r++) {
            const double v = x[r * width + at + c];
            sum += v;
            squares += v * v;
        }
        mean[c] = sum / (double)count;
        if (var) var[c] = squares / (double)count - mean[c] * mean[c];
    }
}

static inline double dot(const double *a, const float *b, int64_t d)
{
    double sum = 0;
    for (int64_t c = 0; c < d; c++) sum += a[c] * (double)b[c];
    return sum;
}

/* What is added to the logit of the mean of block j of keys for block i of queries. */
static inline double tail_bias(const bench *b, int64_t head, int64_t i, const double *k_var)
{
    const int64_t d = b->shape.d, first = i * b->q_block;
    const int64_t count = b->shape.n - first < b->q_block ? b->shape.n - first : b->q_block;
    double        mean[128], var[128], by_channel = 0, e = 0, k = 0;
    if (b->policy.tail_bias == SG_TAIL_BIAS_NONE) return log(64);
    means(b->q, b->shape.n, b->shape.h * d, head * d, d, first, count, mean, var);
    for (int64_t c = 0; c < d; c++) {
        by_channel += (var[c] + mean[c] * mean[c]) * k_var[c];
        e += var[c] + mean[c] * mean[c];
        k += k_var[c] / (double)d;
    }
    const double scale2 = 1 / (double)d;
    return log(64) + fmin(3, b->policy.tail_bias == SG_TAIL_BIAS_HALF ? scale2 / 4 * by_channel : scale2 / 2 * e * k);
}

/* Row r of one head of y, from the keys that the mask keeps, and the means of others. */
static inline void attend_row(const bench *b, int64_t head, int64_t r, double *out)
{
    const int64_t h = b->shape.h, hk = b->shape.hk, d = b->shape.d, of = head / (h / hk), m = keys_of(b);
    const int64_t i = r / b->q_block, behind = m - b->shape.n, end = b->shape.causal ? r + behind + 1 : m;
    const float  *q = b->q + (r * h + head) * d;
    double        weight = 0, most = -INFINITY;
    static double logit[MOST + MOST / SG_BLOCK_K], value[MOST + MOST / SG_BLOCK_K][128];
    int64_t       terms = 0;
    for (int64_t j = 0; j < b->nk; j++) {
        const int64_t first = j * SG_BLOCK_K, last = first + SG_BLOCK_K < m ? first + SG_BLOCK_K : m;
        if (kept(b, head, i, j)) {
            for (int64_t t = first; t < last && t < end; t++, terms++) {
                const float *const k = b->k + (t * hk + of) * d;
                logit[terms] = 0;
                for (int64_t c = 0; c < d; c++) {
                    logit[terms] += (double)q[c] * (double)k[c];
                    value[terms][c] = (double)b->v[(t * hk + of) * d + c];
                }
                logit[terms] /= sqrt((double)d);
            }
        } else if (b->policy.tail && last - first == SG_BLOCK_K &&
                   (!b->shape.causal || last <= i * b->q_block + behind + 1)) {
            double mean[128], var[128];
            means(b->k, m, hk * d, of * d, d, first, SG_BLOCK_K, mean, var);
            means(b->v, m, hk * d, of * d, d, first, SG_BLOCK_K, value[terms], NULL);
            logit[terms++] = dot(mean, q, d) / sqrt((double)d) + tail_bias(b, head, i, var);
        }
    }
    for (int64_t t = 0; t < terms; t++) most = fmax(most, logit[t]);
    memset(out, 0, (size_t)d * sizeof *out);
    for (int64_t t = 0; t < terms; t++) {
        const double w = exp(logit[t] - most);
        weight += w;
        for (int64_t c = 0; c < d; c++) out[c] += w * value[t][c];
    }
    for (int64_t c = 0; c < d && weight > 0; c++) out[c] /= weight;
}

/* Relative distance of y from that. */
static inline double error_of(const bench *b)
{
    const int64_t h = b->shape.h, d = b->shape.d;
    double        far = 0, size = 0, want[128];
    for (int64_t r = 0; r < b->shape.n; r += 7)
        for (int64_t head = 0; head < h; head++) {
            attend_row(b, head, r, want);
            for (int64_t c = 0; c < d; c++) {
                const double got = b->y[(r * h + head) * d + c];
                far += (got - want[c]) * (got - want[c]);
                size += want[c] * want[c];
            }
        }
    return sqrt(far / size);
}

/* Blocks that the mask keeps and queries see. */
static inline int64_t popcount(const bench *b)
{
    int64_t sum = 0;
    for (int64_t head = 0; head < b->shape.h; head++)
        for (int64_t i = 0; i < b->nq; i++)
            for (int64_t j = 0; j < b->nk; j++) sum += kept(b, head, i, j);
    return sum;
}

static const sg_policy plain = {.kind = SG_ATTENTION_SPARGE, .rule = SG_SELECT_TOPK, .amount = 0.3f, .similarity = -1};

#endif
