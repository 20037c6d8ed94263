/* collage.c - see collage.h. */
#include "collage.h"
#include "caption.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 4096, MARGIN = 4, SHEET_LINES = 2 };

/* Pixels to a dot of text over pictures of that width. */
static int scale_of(int width) { return 1 + width / 384; }

/* Even, as the formats of video want it. */
static int strip_height(int width, int lines) { return (lines * SG_CAPTION_LINE + MARGIN) * scale_of(width); }

static void draw_line(const sg_image *on, int x, int y, int width, int cell, int line, const char *text)
{
    const int scale = scale_of(cell);
    sg_caption_draw(on, x + MARGIN * scale, y + (MARGIN / 2 + line * SG_CAPTION_LINE) * scale,
                    width - 2 * MARGIN * scale, scale, text);
}

static const uint8_t *frame_of(const sg_collage *c, int arm, int i)
{
    return c->rgb[arm] + (size_t)i * sg_image_bytes(c->width, c->height);
}

static uint8_t *pixel(const sg_image *on, int x, int y)
{
    return on->rgb + 3 * ((size_t)y * (size_t)on->width + (size_t)x);
}

/* ---- side by side ---- */

static int columns(const sg_collage *c) { return c->arms == 2 ? 3 : c->arms; }
static int rows(const sg_collage *c) { return c->arms == 2 ? 1 : 2; }

void sg_collage_side_size(const sg_collage *c, int *width, int *height)
{
    *width = columns(c) * c->width;
    *height = rows(c) * (c->height + strip_height(c->width, SG_COLLAGE_LINES));
}

/* Where panel k stands: arms first, then the differences of arm 1, 2, ... */
static void place(const sg_collage *c, int k, int *x, int *y)
{
    const bool below = c->arms > 2 && k >= c->arms;
    *x = (below ? k - c->arms + 1 : k) * c->width;
    *y = below ? c->height + strip_height(c->width, SG_COLLAGE_LINES) : 0;
}

void sg_collage_difference(const sg_collage *c, int k, int *x, int *y)
{
    place(c, c->arms + k - 1, x, y);
    *y += strip_height(c->width, SG_COLLAGE_LINES);
}

static void subtract(const sg_image *on, const sg_collage *c, int x, int y, const uint8_t *a, const uint8_t *b)
{
    const size_t stride = (size_t)c->width * 3;
    for (int i = 0; i < c->height; i++) {
        uint8_t *const to = pixel(on, x, y + i);
        for (size_t k = 0; k < stride; k++) {
            const int d = SG_COLLAGE_GAIN * abs(*a++ - *b++);
            to[k] = (uint8_t)(d < 255 ? d : 255);
        }
    }
}

void sg_collage_side(const sg_image *on, const sg_collage *c, int i, sg_caption *caption)
{
    const int strip = strip_height(c->width, SG_COLLAGE_LINES);
    memset(on->rgb, 0, sg_image_bytes(on->width, on->height));
    for (int k = 0; k < 2 * c->arms - 1; k++) {
        int x, y;
        place(c, k, &x, &y);
        for (int line = 0; line < SG_COLLAGE_LINES; line++)
            draw_line(on, x, y, c->width, c->width, line, caption[k][line]);
        if (k < c->arms)
            sg_image_put(on, x, y + strip, c->width, c->height, frame_of(c, k, i));
        else
            subtract(on, c, x, y + strip, frame_of(c, 0, i), frame_of(c, k - c->arms + 1, i));
    }
}

/* ---- the contact sheet ---- */

/* Pictures in columns: how many, and the size of one, shrunk by a whole number. */
typedef struct sheet {
    int columns, shrink, width, height;
} sheet;

static sheet sheet_of(const sg_collage *c, int columns, int shrink)
{
    return (sheet){columns, shrink, c->width / shrink, c->height / shrink};
}

int sg_collage_columns(int frames) { return frames < SG_COLLAGE_COLUMNS ? frames : SG_COLLAGE_COLUMNS; }

int sg_collage_frame(int k, int count, int frames)
{
    return count > 1 ? (int)((int64_t)k * (frames - 1) / (count - 1)) : 0;
}

static sheet contact_of(const sg_collage *c)
{
    const int columns = sg_collage_columns(c->frames);
    int       shrink = 1;
    while (columns * (c->width / shrink) > WIDEST) shrink++;
    return sheet_of(c, columns, shrink);
}

void sg_collage_sheet_size(const sg_collage *c, int *width, int *height)
{
    const sheet s = contact_of(c);
    *width = s.columns * s.width;
    *height = c->arms * (s.height + strip_height(s.width, SHEET_LINES));
}

int sg_collage_sheet_picture(const sg_collage *c) { return contact_of(c).height; }

/* Each pixel is the mean of shrink x shrink. */
static void shrink(const sg_image *on, const sg_collage *c, const sheet *s, int x, int y, const uint8_t *from)
{
    const size_t stride = (size_t)c->width * 3;
    const int    count = s->shrink * s->shrink;
    for (int i = 0; i < s->height; i++)
        for (int k = 0; k < s->width * 3; k++) {
            const uint8_t *at = from + (size_t)(i * s->shrink) * stride + (size_t)(k / 3 * s->shrink * 3 + k % 3);
            int            sum = count / 2;
            for (int dy = 0; dy < s->shrink; dy++, at += stride)
                for (int dx = 0; dx < s->shrink; dx++) sum += at[3 * dx];
            pixel(on, x, y + i)[k] = (uint8_t)(sum / count);
        }
}

void sg_collage_sheet(const sg_image *on, const sg_collage *c, const char *const *line)
{
    const sheet s = contact_of(c);
    const int   strip = strip_height(s.width, SHEET_LINES);
    memset(on->rgb, 0, sg_image_bytes(on->width, on->height));
    for (int arm = 0; arm < c->arms; arm++) {
        const int y = arm * (s.height + strip);
        draw_line(on, 0, y, on->width, s.width, 0, line[arm]);
        for (int k = 0; k < s.columns; k++) {
            char      text[32];
            const int frame = sg_collage_frame(k, s.columns, c->frames);
            snprintf(text, sizeof text, "frame %d", frame + 1);
            draw_line(on, k * s.width, y, s.width, s.width, 1, text);
            shrink(on, c, &s, k * s.width, y + strip, frame_of(c, arm, frame));
        }
    }
}

/* ---- the grid ---- */

enum { GAP = 4 };

static int grid_side(int count, int side) { return count * side + (count - 1) * GAP; }

static sheet grid_of(const sg_collage *c, int *width, int *height)
{
    sheet s = {.columns = 1};
    while (s.columns * s.columns < c->arms) s.columns++;
    do {
        s = sheet_of(c, s.columns, s.shrink + 1);
        *width = grid_side(s.columns, s.width);
        *height = grid_side((c->arms + s.columns - 1) / s.columns, s.height);
    } while (s.width > 1 && s.height > 1 && (*width > SG_COLLAGE_GRID || *height > SG_COLLAGE_GRID));
    return s;
}

void sg_collage_grid_size(const sg_collage *c, int *width, int *height) { (void)grid_of(c, width, height); }

void sg_collage_grid_put(const sg_image *on, const sg_collage *c, int k, const uint8_t *picture)
{
    int         width, height;
    const sheet s = grid_of(c, &width, &height);
    shrink(on, c, &s, k % s.columns * (s.width + GAP), k / s.columns * (s.height + GAP), picture);
}

/* ---- the strip ---- */

static sheet strip_of(const sg_collage *c)
{
    const int by = (c->height + SG_COLLAGE_STRIP_HEIGHT - 1) / SG_COLLAGE_STRIP_HEIGHT;
    return sheet_of(c, c->frames < SG_COLLAGE_STRIP ? c->frames : SG_COLLAGE_STRIP, by < c->width ? by : c->width);
}

void sg_collage_strip_size(const sg_collage *c, int *width, int *height)
{
    const sheet s = strip_of(c);
    *width = s.columns * s.width;
    *height = s.height;
}

void sg_collage_strip(const sg_image *on, const sg_collage *c)
{
    const sheet s = strip_of(c);
    for (int k = 0; k < s.columns; k++)
        shrink(on, c, &s, k * s.width, 0, frame_of(c, 0, sg_collage_frame(k, s.columns, c->frames)));
}
