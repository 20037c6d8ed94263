/* caption.h - text on pictures: printable ASCII, white, by the public-domain font of stb_easy_font.h. */
#ifndef SG_CAPTION_H
#define SG_CAPTION_H

#include "image.h"

enum { SG_CAPTION_LINE = 12 }; /* dots from line to line; a capital has 7 */

/* Dots that text takes in width. What is no printable ASCII counts as "?", a character of UTF-8 once. */
int sg_caption_width(const char *text);

/* Draws it with its top left corner at x, y of the picture, a dot being scale x scale pixels. What does not fit into width
 * pixels ends in "..."; nothing is drawn outside of the picture. */
void sg_caption_draw(const sg_image *on, int x, int y, int width, int scale, const char *text);

#endif
