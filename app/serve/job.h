/* job.h - a job: what was asked for, how far it is, what came of it. jobs/ID/job.json is all of it, written as a
 * whole:
 *
 *   {"id", "object": "job", "status", "number", "attempts",
 *    "created_at", "started_at", "finished_at": seconds since 1970, 0 where it was not,
 *    "queue_position", "progress": {"stage", "done", "total", "seconds", "eta"},
 *    "settings": as asked, "inputs": ["image", ...],
 *    "files": [{"file", "seed", "bytes", "seconds": {"total", "load", "text", ...}}, ...],
 *    "made": the settings of the first of these, as a clip keeps them,
 *    "notices": sentences about what a person may not have expected, "error"}
 *
 * A member that says nothing yet is null. number is the order in which jobs came. */
#ifndef SG_JOB_H
#define SG_JOB_H

#include "serve_options.h"

#include <limits.h>

/* 32 hexadecimal digits and a NUL. */
enum { SG_JOB_ID = 33 };

typedef enum sg_job_state {
    SG_JOB_QUEUED,
    SG_JOB_IN_PROGRESS,
    SG_JOB_COMPLETED,
    SG_JOB_FAILED,
    SG_JOB_CANCELLED
} sg_job_state;

extern const char *const sg_job_states[]; /* "queued", ...; NULL-ended */

/* Of a stage (SG_STAGE_LOAD ..) done of total units are over. seconds went by since the job began; it takes left more,
 * negative where that is not known. total is 0 where nothing is known yet. */
typedef struct sg_job_progress {
    int    stage, done, total;
    double seconds, left;
} sg_job_progress;

/* settings, files, made, notices and error are owned; made and error may be NULL. inputs has a bit of each of
 * SG_JOB_IMAGE .. that lies in the folder under its name. */
typedef struct sg_job {
    char            id[SG_JOB_ID];
    sg_job_state    state;
    int             attempts;
    int64_t         number, created, started, finished;
    sg_job_progress progress;
    unsigned        inputs;
    json_t         *settings, *files, *made, *notices;
    char           *error;
} sg_job;

/* Tells whether it is over. */
static inline bool sg_job_is_over(const sg_job *j) { return j->state >= SG_JOB_COMPLETED; }

/* Makes a queued job with an id that nobody can guess. Takes settings and notices, after a failure too. The caller
 * closes. */
sg_status sg_job_make(sg_job *j, json_t *settings, json_t *notices, sg_error *e) SG_MUST_USE;
void      sg_job_close(sg_job *j); /* zero is fine */

bool sg_job_is_id(const char *text);

/* Returns it as JSON; position is that in the queue, from 0, negative for none. The caller drops it; NULL: no
 * memory. */
json_t *sg_job_json(const sg_job *j, int position);

json_t *sg_job_progress_json(const sg_job_progress *p);

/* Writes folder/job.json. SG_E_FILE, SG_E_MEMORY. */
sg_status sg_job_save(const sg_job *j, const char *folder, sg_error *e) SG_MUST_USE;

/* Reads that of the job of this id. Any bytes may be there. SG_E_FILE, SG_E_FORMAT, SG_E_MEMORY; the caller closes,
 * after a failure too. */
sg_status sg_job_read(sg_job *j, const char *folder, const char *id, sg_error *e) SG_MUST_USE;

/* Returns the name of file i within the folder; NULL behind the last. */
const char *sg_job_file(const sg_job *j, size_t i);

#endif
