/* convert.h - weights from the file's type to the one that a model wants. It is internal to weights/. */
#ifndef SG_CONVERT_H
#define SG_CONVERT_H

#include "tensor_source.h"

/* Sets y[n] to x[n] as `as`, F32 or BF16 (rounded to nearest, ties to even); from is F32, F16 or BF16. x may be
 * misaligned. Returns false at the first NaN or infinity in x, and at a number too large for `as`. With y NULL it only
 * looks. */
bool sg_convert(void *y, sg_dtype as, const void *x, sg_dtype from, size_t n, int threads);

/* Tells whether the next function can read numbers of this type. */
bool sg_convert_reads(const sg_source_type *type);

/* Does the same for elements i to i + n of a tensor as its file has them, both multiples of its type's block. */
bool sg_convert_from(void *y, sg_dtype as, const sg_source_tensor *t, size_t i, size_t n, int threads);

/* Sets y to the bytes of those elements, of a quantised type, as the file has them. Returns the same; y NULL: it only looks. */
bool sg_convert_keep(void *y, const sg_source_tensor *t, size_t i, size_t n, int threads);

#endif
