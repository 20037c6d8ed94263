/* arm_run.h - the arms of a prompt, for the commands that have some: what is set up before they render, one render of one arm with
 * its times and its scores, and what came of it. They start from the same noise, and the first arm's frames are what the others
 * are compared with. */
#ifndef SG_ARM_RUN_H
#define SG_ARM_RUN_H

#include "arms.h"
#include "attention_error.h"
#include "clip_scores.h"
#include "report.h"
#include "session.h"
#include "sink.h"
#include "speedup.h"

/* One arm: what it is to do, and what came of it. Arrays are owned, but for rgb. */
typedef struct sg_arm_result {
    const sg_arm       *arm;
    sg_rendering        now;   /* its settings, and the clip at work or done last */
    sg_attention_count *count; /* [steps][passes][layers] of that, as the next of it */
    int                 steps, passes, layers;
    sg_report           report;
    uint8_t            *rgb; /* [frames, height, width, 3]; borrowed */
    sg_clip_scores      scores;
    sg_clip_totals      total;
    sg_attention_error  error; /* of attention, in the first round */
    sg_arm_times        times;
    sg_arm_speed        speed;    /* to the first arm */
    float              *latents;  /* the last step's; NULL: not kept */
    double *relative_l2, *cosine; /* to the first arm's latents, [steps]; NAN: there is nothing to compare with */
} sg_arm_result;

/* How far a render goes that counts for no arm: to the decoder, or to its first latent frame. */
typedef enum sg_arm_part { SG_ARM_WHOLE, SG_ARM_STEPS, SG_ARM_CHUNK } sg_arm_part;

typedef struct sg_arm_run {
    sg_session    session;
    sg_arms       arms;
    sg_rendering  shared; /* what they have in common; its request is the prompt's */
    sg_arm_result arm[SG_ARMS_MAX];
    int           rounds; /* each arm renders once in each; 0: without times */
    uint8_t      *frames; /* that arms render into; owned */
    size_t        frames_bytes;
    float        *latents; /* the first arm's, [steps, c, f, y, x]; owned; NULL: none are kept */
    sg_report     warm_up;

    /* at work */
    sg_arm_result *now;
    size_t         round;
    sg_sink       *sink; /* NULL: no file is wanted */
    sg_arm_part    part;
    double last_unit; /* when the last step or chunk was over, by a clock that stands still while arms are compared */
    double attention; /* seconds of attention until then */
    double aside;     /* seconds that were spent on comparing, not on the render */
} sg_arm_run;

/* Opens the engine and sets up the arms of list, after the session's inputs, if there are some. A size that asked leaves open
 * is the model's, doubled until there are tokens to skip. SG_E_ARG, SG_E_FILE or SG_E_FORMAT, naming the option or the arm. The
 * caller closes, after a failure too. */
sg_status sg_arm_run_open(sg_arm_run *x, const sg_session_options *o, sg_error *e) SG_MUST_USE;
void      sg_arm_run_close(sg_arm_run *x);

/* Says why arms a and b run the same, by the words of the one that asks for more. Returns why. */
const char *sg_arms_why_same(char *why, size_t size, const sg_arm_result *a, const sg_arm_result *b);

/* Why arms a and b would run the same kernels on the same blocks, or "" if they would not. Returns why. */
const char *sg_arms_would_be_same(char *why, size_t size, const sg_arm_result *a, const sg_arm_result *b);

/* Prints what renders: the model, the size, each arm's attention and warnings about its thresholds. */
void sg_arm_run_say(sg_arm_run *x, const sg_plan *plan);

/* Runs a step and a latent frame of the first arm, for r, that count for no arm: this reads the weights' pages, packs the
 * weights and encodes r's texts. SG_E_CANCELLED on an interrupt. */
sg_status sg_arm_run_warm_up(sg_arm_run *x, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Gives the arms memory for clips of r's size: the first so many have their own, all others the last of these. What was
 * rendered is lost where there was too little. SG_E_MEMORY. */
sg_status sg_arm_run_reserve(sg_arm_run *x, int clips, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Renders arm r into its rgb, and into the sink. In the first round it keeps what attention did. */
sg_status sg_arm_run_render(sg_arm_run *x, sg_arm_result *r, sg_error *e) SG_MUST_USE;

/* Compares r's frames with the first arm's; of the first arm itself only what its clip shows is found. SG_E_CANCELLED,
 * SG_E_MEMORY. */
sg_status sg_arm_run_score(const sg_arm_run *x, sg_arm_result *r, sg_error *e) SG_MUST_USE;

/* What a clip of r keeps of how it was made. */
sg_settings sg_arm_kept(const sg_arm_result *r);

/* The size, the rate and the settings of a clip of r; its path is NULL. */
sg_clip sg_arm_clip(const sg_arm_result *r, const char *path, const char *settings);

/* Share of the pairs of blocks that arm r computed, of layer l of step i; -1: of all. NAN where nothing ran. */
double sg_arm_density(const sg_arm_result *r, int step, int layer);

/* {seconds {total, text, encode, denoise, decode}, steps, skipped_steps [step, ...], density, sharpness, flicker, black, frozen},
 * and of an arm that was compared psnr, ssim, ms_ssim {mean, minimum, p5}: eval_results.h tells more. NULL: no memory. */
json_t *sg_arm_json(const sg_arm_result *r, bool first);

#endif
