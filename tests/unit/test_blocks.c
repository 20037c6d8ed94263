/* test_blocks.c - how sparse attention predicts and chooses, whatever computes it. */
#include "../held.h"
#include "backend.h"
#include "block_lists.h"
#include "blocks_fixture.h"
#include "meta.h"

/* ---- what is predicted ---- */

static void pools_of_a_ragged_end(void **state)
{
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

/* Roundings of a value far above all others make the budget of its block, wherever it stands and however they fall. */
static void pool_has_a_budget_of_one_value(void **state)
{
    enum { ROWS = 15 };
    sg_stream       s = ref_stream(), in_float = {.ops = &sg_ref_rounded_ops};
    const sg_tensor y[2] = {sg_new(&s, SG_F32, 2, 1, ROWS), sg_new(&s, SG_F32, 2, 1, ROWS)};
    for (int draws = 0; draws < 40; draws++) {
        const sg_tensor x = DRAWN(&s, SG_F32, 1 << 20, 0x1p-20f, ROWS, 1, ROWS);
        for (int r = 0; r < ROWS; r++) sg_store(&x, r * ROWS + r, 100 + at(x, r));
        for (int rounded = 0; rounded < 2; rounded++)
            sg_pool(rounded ? &in_float : &s, .mean = sg_rows(y[rounded], 0, 1), .var = sg_rows(y[rounded], 1, 1),
                    .x = x, .block = 64);
        assert_true(s.status == SG_OK && in_float.status == SG_OK);
        for (int i = 0; i < 2 * ROWS; i++) {
            const double truth = (double)at(y[0], i), off = fabs((double)at(y[1], i) - truth) / truth;
            assert_true(off > 0.9 * 0x1p-24 && off < 4 * 0x1p-24);
        }
    }
}

static void self_similarity_measures_directions(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = ALL_OF(&s, 0, 256, 1, 64), y = sg_new(&s, SG_F32, 4, 1), center = ALL_OF(&s, 7, 1, 64);
    for (int r = 0; r < 64; r++) {
        sg_store(&x, r * 64 + 3, (float)(r + 1));               /* one direction */
        sg_store(&x, (64 + r) * 64 + r, 2);                     /* all apart */
        sg_store(&x, (128 + r) * 64 + 5, r % 2 ? 1.0f : -1.0f); /* opposite */
        if (r) sg_store(&x, (192 + r) * 64, 1);                 /* one row of nothing */
    }
    sg_self_similarity(&s, .y = y, .x = x, .block = 64);
    assert_true(fabsf(at(y, 0) - 1) < 1e-6f && fabsf(at(y, 1) - 1.0f / 64) < 1e-6f && at(y, 2) == 0 && isnan(at(y, 3)));
    for (int64_t i = 0; i < sg_count(x); i++) sg_store(&x, i, at(x, i) + 7);
    const sg_tensor other = sg_new(&s, SG_F32, 4, 1);
    sg_self_similarity(&s, .y = other, .x = x, .center = center, .block = 64);
    assert_int_equal(s.status, SG_OK);
    assert_near(sg_rows(y, 0, 3), sg_rows(other, 0, 3), 1e-6);
}

static void quantise_rounds_ties_to_even(void **state)
{
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
    sg_quantise(&s, .y = y, .scale = given, .x = sg_rows(x, 0, 16));
    assert_int_equal(s.status, SG_E_SHAPE);
    s.status = SG_OK;
    const sg_tensor short_y = sg_new(&s, SG_I8, 1, 16, 4);
    sg_quantise(&s, .y = short_y, .scale = given, .x = sg_rows(x, 0, 16));
    assert_int_equal(s.status, SG_OK);
    assert_true(at(short_y, 0) == 127 && at(short_y, 1) == 50 && at(short_y, 2) == -127 && at(short_y, 3) == 0);
    assert_true(at(given, 0) == 0.01f);
}

/* What pool makes beside its means is what quantise makes, NaN and all; the scale of a channel is that of its value
 * that is farthest from the mean. */
static void pool_quantises_on_the_way(void **state)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        sg_stream       s = ref_stream();
        const sg_tensor x = DRAWN(&s, bf16 ? SG_BF16 : SG_F32, 500, 0.37f, 150, 3, 5);
        const sg_tensor mean = sg_new(&s, SG_F32, 2, 3, 5), total = sg_new(&s, SG_F32, 3, 5);
        const sg_tensor channel_scale = sg_new(&s, SG_F32, 3, 5);
        const sg_tensor y = sg_new(&s, SG_I8, 3, 150, 5), y_want = sg_new(&s, SG_I8, 3, 150, 5);
        const sg_tensor scale = sg_new(&s, SG_F32, 5, 3), scale_want = sg_new(&s, SG_F32, 5, 3);
        sg_store(&x, (40 * 3 + 1) * 5 + 2, bf16 ? INFINITY : NAN); /* group 1, head 1, channel 2 */
        sg_pool(&s, .mean = mean, .total = total, .channel_scale = channel_scale, .y = y, .scale = scale, .x = x,
                .block = 128, .group = 32);
        sg_quantise(&s, .y = y_want, .scale = scale_want, .x = x, .group = 32);
        assert_int_equal(s.status, SG_OK);
        for (int i = 0; i < 15; i++) {
            float most = 0;
            for (int r = 0; r < 150; r++) most = fmaxf(most, fabsf(at(x, r * 15 + i) - at(total, i)));
            assert_true(i == 7 ? isnan(at(channel_scale, i)) : at(channel_scale, i) == most * (1.0f / 127.0f));
        }
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

/* Scores of a row are shares of one mass, of whole blocks as of sub-blocks; fixed blocks and hidden ones have none;
 * fixed rows have none at all. */
static void scores_are_shares(void **state)
{
    for (int k = 0; k < 8; k++) {
        sg_stream       s = ref_stream();
        const bool      sub = k % 2, causal = k / 2 % 2, ragged = k / 4;
        const int64_t   m = causal ? N : M, nk = causal ? 5 : NK;
        const sg_tensor q = DRAWN(&s, SG_F32, 9, 0.1f, sub ? 19 : NQ, H, D);
        const sg_tensor keys = DRAWN(&s, SG_F32, 9, 0.1f, sub ? (m + 15) / 16 : nk, HK, D);
        const sg_tensor y = sg_new(&s, SG_F32, H, NQ, nk), k_similarity = ALL_OF(&s, 1, nk, HK);
        sg_store(&k_similarity, 2 * HK + 1, 0.5f); /* on theta, which is not above it */
        sg_score(&s, .y = y, .q = q, .k = keys, .q_similarity = ALL_OF(&s, 1, NQ, H), .k_similarity = k_similarity,
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
    block_lists lists;
    sg_tensor   kept, mass;
} chosen;

static chosen chosen_new(sg_stream *s, int64_t h, int64_t nq, int64_t nk)
{
    return (chosen){block_lists_new(s, h, nq, nk), sg_new(s, SG_I32, h, 2), sg_new(s, SG_F32, h)};
}

static bool has(const chosen *c, int64_t g, int64_t i, int64_t j)
{
    return is_listed(&c->lists, g * c->lists.list.dim[1] + i, j);
}

static int64_t count_of(const chosen *c, int64_t g, int64_t i)
{
    return listed_count(&c->lists, g * c->lists.list.dim[1] + i);
}

/* 12 full blocks of queries, 24 of keys; amount for each of two heads. */
enum { SELECT_N = 12 * SG_BLOCK_Q, ROWS = 12, COLS = 24 };
#define SELECT(s, c, scores, ...)                                                                                      \
    sg_select(s, .list = (c).lists.list, .count = (c).lists.count, .kept = (c).kept, .mass = (c).mass,                 \
              .score = scores, .n = SELECT_N, .m = SELECT_N, __VA_ARGS__)

static void topk_takes_its_number(void **state)
{
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

/* The best comes first, of equals the first, whatever is always kept; the others rise; the rest is 0. */
/* Keys are about the mean of every 64th of them, whatever the others are. */
static void pool_centres_by_a_sample(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = DRAWN(&s, SG_F32, 50, 0.1f, 300, 2, 4), center = sg_new(&s, SG_F32, 2, 4);
    const sg_tensor y = sg_new(&s, SG_I8, 2, 300, 4), scale = sg_new(&s, SG_F32, 5, 2);
    const sg_tensor want = sg_new(&s, SG_I8, 2, 300, 4), want_scale = sg_new(&s, SG_F32, 5, 2);
    sg_pool(&s, .mean = sg_new(&s, SG_F32, 5, 2, 4), .center = center, .y = y, .scale = scale, .x = x, .block = 64,
            .group = 64);
    for (int c = 0; c < 8; c++) {
        float sum = 0;
        for (int r = 0; r < 300; r += 64) sum += at(x, r * 8 + c);
        assert_true(fabsf(sum / 5 - at(center, c)) < 1e-6f);
    }
    sg_quantise(&s, .y = want, .scale = want_scale, .x = x, .center = center, .group = 64);
    assert_int_equal(s.status, SG_OK);
    assert_equal(y, want);
    assert_equal(scale, want_scale);
}

static void lists_begin_with_the_best(void **state)
{
    for (int rule = SG_SELECT_TOPK; rule <= SG_SELECT_MASS; rule++) {
        sg_stream       s = ref_stream();
        const chosen    c = chosen_new(&s, 2, ROWS, COLS);
        const sg_tensor score = sg_new(&s, SG_F32, 2, ROWS, COLS), amount = ALL_OF(&s, 0.4f, 2);
        for (int64_t i = 0; i < sg_count(score); i++) sg_store(&score, i, (float)draw(30));
        SELECT(&s, c, score, .amount = amount, .rule = (sg_select_rule)rule, .sink = 2);
        assert_int_equal(s.status, SG_OK);
        for (int64_t row = 0; row < 2 * ROWS; row++) {
            const uint16_t *const list = (const uint16_t *)c.lists.list.data + row * COLS;
            const int64_t         count = listed_count(&c.lists, row);
            int64_t               best = 0;
            for (int64_t j = 1; j < COLS; j++)
                if (at(score, row * COLS + j) > at(score, row * COLS + best)) best = j;
            assert_int_equal(list[0], best);
            for (int64_t k = 2; k < count; k++) assert_true(list[k] > list[k - 1]);
            for (int64_t k = count; k < COLS; k++) assert_int_equal(list[k], 0);
        }
    }
}

static void mass_takes_the_longest_prefix(void **state)
{
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

/* Text, blocks that are not self-similar, sink, and what nobody may see. */
static void fixed_blocks_are_added(void **state)
{
    sg_stream       s = ref_stream();
    const chosen    c = chosen_new(&s, 2, ROWS, COLS);
    const sg_tensor score = ALL_OF(&s, 0, 2, ROWS, COLS), amount = ALL_OF(&s, 0.01f, 2);
    const sg_tensor q_similarity = ALL_OF(&s, 1, ROWS, 2), k_similarity = ALL_OF(&s, 1, COLS, 2),
                    theta = ALL_OF(&s, 0.5f, 2);
    for (int64_t row = 0; row < 2 * ROWS; row++) sg_store(&score, row * COLS + 10, 1);
    sg_store(&q_similarity, 4 * 2 + 1, NAN);
    sg_store(&k_similarity, 6 * 2, 0.5f);
    SELECT(&s, c, score, .amount = amount, .q_similarity = q_similarity, .k_similarity = k_similarity, .theta = theta,
           .sink = 2, .text_prefix = 129, .text_suffix = 1);
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
        for (int j = 0; j < COLS; j++) /* row 5 is the first to see block 10; j / 2 == i lies on the diagonal */
            assert_int_equal(has(&c, 0, i, j), (j == 10 && i >= 5) || j / 2 == i);
    assert_int_equal(s.status, SG_OK);
    assert_true(at(c.mass, 0) == 7.0f / 12);
    SELECT(&s, c, score, .amount = amount, .causal = true, .count_hidden = true);
    for (int i = 0; i < ROWS; i++) assert_int_equal(count_of(&c, 0, i), i >= 5); /* no diagonal */
}

/* A last block of queries that is not full keeps all, or with `ragged` what others keep; one of keys is kept. */
static void ragged_ends_are_kept(void **state)
{
    for (int k = 0; k < 4; k++) {
        sg_stream       s = ref_stream();
        const bool      ragged = k % 2, text = k / 2;
        const chosen    c = chosen_new(&s, 2, ROWS, COLS);
        const sg_tensor score = ALL_OF(&s, 0, 2, ROWS, COLS), amount = ALL_OF(&s, 0.01f, 2);
        for (int64_t row = 0; row < 2 * ROWS; row++) sg_store(&score, row * COLS + 10, 1);
        sg_select(&s, .list = c.lists.list, .count = c.lists.count, .kept = c.kept, .mass = c.mass, .score = score,
                  .amount = amount, .ragged = ragged, .n = SELECT_N - 30, .m = SELECT_N - 30, .text_suffix = text);
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
    sg_stream       s = ref_stream();
    const chosen    c = chosen_new(&s, 2, ROWS, COLS);
    const sg_tensor score = ALL_OF(&s, 0, 2, ROWS, COLS);
    SELECT(&s, c, score, .amount = ALL_OF(&s, 0.5f, 2));
    assert_int_equal(s.status, SG_OK);
    assert_true(((int32_t *)c.kept.data)[0] == 12 * ROWS && at(c.mass, 0) == 1);
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
    sg_stream       s = ref_stream();
    sg_ops          ops = sg_ref_ops;
    const chosen    c = chosen_new(&s, 2, ROWS, COLS);
    const sg_tensor score = ALL_OF(&s, 1, 2, ROWS, COLS), amount = ALL_OF(&s, 0.5f, 2), scale = ALL_OF(&s, 1, 2, 4);
    const sg_tensor x = DRAWN(&s, SG_F32, 9, 1, 20, 2, 4), y = sg_new(&s, SG_I8, 2, 20, 4);
    s.ops = &ops;
    sg_check_wrap(&s);
    SELECT(&s, c, score, .amount = amount);
    sg_quantise(&s, .y = y, .scale = scale, .x = x); /* what is read is not poisoned */
    sg_pool(&s, .mean = sg_new(&s, SG_F32, 1, 2, 4), .total = sg_new(&s, SG_F32, 2, 4), .x = x, .block = 32);
    assert_int_equal(s.status, SG_OK);
    ops.select = wrong_mass;
    SELECT(&s, c, score, .amount = amount);
    assert_int_equal(s.status, SG_E_MISMATCH);
    assert_non_null(strstr(s.why, "output 4"));
}

/* A list has 16 bits for a block, a head's counter 31 for what it keeps. */
static void lists_have_limits(void **state)
{
    enum { WIDE = SG_LISTED, HALF = SG_LISTED / 2 };
    static const int64_t blocks[][2] = {{3, WIDE}, {HALF - 1, WIDE}, {3, WIDE + 1}, {HALF, WIDE}};
    for (int i = 0; i < 4; i++) {
        const int64_t   nq = blocks[i][0], nk = blocks[i][1];
        sg_plan_totals  totals = {0};
        sg_stream       s = sg_plan_stream(&totals);
        const sg_tensor score = sg_new(&s, SG_F32, H, nq, nk), list = sg_new(&s, SG_U16, H, nq, nk);
        sg_select(&s, .list = list, .count = sg_new(&s, SG_I32, H, nq), .kept = sg_new(&s, SG_I32, H, 2),
                  .mass = sg_new(&s, SG_F32, H), .score = score, .amount = sg_new(&s, SG_F32, H), .n = nq * SG_BLOCK_Q,
                  .m = nk * SG_BLOCK_K);
        assert_int_equal(s.status, i < 2 ? SG_OK : SG_E_SHAPE);
    }
}

static void no_heads_are_copied(void **state)
{
    sg_error    e = {0};
    sg_backend *cpu;
    float       memory[8] = {0};
    assert_int_equal(
        sg_backend_open(&cpu, &(sg_backend_options){.name = "cpu", .threads = 1, .cpu_mask = held_mask()}, &e), SG_OK);
    sg_stream s = sg_stream_of(cpu);
    sg_strided_copy(&s, .y = {memory, SG_F32, 3, {3, 0, 4}}, .x = {memory + 4, SG_F32, 1, {4}}, .token = 1, .head = 2);
    assert_int_equal(s.status, SG_OK);
    sg_backend_close(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pools_of_a_ragged_end),
                                       cmocka_unit_test(pool_has_a_budget_of_one_value),
                                       cmocka_unit_test(self_similarity_measures_directions),
                                       cmocka_unit_test(quantise_rounds_ties_to_even),
                                       cmocka_unit_test(pool_quantises_on_the_way),
                                       cmocka_unit_test(scores_are_shares),
                                       cmocka_unit_test(weights_scale_scores),
                                       cmocka_unit_test(topk_takes_its_number),
                                       cmocka_unit_test(pool_centres_by_a_sample),
                                       cmocka_unit_test(lists_begin_with_the_best),
                                       cmocka_unit_test(mass_takes_the_longest_prefix),
                                       cmocka_unit_test(heads_share_a_budget),
                                       cmocka_unit_test(fixed_blocks_are_added),
                                       cmocka_unit_test(ragged_ends_are_kept),
                                       cmocka_unit_test(no_score_is_no_mass),
                                       cmocka_unit_test(check_judges_every_output),
                                       cmocka_unit_test(lists_have_limits),
                                       cmocka_unit_test(no_heads_are_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
