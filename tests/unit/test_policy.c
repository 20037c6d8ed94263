/* test_policy.c - what a policy may say, and lists of layers. */
#include "policy.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static sg_error e;

/* The policy is refused with these words in the message. */
static void expect_refused(const sg_policy *p, const char *words)
{
    e = (sg_error){0};
    assert_int_equal(sg_policy_check(p, &e), SG_E_ARG);
    if (!strstr(e.text, words)) fail_msg("\"%s\" is not in \"%s\"", words, e.text);
}

static void expect_fine(const sg_policy *p)
{
    e = (sg_error){0};
    if (sg_policy_check(p, &e) != SG_OK) fail_msg("%s", e.text);
}

static void presets_are_sound(void **state)
{
    (void)state;
    const sg_policy usual = sg_policy_usual(), paper = sg_policy_paper(), none = {0};
    expect_fine(&usual);
    expect_fine(&paper);
    expect_fine(&none);
    assert_int_equal(none.kind, SG_ATTENTION_DENSE);
    assert_int_equal(usual.kind, SG_ATTENTION_SPARGE);
    assert_int_equal(paper.kind, SG_ATTENTION_SPARGE);
    assert_false(usual.named || paper.named);
    assert_true(paper.score == SG_SCORE_MEAN && !paper.tail && !paper.heads);
    assert_true(paper.rule == SG_SELECT_TOPK && paper.amount == 0.5F && paper.theta < 0 && paper.lambda == 0);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    sg_policy p = sg_policy_usual();
    p.amount = 1.5F;
    expect_refused(&p, "topk: 1.5");
    p.amount = NAN;
    expect_refused(&p, "topk: nan");
    p.rule = SG_SELECT_MASS;
    p.amount = -0.5F;
    expect_refused(&p, "tau: -0.5");
    p.amount = 1;
    p.heads = false;
    expect_fine(&p);
    p.heads = true;
    expect_refused(&p, "budget");
    p = sg_policy_usual();
    p.theta = -2;
    expect_refused(&p, "sim: -2");
    p = sg_policy_usual();
    p.lambda = INFINITY;
    expect_refused(&p, "pv: inf");
    p = sg_policy_usual();
    p.sink = -1;
    expect_refused(&p, "sink: -1");
    p = sg_policy_usual();
    p.dense_steps = 1.01;
    expect_refused(&p, "dense-steps: 1.01");
    p = sg_policy_usual();
    p.order = SG_ORDERS;
    expect_refused(&p, "order");
    p = sg_policy_usual();
    p.kind = (sg_attention_kind)7;
    expect_refused(&p, "attention: there is no number 7");
    p = sg_policy_usual();
    p.dense_layers = "1,x";
    expect_refused(&p, "dense-layers: '1,x'");
}

static void a_mask_stands_alone(void **state)
{
    (void)state;
    uint8_t         blocks[6] = {1, 0, 1, 0, 1, 1};
    float           nothing[1] = {0};
    sg_thresholds   tuned = {.buckets = 1, .layers = 1, .heads = 1, .from = nothing};
    const sg_tensor mask = {.data = blocks, .dtype = SG_U8, .rank = 3, .dim = {1, 2, 3}};
    sg_policy       p = sg_policy_usual();
    p.mask = mask;
    expect_refused(&p, "block-mask");
    p.rule = SG_SELECT_GIVEN;
    p.heads = false;
    expect_fine(&p);
    p.tuned = &tuned;
    expect_refused(&p, "block-mask");
    p.tuned = NULL;
    p.mask.dtype = SG_F32;
    expect_refused(&p, "block-mask: should be U8");
    p.mask = (sg_tensor){0};
    expect_refused(&p, "block-mask: should be U8");
}

/* The rule of tuned thresholds is what counts beside a budget of all heads. */
static void tuned_thresholds_bring_their_rule(void **state)
{
    (void)state;
    sg_thresholds tuned = {.rule = SG_SELECT_MASS};
    sg_policy     p = sg_policy_usual();
    p.heads = true;
    expect_fine(&p);
    p.tuned = &tuned;
    expect_refused(&p, "budget");
    tuned.rule = SG_SELECT_TOPK;
    expect_fine(&p);
}

static void lists_of_layers_are_read(void **state)
{
    (void)state;
    assert_false(sg_layers_have(NULL, 0));
    assert_true(sg_layers_have("0,28-29", 0));
    assert_false(sg_layers_have("0,28-29", 1));
    assert_false(sg_layers_have("0,28-29", 27));
    assert_true(sg_layers_have("0,28-29", 28));
    assert_true(sg_layers_have("0,28-29", 29));
    assert_false(sg_layers_have("0,28-29", 30));
    assert_true(sg_layers_have("5-5", 5));
    assert_int_equal(sg_layers_check("0,28-29", 30, NULL), SG_OK);
    assert_int_equal(sg_layers_check("29", 30, NULL), SG_OK);
}

static void malformed_lists_are_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {"",   ",",   "1,",   ",1",    "1,,2",     "a",   "1a",  "1-",
                                        "-1", "2-1", "1 ,2", "1-2-3", "99999999", "0x1", "1;2", "+1"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        e = (sg_error){0};
        if (sg_layers_check(lists[i], INT_MAX, &e) != SG_E_ARG) fail_msg("'%s' was taken", lists[i]);
        assert_non_null(strstr(e.text, "is not a list of layers"));
    }
    e = (sg_error){0};
    assert_int_equal(sg_layers_check("0,28-30", 30, &e), SG_E_ARG);
    assert_non_null(strstr(e.text, "names layer 30, but this model has 0 to 29"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_are_sound),        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_mask_stands_alone),      cmocka_unit_test(tuned_thresholds_bring_their_rule),
        cmocka_unit_test(lists_of_layers_are_read), cmocka_unit_test(malformed_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
