/* lanes16.h - what files that work on 16 lanes of 32 bits share: lane masks, a transposition, non-temporal stores. */
#ifndef SG_LANES16_H
#define SG_LANES16_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* These mask the first n of 64, 32 or 16 lanes, and none where n is negative. */
static inline __mmask64 sg_lanes64(int64_t n) { return n >= 64 ? ~0ull : n <= 0 ? 0 : (1ull << n) - 1; }
static inline __mmask32 sg_lanes32(int64_t n) { return n >= 32 ? ~0u : n <= 0 ? 0 : (1u << n) - 1; }
static inline __mmask16 sg_lanes16(int64_t n) { return (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1); }

/* Transposes 16 x 16 words of 32 bits in four rounds, each of which swaps blocks of one size across the diagonal. */
static inline __attribute__((always_inline)) void sg_transpose16(__m512i x[16])
{
    __m512i y[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            x[i + 2 * j] = _mm512_unpacklo_epi64(y[i + j], y[i + j + 2]);
            x[i + 2 * j + 1] = _mm512_unpackhi_epi64(y[i + j], y[i + j + 2]);
        }
#pragma GCC unroll 2
    for (int i = 0; i < 16; i += 8)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            y[i + j] = _mm512_shuffle_i32x4(x[i + j], x[i + j + 4], 0x88);
            y[i + j + 4] = _mm512_shuffle_i32x4(x[i + j], x[i + j + 4], 0xdd);
        }
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        x[j] = _mm512_shuffle_i32x4(y[j], y[j + 8], 0x88);
        x[j + 8] = _mm512_shuffle_i32x4(y[j], y[j + 8], 0xdd);
    }
}

/* Copies by non-temporal stores of whole lines, which need not be read first. It is for parts of tensors larger than
 * the caches. Call _mm_sfence() before other threads read the copy. */
static inline void sg_stream_out(void *to, const void *from, int64_t bytes)
{
    char *const       y = (char *)to;
    const char *const x = (const char *)from;
    int64_t           i = 0;
    if ((uintptr_t)y % 64 == 0)
        for (; i + 64 <= bytes; i += 64) _mm512_stream_si512((__m512i *)(y + i), _mm512_loadu_si512(x + i));
    memcpy(y + i, x + i, (size_t)(bytes - i));
}

#endif
