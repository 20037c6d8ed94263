/* image.c - see image.h. */
#include "base/image.h"

#include <stdlib.h>

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

void sg_image_close(sg_image *i)
{
    free(i->rgb);
    *i = (sg_image){0};
}
