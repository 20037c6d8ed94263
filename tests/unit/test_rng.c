/* test_rng.c - noise against torch.randn. */
#include "rng.h"

#include "rng_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* torch's vectorised logarithm and circular functions differ from libm's in the last place; a normal is at most 6. */
static const double tolerance = 2e-6;

static float *noise(size_t n, uint64_t seed)
{
    float *const x = malloc(n * sizeof *x);
    assert_non_null(x);
    sg_randn(x, n, seed);
    return x;
}

static double worst_of(const float *x, const double *wanted, size_t count)
{
    double worst = 0.0;
    for (size_t i = 0; i < count; i++) worst = fmax(worst, fabs((double)x[i] - wanted[i]));
    return worst;
}

static void check_draw(const draw *d)
{
    float *const x = noise(d->n, d->seed);
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
    const double slack = tolerance * sqrt((double)d->n);
    assert_true(fabs(sum - d->sum) <= slack);
    assert_true(fabs(squares - d->squares) <= 2.0 * slack);
    assert_true(fabs(turns - d->turns) <= 2.0 * slack);
    free(x);
}

static void test_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table_draws / sizeof *table_draws; i++) check_draw(&table_draws[i]);
}

static void test_upper_seed_half_is_ignored(void **state)
{
    (void)state;
    float *const a = noise(33, 7), *const b = noise(33, 7 + (UINT64_C(3) << 32));
    assert_memory_equal(a, b, 33 * sizeof *a);
    free(a);
    free(b);
}

static void test_nothing_is_drawn_for_nothing(void **state)
{
    (void)state;
    float x = 5.0f;
    sg_randn(&x, 0, 1);
    assert_true(x == 5.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch),
        cmocka_unit_test(test_upper_seed_half_is_ignored),
        cmocka_unit_test(test_nothing_is_drawn_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
