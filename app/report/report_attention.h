/* report_attention.h - what self-attention did, as text and as JSON. */
#ifndef SG_REPORT_ATTENTION_H
#define SG_REPORT_ATTENTION_H

#include "forecast.h"

#include <jansson.h>

/* Holds what attention did in the last render. */
typedef struct sg_attention_record {
    const sg_attention_count *count; /* [steps][passes][layers] */
    int                       steps, passes, layers;
} sg_attention_record;

/* Writes "62 % of blocks skipped in 8 of 12 steps (4 dense: the first)", or "" when all ran dense. Returns text. */
const char *sg_attention_summary(char *text, size_t size, const sg_attention_record *r);

/* Writes what ran how in one step, how much of it, and why. Returns text. */
const char *sg_attention_step_text(char *text, size_t size, const sg_attention_record *r, int step);

/* By SG_TIMED_PREDICT .. */
extern const char *const sg_attention_stage_names[SG_ATTENTION_STAGES];

/* Returns every member of the policy, whose thresholds are as its plan has them; each layer of each step, totals, and the
 * seconds of the stages unless they are NULL. NULL: no memory. */
json_t *sg_report_attention(const sg_policy *p, const sg_plan *plan, const sg_attention_record *r,
                            const double *seconds);
json_t *sg_report_policy(const sg_policy *p, const sg_plan *plan);

/* Returns {name: seconds} of the stages. */
json_t *sg_report_attention_seconds(const double seconds[SG_ATTENTION_STAGES]);

#endif
