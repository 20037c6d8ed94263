/* bf16_tile_avx512.h - the matmuls of bf16_tile_amx.h, with the same operands and layouts, by AVX-512 BF16: a pair of
 * a's row, in all lanes, times the pairs of 16 columns. */
#ifndef SG_BF16_TILE_H
#define SG_BF16_TILE_H

#include "bf16_softmax.h"

static inline void sg_tiles_open(void) {}
static inline void sg_tiles_close(void) {}

enum { SG_BF16_ROWS = 8 };

/* Computes rows [0, SG_BF16_ROWS) of half a group. */
static inline void sg_tile_bf16(const uint16_t *a, const uint16_t *b, float *c, int64_t depth, bool add)
{
    __m512 sum[SG_BF16_ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < SG_BF16_ROWS; r++)
#pragma GCC unroll 2
        for (int col = 0; col < 2; col++)
            sum[r][col] = add ? _mm512_load_ps(c + col * 256 + r * 16) : _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k++, a += 2 * SG_TILE, b += SG_COLS * SG_TILE)
        for (int pair = 0; pair < 16; pair++) {
            const __m512bh b0 = (__m512bh)_mm512_load_si512(b + pair * 32);
            const __m512bh b1 = (__m512bh)_mm512_load_si512(b + SG_TILE + pair * 32);
#pragma GCC unroll 8
            for (int r = 0; r < SG_BF16_ROWS; r++) {
                int32_t two;
                memcpy(&two, a + r * 32 + pair * 2, sizeof two);
                const __m512bh x = (__m512bh)_mm512_set1_epi32(two);
                sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, b0);
                sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, b1);
            }
        }
#pragma GCC unroll 8
    for (int r = 0; r < SG_BF16_ROWS; r++)
#pragma GCC unroll 2
        for (int col = 0; col < 2; col++) _mm512_store_ps(c + col * 256 + r * 16, sum[r][col]);
}

static inline __attribute__((always_inline)) void sg_tiles(const uint16_t *a, const uint16_t *b, float *c,
                                                           int64_t groups, int64_t depth, bool add, sg_softmax *w,
                                                           unsigned quads, bool biased)
{
    for (int64_t g = 0; g < groups; g++, a += depth * 2 * SG_TILE, c += SG_COLS * 512) {
        for (int r = 0; r < 32; r += SG_BF16_ROWS)
            sg_tile_bf16(a + r * 32, b, c + r / 16 * SG_COLS * 256 + r % 16 * 16, depth, add);
        for (int64_t k = 0; k < depth; k++) sg_softmax_run(w, quads, biased);
    }
}

#endif
