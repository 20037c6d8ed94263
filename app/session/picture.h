/* picture.h - the pictures that a clip begins and ends with, or that a model of images starts from: read from
 * files of image_reader.h, rotated as a camera says, over white where they are transparent, and made as large as the clip. */
#ifndef SG_PICTURE_H
#define SG_PICTURE_H

#include "base/image.h"
#include "options.h"

/* The pictures of a clip: paths of files, NULL where there is none, and hashes of them. of_entry tells messages that
 * they are a prompt set's, not those of --image and --last-image. */
typedef struct sg_pictures {
    sg_image    whole[SG_IMAGES], fitted[SG_IMAGES];
    const char *path[SG_IMAGES], *fit;
    uint64_t    hash[SG_IMAGES];
    bool        of_entry;
} sg_pictures;

/* The keys by SG_IMAGE_FIRST and SG_IMAGE_LAST are "image" and "last_image". */
extern const char *const sg_picture_keys[];

/* Reads those of --image and --last-image; SG_E_ARG for --fit without them. The caller closes, after a failure too. */
sg_status sg_pictures_open(sg_pictures *p, const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Reads the pictures of p's paths, which must outlive p. */
sg_status sg_pictures_read(sg_pictures *p, sg_error *e) SG_MUST_USE;

/* Returns the bytes of all that is read. */
size_t sg_pictures_bytes(const sg_pictures *p);

/* Checks that the model can make r's clip with them; SG_E_ARG where it takes no picture, and where it needs one that is
 * not there. */
sg_status sg_pictures_check(const sg_pictures *p, const sg_engine *engine, const sg_request *r,
                            sg_error *e) SG_MUST_USE;

/* Makes them as large as r's clip and gives them to r, which borrows them; a model of images starts from the first.
 * Resized by Lanczos: crop leaves out what is too wide or too high, pad puts black beside the picture, stretch, as
 * diffusers has it, keeps no proportion. */
sg_status sg_pictures_fit(sg_pictures *p, const sg_engine *engine, sg_request *r, sg_error *e) SG_MUST_USE;

/* Makes *out of `from` in a size, the same way, and closes what *out was. */
sg_status sg_picture_fit(sg_image *out, const sg_image *from, const char *fit, int width, int height,
                         sg_error *e) SG_MUST_USE;

void sg_pictures_close(sg_pictures *p);

#endif
