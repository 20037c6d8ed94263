/* test_job_runner.c - jobs rendered: on one engine, in the bits of the command, with pictures, by other models;
 * refused before they wait; cancelled, stopped and taken up again. */
#include "command.h"
#include "job_runner.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const sg_job_limits usual = {.queued = 100, .kept = 100, .bytes = 1 << 30};
static const char *const   nothing[SG_JOB_INPUTS] = {NULL};

static sg_job_events  *events;
static sg_job_queue   *queue;
static sg_job_runner  *runner;
static sg_job_setup    setup;
static sg_settings     base;
static pthread_mutex_t said_mutex = PTHREAD_MUTEX_INITIALIZER;
static char            said[8192];

static void note(void *context, const char *text)
{
    pthread_mutex_lock(&said_mutex);
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", text);
    pthread_mutex_unlock(&said_mutex);
}

static int times_opened(void)
{
    int count = 0;
    pthread_mutex_lock(&said_mutex);
    for (const char *at = said; (at = strstr(at, "was opened")) != NULL; at++) count++;
    pthread_mutex_unlock(&said_mutex);
    return count;
}

static void start(void)
{
    sg_error e = {0};
    *said = '\0';
    setup = (sg_job_setup){.base = &base, .files = {.models = "models", .loras = "loras"}, .log = {note, NULL}};
    assert_done(sg_job_queue_open(&queue, ".", &usual, events, &setup.log, &e), &e);
    assert_done(sg_job_runner_open(&runner, &setup, queue, events, &e), &e);
}

static void stop(void)
{
    sg_job_runner_close(&runner);
    sg_job_queue_close(&queue);
}

static int enter(void **state)
{
    static const char *const option[][2] = {
        {"model", SG_TINY_WAN}, {"backend", "cpu"}, {"threads", "2"}, {"dtype", "f32"}};
    sg_error e = {0};
    if (enter_folder(state)) return -1;
    base = sg_options_empty(SG_COMMAND_RENDER);
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        assert_done(sg_options_set(&base, option[i][0], option[i][1], &e), &e);
    make_folders("models/x");
    make_folders("loras/x");
    assert_int_equal(symlink(SG_FIXTURES "/wan21_hd12", "models/mini"), 0);
    assert_int_equal(symlink(SG_FIXTURES "/wan21_i2v", "models/i2v"), 0);
    events = sg_job_events_open();
    return 0;
}

static int open_all(void **state)
{
    if (enter(state)) return -1;
    start();
    return 0;
}

static int close_all(void **state)
{
    stop();
    sg_job_events_close(&events);
    return leave_folder(state);
}

/* ---- jobs ---- */

typedef struct answered {
    pthread_mutex_t mutex;
    pthread_cond_t  changed;
    bool            there;
    sg_job_verdict  verdict;
    char            id[SG_JOB_ID];
    sg_error        e;
} answered;

static void take_answer(void *context, sg_job_verdict verdict, const char *id, const char *why)
{
    answered *const a = context;
    pthread_mutex_lock(&a->mutex);
    a->there = true;
    a->verdict = verdict;
    if (id) memcpy(a->id, id, SG_JOB_ID);
    sg_error_set(&a->e, verdict ? SG_E_ARG : SG_OK, "%s", why);
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

static answered submit_file(const char *settings, const char *const *upload)
{
    answered a = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    sg_job_runner_submit(runner, json_loads(settings, 0, NULL), false, upload, take_answer, &a);
    pthread_mutex_lock(&a.mutex);
    while (!a.there) pthread_cond_wait(&a.changed, &a.mutex);
    pthread_mutex_unlock(&a.mutex);
    return a;
}

typedef struct job_name {
    char id[SG_JOB_ID];
} job_name;

static job_name submit_with(const char *settings, const char *image)
{
    const answered a = submit_file(settings, (const char *const[SG_JOB_INPUTS]){image});
    job_name       n;
    if (a.verdict != SG_JOB_TAKEN) fail_msg("%s: %s", settings, a.e.text);
    memcpy(n.id, a.id, sizeof n.id);
    return n;
}

static job_name submit(const char *settings) { return submit_with(settings, NULL); }

#define IMAGE "\"prompt\": \"a red ball\", \"size\": \"64x64\", \"frames\": 1, \"steps\": 2"
#define LONG "{\"prompt\": \"a red ball\", \"size\": \"64x64\", \"frames\": 1, \"steps\": 1000, \"cache\": \"off\"}"

static const char *status_of(const job_name *n)
{
    static char   status[16];
    json_t *const j = sg_job_queue_get(queue, n->id);
    snprintf(status, sizeof status, "%s", j ? json_string_value(json_object_get(j, "status")) : "none");
    json_decref(j);
    return status;
}

static void wait_for(const job_name *n, const char *status)
{
    while (strcmp(status_of(n), "queued") == 0 || strcmp(status_of(n), "in_progress") == 0) usleep(1000);
    if (strcmp(status_of(n), status) == 0) return;
    json_t *const j = sg_job_queue_get(queue, n->id);
    fail_msg("%s", json_dumps(j, 0));
}

/* Until a step of it is over. Of a short render decoding alone may be seen. */
static void wait_for_step(const job_name *n)
{
    for (bool there = false; !there; usleep(1000)) {
        json_t *const j = sg_job_queue_get(queue, n->id), *const p = json_object_get(j, "progress");
        const char *const stage = json_string_value(json_object_get(p, "stage"));
        const bool denoises = stage && strcmp(stage, "denoise") == 0, decodes = stage && strcmp(stage, "decode") == 0;
        there = decodes || (denoises && json_integer_value(json_object_get(p, "done")) > 0);
        if (json_integer_value(json_object_get(j, "finished_at"))) fail_msg("%s", json_dumps(j, 0));
        json_decref(j);
    }
}

/* ---- as the command ---- */

static void expect_file(const job_name *n, size_t i, const char *path)
{
    char   own[PATH_MAX];
    size_t na, nb;
    assert_true(sg_job_queue_file(queue, n->id, i, own));
    char *const a = read_file(own, &na), *const b = read_file(path, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na);
    free(a);
    free(b);
}

/* Renders by the command what these options say. */
static void render(const char *output, const char *model, const char *const (*option)[2])
{
    sg_settings s = base;
    sg_error    e = {0};
    s.quiet = true;
    if (model) s.model = model;
    for (; (*option)[0]; option++) assert_done(sg_options_set(&s, (*option)[0], (*option)[1], &e), &e);
    assert_done(sg_options_set(&s, "output", output, &e), &e);
    assert_done(sg_command_render(&s, &e), &e);
}

static void results_are_those_of_the_command(void **state)
{
    static const char *const image[][2] = {{"prompt", "a red ball"}, {"size", "64x64"}, {"frames", "1"},
                                           {"steps", "2"},           {"seed", "5"},     {NULL, NULL}};
    static const char *const video[][2] = {
        {"prompt", "a blue box"}, {"size", "48x64"},      {"frames", "5"}, {"steps", "2"},
        {"cfg-scale", "1"},       {"attention", "dense"}, {NULL, NULL}};
    const job_name first = submit("{" IMAGE ", \"seed\": 5}");
    const job_name second =
        submit("{\"prompt\": \"a blue box\", \"width\": 48, \"height\": 64, \"frames\": 5, \"steps\": 2,"
               " \"cfg_scale\": 1, \"attention\": \"dense\", \"output_format\": \"y4m\"}");
    const job_name third = submit("{" IMAGE ", \"seed\": 5}");
    render("image.png", NULL, image);
    render("video.y4m", NULL, video);
    wait_for(&third, "completed");
    wait_for(&first, "completed");
    wait_for(&second, "completed");
    expect_file(&first, 0, "image.png");
    expect_file(&second, 0, "video.y4m");
    expect_file(&third, 0, "image.png");
    assert_int_equal(times_opened(), 0); /* the one that was open served all */
    json_t *const j = sg_job_queue_get(queue, first.id), *const made = json_object_get(j, "made");
    assert_int_equal(json_integer_value(json_object_get(made, "seed")), 5);
    assert_int_equal(json_integer_value(json_object_get(made, "width")), 64);
    assert_true(json_is_null(json_object_get(j, "error")));
    json_decref(j);
}

static void a_batch_has_consecutive_seeds(void **state)
{
    static const char *const single[][2] = {{"prompt", "a red ball"}, {"size", "64x64"}, {"frames", "1"},
                                            {"steps", "2"},           {"seed", "8"},     {NULL, NULL}};
    const job_name           n = submit("{" IMAGE ", \"seed\": 7, \"batch\": 2}");
    char                     path[PATH_MAX];
    render("single.png", NULL, single);
    wait_for(&n, "completed");
    expect_file(&n, 1, "single.png");
    assert_true(sg_job_queue_file(queue, n.id, 0, path));
    assert_false(sg_job_queue_file(queue, n.id, 2, path));
    assert_non_null(strstr(path, "/content-0001.png"));
}

/* A seed is drawn before the job waits: whenever it runs, it makes the same. */
static void a_drawn_seed_is_kept(void **state)
{
    const job_name n = submit("{" IMAGE ", \"seed\": -1}");
    wait_for(&n, "completed");
    json_t *const    j = sg_job_queue_get(queue, n.id);
    const json_int_t asked = json_integer_value(json_object_get(json_object_get(j, "settings"), "seed"));
    assert_true(asked >= 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "made"), "seed")), asked);
    json_decref(j);
}

/* ---- what is said ---- */

static void expect_notices(const job_name *n, const char *const *beginnings)
{
    json_t *const j = sg_job_queue_get(queue, n->id), *const list = json_object_get(j, "notices");
    size_t i = 0;
    for (; beginnings[i]; i++) {
        const char *const text = json_string_value(json_array_get(list, i));
        if (!text || strncmp(text, beginnings[i], strlen(beginnings[i])) != 0 || strstr(text, "--"))
            fail_msg("%s: %s", beginnings[i], json_dumps(list, 0));
    }
    if (json_array_size(list) != i) fail_msg("%s", json_dumps(list, 0));
    json_decref(j);
}

/* They are there before the job runs and afterwards; a job that has none has an empty list, and so has the next. */
static void notices_come_with_a_job(void **state)
{
    static const char *const expected[] = {"size 65x80: 64x80, the nearest", "negative_prompt is ignored",
                                           "tiny-wan draws", "attention: dense", NULL};
    static const char *const opened[] = {"mini was opened in ", NULL}, *const none[] = {NULL};
    const job_name before = submit(LONG);
    const job_name n = submit("{\"prompt\": \"a purple zeppelin\", \"size\": \"65x80\", \"frames\": 1, \"steps\": 2, "
                              "\"cfg_scale\": 1, \"negative_prompt\": \"blur\", \"attention\": \"sparge\"}");
    const job_name bare = submit("{" IMAGE "}"), other = submit("{" IMAGE ", \"model\": \"mini\"}");
    expect_notices(&n, expected);
    expect_notices(&bare, none);
    assert_true(sg_job_queue_cancel(queue, before.id));
    wait_for(&other, "completed");
    expect_notices(&n, expected);
    expect_notices(&bare, none);
    expect_notices(&other, opened);
    stop();
    start();
    expect_notices(&n, expected);
    expect_notices(&other, opened);
}

/* ---- pictures, models ---- */

#define I2V                                                                                                            \
    "{\"model\": \"i2v\", \"prompt\": \"a cat\", \"size\": \"64x64\", \"frames\": 5, \"steps\": 1, \"cfg_scale\": 1, " \
    "\"output_format\": \"y4m\"}"

static void pictures_come_with_their_job(void **state)
{
    static const char *const pictures[] = {SG_PICTURES "/scene.png", SG_CORPUS "/image/base.jpg"};
    job_name                 n[2];
    for (int i = 0; i < 2; i++) {
        shell("cp %s upload", pictures[i]);
        n[i] = submit_with(I2V, "upload");
        assert_int_not_equal(access("upload", F_OK), 0);
    }
    for (int i = 0; i < 2; i++) {
        const char *const option[][2] = {{"prompt", "a cat"}, {"size", "64x64"},      {"frames", "5"}, {"steps", "1"},
                                         {"cfg-scale", "1"},  {"image", pictures[i]}, {NULL, NULL}};
        render("clip.y4m", SG_FIXTURES "/wan21_i2v", option);
        wait_for(&n[i], "completed");
        expect_file(&n[i], 0, "clip.y4m");
        unlink("clip.y4m");
    }
    assert_int_equal(times_opened(), 1);
}

static void loras_come_by_their_names(void **state)
{
    static const char *const option[][2] = {{"prompt", "a red ball"},
                                            {"size", "64x64"},
                                            {"frames", "1"},
                                            {"steps", "2"},
                                            {"lora", "loras/fast.safetensors:0.5"},
                                            {NULL, NULL}};
    assert_int_equal(symlink(SG_TINY_WAN "/fast.safetensors", "loras/fast.safetensors"), 0);
    const job_name with = submit("{" IMAGE ", \"lora\": [\"fast.safetensors:0.5\"]}"), without = submit("{" IMAGE "}");
    render("lora.png", NULL, option);
    wait_for(&with, "completed");
    wait_for(&without, "completed");
    expect_file(&with, 0, "lora.png");
    assert_int_equal(times_opened(), 2);
}

#define FROM_VIDEO                                                                                                     \
    "{\"prompt\": \"a red ball\", \"size\": \"48x64\", \"steps\": 4, \"strength\": 0.5, \"output_format\": \"y4m\", "  \
    "\"frames\": "

/* One that is too short, or damaged behind its beginning, does not wait. */
static void a_video_comes_with_its_job(void **state)
{
    static const char *const video[][2] = {
        {"prompt", "a blue box"}, {"size", "48x64"}, {"frames", "5"}, {"steps", "1"}, {NULL, NULL}};
    static const char *const from[][2] = {
        {"prompt", "a red ball"}, {"size", "48x64"},   {"frames", "5"}, {"steps", "4"},
        {"strength", "0.5"},      {"video", "in.y4m"}, {NULL, NULL}};
    static const struct {
        const char *settings, *bytes;
        int         verdict;
        const char *names;
    } upload[] = {{FROM_VIDEO "5}", "-0", SG_JOB_TAKEN, ""},
                  {FROM_VIDEO "9}", "-0", SG_JOB_INVALID, "video: makes 5|; frames 5"},
                  {FROM_VIDEO "5}", "-1", SG_JOB_INVALID, "video: Y4M|after 4"}};
    job_name n;
    render("in.y4m", NULL, video);
    render("out.y4m", NULL, from);
    for (int i = 0; i < 3; i++) {
        shell("head -c %s in.y4m >upload", upload[i].bytes);
        answered a = submit_file(upload[i].settings, (const char *const[SG_JOB_INPUTS]){[SG_JOB_VIDEO] = "upload"});
        assert_int_equal(a.verdict, upload[i].verdict);
        if (a.verdict == SG_JOB_TAKEN)
            memcpy(n.id, a.id, SG_JOB_ID);
        else
            assert_refused(a.e.code, SG_E_ARG, &a.e, upload[i].names);
    }
    wait_for(&n, "completed");
    expect_file(&n, 0, "out.y4m");
}

static void an_engine_is_opened_for_another_model_alone(void **state)
{
    static const char *const settings[] = {"{" IMAGE "}", "{" IMAGE ", \"model\": \"mini\"}",
                                           "{" IMAGE ", \"model\": \"mini\", \"seed\": 3}",
                                           "{" IMAGE ", \"model\": \"tiny-wan\"}", "{" IMAGE "}"};
    static const int         opened[] = {0, 1, 1, 2, 2};
    for (int i = 0; i < 5; i++) {
        const job_name n = submit(settings[i]);
        wait_for(&n, "completed");
        assert_int_equal(times_opened(), opened[i]);
    }
    json_t *const names = sg_job_runner_files(runner);
    assert_int_equal(json_array_size(json_object_get(names, "models")), 3);
    json_decref(names);
}

/* ---- refusals ---- */

static void what_cannot_be_done_does_not_wait(void **state)
{
    static const struct {
        const char    *settings;
        bool           upload;
        sg_job_verdict verdict;
        const char    *names;
    } refused[] = {
        {"{}", false, SG_JOB_INVALID, "prompt"},
        {"{\"prompt\": \"a\", \"size\": \"16384x16384\", \"frames\": 100001}", false, SG_JOB_INVALID, "frames"},
        {"{\"prompt\": \"a\", \"size\": \"65x65\", \"strict\": true}", false, SG_JOB_INVALID, "width"},
        {"{\"prompt\": \"a\", \"frames\": 9, \"seconds\": 1}", false, SG_JOB_INVALID, "frames|seconds"},
        {"{\"prompt\": \"a\", \"attention\": \"dense\", \"topk\": 0.5}", false, SG_JOB_INVALID, "topk|attention"},
        {"{\"prompt\": \"a\", \"fit\": \"pad\"}", false, SG_JOB_INVALID, "fit|image|video"},
        {"{\"prompt\": \"a\", \"output_format\": \"jpeg\"}", false, SG_JOB_INVALID, "output_format: .jpg"},
        {"{\"prompt\": \"a\", \"model\": \"none\"}", false, SG_JOB_INVALID, "model|none"},
        {"{\"prompt\": \"a\", \"lora\": [\"none\"]}", false, SG_JOB_INVALID, "lora|none"},
        {"{\"prompt\": \"a\", \"cfg_scale_2\": 3}", false, SG_JOB_INVALID, "cfg_scale_2"},
        {"{\"prompt\": \"a\", \"model\": \"i2v\"}", false, SG_JOB_INVALID, "image"},
        {"{\"prompt\": \"a\", \"model\": \"i2v\"}", true, SG_JOB_INVALID, "image|neither PNG"}};
    write_text("upload", "no picture");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        answered a = submit_file(refused[i].settings,
                                 refused[i].upload ? (const char *const[SG_JOB_INPUTS]){"upload"} : nothing);
        if (a.verdict != refused[i].verdict || strstr(a.e.text, "--") || strstr(a.e.text, "upload"))
            fail_msg("%s: %d, %s", refused[i].settings, a.verdict, a.e.text);
        assert_refused(a.e.code, SG_E_ARG, &a.e, refused[i].names);
        assert_string_equal(a.id, "");
    }
    assert_int_equal(access("upload", F_OK), 0);
    assert_int_equal(files_in("jobs"), 1);
    const job_name n = submit("{" IMAGE "}"); /* the engine is as usable as before */
    wait_for(&n, "completed");
}

static void what_does_not_fit_does_not_wait(void **state)
{
    stop();
    base.memory_limit = (size_t)1 << 28;
    start();
    answered a = submit_file("{\"prompt\": \"a\", \"size\": \"2048x2048\", \"frames\": 81, \"output_format\": \"y4m\"}",
                             nothing);
    assert_int_equal(a.verdict, SG_JOB_TOO_LARGE);
    assert_refused(a.e.code, SG_E_ARG, &a.e, "GiB");
    a = submit_file("{\"prompt\": \"a\", \"size\": \"256x256\", \"frames\": 1, \"batch\": 10000}", nothing);
    assert_int_equal(a.verdict, SG_JOB_TOO_LARGE); /* for the disk */
    assert_int_equal(files_in("jobs"), 1);
}

/* What the engine that renders has loaded is no reason to refuse: it makes room. */
static void plans_go_by_what_was_free_at_first(void **state)
{
    enum { LOADED = 64 << 20 };
    sg_job_engine x = {0}, renders = {0};
    sg_error      e = {0};
    sg_job_setup  own = {.base = &base, .files = {.models = "models", .usual = base.model, .usual_name = "tiny-wan"}};
    assert_done(sg_job_engine_open(&x, &own, &e), &e);
    assert_done(sg_job_engine_open(&renders, &own, &e), &e);
    sg_job_engine_plan_for(&x, &renders);
    const sg_plan first = renders.now.plan;
    char *const   loaded = malloc(LOADED);
    memset(loaded, 1, LOADED);
    for (int i = 0; i < 2; i++) { /* of the engine that was open, and of another one */
        json_t *const settings = json_loads(i ? "{" IMAGE ", \"model\": \"mini\"}" : "{" IMAGE "}", 0, NULL);
        assert_done(sg_job_engine_prepare(&x, settings, false, nothing, &e), &e);
        assert_int_equal(x.opened > 0, i);
        assert_int_equal(x.now.plan.available, first.available);
        assert_int_equal(x.now.plan.host_free, first.host_free);
        json_decref(settings);
    }
    assert_int_equal(x.asked.memory_limit, first.available); /* by which the other one planned, too */
    sg_job_engine_close(&x);
    sg_job_engine_close(&renders);
    free(loaded);
}

/* ---- ends ---- */

static void a_cancel_ends_the_render(void **state)
{
    char           folder[64];
    const job_name works = submit(LONG), waits = submit(LONG), next = submit("{" IMAGE "}");
    wait_for_step(&works);
    assert_true(sg_job_queue_cancel(queue, waits.id));
    assert_true(sg_job_queue_cancel(queue, works.id));
    wait_for(&works, "cancelled");
    wait_for(&waits, "cancelled");
    wait_for(&next, "completed");
    snprintf(folder, sizeof folder, "jobs/%s", works.id);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(times_opened(), 0);
}

/* At any moment, also between two clips of a job. */
static void no_cancel_is_lost(void **state)
{
    for (int i = 0; i < 10; i++) {
        const job_name n =
            submit("{\"prompt\": \"a\", \"size\": \"32x32\", \"frames\": 1, \"steps\": 1, \"batch\": 1000}");
        wait_for_step(&n);
        usleep((useconds_t)(i * 3100));
        assert_true(sg_job_queue_cancel(queue, n.id));
        wait_for(&n, "cancelled");
    }
}

static void a_stop_keeps_the_queue(void **state)
{
    const job_name works = submit(LONG), next = submit("{" IMAGE "}");
    wait_for_step(&works);
    stop();
    start();
    wait_for_step(&works); /* which comes first again */
    json_t *const j = sg_job_queue_get(queue, works.id);
    assert_int_equal(json_integer_value(json_object_get(j, "attempts")), 1);
    json_decref(j);
    assert_string_equal(status_of(&next), "queued");
    assert_true(sg_job_queue_delete(queue, works.id));
    wait_for(&next, "completed");
    assert_string_equal(status_of(&works), "none");
}

static void count_wake(void *context) { atomic_fetch_add((atomic_int *)context, 1); }

static void subscribers_see_a_render(void **state)
{
    atomic_int         woken = 0;
    sg_job_event       event;
    const job_name     before = submit(LONG), seen = submit("{" IMAGE "}");
    sg_job_subscriber *s = sg_job_events_subscribe(events, seen.id, count_wake, &woken);
    assert_true(sg_job_queue_cancel(queue, before.id));
    wait_for(&seen, "completed");
    assert_true(sg_job_events_next(s, &event) && event.kind == SG_JOB_EVENT_STATE);
    assert_true(sg_job_events_next(s, &event));
    assert_true(event.kind == SG_JOB_EVENT_PROGRESS && event.progress.stage == SG_STAGE_DECODE);
    assert_true(event.progress.done == event.progress.total && event.progress.left == 0);
    assert_true(sg_job_events_next(s, &event));
    assert_int_equal(event.kind, SG_JOB_EVENT_PREVIEW);
    assert_int_equal(event.picture->step, 1);
    assert_memory_equal(event.picture->png, "\x89PNG", 4);
    sg_job_picture_drop(event.picture);
    assert_true(atomic_load(&woken) > 4);
    sg_job_events_unsubscribe(&s);
}

enum { CLIENTS = 6, EACH = 2 };

static void *submit_some(void *context)
{
    job_name *const own = context;
    for (int i = 0; i < EACH; i++) {
        own[i] = submit("{" IMAGE "}");
        json_decref(sg_job_runner_options(runner));
    }
    return NULL;
}

static void clients_submit_at_once(void **state)
{
    pthread_t client[CLIENTS];
    job_name  n[CLIENTS][EACH];
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(pthread_create(&client[i], NULL, submit_some, n[i]), 0);
    for (int i = 0; i < CLIENTS; i++) pthread_join(client[i], NULL);
    for (int i = 0; i < CLIENTS * EACH; i++) wait_for(&n[i / EACH][i % EACH], "completed");
    assert_int_equal(sg_job_queue_counts(queue).kept[SG_JOB_COMPLETED], CLIENTS * EACH);
}

/* In a process of its own, which is killed at a step: the first submits the job, the next takes it up. */
static void work_until_killed(int to, bool first)
{
    start();
    if (first) submit(LONG);
    json_t *const list = sg_job_queue_list(queue, NULL, 1, false);
    job_name      n;
    snprintf(n.id, sizeof n.id, "%s", json_string_value(json_object_get(list, "first_id")));
    wait_for_step(&n);
    if (write(to, n.id, sizeof n.id) != (ssize_t)sizeof n.id) _exit(1);
    for (;;) pause();
}

static void a_killed_job_runs_again_twice(void **state)
{
    job_name works[3];
    for (int i = 0; i < 3; i++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        const pid_t child = fork();
        if (child == 0) work_until_killed(pipes[1], i == 0);
        close(pipes[1]);
        assert_int_equal(read(pipes[0], works[i].id, SG_JOB_ID), SG_JOB_ID);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(pipes[0]);
    }
    assert_string_equal(works[0].id, works[2].id);
    start();
    assert_string_equal(status_of(&works[0]), "failed");
    char folder[64];
    snprintf(folder, sizeof folder, "jobs/%s", works[0].id);
    assert_int_equal(files_in(folder), 1);
    const job_name next = submit("{" IMAGE "}");
    wait_for(&next, "completed");
}

/* ---- a device that fails: the system's random numbers do, and of these a job draws its seed ---- */

#define DRAWN "{" IMAGE ", \"seed\": -1}"

static atomic_bool fails; /* the next seed; the names of temporary files are drawn with a flag */

ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
    if (flags || bytes != sizeof(uint32_t) || !atomic_exchange(&fails, false))
        return syscall(SYS_getrandom, to, bytes, flags);
    errno = EIO;
    return -1;
}

/* A job that draws its seed only when it is rendered, and fails. */
static job_name submit_failing(void)
{
    job_name n;
    sg_job   job;
    sg_error e = {0};
    assert_done(sg_job_make(&job, json_loads(DRAWN, 0, NULL), json_array(), &e), &e);
    memcpy(n.id, job.id, sizeof n.id);
    atomic_store(&fails, true);
    assert_int_equal(sg_job_queue_add(queue, &job, nothing, &e), SG_JOB_TAKEN);
    return n;
}

static void a_device_that_fails_once_fails_one_job(void **state)
{
    sg_error       e = {0};
    const job_name n = submit_failing();
    wait_for(&n, "failed");
    const job_name next = submit("{" IMAGE "}");
    wait_for(&next, "completed");
    assert_done(sg_job_runner_check(runner, &e), &e);
}

/* With a model that can go. */
static void start_again(void)
{
    stop();
    assert_int_equal(symlink(SG_TINY_WAN, "usual"), 0);
    base.model = "usual";
    start();
}

static void wait_until_broken(void)
{
    sg_error e = {0};
    while (sg_job_runner_check(runner, &e) == SG_OK) usleep(1000);
    assert_refused(e.code, SG_E_DEVICE, &e, "does not open again|queue is kept|usual");
}

static void a_device_that_stays_broken_keeps_the_queue(void **state)
{
    start_again();
    unlink("usual");
    const job_name n = submit_failing();
    wait_until_broken();
    assert_string_equal(status_of(&n), "failed");
    const job_name next = submit("{" IMAGE "}");
    start_again();
    wait_for(&next, "completed");
}

/* Where no job runs that would meet it. */
static void a_broken_device_is_met_by_what_is_submitted(void **state)
{
    start_again();
    unlink("usual");
    atomic_store(&fails, true);
    const answered a = submit_file(DRAWN, nothing);
    assert_int_equal(a.verdict, SG_JOB_BROKEN);
    wait_until_broken();
}

static void what_comes_after_a_stop_is_refused(void **state)
{
    answered a;
    sg_job_queue_stop(queue);
    a = submit_file("{" IMAGE "}", nothing);
    assert_int_equal(a.verdict, SG_JOB_STOPPED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_killed_job_runs_again_twice, enter,
                                        close_all), /* first: no thread runs yet */
        TEST(results_are_those_of_the_command),
        TEST(a_batch_has_consecutive_seeds),
        TEST(a_drawn_seed_is_kept),
        TEST(notices_come_with_a_job),
        TEST(pictures_come_with_their_job),
        TEST(a_video_comes_with_its_job),
        TEST(loras_come_by_their_names),
        TEST(an_engine_is_opened_for_another_model_alone),
        TEST(what_cannot_be_done_does_not_wait),
        TEST(what_does_not_fit_does_not_wait),
        cmocka_unit_test_setup_teardown(plans_go_by_what_was_free_at_first, enter, close_all),
        TEST(subscribers_see_a_render),
        TEST(clients_submit_at_once),
        TEST(a_cancel_ends_the_render),
        TEST(no_cancel_is_lost),
        TEST(a_stop_keeps_the_queue),
        TEST(a_device_that_fails_once_fails_one_job),
        TEST(a_device_that_stays_broken_keeps_the_queue),
        TEST(a_broken_device_is_met_by_what_is_submitted),
        TEST(what_comes_after_a_stop_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
