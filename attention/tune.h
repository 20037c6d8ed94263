/* tune.h - thresholds for each head, found while dense attention runs: the paper's procedure (arXiv:2502.18137, 3.6) asks the
 * sparse kernel some hundred times per head and call; here a sample of the blocks of queries is attended exactly, its
 * blocks of keys in the order in which the policy would keep them, and the error of every amount is read off one pass.
 *
 * Errors are relative L1, sum |y - exact| / sum |exact|, in F32 on q, k and v as they come: what INT8 adds is not in them. */
#ifndef SG_TUNE_H
#define SG_TUNE_H

#include "backend.h"
#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_tune_options {
    sg_policy policy;   /* rule (TOPK or MASS), score, tail, tail_bias and sink are those that the thresholds are for */
    double    l1, l2;   /* bounds: of what skipping blocks does, and of that with the PV filter; l2 = l1: without one */
    double    least;    /* no head gets an amount below this */
    int       buckets;  /* steps are cut into so many runs of equal length; fewer when there are fewer steps */
    int       every;    /* one in so many blocks of queries is looked at; 0: SG_TUNE_EVERY */
    unsigned  cpu_mask; /* as sg_backend_options has it */
    const sg_backend *host; /* for renders on a device: a backend of host memory, which looks at copies; NULL: there is no
                             * need of copies. Borrowed until the close */
} sg_tune_options;

enum { SG_TUNE_EVERY = 4, SG_TUNE_CHECKED = 4 }; /* one in so many of the sample is held out to check the choice */

typedef struct sg_tune sg_tune;

/* SG_E_ARG for what cannot be: another rule, causal, bounds that are not 0 < l1 <= l2, a least amount outside of [0, 1]. The
 * caller closes. */
sg_status sg_tune_open(sg_tune **out, const sg_tune_options *o, sg_error *e) SG_MUST_USE;
void      sg_tune_close(sg_tune **t);

/* For sg_policy's `on_begin`, with the sg_tune as context: takes a sample of what passes. What it finds adds up
 * over passes, steps and renders of one number of steps, layers and heads; a failure is latched in s. */
sg_attention_hook sg_tune_hook;

/* Of one head in one bucket: how it does with what was chosen. */
typedef struct sg_tune_figure {
    float density; /* blocks kept, a share */
    float l1, l1_checked,
        l1_worst;         /* error: where it was chosen; on queries held out; the largest of one layer's call */
    float l2, l2_checked; /* with the PV filter */
    float skipped;        /* of the kept blocks, left out by the filter; a share */
} sg_tune_figure;

/* The smallest amounts from `least` on that stay under l1, and the smallest PV thresholds that stay under l2; heads
 * that would skip less than a tenth of their blocks keep all, and a filter that leaves out less than a fiftieth is off.
 * Both arrays are t's, valid until the next call with t; figures are [buckets][layers][heads]. SG_E_ARG when nothing
 * was seen: no sequence was long enough. */
sg_status sg_tune_choose(sg_tune *t, const sg_thresholds **out, const sg_tune_figure **figures,
                         sg_error *e) SG_MUST_USE;

/* Seconds that were spent on looking, so far. */
double sg_tune_seconds(const sg_tune *t);

#ifdef __cplusplus
}
#endif
#endif
