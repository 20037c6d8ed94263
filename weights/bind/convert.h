/* convert.h - weights from the file's dtype to the one that a model wants. Internal to weights/. */
#ifndef SG_CONVERT_H
#define SG_CONVERT_H

#include "tensor_source.h"

/* y[n] = x[n] as `as`, F32 or BF16 (round to nearest, ties to even); from is F32, F16 or BF16. x may be misaligned.
 * False at the first NaN or infinity in x, or of a number too large for `as`. y NULL: only looks. */
bool sg_convert(void *y, sg_dtype as, const void *x, sg_dtype from, size_t n, int threads);

/* Can the next function read numbers of this type? */
bool sg_convert_reads(const sg_source_type *type);

/* The same of elements i to i + n of a tensor as its file has them, both multiples of its type's block. */
bool sg_convert_from(void *y, sg_dtype as, const sg_source_tensor *t, size_t i, size_t n, int threads);

#endif
