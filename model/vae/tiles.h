/* tiles.h - decoding in tiles, as tiled_decode of diffusers' autoencoders.
 *
 * A tile is 256 x 256 pixels, the next begins 192 on, and both are decoded as if they were the whole frame. The first 64
 * rows of a tile are blended with the last ones of the tile above, its first 64 columns with the last ones of the tile to the
 * left, by weights that are linear in the place. Both of those tiles have been blended before, the order that diffusers has.
 * A frame of one tile is decoded whole. */
#ifndef SG_TILES_H
#define SG_TILES_H

#include "op.h"

typedef struct sg_tile_decoder {
    void   *run;   /* of begin and next */
    int     scale; /* pixels per latent, along a row */
    int64_t count; /* latent frames that next takes; a divisor of all */
    /* A tile of y x x latents begins. NULL: nothing has to be done. */
    void (*begin)(void *run, sg_stream *s, int64_t y, int64_t x);
    /* The next latents of the tile, z F32 [count, y, x, c]: its frames F32 [n, h, w, 3] in s->scratch. */
    sg_tensor (*next)(void *run, sg_stream *s, sg_tensor z);
    bool clamp; /* what comes out, to [-1, 1] */
} sg_tile_decoder;

/* Whether tiles are a whole number of latents. */
bool sg_tiles_fit(int scale);

/* y = frames F32 [n, H, W, 3] of the latents z F32 [f, y, x, c]: tile by tile, each from the first to the last frame. */
void sg_decode_tiles(const sg_tile_decoder *d, sg_stream *s, sg_tensor y, sg_tensor z);

#endif
