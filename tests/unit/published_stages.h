/* published_stages.h - prediction and selection of SpargeAttn as published, rounded where it rounds when q and k are
 * BF16, so that by block means they keep the blocks that it keeps (thu-ml/SpargeAttn at bfd980b,
 * get_block_map_meansim_fuse_quant; on a GPU, for 128 x 64 blocks). What is not rounded there is in double, as the
 * order of its sums in F32 is not known. */
#ifndef SG_PUBLISHED_STAGES_H
#define SG_PUBLISHED_STAGES_H

#include "op.h"

#include <math.h>
#include <stdlib.h>

static inline double  as_bf16(double v) { return (double)sg_bf16_to_f32(sg_f32_to_bf16((float)v)); }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline double  as_f16(double v) { return (double)sg_f16_to_f32(sg_f32_to_f16((float)v)); }

/* Means of blocks of x [n, h, d] less center [h, d]?, into y [blocks, h, d]. */
static void published_means(sg_tensor y, sg_tensor x, sg_tensor center, int64_t block)
{
    const int64_t n = x.dim[0], c = x.dim[1] * x.dim[2];
    for (int64_t i = 0; i < sg_count(y); i++) {
        const int64_t from = i / c * block, to = least(from + block, n);
        const double  middle = center.rank ? (double)sg_load(&center, i % c) : 0;
        double        sum = 0;
        for (int64_t r = from; r < to; r++) sum += as_bf16((double)sg_load(&x, r * c + i % c) - middle);
        sg_store(&y, i, (float)as_bf16(sum / (double)(to - from)));
    }
}

/* y [blocks, h]: the mean of all products of two rows of a block, each of length 1. */
static void published_self_similarity(sg_tensor y, sg_tensor x, sg_tensor center, int64_t block)
{
    const int64_t n = x.dim[0], h = x.dim[1], d = x.dim[2];
    double *const row = malloc((size_t)(2 * d) * sizeof *row), *const sum = row + d;
    for (int64_t i = 0; i < sg_count(y); i++) {
        const int64_t from = i / h * block, to = least(from + block, n), g = i % h;
        double        all = 0;
        memset(sum, 0, (size_t)d * sizeof *sum);
        for (int64_t r = from; r < to; r++) {
            double square = 0;
            for (int64_t e = 0; e < d; e++) {
                const double middle = center.rank ? (double)sg_load(&center, g * d + e) : 0;
                row[e] = as_bf16((double)sg_load(&x, (r * h + g) * d + e) - middle);
                square += row[e] * row[e];
            }
            for (int64_t e = 0; e < d; e++) sum[e] += as_f16(row[e] / sqrt(square));
        }
        for (int64_t e = 0; e < d; e++) all += sum[e] * sum[e];
        sg_store(&y, i, (float)(all / ((double)(to - from) * (double)(to - from))));
    }
    free(row);
}

/* One row of shares, of the blocks that count; the others have 0. q [d], k [nk, h, d] from the head on. */
static void published_shares(float *share, const sg_tensor *q, int64_t q_at, const sg_tensor *k, int64_t k_at,
                             const bool *counts)
{
    const int64_t nk = k->dim[0], h = k->dim[1], d = k->dim[2];
    double *const p = malloc((size_t)nk * sizeof *p), scale = (double)(float)(1 / sqrt((double)d));
    double        max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < nk; j++) {
        double dot = 0;
        for (int64_t e = 0; e < d; e++) dot += (double)sg_load(q, q_at + e) * (double)sg_load(k, k_at + j * h * d + e);
        p[j] = as_bf16(scale * as_bf16(dot));
        if (counts[j]) max = fmax(max, p[j]);
    }
    for (int64_t j = 0; j < nk; j++) sum += p[j] = counts[j] ? exp(p[j] - max) : 0;
    for (int64_t j = 0; j < nk; j++) share[j] = counts[j] ? (float)as_bf16(p[j] / sum) : 0;
    free(p);
}

static int log2_up(int64_t n)
{
    int bits = 0;
    while ((int64_t)1 << bits < n) bits++;
    return bits;
}

/* Replaces the scores of one of `rows` rows by their running sums, in the order of torch's scan on a GPU: stretches of
 * 32 to 1024, each started with the sum before it, and Sklansky's tree inside a stretch. */
static void published_sums(float *p, int64_t nk, int64_t rows)
{
    const int     wanted = (9 + log2_up(nk) - log2_up(rows)) / 2, bits = wanted < 4 ? 4 : wanted > 9 ? 9 : wanted;
    const int64_t stretch = (int64_t)2 << bits;
    for (int64_t from = 0; from < nk; from += stretch) {
        float *const  own = p + from;
        const int64_t count = least(stretch, nk - from);
        if (from) own[0] = (float)as_bf16((double)own[0] + (double)own[-1]);
        for (int64_t step = 1; step < count; step *= 2)
            for (int64_t i = step; i < count; i++)
                if (i & step) own[i] = (float)as_bf16((double)own[i] + (double)own[(i & -step) - 1]);
    }
}

static int falling(const void *x, const void *y)
{
    const float a = *(const float *)x, b = *(const float *)y;
    return (a < b) - (a > b);
}

/* How many of a row's shares, the largest first, stay within `amount`, or are the share of all that TOPK takes. */
static int64_t published_taken(const float *share, int64_t nk, int64_t rows, sg_select_rule rule, float amount)
{
    int64_t      count = 0;
    float *const p = malloc((size_t)nk * sizeof *p);
    memcpy(p, share, (size_t)nk * sizeof *p);
    qsort(p, (size_t)nk, sizeof *p, falling);
    published_sums(p, nk, rows);
    if (rule == SG_SELECT_TOPK) count = (int64_t)floorf(amount * (float)nk);
    while (rule == SG_SELECT_MASS && count < nk && !(p[count] > amount)) count++;
    free(p);
    return count ? count : 1;
}

/* Does block j rank among the first `count` of a row? Of equal ones the first comes first. */
static bool published_takes(const float *share, int64_t nk, int64_t j, int64_t count)
{
    int64_t before = 0;
    for (int64_t i = 0; i < nk; i++) before += share[i] > share[j] || (share[i] == share[j] && i < j);
    return before < count;
}

#endif
