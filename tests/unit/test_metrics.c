/* test_metrics.c - PSNR, SSIM and summaries against scikit-image and NumPy. */
#include "metrics.h"

#include "metrics_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sg_image picture(const char *name)
{
    char     path[1024];
    sg_image i;
    sg_error e = {0};
    snprintf(path, sizeof path, "%s/%s", SG_PICTURES, name);
    if (sg_image_read(&i, path, &e) != SG_OK) fail_msg("%s", e.text);
    return i;
}

static void matches_scikit_image(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof table_pairs / sizeof *table_pairs; k++) {
        const pair *const p = &table_pairs[k];
        sg_image          a = picture(p->a), b = picture(p->b);
        double            ssim = 0, back = 0;
        assert_int_equal(sg_ssim(&ssim, &a, &b, NULL), SG_OK);
        assert_int_equal(sg_ssim(&back, &b, &a, NULL), SG_OK);
        const double psnr = sg_psnr(&a, &b);
        if (!(fabs(psnr - p->psnr) < 1e-10) || !(fabs(ssim - p->ssim) < 1e-10) || !(fabs(ssim - back) < 1e-12))
            fail_msg("%s, %s: PSNR %.15g for %.15g, SSIM %.15g for %.15g, %.15g the other way", p->a, p->b, psnr,
                     p->psnr, ssim, p->ssim, back);
        sg_image_close(&b);
        sg_image_close(&a);
    }
}

static void identical_pictures(void **state)
{
    (void)state;
    sg_image a = picture("scene.png");
    double   ssim = 0;
    assert_int_equal(sg_ssim(&ssim, &a, &a, NULL), SG_OK);
    assert_true(fabs(ssim - 1) < 1e-12);
    assert_true(isinf(sg_psnr(&a, &a)));
    sg_image_close(&a);
}

static void too_small_for_a_window(void **state)
{
    (void)state;
    uint8_t        rgb[10 * 40 * 3] = {0};
    const sg_image low = {40, 10, rgb}, narrow = {10, 40, rgb};
    sg_error       e = {0};
    double         ssim;
    assert_int_equal(sg_ssim(&ssim, &low, &low, &e), SG_E_SHAPE);
    assert_non_null(strstr(e.text, "11x11"));
    assert_int_equal(sg_ssim(&ssim, &narrow, &narrow, NULL), SG_E_SHAPE);
    assert_true(isinf(sg_psnr(&low, &low)));
}

static void summaries(void **state)
{
    (void)state;
    enum { N = sizeof table_values / sizeof *table_values };
    sg_summary s;
    assert_int_equal(sg_summarise(&s, table_values, N, NULL), SG_OK);
    assert_true(fabs(s.mean - table_mean) < 1e-12 && fabs(s.percentile_5 - table_percentile_5) < 1e-12);
    assert_true(s.minimum == table_values[s.worst] && s.worst == 2);

    assert_int_equal(sg_summarise(&s, table_values, 1, NULL), SG_OK);
    assert_true(s.mean == table_values[0] && s.minimum == s.mean && s.percentile_5 == s.mean && s.worst == 0);

    assert_int_equal(sg_summarise(&s, (double[]){INFINITY, 30, INFINITY, 40}, 4, NULL), SG_OK);
    assert_true(s.mean == 35 && s.minimum == 30 && fabs(s.percentile_5 - 31.5) < 1e-12 && s.worst == 1);

    assert_int_equal(sg_summarise(&s, (double[]){INFINITY, 30}, 2, NULL), SG_OK);
    assert_true(s.mean == 30 && isinf(s.percentile_5));

    assert_int_equal(sg_summarise(&s, (double[]){INFINITY, INFINITY}, 2, NULL), SG_OK);
    assert_true(isinf(s.mean) && isinf(s.minimum) && isinf(s.percentile_5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_scikit_image),
        cmocka_unit_test(identical_pictures),
        cmocka_unit_test(too_small_for_a_window),
        cmocka_unit_test(summaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
