/* image_reader.h - pictures in, as 8-bit RGB: PNG and JPEG, with FFmpeg WebP, with stb_image BMP, GIF and TGA, and PNM. The
 * format is found by what the file holds, not by its name.
 *
 * Samples are used as stored: ICC profiles and gamma are ignored. 16 bits are rounded to 8. Grey and palette images
 * are converted to RGB. Unless it is to be upright, EXIF's rotation is ignored, and alpha is dropped without
 * blending. Of an animated PNG the default picture is read, of a GIF the first. Refused: CMYK, an animated WebP,
 * compressed BMP, PNM of text, more than 16384 pixels a side or 2^26 in all, files above 256 MiB or too
 * small for the pixels that they declare, and truncated or damaged files. */
#ifndef SG_IMAGE_READER_H
#define SG_IMAGE_READER_H

#include "base/file.h"
#include "base/image.h"

/* Reads a picture from a file that is mapped, which has this name in messages; the caller closes. An upright picture is
 * rotated as its EXIF says and lies over white where it is transparent. SG_E_FORMAT: not such a picture;
 * SG_E_MEMORY. */
sg_status sg_image_decode(sg_image *out, const sg_map *file, const char *name, bool upright, sg_error *e) SG_MUST_USE;

/* Returns whether the file begins like a picture of these formats; also of one that this build lacks the library for. */
bool sg_image_is(const sg_map *file);

/* Returns whether the picture has lost something to its format: JPEG, and WebP of that kind. */
bool sg_image_is_lossy(const sg_map *file);

#endif
