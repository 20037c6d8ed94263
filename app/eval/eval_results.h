/* eval_results.h - what `eval` has found so far: the lines of DIR/results*.jsonl, an object for each clip.
 *
 *   version       2; grows when a member changes its meaning or goes. Version 1 is read too: it has kept for density
 *   arm           its name
 *   arm_index     its place in the manifest's "arms"; 0 is what the others are compared with
 *   prompt, clip  place in the set, and which of that prompt's clips; both from 0
 *   status        "done" or "failed"; "scored": of a clip that is done, by CLIP (clip_similarity.h), once its file is there
 *   text, groups  the prompt, and the groups of the set that it belongs to
 *   seed, width, height, frames
 *   file, picture the clip and frames of it, relative to DIR
 *   image, last_image  {file: its name, hash: of it, picture: relative to DIR}: what the clip begins and ends with, if anything;
 *                 fit: how it was fitted, as a video
 *   video, strength  {file, hash} of what the clip was made from, if anything, and the share of the steps that were done
 *   seconds       {total, text, encode, denoise, decode}: as measured; total with text and encode (of pictures or a
 *                 video), which are 0 where an earlier clip had the same encoded
 *   same_kernels  whether the arm ran, in this clip, what arm 0 runs, as far as settings and sizes tell; not of arm 0
 *   steps         of denoising; skipped_steps: [step, ...], from 0, those that the step cache extrapolated
 *   density       share of the pairs of blocks that were computed
 *   ran           hash of what attention did in each layer of each step: its kind, and how many blocks it left out
 *   psnr, ssim, ms_ssim  {mean, minimum, p5} over the frames, to the clip of arm 0; null: infinite
 *   flicker, sharpness   clip_figures.h
 *   black, frozen, non_finite  frames, pairs of frames, frames
 *   error         why it failed
 *   clipsim, clip_t, clip_score, cut_tokens  of a line that is "scored": what the clip's file has, and how many tokens of the
 *                 text CLIP did not read
 *
 * version to text are in every line, file and seconds.total in those that are done; whatever else is missing is
 * unknown. Members of other names are passed over. Who appends a line ends it with its newline: what follows the last
 * newline of a file was torn by a kill and does not count, so cut it off before appending. */
#ifndef SG_EVAL_RESULTS_H
#define SG_EVAL_RESULTS_H

#include "picture.h"

#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* There are at most so many prompts and clips of each, and so many groups. */
enum { SG_EVAL_LINE_VERSION = 2, SG_EVAL_PLACES = 1 << 20, SG_EVAL_GROUPS = 256 };

/* These are over the frames of a clip. INFINITY means that frames are equal. */
typedef struct sg_eval_score {
    double mean, minimum, p5;
} sg_eval_score;

/* own is total without text and encode, which an earlier clip may have had encoded. */
typedef struct sg_eval_seconds {
    double total, text, encode, denoise, decode, own;
} sg_eval_seconds;

/* file is NULL where there is none. A video has no picture. */
typedef struct sg_eval_picture {
    const char *file, *hash, *picture;
} sg_eval_picture;

/* This is a clip by one arm. Unknown numbers are NAN, an unknown seed is -1, unknown strings are NULL; strings are
 * UTF-8, and held holds them. name is the arm's, and version is that of the line. groups is a list of strings, or
 * NULL. A clip that is not done failed. same says that the line has same_kernels: true. Once it is scored, what CLIP
 * says of such clips is known. steps_computed are those that the step cache did not extrapolate. The clip stands in
 * file `source`, in this line, from 1. */
typedef struct sg_eval_clip {
    int             version;
    int             prompt, clip, arm;
    bool            done, scored, same;
    const char     *name, *text, *file, *picture, *error, *ran;
    sg_eval_picture image[SG_IMAGES], video;
    const json_t   *groups;
    int64_t         seed;
    double          width, height, frames, black, frozen, non_finite, strength;
    sg_eval_seconds seconds;
    sg_eval_score   psnr, ssim, ms_ssim;
    double          flicker, sharpness, clipsim, clip_t, clip_score, density;
    double          steps, steps_computed;
    int             source, line;
    json_t         *held;
} sg_eval_clip;

/* A figure of a clip is a member of sg_eval_clip and a row of the table below: by the rows lines are read, and
 * summary, CSV, JSON and page are made. The flags say of a figure: */
typedef enum sg_eval_flag {
    SG_EVAL_WHOLE = 1 << 0,    /* it is a whole number */
    SG_EVAL_SCORE = 1 << 1,    /* it is an sg_eval_score, to the first arm, and its mean has an interval */
    SG_EVAL_INFINITE = 1 << 2, /* null stands for infinity, not for unknown */
    SG_EVAL_BOUNDED = 1 << 3,  /* it is 1 at most, and the interval is taken on Fisher's z */
    SG_EVAL_MADE = 1 << 4,     /* it is made of others, and lines do not have it */
    SG_EVAL_JUDGED = 1 << 5,   /* it is in lines that are "scored" */
    SG_EVAL_PAGE = 1 << 6,     /* the page has it of each clip */
    SG_EVAL_TIME = 1 << 7      /* it is a time, and unknown of arms that ran the same kernels as the first */
} sg_eval_flag;

/* The summary has of a figure nothing, or its mean over the clips of an arm; and with that how far it is from the first
 * arm's, or, of seconds, how many times as fast: then the mean is geometric. */
typedef enum sg_eval_kind { SG_EVAL_NONE, SG_EVAL_MEAN, SG_EVAL_CHANGE, SG_EVAL_SPEEDUP, SG_EVAL_KINDS } sg_eval_kind;

/* key is that of lines, summary and page; "a.b" is member b of member a. Lines of version 1 may have `was` instead. at
 * is the offset in sg_eval_clip of a double or an sg_eval_score; a line with a value beyond lo and hi is refused. flags
 * are of sg_eval_flag. Scores and judgements have a name for people, with so many digits and a unit, which begins with
 * its space. */
typedef struct sg_eval_figure {
    const char  *key;
    size_t       at;
    double       lo, hi;
    sg_eval_kind kinds;
    unsigned     flags;
    const char  *name;
    int          digits;
    const char  *unit, *was;
} sg_eval_figure;

/* The table ends with a row whose key is NULL. */
extern const sg_eval_figure sg_eval_figures[];

/* This is where the clip has the figure: one double, or three of a score. */
const double *sg_eval_values(const sg_eval_figure *f, const sg_eval_clip *c);

/* clip[count] is sorted by prompt, clip and arm, and has each once; source[sources] is sorted by d_name. There is room
 * for so many clips. Zero is none. */
typedef struct sg_eval_results {
    int             count, sources;
    size_t          room;
    sg_eval_clip   *clip;
    struct dirent **source;
} sg_eval_results;

/* Tells whether such a file has this name, which matches results*.jsonl. */
bool sg_eval_results_owns(const char *name);

/* Reads all of them in a folder, sorted by name; none is no error. Of several lines for one clip of one arm the last
 * that is done counts, or the last; and the last that is scored, unless the same file has the clip done again after it.
 * Returns SG_E_FORMAT, with file, line and member, for JSON that is not sound, a value of another type or out of
 * bounds, or a path that leaves the folder, SG_E_FILE or SG_E_MEMORY. Takes memory in proportion to the files. The
 * caller closes, after a failure too. */
sg_status sg_eval_results_open(sg_eval_results *out, const char *directory, sg_error *e) SG_MUST_USE;
void      sg_eval_results_close(sg_eval_results *r);

/* Returns the clip's place in the results, or -1. */
int sg_eval_results_find(const sg_eval_results *r, int prompt, int clip, int arm);

/* Reads one line without its newline, of so many bytes; messages name file and line. *out is to be freed in any
 * case. */
sg_status sg_eval_line_read(sg_eval_clip *out, const char *text, size_t size, const char *file, int line,
                            sg_error *e) SG_MUST_USE;
void      sg_eval_clip_free(sg_eval_clip *c);

/* Tells whether a relative path stays within its folder, read as a file's or as an address: it has no empty part, "."
 * or "..", no control character or backslash, and no scheme. */
bool sg_eval_path_stays(const char *path);

#endif
