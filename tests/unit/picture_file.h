/* picture_file.h - a picture from a file, for tests that look at one. */
#ifndef PICTURE_FILE_H
#define PICTURE_FILE_H

#include "image_reader.h"

static sg_status read_image(sg_image *out, const char *path, sg_error *e)
{
    sg_map map;
    *out = (sg_image){0};
    SG_TRY(sg_map_open(&map, path, e));
    const sg_status status = sg_image_decode(out, &map, path, false, e);
    sg_map_close(&map);
    return status;
}

#endif
