/* forecast.h - what self-attention will do in a render, as its plan has it, in words. */
#ifndef SG_FORECAST_H
#define SG_FORECAST_H

#include <spargegen/spargegen.h>

enum { SG_FORECAST_TEXT = 512 };

/* Puts what the plan of a request with this policy says of attention into text: "sparge in the last 9 of 12 steps: top-k
 * 0.5 by error, tail half, order hilbert", or why it is dense. Returns text. */
const char *sg_attention_forecast_text(char text[SG_FORECAST_TEXT], const sg_policy *p, const sg_plan *plan);

/* Puts a share into text in percent, with a digit behind the point where that says something. Returns text. */
const char *sg_percent(char text[16], double share);

#endif
