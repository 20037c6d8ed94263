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

/* Of clips that are done, with the figures of the table (eval_results.h). Score: mean over the frames, the worst frame, the 5th
 * percentile. Infinite PSNR, as of identical clips, is left out of the means; where all are, the mean is infinite. Change: of
 * clips of the same prompt and number that both arms have, this arm minus the first. Speed-up: exp of the mean of
 * log(first / this), of the same clips: paired, so that what is slow for both arms is no noise; no mean where 1.00 lies
 * within its interval or it has none (sg_speedup_clear). In both, what is no denoising is the same work in all arms and counts
 * with the same time in both, its mean. Names: "psnr", "psnr_minimum", "psnr_p5"; "flicker_change"; "speedup", "denoiser_speedup" of "seconds",
 * "denoiser_seconds". */
typedef struct sg_eval_column {
    char                  name[48];
    const sg_eval_figure *figure;
    sg_eval_kind          kind;
    int                   part;     /* 1, 2 of a score: minimum, p5 */
    bool                  interval; /* it has one */
} sg_eval_column;

typedef struct sg_eval_row {
    int          prompts;           /* with a clip that is done */
    int          done, failed;      /* clips */
    int          paired, identical; /* of those done: the first arm has it too; its every frame equals that one's */
    int          black, frozen, non_finite; /* of those done: clips with such a frame */
    sg_interval *measure;                   /* [columns] */
} sg_eval_row;

typedef struct sg_eval_summary {
    int         arms, groups, columns;
    const char *group[1 + SG_EVAL_GROUPS]; /* [groups]: "all", then in the order in which they come; of the results */
    sg_eval_column *column;                /* [columns], by kind, then in the order of the table */
    sg_eval_row    *row;                   /* [arms][groups] */
    sg_interval    *measure;               /* [arms][groups][columns] */
    bool           *in;                    /* [clips of the results][groups] */
} sg_eval_summary;

/* The results' arms lie below arms, and are borrowed. SG_E_FORMAT for more than SG_EVAL_GROUPS groups, SG_E_MEMORY. The
 * caller closes, after a failure too. */
sg_status sg_eval_summary_make(sg_eval_summary *out, const sg_eval_results *r, int arms, sg_error *e) SG_MUST_USE;
void      sg_eval_summary_close(sg_eval_summary *s);

/* Of an arm, over a group, that of the column with this name, which must be there. */
const sg_interval *sg_eval_summary_find(const sg_eval_summary *s, int arm, int group, const char *name);

#endif
