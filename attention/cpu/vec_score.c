/* vec_score.c - score and tail_bias: matmuls of statistics of blocks of queries with those of blocks of keys.
 *
 * A task is a strip of one head of queries (score.h). Its rows stay in the L1 cache; the head's packed keys stream from
 * L2, chunk by chunk. Scores with a chunk become weights 2^(score - base) at once, and those of a block are summed. A
 * row's base is a number that none of its scores so far exceeds by much. The base may change between chunks; factors
 * correct this at the end, when the rows of a block are averaged.
 *
 * Roofline: (n / 16)^2 d multiply-adds a head, 16 an instruction, two instructions a cycle on AVX-512: d / 2 cycles for
 * a vector of 16 scores. Weights take 10 more instructions: 64 cycles become 69 at d = 128, 32 become 37 at d = 64. */
#include "predict.h"
#include "score.h"
#include "vec_tile.h"

#include <float.h>
#include <omp.h>

/* Bytes of packed heads in scratch at a time, unless one head has more. */
enum { SG_PANEL_BYTES = 64 << 20 };

/* The sum of a block's weights above which the row's base is raised. */
#define SG_RESCALE_LAG 0x1p32f

/* Three blocks of eight sub-blocks, and a multiple of every level's SG_MR. */
enum { SG_STRIP_ROWS = 24 };

enum { SG_ROWS = SG_BLOCK_Q / SG_BLOCK_SUB, SG_PARTS = SG_BLOCK_K / SG_BLOCK_SUB };

typedef struct score_job {
    const sg_score_form     *form;
    const sg_score_args     *a; /* one of these */
    const sg_tail_bias_args *t;
    sg_fixed                 queries, keys;
    float                   *y, *limit, *weight, *nothing; /* limit [h][seg], weight [hk][nk], nothing [d] */
    char                    *panel;
    int64_t                  h, hk, d, nq, nk, per, parts;
    int64_t seg, vectors, chunks; /* blocks of keys rounded up to a vector; vectors of columns; chunks of them */
    int64_t span;                 /* blocks of a chunk */
    int64_t wide, lda, chunk_bytes, bases, first; /* bases: rows rounded up to a vector */
} score_job;

/* A strip and its thread's workspace. */
typedef struct strip {
    const score_job *b;
    int64_t          head, block, blocks; /* of queries: the first, how many */
    float           *x, *s[2];            /* rows lda apart; scores of two chunks */
    char            *packed;
    float           *own;             /* weights of blocks, [rows][seg] */
    float           *base, *now, *by; /* bases, [chunks][bases], then factors; of the last chunk; over the sums */
    sg_lanes        *sum;             /* of a row's weights */
} strip;

/* x = 2^x of n vectors, by minimax polynomials of degree 5, within 3 ulp. The steps of the n vectors are interleaved,
 * as each step depends on the one before. 0 far below -127, 2^127 or more above 127, NaN for NaN. Without an
 * instruction for the fraction, adding `round` leaves the integer nearest to x, plus the exponent's bias, in the low
 * bits. */
SG_INLINE void two_to(sg_lanes *x, int64_t n)
{
    sg_lanes p[SG_PARTS], f[SG_PARTS];
#define EACH(step) _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++) step
#if defined(__AVX512F__)
    EACH(f[i] = (sg_lanes)_mm512_reduce_ps((__m512)x[i], _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);)
    EACH(p[i] = f[i] * 1.8671307385e-3f + 9.0170285976e-3f;)
    EACH(p[i] = p[i] * f[i] + 5.5799914673e-2f;)
    EACH(p[i] = p[i] * f[i] + 2.4016444957e-1f;)
    EACH(p[i] = p[i] * f[i] + 6.9315131188e-1f;)
    EACH(p[i] = p[i] * f[i] + 1.0f;)
    EACH(x[i] = (sg_lanes)_mm512_scalef_ps((__m512)p[i], (__m512)x[i]);)
#else
    const float round = 12582912.0f + 127.0f; /* 1.5 2^23 + 127 */
    EACH(x[i] = sg_lanes_min(sg_splat(127.0f), sg_lanes_max(sg_splat(-127.0f), x[i]));)
    EACH(f[i] = x[i] + round;)
    EACH(x[i] -= f[i] - round;)
    EACH(p[i] = x[i] * 1.3276416341e-3f + 9.6755289070e-3f;)
    EACH(p[i] = p[i] * x[i] + 5.5507133178e-2f;)
    EACH(p[i] = p[i] * x[i] + 2.4022119960e-1f;)
    EACH(p[i] = p[i] * x[i] + 6.9314696712e-1f;)
    EACH(p[i] = p[i] * x[i] + 1.0f;)
    EACH(x[i] = p[i] * (sg_lanes)((sg_lane_bits)f[i] << 23);)
#endif
#undef EACH
}

static inline bool any_above(sg_lanes a, sg_lanes b)
{
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ)) != 0;
#else
    return _mm_movemask_ps(_mm_cmpgt_ps((__m128)a, (__m128)b)) != 0;
#endif
}

/* ---- products ---- */

/* Four channels of four columns at a time. */
static void pack_panels(void *to, const float *const *from, int64_t d, int64_t wide)
{
    for (int64_t i = 0; i < SG_SCORE_COLS; i += 4) {
        float *const panel = (float *)to + i / SG_NR * SG_NR * wide + i % SG_NR;
        int64_t      e = 0;
        for (; e + 4 <= d; e += 4) {
            __m128 x[4];
            for (int64_t c = 0; c < 4; c++) x[c] = _mm_loadu_ps(from[i + c] + e);
            _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
            for (int64_t c = 0; c < 4; c++) _mm_storeu_ps(panel + (e + c) * SG_NR, x[c]);
        }
        for (; e < d; e++)
            for (int64_t c = 0; c < 4; c++) panel[e * SG_NR + c] = from[i + c][e];
    }
}

static void tile_matmul(float *s, const void *x, int64_t lda, const void *panel, int64_t vectors, int64_t wide,
                        sg_score_softmax *w)
{
    (void)w;
    for (int64_t col = 0; col < vectors * SG_LANES; col += SG_NR)
        for (int64_t i = 0; i < SG_STRIP_ROWS; i += SG_MR) {
            const float *row[SG_MR];
            for (int64_t r = 0; r < SG_MR; r++) row[r] = (const float *)x + (i + r) * lda;
            sg_tile(row, 1, wide, (const float *)panel + col * wide, vectors * SG_LANES - col,
                    s + i * SG_SCORE_COLS + col, SG_SCORE_COLS, true);
        }
}

static const sg_score_form in_f32 = {
    .rows = SG_STRIP_ROWS, .depth = 1, .k_bytes = sizeof(float), .pack = pack_panels, .matmul = tile_matmul};

/* Packs a chunk of a head of keys; unused columns are zero. */
static void pack_chunk(const score_job *b, const sg_tensor *k, int64_t head, int64_t chunk)
{
    const float *from[SG_SCORE_COLS];
    for (int64_t i = 0; i < SG_SCORE_COLS; i++) {
        const int64_t at = chunk * SG_SCORE_VECTORS + i / SG_LANES, part = at % b->parts;
        const int64_t block = at / b->parts * SG_LANES + i % SG_LANES, row = block * b->parts + part;
        const bool    is = block < b->nk && row < k->dim[0];
        from[i] = is ? (const float *)k->data + (row * b->hk + head) * b->d : b->nothing;
    }
    b->form->pack(b->panel + ((head - b->first) * b->chunks + chunk) * b->chunk_bytes, from, b->d, b->wide);
}

static int64_t vectors_of(const score_job *b, int64_t chunk)
{
    return sg_min64(SG_SCORE_VECTORS, b->vectors - chunk * SG_SCORE_VECTORS);
}

static void softmax_rest(sg_score_softmax *w) { w->run(w, w->rows - w->row); }

/* Row r of block `block` of a head of queries; NULL where there is none. */
static const float *query_row(const score_job *b, int64_t head, int64_t block, int64_t r)
{
    const int64_t row = block * b->per + r;
    return row < b->a->q.dim[0] ? (const float *)b->a->q.data + (row * b->h + head) * b->d : NULL;
}

/* Scores of a strip with the first chunks; `run` processes them. */
static void strip_matmul(const strip *t, int64_t chunks, void (*run)(sg_score_softmax *, int64_t))
{
    const score_job *const     b = t->b;
    const sg_score_form *const f = b->form;
    const int64_t              head = t->head / (b->h / b->hk) - b->first;
    sg_score_softmax           w = {.run = run, .strip = t};
    if (f->x_bytes) f->pack_strip(t->packed, t->x, b->lda, b->wide);
    if (f->open) f->open();
    for (int64_t c = 0; c < chunks; c++) {
        float *const s = t->s[c % 2];
        f->matmul(s, f->x_bytes ? (void *)t->packed : t->x, b->lda, b->panel + (head * b->chunks + c) * b->chunk_bytes,
                  vectors_of(b, c), b->wide, &w);
        softmax_rest(&w);
        w.s = s;
        w.chunk = c;
        w.row = 0;
        w.rows = t->blocks * b->per;
        if (!f->overlaps_softmax) softmax_rest(&w);
    }
    if (f->close) f->close();
    softmax_rest(&w);
}

/* ---- score ---- */

/* Masks the scores of a row that do not count. */
static void hide(const score_job *b, float *s, const float *limit, int64_t vectors, int64_t seen)
{
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t at = (b->parts == 1 ? v : v / SG_PARTS) * SG_LANES;
#pragma omp simd
        for (int64_t i = 0; i < SG_LANES; i++)
            s[v * SG_LANES + i] = limit[at + i] > 0.0f && at + i < seen ? s[v * SG_LANES + i] : -INFINITY;
    }
}

/* Raises a row's base to its largest score, where that is above it. */
static void raise(const float *s, sg_lanes *sum, float *base, int64_t vectors)
{
    sg_lanes top = sg_splat(*base);
    for (int64_t v = 0; v < vectors; v++) top = sg_lanes_max(*(const sg_lanes *)(s + v * SG_LANES), top);
    const float most = sg_lanes_reduce_max(top);
    sg_lanes    rescale = sg_splat(*base - most);
    two_to(&rescale, 1);
    *sum *= rescale;
    *base = most;
}

/* Turns a row's scores with a chunk into weights relative to a base. own: sums per block; sum: of all. False where some
 * are too large. */
SG_INLINE bool exp_and_sum(const float *s, float *own, sg_lanes *sum, float base, int64_t vectors, int64_t parts)
{
    const sg_lanes none = {0}, from = sg_splat(base);
    sg_lanes       all = *sum, most = none;
    for (int64_t v = 0; v < vectors; v += parts, own += SG_LANES) {
        sg_lanes x[SG_PARTS], mine = none;
        for (int64_t part = 0; part < parts; part++) x[part] = *(const sg_lanes *)(s + (v + part) * SG_LANES) - from;
        two_to(x, parts);
        for (int64_t part = 0; part < parts; part++) mine += x[part];
        *(sg_lanes *)own = mine;
        all += mine;
        most = sg_lanes_max(mine, most);
    }
    if (any_above(most, sg_splat(SG_RESCALE_LAG))) return false;
    *sum = all;
    return true;
}

SG_INLINE void row_weights(const float *s, float *own, sg_lanes *sum, float *base, int64_t vectors, int64_t parts)
{
    if (*base != -FLT_MAX && exp_and_sum(s, own, sum, *base, vectors, parts)) return;
    raise(s, sum, base, vectors);
    exp_and_sum(s, own, sum, *base, vectors, parts);
}

static int64_t visible_to(const score_job *b, int64_t block)
{
    return sg_visible_blocks(b->a->causal, block, b->a->n, b->a->m);
}

static void softmax_scores(sg_score_softmax *w, int64_t rows)
{
    const strip *const t = w->strip;
    const int64_t      end = sg_min64(w->row + rows, w->rows);
    if (w->row == end) return;
    const score_job *const b = t->b;
    const int64_t          vectors = vectors_of(b, w->chunk), wide = b->parts == 1 ? vectors : vectors / SG_PARTS;
    const int64_t          at = w->chunk * b->span, seg = b->seg;
    const float *const     limit = b->limit + t->head * seg + at;
    float *const           base = t->base + w->chunk * b->bases;
    const sg_lanes         none = {0};
    if (w->row == 0) w->limited = visible_to(b, t->block) < at + wide * SG_LANES;
    for (int64_t v = 0; w->row == 0 && v < wide; v++)
        w->limited |= any_above(none, *(const sg_lanes *)(limit + v * SG_LANES));
    for (int64_t r = w->row; r < end; r++) {
        float *const s = w->s + r * SG_SCORE_COLS, *const own = t->own + r * seg + at;
        if (w->limited) hide(b, s, limit, vectors, visible_to(b, t->block + r / b->per) - at);
        if (b->parts == 1)
            row_weights(s, own, t->sum + r, t->now + r, vectors, 1);
        else
            row_weights(s, own, t->sum + r, t->now + r, SG_PARTS, SG_PARTS);
        base[r] = t->now[r];
    }
    w->row = end;
}

/* How many rows block i of queries has. */
static int64_t rows_of(const score_job *b, int64_t i) { return sg_min64(b->per, b->a->q.dim[0] - i * b->per); }

/* Turns bases into the factors of each row's weights of each chunk in the mean over its block. */
static void fill_factors(const strip *t, int64_t chunks)
{
    const score_job *const b = t->b;
    for (int64_t r = 0; r < t->blocks * b->per; r++) {
        const float all = sg_lanes_sum(t->sum[r]);
        t->by[r] = all == 0.0f ? 0.0f : 1.0f / (all * (float)rows_of(b, t->block + r / b->per));
    }
    for (int64_t c = 0; c < chunks; c++)
        for (int64_t r = 0; r < b->bases; r += SG_LANES) {
            sg_lanes *const base = (sg_lanes *)(t->base + c * b->bases + r);
            sg_lanes        by = *base - *(const sg_lanes *)(t->now + r);
            two_to(&by, 1);
            *base = by * *(const sg_lanes *)(t->by + r);
        }
}

/* Block i of a strip. */
static void score_block(const strip *t, int64_t i, int64_t seen)
{
    const score_job *const b = t->b;
    float *const y = b->y + (t->head * b->nq + t->block + i) * b->nk, *const own = t->own + i * b->per * b->seg;
    const float *const weight = b->weight + t->head / (b->h / b->hk) * b->nk;
    const float *const limit = b->limit + t->head * b->seg;
    const int64_t      rows = rows_of(b, t->block + i);
    const bool         squared = b->a->k_var.rank > 0;
    for (int64_t c = 0; c * b->span < seen; c++) {
        const float *const by = t->base + c * b->bases + i * b->per;
        for (int64_t j = c * b->span; j < sg_min64((c + 1) * b->span, b->seg); j += SG_LANES) {
            sg_lanes sum = {0};
            for (int64_t r = 0; r < rows; r++) {
                sg_lanes share = *(const sg_lanes *)(own + r * b->seg + j) * by[r];
                if (squared) share *= share;
                sum += share;
            }
            *(sg_lanes *)(own + j) = sum;
        }
    }
    for (int64_t j = 0; j < seen; j++) {
        const float all = squared ? sqrtf(own[j] * (float)rows) : own[j];
        y[j] = limit[j] > 0.0f && own[j] != 0.0f ? weight[j] * all : 0.0f;
    }
    memset(y + seen, 0, (size_t)(b->nk - seen) * sizeof *y);
}

static void score_strip(const strip *t)
{
    const score_job *const b = t->b;
    const float            scale = b->a->scale * SG_LOG2E;
    const int64_t          seen = visible_to(b, t->block + t->blocks - 1);
    const int64_t          chunks = sg_div_up(seen, b->span);
    bool                   any = false;
    for (int64_t i = 0; i < t->blocks; i++) any |= !sg_is_fixed(&b->queries, t->head, t->block + i);
    for (int64_t r = 0; any && r < b->form->rows; r++) {
        const float *const q = query_row(b, t->head, t->block, r);
        for (int64_t e = 0; e < b->d; e++) t->x[r * b->lda + e] = q ? q[e] * scale : 0.0f;
    }
    for (int64_t r = 0; r < b->bases; r++) {
        t->sum[r] = (sg_lanes){0};
        t->now[r] = -FLT_MAX;
    }
    if (any) {
        strip_matmul(t, chunks, softmax_scores);
        fill_factors(t, chunks);
    }
    for (int64_t i = 0; i < t->blocks; i++) {
        if (sg_is_fixed(&b->queries, t->head, t->block + i))
            memset(b->y + (t->head * b->nq + t->block + i) * b->nk, 0, (size_t)b->nk * sizeof *b->y);
        else
            score_block(t, i, visible_to(b, t->block + i));
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

/* w_j of op.h: the error of pooling block j. */
static float block_weight(const score_job *b, int64_t head, int64_t j)
{
    const sg_tensor *const k = &b->a->k_var, *const v = &b->a->v_var;
    const int64_t at = j * b->hk + head;
    if (!k->rank) return 1.0f;
    return sqrtf(mean_of((const float *)k->data + at * b->d, b->d) *
                 mean_of((const float *)v->data + at * v->dim[2], v->dim[2]));
}

/* ---- tail_bias ---- */

/* Computes n biases from their terms. */
static void biases(float *y, const float *c, float by, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        const float more = c[j] * by;
        y[j] = 4.15888308f + (more > 3.0f ? 3.0f : more); /* ln SG_BLOCK_K */
    }
}

static void softmax_biases(sg_score_softmax *w, int64_t rows)
{
    const strip *const t = w->strip;
    for (const int64_t end = sg_min64(w->row + rows, w->rows); w->row < end; w->row++) {
        const score_job *const b = t->b;
        const int64_t          at = w->chunk * SG_SCORE_COLS;
        biases(b->y + (t->head * b->nq + t->block + w->row) * b->nk + at, w->s + w->row * SG_SCORE_COLS,
               b->t->scale * b->t->scale / 4, sg_min64(SG_SCORE_COLS, b->nk - at));
    }
}

static void tail_strip(const strip *t)
{
    const score_job *const b = t->b;
    const float            half = b->t->scale * b->t->scale / 2;
    for (int64_t r = 0; r < b->form->rows; r++) {
        const int64_t      at = ((t->block + r) * b->h + t->head) * b->d;
        const float *const mean = r < t->blocks ? (const float *)b->t->q_mean.data + at : b->nothing;
        const float *const var = r < t->blocks ? (const float *)b->t->q_var.data + at : b->nothing;
        for (int64_t e = 0; e < b->d; e++) t->x[r * b->lda + e] = var[e] + mean[e] * mean[e];
    }
    if (b->t->rule != SG_TAIL_RANK1) {
        strip_matmul(t, b->chunks, softmax_biases);
        return;
    }
    for (int64_t r = 0; r < t->blocks; r++)
        biases(b->y + (t->head * b->nq + t->block + r) * b->nk, b->weight + t->head / (b->h / b->hk) * b->nk,
               half * mean_of(t->x + r * b->lda, b->d) * (float)b->d, b->nk);
}

/* ---- both ---- */

/* Sets t to the workspace of a strip at p. Returns its bytes; p NULL: returns them only. */
static int64_t workspace_at(const score_job *b, strip *t, char *p)
{
    const sg_score_form *const f = b->form;
    int64_t                    used = 0;
    SG_PART(t->sum, b->bases, p, used);
    SG_PART(t->packed, f->rows * b->wide * f->x_bytes, p, used);
    SG_PART(t->s[0], f->rows * SG_SCORE_COLS, p, used);
    SG_PART(t->s[1], f->overlaps_softmax * f->rows * SG_SCORE_COLS, p, used);
    SG_PART(t->x, f->rows * b->lda, p, used);
    SG_PART(t->own, f->rows * b->seg, p, used);
    SG_PART(t->base, b->chunks * b->bases, p, used);
    SG_PART(t->now, b->bases, p, used);
    SG_PART(t->by, b->bases, p, used);
    if (!f->overlaps_softmax) t->s[1] = t->s[0];
    return used;
}

/* Heads of keys [b->first, b->first + heads) and the heads of queries that they serve. */
static void heads_run(const score_job *b, const sg_tensor *k, int64_t heads, int threads, char *scratch, int64_t mine)
{
    const int64_t share = b->h / b->hk, blocks = b->form->rows / b->per, strips = sg_div_up(b->nq, blocks);
#pragma omp parallel num_threads(threads) if (heads * share * b->nq * b->nk * b->d * b->parts > SG_TINY)
    {
        strip t = {.b = b};
        workspace_at(b, &t, scratch + omp_get_thread_num() * mine);
        memset(t.x, 0, (size_t)(b->form->rows * b->lda) * sizeof *t.x);
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < heads * b->nk; i++) {
            const int64_t head = b->first + i / b->nk, j = i % b->nk;
            b->weight[head * b->nk + j] =
                b->a ? block_weight(b, head, j)
                     : mean_of((const float *)b->t->k_var.data + (j * b->hk + head) * b->d, b->d);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < heads * b->chunks; i++) pack_chunk(b, k, b->first + i % heads, i / heads);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < heads * share * strips; i++) {
            t.head = b->first * share + i / strips;
            t.block = i % strips * blocks;
            t.blocks = sg_min64(blocks, b->nq - t.block);
            if (b->a)
                score_strip(&t);
            else
                tail_strip(&t);
        }
    }
}

static sg_status score_run(sg_cpu *cpu, score_job *b, const sg_tensor *k)
{
    const sg_score_form *const f = b->form;
    strip                      t;
    b->seg = sg_div_up(b->nk, SG_LANES) * SG_LANES;
    b->vectors = b->seg / SG_LANES * b->parts;
    b->span = SG_SCORE_COLS / b->parts;
    b->chunks = sg_div_up(b->vectors, SG_SCORE_VECTORS);
    b->bases = sg_div_up(f->rows, SG_LANES) * SG_LANES;
    b->wide = sg_div_up(b->d, f->depth) * f->depth;
    b->lda = b->wide + 16; /* a stride that is no power of two spreads rows over the sets of the cache */
    b->chunk_bytes = sg_div_up(SG_SCORE_COLS * b->wide * f->k_bytes, 64) * 64;
    const int64_t head_bytes = b->chunks * b->chunk_bytes, fit = SG_PANEL_BYTES / head_bytes;
    const int64_t group = fit < 1 ? 1 : sg_min64(fit, b->hk), mine = workspace_at(b, &t, NULL);
    const int64_t floats = b->h * b->seg + b->hk * b->nk + b->d;
    char *const   scratch = sg_cpu_scratch(
          cpu, SG_SLOT_WORK, (size_t)(cpu->threads * mine + group * head_bytes) + (size_t)floats * sizeof(float));
    if (!scratch) return SG_E_MEMORY;
    b->panel = scratch + cpu->threads * mine;
    b->limit = (float *)(b->panel + group * head_bytes);
    b->weight = b->limit + b->h * b->seg;
    b->nothing = b->weight + b->hk * b->nk;
    memset(b->nothing, 0, (size_t)b->d * sizeof *b->nothing);
    for (int64_t g = 0; g < b->h && b->a; g++) head_limits(b, g);
    for (b->first = 0; b->first < b->hk; b->first += group)
        heads_run(b, k, sg_min64(group, b->hk - b->first), cpu->threads, scratch, mine);
    return SG_OK;
}

sg_status SG_VEC_NAME(score)(sg_stream *s, const sg_score_args *a, const sg_score_form *f)
{
    score_job b = {.form = f,
                   .a = a,
                   .y = a->y.data,
                   .h = a->q.dim[1],
                   .hk = a->k.dim[1],
                   .d = a->q.dim[2],
                   .nq = a->y.dim[1],
                   .nk = a->y.dim[2],
                   .per = a->sub ? SG_ROWS : 1,
                   .parts = a->sub ? SG_PARTS : 1};
    b.queries = sg_fixed_of(SG_BLOCK_Q, a->n, a->text_prefix, a->text_suffix, &a->q_similarity, &a->theta, b.h);
    b.queries.ragged = a->ragged;
    b.keys = sg_fixed_of(SG_BLOCK_K, a->m, a->text_prefix, a->text_suffix, &a->k_similarity, &a->theta, b.h);
    return score_run(sg_cpu_of(s), &b, &a->k);
}

sg_status SG_VEC_NAME(tail_bias)(sg_stream *s, const sg_tail_bias_args *a, const sg_score_form *f)
{
    score_job b = {.form = f,
                   .t = a,
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

static sg_status score(sg_stream *s, const sg_score_args *a) { return SG_VEC_NAME(score)(s, a, &in_f32); }

static sg_status tail_bias(sg_stream *s, const sg_tail_bias_args *a) { return SG_VEC_NAME(tail_bias)(s, a, &in_f32); }

void SG_VEC_INIT(score)(sg_ops *t)
{
    t->score = score;
    t->tail_bias = tail_bias;
}
