/* meta.h - backends about other backends. */
#ifndef SG_META_H
#define SG_META_H

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* plan computes nothing. A pass over a stream from sg_plan_stream leaves, in keep.peak and scratch.peak, the memory that
 * the same pass needs on any device, and here the arithmetic it does. */
typedef struct sg_plan_totals {
    double flops;   /* of linear, attend and conv: 2 per multiply-add */
    size_t staging; /* bytes that one product may take beside its tensors: F32 copies of operands, packed weights */
} sg_plan_totals;

sg_stream sg_plan_stream(sg_plan_totals *totals);

/* check runs every op on the wrapped backend and on the oracle from the same inputs, and latches SG_E_MISMATCH at the
 * first op whose error is more than budget.h allows. Host memory only. */
void sg_check_wrap(sg_stream *s);

#ifdef __cplusplus
}
#endif
#endif
