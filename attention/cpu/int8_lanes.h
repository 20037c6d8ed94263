/* int8_lanes.h - what int8_blocks.c needs of a level: dot products of bytes, words of 32 bits across lanes, weights.
 *
 * Both multiply bytes without sign by bytes with sign. x is broadcast, a lies along the lanes.
 *
 *   - VNNI adds four neighbouring products to a word. a has no sign: weights, or queries plus 128.
 *   - AVX2 adds two of them by vpmaddubsw, to 16 bits that saturate, then two sums by vpmaddwd. 127 times 128, twice, fits:
 *     so what has no sign is |x|, and a is queries, or weights less 128. x's sign comes in by an exclusive or, which more
 *     ports run than vpsignb: |x| (a ^ sign) is x a, less |x| where x is negative.
 *
 * What is added to a, and |x|, are the same for all lanes: sums start from what they lack (int8_pack.h). */
#ifndef SG_INT8_LANES_H
#define SG_INT8_LANES_H

#include "vec_tile.h"

/* A number x takes SG_PARTS bytes: itself, or its size, and its sign as 0 or 255. SG_LIFT is what is added to
 * queries. */
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
enum { SG_PARTS = 1, SG_LIFT = 128 };
#else
enum { SG_PARTS = 2, SG_LIFT = 0 };
#endif

/* Adds the products of bytes. With the intrinsic of VNNI gcc 12 copies the sum before and after, at half the speed. */
SG_INLINE void sg_dot(sg_lane_ints *sum, sg_lane_ints a, sg_lane_ints x, sg_lane_ints sign)
{
#if defined(__AVX512VNNI__)
    (void)sign;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(x));
#elif defined(__AVXVNNI__)
    (void)sign;
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(x));
#else
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)x, (__m256i)(a ^ sign));
    *sum += (sg_lane_ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}

/* Puts the same four bytes into all lanes. */
SG_INLINE sg_lane_ints sg_four(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    const sg_lane_ints none = {0};
    return none + x;
}

/* Picks a where the lane of a comparison holds, else b. sg_all tells whether it holds in all lanes. */
SG_INLINE sg_lanes sg_pick(sg_lane_ints holds, sg_lanes a, sg_lanes b)
{
    return (sg_lanes)((holds & (sg_lane_ints)a) | (~holds & (sg_lane_ints)b));
}

SG_INLINE bool sg_all(sg_lane_ints holds) { return sg_lanes_mask(holds) == (1u << SG_LANES) - 1; }

#if defined(__AVX512F__)
#include "lanes16.h"

SG_INLINE sg_lanes sg_float_of(sg_lane_ints x) { return (sg_lanes)_mm512_cvtepi32_ps((__m512i)x); }

SG_INLINE void sg_transpose(sg_lane_ints *x) { sg_transpose16((__m512i *)x); }

/* Rounds numbers from 0 to 255 of four rows, and puts the four bytes of each lane side by side. */
SG_INLINE sg_lane_ints sg_bytes_of(const sg_lanes *y)
{
    const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i a = _mm512_packus_epi32(_mm512_cvtps_epi32((__m512)y[0]), _mm512_cvtps_epi32((__m512)y[1]));
    const __m512i b = _mm512_packus_epi32(_mm512_cvtps_epi32((__m512)y[2]), _mm512_cvtps_epi32((__m512)y[3]));
    return (sg_lane_ints)_mm512_shuffle_epi8(_mm512_packus_epi16(a, b), order);
}

/* Returns unit 2^x for x <= 32, with a relative error of 9e-5, or with `exact` of F32's rounding. The result is unit
 * for 0, 0 for -INFINITY and NaN for NaN. The polynomials are minimax, of degree 3 and 5, and 1 at 0. */
SG_INLINE sg_lanes sg_power(float unit, sg_lanes x, bool exact)
{
    const sg_lanes f = (sg_lanes)_mm512_reduce_ps((__m512)x, 0x09); /* x - floor(x) */
    sg_lanes       p = f * (unit * 0.0770671193f) + unit * 0.227644907f;
    if (exact) {
        p = f * (unit * 0.00186713088f) + unit * 0.00901702861f;
        p = p * f + unit * 0.0557999143f;
        p = p * f + unit * 0.24016445f;
        p = p * f + unit * 0.693151312f;
    } else {
        p = p * f + unit * 0.695116805f;
    }
    return (sg_lanes)_mm512_scalef_ps((__m512)(p * f + unit), (__m512)x);
}

SG_INLINE void sg_row_out(float *y, const float *x, int64_t d) { sg_stream_out(y, x, d * (int64_t)sizeof *y); }
#else
SG_INLINE sg_lanes sg_float_of(sg_lane_ints x) { return (sg_lanes)_mm256_cvtepi32_ps((__m256i)x); }

/* Transposes 8 x 8 words of 32 bits. */
SG_INLINE void sg_transpose(sg_lane_ints *words)
{
    __m256i *const x = (__m256i *)words;
    __m256i        y[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            x[i + 2 * j] = _mm256_unpacklo_epi64(y[i + j], y[i + j + 2]);
            x[i + 2 * j + 1] = _mm256_unpackhi_epi64(y[i + j], y[i + j + 2]);
        }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        y[j] = _mm256_permute2x128_si256(x[j], x[j + 4], 0x20);
        y[j + 4] = _mm256_permute2x128_si256(x[j], x[j + 4], 0x31);
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) x[j] = y[j];
}

SG_INLINE sg_lane_ints sg_bytes_of(const sg_lanes *y)
{
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m256i a = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)y[0]), _mm256_cvtps_epi32((__m256)y[1]));
    const __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)y[2]), _mm256_cvtps_epi32((__m256)y[3]));
    return (sg_lane_ints)_mm256_shuffle_epi8(_mm256_packus_epi16(a, b), order);
}

/* Does the same with an error of 1.0e-4. `round` leaves n, plus the exponent's bias, in the low bits: at -127 the
 * factor made of them is 0. */
SG_INLINE sg_lanes sg_power(float unit, sg_lanes x, bool exact)
{
    const float    round = 12582912.0f + 127.0f; /* 1.5 2^23 + 127 */
    const sg_lanes z = sg_lanes_max(sg_splat(-127.0f), x), shifted = z + round, f = z - (shifted - round);
    sg_lanes       p = f * (unit * 0.0550090578f) + unit * 0.242210975f;
    if (exact) {
        p = f * (unit * 0.00132029823f) + unit * 0.00967495193f;
        p = p * f + unit * 0.0555104738f;
        p = p * f + unit * 0.24022166f;
        p = p * f + unit * 0.693146596f;
    } else {
        p = p * f + unit * 0.693282898f;
    }
    return (p * f + unit) * (sg_lanes)((sg_lane_ints)shifted << 23);
}

SG_INLINE void sg_row_out(float *y, const float *x, int64_t d) { memcpy(y, x, (size_t)d * sizeof *y); }
#endif

/* Loads four bytes of each of SG_LANES rows of d bytes, from byte e on: x[i] has bytes [e + 4 i, e + 4 i + 4) of the
 * rows, by lanes. Rows from `rows` on are zeros. */
SG_INLINE void sg_load_fours(sg_lane_ints *x, const int8_t *row, int64_t rows, int64_t d, int64_t e)
{
    const sg_lane_ints none = {0};
    const int64_t      size = sg_min64(d - e, (int64_t)sizeof none);
    for (int64_t r = 0; r < SG_LANES; r++) {
        x[r] = none;
        if (r < rows && size == (int64_t)sizeof none)
            memcpy(&x[r], row + r * d + e, sizeof none);
        else if (r < rows)
            memcpy(&x[r], row + r * d + e, (size_t)size);
    }
    sg_transpose(x);
}

#endif
