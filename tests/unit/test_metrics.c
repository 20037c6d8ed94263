/* test_metrics.c - PSNR, SSIM, MS-SSIM, sharpness, flicker, distances and summaries against scikit-image,
 * pytorch-msssim, OpenCV, VBench's formula, torch and NumPy. */
#include "clip_figures.h"
#include "metrics.h"
#include "picture_file.h"
#include "unit.h"

#include "metrics_table.h"

static sg_image picture(const char *name)
{
    char     path[1024];
    sg_image i;
    sg_error e = {0};
    snprintf(path, sizeof path, "%s/%s", SG_PICTURES, name);
    if (read_image(&i, path, &e) != SG_OK) fail_msg("%s", e.text);
    return i;
}

static double ssim_of(const sg_image *a, const sg_image *b)
{
    sg_similarity s = {0};
    assert_int_equal(sg_ms_ssim(&s, a, b, NULL), SG_OK);
    return s.ssim;
}

static void matches_scikit_image(void **state)
{
    for (size_t k = 0; k < sizeof table_pairs / sizeof *table_pairs; k++) {
        const pair *const p = &table_pairs[k];
        sg_image          a = picture(p->a), b = picture(p->b);
        const double      psnr = sg_psnr(&a, &b), ssim = ssim_of(&a, &b), back = ssim_of(&b, &a);
        if (!(fabs(psnr - p->psnr) < 1e-10) || !(fabs(ssim - p->ssim) < 1e-10) || !(fabs(ssim - back) < 1e-12))
            fail_msg("%s, %s: PSNR %.15g for %.15g, SSIM %.15g for %.15g, %.15g the other way", p->a, p->b, psnr,
                     p->psnr, ssim, p->ssim, back);
        sg_image_close(&b);
        sg_image_close(&a);
    }
}

static void matches_pytorch_msssim(void **state)
{
    for (size_t k = 0; k < sizeof table_pairs / sizeof *table_pairs; k++) {
        const pair *const p = &table_pairs[k];
        sg_image          a = picture(p->a), b = picture(p->b);
        sg_similarity     s, back;
        assert_int_equal(sg_ms_ssim(&s, &a, &b, NULL), SG_OK);
        assert_int_equal(sg_ms_ssim(&back, &b, &a, NULL), SG_OK);
        assert_int_equal(s.scales, p->scales);
        if (!(fabs(s.ms_ssim - p->ms_ssim) < 1e-10) || !(fabs(s.ssim - p->ssim) < 1e-10) ||
            !(fabs(s.ms_ssim - back.ms_ssim) < 1e-12))
            fail_msg("%s, %s: MS-SSIM %.15g for %.15g, SSIM %.15g for %.15g, MS-SSIM %.15g the other way", p->a, p->b,
                     s.ms_ssim, p->ms_ssim, s.ssim, p->ssim, back.ms_ssim);
        sg_image_close(&b);
        sg_image_close(&a);
    }
}

/* The most scales whose picture still holds a window. */
static void scales_by_size(void **state)
{
    static const int side[] = {11, 20, 21, 40, 41, 80, 81, 160, 161, 400}, scales[] = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5};
    for (size_t k = 0; k < sizeof side / sizeof *side; k++) {
        uint8_t *const rgb = calloc((size_t)side[k] * 402 * 3, 1);
        const sg_image low = {402, side[k], rgb}, narrow = {side[k], 402, rgb};
        sg_similarity  s;
        assert_int_equal(sg_ms_ssim(&s, &low, &low, NULL), SG_OK);
        assert_true(s.scales == scales[k] && fabs(s.ms_ssim - 1) < 1e-12);
        assert_int_equal(sg_ms_ssim(&s, &narrow, &narrow, NULL), SG_OK);
        assert_int_equal(s.scales, scales[k]);
        free(rgb);
    }
}

static void matches_opencv_sharpness(void **state)
{
    for (size_t k = 0; k < sizeof table_sharp / sizeof *table_sharp; k++) {
        sg_image      i = picture(table_sharp[k].name);
        sg_clip_watch w = {0};
        assert_int_equal(sg_clip_watch_add(&w, &i, NULL), SG_OK);
        const sg_clip_figures f = sg_clip_watch_figures(&w);
        if (!(fabs(f.sharpness / table_sharp[k].sharpness - 1) < 1e-12))
            fail_msg("%s: sharpness %.15g for %.15g", table_sharp[k].name, f.sharpness, table_sharp[k].sharpness);
        assert_true(f.frames == 1 && f.black == 0 && f.frozen == 0 && isnan(f.flicker));
        sg_clip_watch_close(&w);
        sg_image_close(&i);
    }
    /* By hand: pixels outside are the mirrored ones. */
    static const uint8_t grey[] = {0, 10, 40};
    assert_true(fabs(sg_grey_sharpness(grey, 3, 1) - (400 + 400 + 3600 - 400 / 3.0) / 3) < 1e-9);
    assert_true(fabs(sg_grey_sharpness(grey, 1, 3) - (400 + 400 + 3600 - 400 / 3.0) / 3) < 1e-9);
    assert_true(sg_grey_sharpness(grey, 1, 1) == 0);
}

static void matches_flicker_of_vbench(void **state)
{
    enum { N = sizeof table_clip / sizeof *table_clip };
    sg_clip_watch w = {0};
    for (int k = 0; k < N; k++) {
        sg_image i = picture(table_clip[k]);
        assert_int_equal(sg_clip_watch_add(&w, &i, NULL), SG_OK);
        sg_image_close(&i);
    }
    const sg_clip_figures f = sg_clip_watch_figures(&w);
    assert_true(f.frames == N && f.frozen == 1 && f.black == 0);
    assert_true(fabs(f.flicker - table_flicker) < 1e-14);
    sg_image small = picture("small_a.png");
    assert_int_equal(sg_clip_watch_add(&w, &small, NULL), SG_OK);
    assert_true(isnan(sg_clip_watch_figures(&w).flicker) && sg_clip_watch_figures(&w).frames == N + 1);
    sg_image_close(&small);
    sg_clip_watch_close(&w);
}

/* FFmpeg's limits: 98 of 100 pixels not above 25; a mean difference of 0.255. */
static void black_and_frozen(void **state)
{
    enum { SIDE = 10, PIXELS = SIDE * SIDE };
    uint8_t       rgb[3 * PIXELS];
    sg_image      i = {SIDE, SIDE, rgb};
    sg_clip_watch w = {0};
    memset(rgb, 25, sizeof rgb);
    memset(rgb, 255, 6);
    assert_int_equal(sg_clip_watch_add(&w, &i, NULL), SG_OK);
    assert_int_equal(sg_clip_watch_figures(&w).black, 1);
    rgb[6] = rgb[7] = rgb[8] = 26; /* the third pixel of 100; MAE 0.01 */
    assert_int_equal(sg_clip_watch_add(&w, &i, NULL), SG_OK);
    assert_true(sg_clip_watch_figures(&w).black == 1 && sg_clip_watch_figures(&w).frozen == 1);
    for (int k = 9; k < 9 + 76; k++) rgb[k]++; /* MAE 76 / 300 */
    assert_int_equal(sg_clip_watch_add(&w, &i, NULL), SG_OK);
    assert_int_equal(sg_clip_watch_figures(&w).frozen, 2);
    for (int k = 9; k < 9 + 77; k++) rgb[k]++; /* MAE 77 / 300 */
    assert_int_equal(sg_clip_watch_add(&w, &i, NULL), SG_OK);
    assert_int_equal(sg_clip_watch_figures(&w).frozen, 2);
    sg_clip_watch_close(&w);
}

static void matches_torch_on_arrays(void **state)
{
    enum { N = sizeof table_a / sizeof *table_a };
    const sg_distance d = sg_array_distance(table_a, table_b, N), none = sg_array_distance(table_a, table_a, N);
    assert_true(fabs(d.relative_l2 - table_relative_l2) < 1e-14 && fabs(d.cosine - table_cosine) < 1e-14);
    assert_true(d.non_finite == 0 && none.relative_l2 == 0 && fabs(none.cosine - 1) < 1e-14);

    static const float zero[N];
    const sg_distance  from = sg_array_distance(zero, table_a, N), to = sg_array_distance(table_a, zero, N);
    const sg_distance  both = sg_array_distance(zero, zero, N);
    assert_true(isinf(from.relative_l2) && from.cosine == 0 && to.relative_l2 == 1 && to.cosine == 0);
    assert_true(both.relative_l2 == 0 && both.cosine == 0);

    float broken[N];
    memcpy(broken, table_b, sizeof broken);
    broken[3] = NAN;
    broken[N - 1] = -INFINITY;
    const sg_distance n = sg_array_distance(table_a, broken, N);
    assert_true(n.non_finite == 2 && isnan(n.relative_l2) && isnan(n.cosine));
    assert_int_equal(sg_array_distance(broken, broken, N).non_finite, 4);
}

static void identical_pictures(void **state)
{
    sg_image a = picture("scene.png");
    assert_true(fabs(ssim_of(&a, &a) - 1) < 1e-12);
    assert_true(isinf(sg_psnr(&a, &a)));
    sg_image_close(&a);
}

static void too_small_for_a_window(void **state)
{
    uint8_t        rgb[10 * 40 * 3] = {0};
    const sg_image low = {40, 10, rgb}, narrow = {10, 40, rgb};
    sg_error       e = {0};
    sg_similarity  s;
    assert_refused(sg_ms_ssim(&s, &low, &low, &e), SG_E_SHAPE, &e, "11x11");
    assert_int_equal(sg_ms_ssim(&s, &narrow, &narrow, NULL), SG_E_SHAPE);
    assert_true(isinf(sg_psnr(&low, &low)));
}

static void summaries(void **state)
{
    enum { N = sizeof table_values / sizeof *table_values };
    sg_summary s;
    assert_int_equal(sg_summarise(&s, table_values, N, NULL), SG_OK);
    assert_true(fabs(s.mean - table_mean) < 1e-12 && fabs(s.p5 - table_p5) < 1e-12);
    assert_true(s.minimum == table_values[s.worst] && s.worst == 2);

    assert_int_equal(sg_summarise(&s, table_values, 1, NULL), SG_OK);
    assert_true(s.mean == table_values[0] && s.minimum == s.mean && s.p5 == s.mean && s.worst == 0);

    assert_int_equal(sg_summarise(&s, (double[]){INFINITY, 30, INFINITY, 40}, 4, NULL), SG_OK);
    assert_true(s.mean == 35 && s.minimum == 30 && fabs(s.p5 - 31.5) < 1e-12 && s.worst == 1);

    assert_int_equal(sg_summarise(&s, (double[]){INFINITY, 30}, 2, NULL), SG_OK);
    assert_true(s.mean == 30 && isinf(s.p5));

    assert_int_equal(sg_summarise(&s, (double[]){INFINITY, INFINITY}, 2, NULL), SG_OK);
    assert_true(isinf(s.mean) && isinf(s.minimum) && isinf(s.p5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_scikit_image),
        cmocka_unit_test(matches_pytorch_msssim),
        cmocka_unit_test(scales_by_size),
        cmocka_unit_test(matches_opencv_sharpness),
        cmocka_unit_test(matches_flicker_of_vbench),
        cmocka_unit_test(black_and_frozen),
        cmocka_unit_test(matches_torch_on_arrays),
        cmocka_unit_test(identical_pictures),
        cmocka_unit_test(too_small_for_a_window),
        cmocka_unit_test(summaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
