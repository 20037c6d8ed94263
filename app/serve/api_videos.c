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

/* As text, and "auto" where the model says it and that is not known yet. */
static json_t *seconds_of(const json_t *from)
{
    const double frames = json_number_value(json_object_get(from, "frames"));
    const double fps = json_number_value(json_object_get(from, "fps"));
    const double seconds = frames > 0 && fps > 0 ? frames / fps : json_number_value(json_object_get(from, "seconds"));
    return seconds > 0 ? json_sprintf("%.4g", seconds) : json_string("auto");
}

static json_t *video_json(const json_t *job)
{
    const json_t *const from = sg_api_settings(job);
    const json_t *const file = json_object_get(json_object_get(from, "model"), "file");
    const bool          failed = sg_api_is(job, SG_JOB_FAILED) || sg_api_is(job, SG_JOB_CANCELLED);
    const json_int_t    finished = json_integer_value(json_object_get(job, "finished_at"));
    json_t *const       error =
        failed ? json_pack("{s:s, s:s}", "code", sg_api_text(job, "status"), "message", sg_api_failure(job))
                     : json_null();
    return json_pack(
        "{s:O, s:s, s:s, s:i, s:O, s:o, s:o, s:o, s:o, s:o, s:o}", "id", json_object_get(job, "id"), "object", "video",
        "status", failed ? "failed" : sg_api_text(job, "status"), "progress", percent(job), "created_at",
        json_object_get(job, "created_at"), "completed_at", finished ? json_integer(finished) : json_null(), "model",
        or_null(file ? file : json_object_get(from, "model")), "prompt", or_null(json_object_get(from, "prompt")),
        "size", sg_api_size(job), "seconds", seconds_of(from), "error", error);
}

/* ---- what is asked for ---- */

static void answer_video(sg_ask *a, const json_t *job) { sg_http_answer_json(a->request, 200, video_json(job)); }

/* Makes a job's members of the body. seconds are text in JSON, too, and give way to a number of frames, as SGLang has
 * it. False: it was refused. */
static bool take_members(sg_http_request *r, json_t *body)
{
    static const char *const frames[] = {"frames", "num_frames"};
    if (!sg_api_take_foreign(r, body)) return false;
    if (json_object_get(body, "input_reference")) {
        sg_http_answer_error(r, 400, "input_reference",
                             "input_reference is a file: it is uploaded, in a multipart form");
        return false;
    }
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        if (json_object_get(body, frames[i])) json_object_del(body, "seconds");
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
    static const char *const names[] = {"input_reference", "image", "video_reference", "video", NULL};
    static const int         places[] = {SG_JOB_IMAGE, SG_JOB_IMAGE, SG_JOB_VIDEO, SG_JOB_VIDEO};
    const char              *upload[SG_JOB_INPUTS] = {NULL};
    const sg_ask             ask = {.answer = answer_video};
    for (int i = 0; r->form && i < r->form->uploads; i++) {
        const sg_http_upload *const u = &r->form->upload[i];
        const int                   name = sg_text_place(u->name, names);
        if (!names[name] || upload[places[name]]) {
            sg_http_answer_error(r, 400, u->name, "%s: a video takes one input_reference and one video_reference",
                                 u->name);
            return;
        }
        upload[places[name]] = u->path;
    }
    json_t *const body = sg_api_body(r);
    if (body && take_members(r, body))
        sg_api_submit(r, &ask, body, r->form != NULL, upload);
    else
        json_decref(body);
}

void sg_api_videos(sg_http_request *r)
{
    json_t *jobs = sg_api_list(r), *data, *job;
    size_t  i;
    if (!jobs) return;
    data = json_array();
    json_array_foreach(json_object_get(jobs, "data"), i, job) sg_json_append(&data, video_json(job));
    sg_json_set(&jobs, "data", data);
    sg_http_answer_json(r, 200, jobs);
}

void sg_api_video(sg_http_request *r)
{
    json_t *const job = sg_api_job(r);
    if (job) sg_http_answer_json(r, 200, video_json(job));
    json_decref(job);
}

/* SGLang's variant is the number of the result; of OpenAI's there is "video". */
void sg_api_video_content(sg_http_request *r)
{
    const char *const variant = sg_http_target_value(&r->target, "variant");
    int               i = 0;
    if ((variant && strcmp(variant, "video") == 0) || sg_api_query(r, "variant", 0, 9999, &i))
        sg_api_content(r, (size_t)i);
}

void sg_api_video_delete(sg_http_request *r) { sg_api_delete(r, "video.deleted"); }
