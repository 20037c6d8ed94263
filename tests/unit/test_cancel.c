/* test_cancel.c - another thread ends a render in every phase, between ops and in callbacks, and a callback does that fails.
 * The oracle renders; with SG_TEST_BACKEND=cuda a GPU does. */
#include "engine_fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

enum { PROGRESS, LATENTS, PREVIEW, FRAME, CALLBACKS };

/* A render that another thread cancels at a moment, or a callback ends. Moments are tensors that are tapped and callbacks;
 * but for those, a GPU's steps are not what they are without a tap. */
typedef struct scene {
    sg_engine  *g;
    sem_t       asked, done;
    bool        over;
    int         stage;       /* cancelled when it begins; -1: none */
    int         at, moments; /* cancelled at this one; 0: none */
    int         late;        /* moments after it was cancelled, or a callback failed */
    bool        ended;
    int         fails;   /* which callback, at its second call; -1: none */
    const char *failure; /* its text; NULL: none */
    int         calls[CALLBACKS];
    film        film;
} scene;

static void *cancel_when_asked(void *context)
{
    scene *const s = context;
    for (;;) {
        sem_wait(&s->asked);
        if (s->over) return NULL;
        sg_engine_cancel(s->g, true);
        sem_post(&s->done);
    }
}

static void moment(scene *s, bool cancels)
{
    s->late += s->ended;
    if (++s->moments != s->at && !(cancels && !s->ended)) return;
    sem_post(&s->asked);
    sem_wait(&s->done);
    s->ended = true;
}

static void on_tap(void *context, const char *name, sg_stream *stream, sg_tensor t) { moment(context, false); }

static sg_status called(scene *s, int which, bool cancels, sg_error *e)
{
    moment(s, cancels);
    if (++s->calls[which] != 2 || which != s->fails) return SG_OK;
    s->ended = true;
    return s->failure ? sg_error_set(e, SG_E_FILE, "%s", s->failure) : SG_E_FILE;
}

static int on_progress(void *context, int stage, int done, int total)
{
    scene *const s = context;
    return called(s, PROGRESS, stage == s->stage && done == 0, NULL) != SG_OK;
}

static sg_status on_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    return called(context, LATENTS, false, e);
}

static sg_status on_preview(void *context, int step, const uint8_t *rgb, const int size[3], sg_error *e)
{
    return called(context, PREVIEW, false, e);
}

static sg_status on_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    scene *const s = context;
    SG_TRY(called(s, FRAME, false, e));
    return film_frame(&s->film, index, rgb, e);
}

/* As the scene says what ends it. */
static sg_status render(scene *s, sg_error *e)
{
    static uint8_t     video[5 * 48 * 32 * 3];
    const sg_callbacks cb = {.size = sizeof(sg_callbacks),
                             .context = s,
                             .progress = on_progress,
                             .latents = on_latents,
                             .preview = on_preview,
                             .frame = on_frame};
    sg_request         r = small(s->g);
    sg_report          report = {.size = sizeof report};
    for (size_t i = 0; i < sizeof video; i++) video[i] = (uint8_t)(i * 7);
    r.start_video = video;
    r.strength = 0.9;
    r.preview_every = 1;
    r.steps = test_device() ? 24 : 3; /* a GPU replays so many */
    s->moments = s->late = 0;
    s->ended = false;
    memset(s->calls, 0, sizeof s->calls);
    s->film = (film){.bytes = (size_t)r.width * (size_t)r.height * 3};
    *e = (sg_error){0};
    return sg_engine_render(s->g, &r, &cb, &report, e);
}

static sg_status render_until(scene *s, int stage, int at, int fails, const char *failure, sg_error *e)
{
    s->stage = stage;
    s->at = at;
    s->fails = fails;
    s->failure = failure;
    return render(s, e);
}

static sg_status render_whole(scene *s, sg_error *e) { return render_until(s, -1, 0, -1, NULL, e); }

static void open_scene(scene *s)
{
    s->g = open_engine(&(sg_engine_options){
        .size = sizeof(sg_engine_options), .model_dir = model, .backend = test_device() ? test_device() : "ref"});
    if (!test_device()) s->g->tap = on_tap;
    s->g->tap_context = s;
}

/* After it nothing is called, and the engine renders the same as before, whatever it was at. */
static void every_moment_can_be_the_last(void **state)
{
    enum { MOMENTS = 16 };
    static scene s;
    static film  whole;
    pthread_t    other;
    sg_error     e;
    open_scene(&s);
    sem_init(&s.asked, 0, 0);
    sem_init(&s.done, 0, 0);
    assert_int_equal(pthread_create(&other, NULL, cancel_when_asked, &s), 0);
    assert_done(render_whole(&s, &e), &e);
    whole = s.film;
    const int moments = s.moments;
    assert_true(moments > MOMENTS);
    for (int i = 0; i < CALLBACKS; i++) assert_true(s.calls[i] > 1);
    for (int i = 0; i < SG_STAGES + MOMENTS; i++) {
        sg_engine_close(&s.g); /* what is kept from one render to the next is not made again */
        open_scene(&s);
        const bool begins = i < SG_STAGES;
        const int  at =
            begins ? 0 : 1 + (i - SG_STAGES) * (moments - 2) / (MOMENTS - 1); /* in the last one it is too late */
        assert_refused(render_until(&s, begins ? i : -1, at, -1, NULL, &e), SG_E_CANCELLED, &e, "cancelled");
        assert_true(s.ended);
        assert_int_equal(s.late, 0);
        assert_done(render_whole(&s, &e), &e);
        assert_memory_equal(&s.film, &whole, sizeof whole);
    }
    s.over = true;
    sem_post(&s.asked);
    pthread_join(other, NULL);
    sem_destroy(&s.asked);
    sem_destroy(&s.done);
    sg_engine_close(&s.g);
}

static void a_callback_that_fails_ends_it(void **state)
{
    static const char *const failure[2] = {"the disk is full", NULL};
    static scene             s;
    static film              whole;
    sg_error                 e;
    open_scene(&s);
    assert_done(render_whole(&s, &e), &e);
    whole = s.film;
    for (int i = 0; i < 2 * CALLBACKS; i++) {
        const int       which = i / 2;
        const sg_status status = render_until(&s, -1, 0, which, failure[i % 2], &e);
        assert_refused(status, which == PROGRESS ? SG_E_CANCELLED : SG_E_FILE, &e,
                       which == PROGRESS ? "cancelled"
                       : failure[i % 2]  ? failure[i % 2]
                                         : "callback");
        assert_int_equal(s.late, 0);
        assert_done(render_whole(&s, &e), &e);
        assert_memory_equal(&s.film, &whole, sizeof whole);
    }
    sg_engine_close(&s.g);
}

/* Cancels now and then, until it is over. */
static void *cancel_again_and_again(void *context)
{
    scene *const s = context;
    for (long i = 0; !__atomic_load_n(&s->over, __ATOMIC_RELAXED); i++) {
        nanosleep(&(struct timespec){.tv_nsec = i * 7919 % 97 * 200000}, NULL);
        sg_engine_cancel(s->g, true);
    }
    return NULL;
}

/* Nobody knows where it is when it is cancelled. What was not cancelled is whole. */
static void cancels_come_at_any_time(void **state)
{
    enum { CALLS = 40 };
    static scene s;
    static film  whole;
    pthread_t    other;
    sg_error     e;
    open_scene(&s);
    assert_done(render_whole(&s, &e), &e);
    whole = s.film;
    assert_int_equal(pthread_create(&other, NULL, cancel_again_and_again, &s), 0);
    for (int i = 0; i < CALLS; i++) {
        sg_request      r = small(s.g);
        sg_plan         plan = {.size = sizeof plan};
        const bool      renders = i % 2;
        const sg_status status = renders ? render_whole(&s, &e) : sg_engine_plan(s.g, &r, &plan, &e);
        if (status) assert_refused(status, SG_E_CANCELLED, &e, "cancelled");
        if (!status && renders) assert_memory_equal(&s.film, &whole, sizeof whole);
    }
    __atomic_store_n(&s.over, true, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    sg_engine_cancel(s.g, false);
    assert_done(render_whole(&s, &e), &e);
    assert_memory_equal(&s.film, &whole, sizeof whole);
    sg_engine_close(&s.g);
}

/* One that comes between two calls is for the next, of whatever kind, and for no other. */
static void the_next_call_is_cancelled(void **state)
{
    static film f;
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g);
    sg_report   report = {.size = sizeof report};
    sg_plan     plan = {.size = sizeof plan};
    sg_error    e = {0};
    sg_engine_cancel(g, true);
    sg_engine_cancel(g, false);
    assert_done(sg_engine_plan(g, &r, &plan, &e), &e);
    sg_engine_cancel(g, true);
    assert_refused(sg_engine_plan(g, &r, &plan, &e), SG_E_CANCELLED, &e, "cancelled");
    e = (sg_error){0};
    assert_done(sg_engine_plan(g, &r, &plan, &e), &e);
    sg_engine_cancel(g, true);
    assert_refused(render_film(g, &r, &f, &report, &e), SG_E_CANCELLED, &e, "cancelled");
    e = (sg_error){0};
    assert_done(render_film(g, &r, &f, &report, &e), &e);
    sg_engine_cancel(g, true);
    r.width = 7;
    assert_refused(sg_engine_plan(g, &r, &plan, &e), SG_E_ARG, &e, "size"); /* takes it with it */
    r = small(g);
    e = (sg_error){0};
    assert_done(sg_engine_plan(g, &r, &plan, &e), &e);
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_moment_can_be_the_last),
        cmocka_unit_test(the_next_call_is_cancelled),
        cmocka_unit_test(a_callback_that_fails_ends_it),
        cmocka_unit_test(cancels_come_at_any_time),
    };
    if (test_device_is_missing()) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
