/* predict.h - shared by the vec files of prediction: vectors of rows of either dtype, of which the last may be partial,
 * and which blocks are fixed (as op.h defines it). */
#ifndef SG_PREDICT_H
#define SG_PREDICT_H

#include "vec.h"

typedef int32_t sg_lane_ints __attribute__((vector_size(4 * SG_LANES), aligned(4), may_alias));

#define SG_INLINE static inline __attribute__((always_inline))

static inline sg_lanes sg_lanes_bf16(const uint16_t *x)
{
#if defined(__AVX512F__)
    return (sg_lanes)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x)), 16);
#elif defined(__AVX2__)
    return (sg_lanes)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x)), 16);
#else
    return (sg_lanes)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64((const __m128i *)x));
#endif
}

/* Elements [at, at + n) of x, then zeros; n at or above SG_LANES: all lanes. */
SG_INLINE sg_lanes sg_lanes_in(const void *x, bool bf16, int64_t at, int64_t n)
{
    const float *const    f = (const float *)x + at;
    const uint16_t *const b = (const uint16_t *)x + at;
    if (n >= SG_LANES) return bf16 ? sg_lanes_bf16(b) : *(const sg_lanes *)f;
    uint16_t half[SG_LANES] = {0};
    sg_lanes part = {0};
    memcpy(bf16 ? (void *)half : (void *)&part, bf16 ? (const void *)b : f, (size_t)n * (bf16 ? 2 : 4));
    return bf16 ? sg_lanes_bf16(half) : part;
}

SG_INLINE void sg_lanes_out(float *y, sg_lanes v, int64_t n)
{
    if (n >= SG_LANES)
        *(sg_lanes *)y = v;
    else
        memcpy(y, &v, (size_t)n * sizeof *y);
}

/* The scale of numbers whose absolute maximum has these bits. Infinity and NaN compare largest. */
static inline float sg_scale_of(int32_t bits)
{
    return bits >= 0x7f800000 ? NAN : sg_of_bits((uint32_t)bits) * (1.0f / 127.0f);
}

/* Writes y and scale of the group of rows that begins at `row`, of all heads, as quantise does. For callers that have
 * those rows in the caches. y is written by non-temporal stores: fence before use. In vec_quantise.c. */
void SG_VEC_NAME(quantise_rows)(const sg_quantise_args *a, int64_t row);

/* One side of a score: which of its blocks are fixed for a head of queries. `share` neighbouring heads share a column
 * of similarity. */
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

/* How many blocks of keys are visible to block i of queries. */
static inline int64_t sg_visible_blocks(bool causal, int64_t i, int64_t nk)
{
    return causal ? sg_min64(nk, (i + 1) * (SG_BLOCK_Q / SG_BLOCK_K)) : nk;
}

#endif
