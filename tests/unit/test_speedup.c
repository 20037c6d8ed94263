/* test_speedup.c - speed-ups of arms by times that are made up: what they come to, and what noise leaves of them. */
#include "speedup.h"
#include "unit.h"

enum { STEPS = 12, DENSE = 3, DECODED = 9, ROUNDS = 4 };

static uint64_t seed = 1;

/* Of a normal distribution, nearly: twelve draws of an even one. */
static double normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(seed >> 11) * 0x1p-53;
    }
    return sum;
}

static sg_arm_times times_of(int rounds, double own)
{
    sg_arm_times t;
    sg_error     e = {0};
    assert_int_equal(sg_arm_times_make(&t, rounds, STEPS, DECODED, &e), SG_OK);
    for (int n = 0; n < rounds; n++) {
        t.total[n] = 0.5;
        for (int i = 0; i < STEPS; i++) {
            t.shared[i] = i < DENSE;
            t.step[n * STEPS + i] = i < DENSE ? 2 : own;
            t.attention[n * STEPS + i] = (i < DENSE ? 2 : own) - 0.5;
        }
        for (int i = 0; i < DECODED; i++) t.decode[n * DECODED + i] = 0.2;
    }
    return t;
}

/* What these units do takes so much longer in this round. */
static void slow(sg_arm_times *t, int round, int first, int last, double factor)
{
    for (int i = first; i < last; i++) {
        double *const at = i < STEPS ? &t->step[round * STEPS + i] : &t->decode[round * DECODED + i - STEPS];
        *at *= factor;
        if (i < STEPS) t->attention[round * STEPS + i] *= factor;
    }
}

static void add_up(sg_arm_times *t)
{
    for (int n = 0; n < t->rounds; n++) {
        for (int i = 0; i < STEPS; i++) t->total[n] += t->step[n * STEPS + i];
        for (int i = 0; i < DECODED; i++) t->total[n] += t->decode[n * DECODED + i];
    }
}

static sg_arm_speed speed_of(sg_arm_times *first, sg_arm_times *arm)
{
    const sg_arm_times *const both[] = {first, arm};
    for (int i = 0; i < first->steps; i++) first->shared[i] = true;
    add_up(first);
    add_up(arm);
    const sg_arm_speed s = sg_arm_speed_of(both, 2, 1);
    sg_arm_times_free(first);
    sg_arm_times_free(arm);
    return s;
}

static bool no_speedup(const sg_interval *v) { return isnan(v->mean); }
static bool unknown(const sg_interval *v) { return isnan(v->mean) && isnan(v->low) && isnan(v->high); }
static bool holds(const sg_interval *v, double x) { return v->low <= x && x <= v->high; }

/* Without noise it is the ratio of the whole, and the bounds are next to it. */
static void exact_times_give_exact_speedups(void **state)
{
    sg_arm_times       a = times_of(1, 2), b = times_of(1, 1);
    const sg_arm_speed s = speed_of(&a, &b);
    const double       rest = 0.5 + 9 * 0.2;
    assert_true(fabs(s.denoise.mean - 24 / 15.0) < 1e-9 && fabs(s.denoise.high - s.denoise.low) < 1e-9);
    assert_true(fabs(s.total.mean - (24 + rest) / (15 + rest)) < 1e-9);
    assert_true(fabs(s.attention.mean - (12 * 1.5) / (3 * 1.5 + 9 * 0.5)) < 1e-9);
    assert_int_equal(s.shared_steps, DENSE);
    assert_true(s.noise < 1e-9);
}

/* Arms of other numbers of steps, one more and one fewer than the first has, beside one that shares steps with it. */
static void other_numbers_of_steps(void **state)
{
    for (int rounds = 1; rounds <= 2; rounds++) {
        sg_arm_times a = times_of(rounds, 2), b = times_of(rounds, 1), other[2];
        const int    steps[] = {7, 31};
        sg_error     e = {0};
        for (int k = 0; k < 2; k++) {
            sg_arm_times *const t = &other[k];
            assert_int_equal(sg_arm_times_make(t, rounds, steps[k], DECODED, &e), SG_OK);
            for (int i = 0; i < rounds * steps[k]; i++) t->step[i] = 2, t->attention[i] = NAN;
            for (int i = 0; i < rounds * DECODED; i++) t->decode[i] = 0.2;
            for (int n = 0; n < rounds; n++) t->total[n] = 2 * steps[k] + 9 * 0.2 + 0.5;
        }
        for (int i = 0; i < STEPS; i++) a.shared[i] = true;
        add_up(&a);
        add_up(&b);
        const sg_arm_times *const all[] = {&a, &b, &other[0], &other[1]};
        const double              rest = 0.5 + 9 * 0.2;
        assert_true(fabs(sg_arm_speed_of(all, 4, 1).denoise.mean - 24 / 15.0) < 1e-9);
        for (int k = 0; k < 2; k++) {
            const sg_arm_speed s = sg_arm_speed_of(all, 4, 2 + k);
            assert_true(fabs(s.denoise.mean - (double)STEPS / steps[k]) < 1e-9);
            assert_true(fabs(s.total.mean - (24 + rest) / (2 * steps[k] + rest)) < 1e-9);
            assert_true(s.noise < 1e-9 && s.shared_steps == 0);
            assert_true(unknown(&s.attention));
        }
        for (int k = 0; k < 2; k++) sg_arm_times_free(&other[k]);
        sg_arm_times_free(&a);
        sg_arm_times_free(&b);
    }
}

/* What is shown of two arms are the same seconds as the speed-up's: their ratio is it, whatever noise there was. */
static void seconds_agree_with_speedups(void **state)
{
    enum { ARMS = 3 };
    sg_arm_times        t[ARMS] = {times_of(ROUNDS, 2), times_of(ROUNDS, 1), times_of(ROUNDS, 0.5)};
    const sg_arm_times *all[ARMS];
    sg_arm_speed        s[ARMS];
    double              raw = 0;
    seed = 9;
    for (int k = 0; k < ARMS; k++) {
        for (int n = 0; n < ROUNDS; n++)
            for (int i = 0; i < STEPS + DECODED; i++) slow(&t[k], n, i, i + 1, exp(0.05 * normal()));
        for (int i = 0; i < STEPS; i++) t[k].shared[i] = k == 0 || i < DENSE + k; /* the last shares more of them */
        add_up(&t[k]);
        all[k] = &t[k];
    }
    for (int k = 0; k < ARMS; k++) s[k] = sg_arm_speed_of(all, ARMS, k);
    for (int k = 1; k < ARMS; k++) {
        assert_true(fabs(s[0].seconds / s[k].seconds / s[k].total.mean - 1) < 1e-12);
        assert_true(fabs(s[0].denoise_seconds / s[k].denoise_seconds / s[k].denoise.mean - 1) < 1e-12);
        if (k == 1) /* the other's has taken no time */
            assert_true(fabs(s[0].attention_seconds / s[k].attention_seconds / s[k].attention.mean - 1) < 1e-12);
        raw += fabs(sg_arm_times_total(&t[k]) / s[k].seconds - 1);
    }
    assert_true(raw > 1e-4 && raw < 0.2); /* they are corrected, by a little */
    for (int k = 0; k < ARMS; k++) {      /* parts add up */
        double steps = 0;
        for (int i = 0; i < STEPS; i++) steps += sg_arm_step_seconds(all, ARMS, k, i);
        assert_true(fabs(steps / s[k].denoise_seconds - 1) < 1e-12);
        assert_true(s[k].attention_seconds < s[k].denoise_seconds && s[k].decode_seconds == s[0].decode_seconds);
        assert_true(fabs(s[k].seconds - s[k].denoise_seconds - s[k].decode_seconds - 0.5) < 1e-9);
    }
    for (int k = 0; k < ARMS; k++) sg_arm_times_free(&t[k]);
}

/* Of three intervals that hold together each is wider than one alone. */
static void intervals_hold_together(void **state)
{
    double width[2];
    for (int together = 1; together <= 3; together += 2) {
        sg_pace p = {.rounds = 1, .together = together};
        for (int i = 0; i < 4; i++) {
            sg_pace_add_own(&p, (double[]){2 + 0.1 * i}, (double[]){1}, 1);
            sg_pace_add_shared(&p, (double[]){1 + 0.01 * i}, (double[]){1}, 1);
        }
        const sg_interval v = sg_speedup_of(&p, 0);
        width[together / 2] = log(v.high / v.low);
    }
    assert_true(fabs(width[1] / width[0] - 4.856657272769 / 3.182446305284) <
                1e-9); /* SciPy: t.ppf(1 - 0.05 / 6, 3), t.ppf(0.975, 3) */
}

/* The first steps, dense in both arms, took the first arm 40 % longer: that is not the other's doing. */
static void drift_of_shared_steps_is_no_speedup(void **state)
{
    for (int rounds = 1; rounds <= 3; rounds++) {
        sg_arm_times a = times_of(rounds, 2), b = times_of(rounds, 2);
        for (int n = 0; n < rounds; n++) slow(&a, n, 0, 2, 1.4);
        const sg_arm_speed s = speed_of(&a, &b);
        assert_true(no_speedup(&s.total) && no_speedup(&s.denoise) && no_speedup(&s.attention));
        assert_true(holds(&s.total, 1) && s.total.high > 1.02);
    }
    /* and where there is a speed-up it counts for nothing in its mean */
    sg_arm_times a = times_of(3, 2), b = times_of(3, 0.5);
    for (int n = 0; n < 3; n++) slow(&a, n, 0, 2, 1.4);
    const sg_arm_speed s = speed_of(&a, &b);
    const double       shared = 2 + 2 * (2 + 2.8) / 2;
    assert_true(fabs(s.denoise.mean - (shared + 18) / (shared + 4.5)) < 1e-9);
}

static void a_speedup_stands_out_of_noise(void **state)
{
    for (int trial = 0; trial < 50; trial++)
        for (int rounds = 1; rounds <= ROUNDS; rounds += ROUNDS - 1) {
            sg_arm_times a = times_of(rounds, 1.3), b = times_of(rounds, 1);
            seed = (uint64_t)trial + 1;
            for (int n = 0; n < rounds; n++)
                for (int i = 0; i < STEPS + DECODED; i++) {
                    slow(&a, n, i, i + 1, exp(0.05 * normal()));
                    slow(&b, n, i, i + 1, exp(0.05 * normal()));
                }
            const sg_arm_speed s = speed_of(&a, &b);
            const double       rest = 6 + 0.5 + 9 * 0.2;
            assert_true(holds(&s.total, (9 * 1.3 + rest) / (9 + rest)));
            if (rounds == ROUNDS) assert_true(s.denoise.mean > 1.1 && s.denoise.high / s.denoise.low < 1.15);
        }
}

/* A busy machine slows whole renders, long runs of units, or each unit by itself: of 2,000 pairs of arms that cost the same at
 * most one in twenty gets a speed-up. */
static void equal_arms_get_no_speedup(void **state)
{
    for (int kind = 0; kind < 3; kind++)
        for (int rounds = 1; rounds <= ROUNDS; rounds *= 2) {
            int  apart = 0;
            bool busy = false;
            for (int trial = 0; trial < 2000; trial++) {
                sg_arm_times t[2] = {times_of(rounds, 1), times_of(rounds, 1)};
                for (int n = 0; n < rounds; n++)
                    for (int k = 0; k < 2; k++) {
                        sg_arm_times *const at = &t[(n + k) % 2];
                        const double        level = kind == 0 ? 0.1 * normal() : 0;
                        for (int i = 0; i < STEPS + DECODED; i++) {
                            if (kind == 1 && normal() > 1.5) busy = !busy; /* one in 15 */
                            slow(at, n, i, i + 1, exp(level + 0.03 * normal()) * (busy ? 1.6 : 1));
                        }
                    }
                const sg_arm_speed s = speed_of(&t[0], &t[1]);
                apart += !no_speedup(&s.total);
            }
            if (apart > 100) fail_msg("noise %d, %d rounds: %d of 2,000 got a speed-up", kind, rounds, apart);
        }
}

/* A unit that takes a thousandth of the time says little of the noise, a long one much. */
static void long_units_weigh_more(void **state)
{
    for (int late = 0; late < 2; late++) {
        sg_pace p = {.rounds = 1, .together = 1};
        for (int i = 0; i < 9; i++) sg_pace_add_own(&p, (double[]){1.3}, (double[]){1}, 1);
        for (int i = 0; i < 3; i++) sg_pace_add_shared(&p, (double[]){late && i == 2 ? 4 : 2}, (double[]){2}, 1);
        sg_pace_add_shared(&p, (double[]){0.004}, (double[]){0.002}, 1);
        const sg_interval v = sg_speedup_of(&p, 0);
        assert_true(isnan(v.mean) == (late == 1));
        assert_true((sg_pace_noise(&p) > 0.4) == (late == 1) && (sg_pace_noise(&p) < 0.02) == (late == 0));
    }
}

static void little_tells_nothing(void **state)
{
    const double one[] = {2}, half[] = {1}, zero[] = {0}, nan[] = {NAN};
    sg_pace      p = {.rounds = 1, .together = 1};
    sg_interval  v = sg_speedup_of(&p, 1); /* nothing at all */
    assert_true(unknown(&v));
    sg_pace_add_own(&p, one, half, 1); /* one step */
    sg_pace_add_shared(&p, one, one, 1);
    sg_pace_add_shared(&p, one, one, 1);
    v = sg_speedup_of(&p, 1);
    assert_true(unknown(&v));
    sg_pace_add_own(&p, one, half, 1);
    v = sg_speedup_of(&p, 0);
    assert_true(fabs(v.mean - 2) < 1e-12);
    sg_pace_add_shared(&p, zero, one, 1); /* left out */
    v = sg_speedup_of(&p, 0);
    assert_true(fabs(v.mean - 2) < 1e-12);
    const double *const bad[] = {zero, nan};
    for (int i = 0; i < 2; i++) {
        sg_pace q = p;
        sg_pace_add_own(&q, one, bad[i], 1);
        v = sg_speedup_of(&q, 1);
        assert_true(unknown(&v) && isnan(sg_pace_noise(&q)));
    }
    sg_pace all_shared = {.rounds = 2, .together = 1};
    for (int i = 0; i < 5; i++) sg_pace_add_shared(&all_shared, (double[]){1, 2}, (double[]){2, 1}, 1);
    v = sg_speedup_of(&all_shared, 1);
    assert_true(unknown(&v));
    p = (sg_pace){.rounds = 1, .together = 1}; /* two own steps, one shared unit */
    for (int i = 0; i < 2; i++) sg_pace_add_own(&p, one, half, 1);
    sg_pace_add_shared(&p, one, one, 1);
    v = sg_speedup_of(&p, 1);
    assert_true(unknown(&v));
    v = sg_speedup_of(&p, NAN);
    assert_true(unknown(&v));
}

/* Two arms of this noise, each unit so many seconds by that of the others, after so many rounds. */
static bool settled(int rounds, double own, double noise, double factor)
{
    sg_arm_times              t[2] = {times_of(rounds, 2), times_of(rounds, own)};
    const sg_arm_times *const both[] = {&t[0], &t[1]};
    seed = 5;
    for (int k = 0; k < 2; k++) {
        for (int n = 0; n < rounds; n++)
            for (int i = 0; i < STEPS + DECODED; i++) slow(&t[k], n, i, i + 1, exp(noise * normal()));
        for (int i = 0; i < STEPS; i++) t[k].shared[i] = k == 0 || i < DENSE || own == 2;
        add_up(&t[k]);
        for (size_t i = 0; i < t[k].numbers; i++) t[k].total[i] *= factor;
    }
    const bool done = sg_arms_settled(both, 2);
    for (int k = 0; k < 2; k++) sg_arm_times_free(&t[k]);
    return done;
}

/* A render has 11 to 27 seconds by the factor. Each arm has to have begun a round, unless ten seconds have passed. */
static void short_renders_go_on(void **state)
{
    assert_true(settled(1, 1, 0, 1) && settled(1, 1, 0.3, 1));
    assert_false(settled(1, 1, 0, 0.01));
    assert_true(settled(2, 1, 0, 0.01));
    assert_false(settled(3, 1, 0, 0.01));
    assert_false(settled(2, 1, 0.1, 0.01));
    assert_true(settled(2, 1, 0.1, 0.3)); /* 24 s */
    assert_true(settled(200, 1, 0.1, 0.0001));
    assert_true(settled(2, 2, 0.1, 0.01)); /* the same kernels: there is nothing to wait for */
    assert_false(settled(2, NAN, 0.1, 0.0001));
}

static void speedups_are_told(void **state)
{
    char        text[64];
    sg_interval v = sg_speedup_clear((sg_interval){1.324, 1.268, 1.379});
    assert_string_equal(sg_speedup_text(text, sizeof text, &v), "1.32x, 1.27 to 1.38");
    v = sg_speedup_clear((sg_interval){1.324, 1.004, 1.7}); /* 1.00 */
    assert_string_equal(sg_speedup_text(text, sizeof text, &v), "not distinguishable in time");
    v = sg_speedup_clear((sg_interval){0.8, 0.71, 0.99});
    assert_string_equal(sg_speedup_text(text, sizeof text, &v), "0.80x, 0.71 to 0.99");
    v = sg_speedup_clear((sg_interval){1.3, NAN, NAN});
    assert_true(unknown(&v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact_times_give_exact_speedups),
                                       cmocka_unit_test(other_numbers_of_steps),
                                       cmocka_unit_test(seconds_agree_with_speedups),
                                       cmocka_unit_test(intervals_hold_together),
                                       cmocka_unit_test(drift_of_shared_steps_is_no_speedup),
                                       cmocka_unit_test(a_speedup_stands_out_of_noise),
                                       cmocka_unit_test(equal_arms_get_no_speedup),
                                       cmocka_unit_test(long_units_weigh_more),
                                       cmocka_unit_test(little_tells_nothing),
                                       cmocka_unit_test(short_renders_go_on),
                                       cmocka_unit_test(speedups_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
