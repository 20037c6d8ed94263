/* vec_pool.c - pool and alike: what is known of blocks of rows. Both read x once, row by row as it lies, all heads of
 * a row together; what they come back to is still in the caches. */
#include "predict.h"

#include <omp.h>

enum {
    SG_STRIP = 8,
    SG_TOTAL = 256,
    SG_LINE = 64
}; /* vectors of channels that are summed side by side; channels of a task */

typedef struct pool_job {
    const sg_pool_args *a;
    int64_t             n, c; /* rows, channels of all heads */
    float              *mean, *var, *sub;
} pool_job;

/* A quotient, or where it is the same and costs less, a product. */
static inline sg_lanes mean_of(sg_lanes sum, int64_t rows)
{
    if (rows == SG_BLOCK_SUB) return sum * (1.0f / SG_BLOCK_SUB);
    return sum / (float)rows;
}

/* `rows` rows from `row` on, a sub-block, enter their block: mean and var hold the sums so far, and are divided at the
 * block's end. Sums of squares are taken about the sub-block's own mean, and joined by the distance of the means (Chan,
 * Golub and LeVeque 1983). */
SG_INLINE void pool_strip(const pool_job *p, int64_t row, int64_t rows, int64_t c, bool bf16, int wide, int64_t lanes)
{
    const int64_t     size = bf16 ? 2 : 4, block = row / p->a->block, before = row % p->a->block, all = before + rows;
    const char *const x = (const char *)p->a->x.data + (row * p->c + c) * size;
    const bool        last = all == p->a->block || row + rows == p->n;
    float *const      mean = p->mean + block * p->c + c;
    sg_lanes          sum[SG_STRIP] = {{0}}, square[SG_STRIP] = {{0}};
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < wide * SG_LANES * size; k += SG_LINE)
            __builtin_prefetch(x + (SG_BLOCK_SUB + r) * p->c * size + k, 0, 2);
#pragma GCC unroll 8
        for (int v = 0; v < wide; v++) sum[v] += sg_lanes_in(x, bf16, r * p->c + v * SG_LANES, lanes);
    }
    if (p->sub)
        for (int v = 0; v < wide; v++)
            sg_lanes_out(p->sub + row / SG_BLOCK_SUB * p->c + c + v * SG_LANES, mean_of(sum[v], rows), lanes);
    if (p->var) {
        float *const var = p->var + block * p->c + c;
        const float  before_by = before ? 1.0f / (float)before : 0.0f;
        const float  join = (float)before * (float)rows / (float)all;
        sg_lanes     own[SG_STRIP];
#pragma GCC unroll 8
        for (int v = 0; v < wide; v++) own[v] = mean_of(sum[v], rows);
        for (int64_t r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int v = 0; v < wide; v++) {
                const sg_lanes d = sg_lanes_in(x, bf16, r * p->c + v * SG_LANES, lanes) - own[v];
                square[v] += d * d;
            }
        for (int v = 0; v < wide; v++) {
            if (before) {
                const sg_lanes d = own[v] - sg_lanes_in(mean, false, v * SG_LANES, lanes) * before_by;
                square[v] += sg_lanes_in(var, false, v * SG_LANES, lanes) + d * d * join;
            }
            if (last) square[v] /= (float)all;
            sg_lanes_out(var + v * SG_LANES, square[v], lanes);
        }
    }
    for (int v = 0; v < wide; v++) {
        if (before) sum[v] += sg_lanes_in(mean, false, v * SG_LANES, lanes);
        if (last) sum[v] /= (float)all;
        sg_lanes_out(mean + v * SG_LANES, sum[v], lanes);
    }
}

SG_INLINE void pool_rows(const pool_job *p, int64_t row, int64_t rows, bool bf16)
{
    const int64_t wide = SG_STRIP * SG_LANES;
    int64_t       c = 0;
    for (; c + wide <= p->c; c += wide) pool_strip(p, row, rows, c, bf16, SG_STRIP, SG_LANES);
    for (; c < p->c; c += SG_LANES) pool_strip(p, row, rows, c, bf16, 1, p->c - c);
}

static void pool_block(const pool_job *p, int64_t block)
{
    const int64_t end = sg_min64(p->n, (block + 1) * p->a->block);
    for (int64_t row = block * p->a->block; row < end; row += SG_BLOCK_SUB) {
        const int64_t rows = sg_min64(SG_BLOCK_SUB, end - row);
        if (p->a->x.dtype == SG_BF16)
            pool_rows(p, row, rows, true);
        else
            pool_rows(p, row, rows, false);
    }
}

/* The mean of all rows from the means of the blocks, in their order whatever the number of threads. */
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

static sg_status pool(sg_stream *s, const sg_pool_args *a)
{
    const pool_job p = {.a = a,
                        .n = a->x.dim[0],
                        .c = a->x.dim[1] * a->x.dim[2],
                        .mean = a->mean.data,
                        .var = a->var.rank ? a->var.data : NULL,
                        .sub = a->sub.rank ? a->sub.data : NULL};
    const int64_t  blocks = a->mean.dim[0];
#pragma omp parallel num_threads(sg_cpu_of(s)->threads) if (p.n * p.c > SG_FEW)
    {
#pragma omp for schedule(static)
        for (int64_t b = 0; b < blocks; b++) pool_block(&p, b);
        if (a->total.rank) {
#pragma omp for schedule(static)
            for (int64_t c = 0; c < p.c; c += SG_TOTAL) pool_total(&p, c);
        }
    }
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
    if (rest) sg_lanes_out(acc + whole, sg_lanes_in(acc, false, whole, rest) + last * by, rest);
}

/* The rows of a block, each divided by its length, summed: acc [h d]. */
SG_INLINE void alike_rows(const sg_alike_args *a, int64_t row, int64_t rows, const float *center, float *acc, bool bf16)
{
    const int64_t h = a->x.dim[1], d = a->x.dim[2], size = bf16 ? 2 : 4, ahead = SG_BLOCK_SUB * h * d * size;
    for (int64_t r = row; r < row + rows; r++)
        for (int64_t g = 0; g < h; g++) {
            const char *const x = (const char *)a->x.data + (r * h + g) * d * size;
            for (int64_t k = 0; k < d * size; k += SG_LINE) __builtin_prefetch(x + ahead + k, 0, 2);
            add_unit(acc + g * d, x, bf16, center + g * d, d);
        }
}

static void alike_block(const sg_alike_args *a, int64_t block, const float *center, float *acc)
{
    const int64_t h = a->x.dim[1], d = a->x.dim[2], row = block * a->block,
                  rows = sg_min64(a->block, a->x.dim[0] - row);
    memset(acc, 0, (size_t)(h * d) * sizeof *acc);
    if (a->x.dtype == SG_BF16)
        alike_rows(a, row, rows, center, acc, true);
    else
        alike_rows(a, row, rows, center, acc, false);
    for (int64_t g = 0; g < h; g++) {
        sg_lanes square = {0};
        for (int64_t i = 0; i < d; i += SG_LANES) {
            const sg_lanes u = sg_lanes_in(acc, false, g * d + i, d - i);
            square += u * u;
        }
        ((float *)a->y.data)[block * h + g] = sg_lanes_sum(square) / ((float)rows * (float)rows);
    }
}

static sg_status alike(sg_stream *s, const sg_alike_args *a)
{
    const int     threads = sg_cpu_of(s)->threads;
    const int64_t c = a->x.dim[1] * a->x.dim[2], blocks = a->y.dim[0];
    float *const  room = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, (size_t)((threads + 1) * c) * sizeof *room);
    if (!room) return SG_E_MEMORY;
    memset(room, 0, (size_t)c * sizeof *room);
    const float *const center = a->center.rank ? a->center.data : room;
#pragma omp parallel for schedule(static) num_threads(threads) if (sg_count(a->x) > SG_FEW)
    for (int64_t b = 0; b < blocks; b++) alike_block(a, b, center, room + (omp_get_thread_num() + 1) * c);
    return SG_OK;
}

void SG_VEC_INIT(pool)(sg_ops *t)
{
    t->pool = pool;
    t->alike = alike;
}
