/* caption.c - see caption.h. */
#include "caption.h"
#include "base/utf8.h"

#include <stb_easy_font.h>
#include <string.h>

enum {
    LONGEST = 256, /* characters of a caption */
    STROKES = 24   /* of a character, at most: "@" has 21 */
};

/* As stb_easy_font_print leaves it. */
typedef struct vertex {
    float   x, y, z;
    uint8_t color[4];
} vertex;

static void printable(char out[LONGEST], const char *text)
{
    size_t n = 0;
    for (; *text && n < LONGEST - 1; text++) {
        if (sg_utf8_continues(*text)) continue;
        out[n++] = *text < ' ' || *text > '~' ? '?' : *text;
    }
    out[n] = '\0';
}

static void shorten(char text[LONGEST], int width)
{
    static const char dots[] = "...";
    size_t            n = strlen(text);
    if (stb_easy_font_width(text) <= width) return;
    if (n > LONGEST - sizeof dots) n = LONGEST - sizeof dots;
    do {
        memcpy(text + n, dots, sizeof dots);
    } while (stb_easy_font_width(text) > width && n-- > 0);
}

static void fill(const sg_image *on, int x0, int y0, int x1, int y1)
{
    if (x0 < 0) x0 = 0;
    if (y0 < 0) y0 = 0;
    if (x1 > on->width) x1 = on->width;
    if (y1 > on->height) y1 = on->height;
    for (int y = y0; y < y1 && x0 < x1; y++)
        memset(on->rgb + 3 * ((size_t)y * (size_t)on->width + (size_t)x0), 255, 3 * (size_t)(x1 - x0));
}

/* Character after character: all strokes of a text would take much memory. */
void sg_caption_draw(const sg_image *on, int x, int y, int width, int scale, const char *text)
{
    char   plain[LONGEST];
    vertex corner[4 * STROKES];
    printable(plain, text);
    shorten(plain, width / scale);
    for (const char *c = plain; *c; c++) {
        char      one[2] = {*c, '\0'};
        const int strokes = stb_easy_font_print(0, 0, one, NULL, corner, sizeof corner);
        for (int i = 0; i < strokes; i++) {
            const vertex *const from = &corner[4 * i], *const to = &corner[4 * i + 2];
            fill(on, x + (int)from->x * scale, y + (int)from->y * scale, x + (int)to->x * scale,
                 y + (int)to->y * scale);
        }
        x += stb_easy_font_width(one) * scale;
    }
}
