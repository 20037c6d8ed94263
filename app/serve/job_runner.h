/* job_runner.h - two threads that serve jobs. One looks at what is asked for: it resolves and plans it on an engine
 * of its own, which loads no weights, so that what cannot be done is refused at once and not when its turn comes.
 * The other renders one job after another on an engine that stays open; another one takes its place only for a job
 * that names another model or other LoRAs. */
#ifndef SG_JOB_RUNNER_H
#define SG_JOB_RUNNER_H

#include "job_engine.h"

typedef struct sg_job_runner sg_job_runner;

/* Opens the usual model, and begins with what is in the queue. setup, whose base and folders stay until close, gets the
 * usual model's name. queue and events are borrowed. */
sg_status sg_job_runner_open(sg_job_runner **out, sg_job_setup *setup, sg_job_queue *queue, sg_job_events *events,
                             sg_error *e) SG_MUST_USE;

/* Returns SG_OK while jobs can be rendered. A job that meets a failure of the device fails with its reason, and is not
 * tried again: it may be its cause. The usual model is then opened anew for the next job. Where that fails too, as it
 * does after a CUDA error that only ends with the process, no job begins any more, all that wait stay queued, and this
 * returns SG_E_DEVICE. */
sg_status sg_job_runner_check(sg_job_runner *r, sg_error *e) SG_MUST_USE;

/* Is called once for each job that is submitted, in any thread: id is NULL unless it was taken, and why tells people
 * why not. It may not wait. */
typedef void sg_job_answer(void *context, sg_job_verdict verdict, const char *id, const char *why);

/* Submits a job; does not wait. settings is taken; form: its values are strings. upload has paths, which are copied;
 * the files are moved if the job is taken, and stay otherwise. */
void sg_job_runner_submit(sg_job_runner *r, json_t *settings, bool form, const char *const upload[SG_JOB_INPUTS],
                          sg_job_answer *answer, void *context);

/* Returns what GET /options says, with the usual model's defaults. The caller drops it. */
json_t *sg_job_runner_options(const sg_job_runner *r);

/* Returns {models, loras}: their names. The caller drops it. */
json_t *sg_job_runner_files(const sg_job_runner *r);

/* Ends the job at work at its next step, which leaves it queued; what was submitted and not looked at is refused. Waits
 * for both threads, and closes. *r may be NULL. */
void sg_job_runner_close(sg_job_runner **r);

#endif
