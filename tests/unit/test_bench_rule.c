/* test_bench_rule.c - the rule of benchmarks, on times that are made up: what drifts, steps, spikes or never settles. */
#include "bench_rule.h"
#include "unit.h"

#include <math.h>

/* What a thing takes in its run number n. */
typedef double series(int thing, int n);

static sg_rule measured(series *of, int things, int repeat)
{
    sg_rule  r;
    sg_error e = {0};
    int      run[SG_RULE_THINGS] = {0}, thing;
    assert_int_equal(sg_rule_open(&r, things, repeat, 1e-6, &e), SG_OK);
    while ((thing = sg_rule_next(&r)) >= 0) sg_rule_take(&r, of(thing, run[thing]++));
    for (int i = 0; i < things; i++) assert_int_equal(run[i], r.warm + sg_rule_runs(&r));
    return r;
}

static double even(int thing, int n) { return n < 0 ? 0 : 0.1 * (thing + 1); }

static void steady_things_take_turns(void **state)
{
    sg_rule r = measured(even, 3, 0);
    assert_int_equal(r.warm, 7); /* one round in no window, two windows of three */
    assert_int_equal(sg_rule_runs(&r), 5);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(sg_rule_median(&r, i) - even(i, 0)) < 1e-12);
        assert_true(sg_rule_spread(&r, i) < 1e-12);
        assert_true(!(sg_rule_unsteady(&r, i) > 0));
    }
    sg_rule_close(&r);
}

static void each_round_begins_with_the_next(void **state)
{
    sg_rule   r;
    sg_error  e = {0};
    const int order[] = {0, 1, 2, 1, 2, 0, 2, 0, 1, 0};
    assert_int_equal(sg_rule_open(&r, 3, 0, 0, &e), SG_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(sg_rule_next(&r), order[i]);
        sg_rule_take(&r, 1);
    }
    sg_rule_close(&r);
}

static double brief(int thing, int n) { return n >= 0 && thing >= 0 ? 0.001 : 0; }

/* Windows of 100 rounds; 200 that count. */
static void short_runs_fill_windows(void **state)
{
    sg_rule r = measured(brief, 1, 0);
    assert_int_equal(r.warm, 201);
    assert_int_equal(sg_rule_runs(&r), 200);
    sg_rule_close(&r);
    r = measured(brief, 1, 3);
    assert_int_equal(sg_rule_runs(&r), 3);
    sg_rule_close(&r);
}

/* The first run takes long, and the next ones are faster than what lasts: clocks that fall under load. */
static double falls(int thing, int n)
{
    (void)thing;
    return n == 0 ? 30 : n < 12 ? 0.1 * (0.85 + 0.15 * n / 12) : 0.1;
}

static void warming_lasts_until_it_is_over(void **state)
{
    sg_rule r = measured(falls, 1, 0);
    assert_true(r.warm > 12);
    assert_true(fabs(sg_rule_median(&r, 0) - 0.1) < 0.0005);
    assert_true(!(sg_rule_unsteady(&r, 0) > 0));
    sg_rule_close(&r);
}

static double spikes(int thing, int n) { return even(thing, n) * (n % 7 == 3 ? 4 : 1); }

static void single_spikes_change_nothing(void **state)
{
    sg_rule r = measured(spikes, 2, 20);
    assert_int_equal(r.warm, 7);
    assert_true(fabs(sg_rule_median(&r, 1) - 0.2) < 1e-12);
    assert_true(!(sg_rule_unsteady(&r, 1) > 0));
    sg_rule_close(&r);
}

/* Every run takes 5 % more than the one before. */
static double drifts(int thing, int n) { return thing ? 0.1 : 0.1 * pow(1.05, n); }

static void what_never_settles_is_reported(void **state)
{
    sg_rule r = measured(drifts, 2, 0);
    assert_true(r.total > 10);
    assert_true(sg_rule_unsteady(&r, 0) > 0.1);
    assert_true(!(sg_rule_unsteady(&r, 1) > 0));
    sg_rule_close(&r);
}

/* Too little of a drift for two windows to disagree, but over all that counts it shows. */
static double creeps(int thing, int n) { return 0.1 * pow(1.003, n + 0 * thing); }

static void slow_drift_is_reported(void **state)
{
    sg_rule r = measured(creeps, 1, 40);
    assert_int_equal(r.warm, 7);
    assert_true(!(r.change[0] > 0));
    assert_true(sg_rule_unsteady(&r, 0) > 0.04);
    sg_rule_close(&r);
}

/* After the eleventh run everything takes a tenth more: another program has begun. */
static double steps(int thing, int n) { return even(thing, n) * (n < 11 ? 1 : 1.1); }

static void step_is_reported(void **state)
{
    sg_rule r = measured(steps, 2, 10);
    assert_true(fabs(sg_rule_unsteady(&r, 0) - 0.1 / 1.1) < 1e-9);
    sg_rule_close(&r);
}

static double noisy(int thing, int n)
{
    const double draw = (double)((unsigned)(n * 7919 + thing * 104729 + 12345) * 2654435761u >> 8) * 0x1p-24;
    return even(thing, n) * (0.98 + 0.04 * draw);
}

/* Of noise of 2 % either way a median keeps little. */
static void noise_is_averaged(void **state)
{
    sg_rule r = measured(noisy, 2, 100);
    for (int i = 0; i < 2; i++) {
        assert_true(fabs(sg_rule_median(&r, i) / even(i, 0) - 1) < 0.006);
        assert_true(sg_rule_spread(&r, i) > 0.002 && sg_rule_spread(&r, i) < 0.02);
        const int run = r.warm + sg_rule_median_run(&r, i);
        assert_true(fabs(r.seconds[run * 2 + i] / sg_rule_median(&r, i) - 1) < 0.002);
    }
    sg_rule_close(&r);
}

static double long_ones(int thing, int n) { return 20 * (n && thing >= 0 ? 1 : 1.5); }

/* Windows of one round where more would take minutes. */
static void long_runs_are_few(void **state)
{
    sg_rule r = measured(long_ones, 2, 0);
    assert_int_equal(r.warm, 3);
    assert_int_equal(sg_rule_runs(&r), 5);
    assert_true(!(sg_rule_unsteady(&r, 0) > 0));
    sg_rule_close(&r);
}

/* Less than the slack does not count. */
static double jitters(int thing, int n) { return 1e-6 * (1 + (n + thing) % 2 * 0.3); }

static void slack_is_granted(void **state)
{
    sg_rule r = measured(jitters, 1, 10);
    assert_int_equal(r.warm, 201);
    assert_true(!(sg_rule_unsteady(&r, 0) > 0));
    sg_rule_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_things_take_turns),
        cmocka_unit_test(each_round_begins_with_the_next),
        cmocka_unit_test(short_runs_fill_windows),
        cmocka_unit_test(warming_lasts_until_it_is_over),
        cmocka_unit_test(single_spikes_change_nothing),
        cmocka_unit_test(what_never_settles_is_reported),
        cmocka_unit_test(slow_drift_is_reported),
        cmocka_unit_test(step_is_reported),
        cmocka_unit_test(noise_is_averaged),
        cmocka_unit_test(long_runs_are_few),
        cmocka_unit_test(slack_is_granted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
