/* clip_reader.h - the frames of a clip one by one, from a picture, a folder of pictures, a Y4M, or a video by FFmpeg.
 * One frame is held at a time. The format is found by a file's first bytes, not by its name.
 *
 * Y4M: 4:4:4 in 8 bits and limited range, converted by BT.601, as FFmpeg does it, or by BT.709 where version 0.1 wrote
 * it. Any other, such as 4:2:0, is read by FFmpeg as a video. Without FFmpeg 4:2:0 in 8 bits and limited range is read in
 * the same way as 4:4:4, a chroma sample for each of its four pixels.
 *
 * Videos: the best stream of pictures of an MP4, MOV, MKV, WebM or AVI; sound and the rest are ignored, and so are
 * the pixel aspect ratio and the transfer curve. Frames are converted to RGB as in players: by the stream's
 * matrix and range (BT.601 and limited range without them, as in FFmpeg), and rotated and mirrored as the container
 * says. Refused: more pixels than an image may have, a size or format that changes within the clip, and truncated or
 * damaged files, as far as the container and the codec reveal it. */
#ifndef SG_CLIP_READER_H
#define SG_CLIP_READER_H

#include "base/image.h"
#include "frame_list.h"

#include <limits.h>

/* A file's frames may have lost nothing, as in PNG or a video of a lossless codec in RGB; something by conversion to
 * YUV only, as in Y4M; or by a lossy codec, as in JPEG and most videos. */
typedef enum sg_clip_loss { SG_CLIP_STORED, SG_CLIP_CONVERTED, SG_CLIP_COMPRESSED } sg_clip_loss;

/* The names are "as stored", "after conversion to YUV" and "after compression". */
extern const char *const sg_clip_loss_names[];

typedef struct sg_clip_frame {
    const sg_image *image;
    /* time is when it is shown, in seconds after the first; negative: unknown. */
    double time;
    /* loss is the worst of the frames so far. */
    sg_clip_loss loss;
} sg_clip_frame;

/* A type reads a format of whole clips. close also comes after a failure of open, and must stand a half-opened state,
 * which is zeroed before open. */
typedef struct sg_clip_type {
    size_t state_size;
    /* path must live until close. open and next return SG_E_FILE, SG_E_FORMAT, SG_E_UNSUPPORTED or SG_E_MEMORY. */
    sg_status (*open)(void *state, const char *path, sg_error *e);
    /* Fills *frame, which is zero: its image stays state's until another one comes, and NULL after the last. */
    sg_status (*next)(void *state, sg_clip_frame *frame, sg_error *e);
    void (*close)(void *state);
} sg_clip_type;

extern const sg_clip_type sg_clip_y4m, sg_clip_video;

typedef struct sg_clip_reader {
    /* count frames have come, and last was the last of them. The other members are the reader's own. */
    int           count;
    sg_clip_frame last;

    const char *path;
    /* type and its state read whole clips; NULL: the pictures of list are read, picture is the last that came. */
    const sg_clip_type *type;
    void               *state;
    sg_frame_list       list;
    sg_image            picture;
    char                where[PATH_MAX + 24];
} sg_clip_reader;

/* Opens path, which must live until close. Returns errors as sg_clip_type's do, and SG_E_UNSUPPORTED for a video in a
 * build without FFmpeg. */
sg_status sg_clip_reader_open(sg_clip_reader **out, const char *path, sg_error *e) SG_MUST_USE;

/* *frame gets the next, which is r's until another one comes, or NULL after the last. */
sg_status sg_clip_reader_next(sg_clip_reader *r, const sg_image **frame, sg_error *e) SG_MUST_USE;

/* Returns the pictures, if the clip is a folder or a picture; otherwise NULL, and the number of frames is unknown until
 * the end. */
const sg_frame_list *sg_clip_reader_list(const sg_clip_reader *r);

/* Names the last frame that came, for messages: by its path, or by the clip's and the number of the frame, from 0. The
 * text is r's until the next call. */
const char *sg_clip_reader_where(sg_clip_reader *r);

/* *r may be NULL. */
void sg_clip_reader_close(sg_clip_reader **r);

#endif
