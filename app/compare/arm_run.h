/* arm_run.h - runs the arms of a prompt for the commands that have some: it sets them up, renders one arm after the
 * other, times and scores each render, and tells what came of it. The arms start from the same noise, and the others
 * are compared with the first arm's frames. */
#ifndef SG_ARM_RUN_H
#define SG_ARM_RUN_H

#include "arms.h"
#include "clip_scores.h"
#include "report.h"
#include "report_attention.h"
#include "session.h"
#include "speedup.h"

/* An arm has settings and a clip, which is at work or was done last: they are in now. count is
 * [steps][passes][layers] of that clip, and report is what the engine says of it. rgb is [frames, height, width, 3]
 * and borrowed; other arrays are owned. error is as count, with the error of attention, of a render that is not timed,
 * which took error_seconds to measure; NULL: there is none. speed compares the arm with the first. latents are those of
 * the last step, or NULL where none are kept. relative_l2 and cosine, [steps], compare latents with the first arm's; NAN
 * means that there is nothing to compare with. */
typedef struct sg_arm_result {
    const sg_arm       *arm;
    sg_rendering        now;
    sg_attention_count *count;
    int                 steps, passes, layers;
    sg_report           report;
    uint8_t            *rgb;
    sg_clip_scores      scores;
    sg_clip_totals      total;
    sg_attention_count *error;
    double              error_seconds;
    sg_arm_times        times;
    sg_arm_speed        speed;
    float              *latents;
    double             *relative_l2, *cosine;
} sg_arm_result;

/* A render that counts for no arm stops before the decoder, or even after so many steps, or after the decoder's first
 * chunk of latent frames. */
typedef enum sg_arm_part { SG_ARM_WHOLE, SG_ARM_STEPS, SG_ARM_CHUNK } sg_arm_part;

/* shared is what the arms have in common; its request is the prompt's. Each arm renders once in each of the rounds,
 * of which there are so many at most; 0 rounds mean that nothing is timed. The arms render into frames. latents are
 * the first arm's, [steps, c, f, y, x], or NULL where none are kept. Both are owned.
 *
 * warm_up has the seconds of all that sg_arm_run_warm_up ran. At work, frames also go to the writer unless it is NULL.
 * stop is the step after which a part of SG_ARM_STEPS ends, 0: the last. last_unit is when the last step or chunk was
 * over, by a clock that stands still while arms are compared; attention is the seconds of its stages until then. aside is
 * the seconds that were spent on comparing and not on the render. */
typedef struct sg_arm_run {
    sg_session    session;
    sg_arms       arms;
    sg_rendering  shared;
    sg_arm_result arm[SG_ARMS_MAX];
    int           rounds;
    uint8_t      *frames;
    size_t        frames_bytes;
    float        *latents;
    sg_report     warm_up;

    /* at work */
    sg_arm_result *now;
    size_t         round;
    sg_writer     *writer;
    sg_arm_part    part;
    int            stop;
    double         last_unit, attention[SG_ATTENTION_STAGES], aside;
} sg_arm_run;

/* Opens the engine and sets up x's arms, after the session's inputs, if there are some. A size that was not asked for
 * is the model's, doubled until there are tokens to skip. Returns SG_E_ARG, SG_E_FILE or SG_E_FORMAT, which name the
 * option or the arm. The caller closes, after a failure too. */
sg_status sg_arm_run_open(sg_arm_run *x, sg_error *e) SG_MUST_USE;
void      sg_arm_run_close(sg_arm_run *x);

/* Writes why arms a and b run the same, in the words of the one that asks for more. Returns why. */
const char *sg_arms_why_same(char why[SG_FORECAST_TEXT], const sg_arm_result *a, const sg_arm_result *b);

/* Writes why arms a and b would run the same kernels on the same blocks, or "" if they would not. Returns why. */
const char *sg_arms_would_be_same(char why[SG_FORECAST_TEXT], const sg_arm_result *a, const sg_arm_result *b);

/* Returns SG_E_ARG if two arms would run the same kernels throughout in a clip of the usual size; if that is for its
 * few tokens, it names the smallest size where they would not. What only a render shows, as thresholds that keep all
 * blocks, is not known here. */
sg_status sg_arms_refuse_same(const sg_arm_run *x, sg_error *e) SG_MUST_USE;

/* Prints what renders: the model, the size, each arm's attention and warnings about its thresholds. */
void sg_arm_run_say(sg_arm_run *x, const sg_plan *plan);

/* Runs steps and a latent frame of every arm, for r, that count for none: a step of each kind that the arm has, dense
 * ones and others, and where a device replays steps as many as it takes to record one. This reads the weights' pages,
 * packs the weights and encodes r's texts, and each arm's kernels have run before it is timed. Where an arm's
 * request has attention_error, all of its steps run once with it, and no others do. A run that goes on
 * after an interrupt warms up again. Returns SG_E_CANCELLED on an interrupt. */
sg_status sg_arm_run_warm_up(sg_arm_run *x, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Returns the bytes of all frames of r's clip. */
static inline size_t sg_arm_clip_bytes(const sg_request *r)
{
    return (size_t)r->frames * sg_image_bytes(r->width, r->height);
}

/* Gives the arms memory for so many clips of r's size: the first arms have one each, and all others share the last.
 * What was rendered is lost where there was too little. Returns SG_E_MEMORY. */
sg_status sg_arm_run_reserve(sg_arm_run *x, int clips, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Renders arm r into its rgb, and into the writer, without attention_error. In the first round it keeps what attention
 * did. */
sg_status sg_arm_run_render(sg_arm_run *x, sg_arm_result *r, sg_error *e) SG_MUST_USE;

/* Compares r's frames with the first arm's; of the first arm itself only what its clip shows is found. Returns
 * SG_E_CANCELLED or SG_E_MEMORY. */
sg_status sg_arm_run_score(const sg_arm_run *x, sg_arm_result *r, sg_error *e) SG_MUST_USE;

/* Returns what a clip of r keeps of how it was made. */
sg_settings sg_arm_kept(const sg_arm_result *r);

/* Returns the clip at path that has r's size and rate, and these settings. */
sg_clip sg_arm_clip(const sg_arm_result *r, const char *path, const char *settings);

/* Returns the share of the pairs of blocks that arm r computed in this layer of this step, where -1 stands for all. It
 * is NAN where nothing ran. */
double sg_arm_density(const sg_arm_result *r, int step, int layer);

/* Returns {seconds {total, text, encode, denoise, decode}, steps, skipped_steps [step, ...], density}, which are known
 * once r has rendered: eval_results.h tells more. It is NULL where there is no memory. */
json_t *sg_arm_made_json(const sg_arm_result *r);

/* Returns a hash of what attention did in each layer of each step. It is NULL where there is no memory. */
json_t *sg_arm_ran_json(const sg_arm_result *r);

/* Returns {sharpness, flicker, black, frozen}, and of an arm that was compared psnr, ssim, ms_ssim {mean, minimum, p5},
 * which are known once r is scored. It is NULL where there is no memory. */
json_t *sg_arm_scores_json(const sg_arm_result *r, bool first);

#endif
