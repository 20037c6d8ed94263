/* test_few_steps.c - presets of few steps on a mini checkpoint, against its denoiser in diffusers. */
#include "engine_fixture.h"
#include "few_steps_table.h"

typedef struct seen {
    const double (*wanted)[4];
    int steps;
} seen;

static sg_status take_latents(void *context, int step, const float *x, const int64_t shape[4], sg_error *e)
{
    seen *const  s = context;
    const size_t n = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    double       sum = 0, squares = 0;
    assert_int_equal(step, s->steps);
    for (size_t i = 0; i < n; i++) sum += (double)x[i], squares += (double)x[i] * (double)x[i];
    const double *const w = s->wanted[s->steps++], found[4] = {sum, squares, (double)x[n / 4], (double)x[n / 2]};
    const double        size = sqrt(w[1] / (double)n), scale[4] = {size * (double)n, w[1], size, size};
    for (int k = 0; k < 4; k++)
        if (!(fabs(found[k] - w[k]) <= 2e-5 * scale[k])) fail_msg("step %d: %.9g, not %.9g", step, found[k], w[k]);
    return SG_OK;
}

static void presets_step_as_their_makers(void **state)
{
    sg_engine *g = open_model(model, 0);
    for (size_t i = 0; i < sizeof few_steps_table / sizeof *few_steps_table; i++) {
        sg_request r = small(g);
        sg_report  rep = {.size = sizeof rep};
        sg_error   e = {0};
        seen       s = {.wanted = few_steps_table[i].after};
        sg_step_preset_apply(&r, few_steps_table[i].preset);
        const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = &s, .latents = take_latents};
        if (sg_engine_render(g, &r, &cb, &rep, &e)) fail_msg("%s", e.text);
        assert_int_equal(s.steps, 4);
        assert_int_equal(rep.negative_tokens, 0); /* no negative pass */
        assert_int_equal(sg_policy_dense_steps(&r.attention, r.steps), 1);
    }
    sg_engine_close(&g);
}

static void lists_and_steps_agree(void **state)
{
    sg_engine *g = open_model(model, 0);
    sg_request r = small(g);
    sg_error   e = {0};
    sg_step_preset_apply(&r, 0);
    assert_int_equal(sg_engine_check_request(g, &r, &e), SG_OK);
    r.steps = 5;
    request_refused(g, &r, "sigmas: 4|5 steps");
    r.steps = 4;
    r.sampler = SG_SAMPLER_UNIPC;
    request_refused(g, &r, "unipc");
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(presets_step_as_their_makers),
                                       cmocka_unit_test(lists_and_steps_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
