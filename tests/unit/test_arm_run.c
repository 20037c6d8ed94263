/* test_arm_run.c - what runs before arms are timed: each arm's own kernels, and all that looks at attention. */
#include "arm_run.h"
#include "engine.h"
#include "unit.h"

enum { ARMS = 2, STEPS = 5 };

/* How often attention ran, by arms. */
typedef struct calls {
    const sg_arm_run *run;
    int               begun[ARMS];
} calls;

static sg_settings settings(void)
{
    static const char *const option[][2] = {{"model", SG_FIXTURES "/wan21_hd12"},
                                            {"backend", "cpu"},
                                            {"size", "256x256"},
                                            {"frames", "13"},
                                            {"steps", "5"},
                                            {"threads", "2"},
                                            {"dtype", "f32"},
                                            {"prompt", "a cat"},
                                            {"cfg-scale", "1"}};
    sg_settings              s = sg_options_empty(SG_COMMAND_COMPARE);
    sg_error                 e = {0};
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        assert_done(sg_options_set(&s, option[i][0], option[i][1], &e), &e);
    s.quiet = true;
    return s;
}

static void open_run(sg_arm_run *x, const sg_settings *s)
{
    sg_error e = {0};
    assert_done(sg_arms_open(&x->arms, "dense,sparge:topk=0.5", s, &e), &e);
    assert_done(sg_session_inputs(&x->session, s, &e), &e);
    assert_done(sg_arm_run_open(x, &e), &e);
    assert_int_equal(x->arms.count, ARMS);
}

static void count_call(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                       double timestep, const sg_attend_args *args)
{
    calls *const of = context;
    if (s->memory->alloc) of->begun[of->run->now - of->run->arm]++; /* a plan is no render */
}

static void count_calls(const sg_arm_run *x, calls *of)
{
    of->run = x;
    sg_engine_watch(x->session.engine, &(sg_attention_watch){.on_begin = count_call, .on_begin_context = of});
}

/* The first step of five is dense; so is the first of the two that warm up, and the other is sparse, in every arm before any is
 * timed. */
static void every_arm_runs_its_kernels_first(void **state)
{
    sg_arm_run *const x = calloc(1, sizeof *x);
    const sg_settings s = settings();
    sg_error          e = {0};
    calls             of = {0};
    int               steps, passes, layers;
    open_run(x, &s);
    count_calls(x, &of);
    assert_done(sg_arm_run_warm_up(x, &x->shared.request, &e), &e);
    const sg_attention_count *const count = sg_engine_attention(x->session.engine, &steps, &passes, &layers);
    assert_int_equal(steps, 2);
    for (int i = 0; i < 2 * passes * layers; i++)
        assert_int_equal(count[i].kind, i < passes * layers ? SG_ATTENTION_DENSE : SG_ATTENTION_SPARGE);
    for (int i = 0; i < ARMS; i++) assert_int_equal(of.begun[i], 2 * passes * layers);
    assert_true(x->warm_up.seconds[SG_STAGE_DECODE] > 0);
    sg_arm_run_close(x);
    free(x);
}

/* The error of attention is that of all steps of the arm that is not dense, and no render that counts measures it. */
static void no_timed_render_is_looked_at(void **state)
{
    sg_arm_run *const x = calloc(1, sizeof *x);
    const sg_settings s = settings();
    sg_error          e = {0};
    open_run(x, &s);
    for (int i = 0; i < ARMS; i++) x->arm[i].now.request.attention_error = true;
    assert_done(sg_arm_run_warm_up(x, &x->shared.request, &e), &e);
    const sg_arm_result *const r = &x->arm[1];
    const int                  entries = r->passes * r->layers;
    assert_null(x->arm[0].error);
    assert_int_equal(r->steps, STEPS);
    assert_int_equal(r->layers, r->now.plan.layers);
    for (int i = 0; i < STEPS * entries; i++)
        assert_true(i < entries ? r->error[i].dense == 0 : r->error[i].difference > 0 && r->error[i].dense > 0);
    assert_true(r->error_seconds > 0);
    assert_done(sg_arm_run_reserve(x, ARMS, &x->shared.request, &e), &e);
    for (int i = 0; i < ARMS; i++) {
        assert_done(sg_arm_run_render(x, &x->arm[i], &e), &e);
        for (int k = 0; k < STEPS * entries; k++) assert_true(x->arm[i].count[k].dense == 0);
    }
    assert_int_equal(x->arm[1].report.steps_done, STEPS);
    assert_true(sg_arm_density(&x->arm[1], STEPS - 1, -1) < 0.75);
    sg_arm_run_close(x);
    free(x);
}

/* A device replays steps, and looking at it keeps it from that: the steps that are looked at are a render of their own, and each arm
 * has three steps more, of which the last is replayed. (What a backend says of itself is changed here, on a CPU.) */
static void devices_record_a_step_first(void **state)
{
    sg_arm_run *const x = calloc(1, sizeof *x);
    const sg_settings s = settings();
    sg_error          e = {0};
    calls             of = {0};
    open_run(x, &s);
    x->session.info.synchronous = false;
    count_calls(x, &of);
    for (int i = 0; i < ARMS; i++) x->arm[i].now.request.attention_error = true;
    assert_done(sg_arm_run_warm_up(x, &x->shared.request, &e), &e);
    const int layers = x->arm[1].now.plan.layers;
    assert_int_equal(x->arm[1].steps, STEPS);
    assert_non_null(x->arm[1].error);
    assert_int_equal(of.begun[0], (2 + 3) * layers);
    assert_int_equal(of.begun[1], (STEPS + 2 + 3) * layers);
    sg_arm_run_close(x);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_arm_runs_its_kernels_first),
                                       cmocka_unit_test(no_timed_render_is_looked_at),
                                       cmocka_unit_test(devices_record_a_step_first)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
