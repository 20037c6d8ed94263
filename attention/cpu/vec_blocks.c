/* vec_blocks.c - attend_blocks in F32: the blocks of keys that a block of queries keeps, with an online softmax.
 *
 * Per head, keys are packed as their integers in F32, so that q k^T is exact and scales multiply the scores. Values are
 * packed as they are; the scale of I8 values is applied to the outputs. Each tile (blocks.h) is packed by itself:
 *
 *   - k [tiles][SG_BLOCK_K / SG_NR][d][SG_NR]
 *   - scale [tiles][SG_BLOCK_K]
 *   - v [tiles][wide / SG_NR][SG_BLOCK_K][SG_NR], wide = d rounded up to whole panels, zeros beyond d and m
 *
 * A task is a block of queries of one head. It loops over its tiles, and in each tile over its rows: by SG_MR, or by 32 or
 * 64 where these decide together whether to skip the tile. Their scores stay in the L1 cache; the tile
 * comes from L2. Between tiles a row keeps its largest logit so far, the sum of its weights, lane by lane, and its
 * unscaled output.
 *
 * Roofline, for a vector of scores: 2 d fused multiply-adds and about 16 instructions of softmax, two a cycle: 144 at
 * d = 64. Outputs are loaded and stored once a tile of 64 keys, in dense attention once in 256 keys. Together that is
 * 0.75 to 0.8 of dense attention's rate on Cascade Lake. */
#include "blocks.h"
#include "vec_tile.h"

#include <omp.h>

/* Between rows of scores; rows of a strip at most; rows of a task at most. */
#define SG_WHOLE(rows) (((rows) + SG_MR - 1) / SG_MR * SG_MR)
enum { SG_LDS = SG_BLOCK_K + 16, SG_STRIP_ROWS = SG_WHOLE(2 * SG_FILTER_ROWS) };
enum { SG_QUERY_ROWS = SG_BLOCK_Q / SG_FILTER_ROWS * SG_WHOLE(SG_FILTER_ROWS) };

typedef struct vec_job {
    sg_blocks_job s;
    int64_t       wide, ld;      /* d rounded up to whole panels; between rows of q and o */
    int64_t       strip, up;     /* queries that go together; the same rounded up to whole tiles of rows */
    float        *k, *scale, *v; /* packed, of the heads of the ring */
} vec_job;

/* The workspace of a task, in its thread's scratch. Strips of queries start `up` rows apart; unused rows are zero. */
typedef struct vec_workspace {
    float    *q, *o, *score, *scale; /* [SG_QUERY_ROWS, ld] x 2, [SG_STRIP_ROWS, SG_LDS], [SG_QUERY_ROWS] */
    float    *row_max, *best;        /* [SG_QUERY_ROWS]: largest logit so far, [SG_STRIP_ROWS]: of the tile */
    sg_lanes *sum, *lost;            /* [SG_QUERY_ROWS]: of weights; of those that were left out */
} vec_workspace;

/* Sets r to the workspace at p. Returns its bytes; p NULL: returns them only. */
static int64_t workspace_at(const vec_job *b, vec_workspace *r, char *p)
{
    int64_t used = 0;
    SG_PART(r->q, SG_QUERY_ROWS * b->ld, p, used);
    SG_PART(r->o, SG_QUERY_ROWS * b->ld, p, used);
    SG_PART(r->score, SG_STRIP_ROWS * SG_LDS, p, used);
    SG_PART(r->scale, SG_QUERY_ROWS, p, used);
    SG_PART(r->row_max, SG_QUERY_ROWS, p, used);
    SG_PART(r->best, SG_STRIP_ROWS, p, used);
    SG_PART(r->sum, SG_QUERY_ROWS, p, used);
    SG_PART(r->lost, SG_QUERY_ROWS, p, used);
    return used;
}

/* ---- packing ---- */

/* The row of d numbers of (head, row) as F32: I8 lies head by head, other types token by token. NULL: zeros. */
static void widen_row(float *y, const sg_tensor *t, int64_t head, int64_t row, int64_t d)
{
    if (row < 0)
        memset(y, 0, (size_t)d * sizeof *y);
    else if (t->dtype == SG_I8) {
        const int8_t *const x = (const int8_t *)t->data + (head * t->dim[1] + row) * d;
        for (int64_t i = 0; i < d; i++) y[i] = (float)x[i];
    } else {
        const float *const x = sg_read_f32(t, (row * t->dim[1] + head) * d, d, y);
        if (x != y) memcpy(y, x, (size_t)d * sizeof *y);
    }
}

/* Packs a tile of a head of keys; row: scratch for ld numbers. */
static void pack_tile(const void *job, const void *workspace, int64_t head, int64_t tile)
{
    const vec_job *const       b = job;
    float *const               row = ((const vec_workspace *)workspace)->q;
    const sg_blocks_job *const s = &b->s;
    const bool                 real = tile < s->nk;
    const int64_t              at = sg_blocks_ring_at(s, head) + tile;
    float *const k = b->k + at * SG_BLOCK_K * s->d, *const v = b->v + at * SG_BLOCK_K * b->wide;
    for (int64_t key = 0; key < SG_BLOCK_K; key++) {
        const int64_t from = sg_blocks_row(s, tile, key), panel = key / SG_NR * s->d;
        b->scale[at * SG_BLOCK_K + key] = sg_blocks_scale(s, head, tile, key);
        widen_row(row, real ? &s->a->k : &s->a->tail_k, head, from, s->d);
        for (int64_t e = 0; e < s->d; e++) k[(panel + e) * SG_NR + key % SG_NR] = row[e];
        widen_row(row, real ? &s->a->v : &s->a->tail_v, head, from, s->d);
        for (int64_t e = s->d; e < b->wide; e++) row[e] = 0.0f;
        for (int64_t e = 0; e < b->wide; e += SG_NR)
            memcpy(v + e * SG_BLOCK_K + key * SG_NR, row + e, SG_NR * sizeof *row);
    }
}

/* ---- the walk ---- */

/* Turns a row of scores into logits, -INFINITY where the key is hidden. Returns the largest. */
static float row_logits(float *score, float by, const float *scale, const sg_blocks_tile *t, uint64_t seen)
{
#pragma omp simd
    for (int j = 0; j < SG_BLOCK_K; j++) score[j] = score[j] * (by * scale[j]) + t->add;
    if (t->bias || ~seen)
        for (int j = 0; j < SG_BLOCK_K; j++)
            score[j] = !(seen >> j & 1) ? -INFINITY : t->bias ? score[j] + t->bias[j] : score[j];
    sg_lanes max = sg_splat(-INFINITY);
    for (int64_t j = 0; j < SG_BLOCK_K; j += SG_LANES) max = sg_lanes_max(*(const sg_lanes *)(score + j), max);
    return sg_lanes_reduce_max(max);
}

/* Raises a row's largest logit to that of the tile and rescales its sums. */
static void raise_row(const vec_job *b, const vec_workspace *w, int64_t i, float best)
{
    const float was = w->row_max[i];
    if (!(best > was)) return;
    w->row_max[i] = best;
    if (was == -INFINITY) return; /* nothing was summed */
    const sg_lanes rescale = sg_lanes_weight(sg_splat(was - best));
    w->sum[i] *= rescale;
    w->lost[i] *= rescale;
    for (int64_t e = 0; e < b->wide; e += SG_LANES) *(sg_lanes *)(w->o + i * b->ld + e) *= rescale;
}

/* Turns a row of logits into weights. Returns their sum. A row without a key so far has row_max -INFINITY and weights
 * 0. */
static sg_lanes row_weights(float *score, float row_max)
{
    const float base = row_max == -INFINITY ? 0.0f : row_max;
    sg_lanes    sum = {0};
    for (int64_t j = 0; j < SG_BLOCK_K; j += SG_LANES) {
        const sg_lanes p = sg_lanes_weight(*(const sg_lanes *)(score + j) - base);
        *(sg_lanes *)(score + j) = p;
        sum += p;
    }
    return sum;
}

/* Whether rows [i, i + rows) may all skip the tile. */
static bool left_out(const vec_workspace *w, int64_t i, int64_t rows, float pv_threshold)
{
    for (int64_t r = 0; r < rows; r++)
        if (!(w->best[r] < w->row_max[i + r] - pv_threshold)) return false;
    return true;
}

/* Whether a tile has keys that are hidden from some rows, and values that are not finite. */
static bool has_non_finite(const vec_job *b, const sg_blocks_tile *t, int64_t at)
{
    const float *const v = b->v + at * SG_BLOCK_K * b->wide;
    sg_lanes           sum = {0};
    if (!t->edge && !~t->seen) return false;
    for (int64_t e = 0; e < SG_BLOCK_K * b->wide; e += SG_LANES) sum += *(const sg_lanes *)(v + e) * 0.0f;
    return sg_lanes_sum(sum) != 0.0f; /* NaN */
}

/* Adds weights times values to a row of outputs, for visible keys only. */
static void add_seen(const vec_job *b, float *o, const float *weight, const float *v, uint64_t seen)
{
    for (; seen; seen &= seen - 1) {
        const int key = __builtin_ctzll(seen);
        for (int64_t e = 0; e < b->s.d; e++)
            o[e] += weight[key] * v[(e / SG_NR * SG_BLOCK_K + key) * SG_NR + e % SG_NR];
    }
}

/* Adds a tile, packed as number `at`, to a strip: rows [i, i + rows) of the task, [row, row + rows) of the tensor. With
 * pv_threshold, in nats, it may skip the tile. Returns whether it did. */
static bool visit(const vec_job *b, const vec_workspace *w, const sg_blocks_tile *t, int64_t at, bool non_finite,
                  int64_t row, int64_t i, int64_t rows, float pv_threshold)
{
    const float *const k = b->k + at * SG_BLOCK_K * b->s.d, *const v = b->v + at * SG_BLOCK_K * b->wide;
    const float *a[SG_MR];
    for (int64_t r = 0; r < rows; r += SG_MR) {
        for (int64_t l = 0; l < SG_MR; l++) a[l] = w->q + (i + r + l) * b->ld;
        for (int64_t j = 0; j < SG_BLOCK_K; j += SG_NR)
            sg_tile(a, 1, b->s.d, k + j * b->s.d, SG_NR, w->score + r * SG_LDS + j, SG_LDS, true);
    }
    for (int64_t r = 0; r < rows; r++)
        w->best[r] = row_logits(w->score + r * SG_LDS, w->scale[i + r], b->scale + at * SG_BLOCK_K, t,
                                sg_blocks_visible(t, row + r));
    const bool out = left_out(w, i, rows, pv_threshold);
    for (int64_t r = 0; r < rows; r++) {
        raise_row(b, w, i + r, w->best[r]);
        sg_lanes *const sum = out ? w->lost : w->sum;
        sum[i + r] += row_weights(w->score + r * SG_LDS, w->row_max[i + r]);
    }
    for (int64_t r = 0; r < rows && !out && non_finite; r++)
        add_seen(b, w->o + (i + r) * b->ld, w->score + r * SG_LDS, v, sg_blocks_visible(t, row + r));
    for (int64_t r = 0; r < rows && !out && !non_finite; r += SG_MR) {
        for (int64_t l = 0; l < SG_MR; l++) a[l] = w->score + (r + l) * SG_LDS;
        for (int64_t e = 0; e < b->wide; e += SG_NR)
            sg_tile(a, 1, SG_BLOCK_K, v + e * SG_BLOCK_K, b->s.d - e, w->o + (i + r) * b->ld + e, b->ld, false);
    }
    return out;
}

/* Starts a task: packs the queries from `row` on and zeroes the sums. */
static void task_begin(const vec_job *b, const vec_workspace *w, int64_t head, int64_t row, int64_t rows)
{
    const sg_attend_blocks_args *const a = b->s.a;
    const float *const                 scale = (const float *)a->q_scale.data;
    for (int64_t i = 0; i < SG_QUERY_ROWS; i++) {
        const int64_t at = i / b->up * b->strip + i % b->up;
        const bool    there = i % b->up < b->strip && at < rows;
        widen_row(w->q + i * b->ld, &a->q, head, there ? row + at : -1, b->s.d);
        w->scale[i] = there ? scale[(row + at) / a->q_group * b->s.h + head] * a->scale : 0.0f;
        memset(w->o + i * b->ld, 0, (size_t)b->ld * sizeof *w->o);
        w->row_max[i] = -INFINITY;
        w->sum[i] = w->lost[i] = (sg_lanes){0};
    }
}

/* Divides outputs by their sums, applies the values' scale and center, and writes y. Sums the shares that the rows
 * skipped. */
static double task_end(const vec_job *b, const vec_workspace *w, int64_t head, int64_t row, int64_t rows)
{
    const sg_attend_blocks_args *const a = b->s.a;
    const int64_t                      d = b->s.d, hk = head / b->s.serves;
    const float *const                 scale = sg_f32_at(&a->v_scale, hk * d);
    const float *const                 center = sg_f32_at(&a->v_center, hk * d);
    double                             share = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t i = r / b->strip * b->up + r % b->strip, at = ((row + r) * b->s.h + head) * d;
        const float   sum = sg_lanes_sum(w->sum[i]), by = 1.0f / sum;
        float *const  o = w->o + i * b->ld;
        float *const  y = sg_write_f32(&a->y, at, o);
        share += sg_blocks_share(sg_lanes_sum(w->lost[i]), sum);
        for (int64_t e = 0; e < d; e++)
            y[e] = sum == 0.0f ? 0.0f : o[e] * by * (scale ? scale[e] : 1.0f) + (center ? center[e] : 0.0f);
        sg_write_f32_done(&a->y, at, d, y);
    }
    return share;
}

/* Block i of queries of a head. */
static void attend_task(const void *job, const void *workspace, int64_t head, int64_t i)
{
    const vec_job *const       b = job;
    const vec_workspace *const w = workspace;
    const int64_t              row = i * SG_BLOCK_Q, rows = sg_min64(SG_BLOCK_Q, b->s.n - row);
    const int64_t              from = sg_blocks_ring_at(&b->s, head / b->s.serves);
    const bool                 filters = b->s.count != NULL;
    const float                pv_threshold =
        filters ? ((const float *)b->s.a->pv_threshold.data)[head] * 0.693147180559945309f : 0.0f;
    sg_blocks_iterator iterator;
    sg_blocks_count    count = {0};
    sg_blocks_tile     t;
    sg_blocks_begin(&iterator, &b->s, head, i);
    task_begin(b, w, head, row, rows);
    for (bool first = true; sg_blocks_next(&iterator, &t); first = false) {
        const float most = filters && !first && t.index < b->s.nk ? pv_threshold : INFINITY;
        const bool  non_finite = has_non_finite(b, &t, from + t.index);
        for (int64_t r = 0; r < rows; r += b->strip)
            count.skips += visit(b, w, &t, from + t.index, non_finite, row + r, r / b->strip * b->up,
                                 sg_min64(b->strip, rows - r), most);
    }
    count.share = task_end(b, w, head, row, rows);
    if (filters) b->s.count[head * b->s.nq + i] = count;
}

static void attend_heads(const vec_job *b, int threads, char *workspaces)
{
#pragma omp parallel num_threads(threads)
    {
        vec_workspace mine;
        workspace_at(b, &mine, workspaces + omp_get_thread_num() * workspace_at(b, &mine, NULL));
        sg_blocks_heads(b, &mine, b->s.nq, pack_tile, attend_task);
    }
}

sg_status SG_VEC_NAME(blocks)(sg_stream *s, const sg_attend_blocks_args *a)
{
    sg_cpu *const cpu = sg_cpu_of(s);
    vec_job       b = {.s = sg_blocks_job_of(a)};
    if (a->v.dtype == SG_F8) return sg_fail(s, SG_E_UNSUPPORTED, "attend_blocks: the cpu backend has no F8");
    b.wide = sg_div_up(b.s.d, SG_NR) * SG_NR;
    b.ld = b.wide + 16;
    b.strip = a->pv_threshold.rank ? a->pv_group : SG_MR;
    b.up = SG_WHOLE(b.strip);
    const int64_t keys = b.s.tiles * SG_BLOCK_K, word = sizeof(float);
    const int64_t workspaces = cpu->threads * workspace_at(&b, &(vec_workspace){0}, NULL);
    char *const   p = sg_blocks_scratch(&b.s, cpu, workspaces, keys * (b.s.d + b.wide + 1) * word);
    if (!p) return SG_E_MEMORY;
    b.k = (float *)p;
    b.v = b.k + b.s.ring * keys * b.s.d;
    b.scale = b.v + b.s.ring * keys * b.wide;
    attend_heads(&b, cpu->threads, p - workspaces);
    sg_blocks_sum_counts(&b.s);
    return SG_OK;
}

void SG_VEC_INIT(blocks)(sg_ops *t) { t->attend_blocks = SG_VEC_NAME(blocks); }
