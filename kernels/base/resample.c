/* resample.c - see resample.h. What bites: weights are rounded half away from zero, each pass rounds to 8 bits, rows come
 * before columns, and a pass that would change no size is left out. */
#include "base/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_BITS = 32 - 8 - 2 };

/* Of one axis: each place of the output is a sum over count places of the input, from the first on. */
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

bool sg_resample_rgb8(uint8_t *out, int out_width, int out_height, const uint8_t *in, int width, int height,
                      sg_resample_filter filter)
{
    const size_t   row = (size_t)width * 3, out_row = (size_t)out_width * 3;
    const bool     across = out_width != width, down = out_height != height;
    uint8_t *const half = across && down ? malloc((size_t)height * out_row) : out;
    weights        x = {0}, y = {0};
    const bool     enough = half && (!across || weights_make(&x, out_width, width, filter)) &&
                        (!down || weights_make(&y, out_height, height, filter));
    if (enough && across)
        for (size_t i = 0; i < (size_t)height; i++) pass(half + i * out_row, in + i * row, &x, out_width, 3, 3);
    if (enough && down) pass(out, across ? half : in, &y, out_height, out_row, out_row);
    if (enough && !across && !down) memcpy(out, in, (size_t)height * row);
    if (half != out) free(half);
    weights_free(&x);
    weights_free(&y);
    return enough;
}
