/* image.h - a picture in memory, as 8-bit RGB. */
#ifndef SG_IMAGE_H
#define SG_IMAGE_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No picture of a file is larger. */
enum { SG_IMAGE_MAX_SIDE = 16384, SG_IMAGE_MAX_PIXELS = 1 << 26 };

typedef struct sg_image {
    int      width, height;
    uint8_t *rgb; /* [height][width][3] */
} sg_image;

/* Returns how many bytes the samples of a picture of this size have. */
static inline size_t sg_image_bytes(int width, int height) { return (size_t)width * (size_t)height * 3; }

/* Makes a picture of a size that a file gives, its samples unset; the caller closes. Returns SG_E_FORMAT if the size is
 * refused, or SG_E_MEMORY; the message names no file. */
sg_status sg_image_alloc(sg_image *out, size_t width, size_t height, sg_error *e) SG_MUST_USE;

/* Which pixel of a picture as stored a pixel of the picture is: x and y exchanged, and then counted backwards. */
typedef struct sg_image_rotation {
    bool exchange, x_back, y_back;
} sg_image_rotation;

/* Fills `to`, which has its size, from rows of RGB that are stride bytes apart. */
void sg_image_copy_rotated(const sg_image *to, const uint8_t *rgb, ptrdiff_t stride, sg_image_rotation t);

/* Copies a picture of RGB into another one with its upper left corner at x, y: what lies within. */
void sg_image_put(const sg_image *on, int x, int y, int width, int height, const uint8_t *rgb);

void sg_image_close(sg_image *i); /* zero is fine */

#endif
