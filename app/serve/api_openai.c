/* api_openai.c - OpenAI's images and models (platform.openai.com/docs/api-reference/images): what its clients send and
 * expect. Beside OpenAI's members a request may have those of a job. */
#include "api.h"
#include "base/text.h"
#include "json_build.h"

#include <string.h>

enum { PARTIAL_MOST = 3 };

void sg_api_models(sg_http_request *r)
{
    const sg_api *const api = r->context;
    json_t *const       files = sg_job_runner_files(api->runner);
    json_t             *data = json_array(), *name;
    size_t              i;
    json_array_foreach(json_object_get(files, "models"), i, name)
        sg_json_append(&data, json_pack("{s:O, s:s, s:i, s:s}", "id", name, "object", "model", "created", 0, "owned_by",
                                        "sparge-gen"));
    json_decref(files);
    sg_http_answer_json(r, 200, json_pack("{s:s, s:o}", "object", "list", "data", data));
}

/* ---- what comes of it ---- */

static const char *format_of(const json_t *job)
{
    const char *const format = sg_api_text(json_object_get(job, "settings"), "output_format");
    return strcmp(format, "jpg") == 0 ? "jpeg" : format;
}

static json_t *result(const sg_ask *a, size_t i)
{
    if (!a->url) return json_pack("{s:o}", "b64_json", sg_api_result(a->api, a->id, i));
    return json_pack("{s:o}", "url",
                     json_sprintf("%s://%s/jobs/%s/content?index=%zu", sg_http_scheme(a->request),
                                  sg_http_host(a->request), a->id, i));
}

static void answer_images(sg_ask *a, const json_t *job)
{
    const size_t n = json_array_size(json_object_get(job, "files"));
    json_t      *data = json_array();
    for (size_t i = 0; i < n; i++) sg_json_append(&data, result(a, i));
    sg_http_answer_json(a->request, 200,
                        json_pack("{s:O, s:o, s:s, s:o}", "created", json_object_get(job, "finished_at"), "data", data,
                                  "output_format", format_of(job), "size", sg_api_size(job)));
}

/* ---- the same as events ---- */

/* partial: which of the previews it is, which are PNG; -1: none, but a result. */
static bool send_image(sg_ask *a, json_t *picture, const json_t *job, int partial)
{
    char type[48];
    snprintf(type, sizeof type, "%s.%s", a->edit ? "image_edit" : "image_generation",
             partial < 0 ? "completed" : "partial_image");
    json_t *v = json_pack("{s:s, s:o, s:O, s:s, s:o, s:s, s:s}", "type", type, "b64_json", picture, "created_at",
                          json_object_get(job, "created_at"), "output_format", partial < 0 ? format_of(job) : "png",
                          "size", sg_api_size(job), "quality", "auto", "background", "opaque");
    if (partial < 0) /* its readers expect it; there are no tokens */
        sg_json_set(&v, "usage",
                    json_pack("{s:i, s:i, s:i, s:{s:i, s:i}}", "input_tokens", 0, "output_tokens", 0, "total_tokens", 0,
                              "input_tokens_details", "image_tokens", 0, "text_tokens", 0));
    else
        sg_json_set(&v, "partial_image_index", json_integer(partial));
    return sg_api_event(a, type, v);
}

static bool send_failure(sg_ask *a, const json_t *job)
{
    a->over = true;
    return sg_api_event(a, "error",
                        json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "message", sg_api_failure(job),
                                  "type", "server_error"));
}

/* One result after another. job is NULL where it was removed. */
static bool send_results(sg_ask *a, const json_t *job)
{
    const size_t n = json_array_size(json_object_get(job, "files"));
    if (!sg_api_is(job, SG_JOB_COMPLETED)) return send_failure(a, job);
    const size_t i = (size_t)a->index++;
    a->over = i + 1 >= n;
    return send_image(a, sg_api_result(a->api, a->id, i), job, -1);
}

static bool more_images(sg_ask *a)
{
    sg_job_event v;
    bool         more = true, any;
    if (a->over) return false;
    json_t *const job = sg_job_queue_get(a->api->queue, a->id);
    if (!job || sg_api_over(job)) {
        more = send_results(a, job);
    } else {
        do any = sg_job_events_next(a->subscriber, &v);
        while (any && v.kind != SG_JOB_EVENT_PREVIEW);
        if (any && a->partial > a->sent)
            more = send_image(a, sg_api_base64(v.picture->png, v.picture->bytes), job, a->sent++);
        if (any) sg_job_picture_drop(v.picture);
    }
    json_decref(job);
    return more;
}

static void answer_stream(sg_ask *a, const json_t *job)
{
    (void)job;
    sg_api_stream(a->request, a, a->id);
}

/* ---- what is asked for ---- */

/* Takes out of the body what is OpenAI's; what is left is a job's. False: it was refused. */
static bool take_members(sg_http_request *r, json_t *body, sg_ask *a)
{
    static const char *const taken[] = {"response_format", "stream", "partial_images", "frames"};
    if (!sg_api_take_foreign(r, body)) return false;
    const json_t *const stream = json_object_get(body, "stream");
    const char *const   format = sg_api_text(body, "response_format");
    if (!sg_api_integer(r, body, "partial_images", 0, PARTIAL_MOST, &a->partial)) return false;
    if (*format && strcmp(format, "b64_json") != 0 && strcmp(format, "url") != 0) {
        sg_http_answer_error(r, 400, "response_format", "response_format takes b64_json or url");
        return false;
    }
    a->url = strcmp(format, "url") == 0;
    a->wait = !json_is_true(stream) && strcmp(sg_api_text(body, "stream"), "true") != 0;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) json_object_del(body, taken[i]);
    if (strcmp(sg_api_text(body, "size"), "auto") == 0) json_object_del(body, "size");
    if (!json_object_get(body, "output_format")) json_object_set_new(body, "output_format", json_string("png"));
    json_object_set_new(body, "frames", sg_api_number(r, 1));
    return true;
}

static void make(sg_http_request *r, bool edit, const char *const upload[SG_JOB_INPUTS])
{
    sg_ask        ask = {.edit = edit, .cancels = true, .more = more_images};
    json_t *const body = sg_api_body(r);
    if (!body) return;
    if (!take_members(r, body, &ask)) {
        json_decref(body);
        return;
    }
    ask.answer = ask.wait ? answer_images : answer_stream;
    sg_api_submit(r, &ask, body, r->form != NULL, upload);
}

void sg_api_images(sg_http_request *r) { make(r, false, (const char *const[SG_JOB_INPUTS]){NULL}); }

void sg_api_edits(sg_http_request *r)
{
    const char *upload[SG_JOB_INPUTS] = {NULL};
    for (int i = 0; r->form && i < r->form->uploads; i++) {
        const sg_http_upload *const u = &r->form->upload[i];
        const bool                  image = strcmp(u->name, "image") == 0 || strcmp(u->name, "image[]") == 0;
        if (!image || upload[SG_JOB_IMAGE]) {
            sg_http_answer_error(r, 400, u->name, "%s: %s", u->name,
                                 image ? "one image is enough" : "this is not used");
            return;
        }
        upload[SG_JOB_IMAGE] = u->path;
    }
    if (upload[SG_JOB_IMAGE])
        make(r, true, upload);
    else
        sg_http_answer_error(r, 400, "image", "image is needed, as a file");
}
