/* test_budget.c - what a result may differ by: rounding's share in sums of any order, and that of sums which tensor cores
 * cut. */
#include "budget.h"
#include "op.h"
#include "unit.h"

#include <float.h>

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
    assert_null(judge(1, 1, 0).fault);
    assert_non_null(judge(1, 2, 0).fault);
    assert_non_null(judge(20, 2, 0).fault);
}

/* One truth far above the others may be off by one unit of its own. */
static void largest_has_one_unit(void **state)
{
    float           truth[N - 1] = {8}, got[N - 1] = {8 + 8 * FLT_EPSILON};
    const sg_tensor g = {got, SG_F32, 1, {N - 1}}, t = {truth, SG_F32, 1, {N - 1}};
    assert_null(sg_budget_judge(g, t, t, 0).fault);
    got[0] = 8 + 16 * FLT_EPSILON;
    assert_non_null(sg_budget_judge(g, t, t, 0).fault);
}

/* One unit more for each 16 products begun. */
static void cut_sums_have_more(void **state)
{
    static const int64_t products[] = {1, 16, 17, 432, 1728};
    for (int i = 0; i < 5; i++) {
        const double units = ceil((double)products[i] / 16);
        assert_null(judge(1, 1 + units, products[i]).fault);
        assert_non_null(judge(1, 2 + units, products[i]).fault);
        assert_null(judge(20.8, units, products[i]).fault);
    }
}

/* ---- sums of 1,944 terms: a convolution of 72 channels, 3 x 3 x 3 ---- */

enum { CHANNELS = 72, TAPS = 27, TERMS = CHANNELS * TAPS, SIDE = 8, OUT = 8, SUMS = SIDE * SIDE * OUT };

static float x[3 * SIDE * SIDE * CHANNELS], w[OUT * CHANNELS * TAPS], bias[OUT];
static float truth[SUMS], rounded[SUMS], got[SUMS];

static float draw(void) /* -1 to 1 */
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) * 0x1p-23f - 1;
}

/* Numbers at random, or as after an activation: each channel about a level of its own, with weights of one sign. What one
 * half of the channels adds at a tap the other takes away. */
static void fill(bool levels)
{
    enum { HALF = CHANNELS / 2 };
    static float level[CHANNELS], middle[CHANNELS];
    for (int c = 0; c < CHANNELS; c++) level[c] = 2 + draw();
    for (int i = 0; i < 3 * SIDE * SIDE * CHANNELS; i++) x[i] = levels ? level[i % CHANNELS] + 0.2f * draw() : draw();
    for (int o = 0; o < OUT; o++) {
        for (int c = 0; c < HALF; c++) middle[c] = levels ? draw() : 0;
        for (int c = HALF; c < CHANNELS; c++) middle[c] = -middle[c - HALF] * level[c - HALF] / level[c];
        for (int i = 0; i < CHANNELS * TAPS; i++)
            w[o * CHANNELS * TAPS + i] = middle[i / TAPS] + (levels ? 0.2f : 1) * draw();
        bias[o] = draw();
    }
}

static void run_oracle(const sg_ops *ops, float *y)
{
    sg_stream s = {.ops = ops};
    sg_conv(&s, .y = {y, SG_F32, 4, {1, SIDE, SIDE, OUT}}, .x = {x, SG_F32, 4, {3, SIDE, SIDE, CHANNELS}},
            .w = {w, SG_F32, 5, {OUT, CHANNELS, 3, 3, 3}}, .b = {bias, SG_F32, 1, {OUT}}, .stride = {1, 1, 1},
            .pad = {1, 1, 1, 1});
    assert_int_equal(s.status, SG_OK);
}

/* Factors of sum i, taps outside. */
static void factors_of(int i, float a[TERMS], float b[TERMS])
{
    const int o = i % OUT, col = i / OUT % SIDE, row = i / OUT / SIDE;
    for (int t = 0; t < TERMS; t++) {
        const int  tap = t / CHANNELS, c = t % CHANNELS, y = row + tap / 3 % 3 - 1, z = col + tap % 3 - 1;
        const bool inside = y >= 0 && y < SIDE && z >= 0 && z < SIDE;
        a[t] = inside ? x[((tap / 9 * SIDE + y) * SIDE + z) * CHANNELS + c] : 0;
        b[t] = w[(o * CHANNELS + c) * TAPS + tap];
    }
}

typedef float summing(const float a[TERMS], const float b[TERMS], float start);

static int by_channel(int t) { return t % TAPS * CHANNELS + t / TAPS; }

static float forwards(const float a[TERMS], const float b[TERMS], float start)
{
    for (int t = 0; t < TERMS; t++) start += a[t] * b[t];
    return start;
}

static float backwards(const float a[TERMS], const float b[TERMS], float start)
{
    float sum = 0;
    for (int t = TERMS - 1; t >= 0; t--) sum += a[t] * b[t];
    return sum + start;
}

static float channels_outside(const float a[TERMS], const float b[TERMS], float start)
{
    for (int t = 0; t < TERMS; t++) start += a[by_channel(t)] * b[by_channel(t)];
    return start;
}

static float channels_backwards(const float a[TERMS], const float b[TERMS], float start)
{
    for (int t = TERMS - 1; t >= 0; t--) start += a[by_channel(t)] * b[by_channel(t)];
    return start;
}

/* As oneDNN's by AVX2: blocks of 8 channels, in each the taps, in each the channels, fused. */
static float blocks_of_channels(const float a[TERMS], const float b[TERMS], float start)
{
    for (int block = 0; block < CHANNELS / 8; block++)
        for (int t = 0; t < TAPS * 8; t++) {
            const int at = t / 8 * CHANNELS + block * 8 + t % 8;
            start = fmaf(a[at], b[at], start);
        }
    return start;
}

static float fused(const float a[TERMS], const float b[TERMS], float start)
{
    for (int t = 0; t < TERMS; t++) start = fmaf(a[t], b[t], start);
    return start;
}

static float sixteen_lanes(const float a[TERMS], const float b[TERMS], float start)
{
    float lane[16] = {0};
    for (int t = 0; t < TERMS; t++) lane[t % 16] = fmaf(a[t], b[t], lane[t % 16]);
    for (int i = 0; i < 16; i++) start += lane[i];
    return start;
}

static float pairwise(const float a[TERMS], const float b[TERMS], float start)
{
    float sum[TERMS];
    for (int t = 0; t < TERMS; t++) sum[t] = a[t] * b[t];
    for (int n = TERMS; n > 1; n = (n + 1) / 2)
        for (int t = 0; t < n / 2; t++) sum[t] += sum[n - 1 - t];
    return sum[0] + start;
}

static float lost_term(const float a[TERMS], const float b[TERMS], float start)
{
    return forwards(a, b, start) - a[TERMS / 2] * b[TERMS / 2];
}

static float in_bf16(const float a[TERMS], const float b[TERMS], float start)
{
    for (int t = 0; t < TERMS; t++) start = sg_bf16_to_f32(sg_f32_to_bf16(start + a[t] * b[t]));
    return start;
}

static float in_f16(const float a[TERMS], const float b[TERMS], float start)
{
    for (int t = 0; t < TERMS; t++) start = sg_f16_to_f32(sg_f32_to_f16(start + a[t] * b[t]));
    return start;
}

/* Products of BF16, added up in pieces of 64 in F16. */
static float pieces_in_f16(const float a[TERMS], const float b[TERMS], float start)
{
    float piece = 0;
    for (int t = 0; t < TERMS; t++) {
        piece = sg_f16_to_f32(sg_f32_to_f16(piece + a[t] * b[t]));
        if (t % 64 < 63 && t < TERMS - 1) continue;
        start += piece;
        piece = 0;
    }
    return start;
}

static float tf32(float v) /* 10 bits of fraction */
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    u = (u + 0x1000u) & 0xffffe000u;
    memcpy(&v, &u, sizeof v);
    return v;
}

static float in_tf32(const float a[TERMS], const float b[TERMS], float start)
{
    for (int t = 0; t < TERMS; t++) start += tf32(a[t]) * tf32(b[t]);
    return start;
}

static sg_verdict judge_sums(summing *sum, const float by[SUMS])
{
    for (int i = 0; i < SUMS; i++) {
        float a[TERMS], b[TERMS];
        factors_of(i, a, b);
        got[i] = sum(a, b, bias[i % OUT]);
    }
    const sg_tensor g = {got, SG_F32, 1, {SUMS}}, t = {truth, SG_F32, 1, {SUMS}},
                    r = {(void *)(uintptr_t)by, SG_F32, 1, {SUMS}};
    return sg_budget_judge(g, t, r, 0);
}

static void sums_have_any_order(void **state)
{
    static summing *const right[] = {forwards,           backwards, channels_outside, channels_backwards,
                                     blocks_of_channels, fused,     sixteen_lanes,    pairwise};
    static summing *const wrong[] = {lost_term, in_bf16, in_f16, pieces_in_f16, in_tf32};
    for (int levels = 0; levels < 2; levels++) {
        fill(levels);
        run_oracle(&sg_ref_ops, truth);
        run_oracle(&sg_ref_rounded_ops, rounded);
        for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) assert_null(judge_sums(right[i], rounded).fault);
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
            assert_non_null(judge_sums(wrong[i], rounded).fault);
    }
}

/* What one order makes is no budget for another. */
static void one_order_is_no_budget(void **state)
{
    static float taps_outside[SUMS];
    fill(true);
    run_oracle(&sg_ref_ops, truth);
    run_oracle(&sg_ref_rounded_ops, rounded);
    judge_sums(forwards, rounded);
    memcpy(taps_outside, got, sizeof got);
    assert_non_null(judge_sums(blocks_of_channels, taps_outside).fault);
    assert_null(judge_sums(blocks_of_channels, rounded).fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounding_has_one_unit), cmocka_unit_test(largest_has_one_unit),
                                       cmocka_unit_test(cut_sums_have_more), cmocka_unit_test(sums_have_any_order),
                                       cmocka_unit_test(one_order_is_no_budget)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
