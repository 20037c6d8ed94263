/* vec_attend.c - dense attention, blocked, with an online softmax in F32.
 *
 * Per head of keys, keys and values are widened and packed into panels of SG_NR columns: k as [m / SG_NR][d][SG_NR], v as
 * [d / SG_NR][m][SG_NR], both padded with zeros. A task is some queries of one head. It loops over the keys that they see
 * in blocks of SG_KC. Between blocks a row keeps its largest score so far, the sum of its weights, lane by lane, and its
 * unscaled output. A hidden key's weight is 0, so its value has to be finite. */
#include "vec_tile.h"

#include <omp.h>

/* Queries of a task: in steps of SG_BQ_STEP, a multiple of every level's SG_MR, up to SG_BQ_MAX. More queries reuse a
 * block of keys and values in the L2 cache more often; fewer give every thread a task. */
enum { SG_BQ_STEP = 48, SG_BQ_MAX = 8 * SG_BQ_STEP, SG_TASKS = 8 /* wanted for each thread */ };

/* Bytes that the panels of a group of heads stay below, so that scratch does not grow with the number of heads. */
enum { SG_GROUP_BYTES = 64 << 20 };

typedef struct attend_job {
    const sg_attend_args *a;
    int64_t               n, m, h, hk, d, wide; /* wide: d rounded up to whole panels */
    int64_t               bq, planes, plane;    /* queries of a task; planes of SG_KC columns that hold d, their size */
    float                *k, *v;       /* of the heads of a group; one head is m_up * d and m_up * wide numbers */
    int64_t               m_up, first; /* m rounded up to whole panels; first head of keys of the group */
} attend_job;

/* The workspace of a task, in its thread's scratch. q and o are planes of SG_KC columns, bq rows SG_LDA apart; score is
 * SG_MR such rows. */
typedef struct attend_workspace {
    float    *q, *o, *score, *row_max;
    sg_lanes *sum;
} attend_workspace;

/* Sets r to the workspace at p. Returns its bytes; p NULL: returns them only. */
static int64_t workspace_at(const attend_job *b, attend_workspace *r, char *p)
{
    int64_t used = 0;
    SG_PART(r->q, b->planes * b->plane, p, used);
    SG_PART(r->o, b->planes * b->plane, p, used);
    SG_PART(r->score, SG_MR * SG_LDA, p, used);
    SG_PART(r->row_max, b->bq, p, used);
    SG_PART(r->sum, b->bq, p, used);
    return used;
}

/* Packs panel j of k and rows [SG_NR j, SG_NR j + SG_NR) of v of one head of keys. */
static void pack_keys(const attend_job *b, int64_t head, int64_t j)
{
    float *const k = b->k + ((head - b->first) * b->m_up + j * SG_NR) * b->d;
    float *const v = b->v + (head - b->first) * b->m_up * b->wide;
    for (int64_t key = j * SG_NR; key < (j + 1) * SG_NR; key++)
        for (int64_t e = 0; e < b->wide; e += SG_NR) {
            float              scratch[SG_NR];
            const int64_t      n = sg_min64(SG_NR, b->d - e), at = (key * b->hk + head) * b->d + e;
            const float *const x = key < b->m ? sg_read_f32(&b->a->k, at, n, scratch) : NULL;
            for (int64_t i = 0; i < n; i++) k[(e + i) * SG_NR + key % SG_NR] = x ? x[i] : 0.0f;
            const float *const y = key < b->m ? sg_read_f32(&b->a->v, at, n, scratch) : NULL;
            for (int64_t i = 0; i < SG_NR; i++) v[e * b->m_up + key * SG_NR + i] = y && i < n ? y[i] : 0.0f;
        }
}

/* Returns how many of `count` keys from `key` on the query of row `row` sees. */
static int64_t seen_by(const attend_job *b, int64_t row, int64_t key, int64_t count)
{
    const int64_t seen = row + b->m - b->n + 1 - key;
    return b->a->causal && seen < count ? (seen < 0 ? 0 : seen) : count;
}

/* Scales a row of scores, adds biases, and pads it with -INFINITY. Returns the largest of its scores and row_max. */
static float find_row_max(float *score, int64_t count, int64_t padded, float scale, const float *bias,
                          const float *key_bias, float row_max)
{
    if (bias && key_bias) {
#pragma omp simd
        for (int64_t j = 0; j < count; j++) score[j] = score[j] * scale + (bias[j] + key_bias[j]);
    } else if (bias || key_bias) {
        const float *const add = bias ? bias : key_bias;
#pragma omp simd
        for (int64_t j = 0; j < count; j++) score[j] = score[j] * scale + add[j];
    } else {
#pragma omp simd
        for (int64_t j = 0; j < count; j++) score[j] *= scale;
    }
    for (int64_t j = count; j < padded; j++) score[j] = -INFINITY;
    sg_lanes max = sg_splat(row_max);
    for (int64_t j = 0; j < padded; j += SG_LANES) max = sg_lanes_max(*(const sg_lanes *)(score + j), max);
    return sg_lanes_reduce_max(max);
}

/* Turns scores of rows [i, i + rows) of a task, the first of which is query `row`, into weights, and rescales the sums of
 * these rows. Rows without a key so far keep row_max -INFINITY and weights 0. bias is that of row i. The maxima have a
 * pass of their own, so that those of several rows are found in parallel. */
static void softmax_rows(const attend_job *b, const attend_workspace *w, int64_t row, int64_t i, int64_t rows,
                         int64_t key, int64_t count, const float *bias)
{
    const int64_t      padded = sg_div_up(count, SG_NR) * SG_NR;
    const float *const key_bias = sg_f32_at(&b->a->key_bias, key);
    float              base[SG_MR];
    for (int64_t r = 0; r < rows; r++) {
        const float was = w->row_max[i + r];
        const float row_max = find_row_max(w->score + r * SG_LDA, seen_by(b, row + r, key, count), padded, b->a->scale,
                                           bias ? bias + r * b->m : NULL, key_bias, was);
        base[r] = row_max == -INFINITY ? 0.0f : row_max;
        if (row_max == was) continue;
        w->row_max[i + r] = row_max;
        if (was == -INFINITY) continue; /* nothing was summed */
        const sg_lanes rescale = sg_lanes_weight(sg_splat(was - base[r]));
        w->sum[i + r] *= rescale;
        for (int64_t e = 0; e < b->wide; e += SG_LANES)
            *(sg_lanes *)(w->o + e / SG_KC * b->plane + (i + r) * SG_LDA + e % SG_KC) *= rescale;
    }
    for (int64_t r = 0; r < rows; r++) {
        float *const score = w->score + r * SG_LDA;
        sg_lanes     sum = {0};
        for (int64_t j = 0; j < padded; j += SG_LANES) {
            const sg_lanes p = sg_lanes_weight(*(const sg_lanes *)(score + j) - base[r]);
            *(sg_lanes *)(score + j) = p;
            sum += p;
        }
        w->sum[i + r] += sum;
    }
}

/* Adds keys [key, key + count) to rows [row, row + rows) of one head, SG_MR rows at a time: their scores stay in the L1
 * cache, keys and values come from L2. */
static void attend_block(const attend_job *b, const attend_workspace *w, int64_t head, int64_t row, int64_t rows,
                         int64_t key, int64_t count)
{
    const int64_t      at = head / (b->h / b->hk) - b->first;
    const float *const k = b->k + (at * b->m_up + key) * b->d;
    const float *const v = b->v + at * b->m_up * b->wide + key * SG_NR;
    const float *const bias = sg_f32_at(&b->a->bias, (head * b->n + row) * b->m + key);
    const float       *a[SG_MR];
    for (int64_t i = 0; i < rows; i += SG_MR) {
        const int64_t seen = seen_by(b, row + i + SG_MR - 1, key, count), padded = sg_div_up(seen, SG_NR) * SG_NR;
        if (seen == 0) continue;
        for (int64_t e = 0; e < b->d; e += SG_KC) {
            sg_tile_rows(a, w->q + e / SG_KC * b->plane + i * SG_LDA);
            for (int64_t j = 0; j < padded; j += SG_NR)
                sg_tile(a, 1, sg_min64(SG_KC, b->d - e), k + j * b->d + e * SG_NR, SG_NR, w->score + j, SG_LDA, e == 0);
        }
        softmax_rows(b, w, row + i, i, sg_min64(SG_MR, rows - i), key, seen, bias ? bias + i * b->m : NULL);
        sg_tile_rows(a, w->score);
        for (int64_t e = 0; e < b->wide; e += SG_NR)
            sg_tile(a, 1, padded, v + e * b->m_up, b->d - e, w->o + e / SG_KC * b->plane + i * SG_LDA + e % SG_KC,
                    SG_LDA, false);
    }
}

/* Starts a task: copies its queries, padded with zeros to whole SG_MR, and zeroes its sums. */
static void task_begin(const attend_job *b, const attend_workspace *w, int64_t head, int64_t row, int64_t rows)
{
    for (int64_t i = 0; i < sg_div_up(rows, SG_MR) * SG_MR; i++) {
        w->row_max[i] = -INFINITY;
        w->sum[i] = (sg_lanes){0};
        for (int64_t e = 0; e < b->d; e += SG_KC) {
            float *const       q = w->q + e / SG_KC * b->plane + i * SG_LDA;
            const int64_t      n = sg_min64(SG_KC, b->d - e);
            const float *const x = i < rows ? sg_read_f32(&b->a->q, ((row + i) * b->h + head) * b->d + e, n, q) : NULL;
            for (int64_t l = 0; l < n; l++) q[l] = x ? x[l] : 0.0f;
            memset(w->o + (q - w->q), 0, (size_t)sg_min64(SG_KC, b->wide - e) * sizeof *q);
        }
    }
}

static void attend_task(const attend_job *b, const attend_workspace *w, int64_t head, int64_t row)
{
    const int64_t rows = sg_min64(b->bq, b->n - row), m = seen_by(b, row + rows - 1, 0, b->m);
    task_begin(b, w, head, row, rows);
    for (int64_t key = 0; key < m; key += SG_KC) attend_block(b, w, head, row, rows, key, sg_min64(SG_KC, m - key));
    for (int64_t i = 0; i < rows; i++) {
        const float sum = sg_lanes_sum(w->sum[i]);
        for (int64_t e = 0; e < b->d; e += SG_KC) {
            const int64_t at = ((row + i) * b->h + head) * b->d + e, n = sg_min64(SG_KC, b->d - e);
            const float   by = 1.0f / sum;
            float *const  o = w->o + e / SG_KC * b->plane + i * SG_LDA;
            float *const  y = sg_write_f32(&b->a->y, at, o);
            for (int64_t l = 0; l < n; l++) y[l] = sum == 0.0f ? 0.0f : o[l] * by; /* also where v is NaN */
            sg_write_f32_done(&b->a->y, at, n, y);
        }
    }
}

sg_status SG_VEC_NAME(attend)(sg_stream *s, const sg_attend_args *a)
{
    sg_cpu *const cpu = sg_cpu_of(s);
    attend_job b = {.a = a, .n = a->q.dim[0], .m = a->k.dim[0], .h = a->q.dim[1], .hk = a->k.dim[1], .d = a->q.dim[2]};
    b.wide = sg_div_up(b.d, SG_NR) * SG_NR;
    b.planes = sg_div_up(b.d, SG_KC);
    b.m_up = sg_div_up(b.m, SG_NR) * SG_NR;
    const int64_t share = b.n * b.h / (SG_TASKS * cpu->threads) / SG_BQ_STEP * SG_BQ_STEP;
    b.bq = share < SG_BQ_STEP ? SG_BQ_STEP : sg_min64(share, SG_BQ_MAX);
    b.plane = b.bq * SG_LDA;
    const int64_t head_size = b.m_up * (b.d + b.wide), blocks = sg_div_up(b.n, b.bq), panels = b.m_up / SG_NR;
    const int64_t fit = SG_GROUP_BYTES / (head_size * (int64_t)sizeof(float) + 1);
    const int64_t group = fit < 1 ? 1 : sg_min64(fit, b.hk), size = workspace_at(&b, &(attend_workspace){0}, NULL);
    char *const   scratch =
        sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)(cpu->threads * size + group * head_size * (int64_t)sizeof(float)));
    if (!scratch) return SG_E_MEMORY;
    b.k = (float *)(scratch + cpu->threads * size);
    b.v = b.k + group * b.m_up * b.d;
    for (b.first = 0; b.first < b.hk; b.first += group) {
        const int64_t heads = sg_min64(group, b.hk - b.first), g = b.h / b.hk;
#pragma omp parallel num_threads(cpu->threads)
        {
            attend_workspace mine;
            workspace_at(&b, &mine, scratch + omp_get_thread_num() * size);
#pragma omp for schedule(static)
            for (int64_t i = 0; i < heads * panels; i++) pack_keys(&b, b.first + i / panels, i % panels);
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < heads * g * blocks; i++) /* of a head the last first, which are the longest */
                attend_task(&b, &mine, b.first * g + i / blocks, (blocks - 1 - i % blocks) * b.bq);
        }
    }
    return SG_OK;
}

void SG_VEC_INIT(attend)(sg_ops *t) { t->attend = SG_VEC_NAME(attend); }
