/* report_attention.h - what self-attention will do, and what it did, as text and as JSON. */
#ifndef SG_REPORT_ATTENTION_H
#define SG_REPORT_ATTENTION_H

#include "engine.h"
#include "meta.h"
#include "setup_attention.h"

#include <jansson.h>

/* What a render will do, as far as it is known before: the number of last steps that run as the policy says; 0 if why
 * is not SG_WHY_POLICY. SG_E_MEMORY. */
typedef struct sg_attention_forecast {
    int              steps, last;
    sg_attention_why why;
} sg_attention_forecast;
sg_status sg_attention_predict_runs(sg_attention_forecast *out, const sg_policy *p, const sg_model_info *info,
                                    int64_t tokens, int steps, sg_error *e) SG_MUST_USE;

/* Binds of p what decides which kind runs in which of so many layers and steps: for sg_attention_kind_of. A head stands for
 * all. The caller closes; errors as of sg_attention_open. */
sg_status sg_attention_bind_kinds(sg_attention **out, const sg_policy *p, const sg_model_info *info, int64_t tokens,
                                  int layers, int steps, sg_error *e) SG_MUST_USE;

/* "sparge in the last 9 of 12 steps: top-k 0.5 by error, tail half, order hilbert", or why it is dense. Returns text. */
const char *sg_attention_forecast_text(char *text, size_t size, const sg_policy *p, const sg_attention_forecast *o,
                                       int64_t tokens);

/* What attention did in the last render. */
typedef struct sg_attention_record {
    const sg_attention_count *count; /* [steps][passes][layers] */
    int                       steps, passes, layers;
} sg_attention_record;

/* "62 % of blocks skipped in 8 of 12 steps (4 dense: the first)". "" when all ran dense. Returns text. */
const char *sg_attention_summary(char *text, size_t size, const sg_attention_record *r);

/* One step: what ran how, how much of it, and why. Returns text. */
const char *sg_attention_step_text(char *text, size_t size, const sg_attention_record *r, int step);

/* Adds to settings the options that make the same attention again. SG_E_MEMORY. */
sg_status sg_report_add_attention(json_t *settings, const sg_policy *p, const sg_settings *s,
                                  const sg_attention_forecast *o, sg_error *e) SG_MUST_USE;

/* Every member of the policy, each layer of each step, totals, and the seconds of the stages if there is a trace. NULL: no
 * memory. */
json_t *sg_report_attention(const sg_policy *p, const sg_attention_record *r, const sg_trace *trace);
json_t *sg_report_policy(const sg_policy *p);

/* Seconds of all attention so far, that to the prompt too. */
double sg_attention_trace_seconds(const sg_trace *trace);

#endif
