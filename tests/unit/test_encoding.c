/* test_encoding.c - pictures and videos as a caller sees them: how often they are encoded, which progress is
 * reported, what cancels it, what the plan counts; latents that are drawn; tiles. Golden tests hold the numbers. */
#include "engine_fixture.h"
#include "picture.h"
#include "resolve.h"
#include "rng.h"

enum { SIDE = 32, CLIP_FRAMES = 5, PIXELS = SIDE * SIDE * 3 };

static uint8_t clip[CLIP_FRAMES * PIXELS];

typedef struct watch {
    int     done, total, cancel_at; /* of encoding */
    int     steps, of_steps;
    uint8_t last[PIXELS];
} watch;

static int take_progress(void *context, sg_stage stage, int done, int total)
{
    watch *const w = context;
    if (stage == SG_STAGE_DENOISE) {
        w->steps = done;
        w->of_steps = total;
    }
    if (stage != SG_STAGE_ENCODE) return 0;
    assert_true(done == w->done || done == w->done + 1); /* a second phase begins where the first ended */
    w->done = done;
    w->total = total;
    return w->cancel_at && done == w->cancel_at;
}

static sg_status take_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    (void)index, (void)e;
    memcpy(((watch *)context)->last, rgb, PIXELS);
    return SG_OK;
}

static sg_status render(sg_engine *g, const sg_request *r, watch *w, sg_report *rep)
{
    sg_error  e = {0};
    const int cancel_at = w->cancel_at;
    *w = (watch){.cancel_at = cancel_at};
    return sg_engine_render(
        g, r,
        &(sg_callbacks){.size = sizeof(sg_callbacks), .context = w, .progress = take_progress, .frame = take_frame},
        rep, &e);
}

static sg_request request(const sg_engine *g)
{
    sg_request r = small(g);
    r.width = r.height = SIDE;
    r.cfg_scale = 1;
    for (size_t i = 0; i < sizeof clip; i++) clip[i] = (uint8_t)(i * 7 + i / 5);
    return r;
}

/* Renders r, whose encoding takes so many units: cancelled first, then whole, then with another seed and with changed
 * input, which is byte 0 of clip. */
static void encode_once(sg_engine *g, sg_request *r, int units)
{
    watch     w = {.cancel_at = 1};
    uint8_t   first[PIXELS];
    sg_report rep = {.size = sizeof rep};
    assert_int_equal(render(g, r, &w, &rep), SG_E_CANCELLED);
    assert_int_equal(w.done, 1);
    w.cancel_at = 0;
    assert_int_equal(render(g, r, &w, &rep), SG_OK);
    assert_int_equal(w.done, units);
    assert_int_equal(w.total, units);
    assert_true(rep.seconds[SG_STAGE_ENCODE] > 0);
    memcpy(first, w.last, sizeof first);
    r->seed++;
    assert_int_equal(render(g, r, &w, &rep), SG_OK);
    assert_int_equal(w.total, 0);
    assert_memory_not_equal(first, w.last, sizeof first);
    r->seed--;
    assert_int_equal(render(g, r, &w, &rep), SG_OK);
    assert_int_equal(w.total, 0);
    assert_memory_equal(first, w.last, sizeof first);
    clip[0] ^= 0x80;
    assert_int_equal(render(g, r, &w, &rep), SG_OK);
    assert_int_equal(w.done, units);
    assert_memory_not_equal(first, w.last, sizeof first);
}

static void pictures_are_encoded_once(void **state)
{
    sg_engine *g = open_model(SG_FIXTURES "/wan21_i2v", 0);
    sg_request r = request(g);
    r.image[SG_IMAGE_FIRST].rgb = clip;
    encode_once(g, &r, 3); /* two latent frames, the tokens of a picture */
    sg_engine_close(&g);
}

static void a_video_is_encoded_once(void **state)
{
    sg_engine *g = open_model(model, 0);
    sg_request r = request(g);
    r.start_video = clip;
    r.strength = 0.5;
    encode_once(g, &r, 2);
    sg_engine_close(&g);
}

/* The last steps alone are done; the plan has the frames and a phase more. */
static void some_steps_are_done(void **state)
{
    static const struct {
        int    steps;
        double strength;
        int    done;
    } cases[] = {{4, 1, 4}, {4, 0.99, 3}, {4, 0.5, 2}, {4, 0.25, 1}, {50, 0.58, 28}};
    sg_engine *g = open_model(model, 0);
    sg_request r = request(g);
    watch      w = {0};
    sg_plan    noise = {.size = sizeof noise}, plan = {.size = sizeof plan};
    sg_report  rep = {.size = sizeof rep};
    sg_error   e = {0};
    assert_int_equal(sg_engine_plan(g, &r, &noise, &e), SG_OK);
    r.start_video = clip;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        r.steps = cases[i].steps;
        r.strength = cases[i].strength;
        assert_int_equal(sg_request_steps(&r), cases[i].done);
        if (cases[i].steps > 4) continue;
        assert_int_equal(render(g, &r, &w, &rep), SG_OK);
        assert_int_equal(rep.steps_done, cases[i].done);
        assert_int_equal(w.steps, cases[i].done);
        assert_int_equal(w.of_steps, cases[i].done);
    }
    r.steps = 4;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    assert_int_equal(plan.phases, noise.phases + 1);
    assert_string_equal(plan.phase[1].name, "video");
    assert_int_equal(plan.phase[1].stage, SG_STAGE_ENCODE);
    assert_int_equal(plan.input, sizeof clip);
    assert_int_equal(noise.input, 0);
    for (const double *x = (const double[]){0, -1, 1.01, 0.24, NAN, 7}; *x < 7 || *x != *x; x++) {
        r.strength = *x;
        assert_refused(sg_engine_check_request(g, &r, &e), SG_E_ARG, &e, "strength: ");
    }
    sg_engine_close(&g);
}

/* ---- a model of images ---- */

/* As one: it makes one frame and begins with no picture. */
static sg_engine *open_images(void)
{
    sg_engine           *g = open_model(model, 0);
    sg_components *const c = (sg_components *)(uintptr_t)g->components;
    c->frames = (sg_frame_rule){0};
    c->image[SG_IMAGE_FIRST] = SG_IMAGE_NONE;
    g->defaults.frames = 1;
    sg_engine_describe(g);
    return g;
}

/* The picture that the command fits is the request's start, not its first frame and no video. */
static void an_image_starts_from_another(void **state)
{
    sg_engine  *g = open_images();
    sg_request  r = request(g), of_image = r;
    sg_pictures p = {.path = {"a.png"}, .fit = "crop", .whole = {{SIDE, SIDE, clip}}};
    watch       w[2] = {0};
    sg_report   rep = {.size = sizeof rep};
    sg_error    e = {0};
    r.frames = of_image.frames = 1;
    r.steps = of_image.steps = 4;
    r.strength = of_image.strength = 0.6;
    assert_int_equal(sg_engine_info(g)->image[SG_IMAGE_FIRST], SG_IMAGE_START);
    if (sg_pictures_check(&p, g, &r, &e) || sg_pictures_fit(&p, g, &r, &e)) fail_msg("%s", e.text);
    assert_ptr_equal(r.start_image, p.fitted[0].rgb);
    assert_null(r.image[SG_IMAGE_FIRST].rgb);
    of_image.start_image = clip;
    assert_int_equal(render(g, &of_image, &w[0], &rep), SG_OK);
    assert_int_equal(rep.steps_done, 3);
    assert_int_equal(render(g, &r, &w[1], &rep), SG_OK);
    assert_memory_equal(w[0].last, w[1].last, sizeof w[0].last);
    /* r has a start already */
    assert_refused(sg_pictures_check(&p, g, &r, &e), SG_E_ARG, &e, "--image|video");
    sg_plan plan = {.size = sizeof plan};
    assert_int_equal(sg_engine_plan(g, &of_image, &plan, &e), SG_OK);
    assert_string_equal(plan.phase[1].name, "image");
    of_image.start_video = clip;
    assert_refused(sg_engine_check_request(g, &of_image, &e), SG_E_ARG, &e, "image and video: ");
    of_image.start_image = NULL;
    assert_refused(sg_engine_check_request(g, &of_image, &e), SG_E_ARG, &e, "video: this model|image");
    sg_image_close(&p.fitted[0]);
    sg_engine_close(&g);
}

/* diffusers' image pipelines do N - int(N - N strength) steps. */
static void steps_are_rounded_up(void **state)
{
    static const struct {
        int    steps;
        double strength;
        int    done;
    } cases[] = {{4, 1, 4},     {4, 0.99, 4}, {4, 0.5, 2},  {4, 0.25, 1},   {4, 0.2, 1},
                 {28, 0.6, 17}, {10, 0.3, 3}, {10, 0.7, 7}, {50, 0.58, 29}, {20, 0.75, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sg_request r = {.steps = cases[i].steps, .strength = cases[i].strength, .start_image = clip};
        assert_int_equal(sg_request_steps(&r), cases[i].done);
    }
}

static void set(sg_settings *s, const char *name, const char *value)
{
    sg_error e = {0};
    if (sg_options_set(s, name, value, &e)) fail_msg("%s", e.text);
}

/* What is of videos has no effect on a model of images, and strength none where a picture begins a video. */
static void options_of_videos_are_refused(void **state)
{
    static const char *const cases[][3] = {
        {"frames", "5", "--frames 5"},
        {"seconds", "2", "--seconds|images"},
        {"fps", "8", "--fps|images"},
        {"frames", "1", NULL},
    };
    sg_engine *g = open_images();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_rendering r = {.settings = sg_options_empty(SG_COMMAND_RENDER)};
        sg_error     e = {0};
        set(&r.settings, cases[i][0], cases[i][1]);
        const sg_status status = sg_resolve(&r, g, &e);
        if (cases[i][2])
            assert_refused(status, SG_E_ARG, &e, cases[i][2]);
        else
            assert_done(status, &e);
    }
    sg_rendering start = {.settings = sg_options_empty(SG_COMMAND_RENDER)};
    sg_error     e = {0};
    set(&start.settings, "image", "a.png");
    set(&start.settings, "strength", "0.3");
    sg_rendering r = start;
    assert_int_equal(sg_resolve(&r, g, &e), SG_OK);
    assert_true(r.request.strength == 0.3);
    sg_engine_close(&g);
    g = open_model(model, 0);
    r = start;
    assert_refused(sg_resolve(&r, g, &e), SG_E_ARG, &e, "--strength|--image");
    sg_engine_close(&g);
}

/* ---- a VAE whose latents are drawn ---- */

static float log_variance;

/* The real encoder's modes, then the same logarithm everywhere. */
static sg_tensor encode_moments(void *run, sg_stream *s, sg_tensor frames)
{
    const sg_tensor mode = sg_wan_vae_ops.encode_next(run, s, frames);
    const int64_t   c = mode.dim[3], n = sg_count(mode) / c;
    const sg_tensor y = sg_new(s, SG_F32, mode.dim[0], mode.dim[1], mode.dim[2], 2 * c);
    const float    *from = mode.data;
    float          *to = y.data;
    for (int64_t i = 0; s->memory->alloc && i < n; i++)
        for (int64_t k = 0; k < 2 * c; k++) *to++ = k < c ? *from++ : log_variance;
    return y;
}

typedef struct taps {
    float  video[4096], noise[4096];
    size_t count;
} taps;

static void take_tap(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    taps *const  to = context;
    float *const here = strcmp(name, "video") == 0 ? to->video : strcmp(name, "noise") == 0 ? to->noise : NULL;
    if (!here) return;
    to->count = (size_t)sg_count(t);
    assert_true(to->count <= sizeof to->video / sizeof *to->video);
    sg_download(s, here, t);
}

/* The generator gives the deviations first and then the noise. Logarithms of variances are at most 20 before the
 * latents are normalised. */
static void latents_are_drawn(void **state)
{
    enum { SCALING = 2 };
    static const float logarithms[] = {-60, 2 * 1.09861229f, 1000}; /* the second: of 3 */
    static taps        modes, drawn[3];
    static float       normal[2 * 4096];
    sg_engine         *g = open_model(model, 0);
    sg_request         r = request(g);
    sg_vae_ops         ops = sg_wan_vae_ops;
    watch              w = {0};
    sg_report          rep = {.size = sizeof rep};
    sg_rng             rng;
    g->tap = take_tap;
    r.start_video = clip;
    g->tap_context = &modes;
    assert_int_equal(render(g, &r, &w, &rep), SG_OK);
    ops.sampled = true;
    ops.encode_next = encode_moments;
    sg_vae *const v = &((sg_components *)g->components)->vae;
    v->ops = &ops;
    v->info.scaling = SCALING;
    for (int i = 0; i < 3; i++) {
        log_variance = logarithms[i];
        clip[0] ^= 1; /* so that it is encoded again */
        g->tap_context = &drawn[i];
        assert_int_equal(render(g, &r, &w, &rep), SG_OK);
    }
    sg_rng_seed(&rng, r.seed);
    sg_rng_randn(&rng, normal, modes.count);
    sg_rng_randn(&rng, normal + modes.count, modes.count);
    assert_memory_equal(modes.noise, normal, modes.count * sizeof *normal);
    for (size_t i = 0; i < modes.count; i++) {
        assert_true(fabsf(drawn[0].video[i] - modes.video[i]) < 0.01F); /* of a video that is not quite the same */
        assert_true(fabsf(drawn[1].video[i] - modes.video[i] - 3 * normal[i]) < 1e-5F);
    }
    for (size_t i = 0; i < modes.count; i++) { /* SCALING times the deviation of the encoder's own latents */
        const double deviation = SCALING * exp(10) * (double)normal[i];
        assert_true(fabs((double)drawn[2].video[i] - deviation) < 1e-6 * fabs(deviation) + 10);
    }
    for (int i = 0; i < 3; i++) assert_memory_equal(drawn[i].noise, normal + modes.count, modes.count * sizeof *normal);
    sg_engine_close(&g);
}

/* The mini checkpoints have the numbers of their models. */
static void what_latents_are_scaled_by_is_known(void **state)
{
    static const struct {
        const char *dir;
        double      scaling;
    } cases[] = {{SG_FIXTURES "/sd35_medium", 1.5305}, {SG_FIXTURES "/cogvideox_2b", 1.15258426}};
    for (int i = 0; i < 2; i++) {
        sg_engine *g = open_model(cases[i].dir, 0);
        assert_true(g->components->vae.ops->sampled);
        assert_true(g->components->vae.info.scaling == cases[i].scaling);
        sg_engine_close(&g);
    }
}

/* ---- tiles ---- */

enum { WIDE = 1 << 24 }; /* numbers that encoding works with, but for tiles: more than anything else */

static bool in_tiles;

static bool set_tiles(void *of, bool on)
{
    (void)of;
    in_tiles = on;
    return true;
}

static sg_tensor encode_wide(void *run, sg_stream *s, sg_tensor frames)
{
    const sg_tensor z = sg_wan_vae_ops.encode_next(run, s, frames);
    const size_t    mark = s->scratch.used;
    if (!in_tiles) (void)sg_new(s, SG_F32, WIDE);
    s->scratch.used = mark;
    return z;
}

static sg_plan planned(sg_engine *g, sg_request *r, sg_tiling tiling)
{
    sg_plan  p = {.size = sizeof p};
    sg_error e = {0};
    r->vae_tiling = tiling;
    if (sg_engine_plan(g, r, &p, &e)) fail_msg("%s", e.text);
    return p;
}

/* Where the encoder has tiles they come when it is encoding that does not fit, and what was encoded otherwise does not
 * stay. */
static void encoders_have_tiles(void **state)
{
    sg_engine *g = open_model(model, 0);
    sg_request r = request(g);
    sg_vae_ops ops = sg_wan_vae_ops;
    watch      w = {0};
    sg_report  rep = {.size = sizeof rep};
    ops.set_tiles = set_tiles;
    ops.encode_next = encode_wide;
    ((sg_components *)g->components)->vae.ops = &ops;
    r.start_video = clip;
    const sg_plan whole = planned(g, &r, SG_TILING_OFF), tiles = planned(g, &r, SG_TILING_ON);
    assert_string_equal(whole.phase[1].name, "video");
    assert_true(tiles.need < whole.need && tiles.phase[1].work < whole.phase[1].work);
    assert_int_equal(planned(g, &r, SG_TILING_AUTO).need, whole.need);
    g->memory_limit = tiles.need + (whole.need - tiles.need) / 2;
    const sg_plan put = planned(g, &r, SG_TILING_AUTO);
    assert_int_equal(put.need, tiles.need);
    assert_int_equal(put.phase[1].work, tiles.phase[1].work);
    assert_int_equal(put.untiled, whole.phase[1].work);
    g->memory_limit = 0;
    for (int i = 0; i < 3; i++) {
        r.vae_tiling = i ? SG_TILING_ON : SG_TILING_OFF;
        assert_int_equal(render(g, &r, &w, &rep), SG_OK);
        assert_int_equal(w.total, i < 2 ? 2 : 0);
    }
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_encoded_once), cmocka_unit_test(a_video_is_encoded_once),
        cmocka_unit_test(some_steps_are_done),       cmocka_unit_test(an_image_starts_from_another),
        cmocka_unit_test(steps_are_rounded_up),      cmocka_unit_test(options_of_videos_are_refused),
        cmocka_unit_test(latents_are_drawn),         cmocka_unit_test(what_latents_are_scaled_by_is_known),
        cmocka_unit_test(encoders_have_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
