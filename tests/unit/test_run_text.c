/* test_run_text.c - text beside the video's tokens: whatever chooses blocks, those with text are kept, rows and columns,
 * and attention is what arithmetic in double makes of the blocks kept. */
#include "run_fixture.h"

enum { VIDEO = 1030, HEADS = 2, CHANNELS = 8 };

/* Of one token, up to the end of a block, into a block, over several blocks of keys and of queries, and both; and as much
 * as models of images have: 256 or 512 before, 77 + 256 behind. */
static const struct {
    int64_t prefix, suffix;
} texts[] = {{1, 0},  {64, 0},  {70, 0},  {200, 0}, {0, 1},   {0, 58},
             {0, 70}, {0, 200}, {130, 3}, {256, 0}, {512, 0}, {0, 333}};
enum { TEXTS = sizeof texts / sizeof *texts, TEXT_BEHIND = 6 };

static bool has_text(const bench *b, int64_t block, int64_t size)
{
    for (int64_t t = block * size; t < (block + 1) * size && t < b->shape.n; t++)
        if (t < b->shape.text_prefix || t >= b->shape.n - b->shape.text_suffix) return true;
    return false;
}

/* Pairs of blocks without text that are left out. */
static int64_t left_out(const bench *b)
{
    int64_t count = 0;
    for (int64_t head = 0; head < b->shape.h; head++)
        for (int64_t i = 0; i < b->nq; i++)
            for (int64_t j = 0; j < b->nk; j++)
                count += !has_text(b, i, SG_BLOCK_Q) && !has_text(b, j, SG_BLOCK_K) && !kept(b, head, i, j);
    return count;
}

static bench make_text(int text, const sg_policy *p)
{
    bench b = make(VIDEO + texts[text].prefix + texts[text].suffix, HEADS, HEADS, CHANNELS, *p);
    b.shape.text_prefix = texts[text].prefix;
    b.shape.text_suffix = texts[text].suffix;
    b.policy.kind = SG_ATTENTION_SPARGE;
    if (b.policy.theta == 0) b.policy.theta = -1;
    return b;
}

/* Runs, and asserts that text is dense and not all else is; with a mask, that all else is as it says. */
static void expect_text_dense(bench *b, const char *what)
{
    const uint8_t *const mask = b->policy.mask.data;
    bind(b);
    run_at(b, 2, 4, 1, 0);
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t i = 0; i < b->nq; i++)
            for (int64_t j = 0; j < b->nk; j++) {
                const bool text = has_text(b, i, SG_BLOCK_Q) || has_text(b, j, SG_BLOCK_K);
                if (text && !kept(b, head, i, j))
                    fail_msg("%s, %lld and %lld tokens of text: head %lld leaves out %lld, %lld", what,
                             (long long)b->shape.text_prefix, (long long)b->shape.text_suffix, (long long)head,
                             (long long)i, (long long)j);
                if (!text && mask) assert_int_equal(kept(b, head, i, j), mask[i * b->policy.mask.dim[2] + j] != 0);
            }
    assert_true(left_out(b) > b->nq * b->nk / 4);
    assert_int_equal(count_of(b, 2, 4, 1).kept, popcount(b));
    const double error = error_of(b);
    if (!(error < 0.03)) fail_msg("%s, %lld tokens: error %.2e", what, (long long)b->shape.n, error);
    finish(b);
}

static void text_is_dense_whatever_chooses(void **state)
{
    static float               from[2] = {500, 0}, amount[2 * LAYERS * HEADS], theta[2 * LAYERS * HEADS];
    static float               pv_threshold[2 * LAYERS * HEADS];
    static const sg_thresholds tuned = {.buckets = 2,
                                        .layers = LAYERS,
                                        .heads = HEADS,
                                        .rule = SG_SELECT_TOPK,
                                        .from = from,
                                        .amount = amount,
                                        .theta = theta,
                                        .pv_threshold = pv_threshold};
    for (int i = 0; i < 2 * LAYERS * HEADS; i++) {
        amount[i] = i < LAYERS * HEADS ? 1 : 0.1f + 0.02f * (float)i;
        theta[i] = -1;
        pv_threshold[i] = 20;
    }
    static const struct {
        const char *what;
        sg_policy   p;
    } way[] = {
        {"top-k", {.amount = 0.2f}},
        {"top-k by parts", {.amount = 0.2f, .score = SG_SCORE_SUB16}},
        {"tau", {.amount = 0.4f, .rule = SG_SELECT_MASS}},
        {"budget of all heads", {.amount = 0.2f, .score = SG_SCORE_ERROR, .heads = true}},
        {"self-similarity", {.amount = 0.1f, .theta = 0.1f}},
        {"PV filter", {.amount = 0.2f, .pv_threshold = 20}},
        {"tail", {.amount = 0.1f, .score = SG_SCORE_ERROR, .tail = true, .tail_bias = SG_TAIL_BIAS_HALF}},
        {"thresholds of heads", {.tuned = &tuned}},
        {"sink", {.amount = 0.1f, .sink = 2}},
    };
    for (int i = 0; i < (int)(sizeof way / sizeof *way); i++)
        for (int k = i % 3; k < TEXTS; k += 3) {
            bench b = make_text((k + i / 3) % TEXTS, &way[i].p);
            expect_text_dense(&b, way[i].what);
        }
}

static void text_is_dense_in_a_given_mask(void **state)
{
    for (int k = 0; k < TEXTS; k++) {
        bench          b = make_text(k, &(sg_policy){.rule = SG_SELECT_GIVEN, .tail = k % 2 != 0});
        uint8_t *const mask = calloc((size_t)(b.nq * b.nk), 1);
        assert_non_null(mask);
        for (int64_t i = 0; i < b.nq * b.nk; i++) mask[i] = i % 5 == 1;
        b.policy.mask = (sg_tensor){mask, SG_U8, 3, {1, b.nq, b.nk}};
        expect_text_dense(&b, "mask");
        free(mask);
    }
}

/* Of two passes the mask is for the longer one, whose text behind the video is longer. */
static void one_mask_serves_passes_of_two_lengths(void **state)
{
    for (int64_t longer = 0; longer <= 170; longer += 85) {
        bench          b = make_text(TEXT_BEHIND, &(sg_policy){.rule = SG_SELECT_GIVEN});
        const int64_t  nq = sg_div_up(b.shape.n + longer, SG_BLOCK_Q), nk = sg_div_up(b.shape.n + longer, SG_BLOCK_K);
        uint8_t *const mask = calloc((size_t)(HEADS * nq * nk), 1);
        sg_error       e = {0};
        assert_non_null(mask);
        for (int64_t i = 0; i < HEADS * nq * nk; i++) mask[i] = i % nk % 5 == 1;
        b.shape.masked = b.shape.n + longer;
        b.policy.mask = (sg_tensor){mask, SG_U8, 3, {HEADS, nq, nk + 1}};
        assert_refused(sg_attention_open(&b.a, &b.policy, &b.shape, &e), SG_E_ARG, &e, "block-mask: U8 [");
        b.policy.mask.dim[2] = nk;
        expect_text_dense(&b, "mask of the longer pass");
        free(mask);
    }
}

/* Text takes none of a row's share: as many other blocks are kept as without it. */
static void text_costs_its_own_blocks_alone(void **state)
{
    for (int k = 0; k < TEXTS; k++) {
        bench         b = make_text(k, &plain);
        const int64_t share = (int64_t)(plain.amount * (float)b.nk);
        int64_t       fixed = 0;
        bind(&b);
        run_at(&b, 0, 0, 0, 0);
        for (int64_t j = 0; j < b.nk; j++)
            fixed += has_text(&b, j, SG_BLOCK_K) || (j + 1) * SG_BLOCK_K > b.shape.n; /* and one that is not full */
        for (int64_t i = 0; i < b.shape.n / SG_BLOCK_Q; i++)
            if (!has_text(&b, i, SG_BLOCK_Q)) assert_int_equal(listed_count(&b.lists, i), share + fixed);
        finish(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_dense_whatever_chooses), cmocka_unit_test(text_is_dense_in_a_given_mask),
        cmocka_unit_test(one_mask_serves_passes_of_two_lengths), cmocka_unit_test(text_costs_its_own_blocks_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
