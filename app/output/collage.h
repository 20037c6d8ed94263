/* collage.h - clips of one size next to each other, each below a strip of text: frames of one clip, or one picture.
 *
 *   two clips           more of them
 *   a   b   |a-b|       a   b       c
 *                           |a-b|   |a-c|      differences eightfold, cut off at white */
#ifndef SG_COLLAGE_H
#define SG_COLLAGE_H

#include "base/image.h"

enum { SG_COLLAGE_LINES = 4, SG_COLLAGE_TEXT = 256, SG_COLLAGE_GAIN = 8, SG_COLLAGE_COLUMNS = 8 };

typedef struct sg_collage {
    int                   width, height, frames, arms; /* arms >= 2 but for a strip */
    const uint8_t *const *rgb;                         /* [arms], each [frames, height, width, 3]; borrowed */
} sg_collage;

typedef char sg_caption[SG_COLLAGE_LINES][SG_COLLAGE_TEXT];

/* Gives the size of a frame with all of them side by side; both even where the clips' are. */
void sg_collage_side_size(const sg_collage *c, int *width, int *height);

/* Draws frame i of all. on has that size; caption has the arms' first, then those of the differences of arm 1, 2, ...
 * to arm 0. */
void sg_collage_side(const sg_image *on, const sg_collage *c, int i, sg_caption *caption);

/* Tells where in it the picture of the difference of arm k, 1 or more, to arm 0 has its upper left corner. */
void sg_collage_difference(const sg_collage *c, int k, int *x, int *y);

/* Returns how many columns the contact sheet of so many frames has. */
int sg_collage_columns(int frames);

/* Returns which of the frames, from 0, the k-th is, where count of them are shown, from the first to the last. */
int sg_collage_frame(int k, int count, int frames);

/* Gives the size of the contact sheet: a row for each arm, a column for each of up to SG_COLLAGE_COLUMNS frames from
 * the first to the last; pictures are shrunk by a whole number until it is no wider than 4096 pixels. */
void sg_collage_sheet_size(const sg_collage *c, int *width, int *height);

/* Returns the height of a picture there; pictures stand at the bottom of their arm's row. */
int sg_collage_sheet_picture(const sg_collage *c);

/* Draws the contact sheet; line has one of each arm. */
void sg_collage_sheet(const sg_image *on, const sg_collage *c, const char *const *line);

/* These put pictures of one size in rows and about as many columns, with thin gaps, shrunk by a whole number until
 * neither side has more than SG_COLLAGE_GRID pixels. c has as many arms and one frame, and no rgb. */
enum { SG_COLLAGE_GRID = 8192 };
void sg_collage_grid_size(const sg_collage *c, int *width, int *height);
void sg_collage_grid_put(const sg_image *on, const sg_collage *c, int k, const uint8_t *picture);

/* These put up to SG_COLLAGE_STRIP frames of a clip, from the first to the last, next to each other, without text,
 * shrunk by a whole number to at most SG_COLLAGE_STRIP_HEIGHT pixels in height. c has one arm. */
enum { SG_COLLAGE_STRIP = 5, SG_COLLAGE_STRIP_HEIGHT = 160 };
void sg_collage_strip_size(const sg_collage *c, int *width, int *height);
void sg_collage_strip(const sg_image *on, const sg_collage *c);

#endif
