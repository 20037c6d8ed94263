/* test_tune.c - thresholds where they are known, and the losses of vec_tune.c against attention by the oracle. */
#include "backend.h"
#include "tune.h"
#include "tune_block.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { D = 64, NK_MAX = 16, N_MAX = NK_MAX * SG_BLOCK_K, HEADS = 2, ROWS = SG_TUNE_ROWS };

static sg_backend *oracle;

static int open_oracle(void **state)
{
    (void)state;
    sg_error e = {0};
    return sg_backend_open(&oracle, &(sg_backend_options){.name = "ref"}, &e) != SG_OK;
}

static int close_oracle(void **state)
{
    (void)state;
    sg_backend_close(&oracle);
    return 0;
}

static float drawn(void) { return (float)rand() / (float)RAND_MAX * 2 - 1; }

/* ---- the kernels ---- */

/* One head whose numbers INT8 holds exactly, means of blocks of keys too: channel 0 is 127 everywhere, and keys lie in
 * pairs around integers. */
typedef struct exact_head {
    int64_t n, nk;
    float   q[ROWS * D], k[N_MAX * D], v[N_MAX * D], mean_k[NK_MAX * D], mean_v[NK_MAX * D];
    float   blocks[NK_MAX * SG_BLOCK_K * D], padded_v[N_MAX * D], mean_blocks[SG_BLOCK_K * D];
    float   y[ROWS * D];
} exact_head;

static exact_head x;

static void fill(int64_t n)
{
    srand(7);
    x = (exact_head){.n = n, .nk = (n + SG_BLOCK_K - 1) / SG_BLOCK_K};
    for (int64_t i = 0; i < n * D; i++) {
        const int64_t t = i / D, j = t / SG_BLOCK_K;
        const int     base = (int)((j * 37 + i % D * 11) % 41) - 20, spread = (int)((t / 2 * 13 + i % D * 7) % 31);
        if (i < ROWS * D) x.q[i] = i % D ? (float)((int)(i % D * 29 % 71) - 50 + rand() % 31) : 127;
        x.k[i] = i % D ? (float)(t % 2 ? base - spread : base + spread) : 127;
        x.v[i] = x.padded_v[i] = drawn();
        x.mean_k[j * D + i % D] = i % D ? (float)base : 127;
        x.mean_v[j * D + i % D] += x.v[i] / (float)fmin(SG_BLOCK_K, (double)(n - j * SG_BLOCK_K));
        x.blocks[j * SG_BLOCK_K * D + i % D * SG_BLOCK_K + t % SG_BLOCK_K] = x.k[i];
        x.mean_blocks[i % D * SG_BLOCK_K + j] = x.mean_k[j * D + i % D];
    }
}

static sg_tensor tensor(void *data, sg_dtype type, int64_t a, int64_t b, int64_t c)
{
    return (sg_tensor){.data = data, .dtype = type, .rank = 3, .dim = {a, b, c}};
}

static void to_bytes(int8_t *y, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) y[i] = (int8_t)from[i];
}

/* x.y by the oracle, with the blocks that come first in rank: the best of all first, as select lists them, the others rising. */
static void attend(const int32_t *rank, int count, bool tail, float pv_threshold, float skips[2], float scale)
{
    static int8_t q[ROWS * D], k[N_MAX * D], means[NK_MAX * D];
    float         ones[NK_MAX];
    uint16_t      list[NK_MAX];
    bool          kept[NK_MAX] = {false};
    int32_t       listed = 0;
    sg_stream     s = sg_stream_of(oracle);
    to_bytes(q, x.q, ROWS * D);
    to_bytes(k, x.k, x.n * D);
    to_bytes(means, x.mean_k, x.nk * D);
    for (int i = 0; i < NK_MAX; i++) ones[i] = 1;
    for (int j = 0; j < count; j++) kept[rank[j]] = true;
    list[listed++] = (uint16_t)rank[0];
    for (int j = 0; j < x.nk; j++)
        if (kept[j] && j != rank[0]) list[listed++] = (uint16_t)j;
    const sg_tensor none = {0}, one = {.data = ones, .dtype = SG_F32, .rank = 2, .dim = {1, 1}};
    const sg_tensor k_scale = {.data = ones, .dtype = SG_F32, .rank = 2, .dim = {x.nk, 1}};
    sg_attend_blocks(
        &s, .y = tensor(x.y, SG_F32, ROWS, 1, D), .q = tensor(q, SG_I8, 1, ROWS, D), .q_scale = one,
        .k = tensor(k, SG_I8, 1, x.n, D), .k_scale = k_scale, .v = tensor(x.v, SG_F32, x.n, 1, D),
        .list = tensor(list, SG_U16, 1, 1, x.nk), .count = {.data = &listed, .dtype = SG_I32, .rank = 2, .dim = {1, 1}},
        .tail_k = tail ? tensor(means, SG_I8, 1, x.nk, D) : none, .tail_k_scale = tail ? one : none,
        .tail_v = tail ? tensor(x.mean_v, SG_F32, x.nk, 1, D) : none,
        .pv_threshold =
            pv_threshold > 0 ? (sg_tensor){.data = &pv_threshold, .dtype = SG_F32, .rank = 1, .dim = {1}} : none,
        .skips = pv_threshold > 0 ? (sg_tensor){.data = skips, .dtype = SG_F32, .rank = 2, .dim = {1, 2}} : none,
        .q_group = 128, .k_group = 64, .pv_group = 32, .scale = scale);
    assert_string_equal(s.why, "");
}

/* Sum of |x.y - exact|, or of |x.y|. */
static double distance(const float *exact)
{
    double sum = 0;
    for (int64_t i = 0; i < ROWS * D; i++) sum += fabs((double)x.y[i] - (exact ? (double)exact[i] : 0));
    return sum;
}

/* Losses of 32 rows: all choices, then the filter on one of them. */
static void compare(sg_tune_kernel *kernel, int64_t n, bool tail)
{
    static float exact[ROWS * D], q[SG_TUNE_ROWS * D], bias[NK_MAX];
    const float  scale = 1.0f / 1000,
                pv_threshold[SG_TUNE_PV_THRESHOLDS] = {12, 8, 6, 5, 4, 3.5f, 3, 2.5f, 2, 1.5f, 1, .5f};
    const sg_tune_keys keys = {
        .m = n, .d = D, .k = x.blocks, .v = x.padded_v, .mean_k = x.mean_blocks, .mean_v = x.mean_v};
    int32_t rank[NK_MAX], count[SG_TUNE_AMOUNTS];
    fill(n);
    for (int j = 0; j < x.nk; j++)
        rank[j] = (int32_t)((x.nk - 1 + 7 * j) % x.nk); /* a last block that is short first */
    for (int a = 0; a < SG_TUNE_AMOUNTS; a++) count[a] = (int32_t)(1 + a * (x.nk - 1) / (SG_TUNE_AMOUNTS - 1));
    for (int64_t i = 0; i < ROWS * D; i++) q[i] = x.q[i] * scale;
    for (int j = 0; j < NK_MAX; j++) bias[j] = logf(SG_BLOCK_K);
    sg_tune_loss       loss = {0};
    const sg_tune_rows r = {
        .q = q, .rank = rank, .count = count, .bias = tail ? bias : NULL, .pv_threshold = pv_threshold, .filter = 20};
    float *const work = malloc(sg_tune_work_count(&keys) * sizeof *work);
    kernel(&loss, &keys, &r, work);
    free(work);

    attend(rank, (int)x.nk, false, 0, NULL, scale);
    memcpy(exact, x.y, sizeof exact);
    assert_float_equal(loss.size, distance(NULL), (float)(1e-5 * loss.size));
    for (int a = 0; a < SG_TUNE_AMOUNTS; a++) {
        attend(rank, count[a], tail, 0, NULL, scale);
        assert_float_equal(loss.error[a], distance(exact), (float)(1e-5 * loss.size));
    }
    double before = 0;
    for (int l = 0; l < SG_TUNE_PV_THRESHOLDS; l++) {
        float skips[2];
        attend(rank, count[20], tail, pv_threshold[l], skips, scale);
        assert_float_equal(loss.filtered[l], distance(exact), (float)(1e-5 * loss.size));
        assert_true(loss.skipped[l] >= before && loss.skipped[l] == (double)skips[0]);
        before = loss.skipped[l];
    }
    assert_true(before > 0);
    assert_true(loss.filter_blocks == count[20] && loss.filter_size == loss.size);
}

static void losses_are_those_of_the_oracle(void **state)
{
    (void)state;
    sg_tune_kernel *const kernel[] = {sg_vec_tune_base, __builtin_cpu_supports("avx2") ? sg_vec_tune_avx2 : NULL,
                                      __builtin_cpu_supports("avx512dq") ? sg_vec_tune_avx512 : NULL};
    for (int i = 0; i < 3; i++)
        for (int tail = 0; kernel[i] && tail < 2; tail++) {
            compare(kernel[i], N_MAX, tail);
            compare(kernel[i], N_MAX - 24, tail);
        }
}

/* ---- the choice ---- */

static float in[3][N_MAX * HEADS * D];

static void draw(float size)
{
    srand(3);
    for (int i = 0; i < 3 * N_MAX * HEADS * D; i++)
        in[i / (N_MAX * HEADS * D)][i % (N_MAX * HEADS * D)] = drawn() * size;
}

static double floor_asked; /* of the amounts that tune finds */

/* What is found for two heads of two layers in four steps, in bucket 1 of 2. */
static const sg_thresholds *tune(sg_tune **t, const sg_policy *p, const sg_tune_figure **figures, sg_dtype type,
                                 const sg_backend *host)
{
    static uint16_t          half[3][N_MAX * HEADS * D];
    const sg_attention_shape shape = {
        .n = N_MAX, .h = HEADS, .hk = HEADS, .d = D, .layers = 2, .steps = 4, .passes = 1};
    const sg_thresholds *found = NULL;
    sg_error             e = {0};
    sg_stream            s = sg_stream_of(oracle);
    sg_attend_args       a = {.scale = 1};
    sg_tensor *const     to[3] = {&a.q, &a.k, &a.v};
    for (int i = 0; i < 3; i++) {
        for (int at = 0; at < N_MAX * HEADS * D; at++) half[i][at] = sg_f32_to_bf16(in[i][at]);
        *to[i] = tensor(type == SG_F32 ? (void *)in[i] : (void *)half[i], type, N_MAX, HEADS, D);
    }
    const sg_tune_options o = {.policy = *p, .l1 = 0.05, .l2 = 0.06, .least = floor_asked, .buckets = 2, .host = host};
    assert_int_equal(sg_tune_open(t, &o, &e), SG_OK);
    for (int step = 0; step < 4; step++)
        for (int layer = 0; layer < 2; layer++) sg_tune_hook(*t, &s, &shape, layer, step, 0, 900 - 200 * step, &a);
    assert_string_equal(s.why, "");
    assert_int_equal(sg_tune_choose(*t, &found, figures, &e), SG_OK);
    assert_true(found->from[0] == 600 && found->from[1] == 0);
    return found;
}

static const sg_policy by_share = {.rule = SG_SELECT_TOPK}, with_tail = {.rule = SG_SELECT_TOPK, .tail = true};

/* Every place of both arrays has this. */
static void expect(const sg_policy *p, sg_dtype type, float least, float most, double error)
{
    sg_tune              *t = NULL;
    const sg_tune_figure *f = NULL;
    const sg_thresholds  *found = tune(&t, p, &f, type, NULL);
    for (int i = 0; i < 2 * 2 * HEADS; i++) {
        assert_true(f[i].density >= least && f[i].density <= most);
        assert_true(found->amount[i] > 0 && found->amount[i] <= 1 && found->theta[i] < 0);
        assert_true(f[i].l1 <= error && f[i].l1_checked <= error && f[i].l1_worst <= error);
    }
    sg_tune_close(&t);
    assert_null(t);
}

static void block_diagonal_needs_one_block(void **state)
{
    (void)state;
    draw(0.01f);
    for (int t = 0; t < N_MAX; t++)
        for (int h = 0; h < HEADS; h++) {
            in[0][(t * HEADS + h) * D + t / SG_BLOCK_Q * 2] += 6;
            in[1][(t * HEADS + h) * D + t / SG_BLOCK_K] += 6;
        }
    expect(&by_share, SG_F32, 1.0f / NK_MAX, 1.0f / NK_MAX, 1e-4);
    expect(&by_share, SG_BF16, 1.0f / NK_MAX, 1.0f / NK_MAX, 1e-4);
    expect(&with_tail, SG_F32, 1.0f / NK_MAX, 1.0f / NK_MAX, 1e-4);
    expect(&(sg_policy){.rule = SG_SELECT_MASS, .score = SG_SCORE_SUB16}, SG_F32, 1.0f / NK_MAX, 1.0f / NK_MAX, 1e-4);
    expect(&(sg_policy){.sink = 1}, SG_F32, 1.0f / NK_MAX, 2.0f / NK_MAX, 1e-4);
}

/* The queries of a video need their own block of keys and all of the text, whose own queries need everything. The text
 * behind is of another length in each pass. Blocks of text are kept in any case, and no rows of theirs are looked at: so a
 * share of one block will do, and what is kept is that one and theirs. */
static void text_is_neither_skipped_nor_looked_at(void **state)
{
    (void)state;
    enum { BEFORE = 70, VIDEO = 884, CALLS = 4 * 2 * 2 };
    const int64_t         behind[2] = {70, 1};
    const float           kept[2] = {(4 + 1) / 16.0f, (3 + 1) / 15.0f};
    const sg_tune_options o = {.policy = with_tail, .l1 = 0.05, .l2 = 0.05, .buckets = 1};
    const sg_thresholds  *found = NULL;
    const sg_tune_figure *f = NULL;
    sg_tune              *t = NULL;
    sg_error              e = {0};
    sg_stream             s = sg_stream_of(oracle);
    draw(0.01f);
    for (int i = 0; i < N_MAX * HEADS; i++) {
        const int  token = i / HEADS;
        const bool text = token < BEFORE || token >= BEFORE + VIDEO;
        if (text) memset(in[0] + i * D, 0, D * sizeof **in);
        in[0][i * D + token / SG_BLOCK_Q * 2] += text ? 0 : 6;
        in[0][i * D + D - 1] += text ? 0 : 6;
        in[1][i * D + (text ? D - 1 : token / SG_BLOCK_K)] += 6;
        for (int k = 0; text && k < D; k++) in[2][i * D + k] += 3;
    }
    assert_int_equal(sg_tune_open(&t, &o, &e), SG_OK);
    for (int i = 0; i < CALLS; i++) {
        const int64_t            n = BEFORE + VIDEO + behind[i % 2];
        const sg_attention_shape shape = {.n = n,
                                          .h = HEADS,
                                          .hk = HEADS,
                                          .d = D,
                                          .layers = 2,
                                          .steps = 4,
                                          .passes = 2,
                                          .text_prefix = BEFORE,
                                          .text_suffix = behind[i % 2]};
        const sg_attend_args     a = {.q = tensor(in[0], SG_F32, n, HEADS, D),
                                      .k = tensor(in[1], SG_F32, n, HEADS, D),
                                      .v = tensor(in[2], SG_F32, n, HEADS, D),
                                      .scale = 1};
        sg_tune_hook(t, &s, &shape, i / 2 % 2, i / 4, i % 2, 900 - 200 * (i / 4), &a);
    }
    assert_string_equal(s.why, "");
    assert_int_equal(sg_tune_choose(t, &found, &f, &e), SG_OK);
    for (int i = 0; i < 2 * HEADS; i++) {
        assert_true(found->amount[i] < 2.0f / 16 && f[i].l1_worst < 1e-3f);
        assert_true(f[i].density > kept[1] && f[i].density < kept[0]);
    }
    sg_tune_close(&t);
}

static void uniform_attention_needs_all_or_a_tail(void **state)
{
    (void)state;
    draw(1);
    for (int i = 0; i < N_MAX * HEADS * D; i++) in[0][i] = 0;
    expect(&by_share, SG_F32, 1, 1, 0);
    expect(&with_tail, SG_F32, 1.0f / NK_MAX, 1.0f / NK_MAX, 1e-5);
}

/* Errors in between. */
static void draw_blocks(void)
{
    draw(1);
    for (int at = 0; at < N_MAX * HEADS * D; at++) {
        const float block = sinf((float)(at / (HEADS * D) / SG_BLOCK_K * 13 + at % (HEADS * D) * 5));
        in[0][at] = 0.25f * in[0][at] + 0.5f * block;
        in[1][at] = 0.25f * in[1][at] + 0.5f * block;
        in[2][at] += block;
    }
}

/* The bound holds where it was found, and the tail never needs more. */
static void bounds_hold(void **state)
{
    (void)state;
    sg_tune              *t[2] = {0};
    const sg_tune_figure *f[2];
    draw_blocks();
    (void)tune(&t[0], &by_share, &f[0], SG_F32, NULL);
    (void)tune(&t[1], &(sg_policy){.tail = true, .tail_bias = SG_TAIL_BIAS_HALF, .score = SG_SCORE_ERROR}, &f[1],
               SG_F32, NULL);
    for (int i = 0; i < 2 * 2 * HEADS; i++) {
        for (int p = 0; p < 2; p++) assert_true(f[p][i].l1 <= 0.05f && f[p][i].l2 <= 0.06f);
        assert_true(f[0][i].density < 1 && f[1][i].density <= f[0][i].density);
    }
    sg_tune_close(&t[0]);
    sg_tune_close(&t[1]);
}

/* What would do with less gets the least, in the grid's next step; what needs more gets what it needs. */
static void no_head_gets_less_than_the_least(void **state)
{
    (void)state;
    sg_tune              *t[2] = {0};
    const sg_tune_figure *f;
    draw_blocks();
    const sg_thresholds *const free = tune(&t[0], &with_tail, &f, SG_F32, NULL);
    floor_asked = 0.29;
    const sg_thresholds *const bound = tune(&t[1], &with_tail, &f, SG_F32, NULL);
    floor_asked = 0;
    int raised = 0;
    for (int i = 0; i < 2 * 2 * HEADS; i++) {
        assert_float_equal(bound->amount[i], free->amount[i] < 0.3f ? 0.3f : free->amount[i], 0);
        raised += bound->amount[i] > free->amount[i];
    }
    assert_true(raised > 0);
    sg_tune_close(&t[0]);
    sg_tune_close(&t[1]);
}

/* As for a render on a device: what is copied and looked at elsewhere has the same outcome. */
static void copies_do_as_well(void **state)
{
    (void)state;
    sg_tune              *t[2] = {0};
    const sg_tune_figure *f[2];
    draw_blocks();
    for (int i = 0; i < 2; i++) (void)tune(&t[i], &by_share, &f[i], SG_BF16, i ? oracle : NULL);
    assert_memory_equal(f[0], f[1], 2 * 2 * HEADS * sizeof *f[0]);
    assert_true(f[0]->density < 1);
    sg_tune_close(&t[0]);
    sg_tune_close(&t[1]);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    sg_tune              *t = NULL;
    const sg_thresholds  *found;
    const sg_tune_figure *f;
    sg_error              e = {0};
    const sg_policy       given = {.rule = SG_SELECT_GIVEN}, causal = {.causal = true};
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.policy = given, .l1 = 1, .l2 = 1, .buckets = 1}, &e),
                     SG_E_ARG);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.policy = causal, .l1 = 1, .l2 = 1, .buckets = 1}, &e),
                     SG_E_ARG);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.l1 = 0.1, .l2 = 0.05, .buckets = 1}, &e), SG_E_ARG);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.l1 = NAN, .l2 = 0.05, .buckets = 1}, &e), SG_E_ARG);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.l1 = 0.05, .l2 = 0.05, .least = 1.5, .buckets = 1}, &e),
                     SG_E_ARG);
    assert_null(t);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.l1 = 0.05, .l2 = 0.05, .buckets = 1}, &e), SG_OK);
    assert_int_equal(sg_tune_choose(t, &found, &f, &e), SG_E_ARG);
    sg_tune_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_the_oracle),
        cmocka_unit_test(block_diagonal_needs_one_block),
        cmocka_unit_test(text_is_neither_skipped_nor_looked_at),
        cmocka_unit_test(uniform_attention_needs_all_or_a_tail),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(no_head_gets_less_than_the_least),
        cmocka_unit_test(copies_do_as_well),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
