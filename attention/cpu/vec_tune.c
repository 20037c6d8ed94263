/* vec_tune.c - see tune_block.h. The logits of a block of keys and the 32 rows are a tile, [32, 64]. Matmuls take four
 * rows at a time, so that sums stay in registers. */
#include "vec.h"

#include "tune_block.h"

enum { TILE = SG_BLOCK_K, ROWS = SG_TUNE_ROWS, FOUR = 4, AT_ONCE = SG_LANES == 16 ? 4 : 2 };

typedef struct work {
    float  *logit;    /* [nk, ROWS, TILE] */
    float  *tile_max; /* [nk, ROWS] largest logit */
    float  *mean;     /* [ceil(nk / 64), ROWS, TILE] logits of means */
    float  *stage;    /* [SG_TUNE_AMOUNTS, ROWS, wide + 1] numerators and denominators */
    float  *tile;     /* [ROWS, TILE] weights */
    float  *sum;      /* [ROWS, wide + 1] */
    float  *other;    /* the same size */
    float  *exact;    /* [ROWS, wide] */
    float  *level;    /* [nk]: the first pv_threshold that skips the block; -1: not kept */
    float   row_max[ROWS];
    int64_t nk, wide;
} work;

static work work_over(const sg_tune_keys *k, float *at)
{
    work          w = {.nk = sg_div_up(k->m, TILE), .wide = sg_div_up(k->d, 64) * 64};
    const int64_t rows = ROWS * w.wide + ROWS;
    w.logit = at, at += w.nk * ROWS * TILE;
    w.mean = at, at += sg_div_up(w.nk, TILE) * ROWS * TILE;
    w.stage = at, at += SG_TUNE_AMOUNTS * rows;
    w.tile = at, at += ROWS * TILE;
    w.sum = at, at += rows;
    w.other = at, at += rows;
    w.exact = at, at += ROWS * w.wide;
    w.tile_max = at, at += w.nk * ROWS;
    w.level = at;
    return w;
}

/* y [ROWS, TILE] = q [ROWS, d] kt [d, TILE]. */
static void tile_logits(float *restrict y, const float *restrict q, const float *restrict kt, int64_t d)
{
    for (int r = 0; r < ROWS; r += FOUR)
        for (int t = 0; t < TILE; t += AT_ONCE * SG_LANES) {
            sg_lanes a[FOUR][AT_ONCE] = {{{0}}};
            for (int64_t c = 0; c < d; c++)
                for (int i = 0; i < FOUR; i++)
                    for (int l = 0; l < AT_ONCE; l++)
                        a[i][l] += q[(r + i) * d + c] * *(const sg_lanes *)(kt + c * TILE + t + l * SG_LANES);
            for (int i = 0; i < FOUR; i++)
                for (int l = 0; l < AT_ONCE; l++) *(sg_lanes *)(y + (r + i) * TILE + t + l * SG_LANES) = a[i][l];
        }
}

/* y [ROWS, wide] += p [ROWS, TILE] v [TILE, wide]. */
static void add_outer_product(float *restrict y, const float *restrict p, const float *restrict v, int64_t wide)
{
    for (int64_t c = 0; c < wide; c += AT_ONCE * SG_LANES)
        for (int r = 0; r < ROWS; r += FOUR) {
            sg_lanes a[FOUR][AT_ONCE];
            for (int i = 0; i < FOUR; i++)
                for (int l = 0; l < AT_ONCE; l++) a[i][l] = *(sg_lanes *)(y + (r + i) * wide + c + l * SG_LANES);
            for (int64_t t = 0; t < TILE; t++)
                for (int i = 0; i < FOUR; i++)
                    for (int l = 0; l < AT_ONCE; l++)
                        a[i][l] += p[(r + i) * TILE + t] * *(const sg_lanes *)(v + t * wide + c + l * SG_LANES);
            for (int i = 0; i < FOUR; i++)
                for (int l = 0; l < AT_ONCE; l++) *(sg_lanes *)(y + (r + i) * wide + c + l * SG_LANES) = a[i][l];
        }
}

static void all_logits(work *w, const sg_tune_keys *k, const sg_tune_rows *r)
{
    for (int i = 0; i < ROWS; i++) w->row_max[i] = -INFINITY;
    for (int64_t j = 0; j < w->nk; j++) {
        float *const  y = w->logit + j * ROWS * TILE;
        const int64_t keys = sg_min64(k->m - j * TILE, TILE);
        tile_logits(y, r->q, k->k + j * k->d * TILE, k->d);
        for (int i = 0; i < ROWS; i++) {
            for (int64_t t = keys; t < TILE; t++) y[i * TILE + t] = -INFINITY;
            sg_lanes tile_max = *(const sg_lanes *)(y + i * TILE);
            for (int t = SG_LANES; t < TILE; t += SG_LANES)
                tile_max = sg_lanes_max(tile_max, *(const sg_lanes *)(y + i * TILE + t));
            w->tile_max[j * ROWS + i] = sg_lanes_reduce_max(tile_max);
            w->row_max[i] = fmaxf(w->row_max[i], w->tile_max[j * ROWS + i]);
        }
    }
    for (int64_t j = 0; r->bias && j < w->nk; j += TILE)
        tile_logits(w->mean + j * ROWS, r->q, k->mean_k + j * k->d, k->d);
}

/* Adds block j to sum, whose denominators are behind its numerators. */
static void add_block(work *w, float *sum, const sg_tune_keys *k, int64_t j)
{
    const float *const x = w->logit + j * ROWS * TILE;
    for (int i = 0; i < ROWS; i++) {
        sg_lanes total = {0};
        for (int t = 0; t < TILE; t += SG_LANES) {
            const sg_lanes p = sg_lanes_exp(*(const sg_lanes *)(x + i * TILE + t) - w->row_max[i]);
            *(sg_lanes *)(w->tile + i * TILE + t) = p;
            total += p;
        }
        sum[ROWS * w->wide + i] += sg_lanes_sum(total);
    }
    add_outer_product(sum, w->tile, k->v + j * TILE * w->wide, w->wide);
}

/* The mean of block j in its stead. */
static void add_mean(const work *w, float *restrict sum, const sg_tune_keys *k, int64_t j, float bias)
{
    const float *const restrict x = w->mean + j / TILE * ROWS * TILE + j % TILE, *const restrict v =
                                                                                     k->mean_v + j * w->wide;
    for (int i = 0; i < ROWS; i++) {
        const float p = expf(x[i * TILE] + bias - w->row_max[i]);
        sum[ROWS * w->wide + i] += p;
        for (int64_t c = 0; c < w->wide; c++) sum[i * w->wide + c] += p * v[c];
    }
}

/* y = (a + b) / their denominators. */
static void divide(const work *w, float *restrict y, const float *restrict a, const float *restrict b)
{
    for (int i = 0; i < ROWS; i++) {
        const float over = 1.0f / (a[ROWS * w->wide + i] + b[ROWS * w->wide + i]);
        for (int64_t c = 0; c < w->wide; c++) y[i * w->wide + c] = (a[i * w->wide + c] + b[i * w->wide + c]) * over;
    }
}

/* Sum of |y - x|; of |y| where there is no x. */
static double distance(const work *w, const float *y, const float *x)
{
    double all = 0;
    for (int i = 0; i < ROWS; i++) {
        sg_lanes sum = {0};
        for (int64_t c = i * w->wide; c < (i + 1) * w->wide; c += SG_LANES) {
            sg_lanes e = *(const sg_lanes *)(y + c);
            if (x) e -= *(const sg_lanes *)(x + c);
            sum += sg_lanes_max(e, -e);
        }
        all += (double)sg_lanes_sum(sum);
    }
    return all;
}

/* The sums of each choice; the last one's is the exact output. */
static void run_along(work *w, const sg_tune_keys *k, const sg_tune_rows *r)
{
    const int64_t rows = ROWS * w->wide + ROWS;
    int32_t       at = 0;
    memset(w->sum, 0, (size_t)rows * sizeof *w->sum);
    memset(w->other, 0, (size_t)rows * sizeof *w->other);
    for (int a = 0; a < SG_TUNE_AMOUNTS; a++) {
        for (; at < r->count[a]; at++) add_block(w, w->sum, k, r->rank[at]);
        memcpy(w->stage + a * rows, w->sum, (size_t)rows * sizeof *w->sum);
    }
    divide(w, w->exact, w->sum, w->other);
}

/* The level of each kept block: the first pv_threshold that skips it. Blocks are visited as select lists them. */
static void find_levels(work *w, const sg_tune_rows *r)
{
    float   before[ROWS];
    int32_t kept = r->count[r->filter];
    bool    first = true;
    for (int64_t j = 0; j < w->nk; j++) w->level[j] = -1;
    for (int32_t i = 0; i < kept; i++) w->level[r->rank[i]] = SG_TUNE_PV_THRESHOLDS;
    for (int i = 0; i < ROWS; i++) before[i] = -INFINITY;
    for (int64_t at = -1; at < w->nk; at++) {
        const int64_t j = at < 0 ? r->rank[0] : at;
        if (at == r->rank[0] || w->level[j] < 0) continue;
        float gap = INFINITY; /* of the row to which the block matters most */
        for (int i = 0; i < ROWS; i++) {
            const float tile_max = w->tile_max[j * ROWS + i];
            gap = fminf(gap, before[i] - tile_max);
            before[i] = fmaxf(before[i], tile_max);
        }
        for (int l = SG_TUNE_PV_THRESHOLDS - 1; !first && l >= 0 && gap * SG_LOG2E > r->pv_threshold[l]; l--)
            w->level[j] = (float)l;
        first = false;
    }
}

/* sum is that of the choice with its means. From the largest pv_threshold down, the blocks that each skips are
 * subtracted. */
static void try_filter(sg_tune_loss *loss, work *w, const sg_tune_keys *k, const sg_tune_rows *r, float *sum)
{
    const int64_t rows = ROWS * w->wide + ROWS;
    float *const none = w->stage, *const y = w->stage + rows; /* the choices have been judged */
    double skipped = 0;
    find_levels(w, r);
    memset(none, 0, (size_t)rows * sizeof *none);
    for (int l = 0; l < SG_TUNE_PV_THRESHOLDS; l++) {
        memset(w->other, 0, (size_t)rows * sizeof *w->other);
        for (int64_t j = 0; j < w->nk; j++) {
            if (w->level[j] != (float)l) continue;
            add_block(w, w->other, k, j);
            skipped++;
        }
        for (int64_t i = 0; i < rows; i++) sum[i] -= w->other[i];
        divide(w, y, sum, none);
        loss->filtered[l] += distance(w, y, w->exact);
        loss->skipped[l] += skipped;
    }
    loss->filter_blocks += (double)r->count[r->filter];
    loss->filter_size += distance(w, w->exact, NULL);
}

void SG_VEC_NAME(tune)(sg_tune_loss *loss, const sg_tune_keys *k, const sg_tune_rows *r, float *at)
{
    work          w = work_over(k, at);
    const int64_t rows = ROWS * w.wide + ROWS;
    all_logits(&w, k, r);
    run_along(&w, k, r);
    loss->size += distance(&w, w.exact, NULL);
    for (int a = SG_TUNE_AMOUNTS - 2; a >= 0; a--) { /* means are added to other as choices get smaller */
        for (int32_t i = r->count[a]; r->bias && i < r->count[a + 1]; i++)
            add_mean(&w, w.other, k, r->rank[i], r->bias[r->rank[i]]);
        divide(&w, w.sum, w.stage + a * rows, w.other);
        const double error = distance(&w, w.sum, w.exact);
        loss->error[a] += error;
        if (a != r->filter) continue;
        loss->filter_error += error;
        for (int64_t i = 0; i < rows; i++) w.stage[a * rows + i] += w.other[i];
    }
    if (r->filter < 0) return;
    memcpy(w.sum, w.stage + r->filter * rows, (size_t)rows * sizeof *w.sum);
    try_filter(loss, &w, k, r, w.sum);
}
