/* amx_softmax.h - INT8 scores become weights: p = 2^(by s - base), rounded to BF16, and their sum.
 *
 * A stage takes a block of SG_BLOCK_K = 64 keys of SG_SUB = 32 queries. Queries lie along the vectors (bf16_softmax.h):
 *
 *   - scores, F32 [4][2][16][16]: keys by 16, queries by 16, key, query; each is SG_ZERO + s, see below;
 *   - weights, BF16 [2][2][16][16][2]: keys by 32, queries by 16, pair of keys, query, key of the pair.
 *
 * The INT8 sums start at the bits of the float SG_ZERO = 1.5 2^23, so the results are the bits of SG_ZERO + s, which
 * is exact for |s| < 2^22. One fused multiply-subtract applies scale and base, and no conversion is needed. This is as
 * exact as by s - base if SG_ZERO by + base is a float. So scales are rounded to 22 bits, and bases are multiples of a
 * power of two that is not below the scale.
 *
 * A quad is a pair of keys of 32 queries: four vectors of scores, two of weights. */
#ifndef SG_AMX_SOFTMAX_H
#define SG_AMX_SOFTMAX_H

#include "bf16_softmax.h"

#define SG_ZERO 0x1.8p23f
enum { SG_ZERO_BITS = 0x4b400000, SG_BLOCK_QUADS = SG_BLOCK_K / 2 };

/* Tells how a block is masked for a group of queries: it is not masked at all, or by a bias per key, -INFINITY for
 * hidden keys (means, and the last block), or by the queries that see each key (on the diagonal). */
typedef enum sg_blocks_mask { SG_MASK_NONE, SG_MASK_BIAS, SG_MASK_QUERIES } sg_blocks_mask;

typedef struct sg_blocks_softmax {
    const float    *score;
    uint16_t       *weight;
    float          *sum;     /* of each query */
    const float    *by;      /* [4][2]: of 16 keys and 16 queries */
    const float    *base;    /* [4][32]: SG_ZERO by + base, of 16 keys and a query */
    const float    *bias;    /* of each key, in powers of two; NULL: none */
    const uint32_t *seen;    /* of each key, a bit of each query; NULL: all */
    unsigned        at, end; /* quads done, quads in all: multiples of 8 */
} sg_blocks_softmax;

static inline sg_blocks_mask sg_blocks_mask_of(const sg_blocks_softmax *w)
{
    return w->seen ? SG_MASK_QUERIES : w->bias ? SG_MASK_BIAS : SG_MASK_NONE;
}

/* Makes the weight of one key for 16 queries; bias and seen are the key's. */
static inline __attribute__((always_inline)) __m512i
sg_blocks_weight(const float *score, __m512 by, __m512 base, const float *bias, const uint32_t *seen, unsigned col)
{
    const __m512  t = _mm512_fmsub_ps(_mm512_load_ps(score), by, base);
    const __m512i p = _mm512_castps_si512(sg_softmax_exp2(bias ? _mm512_add_ps(t, _mm512_set1_ps(*bias)) : t));
    return seen ? _mm512_maskz_mov_epi32((__mmask16)(*seen >> col * 16), p) : p;
}

/* Runs the next `quads` quads, a power of two up to 8; nothing where all are done. It sums the rounded weights, so a
 * row's weights add up to one whatever their rounding. */
static inline __attribute__((always_inline)) void sg_blocks_softmax_run(sg_blocks_softmax *w, unsigned quads,
                                                                        sg_blocks_mask mask)
{
    if (w->at == w->end) return;
    const unsigned        part = w->at / 8, pair = w->at % 16;
    const float *const    score = w->score + part * SG_COLS * 256 + w->at % 8 * 32;
    uint16_t *const       weight = w->weight + part / 2 * SG_COLS * SG_TILE + pair * 32;
    const float *const    bias = mask == SG_MASK_BIAS ? w->bias + w->at * 2 : NULL;
    const uint32_t *const seen = mask == SG_MASK_QUERIES ? w->seen + w->at * 2 : NULL;
    const __m512bh        ones = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    const __m512i         down = _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302); /* upper halves */
#pragma GCC unroll 2
    for (unsigned col = 0; col < SG_COLS; col++) {
        const __m512 by = _mm512_set1_ps(w->by[part * SG_COLS + col]);
        const __m512 base = _mm512_load_ps(w->base + part * SG_SUB + col * 16);
        __m512       sum = _mm512_load_ps(w->sum + col * 16);
#pragma GCC unroll 8
        for (unsigned q = 0; q < quads; q++) {
            const float *const    s = score + col * 256 + q * 32;
            const float *const    x = bias ? bias + q * 2 : NULL;
            const uint32_t *const m = seen ? seen + q * 2 : NULL;
            const __m512i         a = sg_blocks_weight(s, by, base, x, m, col);
            const __m512i         b = sg_blocks_weight(s + 16, by, base, x ? x + 1 : NULL, m ? m + 1 : NULL, col);
            const __m512i         p = _mm512_mask_shuffle_epi8(b, 0x3333333333333333ull, a, down);
            _mm512_store_si512(weight + col * SG_TILE + q * 32, p);
            sum = _mm512_dpbf16_ps(sum, (__m512bh)p, ones);
        }
        _mm512_store_ps(w->sum + col * 16, sum);
    }
    w->at += quads;
}

#endif
