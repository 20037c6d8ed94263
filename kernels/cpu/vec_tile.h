/* vec_tile.h - the register tile that linear, conv and attend are made of: SG_MR rows times SG_NR columns of
 *     c[i][j] += sum over k of a[i][k] b[k][j]
 * held in SG_MR x 2 vectors. a has rows SG_LDA apart, a constant, so that all its addresses are one register plus an
 * offset, and no power of two, so that its rows fall into different cache sets. b is packed: SG_NR columns per k. */
#ifndef SG_VEC_TILE_H
#define SG_VEC_TILE_H

#include "vec.h"

/* Depth of a block of a: what fits SG_MR rows of it and one panel of b into 32 KiB at the widest level. */
enum { SG_KC = 256, SG_LDA = SG_KC + 16, SG_NR = 2 * SG_LANES };

typedef float sg_lanes __attribute__((vector_size(4 * SG_LANES), aligned(4), may_alias));

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

/* c has rows ldc apart. With `first`, c is written, else added to. The accumulators are named one by one: as an array
 * gcc 12 keeps them in memory. */
static inline void sg_tile(int64_t depth, const float *a, const float *b, float *c, int64_t ldc, bool first)
{
#define ROW(i) sg_lanes c##i##_0 = {0}, c##i##_1 = {0};
    SG_TILE_ROWS(ROW)
#undef ROW
    for (int64_t k = 0; k < depth; k++) {
        const sg_lanes b0 = *(const sg_lanes *)(b + k * SG_NR), b1 = *(const sg_lanes *)(b + k * SG_NR + SG_LANES);
#define ROW(i) c##i##_0 += a[i * SG_LDA + k] * b0, c##i##_1 += a[i * SG_LDA + k] * b1;
        SG_TILE_ROWS(ROW)
#undef ROW
    }
#define ROW(i)                                                                              \
    if (!first) {                                                                           \
        c##i##_0 += *(const sg_lanes *)(c + i * ldc);                                       \
        c##i##_1 += *(const sg_lanes *)(c + i * ldc + SG_LANES);                            \
    }                                                                                       \
    *(sg_lanes *)(c + i * ldc) = c##i##_0;                                                  \
    *(sg_lanes *)(c + i * ldc + SG_LANES) = c##i##_1;
    SG_TILE_ROWS(ROW)
#undef ROW
}

#endif
