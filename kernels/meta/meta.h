/* meta.h - backends about other backends. */
#ifndef SG_META_H
#define SG_META_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* plan computes nothing. A pass over a stream from sg_plan_stream leaves, in keep.peak and scratch.peak, the memory that
 * the same pass needs on any device, and here the arithmetic it does. */
typedef struct sg_plan_totals {
    double            flops;   /* as sg_op_flops has it: 2 per multiply-add */
    const sg_backend *backend; /* given: counts the rest, and notes its products; NULL: the rest stays 0 */
    /* Bytes of two buffers that products fill: with the largest operand and result that they widen; on a GPU with the
     * largest weights that they take in another dtype or layout, and the largest quantised ones, widened. */
    size_t staged[2];
    size_t transformed; /* bytes of the largest tiles that a convolution transforms */
    size_t attended;    /* bytes of the largest keys and values of an attention, in F32 */
    size_t weight;      /* bytes of the largest weight of a product, as products read it, F32 */
    size_t table, thin; /* numbers in the largest table of embed, in the largest weight of a few rows */
} sg_plan_totals;

/* Returns the arithmetic of one call of the op of that name. It is 0 for all but linear, conv, attend, and
 * attend_blocks, which counts as if its density were 1. */
double sg_op_flops(const char *op, const void *args);

sg_stream sg_plan_stream(sg_plan_totals *totals);

/* Makes b stand for a GPU that is not here: what a render would take there can be planned, and nothing computed. */
void sg_plan_gpu(sg_backend *b, int threads);

/* Is the count of a backend whose products take their weight, and what they widen, in F32. */
void sg_plan_count(const sg_backend *b, sg_plan_totals *t, const char *op, const void *args);

/* These are the parts of it: does b multiply such a pair as BF16? A product that does, or that widens x and y. */
bool sg_plan_bf16(const sg_backend *b, sg_tensor x, sg_tensor w);
void sg_plan_product(sg_plan_totals *t, sg_tensor y, sg_tensor x, sg_tensor w, bool bf16);
void sg_plan_raise(size_t *most, size_t v);

/* Is the count of a GPU, whose blocks of a fixed size it leaves out. */
void sg_plan_count_gpu(const sg_backend *b, sg_plan_totals *t, const char *op, const void *args);

/* check runs every op on the wrapped backend and on the oracle from the same inputs, and latches SG_E_MISMATCH at the
 * first op whose error is more than budget.h allows. It works in host memory only. */
void sg_check_wrap(sg_stream *s);

/* trace takes the time of every op of the wrapped backend, and counts. All calls of an op with tensors of the same
 * dtypes and shapes share one row. */
typedef struct sg_trace_row {
    const char *op;
    sg_tensor   t[SG_OP_TENSORS]; /* output first; without data, rank 0 where absent */
    int         tensors;
    bool        adds; /* reads the y that it writes */
    int64_t     calls;
    double      seconds, flops, bytes; /* of all calls; bytes: each tensor once, the output twice where it is read */
} sg_trace_row;

typedef struct sg_trace {
    sg_trace_row *row; /* in the order of their first calls; owned */
    size_t        rows, cap;
    bool          paused;      /* ops run, put off where a device does that, and leave no trace */
    bool          synchronous; /* for a device: each op is waited for, by a download of one byte */
} sg_trace;

/* t, zero-initialised by the caller, must outlive s; sg_trace_free frees its rows. A row that finds no memory latches
 * SG_E_MEMORY. */
void sg_trace_wrap(sg_stream *s, sg_trace *t);
void sg_trace_clear(sg_trace *t); /* forgets the calls, keeps the memory */
void sg_trace_free(sg_trace *t);

#ifdef __cplusplus
}
#endif
#endif
