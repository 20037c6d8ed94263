/* test_planted.c - inputs with planted keys against their formulas in double, and blocks that are chosen without a score. */
#include "block_choice.h"
#include "op.h"
#include "planted_keys.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 2048, H = 4, HK = 2, D = 32, NQ = N / SG_BLOCK_Q, NK = N / SG_BLOCK_K, SAMPLES = 64, GLOBAL_AND_WAVES = 17 };

static sg_planted planted(sg_planted_in in, double margin, sg_dtype dtype, uint64_t seed, int threads)
{
    sg_planted p = {.n = N, .h = H, .hk = HK, .d = D, .dtype = dtype, .in = in, .margin = margin, .samples = SAMPLES};
    sg_error   e = {0};
    assert_int_equal(sg_planted_make(&p, seed, threads, &e), SG_OK);
    assert_int_equal(sg_planted_attend(&p, threads, &e), SG_OK);
    return p;
}

static int32_t key_of(const sg_planted *p, int64_t row, int head) { return p->key[row * H + head]; }

/* The weights of a row, and the largest sum of |q k| of a logit. */
static double weights_of(const sg_planted *p, int64_t row, int head, double *w)
{
    double most = -INFINITY, sum = 0, size = 0;
    for (int64_t t = 0; t <= row; t++) {
        double logit = 0, all = 0;
        for (int c = 0; c < D; c++) {
            const double x = (double)p->q[(row * H + head) * D + c] * (double)p->k[(t * HK + head / (H / HK)) * D + c];
            logit += x / sqrt(D);
            all += fabs(x) / sqrt(D);
        }
        w[t] = logit;
        most = fmax(most, logit);
        size = fmax(size, all);
    }
    for (int64_t t = 0; t <= row; t++) sum += w[t] = exp(w[t] - most);
    for (int64_t t = 0; t <= row; t++) w[t] /= sum;
    return size;
}

/* Logits in F32 are off by at most (d + 2) 2^-24 of the sum of |q k|, twice: where a is found, and where q is rounded. A
 * share moves by a quarter of what m moves by. */
static double bound(double size) { return (1e-5 + 4 * (D + 4) * 0x1p-24 * size) / 4; }

static void a_planted_key_has_its_share(void **state)
{
    static const double margins[] = {-2, 0, 3};
    double             *w = calloc(N, sizeof *w);
    for (int in = 0; in < SG_PLANTED_KINDS; in++) {
        sg_planted   p = planted((sg_planted_in)in, margins[in], SG_F32, 7, 2);
        const double share = 1 / (1 + exp(-margins[in]));
        for (int64_t row = SG_PLANTED_FIRST; row < N; row += 37)
            for (int head = 0; head < H; head++) {
                const double size = weights_of(&p, row, head, w);
                assert_true(fabs(w[key_of(&p, row, head)] - share) <= bound(size));
                assert_true(size < 300);
            }
        assert_true(fabs(p.share - share) <= bound(300));
        sg_planted_free(&p);
    }
    free(w);
}

static bool noisy(int64_t block) { return block % 16 == 8; }

static void keys_stand_where_they_should(void **state)
{
    for (int in = 0; in < SG_PLANTED_KINDS; in++) {
        sg_planted p = planted((sg_planted_in)in, 0, SG_F32, 9, 1);
        for (int head = 0; head < H; head++)
            for (int64_t row = 0; row < N; row++) {
                const int64_t first = row / SG_BLOCK_Q * SG_BLOCK_Q, key = key_of(&p, row, head);
                const int64_t of_first = key_of(&p, first, head);
                assert_int_equal(key < 0, row < SG_PLANTED_FIRST);
                if (key < 0) continue;
                assert_in_range(key, SG_BLOCK_K, first - 256 - 1);
                assert_int_equal(noisy(key / SG_BLOCK_K), in != SG_PLANTED_SIMILAR);
                if (in == SG_PLANTED_NOISY) assert_int_equal(key, of_first);
                if (in == SG_PLANTED_SIMILAR) assert_int_equal(key / SG_BLOCK_K, of_first / SG_BLOCK_K);
            }
        sg_planted_free(&p);
    }
}

/* How much the content of a block of keys resembles itself: self_similarity's formula. */
static double similarity_of(const sg_planted *p, int64_t block)
{
    double sum[D] = {0}, square = 0;
    for (int64_t t = block * SG_BLOCK_K; t < (block + 1) * SG_BLOCK_K; t++) {
        const float *const k = p->k + t * HK * D;
        double             own = 0;
        for (int c = GLOBAL_AND_WAVES; c < D; c++) own += (double)k[c] * (double)k[c];
        assert_true(fabs(own - (D - GLOBAL_AND_WAVES)) < 1e-4);
        for (int c = GLOBAL_AND_WAVES; c < D; c++) sum[c] += (double)k[c] / sqrt(own);
    }
    for (int c = 0; c < D; c++) square += sum[c] * sum[c];
    return square / SG_BLOCK_K / SG_BLOCK_K;
}

static void noisy_blocks_are_noisy(void **state)
{
    sg_planted p = planted(SG_PLANTED_NOISY, 0, SG_F32, 3, 1);
    for (int64_t block = 0; block < NK; block++) {
        assert_int_equal(similarity_of(&p, block) < 0.2, noisy(block));
        assert_int_equal(similarity_of(&p, block) > 0.5, !noisy(block));
    }
    for (int64_t t = 0; t < N; t++) { /* the sink and the stripes, which the waves say nothing of */
        const double g = (double)p.k[t * HK * D];
        assert_true(fabs(g - (t == 0 ? 2 : t % 128 == 64 ? 1 : 0)) < 1e-9);
    }
    sg_planted_free(&p);
}

static void a_seed_gives_the_same_numbers(void **state)
{
    sg_planted a = planted(SG_PLANTED_SCATTERED, 1, SG_F32, 5, 1), b = planted(SG_PLANTED_SCATTERED, 1, SG_F32, 5, 3);
    sg_planted c = planted(SG_PLANTED_SCATTERED, 1, SG_F32, 6, 1);
    assert_memory_equal(a.q, b.q, N * H * D * sizeof *a.q);
    assert_memory_equal(a.k, b.k, N * HK * D * sizeof *a.k);
    assert_memory_equal(a.v, b.v, N * HK * D * sizeof *a.v);
    assert_memory_equal(a.key, b.key, N * H * sizeof *a.key);
    assert_memory_equal(a.mass, b.mass, H * NQ * NK * sizeof *a.mass);
    assert_true(memcmp(a.q, c.q, N * H * D * sizeof *a.q) != 0);
    sg_planted_free(&a);
    sg_planted_free(&b);
    sg_planted_free(&c);
}

/* Mass of a block of queries, and output, by double. */
static void exact_attention_is_exact(void **state)
{
    sg_planted p = planted(SG_PLANTED_SIMILAR, 0, SG_F32, 11, 2);
    double    *w = calloc(N, sizeof *w), mass[NK] = {0};
    const int  head = 3, block = 12;
    for (int64_t row = block * SG_BLOCK_Q; row < (block + 1) * SG_BLOCK_Q; row++) {
        weights_of(&p, row, head, w);
        for (int64_t t = 0; t <= row; t++) mass[t / SG_BLOCK_K] += w[t] / SG_BLOCK_Q;
    }
    for (int64_t j = 0; j < NK; j++) assert_true(fabs(mass[j] - (double)p.mass[(head * NQ + block) * NK + j]) < 1e-5);
    for (int64_t i = 0; i < SAMPLES; i += 9) {
        const int64_t row = sg_planted_row(&p, i);
        weights_of(&p, row, head, w);
        for (int c = 0; c < D; c++) {
            double y = 0;
            for (int64_t t = 0; t <= row; t++) y += w[t] * (double)p.v[(t * HK + head / (H / HK)) * D + c];
            assert_true(fabs(y - (double)p.output[(i * H + head) * D + c]) < 1e-4);
        }
    }
    free(w);
    sg_planted_free(&p);
}

static void bf16_is_rounded(void **state)
{
    sg_planted p = planted(SG_PLANTED_NOISY, 2, SG_BF16, 5, 1);
    for (int64_t i = 0; i < N * H * D; i++) assert_true(sg_bf16_to_f32(sg_f32_to_bf16(p.q[i])) - p.q[i] == 0);
    for (int64_t i = 0; i < N * HK * D; i++) assert_true(sg_bf16_to_f32(sg_f32_to_bf16(p.k[i])) - p.k[i] == 0);
    for (int64_t i = 0; i < N * HK * D; i++) assert_true(sg_bf16_to_f32(sg_f32_to_bf16(p.v[i])) - p.v[i] == 0);
    assert_true(fabs(p.share - 1 / (1 + exp(-2))) < 0.01);
    sg_planted_free(&p);
}

/* ---- blocks ---- */

static void choices_keep_as_many_as_top_k(void **state)
{
    static uint8_t mask[H * NQ * NK];
    static float   mass[H * NQ * NK], room[NK];
    assert_int_equal(sg_topk_count(0.1f, 4), 1);
    assert_int_equal(sg_topk_count(0.5f, 9), 4);
    assert_int_equal(sg_topk_count(1, 9), 9);
    for (int64_t i = 0; i < H * NQ * NK; i++) mass[i] = (float)(i * 7919 % 1009);
    for (int by = 0; by < SG_CHOICES; by++) {
        sg_block_choose(mask, (sg_block_choice)by, 0.3f, mass, N, H, room, 1);
        for (int64_t row = 0; row < H * NQ; row++) {
            const int64_t        visible = 2 * (row % NQ + 1), count = sg_topk_count(0.3f, visible);
            const uint8_t *const at = mask + row * NK;
            int64_t              kept = 0; /* before the diagonal, which all choices keep beside */
            float                least = INFINITY, best = -1;
            for (int64_t j = 0; j < NK; j++) {
                const float m = mass[row * NK + j];
                if (j >= visible - 2) {
                    assert_int_equal(at[j], j < visible);
                    continue;
                }
                kept += at[j];
                if (at[j] && m < least) least = m;
                if (!at[j] && m > best) best = m;
                if (by == SG_CHOICE_WINDOW) assert_int_equal(at[j], j == 0 || j > visible - count);
            }
            assert_true(kept <= count && kept >= sg_min64(count, visible - 2) - 2);
            if (by == SG_CHOICE_ORACLE) assert_true(least >= best);
        }
    }
    static uint8_t again[sizeof mask];
    sg_block_choose(again, SG_CHOICE_RANDOM, 0.3f, mass, N, H, room, 1);
    assert_memory_equal(mask, again, sizeof mask);
    sg_block_choose(again, SG_CHOICE_RANDOM, 0.3f, mass, N, H, room, 2);
    assert_true(memcmp(mask, again, sizeof mask) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_planted_key_has_its_share),   cmocka_unit_test(keys_stand_where_they_should),
        cmocka_unit_test(noisy_blocks_are_noisy),        cmocka_unit_test(a_seed_gives_the_same_numbers),
        cmocka_unit_test(exact_attention_is_exact),      cmocka_unit_test(bf16_is_rounded),
        cmocka_unit_test(choices_keep_as_many_as_top_k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
