/* test_rng.c - noise against torch.randn; and the generator of the fixtures against counter.py. */
#include "../golden/counter.h"
#include "rng.h"
#include "tensor.h"
#include "unit.h"

#include "rng_table.h"

/* torch's vectorised logarithm and circular functions differ from libm's in the last place; a normal is at most 6. Of
 * shorter dtypes rounding hides that, and the table has nine digits. */
static double tolerance_of(sg_dtype as) { return as == SG_F32 ? 2e-6 : 1e-8; }

static float *noise_as(sg_dtype as, size_t n, uint64_t seed)
{
    float *const x = malloc(n * sizeof *x);
    sg_rng       g;
    assert_non_null(x);
    sg_rng_seed(&g, seed);
    sg_rng_randn_as(&g, as, x, n);
    return x;
}

static float *noise(size_t n, uint64_t seed) { return noise_as(SG_F32, n, seed); }

static double worst_of(const float *x, const double *wanted, size_t count)
{
    double worst = 0.0;
    for (size_t i = 0; i < count; i++) worst = fmax(worst, fabs((double)x[i] - wanted[i]));
    return worst;
}

static void check_draw(const draw *d)
{
    float *const x = noise_as(d->as, d->n, d->seed);
    const double tolerance = tolerance_of(d->as);
    const size_t head = d->n < TABLE_HEAD ? d->n : TABLE_HEAD, tail = d->n < TABLE_TAIL ? d->n : TABLE_TAIL;
    double       sum = 0.0, squares = 0.0, turns = 0.0;
    for (size_t i = 0; i < d->n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        turns += (double)x[i] * ((double)(i % 7) - 3.0);
    }
    assert_true(worst_of(x, d->head, head) <= tolerance);
    assert_true(worst_of(x + d->n - tail, d->tail, tail) <= tolerance);
    /* Errors of single elements have either sign, so that their sum grows as the root of n. */
    const double slack = tolerance * sqrt((double)d->n) + 1e-9 * (double)d->n;
    assert_true(fabs(sum - d->sum) <= slack);
    assert_true(fabs(squares - d->squares) <= 2.0 * slack);
    assert_true(fabs(turns - d->turns) <= 2.0 * slack);
    free(x);
}

static void test_torch(void **state)
{
    for (size_t i = 0; i < sizeof table_draws / sizeof *table_draws; i++) check_draw(&table_draws[i]);
}

static void test_upper_seed_half_is_ignored(void **state)
{
    float *const a = noise(33, 7), *const b = noise(33, 7 + (UINT64_C(3) << 32));
    assert_memory_equal(a, b, 33 * sizeof *a);
    free(a);
    free(b);
}

static void test_nothing_is_drawn_for_nothing(void **state)
{
    float x = 5.0f;
    sg_randn(&x, 0, 1);
    assert_true(x == 5.0f);
}

/* The stream goes on where a draw ended; the second of a pair that was not wanted is the first of the next draw. */
static void draws_follow_one_another(void **state)
{
    const struct {
        size_t first, second;
    } of[] = {{16, 32}, {3, 2}, {1, 14}, {4, 5}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const size_t n = of[i].first + of[i].second;
        float *const whole = noise(n, 11), *const parts = noise(n, 12);
        sg_rng g;
        sg_rng_seed(&g, 11);
        sg_rng_randn(&g, parts, of[i].first);
        sg_rng_randn(&g, parts + of[i].first, of[i].second);
        assert_memory_equal(whole, parts, n * sizeof *whole);
        free(whole);
        free(parts);
    }
}

/* What is skipped is what would have been drawn, of every dtype, whole blocks or not, and a second of a pair. */
static void skipping_draws_nothing_else(void **state)
{
    static const sg_dtype as[] = {SG_F32, SG_BF16, SG_F16};
    static const size_t   of[] = {0, 1, 3, 15, 16, 17, 31, 32, 1000};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
            float  thrown[1000], after[20], skipped[20];
            sg_rng g, h;
            sg_rng_seed(&g, 5);
            sg_rng_randn(&g, thrown, 1);
            h = g;
            sg_rng_randn_as(&g, as[k], thrown, of[i]);
            sg_rng_skip(&h, as[k], of[i]);
            for (size_t n = 3; n <= 20; n += 17) {
                sg_rng_randn(&g, after, n);
                sg_rng_randn(&h, skipped, n);
                assert_memory_equal(after, skipped, n * sizeof *after);
            }
        }
}

/* ---- the generator of the fixtures ---- */

/* counter.py holds the same numbers. */
static void generator_is_that_of_python(void **state)
{
    const struct {
        const char  *name;
        uint64_t     place;
        counter_rule rule;
        uint64_t     bits;
        uint32_t     number;
    } pinned[] = {{"", 0, {1, 0, 0}, UINT64_C(0xc3817c016ba4ff30), 0x45258000},
                  {"wan21_hd12/transformer/blocks.0.attn1.to_q.weight",
                   575,
                   {611, -70001, 23},
                   UINT64_C(0x86ae8b6eb50a6d59),
                   0x3d9ae720},
                  {"latents", 1000000, COUNTER_LATENTS, UINT64_C(0x13ba7dc4894b3055), 0xbf072100},
                  {"clip", 7, COUNTER_CLIP, UINT64_C(0xb2e8caf1fe211a9a), 0x3e52c000}};
    assert_true(counter_bits(0, 0) == UINT64_C(0xe220a8397b1dcdaf)); /* the first of splitmix64 */
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
        const uint64_t     seed = counter_seed(pinned[i].name);
        const counter_rule rule = pinned[i].rule;
        const int32_t      v = counter_integer(seed, pinned[i].place, rule);
        assert_true(counter_bits(seed, pinned[i].place) == pinned[i].bits);
        assert_int_equal(counter_encode(v, rule.shift, COUNTER_F32), pinned[i].number);
    }
}

static void sketches_are_those_of_python(void **state)
{
    enum { N = 10000 };
    static float   x[N];
    double         sums[COUNTER_SUMS];
    const uint64_t seed = counter_seed("pinned");
    for (int i = 0; i < N; i++) x[i] = (float)i;
    counter_sums(sums, seed, x, N);
    assert_true(sums[0] == -1970 && sums[COUNTER_SUMS - 1] == 52138);
    assert_int_equal(counter_sample(seed, COUNTER_SAMPLES - 1, N), 4614);
}

/* Of all orders of magnitude, those too small for F16 and ties among them. */
static void numbers_are_rounded_once(void **state)
{
    for (int shift = 0; shift < 60; shift++)
        for (int i = 0; i < 2000; i++) {
            const int32_t wide = counter_integer(5, (uint64_t)i, (counter_rule){1023, 12345, 0});
            const int32_t v = i % 2 ? wide : (wide >> 12) * (1 << i % 8);
            const float   x = ldexpf((float)v, -shift);
            uint32_t      u;
            memcpy(&u, &x, sizeof u);
            assert_int_equal(counter_encode(v, shift, COUNTER_F32), u);
            assert_int_equal(counter_encode(v, shift, COUNTER_BF16), sg_f32_to_bf16(x));
            if (fabsf(x) < 65504) assert_int_equal(counter_encode(v, shift, COUNTER_F16), sg_f32_to_f16(x));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch),
        cmocka_unit_test(test_upper_seed_half_is_ignored),
        cmocka_unit_test(test_nothing_is_drawn_for_nothing),
        cmocka_unit_test(draws_follow_one_another),
        cmocka_unit_test(skipping_draws_nothing_else),
        cmocka_unit_test(generator_is_that_of_python),
        cmocka_unit_test(sketches_are_those_of_python),
        cmocka_unit_test(numbers_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
