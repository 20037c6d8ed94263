/* report_arms.h - what `compare` found, for machines and for people.
 *
 * report.json, from which everything else can be made. Files are names in its own folder; a list of arms has the first
 * arm, to which the others are compared, first. Numbers that are infinite or unknown are null.
 *
 *   format, version, command: as of every report (report.h)
 *   again              the command that renders all of it again, for a shell
 *   settings           what renders it again: `sparge-gen info side.mp4` makes the command of it
 *     program, model, prompt, negative_prompt, width, height, frames, fps, steps, cfg_scale, flow_shift, sampler,
 *     sched_compat, seed, dtype, device, arms; image, last_image, video {file, hash} and fit, where there are some, and the
 *     video's strength; of the attention options that hold for all arms, those that were given. An arm may have steps
 *     and guidance of its own
 *   repeat             rounds that were rendered: each arm once in each, and in each another arm begins
 *   measured           "before compression": of psnr, ssim, ms_ssim and what else is of frames
 *   tokens             of the denoiser's sequence
 *   latent             [channels, frames, rows, columns]
 *   prompt_tokens, negative_tokens
 *   shared_seconds     load, text, encode (of pictures or a video): spent once, before the first arm; warm_up: of the steps
 *                      and decodes of all arms that count for none
 *   side               {file, width, height, differences [[x, y], ...]}: the clip with all arms, and where in it the pictures
 *                      |first - arm| of arm 1, 2, ... have their upper left corner; they are of the clips' size
 *   sheet              null of images, which are in side; else {file, width, height, picture_height, columns [frame, ...] from 0}: the contact sheet; pictures stand at
 *                      the bottom of their row
 *   pictures           {image, last_image: files}: in the clips' size, where the clips begin or end with one; settings have the
 *                      names and hashes of those that they were made of
 *   gain               by which the differences in side are amplified
 *   same_kernel        [{a, b: names of arms, why}]: pairs that computed the same throughout; empty when all is well
 *   arms               [
 *     name, file       of its clip
 *     result           the arm in one sentence (report_result.h); not of the first arm, which has none of what compares
 *     settings         as of a render with this arm alone: what is kept in its clip
 *     seconds          corrected, as the speed-ups are of them (speedup.h): {total, denoise, decode, between: what is neither;
 *                      attention: in the steps, all of it, null on a device; steps [seconds, ...]}; and load, text, encode of the
 *                      first round
 *       stages         {predict, select, quantise, attend, dense, cross}: of attention, whose seconds they add up to; absent on a
 *                      device. The first four are of blocks; dense: attention without; cross: to the prompt or a picture
 *       measured       {total, denoise, attention, decode}: means over the rounds, as they were measured
 *       rounds         [{total, steps [...], decode [of each chunk of latent frames]}, ...]: what the means are of
 *     speedup          not of the first arm (speedup.h has the formula)
 *       total, denoise, attention  {mean, low, high}: low to high holds 95 %; mean is null where 1.00 lies within; all
 *                      three are where the noise is unknown
 *       shared_steps   [step, ...], from 0: those that ran the first arm's kernels
 *       noise          q of speedup.h: standard deviation of the logarithm of the ratio of two times; null: unknown
 *     density          share of the pairs of blocks that were computed, of all layers and steps, dense ones included
 *     densities        [[share of layer 0, 1, ...] of step 0, 1, ...]: the same by step and layer; null: it did not run
 *     attention_error  how far attention was from dense attention on this arm's own q, k and v, as a sample of the queries
 *                      tells (attention_error.h); null where all was dense
 *       relative_l1    of all layers and steps that were not dense
 *       layers         [[relative L1 of layer 0, 1, ...] of step 0, 1, ...]; 0: dense; null: it did not run
 *       seconds        that looking took during the render: in none of the others
 *     attention        as in a render's --json: policy, totals, seconds by stage, and layers [{step, layer,
 *                      kind, why, ...}]
 *     skipped_steps    [step, ...], from 0: those that the step cache extrapolated, of the first round
 *     peak_bytes       of the process so far
 *     psnr, ssim, ms_ssim  {mean, minimum, p5, worst, frames [of each frame]}: not of the first arm, as the next
 *     ms_ssim_scales   how many fitted
 *     sharpness, flicker, black, frozen: of the clip by itself (clip_figures.h)
 *     identical        frames that equal those of the first arm
 *     latents          {relative_l2 [after each step], cosine [...]}: not of the first arm; of an arm with another
 *                      number of steps all but the last are null
 *   ] */
#ifndef SG_REPORT_ARMS_H
#define SG_REPORT_ARMS_H

#include "compare.h"

/* Fills same, with the pairs whose layers all ran the same kernel without leaving anything out, or whose latents are
 * equal. */
void sg_arms_find_same(sg_comparison *c);

/* Fills speed of all arms, and times.shared, from times and count. Returns sg_arms_settled. */
bool sg_arms_find_speed(sg_comparison *c);

/* Makes the report, which the caller owns. Returns SG_E_MEMORY. */
sg_status sg_report_arms(json_t **out, const sg_comparison *c, sg_error *e) SG_MUST_USE;

/* Prints a sentence for each arm but the first, then a table, on stdout. */
void sg_report_arms_table(const sg_comparison *c);

#endif
