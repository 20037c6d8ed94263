/* predict.h - what the vec files of prediction share: the scale of a group, and which blocks are fixed (as op.h defines
 * it). */
#ifndef SG_PREDICT_H
#define SG_PREDICT_H

#include "vec.h"

/* Returns the scale of numbers whose absolute maximum has these bits. Infinity and NaN compare largest. */
static inline float sg_scale_of(int32_t bits)
{
    return bits >= 0x7f800000 ? NAN : sg_of_bits((uint32_t)bits) * (1.0f / 127.0f);
}

/* Writes y and scale of the group of rows that begins at `row`, of all heads, as quantise does. It is for callers that
 * have those rows in the caches. y is written by non-temporal stores: fence before use. It is defined in
 * vec_quantise.c. */
void SG_VEC_NAME(quantise_rows)(const sg_quantise_args *a, int64_t row);

/* Describes one side of a score: which of its blocks are fixed for a head of queries. `share` neighbouring heads share
 * a column of similarity. */
typedef struct sg_fixed {
    int64_t      block, n, text_prefix, text_suffix;
    const float *similarity, *theta; /* [n / block, columns], [h]; NULL: not judged */
    int64_t      columns, share;
    bool         ragged; /* a partial last block is not fixed */
} sg_fixed;

static inline sg_fixed sg_fixed_of(int64_t block, int64_t n, int64_t text_prefix, int64_t text_suffix,
                                   const sg_tensor *similarity, const sg_tensor *theta, int64_t heads)
{
    sg_fixed f = {.block = block, .n = n, .text_prefix = text_prefix, .text_suffix = text_suffix};
    if (theta->rank == 0) return f;
    f.similarity = similarity->data;
    f.theta = theta->data;
    f.columns = similarity->dim[1];
    f.share = heads / f.columns;
    return f;
}

static inline bool sg_is_fixed(const sg_fixed *f, int64_t head, int64_t i)
{
    const int64_t end = (i + 1) * f->block;
    if (i * f->block < f->text_prefix || (f->ragged ? sg_min64(end, f->n) : end) > f->n - f->text_suffix) return true;
    return f->theta && !(f->similarity[i * f->columns + head / f->share] > f->theta[head]);
}

#endif
