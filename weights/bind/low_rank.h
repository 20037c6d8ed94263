/* low_rank.h - the product of two matrices of which one has few columns and the other few rows. It is internal to this
 * folder. */
#ifndef SG_LOW_RANK_H
#define SG_LOW_RANK_H

#include <stddef.h>

enum { SG_LOW_RANK_PANEL = 16 }; /* columns of down that lie together */

/* Returns how many numbers down [r, width] takes in panels. */
size_t sg_low_rank_panels(size_t r, size_t width);

/* Sets panels to down [r, width], column by column of panels, each [r, 16]. */
void sg_low_rank_pack(float *panels, const float *down, size_t r, size_t width);

/* Sets y[count] to elements i to i + count of up [rows, r] down [r, width]. Each is the sum over r from 0 on, and
 * products and sums are rounded to F32 whatever the features, of SG_CPU_AVX2 and its like, that it may use. */
void sg_low_rank(float *y, const float *up, const float *panels, size_t r, size_t width, size_t i, size_t count,
                 unsigned features, int threads);

#endif
