/* vec_score.c - score and tail_bias: products of what is known of blocks of queries with what is known of blocks of
 * keys.
 *
 * Per head of keys, their vectors are packed into panels of SG_NR columns. Column s seg + j is sub-block s of block j,
 * seg the blocks rounded up to a vector, so that what belongs to a block is added vector by vector. A task is a strip
 * of SG_STRIP_ROWS rows of one head of queries: three blocks of eight sub-blocks, or 24 whole ones. Its products with
 * all columns stay in the second-level cache until they are a row of y for each block. */
#include "predict.h"
#include "vec_tile.h"

#include <omp.h>

/* A multiple of every level's SG_MR, and of the sub-blocks of a block; panels in scratch at a time stay below the bytes
 * where they can. */
enum { SG_STRIP_ROWS = 24, SG_PANEL_BYTES = 64 << 20 };

typedef struct score_job {
    const sg_score_args     *a; /* one of these */
    const sg_tail_bias_args *t;
    sg_fixed                 queries, keys;
    float                   *y, *panel, *limit, *weight, *nothing; /* limit [h][seg], weight [hk][nk], nothing [d] */
    int64_t                  h, hk, d, nq, nk, per, parts, seg, cols, pitch, lda, first;
} score_job;

/* 2^x for x <= 0 within 2 units in the last place, by the minimax polynomial of degree 5; 0 below -127, NaN for NaN.
 * `round` leaves the integer nearest to x, plus the exponent's bias, in the low bits. */
static inline sg_lanes two_to(sg_lanes x)
{
    const float    round = 12582912.0f + 127.0f; /* 1.5 2^23 + 127 */
    const sg_lanes none = {0}, z = sg_lanes_max(none - 127.0f, x), shifted = z + round, r = z - (shifted - round);
    sg_lanes       p = r * 1.3276416341e-3f + 9.6755289070e-3f;
    p = p * r + 5.5507133178e-2f;
    p = p * r + 2.4022119960e-1f;
    p = p * r + 6.9314696712e-1f;
    p = p * r + 1.0f;
    return p * (sg_lanes)((sg_lane_bits)shifted << 23);
}

/* Panel `at` of a head of keys, zeros in the columns that stand for nothing. */
static void pack_panel(const score_job *b, const sg_tensor *k, int64_t head, int64_t at)
{
    float *const panel = b->panel + ((head - b->first) * b->cols + at * SG_NR) * b->d;
    const float *from[SG_NR];
    for (int64_t i = 0; i < SG_NR; i++) {
        const int64_t col = at * SG_NR + i, part = col / b->seg, block = col % b->seg, row = block * b->parts + part;
        const bool    is = part < b->parts && block < b->nk && row < k->dim[0];
        from[i] = is ? (const float *)k->data + (row * b->hk + head) * b->d : b->nothing;
    }
    for (int64_t e = 0; e < b->d; e++)
        for (int64_t i = 0; i < SG_NR; i++) panel[e * SG_NR + i] = from[i][e];
}

/* The products of a strip's rows, b->lda apart, with all columns. */
static void strip_product(const score_job *b, int64_t head, const float *x, float *s)
{
    const float *const panel = b->panel + (head / (b->h / b->hk) - b->first) * b->cols * b->d;
    for (int64_t col = 0; col < b->cols; col += SG_NR)
        for (int64_t i = 0; i < SG_STRIP_ROWS; i += SG_MR) {
            const float *row[SG_MR];
            for (int64_t r = 0; r < SG_MR; r++) row[r] = x + (i + r) * b->lda;
            sg_tile(row, 1, b->d, panel + col * b->d, SG_NR, s + i * b->pitch + col, b->pitch, true);
        }
}

/* ---- score ---- */

/* A row's products become weights, 2^(product - largest), those of a block added up: the first b->seg numbers at s.
 * Returns 1 / (rows times the sum of all), 0 where none is scored. */
SG_INLINE float row_weights(const score_job *b, float *s, const float *limit, int64_t parts, int64_t rows)
{
    const sg_lanes none = {0};
    const int64_t  seg = b->seg;
    sg_lanes       top = none - INFINITY, sum = none;
    for (int64_t j = 0; j < seg; j += SG_LANES) {
        const sg_lanes bound = *(const sg_lanes *)(limit + j);
        for (int64_t part = 0; part < parts; part++)
            top = sg_lanes_max(sg_lanes_min(*(const sg_lanes *)(s + part * seg + j), bound), top);
    }
    const float most = sg_lanes_top(top), base = most == -INFINITY ? 0.0f : most;
    for (int64_t j = 0; j < seg; j += SG_LANES) {
        const sg_lanes bound = *(const sg_lanes *)(limit + j);
        sg_lanes       own = none;
        for (int64_t part = 0; part < parts; part++)
            own += two_to(sg_lanes_min(*(const sg_lanes *)(s + part * seg + j), bound) - base);
        *(sg_lanes *)(s + j) = own;
        sum += own;
    }
    const float all = sg_lanes_sum(sum);
    return all == 0.0f ? 0.0f : 1.0f / (all * (float)rows);
}

/* Block i of queries, whose products are the rows at s; limit is infinity, or minus it for what is not scored. */
static void score_block(const score_job *b, int64_t head, int64_t i, float *s, const float *limit)
{
    float *const       y = b->y + (head * b->nq + i) * b->nk;
    const float *const weight = b->weight + head / (b->h / b->hk) * b->nk;
    const int64_t      rows = sg_min64(b->per, b->a->q.dim[0] - i * b->per);
    float              by[SG_BLOCK_Q / SG_BLOCK_SUB];
    for (int64_t r = 0; r < rows; r++)
        by[r] = b->parts == 1 ? row_weights(b, s + r * b->pitch, limit, 1, rows)
                              : row_weights(b, s + r * b->pitch, limit, SG_BLOCK_K / SG_BLOCK_SUB, rows);
    for (int64_t j = 0; j < b->seg; j += SG_LANES) {
        sg_lanes sum = {0};
        for (int64_t r = 0; r < rows; r++) sum += *(const sg_lanes *)(s + r * b->pitch + j) * by[r];
        *(sg_lanes *)(s + j) = sum;
    }
    for (int64_t j = 0; j < b->nk; j++) y[j] = limit[j] > 0.0f && s[j] != 0.0f ? weight[j] * s[j] : 0.0f;
}

static void score_strip(const score_job *b, int64_t head, int64_t block, float *x, float *s, float *limit)
{
    const float   scale = b->a->scale * SG_LOG2E;
    const int64_t blocks = sg_min64(SG_STRIP_ROWS / b->per, b->nq - block);
    bool          any = false;
    for (int64_t i = block; i < block + blocks; i++) any |= !sg_is_fixed(&b->queries, head, i);
    if (any) {
        for (int64_t r = 0; r < SG_STRIP_ROWS; r++) {
            const int64_t      row = block * b->per + r;
            const float *const q =
                row < b->a->q.dim[0] ? (const float *)b->a->q.data + (row * b->h + head) * b->d : NULL;
            for (int64_t e = 0; e < b->d; e++) x[r * b->lda + e] = q ? q[e] * scale : 0.0f;
        }
        strip_product(b, head, x, s);
    }
    for (int64_t i = block; i < block + blocks; i++) {
        if (sg_is_fixed(&b->queries, head, i)) {
            memset(b->y + (head * b->nq + i) * b->nk, 0, (size_t)b->nk * sizeof *b->y);
            continue;
        }
        const int64_t seen = sg_in_sight(b->a->causal, i, b->nk);
        for (int64_t j = 0; j < b->seg; j++) limit[j] = j < seen ? b->limit[head * b->seg + j] : -INFINITY;
        score_block(b, head, i, s + (i - block) * b->per * b->pitch, limit);
    }
}

static void head_limits(const score_job *b, int64_t head)
{
    for (int64_t j = 0; j < b->seg; j++)
        b->limit[head * b->seg + j] = j < b->nk && !sg_is_fixed(&b->keys, head, j) ? INFINITY : -INFINITY;
}

static float mean_of(const float *x, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum / (float)n;
}

static void head_weights(const score_job *b, int64_t head)
{
    const sg_tensor *const k = &b->a->k_var, *const v = &b->a->v_var;
    for (int64_t j = 0; j < b->nk; j++) {
        const int64_t at = j * b->hk + head;
        b->weight[head * b->nk + j] = k->rank ? sqrtf(mean_of((const float *)k->data + at * b->d, b->d) *
                                                      mean_of((const float *)v->data + at * v->dim[2], v->dim[2]))
                                              : 1.0f;
    }
}

/* ---- tail_bias ---- */

static void tail_row(const score_job *b, int64_t head, int64_t i, float by, const float *c)
{
    float *const y = b->y + (head * b->nq + i) * b->nk;
    for (int64_t j = 0; j < b->nk; j++) {
        const float more = c[j] * by;
        y[j] = 4.15888308f + (more > 3.0f ? 3.0f : more); /* ln SG_BLOCK_K */
    }
}

static void tail_strip(const score_job *b, int64_t head, int64_t block, float *x, float *s)
{
    const float   scale = b->t->scale;
    const int64_t rows = sg_min64(SG_STRIP_ROWS, b->nq - block);
    const bool    rank1 = b->t->rule == SG_TAIL_RANK1;
    for (int64_t r = 0; r < SG_STRIP_ROWS; r++) {
        const int64_t      at = ((block + r) * b->h + head) * b->d;
        const float *const mean = r < rows ? (const float *)b->t->q_mean.data + at : NULL;
        const float *const var = r < rows ? (const float *)b->t->q_var.data + at : NULL;
        for (int64_t e = 0; e < b->d; e++) x[r * b->lda + e] = mean ? var[e] + mean[e] * mean[e] : 0.0f;
    }
    if (!rank1) strip_product(b, head, x, s);
    for (int64_t r = 0; r < rows; r++)
        if (rank1)
            tail_row(b, head, block + r, scale * scale / 2 * mean_of(x + r * b->lda, b->d) * (float)b->d,
                     b->weight + head / (b->h / b->hk) * b->nk);
        else
            tail_row(b, head, block + r, scale * scale / 4, s + r * b->pitch);
}

static void tail_means(const score_job *b, int64_t head)
{
    for (int64_t j = 0; j < b->nk; j++)
        b->weight[head * b->nk + j] = mean_of((const float *)b->t->k_var.data + (j * b->hk + head) * b->d, b->d);
}

/* ---- both ---- */

static int64_t room_floats(const score_job *b) { return SG_STRIP_ROWS * (b->lda + b->pitch) + b->seg; }

/* Heads of keys [b->first, b->first + heads) and the heads of queries that they serve. */
static void heads_run(const score_job *b, const sg_tensor *k, int64_t heads, int threads, float *room)
{
    const int64_t share = b->h / b->hk, panels = b->cols / SG_NR, blocks = SG_STRIP_ROWS / b->per;
    const int64_t strips = sg_div_up(b->nq, blocks), mine = room_floats(b);
#pragma omp parallel num_threads(threads) if (heads * share * b->nq * b->nk * b->d * b->parts > SG_FEW)
    {
        float *const x = room + omp_get_thread_num() * mine, *const s = x + SG_STRIP_ROWS * b->lda,
                     *const limit = s + SG_STRIP_ROWS * b->pitch;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < heads * panels; i++) pack_panel(b, k, b->first + i / panels, i % panels);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < heads * share * strips; i++) {
            const int64_t head = b->first * share + i / strips, block = i % strips * blocks;
            if (b->a)
                score_strip(b, head, block, x, s, limit);
            else
                tail_strip(b, head, block, x, s);
        }
    }
}

static sg_status score_run(sg_cpu *cpu, score_job *b, const sg_tensor *k)
{
    b->seg = sg_div_up(b->nk, SG_LANES) * SG_LANES;
    b->cols = sg_div_up(b->parts * b->seg, SG_NR) * SG_NR;
    b->pitch = b->cols + 16; /* rows apart by no power of two fall into different sets of the cache */
    b->lda = b->d + 16;
    const int64_t head_size = b->cols * b->d, fit = SG_PANEL_BYTES / (head_size * (int64_t)sizeof(float) + 1);
    const int64_t group = fit < 1 ? 1 : sg_min64(fit, b->hk), rooms = cpu->threads * room_floats(b);
    const int64_t all = rooms + group * head_size + b->h * b->seg + b->hk * b->nk + b->d;
    float *const  room = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)all * sizeof *room);
    if (!room) return SG_E_MEMORY;
    b->panel = room + rooms;
    b->limit = b->panel + group * head_size;
    b->weight = b->limit + b->h * b->seg;
    b->nothing = b->weight + b->hk * b->nk;
    memset(b->nothing, 0, (size_t)b->d * sizeof *b->nothing);
    for (int64_t g = 0; g < b->h && b->a; g++) head_limits(b, g);
    for (int64_t g = 0; g < b->hk; g++)
        if (b->a)
            head_weights(b, g);
        else
            tail_means(b, g);
    for (b->first = 0; b->first < b->hk; b->first += group)
        heads_run(b, k, sg_min64(group, b->hk - b->first), cpu->threads, room);
    return SG_OK;
}

static sg_status score(sg_stream *s, const sg_score_args *a)
{
    score_job b = {.a = a,
                   .y = a->y.data,
                   .h = a->q.dim[1],
                   .hk = a->k.dim[1],
                   .d = a->q.dim[2],
                   .nq = a->y.dim[1],
                   .nk = a->y.dim[2],
                   .per = a->sub ? SG_BLOCK_Q / SG_BLOCK_SUB : 1,
                   .parts = a->sub ? SG_BLOCK_K / SG_BLOCK_SUB : 1};
    b.queries = sg_fixed_of(SG_BLOCK_Q, a->n, a->front, a->back, &a->q_alike, &a->theta, b.h);
    b.queries.ragged = a->ragged;
    b.keys = sg_fixed_of(SG_BLOCK_K, a->m, a->front, a->back, &a->k_alike, &a->theta, b.h);
    return score_run(sg_cpu_of(s), &b, &a->k);
}

static sg_status tail_bias(sg_stream *s, const sg_tail_bias_args *a)
{
    score_job b = {.t = a,
                   .y = a->y.data,
                   .h = a->q_mean.dim[1],
                   .hk = a->k_var.dim[1],
                   .d = a->q_mean.dim[2],
                   .nq = a->y.dim[1],
                   .nk = a->y.dim[2],
                   .per = 1,
                   .parts = 1};
    return score_run(sg_cpu_of(s), &b, &a->k_var);
}

void SG_VEC_INIT(score)(sg_ops *t)
{
    t->score = score;
    t->tail_bias = tail_bias;
}
