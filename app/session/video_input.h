/* video_input.h - the video that a clip is made from: frames of a file, or the pictures of a folder, in the clip's
 * rate, number and size. */
#ifndef SG_VIDEO_INPUT_H
#define SG_VIDEO_INPUT_H

#include "clip_reader.h"

#include <spargegen/spargegen.h>

typedef struct sg_video_input {
    /* path is NULL where there is no video. what is the option or the field that named it, for messages. */
    const char *path, *what;
    /* hash is that of the file, or of the pictures' files one after the other. */
    uint64_t        hash;
    sg_clip_reader *reader;
    /* The frame that came last is the reader's. */
    const sg_image *frame;
    uint8_t        *rgb; /* [frames][height][width][3] */
} sg_video_input;

/* Opens path, unless it is NULL, and reads its first frame. The caller closes, after a failure too. */
sg_status sg_video_input_open(sg_video_input *v, const char *path, const char *what, sg_error *e) SG_MUST_USE;

/* Reads as many frames as r's clip has, in its size by `fit` of picture.h, and gives them to r, which borrows them. Of
 * each moment of the clip the nearest frame is taken; pictures have the clip's rate. What comes after the clip's end is
 * left. A video that ends before the clip does is SG_E_ARG, with the number of frames of engine's model that it would
 * do for. */
sg_status sg_video_input_read(sg_video_input *v, const sg_engine *engine, sg_request *r, const char *fit,
                              sg_error *e) SG_MUST_USE;

/* Reads the frames that sg_video_input_read would read, and fails as that would, but keeps none: v cannot be read any
 * more. What comes after so many pixels of the video is not looked at. */
sg_status sg_video_input_check(sg_video_input *v, const sg_engine *engine, const sg_request *r, size_t pixels,
                               sg_error *e) SG_MUST_USE;

/* Gives r what v has read, unless it has no path: all frames, or so far the first, which is enough for a plan. With a
 * model of images the frame is r's start_image. */
void sg_video_input_give(const sg_video_input *v, const sg_model_info *info, sg_request *r);

void sg_video_input_close(sg_video_input *v); /* zero is fine */

#endif
