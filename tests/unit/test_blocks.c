/* test_blocks.c - what the stages of sparse attention must do whatever computes them, on the oracle. */
#include "backend.h"
#include "meta.h"
#include "op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROOM = 1 << 24, N = 300, M = 450, H = 4, HK = 2, D = 16, NQ = 3, NK = 8 };

static unsigned char room[ROOM] __attribute__((aligned(SG_ALIGN)));
static uint32_t      seed;

static sg_stream ref_stream(void)
{
    seed = 1;
    return (sg_stream){.ops = &sg_ref_ops, .scratch = {.base = (uintptr_t)room, .cap = sizeof room}};
}

static int draw(int below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}

/* Integers below `spread` either side of 0, times `step`. */
static sg_tensor drawn(sg_stream *s, sg_dtype type, int spread, float step, int rank, const int64_t *dim)
{
    const sg_tensor t = sg_alloc(s, &s->scratch, type, rank, dim);
    for (int64_t i = 0; i < sg_count(t); i++) sg_store(&t, i, (float)(draw(2 * spread - 1) - spread + 1) * step);
    return t;
}
#define DRAWN(s, type, spread, step, ...) drawn(s, type, spread, step, SG_DIMS(__VA_ARGS__))

static sg_tensor all_of(sg_stream *s, float v, int rank, const int64_t *dim)
{
    const sg_tensor t = sg_alloc(s, &s->scratch, SG_F32, rank, dim);
    for (int64_t i = 0; i < sg_count(t); i++) sg_store(&t, i, v);
    return t;
}
#define ALL_OF(s, v, ...) all_of(s, v, SG_DIMS(__VA_ARGS__))

static float at(sg_tensor t, int64_t i) { return sg_load(&t, i); }

static void assert_near(sg_tensor a, sg_tensor b, double off)
{
    assert_int_equal(sg_count(a), sg_count(b));
    for (int64_t i = 0; i < sg_count(a); i++) assert_true(fabs((double)at(a, i) - (double)at(b, i)) <= off);
}

static void assert_equal(sg_tensor a, sg_tensor b)
{
    assert_int_equal(sg_bytes(a), sg_bytes(b));
    assert_memory_equal(a.data, b.data, sg_bytes(a));
}

/* ---- what is predicted ---- */

static void pools_of_a_ragged_end(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const sg_tensor x = DRAWN(&s, SG_F32, 9, 1, 70, 2, 3);
    const sg_tensor mean = sg_new(&s, SG_F32, 2, 2, 3), var = sg_new(&s, SG_F32, 2, 2, 3);
    const sg_tensor sub = sg_new(&s, SG_F32, 5, 2, 3), total = sg_new(&s, SG_F32, 2, 3);
    sg_pool(&s, .mean = mean, .var = var, .sub = sub, .total = total, .x = x, .block = 64);
    assert_int_equal(s.status, SG_OK);
    for (int c = 0; c < 6; c++) {
        double block = 0, last = 0, square = 0;
        for (int r = 64; r < 70; r++) last += (double)at(x, r * 6 + c);
        for (int r = 0; r < 64; r++) block += (double)at(x, r * 6 + c);
        for (int r = 0; r < 64; r++) square += pow((double)at(x, r * 6 + c) - block / 64, 2);
        assert_true(at(mean, c) == (float)(block / 64) && at(mean, 6 + c) == (float)(last / 6));
        assert_true(at(sub, 4 * 6 + c) == (float)(last / 6) && at(total, c) == (float)((block + last) / 70));
        assert_true(fabs((double)at(var, c) - square / 64) < 1e-6 * square);
    }
}

static void alike_tells_directions(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const sg_tensor x = ALL_OF(&s, 0, 256, 1, 64), y = sg_new(&s, SG_F32, 4, 1), center = ALL_OF(&s, 7, 1, 64);
    for (int r = 0; r < 64; r++) {
        sg_store(&x, r * 64 + 3, (float)(r + 1));               /* one direction */
        sg_store(&x, (64 + r) * 64 + r, 2);                     /* all apart */
        sg_store(&x, (128 + r) * 64 + 5, r % 2 ? 1.0f : -1.0f); /* opposite */
        if (r) sg_store(&x, (192 + r) * 64, 1);                 /* one row of nothing */
    }
    sg_alike(&s, .y = y, .x = x, .block = 64);
    assert_true(fabsf(at(y, 0) - 1) < 1e-6f && fabsf(at(y, 1) - 1.0f / 64) < 1e-6f && at(y, 2) == 0 && isnan(at(y, 3)));
    for (int64_t i = 0; i < sg_count(x); i++) sg_store(&x, i, at(x, i) + 7);
    const sg_tensor other = sg_new(&s, SG_F32, 4, 1);
    sg_alike(&s, .y = other, .x = x, .center = center, .block = 64);
    assert_int_equal(s.status, SG_OK);
    assert_near(sg_rows(y, 0, 3), sg_rows(other, 0, 3), 1e-6);
}

static void quantise_rounds_ties_to_even(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const sg_tensor x = ALL_OF(&s, 0, 20, 1, 4), y = sg_new(&s, SG_I8, 1, 20, 4), scale = sg_new(&s, SG_F32, 2, 1);
    const float     row[4] = {127, 0.5f, -1.5f, 2.5f};
    memcpy(x.data, row, sizeof row);
    sg_store(&x, 17 * 4, NAN);
    sg_quantise(&s, .y = y, .scale = scale, .x = x, .group = 16);
    assert_true(at(scale, 0) == 1 && isnan(at(scale, 1)));
    assert_true(at(y, 0) == 127 && at(y, 1) == 0 && at(y, 2) == -2 && at(y, 3) == 2 && at(y, 5) == 0);

    const sg_tensor given = ALL_OF(&s, 0.01f, 1, 4); /* too small for the first row; 0 for the last channel */
    sg_store(&given, 3, 0);
    sg_quantise(&s, .y = y, .scale = given, .x = sg_rows(x, 0, 16), .given = true);
    assert_int_equal(s.status, SG_E_SHAPE);
    s.status = SG_OK;
    const sg_tensor short_y = sg_new(&s, SG_I8, 1, 16, 4);
    sg_quantise(&s, .y = short_y, .scale = given, .x = sg_rows(x, 0, 16), .given = true);
    assert_int_equal(s.status, SG_OK);
    assert_true(at(short_y, 0) == 127 && at(short_y, 1) == 50 && at(short_y, 2) == -127 && at(short_y, 3) == 0);
    assert_true(at(given, 0) == 0.01f);
}

/* What pool makes beside its means is what quantise makes, NaN and all. */
static void pool_quantises_on_the_way(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        sg_stream       s = ref_stream();
        const sg_tensor x = DRAWN(&s, bf16 ? SG_BF16 : SG_F32, 500, 0.37f, 150, 3, 5);
        const sg_tensor mean = sg_new(&s, SG_F32, 2, 3, 5), total = sg_new(&s, SG_F32, 3, 5);
        const sg_tensor reach = sg_new(&s, SG_F32, 3, 5), reach_want = sg_new(&s, SG_F32, 3, 5);
        const sg_tensor y = sg_new(&s, SG_I8, 3, 150, 5), y_want = sg_new(&s, SG_I8, 3, 150, 5);
        const sg_tensor scale = sg_new(&s, SG_F32, 5, 3), scale_want = sg_new(&s, SG_F32, 5, 3);
        sg_store(&x, (40 * 3 + 1) * 5 + 2, bf16 ? INFINITY : NAN); /* group 1, head 1, channel 2 */
        sg_pool(&s, .mean = mean, .total = total, .reach = reach, .y = y, .scale = scale, .x = x, .block = 128,
                .group = 32);
        sg_quantise(&s, .y = y_want, .scale = reach_want, .x = x, .center = total);
        sg_quantise(&s, .y = y_want, .scale = scale_want, .x = x, .group = 32);
        assert_int_equal(s.status, SG_OK);
        for (int i = 0; i < 15; i++)
            assert_true(i == 7 ? isnan(at(reach, i)) : at(reach, i) == at(reach_want, i) && at(reach, i) > 0);
        for (int i = 0; i < 15; i++)
            assert_true(i == 4 ? isnan(at(scale, i)) : at(scale, i) == at(scale_want, i) && at(scale, i) > 0);
        assert_equal(y, y_want);
    }
}

static double row_sum(sg_tensor t, int64_t row)
{
    double sum = 0;
    for (int64_t j = 0; j < t.dim[2]; j++) sum += (double)at(t, row * t.dim[2] + j);
    return sum;
}

/* Scores of a row are shares of one mass, of whole blocks as of sub-blocks; fixed blocks and those out of sight have none;
 * fixed rows have none at all. */
static void scores_are_shares(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++) {
        sg_stream       s = ref_stream();
        const bool      sub = k % 2, causal = k / 2 % 2, ragged = k / 4;
        const int64_t   m = causal ? N : M, nk = causal ? 5 : NK;
        const sg_tensor q = DRAWN(&s, SG_F32, 9, 0.1f, sub ? 19 : NQ, H, D);
        const sg_tensor keys = DRAWN(&s, SG_F32, 9, 0.1f, sub ? (m + 15) / 16 : nk, HK, D);
        const sg_tensor y = sg_new(&s, SG_F32, H, NQ, nk), k_alike = ALL_OF(&s, 1, nk, HK);
        sg_store(&k_alike, 2 * HK + 1, 0.5f); /* on theta, which is not above it */
        sg_score(&s, .y = y, .q = q, .k = keys, .q_alike = ALL_OF(&s, 1, NQ, H), .k_alike = k_alike,
                 .theta = ALL_OF(&s, 0.5f, H), .scale = 1, .sub = sub, .ragged = ragged, .causal = causal, .n = N,
                 .m = m);
        assert_int_equal(s.status, SG_OK);
        for (int64_t row = 0; row < H * NQ; row++)
            assert_true(fabs(row_sum(y, row) - (row % NQ == NQ - 1 && !ragged ? 0 : 1)) < 1e-6); /* is not full */
        for (int64_t g = 0; g < H; g++) {
            assert_true(at(y, (g * NQ) * nk + nk - 1) == 0);
            assert_true((at(y, (g * NQ + 1) * nk + 2) == 0) == (g >= 2)); /* heads 2 and 3 have the second of keys */
            assert_true((at(y, g * NQ * nk + 3) == 0) == causal);
        }
    }
}

static void weights_scale_scores(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const sg_tensor q = DRAWN(&s, SG_F32, 9, 0.1f, NQ, H, D), k = DRAWN(&s, SG_F32, 9, 0.1f, NK, HK, D);
    const sg_tensor plain = sg_new(&s, SG_F32, H, NQ, NK), y = sg_new(&s, SG_F32, H, NQ, NK);
    const sg_tensor k_var = ALL_OF(&s, 4, NK, HK, D), v_var = ALL_OF(&s, 9, NK, HK, 3);
    for (int i = 0; i < HK * 3; i++) sg_store(&v_var, i, 0);
    sg_score(&s, .y = plain, .q = q, .k = k, .scale = 1, .n = N, .m = M);
    sg_score(&s, .y = y, .q = q, .k = k, .k_var = k_var, .v_var = v_var, .scale = 1, .n = N, .m = M);
    assert_int_equal(s.status, SG_OK);
    for (int64_t i = 0; i < sg_count(y); i++)
        assert_true(fabsf(at(y, i) - at(plain, i) * (i % NK == 0 ? 0.0f : 6.0f)) < 1e-6f);
}

/* ---- what is selected ---- */

typedef struct chosen {
    sg_tensor keep, kept, mass;
} chosen;

static chosen chosen_new(sg_stream *s, int64_t h, int64_t nq, int64_t nk)
{
    return (chosen){sg_new(s, SG_U8, h, nq, (nk + 63) / 64 * 8), sg_new(s, SG_I32, h, 2), sg_new(s, SG_F32, h)};
}

static bool has(const chosen *c, int64_t g, int64_t i, int64_t j)
{
    const sg_tensor *const k = &c->keep;
    return ((const uint8_t *)k->data)[(g * k->dim[1] + i) * k->dim[2] + j / 8] >> j % 8 & 1;
}

static int64_t count_of(const chosen *c, int64_t g, int64_t i)
{
    int64_t count = 0;
    for (int64_t j = 0; j < 8 * c->keep.dim[2]; j++) count += has(c, g, i, j);
    return count;
}

/* 12 full blocks of queries, 24 of keys; amount for each of two heads. */
enum { SELECT_N = 12 * SG_BLOCK_Q, ROWS = 12, COLS = 24 };
#define SELECT(s, c, scores, ...)                                                                                      \
    sg_select(s, .keep = (c).keep, .kept = (c).kept, .mass = (c).mass, .score = scores, .n = SELECT_N, .m = SELECT_N,  \
              __VA_ARGS__)

static void topk_takes_its_number(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const chosen    c = chosen_new(&s, 2, ROWS, COLS);
    const sg_tensor score = ALL_OF(&s, 1, 2, ROWS, COLS), amount = ALL_OF(&s, 0.26f, 2);
    sg_store(&amount, 1, 0.01f);
    for (int i = 0; i < ROWS; i++) sg_store(&score, i * COLS + 20, 2);
    SELECT(&s, c, score, .amount = amount);
    assert_int_equal(s.status, SG_OK);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(count_of(&c, 0, i), 6); /* 6.24 */
        assert_int_equal(count_of(&c, 1, i), 1);
        for (int j = 0; j < 5; j++) assert_true(has(&c, 0, i, j)); /* of equals the first */
        assert_true(has(&c, 0, i, 20) && has(&c, 1, i, 0));
    }
    assert_int_equal(((int32_t *)c.kept.data)[0], 6 * ROWS);
    assert_true(fabsf(at(c.mass, 0) - 7.0f / 25) < 1e-6f && fabsf(at(c.mass, 1) - 1.0f / 24) < 1e-6f);
}

static void mass_takes_the_longest_prefix(void **state)
{
    (void)state;
    for (int k = 0; k <= 4; k++) {
        sg_stream       s = ref_stream();
        const chosen    c = chosen_new(&s, 2, ROWS, COLS);
        const sg_tensor score = sg_new(&s, SG_F32, 2, ROWS, COLS), amount = ALL_OF(&s, (float)k / 4, 2);
        for (int64_t i = 0; i < sg_count(score); i++) sg_store(&score, i, (float)(1 + draw(60)));
        SELECT(&s, c, score, .amount = amount, .rule = SG_SELECT_MASS);
        assert_int_equal(s.status, SG_OK);
        for (int64_t row = 0; row < 2 * ROWS; row++) {
            const double all = row_sum(score, row), limit = all * k / 4;
            double       sum = 0, worst = INFINITY, best_left = 0;
            for (int64_t j = 0; j < COLS; j++) {
                const double v = (double)at(score, row * COLS + j);
                if (has(&c, row / ROWS, row % ROWS, j)) {
                    sum += v;
                    worst = fmin(worst, v);
                } else
                    best_left = fmax(best_left, v);
            }
            const int64_t count = count_of(&c, row / ROWS, row % ROWS);
            assert_true(count >= 1 && (count == 1 || sum <= limit) && worst >= best_left);
            assert_true(count == COLS ? k == 4 : sum + best_left > limit);
        }
    }
}

static void heads_share_a_budget(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const chosen    c = chosen_new(&s, 2, ROWS, COLS), each = chosen_new(&s, 2, ROWS, COLS);
    const sg_tensor score = sg_new(&s, SG_F32, 2, ROWS, COLS), amount = ALL_OF(&s, 0.5f, 2);
    for (int64_t i = 0; i < sg_count(score); i++) sg_store(&score, i, (float)(1 + draw(60)) * (i < 288 ? 9.0f : 1.0f));
    SELECT(&s, c, score, .amount = amount, .heads = true);
    SELECT(&s, each, score, .amount = amount);
    assert_int_equal(s.status, SG_OK);
    const int32_t *const kept = c.kept.data;
    assert_int_equal(kept[0] + kept[2], 2 * ROWS * COLS / 2);
    assert_true(kept[0] > kept[2]);
    double worst = INFINITY, best_left = 0;
    for (int64_t row = 0; row < 2 * ROWS; row++) {
        const int64_t count = count_of(&c, row / ROWS, row % ROWS);
        assert_true(count >= COLS / 8);
        for (int64_t j = 0; j < COLS; j++) {
            const double v = (double)at(score, row * COLS + j);
            if (!has(&c, row / ROWS, row % ROWS, j)) best_left = fmax(best_left, v);
            if (has(&c, row / ROWS, row % ROWS, j) && count > COLS / 8) worst = fmin(worst, v);
        }
    }
    assert_true(worst >= best_left || worst <= 60); /* what a row has of its own may be worse */
}

/* Text, blocks that are not alike, sink, and what nobody may see. */
static void fixed_blocks_are_added(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const chosen    c = chosen_new(&s, 2, ROWS, COLS);
    const sg_tensor score = ALL_OF(&s, 0, 2, ROWS, COLS), amount = ALL_OF(&s, 0.01f, 2);
    const sg_tensor q_alike = ALL_OF(&s, 1, ROWS, 2), k_alike = ALL_OF(&s, 1, COLS, 2), theta = ALL_OF(&s, 0.5f, 2);
    for (int64_t row = 0; row < 2 * ROWS; row++) sg_store(&score, row * COLS + 10, 1);
    sg_store(&q_alike, 4 * 2 + 1, NAN);
    sg_store(&k_alike, 6 * 2, 0.5f);
    SELECT(&s, c, score, .amount = amount, .q_alike = q_alike, .k_alike = k_alike, .theta = theta, .sink = 2,
           .front = 129, .back = 1);
    assert_int_equal(s.status, SG_OK);
    for (int i = 0; i < ROWS; i++)
        for (int g = 0; g < 2; g++) {
            const bool all = i < 2 || i == ROWS - 1 || (g == 1 && i == 4);
            for (int j = 0; j < COLS; j++) {
                const bool fixed = j < 3 || j == COLS - 1 || (g == 0 && j == 6);
                assert_int_equal(has(&c, g, i, j), all || fixed || j == 10);
            }
        }
    SELECT(&s, c, score, .amount = amount, .causal = true);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(count_of(&c, 0, i), i >= 5); /* block 10 comes into sight with row 5 */
    SELECT(&s, c, score, .rule = SG_SELECT_GIVEN, .causal = true, .sink = 2, .front = 200);
    assert_int_equal(s.status, SG_OK);
    for (int i = 0; i < ROWS; i++) assert_int_equal(count_of(&c, 0, i), i >= 5);
    assert_true(at(c.mass, 0) == 7.0f / 12);
}

/* A last block of queries that is not full keeps all, or with `ragged` what others keep; one of keys is kept. */
static void ragged_ends_are_kept(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        sg_stream       s = ref_stream();
        const bool      ragged = k % 2, text = k / 2;
        const chosen    c = chosen_new(&s, 2, ROWS, COLS);
        const sg_tensor score = ALL_OF(&s, 0, 2, ROWS, COLS), amount = ALL_OF(&s, 0.01f, 2);
        for (int64_t row = 0; row < 2 * ROWS; row++) sg_store(&score, row * COLS + 10, 1);
        sg_select(&s, .keep = c.keep, .kept = c.kept, .mass = c.mass, .score = score, .amount = amount,
                  .ragged = ragged, .n = SELECT_N - 30, .m = SELECT_N - 30, .back = text);
        assert_int_equal(s.status, SG_OK);
        const int64_t last = ragged && !text ? 2 : COLS;
        for (int g = 0; g < 2; g++) {
            for (int i = 0; i < ROWS; i++) {
                assert_int_equal(count_of(&c, g, i), i == ROWS - 1 ? last : 2);
                assert_true(has(&c, g, i, 10) && has(&c, g, i, COLS - 1));
            }
            assert_int_equal(((int32_t *)c.kept.data)[2 * g], 2 * (ROWS - 1) + last);
            assert_int_equal(((int32_t *)c.kept.data)[2 * g + 1], last);
        }
    }
}

static void no_score_is_no_mass(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const chosen    c = chosen_new(&s, 2, ROWS, COLS);
    const sg_tensor score = ALL_OF(&s, 0, 2, ROWS, COLS);
    SELECT(&s, c, score, .rule = SG_SELECT_GIVEN);
    assert_int_equal(s.status, SG_OK);
    assert_true(((int32_t *)c.kept.data)[0] == 0 && at(c.mass, 0) == 1);
}

/* ---- what is attended ---- */

/* Numbers that 8 bits hold, so that nothing but the formula is in question. */
typedef struct inputs {
    sg_tensor q, k, v, q_scale, k_scale, v_scale, y, keep, tail_k, tail_k_scale, tail_v;
} inputs;

static inputs inputs_new(sg_stream *s, int64_t n, int64_t m)
{
    const int64_t nq = (n + 127) / 128, nk = (m + 63) / 64;
    inputs        x = {.q = DRAWN(s, SG_I8, 20, 1, H, n, D),
                       .k = DRAWN(s, SG_I8, 20, 1, HK, m, D),
                       .v = DRAWN(s, SG_I8, 128, 1, HK, m, D),
                       .tail_k = DRAWN(s, SG_I8, 20, 1, HK, nk, D),
                       .tail_v = DRAWN(s, SG_I8, 128, 1, HK, nk, D),
                       .y = sg_new(s, SG_F32, n, H, D),
                       .keep = sg_new(s, SG_U8, H, nq, (nk + 63) / 64 * 8)};
    x.q_scale = ALL_OF(s, 0.03f, (n + 31) / 32, H);
    x.k_scale = ALL_OF(s, 0.04f, (m + 15) / 16, HK);
    x.v_scale = ALL_OF(s, 0.05f, HK, D);
    x.tail_k_scale = ALL_OF(s, 0.04f, (nk + 63) / 64, HK);
    for (int64_t i = 0; i < x.q_scale.dim[0] * H; i++) sg_store(&x.q_scale, i, 0.01f * (float)(1 + draw(4)));
    for (int64_t i = 0; i < x.k_scale.dim[0] * HK; i++) sg_store(&x.k_scale, i, 0.01f * (float)(1 + draw(4)));
    return x;
}

static void keep_all(const inputs *x, int64_t nk, bool all)
{
    memset(x->keep.data, 0, sg_bytes(x->keep));
    for (int64_t row = 0; all && row < x->keep.dim[0] * x->keep.dim[1]; row++)
        for (int64_t j = 0; j < nk; j++)
            ((uint8_t *)x->keep.data)[row * x->keep.dim[2] + j / 8] |= (uint8_t)(1u << j % 8);
}

#define ATTEND(s, x, ...)                                                                                              \
    sg_attend_blocks(s, .q = (x)->q, .q_scale = (x)->q_scale, .k = (x)->k, .k_scale = (x)->k_scale, .v = (x)->v,       \
                     .v_scale = (x)->v_scale, .q_group = 32, .k_group = 16, .scale = 0.7f, __VA_ARGS__)
#define TAIL(x) .tail_k = (x)->tail_k, .tail_k_scale = (x)->tail_k_scale, .tail_v = (x)->tail_v

/* I8 [heads, n, d] with its scales as F32 [n, H, d]: each head of keys as often as it serves. */
static sg_tensor unpacked(sg_stream *s, sg_tensor x, sg_tensor scale, int group)
{
    const int64_t   heads = x.dim[0], n = x.dim[1];
    const sg_tensor y = sg_new(s, SG_F32, n, H, D);
    for (int64_t i = 0; i < sg_count(y); i++) {
        const int64_t e = i % D, g = i / D % H / (H / heads), t = i / D / H;
        sg_store(&y, i, at(x, (g * n + t) * D + e) * at(scale, group ? t / group * heads + g : g * D + e));
    }
    return y;
}

static void everything_kept_is_dense(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        sg_stream       s = ref_stream();
        const int64_t   m = causal ? N : M;
        const inputs    x = inputs_new(&s, N, m);
        const sg_tensor dense = sg_new(&s, SG_F32, N, H, D), all = sg_new(&s, SG_F32, N, H, D);
        const sg_tensor tail = sg_new(&s, SG_F32, N, H, D), bias = ALL_OF(&s, 0, H, N, m);
        for (int64_t i = 0; causal && i < sg_count(bias); i++)
            if (i % m > i / m % N) sg_store(&bias, i, -INFINITY);
        sg_attend(&s, .y = dense, .q = unpacked(&s, x.q, x.q_scale, 32), .k = unpacked(&s, x.k, x.k_scale, 16),
                  .v = unpacked(&s, x.v, x.v_scale, 0), .bias = bias, .scale = 0.7f);
        keep_all(&x, (m + 63) / 64, true);
        ATTEND(&s, &x, .y = x.y, .causal = causal);
        ATTEND(&s, &x, .y = all, .causal = causal, .keep = x.keep);
        ATTEND(&s, &x, .y = tail, .causal = causal, .keep = x.keep, TAIL(&x));
        assert_int_equal(s.status, SG_OK);
        assert_near(x.y, dense, 1e-5);
        assert_equal(x.y, all);
        assert_equal(x.y, tail);
    }
}

static void nothing_kept_is_nothing(void **state)
{
    (void)state;
    sg_stream    s = ref_stream();
    const inputs x = inputs_new(&s, N, M);
    keep_all(&x, NK, false);
    ATTEND(&s, &x, .y = x.y, .keep = x.keep, .v_center = ALL_OF(&s, 3, HK, D));
    assert_int_equal(s.status, SG_OK);
    for (int64_t i = 0; i < sg_count(x.y); i++) assert_true(at(x.y, i) == 0);
}

/* The tail alone is attention over the means of all full blocks; with causal, of those that end before the queries. */
static void tail_is_attention_over_means(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        sg_stream       s = ref_stream();
        const bool      causal = k == 2;
        const int64_t   m = causal ? N : M, nk = (m + 63) / 64;
        const inputs    x = inputs_new(&s, N, m);
        const sg_tensor bias = ALL_OF(&s, 0, H, N, nk), direct = sg_new(&s, SG_F32, N, H, D);
        const sg_tensor tail_bias = DRAWN(&s, SG_F32, 9, 0.3f, H, NQ, nk);
        for (int64_t i = 0; i < sg_count(bias); i++) {
            const int64_t j = i % nk, r = i / nk % N, g = i / nk / N, block = r / SG_BLOCK_Q;
            const bool    seen = (j + 1) * 64 <= m && (!causal || (j + 1) * 64 <= block * SG_BLOCK_Q);
            sg_store(&bias, i, seen ? (k ? at(tail_bias, (g * NQ + block) * nk + j) : logf(64)) : -INFINITY);
        }
        sg_attend(&s, .y = direct, .q = unpacked(&s, x.q, x.q_scale, 32),
                  .k = unpacked(&s, x.tail_k, x.tail_k_scale, 64), .v = unpacked(&s, x.tail_v, x.v_scale, 0),
                  .bias = bias, .scale = 0.7f);
        keep_all(&x, nk, false);
        ATTEND(&s, &x, .y = x.y, .causal = causal, .keep = x.keep, TAIL(&x),
               .tail_bias = k ? tail_bias : (sg_tensor){0});
        assert_int_equal(s.status, SG_OK);
        assert_near(x.y, direct, 1e-5);
    }
}

/* Blocks of keys in another order, with their scales and their bits, are the same attention. */
static void order_of_blocks_does_not_matter(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const inputs    x = inputs_new(&s, N, 512);
    inputs          o = x;
    const sg_tensor y = sg_new(&s, SG_F32, N, H, D);
    o.k = sg_new(&s, SG_I8, HK, 512, D);
    o.v = sg_new(&s, SG_I8, HK, 512, D);
    o.k_scale = sg_new(&s, SG_F32, 32, HK);
    o.keep = sg_new(&s, SG_U8, H, NQ, 8);
    memset(x.keep.data, 0, sg_bytes(x.keep));
    memset(o.keep.data, 0, sg_bytes(o.keep));
    for (int64_t row = 0; row < H * NQ; row++)
        for (int j = 0; j < 8; j++)
            if (draw(2)) {
                ((uint8_t *)x.keep.data)[row * 8] |= (uint8_t)(1u << j);
                ((uint8_t *)o.keep.data)[row * 8] |= (uint8_t)(1u << (j * 3 + 5) % 8);
            }
    for (int j = 0; j < 8; j++) {
        const int to = (j * 3 + 5) % 8;
        for (int g = 0; g < HK; g++) {
            memcpy((char *)o.k.data + (g * 512 + to * 64) * D, (char *)x.k.data + (g * 512 + j * 64) * D, 64 * D);
            memcpy((char *)o.v.data + (g * 512 + to * 64) * D, (char *)x.v.data + (g * 512 + j * 64) * D, 64 * D);
        }
        memcpy(sg_rows(o.k_scale, to * 4, 4).data, sg_rows(x.k_scale, j * 4, 4).data, 4 * HK * sizeof(float));
    }
    ATTEND(&s, &x, .y = x.y, .keep = x.keep);
    ATTEND(&s, &o, .y = y, .keep = o.keep);
    assert_int_equal(s.status, SG_OK);
    assert_near(x.y, y, 1e-5);
}

/* A block whose keys are nothing falls behind and is left out, by all groups but where it is the first. */
static void filter_leaves_out_what_is_far_below(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const inputs    x = inputs_new(&s, N, M);
    const sg_tensor lambda = ALL_OF(&s, INFINITY, H), skips = sg_new(&s, SG_F32, H, 2);
    const sg_tensor all = sg_new(&s, SG_F32, N, H, D), cut = sg_new(&s, SG_F32, N, H, D);
    for (int64_t i = 0; i < sg_count(x.q); i++) ((int8_t *)x.q.data)[i] = 100;
    for (int64_t i = 0; i < sg_count(x.k); i++) ((int8_t *)x.k.data)[i] = (int8_t)(i / D % M / 64 == 5 ? -100 : 10);
    for (int64_t i = 0; i < sg_count(x.q_scale); i++) sg_store(&x.q_scale, i, 0.02f);
    for (int64_t i = 0; i < sg_count(x.k_scale); i++) sg_store(&x.k_scale, i, 0.02f);
    keep_all(&x, NK, true);
    ATTEND(&s, &x, .y = all);
    ATTEND(&s, &x, .y = x.y, .lambda = lambda, .skips = skips);
    assert_equal(x.y, all);
    assert_true(at(skips, 0) == 0 && at(skips, 1) == 0);
    for (int i = 0; i < H; i++) sg_store(&lambda, i, 5);
    ATTEND(&s, &x, .y = x.y, .lambda = lambda, .skips = skips);
    for (int64_t row = 0; row < H * NQ; row++) ((uint8_t *)x.keep.data)[row * 8] &= (uint8_t) ~(1u << 5);
    ATTEND(&s, &x, .y = cut, .keep = x.keep);
    assert_int_equal(s.status, SG_OK);
    assert_equal(x.y, cut);
    for (int g = 0; g < H; g++) assert_true(at(skips, 2 * g) == 10 && at(skips, 2 * g + 1) < 1e-3f);
}

/* A value that is not a number is none to rows before it, nor is the mean of a block that they see by its keys. */
static void what_is_not_seen_does_not_matter(void **state)
{
    (void)state;
    for (unsigned level = SG_CPU_BASE; level <= SG_CPU_AVX512; level++) {
        const sg_backend_options o = {.name = "cpu", .threads = 2, .cpu_mask = (2u << level) - 1};
        sg_stream                s = ref_stream();
        sg_backend              *cpu;
        sg_error                 e;
        assert_int_equal(sg_backend_open(&cpu, &o, &e), SG_OK);
        sg_stream       on_cpu = sg_stream_on(cpu);
        inputs          x = inputs_new(&s, N, N);
        const sg_tensor clean = sg_new(&s, SG_F32, N, H, D);
        x.v = DRAWN(&s, SG_F32, 9, 1, N, HK, D);
        x.tail_v = DRAWN(&s, SG_F32, 9, 1, 5, HK, D);
        x.v_scale = (sg_tensor){0};
        keep_all(&x, 5, true);
        for (int64_t row = 0; row < H * NQ; row++)
            ((uint8_t *)x.keep.data)[row * 8] &= 0xfe; /* the first is in the tail */
        ATTEND(&on_cpu, &x, .y = clean, .causal = true, .keep = x.keep, TAIL(&x));
        for (int i = 0; i < HK * D; i++) sg_store(&x.v, 200 * HK * D + i, i % 3 ? NAN : -INFINITY);
        for (int i = HK * D; i < 5 * HK * D; i++) sg_store(&x.tail_v, i, i % 3 ? NAN : INFINITY);
        ATTEND(&on_cpu, &x, .y = x.y, .causal = true, .keep = x.keep, TAIL(&x));
        assert_int_equal(on_cpu.status, SG_OK);
        assert_near(sg_rows(x.y, 0, 200), sg_rows(clean, 0, 200), 1e-5);
        for (int64_t i = 200 * H * D; i < sg_count(x.y); i++) assert_true(!isfinite(at(x.y, i)));
        sg_backend_close(&cpu);
    }
}

static void tail_bias_is_capped(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    const sg_tensor mean = ALL_OF(&s, 1, NQ, H, D), var = ALL_OF(&s, 1, NQ, H, D), k_var = ALL_OF(&s, 1, NK, HK, D);
    const sg_tensor y = sg_new(&s, SG_F32, H, NQ, NK);
    for (int i = 0; i < HK * D; i++) sg_store(&k_var, i, i % 2 ? 0.0f : 0.5f);
    sg_tail_bias(&s, .y = y, .q_mean = mean, .q_var = var, .k_var = k_var, .rule = SG_TAIL_HALF, .scale = 0.5f);
    assert_true(fabsf(at(y, 0) - logf(64) - 0.5f) < 1e-6f && fabsf(at(y, 1) - logf(64) - 2) < 1e-6f);
    sg_tail_bias(&s, .y = y, .q_mean = mean, .q_var = var, .k_var = k_var, .rule = SG_TAIL_RANK1, .scale = 0.5f);
    assert_true(fabsf(at(y, 0) - logf(64) - 1) < 1e-6f && fabsf(at(y, 1) - logf(64) - 3) < 1e-6f);
    assert_int_equal(s.status, SG_OK);
}

/* ---- around the ops ---- */

static sg_status wrong_mass(sg_stream *s, const sg_select_args *a)
{
    const sg_status e = sg_ref_ops.select(s, a);
    ((float *)a->mass.data)[1] += 1e-3f;
    return e;
}

static void check_judges_every_output(void **state)
{
    (void)state;
    sg_stream       s = ref_stream();
    sg_ops          ops = sg_ref_ops;
    const chosen    c = chosen_new(&s, 2, ROWS, COLS);
    const sg_tensor score = ALL_OF(&s, 1, 2, ROWS, COLS), amount = ALL_OF(&s, 0.5f, 2), scale = ALL_OF(&s, 1, 2, 4);
    const sg_tensor x = DRAWN(&s, SG_F32, 9, 1, 20, 2, 4), y = sg_new(&s, SG_I8, 2, 20, 4);
    s.ops = &ops;
    sg_check_wrap(&s);
    SELECT(&s, c, score, .amount = amount);
    sg_quantise(&s, .y = y, .scale = scale, .x = x, .given = true); /* what is read is not poisoned */
    sg_pool(&s, .mean = sg_new(&s, SG_F32, 1, 2, 4), .total = sg_new(&s, SG_F32, 2, 4), .x = x, .block = 32);
    assert_int_equal(s.status, SG_OK);
    ops.select = wrong_mass;
    SELECT(&s, c, score, .amount = amount);
    assert_int_equal(s.status, SG_E_MISMATCH);
    assert_non_null(strstr(s.why, "output 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pools_of_a_ragged_end),
                                       cmocka_unit_test(alike_tells_directions),
                                       cmocka_unit_test(quantise_rounds_ties_to_even),
                                       cmocka_unit_test(pool_quantises_on_the_way),
                                       cmocka_unit_test(scores_are_shares),
                                       cmocka_unit_test(weights_scale_scores),
                                       cmocka_unit_test(topk_takes_its_number),
                                       cmocka_unit_test(mass_takes_the_longest_prefix),
                                       cmocka_unit_test(heads_share_a_budget),
                                       cmocka_unit_test(fixed_blocks_are_added),
                                       cmocka_unit_test(ragged_ends_are_kept),
                                       cmocka_unit_test(no_score_is_no_mass),
                                       cmocka_unit_test(everything_kept_is_dense),
                                       cmocka_unit_test(nothing_kept_is_nothing),
                                       cmocka_unit_test(tail_is_attention_over_means),
                                       cmocka_unit_test(order_of_blocks_does_not_matter),
                                       cmocka_unit_test(filter_leaves_out_what_is_far_below),
                                       cmocka_unit_test(what_is_not_seen_does_not_matter),
                                       cmocka_unit_test(tail_bias_is_capped),
                                       cmocka_unit_test(check_judges_every_output)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
