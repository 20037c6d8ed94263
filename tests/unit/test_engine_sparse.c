/* test_engine_sparse.c - renders with sparse attention as a caller sees them. */
#include "../held.h"
#include "attention_error.h"
#include "engine_fixture.h"

enum { TOKENS = 1024, HEADS = 2, HEAD_DIM = 12, BLOCK_LAYERS = 2, BLOCK_STEPS = 5 };

/* The fewest tokens that a named policy skips blocks of. */
static sg_request sparse(const sg_engine *g)
{
    sg_request r = small(g);
    r.width = r.height = 256;
    r.frames = 13;
    r.steps = BLOCK_STEPS;
    r.attention.named = true;
    return r;
}

static float *read_tensor(const char *path, const char *name, size_t count)
{
    sg_source *w = NULL;
    sg_error   e = {0};
    assert_done(sg_source_open(&w, path, &e), &e);
    const sg_tensor t = sg_source_find(w, name);
    assert_int_equal(sg_count(t), count);
    float *const x = malloc(count * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) x[i] = sg_load(&t, (int64_t)i);
    sg_source_close(&w);
    return x;
}

/* The latents of a render without frames; the caller frees. */
static float *latents_of(sg_engine *g, sg_request r)
{
    static const char path[] = "out.safetensors";
    sg_report         rep = {.size = sizeof rep};
    sg_error          e = {0};
    sg_callbacks      none = {.size = sizeof(sg_callbacks)};
    r.latents_out = path;
    if (sg_engine_render(g, &r, &none, &rep, &e)) fail_msg("%s", e.text);
    return read_tensor(path, "latents", 16 * 4 * 32 * 32);
}

static double distance(const float *a, const float *b, size_t n)
{
    double far = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        far += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(far / size);
}

static sg_engine *open_fast(void)
{
    return open_engine(&(sg_engine_options){.size = sizeof(sg_engine_options),
                                            .model_dir = model,
                                            .backend = "cpu",
                                            .dtype = "f32",
                                            .threads = 2,
                                            .cpu_mask = held_mask()});
}

static void sparse_renders_are_near_dense(void **state)
{
    enum { COUNT = 16 * 4 * 32 * 32 };
    sg_engine *g = open_fast();
    sg_request r = sparse(g);
    int        steps, passes, layers;
    r.attention.kind = SG_ATTENTION_DENSE;
    float *const dense = latents_of(g, r);
    r.attention.kind = SG_ATTENTION_SAGE;
    float *const sage = latents_of(g, r);
    r.attention.kind = SG_ATTENTION_SPARGE;
    float *const half = latents_of(g, r);

    const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
    assert_non_null(c);
    assert_int_equal(steps, BLOCK_STEPS);
    assert_int_equal(passes, 2);
    assert_int_equal(layers, BLOCK_LAYERS);
    for (int i = 0; i < steps * passes * layers; i++) {
        const int step = i / passes / layers, pass = i / layers % passes, layer = i % layers;
        assert_int_equal(c[i].kind, step ? SG_ATTENTION_SPARGE : SG_ATTENTION_DENSE);
        assert_int_equal(c[i].why, step ? SG_WHY_POLICY : SG_WHY_STEP);
        assert_int_equal(c[i].blocks, pass && !layer ? 0 : 2 * 8 * 16); /* the first is for both passes */
        if (c[i].blocks) assert_int_equal(c[i].kept, step ? c[i].blocks / 2 : c[i].blocks);
    }
    r.attention.order = SG_ORDER_ROW;
    r.attention.amount = 1;
    float *const all = latents_of(g, r);
    r.attention.order = SG_ORDER_HILBERT;
    float *const ordered = latents_of(g, r);
    assert_true(distance(all, sage, COUNT) < 0.001); /* the best block comes first */
    assert_true(distance(sage, dense, COUNT) < 0.01);
    assert_true(distance(half, dense, COUNT) < 0.08);
    assert_true(distance(half, dense, COUNT) > 0);
    assert_true(distance(ordered, sage, COUNT) < 0.01);
    r.attention.named = false; /* too short to skip blocks of unasked */
    float *const again = latents_of(g, r);
    assert_memory_equal(again, dense, COUNT * sizeof *again);
    float *const results[] = {dense, sage, half, all, ordered, again};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) free(results[i]);
    sg_engine_close(&g);
}

static void sparse_memory_is_as_planned(void **state)
{
    sg_engine *g = open_model(model, 0);
    sg_request r = small(g);
    sg_plan    dense = {.size = sizeof dense}, plan = {.size = sizeof plan};
    sg_report  rep = {.size = sizeof rep};
    sg_error   e = {0};
    r.width = r.height = 512; /* too large for the oracle, and only planned */
    r.attention.named = true;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    r.attention.kind = SG_ATTENTION_DENSE;
    assert_int_equal(sg_engine_plan(g, &r, &dense, &e), SG_OK);
    assert_true(plan.phase[1].work > dense.phase[1].work);
    sg_engine_close(&g);

    g = open_fast();
    r = sparse(g);
    r.steps = 2;
    assert_int_equal(sg_engine_render(g, &r, NULL, &rep, &e), SG_OK); /* in arenas of just that size */
    sg_engine_close(&g);
}

static void attention_is_captured(void **state)
{
    enum { COUNT = TOKENS * HEADS * HEAD_DIM };
    static const char path[] = "out.safetensors";
    static const char names[3][2] = {"q", "k", "v"};
    float            *captured[2][3];
    sg_engine        *g = open_fast();
    sg_request        r = sparse(g);
    sg_report         rep = {.size = sizeof rep};
    sg_error          e = {0};
    r.capture_out = path;
    r.attention.dense_steps = 0.5; /* what is captured comes before anything is skipped */
    r.steps = 2;
    for (int way = 0; way < 2; way++) {
        if (way) r.attention.kind = SG_ATTENTION_DENSE;
        assert_int_equal(sg_engine_render(g, &r, NULL, &rep, &e), SG_OK);
        for (int i = 0; i < 3; i++) captured[way][i] = read_tensor(path, names[i], COUNT);
    }
    for (int i = 0; i < 3; i++) { /* of Hilbert's order, and row by row */
        assert_true(distance(captured[0][i], captured[1][i], COUNT) < 1e-5);
        assert_true(distance(captured[0][i], captured[0][(i + 1) % 3], COUNT) > 0.1);
    }
    for (int i = 0; i < 6; i++) free(captured[i / 3][i % 3]);
    sg_engine_close(&g);
}

/* What passes the taps of a render, and errors of all its queries by layer and step. */
typedef struct watch {
    float *of[4]; /* q, k, v, y of the layer at work, [tokens, heads, channels] */
    int    step;
    double sum[BLOCK_STEPS][BLOCK_LAYERS][2];
} watch;

static void add_row(const watch *w, int row, int head, double sum[2])
{
    enum { WIDTH = HEADS * HEAD_DIM };
    const size_t       at = (size_t)(head * HEAD_DIM), own = (size_t)row * WIDTH + at;
    const float *const q = w->of[0] + own, *const y = w->of[3] + own;
    double dense[HEAD_DIM] = {0}, weights = 0;
    for (int j = 0; j < TOKENS; j++) {
        const float *const k = w->of[1] + (size_t)j * WIDTH + at, *const v = w->of[2] + (size_t)j * WIDTH + at;
        double logit = 0;
        for (int c = 0; c < HEAD_DIM; c++) logit += (double)q[c] * (double)k[c];
        const double weight = exp(logit / sqrt(HEAD_DIM));
        weights += weight;
        for (int c = 0; c < HEAD_DIM; c++) dense[c] += weight * (double)v[c];
    }
    for (int c = 0; c < HEAD_DIM; c++) {
        sum[0] += fabs((double)y[c] - dense[c] / weights);
        sum[1] += fabs(dense[c] / weights);
    }
}

static void watch_taps(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    watch *const w = context;
    int          layer = 0;
    char         what = 0;
    if (strncmp(name, "step.", 5) == 0 && strstr(name, ".latents")) w->step = atoi(name + 5) + 1;
    if (sscanf(name, "attention.%d.%c", &layer, &what) != 2 || !strchr("qkvy", what)) return;
    sg_download(s, w->of[strchr("qkvy", what) - "qkvy"], t);
    for (int i = 0; what == 'y' && i < TOKENS * HEADS; i++) add_row(w, i / HEADS, i % HEADS, w->sum[w->step][layer]);
}

/* Each cell is its own: layers of a step differ much, and so do steps. */
static void errors_have_their_places(void **state)
{
    static float amount[BLOCK_STEPS * BLOCK_LAYERS * HEADS], theta[BLOCK_STEPS * BLOCK_LAYERS * HEADS],
        pv_threshold[BLOCK_STEPS * BLOCK_LAYERS * HEADS];
    static const float share[BLOCK_STEPS][BLOCK_LAYERS] = {
        {0.1f, 0.6f}, {0.75f, 0.1f}, {0.2f, 0.9f}, {0.8f, 0.15f}, {0.3f, 0.8f}};
    float      from[BLOCK_STEPS] = {0};
    sg_engine *g = open_fast();
    sg_request r = sparse(g);
    watch     *w = calloc(1, sizeof *w);
    sg_report  rep = {.size = sizeof rep};
    sg_error   why = {0};
    assert_non_null(w);
    for (int i = 0; i < 4; i++) assert_non_null(w->of[i] = malloc(sizeof(float) * TOKENS * HEADS * HEAD_DIM));
    for (int i = 0; i < BLOCK_STEPS * BLOCK_LAYERS * HEADS; i++) {
        amount[i] = share[i / HEADS / BLOCK_LAYERS][i / HEADS % BLOCK_LAYERS];
        theta[i] = -1;
    }
    const sg_thresholds tuned = {BLOCK_STEPS, BLOCK_LAYERS, HEADS, SG_SELECT_TOPK, from, amount, theta, pv_threshold};
    sg_sampler          sampler;
    sg_sampler_config   config = g->components->sampler;
    config.kind = r.sampler;
    config.flow_shift = r.flow_shift;
    assert_int_equal(sg_sampler_init(&sampler, &config, BLOCK_STEPS, &why), SG_OK);
    for (int i = 0; i + 1 < BLOCK_STEPS; i++) /* one bucket a step */
        from[i] = (float)(sampler.timestep[i] * 1000 / config.train_steps);
    char *text = NULL;
    assert_done(sg_thresholds_text(&text, &(sg_thresholds_file){.values = tuned}, &why), &why);
    write_text("tuned.json", text);
    free(text);
    r.attention.thresholds = "tuned.json";
    r.attention.dense_steps = 0;
    r.attention.dense_layers = NULL;
    r.attention_error = true;
    g->tap = watch_taps;
    g->tap_context = w;
    r.steps = BLOCK_STEPS;
    if (sg_engine_render(g, &r, NULL, &rep, &why)) fail_msg("%s", why.text);
    int                             steps, passes, layers;
    const sg_attention_count *const count = sg_engine_attention(g, &steps, &passes, &layers);
    assert_true(steps == BLOCK_STEPS && layers == BLOCK_LAYERS);
    assert_true(rep.attention_error_seconds > 0 && rep.plan.size == sizeof rep.plan);
    for (int step = 0; step < BLOCK_STEPS; step++)
        for (int layer = 0; layer < BLOCK_LAYERS; layer++) {
            const double *const sum = w->sum[step][layer], *const other = w->sum[step][!layer];
            double error[2] = {0};
            for (int i = 0; i < passes; i++) {
                error[0] += count[(step * passes + i) * layers + layer].difference;
                error[1] += count[(step * passes + i) * layers + layer].dense;
            }
            const double got = error[0] / error[1] / (sum[0] / sum[1]);
            const double apart = sum[0] / sum[1] / (other[0] / other[1]);
            if (fabs(got - 1) > 0.08 || fabs(log(apart)) < log(2))
                fail_msg("step %d, layer %d: %g times the error of all, which is %g times that of the other layer",
                         step, layer, got, apart);
        }
    for (int i = 0; i < 4; i++) free(w->of[i]);
    free(w);
    sg_engine_close(&g);
}

static void attention_is_checked(void **state)
{
    sg_engine *g = open_model(model, 0);
    for (int i = 0; i < 6; i++) {
        static const char *const says[] = {"topk", "dense_layers", "layer 2", "step 2", "only decoded", "dense_steps"};
        sg_request               r = small(g);
        if (i == 0) r.attention.amount = 1.5f;
        if (i == 1) r.attention.dense_layers = "0,2";
        if (i >= 2 && i < 5) r.capture_out = "/tmp/none.safetensors";
        if (i == 2) r.capture_layer = BLOCK_LAYERS;
        if (i == 3) r.capture_step = r.steps;
        if (i == 4) r.latents_in = "/tmp/none.safetensors";
        if (i == 5) r.attention.dense_steps = NAN;
        request_refused(g, &r, says[i]);
    }
    sg_engine_close(&g);
}

/* Layers are counted through both experts, of which one is at work in a step. */
static void experts_take_turns(void **state)
{
    sg_engine *g = NULL;
    sg_report  rep = {.size = sizeof rep};
    sg_error   e = {0};
    int        steps, passes, layers;
    g = open_engine(&(sg_engine_options){.size = sizeof(sg_engine_options),
                                         .model_dir = SG_FIXTURES "/wan22_a14b",
                                         .backend = "cpu",
                                         .cpu_mask = held_mask()});
    sg_request r = sparse(g);
    r.attention.dense_layers = "0";
    r.attention.dense_steps = 0;
    if (sg_engine_render(g, &r, NULL, &rep, &e)) fail_msg("%s", e.text);
    const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
    assert_int_equal(layers, 2);
    for (int i = 0; i < steps; i++) {
        const sg_attention_count *const of = c + i * passes * layers;
        assert_true((of[0].blocks > 0) != (of[1].blocks > 0));
        assert_int_equal(of[0].kind, SG_ATTENTION_DENSE);
        assert_int_equal(of[1].kind, SG_ATTENTION_SPARGE);
    }
    assert_true(c[0].blocks > 0 && c[(steps - 1) * passes * layers + 1].blocks > 0);

    r.capture_out = "/tmp/none.safetensors";
    r.capture_step = steps - 1;
    assert_refused(sg_engine_render(g, &r, NULL, &rep, &e), SG_E_ARG, &e, "layer 0|step 4|1 to 1");
    sg_engine_close(&g);
}

static void write_thresholds(const char *rule, const char *more)
{
    write_format(
        COPY "/" SG_THRESHOLDS_NAME,
        "{\"format\": \"sparge-gen thresholds\", \"version\": 1, \"rule\": \"%s\", \"layers\": 2, \"heads\": 2,"
        " \"buckets\": [0], \"amount\": [[[0.25, 1], [1, 0.75]]], \"theta\": [[[-1, -1], [-1, -1]]],"
        " \"lambda\": [[[0, 0], [0, 0]%s]], \"model\": \"0123456789abcdef\","
        " \"policy\": {\"score\": \"sub16\", \"tail\": false, \"tail_bias\": \"rank1\", \"order\": \"morton\"}}",
        rule, more);
}

/* Thresholds beside the model are its defaults. */
static void thresholds_are_found(void **state)
{
    for (int broken = 0; broken < 2; broken++) {
        write_thresholds("topk", broken ? ", []" : "");
        const sg_engine_options o = {
            .size = sizeof(sg_engine_options), .model_dir = COPY, .backend = "cpu", .cpu_mask = held_mask()};
        if (broken) {
            engine_refused(&o, SG_E_FORMAT, SG_THRESHOLDS_NAME);
            continue;
        }
        sg_engine *g = open_engine(&o);
        sg_error   e = {0};
        sg_request r = sparse(g);
        sg_report  rep = {.size = sizeof rep};
        int        steps, passes, layers;
        assert_non_null(r.attention.thresholds);
        assert_string_equal(sg_engine_info(g)->thresholds_model, "0123456789abcdef");
        r.attention.dense_steps = 0;
        r.steps = 1;
        if (sg_engine_render(g, &r, NULL, &rep, &e)) fail_msg("%s", e.text);
        const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
        assert_int_equal(c[0].kept, 8 * (4 + 16));
        assert_int_equal(c[1].kept, 8 * (16 + 12));
        sg_engine_close(&g);
    }
}

static void plans_tell_of_thresholds(void **state)
{
    static const char *const rule[] = {[SG_SELECT_TOPK] = "topk", [SG_SELECT_MASS] = "tau"};
    for (int i = 0; i < 2; i++) {
        sg_error e = {0};
        sg_plan  p = {.size = sizeof p};
        write_thresholds(rule[i], "");
        sg_engine *g = open_model(COPY, 0);
        sg_request r = sparse(g);
        assert_done(sg_engine_plan(g, &r, &p, &e), &e);
        assert_int_equal(p.thresholds.rule, i);
        assert_int_equal(p.thresholds.buckets, 1);
        assert_int_equal(p.thresholds.layers, 2);
        assert_int_equal(p.thresholds.heads, 2);
        assert_int_equal(p.thresholds.hash, sg_engine_info(g)->thresholds);
        assert_string_equal(p.thresholds.model, "0123456789abcdef");
        assert_true(p.thresholds.has_policy && !p.thresholds.tail && !p.thresholds.spargeattn);
        assert_int_equal(p.thresholds.score, SG_SCORE_SUB16);
        assert_int_equal(p.thresholds.tail_bias, SG_TAIL_BIAS_RANK1);
        assert_int_equal(p.thresholds.order, SG_ORDER_MORTON);
        r.attention.thresholds = NULL;
        assert_done(sg_engine_plan(g, &r, &p, &e), &e);
        assert_int_equal(p.thresholds.layers, 0);
        sg_engine_close(&g);
    }
}

/* A plan predicts which steps skip blocks, and where the options ask for it, attention is timed, once for each render. */
static void attention_is_predicted_and_timed(void **state)
{
    for (int timed = 0; timed < 2; timed++) {
        double     seconds[SG_ATTENTION_STAGES];
        int64_t    calls = 0;
        sg_error   e = {0};
        sg_plan    p = {.size = sizeof p};
        sg_engine *g = open_engine(&(sg_engine_options){.size = sizeof(sg_engine_options),
                                                        .model_dir = model,
                                                        .backend = "cpu",
                                                        .dtype = "f32",
                                                        .threads = 2,
                                                        .timed = timed});
        sg_request r = sparse(g);
        r.steps = 3;
        assert_false(sg_engine_attention_seconds(g, seconds));
        assert_done(sg_engine_plan(g, &r, &p, &e), &e);
        assert_int_equal(p.steps, 3);
        assert_int_equal(p.attention_steps, 2);
        assert_int_equal(p.attention_kind, SG_ATTENTION_SPARGE);
        assert_int_equal(p.attention_why, SG_WHY_POLICY);
        for (int i = 0; i < 2; i++) {
            int steps, passes, layers;
            assert_done(sg_engine_render(g, &r, NULL, NULL, &e), &e);
            const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
            for (int k = 0; k < steps * passes * layers; k++)
                assert_true((c[k].kind == SG_ATTENTION_SPARGE) == (k / (passes * layers) > 0));
            assert_int_equal(sg_engine_attention_seconds(g, seconds), timed);
            for (int k = 0; k < SG_ATTENTION_STAGES; k++) assert_true(timed ? seconds[k] > 0 : seconds[k] == 0);
            for (size_t k = 0; k < g->times.rows; k++) {
                if (strcmp(g->times.row[k].op, "attend_blocks") != 0) continue;
                assert_true(i == 0 || g->times.row[k].calls == calls); /* those of the first render have gone */
                calls = g->times.row[k].calls;
            }
        }
        r.attention.dense_layers = "0-1";
        assert_done(sg_engine_plan(g, &r, &p, &e), &e);
        assert_true(p.attention_kind == SG_ATTENTION_DENSE && p.attention_steps == 2);
        r.attention = sg_policy_default();
        assert_done(sg_engine_plan(g, &r, &p, &e), &e);
        assert_true(p.attention_why == SG_WHY_SHORT && p.attention_steps == 0);
        sg_engine_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sparse_renders_are_near_dense),
                                       cmocka_unit_test(sparse_memory_is_as_planned),
                                       cmocka_unit_test(attention_is_captured),
                                       cmocka_unit_test(experts_take_turns),
                                       cmocka_unit_test(errors_have_their_places),
                                       cmocka_unit_test(attention_is_checked),
                                       cmocka_unit_test(thresholds_are_found),
                                       cmocka_unit_test(plans_tell_of_thresholds),
                                       cmocka_unit_test(attention_is_predicted_and_timed)};
    return cmocka_run_group_tests(tests, make_copy, leave_folder);
}
