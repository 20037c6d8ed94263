/* eval_summary.h - figures of each arm for each group of prompts, with intervals that hold 95 %.
 *
 * A figure is the mean over prompts of the mean over their clips, so that each prompt weighs the same. Its interval is
 * mean +- t s / sqrt(n) over the n prompts (interval.h): clips of one prompt are not independent, so they are not counted as
 * if they were. Fewer than two prompts have no interval. Those of SSIM and MS-SSIM, which are 1 at most, are taken on Fisher's z
 * (sg_interval_bounded), so that they end below 1. */
#ifndef SG_EVAL_SUMMARY_H
#define SG_EVAL_SUMMARY_H

#include "eval_results.h"
#include "interval.h"

/* Of clips that are done. Score: mean over the frames, the worst frame, the 5th percentile. Infinite PSNR, as of identical
 * clips, is left out of the means; where all are, the mean is infinite. Seconds: of a clip without its text, which is encoded once for all clips of a prompt. Change: of
 * clips of the same prompt and number that both arms have, this arm minus the first. Speed-up: exp of the mean of
 * log(first / this), of the same clips: paired, so that what is slow for both arms is no noise; no mean where 1.00 lies
 * within its interval or it has none (sg_speedup_clear). In both, what is no denoising is the same work in all arms and counts
 * with the same time in both, its mean. */
typedef enum sg_eval_measure {
    SG_EVAL_PSNR,
    SG_EVAL_PSNR_MINIMUM,
    SG_EVAL_PSNR_P5,
    SG_EVAL_SSIM,
    SG_EVAL_SSIM_MINIMUM,
    SG_EVAL_SSIM_P5,
    SG_EVAL_MS_SSIM,
    SG_EVAL_MS_SSIM_MINIMUM,
    SG_EVAL_MS_SSIM_P5,
    SG_EVAL_FLICKER,
    SG_EVAL_SHARPNESS,
    SG_EVAL_CLIPSIM,
    SG_EVAL_CLIP_T,
    SG_EVAL_CLIP_SCORE,
    SG_EVAL_SECONDS,
    SG_EVAL_DENOISER_SECONDS,
    SG_EVAL_SPARSITY,
    SG_EVAL_STEPS_COMPUTED,
    SG_EVAL_FLICKER_CHANGE,
    SG_EVAL_SHARPNESS_CHANGE,
    SG_EVAL_CLIPSIM_CHANGE,
    SG_EVAL_CLIP_T_CHANGE,
    SG_EVAL_CLIP_SCORE_CHANGE,
    SG_EVAL_SECONDS_CHANGE,
    SG_EVAL_DENOISER_SECONDS_CHANGE,
    SG_EVAL_SPEEDUP,
    SG_EVAL_DENOISER_SPEEDUP,
    SG_EVAL_MEASURES
} sg_eval_measure;

extern const char *const sg_eval_measure_name[SG_EVAL_MEASURES]; /* "psnr", "psnr_minimum", ... */

/* Has it an interval: of PSNR, SSIM and MS-SSIM, and of what is compared with the first arm. */
bool sg_eval_measure_has_interval(sg_eval_measure m);

/* Without what an earlier clip may have had encoded, its text and its pictures; NAN: unknown. */
double sg_eval_clip_seconds(const sg_eval_clip *c);

typedef struct sg_eval_row {
    int         prompts;           /* with a clip that is done */
    int         done, failed;      /* clips */
    int         paired, identical; /* of those done: the first arm has it too; its every frame equals that one's */
    int         black, frozen, non_finite; /* of those done: clips with such a frame */
    sg_interval measure[SG_EVAL_MEASURES];
} sg_eval_row;

typedef struct sg_eval_summary {
    int          arms, groups;
    const char  *group[1 + SG_EVAL_GROUPS]; /* [groups]: "all", then in the order in which they come; of the results */
    sg_eval_row *row;                       /* [arms][groups] */
    bool        *in;                        /* [clips of the results][groups] */
} sg_eval_summary;

/* The results' arms lie below arms, and are borrowed. SG_E_FORMAT for more than SG_EVAL_GROUPS groups, SG_E_MEMORY. The
 * caller closes, after a failure too. */
sg_status sg_eval_summary_make(sg_eval_summary *out, const sg_eval_results *r, int arms, sg_error *e) SG_MUST_USE;
void      sg_eval_summary_close(sg_eval_summary *s);

#endif
