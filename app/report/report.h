/* report.h - JSON for machines: the report of a render, and what all reports have in common. */
#ifndef SG_REPORT_H
#define SG_REPORT_H

#include "clip_similarity.h"
#include "interval.h"
#include "metrics.h"
#include "options.h"

#include <jansson.h>

/* What every report says of itself. */
#define SG_REPORT_FORMAT "sparge-gen"

/* 15 digits are what a double keeps of any decimal number, so 0.1 is written as 0.1. */
#define SG_REPORT_DIGITS (JSON_REAL_PRECISION(15))

/* Returns a file's name as JSON, which is UTF-8: of other names only ASCII is kept. NULL means no memory, here and
 * below. */
json_t *sg_report_name(const char *name);

/* Returns a report of this command: {format, version, command} and the members of own, which it takes. The version is
 * in the command's row. */
json_t *sg_report_envelope(sg_command c, json_t *own);

/* Returns a hash in 16 hexadecimal digits. */
json_t *sg_report_hash(uint64_t hash);

/* Returns the steps that the cache skipped, [step, ...], from 0. */
json_t *sg_report_skipped_steps(const sg_report *r);

/* Returns a number; null for infinity and NaN, which JSON has not. */
json_t *sg_report_number(double v);

/* These return {mean, low, high} and {mean, minimum, p5}. */
json_t *sg_report_interval(const sg_interval *v);
json_t *sg_report_summary(const sg_summary *s);

/* Returns {clipsim, clip_t, clip_score}. */
json_t *sg_report_similarity(const sg_similarity_totals *s);

/* Returns bytes and work of each phase, under its name, and of the whole. */
json_t *sg_report_plan(const sg_plan *p);

/* Returns {"total", "load", "text", ...: seconds of each stage}. */
json_t *sg_report_seconds(const sg_report *r);

/* Writes j as text to path; "-" is stdout. */
sg_status sg_report_save(const char *path, const json_t *j, sg_error *e) SG_MUST_USE;

/* Does the same, and takes j. Returns SG_E_MEMORY where that is NULL. */
sg_status sg_report_take(const char *path, json_t *j, sg_error *e) SG_MUST_USE;

/* Returns the report of a render of this clip; takes its settings. */
json_t *sg_report_render(json_t *settings, const char *clip, const sg_report *r);

#endif
