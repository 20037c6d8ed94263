/* bound.h - a policy bound to shapes, as run.c runs it and run_counts.c counts it. It is private to these. */
#ifndef SG_BOUND_H
#define SG_BOUND_H

#include "run.h"

enum { SG_PV_GROUP = 32 }; /* rows of q that leave out a block together */

struct sg_attention {
    sg_policy            p;
    sg_attention_shape   shape;
    sg_thresholds        own;    /* where nothing is tuned: the policy's for each head */
    const sg_thresholds *t;      /* these or the tuned ones */
    int64_t              q_block, nq, nk; /* tokens of a block of queries; blocks */
    int                  dense_steps;
    bool                 skips, f8; /* f8: takes_f8 */
    int                 *ran;        /* [steps][passes][layers]: 0, or 1 + the row of thresholds that it used */
    int                 *bucket;     /* of tuned thresholds, [steps] */
    int                 *placed;     /* the bucket whose thresholds are on the device */
    sg_tensor            thresholds; /* F32 [3, t->layers, h] of that bucket: the next three */
    sg_tensor            amount, theta, pv_threshold;
    sg_tensor            list, count;         /* of a given mask: as select writes them */
    sg_tensor            kept, mass, skipped; /* of one step: I32 [slots, h, 2], F32 [slots, h], F32 [slots, h, 2] */
};

static inline int64_t keys(const sg_attention *a) { return a->shape.m ? a->shape.m : a->shape.n; }

/* Returns how many blocks of keys are visible to block i of queries. */
static inline int64_t seen(const sg_attention *a, int64_t i)
{
    return sg_visible_blocks(a->shape.causal, i, a->shape.n, keys(a));
}

static inline float pv_threshold_of(const sg_attention *a, int row, int64_t head)
{
    return a->t->pv_threshold[row * a->shape.h + head];
}

/* Tells whether some head of this row of thresholds has a PV filter. */
static inline bool filters(const sg_attention *a, int row)
{
    for (int64_t i = 0; i < a->shape.h; i++)
        if (pv_threshold_of(a, row, i) > 0) return true;
    return false;
}

static inline int *ran_in(const sg_attention *a, int step) { return a->ran + step * a->shape.passes * a->shape.layers; }

#endif
