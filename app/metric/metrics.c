/* metrics.c - see metrics.h. */
#include "metrics.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = SG_SSIM_WINDOW, RADIUS = WINDOW / 2, CHANNELS = 3, SCALES = SG_SSIM_SCALES };
enum { MEAN_A, MEAN_B, SQUARES, PRODUCT, MOMENTS }; /* SQUARES: of a and b together */
enum { BAND = 128 };                                /* rows of windows that one thread does in one go */

double sg_psnr(const sg_image *a, const sg_image *b)
{
    const size_t count = (size_t)a->width * (size_t)a->height * CHANNELS;
    uint64_t     sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (size_t i = 0; i < count; i++) {
        const int d = a->rgb[i] - b->rgb[i];
        sum += (uint64_t)(d * d);
    }
    return sum ? 10 * log10(255.0 * 255.0 * (double)count / (double)sum) : INFINITY;
}

/* ---- SSIM and MS-SSIM ---- */

/* A picture at one scale: bytes at full size, planes below. The mean of 16x16 bytes is exact in a float. */
typedef struct scaled {
    size_t         width, height;
    const uint8_t *rgb;   /* [height][width][3], or NULL */
    float         *plane; /* [3][height][width] */
} scaled;

typedef struct terms {
    double ssim, structure;
} terms;

static void load_row(double *out, const scaled *s, size_t channel, size_t y)
{
    if (s->rgb) {
        const uint8_t *const row = s->rgb + y * s->width * CHANNELS + channel;
        for (size_t x = 0; x < s->width; x++) out[x] = row[x * CHANNELS];
    } else {
        const float *const row = s->plane + (channel * s->height + y) * s->width;
        for (size_t x = 0; x < s->width; x++) out[x] = (double)row[x];
    }
}

static void gaussian(double weight[RADIUS + 1])
{
    double sum = 0;
    for (int i = 0; i <= RADIUS; i++) {
        weight[i] = exp(-0.5 * (i - RADIUS) * (i - RADIUS) / (1.5 * 1.5));
        sum += weight[i] * (i < RADIUS ? 2 : 1);
    }
    for (int i = 0; i <= RADIUS; i++) weight[i] /= sum;
}

/* out[i] for i < n: the window's row that begins at in[i]. */
static void blur_row(double *restrict out, const double *restrict in, size_t n, const double weight[RADIUS + 1])
{
    for (size_t i = 0; i < n; i++) {
        double sum = weight[RADIUS] * in[i + RADIUS];
        for (size_t k = 0; k < RADIUS; k++) sum += weight[k] * (in[i + k] + in[i + WINDOW - 1 - k]);
        out[i] = sum;
    }
}

/* out[MOMENTS][n]: the windows' rows of row y; work [MOMENTS][width]. */
static void sum_row(double *out, double *work, const scaled *a, const scaled *b, size_t channel, size_t y,
                    const double weight[RADIUS + 1])
{
    const size_t  width = a->width, n = width - WINDOW + 1;
    double *const va = work, *const vb = va + width, *const squares = vb + width, *const product = squares + width;
    load_row(va, a, channel, y);
    load_row(vb, b, channel, y);
    for (size_t x = 0; x < width; x++) {
        squares[x] = va[x] * va[x] + vb[x] * vb[x];
        product[x] = va[x] * vb[x];
    }
    for (size_t q = 0; q < MOMENTS; q++) blur_row(out + q * n, work + q * width, n, weight);
}

/* out[i] for i < n: the windows whose rows are row[k][i]. */
static void blur_columns(double *restrict out, const double *const row[WINDOW], size_t n,
                         const double weight[RADIUS + 1])
{
    for (size_t i = 0; i < n; i++) {
        double sum = weight[RADIUS] * row[RADIUS][i];
        for (size_t k = 0; k < RADIUS; k++) sum += weight[k] * (row[k][i] + row[WINDOW - 1 - k][i]);
        out[i] = sum;
    }
}

/* The sums over n windows of these moments [MOMENTS][n]. */
static terms sum_windows(const double *moment, size_t n)
{
    const double        c1 = 0.01 * 255 * 0.01 * 255, c2 = 0.03 * 255 * 0.03 * 255;
    const double *const mean_a = moment, *const mean_b = mean_a + n, *const squares = mean_b + n,
                        *const product = squares + n;
    double                     ssim = 0, structure = 0;
#pragma omp simd reduction(+ : ssim, structure)
    for (size_t i = 0; i < n; i++) {
        const double means = mean_a[i] * mean_a[i] + mean_b[i] * mean_b[i], mixed = mean_a[i] * mean_b[i];
        const double s = (2 * (product[i] - mixed) + c2) / (squares[i] - means + c2);
        structure += s;
        ssim += s * (2 * mixed + c1) / (means + c1);
    }
    return (terms){ssim, structure};
}

static size_t work_size(size_t width) { return MOMENTS * (width + WINDOW * (width - WINDOW + 1)); }

/* out[y] for first <= y < end: the sums over the windows that begin in row y. */
static void sum_band(terms *out, double *work, const scaled *a, const scaled *b, size_t channel, size_t first,
                     size_t end)
{
    const size_t  n = a->width - WINDOW + 1;
    double *const ring = work + MOMENTS * a->width; /* [WINDOW][MOMENTS][n] */
    double        weight[RADIUS + 1];
    gaussian(weight);
    for (size_t y = first; y < end + WINDOW - 1; y++) {
        sum_row(ring + y % WINDOW * MOMENTS * n, work, a, b, channel, y, weight);
        if (y < first + WINDOW - 1) continue;
        const size_t top = y - (WINDOW - 1);
        for (size_t q = 0; q < MOMENTS; q++) {
            const double *row[WINDOW];
            for (size_t k = 0; k < WINDOW; k++) row[k] = ring + ((top + k) % WINDOW * MOMENTS + q) * n;
            blur_columns(work + q * n, row, n, weight);
        }
        out[top] = sum_windows(work, n);
    }
}

/* The means over all windows of each channel. row [3][height], work [threads][work_size]. */
static void compare_scale(terms out[CHANNELS], const scaled *a, const scaled *b, terms *row, double *work)
{
    const size_t rows = a->height - WINDOW + 1, bands = (rows + BAND - 1) / BAND, size = work_size(a->width);
#pragma omp parallel for schedule(dynamic)
    for (size_t job = 0; job < CHANNELS * bands; job++) {
        const size_t channel = job / bands, first = job % bands * BAND;
        const size_t end = first + BAND < rows ? first + BAND : rows;
        sum_band(row + channel * rows, work + (size_t)omp_get_thread_num() * size, a, b, channel, first, end);
    }
    const double count = (double)rows * (double)(a->width - WINDOW + 1);
    for (size_t channel = 0; channel < CHANNELS; channel++) {
        terms sum = {0};
        for (size_t y = 0; y < rows; y++) {
            sum.ssim += row[channel * rows + y].ssim;
            sum.structure += row[channel * rows + y].structure;
        }
        out[channel] = (terms){sum.ssim / count, sum.structure / count};
    }
}

/* Two rows of s, parted by width % 2 zeros from their beginnings; that of y = -1 is all zeros. */
static void load_padded(double *out, const scaled *s, size_t channel, size_t y, bool above)
{
    const size_t odd = s->width % 2;
    out[0] = 0;
    if (above)
        memset(out, 0, (s->width + odd) * sizeof *out);
    else
        load_row(out + odd, s, channel, y);
}

static void halve(scaled *out, const scaled *s, double *work)
{
    const size_t width = (s->width + 1) / 2, height = (s->height + 1) / 2, odd = s->height % 2, size = s->width + 1;
    out->width = width;
    out->height = height;
    out->rgb = NULL;
#pragma omp parallel for collapse(2)
    for (size_t channel = 0; channel < CHANNELS; channel++)
        for (size_t y = 0; y < height; y++) {
            double *const upper = work + (size_t)omp_get_thread_num() * 2 * size, *const lower = upper + size;
            float *const row = out->plane + (channel * height + y) * width;
            load_padded(upper, s, channel, 2 * y - odd, odd && y == 0);
            load_padded(lower, s, channel, 2 * y + 1 - odd, false);
            for (size_t x = 0; x < width; x++)
                row[x] = (float)((upper[2 * x] + upper[2 * x + 1] + lower[2 * x] + lower[2 * x + 1]) / 4);
        }
}

static int scales_that_fit(const sg_image *i)
{
    const int least = i->width < i->height ? i->width : i->height;
    int       n = 1;
    while (n < SCALES && least > (WINDOW - 1) << n) n++;
    return n;
}

/* Two sets of planes, of every other scale each. */
static size_t plane_size(const sg_image *i, int scale)
{
    return CHANNELS * (((size_t)i->width >> scale) + 1) * (((size_t)i->height >> scale) + 1);
}

static double product_of(terms term[][CHANNELS], int scales)
{
    static const double wang[SCALES] = {0.0448, 0.2856, 0.3001, 0.2363, 0.1333};
    double              all = 0, mean = 0;
    for (int s = 0; s < scales; s++) all += wang[s];
    if (scales == SCALES) all = 1; /* as published they add up to 1.0001 */
    for (int c = 0; c < CHANNELS; c++) {
        double product = 1;
        for (int s = 0; s < scales; s++) {
            const double t = s < scales - 1 ? term[s][c].structure : term[s][c].ssim;
            product *= pow(t > 0 ? t : 0, wang[s] / all);
        }
        mean += product / CHANNELS;
    }
    return mean;
}

sg_status sg_ms_ssim(sg_similarity *out, const sg_image *a, const sg_image *b, sg_error *e)
{
    if (a->width < WINDOW || a->height < WINDOW)
        return sg_error_set(e, SG_E_SHAPE, "SSIM needs %dx%d pixels at least, and these are %dx%d", WINDOW, WINDOW,
                            a->width, a->height);
    const int     scales = scales_that_fit(a);
    const size_t  width = (size_t)a->width, height = (size_t)a->height, threads = (size_t)omp_get_max_threads();
    const size_t  near = scales > 1 ? plane_size(a, 1) : 0, far = scales > 2 ? plane_size(a, 2) : 0;
    terms         term[SCALES][CHANNELS] = {0};
    terms *const  row = malloc(CHANNELS * height * sizeof *row);
    double *const work = malloc(threads * work_size(width) * sizeof *work);
    float *const  plane = malloc((2 * (near + far) + 1) * sizeof *plane);
    if (!row || !work || !plane) {
        free(plane);
        free(work);
        free(row);
        return sg_error_set(e, SG_E_MEMORY, "out of memory for SSIM");
    }
    scaled first[2] = {{width, height, a->rgb, NULL}, {0}}, second[2] = {{width, height, b->rgb, NULL}, {0}};
    for (int s = 0; s < scales; s++) {
        const int now = s % 2, next = !now;
        compare_scale(term[s], &first[now], &second[now], row, work);
        if (s == scales - 1) break;
        float *const at = plane + (s % 2 ? 2 * near : 0);
        first[next].plane = at;
        second[next].plane = at + (s % 2 ? far : near);
        halve(&first[next], &first[now], work);
        halve(&second[next], &second[now], work);
    }
    double sum = 0;
    for (int c = 0; c < CHANNELS; c++) sum += term[0][c].ssim;
    *out = (sg_similarity){sum / CHANNELS, product_of(term, scales), scales};
    free(plane);
    free(work);
    free(row);
    return SG_OK;
}

/* ---- over a clip, and of arrays ---- */

int sg_double_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

sg_status sg_summarise(sg_summary *out, const double *value, int count, sg_error *e)
{
    double sum = 0;
    int    finite = 0, worst = 0;
    for (int i = 0; i < count; i++) {
        if (isfinite(value[i])) sum += value[i], finite++;
        if (value[i] < value[worst]) worst = i;
    }
    double *const sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    memcpy(sorted, value, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, sg_double_order);
    const double place = 0.05 * (count - 1);
    const int    below = (int)place;
    double       percentile = sorted[below];
    if (place > below && isfinite(percentile)) percentile += (place - below) * (sorted[below + 1] - percentile);
    *out = (sg_summary){finite ? sum / finite : INFINITY, value[worst], percentile, worst};
    free(sorted);
    return SG_OK;
}

sg_distance sg_array_distance(const float *a, const float *b, size_t n)
{
    double aa = 0, bb = 0, ab = 0, dd = 0;
    size_t non_finite = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i], y = (double)b[i];
        non_finite += (size_t)!isfinite(a[i]) + (size_t)!isfinite(b[i]);
        aa += x * x;
        bb += y * y;
        ab += x * y;
        dd += (y - x) * (y - x);
    }
    if (non_finite) return (sg_distance){NAN, NAN, non_finite};
    const double lengths = sqrt(aa) * sqrt(bb);
    return (sg_distance){dd > 0 ? sqrt(dd) / sqrt(aa) : 0, lengths > 0 ? ab / lengths : 0, 0};
}
