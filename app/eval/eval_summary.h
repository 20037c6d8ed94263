/* eval_summary.h - figures of each arm for each group of prompts, with intervals that hold 95 %.
 *
 * A figure is the mean over prompts of the mean over their clips, so that each prompt weighs the same. Its interval is
 * mean +- t s / sqrt(n) over the n prompts (interval.h): clips of one prompt are not independent, so they are not
 * counted as if they were. t is that of as many intervals together as arms are compared with the first, 1 - 0.05 /
 * (arms - 1). Fewer than two prompts have no interval. Those of SSIM and MS-SSIM, which are 1 at most, are taken on
 * Fisher's z (sg_interval_bounded), so that they end below 1.
 *
 * Times. A clip's seconds are its total without text and encode, which whichever arm is first does for all. An arm's
 * seconds are geometric means, and a speed-up is the geometric mean of the ratios of pairs, so that of arms that have
 * the same clips the quotient of the seconds is the speed-up. Nothing else is corrected: the arms take turns in being
 * first (eval_order.h), and what that costs whom is noise, which the intervals hold. tests/bench/aa simulates sets of
 * equal arms, and of arms that are 5 % apart. An arm that ran the first arm's kernels in all pairs has no times:
 * those whose settings and sizes lead to the same, and those whose attention did the same and whose frames are equal,
 * as where thresholds keep all blocks.
 *
 * All that the arms do differently is in denoising: where its speed-up is not clear, the whole clip has none
 * either. So there is one decision for each arm, and the decoder's noise is none. (Of arms
 * that differ in --vae-tiling alone, no difference in time is stated.) */
#ifndef SG_EVAL_SUMMARY_H
#define SG_EVAL_SUMMARY_H

#include "eval_results.h"
#include "interval.h"

/* A column is a figure of the table (eval_results.h), or a part of a score, of one kind, over the clips that are done.
 *
 *   mean      "psnr", "psnr_minimum", "psnr_p5": mean over the frames, the worst frame, the 5th percentile. Infinite
 *             PSNR, as of identical clips, is left out; where all are, the mean is infinite
 *   change    "flicker_change": of clips of the same prompt and number that both arms have, this arm minus the first
 *   speed-up  "speedup" of "seconds", "denoiser_speedup" of "denoiser_seconds": exp of the mean of log(first / this),
 *             of the same clips: paired, so that what is slow for both arms is no noise; no mean where 1.00 lies within
 *             its interval or it has none (sg_speedup_clear) */
typedef struct sg_eval_column {
    char                  name[48];
    const sg_eval_figure *figure;
    sg_eval_kind          kind;
    int                   part;
    bool                  interval;
} sg_eval_column;

/* All but prompts counts clips. The prompts have a clip that is done. Of those done: paired are those that the first
 * arm has too, identical those whose every frame equals that one's, same
 * those that ran its kernels, and black to non_finite those with such a frame.
 * measure is [columns]. */
typedef struct sg_eval_row {
    int          prompts, done, failed, paired, identical, same, black, frozen, non_finite;
    sg_interval *measure;
} sg_eval_row;

/* The groups are "all", then those of the results in the order in which they come; the columns are sorted by kind,
 * then as in the table. row is [arms][groups], and measure [arms][groups][columns]. */
typedef struct sg_eval_summary {
    int             arms, groups, columns;
    const char     *group[1 + SG_EVAL_GROUPS];
    sg_eval_column *column;
    sg_eval_row    *row;
    sg_interval    *measure;
} sg_eval_summary;

/* Makes the summary of results whose arms lie below arms, and borrows them. Returns SG_E_FORMAT for more than
 * SG_EVAL_GROUPS groups, or SG_E_MEMORY. The caller closes, after a failure too. */
sg_status sg_eval_summary_make(sg_eval_summary *out, const sg_eval_results *r, int arms, sg_error *e) SG_MUST_USE;
void      sg_eval_summary_close(sg_eval_summary *s);

/* Tells whether a clip belongs to a group. */
bool sg_eval_in_group(const sg_eval_summary *s, const sg_eval_clip *c, int group);

/* Tells whether an arm ran the first arm's kernels in every pair. */
static inline bool sg_eval_same_kernels(const sg_eval_row *r) { return r->paired && r->same == r->paired; }

/* Returns the measure of an arm over a group in the column with this name, which must be there. */
const sg_interval *sg_eval_summary_find(const sg_eval_summary *s, int arm, int group, const char *name);

#endif
