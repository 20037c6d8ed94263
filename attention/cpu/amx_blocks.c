/* amx_blocks.c - attention over lists of blocks of keys, q and k in INT8, by AMX tiles.
 *
 * The pipeline is that of bf16_attend.c. Scores are k q^T, [keys, queries]. Outputs are v^T p, [channels, queries]. A
 * group of SG_SUB = 32 queries takes its bases from its first block of keys and keeps them; a group whose bases turn
 * out to be out of range runs again. The differences:
 *
 *   - Each group has a list: the blocks of 64 keys that its block of queries keeps, then the blocks of means of which
 *     some mean counts. A task is up to SG_TASK blocks of queries of a head. It loops over chunks of the lists that fit
 *     into the L2 cache, in each chunk over its groups, and for each group over units of blocks.
 *   - A stage handles one block. It computes a share of the outputs of the unit before, by BF16 matmuls, and the
 * block's
 *     scores, by INT8 matmuls whose INT32 results are the bits of floats (amx_softmax.h). Beside both it computes the
 *     weights of the block before. New scores overwrite old ones after these have become weights, so the scores stay in
 *     the L1 cache, through which the keys, values and outputs of a stage pass. A unit is two blocks, so that a tile of
 *     outputs is loaded and stored once in 128 keys. The outputs of a unit start one stage after the scores of the next
 *     unit, when all its weights are ready.
 *   - With pv_threshold a first pass computes scores only, and skipped blocks leave the lists.
 *
 * Roofline, for a vector of 16 scores: matmuls take d / 64 + d / 32 cycles of the tile unit, 3 at d = 64 and 6 at d =
 * 128. Storing tiles of scores and outputs stalls it for 1.5 and 2 more. The softmax issues 6 instructions and, for two
 * vectors, a shuffle, a store and a vdpbf16ps, which costs as much as four: 8.5 in all. One instruction a cycle issues
 * beside tiles, two without. That is 6.5 cycles at d = 64 and 8 at d = 128. The clock is another limit: an Emerald
 * Rapids at 3.0 GHz falls to 2.3 GHz when it multiplies tiles that are not zero. */
#include "amx_pack.h"

#include <omp.h>

enum { SG_SUBS = SG_BLOCK_Q / SG_SUB, SG_TASK = 4, SG_UNIT = 2 };
enum { SG_O = 4 * 256, SG_SCORES = SG_BLOCK_K * SG_SUB, SG_WEIGHTS = SG_BLOCK_K * SG_SUB };

/* With more channels the integers of a score exceed the range of amx_softmax.h. */
enum { SG_CHANNELS_MAX = 256 };

/* Bases are at most this far below their exact value: amx_softmax.h. */
enum { SG_GRID_MAX = 64 };

/* Bytes that the packed keys and values of a chunk stay below. */
enum { SG_CHUNK_BYTES = 256 << 10 };

static const int32_t __attribute__((aligned(64))) zero_tile[256] = {
#define X4 SG_ZERO_BITS, SG_ZERO_BITS, SG_ZERO_BITS, SG_ZERO_BITS
#define X16 X4, X4, X4, X4
#define X64 X16, X16, X16, X16
    X64, X64, X64, X64};

/* The workspace of a task, in its thread's scratch. */
typedef struct blocks_workspace {
    int8_t    *q;         /* [subs][kdepth][2][16][16][4] */
    float     *o;         /* [subs][vdepth][2][2][16][16] */
    float     *score;     /* of a block */
    uint16_t  *weight[2]; /* of a unit */
    float     *by, *base; /* of a block: amx_softmax.h */
    uint32_t  *seen;      /* of a block */
    float     *bias;      /* [task][tiles - plain][SG_BLOCK_K], of blocks of queries */
    float     *row;       /* [16, d] */
    sub_state *state;     /* [subs] */
    int32_t   *list;      /* [subs][blocks] */
} blocks_workspace;

static int64_t whole(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Sets r to the workspace at p. Returns its bytes; p NULL: returns them only. */
static int64_t workspace_at(const blocks_job *b, blocks_workspace *r, char *p)
{
    int64_t used = 0;
    SG_PART(r->q, b->task * SG_SUBS * b->kdepth * SG_COLS * SG_TILE_BYTES, p, used);
    SG_PART(r->o, b->task * SG_SUBS * b->vdepth * SG_O, p, used);
    SG_PART(r->score, SG_SCORES, p, used);
    SG_PART(r->weight[0], SG_UNIT * SG_WEIGHTS, p, used);
    SG_PART(r->weight[1], SG_UNIT * SG_WEIGHTS, p, used);
    SG_PART(r->by, 4 * SG_COLS, p, used);
    SG_PART(r->base, 4 * SG_SUB, p, used);
    SG_PART(r->seen, SG_BLOCK_K, p, used);
    SG_PART(r->bias, b->task * (b->s.tiles - b->plain) * SG_BLOCK_K, p, used);
    SG_PART(r->row, 16 * b->s.d, p, used);
    SG_PART(r->state, b->task * SG_SUBS, p, used);
    SG_PART(r->list, b->task * SG_SUBS * b->s.tiles, p, used);
    return used;
}

/* ---- lists ---- */

/* The biases of a block's keys for a block of queries of a task. */
static float *bias_at(const blocks_job *b, const blocks_workspace *w, int64_t sub, int64_t block)
{
    return w->bias + (sub / SG_SUBS * (b->s.tiles - b->plain) + block - b->plain) * SG_BLOCK_K;
}

static void fill_bias(float *bias, const sg_blocks_tile *t)
{
    const __m512 hidden = _mm512_set1_ps(-INFINITY), log2e = _mm512_set1_ps(SG_LOG2E);
    for (int i = 0; i < SG_BLOCK_K; i += 16) {
        const __mmask16 seen = (__mmask16)(t->seen >> i);
        const __m512    x = t->bias ? _mm512_maskz_loadu_ps(seen, t->bias + i) : _mm512_set1_ps(t->add);
        _mm512_store_ps(bias + i, _mm512_mask_mul_ps(hidden, seen, x, log2e));
    }
}

/* Fills the lists of the groups of block i of queries; `sub` is the first group. */
static void fill_lists(const blocks_job *b, const blocks_workspace *w, int64_t head, int64_t i, int64_t sub,
                       int64_t end)
{
    sg_blocks_iterator iterator;
    sg_blocks_tile     t;
    sg_blocks_begin(&iterator, &b->s, head, i);
    for (int64_t g = sub; g < end; g++) w->state[g].count = 0;
    while (sg_blocks_next(&iterator, &t)) {
        if (t.index >= b->plain) fill_bias(bias_at(b, w, sub, t.index), &t);
        for (int64_t g = sub; g < end; g++) {
            sub_state *const s = &w->state[g];
            const bool       hidden = t.edge && !b->s.count && t.index * SG_BLOCK_K >= s->row + t.before + SG_SUB;
            if (!hidden) w->list[g * b->s.tiles + s->count++] = (int32_t)t.index;
        }
    }
}

/* Causal masks of the keys from `from` on: a bit for each query, the first of which sees keys up to `row`. */
static void fill_seen(const blocks_job *b, uint32_t *seen, int64_t row, int64_t from)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int64_t i = 0; i < SG_BLOCK_K; i += 16) {
        const __m512i   late = _mm512_add_epi32(lane, _mm512_set1_epi32((int)(from + i - row))); /* queries before it */
        const __m512i   first = _mm512_max_epi32(late, _mm512_setzero_si512());
        const __mmask16 there = sg_lanes16(b->s.m - from - i);
        _mm512_store_si512(seen + i, _mm512_maskz_sllv_epi32(there, _mm512_set1_epi32(-1), first));
    }
}

/* How a group sees a block. */
static void set_mask(const blocks_job *b, const blocks_workspace *w, sg_blocks_softmax *s, int64_t sub, int64_t block)
{
    const int64_t row = w->state[sub].row + b->s.m - b->s.n, from = block * SG_BLOCK_K;
    if (b->s.a->causal && block < b->s.nk && from + SG_BLOCK_K > row + 1) {
        fill_seen(b, w->seen, row, from);
        s->seen = w->seen;
    } else if (block >= b->plain)
        s->bias = bias_at(b, w, sub, block);
}

/* ---- the pipeline ---- */

/* Consecutive blocks of a group's list. */
typedef struct unit {
    const int32_t *block;
    int64_t        sub, at, count; /* at: of the first in the list */
} unit;

typedef struct cursor {
    int64_t first, end; /* groups */
    int64_t sub, at, from, longest;
} cursor;

static cursor cursor_at(const blocks_workspace *w, int64_t first, int64_t end)
{
    cursor c = {.first = first, .end = end, .sub = first};
    for (int64_t i = first; i < end; i++)
        if (w->state[i].count > c.longest) c.longest = w->state[i].count;
    return c;
}

static bool advance(const blocks_job *b, const blocks_workspace *w, cursor *c, unit *u)
{
    while (c->from < c->longest) {
        const int64_t end = sg_min64(c->from + b->chunk, w->state[c->sub].count);
        if (c->at < end) {
            *u = (unit){w->list + c->sub * b->s.tiles + c->at, c->sub, c->at, sg_min64(SG_UNIT, end - c->at)};
            c->at += u->count;
            return true;
        }
        if (++c->sub == c->end) {
            c->sub = c->first;
            c->from += b->chunk;
        }
        c->at = c->from;
    }
    return false;
}

/* The largest scores of a block, in powers of two, ignoring NaN; -INFINITY where no key is visible. */
static void find_max(const sg_blocks_softmax *w, float row_max[SG_SUB])
{
    for (unsigned col = 0; col < SG_COLS; col++) {
        __m512 most = _mm512_set1_ps(-INFINITY);
        for (unsigned key = 0; key < SG_BLOCK_K; key++) {
            const __m512    by = _mm512_set1_ps(w->by[key / 16 * SG_COLS + col]);
            const float     bias = w->bias ? w->bias[key] : 0;
            const __mmask16 seen = (__mmask16)(w->seen ? w->seen[key] >> (col * 16) : 0xffff);
            const __m512    s = _mm512_load_ps(w->score + (key / 16 * SG_COLS + col) * 256 + key % 16 * 16);
            const __m512    x = _mm512_fmadd_ps(_mm512_sub_ps(s, _mm512_set1_ps(SG_ZERO)), by, _mm512_set1_ps(bias));
            most = _mm512_mask_max_ps(most, seen, x, most);
        }
        _mm512_store_ps(row_max + col * 16, most);
    }
}

/* Raises the bases to the largest scores of a block. */
static void raise(sub_state *s, const float most[SG_SUB])
{
    for (int i = 0; i < SG_SUB; i++) {
        if (!(most[i] > s->row_max[i])) continue;
        s->row_max[i] = most[i];
        s->base[i] = floorf((most[i] - SG_ABOVE) / s->grid) * s->grid;
    }
}

/* The state of a pass: the block whose scores are ready, and the unit whose weights are. */
typedef struct pipeline {
    const blocks_job       *b;
    const blocks_workspace *w;
    const char             *packed; /* of the head */
    const float            *scale;
    max_pass                pass;
    unit                    softmax, out;        /* count 0: none */
    int64_t                 softmax_at;          /* block of the unit */
    int64_t                 share, shares, done; /* stages of the unit; groups of 32 channels */
    unsigned                half;                /* weights that are next written */
} pipeline;

/* Scales of keys times those of a group, rounded to 22 bits. */
static __m256 scales_by(const sub_state *s, __m256 keys)
{
    const __m256i by = _mm256_castps_si256(_mm256_mul_ps(keys, _mm256_load_ps(s->by)));
    const __m256i near = _mm256_add_epi32(by, _mm256_set1_epi32(2));
    return _mm256_castsi256_ps(_mm256_and_si256(near, _mm256_set1_epi32(~3)));
}

static void fill_by(const pipeline *p, const sub_state *s, int64_t block)
{
    _mm256_store_ps(p->w->by, scales_by(s, _mm256_load_ps(p->scale + block * 4 * SG_COLS)));
}

/* Sets the grid of a group: the smallest power of two that is not below any scale in its list. */
static void fill_grid(const pipeline *p, int64_t sub)
{
    sub_state *const     s = &p->w->state[sub];
    const int32_t *const list = p->w->list + sub * p->b->s.tiles;
    _Alignas(32) float   by[4 * SG_COLS];
    __m256               most = _mm256_setzero_ps();
    for (int64_t i = 0; i < s->count; i++) most = _mm256_max_ps(_mm256_load_ps(p->scale + list[i] * 4 * SG_COLS), most);
    _mm256_store_ps(by, scales_by(s, most));
    s->grid = 0x1p-20f;
    for (int i = 0; i < 4 * SG_COLS; i++)
        while (s->grid < fabsf(by[i]) && s->grid < SG_GRID_MAX) s->grid *= 2;
}

static void fill_base(const blocks_workspace *w, const sub_state *s)
{
    for (int part = 0; part < 4; part++)
        for (int col = 0; col < SG_COLS; col++) {
            const __m512 by = _mm512_set1_ps(w->by[part * SG_COLS + col]);
            const __m512 base = _mm512_load_ps(s->base + col * 16);
            _mm512_store_ps(w->base + part * SG_SUB + col * 16, _mm512_fmadd_ps(_mm512_set1_ps(SG_ZERO), by, base));
        }
}

/* The matmuls of a stage; k and out may be absent. */
typedef struct stage_args {
    const int8_t   *k, *q;
    const uint16_t *v, *weight;
    const int32_t  *block; /* of v */
    float          *score, *o;
    int64_t         kdepth, words, blocks, from, to; /* groups of 32 channels */
} stage_args;

static inline __attribute__((always_inline)) void stage_by(const stage_args *t, const sg_blocks_softmax *w,
                                                           int64_t kdepth, unsigned early, unsigned late,
                                                           sg_blocks_mask mask)
{
    sg_blocks_softmax mine = *w;
    sg_blocks_outputs(t->v, t->words, t->block, t->blocks, t->weight, t->o, t->from, t->to, &mine, early, mask);
    if (t->k) sg_blocks_scores(t->k, t->q, t->score, kdepth, zero_tile, &mine, late, mask);
    while (mine.at < mine.end) sg_blocks_softmax_run(&mine, late, mask);
}

/* Runs so many quads of the softmax after each block of matmuls that both end together. */
static void stage(const stage_args *t, const sg_blocks_softmax *w)
{
    const sg_blocks_mask mask = sg_blocks_mask_of(w);
    if (mask == SG_MASK_QUERIES)
        stage_by(t, w, t->kdepth, 4, 4, SG_MASK_QUERIES);
    else if (t->kdepth > 1)
        mask ? stage_by(t, w, t->kdepth, 2, 4, SG_MASK_BIAS) : stage_by(t, w, t->kdepth, 2, 4, SG_MASK_NONE);
    else
        mask ? stage_by(t, w, 1, 4, 4, SG_MASK_BIAS) : stage_by(t, w, 1, 4, 4, SG_MASK_NONE);
}

/* Sets s to the block whose scores are ready. */
static void set_softmax(const pipeline *p, sg_blocks_softmax *s)
{
    const blocks_workspace *const w = p->w;
    sub_state *const              state = &w->state[p->softmax.sub];
    const int64_t                 block = p->softmax.block[p->softmax_at];
    *s = (sg_blocks_softmax){.score = w->score,
                             .weight = w->weight[p->half] + p->softmax_at * SG_WEIGHTS,
                             .sum = state->sum,
                             .by = w->by,
                             .base = w->base,
                             .end = p->pass == MAX_SEARCHED ? 0 : SG_BLOCK_QUADS};
    set_mask(p->b, w, s, p->softmax.sub, block);
    fill_by(p, state, block);
    if (p->pass == MAX_SEARCHED || (p->pass == MAX_GUESSED && p->softmax.at + p->softmax_at == 0)) {
        _Alignas(64) float most[SG_SUB];
        find_max(s, most);
        raise(state, most);
    }
    fill_base(w, state);
}

/* Runs a stage. It computes the scores of block `at` of the unit `now`, which may be NULL. */
static void run_stage(pipeline *p, const unit *now, int64_t at)
{
    const blocks_job *const       b = p->b;
    const blocks_workspace *const w = p->w;
    sg_blocks_softmax             s = {0};
    stage_args                    t = {.v = (const uint16_t *)(p->packed + b->k_bytes),
                                       .weight = w->weight[p->half ^ 1],
                                       .score = w->score,
                                       .kdepth = b->kdepth,
                                       .words = b->bytes / 2};
    if (p->softmax.count) set_softmax(p, &s);
    if (now) {
        t.k = (const int8_t *)(p->packed + now->block[at] * b->bytes);
        t.q = w->q + now->sub * b->kdepth * SG_COLS * SG_TILE_BYTES;
    }
    if (p->out.count) {
        t.block = p->out.block;
        t.blocks = p->out.count;
        t.o = w->o + p->out.sub * b->vdepth * SG_O;
        t.from = p->done;
        t.to = p->done = (unsigned)(++p->share * b->vdepth) / (unsigned)p->shares;
    }
    stage(&t, &s);
}

/* The weights that are ready become the operand of the outputs, in so many stages. */
static void start_outputs(pipeline *p, int64_t shares)
{
    p->out = p->softmax;
    if (p->pass == MAX_SEARCHED) p->out.count = 0;
    p->share = p->done = 0;
    p->shares = shares;
    p->half ^= 1;
}

static pipeline pipeline_at(const blocks_job *b, const blocks_workspace *w, int64_t head, max_pass pass)
{
    const int64_t at = sg_blocks_ring_at(&b->s, head / b->s.serves);
    return (pipeline){
        .b = b, .w = w, .packed = b->packed + at * b->bytes, .scale = b->scale + at * 4 * SG_COLS, .pass = pass};
}

/* Attends over the lists of groups [first, end) of a task. */
static void iterator(const blocks_job *b, const blocks_workspace *w, int64_t head, int64_t first, int64_t end,
                     max_pass pass)
{
    pipeline p = pipeline_at(b, w, head, pass);
    cursor   c = cursor_at(w, first, end);
    unit     now;
    while (advance(b, w, &c, &now))
        for (int64_t i = 0; i < now.count; i++) {
            run_stage(&p, &now, i);
            if (i == 0) start_outputs(&p, now.count);
            p.softmax = now;
            p.softmax_at = i;
        }
    if (p.softmax.count == 0) return;
    run_stage(&p, NULL, 0);
    start_outputs(&p, 1);
    p.softmax.count = 0;
    run_stage(&p, NULL, 0);
}

/* ---- the filter ---- */

/* Computes the scores of a block and a group, and nothing else. */
static void score_block(const pipeline *p, sg_blocks_softmax *s, int64_t sub, int64_t block)
{
    const blocks_job *const b = p->b;
    const sub_state *const  state = &p->w->state[sub];
    const int8_t *const     k = (const int8_t *)(p->packed + block * b->bytes);
    *s = (sg_blocks_softmax){.score = p->w->score, .by = p->w->by};
    sg_blocks_scores(k, p->w->q + sub * b->kdepth * SG_COLS * SG_TILE_BYTES, p->w->score, b->kdepth, zero_tile, s, 1,
                     SG_MASK_NONE);
    fill_by(p, state, block);
    set_mask(b, p->w, s, sub, block);
}

/* Whether a block may matter to a query of a group. */
static bool matters(const blocks_job *b, const sg_blocks_softmax *w, const sub_state *s, const float *most,
                    float pv_threshold)
{
    bool some = false;
    for (int i = 0; i < 4 * SG_COLS; i++) some |= !isfinite(w->by[i]);
    for (int64_t i = 0; i < SG_SUB && s->row + i < b->s.n; i++) some |= !(most[i] < s->row_max[i] - pv_threshold);
    return some;
}

/* Removes from a group's list the blocks that pv_threshold skips, and finds the bases of the rest. Returns how many. */
static int64_t filter(const blocks_job *b, const blocks_workspace *w, int64_t head, int64_t sub)
{
    const pipeline   p = pipeline_at(b, w, head, MAX_SEARCHED);
    sub_state *const state = &w->state[sub];
    int32_t *const   list = w->list + sub * b->s.tiles;
    const float      pv_threshold = ((const float *)b->s.a->pv_threshold.data)[head];
    const int64_t    count = state->count;
    state->count = 0;
    for (int64_t i = 0; i < count; i++) {
        _Alignas(64) float most[SG_SUB];
        sg_blocks_softmax  s;
        score_block(&p, &s, sub, list[i]);
        find_max(&s, most);
        if (i > 0 && list[i] < b->s.nk && !matters(b, &s, state, most, pv_threshold)) continue;
        raise(state, most);
        list[state->count++] = list[i];
    }
    return count - state->count;
}

/* sum += the weights of a block, in F32: the counts must not have the error of BF16 weights. */
static void add_block(const sg_blocks_softmax *w, const sub_state *s, float sum[SG_SUB])
{
    for (unsigned col = 0; col < SG_COLS; col++) {
        const __m512 base = _mm512_load_ps(s->base + col * 16);
        __m512       all = _mm512_load_ps(sum + col * 16);
        for (unsigned key = 0; key < SG_BLOCK_K; key++) {
            const __m512    by = _mm512_set1_ps(w->by[key / 16 * SG_COLS + col]);
            const float     bias = w->bias ? w->bias[key] : 0;
            const __mmask16 seen = (__mmask16)(w->seen ? w->seen[key] >> (col * 16) : 0xffff);
            const __m512    x = _mm512_load_ps(w->score + (key / 16 * SG_COLS + col) * 256 + key % 16 * 16);
            const __m512    less = _mm512_sub_ps(_mm512_set1_ps(bias), base);
            const __m512    y = _mm512_fmadd_ps(_mm512_sub_ps(x, _mm512_set1_ps(SG_ZERO)), by, less);
            all = _mm512_mask_add_ps(all, seen, all, (__m512)sg_lanes_exp((sg_lanes)y * 0.693147180559945309f));
        }
        _mm512_store_ps(sum + col * 16, all);
    }
}

/* The share of its sum that each row of a filtered group skips. Goes over all kept blocks once more. */
static double lost_share(const blocks_job *b, const blocks_workspace *w, int64_t head, int64_t sub)
{
    const pipeline         p = pipeline_at(b, w, head, MAX_SEARCHED);
    const sub_state *const state = &w->state[sub];
    const int32_t *const   list = w->list + sub * b->s.tiles;
    _Alignas(64) float     sum[2][SG_SUB] = {0}; /* of the list; of the skipped blocks */
    sg_blocks_iterator     at;
    sg_blocks_tile         t;
    double                 share = 0;
    sg_blocks_begin(&at, &b->s, head, state->row / SG_BLOCK_Q);
    for (int64_t i = 0; sg_blocks_next(&at, &t);) {
        sg_blocks_softmax s;
        const bool        lost = i == state->count || list[i] != t.index;
        score_block(&p, &s, sub, t.index);
        add_block(&s, state, sum[lost]);
        i += !lost;
    }
    for (int64_t i = 0; i < SG_SUB && state->row + i < b->s.n; i++) share += sg_blocks_share(sum[1][i], sum[0][i]);
    return share;
}

/* ---- tasks ---- */

static void clear_sub(const blocks_job *b, const blocks_workspace *w, int64_t sub)
{
    sub_state *const s = &w->state[sub];
    memset(w->o + sub * b->vdepth * SG_O, 0, (size_t)(b->vdepth * SG_O) * sizeof(float));
    for (int i = 0; i < SG_SUB; i++) {
        s->row_max[i] = -INFINITY;
        s->base[i] = s->sum[i] = 0;
    }
}

/* Starts a group: packs its queries and zeroes its sums. */
static void begin_sub(const blocks_job *b, const blocks_workspace *w, int64_t head, int64_t sub, int64_t row)
{
    sub_state *const s = &w->state[sub];
    s->row = row;
    pack_queries(b, w->q + sub * b->kdepth * SG_COLS * SG_TILE_BYTES, s, head, row);
    clear_sub(b, w, sub);
}

/* Adds the values that were not packed to the outputs of a group. */
static void add_all_non_finite(const blocks_job *b, const blocks_workspace *w, int64_t head, int64_t sub)
{
    const int64_t        hk = head / b->s.serves;
    const uint8_t *const non_finite = b->non_finite + sg_blocks_ring_at(&b->s, hk);
    const int32_t *const list = w->list + sub * b->s.tiles;
    for (int64_t i = 0; i < w->state[sub].count; i++) {
        if (!non_finite[list[i]]) continue;
        sg_blocks_softmax s = {0};
        set_mask(b, w, &s, sub, list[i]);
        add_non_finite(b, w->o + sub * b->vdepth * SG_O, &s, hk, list[i]);
    }
}

/* Runs a task: some blocks of queries of a head. */
static void attend_task(const void *job, const void *workspace, int64_t head, int64_t task)
{
    const blocks_job *const       b = job;
    const blocks_workspace *const w = workspace;
    const int64_t                 first = task * b->task, end = sg_min64(first + b->task, b->s.nq);
    const int64_t                 all = sg_div_up(sg_min64(end * SG_BLOCK_Q, b->s.n) - first * SG_BLOCK_Q, SG_SUB);
    sg_blocks_count *const        count = b->s.count ? b->s.count + head * b->s.nq + first : NULL;
    for (int64_t i = 0; i < all; i++) begin_sub(b, w, head, i, first * SG_BLOCK_Q + i * SG_SUB);
    for (int64_t i = 0; i < all; i += SG_SUBS) {
        fill_lists(b, w, head, first + i / SG_SUBS, i, sg_min64(i + SG_SUBS, all));
        if (count) count[i / SG_SUBS] = (sg_blocks_count){0};
    }
    const pipeline p = pipeline_at(b, w, head, MAX_GUESSED);
    for (int64_t i = 0; i < all; i++) fill_grid(&p, i);
    for (int64_t i = 0; i < all && count; i++) {
        const int64_t skips = filter(b, w, head, i);
        count[i / SG_SUBS].skips += skips;
        if (skips) count[i / SG_SUBS].share += lost_share(b, w, head, i);
    }
    iterator(b, w, head, 0, all, count ? MAX_KNOWN : MAX_GUESSED);
    for (int64_t i = 0; i < all; i++) {
        sub_state *const s = &w->state[i];
        if (!count && s->count && sg_softmax_out_of_range(s->sum, w->o + i * b->vdepth * SG_O, b->vdepth * SG_O)) {
            clear_sub(b, w, i);
            iterator(b, w, head, i, i + 1, MAX_SEARCHED);
            iterator(b, w, head, i, i + 1, MAX_KNOWN);
        }
        add_all_non_finite(b, w, head, i);
        unpack_outputs(b, w->o + i * b->vdepth * SG_O, s, head, w->row);
    }
}

static void attend_heads(const blocks_job *b, int threads, char *workspaces, int64_t workspace_bytes)
{
#pragma omp parallel num_threads(threads)
    {
        blocks_workspace mine;
        const unsigned   control = _mm_getcsr();
        workspace_at(b, &mine, workspaces + omp_get_thread_num() * workspace_bytes);
        _mm_setcsr(control | 0x8040); /* denormals are zeros, as in the tile unit */
        sg_tiles_open();
        sg_blocks_heads(b, &mine, sg_div_up(b->s.nq, b->task), pack_block, attend_task);
        sg_tiles_close();
        _mm_setcsr(control);
        _mm_sfence();
    }
}

/* ---- the entry ---- */

static bool serves(const sg_attend_blocks_args *a)
{
    return sg_count(a->y) && a->k.dim[1] > 0 && a->q.dim[2] <= SG_CHANNELS_MAX &&
           (a->pv_threshold.rank == 0 || a->pv_group == SG_FILTER_ROWS);
}

static blocks_job shape(const sg_attend_blocks_args *a, int threads)
{
    blocks_job    b = {.s = sg_blocks_job_of(a)};
    const int64_t d = b.s.d;
    b.kdepth = sg_div_up(d, 64);
    b.vdepth = sg_div_up(d, 32);
    b.plain = b.s.m / SG_BLOCK_K;
    b.k_bytes = b.kdepth * SG_BLOCK_K * 64;
    b.bytes = b.k_bytes + b.vdepth * SG_VALUES * 2;
    b.chunk = SG_CHUNK_BYTES / b.bytes / SG_UNIT * SG_UNIT;
    b.task = SG_TASK;
    while (b.task > 1 && b.s.h * sg_div_up(b.s.nq, b.task) < 4 * threads) b.task /= 2;
    return b;
}

static sg_status attend_blocks(sg_stream *s, const sg_attend_blocks_args *a)
{
    sg_cpu *const cpu = sg_cpu_of(s);
    if (!serves(a)) return sg_int8_blocks_avx512_vnni(s, a); /* which counts what it does not serve either */
    blocks_job    b = shape(a, cpu->threads);
    const int64_t scales = b.s.tiles * 4 * SG_COLS * (int64_t)sizeof(float);
    const int64_t workspace_bytes = workspace_at(&b, &(blocks_workspace){0}, NULL),
                  workspaces = cpu->threads * workspace_bytes;
    char *const p = sg_blocks_scratch(&b.s, cpu, workspaces, b.s.tiles * b.bytes + scales + whole(b.s.tiles));
    if (!p) return SG_E_MEMORY;
    b.packed = p;
    b.scale = (float *)(p + b.s.ring * b.s.tiles * b.bytes);
    b.non_finite = (uint8_t *)b.scale + b.s.ring * scales;
    attend_heads(&b, cpu->threads, p - workspaces, workspace_bytes);
    sg_blocks_sum_counts(&b.s);
    return SG_OK;
}

void sg_amx_blocks_init(sg_ops *t) { t->attend_blocks = attend_blocks; }
