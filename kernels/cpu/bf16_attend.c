/* bf16_attend.c - dense attention of BF16 operands by BF16 matmuls. Compiled for AVX-512 BF16 and for AMX.
 *
 * y = softmax(scale q k^T + key_bias) v per head, causal or not, with an online softmax. Everything is transposed: scores
 * are k q^T, [keys, queries], and outputs v^T p, [channels, queries]. So queries lie along the vectors, maxima and sums
 * need no shuffles, weights leave the registers in the pairs that the second matmul needs, and k needs no packing but
 * zeros at its ends.
 *
 * Loops. A task is up to SG_TASK groups of SG_SUB = 32 queries of one head. It loops over the keys that its last query
 * sees, in chunks that fit into the L2 cache, in each chunk over its groups, and for each group over units of SG_UNIT
 * keys, in steps of 32 keys. A stage does three independent things, two by tiles and the third by vectors beside them:
 *
 *   - scores of step i: k [32 keys, d] times q [d, 32 queries], F32, into one of two buffers;
 *   - weights of step i - 1: F32 to BF16 (bf16_softmax.h), into the buffer of a unit, of which there are two;
 *   - outputs: a share of v^T [d, SG_UNIT keys] times the weights of the unit before, F32, added to the group's.
 *
 * Matmuls use 2 x 2 tiles of 16 x 16 (bf16_tile_*.h). Operands are stored in the order of access:
 *
 *   - q [groups][depth][2][16][16][2]
 *   - k [units][steps][depth][2][16][32]
 *   - v [units][depth][steps][2][16][32]
 *
 * with depth = d / 32 rounded up, steps = SG_UNIT / 32, and zeros beyond d and m.
 *
 * The maximum. Any base is good that keeps 2^(score - base) in F32's range. So a query takes the largest score of its
 * first 32 keys as its base and keeps it: no further maxima, no rescaling. If a sum or an output of a group leaves the
 * range, or nearly (sg_softmax_out_of_range), the group runs again: first a pass finds its true maxima.
 *
 * Roofline, for a vector of 16 scores: matmuls take d / 16 cycles of the tile unit (1024 flop a cycle), 4 at d = 64 and
 * 8 at d = 128. The softmax takes 8 instructions; one a cycle issues beside tiles, two without. Storing a tile stalls
 * the tile unit for about 16 cycles: 2 cycles a vector for the scores and their outputs at d = 64, 3 at d = 128. With
 * AVX-512 BF16 nothing overlaps: d vdpbf16ps a vector of scores, and 4 cycles of softmax. */
#include "lanes16.h"
#include "vec.h"

#include <omp.h>

#if defined(__AMX_BF16__)
#include "bf16_tile_amx.h"
#else
#include "bf16_tile_avx512.h"
#endif

#define SG_BF16_INIT(file) SG_PASTE4(sg_bf16_, file, _init_, SG_LEVEL)

enum { SG_UNIT = 128, SG_STEPS = SG_UNIT / 32, SG_TASK = 256 / SG_SUB, SG_PAIR = 2 * SG_TILE };
enum { SG_Q = SG_COLS * SG_TILE, SG_O = SG_COLS * 512 }; /* numbers of 32 channels of a group */
enum { SG_SCORES = 32 * SG_SUB, SG_WEIGHTS = SG_UNIT * SG_SUB };

/* Bytes that packed keys and values of a chunk, and of a group of heads, stay below. */
enum { SG_CHUNK_BYTES = 512 << 10, SG_GROUP_BYTES = 64 << 20 };

typedef struct attend_job {
    const sg_attend_args *a;
    int64_t               n, m, h, hk, d;
    int64_t               depth, units, chunk; /* of 32 channels; of SG_UNIT keys; units in a chunk */
    int64_t               subs, task;          /* groups of SG_SUB queries; those of a task */
    int64_t               first;               /* head of keys of those packed */
    uint16_t             *k, *v;               /* a head is units * SG_UNIT * depth * 32 numbers */
    float                *bias;                /* of each key, in powers of two; -INFINITY beyond m */
} attend_job;

/* The state of a group of queries between units. */
typedef struct sub_state {
    float row_max[SG_SUB], base[SG_SUB], sum[SG_SUB]; /* row_max -INFINITY: no key so far; base is then 0 */
} sub_state;

/* The workspace of a task, in its thread's scratch. */
typedef struct attend_workspace {
    uint16_t  *q;          /* [subs][depth][2][16][16][2] */
    float     *o;          /* [subs][depth][2][2][16][16] */
    float     *score[2];   /* of a step */
    uint16_t  *weight[2];  /* of a unit */
    sub_state *state;      /* [subs] */
    int64_t    row, units; /* its first query; units of keys that its last one sees */
} attend_workspace;

static int64_t head_words(const attend_job *b) { return b->units * SG_STEPS * b->depth * SG_PAIR; }

/* Sets r to the workspace at p. Returns its bytes; p NULL: returns them only. */
static int64_t workspace_at(const attend_job *b, attend_workspace *r, char *p)
{
    int64_t used = 0;
    SG_PART(r->q, b->task * b->depth * SG_Q, p, used);
    SG_PART(r->o, b->task * b->depth * SG_O, p, used);
    SG_PART(r->state, b->task, p, used);
    for (int i = 0; i < 2; i++) {
        SG_PART(r->score[i], SG_SCORES, p, used);
        SG_PART(r->weight[i], SG_WEIGHTS, p, used);
    }
    return used;
}

/* ---- packing ---- */

/* Numbers e.. of the row of (token, head) in t [tokens, heads, d]; zeros for tokens beyond it. */
static __m512i load32(const sg_tensor *t, int64_t token, int64_t head, int64_t e)
{
    if (token >= t->dim[0]) return _mm512_setzero_si512();
    const uint16_t *const x = (const uint16_t *)t->data + (token * t->dim[1] + head) * t->dim[2] + e;
    return _mm512_maskz_loadu_epi16(sg_lanes32(t->dim[2] - e), x);
}

static __m512i load16(const sg_tensor *t, int64_t token, int64_t head, int64_t e)
{
    if (token >= t->dim[0] || e >= t->dim[2]) return _mm512_setzero_si512();
    const uint16_t *const x = (const uint16_t *)t->data + (token * t->dim[1] + head) * t->dim[2] + e;
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(sg_lanes16(t->dim[2] - e), x));
}

static void pack_unit(const attend_job *b, int64_t head, int64_t unit)
{
    const int64_t at = (head - b->first) * head_words(b) + unit * SG_STEPS * b->depth * SG_PAIR;
    for (int64_t i = 0; i < SG_UNIT; i++) {
        uint16_t *const k = b->k + at + i / 32 * b->depth * SG_PAIR + i % 32 * 32;
        for (int64_t e = 0; e < b->depth; e++)
            _mm512_store_si512(k + e * SG_PAIR, load32(&b->a->k, unit * SG_UNIT + i, head, e * 32));
    }
    uint16_t *v = b->v + at;
    for (int64_t e = 0; e < b->depth; e++)
        for (int64_t step = 0; step < SG_STEPS; step++)
            for (int64_t half = 0; half < 2; half++, v += SG_TILE) {
                __m512i x[16];
                for (int64_t i = 0; i < 16; i++) {
                    const int64_t key = unit * SG_UNIT + step * 32 + i * 2, c = e * 32 + half * 16;
                    const __m512i even = load16(&b->a->v, key, head, c);
                    const __m512i odd = load16(&b->a->v, key + 1, head, c);
                    x[i] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
                }
                sg_transpose16(x);
                for (int64_t i = 0; i < 16; i++) _mm512_store_si512(v + i * 32, x[i]);
            }
}

/* Packs group sub of the head, from query `row` on. */
static void pack_queries(const attend_job *b, const attend_workspace *w, int64_t head, int64_t row, int64_t sub)
{
    uint16_t *q = w->q + sub * b->depth * SG_Q;
    for (int64_t e = 0; e < b->depth; e++)
        for (int64_t col = 0; col < SG_COLS; col++, q += SG_TILE) {
            __m512i x[16];
            for (int64_t i = 0; i < 16; i++) x[i] = load32(&b->a->q, row + col * 16 + i, head, e * 32);
            sg_transpose16(x);
            for (int64_t i = 0; i < 16; i++) _mm512_store_si512(q + i * 32, x[i]);
        }
}

/* Divides the outputs of a group by their sums, rounds and writes them to y; zeros where no key counted. */
static void unpack_outputs(const attend_job *b, const attend_workspace *w, int64_t head, int64_t row, int64_t sub)
{
    const float *o = w->o + sub * b->depth * SG_O;
    for (int64_t e = 0; e < b->d; e += 16)
        for (int64_t col = 0; col < SG_COLS; col++, o += 256) {
            const __m512    sum = _mm512_load_ps(w->state[sub].sum + col * 16), one = _mm512_set1_ps(1.0f);
            const __mmask16 some = _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NEQ_UQ);
            const __m512    by = _mm512_div_ps(one, sum);
            __m512i         x[16];
            for (int64_t i = 0; i < 16; i++)
                x[i] = _mm512_castps_si512(_mm512_maskz_mul_ps(some, _mm512_load_ps(o + i * 16), by));
            sg_transpose16(x);
            for (int64_t i = 0; i < 16 && row + col * 16 + i < b->n; i++) {
                uint16_t *const y = (uint16_t *)b->a->y.data + ((row + col * 16 + i) * b->h + head) * b->d + e;
                const __m256i   r = (__m256i)_mm512_cvtneps_pbh(_mm512_castsi512_ps(x[i]));
                _mm256_mask_storeu_epi16(y, sg_lanes16(b->d - e), r);
            }
        }
}

/* ---- the walk ---- */

/* A unit of a group, and the chunk that both are in. */
typedef struct place {
    int64_t sub, unit, from, to;
} place;

static void advance(const attend_job *b, place *p, int64_t units, int64_t sub, int64_t end)
{
    if (++p->unit < p->to) return;
    if (++p->sub == end) {
        p->sub = sub;
        p->from = p->to;
        p->to = sg_min64(p->to + b->chunk, units);
    }
    p->unit = p->from;
}

/* Raises the bases to the largest scores of a step, ignoring NaN. */
static void raise(const sg_softmax *w, sub_state *s)
{
    const __m512 none = _mm512_set1_ps(-INFINITY);
    for (int col = 0; col < SG_COLS; col++) {
        __m512 row_max = _mm512_load_ps(s->row_max + col * 16);
        for (int64_t key = 0; key < 32; key++) {
            const __m512 x = _mm512_load_ps(w->score + (key / 16 * SG_COLS + col) * 256 + key % 16 * 16);
            row_max = _mm512_max_ps(_mm512_fmadd_ps(x, w->by, _mm512_set1_ps(w->bias[key])), row_max);
        }
        _mm512_store_ps(s->row_max + col * 16, row_max);
        const __mmask16 some = _mm512_cmp_ps_mask(row_max, none, _CMP_NEQ_OQ);
        _mm512_store_ps(s->base + col * 16, _mm512_maskz_sub_ps(some, row_max, _mm512_set1_ps(SG_ABOVE)));
    }
}

/* Keys beyond m are zeros, and so are their scores, unless a query is infinite. */
static void clear_beyond(float *score, int64_t keys)
{
    for (int64_t key = keys < 0 ? 0 : keys; key < 32; key++)
        for (int64_t i = 0; i < SG_SUB; i++) score[(key / 16 * SG_COLS + i / 16) * 256 + key % 16 * 16 + i % 16] = 0;
}

/* Hides from each query of a group the keys of a step that it does not see: the first query sees `keys` of them, each
 * further one the next, too. */
static void hide(float *score, int64_t keys)
{
    for (int64_t key = keys < 0 ? 0 : keys; key < 32; key++)
        for (int64_t i = 0; i < SG_SUB && i <= key - keys; i++)
            score[(key / 16 * SG_COLS + i / 16) * 256 + key % 16 * 16 + i % 16] = -INFINITY;
}

/* The matmuls of a stage; either may be absent. */
typedef struct stage_args {
    const uint16_t *k, *q, *v, *weight;
    float          *score, *o;
    int64_t         depth, scores, outputs; /* groups of 32 rows */
    bool            last;                   /* the outputs need all weights of this stage */
} stage_args;

static inline __attribute__((always_inline)) void stage_by(const stage_args *t, const sg_softmax *w, unsigned quads,
                                                           bool biased)
{
    sg_softmax mine = *w;
    sg_tiles(t->k, t->q, t->score, t->scores, t->depth, false, &mine, quads, biased);
    while (t->last && mine.at < mine.end) sg_softmax_run(&mine, quads, biased);
    sg_tiles(t->v, t->weight, t->o, t->outputs, SG_STEPS, true, &mine, quads, biased);
    while (mine.at < mine.end) sg_softmax_run(&mine, quads, biased);
}

/* Runs so many quads of the softmax after each block of matmuls that both end together. */
static void stage(const stage_args *t, const sg_softmax *w, bool biased)
{
    if (biased)
        t->depth > 4 ? stage_by(t, w, 1, true) : stage_by(t, w, 4, true);
    else if (t->depth > 4)
        stage_by(t, w, 1, false);
    else if (t->depth == 4)
        stage_by(t, w, 2, false);
    else
        stage_by(t, w, 4, false);
}

/* Attends to all keys for groups [sub, end) of a task. Stage i computes the scores of step i, the weights of step i -
 * 1, and a share of the outputs of the unit before that of step i. */
static void attend_groups(const attend_job *b, const attend_workspace *w, int64_t head, int64_t sub, int64_t end,
                          max_pass pass)
{
    const uint16_t *const k = b->k + (head / (b->h / b->hk) - b->first) * head_words(b), *const v = b->v + (k - b->k);
    const int64_t count = (end - sub) * w->units * SG_STEPS, unit_words = head_words(b) / b->units;
    place         now = {sub, 0, 0, sg_min64(b->chunk, w->units)}, last = now;
    for (int64_t i = 0; i < count + SG_STEPS; i++) {
        const int64_t step = i % SG_STEPS, unit = i / SG_STEPS, softmax = (i + SG_STEPS - 1) % SG_STEPS;
        if (i > 0 && step == 0) {
            last = now;
            if (i < count) advance(b, &now, w->units, sub, end);
        }
        const place *const p = step ? &now : &last;
        const int64_t      key = p->unit * SG_UNIT + softmax * 32;
        const int64_t      seen = b->a->causal ? w->row + p->sub * SG_SUB + b->m - b->n + 1 - key : 32;
        sub_state *const   state = &w->state[p->sub];
        sg_softmax         s = {.score = w->score[(i + 1) % 2],
                                .bias = b->bias + key,
                                .weight = w->weight[(step ? unit : unit + 1) % 2] + softmax * SG_Q,
                                .base = state->base,
                                .sum = state->sum,
                                .by = _mm512_set1_ps(b->a->scale * SG_LOG2E)};
        if (i > 0 && i <= count) {
            if (key + 32 > b->m) clear_beyond(w->score[(i + 1) % 2], b->m - key);
            if (seen < 32) hide(w->score[(i + 1) % 2], seen);
            if (pass == MAX_SEARCHED || (pass == MAX_GUESSED && key == 0)) raise(&s, state);
            if (pass != MAX_SEARCHED) s.end = SG_QUADS;
        }
        const int64_t    from = step * b->depth / SG_STEPS, to = (step + 1) * b->depth / SG_STEPS;
        const stage_args t = {.k = k + now.unit * unit_words + step * b->depth * SG_PAIR,
                              .q = w->q + now.sub * b->depth * SG_Q,
                              .v = v + last.unit * unit_words + from * SG_STEPS * SG_PAIR,
                              .weight = w->weight[(unit + 1) % 2],
                              .score = w->score[i % 2],
                              .o = w->o + (last.sub * b->depth + from) * SG_O,
                              .depth = b->depth,
                              .scores = i < count ? 1 : 0,
                              .outputs = (unit > 0 && pass != MAX_SEARCHED) ? to - from : 0,
                              .last = step == 0};
        stage(&t, &s, b->a->key_bias.rank || key + 32 > b->m || seen < 32);
    }
}

static void clear_sub(const attend_job *b, const attend_workspace *w, int64_t sub)
{
    memset(w->o + sub * b->depth * SG_O, 0, (size_t)(b->depth * SG_O) * sizeof(float));
    for (int i = 0; i < SG_SUB; i++) w->state[sub].row_max[i] = -INFINITY;
    memset(w->state[sub].sum, 0, sizeof w->state[sub].sum);
}

/* Groups [first, end) of a head. */
static void attend_task(const attend_job *b, attend_workspace *w, int64_t head, int64_t first, int64_t end)
{
    const int64_t subs = end - first, last = sg_min64(end * SG_SUB, b->n);
    w->row = first * SG_SUB;
    w->units = b->a->causal ? sg_div_up(last + b->m - b->n, SG_UNIT) : b->units;
    for (int64_t i = 0; i < subs; i++) {
        pack_queries(b, w, head, (first + i) * SG_SUB, i);
        clear_sub(b, w, i);
    }
    attend_groups(b, w, head, 0, subs, MAX_GUESSED);
    for (int64_t i = 0; i < subs; i++) {
        if (sg_softmax_out_of_range(w->state[i].sum, w->o + i * b->depth * SG_O, b->depth * SG_O)) {
            clear_sub(b, w, i);
            attend_groups(b, w, head, i, i + 1, MAX_SEARCHED);
            attend_groups(b, w, head, i, i + 1, MAX_KNOWN);
        }
        unpack_outputs(b, w, head, (first + i) * SG_SUB, i);
    }
}

/* ---- the entry ---- */

static void shape(attend_job *b, int threads)
{
    b->depth = sg_div_up(b->d, 32);
    b->units = sg_div_up(b->m, SG_UNIT);
    b->subs = sg_div_up(b->n, SG_SUB);
    const int64_t fit = SG_CHUNK_BYTES / (SG_STEPS * b->depth * SG_PAIR * 4);
    b->chunk = fit < 1 ? 1 : fit;
    b->task = sg_min64(SG_TASK, b->subs);
    while (b->task > 1 && b->h * sg_div_up(b->subs, b->task) < 4 * threads) b->task = sg_div_up(b->task, 2);
}

static void fill_bias(const attend_job *b)
{
    const float *const bias = sg_f32_at(&b->a->key_bias, 0);
    for (int64_t i = 0; i < b->m; i++) b->bias[i] = bias ? bias[i] * SG_LOG2E : 0;
    for (int64_t i = b->m; i < b->units * SG_UNIT; i++) b->bias[i] = -INFINITY;
}

static void attend_heads(const attend_job *b, int threads, int64_t heads, char *workspaces)
{
    const int64_t tasks = sg_div_up(b->subs, b->task), g = b->h / b->hk;
#pragma omp parallel num_threads(threads)
    {
        attend_workspace mine;
        const unsigned   control = _mm_getcsr();
        workspace_at(b, &mine, workspaces + omp_get_thread_num() * workspace_at(b, &mine, NULL));
        _mm_setcsr(control | 0x8040); /* denormals are zeros, as in the tile unit */
        sg_tiles_open();
#pragma omp for schedule(static)
        for (int64_t i = 0; i < heads * b->units; i++) pack_unit(b, b->first + i / b->units, i % b->units);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < heads * g * tasks; i++) { /* of a head the last first, which are the longest */
            const int64_t sub = (tasks - 1 - i % tasks) * b->task;
            attend_task(b, &mine, b->first * g + i / tasks, sub, sg_min64(sub + b->task, b->subs));
        }
        sg_tiles_close();
        _mm_setcsr(control);
    }
}

static sg_status attend(sg_stream *s, const sg_attend_args *a)
{
    sg_cpu *const cpu = sg_cpu_of(s);
    attend_job b = {.a = a, .n = a->q.dim[0], .m = a->k.dim[0], .h = a->q.dim[1], .hk = a->k.dim[1], .d = a->q.dim[2]};
    const bool shown = a->causal && !(a->scale > 0); /* by such a scale a hidden score would not stay -INFINITY */
    if (a->q.dtype != SG_BF16 || a->bias.rank || shown || sg_count(a->q) == 0 || b.m == 0)
        return sg_vec_attend_avx512(s, a);
    shape(&b, cpu->threads);
    const int64_t head_bytes = 4 * head_words(&b), fit = SG_GROUP_BYTES / head_bytes;
    const int64_t group = fit < 1 ? 1 : sg_min64(fit, b.hk);
    const int64_t workspaces = cpu->threads * workspace_at(&b, &(attend_workspace){0}, NULL);
    char *const   p = sg_cpu_scratch(
          cpu, SG_SLOT_WORK, (size_t)(workspaces + group * head_bytes + b.units * SG_UNIT * (int64_t)sizeof(float)));
    if (!p) return SG_E_MEMORY;
    b.k = (uint16_t *)(p + workspaces);
    b.v = b.k + group * head_words(&b);
    b.bias = (float *)(b.v + group * head_words(&b));
    fill_bias(&b);
    for (b.first = 0; b.first < b.hk; b.first += group)
        attend_heads(&b, cpu->threads, sg_min64(group, b.hk - b.first), p);
    return SG_OK;
}

void SG_BF16_INIT(attend)(sg_ops *t) { t->attend = attend; }
