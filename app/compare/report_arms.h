/* report_arms.h - what `compare` found, for machines and for people.
 *
 * ../report/schema/compare.json describes report.json, from which everything else can be made. A list of arms has the
 * first arm, with which the others are compared, first. Numbers that are infinite or unknown are null. */
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
