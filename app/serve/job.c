/* job.c - see job.h. */
#include "job.h"
#include "base/json_input.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "json_build.h"
#include "report.h"

#include <errno.h>
#include <spargegen/spargegen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Of a batch of 10,000, and of the longest texts in escapes. */
enum { FILE_BYTES = 1 << 24, FILE_VALUES = 1 << 19, MOST_ATTEMPTS = 1000 };

#define NAME "job.json"

const char *const sg_job_states[] = {"queued", "in_progress", "completed", "failed", "cancelled", NULL};

/* ---- making ---- */

sg_status sg_job_make(sg_job *j, json_t *settings, json_t *notices, sg_error *e)
{
    unsigned char random[SG_JOB_ID / 2];
    *j = (sg_job){.settings = settings, .files = json_array(), .notices = notices, .created = time(NULL)};
    if (!j->settings || !j->files || !j->notices) return sg_error_memory(e, "job");
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return sg_error_set(e, SG_E_DEVICE, "the system gives no random number: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) snprintf(j->id + 2 * i, 3, "%02x", random[i]);
    return SG_OK;
}

void sg_job_close(sg_job *j)
{
    json_decref(j->settings);
    json_decref(j->files);
    json_decref(j->made);
    json_decref(j->notices);
    free(j->error);
    *j = (sg_job){0};
}

bool sg_job_is_id(const char *text)
{
    return strlen(text) == SG_JOB_ID - 1 && text[strspn(text, "0123456789abcdef")] == '\0';
}

const char *sg_job_file(const sg_job *j, size_t i)
{
    return json_string_value(json_object_get(json_array_get(j->files, i), "file"));
}

/* ---- as JSON ---- */

json_t *sg_job_progress_json(const sg_job_progress *p)
{
    if (!p->total) return json_null();
    return json_pack("{s:s, s:i, s:i, s:o, s:o}", "stage", sg_names("stage")[p->stage], "done", p->done, "total",
                     p->total, "seconds", json_real(p->seconds), "eta", p->left < 0 ? json_null() : json_real(p->left));
}

static json_t *inputs_json(unsigned inputs)
{
    json_t *a = json_array();
    for (int i = 0; i < SG_JOB_INPUTS; i++)
        if (inputs >> i & 1) sg_json_append(&a, json_string(sg_job_inputs[i]));
    return a;
}

/* Nothing of it is shared: Jansson counts references without a lock. */
json_t *sg_job_json(const sg_job *j, int position)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o?, s:o, s:o}", "id", j->id,
                     "object", "job", "status", sg_job_states[j->state], "number", (json_int_t)j->number, "attempts",
                     j->attempts, "created_at", (json_int_t)j->created, "started_at", (json_int_t)j->started,
                     "finished_at", (json_int_t)j->finished, "queue_position",
                     position < 0 ? json_null() : json_integer(position), "progress",
                     sg_job_progress_json(&j->progress), "settings", json_deep_copy(j->settings), "inputs",
                     inputs_json(j->inputs), "files", json_deep_copy(j->files), "made", json_deep_copy(j->made),
                     "notices", json_deep_copy(j->notices), "error", j->error ? sg_report_name(j->error) : json_null());
}

/* With all digits: a job that is read again renders the same. */
sg_status sg_job_save(const sg_job *j, const char *folder, sg_error *e)
{
    char   path[PATH_MAX];
    sg_job bare = *j;
    SG_TRY(sg_path_join(path, sizeof path, folder, NAME, e));
    bare.progress = (sg_job_progress){0};
    json_t *const   all = sg_job_json(&bare, -1);
    char *const     text = all ? sg_json_text(all, JSON_INDENT(2)) : NULL;
    const sg_status status = text ? sg_output_file_save(path, text, strlen(text), e) : sg_error_memory(e, path);
    free(text);
    json_decref(all);
    return status;
}

/* ---- back from it ---- */

static bool get_number(const json_t *all, const char *key, int64_t most, int64_t *out)
{
    const json_t *const v = json_object_get(all, key);
    *out = json_integer_value(v);
    return json_is_integer(v) && *out >= 0 && *out <= most;
}

/* Names lie in the folder, and none is that of another file there. */
static bool sound_files(const json_t *files)
{
    size_t  i;
    json_t *v;
    json_array_foreach((json_t *)files, i, v)
    {
        const char *const name = json_string_value(json_object_get(v, "file"));
        if (!name || strncmp(name, "content", 7) != 0 || strchr(name, '/') || strlen(name) > NAME_MAX) return false;
        if (!json_is_integer(json_object_get(v, "seed")) || !json_is_integer(json_object_get(v, "bytes"))) return false;
    }
    return json_is_array(files);
}

static bool sound_notices(const json_t *notices)
{
    size_t  i;
    json_t *v;
    json_array_foreach((json_t *)notices, i, v) if (!json_is_string(v)) return false;
    return json_is_array(notices);
}

static bool get_inputs(const json_t *inputs, unsigned *bits)
{
    size_t  i;
    json_t *v;
    json_array_foreach((json_t *)inputs, i, v)
    {
        const int place = sg_text_place(json_string_value(v), sg_job_inputs);
        if (place == SG_JOB_INPUTS) return false;
        *bits |= 1u << place;
    }
    return json_is_array(inputs);
}

/* Returns the member that is not as it has to be; NULL: all are. */
static const char *get_members(sg_job *j, const json_t *all, sg_error *why)
{
    const int           state = sg_text_place(json_string_value(json_object_get(all, "status")), sg_job_states);
    const json_t *const made = json_object_get(all, "made"), *const error = json_object_get(all, "error");
    const char *const id = json_string_value(json_object_get(all, "id"));
    sg_settings       read = sg_options_empty(SG_COMMAND_RENDER);
    int64_t           attempts;
    if (!id || strcmp(id, j->id) != 0) return "id";
    if (!sg_job_states[state]) return "status";
    j->state = (sg_job_state)state;
    if (!get_number(all, "attempts", MOST_ATTEMPTS, &attempts)) return "attempts";
    j->attempts = (int)attempts;
    if (!get_number(all, "number", INT64_MAX / 2, &j->number)) return "number";
    if (!get_number(all, "created_at", INT64_MAX, &j->created)) return "created_at";
    if (!get_number(all, "started_at", INT64_MAX, &j->started)) return "started_at";
    if (!get_number(all, "finished_at", INT64_MAX, &j->finished)) return "finished_at";
    if (!get_inputs(json_object_get(all, "inputs"), &j->inputs)) return "inputs";
    j->settings = json_incref(json_object_get(all, "settings"));
    if (!json_is_object(j->settings) || sg_serve_options_read(&read, j->settings, false, why) != SG_OK)
        return "settings";
    j->files = json_incref(json_object_get(all, "files"));
    if (!sound_files(j->files) || (j->state == SG_JOB_COMPLETED) != (json_array_size(j->files) > 0)) return "files";
    if (made && !json_is_null(made) && !json_is_object(made)) return "made";
    j->made = json_is_object(made) ? json_incref((json_t *)made) : NULL;
    j->notices = json_incref(json_object_get(all, "notices"));
    if (!sound_notices(j->notices)) return "notices";
    if (error && !json_is_null(error) && !json_is_string(error)) return "error";
    return NULL;
}

sg_status sg_job_read(sg_job *j, const char *folder, const char *id, sg_error *e)
{
    char     path[PATH_MAX];
    json_t  *all;
    sg_error why = {0};
    *j = (sg_job){0};
    SG_TRY(sg_path_join(path, sizeof path, folder, NAME, e));
    SG_TRY(sg_json_open(&all, path, FILE_BYTES, FILE_VALUES, 0, e));
    snprintf(j->id, sizeof j->id, "%s", id);
    const char *const wrong = get_members(j, all, &why);
    const char *const error = json_string_value(json_object_get(all, "error"));
    if (!wrong && error) j->error = strdup(error);
    const bool memory = !wrong && error && !j->error;
    json_decref(all);
    if (wrong)
        return sg_error_set(e, SG_E_FORMAT, "%s: %s is not that of a job%s%s", path, wrong, *why.text ? ": " : "",
                            why.text);
    return memory ? sg_error_memory(e, path) : SG_OK;
}
