/* report_attention.h - what self-attention did, as text and as JSON. */
#ifndef SG_REPORT_ATTENTION_H
#define SG_REPORT_ATTENTION_H

#include "engine.h"
#include "forecast.h"
#include "meta.h"

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

/* Returns every member of the policy, each layer of each step, totals, and the seconds of the stages if there is a
 * trace; NULL when memory runs out. */
json_t *sg_report_attention(const sg_policy *p, const sg_attention_record *r, const sg_trace *trace);
json_t *sg_report_policy(const sg_policy *p);

/* Returns the seconds of all attention so far, that to the prompt too. */
double sg_attention_trace_seconds(const sg_trace *trace);

#endif
