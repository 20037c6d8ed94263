/* dequantise.h - numbers that no sg_dtype can view, as F32: 8-bit floats and integers, and the blocks of GGUF files. It
 * is internal to this folder. Source: ggml's block layouts (https://github.com/ggml-org/ggml, src/ggml-common.h); the
 * same bits as gguf-py's values. All products are exact in F32 and at most one sum rounds, so neither order nor fused
 * operations matter. */
#ifndef SG_DEQUANTISE_H
#define SG_DEQUANTISE_H

#include "tensor_source.h"

/* Sets y to the elements of so many blocks at x, which may be misaligned. A scale or an element that is not finite
 * makes at least one element of y a NaN or an infinity, and no other block's. */
typedef void sg_dequantise_fn(float *y, const uint8_t *x, size_t blocks);

enum { SG_BLOCK_MAX = 256 }; /* elements; every block's length divides it */

/* Returns the function for numbers of this type; NULL where they are not read so. */
sg_dequantise_fn *sg_dequantiser(const sg_source_type *type);

#endif
