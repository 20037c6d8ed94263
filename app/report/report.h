/* report.h - JSON for machines: the report of a render, and what all reports have in common. */
#ifndef SG_REPORT_H
#define SG_REPORT_H

#include "engine.h"

#include <jansson.h>

/* 15 digits are what a double keeps of any decimal number, so 0.1 is written as 0.1. */
#define SG_REPORT_DIGITS (JSON_REAL_PRECISION(15))

/* A file's name as JSON, which is UTF-8: of other names only ASCII is kept. NULL: no memory. */
json_t *sg_report_name(const char *name);

/* [step, ...], from 0: those that the cache skipped. */
json_t *sg_report_skipped_steps(const sg_report *r);

/* JSON has no infinity and no NaN: null. */
json_t *sg_report_number(double v);

/* NULL: no memory, as above. */
json_t *sg_report_plan(const sg_plan *p);

/* Writes j as text to path; "-" is stdout. */
sg_status sg_report_save(const char *path, const json_t *j, sg_error *e) SG_MUST_USE;

/* Does the same with j of one's own, which it takes. SG_E_MEMORY where j is NULL. */
sg_status sg_report_take(const char *path, json_t *j, sg_error *e) SG_MUST_USE;

/* The report of a render of this clip; takes its settings. NULL: no memory. */
json_t *sg_report_render(json_t *settings, const char *clip, const sg_report *r);

#endif
