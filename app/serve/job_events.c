/* job_events.c - see job_events.h. */
#include "job_events.h"
#include "collage.h"

#include <png.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sg_job_subscriber {
    sg_job_events     *events;
    sg_job_subscriber *next;
    char               id[SG_JOB_ID];
    void (*wake)(void *context);
    void           *context;
    bool            has_state, has_progress;
    sg_job_progress progress;
    sg_job_picture *picture;
};

struct sg_job_events {
    pthread_mutex_t    mutex; /* guards the list and all that is in it */
    sg_job_subscriber *first;
};

sg_job_events *sg_job_events_open(void)
{
    sg_job_events *const v = calloc(1, sizeof *v);
    if (v) pthread_mutex_init(&v->mutex, NULL);
    return v;
}

void sg_job_events_close(sg_job_events **v)
{
    if (!*v) return;
    pthread_mutex_destroy(&(*v)->mutex);
    free(*v);
    *v = NULL;
}

void sg_job_picture_drop(sg_job_picture *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return;
    free(p->png);
    free(p);
}

/* ---- subscribers ---- */

sg_job_subscriber *sg_job_events_subscribe(sg_job_events *v, const char *id, void (*wake)(void *context), void *context)
{
    sg_job_subscriber *const s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->events = v;
    s->wake = wake;
    s->context = context;
    snprintf(s->id, sizeof s->id, "%s", id);
    pthread_mutex_lock(&v->mutex);
    s->next = v->first;
    v->first = s;
    pthread_mutex_unlock(&v->mutex);
    return s;
}

void sg_job_events_unsubscribe(sg_job_subscriber **subscriber)
{
    sg_job_subscriber *const s = *subscriber;
    if (!s) return;
    pthread_mutex_lock(&s->events->mutex);
    sg_job_subscriber **at = &s->events->first;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&s->events->mutex);
    sg_job_picture_drop(s->picture);
    free(s);
    *subscriber = NULL;
}

bool sg_job_events_next(sg_job_subscriber *s, sg_job_event *out)
{
    bool any = true;
    *out = (sg_job_event){0};
    pthread_mutex_lock(&s->events->mutex);
    if (s->has_state) {
        s->has_state = false;
    } else if (s->has_progress) {
        out->kind = SG_JOB_EVENT_PROGRESS;
        out->progress = s->progress;
        s->has_progress = false;
    } else if (s->picture) {
        out->kind = SG_JOB_EVENT_PREVIEW;
        out->picture = s->picture;
        s->picture = NULL;
    } else {
        any = false;
    }
    pthread_mutex_unlock(&s->events->mutex);
    return any;
}

/* ---- events ---- */

static void give(sg_job_subscriber *s, const sg_job_event *event)
{
    if (event->kind == SG_JOB_EVENT_STATE) {
        s->has_state = true;
    } else if (event->kind == SG_JOB_EVENT_PROGRESS) {
        s->progress = event->progress;
        s->has_progress = true;
    } else {
        sg_job_picture_drop(s->picture);
        s->picture = event->picture;
        atomic_fetch_add(&s->picture->refs, 1);
    }
}

static void tell(sg_job_events *v, const char *id, const sg_job_event *event)
{
    pthread_mutex_lock(&v->mutex);
    for (sg_job_subscriber *s = v->first; s; s = s->next)
        if (strcmp(s->id, id) == 0) {
            give(s, event);
            s->wake(s->context);
        }
    pthread_mutex_unlock(&v->mutex);
}

bool sg_job_events_watched(sg_job_events *v, const char *id)
{
    pthread_mutex_lock(&v->mutex);
    sg_job_subscriber *s = v->first;
    while (s && strcmp(s->id, id) != 0) s = s->next;
    pthread_mutex_unlock(&v->mutex);
    return s;
}

void sg_job_events_state(sg_job_events *v, const char *id) { tell(v, id, &(sg_job_event){.kind = SG_JOB_EVENT_STATE}); }

void sg_job_events_progress(sg_job_events *v, const char *id, const sg_job_progress *progress)
{
    tell(v, id, &(sg_job_event){.kind = SG_JOB_EVENT_PROGRESS, .progress = *progress});
}

/* ---- previews ---- */

static bool encode(sg_job_picture *p, const sg_image *image)
{
    png_image        png = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB, .flags = PNG_IMAGE_FLAG_FAST};
    png_alloc_size_t bytes;
    png.width = (png_uint_32)image->width;
    png.height = (png_uint_32)image->height;
    bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
    p->png = malloc(bytes);
    const bool done = p->png && png_image_write_to_memory(&png, p->png, &bytes, 0, image->rgb, 0, NULL);
    p->bytes = bytes;
    png_image_free(&png);
    return done;
}

void sg_job_events_preview(sg_job_events *v, const char *id, int step, const uint8_t *rgb, int frames, int height,
                           int width)
{
    const sg_collage      c = {width, height, frames, 1, &rgb};
    sg_image              strip = {width, height, (uint8_t *)rgb};
    sg_job_picture *const p = calloc(1, sizeof *p);
    bool                  done = p;
    if (p) atomic_init(&p->refs, 1);
    if (frames > 1) {
        sg_collage_strip_size(&c, &strip.width, &strip.height);
        strip.rgb = malloc(sg_image_bytes(strip.width, strip.height));
        done = done && strip.rgb;
        if (done) sg_collage_strip(&strip, &c);
    }
    if (done) {
        p->step = step;
        p->frames = frames < SG_COLLAGE_STRIP ? frames : SG_COLLAGE_STRIP;
        done = encode(p, &strip);
    }
    if (done) tell(v, id, &(sg_job_event){.kind = SG_JOB_EVENT_PREVIEW, .picture = p});
    if (frames > 1) free(strip.rgb);
    sg_job_picture_drop(p);
}
