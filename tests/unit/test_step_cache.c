/* test_step_cache.c - the filter and the skipped steps against diffusers' SeaCache; what a skipped step gets; the rules. */
#include "../golden/counter.h"
#include "backend.h"
#include "step_cache.h"

#include "cache_table.h"
#include "engine_fixture.h"
#include "host_memory.h"

enum { ARENA = 1 << 22 };
static _Alignas(SG_ALIGN) unsigned char keep[ARENA], scratch[ARENA];

static sg_stream stream(void)
{
    return (sg_stream){.ops = &sg_ref_ops,
                       .memory = &host_memory,
                       .keep = {.base = (uintptr_t)keep, .cap = ARENA},
                       .scratch = {.base = (uintptr_t)scratch, .cap = ARENA}};
}

/* make_cache_table.py's latents at this noise level, into x [c, f, y, x]. */
static sg_tensor latents(sg_stream *s, const int shape[4], double sigma)
{
    const sg_tensor t = sg_new_keep(s, SG_F32, shape[0], shape[1], shape[2], shape[3]);
    const uint64_t  seed = counter_seed("cache");
    float *const    to = t.data;
    int64_t         at = 0;
    for (int c = 0; c < shape[0]; c++)
        for (int f = 0; f < shape[1]; f++)
            for (int y = 0; y < shape[2]; y++)
                for (int x = 0; x < shape[3]; x++, at++) {
                    const float clean = (float)cos(0.7 * c + 0.31 * f + 0.17 * y + 0.11 * x);
                    const float noise =
                        (float)ldexp(counter_integer(seed, (uint64_t)at, COUNTER_LATENTS), -COUNTER_LATENTS.shift);
                    to[at] = (float)(1 - sigma) * clean + (float)sigma * noise;
                }
    return t;
}

static double sigma_of(int i, int steps)
{
    const double u = 1 - (double)i / steps;
    return 5 * u / (1 + 4 * u);
}

/* Place [c, f, y, x] of x of this shape in the filter's [c, x, y, f]. */
static int64_t place(const int n[4], int64_t i)
{
    const int64_t x = i % n[3], y = i / n[3] % n[2], f = i / n[3] / n[2] % n[1], c = i / n[3] / n[2] / n[1];
    return ((c * n[3] + x) * n[2] + y) * n[1] + f;
}

static void test_filter_is_diffusers(void **state)
{
    for (size_t k = 0; k < sizeof filter_table / sizeof *filter_table; k++) {
        sg_stream        s = stream();
        const int *const n = filter_table[k].shape;
        const double     sigma = filter_table[k].sigma, other[] = {0.4, sigma};
        const sg_tensor  x = latents(&s, n, sigma), f = sg_new(&s, SG_F32, n[0], n[3], n[2], n[1]);
        sg_tensor        w[3];
        for (int i = 0; i < 3; i++) w[i] = sg_spectral_matrices(&s, n[1 + i], other, 2);
        sg_spectral_filter(&s, f, x, w, 1);
        const float *const v = f.data;
        const int64_t      count = sg_count(f);
        double             sum = 0, squares = 0;
        assert_int_equal(s.status, SG_OK);
        for (int64_t i = 0; i < count; i++) sum += (double)v[i], squares += (double)v[i] * (double)v[i];
        const double size = sqrt(squares / (double)count); /* of a number, which rounding goes by */
        assert_true(fabs(sum - filter_table[k].sum) <= 1e-5 * size * (double)count);
        assert_true(fabs(squares - filter_table[k].squares) <= 1e-5 * squares);
        assert_true(fabs((double)v[place(n, 0)] - filter_table[k].first) <= 1e-5 * size);
        assert_true(fabs((double)v[place(n, count / 2)] - filter_table[k].middle) <= 1e-5 * size);
    }
}

/* The steps that a rule skips on the table's latents, as the table writes them; s, a stream without memory, gets its. */
static void run_on(sg_stream s, char *out, const int shape[4], int steps, sg_step_rule rule, int forget_at, int must)
{
    sg_step_cache c;
    const int64_t latent[4] = {shape[0], shape[1], shape[2], shape[3]};
    double        sigma[64];
    s.keep = (sg_arena){.base = (uintptr_t)keep, .cap = ARENA};
    s.scratch = (sg_arena){.base = (uintptr_t)scratch, .cap = ARENA};
    assert_true(steps <= 64);
    for (int i = 0; i < steps; i++) sigma[i] = sigma_of(i, steps);
    sg_step_cache_prepare(&c, &s, rule, steps, sigma, latent);
    c.keep = must;
    const size_t mark = s.keep.used;
    for (int i = 0; i < steps; i++) {
        if (i == forget_at) sg_step_cache_forget(&c);
        const sg_tensor x = latents(&s, shape, sigma_of(i, steps));
        out[i] = sg_step_cache_skips(&c, &s, i, x) ? 's' : '.';
        if (out[i] == '.') sg_step_cache_keep(&c, &s, i, (double[]){0, 1}, x, x);
        s.keep.used = mark;
    }
    out[steps] = '\0';
    assert_int_equal(s.status, SG_OK);
}

static void run(char *out, const int shape[4], int steps, sg_step_rule rule, int forget_at, int must)
{
    run_on(stream(), out, shape, steps, rule, forget_at, must);
}

/* The CPU's products keep what they have packed of weights at an address: each step's filter has one of its own. */
static void test_skips_are_diffusers(void **unused)
{
    sg_backend *cpu = NULL;
    sg_error    e = {0};
    assert_int_equal(sg_backend_open(&cpu, &(sg_backend_options){.name = "cpu", .threads = 1}, &e), SG_OK);
    for (size_t k = 0; k < sizeof skip_table / sizeof *skip_table; k++) {
        char               out[64];
        const sg_step_rule rule = {
            .threshold = skip_table[k].threshold, .first = skip_table[k].first, .longest = skip_table[k].longest};
        run(out, skip_table[k].shape, skip_table[k].steps, rule, -1, -1);
        assert_string_equal(out, skip_table[k].steps_skipped);
        run_on(sg_stream_of(cpu), out, skip_table[k].shape, skip_table[k].steps, rule, -1, -1);
        assert_string_equal(out, skip_table[k].steps_skipped);
        sg_backend_drop_packed(cpu);
    }
    sg_backend_close(&cpu);
}

static void test_two_are_computed_after_a_change_of_denoiser(void **state)
{
    char               out[64];
    const sg_step_rule rule = {.threshold = 1e9, .first = 2, .longest = 2};
    run(out, (int[4]){2, 2, 4, 4}, 20, rule, -1, -1);
    assert_string_equal(out, "..ss.ss.ss.ss.ss.ss.");
    run(out, (int[4]){2, 2, 4, 4}, 20, rule, 9, -1); /* which was skipped, as the one after it */
    assert_string_equal(out, "..ss.ss.s..ss.ss.ss.");
    run(out, (int[4]){2, 2, 4, 4}, 20, rule, -1, 6); /* a step that is to be computed */
    assert_string_equal(out, "..ss.s.ss.ss.ss.ss..");
    run(out, (int[4]){2, 2, 4, 4}, 20, (sg_step_rule){.threshold = 0, .first = 2, .longest = 2}, -1, -1);
    assert_string_equal(out, "....................");
}

/* Exact where a[0] x + a[1] v is linear in the step's number, whatever steps were computed and whatever x is: v alone, or
 * the clean sample of a solver that draws noise. */
static void test_extrapolation(void **state)
{
    const int     computed[][3] = {{0, 1, 2}, {3, 5, 7}, {4, 7, 8}, {10, 11, 14}};
    const int64_t latent[4] = {1, 2, 3, 4};
    for (size_t k = 0; k < 2 * (sizeof computed / sizeof *computed); k++) {
        sg_stream        s = stream();
        const int *const at_steps = computed[k / 2];
        const double     a[2] = {k % 2 ? 0.5 : 0, k % 2 ? -0.25 : 1};
        sg_step_cache    c;
        double           sigma[50];
        for (int i = 0; i < 50; i++) sigma[i] = sigma_of(i, 50);
        sg_step_cache_prepare(&c, &s, (sg_step_rule){.threshold = 1, .first = 2, .longest = 2}, 50, sigma, latent);
        const sg_tensor v = sg_alloc(&s, &s.keep, SG_F32, 4, latent), x = sg_alloc(&s, &s.keep, SG_F32, 4, latent);
        float *const at = v.data, *const sample = x.data;
        for (int j = 0; j < 3; j++) {
            for (int i = 0; i < 24; i++) {
                sample[i] = (float)((7 * i + 5 * j) % 11);
                at[i] = (float)((i - 12 + at_steps[j] * (i % 5) - a[0] * (double)sample[i]) / a[1]);
            }
            if (j < 2) sg_step_cache_keep(&c, &s, at_steps[j], a, x, v);
        }
        float wanted[24];
        memcpy(wanted, at, sizeof wanted);
        memset(at, 0, sizeof wanted);
        sg_step_cache_extrapolate(&c, &s, at_steps[2], a, x, v);
        for (int i = 0; i < 24; i++) assert_true(fabs((double)at[i] - (double)wanted[i]) < 1e-4);
        assert_int_equal(s.status, SG_OK);
    }
}

static void test_rules(void **state)
{
    assert_true(sg_step_rule_of(SG_CACHE_OFF, 50, 10).threshold == 0);
    assert_true(sg_step_rule_of(SG_CACHE_USUAL, 15, 3).threshold == 0);
    assert_true(sg_step_rule_of(SG_CACHE_USUAL, 16, 3).threshold == 0.25);
    sg_request r = {.cache = SG_CACHE_SHADOW, .steps = 16, .cache_threshold = 0.5};
    assert_true(sg_request_cache_threshold(&r) == 0.5);
    r.cache = SG_CACHE_FAST;
    assert_true(sg_request_cache_threshold(&r) == 0);
    r = (sg_request){.cache = SG_CACHE_USUAL, .steps = 15, .cache_threshold = 0.5};
    assert_true(sg_request_cache_threshold(&r) == 0);
    assert_true(sg_step_rule_of(SG_CACHE_FINE, 50, 10).threshold == 0.1);
    assert_int_equal(sg_step_rule_of(SG_CACHE_FAST, 50, 10).longest, 3);
    assert_int_equal(sg_step_rule_of(SG_CACHE_USUAL, 50, 10).first, 10);
    assert_int_equal(sg_step_rule_of(SG_CACHE_USUAL, 50, 0).first, 2);
}

/* ---- renders ---- */

/* Which steps of a model's render are skipped, as the table writes them; and the first step of the second denoiser. */
static void render(char *out, int *change, const char *dir, const sg_request *of)
{
    sg_engine *g =
        open_engine(&(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = dir, .backend = "cpu"});
    sg_report rep = {.size = sizeof rep};
    sg_error  e = {0};
    int       steps, passes, layers;

    sg_request r = small(g);
    r.height = 32;
    r.cfg_scale = 1;
    r.attention.dense_steps = 0;
    r.steps = of->steps;
    r.cache = of->cache;
    if (of->cache_threshold > 0) r.cache_threshold = of->cache_threshold;
    if (sg_engine_render(g, &r, NULL, &rep, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < r.steps; i++) out[i] = rep.skipped[i] ? 's' : '.';
    out[r.steps] = '\0';
    const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
    for (*change = 0; *change < steps && c[*change * passes * layers].blocks; ++*change) continue;
    sg_engine_close(&g);
}

/* Of a denoiser's step i, where all that may be are skipped. */
static char most_skipped(int i) { return i < 2 || (i - 2) % 3 == 2 ? '.' : 's'; }

/* All steps that may be skipped are: two in a row; of each denoiser the first two are computed, and the last step. */
static void test_each_denoiser_computes_two(void **state)
{
    static const char dir[] = SG_FIXTURES "/wan22_a14b";
    int               told = 0;
    for (int steps = 20; steps < 23; steps++) {
        char       all[64], some[64], expected[64];
        int        change, unused_change;
        sg_request r = {.steps = steps};
        render(all, &change, dir, &r);
        assert_true(change > 2 && change < steps - 2);
        r.cache = SG_CACHE_USUAL;
        r.cache_threshold = SG_CACHE_THRESHOLD_MAX;
        render(some, &unused_change, dir, &r);
        for (int i = 0; i < steps; i++) {
            expected[i] = i == steps - 1 ? '.' : most_skipped(i < change ? i : i - change);
        }
        expected[steps] = '\0';
        assert_string_equal(some, expected);
        told += most_skipped(change) == 's' || most_skipped(change + 1) == 's'; /* by one denoiser alone */
    }
    assert_true(told > 0);
}

/* The model's own threshold, in a file without thresholds of attention. */
static void test_threshold_of_the_model(void **state)
{
    char       out[64];
    int        change;
    sg_request r = {.steps = 16, .cache = SG_CACHE_USUAL};
    for (int i = 0; i < 3; i++) {
        write_format(COPY "/" SG_THRESHOLDS_NAME,
                     "{\"format\": \"sparge-gen thresholds\", \"version\": 1, \"cache\": {\"threshold\": %g}}",
                     i ? 1e-6 : 1e6);
        if (i == 2) r.cache = SG_CACHE_FAST; /* has one of its own */
        render(out, &change, COPY, &r);
        if (i < 2) assert_string_equal(out, i ? "................" : "..ss.ss.ss.ss.s.");
        if (i == 2) assert_non_null(strchr(out, 's'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter_is_diffusers),
        cmocka_unit_test(test_skips_are_diffusers),
        cmocka_unit_test(test_two_are_computed_after_a_change_of_denoiser),
        cmocka_unit_test(test_extrapolation),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_each_denoiser_computes_two),
        cmocka_unit_test(test_threshold_of_the_model),
    };
    return cmocka_run_group_tests(tests, make_copy, leave_folder);
}
