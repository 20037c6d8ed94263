/* test_budget.c - what a result may differ by: rounding's share, and that of sums which tensor cores cut. */
#include "budget.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N = 64 };

/* Truths of about `scale`, which the rounded oracle meets, each missed by `units` of 2^-23 of it towards zero. */
static sg_verdict judge(double scale, double units, int64_t cut)
{
    float truth[N], got[N];
    for (int i = 0; i < N; i++) {
        truth[i] = (float)(i % 2 ? scale : -scale);
        got[i] = (float)((double)truth[i] * (1 - units * (double)FLT_EPSILON));
    }
    const sg_tensor g = {got, SG_F32, 1, {N}}, t = {truth, SG_F32, 1, {N}};
    return sg_budget_judge(g, t, t, cut);
}

static void rounding_has_one_unit(void **state)
{
    (void)state;
    assert_null(judge(1, 1, 0).fault);
    assert_non_null(judge(1, 2, 0).fault);
    assert_non_null(judge(20, 2, 0).fault);
}

/* One unit more for each 16 products begun. */
static void cut_sums_have_more(void **state)
{
    (void)state;
    static const int64_t products[] = {1, 16, 17, 432, 1728};
    for (int i = 0; i < 5; i++) {
        const double units = ceil((double)products[i] / 16);
        assert_null(judge(1, 1 + units, products[i]).fault);
        assert_non_null(judge(1, 2 + units, products[i]).fault);
        assert_null(judge(20.8, units, products[i]).fault);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounding_has_one_unit), cmocka_unit_test(cut_sums_have_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
