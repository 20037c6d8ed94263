/* tensor.h - what a tensor is. Shape letters are the same everywhere: n tokens, m key tokens, c channels,
 * h heads, d head size, f frames, y x grid, o i out and in features. */
#ifndef SG_TENSOR_H
#define SG_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A function that the host and, in CUDA, the device call. */
#ifdef __CUDACC__
#define SG_BOTH static __host__ __device__ __forceinline__
#else
#define SG_BOTH static inline __attribute__((always_inline))
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_MAX_RANK = 5 };

typedef enum sg_dtype { SG_F32, SG_F16, SG_BF16, SG_I32, SG_U8, SG_I8, SG_F8, SG_U16, SG_DTYPES } sg_dtype;

/* Says how quantised weights [rows, columns] lie: rows of whole blocks of `type`, then at the next multiple of SG_ALIGN
 * bytes F32 scales, unless scale_rows is 0: one for so many rows and columns,
 *   scale[(first + row) / scale_rows][column / scale_columns],
 * by which an element is multiplied. sg_rows gives some of `all` rows, from `first` on; all is 0 where none are left out.
 * quant.h has the types; 0 is none of them. */
typedef struct sg_quant {
    int32_t type, scale_rows, scale_columns, first, all;
} sg_quant;

/* This is a view, which never owns memory. It is dense, with the outermost dimension first. Rank 0 means "absent".
 * Quantised weights stand for numbers that are rounded to dtype. */
typedef struct sg_tensor {
    void    *data;
    sg_dtype dtype;
    int      rank;
    int64_t  dim[SG_MAX_RANK];
    sg_quant quant;
    /* With quantised weights: what is added to the numbers that they stand for; NULL: nothing. */
    const struct sg_adapter *adapter;
} sg_tensor;

/* up down, both plain: what LoRAs add to weights [o, i], to all of their rows. */
typedef struct sg_adapter {
    sg_tensor up, down; /* [o, r] [r, i] */
} sg_adapter;

enum { SG_ALIGN = 256 }; /* bytes: what arenas and devices give begins at a multiple of it */

size_t      sg_dtype_size(sg_dtype t); /* bytes of one element */
const char *sg_dtype_name(sg_dtype t); /* "F32", as safetensors writes it */

/* bytes, rounded up to whole blocks. */
static inline size_t sg_aligned(size_t bytes) { return (bytes + SG_ALIGN - 1) & ~(size_t)(SG_ALIGN - 1); }

static inline int64_t sg_min64(int64_t a, int64_t b) { return a < b ? a : b; }
SG_BOTH int64_t sg_div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t sg_count(sg_tensor t); /* elements; 0 when absent */
size_t  sg_bytes(sg_tensor t);
void    sg_shape_text(char *out, size_t size, int rank, const int64_t *dim); /* "[2, 3]" */

/* Returns the same elements under another shape. The counts must agree, and quantised weights keep their shape and
 * their adapter; a mismatch gives an absent tensor, which the next op refuses. */
sg_tensor sg_reshape_(sg_tensor t, int rank, const int64_t *dim);
/* Returns `count` slices of the outermost dimension from `first`, or an absent tensor when they are out of range. */
sg_tensor sg_rows(sg_tensor t, int64_t first, int64_t count);

/* Returns which row stands for row t: row[t] of I32 numbers in the host's memory, or where they are absent 0. */
static inline int64_t sg_row_of(const sg_tensor *row, int64_t t)
{
    return row->rank ? ((const int32_t *)row->data)[t] : 0;
}

/* bf16 and f16 are uint16_t in memory. Rounding is to nearest, ties to even; NaN stays NaN. */
static inline float sg_bf16_to_f32(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float          f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint16_t sg_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float    sg_f16_to_f32(uint16_t h);
uint16_t sg_f32_to_f16(float f);

/* F8 is E4M3 without infinities: it has 3 bits of mantissa, 448 is the largest number and 2^-6 the least normal one.
 * Larger ones become 448. */
float   sg_f8_to_f32(uint8_t h);
uint8_t sg_f32_to_f8(float f);

/* These read one element as a float and write it back, in any dtype. They are for the oracle and for tests, not for
 * fast code. */
static inline float sg_load(const sg_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case SG_BF16: return sg_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case SG_F16: return sg_f16_to_f32(((const uint16_t *)t->data)[i]);
    case SG_I32: return (float)((const int32_t *)t->data)[i];
    case SG_U8: return (float)((const uint8_t *)t->data)[i];
    case SG_I8: return (float)((const int8_t *)t->data)[i];
    case SG_U16: return (float)((const uint16_t *)t->data)[i];
    case SG_F8: return sg_f8_to_f32(((const uint8_t *)t->data)[i]);
    default: return ((const float *)t->data)[i];
    }
}

static inline void sg_store(const sg_tensor *t, int64_t i, float v)
{
    switch (t->dtype) {
    case SG_BF16: ((uint16_t *)t->data)[i] = sg_f32_to_bf16(v); break;
    case SG_F16: ((uint16_t *)t->data)[i] = sg_f32_to_f16(v); break;
    case SG_I32: ((int32_t *)t->data)[i] = (int32_t)v; break;
    case SG_U8: ((uint8_t *)t->data)[i] = (uint8_t)v; break;
    case SG_I8: ((int8_t *)t->data)[i] = (int8_t)v; break;
    case SG_U16: ((uint16_t *)t->data)[i] = (uint16_t)v; break;
    case SG_F8: ((uint8_t *)t->data)[i] = sg_f32_to_f8(v); break;
    default: ((float *)t->data)[i] = v; break;
    }
}

#ifdef __cplusplus
}
#else
#define SG_DIMS(...)                                                                                                   \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define sg_reshape(t, ...) sg_reshape_(t, SG_DIMS(__VA_ARGS__))
#endif
#endif
