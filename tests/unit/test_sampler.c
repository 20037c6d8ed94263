/* test_sampler.c - sigmas, timesteps and trajectories against diffusers; refusals by name. */
#include "sampler.h"
#include "unit.h"

#include "sampler_table.h"

/* ---- numbers ---- */

enum { ARENA = 1 << 14 };
static _Alignas(SG_ALIGN) unsigned char arena[ARENA];

static sg_stream stream(void)
{
    return (sg_stream){.ops = &sg_ref_ops, .keep = {.base = (uintptr_t)arena, .cap = ARENA}};
}

static sg_sampler_config config(sg_sampler_kind kind, double shift)
{
    return (sg_sampler_config){
        .kind = kind, .kinds = SG_SAMPLERS_FLOW, .flow_shift = shift, .train_steps = 1000, .order = 2};
}

static bool near(float x, double wanted) { return fabs((double)x - wanted) <= 1e-6 * fmax(1.0, fabs(wanted)); }

/* One number's path under the made-up model that make_sampler_table.py describes; `begun`, if not NULL, is what noise of 1.2
 * begins as. */
static void check_trajectory(const sg_sampler *p, const double *begun, const double *wanted)
{
    sg_stream        s = stream();
    sg_sampler_state st = sg_sampler_state_new(p, &s, (int64_t[4]){1, 1, 1, 1});
    float            v;
    const sg_tensor  output = {.data = &v, .rank = 4, .dim = {1, 1, 1, 1}};
    float *const     x = st.x.data;
    *x = 1.2f;
    if (begun) sg_sampler_begin(p, &st, &s, (sg_tensor){0});
    assert_true(near(*x, begun ? *begun : 1.2));
    for (int i = 0; i < p->steps; i++) {
        if (sg_sampler_draws(p, i)) *(float *)st.noise.data = (float)cos(2.3 * i);
        v = (float)(0.3 * (double)*x + sin(1.7 * i + 0.4));
        sg_sampler_step(p, &st, &s, i, output);
        assert_int_equal(s.status, SG_OK);
        assert_ptr_equal(st.x.data, x);
        assert_true(near(*x, wanted[i]));
    }
}

/* Against sigmas and timesteps, and a sample after each step, which end at what is returned. */
static const double *check_case(const sg_sampler_config *c, int steps, const double *schedule, const double *samples)
{
    static sg_sampler p;
    sg_error          e = {0};
    assert_int_equal(sg_sampler_init(&p, c, steps, &e), SG_OK);
    assert_true(p.sigma[steps] == 0.0);
    for (int i = 0; i < steps; i++) {
        assert_true((float)p.sigma[i] == (float)schedule[i]);
        assert_true((float)p.timestep[i] == (float)schedule[steps + i]);
    }
    check_trajectory(&p, NULL, samples);
    return samples + steps;
}

static void test_diffusers(void **state)
{
    static const struct {
        sg_sampler_kind kind;
        bool            old;
        int             order;
    } made[] = {{SG_SAMPLER_UNIPC, false, 2},
                {SG_SAMPLER_UNIPC, false, 1},
                {SG_SAMPLER_UNIPC, true, 2},
                {SG_SAMPLER_EULER, false, 2},
                {SG_SAMPLER_LCM, false, 2}};
    enum { SHIFTS = sizeof table_shift / sizeof *table_shift, COUNTS = sizeof table_steps / sizeof *table_steps };
    enum { LISTS = sizeof table_list / sizeof *table_list };
    const double *schedule[SHIFTS][COUNTS], *of_list[LISTS], *t = table_numbers;
    for (size_t m = 0; m < sizeof made / sizeof *made; m++)
        for (int i = 0; i < SHIFTS; i++)
            for (int k = 0; k < COUNTS; k++) {
                sg_sampler_config c = config(made[m].kind, table_shift[i]);
                c.order = made[m].order;
                c.sigmas_old = made[m].old;
                if (m != 1 && m != 4) schedule[i][k] = t, t += 2 * table_steps[k];
                t = check_case(&c, table_steps[k], schedule[i][k], t);
            }
    for (int kind = SG_SAMPLER_EULER; kind <= SG_SAMPLER_LCM; kind++)
        for (int i = 0; i < LISTS; i++) {
            sg_sampler_config c = config((sg_sampler_kind)kind, 7.0); /* which does nothing to a list */
            c.sigmas = table_list[i];
            if (kind == SG_SAMPLER_EULER) of_list[i] = t, t += 2 * c.sigmas.count;
            t = check_case(&c, c.sigmas.count, of_list[i], t);
        }
    assert_ptr_equal(t, table_numbers + sizeof table_numbers / sizeof *table_numbers);
}

static void test_every_count_of_steps(void **state)
{
    static sg_sampler p;
    for (int steps = 1; steps <= SG_STEPS_MAX; steps++)
        for (int kind = 0; kind < 3; kind++) {
            sg_sampler_config c = config(kind == 2 ? SG_SAMPLER_EULER : SG_SAMPLER_UNIPC, 12.0);
            sg_error          e = {0};
            c.sigmas_old = kind == 1;
            assert_int_equal(sg_sampler_init(&p, &c, steps, &e), SG_OK);
            for (int i = 0; i < steps; i++) assert_true(p.sigma[i] > p.sigma[i + 1]);
        }
}

/* ---- schedules of betas ---- */

static sg_sampler_config config_of_betas(sg_sampler_kind kind, double shift, bool zero_snr)
{
    return (sg_sampler_config){.kind = kind,
                               .kinds = SG_SAMPLERS_BETAS,
                               .flow_shift = 1,
                               .train_steps = 1000,
                               .betas = {.start = 0.00085, .end = 0.012, .shift = shift, .zero_snr = zero_snr}};
}

static const double *check_betas(const sg_sampler_config *c, int steps, const double *timestep, const double *t)
{
    static sg_sampler p;
    sg_error          e = {0};
    int               draws = 0;
    assert_int_equal(sg_sampler_init(&p, c, steps, &e), SG_OK);
    for (int i = 0; i < steps; i++) {
        assert_true(p.timestep[i] == timestep[i]);
        assert_true(p.sigma[i] > p.sigma[i + 1] && p.sigma[i] > p.end[i] && p.sigma[i] <= 1.0);
        draws += sg_sampler_draws(&p, i);
    }
    assert_true((p.sigma[0] == 1.0) == c->betas.zero_snr);
    check_trajectory(&p, NULL, t);
    if (c->kind == SG_SAMPLER_DPM) assert_true(draws == t[steps]);
    if (c->kind == SG_SAMPLER_DDIM) assert_int_equal(draws, 0);
    return t + steps + 1;
}

static void test_betas_are_diffusers(void **state)
{
    const double *t = betas_numbers;
    for (int kind = SG_SAMPLER_DDIM; kind <= SG_SAMPLER_DPM; kind++)
        for (size_t i = 0; i < sizeof betas_shift / sizeof *betas_shift; i++)
            for (int zero_snr = 0; zero_snr < 2; zero_snr++) {
                const double *timestep = betas_timesteps;
                for (size_t k = 0; k < sizeof betas_steps / sizeof *betas_steps; k++) {
                    const sg_sampler_config c = config_of_betas((sg_sampler_kind)kind, betas_shift[i], zero_snr);
                    t = check_betas(&c, betas_steps[k], timestep, t);
                    timestep += betas_steps[k];
                }
            }
    assert_ptr_equal(t, betas_numbers + sizeof betas_numbers / sizeof *betas_numbers);
}

/* Even to a timestep's half, so that what is linear in the step's number is so in the timestep. */
static void test_timesteps_of_betas(void **state)
{
    static sg_sampler       p;
    const sg_sampler_config c = config_of_betas(SG_SAMPLER_DPM, 1, true);
    sg_error                e = {0};
    for (int steps = 1; steps <= SG_STEPS_MAX; steps++) {
        assert_int_equal(sg_sampler_init(&p, &c, steps, &e), SG_OK);
        for (int i = 0; i < steps; i++) assert_true(fabs(p.timestep[i] - (999 - i * 1000. / steps)) <= 0.5 + 1e-9);
    }
    for (size_t k = 0; k < sizeof betas_counted / sizeof *betas_counted; k++) {
        int sum = 0;
        assert_int_equal(sg_sampler_init(&p, &c, betas_counted[k][0], &e), SG_OK);
        for (int i = 0; i < p.steps; i++) sum += (i + 1) * (int)p.timestep[i];
        assert_int_equal(sum, betas_counted[k][1]);
    }
}

static sg_sampler_config config_ancestral(bool linear, bool leading, bool epsilon, bool zero_snr)
{
    sg_sampler_config c = config_of_betas(SG_SAMPLER_EULER_A, 1, zero_snr);
    c.kinds = 1 << SG_SAMPLER_EULER_A;
    c.betas.start = 0.0001;
    c.betas.end = 0.02;
    c.betas.least = 0x1p-24;
    c.betas.linear = linear;
    c.betas.leading = leading;
    c.betas.epsilon = epsilon;
    c.betas.offset = 1;
    return c;
}

static void test_ancestral_is_diffusers(void **state)
{
    static sg_sampler       p;
    const sg_sampler_config made[] = {
        config_ancestral(true, false, false, true), config_ancestral(true, true, true, false),
        config_ancestral(false, false, true, false), config_ancestral(false, true, false, true)};
    const double *t = ancestral_numbers;
    for (size_t m = 0; m < sizeof made / sizeof *made; m++)
        for (size_t k = 0; k < sizeof ancestral_steps / sizeof *ancestral_steps; k++) {
            const int steps = ancestral_steps[k];
            assert_int_equal(sg_sampler_init(&p, &made[m], steps, NULL), SG_OK);
            for (int i = 0; i < steps; i++) {
                assert_true(p.timestep[i] == *t++);
                assert_true(p.sigma[i] > p.sigma[i + 1] && p.end[i] == p.sigma[i + 1]);
                assert_int_equal(sg_sampler_draws(&p, i), 1);
            }
            assert_true(p.sigma[steps] == 0);
            check_trajectory(&p, t, t + 1);
            t += steps + 1;
        }
    assert_ptr_equal(t, ancestral_numbers + sizeof ancestral_numbers / sizeof *ancestral_numbers);
}

/* An alpha_bar of 2^-24 at the end is more than that of the timestep before: steps as near as these would have NaN in them.
 * A timestep beyond the last is held. */
static void test_ancestral_steps(void **state)
{
    static sg_sampler p;
    sg_sampler_config c = config_ancestral(true, false, false, true);
    sg_error          e = {0};
    assert_int_equal(sg_sampler_init(&p, &c, 285, &e), SG_OK);
    assert_refused(sg_sampler_init(&p, &c, 286, &e), SG_E_ARG, &e, "286 steps|step 1; take fewer");
    c = config_ancestral(true, true, false, false);
    c.betas.offset = 999;
    assert_int_equal(sg_sampler_init(&p, &c, 1, &e), SG_OK);
    assert_true(p.timestep[0] == 999);
    c.betas.offset = 1000;
    assert_int_equal(sg_sampler_init(&p, &c, 1, &e), SG_OK);
    assert_true(p.timestep[0] == 999);
}

/* v of a known clean sample and known noise: the samples at the end and between keep to them, and a change of v changes the
 * end by its weight. */
static void test_ddim_knows(void **state)
{
    static sg_sampler       p;
    const double            clean = -0.7, noise = 1.2;
    const sg_sampler_config c = config_of_betas(SG_SAMPLER_DDIM, 3, true);
    sg_error                e = {0};
    sg_stream               s = stream();
    assert_int_equal(sg_sampler_init(&p, &c, 50, &e), SG_OK);
    sg_sampler_state st = sg_sampler_state_new(&p, &s, (int64_t[4]){1, 1, 1, 1});
    float *const     x = st.x.data;
    *x = (float)noise;
    for (int i = 0; i < p.steps; i++) {
        const double now = p.sigma[i], length = sqrt(now * now + (1 - now) * (1 - now)), more = i == 20 ? 0.1 : 0;
        float        v = (float)(((1 - now) * noise - now * clean) / length + more);
        double       a[2];
        sg_sampler_smooth(&p, i, a);
        assert_true(a[0] == 0 && a[1] == 1);
        sg_sampler_step(&p, &st, &s, i, (sg_tensor){.data = &v, .rank = 4, .dim = {1, 1, 1, 1}});
        const double end = p.sigma[i + 1], wanted = ((1 - end) * clean + end * noise) / hypot(1 - end, end);
        const double off = ((double)*x - wanted) * hypot(1 - end, end);
        assert_true(fabs(i == 20 ? fabs(off) - 0.1 * sg_sampler_weight(&p, i) : off) < 1e-6);
        *x = (float)wanted;
    }
    assert_true(fabs((double)*x - clean) < 1e-6);
}

static void test_clean_sample_is_smooth(void **state)
{
    static sg_sampler p;
    sg_error          e = {0};
    for (int kind = SG_SAMPLER_UNIPC; kind <= SG_SAMPLER_EULER_A + 1; kind++) {
        const bool              betas = kind >= SG_SAMPLER_DDIM, epsilon = kind > SG_SAMPLER_EULER_A;
        const sg_sampler_config c = !betas                      ? config((sg_sampler_kind)kind, 5)
                                    : kind < SG_SAMPLER_EULER_A ? config_of_betas((sg_sampler_kind)kind, 3, true)
                                                                : config_ancestral(true, false, epsilon, !epsilon);
        assert_int_equal(sg_sampler_init(&p, &c, 20, &e), SG_OK);
        for (int i = 0; i < p.steps; i++) {
            const double now = p.sigma[i], length = hypot(1 - now, now), clean = 0.3, noise = -1.1 * i;
            const double rotated = ((1 - now) * noise - now * clean) / length;
            const double v = epsilon ? noise : betas ? rotated : noise - clean;
            const double x = ((1 - now) * clean + now * noise) / (betas ? length : 1);
            double       a[2];
            sg_sampler_smooth(&p, i, a);
            const bool draws = kind == SG_SAMPLER_LCM || kind >= SG_SAMPLER_DPM;
            assert_true(fabs(a[0] * x + a[1] * v - (draws ? clean : v)) < 1e-12 * fmax(1, fabs(a[1])));
        }
    }
}

static void test_kinds_refused(void **state)
{
    static sg_sampler p;
    sg_sampler_config c = config(SG_SAMPLER_DDIM, 5);
    sg_error          e = {0};
    assert_refused(sg_sampler_init(&p, &c, 20, &e), SG_E_ARG, &e, "sampler: ddim|unipc|euler|lcm");
    c = config_of_betas(SG_SAMPLER_UNIPC, 1, true);
    e = (sg_error){0};
    assert_refused(sg_sampler_init(&p, &c, 20, &e), SG_E_ARG, &e, "sampler: unipc|ddim|dpm");
    c = config_of_betas(SG_SAMPLER_DPM, 1, true);
    c.train_steps = 19;
    e = (sg_error){0};
    assert_refused(sg_sampler_init(&p, &c, 20, &e), SG_E_ARG, &e, "20 steps|19 timesteps");
    c.sigmas = (sg_sigmas){1, {1}};
    e = (sg_error){0};
    assert_refused(sg_sampler_init(&p, &c, 1, &e), SG_E_ARG, &e, "sigmas: dpm");
}

/* Betas that leave nothing of the clean sample on the way, or none at all, would make NaN of the latents. */
static void test_betas_of_noise_alone_are_refused(void **state)
{
    static sg_sampler p;
    const struct {
        double start;
        int    train, steps;
    } of[] = {{0.5, 10000, 2}, {0.5, 10000, 30}, {0.00085, 1, 1}};
    for (int kind = SG_SAMPLER_DDIM; kind <= SG_SAMPLER_DPM; kind++)
        for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
            sg_sampler_config c = config_of_betas((sg_sampler_kind)kind, 1, true);
            sg_error          e = {0};
            c.betas.start = of[i].start;
            c.betas.end = 0.999;
            c.train_steps = of[i].train;
            assert_refused(sg_sampler_init(&p, &c, of[i].steps, &e), SG_E_FORMAT, &e,
                           "scheduler/scheduler_config.json|beta_start|beta_end");
        }
}

static void refuse_run(double shift, int steps, const char *words)
{
    static sg_sampler       p;
    const sg_sampler_config c = config(SG_SAMPLER_UNIPC, shift);
    sg_error                e = {0};
    assert_refused(sg_sampler_init(&p, &c, steps, &e), SG_E_ARG, &e, words);
}

static void test_runs_refused(void **state)
{
    refuse_run(3.0, 0, "0 steps");
    refuse_run(3.0, SG_STEPS_MAX + 1, "1001 steps");
    refuse_run(0.0, 8, "shift of 0");
    refuse_run(-1.0, 8, "shift of -1");
    refuse_run(NAN, 8, "flow shift");
    refuse_run(1e9, 8, "equal");
}

/* ---- few steps ---- */

/* A model that knows the clean sample. Whatever is drawn, LCM ends there; its first sample is sigma times noise. */
static void test_lcm_knows(void **state)
{
    static sg_sampler p;
    const float       clean = -0.7f;
    sg_sampler_config c = config(SG_SAMPLER_LCM, 5.0);
    sg_error          e = {0};
    sg_request        r = {.cfg_scale = 5, .cfg_scale_2 = 4, .steps = 50};
    sg_stream         s = stream();
    float             v;
    sg_step_preset_apply(&r, 2); /* rcm */
    assert_true(r.cfg_scale == 1 && r.cfg_scale_2 < 0 && r.sampler == SG_SAMPLER_LCM && r.steps == 4);
    memcpy(&c.sigmas, &r.sigmas, sizeof c.sigmas);
    assert_int_equal(sg_sampler_init(&p, &c, r.steps, &e), SG_OK);
    sg_sampler_state st = sg_sampler_state_new(&p, &s, (int64_t[4]){1, 1, 1, 1});
    float *const     x = st.x.data;
    *x = 1.2f;
    sg_sampler_begin(&p, &st, &s, (sg_tensor){0});
    assert_true(*x == 1.2f * (float)(80. / 81));
    for (int i = 0; i < p.steps; i++) {
        v = (*x - clean) / (float)p.sigma[i];
        *(float *)st.noise.data = (float)(i - 2);
        sg_sampler_step(&p, &st, &s, i, (sg_tensor){.data = &v, .rank = 4, .dim = {1, 1, 1, 1}});
        const double wanted = (1 - p.sigma[i + 1]) * (double)clean + p.sigma[i + 1] * (i - 2);
        assert_true(fabs((double)*x - wanted) < 1e-6);
    }
}

static void test_presets(void **state)
{
    static sg_sampler p;
    for (int i = 0; sg_step_preset_names[i]; i++) {
        sg_request        r = {0};
        sg_sampler_config c = config(SG_SAMPLER_UNIPC, 5.0);
        sg_error          e = {0};
        sg_step_preset_apply(&r, i);
        c.kind = r.sampler;
        memcpy(&c.sigmas, &r.sigmas, sizeof c.sigmas);
        assert_int_equal(sg_sampler_init(&p, &c, r.steps, &e), SG_OK);
    }
}

static void test_lists_read(void **state)
{
    static const struct {
        const char *list, *words; /* of the refusal; NULL: it will do */
    } of[] = {{"1,0.9375,.8333,0.625", NULL},
              {"1,.5,0", NULL},
              {"0.3", NULL},
              {"", "''|place 1"},
              {"1,", "''|place 2"},
              {"1,,0.5", "''|place 2"},
              {"1,half", "'half'|place 2"},
              {"1,nan", "'nan'|place 2"},
              {"0", "0 at place 1|above"},
              {"1.0001,0.5", "1.0001|place 1"},
              {"1,-0.5", "-0.5|place 2"},
              {"1,0,0.5", "0 at place 2|above"},
              {"1,0,0", "0 at place 2|above"},
              {"0.5,0.6", "0.6|place 2|0.5"},
              {"1,0.99999999999", "place 2|below"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_request s;
        sg_error   e = {0};
        if (of[i].words)
            assert_refused(sg_sigmas_read(&s, of[i].list, &e), SG_E_ARG, &e, of[i].words);
        else
            assert_done(sg_sigmas_read(&s, of[i].list, &e), &e);
    }
    sg_request s;
    sg_error   e = {0};
    char       many[4 * (SG_SIGMAS_MAX + 1) + 1] = "";
    for (int i = 0; i <= SG_SIGMAS_MAX; i++) snprintf(many + 4 * i, 5, ",.%02d", 99 - i);
    assert_int_equal(sg_sigmas_read(&s, many + 5, &e), SG_OK);
    assert_int_equal(s.sigmas.count, SG_SIGMAS_MAX);
    assert_int_equal(s.steps, SG_SIGMAS_MAX);
    assert_refused(sg_sigmas_read(&s, many + 1, &e), SG_E_ARG, &e, "more than 64");
}

static void refuse_list(sg_sampler_kind kind, sg_sigmas list, int steps, const char *words)
{
    static sg_sampler p;
    sg_sampler_config c = config(kind, 5.0);
    sg_error          e = {0};
    c.sigmas = list;
    assert_refused(sg_sampler_init(&p, &c, steps, &e), SG_E_ARG, &e, words);
}

static void test_lists_refused(void **state)
{
    refuse_list(SG_SAMPLER_UNIPC, (sg_sigmas){1, {1}}, 1, "sigmas: unipc");
    refuse_list(SG_SAMPLER_EULER, (sg_sigmas){1, {1}}, 2, "1 in the|2 steps");
    refuse_list(SG_SAMPLER_EULER, (sg_sigmas){1, {NAN}}, 1, "nan|place 1");
    refuse_list(SG_SAMPLER_LCM, (sg_sigmas){2, {.5, .5}}, 2, "0.5|place 2");
    refuse_list(SG_SAMPLER_EULER, (sg_sigmas){SG_SIGMAS_MAX + 1, {1}}, SG_SIGMAS_MAX + 1, "65 of them");
    refuse_list(SG_SAMPLER_EULER, (sg_sigmas){-1, {1}}, 1, "-1 in the|1 step");
}

/* ---- scheduler_config.json ---- */

#define UNIPC "\"_class_name\": \"UniPCMultistepScheduler\""
#define FLOW "\"prediction_type\": \"flow_prediction\", \"use_flow_sigmas\": true"
#define EULER "\"_class_name\": \"FlowMatchEulerDiscreteScheduler\""
#define DDIM "\"_class_name\": \"CogVideoXDDIMScheduler\""
#define ANCESTRAL "\"_class_name\": \"EulerAncestralDiscreteScheduler\""
#define BETAS "\"prediction_type\": \"v_prediction\", \"timestep_spacing\": \"trailing\""

static sg_status read_config(sg_sampler_config *out, const char *dir, unsigned kinds, sg_error *e)
{
    sg_checkpoint *c = NULL;
    assert_int_equal(sg_checkpoint_open(&c, dir, e), SG_OK);
    const sg_status status = sg_sampler_config_read(out, c, kinds, e);
    sg_checkpoint_close(&c);
    return status;
}

static void test_configs_read(void **state)
{
    sg_sampler_config c;
    sg_error          e = {0};
    /* As published with Wan 2.1. */
    write_text("scheduler/scheduler_config.json",
               "{" UNIPC ", " FLOW ", \"_diffusers_version\": \"0.33.0.dev0\", \"beta_end\": 0.02,"
               "\"beta_start\": 0.0001, \"beta_schedule\": \"linear\", \"disable_corrector\": [],"
               "\"dynamic_thresholding_ratio\": 0.995,"
               "\"final_sigmas_type\": \"zero\", \"flow_shift\": 5.0, \"lower_order_final\": true,"
               "\"num_train_timesteps\": 1000, \"predict_x0\": true, \"rescale_betas_zero_snr\": false,"
               "\"sample_max_value\": 1.0, \"solver_order\": 2, \"solver_p\": null, \"solver_type\": \"bh2\","
               "\"steps_offset\": 0, \"thresholding\": false, \"timestep_spacing\": \"linspace\","
               "\"trained_betas\": null, \"use_beta_sigmas\": false, \"use_exponential_sigmas\": false,"
               "\"use_karras_sigmas\": false}");
    assert_int_equal(read_config(&c, ".", SG_SAMPLERS_FLOW, &e), SG_OK);
    assert_true(c.kind == SG_SAMPLER_UNIPC && c.flow_shift == 5.0 && c.train_steps == 1000 && c.order == 2);
    write_text("scheduler/scheduler_config.json",
               "{" UNIPC ", " FLOW ", \"solver_order\": 1, \"solver_type\": \"midpoint\"}");
    assert_int_equal(read_config(&c, ".", SG_SAMPLERS_FLOW, &e), SG_OK);
    assert_true(c.flow_shift == 1.0 && c.order == 1);
    write_text("scheduler/scheduler_config.json",
               "{" EULER ", \"shift\": 3, \"num_train_timesteps\": 500, \"shift_terminal\": null}");
    assert_int_equal(read_config(&c, ".", SG_SAMPLERS_FLOW, &e), SG_OK);
    assert_true(c.kind == SG_SAMPLER_EULER && c.flow_shift == 3.0 && c.train_steps == 500 && c.order == 2);
    /* As published with CogVideoX-2B. */
    write_text("scheduler/scheduler_config.json",
               "{" DDIM ", " BETAS ", \"_diffusers_version\": \"0.30.0.dev0\", \"beta_end\": 0.012,"
               "\"beta_schedule\": \"scaled_linear\", \"beta_start\": 0.00085, \"clip_sample\": false,"
               "\"clip_sample_range\": 1.0, \"num_train_timesteps\": 1000, \"rescale_betas_zero_snr\": true,"
               "\"sample_max_value\": 1.0, \"set_alpha_to_one\": true, \"snr_shift_scale\": 3.0,"
               "\"steps_offset\": 0, \"trained_betas\": null}");
    assert_int_equal(read_config(&c, ".", SG_SAMPLERS_BETAS, &e), SG_OK);
    assert_true(c.kind == SG_SAMPLER_DDIM && c.train_steps == 1000 && c.betas.start == 0.00085 &&
                c.betas.end == 0.012 && c.betas.shift == 3.0 && c.betas.zero_snr);
    write_text("scheduler/scheduler_config.json", "{\"_class_name\": \"CogVideoXDPMScheduler\", " BETAS "}");
    assert_int_equal(read_config(&c, ".", SG_SAMPLERS_BETAS, &e), SG_OK);
    assert_true(c.kind == SG_SAMPLER_DPM && !c.betas.zero_snr);
    write_text("scheduler/scheduler_config.json",
               "{" ANCESTRAL ", " BETAS ", \"rescale_betas_zero_snr\": true, \"steps_offset\": 1}");
    assert_int_equal(read_config(&c, ".", 1 << SG_SAMPLER_EULER_A, &e), SG_OK);
    assert_true(c.kind == SG_SAMPLER_EULER_A && c.betas.start == 0.0001 && c.betas.end == 0.02 && c.betas.shift == 1 &&
                c.betas.zero_snr && c.betas.least == 0x1p-24 && c.betas.linear && !c.betas.leading &&
                !c.betas.epsilon && c.betas.offset == 1);
    write_text("scheduler/scheduler_config.json",
               "{" ANCESTRAL ", \"timestep_spacing\": \"leading\", \"beta_schedule\": \"scaled_linear\"}");
    assert_int_equal(read_config(&c, ".", 1 << SG_SAMPLER_EULER_A, &e), SG_OK);
    assert_true(!c.betas.linear && c.betas.leading && c.betas.epsilon && !c.betas.zero_snr && !c.betas.offset);
}

static void refuse_config_of(unsigned kinds, const char *json, const char *field)
{
    sg_sampler_config c;
    sg_error          e = {0};
    write_text("scheduler/scheduler_config.json", json);
    assert_refused(read_config(&c, ".", kinds, &e), SG_E_FORMAT, &e, "scheduler_config.json", field);
}

static void refuse_config(const char *json, const char *field) { refuse_config_of(SG_SAMPLERS_FLOW, json, field); }

static void test_configs_of_betas_refused(void **state)
{
    static const struct {
        const char *field, *value;
    } of[] = {{"beta_start", "0"},
              {"beta_end", "1"},
              {"beta_schedule", "\"linear\""},
              {"trained_betas", "[0.1]"},
              {"set_alpha_to_one", "false"},
              {"snr_shift_scale", "0"},
              {"num_train_timesteps", "0"},
              {"rescale_betas_zero_snr", "1"}};
    char json[256];
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        snprintf(json, sizeof json, "{" DDIM ", " BETAS ", \"%s\": %s}", of[i].field, of[i].value);
        refuse_config_of(SG_SAMPLERS_BETAS, json, of[i].field);
    }
    refuse_config_of(1 << SG_SAMPLER_EULER_A, "{" ANCESTRAL ", " BETAS ", \"beta_schedule\": \"squaredcos_cap_v2\"}",
                     "beta_schedule: \"squaredcos_cap_v2\"|\"linear\" and \"scaled_linear\" are");
    refuse_config_of(1 << SG_SAMPLER_EULER_A, "{" ANCESTRAL ", \"prediction_type\": \"v_prediction\"}",
                     "timestep_spacing: \"linspace\"|\"leading\" and \"trailing\" are");
    refuse_config_of(1 << SG_SAMPLER_EULER_A,
                     "{" ANCESTRAL ", \"timestep_spacing\": \"leading\", \"prediction_type\": \"sample\"}",
                     "prediction_type: \"sample\"|\"epsilon\" and \"v_prediction\" are");
    refuse_config_of(1 << SG_SAMPLER_EULER_A, "{" ANCESTRAL ", " BETAS ", \"trained_betas\": [0.1]}", "trained_betas");
    refuse_config_of(SG_SAMPLERS_BETAS, "{" DDIM ", \"timestep_spacing\": \"trailing\"}", "prediction_type");
    refuse_config_of(SG_SAMPLERS_BETAS, "{" DDIM ", \"prediction_type\": \"v_prediction\"}", "timestep_spacing");
    refuse_config_of(SG_SAMPLERS_BETAS, "{" EULER "}",
                     "\"FlowMatchEulerDiscreteScheduler\"|CogVideoXDDIMScheduler|CogVideoXDPMScheduler");
    refuse_config(
        "{" DDIM ", " BETAS "}",
        "\"CogVideoXDDIMScheduler\"|UniPCMultistepScheduler|FlowMatchEulerDiscreteScheduler|FlowMatchLCMScheduler");
    refuse_config_of(1 << SG_SAMPLER_EULER, "{" DDIM ", " BETAS "}", "; FlowMatchEulerDiscreteScheduler is");
}

static void test_configs_refused(void **state)
{
    static const struct {
        const char *field, *value;
    } unipc[] = {{"use_dynamic_shifting", "true"},
                 {"use_karras_sigmas", "true"},
                 {"shift_terminal", "0.1"},
                 {"use_beta_sigmas", "true"},
                 {"use_exponential_sigmas", "true"},
                 {"solver_type", "\"bh1\""},
                 {"disable_corrector", "[0]"},
                 {"thresholding", "true"},
                 {"solver_order", "3"},
                 {"predict_x0", "false"},
                 {"final_sigmas_type", "\"sigma_min\""},
                 {"solver_p", "{}"},
                 {"lower_order_final", "false"},
                 {"flow_shift", "0"},
                 {"flow_shift", "\"3\""},
                 {"num_train_timesteps", "1000.5"}},
      euler[] = {{"use_dynamic_shifting", "true"}, {"invert_sigmas", "true"}, {"shift_terminal", "0.1"},
                 {"stochastic_sampling", "true"},  {"shift", "-1"},           {"use_karras_sigmas", "true"}};
    char json[256];
    for (size_t i = 0; i < sizeof unipc / sizeof *unipc; i++) {
        snprintf(json, sizeof json, "{" UNIPC ", " FLOW ", \"%s\": %s}", unipc[i].field, unipc[i].value);
        refuse_config(json, unipc[i].field);
    }
    for (size_t i = 0; i < sizeof euler / sizeof *euler; i++) {
        snprintf(json, sizeof json, "{" EULER ", \"%s\": %s}", euler[i].field, euler[i].value);
        refuse_config(json, euler[i].field);
    }
    refuse_config("{" UNIPC ", \"use_flow_sigmas\": true}", "prediction_type");
    refuse_config("{" UNIPC ", \"prediction_type\": \"flow_prediction\"}", "use_flow_sigmas");
    refuse_config("{\"_class_name\": \"DDIMScheduler\"}", "DDIMScheduler");
    refuse_config("{}", "_class_name");
}

static void test_no_config(void **state)
{
    sg_sampler_config c;
    sg_error          e = {0};
    assert_refused(read_config(&c, "/nowhere", SG_SAMPLERS_FLOW, &e), SG_E_FILE, &e,
                   "/nowhere/scheduler/scheduler_config.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diffusers),
        cmocka_unit_test(test_every_count_of_steps),
        cmocka_unit_test(test_runs_refused),
        cmocka_unit_test(test_lcm_knows),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_lists_read),
        cmocka_unit_test(test_lists_refused),
        cmocka_unit_test(test_configs_read),
        cmocka_unit_test(test_configs_refused),
        cmocka_unit_test(test_no_config),
        cmocka_unit_test(test_betas_are_diffusers),
        cmocka_unit_test(test_timesteps_of_betas),
        cmocka_unit_test(test_ancestral_is_diffusers),
        cmocka_unit_test(test_ancestral_steps),
        cmocka_unit_test(test_ddim_knows),
        cmocka_unit_test(test_clean_sample_is_smooth),
        cmocka_unit_test(test_kinds_refused),
        cmocka_unit_test(test_betas_of_noise_alone_are_refused),
        cmocka_unit_test(test_configs_of_betas_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
