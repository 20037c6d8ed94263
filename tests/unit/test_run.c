/* test_run.c - a policy and its run, on the oracle: what a mask keeps is attended as arithmetic in double does it,
 * counters count. What ops compute is checkkern's matter; how they are put together is here. */
#include "block_lists.h"
#include "host_memory.h"
#include "meta.h"
#include "run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LAYERS = 3, STEPS = 5, PASSES = 2, MOST = 1280 };

/* One attention's inputs and what comes of it. */
typedef struct bench {
    sg_attention_shape shape;
    sg_policy          policy;
    sg_attention      *a;
    sg_stream          s;
    float             *q, *k, *v, *y;
    block_lists        lists; /* as tapped */
    float             *tail_bias;
    int64_t            nq, nk;
    bool               quantised;
} bench;

static float gauss(uint64_t *seed)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*seed >> 40) * 0x1p-24f - 0.5f;
    }
    return sum * 1.7320508f;
}

/* Rows that drift: neighbours are similar, far ones are not, and all have something in common. */
static float *rows(int64_t n, int64_t h, int64_t d, float common, uint64_t seed)
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

static void take_tap(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    bench *const b = context;
    (void)s;
    sg_tensor *const own = strstr(name, ".list") ? &b->lists.list : strstr(name, ".count") ? &b->lists.count : NULL;
    if (!own) return;
    free(own->data);
    *own = t;
    own->data = malloc(sg_bytes(t));
    assert_non_null(own->data);
    memcpy(own->data, t.data, sg_bytes(t));
}

static bench make(int64_t n, int64_t h, int64_t hk, int64_t d, sg_policy p)
{
    bench b = {
        .shape =
            {.n = n, .h = h, .hk = hk, .d = d, .layers = LAYERS, .steps = STEPS, .passes = PASSES, .values = SG_BF16},
        .policy = p,
        .nq = (n + SG_BLOCK_Q - 1) / SG_BLOCK_Q,
        .nk = (n + SG_BLOCK_K - 1) / SG_BLOCK_K};
    b.policy.named = true;
    b.policy.dense_steps = 0;
    b.q = rows(n, h, d, 0.3f, 1);
    b.k = rows(n, hk, d, 2, 2);
    b.v = rows(n, hk, d, 1, 3);
    b.y = calloc((size_t)(n * h * d), sizeof *b.y);
    assert_non_null(b.y);
    return b;
}

static sg_attend_args arguments(const bench *b)
{
    const sg_attention_shape *const x = &b->shape;
    return (sg_attend_args){.y = {b->y, SG_F32, 3, {x->n, x->h, x->d}},
                            .q = {b->q, SG_F32, 3, {x->n, x->h, x->d}},
                            .k = {b->k, SG_F32, 3, {x->n, x->hk, x->d}},
                            .v = {b->v, SG_F32, 3, {x->n, x->hk, x->d}},
                            .scale = 1 / sqrtf((float)x->d)};
}

/* Binds the policy and gives the stream exactly what a plan asks for. */
static void bind(bench *b)
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

static void run_at(bench *b, int layer, int step, int pass, double timestep)
{
    const sg_attend_args args = arguments(b);
    sg_attention_run(b->a, &b->s, layer, step, pass, timestep, &args);
    if (b->s.status) fail_msg("%s", b->s.why);
}

static sg_attention_count count_of(const bench *b, int layer, int step, int pass)
{
    sg_attention_count *const all = calloc(PASSES * LAYERS, sizeof *all);
    sg_stream                 s = b->s;
    assert_non_null(all);
    assert_int_equal(sg_attention_counts(b->a, &s, step, all), SG_OK);
    const sg_attention_count one = all[pass * LAYERS + layer];
    free(all);
    return one;
}

static void finish(bench *b)
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

static bool kept(const bench *b, int64_t head, int64_t i, int64_t j)
{
    return !b->lists.list.data || is_listed(&b->lists, head * b->nq + i, j);
}

/* ---- the same in double ---- */

static void means(const float *x, int64_t n, int64_t width, int64_t at, int64_t d, int64_t first, int64_t count,
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

static double dot(const double *a, const float *b, int64_t d)
{
    double sum = 0;
    for (int64_t c = 0; c < d; c++) sum += a[c] * (double)b[c];
    return sum;
}

/* What is added to the logit of the mean of block j of keys for block i of queries. */
static double tail_bias(const bench *b, int64_t head, int64_t i, const double *k_var)
{
    const int64_t d = b->shape.d, first = i * SG_BLOCK_Q;
    const int64_t count = b->shape.n - first < SG_BLOCK_Q ? b->shape.n - first : SG_BLOCK_Q;
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
static void attend_row(const bench *b, int64_t head, int64_t r, double *out)
{
    const int64_t n = b->shape.n, h = b->shape.h, hk = b->shape.hk, d = b->shape.d, of = head / (h / hk);
    const int64_t i = r / SG_BLOCK_Q, end = b->policy.causal ? r + 1 : n;
    const int64_t row_end = (i + 1) * SG_BLOCK_Q < n ? (i + 1) * SG_BLOCK_Q : n;
    const float  *q = b->q + (r * h + head) * d;
    double        weight = 0, most = -INFINITY;
    static double logit[MOST + MOST / SG_BLOCK_K], value[MOST + MOST / SG_BLOCK_K][128];
    int64_t       terms = 0;
    for (int64_t j = 0; j < b->nk; j++) {
        const int64_t first = j * SG_BLOCK_K, last = first + SG_BLOCK_K < n ? first + SG_BLOCK_K : n;
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
                   (!b->policy.causal || last <= row_end - SG_BLOCK_Q + 1)) {
            double mean[128], var[128];
            means(b->k, n, hk * d, of * d, d, first, SG_BLOCK_K, mean, var);
            means(b->v, n, hk * d, of * d, d, first, SG_BLOCK_K, value[terms], NULL);
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
static double error_of(const bench *b)
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
static int64_t popcount(const bench *b)
{
    int64_t sum = 0;
    for (int64_t head = 0; head < b->shape.h; head++)
        for (int64_t i = 0; i < b->nq; i++)
            for (int64_t j = 0; j < b->nk; j++) sum += kept(b, head, i, j);
    return sum;
}

/* ---- tests ---- */

static const sg_policy plain = {.kind = SG_ATTENTION_SPARGE, .rule = SG_SELECT_TOPK, .amount = 0.3f, .theta = -1};

/* Attends, compares with double, and checks the counters against the mask. */
static double check(bench *b, const char *what, double limit)
{
    bind(b);
    run_at(b, 1, 2, 1, 500);
    const double             error = error_of(b);
    const sg_attention_count c = count_of(b, 1, 2, 1), none = count_of(b, 0, 2, 1);
    if (!(error < limit)) fail_msg("%s, %lld tokens: error %.2e", what, (long long)b->shape.n, error);
    assert_int_equal(c.kind, b->policy.kind);
    assert_int_equal(c.why, SG_WHY_POLICY);
    assert_int_equal(none.blocks, 0);
    if (c.kind == SG_ATTENTION_SPARGE) assert_int_equal(c.kept, popcount(b));
    const double density = (double)c.kept / (double)c.blocks;
    assert_true(c.mass >= 0 && c.mass <= 1.000001);
    finish(b);
    return density;
}

static void quantised_is_near_exact(void **state)
{
    (void)state;
    for (int64_t n = 1024; n <= 1216; n += 96)
        for (int way = 0; way < 3; way++) { /* values as BF16, INT8 and FP8 */
            bench b = make(n, 2, 2, 16, (sg_policy){.kind = SG_ATTENTION_SAGE});
            if (way == 1) b.shape.values = SG_I8;
            b.shape.f8 = true;
            if (way == 2) b.policy.pv_dtype = SG_PV_FP8;
            assert_true(check(&b, "sage", way ? 0.02 : 0.015) == 1);
        }
}

static void policies_are_followed(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        sg_policy   p;           /* put over `plain` */
        double      least, most; /* density */
    } want[] = {
        {"mean", {.amount = 0.3f}, 0.25, 0.4},
        {"sub16", {.amount = 0.3f, .score = SG_SCORE_SUB16}, 0.25, 0.4},
        {"error", {.amount = 0.3f, .score = SG_SCORE_ERROR}, 0.25, 0.4},
        {"heads", {.amount = 0.3f, .score = SG_SCORE_ERROR, .heads = true}, 0.25, 0.45},
        {"tail", {.amount = 0.3f, .score = SG_SCORE_ERROR, .tail = true}, 0.25, 0.4},
        {"half", {.amount = 0.3f, .tail = true, .tail_bias = SG_TAIL_BIAS_HALF}, 0.25, 0.4},
        {"rank1", {.amount = 0.1f, .tail = true, .tail_bias = SG_TAIL_BIAS_RANK1}, 0.05, 0.25},
        {"mass", {.amount = 0.5f, .rule = SG_SELECT_MASS}, 0.03, 0.6},
        {"judged", {.amount = 0.1f, .theta = 0.5f}, 0.1, 1},
        {"sink", {.amount = 0.1f, .sink = 3}, 0.15, 0.4},
        {"causal", {.amount = 0.3f, .causal = true, .tail = true}, 0.2, 0.9},
    };
    for (int i = 0; i < (int)(sizeof want / sizeof *want); i++)
        for (int k = 0; k < 3; k++) {
            const int64_t n = 1088 + 96 * k;
            const int     way = (i + k) % 3; /* grouped heads and FP8 values, INT8 values, neither */
            bench         b = make(n, way == 2 ? 4 : 2, 2, 8, want[i].p);
            b.shape.f8 = true;
            if (way == 2) b.policy.pv_dtype = SG_PV_FP8;
            b.policy.kind = SG_ATTENTION_SPARGE;
            if (b.policy.theta == 0) b.policy.theta = -1;
            if (way == 1) b.shape.values = SG_I8;
            const double density = check(&b, want[i].what, 0.03);
            if (density < want[i].least || density > want[i].most)
                fail_msg("%s, %lld tokens: density %.3f", want[i].what, (long long)n, density);
        }
}

static void text_is_dense(void **state)
{
    (void)state;
    bench b = make(1280, 2, 2, 16, plain);
    b.shape.text_prefix = 70;
    b.shape.text_suffix = 1;
    bind(&b);
    run_at(&b, 0, 0, 0, 0);
    for (int64_t i = 0; i < b.nq; i++)
        for (int64_t j = 0; j < b.nk; j++)
            if (i == 0 || i == b.nq - 1 || j < 2 || j == b.nk - 1) assert_true(kept(&b, 1, i, j));
    assert_true(error_of(&b) < 0.03);
    finish(&b);
}

static void masks_are_followed(void **state)
{
    (void)state;
    for (int64_t heads = 1; heads <= 2; heads++) {
        bench          b = make(1100, 2, 2, 16, plain);
        uint8_t *const mask = calloc((size_t)(heads * b.nq * b.nk), 1);
        assert_non_null(mask);
        for (int64_t i = 0; i < heads * b.nq * b.nk; i++) mask[i] = i % 5 == 1 || i % 7 == 3 ? 200 : 0;
        b.policy.rule = SG_SELECT_GIVEN;
        b.policy.mask = (sg_tensor){mask, SG_U8, 3, {heads, b.nq, b.nk}};
        b.policy.pv_threshold = 3;
        bind(&b);
        run_at(&b, 2, 4, 0, 0);
        int64_t groups = 0;
        for (int64_t head = 0; head < 2; head++)
            for (int64_t i = 0; i < b.nq; i++)
                for (int64_t j = 0; j < b.nk; j++) {
                    const bool want = mask[((heads > 1 ? head : 0) * b.nq + i) * b.nk + j] != 0;
                    assert_int_equal(kept(&b, head, i, j), want);
                    groups += want * (i < b.nq - 1 ? 4 : (1100 % 128 + 31) / 32);
                }
        const sg_attention_count c = count_of(&b, 2, 4, 0);
        assert_int_equal(c.kept, popcount(&b));
        assert_int_equal(c.blocks, 2 * b.nq * b.nk);
        assert_int_equal(c.groups, groups);
        assert_true(c.skipped >= 0 && c.skipped < groups && c.skipped_mass >= 0 && c.skipped_mass < 0.5);
        finish(&b);
        free(mask);
    }
}

/* A last block of queries that is not full is chosen for like any other, but by the means of whole blocks. */
static void ends_are_ragged(void **state)
{
    (void)state;
    for (int score = SG_SCORE_MEAN; score <= SG_SCORE_ERROR; score++) {
        bench b = make(1100, 2, 2, 16, plain);
        b.policy.score = (sg_score_kind)score;
        b.policy.pv_threshold = 30;
        bind(&b);
        run_at(&b, 0, 0, 0, 0);
        int64_t at_last = 0;
        for (int64_t head = 0; head < 2; head++)
            for (int64_t j = 0; j < b.nk; j++) at_last += kept(&b, head, b.nq - 1, j);
        if (score == SG_SCORE_MEAN)
            assert_int_equal(at_last, 2 * b.nk);
        else
            assert_true(at_last <= 2 * (b.nk * 3 / 10 + 1));
        const sg_attention_count c = count_of(&b, 0, 0, 0);
        assert_int_equal(c.groups, 4 * (popcount(&b) - at_last) + 3 * at_last); /* 76 rows */
        assert_true(error_of(&b) < 0.03);
        finish(&b);
    }
}

/* Nothing is skipped when everything is wanted: the bits of sage. */
static void all_is_sage(void **state)
{
    (void)state;
    for (int64_t n = 1024; n <= 1088; n += 64)
        for (int way = 0; way < 8; way++) {
            bench sage = make(n + way % 3, 2, 1, 8, (sg_policy){.kind = SG_ATTENTION_SAGE}),
                  b = make(n + way % 3, 2, 1, 8, plain);
            sage.shape.values = b.shape.values = way & 1 ? SG_I8 : SG_BF16;
            b.policy.amount = 1;
            b.policy.rule = way & 2 ? SG_SELECT_MASS : SG_SELECT_TOPK;
            b.policy.tail = way & 4;
            b.policy.score = way & 4 ? SG_SCORE_ERROR : SG_SCORE_MEAN;
            bind(&sage);
            bind(&b);
            run_at(&sage, 0, 0, 0, 0);
            run_at(&b, 0, 0, 0, 0);
            assert_memory_equal(sage.y, b.y, (size_t)(n * 2 * 8) * sizeof *b.y);
            const sg_attention_count c = count_of(&b, 0, 0, 0);
            assert_int_equal(c.kept, c.blocks);
            finish(&sage);
            finish(&b);
        }
}

static void dense_is_exact(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        bench b = make(300, 4, way & 1 ? 2 : 4, 16, (sg_policy){.kind = SG_ATTENTION_DENSE, .causal = way & 2});
        bind(&b);
        run_at(&b, 0, 0, 0, 0);
        assert_true(error_of(&b) < 2e-6);
        const sg_attention_count c = count_of(&b, 0, 0, 0);
        assert_int_equal(c.kept, c.blocks);
        assert_int_equal(c.blocks, 4 * (way & 2 ? 2 + 4 + 5 : 15));
        finish(&b);
    }
}

static void order_does_not_matter_to_dense(void **state)
{
    (void)state;
    enum { N = 4 * 15 * 20, WIDTH = 2 * 16 };
    bench   a = make(N, 2, 2, 16, (sg_policy){.kind = SG_ATTENTION_DENSE}), b = make(N, 2, 2, 16, a.policy);
    int32_t at[N];
    assert_int_equal(sg_order_make(at, SG_ORDER_HILBERT, 4, 15, 20), SG_OK);
    for (int64_t i = 0; i < N; i++) {
        memcpy(b.q + i * WIDTH, a.q + at[i] * WIDTH, WIDTH * sizeof *b.q);
        memcpy(b.k + i * WIDTH, a.k + at[i] * WIDTH, WIDTH * sizeof *b.k);
        memcpy(b.v + i * WIDTH, a.v + at[i] * WIDTH, WIDTH * sizeof *b.v);
    }
    bind(&a);
    bind(&b);
    run_at(&a, 0, 0, 0, 0);
    run_at(&b, 0, 0, 0, 0);
    for (int64_t i = 0; i < N; i++)
        for (int c = 0; c < WIDTH; c++) assert_float_equal(b.y[i * WIDTH + c], a.y[at[i] * WIDTH + c], 1e-5);
    finish(&a);
    finish(&b);
}

/* Where the ops of a step find what it asks of the device. */
static struct asked {
    int         count;
    const void *at[64];
} asked;

static void note(const void *at)
{
    assert_true(asked.count < 64);
    asked.at[asked.count++] = at;
}

static sg_status note_select(sg_stream *s, const sg_select_args *a)
{
    note(a->amount.data);
    note(a->theta.data);
    return sg_ref_ops.select(s, a);
}

static sg_status note_attend(sg_stream *s, const sg_attend_blocks_args *a)
{
    note(a->pv_threshold.data);
    note(a->list.data);
    return sg_ref_ops.attend_blocks(s, a);
}

static sg_status note_upload(sg_stream *s, void *to, const void *from, size_t bytes)
{
    note(to);
    return host_memory.upload(s, to, from, bytes);
}

/* Thresholds of bucket, layer and head come to the op: amounts differ by all three. Steps of other buckets are still the
 * same step to a device, which can replay it: thresholds have one place, and nothing is uploaded within. */
static void tuned_thresholds_are_taken(void **state)
{
    (void)state;
    enum { BUCKETS = 2, HEADS = 2, SIZE = BUCKETS * LAYERS * HEADS };
    float from[BUCKETS] = {600, 0}, amount[SIZE], theta[SIZE], pv_threshold[SIZE];
    for (int i = 0; i < SIZE; i++) {
        amount[i] = 0.0625f * (float)(i + 1);
        theta[i] = -1;
        pv_threshold[i] = i % (LAYERS * HEADS) == 3 ? 2 : 0;
    }
    const sg_thresholds tuned = {.buckets = BUCKETS,
                                 .layers = LAYERS,
                                 .heads = HEADS,
                                 .rule = SG_SELECT_TOPK,
                                 .from = from,
                                 .amount = amount,
                                 .theta = theta,
                                 .pv_threshold = pv_threshold};
    bench               b = make(1024, HEADS, HEADS, 16, plain);
    sg_ops              ops = sg_ref_ops;
    sg_memory           memory = host_memory;
    struct asked        first = {0};
    ops.select = note_select;
    ops.attend_blocks = note_attend;
    memory.upload = note_upload;
    b.policy.rule = SG_SELECT_MASS; /* tuned says otherwise */
    b.policy.tuned = &tuned;
    bind(&b);
    b.s.ops = &ops;
    b.s.memory = &memory;
    for (int step = 0; step < 4; step++) {
        const int bucket = step % 2, timestep = bucket ? 599 : 600;
        if (step < 3) sg_attention_set_timestep(b.a, &b.s, timestep); /* the last one finds them without */
        asked = (struct asked){0};
        for (int layer = 0; layer < LAYERS; layer++) {
            run_at(&b, layer, step, 0, timestep);
            const sg_attention_count c = count_of(&b, layer, step, 0);
            const int                row = (bucket * LAYERS + layer) * HEADS;
            assert_int_equal(c.kept, 8 * (row + 1 + row + 2));
            assert_int_equal(c.groups, layer == 1 ? 8 * (row + 2) * 4 : 0);
            assert_int_equal(c.skipped > 0, layer == 1);
        }
        if (step == 1 || step == 2) assert_memory_equal(&asked, &first, sizeof asked);
        assert_int_equal(asked.count, 4 * LAYERS + (step == 3 ? 3 : 0));
        if (step == 0) first = asked;
    }
    finish(&b);
}

static int seen;

static void look(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                 double timestep, const sg_attend_args *args)
{
    (void)s;
    assert_ptr_equal(context, &seen);
    assert_int_equal(shape->n, args->q.dim[0]);
    seen = 1000 * layer + 100 * step + 10 * pass + (int)timestep;
}

static void callers_may_look(void **state)
{
    (void)state;
    bench b = make(200, 1, 1, 16, (sg_policy){.kind = SG_ATTENTION_DENSE, .on_begin = look, .on_begin_context = &seen});
    bind(&b);
    assert_int_equal(seen, 0); /* not on a plan */
    run_at(&b, 2, 3, 1, 7);
    assert_int_equal(seen, 2317);
    finish(&b);
    for (int kind = SG_ATTENTION_DENSE; kind <= SG_ATTENTION_SAGE; kind++) {
        const bool quantised = kind == SG_ATTENTION_SAGE;
        b = make(
            1024, 1, 1, 16,
            (sg_policy){.kind = (sg_attention_kind)kind, .on_end = look, .on_end_context = &seen, .dense_layers = "1"});
        seen = 0;
        bind(&b);
        assert_int_equal(seen, quantised ? 2900 : 0); /* on a plan */
        run_at(&b, 2, 3, 1, 7);
        run_at(&b, 1, 3, 1, 7);
        assert_int_equal(seen, quantised ? 2317 : 0);
        finish(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dense_is_exact),
                                       cmocka_unit_test(quantised_is_near_exact),
                                       cmocka_unit_test(policies_are_followed),
                                       cmocka_unit_test(text_is_dense),
                                       cmocka_unit_test(masks_are_followed),
                                       cmocka_unit_test(ends_are_ragged),
                                       cmocka_unit_test(all_is_sage),
                                       cmocka_unit_test(order_does_not_matter_to_dense),
                                       cmocka_unit_test(tuned_thresholds_are_taken),
                                       cmocka_unit_test(callers_may_look)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
