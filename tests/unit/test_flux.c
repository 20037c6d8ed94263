/* test_flux.c - what Flux has of its own: its schedule, how dev and schnell are told apart. Golden tests hold the numbers of
 * a render. */
#include "engine_fixture.h"
#include "sampler_table.h"
#include "solver.h"

/* ---- schedule ---- */

static sg_sampler_config config_of(int64_t tokens)
{
    return (sg_sampler_config){.solver = &sg_solver_flow_flux,
                               .kind = SG_SAMPLER_EULER,
                               .kinds = 1 << SG_SAMPLER_EULER,
                               .flow_shift = tokens ? 0 : 3,
                               .by_tokens = {.on = tokens != 0, .tokens = {256, 4096}, .mu = {0.5, 1.15}},
                               .tokens = tokens,
                               .train_steps = 1000};
}

static void shift_by_tokens_is_that_of_diffusers(void **state)
{
    static sg_sampler p;
    const double     *t = flux_numbers;
    sg_error          e = {0};
    for (size_t i = 0; i < sizeof flux_tokens / sizeof *flux_tokens; i++)
        for (size_t k = 0; k < sizeof flux_steps / sizeof *flux_steps; k++) {
            const sg_sampler_config c = config_of(flux_tokens[i]);
            const int               steps = flux_steps[k];
            assert_int_equal(sg_sampler_init(&p, &c, steps, &e), SG_OK);
            for (int n = 0; n < steps; n++) {
                assert_true((float)p.sigma[n] == (float)t[n]);
                assert_true((float)p.timestep[n] == (float)t[steps + n]);
            }
            t += 3 * steps;
        }
    assert_ptr_equal(t, flux_numbers + sizeof flux_numbers / sizeof *flux_numbers);
}

/* A shift that a request names takes the place of the one by tokens, which tells itself. */
static void shift_of_a_request(void **state)
{
    static sg_sampler by_tokens, named;
    sg_sampler_config c = config_of(4096);
    sg_error          e = {0};
    assert_int_equal(sg_sampler_init(&by_tokens, &c, 5, &e), SG_OK);
    assert_true(fabs(by_tokens.config.flow_shift - exp(1.15)) < 1e-12);
    c.flow_shift = by_tokens.config.flow_shift;
    c.tokens = 1;
    assert_int_equal(sg_sampler_init(&named, &c, 5, &e), SG_OK);
    assert_memory_equal(by_tokens.sigma, named.sigma, sizeof named.sigma);
    c.flow_shift = 0;
    c.by_tokens.mu[1] = 1e6;
    c.tokens = 1 << 20;
    assert_refused(sg_sampler_init(&named, &c, 5, &e), SG_E_ARG, &e, "shift of inf");
}

/* ---- dev and schnell ---- */

static void dev_and_schnell_differ(void **state)
{
    static const struct {
        const char *dir;
        int         steps, tokens;
        double      guidance, flow_shift;
    } of[] = {{SG_FIXTURES "/flux_dev", 28, 512, 3.5, 0}, {SG_FIXTURES "/flux_schnell", 4, 256, 0, 1}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_engine *g = open_model(of[i].dir, 0);
        sg_request r = {.size = sizeof r};
        sg_engine_defaults(g, &r);
        assert_true(r.width == 1024 && r.height == 1024 && r.frames == 1 && r.cfg_scale == 1);
        assert_int_equal(r.steps, of[i].steps);
        assert_true(r.guidance == of[i].guidance && r.flow_shift == of[i].flow_shift);
        assert_int_equal(g->components->text[1].tokens_max, of[i].tokens);
        sg_engine_close(&g);
    }
}

static void plan_tells_the_shift(void **state)
{
    sg_plan    p = {.size = sizeof p};
    sg_error   e = {0};
    sg_engine *g = open_model(SG_FIXTURES "/flux_dev", 0);
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    r.prompt = "a cat";
    r.width = r.height = 128; /* 256 tokens, where mu is 0.5 */
    assert_int_equal(sg_engine_plan(g, &r, &p, &e), SG_OK);
    assert_true(fabs(p.flow_shift - exp(0.5)) < 1e-12);
    assert_int_equal(p.tokens, 256 + 512);
    r.flow_shift = 2;
    assert_int_equal(sg_engine_plan(g, &r, &p, &e), SG_OK);
    assert_true(p.flow_shift == 2);
    sg_engine_close(&g);
    g = open_model(SG_FIXTURES "/flux_schnell", 0);
    r.size = sizeof r;
    sg_engine_defaults(g, &r);
    r.prompt = "a cat";
    r.flow_shift = 0;
    request_refused(g, &r, "flow_shift: 0|0.001|1000");
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shift_by_tokens_is_that_of_diffusers),
        cmocka_unit_test(shift_of_a_request),
        cmocka_unit_test(dev_and_schnell_differ),
        cmocka_unit_test(plan_tells_the_shift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
