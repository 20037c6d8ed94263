/* bf16_softmax.h - scores become weights: p = 2^(by s + bias - base), rounded to BF16, and their sum.
 *
 * A step takes 32 keys of SG_SUB queries. Queries lie along the vectors: a query's base and sum are lanes, and nothing
 * is added across lanes. With cols = SG_SUB / 16:
 *
 *   - scores, F32 [2][cols][16][16]: keys by 16, queries by 16, key, query;
 *   - weights, BF16 [cols][16][16][2]: queries by 16, pair of keys, query, key of the pair.
 *
 * A quad is a pair of keys of 32 queries: four vectors of scores, two of weights. */
#ifndef SG_BF16_SOFTMAX_H
#define SG_BF16_SOFTMAX_H

#include "vec.h"

#include <immintrin.h>

enum { SG_SUB = 32, SG_COLS = SG_SUB / 16, SG_QUADS = 16 * SG_COLS / 2 };
enum { SG_TILE = 512 }; /* BF16 in a tile of 16 rows by 64 bytes */

/* The tile unit treats denormals as zeros. With the largest weight at 2^SG_ABOVE no BF16 weight is lost by that. */
enum { SG_ABOVE = 8 };

/* Where a pass of attention has its row maxima from: MAX_GUESSED, the first keys that a group visits; MAX_SEARCHED,
 * all, and the pass computes nothing else; MAX_KNOWN, an earlier pass. */
typedef enum max_pass { MAX_GUESSED, MAX_SEARCHED, MAX_KNOWN } max_pass;

typedef struct sg_softmax {
    const float *score;
    const float *bias; /* of each key, in powers of two */
    uint16_t    *weight;
    const float *base; /* of each query */
    float       *sum;  /* of each query */
    __m512       by;
    unsigned     at, end; /* quads done, quads in all: multiples of 8 */
} sg_softmax;

/* Returns 2^x plus half a unit of BF16, so that truncation to the upper half rounds to BF16: the polynomial is in [1,
 * 2], where half a unit is 2^-8. Its error is at most 7.5e-5 of 2^f, 1/26 of that rounding. Infinities and NaN are
 * right. */
static inline __m512 sg_softmax_exp2(__m512 x)
{
    const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512       p = _mm512_fmadd_ps(_mm512_set1_ps(0.07802455205f), f, _mm512_set1_ps(0.2260671846f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6958334912f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.9999252279f + 0x1p-8f));
    return _mm512_scalef_ps(p, x);
}

/* Returns 2^(by score - base), or with a bias 2^(by score + (bias - base)). */
static inline __m512i sg_softmax_weight(const sg_softmax *w, const float *score, __m512 base, const float *bias)
{
    const __m512 s = _mm512_load_ps(score);
    const __m512 x =
        bias ? _mm512_fmadd_ps(s, w->by, _mm512_sub_ps(_mm512_set1_ps(*bias), base)) : _mm512_fmsub_ps(s, w->by, base);
    return _mm512_castps_si512(sg_softmax_exp2(x));
}

/* Runs the next `quads` quads, a power of two up to 8; nothing where all are done. It sums the rounded weights, so a
 * row's weights add up to one whatever their rounding. */
static inline __attribute__((always_inline)) void sg_softmax_run(sg_softmax *w, unsigned quads, bool biased)
{
    if (w->at == w->end) return;
    const unsigned     pair = w->at % 16, cols = w->at / 16 * 2;
    const float *const score = w->score + (pair / 8 * SG_COLS + cols) * 256 + pair % 8 * 32;
    uint16_t *const    weight = w->weight + cols * SG_TILE + pair * 32;
    const __m512bh     ones = (__m512bh)_mm512_set1_epi32(0x3f803f80);
#pragma GCC unroll 2
    for (unsigned col = 0; col < 2; col++) {
        const __m512 base = _mm512_load_ps(w->base + (cols + col) * 16);
        __m512       sum = _mm512_load_ps(w->sum + (cols + col) * 16);
#pragma GCC unroll 8
        for (unsigned q = 0; q < quads; q++) {
            const float *const s = score + col * 256 + q * 32;
            const float *const bias = biased ? w->bias + (pair + q) * 2 : NULL;
            const __m512i      a = sg_softmax_weight(w, s, base, bias);
            const __m512i      b = sg_softmax_weight(w, s + 16, base, bias ? bias + 1 : NULL);
            const __m512i      p = _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(a, 16), b);
            _mm512_store_si512(weight + col * SG_TILE + q * 32, p);
            sum = _mm512_dpbf16_ps(sum, (__m512bh)p, ones);
        }
        _mm512_store_ps(w->sum + (cols + col) * 16, sum);
    }
    w->at += quads;
}

/* Tells whether the guessed bases of a group were out of range, or may have been. o has its outputs, `count` of
 * them. */
static inline bool sg_softmax_out_of_range(const float sum[SG_SUB], const float *o, int64_t count)
{
    const __m512 low = _mm512_set1_ps(0x1p-60f), high = _mm512_set1_ps(0x1p100f);
    __m512       rest = _mm512_setzero_ps(); /* x - x is not 0 where x is infinite or NaN */
    __mmask16    good = 0xffff;
    for (int64_t i = 0; i < SG_SUB; i += 16) {
        const __m512 x = _mm512_load_ps(sum + i);
        good &= _mm512_cmp_ps_mask(x, low, _CMP_GT_OQ) & _mm512_cmp_ps_mask(x, high, _CMP_LT_OQ);
    }
    for (int64_t i = 0; i < count; i += 16) {
        const __m512 x = _mm512_load_ps(o + i);
        rest = _mm512_add_ps(rest, _mm512_sub_ps(x, x));
    }
    return (good & _mm512_cmp_ps_mask(rest, _mm512_setzero_ps(), _CMP_EQ_OQ)) != 0xffff;
}

#endif
