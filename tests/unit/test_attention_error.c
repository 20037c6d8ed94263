/* test_attention_error.c - errors of attention against the same sums in double. */
#include "attention_error.h"
#include "host_memory.h"
#include "meta.h"
#include "unit.h"

enum { LAYERS = 3, STEPS = 4, HEADS = 4, KEY_HEADS = 2, DIM = 16, WIDTH = HEADS * DIM, KEY_WIDTH = KEY_HEADS * DIM };

/* One attention: inputs, dense attention in double, and an output to be judged. */
typedef struct bench {
    sg_attention_shape shape;
    sg_attend_args     args;
    sg_stream          s;
    double            *dense; /* [n, h, d] */
    float             *y;
} bench;

static sg_tensor noise(int64_t n, int64_t h, uint64_t seed)
{
    const sg_tensor t = {host_alloc(NULL, (size_t)(n * h * DIM) * sizeof(float)), SG_F32, 3, {n, h, DIM}};
    assert_non_null(t.data);
    for (int64_t i = 0; i < sg_count(t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ((float *)t.data)[i] = (float)(seed >> 40) * 0x1p-22f - 2;
    }
    return t;
}

/* To the first so many keys. */
static void attend_row(const bench *b, int64_t keys, int64_t row, int64_t head, double *y)
{
    const float *const q = (const float *)b->args.q.data + row * WIDTH + head * DIM;
    const float *const k = (const float *)b->args.k.data + head / (HEADS / KEY_HEADS) * DIM;
    const float *const v = (const float *)b->args.v.data + head / (HEADS / KEY_HEADS) * DIM;
    double             sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        double logit = 0;
        for (int c = 0; c < DIM; c++) logit += (double)q[c] * (double)k[j * KEY_WIDTH + c];
        const double w = exp(logit * (double)b->args.scale);
        sum += w;
        for (int c = 0; c < DIM; c++) y[c] += w * (double)v[j * KEY_WIDTH + c];
    }
    for (int c = 0; c < DIM; c++) y[c] /= sum;
}

/* Of n queries and m keys, with the scratch memory that a plan asks for, and no more. */
static bench make_sized(int64_t n, int64_t m, bool causal, uint64_t seed)
{
    bench              b = {.shape = {.n = n,
                                      .m = m,
                                      .h = HEADS,
                                      .hk = KEY_HEADS,
                                      .d = DIM,
                                      .layers = LAYERS,
                                      .steps = STEPS,
                                      .passes = 2,
                                      .causal = causal},
                            .args = {.y = noise(n, HEADS, seed),
                                     .q = noise(n, HEADS, seed + 1),
                                     .k = noise(m, KEY_HEADS, seed + 2),
                                     .v = noise(m, KEY_HEADS, seed + 3),
                                     .scale = 0.25f},
                            .dense = calloc((size_t)(n * WIDTH), sizeof(double))};
    sg_attention_error none = {0};
    sg_plan_totals     totals = {0};
    sg_stream          plan = sg_plan_stream(&totals);
    assert_non_null(b.dense);
    b.y = b.args.y.data;
    for (int64_t i = 0; i < n * HEADS; i++)
        attend_row(&b, causal ? i / HEADS + m - n + 1 : m, i / HEADS, i % HEADS, b.dense + i * DIM);
    sg_attention_error_hook(&none, &plan, &b.shape, 0, 0, 0, 500, &b.args);
    assert_null(none.sum);
    assert_true(plan.scratch.used == 0);
    b.s = (sg_stream){.ops = &sg_ref_ops,
                      .memory = &host_memory,
                      .scratch = {.base = (uintptr_t)host_alloc(NULL, plan.scratch.peak), .cap = plan.scratch.peak}};
    return b;
}

static bench make(int64_t n, uint64_t seed) { return make_sized(n, n, false, seed); }

static void finish(bench *b)
{
    free(b->args.y.data);
    free(b->args.q.data);
    free(b->args.k.data);
    free(b->args.v.data);
    free(b->dense);
    free((void *)b->s.scratch.base);
}

static void add_all(const bench *b, double sum[2])
{
    for (int64_t i = 0; i < b->shape.n * WIDTH; i++) {
        sum[0] += fabs((double)b->y[i] - b->dense[i]);
        sum[1] += fabs(b->dense[i]);
    }
}

static void see(bench *b, sg_attention_error *e, int layer, int step, int pass)
{
    sg_attention_error_hook(e, &b->s, &b->shape, layer, step, pass, 500, &b->args);
    if (b->s.status) fail_msg("%s", b->s.why);
    assert_true(b->s.scratch.used == 0);
}

static void near(double a, double b, double most)
{
    if (!(fabs(a / b - 1) <= most)) fail_msg("%.9g is not %.9g", a, b);
}

/* The relative L1 of a layer of a step, or for -1 of all; both passes count as two of one, or as groups of one. */
static double error_of(const sg_attention_error *e, int step, int layer, int passes)
{
    double difference = 0, dense = 0;
    for (int i = step < 0 ? 0 : step; i < (step < 0 ? STEPS : step + 1); i++) {
        sg_attention_count count[2 * LAYERS] = {0};
        sg_attention_error_add(e, i, passes, count);
        for (int k = 0; k < passes * LAYERS; k++) {
            if (layer >= 0 && k % LAYERS != layer) continue;
            difference += count[k].difference;
            dense += count[k].dense;
        }
    }
    return dense > 0 ? difference / dense : NAN;
}

/* As few queries as are all looked at. Each cell has its own, and two passes; one was dense. */
static void short_ones_are_exact(void **state)
{
    double             all[2] = {0}, of[STEPS][LAYERS][2] = {0};
    sg_attention_error e = {0};
    for (int i = 0; i < 2 * STEPS * LAYERS; i++) {
        const int step = i / 2 / LAYERS, layer = i / 2 % LAYERS;
        if (step == 1 && layer == 2) continue;
        bench b = make(i % 2 ? 100 : SG_ERROR_ROWS, (uint64_t)(10 * i));
        for (int64_t k = 0; k < b.shape.n * WIDTH; k++) b.y[k] *= (float)(1 + step * LAYERS + layer);
        see(&b, &e, layer, step, i % 2);
        add_all(&b, all);
        add_all(&b, of[step][layer]);
        finish(&b);
    }
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < 2 * LAYERS; i++) {
            const double got = error_of(&e, step, i % LAYERS, 1 + i / LAYERS);
            if (step == 1 && i % LAYERS == 2)
                assert_true(isnan(got));
            else
                near(got, of[step][i % LAYERS][0] / of[step][i % LAYERS][1], 1e-6);
        }
    near(error_of(&e, -1, -1, 2), all[0] / all[1], 1e-6);
    assert_true(e.seconds > 0);
    sg_attention_error_free(&e);
    assert_true(isnan(error_of(&e, -1, -1, 2)));
}

/* The error grows along the sequence, and a sample has its mean; another one in another step. */
static void samples_are_spread(void **state)
{
    enum { N = 1000 };
    bench              b = make(N, 7);
    sg_attention_error e = {0};
    double             all[2] = {0}, of[STEPS];
    for (int64_t i = 0; i < N * WIDTH; i++) b.y[i] = (float)(b.dense[i] * (1 + (double)(i / WIDTH) / N));
    add_all(&b, all);
    for (int step = 0; step < STEPS; step++) {
        see(&b, &e, 0, step, 0);
        near(of[step] = error_of(&e, step, 0, 2), all[0] / all[1], 0.03);
        assert_true(step == 0 || fabs(of[step] - of[step - 1]) > 1e-6);
    }
    sg_attention_error_free(&e);
    finish(&b);
}

/* Each query is compared with attention to the keys that it sees. As few as are all looked at are exact: the last of many
 * tokens, all of them, and one. Exact attention has no error but by rounding, at any place, wherever the sample is. */
static void causal_queries_see_what_is_before_them(void **state)
{
    static const int64_t sizes[][2] = {{100, 100}, {SG_ERROR_ROWS, 300}, {1, 77}, {1000, 1000}, {500, 1130}};
    for (int i = 0; i < 5; i++) {
        const int64_t      n = sizes[i][0];
        bench              b = make_sized(n, sizes[i][1], true, (uint64_t)(20 * i));
        sg_attention_error e = {0}, none = {0};
        double             all[2] = {0};
        add_all(&b, all);
        see(&b, &e, 1, 2, 0);
        if (n <= SG_ERROR_ROWS) near(error_of(&e, 2, 1, 2), all[0] / all[1], 1e-6);
        for (int64_t k = 0; k < n * WIDTH; k++) b.y[k] = (float)b.dense[k];
        for (int layer = 0; layer < LAYERS; layer++) see(&b, &none, layer, layer, 0);
        assert_true(error_of(&none, -1, -1, 2) < 2e-6);
        sg_attention_error_free(&e);
        sg_attention_error_free(&none);
        finish(&b);
    }
}

/* The error grows along the sequence; runs of queries have nearly its mean, and a wrong place would not. */
static void causal_samples_are_spread(void **state)
{
    enum { N = 1000 };
    bench              b = make_sized(N, N + 300, true, 7);
    sg_attention_error e = {0};
    double             all[2] = {0}, of[STEPS];
    for (int64_t i = 0; i < N * WIDTH; i++) b.y[i] = (float)(b.dense[i] * (1 + (double)(i / WIDTH) / N));
    add_all(&b, all);
    for (int step = 0; step < STEPS; step++) {
        see(&b, &e, 0, step, 0);
        near(of[step] = error_of(&e, step, 0, 2), all[0] / all[1], 0.15);
        assert_true(step == 0 || fabs(of[step] - of[step - 1]) > 1e-6);
    }
    near(error_of(&e, -1, 0, 2), all[0] / all[1], 0.1);
    sg_attention_error_free(&e);
    finish(&b);
}

static void leaves_no_trace(void **state)
{
    bench              b = make(100, 3);
    sg_attention_error e = {0};
    sg_trace           trace = {0};
    sg_trace_wrap(&b.s, &trace);
    const sg_ops *const ops = b.s.ops;
    see(&b, &e, 0, 0, 0);
    assert_int_equal(trace.rows, 0);
    assert_ptr_equal(b.s.ops, ops);
    sg_trace_free(&trace);
    sg_attention_error_free(&e);
    finish(&b);
}

static void renders_are_kept_apart(void **state)
{
    bench              b = make(100, 3);
    sg_attention_error e = {0};
    see(&b, &e, 0, 0, 0);
    b.shape.steps++;
    sg_attention_error_hook(&e, &b.s, &b.shape, 0, STEPS, 0, 500, &b.args);
    assert_int_equal(b.s.status, SG_E_ARG);
    sg_attention_error_free(&e);
    finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_ones_are_exact),
                                       cmocka_unit_test(samples_are_spread),
                                       cmocka_unit_test(causal_queries_see_what_is_before_them),
                                       cmocka_unit_test(causal_samples_are_spread),
                                       cmocka_unit_test(leaves_no_trace),
                                       cmocka_unit_test(renders_are_kept_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
