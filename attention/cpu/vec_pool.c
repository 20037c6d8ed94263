/* vec_pool.c - pool and self_similarity: statistics of blocks of rows. Both read x from memory once, all heads of some
 * rows together; a second read hits registers or the caches. */
#include "predict.h"

#include <omp.h>

/* Independent sums of rows; channels of a task. */
enum { SG_SUMS = 4, SG_TOTAL = 256, SG_LINE = 64 };

typedef struct pool_job {
    const sg_pool_args *a;
    sg_quantise_args    rows; /* x to y and scale */
    int64_t             n, c; /* rows, channels of all heads */
    float              *mean, *var, *sub;
    float              *range; /* [threads][2][c], least and largest; NULL without channel_scale */
} pool_job;

/* A sub-block to be added to its block. */
typedef struct pool_step {
    int64_t row, rows, before, all; /* rows of the block without it, and with it */
    float   before_by, join;
    bool    last;
    float  *low, *high; /* [c], or NULL */
} pool_step;

/* sum / rows, as a multiplication where that is exact. */
static inline sg_lanes mean_of(sg_lanes sum, int64_t rows)
{
    return rows & (rows - 1) ? sum / (float)rows : sum * (1.0f / (float)rows);
}

/* Adds one vector of channels of a sub-block to its block. mean and var hold sums, which are divided at the block's
 * end. The rows stay in registers, so x is read from the L2 cache once, and lines are prefetched into it at the same
 * rate. Sums of squares are about the sub-block's own mean and are merged by the distance of the means (Chan, Golub and
 * LeVeque 1983). */
SG_INLINE void pool_lanes(const pool_job *p, const pool_step *s, int64_t rows, int64_t c, bool bf16, int64_t lanes)
{
    const int64_t     size = bf16 ? 2 : 4, block = s->row / p->a->block;
    const char *const x = (const char *)p->a->x.data + (s->row * p->c + c) * size;
    float *const      mean = p->mean + block * p->c + c;
    sg_lanes          own[SG_BLOCK_SUB] = {{0}}, sum[SG_SUMS] = {{0}};
#pragma GCC unroll 16
    for (int64_t r = 0; r < rows; r++) {
        own[r] = sg_lanes_in(x, bf16, r * p->c, lanes);
        if (c * size % SG_LINE == 0) __builtin_prefetch(x + (SG_BLOCK_SUB + r) * p->c * size, 0, 2);
        sum[r % SG_SUMS] += own[r];
    }
    sg_lanes       all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    const sg_lanes middle = mean_of(all, rows);
    if (p->sub) sg_lanes_put(p->sub + s->row / SG_BLOCK_SUB * p->c + c, false, 0, middle, lanes);
    if (p->var) {
        float *const var = p->var + block * p->c + c;
        sg_lanes     square[SG_SUMS] = {{0}};
#pragma GCC unroll 16
        for (int64_t r = 0; r < rows; r++) square[r % SG_SUMS] += (own[r] - middle) * (own[r] - middle);
        sg_lanes squares = (square[0] + square[1]) + (square[2] + square[3]);
        if (s->before) {
            const sg_lanes d = middle - sg_lanes_in(mean, false, 0, lanes) * s->before_by;
            squares += sg_lanes_in(var, false, 0, lanes) + d * d * s->join;
        }
        sg_lanes_put(var, false, 0, s->last ? mean_of(squares, s->all) : squares, lanes);
    }
    if (s->before) all += sg_lanes_in(mean, false, 0, lanes);
    sg_lanes_put(mean, false, 0, s->last ? mean_of(all, s->all) : all, lanes);
    if (!s->low) return;
    sg_lanes low = sg_lanes_in(s->low, false, c, lanes), high = sg_lanes_in(s->high, false, c, lanes);
#pragma GCC unroll 16
    for (int64_t r = 0; r < rows; r++) {
        low = sg_lanes_min(own[r], low);
        high = sg_lanes_max(own[r], high);
    }
    sg_lanes_put(s->low + c, false, 0, low, lanes);
    sg_lanes_put(s->high + c, false, 0, high, lanes);
}

SG_INLINE void pool_rows(const pool_job *p, const pool_step *s, int64_t rows, bool bf16)
{
    int64_t c = 0;
    for (; c + SG_LANES <= p->c; c += SG_LANES) pool_lanes(p, s, rows, c, bf16, SG_LANES);
    if (c < p->c) pool_lanes(p, s, rows, c, bf16, p->c - c);
}

static void pool_block(const pool_job *p, int64_t block, float *range)
{
    const int64_t from = block * p->a->block, end = sg_min64(p->n, from + p->a->block), group = p->a->group;
    for (int64_t row = from; row < end; row += SG_BLOCK_SUB) {
        pool_step s = {.row = row, .rows = sg_min64(SG_BLOCK_SUB, end - row), .before = row - from};
        s.all = s.before + s.rows;
        s.before_by = s.before ? 1.0f / (float)s.before : 0.0f;
        s.join = (float)s.before * (float)s.rows / (float)s.all;
        s.last = row + s.rows == end;
        s.low = range;
        s.high = range ? range + p->c : NULL;
        const bool bf16 = p->a->x.dtype == SG_BF16, full = s.rows == SG_BLOCK_SUB;
        if (full && bf16)
            pool_rows(p, &s, SG_BLOCK_SUB, true);
        else if (full)
            pool_rows(p, &s, SG_BLOCK_SUB, false);
        else
            pool_rows(p, &s, s.rows, bf16);
        if (group && (s.last || s.all % group == 0)) SG_VEC_NAME(quantise_rows)(&p->rows, row / group * group);
    }
}

/* The mean of all rows, from the means of the blocks, in an order that does not depend on the number of threads. */
static void pool_total(const pool_job *p, int64_t c)
{
    const int64_t count = sg_min64(SG_TOTAL, p->c - c), block = p->a->block;
    double        sum[SG_TOTAL] = {0};
    for (int64_t row = 0; row < p->n; row += block) {
        const double       rows = (double)sg_min64(block, p->n - row);
        const float *const mean = p->mean + row / block * p->c + c;
        for (int64_t i = 0; i < count; i++) sum[i] += rows * (double)mean[i];
    }
    for (int64_t i = 0; i < count; i++) ((float *)p->a->total.data)[c + i] = (float)(sum[i] / (double)p->n);
}

/* The scale of a channel, from its smallest and largest value: rounding is monotonic, so one of them is farthest from
 * the center. If a value is not finite, the center is not finite either. */
static void pool_channel_scale(const pool_job *p, int64_t c, int threads)
{
    const float center = ((const float *)p->a->total.data)[c];
    float       low = INFINITY, high = -INFINITY;
    for (int t = 0; t < threads; t++) {
        const float *const own = p->range + 2 * t * p->c + c;
        low = own[0] < low ? own[0] : low;
        high = own[p->c] > high ? own[p->c] : high;
    }
    const int32_t below = (int32_t)(sg_bits(low - center) & 0x7fffffff);
    const int32_t above = (int32_t)(sg_bits(high - center) & 0x7fffffff);
    ((float *)p->a->channel_scale.data)[c] = sg_scale_of(below > above ? below : above);
}

/* The mean of one row in SG_CENTER_STEP of some channels. */
static void pool_center(const pool_job *p, int64_t c)
{
    const int64_t count = sg_min64(SG_TOTAL, p->c - c), rows = sg_div_up(p->n, SG_CENTER_STEP);
    double        sum[SG_TOTAL] = {0};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i++) sum[i] += (double)sg_load(&p->a->x, r * SG_CENTER_STEP * p->c + c + i);
    for (int64_t i = 0; i < count; i++) ((float *)p->a->center.data)[c + i] = (float)(sum[i] / (double)rows);
}

static void pool_run(const pool_job *p, int threads)
{
    const sg_pool_args *const a = p->a;
#pragma omp parallel num_threads(threads) if (p->n * p->c > SG_TINY)
    {
        if (a->center.rank) {
#pragma omp for schedule(static)
            for (int64_t c = 0; c < p->c; c += SG_TOTAL) pool_center(p, c);
        }
#pragma omp for schedule(static)
        for (int64_t b = 0; b < a->mean.dim[0]; b++)
            pool_block(p, b, p->range ? p->range + 2 * omp_get_thread_num() * p->c : NULL);
        if (a->y.rank) _mm_sfence();
        if (a->total.rank) {
#pragma omp for schedule(static)
            for (int64_t c = 0; c < p->c; c += SG_TOTAL) pool_total(p, c);
        }
    }
}

static sg_status pool(sg_stream *s, const sg_pool_args *a)
{
    const int     threads = sg_cpu_of(s)->threads;
    const int64_t c = a->x.dim[1] * a->x.dim[2], ranges = a->channel_scale.rank ? 2 * threads * c : 0;
    float *const  range = ranges ? sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, (size_t)ranges * sizeof *range) : NULL;
    if (ranges && !range) return SG_E_MEMORY;
    for (int64_t i = 0; i < ranges; i++) range[i] = i / c % 2 ? -INFINITY : INFINITY;
    const pool_job p = {.a = a,
                        .rows = {.y = a->y, .scale = a->scale, .x = a->x, .center = a->center, .group = a->group},
                        .n = a->x.dim[0],
                        .c = c,
                        .mean = a->mean.data,
                        .var = a->var.rank ? a->var.data : NULL,
                        .sub = a->sub.rank ? a->sub.data : NULL,
                        .range = range};
    pool_run(&p, threads);
    for (int64_t i = 0; range && i < c; i++) pool_channel_scale(&p, i, threads);
    return SG_OK;
}

/* acc += u / |u|, u = x - center: d numbers each. */
SG_INLINE void add_unit(float *acc, const char *x, bool bf16, const float *center, int64_t d)
{
    const int64_t whole = d / SG_LANES * SG_LANES, rest = d - whole;
    sg_lanes      square = {0}, last = {0};
    for (int64_t i = 0; i < whole; i += SG_LANES) {
        const sg_lanes u = sg_lanes_in(x, bf16, i, SG_LANES) - *(const sg_lanes *)(center + i);
        square += u * u;
    }
    if (rest) last = sg_lanes_in(x, bf16, whole, rest) - sg_lanes_in(center, false, whole, rest);
    const float by = 1.0f / sqrtf(sg_lanes_sum(square + last * last));
    for (int64_t i = 0; i < whole; i += SG_LANES)
        *(sg_lanes *)(acc + i) += (sg_lanes_in(x, bf16, i, SG_LANES) - *(const sg_lanes *)(center + i)) * by;
    if (rest) sg_lanes_put(acc + whole, false, 0, sg_lanes_in(acc, false, whole, rest) + last * by, rest);
}

/* acc [h d] = the sum of a block's rows, each divided by its length. */
SG_INLINE void self_similarity_rows(const sg_self_similarity_args *a, int64_t row, int64_t rows, const float *center,
                                    float *acc, bool bf16)
{
    const int64_t h = a->x.dim[1], d = a->x.dim[2], size = bf16 ? 2 : 4, ahead = SG_BLOCK_SUB * h * d * size;
    for (int64_t r = row; r < row + rows; r++)
        for (int64_t g = 0; g < h; g++) {
            const char *const x = (const char *)a->x.data + (r * h + g) * d * size;
            for (int64_t k = 0; k < d * size; k += SG_LINE) __builtin_prefetch(x + ahead + k, 0, 2);
            add_unit(acc + g * d, x, bf16, center + g * d, d);
        }
}

static void self_similarity_block(const sg_self_similarity_args *a, int64_t block, const float *center, float *acc)
{
    const int64_t h = a->x.dim[1], d = a->x.dim[2], row = block * a->block,
                  rows = sg_min64(a->block, a->x.dim[0] - row);
    memset(acc, 0, (size_t)(h * d) * sizeof *acc);
    if (a->x.dtype == SG_BF16)
        self_similarity_rows(a, row, rows, center, acc, true);
    else
        self_similarity_rows(a, row, rows, center, acc, false);
    for (int64_t g = 0; g < h; g++) {
        sg_lanes square = {0};
        for (int64_t i = 0; i < d; i += SG_LANES) {
            const sg_lanes u = sg_lanes_in(acc, false, g * d + i, d - i);
            square += u * u;
        }
        ((float *)a->y.data)[block * h + g] = sg_lanes_sum(square) / ((float)rows * (float)rows);
    }
}

static sg_status self_similarity(sg_stream *s, const sg_self_similarity_args *a)
{
    const int     threads = sg_cpu_of(s)->threads;
    const int64_t c = a->x.dim[1] * a->x.dim[2], blocks = a->y.dim[0];
    float *const  scratch = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, (size_t)((threads + 1) * c) * sizeof *scratch);
    if (!scratch) return SG_E_MEMORY;
    memset(scratch, 0, (size_t)c * sizeof *scratch);
    const float *const center = a->center.rank ? a->center.data : scratch;
#pragma omp parallel for schedule(static) num_threads(threads) if (sg_count(a->x) > SG_TINY)
    for (int64_t b = 0; b < blocks; b++) self_similarity_block(a, b, center, scratch + (omp_get_thread_num() + 1) * c);
    return SG_OK;
}

void SG_VEC_INIT(pool)(sg_ops *t)
{
    t->pool = pool;
    t->self_similarity = self_similarity;
}
