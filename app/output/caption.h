/* caption.h - text on pictures: printable ASCII, white, by the public-domain font of stb_easy_font.h. */
#ifndef SG_CAPTION_H
#define SG_CAPTION_H

#include "base/image.h"

enum { SG_CAPTION_LINE = 12 }; /* dots from line to line; a capital has 7 */

/* Draws text with its top left corner at x, y of the picture; a dot is scale x scale pixels. A character other than
 * printable ASCII becomes one "?". Text wider than width pixels is cut and ends in "...". Nothing is drawn outside
 * the picture. */
void sg_caption_draw(const sg_image *on, int x, int y, int width, int scale, const char *text);

#endif
