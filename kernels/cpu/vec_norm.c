/* vec_norm.c - ops along the last dimension: norm and rope. */
#include "vec.h"

/* A row's shift and factor. Runs are summed in F32, their totals in double. */
typedef struct row_stats {
    float mean, gain;
} row_stats;

/* Sums of x - guess, and of its square, over a run. Four independent vectors of sums hide the addition's latency. */
typedef struct run_sums {
    double sum, square;
} run_sums;

static double lanes_total(const sg_lanes *s) { return (double)sg_lanes_sum(s[0] + s[1] + (s[2] + s[3])); }

static run_sums sums_of(const float *x, int64_t n, float guess)
{
    enum { WIDE = 4 * SG_LANES };
    sg_lanes sum[4] = {{0}}, square[4] = {{0}};
    float    rest = 0, rest_square = 0;
    int64_t  i = 0;
    for (; i + WIDE <= n; i += WIDE)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const sg_lanes d = *(const sg_lanes *)(x + i + k * SG_LANES) - guess;
            sum[k] += d;
            square[k] += d * d;
        }
    for (; i < n; i++) {
        const float d = x[i] - guess;
        rest += d;
        rest_square += d * d;
    }
    return (run_sums){lanes_total(sum) + (double)rest, lanes_total(square) + (double)rest_square};
}

static run_sums row_sums(const sg_tensor *x, int64_t at, int64_t c, float guess)
{
    float    buffer[SG_RUN];
    run_sums all = {0};
    for (int64_t i = 0; i < c; i += SG_RUN) {
        const int64_t  n = sg_min64(SG_RUN, c - i);
        const run_sums s = sums_of(sg_read_f32(x, at + i, n, buffer), n, guess);
        all.sum += s.sum;
        all.square += s.square;
    }
    return all;
}

/* The mean is first estimated, then corrected by the mean of the deviations from the estimate, so that a constant row
 * comes out as zeros and not as its own rounding error over sqrt(eps). */
static row_stats stats_layer(const sg_norm_args *a, int64_t row, int64_t c)
{
    const double   by = 1.0 / (double)c;
    const float    guess = (float)(row_sums(&a->x, row, c, 0.0f).sum * by);
    const run_sums s = row_sums(&a->x, row, c, guess);
    const double   off = s.sum * by, var = s.square * by - off * off;
    return (row_stats){(float)((double)guess + off), (float)(1.0 / sqrt((var > 0 ? var : 0 * var) + (double)a->eps))};
}

static float rms_gain(const sg_tensor *x, int64_t at, int64_t c, float eps)
{
    return (float)(1.0 / sqrt(row_sums(x, at, c, 0.0f).square / (double)c + (double)eps));
}

static row_stats stats_of(const sg_norm_args *a, int64_t row, int64_t c)
{
    switch (a->kind) {
    case SG_NORM_LAYER: return stats_layer(a, row, c);
    case SG_NORM_RMS: return (row_stats){0, rms_gain(&a->x, row, c, a->eps)};
    case SG_NORM_L2: return (row_stats){0, (float)sqrt((double)c / fmax(row_sums(&a->x, row, c, 0).square, 1e-24))};
    default: return (row_stats){0, 1};
    }
}

/* Whether the row's mean is finite; without LAYER true. */
static bool norm_row(const sg_norm_args *a, int64_t row, int64_t c, const float *gain, const float *shift)
{
    const row_stats r = stats_of(a, row, c);
    for (int64_t i = 0; i < c; i += SG_RUN) {
        float              buffer[2][SG_RUN];
        const int64_t      n = sg_min64(SG_RUN, c - i);
        const float *const x = sg_read_f32(&a->x, row + i, n, buffer[0]), *const g = gain + i, *const b = shift + i;
        float *const y = sg_write_f32(&a->y, row + i, buffer[1]);
#pragma omp simd
        for (int64_t k = 0; k < n; k++) y[k] = (x[k] - r.mean) * r.gain * g[k] + b[k];
        sg_act_run(a->act, y, y, n);
        sg_write_f32_done(&a->y, row + i, n, y);
    }
    return isfinite(r.mean);
}

/* (norm w + b) (1 + scale) + shift = norm gain + offset, both made once for all rows. */
static sg_status norm(sg_stream *s, const sg_norm_args *a)
{
    const int64_t c = a->x.dim[a->x.rank - 1], rows = sg_count(a->x) / c;
    float *const  gain = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, (size_t)c * 2 * sizeof(float));
    if (!gain) return SG_E_MEMORY;
    float *const       offset = gain + c;
    const float *const w = a->w.data, *const b = a->b.data, *const scale = a->scale.data, *const shift = a->shift.data;
    for (int64_t i = 0; i < c; i++) {
        const float by = 1.0f + (a->scale.rank ? scale[i] : 0.0f);
        gain[i] = (a->w.rank ? w[i] : 1.0f) * by;
        offset[i] = (a->b.rank ? b[i] : 0.0f) * by + (a->shift.rank ? shift[i] : 0.0f);
    }
    int32_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum) num_threads(sg_cpu_of(s)->threads) if (rows * c > SG_TINY)
    for (int64_t t = 0; t < rows; t++) sum += !norm_row(a, t * c, c, gain, offset);
    if (a->non_finite.rank) *(int32_t *)a->non_finite.data += sum;
    return SG_OK;
}

/* The pairs of x, normalised where w is given, rotated by the angles whose cosines and sines are c and e. */
static void rope_run(float *y, const float *x, const float *w, float gain, const float *c, const float *e,
                     int64_t pairs)
{
    if (w) {
#pragma omp simd
        for (int64_t k = 0; k < pairs; k++) {
            const float p = x[2 * k] * gain * w[2 * k], q = x[2 * k + 1] * gain * w[2 * k + 1];
            y[2 * k] = p * c[k] - q * e[k];
            y[2 * k + 1] = p * e[k] + q * c[k];
        }
    } else {
#pragma omp simd
        for (int64_t k = 0; k < pairs; k++) {
            const float p = x[2 * k], q = x[2 * k + 1];
            y[2 * k] = p * c[k] - q * e[k];
            y[2 * k + 1] = p * e[k] + q * c[k];
        }
    }
}

static void rope_row(const sg_rope_args *a, int64_t t)
{
    const int64_t      h = a->x.dim[1], d = a->x.dim[2], half = d / 2, width = a->w.rank ? a->w.dim[0] : d;
    const float *const w = a->w.rank ? a->w.data : NULL;
    const float *const c = (const float *)a->cos.data + t * half, *const e = (const float *)a->sin.data + t * half;
    float gain = 1;
    for (int64_t g = 0; g < h; g++) {
        if (w && g * d % width == 0) gain = rms_gain(&a->x, (t * h + g) * d, width, a->eps);
        for (int64_t i = 0; i < half; i += SG_RUN / 2) {
            float              buffer[2][SG_RUN];
            const int64_t      at = (t * h + g) * d + 2 * i, pairs = sg_min64(SG_RUN / 2, half - i);
            const float *const x = sg_read_f32(&a->x, at, 2 * pairs, buffer[0]);
            float *const       y = sg_write_f32(&a->y, at, buffer[1]);
            rope_run(y, x, w ? w + g * d % width + 2 * i : NULL, gain, c + i, e + i, pairs);
            sg_write_f32_done(&a->y, at, 2 * pairs, y);
        }
    }
}

static sg_status rope(sg_stream *s, const sg_rope_args *a)
{
    const int64_t n = a->x.dim[0];
#pragma omp parallel for schedule(static) num_threads(sg_cpu_of(s)->threads) if (sg_count(a->x) > SG_TINY)
    for (int64_t t = 0; t < n; t++) rope_row(a, t);
    return SG_OK;
}

void SG_VEC_INIT(norm)(sg_ops *t)
{
    t->norm = norm;
    t->rope = rope;
}
