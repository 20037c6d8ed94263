/* image.c - see image.h. */
#include "base/image.h"

#include <stdlib.h>
#include <string.h>

sg_status sg_image_alloc(sg_image *out, size_t width, size_t height, sg_error *e)
{
    *out = (sg_image){0};
    if (!width || !height) return sg_error_set(e, SG_E_FORMAT, "has no pixels (%zux%zu)", width, height);
    if (width > SG_IMAGE_MAX_SIDE || height > SG_IMAGE_MAX_SIDE)
        return sg_error_set(e, SG_E_FORMAT, "is %zux%zu pixels; at most %d a side are read", width, height,
                            SG_IMAGE_MAX_SIDE);
    if (width * height > SG_IMAGE_MAX_PIXELS)
        return sg_error_set(e, SG_E_FORMAT, "is %zux%zu pixels; at most %d in all are read", width, height,
                            SG_IMAGE_MAX_PIXELS);
    uint8_t *const rgb = malloc(width * height * 3);
    if (!rgb) return sg_error_set(e, SG_E_MEMORY, "out of memory for %zux%zu pixels", width, height);
    *out = (sg_image){(int)width, (int)height, rgb};
    return SG_OK;
}

void sg_image_copy_rotated(const sg_image *to, const uint8_t *rgb, ptrdiff_t stride, sg_image_rotation t)
{
    const ptrdiff_t x_step = t.exchange ? stride : 3, y_step = t.exchange ? 3 : stride;
    uint8_t        *out = to->rgb;
    for (int y = 0; y < to->height; y++) {
        const uint8_t *const row = rgb + (t.y_back ? to->height - 1 - y : y) * y_step;
        for (int x = 0; x < to->width; x++, out += 3) memcpy(out, row + (t.x_back ? to->width - 1 - x : x) * x_step, 3);
    }
}

void sg_image_put(const sg_image *on, int x, int y, int width, int height, const uint8_t *rgb)
{
    const int left = x > 0 ? x : 0, right = x + width < on->width ? x + width : on->width;
    for (int row = y > 0 ? y : 0; row < on->height && row < y + height && left < right; row++)
        memcpy(on->rgb + sg_image_bytes(on->width, row) + 3 * (size_t)left,
               rgb + sg_image_bytes(width, row - y) + 3 * (size_t)(left - x), 3 * (size_t)(right - left));
}

void sg_image_close(sg_image *i)
{
    free(i->rgb);
    *i = (sg_image){0};
}
