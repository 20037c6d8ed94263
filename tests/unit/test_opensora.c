/* test_opensora.c - what Open-Sora-Plan has of its own: groups of tokens in a render, what of a config is refused. Golden
 * tests hold the numbers of a render. */
#include "engine_fixture.h"

static const char mini[] = SG_FIXTURES "/opensora_hd96";

enum { LAYERS = 4, TOKENS = 3 * 3 * 5, WIDTH = 192, TAPS = 3 * LAYERS };

/* What a render of two passes in one step shows. */
typedef struct seen {
    int64_t tokens[2][LAYERS][4]; /* of a pass, a layer, a group */
    int     calls[2][LAYERS], taps;
    float   tap[TAPS][TOKENS * WIDTH]; /* of the first pass */
} seen;

static void see_call(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                     double timestep, const sg_attend_args *args)
{
    seen *const to = context;
    const int   groups = shape->groups.count > 1 ? shape->groups.count : 4;
    if (!s->memory->alloc) return; /* a plan has no data */
    to->tokens[pass / 4][layer][pass % groups] = shape->n;
    to->calls[pass / 4][layer]++;
}

static void see_tap(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    seen *const to = context;
    if (strncmp(name, "dit.block.", 10) != 0 || to->taps == TAPS) return;
    assert_int_equal(sg_count(t), TOKENS * WIDTH);
    sg_download(s, to->tap[to->taps++], t);
}

static void render(seen *to, bool looked_at, sg_order order)
{
    sg_engine *g = open_model(mini, 0);
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    sg_plan   plan = {.size = sizeof plan};
    sg_report report = {.size = sizeof report};
    sg_error  e = {0};
    *to = (seen){.taps = 0};
    r.prompt = "a cat";
    r.width = 80;
    r.height = 48;
    r.frames = 9;
    r.steps = 1;
    r.seed = 3;
    r.attention.order = order;
    if (looked_at) { /* so that tokens are in order */
        sg_engine_watch(g, &(sg_attention_watch){.on_begin = see_call, .on_begin_context = to});
    }
    g->tap = see_tap;
    g->tap_context = to;
    assert_done(sg_engine_plan(g, &r, &plan, &e), &e);
    assert_int_equal(plan.tokens, TOKENS);
    assert_int_equal(plan.grouped, 2);
    assert_int_equal(plan.group, 12); /* of 12, 11, 11, 11; of 12, 12, 12, 9 */
    g->memory_limit = plan.need;
    assert_done(sg_engine_render(g, &r, NULL, &report, &e), &e);
    assert_true(report.held_bytes == plan.need - plan.staging);
    assert_int_equal(to->taps, TAPS);
    sg_engine_close(&g);
}

/* Quarters attend to themselves, the passes share the first layer, and whoever looks sees tokens row by row, however
 * they stand. */
static void groups_do_not_show(void **state)
{
    static const int64_t quarters[2][4] = {{12, 11, 11, 11}, {12, 12, 12, 9}};
    static seen          plain, by_row, by_curve;
    render(&plain, false, SG_ORDER_ROW);
    render(&by_row, true, SG_ORDER_ROW);
    render(&by_curve, true, SG_ORDER_HILBERT);
    for (int pass = 0; pass < 2; pass++)
        for (int layer = 0; layer < LAYERS; layer++) {
            const int64_t *const n = by_curve.tokens[pass][layer];
            assert_int_equal(by_curve.calls[pass][layer], layer >= 2 ? 4 : layer || !pass);
            if (layer >= 2)
                assert_memory_equal(n, quarters[layer - 2], sizeof quarters[0]);
            else if (layer || !pass)
                assert_int_equal(n[0], TOKENS);
        }
    for (int i = 0; i < TAPS; i++) {
        double far = 0, size = 0;
        assert_memory_equal(by_row.tap[i], plain.tap[i], sizeof plain.tap[i]);
        for (int k = 0; k < TOKENS * WIDTH; k++) {
            far += pow((double)by_curve.tap[i][k] - (double)plain.tap[i][k], 2);
            size += pow((double)plain.tap[i][k], 2);
        }
        assert_true(size > 0 && far <= 1e-10 * size);
    }
}

static void what_of_a_config_is_refused(void **state)
{
    static const char *const cases[][3] = {
        {"sparse_n", "3", "sparse_n: 3 groups|1 and 4"},
        {"patch_size_t", "2", "patch_size_t: 2|should be 1"},
        {"attention_head_dim", "20", "attention_head_dim: 20|multiple of 6"},
        {"out_channels", "16", "out_channels: 16|in_channels is 8"},
        {"cross_attention_dim", "96", "cross_attention_dim: 96|192"},
        {"activation_fn", "\"geglu\"", "activation_fn|geglu|gelu-approximate"},
        {"activation_fn", NULL, "activation_fn"},
        {"attention_bias", "false", "attention_bias: false|true"},
        {"norm_elementwise_affine", "true", "norm_elementwise_affine: true|false"},
        {"double_self_attention", "true", "double_self_attention"},
        {"only_cross_attention", "true", "only_cross_attention"},
        {"interpolation_scale_h", "0", "interpolation_scale_h"},
        {"sample_size_w", "0", "sample_size_w"},
        {"_class_name", "\"OpenSoraInpaint_v1_3\"", "OpenSoraInpaint_v1_3|OpenSoraT2V_v1_3"},
    };
    static const char config[] = COPY "/transformer/config.json";
    shell("rm -rf " COPY " && cp -rL '%s' " COPY, mini);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char from[300];
        snprintf(from, sizeof from, "%s/transformer/config.json", mini);
        write_changed(config, from, cases[i][0], cases[i][1]);
        engine_refused(&(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = COPY, .backend = "ref"},
                       SG_E_FORMAT, cases[i][2]);
    }
}

/* Without sparse1d no layer has groups, whatever sparse_n is. */
static void without_groups(void **state)
{
    char     from[300];
    sg_plan  plan = {.size = sizeof plan};
    sg_error e = {0};
    shell("rm -rf " COPY " && cp -rL '%s' " COPY, mini);
    snprintf(from, sizeof from, "%s/transformer/config.json", mini);
    write_changed(COPY "/transformer/config.json", from, "sparse1d", "false");
    sg_engine *g = open_model(COPY, 0);
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    r.prompt = "";
    r.width = r.height = 64;
    r.frames = 5;
    assert_done(sg_engine_plan(g, &r, &plan, &e), &e);
    assert_int_equal(plan.tokens, 2 * 4 * 4);
    assert_int_equal(plan.grouped, 0);
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_do_not_show),
                                       cmocka_unit_test(what_of_a_config_is_refused), cmocka_unit_test(without_groups)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
