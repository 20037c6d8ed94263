/* resample.c - see resample.h. What bites: weights are rounded half away from zero, each pass rounds to 8 bits, rows are
 * made first unless the height shrinks by more than twice what the width does, and a pass that would change no size is left
 * out. */
#include "resample.h"
#include "spargegen/spargegen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_BITS = 32 - 8 - 2 };

/* Holds the weights of one axis: each place of the output is a sum over count places of the input, from the first
 * on. */
typedef struct weights {
    int  taps;  /* at most, of a place */
    int *first; /* [out] */
    int *count; /* [out] */
    int *of;    /* [out][taps], of 2^WEIGHT_BITS */
} weights;

static double sinc(double x) { return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI); }

static double filter_at(sg_resample_filter f, double x)
{
    const double a = -0.5;
    if (f == SG_RESAMPLE_LANCZOS) return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static void weights_free(weights *w)
{
    free(w->first);
    free(w->count);
    free(w->of);
}

static bool weights_make(weights *w, int out, int in, sg_resample_filter f)
{
    const double  scale = (double)in / out, wide = scale < 1 ? 1 : scale;
    const double  support = (f == SG_RESAMPLE_LANCZOS ? 3 : 2) * wide;
    double *const real = malloc(((size_t)ceil(support) * 2 + 1) * sizeof *real);
    w->taps = (int)ceil(support) * 2 + 1;
    w->first = malloc((size_t)out * sizeof *w->first);
    w->count = malloc((size_t)out * sizeof *w->count);
    w->of = malloc((size_t)out * (size_t)w->taps * sizeof *w->of);
    if (!real || !w->first || !w->count || !w->of) {
        free(real);
        return false;
    }
    for (int i = 0; i < out; i++) {
        const double center = (i + 0.5) * scale, step = 1 / wide;
        const int    from = (int)(center - support + 0.5), to = (int)(center + support + 0.5);
        const int    first = from < 0 ? 0 : from, count = (to > in ? in : to) - first;
        double       sum = 0;
        for (int k = 0; k < count; k++) sum += real[k] = filter_at(f, (k + first - center + 0.5) * step);
        for (int k = 0; k < count; k++) {
            const double v = (sum != 0 ? real[k] / sum : real[k]) * (1 << WEIGHT_BITS);
            w->of[(size_t)i * (size_t)w->taps + (size_t)k] = (int)(v < 0 ? v - 0.5 : v + 0.5);
        }
        w->first[i] = first;
        w->count[i] = count;
    }
    free(real);
    return true;
}

static uint8_t rounded(int sum)
{
    const int v = sum >> WEIGHT_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Lines of `numbers` numbers each, so many apart, become out lines: of a picture's columns or of its rows. */
static void pass(uint8_t *out, const uint8_t *in, const weights *w, int places, size_t apart, size_t numbers)
{
    for (int i = 0; i < places; i++) {
        const int *const     of = w->of + (size_t)i * (size_t)w->taps;
        const uint8_t *const from = in + (size_t)w->first[i] * apart;
        for (size_t c = 0; c < numbers; c++) {
            int sum = 1 << (WEIGHT_BITS - 1);
            for (int k = 0; k < w->count[i]; k++) sum += from[(size_t)k * apart + c] * of[k];
            out[(size_t)i * apart + c] = rounded(sum);
        }
    }
}

static void across(uint8_t *out, const uint8_t *in, const weights *w, int out_width, int width, int lines)
{
    for (size_t i = 0; i < (size_t)lines; i++)
        pass(out + i * 3 * (size_t)out_width, in + i * 3 * (size_t)width, w, out_width, 3, 3);
}

static void down(uint8_t *out, const uint8_t *in, const weights *w, int out_height, int width)
{
    pass(out, in, w, out_height, 3 * (size_t)width, 3 * (size_t)width);
}

bool sg_resample_rgb8(uint8_t *out, int out_width, int out_height, const uint8_t *in, int width, int height,
                      sg_resample_filter filter)
{
    const bool     wider = out_width != width, higher = out_height != height, both = wider && higher;
    const int64_t  less = (int64_t)height - out_height;
    const bool     down_first = less > 0 && less > 2 * ((int64_t)width - out_width);
    const size_t   between = down_first ? (size_t)out_height * (size_t)width : (size_t)height * (size_t)out_width;
    uint8_t *const half = both ? malloc(3 * between) : out;
    weights        x = {0}, y = {0};
    const bool     enough = half && (!wider || weights_make(&x, out_width, width, filter)) &&
                        (!higher || weights_make(&y, out_height, height, filter));
    if (enough && both && down_first) {
        down(half, in, &y, out_height, width);
        across(out, half, &x, out_width, width, out_height);
    } else if (enough && both) {
        across(half, in, &x, out_width, width, height);
        down(out, half, &y, out_height, out_width);
    } else if (enough && wider) {
        across(out, in, &x, out_width, width, height);
    } else if (enough && higher) {
        down(out, in, &y, out_height, width);
    } else if (enough) {
        memcpy(out, in, 3 * (size_t)width * (size_t)height);
    }
    if (both) free(half);
    weights_free(&x);
    weights_free(&y);
    return enough;
}

sg_status sg_picture_resize(uint8_t *out, int out_width, int out_height, const uint8_t *rgb, int width, int height,
                            sg_error *e)
{
    const int side[] = {out_width, out_height, width, height};
    for (int i = 0; i < 4; i++)
        if (side[i] < 1 || side[i] > 1 << 24)
            return sg_error_set(e, SG_E_ARG, "a picture has sides of 1 to %d pixels, not %d", 1 << 24, side[i]);
    if (sg_resample_rgb8(out, out_width, out_height, rgb, width, height, SG_RESAMPLE_LANCZOS)) return SG_OK;
    return sg_error_set(e, SG_E_MEMORY, "out of memory for %dx%d pixels", out_width, out_height);
}
