/* vec_norm.c - ops along the last dimension: norm and rope. */
#include "vec.h"

#include <omp.h>

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

/* ---- group norm ---- */

/* Mean, and sum of squared deviations from it, of the numbers of a group. */
typedef struct moments {
    double mean, square;
} moments;

/* A chunk's numbers are taken in parts, and these in blocks that stay in the cache: their number depends on the shape
 * alone, so that the bits do not depend on the number of threads. F32 sums are those of a block's places: where numbers
 * repeat from place to place, the errors of a long sum all have one sign. */
enum { GROUP_BLOCK = 1 << 15, GROUP_PLACES = 256, GROUP_PARTS = 512 };

/* Bytes that memory is asked for before it is read or written. The processor's own prefetching alone takes a quarter to a
 * half more time. */
enum { AHEAD = 4096 };

#define FETCH(data, bf16, at, writes) __builtin_prefetch((const char *)(data) + (at) * ((bf16) ? 2 : 4) + AHEAD, writes)

typedef struct group_norm {
    const sg_norm_args *a;
    int64_t             c, wide, groups, per;       /* channels; the same in whole vectors; groups; channels of each */
    int64_t             places, part, parts, block; /* of a chunk; of a part; parts; of a block */
    moments            *moments;                    /* [parts][groups] */
    float              *mean, *gain, *shift;        /* [wide] of the chunk: y = (x - mean) gain + shift */
    float              *work;                       /* [threads][3 wide] */
} group_norm;

/* m, of n numbers, becomes that of them and of k others: Chan, Golub and LeVeque, Algorithms for computing the sample
 * variance, 1983. */
static void moments_add(moments *m, double n, const moments *other, double k)
{
    const double d = other->mean - m->mean, all = n + k;
    m->mean += d * k / all;
    m->square += other->square + d * d * n * k / all;
}

/* sum += x - guess and square += (x - guess)^2 in each channel, at `places` places from element `at` of x on. */
SG_INLINE void add_places(const group_norm *g, bool bf16, int places, int64_t at, const float *guess, float *sum,
                          float *square)
{
    for (int64_t i = 0; i < g->c; i += SG_LANES) {
        const sg_lanes from = *(const sg_lanes *)(guess + i);
        sg_lanes       one = {0}, two = {0};
#pragma GCC unroll 4
        for (int p = 0; p < places; p++) {
            FETCH(g->a->x.data, bf16, at + p * g->c + i, 0);
            const sg_lanes d = sg_lanes_in(g->a->x.data, bf16, at + p * g->c + i, g->c - i) - from;
            one += d;
            two += d * d;
        }
        *(sg_lanes *)(sum + i) += one;
        *(sg_lanes *)(square + i) += two;
    }
}

static void channel_sums(const group_norm *g, int64_t first, int64_t end, const float *guess, float *sum, float *square)
{
    enum { AT_ONCE = 4 }; /* fewer loads and stores of sums */
    const bool bf16 = g->a->x.dtype == SG_BF16;
    int64_t    p = first;
    for (; p + AT_ONCE <= end; p += AT_ONCE)
        if (bf16)
            add_places(g, true, AT_ONCE, p * g->c, guess, sum, square);
        else
            add_places(g, false, AT_ONCE, p * g->c, guess, sum, square);
    for (; p < end; p++) add_places(g, bf16, 1, p * g->c, guess, sum, square);
}

static double sum_of(const float *v, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)v[i];
    return sum;
}

/* As stats_layer has it: the mean is estimated, then corrected, and deviations are those from the estimate. */
static void block_moments(const group_norm *g, int64_t first, int64_t end, float *guess, moments *m, double before)
{
    float *const sum = guess + g->wide, *const square = sum + g->wide;
    const double n = (double)((end - first) * g->per);
    memset(guess, 0, (size_t)g->wide * 3 * sizeof *guess);
    channel_sums(g, first, end, guess, sum, square);
    for (int64_t k = 0; k < g->groups; k++) {
        const float mean = (float)(sum_of(sum + k * g->per, g->per) / n);
        for (int64_t i = k * g->per; i < (k + 1) * g->per; i++) guess[i] = mean;
    }
    memset(sum, 0, (size_t)g->wide * 2 * sizeof *sum);
    channel_sums(g, first, end, guess, sum, square);
    for (int64_t k = 0; k < g->groups; k++) {
        const int64_t i = k * g->per;
        const double  off = sum_of(sum + i, g->per) / n, all = sum_of(square + i, g->per) - off * off * n;
        moments_add(&m[k], before, &(moments){(double)guess[i] + off, all > 0 ? all : 0 * all}, n);
    }
}

/* The chunk whose first place is `first`: moments of each part. */
static void part_moments(const group_norm *g, int64_t first, int64_t part, float *work)
{
    const int64_t  from = part * g->part, end = sg_min64(from + g->part, g->places);
    moments *const m = g->moments + part * g->groups;
    memset(m, 0, (size_t)g->groups * sizeof *m);
    for (int64_t p = from; p < end; p += g->block)
        block_moments(g, first + p, first + sg_min64(p + g->block, end), work, m, (double)((p - from) * g->per));
}

/* Mean and factors of the chunk's channels from the moments of its parts. */
static void chunk_factors(const group_norm *g, int threads)
{
    const float *const w = g->a->w.data, *const b = g->a->b.data;
#pragma omp parallel for schedule(static) num_threads(threads) if (g->parts * g->groups > SG_TINY / 8)
    for (int64_t k = 0; k < g->groups; k++) {
        moments m = {0};
        for (int64_t i = 0; i < g->parts; i++) {
            const int64_t from = i * g->part, n = sg_min64(g->part, g->places - from);
            moments_add(&m, (double)(from * g->per), &g->moments[i * g->groups + k], (double)(n * g->per));
        }
        const double gain = 1.0 / sqrt(m.square / (double)(g->places * g->per) + (double)g->a->eps);
        for (int64_t i = k * g->per; i < (k + 1) * g->per; i++) {
            g->mean[i] = (float)m.mean;
            g->gain[i] = (float)(gain * (g->a->w.rank ? (double)w[i] : 1.0));
            g->shift[i] = g->a->b.rank ? b[i] : 0.0f;
        }
    }
}

/* n channels of a place's own factors, at element `at` of place_scale and place_shift. */
static void place_factors(const sg_norm_args *a, int64_t at, int64_t n, float *gain, float *shift)
{
    float        buffer[2][SG_RUN];
    const float *scale = a->place_scale.rank ? sg_read_f32(&a->place_scale, at, n, buffer[0]) : NULL;
    const float *more = a->place_shift.rank ? sg_read_f32(&a->place_shift, at, n, buffer[1]) : NULL;
    for (int64_t k = 0; scale && k < n; k++) {
        gain[k] *= scale[k];
        shift[k] *= scale[k];
    }
    for (int64_t k = 0; more && k < n; k++) shift[k] += more[k];
}

/* n numbers from element `at` on: y = act((x - mean) gain + shift). */
SG_INLINE void group_run(const sg_norm_args *a, sg_act act, bool x_bf16, bool y_bf16, int64_t at, int64_t n,
                         const float *mean, const float *gain, const float *shift)
{
    for (int64_t i = 0; i < n; i += SG_LANES) {
        FETCH(a->x.data, x_bf16, at + i, 0);
        FETCH(a->y.data, y_bf16, at + i, 1);
        sg_lanes v = sg_lanes_in(a->x.data, x_bf16, at + i, n - i) - *(const sg_lanes *)(mean + i);
        v = v * *(const sg_lanes *)(gain + i) + *(const sg_lanes *)(shift + i);
        if (act == SG_ACT_SILU)
            v = sg_lanes_unit(act, v, y_bf16);
        else if (act != SG_ACT_NONE)
            sg_act_run(act, (float *)&v, (float *)&v, SG_LANES);
        sg_lanes_put(a->y.data, y_bf16, at + i, v, n - i);
    }
}

static void group_run_any(const sg_norm_args *a, int64_t at, int64_t n, const float *mean, const float *gain,
                          const float *shift)
{
    const bool x = a->x.dtype == SG_BF16, y = a->y.dtype == SG_BF16;
    if (a->act == SG_ACT_SILU && x && y)
        group_run(a, SG_ACT_SILU, true, true, at, n, mean, gain, shift);
    else if (a->act == SG_ACT_SILU && !x && !y)
        group_run(a, SG_ACT_SILU, false, false, at, n, mean, gain, shift);
    else
        group_run(a, a->act, x, y, at, n, mean, gain, shift);
}

/* Row r of frame f, channels [i, i + n). Neighbouring columns that take one place of place_scale share the factors. */
static void group_row(const group_norm *g, int64_t f, int64_t r, int64_t i, int64_t n)
{
    const sg_norm_args *const a = g->a;
    const sg_tensor *const    place = a->place_scale.rank ? &a->place_scale : &a->place_shift;
    const int64_t *const d = a->x.dim, *const pd = place->dim;
    const int64_t of_row = place->rank ? (f * pd[1] + r * pd[1] / d[1]) * pd[2] : 0;
    float         own[2][SG_RUN];
    const float  *gain = g->gain + i, *shift = g->shift + i;
    int64_t       last = -1;
    for (int64_t s = 0; s < d[2]; s++) {
        const int64_t column = place->rank ? s * pd[2] / d[2] : 0;
        if (place->rank && column != last) {
            memcpy(own[0], g->gain + i, (size_t)n * sizeof *gain);
            memcpy(own[1], g->shift + i, (size_t)n * sizeof *shift);
            place_factors(a, (of_row + column) * g->c + i, n, own[0], own[1]);
            gain = own[0];
            shift = own[1];
            last = column;
        }
        group_run_any(a, ((f * d[1] + r) * d[2] + s) * g->c + i, n, g->mean + i, gain, shift);
    }
}

static sg_status norm_groups(sg_stream *s, const sg_norm_args *a)
{
    const int64_t *const d = a->x.dim, c = d[3], frames = a->chunk ? a->chunk : d[0];
    const int            threads = sg_cpu_of(s)->threads;
    group_norm g = {.a = a, .c = c, .groups = a->groups, .per = c / a->groups, .places = frames * d[1] * d[2]};
    g.wide = sg_div_up(c, SG_LANES) * SG_LANES;
    g.block = c < GROUP_BLOCK ? sg_min64(GROUP_BLOCK / c, GROUP_PLACES) : 1;
    g.part = sg_div_up(sg_div_up(g.places, g.block), GROUP_PARTS) * g.block;
    g.parts = sg_div_up(g.places, g.part);
    const size_t all =
        (size_t)(g.parts * g.groups) * sizeof(moments) + (size_t)(3 * g.wide * (threads + 1)) * sizeof(float);
    g.moments = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, all);
    if (!g.moments) return SG_E_MEMORY;
    g.mean = (float *)(g.moments + g.parts * g.groups);
    g.gain = g.mean + g.wide;
    g.shift = g.gain + g.wide;
    g.work = g.shift + g.wide;
    for (int64_t f = 0; f < d[0]; f += frames) {
#pragma omp parallel for schedule(static) num_threads(threads) if (g.places * c > SG_TINY)
        for (int64_t i = 0; i < g.parts; i++)
            part_moments(&g, f * d[1] * d[2], i, g.work + omp_get_thread_num() * 3 * g.wide);
        chunk_factors(&g, threads);
#pragma omp parallel for schedule(static) num_threads(threads) if (g.places * c > SG_TINY)
        for (int64_t r = f * d[1]; r < (f + frames) * d[1]; r++)
            for (int64_t i = 0; i < c; i += SG_RUN) group_row(&g, r / d[1], r % d[1], i, sg_min64(SG_RUN, c - i));
    }
    return SG_OK;
}

/* (norm w + b) (1 + scale) + shift = norm gain + offset, both made once for each row of scale and shift. */
static sg_status norm(sg_stream *s, const sg_norm_args *a)
{
    if (a->kind == SG_NORM_GROUP) return norm_groups(s, a);
    const int64_t c = a->x.dim[a->x.rank - 1], rows = sg_count(a->x) / c;
    const int64_t made = a->row.rank ? sg_count(a->scale.rank ? a->scale : a->shift) : c;
    float *const  gain = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, (size_t)made * 2 * sizeof(float));
    if (!gain) return SG_E_MEMORY;
    float *const       offset = gain + made;
    const float *const w = a->w.data, *const b = a->b.data, *const scale = a->scale.data, *const shift = a->shift.data;
    for (int64_t i = 0; i < made; i++) {
        const float by = 1.0f + (a->scale.rank ? scale[i] : 0.0f);
        gain[i] = (a->w.rank ? w[i % c] : 1.0f) * by;
        offset[i] = (a->b.rank ? b[i % c] : 0.0f) * by + (a->shift.rank ? shift[i] : 0.0f);
    }
    int32_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum) num_threads(sg_cpu_of(s)->threads) if (rows * c > SG_TINY)
    for (int64_t t = 0; t < rows; t++) {
        const int64_t from = sg_row_of(&a->row, t) * c;
        sum += !norm_row(a, t * c, c, gain + from, offset + from);
    }
    if (a->non_finite.rank) *(int32_t *)a->non_finite.data += sum;
    return SG_OK;
}

/* The pairs of x, normalised with w, rotated by the angles whose cosines and sines are c and e. */
SG_INLINE void rope_run(float *y, const float *x, bool normed, const float *w, float gain, const float *c,
                        const float *e, int64_t pairs)
{
#pragma omp simd
    for (int64_t k = 0; k < pairs; k++) {
        const float p = normed ? x[2 * k] * gain * w[2 * k] : x[2 * k];
        const float q = normed ? x[2 * k + 1] * gain * w[2 * k + 1] : x[2 * k + 1];
        y[2 * k] = p * c[k] - q * e[k];
        y[2 * k + 1] = p * e[k] + q * c[k];
    }
}

static void rope_row(const sg_rope_args *a, int64_t t)
{
    const int64_t      h = a->x.dim[1], d = a->x.dim[2], half = d / 2, width = a->w.rank ? a->w.dim[0] : d;
    const float *const w = sg_f32_at(&a->w, 0);
    const bool         by_head = a->cos.rank == 3;
    float              gain = 1;
    for (int64_t g = 0; g < h; g++) {
        const int64_t      angles = (by_head ? t * h + g : t) * half;
        const float *const c = (const float *)a->cos.data + angles, *const e = (const float *)a->sin.data + angles;
        if (w && g * d % width == 0) gain = rms_gain(&a->x, (t * h + g) * d, width, a->eps);
        for (int64_t i = 0; i < half; i += SG_RUN / 2) {
            float              buffer[2][SG_RUN];
            const int64_t      at = (t * h + g) * d + 2 * i, pairs = sg_min64(SG_RUN / 2, half - i);
            const float *const x = sg_read_f32(&a->x, at, 2 * pairs, buffer[0]);
            float *const       y = sg_write_f32(&a->y, at, buffer[1]);
            if (w)
                rope_run(y, x, true, w + g * d % width + 2 * i, gain, c + i, e + i, pairs);
            else
                rope_run(y, x, false, NULL, gain, c + i, e + i, pairs);
            sg_write_f32_done(&a->y, at, 2 * pairs, y);
        }
    }
}

static sg_status rope(sg_stream *s, const sg_rope_args *a)
{
    const int64_t n = a->x.dim[0];
    SG_BY_THREADS(sg_cpu_of(s), sg_count(a->x))
    for (int64_t t = 0; t < n; t++) rope_row(a, t);
    return SG_OK;
}

void SG_VEC_INIT(norm)(sg_ops *t)
{
    t->norm = norm;
    t->rope = rope;
}
