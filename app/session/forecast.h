/* forecast.h - what self-attention will do in a render, as far as it is known before. */
#ifndef SG_FORECAST_H
#define SG_FORECAST_H

#include "engine.h"

typedef struct sg_attention_forecast {
    /* The last of these steps run as the policy says, but for dense layers. Where last is 0, why tells why none
     * does. */
    int              steps, last;
    sg_attention_why why;
    /* kind is the policy's, or DENSE where no layer of any step runs otherwise. */
    sg_attention_kind kind;
    /* Of the layers these are dense because the groups of tokens that they attend by are short, this long at most. */
    int     layers, short_layers;
    int64_t group;
} sg_attention_forecast;

/* Predicts a render of so many steps, whose tokens and layers plan has. Returns SG_E_MEMORY, or SG_E_ARG where p's
 * dense layers are not the model's. */
sg_status sg_attention_predict(sg_attention_forecast *out, const sg_policy *p, const sg_model_info *info,
                               const sg_plan *plan, int steps, sg_error *e) SG_MUST_USE;

enum { SG_FORECAST_TEXT = 512 };

/* Puts into text: "sparge in the last 9 of 12 steps: top-k 0.5 by error, tail half, order hilbert", or why it is dense.
 * Returns text. */
const char *sg_attention_forecast_text(char text[SG_FORECAST_TEXT], const sg_policy *p, const sg_attention_forecast *o,
                                       int64_t tokens);

/* Puts a share into text in percent, with a digit behind the point where that says something. Returns text. */
const char *sg_percent(char text[16], double share);

#endif
