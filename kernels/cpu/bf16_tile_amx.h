/* bf16_tile_amx.h - matmuls of BF16 tiles by AMX, with the softmax beside them.
 *
 * c[g] = or, with add, += the sum over k of a[g][k] b[k], for `groups` g and `depth` k, where
 *
 *   - a, BF16 [groups][depth][2][16][32]: 32 rows by 32, as they are;
 *   - b, BF16 [depth][cols][16][16][2]: 32 by 16 columns, rows in pairs;
 *   - c, F32 [groups][2][cols][16][16]: rows by 16, columns by 16.
 *
 * Two tiles of a and two of b make four tile products: 64 cycles of the tile unit, 32 of loading. The tile unit runs
 * beside the vector units, which then issue one instruction a cycle instead of two. So after every four tile products
 * the softmax w runs `quads` quads. */
#ifndef SG_BF16_TILE_H
#define SG_BF16_TILE_H

#include "bf16_softmax.h"

static inline void sg_tiles_open(void)
{
    static const struct {
        uint8_t  palette, start, none[14];
        uint16_t bytes[16];
        uint8_t  rows[16];
    } eight = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&eight);
}

static inline void sg_tiles_close(void) { _tile_release(); }

/* Tiles 0 to 3 from p on, one behind the other. */
static inline __attribute__((always_inline)) void sg_tiles_load(const void *p)
{
    const char *const from = (const char *)p;
    _tile_loadd(0, from, 64);
    _tile_loadd(1, from + 2 * SG_TILE, 64);
    _tile_loadd(2, from + 4 * SG_TILE, 64);
    _tile_loadd(3, from + 6 * SG_TILE, 64);
}

static inline __attribute__((always_inline)) void sg_tiles_store(float *p)
{
    _tile_stored(0, p, 64);
    _tile_stored(1, p + 256, 64);
    _tile_stored(2, p + 512, 64);
    _tile_stored(3, p + 768, 64);
}

/* Adds to tiles 0 to 3 two tiles of a, one below the other, times two of b, side by side. */
static inline __attribute__((always_inline)) void sg_tiles_multiply(const uint16_t *a, const uint16_t *b)
{
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + SG_TILE, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + SG_TILE, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

static inline __attribute__((always_inline)) void sg_tiles(const uint16_t *a, const uint16_t *b, float *c,
                                                           int64_t groups, int64_t depth, bool add, sg_softmax *w,
                                                           unsigned quads, bool biased)
{
    __asm__ volatile("" ::: "memory"); /* the tile loads of some compilers do not say that they read */
    for (int64_t g = 0; g < groups; g++, a += depth * 2 * SG_TILE, c += SG_COLS * 512) {
        const uint16_t *x = a, *y = b;
        if (add) {
            sg_tiles_load(c);
        } else {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
        }
        for (int64_t k = 0; k < depth; k++, x += 2 * SG_TILE, y += SG_COLS * SG_TILE) {
            sg_tiles_multiply(x, y);
            sg_softmax_run(w, quads, biased);
        }
        sg_tiles_store(c);
    }
}

#endif
