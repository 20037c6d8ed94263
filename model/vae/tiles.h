/* tiles.h - decoding and encoding in tiles, as tiled_decode and tiled_encode of diffusers' autoencoders.
 *
 * A tile is square; the next begins three quarters of its side on, and both are computed as if they were the whole frame. The
 * first rows of a tile, a quarter of its side, are blended with the last ones of the tile above, its first columns with the
 * last ones of the tile to the left, by weights that are linear in the place. Both of those tiles have been blended before,
 * the order that diffusers has. A frame of one tile is computed whole. */
#ifndef SG_TILES_H
#define SG_TILES_H

#include "op.h"

enum { SG_TILE = 256 }; /* pixels: the side of a tile, unless a model has another */

/* Says how tiles lead from x F32 [f, y, x, c] to y F32 [f', y', x', c']: from latents to frames, or the other way
 * round. */
typedef struct sg_tiles {
    void   *run;            /* of begin and next */
    int64_t x_side, y_side; /* of a tile, in places of x and of y; multiples of 4, one of them of the other */
    int64_t count;          /* frames of x that next takes; a divisor of all */
    /* begin is called when a tile of h x w places of x begins. NULL means that nothing has to be done. */
    void (*begin)(void *run, sg_stream *s, int64_t h, int64_t w);
    /* next makes of the next frames of the tile, F32 [count, h, w, c], F32 [n, h', w', c'] in s->scratch. */
    sg_tensor (*next)(void *run, sg_stream *s, sg_tensor x);
    bool clamp; /* what comes out, to [-1, 1] */
} sg_tiles;

/* Tells whether a tile of so many pixels a side, and its quarters, are whole numbers of latents, of so many pixels
 * each. */
bool sg_tiles_fit(int64_t pixels, int scale);

/* Computes in y what tiles make of x, tile by tile, each from the first to the last frame. */
void sg_tiles_run(const sg_tiles *t, sg_stream *s, sg_tensor y, sg_tensor x);

#endif
