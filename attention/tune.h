/* tune.h - finds thresholds for each head while dense attention runs, by the paper's procedure (arXiv:2502.18137, 3.6): the
 * sparse operator itself runs with every candidate, on a sample of the blocks of queries, where the render computes. Of
 * causal attention each sampled block runs on its own, as the last 128 of the m' tokens that end with it. Its blocks of keys
 * are those of the whole call where m - n is a multiple of 64. Amounts are shares of the visible blocks.
 *
 * Errors are relative L1, sum |y - all| / sum |all|, to the same quantised operator with all blocks of keys. So what
 * INT8 does to both is not in them. */
#ifndef SG_TUNE_H
#define SG_TUNE_H

#include "backend.h"
#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_tune_options {
    sg_policy policy;  /* rule (TOPK or MASS), similarity, score, tail, tail_bias and sink: what the thresholds are for */
    double    l1, l2;  /* bounds on the error of skipping blocks, and of that with the PV filter; l2 = l1: no filter */
    double    least;   /* no head gets an amount below this */
    int       buckets; /* how many runs of equal length the steps are cut into; fewer when there are fewer steps */
    int       every;   /* one in so many blocks of queries is sampled; 0: SG_TUNE_EVERY */
} sg_tune_options;

enum { SG_TUNE_EVERY = 4, SG_TUNE_CHECKED = 4 }; /* one in so many of the sample is held out to check the choice */

typedef struct sg_tune sg_tune;

/* Returns SG_E_ARG for invalid options: another rule, bounds that are not 0 < l1 <= l2, a least amount outside
 * [0, 1]. The caller closes. */
sg_status sg_tune_open(sg_tune **out, const sg_tune_options *o, sg_error *e) SG_MUST_USE;
void      sg_tune_close(sg_tune **t);

/* Serves as sg_attention_watch's `on_begin`, with the sg_tune as context. It samples each attention, in the scratch
 * memory of s; a plan counts that. Results add up over passes, steps and renders, which must be on one backend and have the same
 * number of steps, layers and heads. A failure is latched in s; it is SG_E_UNSUPPORTED where the backend has only dense
 * attention. */
sg_attention_hook sg_tune_hook;

/* Holds the density and the errors of one head in one bucket with the chosen thresholds. */
typedef struct sg_tune_figure {
    /* density is the share of the visible blocks that is computed. It is NAN, and there are no errors, where this layer did not
     * run in these steps; it then keeps all. */
    float density;
    /* l1 is the error on the queries that the choice was made by, l1_checked that on queries held out, l1_worst the
     * largest of one call of a layer. l2 and l2_checked are those with the PV filter. */
    float l1, l1_checked, l1_worst;
    float l2, l2_checked;
    float skipped; /* share of the kept blocks that the filter skips */
} sg_tune_figure;

/* Chooses the smallest amounts, not below `least`, whose error is at most l1, and the smallest PV thresholds whose
 * error is at most l2. A head that would skip less than a tenth of its blocks keeps all. A filter that would skip less
 * than a fiftieth is off. t owns both arrays until its next call; figures are [buckets][layers][heads]. Returns
 * SG_E_ARG when nothing was seen, as no sequence was long enough. */
sg_status sg_tune_choose(sg_tune *t, const sg_thresholds **out, const sg_tune_figure **figures,
                         sg_error *e) SG_MUST_USE;

/* Returns the seconds spent on measuring so far. */
double sg_tune_seconds(const sg_tune *t);

#ifdef __cplusplus
}
#endif
#endif
