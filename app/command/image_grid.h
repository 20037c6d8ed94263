/* image_grid.h - the images of a render with --grid, all in one picture: --batch of a prompt, or those of a prompt file. */
#ifndef SG_IMAGE_GRID_H
#define SG_IMAGE_GRID_H

#include "collage.h"

typedef struct sg_image_grid {
    const char *path; /* NULL: there is none */
    sg_collage  collage;
    sg_image    on;
    char       *settings; /* kept in the file; owned; NULL: none */
} sg_image_grid;

/* What is seen without the model: a known ending, several images. SG_E_ARG. */
sg_status sg_image_grid_check(const char *path, int count, sg_error *e) SG_MUST_USE;

/* Of count images of this size; path is borrowed. The caller closes. */
void sg_image_grid_open(sg_image_grid *out, const char *path, int count, int width, int height);

/* Memory that it takes. */
size_t sg_image_grid_bytes(const sg_image_grid *g);

/* Image k, from 0. */
sg_status sg_image_grid_put(sg_image_grid *g, int k, const uint8_t *rgb, sg_error *e) SG_MUST_USE;

/* After the last image. */
sg_status sg_image_grid_save(sg_image_grid *g, sg_error *e) SG_MUST_USE;
void      sg_image_grid_close(sg_image_grid *g); /* zero is fine */

#endif
