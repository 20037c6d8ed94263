/* writer.h - what makes the formats of spargegen.h's writers, and what they share. The ending of the file's name selects
 * the format. A thread, or two where each frame is a file of its own, write from a short queue while the next frames are
 * decoded. No file has its final name before sg_writer_finish. */
#ifndef SG_WRITER_H
#define SG_WRITER_H

#include "base/file.h"
#include "base/image.h"
#include "base/output_file.h"
#include "spargegen/spargegen.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A format may read so many bytes after a frame, though not use them: libswscale reads in vectors. */
enum { SG_WRITER_SLACK = 64 };

/* At most so many threads write for a writer. */
enum { SG_WRITER_THREADS = 2 };

/* These make a format. Calls come in order open, write for each frame, finish, close; close also comes after any
 * failure, and must stand a half-opened state (zeroed before open). write runs in a thread of the writer's, all others
 * in the caller's. The writer opens the file, and completes, publishes or discards it. NULL stands for a function that
 * does nothing. */
typedef struct sg_writer_type {
    const char *name;
    const char *endings;                /* parted by blanks, the first is the usual one */
    const char *format;                 /* FFmpeg's name of it; NULL: FFmpeg does not write it */
    bool        has_crf, has_png_level; /* a clip's have an effect */
    int         max_side;               /* pixels; 0: any number */
    size_t      state_size;
    /* The memory that the format takes, its libraries' included: bytes of its code, bytes a pixel, and what depends on
     * more of the clip; NULL: nothing does. */
    size_t code, pixel;
    size_t (*bytes)(const sg_clip *clip);
    /* Checks what the format needs of the clip and of its libraries, before anything is opened. SG_E_ARG,
     * SG_E_UNSUPPORTED. */
    sg_status (*check)(const sg_clip *clip, sg_error *e);
    /* Returns FFmpeg's name of the encoder that the clip will be written by, and in *what what that makes. NULL: there
     * is one. */
    const char *(*encoder)(const sg_clip *clip, const char **what);
    /* Returns the file of a frame, the caller's to free; NULL: no memory. Where each frame is a file of its own,
     * SG_WRITER_THREADS threads write, each another frame, in any order. NULL: all frames are in the one file. */
    char *(*file_name)(const sg_clip *clip, int index);
    /* clip and file stay until close. */
    sg_status (*open)(void *state, const sg_clip *clip, sg_output_file *file, sg_error *e);
    sg_status (*write)(void *state, const sg_clip *clip, sg_output_file *file, int index, const uint8_t *rgb,
                       sg_error *e);
    sg_status (*finish)(void *state, sg_error *e);
    void (*close)(void *state);
    /* A file of this format begins so, but for so many bytes; NULL: it keeps no settings. */
    const char *magic;
    size_t      magic_at;
    /* Reads the settings kept in a file: *out is the caller's to free, NULL when the file has none. */
    sg_status (*read)(const char *path, const sg_map *file, char **out, sg_error *e);
} sg_writer_type;

extern const sg_writer_type sg_writer_mp4, sg_writer_mkv, sg_writer_webp, sg_writer_png, sg_writer_jpeg, sg_writer_y4m;

/* Returns FFmpeg's version; NULL: this build has none. */
const char *sg_writer_ffmpeg(void);

#endif
