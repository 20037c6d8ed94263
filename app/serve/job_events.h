/* job_events.h - what streams of a job wait for: a change of its state, progress, previews. Nothing waits for a
 * subscriber: he has the newest of each. Any thread may call. */
#ifndef SG_JOB_EVENTS_H
#define SG_JOB_EVENTS_H

#include "job.h"

#include <stdatomic.h>

typedef struct sg_job_events     sg_job_events;
typedef struct sg_job_subscriber sg_job_subscriber;

/* A preview after a step, from 0: a PNG of so many frames side by side. Whoever gets one drops it. */
typedef struct sg_job_picture {
    atomic_int refs;
    int        step, frames;
    size_t     bytes;
    uint8_t   *png;
} sg_job_picture;

void sg_job_picture_drop(sg_job_picture *p); /* NULL is fine */

typedef enum sg_job_event_kind { SG_JOB_EVENT_STATE, SG_JOB_EVENT_PROGRESS, SG_JOB_EVENT_PREVIEW } sg_job_event_kind;

typedef struct sg_job_event {
    sg_job_event_kind kind;
    sg_job_progress   progress;
    sg_job_picture   *picture; /* the receiver's */
} sg_job_event;

/* Returns NULL where memory is out. */
sg_job_events *sg_job_events_open(void);

/* No subscriber may be left. *v may be NULL. */
void sg_job_events_close(sg_job_events **v);

/* Returns a subscriber of the job of this id, NULL where memory is out. wake is called in any thread, whenever there
 * is something for him. Meanwhile a lock is held that all functions here take: it may not wait, call these or the
 * queue, or take a lock under which somebody calls them. What was before is no event: look at the job itself
 * afterwards. */
sg_job_subscriber *sg_job_events_subscribe(sg_job_events *v, const char *id, void (*wake)(void *context),
                                           void *context);

/* Nobody wakes him when this is over. *s may be NULL. */
void sg_job_events_unsubscribe(sg_job_subscriber **s);

/* Gives the next event, that of a state, which the job itself has, before progress before a preview. Returns false
 * where there is none. */
bool sg_job_events_next(sg_job_subscriber *s, sg_job_event *out);

/* Tells whether anybody would see an event of this job. */
bool sg_job_events_watched(sg_job_events *v, const char *id);

/* These tell the job's subscribers. */
void sg_job_events_state(sg_job_events *v, const char *id);
void sg_job_events_progress(sg_job_events *v, const char *id, const sg_job_progress *progress);

/* Encodes frames rgb [frames][height][width][3] and tells. Where memory is out there is no preview. */
void sg_job_events_preview(sg_job_events *v, const char *id, int step, const uint8_t *rgb, int frames, int height,
                           int width);

#endif
