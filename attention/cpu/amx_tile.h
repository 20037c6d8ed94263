/* amx_tile.h - the two matmuls of a stage by AMX tiles, and the softmax that runs beside them (bf16_tile_amx.h).
 *
 * sg_blocks_scores: c = SG_ZERO + a b for a block of 64 keys: the bits of floats, computed as integers. c may be
 * w's scores: those of 32 keys are overwritten after they have become weights.
 *
 *   - a, I8 [2][depth][2][16][64]: keys by 32, channels by 64, keys by 16, key, channel;
 *   - b, I8 [depth][2][16][16][4]: channels by 64, queries by 16, four channels, query, channel;
 *   - c, F32 [2][2][2][16][16]: keys by 32, keys by 16, queries by 16, key, query.
 *
 * sg_blocks_outputs: c[e] += the sum over the blocks of a unit of a[block][e] b[block], for e in [from, to):
 *
 *   - a, BF16 [depth][2][2][16][32] each: channels by 32, keys by 32, channels by 16, channel, key;
 *   - b, BF16 [blocks][2][2][16][16][2]: the weights of amx_softmax.h;
 *   - c, F32 [depth][2][2][16][16]: channels by 32, channels by 16, queries by 16, channel, query. */
#ifndef SG_AMX_TILE_H
#define SG_AMX_TILE_H

#include "amx_softmax.h"
#include "bf16_tile_amx.h"

enum { SG_TILE_BYTES = 1024, SG_VALUES = 4 * SG_TILE }; /* BF16 of 32 channels of a block */

/* Computes the scores as the head of this file says; `zero` is a tile of 16 x 16 times SG_ZERO_BITS. */
static inline __attribute__((always_inline)) void sg_blocks_scores(const int8_t *a, const int8_t *b, float *c,
                                                                   int64_t depth, const int32_t *zero,
                                                                   sg_blocks_softmax *w, unsigned quads,
                                                                   sg_blocks_mask mask)
{
    __asm__ volatile("" ::: "memory"); /* the tile loads of some compilers do not say that they read */
    if (depth == 1) {
        _tile_loadd(6, b, 64);
        _tile_loadd(7, b + SG_TILE_BYTES, 64);
    }
    for (unsigned step = 0; step < 2; step++, c += 4 * 256) {
        _tile_loadd(0, zero, 64);
        _tile_loadd(1, zero, 64);
        _tile_loadd(2, zero, 64);
        _tile_loadd(3, zero, 64);
        const int8_t *y = b;
        for (int64_t k = 0; k < depth; k++, a += 2 * SG_TILE_BYTES, y += 2 * SG_TILE_BYTES) {
            _tile_loadd(4, a, 64);
            if (depth > 1) _tile_loadd(6, y, 64);
            _tile_dpbssd(0, 4, 6);
            if (depth > 1) _tile_loadd(7, y + SG_TILE_BYTES, 64);
            _tile_dpbssd(1, 4, 7);
            _tile_loadd(5, a + SG_TILE_BYTES, 64);
            _tile_dpbssd(2, 5, 6);
            _tile_dpbssd(3, 5, 7);
            sg_blocks_softmax_run(w, quads, mask);
        }
        while (w->at < w->end && w->at < (step + 1) * SG_BLOCK_QUADS / 2) sg_blocks_softmax_run(w, quads, mask);
        sg_tiles_store(c);
    }
}

/* Adds the outputs as the head of this file says; v holds the packed values of a head, `words` for each block. */
static inline __attribute__((always_inline)) void
sg_blocks_outputs(const uint16_t *v, int64_t words, const int32_t *block, int64_t blocks, const uint16_t *b, float *c,
                  int64_t from, int64_t to, sg_blocks_softmax *w, unsigned quads, sg_blocks_mask mask)
{
    __asm__ volatile("" ::: "memory");
    for (int64_t e = from; e < to; e++) {
        const uint16_t *y = b;
        sg_tiles_load(c + e * 1024);
        for (int64_t i = 0; i < blocks; i++) {
            const uint16_t *x = v + block[i] * words + e * SG_VALUES;
#pragma GCC unroll 2
            for (int step = 0; step < 2; step++, x += 2 * SG_TILE, y += 2 * SG_TILE) {
                sg_tiles_multiply(x, y);
                sg_blocks_softmax_run(w, quads, mask);
            }
        }
        sg_tiles_store(c + e * 1024);
    }
}

#endif
