/* clip_figures.c - see clip_figures.h. */
#include "clip_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double frozen_mae = 0.001 * 255;
enum { BLACK_GREY = 25, BLACK_PERCENT = 98 };

/* OpenCV's weights of 15 bits. */
static void make_grey(uint8_t *grey, const sg_image *i)
{
    const size_t pixels = (size_t)i->width * (size_t)i->height;
    for (size_t k = 0; k < pixels; k++) {
        const uint8_t *const p = i->rgb + 3 * k;
        grey[k] = (uint8_t)((9798 * p[0] + 19235 * p[1] + 3735 * p[2] + (1 << 14)) >> 15);
    }
}

double sg_grey_sharpness(const uint8_t *grey, int width, int height)
{
    const size_t n = (size_t)width, rows = (size_t)height;
    int64_t      sum = 0, squares = 0;
    for (size_t y = 0; y < rows; y++) {
        const uint8_t *const row = grey + y * n, *const above = y ? row - n : rows > 1 ? row + n : row;
        const uint8_t *const below = y + 1 < rows ? row + n : above;
        int32_t              row_sum = 0;
        int64_t              row_squares = 0;
        for (size_t x = 1; x + 1 < n; x++) {
            const int32_t v = row[x - 1] + row[x + 1] + above[x] + below[x] - 4 * row[x];
            row_sum += v;
            row_squares += v * v;
        }
        const size_t ends = n > 1 ? 2 : 1; /* both, which may be one */
        for (size_t k = 0; k < ends; k++) {
            const size_t  x = k * (n - 1);
            const uint8_t left = x ? row[x - 1] : row[n > 1], right = x + 1 < n ? row[x + 1] : left;
            const int32_t v = left + right + above[x] + below[x] - 4 * row[x];
            row_sum += v;
            row_squares += v * v;
        }
        sum += row_sum;
        squares += row_squares;
    }
    const double count = (double)n * (double)rows, mean = (double)sum / count;
    return (double)squares / count - mean * mean;
}

static bool is_black(const uint8_t *grey, int width, int height)
{
    const size_t pixels = (size_t)width * (size_t)height;
    size_t       dark = 0;
    for (size_t k = 0; k < pixels; k++) dark += grey[k] <= BLACK_GREY;
    return dark * 100 >= pixels * BLACK_PERCENT;
}

static double mean_difference(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < bytes; k++) sum += (uint64_t)abs(a[k] - b[k]);
    return (double)sum / (double)bytes;
}

sg_status sg_clip_watch_add(sg_clip_watch *w, const sg_image *frame, sg_error *e)
{
    const size_t bytes = sg_image_bytes(frame->width, frame->height);
    const bool   same_size = w->previous.width == frame->width && w->previous.height == frame->height;
    if (!same_size) {
        sg_image_close(&w->previous);
        free(w->grey);
        w->grey = malloc(bytes / 3);
        w->previous = (sg_image){frame->width, frame->height, malloc(bytes)};
        if (!w->previous.rgb || !w->grey) return sg_error_set(e, SG_E_MEMORY, "out of memory for a frame");
    }
    make_grey(w->grey, frame);
    w->sharpness += sg_grey_sharpness(w->grey, frame->width, frame->height);
    w->black += is_black(w->grey, frame->width, frame->height);
    if (same_size) {
        const double mae = mean_difference(w->previous.rgb, frame->rgb, bytes);
        w->mae += mae;
        w->frozen += mae <= frozen_mae;
        w->pairs++;
    }
    memcpy(w->previous.rgb, frame->rgb, bytes);
    w->frames++;
    return SG_OK;
}

sg_clip_figures sg_clip_watch_figures(const sg_clip_watch *w)
{
    const bool   comparable = w->frames > 1 && w->pairs == w->frames - 1;
    const double flicker = comparable ? (255 - w->mae / w->pairs) / 255 : (double)NAN;
    return (sg_clip_figures){w->frames, w->black, w->frozen, w->sharpness / w->frames, flicker};
}

void sg_clip_watch_close(sg_clip_watch *w)
{
    free(w->grey);
    sg_image_close(&w->previous);
    *w = (sg_clip_watch){0};
}
