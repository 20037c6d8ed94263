/* api_videos.c - /v1/videos as OpenAI's clients have it, and servers of models of video still: a video is a job. */
#include "api.h"
#include "base/number.h"
#include "base/text.h"
#include "json_build.h"

#include <string.h>

/* ---- a job as a video ---- */

static int percent(const json_t *job)
{
    const json_t *const p = json_object_get(job, "progress");
    const double        seconds = json_number_value(json_object_get(p, "seconds"));
    const json_t *const left = json_object_get(p, "eta");
    if (sg_api_is(job, SG_JOB_COMPLETED)) return 100;
    return json_is_number(left) ? (int)(99 * seconds / (seconds + json_number_value(left) + 1e-6)) : 0;
}

static json_t *or_null(const json_t *v) { return v ? json_incref((json_t *)v) : json_null(); }

static json_t *video_json(const json_t *job)
{
    const json_t *const settings = json_object_get(job, "settings"), *const made = json_object_get(job, "made");
    const json_t *const from = json_is_object(made) ? made : settings;
    const json_t *const file = json_object_get(json_object_get(made, "model"), "file");
    const bool          failed = sg_api_is(job, SG_JOB_FAILED) || sg_api_is(job, SG_JOB_CANCELLED);
    const json_int_t    finished = json_integer_value(json_object_get(job, "finished_at"));
    const double        frames = json_number_value(json_object_get(from, "frames"));
    const double        fps = json_number_value(json_object_get(from, "fps"));
    const json_int_t    width = json_integer_value(json_object_get(from, "width"));
    const json_int_t    height = json_integer_value(json_object_get(from, "height"));
    json_t             *v = json_pack(
                    "{s:O, s:s, s:s, s:i, s:O, s:o, s:o, s:o}", "id", json_object_get(job, "id"), "object", "video", "status",
        failed ? "failed" : sg_api_text(job, "status"), "progress", percent(job), "created_at",
                    json_object_get(job, "created_at"), "completed_at", finished ? json_integer(finished) : json_null(), "model",
                    or_null(file ? file : json_object_get(settings, "model")), "prompt", or_null(json_object_get(from, "prompt")));
    sg_json_set(&v, "size",
                width && height ? json_sprintf("%" JSON_INTEGER_FORMAT "x%" JSON_INTEGER_FORMAT, width, height)
                                : json_null());
    sg_json_set(&v, "seconds", frames > 0 && fps > 0 ? json_sprintf("%.4g", frames / fps) : json_null());
    sg_json_set(&v, "error",
                failed ? json_pack("{s:s, s:s}", "code", sg_api_is(job, SG_JOB_FAILED) ? "failed" : "cancelled",
                                   "message", sg_api_text(job, "error"))
                       : json_null());
    return v;
}

/* ---- what is asked for ---- */

static void answer_video(sg_ask *a, const json_t *job) { sg_http_answer_json(a->request, 200, video_json(job)); }

/* seconds are the job's own, but a number in JSON. False: they are none, which is answered. */
static bool take_seconds(sg_http_request *r, json_t *body)
{
    const char *const text = json_string_value(json_object_get(body, "seconds"));
    double            seconds;
    if (r->form || !text) return true;
    if (sg_number_real(text, strlen(text), 0, 1e6, &seconds))
        return json_object_set_new(body, "seconds", json_real(seconds)) == 0;
    sg_http_answer_error(r, 400, "seconds", "seconds takes a number");
    return false;
}

void sg_api_videos_post(sg_http_request *r)
{
    static const char *const names[] = {"input_reference", "image", "video", NULL};
    static const int         places[] = {SG_JOB_IMAGE, SG_JOB_IMAGE, SG_JOB_VIDEO};
    const char              *upload[SG_JOB_INPUTS] = {NULL};
    const sg_ask             ask = {.answer = answer_video};
    for (int i = 0; r->form && i < r->form->uploads; i++) {
        const sg_http_upload *const u = &r->form->upload[i];
        const int                   name = sg_text_place(u->name, names);
        if (!names[name] || upload[places[name]]) {
            sg_http_answer_error(r, 400, u->name, "%s: a video takes one input_reference", u->name);
            return;
        }
        upload[places[name]] = u->path;
    }
    json_t *const body = sg_api_body(r);
    if (body && take_seconds(r, body))
        sg_api_submit(r, &ask, body, r->form != NULL, upload);
    else
        json_decref(body);
}

void sg_api_videos(sg_http_request *r)
{
    json_t *const jobs = sg_api_list(r), *job;
    json_t       *data = json_array();
    size_t        i;
    if (jobs) {
        json_array_foreach(json_object_get(jobs, "data"), i, job) sg_json_append(&data, video_json(job));
        json_object_set_new(jobs, "data", data);
        sg_http_answer_json(r, 200, jobs);
    } else {
        json_decref(data);
    }
}

void sg_api_video(sg_http_request *r)
{
    json_t *const job = sg_api_job(r);
    if (job) sg_http_answer_json(r, 200, video_json(job));
    json_decref(job);
}

void sg_api_video_delete(sg_http_request *r) { sg_api_delete(r, "video.deleted"); }
