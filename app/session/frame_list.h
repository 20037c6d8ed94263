/* frame_list.h - the pictures of a clip: one file, or the files of a folder whose names end in .png, .jpg, .jpeg, .webp,
 * .bmp, .gif, .pnm, .ppm, .pgm or .tga, in the order of their names. */
#ifndef SG_FRAME_LIST_H
#define SG_FRAME_LIST_H

#include <spargegen/spargegen.h>

typedef struct sg_frame_list {
    int    count;
    char **path; /* [count] */
} sg_frame_list;

/* Numbers within names count by value: frame-9.png comes before frame-10.png. Other files and hidden ones do not count.
 * Returns SG_E_FILE for what cannot be read or a folder without a picture, or SG_E_MEMORY. */
sg_status sg_frame_list_open(sg_frame_list *out, const char *path, sg_error *e) SG_MUST_USE;
void      sg_frame_list_close(sg_frame_list *l); /* zero is fine */

/* Returns the name of frame i, without folders. */
const char *sg_frame_list_name(const sg_frame_list *l, int i);

#endif
