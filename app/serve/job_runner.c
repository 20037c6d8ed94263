/* job_runner.c - see job_runner.h. */
#include "job_runner.h"
#include "base/clock.h"
#include "base/image.h"
#include "base/path.h"
#include "base/thread.h"
#include "json_build.h"
#include "progress.h"
#include "report.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_BETWEEN_TENSORS 0.1 /* of a model that is loaded, which are many */

typedef struct submission {
    struct submission *next;
    json_t            *settings;
    bool               form;
    char              *upload[SG_JOB_INPUTS];
    sg_job_answer     *answer;
    void              *context;
} submission;

struct sg_job_runner {
    const sg_job_setup *setup;
    sg_job_queue       *queue;
    sg_job_events      *events;
    sg_job_engine       checks, renders; /* each of its thread */
    json_t             *options;
    bool                has_checker, has_worker;
    pthread_t           checker, worker;

    /* of the job at work: the worker's */
    sg_job      job;
    sg_progress progress;
    double      start, shown; /* when it began; when progress was last passed on */
    atomic_bool ends;         /* at its next step, if the engine has not ended it within one */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t  changed;
    submission     *first, **last;
    bool            stopped;
    const char     *rendered; /* the job that renders; NULL: none does, and who cancels tells the queue alone */
    sg_error        broken;   /* why no job begins any more */
};

/* ---- a device that fails ---- */

/* Opens an engine anew whose device failed. */
static void renew(sg_job_runner *r, sg_job_engine *x)
{
    sg_error why = {0};
    sg_job_engine_close(x);
    if (sg_job_engine_open(x, r->setup, &why) == SG_OK) return;
    pthread_mutex_lock(&r->mutex);
    sg_error_set(&r->broken, SG_E_DEVICE, "the device failed and does not open again; the queue is kept: %s", why.text);
    pthread_mutex_unlock(&r->mutex);
}

sg_status sg_job_runner_check(sg_job_runner *r, sg_error *e)
{
    pthread_mutex_lock(&r->mutex);
    const sg_status status = sg_error_copy(e, &r->broken);
    pthread_mutex_unlock(&r->mutex);
    return status;
}

/* ---- what is submitted ---- */

static void answer(submission *s, sg_job_verdict verdict, const char *id, const char *why)
{
    s->answer(s->context, verdict, id, why);
    json_decref(s->settings);
    for (int i = 0; i < SG_JOB_INPUTS; i++) free(s->upload[i]);
    free(s);
}

void sg_job_runner_submit(sg_job_runner *r, json_t *settings, bool form, const char *const upload[SG_JOB_INPUTS],
                          sg_job_answer *to, void *context)
{
    submission *const s = calloc(1, sizeof *s);
    bool              whole = s && settings;
    if (s) *s = (submission){.settings = settings, .form = form, .answer = to, .context = context};
    for (int i = 0; s && i < SG_JOB_INPUTS; i++)
        whole = (!upload[i] || (s->upload[i] = strdup(upload[i])) != NULL) && whole;
    if (!s) {
        json_decref(settings);
        to(context, SG_JOB_BROKEN, NULL, "out of memory");
        return;
    }
    pthread_mutex_lock(&r->mutex);
    const bool stopped = r->stopped;
    if (!stopped && whole) {
        *r->last = s;
        r->last = &s->next;
        pthread_cond_signal(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    if (stopped || !whole)
        answer(s, stopped ? SG_JOB_STOPPED : SG_JOB_BROKEN, NULL, stopped ? "the server stops" : "out of memory");
}

/* Members that are no options as the command has them; the first are what an engine is opened with. */
enum { OPENED = 3, NAMED };
static const char *const named[] = {"model", "lora", "high_noise_lora", "output_format"};

/* What is kept of what was asked: by options' own names, and with the seed that was drawn. */
static json_t *kept_settings(const sg_job_runner *r, const json_t *asked)
{
    sg_settings s = r->checks.asked;
    s.seed = r->checks.now.settings.seed;
    json_t *j = sg_serve_options_json(&s);
    for (int i = 0; i < NAMED; i++) {
        json_t *const v = json_object_get(asked, named[i]);
        if (v) sg_json_set(&j, named[i], json_deep_copy(v));
    }
    return j;
}

static sg_job_verdict verdict_of(const sg_job_runner *r, const submission *s, sg_status status)
{
    bool own_model = r->checks.opening;
    for (int i = 0; i < OPENED; i++) own_model = own_model && !json_object_get(s->settings, named[i]);
    if (status == SG_E_MEMORY) return SG_JOB_TOO_LARGE;
    if (status == SG_E_CANCELLED) return SG_JOB_STOPPED;
    return status == SG_E_DEVICE || (own_model && status != SG_E_ARG) ? SG_JOB_BROKEN : SG_JOB_INVALID;
}

/* Of all its clips, if nothing of them can be compressed. */
static int64_t bytes_of(const sg_job_engine *x)
{
    const sg_request *const r = &x->now.request;
    return (int64_t)sg_image_bytes(r->width, r->height) * r->frames * sg_job_engine_batch(x);
}

static sg_job_verdict make_job(sg_job_runner *r, const submission *s, char id[SG_JOB_ID], sg_error *e)
{
    const char *const upload[SG_JOB_INPUTS] = {s->upload[0], s->upload[1], s->upload[2]};
    sg_job            job;
    sg_job_verdict    verdict = sg_job_queue_room(r->queue, 0, e); /* before there is work */
    if (verdict != SG_JOB_TAKEN) return verdict;
    sg_status status = sg_job_engine_prepare(&r->checks, s->settings, s->form, upload, e);
    if (status == SG_OK) status = sg_job_engine_check_video(&r->checks, e);
    if (status != SG_OK) {
        verdict = verdict_of(r, s, status);
        if (status == SG_E_DEVICE) renew(r, &r->checks);
        return verdict;
    }
    verdict = sg_job_queue_room(r->queue, bytes_of(&r->checks), e);
    if (verdict != SG_JOB_TAKEN) return verdict;
    if (sg_job_make(&job, kept_settings(r, s->settings), sg_job_engine_notices(&r->checks), e) == SG_OK) {
        memcpy(id, job.id, SG_JOB_ID);
        return sg_job_queue_add(r->queue, &job, upload, e);
    }
    sg_job_close(&job);
    return SG_JOB_BROKEN;
}

static void check(sg_job_runner *r, submission *s)
{
    sg_error             e = {0};
    char                 id[SG_JOB_ID];
    const sg_job_verdict verdict = make_job(r, s, id, &e);
    sg_session_close_inputs(&r->checks.session);
    answer(s, verdict, verdict == SG_JOB_TAKEN ? id : NULL, e.text);
}

static void *check_all(void *context)
{
    sg_job_runner *const r = context;
    pthread_mutex_lock(&r->mutex);
    for (;;) {
        while (!r->first && !r->stopped) pthread_cond_wait(&r->changed, &r->mutex);
        submission *const s = r->first;
        if (!s) break;
        r->first = s->next;
        if (!r->first) r->last = &r->first;
        const bool stopped = r->stopped;
        pthread_mutex_unlock(&r->mutex);
        if (stopped)
            answer(s, SG_JOB_STOPPED, NULL, "the server stops");
        else
            check(r, s);
        pthread_mutex_lock(&r->mutex);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

/* ---- what is rendered ---- */

/* Whoever cancels afterwards meets this job; who did before is seen here. */
static bool begin(sg_job_runner *r)
{
    pthread_mutex_lock(&r->mutex);
    const bool ends = r->stopped || sg_job_queue_cancelled(r->queue, r->job.id);
    r->rendered = ends ? NULL : r->job.id;
    atomic_store(&r->ends, ends);
    pthread_mutex_unlock(&r->mutex);
    return !ends;
}

/* The mutex is held. What the engine gets while it is between a plan and a render is lost to it. */
static void end_render(sg_job_runner *r)
{
    atomic_store(&r->ends, true);
    sg_engine_cancel(r->renders.session.engine, true);
}

static bool finish(sg_job_runner *r)
{
    pthread_mutex_lock(&r->mutex);
    if (r->rendered) sg_engine_cancel(r->renders.session.engine, false); /* what came too late is not the next job's */
    r->rendered = NULL;
    const bool stopped = r->stopped;
    pthread_mutex_unlock(&r->mutex);
    return stopped;
}

static void cancel(void *context, const char *id)
{
    sg_job_runner *const r = context;
    pthread_mutex_lock(&r->mutex);
    if (r->rendered && strcmp(r->rendered, id) == 0) end_render(r);
    pthread_mutex_unlock(&r->mutex);
}

static void take_progress(sg_job_runner *r, int stage, int done, int total)
{
    const double now = sg_seconds();
    if (total < 1) return;
    const bool due = done == 0 || done == total || stage != SG_STAGE_LOAD || now - r->shown > SECONDS_BETWEEN_TENSORS;
    sg_progress_take(&r->progress, stage, done, total);
    if (!due) return;
    r->shown = now;
    const sg_job_progress p = {stage, done, total, now - r->start, sg_progress_left(&r->progress)};
    sg_job_queue_progress(r->queue, r->job.id, &p);
}

static int on_progress(void *context, int stage, int done, int total)
{
    sg_job_runner *const r = context;
    take_progress(r, stage, done, total);
    return atomic_load(&r->ends);
}

static void on_preview(void *context, int step, const uint8_t *rgb, const int size[3])
{
    const sg_job_runner *const r = context;
    if (sg_job_events_watched(r->events, r->job.id))
        sg_job_events_preview(r->events, r->job.id, step, rgb, size[0], size[1], size[2]);
}

/* What a model costs that was not open. */
static void say_opened(sg_job_runner *r, const sg_report *report)
{
    char text[NAME_MAX + 64];
    if (!(r->renders.opened > 0)) return;
    snprintf(text, sizeof text, "%s was opened in %.1f s and loaded in %.1f s", sg_job_engine_model(&r->renders),
             r->renders.opened, report->seconds[SG_STAGE_LOAD]);
    sg_job_log_say(&r->setup->log, "job %s: %s", r->job.id, text);
    sg_json_append(&r->job.notices, sg_report_name(text));
}

static sg_status render(sg_job_runner *r, sg_error *e)
{
    char                 folder[PATH_MAX], path[SG_JOB_INPUTS][PATH_MAX];
    const char          *input[SG_JOB_INPUTS] = {NULL};
    const sg_job_watch   watch = {r, on_progress, on_preview};
    sg_job_engine *const x = &r->renders;
    SG_TRY(sg_job_queue_folder(r->queue, r->job.id, folder, e));
    for (int i = 0; i < SG_JOB_INPUTS; i++) {
        SG_TRY(sg_path_join(path[i], PATH_MAX, folder, sg_job_inputs[i], e));
        if (r->job.inputs >> i & 1) input[i] = path[i];
    }
    SG_TRY(sg_job_engine_prepare(x, r->job.settings, false, input, e));
    r->job.notices = sg_job_engine_notices(x);
    if (!begin(r)) return sg_error_set(e, SG_E_CANCELLED, "cancelled");
    const int batch = sg_job_engine_batch(x);
    for (int i = 0; i < batch; i++) {
        sg_report report = {.size = sizeof report};
        json_t   *file = NULL;
        sg_progress_render(&r->progress, i, batch, &x->now.plan);
        SG_TRY(sg_job_engine_render(x, i, folder, &watch, &file, i ? NULL : &r->job.made, &report, e));
        sg_json_append(&r->job.files, file);
        if (i == 0) say_opened(r, &report);
    }
    return r->job.files ? SG_OK : sg_error_memory(e, folder);
}

static sg_job_state state_of(const sg_job_runner *r, sg_status status, bool stopped)
{
    if (status == SG_OK) return SG_JOB_COMPLETED;
    if (sg_job_queue_cancelled(r->queue, r->job.id)) return SG_JOB_CANCELLED;
    return status == SG_E_CANCELLED || stopped ? SG_JOB_QUEUED : SG_JOB_FAILED;
}

static void serve(sg_job_runner *r)
{
    sg_error      e = {0};
    sg_job *const j = &r->job;
    r->start = sg_seconds();
    r->shown = 0;
    sg_progress_init(&r->progress, true);
    const sg_status status = render(r, &e);
    sg_session_close_inputs(&r->renders.session);
    j->state = state_of(r, status, finish(r));
    const bool failed = j->state == SG_JOB_FAILED;
    if (failed) j->error = strdup(e.text);
    sg_job_log_say(&r->setup->log, "job %s %s in %.1f s%s%s", j->id, sg_job_states[j->state], sg_seconds() - r->start,
                   failed ? ": " : "", failed ? e.text : "");
    sg_job_queue_finish(r->queue, j);
    if (status == SG_E_DEVICE) renew(r, &r->renders);
}

static void *serve_all(void *context)
{
    sg_job_runner *const r = context;
    bool                 more = true;
    while (more && sg_job_queue_next(r->queue, &r->job)) {
        serve(r);
        /* readers of videos may hear of a signal before the queue does */
        more = r->job.state != SG_JOB_QUEUED && sg_job_runner_check(r, NULL) == SG_OK;
        sg_job_close(&r->job);
    }
    return NULL;
}

/* ---- the whole ---- */

static sg_status start(sg_job_runner *r, sg_job_setup *setup, sg_error *e)
{
    setup->files.usual = setup->base->model;
    SG_TRY(sg_job_engine_open(&r->checks, setup, e));
    snprintf(setup->files.usual_name, sizeof setup->files.usual_name, "%s", sg_job_engine_model(&r->checks));
    r->options = sg_serve_options_list(&r->checks.now.settings);
    if (!r->options) return sg_error_memory(e, "options");
    SG_TRY(sg_job_engine_open(&r->renders, setup, e));
    sg_job_engine_plan_for(&r->checks, &r->renders);
    sg_job_queue_on_cancel(r->queue, cancel, r);
    r->has_checker = sg_thread_start(&r->checker, check_all, r) == 0;
    r->has_worker = r->has_checker && sg_thread_start(&r->worker, serve_all, r) == 0;
    return r->has_worker ? SG_OK : sg_error_set(e, SG_E_MEMORY, "no thread for jobs");
}

sg_status sg_job_runner_open(sg_job_runner **out, sg_job_setup *setup, sg_job_queue *queue, sg_job_events *events,
                             sg_error *e)
{
    sg_job_runner *const r = *out = calloc(1, sizeof *r);
    if (!r) return sg_error_memory(e, "jobs");
    r->setup = setup;
    r->queue = queue;
    r->events = events;
    r->last = &r->first;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    const sg_status status = start(r, setup, e);
    if (status != SG_OK) sg_job_runner_close(out);
    return status;
}

json_t *sg_job_runner_options(const sg_job_runner *r) { return json_deep_copy(r->options); }

json_t *sg_job_runner_files(const sg_job_runner *r) { return sg_served_list(&r->setup->files); }

void sg_job_runner_close(sg_job_runner **runner)
{
    sg_job_runner *const r = *runner;
    if (!r) return;
    sg_job_queue_stop(r->queue);
    pthread_mutex_lock(&r->mutex);
    r->stopped = true;
    if (r->rendered) end_render(r);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    if (r->has_checker) pthread_join(r->checker, NULL);
    if (r->has_worker) pthread_join(r->worker, NULL);
    sg_job_queue_on_cancel(r->queue, NULL, NULL);
    sg_job_engine_close(&r->checks);
    sg_job_engine_close(&r->renders);
    json_decref(r->options);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    free(r);
    *runner = NULL;
}
