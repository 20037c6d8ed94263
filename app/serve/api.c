/* api.c - see api.h. */
#include "api.h"
#include "base/file.h"
#include "base/json_input.h"
#include "base/number.h"
#include "base/path.h"
#include "base/text.h"
#include "base/thread.h"
#include "json_build.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BODY_VALUES = 10000 };

/* ---- what a request has ---- */

/* OpenAI's client gives the entries of a list a name of their own: "lora[]". */
static json_t *form_body(const sg_http_form *f)
{
    json_t *all = json_object();
    for (int i = 0; i < f->fields; i++) {
        char name[SG_HTTP_NAME];
        snprintf(name, sizeof name, "%s", f->field[i].name);
        char *const end = strstr(name, "[]");
        if (end && !end[2]) *end = '\0';
        json_t *const value = json_string(f->field[i].value.data), *const before = json_object_get(all, name);
        if (json_is_array(before))
            json_array_append_new(before, value);
        else
            sg_json_set(&all, name, before ? json_pack("[O, o]", before, value) : value);
    }
    return all;
}

json_t *sg_api_body(sg_http_request *r)
{
    json_t       *all = NULL;
    sg_json_fault fault;
    if (r->form) {
        all = form_body(r->form);
        if (!all) sg_http_answer_json(r, 500, NULL);
    } else if (sg_json_parse(&all, r->body, r->body_size, BODY_VALUES, 0, &fault) != SG_OK) {
        sg_http_answer_error(r, 400, NULL, "%s", fault.text);
        all = NULL;
    } else if (!json_is_object(all)) {
        json_decref(all);
        all = NULL;
        sg_http_answer_error(r, 400, NULL, "the body is no JSON object");
    }
    return all;
}

const char *sg_api_text(const json_t *object, const char *key)
{
    const char *const text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* False: it was refused. */
static bool no_integer(sg_http_request *r, const char *key, int lo, int hi)
{
    sg_http_answer_error(r, 400, key, "%s takes an integer from %d to %d", key, lo, hi);
    return false;
}

bool sg_api_integer(sg_http_request *r, const json_t *object, const char *key, int lo, int hi, int *out)
{
    const json_t *const v = json_object_get(object, key);
    const char *const   text = json_string_value(v);
    if (!v || json_is_null(v)) return true;
    if (text && sg_number_small(text, strlen(text), lo, hi, out)) return true;
    if (json_is_integer(v) && json_integer_value(v) >= lo && json_integer_value(v) <= hi) {
        *out = (int)json_integer_value(v);
        return true;
    }
    return no_integer(r, key, lo, hi);
}

bool sg_api_query(sg_http_request *r, const char *key, int lo, int hi, int *out)
{
    const char *const text = sg_http_target_value(&r->target, key);
    return !text || sg_number_small(text, strlen(text), lo, hi, out) || no_integer(r, key, lo, hi);
}

/* ---- what other programs send ---- */

json_t *sg_api_number(const sg_http_request *r, int v) { return r->form ? json_sprintf("%d", v) : json_integer(v); }

/* Drops members of servers of other models, of which the log names each once, and those that say nothing. */
static void drop_foreign(const sg_api *api, json_t *body)
{
    static const char *const foreign[] = {"background",
                                          "enable_teacache",
                                          "enhance_prompt",
                                          "generator_device",
                                          "input_fidelity",
                                          "moderation",
                                          "output_compression",
                                          "quality",
                                          "safety_identifier",
                                          "style",
                                          "user",
                                          NULL};
    static atomic_uint       logged; /* a bit of each */
    const char              *key;
    void                    *next;
    json_t                  *v;
    json_object_foreach_safe(body, next, key, v)
    {
        const int  i = sg_text_place(key, foreign);
        const bool empty = json_is_string(v) && !json_string_length(v) && !strstr(key, "prompt");
        if (foreign[i] && !(atomic_fetch_or(&logged, 1u << i) >> i & 1))
            sg_job_log_say(&api->log, "%s is ignored: it is a matter of other servers", key);
        if (foreign[i] || empty || json_is_null(v)) json_object_del(body, key);
    }
}

bool sg_api_take_foreign(sg_http_request *r, json_t *body)
{
    static const char *const counts[] = {"n", "num_outputs_per_prompt", NULL};
    int                      n = 0;
    drop_foreign(r->context, body);
    for (const char *const *key = counts; *key; key++) {
        if (!sg_api_integer(r, body, *key, 1, SG_API_RESULTS, &n)) return false;
        json_object_del(body, *key);
    }
    if (n) json_object_set_new(body, "batch", sg_api_number(r, n));
    return true;
}

/* ---- jobs ---- */

json_t *sg_api_job(sg_http_request *r)
{
    const sg_api *const api = r->context;
    json_t *const       job = sg_job_queue_get(api->queue, r->id);
    if (!job) sg_http_answer_error(r, 404, NULL, "there is no such job");
    return job;
}

bool sg_api_is(const json_t *job, sg_job_state state)
{
    return strcmp(sg_api_text(job, "status"), sg_job_states[state]) == 0;
}

bool sg_api_over(const json_t *job) { return !sg_api_is(job, SG_JOB_QUEUED) && !sg_api_is(job, SG_JOB_IN_PROGRESS); }

const char *sg_api_failure(const json_t *job)
{
    const char *const error = sg_api_text(job, "error");
    return *error ? error : "the job was cancelled";
}

const json_t *sg_api_settings(const json_t *job)
{
    const json_t *const made = json_object_get(job, "made");
    return json_is_object(made) ? made : json_object_get(job, "settings");
}

json_t *sg_api_size(const json_t *job)
{
    const json_t *const from = sg_api_settings(job);
    const int           width = (int)json_integer_value(json_object_get(from, "width"));
    const int           height = (int)json_integer_value(json_object_get(from, "height"));
    return width && height ? json_sprintf("%dx%d", width, height) : json_string("auto");
}

/* ---- results ---- */

json_t *sg_api_base64(const uint8_t *data, size_t bytes)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t      n = (bytes + 2) / 3 * 4;
    char *const       text = malloc(n + 1);
    for (size_t i = 0, at = 0; text && i < bytes; i += 3, at += 4) {
        const size_t   left = bytes - i;
        const unsigned v = (unsigned)data[i] << 16 | (left > 1 ? (unsigned)data[i + 1] << 8 : 0) |
                           (left > 2 ? (unsigned)data[i + 2] : 0);
        text[at] = digit[v >> 18];
        text[at + 1] = digit[v >> 12 & 63];
        text[at + 2] = left > 1 ? digit[v >> 6 & 63] : '=';
        text[at + 3] = left > 2 ? digit[v & 63] : '=';
    }
    json_t *const json = text ? json_stringn_nocheck(text, n) : NULL;
    free(text);
    return json;
}

json_t *sg_api_result(const sg_api *api, const char *id, size_t i)
{
    char   path[PATH_MAX];
    sg_map map = {0};
    if (!sg_job_queue_file(api->queue, id, i, path) || sg_map_open(&map, path, &(sg_error){0}) != SG_OK) return NULL;
    json_t *const text = sg_api_base64(map.data, map.size);
    sg_map_close(&map);
    return text;
}

void sg_api_content(sg_http_request *r, size_t i)
{
    static const char *const ending[] = {".mp4", ".mkv", ".webp", ".png", ".jpg", ".y4m", NULL};
    static const char *const type[] = {
        "video/mp4",        "video/x-matroska",        "image/webp", "image/png", "image/jpeg",
        "video/x-yuv4mpeg", "application/octet-stream"};
    const sg_api *const api = r->context;
    char                path[PATH_MAX], name[NAME_MAX + 32];
    if (!sg_job_queue_file(api->queue, r->id, i, path)) {
        sg_http_answer_error(r, 404, NULL, "there is no such result, or not yet");
        return;
    }
    snprintf(name, sizeof name, "inline; filename=\"%.8s-%s\"", r->id, sg_path_name(path));
    sg_http_header(r, "Content-Disposition", name);
    sg_http_answer_file(r, type[sg_text_place(sg_path_extension(path), ending)], path);
}

/* ---- jobs that are submitted ---- */

/* The member that a refusal is about. */
static const char *member_of(char room[64], const char *why)
{
    static const char unknown[] = "there is no member ";
    const bool        none = strncmp(why, unknown, sizeof unknown - 1) == 0;
    if (none) why += sizeof unknown - 1;
    const size_t n = strspn(why, "abcdefghijklmnopqrstuvwxyz0123456789_");
    const bool   named = none || why[n] == ':' || strncmp(why + n, " takes ", 7) == 0 ||
                       (why[n] == ' ' && sg_option_find(why, n, SG_COMMAND_RENDER));
    if (!n || n > 63 || !named) return NULL;
    snprintf(room, 64, "%.*s", (int)n, why);
    return room;
}

static void refuse(sg_http_request *r, sg_job_verdict verdict, const char *why)
{
    static const int status[] = {
        [SG_JOB_INVALID] = 400,   [SG_JOB_TOO_LARGE] = 413, [SG_JOB_QUEUE_FULL] = 429,
        [SG_JOB_DISK_FULL] = 507, [SG_JOB_BROKEN] = 500,    [SG_JOB_STOPPED] = 503,
    };
    char room[64];
    if (verdict == SG_JOB_QUEUE_FULL || verdict == SG_JOB_STOPPED) sg_http_header(r, "Retry-After", "10");
    sg_http_answer_error(r, status[verdict], member_of(room, why), "%s", why);
}

static void drop(sg_ask *a)
{
    sg_job_events_unsubscribe(&a->subscriber);
    free(a);
}

/* The job is over without a result, or was removed. Clients of OpenAI's send a request again after a 500, unless they
 * are asked not to. */
static void fail(sg_http_request *r, const json_t *job)
{
    sg_http_header(r, "X-Should-Retry", "false");
    sg_http_answer_error(r, 500, NULL, "%s", sg_api_failure(job));
}

/* The job is taken, or over. */
static void answer(sg_ask *a)
{
    json_t *const job = sg_job_queue_get(a->api->queue, a->id);
    if (job && (!a->wait || sg_api_is(job, SG_JOB_COMPLETED)))
        a->answer(a, job);
    else
        fail(a->request, job);
    json_decref(job);
    drop(a);
}

static void wake_waiter(void *context) { sem_post(&((sg_api *)context)->changed); }

static void on_verdict(void *context, sg_job_verdict verdict, const char *id, const char *why)
{
    sg_ask *const a = context;
    sg_api *const api = a->api;
    if (verdict != SG_JOB_TAKEN) {
        refuse(a->request, verdict, why);
        drop(a);
        return;
    }
    memcpy(a->id, id, SG_JOB_ID);
    if (!a->wait) {
        answer(a);
        return;
    }
    pthread_mutex_lock(&api->lock);
    a->subscriber = sg_job_events_subscribe(api->events, id, wake_waiter, api);
    a->next = api->waiting;
    api->waiting = a;
    pthread_mutex_unlock(&api->lock);
    wake_waiter(api); /* it may be over already */
}

void sg_api_submit(sg_http_request *r, const sg_ask *ask, json_t *settings, bool form,
                   const char *const upload[SG_JOB_INPUTS])
{
    sg_api *const api = r->context;
    sg_ask *const a = settings ? malloc(sizeof *a) : NULL;
    if (!a) {
        json_decref(settings);
        sg_http_answer_json(r, 500, NULL);
        return;
    }
    *a = *ask;
    a->api = api;
    a->request = r;
    sg_http_keep(r);
    sg_job_runner_submit(api->runner, settings, form, upload, on_verdict, a);
}

/* ---- what waits for their end ---- */

static bool is_over(sg_ask *a)
{
    json_t *const job = sg_job_queue_get(a->api->queue, a->id);
    const bool    over = !job || sg_api_over(job);
    json_decref(job);
    return over;
}

/* Takes one that can be answered, or whose client has gone, off the list. Locked. */
static sg_ask *take_ready(sg_api *api)
{
    for (sg_ask **at = &api->waiting; *at; at = &(*at)->next) {
        sg_ask *const a = *at;
        a->over = is_over(a);
        if (!a->over && !sg_http_gone(a->request)) continue;
        *at = a->next;
        return a;
    }
    return NULL;
}

static void *wait_all(void *context)
{
    sg_api *const api = context;
    for (bool stopped = false; !stopped;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++; /* nobody tells that a client has gone */
        if (sem_timedwait(&api->changed, &until) == 0)
            while (sem_trywait(&api->changed) == 0) {
            }
        pthread_mutex_lock(&api->lock);
        sg_ask *const a = take_ready(api);
        stopped = api->stopped;
        pthread_mutex_unlock(&api->lock);
        if (!a) continue;
        if (!a->over) sg_job_queue_cancel(api->queue, a->id);
        answer(a);
        wake_waiter(api); /* there may be more */
    }
    return NULL;
}

sg_status sg_api_open(sg_api *api, sg_error *e)
{
    sem_init(&api->changed, 0, 0);
    pthread_mutex_init(&api->lock, NULL);
    return sg_thread_start(&api->waiter, wait_all, api) == 0 ? SG_OK : sg_error_memory(e, "a thread");
}

void sg_api_close(sg_api *api)
{
    pthread_mutex_lock(&api->lock);
    api->stopped = true;
    pthread_mutex_unlock(&api->lock);
    wake_waiter(api);
    pthread_join(api->waiter, NULL);
    for (sg_ask *a; (a = api->waiting) != NULL;) {
        api->waiting = a->next;
        sg_job_queue_cancel(api->queue, a->id); /* after a restart nobody waits for it */
        sg_http_answer_error(a->request, 503, NULL, "the server stops");
        drop(a);
    }
    pthread_mutex_destroy(&api->lock);
    sem_destroy(&api->changed);
}

/* ---- streams of events ---- */

bool sg_api_event(sg_ask *a, const char *name, json_t *json)
{
    char *const text = json ? sg_json_text(json, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    const bool  sent = text && sg_http_stream_event(a->stream, name, text);
    json_decref(json);
    free(text);
    return sent;
}

static void on_more(void *context)
{
    sg_ask *const a = context;
    pthread_mutex_lock(&a->api->lock);
    if (a->stream && (!a->subscriber || !a->more(a))) sg_http_stream_end(&a->stream);
    pthread_mutex_unlock(&a->api->lock);
}

static void on_gone(void *context)
{
    sg_ask *const a = context;
    pthread_mutex_lock(&a->api->lock);
    sg_job_events_unsubscribe(&a->subscriber);
    sg_http_stream_end(&a->stream);
    pthread_mutex_unlock(&a->api->lock);
    if (a->cancels && !a->over) sg_job_queue_cancel(a->api->queue, a->id);
    free(a);
}

static void wake_stream(void *context) { sg_http_stream_wake(context); }

void sg_api_stream(sg_http_request *r, const sg_ask *ask, const char *id)
{
    sg_api *const        api = r->context;
    sg_ask *const        a = malloc(sizeof *a);
    const sg_http_source source = {on_more, on_gone, a};
    if (!a) {
        sg_http_answer_json(r, 500, NULL);
        return;
    }
    *a = *ask;
    a->api = api;
    a->subscriber = NULL;
    snprintf(a->id, sizeof a->id, "%s", id);
    pthread_mutex_lock(&api->lock); /* so that the source is asked only afterwards */
    a->stream = sg_http_answer_stream(r, &source);
    const bool taken = a->stream != NULL;
    if (taken) a->subscriber = sg_job_events_subscribe(api->events, a->id, wake_stream, a->stream);
    pthread_mutex_unlock(&api->lock);
    if (taken) return;
    if (a->cancels) sg_job_queue_cancel(api->queue, a->id);
    free(a);
}
