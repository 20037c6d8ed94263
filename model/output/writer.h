/* writer.h - writes frames. The ending of the file's name selects the format. A thread, or two where each frame is a
 * file of its own, write from a short queue while the next frames are decoded. No file has its final name before
 * sg_writer_finish. */
#ifndef SG_WRITER_H
#define SG_WRITER_H

#include "base/file.h"
#include "base/image.h"
#include "base/output_file.h"
#include "engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A format may read so many bytes after a frame, though not use them: libswscale reads in vectors. */
enum { SG_WRITER_SLACK = 64 };

/* At most so many threads write for a writer. */
enum { SG_WRITER_THREADS = 2 };

typedef struct sg_clip {
    const char *path; /* "-": Y4M on stdout */
    int         width, height, frames, fps;
    const char *settings; /* JSON, kept in the file where the format can; NULL: none */
    bool        literal;  /* path's name is not a pattern, even if it looks like one */
    const char *
        beside; /* no file is replaced: the clip gets the first free of the names that come of this; NULL: it is path */
    bool   has_crf; /* the next was asked for */
    double crf;     /* of H.264 or AV1: 0 to 51, the lower the better */
    bool   has_png_level;
    int    png_level; /* 0, not compressed, to 9, the smallest file */
    /* An MP4 is written by the first of these that opens: FFmpeg's names, NULL at the end. NULL: the usual ones. */
    const char *const *encoders;
} sg_clip;

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

/* Returns the clip that r renders, as this file. */
sg_clip sg_clip_of(const sg_request *r, const char *path);

/* Returns the file of a clip that was given none: a clip of one frame is an image. */
const char *sg_writer_default_name(int frames);

/* Returns the name of one of several clips, index from 0, in numbers from 1: ball-0002.mp4. Where the name of a PNG has a
 * place for the frame's number, that of an image is the clip's, and else the clip's comes before it: f-0002-%04d.png. The
 * caller frees; NULL: no memory. */
char *sg_writer_numbered(const char *path, int index, int frames);

/* Lists what this build writes: ".mp4, .mkv, .webp, .png, .jpg, .y4m". Returns text. */
const char *sg_writer_endings(char *text, size_t size);

/* Checks what is seen of a file without a clip: its ending is one of these, parted by blanks, that this build writes,
 * and its folder is writable. what names the option in messages. SG_E_ARG, SG_E_FILE. */
sg_status sg_writer_check_ending(const char *path, const char *what, const char *endings, sg_error *e) SG_MUST_USE;

/* Checks the clip: a known ending, a format that can hold it, a writable folder. SG_E_ARG, SG_E_FILE, or
 * SG_E_UNSUPPORTED where a library lacks the format. */
sg_status sg_writer_check(const sg_clip *clip, sg_error *e) SG_MUST_USE;

/* Does the same without the folder, which may not be there yet. */
sg_status sg_writer_check_format(const sg_clip *clip, sg_error *e) SG_MUST_USE;

/* Returns the memory that a writer for this clip takes. */
size_t sg_writer_bytes(const sg_clip *clip);

/* Returns the encoder that the clip will be written by, where its format has several: FFmpeg's name, and in *what
 * "H.264" or "AV1". NULL: the format has but one, or none opens. A clip without a size is tried at a usual one. */
const char *sg_writer_encoder(const sg_clip *clip, const char **what);

/* Returns FFmpeg's version; NULL: this build has none. */
const char *sg_writer_ffmpeg(void);

typedef struct sg_writer sg_writer;

/* clip is copied but for its strings, which must live until close. */
sg_status sg_writer_open(sg_writer **out, const sg_clip *clip, sg_error *e) SG_MUST_USE;

/* rgb [height, width, 3] is copied. An error of an earlier frame may be returned by a later call. */
sg_status sg_writer_write(sg_writer *s, int index, const uint8_t *rgb, sg_error *e) SG_MUST_USE;

/* Waits for the last frame: the file is whole, but has no name yet, so that several can appear together. Fewer frames
 * than announced are a failure. */
sg_status sg_writer_complete(sg_writer *s, sg_error *e) SG_MUST_USE;

/* Completes, unless that was done, and gives the file its name. */
sg_status sg_writer_finish(sg_writer *s, sg_error *e) SG_MUST_USE;

/* Returns the i-th of the files that have been finished, from 0; NULL: there are no more. It is s's until close. */
const char *sg_writer_file(const sg_writer *s, int i);

/* Closes it. Unless it was finished, nothing remains. */
void sg_writer_close(sg_writer **s);

/* Writes a whole clip, rgb [frames, height, width, 3]. It has its name when it is whole. */
sg_status sg_writer_save(const sg_clip *clip, const uint8_t *rgb, sg_error *e) SG_MUST_USE;

/* Does the same with one picture. settings are as sg_clip's. */
sg_status sg_writer_save_picture(const char *path, const sg_image *picture, const char *settings,
                                 sg_error *e) SG_MUST_USE;

/* Reads the settings kept in a clip or picture of ours; *out is the caller's to free. SG_E_FORMAT if there are none. */
sg_status sg_writer_read_settings(const char *path, char **out, sg_error *e) SG_MUST_USE;

#endif
