/* test_preview.c - previews of the engine: their colours against numbers, what they leave as it was, refusals by name. */
#include "engine_fixture.h"
#include "solver.h"

enum { STEPS = 3, ROOM = 1 << 16 };

typedef struct seen {
    int       previews, steps[STEPS];
    int       size[3]; /* of the last: frames, height, width */
    uint8_t   rgb[ROOM];
    float     latents[ROOM]; /* after the last step */
    int64_t   shape[4];
    uint32_t  frames; /* a sum over all bytes */
    sg_status answer;
} seen;

static sg_status on_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    seen *const  o = context;
    const size_t n = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    assert_true(n <= ROOM);
    memcpy(o->shape, shape, sizeof o->shape);
    memcpy(o->latents, latents, n * sizeof *latents);
    return SG_OK;
}

static sg_status on_preview(void *context, int step, const uint8_t *rgb, const int size[3], sg_error *e)
{
    seen *const  o = context;
    const size_t n = 3 * (size_t)size[0] * (size_t)size[1] * (size_t)size[2];
    assert_true(n <= ROOM && o->previews < STEPS);
    o->steps[o->previews++] = step;
    memcpy(o->size, size, sizeof o->size);
    memcpy(o->rgb, rgb, n);
    return o->answer ? sg_error_set(e, o->answer, "enough") : SG_OK;
}

static sg_status on_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    for (int i = 0; i < 32 * 48 * 3; i++) ((seen *)context)->frames += (uint32_t)rgb[i] * (uint32_t)(index * 7 + i + 1);
    return SG_OK;
}

static sg_status render(sg_engine *g, int every, sg_sampler_kind sampler, seen *o, sg_error *e)
{
    static sg_report   report = {.size = sizeof report};
    sg_request         r = small(g);
    const sg_callbacks cb = {
        .size = sizeof(sg_callbacks), .context = o, .latents = on_latents, .preview = on_preview, .frame = on_frame};
    r.steps = STEPS;
    r.preview_every = every;
    r.sampler = sampler;
    return sg_engine_render(g, &r, &cb, &report, e);
}

static void set_colours(sg_engine *g)
{
    const int z = g->components->vae.info.z;
    g->own_rgb = (sg_latent_rgb){.z = z, .bias = {0.1f, -0.2f, 0.05f}};
    for (int c = 0; c < z; c++)
        for (int k = 0; k < 3; k++) g->own_rgb.factor[c][k] = (float)sin(1.3 * c + k) / 4;
}

/* After the last step the latents are the clean sample. */
static void colours_follow_from_the_clean_sample(void **state)
{
    static const sg_sampler_kind kinds[] = {SG_SAMPLER_UNIPC, SG_SAMPLER_EULER, SG_SAMPLER_LCM};
    sg_engine                   *g = open_model(model, 0);
    set_colours(g);
    for (int i = 0; i < 3; i++) {
        static seen o;
        sg_error    e = {0};
        memset(&o, 0, sizeof o);
        if (render(g, 1, kinds[i], &o, &e) != SG_OK) fail_msg("%s", e.text);
        assert_int_equal(o.previews, STEPS);
        const int64_t *const n = o.shape;
        const int64_t        places = n[1] * n[2] * n[3];
        assert_true(o.size[0] == n[1] && o.size[1] == n[2] && o.size[2] == n[3]);
        int middle = 0;
        for (int64_t at = 0; at < places; at++)
            for (int k = 0; k < 3; k++) {
                double v = (double)g->own_rgb.bias[k];
                for (int64_t c = 0; c < n[0]; c++)
                    v += (double)o.latents[c * places + at] * (double)g->own_rgb.factor[c][k];
                const double want = 255 * fmin(fmax(v / 2 + 0.5, 0), 1);
                assert_true(fabs((double)o.rgb[3 * at + k] - want) <= 0.501);
                middle += o.rgb[3 * at + k] > 0 && o.rgb[3 * at + k] < 255;
            }
        assert_true(middle > places);
    }
    sg_engine_close(&g);
}

static void they_change_nothing(void **state)
{
    static seen without, with;
    sg_engine  *g = open_model(model, 0);
    sg_error    e = {0};
    set_colours(g);
    memset(&without, 0, sizeof without);
    memset(&with, 0, sizeof with);
    assert_int_equal(render(g, 0, SG_SAMPLER_UNIPC, &without, &e), SG_OK);
    assert_int_equal(render(g, 2, SG_SAMPLER_UNIPC, &with, &e), SG_OK);
    assert_int_equal(without.previews, 0);
    assert_int_equal(with.previews, 2); /* of the second step and the last */
    assert_true(with.steps[0] == 1 && with.steps[1] == 2);
    assert_memory_equal(with.latents, without.latents, sizeof with.latents);
    assert_true(with.frames == without.frames && with.frames != 0);
    sg_engine_close(&g);
}

static void the_caller_may_end_the_render(void **state)
{
    static seen o;
    sg_engine  *g = open_model(model, 0);
    sg_error    e = {0};
    set_colours(g);
    memset(&o, 0, sizeof o);
    o.answer = SG_E_CANCELLED;
    assert_refused(render(g, 1, SG_SAMPLER_UNIPC, &o, &e), SG_E_CANCELLED, &e, "enough");
    assert_int_equal(o.previews, 1);
    sg_engine_close(&g);
}

static void the_plan_has_them(void **state)
{
    static sg_plan without = {.size = sizeof without}, with = {.size = sizeof with};
    sg_engine     *g = open_model(model, 0);
    sg_request     r = small(g);
    set_colours(g);
    assert_int_equal(sg_engine_plan(g, &r, &without, NULL), SG_OK);
    r.preview_every = 1;
    r.preview_bytes = 1000000;
    assert_int_equal(sg_engine_plan(g, &r, &with, NULL), SG_OK);
    int size[3];
    assert_int_equal(sg_engine_preview_size(g, &r, size, NULL), SG_OK);
    assert_int_equal(with.preview, 1000000 + 3 * size[0] * size[1] * size[2]);
    assert_true(with.need >= without.need + with.preview);
    assert_int_equal(without.preview, 0);
    sg_engine_close(&g);
}

/* The next render finds the model's weights packed, and nothing of the preview's. */
static void weights_stay_packed(void **state)
{
    static seen o;
    size_t      packed[2];
    sg_error    e = {0};
    sg_engine  *g =
        open_engine(&(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = model, .backend = "cpu"});
    (void)state;
    set_colours(g);
    for (int with = 0; with < 2; with++) {
        memset(&o, 0, sizeof o);
        if (render(g, with, SG_SAMPLER_EULER, &o, &e) != SG_OK) fail_msg("%s", e.text);
        packed[with] = sg_backend_packed_bytes(g->backend);
    }
    assert_int_equal(packed[1], packed[0]);
    sg_engine_close(&g);
}

/* Work of a render with a preview after so many steps, less that of one without. */
static double work_of_previews(sg_engine *g, int every)
{
    static sg_plan p = {.size = sizeof p};
    sg_request     r = small(g);
    double         flops = 0;
    r.steps = STEPS;
    for (int with = 0; with < 2; with++) {
        r.preview_every = with * every;
        assert_int_equal(sg_engine_plan(g, &r, &p, NULL), SG_OK);
        for (int i = 0; i < p.phases; i++) flops += with ? p.phase[i].flops : -p.phase[i].flops;
    }
    return flops;
}

static void the_plan_counts_previews_that_are_made(void **state)
{
    sg_engine *g = open_model(model, 0);
    set_colours(g);
    const double one = work_of_previews(g, STEPS);
    assert_true(one > 0);
    assert_true(fabs(work_of_previews(g, 1) - STEPS * one) < one / 2);
    sg_engine_close(&g);
}

static void what_cannot_be_previewed_is_refused(void **state)
{
    static const char foreign[] = SG_FIXTURES "/cogvideox_15";
    const char *const dir[] = {model, foreign}, *const word[] = {"preview_every: -1", "family cogvideox"};
    for (int i = 0; i < 2; i++) {
        sg_engine *g = open_model(dir[i], 0);
        sg_request r = {.size = sizeof r};
        sg_engine_defaults(g, &r);
        r.preview_every = i ? 1 : -1;
        request_refused(g, &r, word[i]);
        sg_engine_close(&g);
    }
}

/* With this sparge-gen.json. */
static sg_status open_with(const char *json, sg_engine **g, sg_error *e)
{
    write_text(COPY "/sparge-gen.json", json);
    return sg_engine_open(
        g, &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = COPY, .backend = "ref"}, e);
}

static void the_owner_may_set_colours(void **state)
{
    static const char *const bad[][2] = {
        {"{\"latent_rgb_factors\": [1, 2], \"latent_rgb_factors_bias\": [0, 0, 0]}", "latent_rgb_factors: 2 numbers"},
        {"{\"latent_rgb_factors\": [1, 2, 3]}", "latent_rgb_factors_bias"},
        {"{\"latent_rgb_factors\": [1, \"2\", 3], \"latent_rgb_factors_bias\": [0, 0, 0]}", "latent_rgb_factors"},
        {"{\"latent_rgb_factors\": [1, 2, 1e99], \"latent_rgb_factors_bias\": [0, 0, 0]}", "latent_rgb_factors"},
    };
    sg_engine *g = open_model(model, 0);
    const int  z = g->components->vae.info.z;
    char       json[4096];
    size_t     n =
        (size_t)snprintf(json, sizeof json, "{\"latent_rgb_factors_bias\": [0.5, 0.25, -1], \"latent_rgb_factors\": [");
    sg_engine_close(&g);
    for (int i = 0; i < 3 * z; i++) n += (size_t)snprintf(json + n, sizeof json - n, "%s%d", i ? ", " : "", i);
    snprintf(json + n, sizeof json - n, "]}");
    sg_error e = {0};
    if (open_with(json, &g, &e) != SG_OK) fail_msg("%s", e.text);
    assert_true(g->own_rgb.z == z && g->own_rgb.factor[1][2] == 5 && g->own_rgb.bias[2] == -1);
    sg_engine_close(&g);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(open_with(bad[i][0], &g, &e), SG_E_FORMAT, &e, "sparge-gen.json", bad[i][1]);
}

enum { ARENA = 1 << 14 };
static _Alignas(SG_ALIGN) unsigned char arena[ARENA];

/* At sigma 0 every sampler arrives at the clean sample that its last output stands for. */
static void runs_end_at_the_clean_sample(void **state)
{
    static const sg_sampler_kind kinds[] = {SG_SAMPLER_UNIPC, SG_SAMPLER_EULER, SG_SAMPLER_LCM,
                                            SG_SAMPLER_DDIM,  SG_SAMPLER_DPM,   SG_SAMPLER_EULER_A};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (int k = 0; k <= KINDS; k++) {
        sg_sampler_config c = {.kind = k < KINDS ? kinds[k] : SG_SAMPLER_EULER,
                               .kinds = ~0u,
                               .flow_shift = k < 3 ? 3 : 1,
                               .train_steps = 1000,
                               .order = 2};
        static sg_sampler p;
        double            a[2];
        c.betas = (sg_betas){.start = 0.00085, .end = 0.012, .shift = 3};
        if (k == KINDS) c.solver = &sg_solver_flow_mochi;
        assert_int_equal(sg_sampler_init(&p, &c, 4, NULL), SG_OK);
        sg_stream        s = {.ops = &sg_ref_ops, .keep = {.base = (uintptr_t)arena, .cap = ARENA}};
        sg_sampler_state st = sg_sampler_state_new(&p, &s, (int64_t[4]){1, 1, 1, 1});
        float v, *const x = st.x.data;
        *x = 1.2f;
        for (int i = 0; i < 4; i++) {
            const double was = (double)*x;
            if (sg_sampler_draws(&p, i)) *(float *)st.noise.data = 0.7f;
            v = (float)sin(1.7 * i + 0.4);
            sg_sampler_step(&p, &st, &s, i, (sg_tensor){.data = &v, .rank = 4, .dim = {1, 1, 1, 1}});
            sg_sampler_clean(&p, i, a);
            if (i == 3) assert_true(fabs((double)*x - (a[0] * was + a[1] * (double)v)) <= 1e-6);
            if (i == 0) assert_true(fabs((double)*x - (a[0] * was + a[1] * (double)v)) > 1e-2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_end_at_the_clean_sample),
        cmocka_unit_test(colours_follow_from_the_clean_sample),
        cmocka_unit_test(they_change_nothing),
        cmocka_unit_test(the_caller_may_end_the_render),
        cmocka_unit_test(weights_stay_packed),
        cmocka_unit_test(the_plan_has_them),
        cmocka_unit_test(the_plan_counts_previews_that_are_made),
        cmocka_unit_test(what_cannot_be_previewed_is_refused),
        cmocka_unit_test(the_owner_may_set_colours),
    };
    return cmocka_run_group_tests(tests, make_copy, leave_folder);
}
