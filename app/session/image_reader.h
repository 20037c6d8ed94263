/* image_reader.h - PNG and JPEG in, as 8-bit RGB.
 *
 * Samples are used as stored: ICC profiles and gamma are ignored. 16 bits are rounded to 8. Grey and palette images
 * are converted to RGB. Unless it is to be upright, EXIF's rotation is ignored, and alpha is dropped without
 * blending. Of an animated PNG the default picture is read. Refused: CMYK, more than 16384 pixels a side or 2^26 in
 * all, files above 256 MiB or too small for the pixels that they declare, and truncated or damaged files. */
#ifndef SG_IMAGE_READER_H
#define SG_IMAGE_READER_H

#include "base/file.h"
#include "base/image.h"

/* Reads a picture from a file that is mapped, which has this name in messages; the caller closes. An upright picture is
 * rotated as its EXIF says and lies over white where it is transparent. SG_E_FORMAT: not such a picture;
 * SG_E_MEMORY. */
sg_status sg_image_decode(sg_image *out, const sg_map *file, const char *name, bool upright, sg_error *e) SG_MUST_USE;

#endif
