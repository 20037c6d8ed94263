/* test_cancel.c - threads: another one ends a render in every phase and between ops, and two engines render at once. */
#include "engine_fixture.h"

#include <pthread.h>
#include <semaphore.h>

/* A render that another thread cancels at a moment: the `at`-th tensor that is tapped, or the beginning of a stage. */
typedef struct scene {
    sg_engine *g;
    sem_t      asked, done;
    bool       over;
    int        stage;    /* -1: none */
    int        at, taps; /* at 0: no tap */
    int        late;     /* calls that came after it was cancelled */
    bool       cancelled;
    film       film;
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

static void ask(scene *s)
{
    sem_post(&s->asked);
    sem_wait(&s->done);
    s->cancelled = true;
}

static void count_tap(void *context, const char *name, sg_stream *stream, sg_tensor t)
{
    scene *const s = context;
    s->late += s->cancelled;
    if (++s->taps == s->at) ask(s);
}

static int on_progress(void *context, sg_stage stage, int done, int total)
{
    scene *const s = context;
    s->late += s->cancelled;
    if ((int)stage == s->stage && done == 0 && !s->cancelled) ask(s);
    return 0;
}

static sg_status on_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    scene *const s = context;
    s->late += s->cancelled;
    return film_frame(&s->film, index, rgb, e);
}

static sg_status render(scene *s, int stage, int at, sg_error *e)
{
    static uint8_t     video[5 * 48 * 32 * 3];
    const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = s, .progress = on_progress, .frame = on_frame};
    sg_request         r = small(s->g);
    sg_report          report = {.size = sizeof report};
    for (size_t i = 0; i < sizeof video; i++) video[i] = (uint8_t)(i * 7);
    r.start_video = video;
    r.strength = 0.9;
    s->stage = stage;
    s->at = at;
    s->taps = s->late = 0;
    s->cancelled = false;
    s->film = (film){.bytes = (size_t)r.width * (size_t)r.height * 3};
    *e = (sg_error){0};
    return sg_engine_render(s->g, &r, &cb, &report, e);
}

/* After it nothing is called, and the engine renders the same as before, whatever it was at. */
static void every_moment_can_be_the_last(void **state)
{
    enum { MOMENTS = 16 };
    static scene s;
    static film  whole;
    pthread_t    other;
    sg_error     e;
    s.g = open_model(model, 0);
    s.g->tap = count_tap;
    s.g->tap_context = &s;
    sem_init(&s.asked, 0, 0);
    sem_init(&s.done, 0, 0);
    assert_int_equal(pthread_create(&other, NULL, cancel_when_asked, &s), 0);
    assert_done(render(&s, -1, 0, &e), &e);
    whole = s.film;
    const int taps = s.taps;
    assert_true(taps > MOMENTS);
    for (int i = 0; i < SG_STAGES + MOMENTS; i++) {
        sg_engine_close(&s.g); /* what is kept from one render to the next is not made again */
        s.g = open_model(model, 0);
        s.g->tap = count_tap;
        s.g->tap_context = &s;
        const bool tap = i >= SG_STAGES;
        const int  at = tap ? 1 + (i - SG_STAGES) * (taps - 1) / (MOMENTS - 1) : 0;
        assert_refused(render(&s, tap ? -1 : i, at, &e), SG_E_CANCELLED, &e, "cancelled");
        assert_true(s.cancelled);
        assert_int_equal(s.late, 0);
        assert_done(render(&s, -1, 0, &e), &e);
        assert_memory_equal(&s.film, &whole, sizeof whole);
    }
    s.over = true;
    sem_post(&s.asked);
    pthread_join(other, NULL);
    sem_destroy(&s.asked);
    sem_destroy(&s.done);
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
    sg_engine_close(&g);
}

typedef struct job {
    film      film;
    sg_error  e;
    sg_status status;
} job;

static void *open_and_render(void *context)
{
    job *const              j = context;
    const sg_engine_options o = {.size = sizeof(sg_engine_options), .model_dir = model, .backend = "cpu", .threads = 1};
    sg_engine              *g = NULL;
    sg_report               report = {.size = sizeof report};
    j->status = sg_engine_open(&g, &o, &j->e);
    if (j->status) return NULL;
    const sg_request r = small(g);
    j->film = (film){0};
    j->status = render_film(g, &r, &j->film, &report, &j->e);
    sg_engine_close(&g);
    return NULL;
}

static void two_engines_render_at_once(void **state)
{
    static job alone, two[2];
    pthread_t  thread[2];
    open_and_render(&alone);
    assert_done(alone.status, &alone.e);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, open_and_render, &two[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_done(two[i].status, &two[i].e);
        assert_memory_equal(&two[i].film, &alone.film, sizeof alone.film);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_moment_can_be_the_last),
        cmocka_unit_test(the_next_call_is_cancelled),
        cmocka_unit_test(two_engines_render_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
