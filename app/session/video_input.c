/* video_input.c - see video_input.h. */
#include "video_input.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "interrupt.h"
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING 1e-3 /* of times, in frames */

static sg_status open_reader(sg_video_input *v, sg_error *e)
{
    SG_TRY(sg_clip_reader_open(&v->reader, v->path, e));
    SG_TRY(sg_clip_reader_next(v->reader, &v->frame, e));
    if (!v->frame) return sg_error_set(e, SG_E_FORMAT, "%s: holds no frame", v->path);
    const sg_frame_list *const list = sg_clip_reader_list(v->reader);
    v->hash = SG_HASH;
    if (!list) return sg_file_hash(&v->hash, v->path, e);
    for (int i = 0; i < list->count; i++) SG_TRY(sg_file_hash(&v->hash, list->path[i], e));
    return SG_OK;
}

sg_status sg_video_input_open(sg_video_input *v, const char *path, const char *what, sg_error *e)
{
    *v = (sg_video_input){.path = path, .what = what};
    return path ? sg_error_in(e, open_reader(v, e), what) : SG_OK;
}

/* The frames of the clip so far, and where the video is. */
typedef struct reading {
    bool   keeps;        /* the frames; otherwise they are counted */
    size_t left;         /* so many pixels of the video may still be read */
    int    frames;       /* of the clip */
    double time, period; /* of the frame that came last, seconds: when it is shown, how long */
    size_t bytes;        /* of a frame */
} reading;

/* Appends the frame that came last as those of the clip that are shown before `until`, counted in its frames. */
static sg_status append(sg_video_input *v, reading *p, const sg_request *r, const char *fit, double until, sg_error *e)
{
    sg_image  fitted = {0};
    sg_status status = SG_OK;
    for (; status == SG_OK && p->frames < r->frames && p->frames < until; p->frames++) {
        if (!p->keeps) continue;
        uint8_t *const more = realloc(v->rgb, (size_t)(p->frames + 1) * p->bytes);
        if (more) v->rgb = more;
        if (!more)
            status = sg_error_set(e, SG_E_MEMORY, "out of memory for %d frames", p->frames + 1);
        else if (!fitted.rgb)
            status = sg_picture_fit(&fitted, v->frame, fit, r->width, r->height, e);
        if (status == SG_OK) memcpy(v->rgb + (size_t)p->frames * p->bytes, fitted.rgb, p->bytes);
    }
    sg_image_close(&fitted);
    return sg_error_in(e, status, v->path);
}

/* The most frames that the model makes, up to `most`; 0: not even its least. */
static int frames_below(const sg_engine *engine, int most)
{
    for (int i = most; i > 0; i--) {
        int frames = i;
        sg_engine_nearest_size(engine, NULL, NULL, &frames);
        if (frames <= most) return frames;
    }
    return 0;
}

/* The nearest frame of a moment is this one until half-way to the next, which is as far away as the one before. The last is
 * shown as long as the one before it, to the end of that time. */
static sg_status read_frames(sg_video_input *v, const sg_engine *engine, const sg_request *r, const char *fit,
                             bool keeps, size_t pixels, sg_error *e)
{
    reading p = {.keeps = keeps, .left = pixels, .bytes = sg_image_bytes(r->width, r->height)};
    SG_TRY(append(v, &p, r, fit, ROUNDING, e));
    while (p.frames < r->frames) {
        const sg_image *frame;
        SG_TRY(sg_interrupt_check(e));
        SG_TRY(sg_clip_reader_next(v->reader, &frame, e));
        if (!frame) break;
        if ((size_t)frame->width * (size_t)frame->height > p.left) return SG_OK;
        p.left -= (size_t)frame->width * (size_t)frame->height;
        const double shown = v->reader->last.time, time = shown >= 0 ? shown : (v->reader->count - 1.0) / r->fps;
        p.period = time > p.time ? time - p.time : 0;
        p.time += p.period;
        v->frame = frame;
        SG_TRY(append(v, &p, r, fit, (p.time + p.period / 2) * r->fps - ROUNDING, e));
    }
    const int whole = p.frames;
    SG_TRY(append(v, &p, r, fit, (p.time + p.period) * r->fps + ROUNDING, e));
    if (p.frames == r->frames) return SG_OK;
    const int frames = frames_below(engine, whole);
    char      hint[48] = "";
    if (frames) snprintf(hint, sizeof hint, "; --frames %d would do", frames);
    return sg_error_set(e, SG_E_ARG, "%s: makes %d frame%s at %d fps, and the clip has %d%s", v->path, whole,
                        sg_plural(whole), r->fps, r->frames, hint);
}

sg_status sg_video_input_read(sg_video_input *v, const sg_engine *engine, sg_request *r, const char *fit, sg_error *e)
{
    if (!v->path) return SG_OK;
    const sg_status status = read_frames(v, engine, r, fit, true, SIZE_MAX, e);
    sg_clip_reader_close(&v->reader);
    SG_TRY(sg_error_in(e, status, v->what));
    const sg_model_info info = *sg_engine_info(engine);
    sg_video_input_give(v, &info, r);
    return SG_OK;
}

sg_status sg_video_input_check(sg_video_input *v, const sg_engine *engine, const sg_request *r, size_t pixels,
                               sg_error *e)
{
    return v->path ? sg_error_in(e, read_frames(v, engine, r, NULL, false, pixels, e), v->what) : SG_OK;
}

void sg_video_input_give(const sg_video_input *v, const sg_model_info *info, sg_request *r)
{
    const uint8_t **const start = info->frame_step ? &r->start_video : &r->start_image;
    if (v->path) *start = v->rgb ? v->rgb : v->frame->rgb;
}

void sg_video_input_close(sg_video_input *v)
{
    sg_clip_reader_close(&v->reader);
    free(v->rgb);
    v->rgb = NULL;
}
