/* quant.h - quantised weights: numbers of 8 bits and fewer as files have them, which products widen when they read
 * them. */
#ifndef SG_QUANT_H
#define SG_QUANT_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The types by the names that files have for them: so many elements of a row in so many bytes, and which of these begin
 * the F16 scale and minimum of a block, the same where there is no minimum. Elements of a byte count as blocks of 16, so
 * that all are widened in runs of 16; they have no scale inside. */
#define SG_QUANT_TYPES(X)                                                                                              \
    X(F8_E4M3, 16, 16, -1, -1)                                                                                         \
    X(F8_E5M2, 16, 16, -1, -1)                                                                                         \
    X(I8, 16, 16, -1, -1)                                                                                              \
    X(Q8_0, 32, 34, 0, 0)                                                                                              \
    X(Q6_K, 256, 210, 208, 208)                                                                                        \
    X(Q5_K, 256, 176, 0, 2)                                                                                            \
    X(Q5_0, 32, 22, 0, 0)                                                                                              \
    X(Q5_1, 32, 24, 0, 2)                                                                                              \
    X(Q4_K, 256, 144, 0, 2)                                                                                            \
    X(Q4_0, 32, 18, 0, 0)                                                                                              \
    X(Q4_1, 32, 20, 0, 2)                                                                                              \
    X(Q3_K, 256, 110, 108, 108)                                                                                        \
    X(Q2_K, 256, 84, 80, 82)                                                                                           \
    X(IQ4_NL, 32, 18, 0, 0)                                                                                            \
    X(IQ4_XS, 256, 136, 0, 0)

typedef enum sg_quant_type {
    SG_QUANT_NONE,
#define X(name, block, bytes, scale, minimum) SG_QUANT_##name,
    SG_QUANT_TYPES(X)
#undef X
        SG_QUANT_COUNT
} sg_quant_type;

enum { SG_QUANT_BLOCK_MAX = 256 }; /* every block's length divides it */

/* For up to so many rows of x a GPU has a product of its own, which widens in registers and is faster. */
enum { SG_GPU_FEW_ROWS = 8 };

sg_quant_type sg_quant_of(const char *name); /* SG_QUANT_NONE: it is no name of a type */
const char   *sg_quant_name(sg_quant_type t);
int           sg_quant_block(sg_quant_type t);

/* Returns the bytes of n elements, whole blocks. */
size_t sg_quant_bytes(sg_quant_type t, int64_t n);

/* Returns where the scales of quantised weights lie behind the first byte of data, and how many there are up to the last
 * one of w, which may be some of all rows. */
size_t  sg_quant_scales_at(const sg_tensor *w);
int64_t sg_quant_scales(const sg_tensor *w);

/* Sets y to so many elements at x, without scales: whole blocks, or any number of those types whose elements are bytes.
 * A scale or an element that is not finite makes at least one element of y a NaN or an infinity, and no other
 * block's. */
void sg_quant_widen(float *y, sg_quant_type t, const uint8_t *x, size_t n);

/* Tells whether all of the same are finite, by their scales alone where they are of blocks. */
bool sg_quant_is_finite(sg_quant_type t, const uint8_t *x, size_t n);

/* Sets y to x[n], whole blocks, as Q8_0, by the rule of ggml's quantize_row_q8_0_ref. Returns false where a number is
 * not finite or a scale is too large for F16. */
bool sg_quant_pack(uint8_t *y, const float *x, size_t n);

/* Multiplies y[n], elements `at` and on of rows of that width, by their scales: floats, perhaps misaligned, one for so
 * many rows and columns, as those of sg_quant. */
void sg_quant_scale(float *y, int64_t at, int64_t n, int64_t width, const void *scales, int64_t rows, int64_t columns);

/* Sets y[n] to the numbers that elements `at` and on of quantised weights stand for; both are whole blocks, or end
 * where a row ends. */
void sg_quant_read(float *y, const sg_tensor *w, int64_t at, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
