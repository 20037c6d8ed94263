/* int8_blocks.c - attend_blocks with q k^T in 8 bits, and with p v in 8 bits where values are I8, else in F32. Compiled for
 * AVX2, AVX-VNNI and AVX-512 VNNI. Heads of more than SG_CHANNELS, and a PV filter over other groups of rows than these,
 * go to vec_blocks.c.
 *
 * Queries lie along the vectors: scores are k q^T, [keys, queries], outputs v^T p, [channels, queries]. So maxima and
 * sums need no shuffles, and each instruction multiplies four channels, or keys, of a row, broadcast to all lanes, by
 * those of SG_LANES queries (int8_lanes.h).
 *
 * Weights for I8 values. In each tile of 64 keys the scale is a query's largest logit, in powers of two: p =
 * round(SG_WEIGHT 2^(logit - largest)). A tile's outputs count times 2^(largest - base), in F32. The base of a query is the
 * largest logit of its first tile until another is more than SG_RESCALE_LAG above it, so outputs are rarely rescaled. For
 * other values p = 2^(logit - base), in F32.
 *
 * Sums of scores start from the bits of the number SG_MAGIC, too. Read as F32 the result is SG_MAGIC plus the score: exact, and
 * without a conversion.
 *
 * Loops. A task is a block of queries of one head. It loops over chunks of tiles, which fit into the L2 cache, and in
 * each chunk over its SG_SUBS groups of two vectors of queries, whose scores, weights and outputs stay in L1. Layouts, in
 * the order of access, with SG_ROWS of keys or channels multiplied together:
 *
 *   - q [groups][d / 4][SG_SUB queries][4]
 *   - k [tiles][64 / SG_ROWS][d / 4][SG_PARTS][SG_ROWS keys][4]
 *   - v, I8 [tiles][d / SG_ROWS][64 / 4][SG_PARTS][SG_ROWS channels][4 keys], else F32 [tiles][d][64 keys]
 *   - score [64 keys][SG_SUB], p [64 / 4][SG_SUB][4], o [groups][d][SG_SUB]
 *
 * Roofline, for a vector of SG_LANES scores, in vector instructions, loads aside. I8 values: matmuls d / 4 + d / 4 by VNNI,
 * d + d by AVX2 (exclusive or, vpmaddubsw, vpmaddwd, sum); maximum 1; weights 9, by AVX2 13 (logit 2, power 5 or 9, sum,
 * integer); their packing 1; outputs to F32 d / 32. F32 values: d for their matmul, in the place of the second, packing and
 * outputs. Two ports run all of these, on AVX2 a third one exclusive ors and sums of integers; F32 alone takes 2 d for the
 * matmuls. NOTES.md has what was measured. A tile of the tail takes a tenth more. Queries, outputs and packing cost a task as
 * much as two tiles, which counts for short lists. */
#include "int8_pack.h"

#include <omp.h>

#define SG_RESCALE_LAG 32.0f
#define SG_WEIGHT 255.0f

/* ---- a tile and a group of queries ---- */

/* The map from scores s, as F32, to logits less the tile's largest: by (s - peak) + add, for each group of keys. best:
 * the largest logit. */
typedef struct tile_logits {
    sg_lanes by[SG_GROUPS][2], peak[SG_GROUPS][2], add[SG_GROUPS][2], best[2];
} tile_logits;

#if defined(__AVX512F__)
#define SG_EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define SG_EACH_ROW(X) X(0) X(1) X(2) X(3)
#endif

/* sum[r][l] = first[r] + sum over i < depth of x[i][r] a[i][l], products of four, for SG_ROWS rows r and SG_SUB lanes l.
 * Without by c = sum, else c += by[l] sum as F32. The sums are named one by one and the function is not inlined where it is
 * used: else gcc 12 moves them about, at half the speed. */
SG_INLINE void multiply(const uint8_t *x, const int32_t *first, const uint8_t *a, int64_t depth, const sg_lanes *by,
                        float *c)
{
#define ROW(r) sg_lane_ints c##r##_0 = sg_four(first + r), c##r##_1 = c##r##_0;
    SG_EACH_ROW(ROW)
#undef ROW
    for (; depth > 0; depth--, a += 4 * SG_SUB, x += SG_PARTS * 4 * SG_ROWS) {
        const sg_lane_ints a0 = *(const sg_lane_ints *)a, a1 = *(const sg_lane_ints *)(a + 4 * SG_LANES);
#define ROW(r)                                                                                                         \
    const sg_lane_ints x##r = sg_four(x + r * 4), sign##r = sg_four(x + (SG_PARTS - 1) * 4 * SG_ROWS + r * 4);         \
    sg_dot(&c##r##_0, a0, x##r, sign##r);                                                                              \
    sg_dot(&c##r##_1, a1, x##r, sign##r);
        SG_EACH_ROW(ROW)
#undef ROW
    }
#define ROW(r)                                                                                                         \
    if (by) {                                                                                                          \
        *lanes_at(c + r * SG_SUB, 0) += sg_float_of(c##r##_0) * by[0];                                                 \
        *lanes_at(c + r * SG_SUB, 1) += sg_float_of(c##r##_1) * by[1];                                                 \
    } else {                                                                                                           \
        *lanes_at(c + r * SG_SUB, 0) = (sg_lanes)c##r##_0;                                                             \
        *lanes_at(c + r * SG_SUB, 1) = (sg_lanes)c##r##_1;                                                             \
    }
    SG_EACH_ROW(ROW)
#undef ROW
}

static __attribute__((noinline)) void multiply_keys(const uint8_t *k, const int32_t *first, const uint8_t *q,
                                                    int64_t depth, float *score)
{
    multiply(k, first, q, depth, NULL, score);
}

static __attribute__((noinline)) void multiply_values(const uint8_t *v, const int32_t *first, const uint8_t *p,
                                                      const sg_lanes *by, float *o)
{
    multiply(v, first, p, SG_BLOCK_K / 4, by, o);
}
#undef SG_EACH_ROW

/* Prefetches `bytes` bytes from p + ahead on. */
static inline void ask(const void *p, int64_t ahead, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + ahead + i, _MM_HINT_T0);
}

/* Computes the scores of tile `at`; peak gets the largest of each group of keys. */
static void scores(const int8_job *b, const uint8_t *q, int64_t at, int64_t next, float *score,
                   sg_lanes peak[SG_GROUPS][2])
{
    const int64_t  step = SG_PARTS * SG_ROWS * b->dk;
    const uint8_t *k = b->k + at * b->k_bytes;
    const int32_t *first = b->keys[at].first;
    for (int g = 0; g < SG_GROUPS; g++) {
        sg_lanes row_max[2] = {sg_splat(0.0f), sg_splat(0.0f)}; /* below SG_MAGIC and any score */
        for (int part = 0; part < SG_BLOCK_SUB / SG_ROWS;
             part++, k += step, first += SG_ROWS, score += SG_ROWS * SG_SUB) {
            ask(k, (next - at) * b->k_bytes, step);
            multiply_keys(k, first, q, b->dk / 4, score);
            for (int r = 0; r < SG_ROWS; r++)
                for (int col = 0; col < 2; col++)
                    row_max[col] = sg_lanes_max(row_max[col], *lanes_at(score + r * SG_SUB, col));
        }
        peak[g][0] = row_max[0];
        peak[g][1] = row_max[1];
    }
}

/* The weight of the score at key and col, SG_WEIGHT or 1 where it is the largest. */
SG_INLINE sg_lanes weight_at(const float *score, const tile_logits *t, int g, int col, float unit, bool exact)
{
    const sg_lanes s = *lanes_at(score, col) - t->peak[g][col];
    return sg_power(unit, s * t->by[g][col] + t->add[g][col], exact);
}

/* Turns scores into rounded weights. The sums are of unrounded ones: weights far below a peak all round down to 0. */
SG_INLINE void weights_as(const float *score, const tile_logits *t, uint8_t *p, sg_lanes sum[2], bool exact)
{
    sum[0] = sum[1] = sg_splat(0.0f);
    for (int g = 0; g < SG_GROUPS; g++)
        for (int part = 0; part < SG_BLOCK_SUB / 4; part++, score += 4 * SG_SUB, p += 4 * SG_SUB)
#pragma GCC unroll 2
            for (int col = 0; col < 2; col++) {
                sg_lanes y[4];
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) {
                    y[r] = weight_at(score + r * SG_SUB, t, g, col, SG_WEIGHT, exact);
                    sum[col] += y[r];
                }
                *(sg_lane_ints *)(p + col * 4 * SG_LANES) = sg_bytes_of(y) ^ (int32_t)((128 - SG_LIFT) * 0x01010101u);
            }
}

static void weights(const float *score, const tile_logits *t, uint8_t *p, sg_lanes sum[2], bool exact)
{
    exact ? weights_as(score, t, p, sum, true) : weights_as(score, t, p, sum, false);
}

/* The same in place, as F32. */
SG_INLINE void float_weights_as(float *score, const tile_logits *t, sg_lanes sum[2], bool exact)
{
    sum[0] = sum[1] = sg_splat(0.0f);
    for (int g = 0; g < SG_GROUPS; g++)
        for (int r = 0; r < SG_BLOCK_SUB; r++, score += SG_SUB)
#pragma GCC unroll 2
            for (int col = 0; col < 2; col++) {
                const sg_lanes y = weight_at(score, t, g, col, 1.0f, exact);
                sum[col] += y;
                *lanes_at(score, col) = y;
            }
}

static void float_weights(float *score, const tile_logits *t, sg_lanes sum[2], bool exact)
{
    exact ? float_weights_as(score, t, sum, true) : float_weights_as(score, t, sum, false);
}

/* o += by (v^T p) */
static void outputs(const int8_job *b, const uint8_t *p, char *v, float *o, int64_t ahead, const sg_lanes by[2])
{
    enum { STEP = SG_PARTS * SG_ROWS * SG_BLOCK_K };
    const int32_t *const first = first_of_values(b, v);
    for (int64_t e = 0; e < b->dv; e += SG_ROWS, v += STEP) {
        ask(v, ahead, STEP);
        multiply_values((const uint8_t *)v, first + e, p, by, o + e * SG_SUB);
    }
}

/* o += v^T p */
static void float_outputs(const float *p, const float *v, float *o, int64_t dv)
{
    const float *a[SG_MR];
    for (int64_t e = 0; e < dv; e += SG_MR) {
        for (int64_t i = 0; i < SG_MR; i++) a[i] = v + (e + i) * SG_BLOCK_K;
        sg_tile(a, 1, SG_BLOCK_K, p, SG_NR, o + e * SG_SUB, SG_SUB, false);
    }
}

/* The lanes of the queries from `row` on to which a key of a tile is visible. */
static sg_lane_ints visible(const sg_blocks_tile *t, int64_t key, int64_t row)
{
    sg_lane_ints some = {0};
    for (int l = 0; l < SG_LANES; l++) some[l] = sg_blocks_visible(t, row + l) >> key & 1 ? -1 : 0;
    return some;
}

/* The same for visible keys only, where others may have values that are not finite. */
static void outputs_of_seen(const int8_job *b, const sg_blocks_tile *t, const float *p, const float *v, float *o,
                            int64_t row)
{
    for (int64_t key = 0; key < SG_BLOCK_K; key++)
        for (int col = 0; col < 2; col++) {
            const sg_lane_ints seen = visible(t, key, row + col * SG_LANES);
            const sg_lanes     none = {0}, own = *lanes_at(p + key * SG_SUB, col);
            for (int64_t e = 0; e < b->s.d; e++)
                *lanes_at(o + e * SG_SUB, col) += sg_pick(seen, own * v[e * SG_BLOCK_K + key], none);
        }
}

/* All keys visible, no bias: the largest logits follow from the largest scores. */
static void logits_of_peaks(tile_logits *l)
{
    for (int col = 0; col < 2; col++) {
        sg_lanes row_max[SG_GROUPS], best = sg_splat(-INFINITY);
        for (int g = 0; g < SG_GROUPS; g++) {
            row_max[g] = (l->peak[g][col] - SG_MAGIC) * l->by[g][col];
            best = sg_lanes_max(best, row_max[g]);
        }
        l->best[col] = best;
        for (int g = 0; g < SG_GROUPS; g++) l->add[g][col] = row_max[g] - best;
    }
}

/* Scores that are logits already: the identity map, with their largest. */
static void logits_as_they_are(tile_logits *l, int col, sg_lanes best)
{
    const sg_lanes none = {0};
    l->best[col] = best;
    for (int g = 0; g < SG_GROUPS; g++) {
        l->by[g][col] = sg_splat(1.0f);
        l->peak[g][col] = none;
        l->add[g][col] = sg_pick(best != sg_splat(-INFINITY), none - best, none);
    }
}

/* Turns scores into logits, -INFINITY at hidden keys. Branches on the keys would be mispredicted, so each kind of key
 * has its own loop. */
static void logits_of_keys(tile_logits *l, const sg_blocks_tile *t, float *score)
{
    const sg_lanes hidden = sg_splat(-INFINITY);
    sg_lanes       best[2] = {hidden, hidden};
    for (uint64_t rest = ~t->seen; rest; rest &= rest - 1) {
        float *const s = score + __builtin_ctzll(rest) * SG_SUB;
        *lanes_at(s, 0) = *lanes_at(s, 1) = hidden;
    }
    for (uint64_t rest = t->seen; rest; rest &= rest - 1) {
        const int   key = __builtin_ctzll(rest);
        const float add = (t->add + (t->bias ? t->bias[key] : 0.0f)) * SG_LOG2E;
        for (int col = 0; col < 2; col++) {
            sg_lanes *const s = lanes_at(score + key * SG_SUB, col);
            *s = (*s - SG_MAGIC) * l->by[key / SG_BLOCK_SUB][col] + add;
            best[col] = sg_lanes_max(best[col], *s);
        }
    }
    for (int col = 0; col < 2; col++) {
        sg_lane_ints is_nan = {0}; /* the maximum drops NaN */
        for (int g = 0; g < SG_GROUPS; g++) is_nan |= l->by[g][col] != l->by[g][col];
        logits_as_they_are(l, col, sg_pick(is_nan, sg_splat(NAN), best[col]));
    }
}

/* Turns scores into logits one by one, -INFINITY where the key is hidden from queries, of those from `row` on. */
static void logits_of_edge(tile_logits *l, const sg_blocks_tile *t, float *score, int64_t row)
{
    for (int col = 0; col < 2; col++) {
        sg_lanes     best = sg_splat(-INFINITY);
        sg_lane_ints is_nan = {0};
        for (int64_t key = 0; key < SG_BLOCK_K; key++) {
            sg_lanes *const    s = lanes_at(score + key * SG_SUB, col);
            const sg_lane_ints seen = visible(t, key, row + col * SG_LANES);
            *s = sg_pick(seen, (*s - SG_MAGIC) * l->by[key / SG_BLOCK_SUB][col], sg_splat(-INFINITY));
            is_nan |= *s != *s;
            best = sg_lanes_max(best, *s);
        }
        logits_as_they_are(l, col, sg_pick(is_nan, sg_splat(NAN), best));
    }
}

/* Whether the first `rows` rows of a group may all skip the tile. */
static bool left_out(const sub_state *s, const tile_logits *l, int64_t rows, float pv_threshold)
{
    for (int64_t r = 0; r < rows && pv_threshold != INFINITY; r++)
        if (!(l->best[r / SG_LANES][r % SG_LANES] < s->row_max[r] - pv_threshold)) return false;
    return pv_threshold != INFINITY;
}

/* Updates the row maxima with those of a tile. Sets `by`, the factor of its weights. Raises bases that are too low and
 * rescales the sums. */
static void rescale_outputs(const int8_job *b, sub_state *s, float *o, tile_logits *l, sg_lanes by[2])
{
    const sg_lanes zero = {0}, hidden = sg_splat(-INFINITY);
    for (int col = 0; col < 2; col++) {
        const sg_lanes     best = l->best[col], was = *lanes_at(s->base, col);
        const sg_lane_ints up = best > was + SG_RESCALE_LAG, some = best != hidden;
        const sg_lanes     base = sg_pick(up, best, was), over = sg_pick(some, best - base, zero);
        by[col] = sg_pick(some, b->bytes ? sg_lanes_exp(over * 0.693147180559945309f) : sg_splat(1.0f), zero);
        for (int g = 0; g < SG_GROUPS && !b->bytes; g++) l->add[g][col] += over;
        *lanes_at(s->base, col) = base;
        *lanes_at(s->row_max, col) = sg_lanes_max(*lanes_at(s->row_max, col), best);
        if (sg_all(~(up & (was != hidden)))) continue; /* nothing was summed, or nothing is to be raised */
        const sg_lanes power = sg_lanes_exp((was - base) * 0.693147180559945309f);
        const sg_lanes rescale = sg_pick(up, power, sg_splat(1.0f));
        *lanes_at(s->sum, col) *= rescale;
        *lanes_at(s->lost, col) *= rescale;
        for (int64_t e = 0; e < b->dv; e++) *lanes_at(o + e * SG_SUB, col) *= rescale;
    }
}

/* Adds a tile to group `sub` of a task, whose `rows` queries are those from `row` on. With pv_threshold it may skip the
 * tile. Returns whether it did. */
static bool visit(const int8_job *b, const int8_workspace *w, const sg_blocks_tile *t, int64_t at, int64_t next,
                  int64_t sub, int64_t row, int64_t rows, float pv_threshold)
{
    sub_state *const s = &w->state[sub];
    char *const      v = b->v + at * b->v_bytes;
    float *const     o = w->o + sub * b->dv * SG_SUB;
    const bool       exact = b->s.count != NULL; /* counts use unrounded weights */
    sg_lanes         by[2], sum[2];
    tile_logits      l;
    for (int g = 0; g < SG_GROUPS; g++)
        for (int col = 0; col < 2; col++) l.by[g][col] = *lanes_at(s->scale, col) * b->keys[at].scale[g];
    scores(b, w->q + sub * b->dk * SG_SUB, at, next, w->score, l.peak);
    if (t->index < b->s.nk && sg_blocks_visible(t, row) == ~0ull)
        logits_of_peaks(&l);
    else if (!t->edge)
        logits_of_keys(&l, t, w->score);
    else
        logits_of_edge(&l, t, w->score, row);
    const bool out = left_out(s, &l, rows, pv_threshold);
    rescale_outputs(b, s, o, &l, by);
    if (b->bytes)
        weights(w->score, &l, w->p, sum, exact);
    else
        float_weights(w->score, &l, sum, exact);
    for (int col = 0; col < 2; col++) *lanes_at(out ? s->lost : s->sum, col) += sum[col] * by[col];
    if (out) return true;
    if (b->bytes)
        outputs(b, w->p, v, o, (next - at) * b->v_bytes, by);
    else if (b->keys[at].non_finite && (t->edge || ~t->seen))
        outputs_of_seen(b, t, w->score, (const float *)v, o, row);
    else
        float_outputs(w->score, (const float *)v, o, b->dv);
    return false;
}

/* ---- the entry ---- */

#if defined(__AVX512F__)
#define SG_OTHER_BLOCKS sg_vec_blocks_avx512
#else
#define SG_OTHER_BLOCKS sg_vec_blocks_avx2
#endif

/* Block i of queries of a head. */
static void attend_task(const void *job, const void *workspace, int64_t head, int64_t i)
{
    const int8_job *const       b = job;
    const int8_workspace *const w = workspace;
    const int64_t               row = i * SG_BLOCK_Q, rows = sg_min64(SG_BLOCK_Q, b->s.n - row);
    const int64_t               from = sg_blocks_ring_at(&b->s, head / b->s.serves);
    const float                 pv_threshold = b->s.count ? ((const float *)b->s.a->pv_threshold.data)[head] : INFINITY;
    sg_blocks_iterator          iterator;
    sg_blocks_count             count = {0};
    sg_blocks_tile              t[SG_CHUNK];
    int64_t                     tiles = b->chunk;
    sg_blocks_begin(&iterator, &b->s, head, i);
    task_begin(b, w, head, row, rows);
    for (bool first = true; tiles == b->chunk; first = false) {
        for (tiles = 0; tiles < b->chunk && sg_blocks_next(&iterator, &t[tiles]);) tiles++;
        for (int64_t r = 0; r < rows; r += SG_SUB)
            for (int64_t j = 0; j < tiles; j++) {
                const bool filters = (j > 0 || !first) && t[j].index < b->s.nk;
                count.skips += visit(b, w, &t[j], from + t[j].index, from + t[(j + 1) % tiles].index, r / SG_SUB,
                                     row + r, sg_min64(SG_SUB, rows - r), filters ? pv_threshold : INFINITY);
            }
    }
    count.share = task_end(b, w, head, row, rows);
    if (b->s.count) b->s.count[head * b->s.nq + i] = count;
}

static void attend_heads(const int8_job *b, int threads, char *workspaces)
{
#pragma omp parallel num_threads(threads)
    {
        int8_workspace mine;
        const unsigned control = _mm_getcsr();
        workspace_at(b, &mine, workspaces + omp_get_thread_num() * workspace_at(b, &mine, NULL));
        _mm_setcsr(control | 0x8040); /* denormals are slow, and negligible beside the largest weight */
        sg_blocks_heads(b, &mine, b->s.nq, pack_tile, attend_task);
        _mm_setcsr(control);
        _mm_sfence();
    }
}

sg_status SG_PASTE4(sg_int8_blocks_, SG_LEVEL, , )(sg_stream *s, const sg_attend_blocks_args *a)
{
    sg_cpu *const     cpu = sg_cpu_of(s);
    const char *const refusal =
        a->q.dim[2] > SG_CHANNELS ? "attend_blocks in F32, not I8: heads of more than 255 channels"
        : a->v.dtype == SG_F8     ? "attend_blocks in F32, not I8: F8 values"
        : a->pv_threshold.rank && a->pv_group != SG_SUB ? "attend_blocks in F32, not I8: a PV filter"
                                                        : NULL;
    if (refusal) {
        sg_fallback_count(&cpu->fallbacks, refusal);
        return SG_OTHER_BLOCKS(s, a);
    }
    int8_job      b = {.s = sg_blocks_job_of(a), .bytes = a->v.dtype == SG_I8};
    const int64_t whole = b.bytes ? SG_ROWS : SG_MR;
    b.dk = sg_div_up(b.s.d, 4) * 4;
    b.dv = sg_div_up(b.s.d, whole) * whole;
    b.k_bytes = SG_PARTS * SG_BLOCK_K * b.dk;
    b.v_bytes = b.dv * (b.bytes ? SG_PARTS * SG_BLOCK_K + 4 : SG_BLOCK_K * 4);
    const int64_t fit = SG_CHUNK_BYTES / (b.k_bytes + b.v_bytes);
    const int64_t workspaces = cpu->threads * workspace_at(&b, &(int8_workspace){0}, NULL);
    b.chunk = fit < 2 ? 2 : sg_min64(fit, SG_CHUNK);
    char *const p =
        sg_blocks_scratch(&b.s, cpu, workspaces, b.s.tiles * (b.k_bytes + b.v_bytes + (int64_t)sizeof(tile_keys)));
    if (!p) return SG_E_MEMORY;
    b.v = p;
    b.k = (uint8_t *)b.v + b.s.ring * b.s.tiles * b.v_bytes;
    b.keys = (tile_keys *)(b.k + b.s.ring * b.s.tiles * b.k_bytes);
    attend_heads(&b, cpu->threads, p - workspaces);
    sg_blocks_sum_counts(&b.s);
    return SG_OK;
}

void SG_PASTE4(sg_int8_blocks_init_, SG_LEVEL, , )(sg_ops *t)
{
    t->attend_blocks = SG_PASTE4(sg_int8_blocks_, SG_LEVEL, , );
}
