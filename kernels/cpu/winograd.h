/* winograd.h - which convolutions vec_winograd.c serves. */
#ifndef SG_WINOGRAD_H
#define SG_WINOGRAD_H

#include "cpu.h"

enum {
    SG_WINOGRAD_CHANNELS = 32, /* at least */
    SG_WINOGRAD_PLACES = 64,   /* of y, at least */
    SG_WINOGRAD_FRAMES = 4,    /* of a block of tiles, at most */
    SG_WINOGRAD_ROWS = 48      /* of its products, at most: tiles times frames */
};

static inline bool sg_winograd_kernel(const int64_t *w, int rank)
{
    return rank > 3 && w[rank - 1] == 3 && w[rank - 2] == 3 && w[1] >= SG_WINOGRAD_CHANNELS;
}

/* Tells whether conv will do it so, which is faster but where the library multiplies BF16 as such: LOG.md has the
 * figures. Also tells whether conv reads x at twice its size. The rows and columns of a picture
 * at twice its size must begin with a pad of one, so that the middle two of the four places that a tile reads are one
 * place of x.
 *
 * A picture of one row or column is left out for its error. There a direct convolution sums one tap of the three; the
 * products of a tile, whose weights are sums of all three, cancel instead. Where all weights equal g, the sum g d1 is
 * made as 3/2 g d1 - 1/2 g d1, and rounding makes 1.6 times the error, in both dimensions 2.5 times. With two rows it is
 * 1.1 times, with three or more, of which direct sums take all, 0.6. */
static inline bool sg_winograd_takes(const sg_cpu *c, const sg_conv_args *a)
{
    const bool bf16 = c->native_bf16 && a->x.dtype == SG_BF16 && a->w.dtype == SG_BF16 && a->w.dim[1] % 2 == 0;
    const int64_t *const x = a->x.dim, *const y = a->y.dim;
    return !bf16 && sg_winograd_kernel(a->w.dim, 5) && y[0] * y[1] * y[2] >= SG_WINOGRAD_PLACES && x[1] > 1 &&
           x[2] > 1 && a->stride[0] * a->stride[1] * a->stride[2] == 1 &&
           (!a->twice || (a->pad[0] == 1 && a->pad[2] == 1));
}

/* Returns how many frames of y a block has at most. */
static inline int64_t sg_winograd_frames(const sg_conv_args *a)
{
    return sg_div_up(a->y.dim[0], sg_div_up(a->y.dim[0], SG_WINOGRAD_FRAMES));
}

/* Returns the scratch memory of so many threads, but for what rounding adds. */
static inline size_t sg_winograd_bytes(const sg_conv_args *a, int threads)
{
    const int64_t frames = sg_winograd_frames(a), tiles = SG_WINOGRAD_ROWS / frames;
    const int64_t read = (frames + a->w.dim[2] - 1) * tiles * a->w.dim[1], sums = SG_WINOGRAD_ROWS * a->w.dim[0];
    return (size_t)((read + sums) * (a->twice ? 9 : 16) * threads) * sizeof(float);
}

#endif
