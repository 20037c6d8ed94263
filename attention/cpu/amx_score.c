/* amx_score.c - the matmuls of score and tail_bias by AMX tiles, with F32's accuracy.
 *
 * x = h + m + l exactly, each of them BF16: h is x truncated to eight bits, m the remainder, rounded, l the rest. Of
 * the nine products the largest six are summed, in F32: h h, h m, m h, h l, m m, l h. The others are at most 2^-23 of
 * the first. A number that is not finite makes m NaN, and so its products.
 *
 *   - a strip, BF16 [wide / 32][3][2][16][32]: channels, part, rows, channel;
 *   - a chunk of keys, BF16 [2][wide / 32][3][2][16][16][2]: columns, channels, part, columns, pair of channels,
 *     column.
 *
 * Roofline: six matmuls of 16 x 16 x 32, 16 cycles each, d / 32 times for 16 vectors of 16 scores: 3 d / 16 cycles a
 * vector, 12 at d = 64 and 24 at d = 128; F32 takes 32 and 64. The softmax of the chunk before runs beside them: 10
 * instructions a vector, where the vector units issue one instruction a cycle. */
#include "bf16_tile_amx.h"
#include "lanes16.h"
#include "score.h"

#define SG_TILED static inline __attribute__((always_inline))

enum { SG_SPLIT = 3, SG_STEP = SG_SPLIT * 2 * SG_TILE }; /* of 32 channels of 32 rows or columns */

/* 16 numbers as three of BF16. */
static inline void split(__m512 x, __m256i part[SG_SPLIT])
{
    const __m512i high = _mm512_srli_epi32(_mm512_castps_si512(x), 16);
    __m512        rest = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(high, 16)));
    part[0] = _mm512_cvtepi32_epi16(high);
    part[1] = (__m256i)_mm512_cvtneps_pbh(rest);
    rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part[1]), 16)));
    part[2] = (__m256i)_mm512_cvtneps_pbh(rest);
}

/* 32 columns from channel e on: SG_STEP numbers. */
static void pack_step(uint16_t *to, const float *const *from, int64_t e, int64_t d)
{
    for (int64_t side = 0; side < 2; side++, to += SG_TILE) {
        __m512i x[SG_SPLIT][16];
        for (int64_t i = 0; i < 16; i++) {
            const float *const row = from[side * 16 + i] + e;
            __m256i            low[SG_SPLIT], high[SG_SPLIT];
            split(_mm512_maskz_loadu_ps(sg_lanes16(d - e), row), low);
            split(_mm512_maskz_loadu_ps(sg_lanes16(d - e - 16), row + 16), high);
            for (int part = 0; part < SG_SPLIT; part++)
                x[part][i] = _mm512_inserti64x4(_mm512_castsi256_si512(low[part]), high[part], 1);
        }
        for (int part = 0; part < SG_SPLIT; part++) {
            sg_transpose16(x[part]);
            for (int64_t i = 0; i < 16; i++) _mm512_store_si512(to + part * 2 * SG_TILE + i * 32, x[part][i]);
        }
    }
}

static void pack_tiles(void *to, const float *const *from, int64_t d, int64_t wide)
{
    for (int64_t col = 0; col < SG_SCORE_COLS; col += SG_SUB)
        for (int64_t e = 0; e < wide; e += 32)
            pack_step((uint16_t *)to + (col / SG_SUB * wide + e) / 32 * SG_STEP, from + col, e, d);
}

static void pack_strip(void *to, const float *x, int64_t lda, int64_t wide)
{
    for (int64_t r = 0; r < SG_SUB; r++)
        for (int64_t e = 0; e < wide; e += 16) {
            __m256i         part[SG_SPLIT];
            uint16_t *const at = (uint16_t *)to + e / 32 * SG_STEP + r * 32 + e % 32;
            split(_mm512_loadu_ps(x + r * lda + e), part);
            for (int i = 0; i < SG_SPLIT; i++) _mm256_store_si256((__m256i *)(at + i * 2 * SG_TILE), part[i]);
        }
}

/* Loads one split of 32 channels: of a strip into tiles 4 and 5, of a side of a chunk into tiles 6 and 7. */
SG_TILED void load_rows(const uint16_t *x, int part)
{
    _tile_loadd(4, x + part * 2 * SG_TILE, 64);
    _tile_loadd(5, x + (part * 2 + 1) * SG_TILE, 64);
}

SG_TILED void load_columns(const uint16_t *k, int part)
{
    _tile_loadd(6, k + part * 2 * SG_TILE, 64);
    _tile_loadd(7, k + (part * 2 + 1) * SG_TILE, 64);
}

/* Adds a matmul and prefetches a tile into the L1 cache: tile loads from L2 wait for each other. */
SG_TILED void multiply(const uint16_t *ahead)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
#pragma GCC unroll 16
    for (int64_t row = 0; row < 16; row++) __builtin_prefetch(ahead + row * 32);
}

/* The six matmuls of 32 channels. Each shares an operand with the one before it. The largest comes last. */
SG_TILED void multiply_splits(const uint16_t *x, const uint16_t *k, sg_score_softmax *w, int64_t rows)
{
    const uint16_t *const ahead = k + SG_STEP;
    load_rows(x, 2);
    load_columns(k, 0);
    multiply(ahead);
    load_rows(x, 1);
    multiply(ahead + SG_TILE);
    load_columns(k, 1);
    multiply(ahead + 2 * SG_TILE);
    w->run(w, rows);
    load_rows(x, 0);
    multiply(ahead + 3 * SG_TILE);
    load_columns(k, 2);
    multiply(ahead + 4 * SG_TILE);
    load_columns(k, 0);
    multiply(ahead + 5 * SG_TILE);
    w->run(w, rows);
}

static void matmul(float *s, const void *x, int64_t lda, const void *panel, int64_t vectors, int64_t wide,
                   sg_score_softmax *w)
{
    const int64_t   depth = wide / 32, sides = sg_div_up(vectors, 2);
    const int64_t   rows = sg_div_up(w->rows, 2 * sides * depth), pitch = SG_SCORE_COLS * (int64_t)sizeof *s;
    const uint16_t *k = panel;
    (void)lda;
    __asm__ volatile("" ::: "memory"); /* the tile loads of some compilers do not say that they read */
    for (int64_t side = 0; side < sides; side++, s += SG_SUB) {
        const uint16_t *q = x;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t e = 0; e < depth; e++, q += SG_STEP, k += SG_STEP) multiply_splits(q, k, w, rows);
        _tile_stored(0, s, (size_t)pitch);
        _tile_stored(1, s + 16, (size_t)pitch);
        _tile_stored(2, s + 16 * SG_SCORE_COLS, (size_t)pitch);
        _tile_stored(3, s + 16 * SG_SCORE_COLS + 16, (size_t)pitch);
    }
}

static const sg_score_form by_tiles = {.rows = SG_SUB,
                                       .depth = 32,
                                       .k_bytes = SG_SPLIT * sizeof(uint16_t),
                                       .x_bytes = SG_SPLIT * sizeof(uint16_t),
                                       .overlaps_softmax = true,
                                       .pack = pack_tiles,
                                       .pack_strip = pack_strip,
                                       .matmul = matmul,
                                       .open = sg_tiles_open,
                                       .close = sg_tiles_close};

static sg_status score(sg_stream *s, const sg_score_args *a) { return sg_vec_score_avx512(s, a, &by_tiles); }

static sg_status tail_bias(sg_stream *s, const sg_tail_bias_args *a)
{
    return sg_vec_tail_bias_avx512(s, a, &by_tiles);
}

void sg_amx_score_init(sg_ops *t)
{
    t->score = score;
    t->tail_bias = tail_bias;
}
