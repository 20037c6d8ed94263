/* api_jobs.c - /jobs, which is the program's own API, and what the server tells of itself. */
#include "api.h"
#include "base/text.h"
#include "json_build.h"

#include <stdlib.h>
#include <string.h>

/* ---- what can be asked for ---- */

void sg_api_options(sg_http_request *r)
{
    const sg_api *const api = r->context;
    json_t             *all = json_object(), *inputs = json_array();
    for (const char *const *name = sg_job_inputs; *name; name++) sg_json_append(&inputs, json_string(*name));
    sg_json_set(&all, "options", sg_job_runner_options(api->runner));
    sg_json_set(&all, "inputs", inputs);
    sg_json_join(&all, sg_job_runner_files(api->runner));
    sg_http_answer_json(r, 200, all);
}

/* ---- jobs ---- */

static void answer_taken(sg_ask *a, const json_t *job)
{
    char path[SG_JOB_ID + 8];
    snprintf(path, sizeof path, "/jobs/%s", a->id);
    sg_http_header(a->request, "Location", path);
    sg_http_answer_json(a->request, 202, json_deep_copy(job));
}

/* Puts the paths of uploads under the names of inputs. False: one has no such name, which is answered. */
static bool take_uploads(sg_http_request *r, const char *upload[SG_JOB_INPUTS])
{
    for (int i = 0; r->form && i < r->form->uploads; i++) {
        const sg_http_upload *const u = &r->form->upload[i];
        const int                   place = sg_text_place(u->name, sg_job_inputs);
        if (place == SG_JOB_INPUTS || upload[place]) {
            sg_http_answer_error(r, 400, u->name, "%s: %s", u->name,
                                 place == SG_JOB_INPUTS ? "a job has no such file" : "one file is enough");
            return false;
        }
        upload[place] = u->path;
    }
    return true;
}

void sg_api_jobs_post(sg_http_request *r)
{
    const char   *upload[SG_JOB_INPUTS] = {NULL};
    const sg_ask  ask = {.answer = answer_taken};
    json_t *const settings = sg_api_body(r);
    if (!settings) return;
    if (take_uploads(r, upload))
        sg_api_submit(r, &ask, settings, r->form != NULL, upload);
    else
        json_decref(settings);
}

json_t *sg_api_list(sg_http_request *r)
{
    enum { MOST = 100, USUAL = 20 };
    const sg_api *const api = r->context;
    const char *const   order = sg_http_target_value(&r->target, "order");
    int                 most = USUAL;
    if (!sg_api_query(r, "limit", 1, MOST, &most)) return NULL;
    json_t *const list = sg_job_queue_list(api->queue, sg_http_target_value(&r->target, "after"), most,
                                           !order || strcmp(order, "asc") != 0);
    if (!list) sg_http_answer_json(r, 500, NULL);
    return list;
}

void sg_api_jobs(sg_http_request *r)
{
    json_t *const list = sg_api_list(r);
    if (list) sg_http_answer_json(r, 200, list);
}

void sg_api_job_get(sg_http_request *r)
{
    json_t *const job = sg_api_job(r);
    if (job) sg_http_answer_json(r, 200, job);
}

void sg_api_delete(sg_http_request *r, const char *object)
{
    const sg_api *const api = r->context;
    if (sg_job_queue_delete(api->queue, r->id))
        sg_http_answer_json(r, 200, json_pack("{s:s, s:s, s:b}", "id", r->id, "object", object, "deleted", 1));
    else
        sg_http_answer_error(r, 404, NULL, "there is no such job");
}

void sg_api_job_delete(sg_http_request *r) { sg_api_delete(r, "job"); }

void sg_api_job_content(sg_http_request *r)
{
    int i = 0;
    if (sg_api_query(r, "index", 0, 9999, &i)) sg_api_content(r, (size_t)i);
}

/* What was uploaded is somebody's bytes: a browser may keep them, but is not to show them as what they claim to be. */
void sg_api_job_input(sg_http_request *r)
{
    const sg_api *const api = r->context;
    const char *const   name = strrchr(r->target.path, '/') + 1;
    char                path[PATH_MAX];
    if (sg_job_queue_input(api->queue, r->id, sg_text_place(name, sg_job_inputs), path)) {
        sg_http_header(r, "Content-Disposition", "attachment");
        sg_http_answer_file(r, "application/octet-stream", path);
    } else {
        sg_http_answer_error(r, 404, NULL, "there is no such upload");
    }
}

/* ---- events ---- */

static bool send_job(sg_ask *a)
{
    json_t *const job = sg_job_queue_get(a->api->queue, a->id);
    if (!job) return false;
    a->over = sg_api_over(job);
    return sg_api_event(a, "job", job);
}

static bool more_events(sg_ask *a)
{
    sg_job_event v;
    if (a->over) return false;
    if (a->index++ == 0) return send_job(a);
    if (!sg_job_events_next(a->subscriber, &v)) return true;
    if (v.kind == SG_JOB_EVENT_STATE) return send_job(a);
    if (v.kind == SG_JOB_EVENT_PROGRESS) return sg_api_event(a, "progress", sg_job_progress_json(&v.progress));
    const bool sent = sg_api_event(a, "preview",
                                   json_pack("{s:i, s:i, s:o}", "step", v.picture->step, "frames", v.picture->frames,
                                             "b64_json", sg_api_base64(v.picture->png, v.picture->bytes)));
    sg_job_picture_drop(v.picture);
    return sent;
}

void sg_api_job_events(sg_http_request *r)
{
    const sg_ask  ask = {.more = more_events};
    json_t *const job = sg_api_job(r);
    if (job) sg_api_stream(r, &ask, r->id);
    json_decref(job);
}

/* ---- the server ---- */

void sg_api_health(sg_http_request *r) { sg_http_answer_json(r, 200, json_pack("{s:s}", "status", "ok")); }

/* The head of a metric of Prometheus. */
static void put_metric(sg_textbuf *t, const char *name, const char *kind, const char *help)
{
    sg_textbuf_printf(t, "# HELP sparge_gen_%s %s\n# TYPE sparge_gen_%s %s\n", name, help, name, kind);
}

static void put_jobs(sg_textbuf *t, const sg_job_counts *counts)
{
    put_metric(t, "jobs", "gauge", "jobs that are kept");
    for (int i = 0; sg_job_states[i]; i++)
        sg_textbuf_printf(t, "sparge_gen_jobs{status=\"%s\"} %d\n", sg_job_states[i], counts->kept[i]);
    put_metric(t, "jobs_ended_total", "counter", "jobs that ended since the start");
    for (int i = SG_JOB_COMPLETED; sg_job_states[i]; i++)
        sg_textbuf_printf(t, "sparge_gen_jobs_ended_total{status=\"%s\"} %lld\n", sg_job_states[i], counts->ended[i]);
    put_metric(t, "work_seconds_total", "counter", "seconds in which jobs were at work");
    sg_textbuf_printf(t, "sparge_gen_work_seconds_total %.3f\n", counts->seconds);
}

void sg_api_metrics(sg_http_request *r)
{
    const sg_api *const  api = r->context;
    const sg_http_counts counts = api->server ? sg_http_server_counts(api->server) : (sg_http_counts){0};
    const sg_job_counts  jobs = sg_job_queue_counts(api->queue);
    const struct {
        const char *name, *kind, *help;
        long long   value;
    } row[] = {{"http_requests_total", "counter", "requests", counts.requests},
               {"http_refused_total", "counter", "answers of 400 and above", counts.refused},
               {"http_late_total", "counter", "connections ended by a deadline", counts.late},
               {"http_connections", "gauge", "open connections", counts.connections},
               {"http_streams", "gauge", "open streams of events", counts.streams}};
    sg_textbuf text = {0};
    put_jobs(&text, &jobs);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        put_metric(&text, row[i].name, row[i].kind, row[i].help);
        sg_textbuf_printf(&text, "sparge_gen_%s %lld\n", row[i].name, row[i].value);
    }
    if (text.failed) {
        sg_textbuf_free(&text);
        sg_http_answer_json(r, 500, NULL);
    } else {
        sg_http_answer(r, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len);
    }
}
