/* eval.h - `sparge-gen eval`: what its files share. A unit is one clip of one prompt, with all arms after one another: they
 * start from the same noise, and the first arm's frames are what the others are compared with. */
#ifndef SG_EVAL_H
#define SG_EVAL_H

#include "arm_run.h"
#include "clip_names.h"
#include "eval_log.h"
#include "video_input.h"

#define SG_EVAL_FORMAT "sparge-gen eval"
#define SG_EVAL_MANIFEST "manifest.json"

/* What clips may be made from: the pictures of sg_pictures, and a video. */
enum { SG_EVAL_VIDEO = SG_IMAGES, SG_EVAL_INPUTS };

/* The inputs of the entry at work, and what is known of all: eval_pictures.h. */
typedef struct sg_eval_pictures {
    sg_pictures    now;
    sg_video_input video;
    char           path[SG_EVAL_INPUTS][PATH_MAX]; /* where they were read; empty: none */
    bool           read;                           /* the pictures are there, whole */
    int            video_size[3];                  /* width, height and frames that the video was read for */
    int            of;                             /* the entry that took them; -1: none */
    uint64_t (*hash)[SG_EVAL_INPUTS];              /* of the files, [set.count]; owned; 0: none */
    bool any, any_start;                           /* an entry has a picture; a video, or a picture, to start from */
} sg_eval_pictures;

typedef struct sg_eval {
    const sg_settings *settings;
    char              *folder; /* --out; owned */
    sg_rank            rank;
    int                threads;
    json_t            *clip; /* what the manifest says of --clip; owned; NULL: not asked for */
    sg_prompt_set      set;
    sg_clip_name      *names; /* [set.count]; owned */
    int                per_prompt;
    const char        *list; /* of arms */
    sg_arm_run   run; /* whose session has no pictures, which come with entries; its shared request is of all entries */
    sg_progress *progress; /* the run's */
    sg_eval_pictures pictures;
    sg_eval_log      log;
    int              due, done, failed; /* clips of this run: to be made when it began, and made since */
    double           start;             /* of the first of them, seconds */
    int              moved;             /* entries whose size the model cannot render, so that the nearest is taken */
    char             first_moved[160];  /* what became of the first of them */
    sg_status        failure;           /* of the last that failed */
} sg_eval;

/* Does everything before the first render: reads, checks and opens, and creates the folders. v is zero but for
 * settings, list, per_prompt, progress, log.fd and pictures.of. The caller closes, after a failure too. */
sg_status sg_eval_open(sg_eval *v, sg_error *e) SG_MUST_USE;
void      sg_eval_close(sg_eval *v);

/* The request of this clip, without the attention. Its pictures stay until the next call; where they fail, all else is set. */
sg_status sg_eval_request(sg_request *out, sg_eval *v, int prompt, int clip, sg_error *e) SG_MUST_USE;

/* The size of p's clips, its frames and strength; all else as usual. */
sg_request sg_eval_sized(const sg_eval *v, const sg_prompt *p);

/* Of the clips of this entry. */
int sg_eval_frames(const sg_eval *v, int prompt);

/* Whether all entries have clips of one frame. */
bool sg_eval_makes_images(const sg_eval *v);

/* Whether this rank makes such clips of all arms. */
bool sg_eval_takes(const sg_eval *v, int prompt, int clip);

/* Renders the missing clips of a unit. A failure of one clip is logged and is no failure of the unit, but SG_E_FILE,
 * SG_E_DEVICE and SG_E_CANCELLED end the run. */
sg_status sg_eval_unit(sg_eval *v, int prompt, int clip, sg_error *e) SG_MUST_USE;

#endif
