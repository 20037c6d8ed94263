/* preview_file.c - see preview_file.h. */
#include "preview_file.h"
#include "base/image.h"
#include "base/path.h"
#include "base/thread.h"
#include "collage.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { STRIP_WIDTH = 16384 };

/* A preview of our own, or room for one. */
typedef struct picture {
    sg_preview p;
    uint8_t   *rgb;
} picture;

struct sg_preview_file {
    const char       *path;
    const sg_request *request;
    picture           next, now; /* that waits, that is written */
    bool              waits, ended;
    pthread_t         thread;
    pthread_mutex_t   mutex; /* guards next, waits, ended, error */
    pthread_cond_t    changed;
    sg_error          error; /* the first */
};

static bool is_strip(const char *path) { return strcasecmp(sg_path_extension(path), ".png") == 0; }

sg_status sg_preview_file_check(const char *path, sg_error *e)
{
    return sg_writer_check_ending(path, "--preview", ".png .mp4 .webp", e);
}

/* Frames of a strip: as many as there are, or as fit into STRIP_WIDTH, from the first to the last. */
static int strip_frames(const sg_preview *p)
{
    const int most = STRIP_WIDTH / p->width > 1 ? STRIP_WIDTH / p->width : 1;
    return p->frames < most ? p->frames : most;
}

/* What is written of p: one picture, or a clip that lasts as long as the whole one. */
static sg_clip clip_of(const char *path, const sg_request *r, const sg_preview *p)
{
    sg_clip clip = {.size = sizeof(sg_clip),
                    .path = path,
                    .width = p->width,
                    .height = p->height,
                    .frames = p->frames,
                    .literal = true};
    clip.fps = (int)fmax(1, round((double)r->fps * p->frames / r->frames));
    if (!is_strip(path)) return clip;
    clip.width = strip_frames(p) * p->width;
    clip.frames = 1;
    return clip;
}

sg_status sg_preview_file_plan(const char *path, const sg_request *r, const int size[3], size_t *bytes, sg_error *e)
{
    const sg_preview p = {.frames = size[0], .height = size[1], .width = size[2]};
    const sg_clip    clip = clip_of(path, r, &p);
    const bool       odd = size[1] % 2 || size[2] % 2;
    if (strcasecmp(sg_path_extension(path), ".mp4") == 0 && odd)
        return sg_error_set(e, SG_E_ARG,
                            "--preview: %s: MP4 needs even sizes, and previews are %dx%d; .png does without", path,
                            size[2], size[1]);
    SG_TRY(sg_writer_check(&clip, e));
    *bytes = 2 * (size_t)p.frames * sg_image_bytes(p.width, p.height) + sg_writer_bytes(&clip);
    if (is_strip(path)) *bytes += sg_image_bytes(clip.width, clip.height);
    return SG_OK;
}

static sg_status write_strip(const sg_preview_file *f, sg_error *e)
{
    const sg_preview *const p = &f->now.p;
    const int               count = strip_frames(p);
    const size_t            frame = sg_image_bytes(p->width, p->height);
    const sg_image          strip = {count * p->width, p->height, malloc((size_t)count * frame)};
    if (!strip.rgb) return sg_error_memory(e, f->path);
    for (int i = 0; i < count; i++) {
        const uint8_t *const from = p->rgb + (size_t)sg_collage_frame(i, count, p->frames) * frame;
        sg_image_put(&strip, i * p->width, 0, p->width, p->height, from);
    }
    const sg_status status = sg_writer_save_picture(f->path, strip.rgb, strip.width, strip.height, NULL, e);
    free(strip.rgb);
    return status;
}

static void *write_previews(void *context)
{
    sg_preview_file *const f = context;
    pthread_mutex_lock(&f->mutex);
    for (;;) {
        while (!f->waits && !f->ended) pthread_cond_wait(&f->changed, &f->mutex);
        if (!f->waits || f->error.code != SG_OK) break;
        const picture written = f->now;
        sg_error      e = {0};
        f->now = f->next;
        f->next = written;
        f->waits = false;
        pthread_mutex_unlock(&f->mutex);
        const sg_clip   clip = clip_of(f->path, f->request, &f->now.p);
        const sg_status status = is_strip(f->path) ? write_strip(f, &e) : sg_writer_save(&clip, f->now.p.rgb, &e);
        (void)status; /* e has it */
        pthread_mutex_lock(&f->mutex);
        f->error = e;
    }
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

static void free_file(sg_preview_file *f)
{
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->mutex);
    free(f->next.rgb);
    free(f->now.rgb);
    free(f);
}

sg_status sg_preview_file_open(sg_preview_file **out, const char *path, const sg_request *r, sg_error *e)
{
    sg_preview_file *const f = *out = calloc(1, sizeof *f);
    if (!f) return sg_error_memory(e, "--preview");
    f->path = path;
    f->request = r;
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
    const int failure = sg_thread_start(&f->thread, write_previews, f);
    if (!failure) return SG_OK;
    free_file(f);
    *out = NULL;
    return sg_error_set(e, SG_E_MEMORY, "--preview: no thread for writing: %s", strerror(failure));
}

/* Locked. */
static sg_status take(sg_preview_file *f, const sg_preview *p, sg_error *e)
{
    const size_t bytes = (size_t)p->frames * sg_image_bytes(p->width, p->height);
    SG_TRY(sg_error_copy(e, &f->error));
    uint8_t *const rgb = realloc(f->next.rgb, bytes);
    if (!rgb) return sg_error_set(e, SG_E_MEMORY, "--preview: no memory for %d frames", p->frames);
    f->next.rgb = rgb;
    memcpy(f->next.rgb, p->rgb, bytes);
    f->next.p = *p;
    f->next.p.rgb = f->next.rgb;
    f->waits = true;
    pthread_cond_broadcast(&f->changed);
    return SG_OK;
}

sg_status sg_preview_file_show(sg_preview_file *f, const sg_preview *p, sg_error *e)
{
    pthread_mutex_lock(&f->mutex);
    const sg_status status = take(f, p, e);
    pthread_mutex_unlock(&f->mutex);
    return status;
}

void sg_preview_file_close(sg_preview_file **file, bool all, sg_error *e)
{
    sg_preview_file *const f = *file;
    if (!f) return;
    pthread_mutex_lock(&f->mutex);
    f->ended = true;
    if (!all) f->waits = false;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
    pthread_join(f->thread, NULL);
    (void)sg_error_copy(e, &f->error);
    free_file(f);
    *file = NULL;
}
