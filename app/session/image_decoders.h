/* image_decoders.h - pictures that libraries give as RGBA: WebP by FFmpeg; BMP, GIF and TGA by stb_image; PNM. In a
 * build without the library they tell that it is missing. */
#ifndef SG_IMAGE_DECODERS_H
#define SG_IMAGE_DECODERS_H

#include "base/file.h"
#include "base/image.h"

/* A decoder makes *out of the picture's size, its samples unset, and *rgba of malloc, [height][width][4], not
 * premultiplied. Both are the caller's, after a failure too. Returns SG_E_FORMAT or SG_E_MEMORY; the message names no
 * file. Headers are checked before a library sees them, and nothing is allocated for more than an image may have. */
typedef sg_status sg_image_decoder(sg_image *out, uint8_t **rgba, const sg_map *file, sg_error *e);

sg_image_decoder sg_image_webp, sg_image_stb;

/* The number of that many bytes, the lowest first; or the highest, if big. */
static inline uint32_t sg_image_number(const uint8_t *at, int bytes, bool big)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint32_t)at[i] << 8 * (big ? bytes - 1 - i : i);
    return v;
}

/* Returns the payload of the WebP's first chunk of this name, or of any where the name is NULL, and its *size; NULL
 * where the file has none whole. */
const uint8_t *sg_image_webp_chunk(const sg_map *file, const char *name, size_t *size);

/* Returns whether sg_image_stb knows the format: it begins as a BMP, a GIF or a PNM, or has a sound header of a TGA, which
 * has no magic number. */
bool sg_image_is_stb(const sg_map *file);

#endif
