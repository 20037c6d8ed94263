/* eval_report.h - the report of an evaluation: figures of each arm for each group of prompts, as eval_summary.h defines
 * them.
 *
 * Scores are of the frames before compression. summary.csv, RFC 4180: a row for each arm and group, "all" first. Empty:
 * unknown. Columns:
 *
 *   arm, group, prompts       prompts: with a clip that is done
 *   done, failed, paired      clips; paired: of this arm and the first
 *   identical                 clips whose every frame equals the first arm's: left out of psnr's means, which are inf where
 *                             all are
 *   X, X_low, X_high          X = psnr, ssim, ms_ssim: mean over the frames, with its interval
 *   X_minimum, X_p5           worst frame, 5th percentile
 *   flicker, sharpness, clipsim, clip_t, clip_score, seconds, denoiser_seconds, total_seconds, density, steps_computed
 *                             seconds, denoiser_seconds: geometric means, without text and encode, whose quotients are
 *                             the speed-ups; total_seconds: the arithmetic mean of all that was measured
 *   X_change, X_change_low, X_change_high   X = flicker to clip_score: paired difference
 *   speedup, speedup_low, speedup_high, denoiser_speedup, denoiser_speedup_low, denoiser_speedup_high
 *                             the mean is empty where 1.00 lies between low and high
 *   black, frozen, non_finite clips that have such frames
 *   same_kernels              pairs in which the arm ran what the first runs; where all did, times are empty
 *   speed                     the speed-up in words: "1.32x, 1.27 to 1.38", "not distinguishable in time" or "same
 *                             kernels"; empty: of the first arm
 *
 * summary.json: {format, version, command (report.h), measured "before compression", settings: the manifest, arms
 * [name, ...], results [null, sentence, ...]: each arm but the first over all prompts (report_result.h), groups ["all",
 * name, ...], rows [{the same columns, group and arm as numbers from 0; a mean with its interval is {mean, low, high};
 * null: unknown, or infinite}, ...], pictures [{prompt: from 0, image, last_image: {file, hash, picture}, video: {file,
 * hash, strength}}, ...]: what the clips of a prompt begin and end with and are made from, of those that do}.
 * report.html: the same with every clip, worst first. */
#ifndef SG_EVAL_REPORT_H
#define SG_EVAL_REPORT_H

#include "progress.h"
#include "status.h"

/* Checks whether DIR/summary.csv, DIR/summary.json and DIR/report.html may be written. Returns SG_E_FILE, or SG_E_ARG
 * where one of them is an input. */
sg_status sg_eval_report_check(const char *directory, sg_error *e) SG_MUST_USE;

/* Reads DIR/manifest.json, of which format and arms have to be there, and all DIR/results*.jsonl; writes
 * DIR/summary.csv, DIR/summary.json and DIR/report.html, each whole or not at all. To p, unless it is NULL, it says
 * what each arm but the first is over all prompts: a sentence for each, then a line of score and one of time for each.
 * Returns SG_E_FORMAT with file, line and member for what is not sound, SG_E_FILE or SG_E_MEMORY. */
sg_status sg_eval_report(const char *directory, sg_progress *p, sg_error *e) SG_MUST_USE;

#endif
