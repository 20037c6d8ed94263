/* attention_error.h - how far attention that is quantised or skips blocks is from dense attention on the same q, k and v, of
 * each layer of each step of a render: relative L1, sum |y - dense| / sum |dense|, summed over heads and over the passes of
 * guidance. dense is the backend's own dense kernel in the dtype of q. Causal attention is not measured.
 *
 * It measures a sample: SG_ERROR_ROWS queries of each call, in all heads and against all keys. They are spread evenly
 * over the sequence and differ between steps and layers.
 */
#ifndef SG_ATTENTION_ERROR_H
#define SG_ATTENTION_ERROR_H

#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_ERROR_ROWS = 128 };

/* Collects the errors of one render. Zero-initialise it. */
typedef struct sg_attention_error {
    int     steps, layers;
    double *sum;     /* [steps][layers][2]: |y - dense|, |dense|; owned */
    double  seconds; /* spent on measuring, from when the device had finished what came before */
} sg_attention_error;

/* Serves as sg_attention_watch's `on_end`, with the sg_attention_error as context. A failure is latched in s. */
sg_attention_hook sg_attention_error_hook;

/* Returns the error of one layer of one step; -1 stands for all layers, or all steps. It is NAN where nothing was
 * measured, for example where all was dense. */
double sg_attention_error_of(const sg_attention_error *e, int step, int layer);

void sg_attention_error_free(sg_attention_error *e);

#ifdef __cplusplus
}
#endif
#endif
