/* eval.h - `sparge-gen eval`: what its files share. A unit is one clip of one prompt, with all arms after one another:
 * they start from the same noise, take turns in being first (eval_order.h), and the first arm of the list is what the
 * others are compared with. */
#ifndef SG_EVAL_H
#define SG_EVAL_H

#include "arm_run.h"
#include "clip_names.h"
#include "eval_log.h"
#include "video_input.h"

#define SG_EVAL_MANIFEST "manifest.json"

/* A clip may be made from these: the pictures of sg_pictures, and a video. */
enum { SG_EVAL_VIDEO = SG_IMAGES, SG_EVAL_INPUTS };

/* The session has the inputs of the entry at work; hash and what follows it tells of all entries (eval_pictures.h).
 * path is where they were read, or empty where there is none. read says that all are there. video_size
 * is the width, height and frames that the video was read for. `of` is the entry that took them; -1 means none. hash,
 * [set.count], is of the files, and 0 where there is none; it is owned. any says that an entry has a picture, and
 * any_start that one has a video, or a picture, to start from. */
typedef struct sg_eval_pictures {
    char path[SG_EVAL_INPUTS][PATH_MAX];
    bool read;
    int  video_size[3];
    int  of;
    uint64_t (*hash)[SG_EVAL_INPUTS];
    bool any, any_start;
} sg_eval_pictures;

typedef struct sg_clip_size {
    int width, height, frames;
} sg_clip_size;

/* folder is that of --output, and clip is what the manifest says of --clip, or NULL where it was not asked for; both
 * are owned, and so is names, [set.count]. list is that of the arms. session is the run's, whose pictures come with
 * entries; the run's shared request is of all entries; progress is the session's. due clips are to be made
 * when the run begins, there are those that an earlier run made, and done and failed were made since; start is when
 * the first of them began, in seconds. moved counts the entries whose size the model cannot render, so that the
 * nearest is taken, and first_moved tells what became of the first of them. failure is that of the clip that failed
 * last. warm has the sizes that all arms are warm for; it is owned. */
typedef struct sg_eval {
    const sg_settings *settings;
    char              *folder;
    sg_rank            rank;
    json_t            *clip;
    sg_prompt_set      set;
    sg_clip_name      *names;
    int                per_prompt;
    const char        *list;
    sg_arm_run         run;
    sg_session        *session;
    sg_progress       *progress;
    sg_eval_pictures   pictures;
    sg_eval_log        log;
    int                there, due, done, failed;
    double             start;
    int                moved;
    char               first_moved[160];
    sg_status          failure;
    sg_clip_size      *warm;
    int                warm_sizes;
    size_t             warm_room;
} sg_eval;

/* Does everything before the first render: reads, checks and opens, and creates the folders. v is zero but for
 * settings, list, per_prompt, session, progress, log.file.fd and pictures.of. The caller closes, after a failure too. */
sg_status sg_eval_open(sg_eval *v, sg_error *e) SG_MUST_USE;
void      sg_eval_close(sg_eval *v);

/* Makes the request of this clip, without the attention. Its pictures stay until the next call; where they fail, all
 * else is set. */
sg_status sg_eval_request(sg_request *out, sg_eval *v, int prompt, int clip, sg_error *e) SG_MUST_USE;

/* Returns a request with the size, the frames and the strength of p's clips; all else is as usual. */
sg_request sg_eval_sized(const sg_eval *v, const sg_prompt *p);

/* Returns how many frames the clips of this entry have. */
int sg_eval_frames(const sg_eval *v, int prompt);

/* Tells whether all entries have clips of one frame. */
bool sg_eval_makes_images(const sg_eval *v);

/* Tells whether this rank makes the clips of this unit. */
bool sg_eval_takes(const sg_eval *v, int prompt, int clip);

/* Renders the missing clips of a unit. A failure of one clip is logged and is no failure of the unit, but SG_E_FILE,
 * SG_E_DEVICE and SG_E_CANCELLED end the run. */
sg_status sg_eval_unit(sg_eval *v, int prompt, int clip, sg_error *e) SG_MUST_USE;

#endif
