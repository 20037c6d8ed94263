/* job_queue.h - all jobs, in memory and in DIR/jobs: whatever happens to the process, each is whole on the disk.
 *
 *   jobs/ID/job.json       job.h; a folder without it is of a job that was not taken yet, and goes at the next start
 *   jobs/ID/image, last_image, video   what was uploaded
 *   jobs/ID/content.mp4    the result; content-0001.mp4, ... of several. What job.json does not name goes at the next
 *                          start
 *   jobs/.lock             one process has the folder
 *
 * Jobs run in the order in which they came. Any thread may call; whoever only looks does not wait for the disk. */
#ifndef SG_JOB_QUEUE_H
#define SG_JOB_QUEUE_H

#include "job_events.h"

typedef struct sg_job_queue sg_job_queue;

/* Most jobs that wait, most that are kept when they are over, most bytes of all their files. */
typedef struct sg_job_limits {
    int     queued, kept;
    int64_t bytes;
} sg_job_limits;

/* Whether a job is taken, and why it is not: it is malformed; it needs more memory or more disk than there is at
 * all; too many wait; the disk is full, of those that wait or by others, or cannot be written; something here
 * failed; the server stops. */
typedef enum sg_job_verdict {
    SG_JOB_TAKEN,
    SG_JOB_INVALID,
    SG_JOB_TOO_LARGE,
    SG_JOB_QUEUE_FULL,
    SG_JOB_DISK_FULL,
    SG_JOB_BROKEN,
    SG_JOB_STOPPED
} sg_job_verdict;

/* Gets lines about what happens, in any thread. */
typedef struct sg_job_log {
    void (*line)(void *context, const char *text);
    void *context;
} sg_job_log;

void sg_job_log_say(const sg_job_log *log, const char *fmt, ...) SG_PRINTF(2, 3);

/* Opens the folder, which is there, and takes up what lies in it. A job that was at work is queued again, twice;
 * then it has failed. What cannot be read is logged and left alone. events are borrowed. SG_E_FILE, also where another
 * process has it; SG_E_MEMORY. */
sg_status sg_job_queue_open(sg_job_queue **out, const char *dir, const sg_job_limits *limits, sg_job_events *events,
                            const sg_job_log *log, sg_error *e) SG_MUST_USE;
void      sg_job_queue_close(sg_job_queue **q); /* *q may be NULL */

/* Adds a job that sg_job_make made, and takes it, after a refusal too. upload has the paths of SG_JOB_IMAGE .., NULL
 * where there is none; they are moved. The job is on the disk when this returns. */
sg_job_verdict sg_job_queue_add(sg_job_queue *q, sg_job *job, const char *const upload[SG_JOB_INPUTS], sg_error *e);

/* Tells whether one more job would be refused now, whose result has at most so many bytes. */
sg_job_verdict sg_job_queue_room(sg_job_queue *q, int64_t result, sg_error *e);

/* Returns the job of this id as JSON, NULL where there is none or memory is out. The caller drops it. */
json_t *sg_job_queue_get(sg_job_queue *q, const char *id);

/* Returns {"object": "list", "data": [job, ...], "first_id", "last_id", "has_more"}: at most so many behind the job
 * of the id after, which may be NULL, the newest first or the oldest. */
json_t *sg_job_queue_list(sg_job_queue *q, const char *after, int most, bool newest_first);

/* How many jobs are kept in each state, how many came to each end since the queue was opened, and the seconds in which
 * jobs were at work since. */
typedef struct sg_job_counts {
    int       kept[SG_JOB_CANCELLED + 1];
    long long ended[SG_JOB_CANCELLED + 1];
    double    seconds;
} sg_job_counts;
sg_job_counts sg_job_queue_counts(sg_job_queue *q);

/* Puts the path of file i of a completed job; false where there is none. It may go at any time. */
bool sg_job_queue_file(sg_job_queue *q, const char *id, size_t i, char path[PATH_MAX]);

/* Puts the path of what was uploaded as SG_JOB_IMAGE ..; false where there is none. It may go at any time. */
bool sg_job_queue_input(sg_job_queue *q, const char *id, int input, char path[PATH_MAX]);

/* Ends a job: at once if it waits, at its next step if it is at work. Returns false where there is none, or it is
 * over. */
bool sg_job_queue_cancel(sg_job_queue *q, const char *id);

/* Does the same, and removes the job with its files as soon as it is over. Returns false where there is none. */
bool sg_job_queue_delete(sg_job_queue *q, const char *id);

/* ---- for whoever does the jobs ---- */

/* From now on it is called when the job at work is cancelled: without a lock of the queue. */
void sg_job_queue_on_cancel(sg_job_queue *q, void (*cancel)(void *context, const char *id), void *context);

/* Waits for a job, which is in progress then; *out is a copy for what comes of it, the caller's to close. Returns
 * false when all is to stop. */
bool sg_job_queue_next(sg_job_queue *q, sg_job *out);

/* Tells whether the job at work was cancelled. */
bool sg_job_queue_cancelled(sg_job_queue *q, const char *id);

void sg_job_queue_progress(sg_job_queue *q, const char *id, const sg_job_progress *progress);

/* The job at work is over, and in this state. A completed one has files and what was made, a failed one its error;
 * notices take the place of those that it had, unless they are NULL. All these are taken. SG_JOB_QUEUED puts it
 * back: this time does not count. */
void sg_job_queue_finish(sg_job_queue *q, sg_job *over);

/* Puts the job's folder. */
sg_status sg_job_queue_folder(const sg_job_queue *q, const char *id, char path[PATH_MAX], sg_error *e) SG_MUST_USE;

/* Makes sg_job_queue_next return false, and refuses what comes. */
void sg_job_queue_stop(sg_job_queue *q);

#endif
