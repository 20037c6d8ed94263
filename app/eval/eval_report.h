/* eval_report.h - the report of an evaluation: figures of each arm for each group of prompts, as eval_summary.h defines
 * them. Scores are of the frames before compression.
 *
 *   summary.json  ../report/schema/eval.json describes it
 *   summary.csv   RFC 4180: its rows, "all" first. arm and group are names, and a mean with its interval is three
 *                 columns: X, X_low and X_high. Empty: unknown; infinite PSNR is inf
 *   report.html   the same with every clip, worst first */
#ifndef SG_EVAL_REPORT_H
#define SG_EVAL_REPORT_H

#include "progress.h"

/* Checks whether DIR/summary.csv, DIR/summary.json and DIR/report.html may be written. Returns SG_E_FILE, or SG_E_ARG
 * where one of them is an input. */
sg_status sg_eval_report_check(const char *directory, sg_error *e) SG_MUST_USE;

/* Reads DIR/manifest.json, of which format and arms have to be there, and all DIR/results*.jsonl; writes
 * DIR/summary.csv, DIR/summary.json and DIR/report.html, each whole or not at all. To p, unless it is NULL, it says
 * what each arm but the first is over all prompts: a sentence for each, then a line of score and one of time for each.
 * Returns SG_E_FORMAT with file, line and member for what is not sound, SG_E_FILE or SG_E_MEMORY. */
sg_status sg_eval_report(const char *directory, sg_progress *p, sg_error *e) SG_MUST_USE;

#endif
