/* test_sd3.c - SD3.5 in the engine: which layers of attention run in which pass, skip-layer guidance, what may be
 * asked; and the pass of skip-layer guidance in other families. */
#include "engine_fixture.h"

static const char medium[] = SG_FIXTURES "/sd35_medium";

/* Blocks, those of them with a second attention, the sum; tokens of a text and of a picture of 32 x 24. */
enum { STEPS = 4, BLOCKS = 3, DUALS = 2, LAYERS = BLOCKS + DUALS, TEXT = 77 + 256, PICTURE = 4 * 3 };

static sg_engine *open_medium(void)
{
    return open_engine(
        &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = medium, .backend = "cpu", .dtype = "f32"});
}

static sg_request skipping(const sg_engine *g)
{
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    r.prompt = "a ball";
    r.width = 32;
    r.height = 24;
    r.steps = STEPS;
    r.slg_scale = 2.8;
    r.skip_layers = "1";
    r.skip_layer_end = 0.6;
    return r;
}

typedef struct seen {
    int count[STEPS][SG_PASSES_MAX][LAYERS];
} seen;

static void see(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                double timestep, const sg_attend_args *args)
{
    const int text = layer < BLOCKS ? TEXT : 0;
    if (!s->memory->alloc) return; /* on a plan */
    assert_int_equal(shape->n, PICTURE + text);
    assert_int_equal(shape->text_suffix, text);
    assert_int_equal(args->q.dim[0], shape->n);
    ((seen *)context)->count[step][pass][layer]++;
}

/* The prompt and the negative prompt see all layers in each step; in steps 1 and 2 of 4 a third pass leaves out both
 * attentions of block 1. */
static void layers_are_left_out_of_the_third_pass(void **state)
{
    static seen s;
    sg_engine  *g = open_medium();
    sg_request  r = skipping(g);
    sg_report   rep = {.size = sizeof rep};
    sg_error    e = {0};
    sg_engine_watch(g, &(sg_attention_watch){.on_begin = see, .on_begin_context = &s});
    if (sg_engine_render(g, &r, NULL, &rep, &e)) fail_msg("%s", e.text);
    for (int step = 0; step < STEPS; step++)
        for (int pass = 0; pass < SG_PASSES_MAX; pass++)
            for (int layer = 0; layer < LAYERS; layer++) {
                const bool left_out = layer == 1 || layer == BLOCKS + 1;
                const bool runs = pass < 2 || ((step == 1 || step == 2) && !left_out);
                assert_int_equal(s.count[step][pass][layer], runs);
            }
    sg_engine_close(&g);
}

/* FLOPs of denoising, the third pass ending at this share of the steps. */
static double planned(sg_engine *g, double scale, double end)
{
    sg_request r = skipping(g);
    sg_plan    plan = {.size = sizeof plan};
    sg_error   e = {0};
    r.slg_scale = scale;
    r.skip_layer_end = end;
    if (sg_engine_plan(g, &r, &plan, &e)) fail_msg("%s", e.text);
    return plan.phase[plan.phases - 2].flops;
}

/* A plan counts the third pass in each step that has it, and in no other. */
static void plans_count_the_third_pass(void **state)
{
    sg_engine   *g = open_medium();
    const double none = planned(g, 0, 1), one = planned(g, 1, 0.5) - none;
    assert_true(one > 0);
    assert_true(fabs(planned(g, 1, 0.6) - none - 2 * one) < 1e-9 * none);
    assert_true(fabs(planned(g, 1, 1) - none - 3 * one) < 1e-9 * none);
    sg_engine_close(&g);
}

static void wishes_that_it_cannot_grant(void **state)
{
    sg_engine       *g = open_medium(), *other = open_model(model, 0);
    const sg_request good = skipping(g);
    sg_request       r = good, of_wan = small(other);
    sg_error         e = {0};
    assert_int_equal(sg_engine_check_request(g, &r, &e), SG_OK);
    r.width = 13 * 8;
    assert_int_equal(sg_engine_check_request(g, &r, &e), SG_OK);
    r.width = 14 * 8;
    request_refused(g, &r, "size|112x24|104x104");
    r = good, r.slg_scale = -1;
    request_refused(g, &r, "slg_scale: -1|1000");
    r = good, r.cfg_scale = 1;
    request_refused(g, &r, "slg_scale|skip-layer|cfg_scale=X|is 1");
    r = good, r.skip_layers = "0,3";
    request_refused(g, &r, "skip_layers: '0,3'|layer 3|0 to 2");
    r = good, r.skip_layers = NULL;
    request_refused(g, &r, "skip_layers: ''|layers");
    r = good, r.skip_layer_start = 0.25, r.skip_layer_end = 0.5; /* neither step 1 nor 2 */
    request_refused(g, &r, "slg_scale|4 steps|0.25");
    of_wan.slg_scale = 1;
    request_refused(other, &of_wan, "slg_scale|family wan");
    sg_engine_close(&g);
    sg_engine_close(&other);
}

/* The prompt's output in a step's pass, and that of the pass for skip-layer guidance. */
typedef struct outputs {
    float  of[2][1 << 13];
    size_t bytes;
} outputs;

static void take_output(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    outputs *const to = context;
    const char    *what = strncmp(name, "step.0.", 7) == 0 ? name + 7 : "";
    const int      skip = strcmp(what, "v_skip") == 0;
    if (!skip && strcmp(what, "v_cond") != 0) return;
    to->bytes = sg_bytes(t);
    assert_true(to->bytes <= sizeof to->of[0]);
    sg_download(s, to->of[skip], t);
}

/* A third pass has the prompt's text. It leaves out a block that there is not, so that its output is the first pass's
 * again. */
static void a_third_pass_has_the_prompt(void **state)
{
    static const char *const models[] = {"wan21_hd12", "cogvideox_2b", "mochi_hd16", "hunyuan_hd16", "flux_dev"};
    static outputs           out;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[256];
        snprintf(path, sizeof path, SG_FIXTURES "/%s", models[i]);
        sg_engine *g = open_model(path, 0);
        sg_request r = small(g);
        sg_report  report = {.size = sizeof report};
        sg_error   e = {0};
        ((sg_components *)(uintptr_t)g->components)->skip_blocks = 1000;
        r.negative_prompt = "a dog that runs";
        r.slg_scale = 1;
        r.skip_layers = "999";
        r.skip_layer_start = -1;
        r.skip_layer_end = 1;
        sg_engine_nearest_size(g, &r.width, &r.height, &r.frames);
        g->tap = take_output;
        g->tap_context = &out;
        memset(&out, 0, sizeof out);
        if (sg_engine_render(g, &r, NULL, &report, &e)) fail_msg("%s: %s", models[i], e.text);
        assert_true(out.bytes > 0);
        if (memcmp(out.of[0], out.of[1], out.bytes) != 0) fail_msg("%s: another text", models[i]);
        sg_engine_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_left_out_of_the_third_pass), cmocka_unit_test(plans_count_the_third_pass),
        cmocka_unit_test(wishes_that_it_cannot_grant), cmocka_unit_test(a_third_pass_has_the_prompt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
