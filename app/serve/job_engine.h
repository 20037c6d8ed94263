/* job_engine.h - an engine kept open for one job after another, and what a job becomes on it: as a render of the
 * command is resolved, checked and planned. One thread at a time. */
#ifndef SG_JOB_ENGINE_H
#define SG_JOB_ENGINE_H

#include "job_queue.h"
#include "served_files.h"
#include "session.h"

/* base has the model that serves jobs that name none, and the options of LOAD and of the machine, which are those of
 * all jobs; it is borrowed. */
typedef struct sg_job_setup {
    const sg_settings *base;
    sg_served_files    files;
    sg_job_log         log;
} sg_job_setup;

/* Sees a render. progress is as sg_callbacks has it; preview gets frames of the size shown. */
typedef struct sg_job_watch {
    void *context;
    int (*progress)(void *context, int stage, int done, int total);
    void (*preview)(void *context, int step, const uint8_t *rgb, const int size[3]);
} sg_job_watch;

/* The session is open between jobs; asked, now, clip and name, which is that of its file, are of the job that was
 * prepared last. loaded is what the engine was opened with, by paths[at]. opened is the seconds that this took, for
 * the job that it was for, and else 0. opening says that a failure was that of a model, not of a job. available and
 * host_free are what a plan may use, where it is not what the engine found when it was opened. writer and watch are
 * of the render at work. */
typedef struct sg_job_engine {
    const sg_job_setup *setup;
    sg_session          session;
    sg_settings         asked, loaded;
    sg_served_paths     paths[2];
    int                 at;
    sg_rendering        now;
    sg_clip             clip;
    char                name[32];
    double              opened;
    bool                opening;
    size_t              available, host_free;
    sg_writer          *writer;
    const sg_job_watch *watch;
} sg_job_engine;

/* Opens the model that serves jobs that name none, unless it is, and resolves a render without a prompt: x's now has
 * the defaults. The caller closes, after a failure too. */
sg_status sg_job_engine_open(sg_job_engine *x, const sg_job_setup *setup, sg_error *e) SG_MUST_USE;
void      sg_job_engine_close(sg_job_engine *x);

/* From now on x, which only prepares, goes by the memory that `renders` found free when it was opened: what that has
 * loaded by then makes room for a job. Both are open, and nothing is loaded yet. */
void sg_job_engine_plan_for(sg_job_engine *x, sg_job_engine *renders);

/* Prepares the job of these settings, which are borrowed, and of files of these paths: opens another engine where it
 * needs one, reads the pictures and the video's first frame, resolves, checks, plans. SG_E_MEMORY where it does not
 * fit; failures name members of the job. */
sg_status sg_job_engine_prepare(sg_job_engine *x, const json_t *settings, bool form,
                                const char *const input[SG_JOB_INPUTS], sg_error *e) SG_MUST_USE;

/* Reads the rest of the video of the job that was prepared: what is too short or damaged fails. That job is then
 * none to render. A long video is read in part. */
sg_status sg_job_engine_check_video(sg_job_engine *x, sg_error *e) SG_MUST_USE;

/* Returns a list of sentences, what a person may not have expected of the job that was prepared, NULL where memory
 * is out. The caller drops it. */
json_t *sg_job_engine_notices(const sg_job_engine *x);

/* Returns the name that a model of the job's settings has for people. */
static inline const char *sg_job_engine_model(const sg_job_engine *x) { return x->session.model.name; }

/* Returns how many clips the job has. */
static inline int sg_job_engine_batch(const sg_job_engine *x) { return x->asked.batch ? x->asked.batch : 1; }

/* Renders clip i into this folder. *file is its entry of the job's files, and *made, unless that is NULL, the
 * settings that it keeps; both are the caller's. The file has its name when this returns. */
sg_status sg_job_engine_render(sg_job_engine *x, int i, const char *folder, const sg_job_watch *watch, json_t **file,
                               json_t **made, sg_report *report, sg_error *e) SG_MUST_USE;

#endif
