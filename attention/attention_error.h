/* attention_error.h - how far attention that is quantised or skips blocks is from dense attention on the same q, k and v, of
 * each layer of each pass of each step of a render: sum |y - dense| and sum |dense|, over heads, whose quotient is the
 * relative L1. dense is the backend's own dense kernel in the dtype of q.
 *
 * It measures a sample: SG_ERROR_ROWS queries of each call, or all of fewer, in all heads and against all keys that they
 * see. They are spread evenly over the n queries and differ between steps and layers. Of causal attention they are
 * SG_ERROR_ROWS / SG_ERROR_RUN runs of consecutive queries, each of which takes one launch: queries [first, end) attend
 * to the first end + m - n keys, as the last of these.
 */
#ifndef SG_ATTENTION_ERROR_H
#define SG_ATTENTION_ERROR_H

#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_ERROR_ROWS = 128, SG_ERROR_RUN = 16 };

/* Collects the errors of one render. Zero-initialise it. */
typedef struct sg_attention_error {
    int     steps, passes, layers;
    double *sum;     /* [steps][passes][layers][2]: |y - dense|, |dense|; owned */
    double  seconds; /* spent on measuring, from when the device had finished what came before */
} sg_attention_error;

/* Serves as sg_attention_watch's `on_end`, with the sg_attention_error as context. A failure is latched in s. */
sg_attention_hook sg_attention_error_hook;

/* Adds the sums of a step to out, [passes][layers]; passes of the shape that are groups of one are added up. */
void sg_attention_error_add(const sg_attention_error *e, int step, int passes, sg_attention_count *out);

void sg_attention_error_free(sg_attention_error *e);

#ifdef __cplusplus
}
#endif
#endif
