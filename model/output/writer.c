/* writer.c - the formats, and the queue between whoever renders and whoever writes. */
#include "writer.h"
#include "base/text.h"
#include "base/thread.h"
#include "sized.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#if !SG_FFMPEG
const char *sg_writer_ffmpeg(void) { return NULL; }
#endif

static const sg_writer_type *const types[] = {
#if SG_FFMPEG
    &sg_writer_mp4, &sg_writer_mkv,  &sg_writer_webp,
#endif
    &sg_writer_png, &sg_writer_jpeg, &sg_writer_y4m,
};
enum { TYPES = sizeof types / sizeof *types, SLOTS = 4, SIDE = 1 << 20, FRAMES = 1 << 20 };

struct sg_writer {
    const sg_writer_type *type;
    void                 *state;
    sg_clip               clip;
    sg_output_file      **file; /* [files] */
    char                **name; /* [files] of those that are open or have it */
    int                   files;
    size_t                frame_bytes;
    uint8_t              *slot[SLOTS];
    bool                  full[SLOTS];
    int                   written, taken; /* frames put into slots, only by the caller, and given to a thread */
    bool                  ended, complete, finished;
    int                   published; /* of files, that have their names */
    int                   threads;   /* that run */
    pthread_t             thread[SG_WRITER_THREADS];
    pthread_mutex_t       mutex; /* guards full, written, taken, ended, error */
    pthread_cond_t        changed;
    sg_error              error; /* the threads' first */
};

void sg_clip_of(sg_clip *clip, const sg_request *r, const char *path)
{
    clip->path = path;
    clip->width = r->width;
    clip->height = r->height;
    clip->frames = r->frames;
    clip->fps = r->fps;
}

const char *sg_writer_default_name(int frames) { return frames == 1 ? "out.png" : SG_FFMPEG ? "out.mp4" : "out.y4m"; }

/* endings: parted by blanks. */
static bool has_one_of(const char *path, const char *endings)
{
    const size_t length = strlen(path);
    for (size_t n; *endings; endings += n + (endings[n] == ' ')) {
        n = strcspn(endings, " ");
        if (length > n && strncasecmp(path + length - n, endings, n) == 0) return true;
    }
    return false;
}

static const sg_writer_type *find_type(const char *path)
{
    for (int i = 0; i < TYPES; i++)
        if (has_one_of(path, types[i]->endings)) return types[i];
    return NULL;
}

static const sg_writer_type *type_of(const sg_clip *clip)
{
    return clip->has_descriptor ? &sg_writer_y4m : clip->path ? find_type(clip->path) : NULL;
}

/* Those of `among`, or all where it is NULL. */
static const char *list_endings(char *text, size_t size, const char *among)
{
    *text = '\0';
    for (int i = 0; i < TYPES; i++) {
        const char *const ending = types[i]->endings;
        const size_t      length = strcspn(ending, " ");
        if (!among || memmem(among, strlen(among), ending, length))
            sg_text_append(text, size, "%s%.*s", *text ? ", " : "", (int)length, ending);
    }
    return text;
}

const char *sg_writer_endings(char *text, size_t size) { return list_endings(text, size, NULL); }

static sg_status no_ending(const char *path, const char *what, const char *among, sg_error *e)
{
    return sg_error_set(e, SG_E_ARG, "%s: '%s': the ending decides the format, and must be one of %s%s", what, path,
                        list_endings((char[80]){0}, 80, among),
                        SG_FFMPEG || !among ? "" : " in this build, which has no FFmpeg");
}

sg_status sg_writer_check_ending(const char *path, const char *what, const char *endings, sg_error *e)
{
    if (!find_type(path) || !has_one_of(path, endings)) return no_ending(path, what, endings, e);
    return sg_output_file_check(path, what, e);
}

/* 0: not known yet. */
static sg_status check_numbers(const sg_clip *clip, sg_error *e)
{
    if (clip->width < 0 || clip->height < 0 || clip->width > SIDE || clip->height > SIDE)
        return sg_error_set(e, SG_E_ARG, "size: %dx%d is not between 1x1 and %dx%d", clip->width, clip->height, SIDE,
                            SIDE);
    if (clip->frames < 0 || clip->frames > FRAMES)
        return sg_error_set(e, SG_E_ARG, "frames: %d is not between 1 and %d", clip->frames, FRAMES);
    if (clip->fps < 0) return sg_error_set(e, SG_E_ARG, "fps: %d is below 1", clip->fps);
    if (clip->has_crf && !(clip->crf >= 0 && clip->crf <= 51))
        return sg_error_set(e, SG_E_ARG, "crf: %g is not between 0 and 51", clip->crf);
    if (clip->has_png_level && (clip->png_level < 0 || clip->png_level > 9))
        return sg_error_set(e, SG_E_ARG, "png_level: %d is not between 0 and 9", clip->png_level);
    return SG_OK;
}

static sg_status check_type(const sg_writer_type **type, const sg_clip *clip, sg_error *e)
{
    SG_TRY(check_numbers(clip, e));
    const char *const           path = clip->path;
    const sg_writer_type *const t = *type = type_of(clip);
    if (!t && !path) return sg_error_set(e, SG_E_ARG, "path: no file is named");
    if (!t && !SG_FFMPEG && has_one_of(path, ".mp4 .m4v .mkv .webp"))
        return sg_error_set(e, SG_E_ARG, "path: '%s': this build has no FFmpeg; use .y4m, .png or, for one frame, .jpg",
                            path);
    if (!t && has_one_of(path, ".gif")) /* good palettes are libavfilter's, which nothing else here needs */
        return sg_error_set(e, SG_E_ARG, "path: '%s': GIF, of 256 colours a frame, is not written; %s", path,
                            SG_FFMPEG ? ".webp is an animation in full colour, and ffmpeg makes a GIF of an .mkv"
                                      : "a build with FFmpeg writes .webp; use .y4m or .png");
    if (!t) return no_ending(path, "path", NULL, e);
    if (clip->has_crf && !t->has_crf)
        return sg_error_set(e, SG_E_ARG, "crf has no effect on %s: it is for .mp4", t->name);
    if (clip->has_png_level && !t->has_png_level)
        return sg_error_set(e, SG_E_ARG, "png_level has no effect on %s: it is for .png", t->name);
    if (t->check) SG_TRY(t->check(clip, e));
    if (!t->max_side || (clip->width <= t->max_side && clip->height <= t->max_side)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "path: %s: %s holds at most %d pixels a side, not %dx%d", clip->path, t->name,
                        t->max_side, clip->width, clip->height);
}

static sg_status take(sg_clip *own, const sg_clip *clip, sg_error *e)
{
    return sg_sized_take(own, sizeof *own, clip, "sg_clip", e);
}

sg_status sg_writer_check_format(const sg_clip *clip, sg_error *e)
{
    sg_clip               own;
    const sg_writer_type *type;
    SG_TRY(take(&own, clip, e));
    return check_type(&type, &own, e);
}

sg_status sg_writer_check(const sg_clip *clip, sg_error *e)
{
    sg_clip               own;
    const sg_writer_type *type;
    SG_TRY(take(&own, clip, e));
    SG_TRY(check_type(&type, &own, e));
    return own.has_descriptor ? SG_OK : sg_output_file_check(own.path, "path", e);
}

size_t sg_writer_bytes(const sg_clip *given)
{
    sg_clip own, *const clip = &own;
    if (take(&own, given, NULL) || check_numbers(&own, NULL)) return 0;
    const sg_writer_type *type = type_of(clip);
    const size_t          pixels = (size_t)clip->width * (size_t)clip->height;
    const size_t          slots = clip->frames < SLOTS ? (size_t)clip->frames : SLOTS; /* others are never written */
    if (!type) return 0;
    return type->code + (slots * 3 + type->pixel) * pixels + (type->bytes ? type->bytes(clip) : 0);
}

const char *sg_writer_encoder(const sg_clip *given, const char **what)
{
    sg_clip own, *const clip = &own;
    if (take(&own, given, NULL) || check_numbers(&own, NULL)) return NULL;
    const sg_writer_type *const type = type_of(clip);
    return type && type->encoder ? type->encoder(clip, what) : NULL;
}

/* Opens the file of a frame, or only checks that it may be written. */
static sg_status open_file(sg_writer *s, int index, bool only_check, sg_error *e)
{
    if (s->clip.has_descriptor) return sg_output_file_open_descriptor(&s->file[0], s->clip.descriptor, s->clip.path, e);
    char *const name = s->type->file_name ? s->type->file_name(&s->clip, index) : strdup(s->clip.path);
    if (!name) return sg_error_memory(e, s->clip.path);
    const sg_status status =
        only_check ? sg_output_file_check(name, "path", e) : sg_output_file_open(&s->file[index], name, e);
    if (only_check)
        free(name);
    else
        s->name[index] = name;
    return status;
}

static sg_status write_frame(sg_writer *s, int index, sg_error *e)
{
    const uint8_t *const rgb = s->slot[index % SLOTS];
    if (!s->type->file_name) return s->type->write(s->state, &s->clip, s->file[0], index, rgb, e);
    if (!s->file[index]) SG_TRY(open_file(s, index, false, e));
    SG_TRY(s->type->write(s->state, &s->clip, s->file[index], index, rgb, e));
    return sg_output_file_complete(s->file[index], e);
}

static void *write_frames(void *context)
{
    sg_writer *s = context;
    sg_error   e = {0};
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        while (s->taken == s->written && !s->ended) pthread_cond_wait(&s->changed, &s->mutex);
        if (s->taken == s->written) break;
        const int  index = s->taken++;
        const bool failed = s->error.code != SG_OK; /* frames after a failure are dropped */
        pthread_mutex_unlock(&s->mutex);
        const sg_status status = failed ? SG_OK : write_frame(s, index, &e);
        pthread_mutex_lock(&s->mutex);
        if (status != SG_OK && s->error.code == SG_OK) s->error = e;
        s->full[index % SLOTS] = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

/* Before the first file is opened, all are checked. */
static sg_status start(sg_writer *s, sg_error *e)
{
    const int threads = s->files > 1 ? SG_WRITER_THREADS : 1;
    int       failure = 0;
    for (int i = 0; s->type->file_name && i < s->files; i++) SG_TRY(open_file(s, i, true, e));
    SG_TRY(open_file(s, 0, false, e));
    if (s->type->open) SG_TRY(s->type->open(s->state, &s->clip, s->file[0], e));
    while (s->threads < threads && !(failure = sg_thread_start(&s->thread[s->threads], write_frames, s))) s->threads++;
    if (!failure) return SG_OK;
    return sg_error_set(e, SG_E_MEMORY, "%s: no thread for writing: %s", s->clip.path, strerror(failure));
}

sg_status sg_writer_open(sg_writer **out, const sg_clip *given, sg_error *e)
{
    *out = NULL;
    const sg_writer_type *type;
    sg_clip               own;
    const sg_clip *const  clip = &own;
    SG_TRY(take(&own, given, e));
    if (!own.width || !own.height || !own.frames || !own.fps)
        return sg_error_set(e, SG_E_ARG, "clip: %d frames of %dx%d at %d a second: each must be 1 or more", own.frames,
                            own.width, own.height, own.fps);
    SG_TRY(check_type(&type, clip, e));
    if (own.has_descriptor) own.beside = NULL;
    if (!own.path) own.path = "descriptor";
    sg_writer *s = calloc(1, sizeof *s);
    if (!s) return sg_error_memory(e, clip->path);
    s->type = type;
    s->clip = *clip;
    s->frame_bytes = sg_image_bytes(clip->width, clip->height);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->files = type->file_name ? clip->frames : 1;
    s->file = calloc((size_t)s->files, sizeof *s->file);
    s->name = calloc((size_t)s->files, sizeof *s->name);
    s->state = calloc(1, type->state_size + 1);
    bool enough = s->file && s->name && s->state;
    for (int i = 0; i < SLOTS; i++)
        enough = (s->slot[i] = calloc(1, s->frame_bytes + SG_WRITER_SLACK)) != NULL && enough;
    const sg_status status =
        enough ? start(s, e) : sg_error_set(e, SG_E_MEMORY, "%s: no memory for %d frames", clip->path, SLOTS);
    if (status != SG_OK)
        sg_writer_close(&s);
    else
        *out = s;
    return status;
}

sg_status sg_writer_write(sg_writer *s, int index, const uint8_t *rgb, sg_error *e)
{
    if (s->complete) return sg_error_set(e, SG_E_ARG, "%s: frame %d comes after the end", s->clip.path, index);
    const int slot = s->written % SLOTS;
    pthread_mutex_lock(&s->mutex);
    while (s->full[slot]) pthread_cond_wait(&s->changed, &s->mutex);
    sg_status status = sg_error_copy(e, &s->error);
    if (status == SG_OK && (index != s->written || index >= s->clip.frames))
        status = sg_error_set(e, SG_E_ARG, "%s: frame %d comes where frame %d of %d is due", s->clip.path, index,
                              s->written, s->clip.frames);
    if (status == SG_OK) {
        memcpy(s->slot[slot], rgb, s->frame_bytes);
        s->full[slot] = true;
        s->written++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
    return status;
}

static void join(sg_writer *s)
{
    pthread_mutex_lock(&s->mutex);
    s->ended = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    while (s->threads > 0) pthread_join(s->thread[--s->threads], NULL);
}

static sg_status finish(sg_writer *s, sg_error *e)
{
    if (s->type->finish) SG_TRY(s->type->finish(s->state, e));
    return sg_output_file_complete(s->file[0], e); /* files of a frame each are complete */
}

sg_status sg_writer_complete(sg_writer *s, sg_error *e)
{
    const bool whole = s->written == s->clip.frames;
    join(s);
    if (whole && !s->complete && s->error.code == SG_OK) (void)finish(s, &s->error);
    s->complete = true;
    SG_TRY(sg_error_copy(e, &s->error));
    if (whole) return SG_OK;
    return sg_error_set(e, SG_E_SHAPE, "%s: %d of %d frames came", s->clip.path, s->written, s->clip.frames);
}

sg_status sg_writer_finish(sg_writer *s, sg_error *e)
{
    SG_TRY(sg_writer_complete(s, e));
    if (s->finished) return sg_error_set(e, SG_E_ARG, "%s: it was finished already", s->clip.path);
    s->finished = true;
    if (s->clip.beside) {
        free(s->name[0]);
        SG_TRY(sg_output_file_publish_beside(&s->file[0], s->clip.beside, &s->name[0], e));
        s->published = 1;
    }
    for (; s->published < s->files; s->published++) SG_TRY(sg_output_file_publish(&s->file[s->published], e));
    return SG_OK;
}

const char *sg_writer_file(const sg_writer *s, int i) { return i >= 0 && i < s->published ? s->name[i] : NULL; }

void sg_writer_close(sg_writer **writer)
{
    sg_writer *s = *writer;
    if (!s) return;
    join(s);
    if (s->state && s->type->close) s->type->close(s->state);
    for (int i = 0; s->file && i < s->files; i++) sg_output_file_discard(&s->file[i]);
    for (int i = 0; s->name && i < s->files; i++) free(s->name[i]);
    for (int i = 0; i < SLOTS; i++) free(s->slot[i]);
    free(s->state);
    free(s->file);
    free(s->name);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s);
    *writer = NULL;
}

sg_status sg_writer_save(const sg_clip *clip, const uint8_t *rgb, sg_error *e)
{
    const size_t frame = sg_image_bytes(clip->width, clip->height);
    sg_writer   *s = NULL;
    sg_status    status = sg_writer_open(&s, clip, e);
    for (int i = 0; i < clip->frames && status == SG_OK; i++)
        status = sg_writer_write(s, i, rgb + (size_t)i * frame, e);
    if (status == SG_OK) status = sg_writer_finish(s, e);
    sg_writer_close(&s);
    return status;
}

sg_status sg_writer_save_picture(const char *path, const uint8_t *rgb, int width, int height, const char *settings,
                                 sg_error *e)
{
    const sg_clip clip = {.size = sizeof(sg_clip),
                          .path = path,
                          .width = width,
                          .height = height,
                          .frames = 1,
                          .fps = 1,
                          .settings = settings,
                          .literal = true};
    return sg_writer_save(&clip, rgb, e);
}

static sg_status read_settings(const char *path, const sg_map *file, char **out, sg_error *e)
{
    for (int i = 0; i < TYPES; i++) {
        const sg_writer_type *const t = types[i];
        const size_t                n = t->magic ? strlen(t->magic) : 0;
        if (!n || file->size < t->magic_at + n || memcmp(file->data + t->magic_at, t->magic, n) != 0) continue;
        SG_TRY(t->read(path, file, out, e));
        if (*out) return SG_OK;
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: keeps no settings: not made by sparge-gen, processed since, a preview, or a grid of "
                            "several prompts",
                            path);
    }
    return sg_error_set(e, SG_E_FORMAT, "%s: neither a model's folder nor a file that can keep settings%s", path,
                        SG_FFMPEG ? " (.mp4, .mkv, .webp, .png, .jpg)"
                                  : " (.png, .jpg; .mp4, .mkv and .webp need a build with FFmpeg)");
}

sg_status sg_writer_read_settings(const char *path, char **out, sg_error *e)
{
    sg_map file;
    *out = NULL;
    SG_TRY(sg_map_open(&file, path, e));
    const sg_status status = read_settings(path, &file, out, e);
    sg_map_close(&file);
    return status;
}
