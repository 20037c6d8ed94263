/* test_threads.c - what works at once, each in a thread of its own, comes to the same as one after the other: engines,
 * writers, contexts of attention. Engines render on the CPU; with SG_TEST_BACKEND=cuda on a GPU. */
#include "engine_fixture.h"

#include <omp.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 2 };

/* Models and what is rendered of them; a sparse one has just so many tokens as that takes. */
typedef struct kind {
    const char *model;
    int         width, height, frames, steps;
    bool        sparse;
} kind;

enum { DENSE, SPARSE, OTHER, LARGE, KINDS };

static const kind kinds[KINDS] = {
    [DENSE] = {model, 32, 48, 5, 2, false},
    [SPARSE] = {SG_FIXTURES "/wan21_hd64", 128, 128, 7, 3, true},
    [OTHER] = {SG_FIXTURES "/cogvideox_2b", 32, 48, 8, 2, false},
    [LARGE] = {SG_TINY_WAN, 512, 512, 33, 20, true}, /* NVIDIA's libraries and steps that are replayed; only on a GPU */
};

/* One thread's work and what came of it. Nothing is asserted but in the main thread. */
typedef struct job {
    const kind *of;
    int         threads;     /* of the engine; 0: 2 */
    pthread_t   thread, own; /* which it is, and what it says it is */
    sg_engine  *g;
    sg_status   status;
    sg_error    e;
    uint8_t    *rgb;
    size_t      bytes, got;
    int         sparse;  /* layers that skipped blocks */
    bool        foreign; /* a callback came in another thread */
    char        log[2048];
} job;

static void check_thread(job *j) { j->foreign = j->foreign || !pthread_equal(j->own, pthread_self()); }

/* Lines without what differs each time. */
static void take_line(void *context, int level, const char *line)
{
    job *const   j = context;
    const size_t n = strlen(j->log);
    const char  *end = strstr(line, "loaded in");
    check_thread(j);
    snprintf(j->log + n, sizeof j->log - n, "%d %.*s\n", level, (int)(end ? end - line : (long)strlen(line)), line);
}

static sg_status take_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    job *const   j = context;
    const size_t bytes = j->bytes / (size_t)j->of->frames;
    check_thread(j);
    memcpy(j->rgb + (size_t)index * bytes, rgb, bytes);
    j->got += bytes;
    return SG_OK;
}

static void open_job(job *j)
{
    const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                 .model_dir = j->of->model,
                                 .backend = test_device() ? test_device() : "cpu",
                                 .threads = j->threads ? j->threads : 2,
                                 .log = take_line,
                                 .log_context = j};
    j->own = pthread_self();
    j->status = sg_engine_open(&j->g, &o, &j->e);
}

static void render_job(job *j)
{
    sg_request         r = small(j->g);
    const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = j, .frame = take_frame};
    int                steps, passes, layers;
    r.width = j->of->width;
    r.height = j->of->height;
    r.frames = j->of->frames;
    r.steps = j->of->steps;
    r.attention.named = j->of->sparse;
    r.attention.kind = j->of->sparse ? SG_ATTENTION_SPARGE : SG_ATTENTION_DENSE;
    j->own = pthread_self();
    j->bytes = (size_t)r.width * (size_t)r.height * 3 * (size_t)r.frames;
    j->got = 0;
    if (!j->rgb) j->rgb = malloc(j->bytes);
    memset(j->rgb, 0, j->bytes);
    j->status = sg_engine_render(j->g, &r, &cb, NULL, &j->e);
    const sg_attention_count *const c = sg_engine_attention(j->g, &steps, &passes, &layers);
    j->sparse = 0;
    for (int i = 0; c && i < steps * passes * layers; i++) j->sparse += c[i].kind == SG_ATTENTION_SPARGE;
}

static void *render_twice(void *context)
{
    job *const j = context;
    open_job(j);
    for (int i = 0; i < 2 && !j->status; i++) render_job(j); /* the second by weights and plans that were kept */
    sg_engine_close(&j->g);
    return NULL;
}

static void expect_same(const job *j, const job *alone)
{
    assert_done(j->status, &j->e);
    assert_false(j->foreign);
    assert_int_equal(j->got, j->bytes);
    assert_int_equal(j->bytes, alone->bytes);
    assert_int_equal(memcmp(j->rgb, alone->rgb, j->bytes), 0);
    assert_string_equal(j->log, alone->log);
    assert_int_equal(j->sparse, alone->sparse);
    assert_true((j->sparse > 0) == j->of->sparse);
}

/* What each kind comes to by itself, rendered once. */
static job alone_of[KINDS];

static const job *alone(int of)
{
    job *const j = &alone_of[of];
    if (!j->of) {
        j->of = &kinds[of];
        render_twice(j);
    }
    expect_same(j, j);
    return j;
}

static int free_alone(void **state)
{
    for (int i = 0; i < KINDS; i++) free(alone_of[i].rgb);
    return 0;
}

static void engines_render_at_once(void **state)
{
    static const int pairs[][AT_ONCE] = {
        {DENSE, DENSE}, {SPARSE, SPARSE}, {DENSE, OTHER}, {OTHER, SPARSE}, {LARGE, LARGE}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        job at_once[AT_ONCE] = {0};
        if (pairs[i][0] == LARGE && !test_device()) continue;
        for (int k = 0; k < AT_ONCE; k++) alone(pairs[i][k]);
        for (int k = 0; k < AT_ONCE; k++) {
            at_once[k].of = &kinds[pairs[i][k]];
            assert_int_equal(pthread_create(&at_once[k].thread, NULL, render_twice, &at_once[k]), 0);
        }
        for (int k = 0; k < AT_ONCE; k++) pthread_join(at_once[k].thread, NULL);
        for (int k = 0; k < AT_ONCE; k++) {
            expect_same(&at_once[k], alone(pairs[i][k]));
            free(at_once[k].rgb);
        }
    }
}

static void *open_job_there(void *context) { return open_job(context), NULL; }
static void *render_there(void *context) { return render_job(context), NULL; }
static void *close_there(void *context) { return sg_engine_close(&((job *)context)->g), NULL; }

static void an_engine_goes_from_thread_to_thread(void **state)
{
    static void *(*const work[])(void *) = {open_job_there, render_there, render_there, close_there};
    job j = {.of = &kinds[SPARSE]};
    alone(SPARSE);
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, work[i], &j), 0);
        pthread_join(thread, NULL);
        assert_done(j.status, &j.e);
    }
    expect_same(&j, alone(SPARSE));
    free(j.rgb);
}

/* Threads of a team of the program are threads as others are, but that there may be no team in a team: what was made ready
 * for two threads then has one. */
static void engines_render_in_a_parallel_region(void **state)
{
    job at_once[AT_ONCE] = {{.of = &kinds[SPARSE]}, {.of = &kinds[DENSE]}};
    for (int k = 0; k < AT_ONCE; k++) {
        alone(k ? DENSE : SPARSE);
        open_job(&at_once[k]);
        assert_done(at_once[k].status, &at_once[k].e);
        render_job(&at_once[k]);
    }
#pragma omp parallel for num_threads(AT_ONCE) schedule(static, 1)
    for (int k = 0; k < AT_ONCE; k++) render_job(&at_once[k]);
    for (int k = 0; k < AT_ONCE; k++) {
        expect_same(&at_once[k], alone(k ? DENSE : SPARSE));
        sg_engine_close(&at_once[k].g);
        free(at_once[k].rgb);
    }
}

/* Where the program lets OpenMP have fewer threads than it asks for, an engine gets fewer. What it had set stays. */
static void an_engine_gets_fewer_threads(void **state)
{
    job       j = {.of = &kinds[SPARSE], .threads = omp_get_num_procs() + 2};
    const int had = omp_get_max_threads();
    alone(SPARSE);
    omp_set_dynamic(1);
    render_twice(&j);
    assert_true(omp_get_dynamic());
    omp_set_dynamic(0);
    assert_int_equal(omp_get_max_threads(), had);
    assert_done(j.status, &j.e);
    assert_memory_equal(j.rgb, alone(SPARSE)->rgb, j.bytes);
    free(j.rgb);
}

/* The child of a fork, in the thread that worked in its parent, gets an answer; it would wait for ever. */
static void a_fork_is_refused(void **state)
{
    enum { N = 4 };
    static float           x[N * 8];
    sg_attention_context  *c = NULL;
    sg_error               e = {0};
    int                    status = 0;
    sg_engine             *g = open_model(model, 0);
    const sg_request       r = small(g);
    sg_attention_call_args a = {.o = x, .q = x, .k = x, .v = x, .heads = 1, .head_dim = 8, .n = N, .kind = "dense"};
    assert_done(sg_attention_context_open(&c, NULL, &e), &e);
    assert_done(sg_engine_render(g, &r, NULL, NULL, &e), &e);
    const pid_t child = fork();
    if (!child) {
        alarm(60);
        _exit(sg_engine_render(g, &r, NULL, NULL, NULL) != SG_E_UNSUPPORTED ||
              sg_attention_call(c, &a, NULL, NULL) != SG_E_UNSUPPORTED);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    assert_done(sg_engine_render(g, &r, NULL, NULL, &e), &e);
    sg_attention_context_close(&c);
    sg_engine_close(&g);
}

static void *open_and_close(void *context)
{
    job *const j = context;
    for (int i = 0; i < 8 && !j->status; i++) {
        *j->log = '\0';
        open_job(j);
        j->foreign = j->foreign || !j->g || !strstr(j->log, sg_engine_info(j->g)->family);
        sg_engine_close(&j->g);
    }
    return NULL;
}

static void engines_open_and_close_at_once(void **state)
{
    job at_once[4] = {0};
    for (int i = 0; i < 4; i++) {
        at_once[i].of = &kinds[i % 3];
        assert_int_equal(pthread_create(&at_once[i].thread, NULL, open_and_close, &at_once[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(at_once[i].thread, NULL);
    for (int i = 0; i < 4; i++) {
        assert_done(at_once[i].status, &at_once[i].e);
        assert_false(at_once[i].foreign);
    }
}

/* ---- writers ---- */

enum { SIDE = 64, FRAMES = 6 };

typedef struct writing {
    sg_clip   clip;
    uint8_t   colour;
    pthread_t thread;
    sg_status status;
    sg_error  e;
    char      name[64];
} writing;

static void *write_clip(void *context)
{
    writing *const  w = context;
    uint8_t         rgb[SIDE * SIDE * 3];
    sg_writer      *out = NULL;
    const sg_status opened = w->status = sg_writer_open(&out, &w->clip, &w->e);
    for (int i = 0; i < FRAMES && !w->status; i++) {
        for (size_t k = 0; k < sizeof rgb; k++) rgb[k] = (uint8_t)(w->colour + i * 3 + (int)(k / 3 % SIDE));
        w->status = sg_writer_write(out, i, rgb, &w->e);
    }
    if (!w->status) w->status = sg_writer_finish(out, &w->e);
    if (!w->status) snprintf(w->name, sizeof w->name, "%s", sg_writer_file(out, 0));
    if (!opened) sg_writer_close(&out);
    return NULL;
}

static writing writing_of(const char *path, const char *beside, int colour)
{
    return (writing){.clip = {.size = sizeof(sg_clip),
                              .path = path,
                              .width = SIDE,
                              .height = SIDE,
                              .frames = FRAMES,
                              .fps = 8,
                              .beside = beside},
                     .colour = (uint8_t)colour};
}

static void expect_same_file(const char *a, const char *b)
{
    size_t      na, nb;
    char *const one = read_file(a, &na), *const two = read_file(b, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(one, two, na);
    free(one);
    free(two);
}

/* Each gets a name of its own, and its own frames. */
static void writers_write_at_once(void **state)
{
    static const char *const endings[] = {".y4m", ".png", ".webp", ".mp4"};
    char                     known[80], path[4][32];
    sg_writer_endings(known, sizeof known);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const bool numbered = strcmp(endings[i], ".png") == 0;
        writing    w[4]; /* one after the other, then at once */
        if (!strstr(known, endings[i])) continue;
        for (int k = 0; k < 4; k++) {
            snprintf(path[k], sizeof path[k], "clip%d%s%s", numbered ? k : 0, numbered ? "-%02d" : "", endings[i]);
            w[k] = writing_of(path[k], numbered ? NULL : path[k], 90 * (k % 2));
        }
        for (int k = 0; k < 2; k++) write_clip(&w[k]);
        for (int k = 2; k < 4; k++) assert_int_equal(pthread_create(&w[k].thread, NULL, write_clip, &w[k]), 0);
        for (int k = 2; k < 4; k++) pthread_join(w[k].thread, NULL);
        for (int k = 0; k < 4; k++) {
            assert_done(w[k].status, &w[k].e);
            expect_same_file(w[k].name, w[k % 2].name);
            for (int other = 0; other < k; other++) assert_string_not_equal(w[k].name, w[other].name);
        }
    }
}

/* ---- attention ---- */

enum { TOKENS = 1100, HEADS = 2, HEAD_DIM = 64, NUMBERS = TOKENS * HEADS * HEAD_DIM };

typedef struct attending {
    float     q[NUMBERS], o[2][NUMBERS];
    pthread_t thread;
    sg_status status;
    sg_error  e;
} attending;

static void *attend(void *context)
{
    attending *const      a = context;
    sg_attention_context *c = NULL;
    a->status = sg_attention_context_open(&c, &(sg_attention_options){.backend = "cpu", .threads = 2}, &a->e);
    for (int i = 0; i < 2 && !a->status; i++) /* dense, then sparse */
        a->status = sg_attention_call(c,
                                      &(sg_attention_call_args){.o = a->o[i],
                                                                .q = a->q,
                                                                .k = a->q,
                                                                .v = a->q,
                                                                .heads = HEADS,
                                                                .head_dim = HEAD_DIM,
                                                                .n = TOKENS,
                                                                .kind = i ? "sparge" : "dense"},
                                      NULL, &a->e);
    sg_attention_context_close(&c);
    return NULL;
}

static void contexts_attend_at_once(void **state)
{
    static attending alone_with, at_once[2];
    for (int i = 0; i < NUMBERS; i++)
        alone_with.q[i] = at_once[0].q[i] = at_once[1].q[i] = (float)sin(i * 0.37 + i / 500 * 0.05);
    attend(&alone_with);
    assert_done(alone_with.status, &alone_with.e);
    for (int k = 0; k < 2; k++) assert_int_equal(pthread_create(&at_once[k].thread, NULL, attend, &at_once[k]), 0);
    for (int k = 0; k < 2; k++) pthread_join(at_once[k].thread, NULL);
    for (int k = 0; k < 2; k++) {
        assert_done(at_once[k].status, &at_once[k].e);
        assert_memory_equal(at_once[k].o, alone_with.o, sizeof alone_with.o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_open_and_close_at_once), /* first: what is opened once is opened at once */
        cmocka_unit_test(engines_render_at_once),
        cmocka_unit_test(engines_render_in_a_parallel_region),
        cmocka_unit_test(an_engine_gets_fewer_threads),
        cmocka_unit_test(an_engine_goes_from_thread_to_thread),
        cmocka_unit_test_teardown(writers_write_at_once, free_alone),
        cmocka_unit_test(contexts_attend_at_once),
        cmocka_unit_test(a_fork_is_refused),
    };
    if (test_device_is_missing()) return 77;
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
