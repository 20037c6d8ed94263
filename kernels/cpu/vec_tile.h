/* vec_tile.h - the register tile of linear, conv and attend: SG_MR rows times SG_NR columns of
 *     c[i][j] += sum over k of a[i][k] b[k][j]
 * in SG_MR x 2 vectors. The rows of a are given by address, so that a conv multiplies its input in place: a has
 * `segments` (taps), each with SG_MR addresses of `depth` numbers. b is packed: SG_NR columns per k, through all
 * segments. */
#ifndef SG_VEC_TILE_H
#define SG_VEC_TILE_H

#include "vec.h"

/* A block is SG_KC deep: 32 KiB of b at the widest level. Rows in scratch are SG_LDA apart, which is no power of two,
 * so that they map to different cache sets. */
enum { SG_KC = 256, SG_LDA = SG_KC + 16, SG_NR = 2 * SG_LANES };

#if defined(__AVX512F__)
enum { SG_MR = 12 };
#define SG_TILE_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#elif defined(__AVX2__)
enum { SG_MR = 6 };
#define SG_TILE_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)
#else
enum { SG_MR = 4 };
#define SG_TILE_ROWS(X) X(0) X(1) X(2) X(3)
#endif

/* The accumulators have names of their own: gcc 12 keeps an array in memory. */
static inline __attribute__((always_inline)) void sg_tile_of(const float *const *a, int64_t segments, int64_t depth,
                                                             const float *b, float *c, int64_t ldc, bool first,
                                                             bool two)
{
#define ROW(i) sg_lanes c##i##_0 = {0}, c##i##_1 = {0};
    SG_TILE_ROWS(ROW)
#undef ROW
    for (; segments > 0; segments--, a += SG_MR) {
#define ROW(i) const float *const a##i = a[i];
        SG_TILE_ROWS(ROW)
#undef ROW
        for (int64_t k = 0; k < depth; k++, b += SG_NR) {
            const sg_lanes b0 = *(const sg_lanes *)b, b1 = two ? *(const sg_lanes *)(b + SG_LANES) : b0;
#define ROW(i)                                                                                                         \
    c##i##_0 += a##i[k] * b0;                                                                                          \
    if (two) c##i##_1 += a##i[k] * b1;
            SG_TILE_ROWS(ROW)
#undef ROW
        }
    }
#define ROW(i)                                                                                                         \
    if (!first) {                                                                                                      \
        c##i##_0 += *(const sg_lanes *)(c + i * ldc);                                                                  \
        if (two) c##i##_1 += *(const sg_lanes *)(c + i * ldc + SG_LANES);                                              \
    }                                                                                                                  \
    *(sg_lanes *)(c + i * ldc) = c##i##_0;                                                                             \
    if (two) *(sg_lanes *)(c + i * ldc + SG_LANES) = c##i##_1;
    SG_TILE_ROWS(ROW)
#undef ROW
}

/* These are not inlined: among other live values gcc moves the addresses of rows to the stack, at half the speed. */
static __attribute__((noinline)) void sg_tile_two(const float *const *a, int64_t segments, int64_t depth,
                                                  const float *b, float *c, int64_t ldc, bool first)
{
    sg_tile_of(a, segments, depth, b, c, ldc, first, true);
}

static __attribute__((noinline)) void sg_tile_one(const float *const *a, int64_t segments, int64_t depth,
                                                  const float *b, float *c, int64_t ldc, bool first)
{
    sg_tile_of(a, segments, depth, b, c, ldc, first, false);
}

/* Computes one tile. `cols` of its SG_NR columns are needed; the rest may stay unwritten. c has rows ldc apart; with
 * `first` it is written, else added to. */
static inline void sg_tile(const float *const *a, int64_t segments, int64_t depth, const float *b, int64_t cols,
                           float *c, int64_t ldc, bool first)
{
    if (cols > SG_LANES)
        sg_tile_two(a, segments, depth, b, c, ldc, first);
    else
        sg_tile_one(a, segments, depth, b, c, ldc, first);
}

/* Fills a with the addresses of SG_MR rows SG_LDA apart. */
static inline void sg_tile_rows(const float **a, const float *from)
{
    for (int i = 0; i < SG_MR; i++) a[i] = from + i * SG_LDA;
}

#endif
