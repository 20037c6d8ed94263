/* clips.h - clips and pictures in files: the part of the library's API that needs no model. */
#ifndef SG_CLIPS_H
#define SG_CLIPS_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file of frames. The ending of its name selects the format. Sides and frames are 1 to 2^20, fps is 1 or more; while a
 * clip is only checked, 0 is one that is not known yet. */
typedef struct sg_clip {
    size_t      size;
    const char *path;
    int         width, height, frames, fps;
    const char *settings; /* JSON, kept in the file where the format can; NULL: none */
    bool        literal;  /* path's name is not a pattern (f-%04d.png), even if it looks like one */
    /* No file is replaced: the clip gets the first free of the names that come of this, which has path's folder and ending:
     * b.mp4, b-1.mp4. NULL: it is path. */
    const char *beside;
    bool        has_crf; /* the next was asked for */
    double      crf;     /* of H.264 or AV1: 0 to 51, the lower the better */
    bool        has_png_level;
    int         png_level; /* 0, not compressed, to 9, the smallest file */
    /* In place of a file frames go as Y4M to this open descriptor, as they come, another program's pipe for example. It
     * blocks, stays the caller's, and path, or NULL, is but its name in messages. A pipe that nobody reads any more
     * raises SIGPIPE; where the program ignores that, it is SG_E_FILE. */
    bool has_descriptor;
    int  descriptor;
    /* An MP4 is written by the first of these that opens: FFmpeg's names, NULL at the end. NULL: the usual ones. */
    const char *const *encoders;
} sg_clip;

typedef struct sg_writer sg_writer;

/* Returns the file of a clip that was given none: a clip of one frame is an image. */
SG_PUBLIC const char *sg_writer_default_name(int frames);

/* Returns the name of one of several clips, index from 0, in numbers from 1: ball-0002.mp4. Where the name of a PNG has a
 * place for the frame's number, that of an image is the clip's, and else the clip's comes before it: f-0002-%04d.png. The
 * caller frees; NULL: no memory. */
SG_PUBLIC char *sg_writer_numbered(const char *path, int index, int frames);

/* Lists what this build writes: ".mp4, .mkv, .webp, .png, .jpg, .y4m". Returns text. */
SG_PUBLIC const char *sg_writer_endings(char *text, size_t size);

/* Checks the clip: a known ending, a format that can hold it, a writable folder. SG_E_ARG, SG_E_FILE, or
 * SG_E_UNSUPPORTED where a library lacks the format. */
SG_PUBLIC sg_status sg_writer_check(const sg_clip *clip, sg_error *e) SG_MUST_USE;

/* Does the same without the folder, which may not be there yet. */
SG_PUBLIC sg_status sg_writer_check_format(const sg_clip *clip, sg_error *e) SG_MUST_USE;

/* Checks what is seen of a file without a clip: its ending is one of these, parted by blanks, that this build writes,
 * and its folder is writable. what is what messages call it. SG_E_ARG, SG_E_FILE. */
SG_PUBLIC sg_status sg_writer_check_ending(const char *path, const char *what, const char *endings,
                                           sg_error *e) SG_MUST_USE;

/* Returns the memory, in bytes, that a writer for this clip takes: a request's output_bytes. */
SG_PUBLIC size_t sg_writer_bytes(const sg_clip *clip);

/* Returns the encoder that the clip will be written by, where its format has several: FFmpeg's name, and in *what
 * "H.264" or "AV1". NULL: the format has but one, or none opens. A clip without a size is tried at a usual one. */
SG_PUBLIC const char *sg_writer_encoder(const sg_clip *clip, const char **what);

/* Starts a thread, or two where each frame is a file of its own, which write from a short queue while the next frames are
 * computed. No file has its final name before sg_writer_finish. clip is copied but for its strings. Fails as
 * sg_writer_check, and SG_E_MEMORY. */
SG_PUBLIC sg_status sg_writer_open(sg_writer **out, const sg_clip *clip, sg_error *e) SG_MUST_USE;

/* Takes the next frame, rgb [height][width][3], which is copied; index counts from 0, and SG_E_ARG is one that is not due.
 * An error of an earlier frame may be returned by a later call: SG_E_FILE, SG_E_DEVICE of an encoder, SG_E_MEMORY. */
SG_PUBLIC sg_status sg_writer_write(sg_writer *w, int index, const uint8_t *rgb, sg_error *e) SG_MUST_USE;

/* Waits for the last frame: the file is whole, but has no name yet, so that several can appear together. No frame may
 * come any more. SG_E_SHAPE: fewer came than were announced; and the errors of sg_writer_write. */
SG_PUBLIC sg_status sg_writer_complete(sg_writer *w, sg_error *e) SG_MUST_USE;

/* Completes, unless that was done, and gives the file its name. SG_E_FILE, and SG_E_ARG the second time. */
SG_PUBLIC sg_status sg_writer_finish(sg_writer *w, sg_error *e) SG_MUST_USE;

/* Returns the i-th of the files that have been finished, from 0; NULL: there are no more. It is w's until close. */
SG_PUBLIC const char *sg_writer_file(const sg_writer *w, int i);

/* Closes *w, which becomes NULL and may be it already. Unless it was finished, nothing remains. */
SG_PUBLIC void sg_writer_close(sg_writer **w);

/* Writes a whole clip, rgb [frames][height][width][3]. It has its name when it is whole. */
SG_PUBLIC sg_status sg_writer_save(const sg_clip *clip, const uint8_t *rgb, sg_error *e) SG_MUST_USE;

/* Writes one picture, rgb [height][width][3], in the same way; settings are as sg_clip's. */
SG_PUBLIC sg_status sg_writer_save_picture(const char *path, const uint8_t *rgb, int width, int height,
                                           const char *settings, sg_error *e) SG_MUST_USE;

/* Reads the settings kept in a clip or picture of ours; *out is the caller's to free. SG_E_FORMAT if there are none. */
SG_PUBLIC sg_status sg_writer_read_settings(const char *path, char **out, sg_error *e) SG_MUST_USE;

/* Makes out [out_height][out_width][3] of rgb [height][width][3] by Lanczos, in the bits of Pillow 13's Image.resize.
 * SG_E_ARG for a side that is not 1 to 2^24 pixels, SG_E_MEMORY. */
SG_PUBLIC sg_status sg_picture_resize(uint8_t *out, int out_width, int out_height, const uint8_t *rgb, int width,
                                      int height, sg_error *e) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
