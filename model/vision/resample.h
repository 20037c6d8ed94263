/* resample.h - pictures of another size, in the bits of Pillow 13's Image.resize: two passes in 8 bits, weights of 22
 * bits. */
#ifndef SG_RESAMPLE_H
#define SG_RESAMPLE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sg_resample_filter { SG_RESAMPLE_BICUBIC, SG_RESAMPLE_LANCZOS } sg_resample_filter;

/* Makes out [out_height][out_width][3] of in [height][width][3], whose sides are 1 to 2^24. Returns false when memory
 * runs out. */
bool sg_resample_rgb8(uint8_t *out, int out_width, int out_height, const uint8_t *in, int width, int height,
                      sg_resample_filter filter);

#endif
