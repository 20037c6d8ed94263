/* metrics.c - see metrics.h. */
#include "metrics.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = SG_SSIM_WINDOW, RADIUS = WINDOW / 2, MOMENTS = 5, CHANNELS = 3 };

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

static void gaussian(double weight[WINDOW])
{
    double sum = 0;
    for (int i = 0; i < WINDOW; i++) sum += weight[i] = exp(-0.5 * (i - RADIUS) * (i - RADIUS) / (1.5 * 1.5));
    for (int i = 0; i < WINDOW; i++) weight[i] /= sum;
}

/* column[m][i]: the window's column of the moments a, b, aa, bb, ab at sample i of the row that begins at x and y. */
static void sum_columns(double *column, const uint8_t *x, const uint8_t *y, size_t stride, const double weight[WINDOW])
{
    double *const ma = column, *const mb = ma + stride, *const aa = mb + stride, *const bb = aa + stride,
                  *const ab = bb + stride;
    memset(column, 0, MOMENTS * stride * sizeof *column);
    for (int k = 0; k < WINDOW; k++, x += stride, y += stride) {
        const double w = weight[k];
        for (size_t i = 0; i < stride; i++) {
            const double a = x[i], b = y[i];
            ma[i] += w * a;
            mb[i] += w * b;
            aa[i] += w * a * a;
            bb[i] += w * b * b;
            ab[i] += w * a * b;
        }
    }
}

/* The sum of SSIM over the windows of a row. */
static double sum_row(const double *column, size_t stride, const double weight[WINDOW])
{
    const double c1 = 0.01 * 255 * 0.01 * 255, c2 = 0.03 * 255 * 0.03 * 255;
    double       sum = 0;
    for (size_t i = 0; i + (WINDOW - 1) * CHANNELS < stride; i++) {
        double m[MOMENTS] = {0};
        for (size_t k = 0; k < WINDOW; k++)
            for (size_t q = 0; q < MOMENTS; q++) m[q] += weight[k] * column[q * stride + i + k * CHANNELS];
        const double va = m[2] - m[0] * m[0], vb = m[3] - m[1] * m[1], vab = m[4] - m[0] * m[1];
        sum += (2 * m[0] * m[1] + c1) * (2 * vab + c2) / ((m[0] * m[0] + m[1] * m[1] + c1) * (va + vb + c2));
    }
    return sum;
}

sg_status sg_ssim(double *out, const sg_image *a, const sg_image *b, sg_error *e)
{
    if (a->width < WINDOW || a->height < WINDOW)
        return sg_error_set(e, SG_E_SHAPE, "SSIM needs %dx%d pixels at least, and these are %dx%d", WINDOW, WINDOW,
                            a->width, a->height);
    const size_t  stride = (size_t)a->width * CHANNELS;
    const int     rows = a->height - WINDOW + 1;
    double *const row = malloc((size_t)rows * sizeof *row);
    double *const columns = malloc((size_t)omp_get_max_threads() * MOMENTS * stride * sizeof *columns);
    double        weight[WINDOW], sum = 0;
    if (!row || !columns) {
        free(columns);
        free(row);
        return sg_error_set(e, SG_E_MEMORY, "out of memory for SSIM");
    }
    gaussian(weight);
#pragma omp parallel for
    for (int y = 0; y < rows; y++) {
        double *const column = columns + (size_t)omp_get_thread_num() * MOMENTS * stride;
        const size_t  at = (size_t)y * stride;
        sum_columns(column, a->rgb + at, b->rgb + at, stride, weight);
        row[y] = sum_row(column, stride, weight);
    }
    for (int y = 0; y < rows; y++) sum += row[y];
    *out = sum / ((double)rows * (double)(stride - (WINDOW - 1) * CHANNELS));
    free(columns);
    free(row);
    return SG_OK;
}

static int by_value(const void *a, const void *b)
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
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    const double place = 0.05 * (count - 1);
    const int    below = (int)place;
    double       percentile = sorted[below];
    if (place > below && isfinite(percentile)) percentile += (place - below) * (sorted[below + 1] - percentile);
    *out = (sg_summary){finite ? sum / finite : INFINITY, value[worst], percentile, worst};
    free(sorted);
    return SG_OK;
}
