/* test_policy.c - what a policy may say, lists of layers, and what becomes of a policy bound to shapes. */
#include "run.h"
#include "unit.h"

#include <limits.h>

static sg_error e;

/* The policy is refused with these words in the message. */
static void expect_refused(const sg_policy *p, const char *words)
{
    e = (sg_error){0};
    assert_refused(sg_policy_check(p, &e), SG_E_ARG, &e, words);
}

static void expect_fine(const sg_policy *p)
{
    e = (sg_error){0};
    if (sg_policy_check(p, &e) != SG_OK) fail_msg("%s", e.text);
}

static void presets_are_sound(void **state)
{
    const sg_policy usual = sg_policy_default(), paper = sg_policy_paper(), none = {0};
    expect_fine(&usual);
    expect_fine(&paper);
    expect_fine(&none);
    assert_int_equal(none.kind, SG_ATTENTION_DENSE);
    assert_int_equal(usual.kind, SG_ATTENTION_SPARGE);
    assert_int_equal(paper.kind, SG_ATTENTION_SPARGE);
    assert_false(usual.named || paper.named);
    assert_true(paper.score == SG_SCORE_MEAN && !paper.tail && !paper.budget);
    assert_true(paper.rule == SG_SELECT_TOPK && paper.amount == 0.5F && paper.similarity < 0 && paper.pv == 0);
}

static void what_cannot_be_is_refused(void **state)
{
    sg_policy p = sg_policy_default();
    p.amount = 1.5F;
    expect_refused(&p, "topk: 1.5");
    p.amount = NAN;
    expect_refused(&p, "topk: nan");
    p.rule = SG_SELECT_MASS;
    p.amount = -0.5F;
    expect_refused(&p, "tau: -0.5");
    p.amount = 1;
    p.budget = false;
    expect_fine(&p);
    p.budget = true;
    expect_refused(&p, "budget");
    p = sg_policy_default();
    p.similarity = -2;
    expect_refused(&p, "similarity: -2");
    p = sg_policy_default();
    p.pv = INFINITY;
    expect_refused(&p, "pv: inf");
    p = sg_policy_default();
    p.sink = -1;
    expect_refused(&p, "sink: -1");
    p = sg_policy_default();
    p.dense_steps = 1.01;
    expect_refused(&p, "dense_steps: 1.01");
    p = sg_policy_default();
    p.order = SG_ORDERS;
    expect_refused(&p, "order");
    p = sg_policy_default();
    p.kind = 7;
    expect_refused(&p, "attention|number 7");
    p = sg_policy_default();
    p.dense_layers = "1,x";
    expect_refused(&p, "dense_layers: '1,x'");
}

static void a_mask_stands_alone(void **state)
{
    sg_policy p = sg_policy_default();
    p.mask = "mask.safetensors";
    expect_refused(&p, "mask");
    p.rule = SG_SELECT_GIVEN;
    p.budget = false;
    expect_fine(&p);
    p.thresholds = "thresholds.json";
    expect_refused(&p, "mask");
}

static void a_budget_of_all_heads_is_of_topk(void **state)
{
    sg_policy p = sg_policy_default();
    p.budget = true;
    expect_fine(&p);
    p.rule = SG_SELECT_MASS;
    expect_refused(&p, "budget");
    p.thresholds = "thresholds.json"; /* which have a rule of their own */
    expect_fine(&p);
}

static void lists_of_layers_are_read(void **state)
{
    assert_false(sg_layers_have(NULL, 0));
    assert_true(sg_layers_have("0,28-29", 0));
    assert_false(sg_layers_have("0,28-29", 1));
    assert_false(sg_layers_have("0,28-29", 27));
    assert_true(sg_layers_have("0,28-29", 28));
    assert_true(sg_layers_have("0,28-29", 29));
    assert_false(sg_layers_have("0,28-29", 30));
    assert_true(sg_layers_have("5-5", 5));
    assert_int_equal(sg_layers_check("dense_layers", "0,28-29", 30, NULL), SG_OK);
    assert_int_equal(sg_layers_check("dense_layers", "29", 30, NULL), SG_OK);
}

static void malformed_lists_are_refused(void **state)
{
    static const char *const lists[] = {"",   ",",   "1,",   ",1",    "1,,2",     "a",   "1a",  "1-",
                                        "-1", "2-1", "1 ,2", "1-2-3", "99999999", "0x1", "1;2", "+1"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        e = (sg_error){0};
        assert_refused(sg_layers_check("dense_layers", lists[i], INT_MAX, &e), SG_E_ARG, &e, "dense_layers", lists[i]);
    }
    e = (sg_error){0};
    assert_refused(sg_layers_check("dense_layers", "0,28-30", 30, &e), SG_E_ARG, &e, "layer 30|0 to 29");
}

enum { LAYERS = 3, STEPS = 5 };

static const sg_policy topk_03 = {
    .kind = SG_ATTENTION_SPARGE, .rule = SG_SELECT_TOPK, .amount = 0.3f, .similarity = -1};

static void guards_hold(void **state)
{
    static const struct {
        int64_t          n;
        bool             named;
        double           share;
        const char      *layers;
        sg_dtype         values;
        int              layer, step;
        sg_attention_why why;
    } want[] = {
        {8192, false, 0, NULL, SG_I8, 0, 0, SG_WHY_POLICY},   {8191, false, 0, NULL, SG_I8, 0, 0, SG_WHY_SHORT},
        {1024, true, 0, NULL, SG_I8, 0, 0, SG_WHY_POLICY},    {1023, true, 0, NULL, SG_I8, 0, 0, SG_WHY_SHORT},
        {9000, false, 0.2, NULL, SG_I8, 0, 0, SG_WHY_STEP},   {9000, false, 0.2, NULL, SG_I8, 0, 1, SG_WHY_POLICY},
        {9000, false, 0.21, NULL, SG_I8, 0, 1, SG_WHY_STEP},  {9000, false, 1, NULL, SG_I8, 0, 4, SG_WHY_STEP},
        {9000, false, 0, "0,2", SG_I8, 0, 0, SG_WHY_LAYER},   {9000, false, 0, "0,2", SG_I8, 1, 0, SG_WHY_POLICY},
        {9000, false, 0, NULL, SG_F32, 0, 0, SG_WHY_BACKEND}, {9000, false, 0, "0-2", SG_I8, 1, 4, SG_WHY_LAYER}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const sg_attention_shape shape = {.n = want[i].n,
                                          .h = 1,
                                          .hk = 1,
                                          .d = 16,
                                          .layers = LAYERS,
                                          .steps = STEPS,
                                          .passes = 1,
                                          .values = want[i].values};
        sg_policy                p = topk_03;
        sg_attention            *a = NULL;
        sg_attention_why         why = SG_WHY_POLICY;
        e = (sg_error){0};
        p.named = want[i].named;
        p.dense_steps = want[i].share;
        p.dense_layers = want[i].layers;
        assert_int_equal(sg_attention_open(&a, &p, &shape, &e), SG_OK);
        assert_int_equal(sg_attention_kind_of(a, want[i].layer, want[i].step, &why) == SG_ATTENTION_SPARGE,
                         want[i].why == SG_WHY_POLICY);
        assert_int_equal(why, want[i].why);
        if (want[i].why != SG_WHY_STEP || want[i].share < 1)
            assert_int_equal(sg_attention_skips(a), want[i].n >= (p.named ? 1024 : 8192) && want[i].values != SG_F32 &&
                                                        !(p.dense_layers && p.dense_layers[1] == '-'));
        else
            assert_false(sg_attention_skips(a));
        sg_attention_close(&a);
    }
}

static void first_steps_are_of_their_kind(void **state)
{
    const sg_attention_shape shape = {
        .n = 9000, .h = 1, .hk = 1, .d = 16, .layers = LAYERS, .steps = STEPS, .passes = 1, .values = SG_I8};
    for (sg_attention_kind kind = SG_ATTENTION_DENSE; kind <= SG_ATTENTION_SAGE; kind++) {
        sg_policy     p = topk_03;
        sg_attention *a = NULL;
        p.dense_steps = 0.4;
        p.dense_steps_kind = kind;
        p.dense_layers = "1";
        assert_int_equal(sg_attention_open(&a, &p, &shape, &e), SG_OK);
        for (int step = 0; step < STEPS; step++)
            assert_int_equal(sg_attention_kind_of(a, 0, step, NULL), step < 2 ? kind : SG_ATTENTION_SPARGE);
        assert_int_equal(sg_attention_kind_of(a, 1, STEPS - 1, NULL), SG_ATTENTION_DENSE);
        assert_int_equal(sg_attention_same_steps(a, 0), 2);
        sg_attention_close(&a);
    }
    sg_policy p = topk_03;
    p.dense_steps_kind = SG_ATTENTION_SPARGE;
    expect_refused(&p, "dense_steps_kind:");
}

/* A run of the same steps ends where the first steps' density does, or at the last step. */
static void same_steps_are_counted(void **state)
{
    sg_attention_shape shape = {
        .n = 9000, .h = 1, .hk = 1, .d = 16, .layers = LAYERS, .steps = STEPS, .passes = 1, .values = SG_I8};
    sg_policy     p = topk_03;
    sg_attention *a = NULL;
    p.dense_steps = 0.4;
    p.dense_layers = "0";
    assert_int_equal(sg_attention_open(&a, &p, &shape, &e), SG_OK);
    for (int step = 0; step < STEPS; step++)
        assert_int_equal(sg_attention_same_steps(a, step), step < 2 ? 2 - step : STEPS - step);
    sg_attention_close(&a);
    shape.n = 100; /* too short for anything but dense */
    assert_int_equal(sg_attention_open(&a, &p, &shape, &e), SG_OK);
    for (int step = 0; step < STEPS; step++) assert_int_equal(sg_attention_same_steps(a, step), STEPS - step);
    sg_attention_close(&a);
}

/* Thresholds of other timesteps make no difference to a device unless they bring ops that the ones before did without. */
static void buckets_change_steps_by_ops(void **state)
{
    enum { BUCKETS = 3 };
    const double       timesteps[STEPS] = {900, 650, 500, 300, 100};
    sg_attention_shape shape = {.n = 9000,
                                .h = 1,
                                .hk = 1,
                                .d = 16,
                                .layers = LAYERS,
                                .steps = STEPS,
                                .passes = 1,
                                .values = SG_I8,
                                .timesteps = timesteps};
    float              from[BUCKETS] = {600, 200, 0}, amount[BUCKETS * LAYERS], theta[BUCKETS * LAYERS],
          pv_threshold[BUCKETS * LAYERS];
    const sg_thresholds tuned = {.buckets = BUCKETS,
                                 .layers = LAYERS,
                                 .heads = 1,
                                 .rule = SG_SELECT_TOPK,
                                 .from = from,
                                 .amount = amount,
                                 .theta = theta,
                                 .pv_threshold = pv_threshold};
    sg_policy           p = topk_03;
    shape.tuned = &tuned;
    p.dense_steps = 0;
    for (int i = 0; i < BUCKETS * LAYERS; i++) amount[i] = 0.1F * (float)(i + 1), theta[i] = -1, pv_threshold[i] = 0;
    for (int way = 0; way < 4; way++) {
        float *const  changed = way == 1 ? theta : pv_threshold;
        sg_attention *a = NULL;
        if (way) changed[LAYERS] = 0.5F;    /* of the second bucket */
        if (way == 3) p.dense_layers = "0"; /* whose layer this is */
        const int ends[2] = {2, 4};         /* of the steps of a bucket */
        assert_int_equal(sg_attention_open(&a, &p, &shape, &e), SG_OK);
        for (int step = 0; step < STEPS; step++) {
            const int end = way == 0 || way == 3 || step >= ends[1] ? STEPS : ends[step >= ends[0]];
            assert_int_equal(sg_attention_same_steps(a, step), end - step);
        }
        sg_attention_close(&a);
        if (way) changed[LAYERS] = way == 1 ? -1 : 0.5F;
    }
}

static void misfits_are_refused(void **state)
{
    const sg_attention_shape shape = {
        .n = 1024, .h = 2, .hk = 1, .d = 16, .layers = LAYERS, .steps = STEPS, .passes = 1, .values = SG_I8};
    const sg_thresholds tuned = {.buckets = 1, .layers = LAYERS + 1, .heads = 2};
    const sg_thresholds by_mass = {.buckets = 1, .layers = LAYERS, .heads = 2, .rule = SG_SELECT_MASS};
    sg_policy           bad[8] = {topk_03, topk_03, topk_03, topk_03, topk_03, topk_03, topk_03, topk_03};
    sg_attention_shape  shapes[8] = {shape, shape, shape, shape, shape, shape, shape, shape};
    const char *const   says[8] = {"thresholds", "mask",     "dense_layers", "backend",
                                   "causal",     "pv_dtype", "mask",         "budget"};
    const sg_status     code[8] = {SG_E_ARG, SG_E_ARG,         SG_E_ARG, SG_E_UNSUPPORTED,
                                   SG_E_ARG, SG_E_UNSUPPORTED, SG_E_ARG, SG_E_ARG};
    shapes[0].tuned = &tuned;
    bad[1].rule = bad[6].rule = SG_SELECT_GIVEN;
    shapes[1].mask = (sg_tensor){(void *)says, SG_U8, 3, {2, 8, 15}};
    bad[7].budget = true;
    shapes[7].tuned = &by_mass;
    bad[2].dense_layers = "3";
    bad[3].named = true;
    shapes[3].values = SG_F32;
    shapes[4].causal = true;
    shapes[4].m = 512;
    bad[5].pv_dtype = SG_PV_FP8;
    for (int i = 0; i < 8; i++) {
        sg_attention *a = NULL;
        e = (sg_error){0};
        assert_refused(sg_attention_open(&a, &bad[i], &shapes[i], &e), code[i], &e, says[i]);
        assert_null(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_are_sound),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_mask_stands_alone),
        cmocka_unit_test(a_budget_of_all_heads_is_of_topk),
        cmocka_unit_test(lists_of_layers_are_read),
        cmocka_unit_test(malformed_lists_are_refused),
        cmocka_unit_test(guards_hold),
        cmocka_unit_test(first_steps_are_of_their_kind),
        cmocka_unit_test(same_steps_are_counted),
        cmocka_unit_test(buckets_change_steps_by_ops),
        cmocka_unit_test(misfits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
