/* vnni_blocks.c - attend_blocks of I8 values by AVX-512 VNNI: both matmuls in 8 bits. Other values, and heads of more
 * than SG_CHANNELS, go to vec_blocks.c.
 *
 * Queries lie along the vectors: scores are k q^T, [keys, queries], outputs v^T p, [channels, queries]. So maxima and
 * sums need no shuffles, and each instruction multiplies four channels, or keys, of a row, broadcast to all lanes, by
 * those of 16 queries. The operand along the vectors is unsigned: weights, or queries plus 128, which the keys' sums
 * correct.
 *
 * Weights. In each tile of 64 keys the scale is a query's largest logit, in powers of two: p = round(255 2^(logit -
 * largest)). A tile's outputs count times 2^(largest - base), in F32. The base of a query is the largest logit of its
 * first tile until another is more than SG_RESCALE_LAG above it, so outputs are rarely rescaled.
 *
 * Sums of scores start from the bits of the number SG_MAGIC, less 128 times the sum of the key. Read as F32 the result
 * is SG_MAGIC plus the score: exact, and without a conversion.
 *
 * Loops. A task is a block of queries of one head. It loops over chunks of SG_CHUNK tiles, which fit into the L2 cache,
 * and in each chunk over its SG_SUBS groups of 32 queries, whose scores, weights and outputs stay in L1. Layouts, in
 * the order of access:
 *
 *   - q [groups][d / 4][32 queries][4]
 *   - k [tiles][8][d / 4][8 keys][4]
 *   - v [tiles][d / 8][64 / 4][8 channels][4 keys]
 *   - score [64 keys][32 queries], p [64 / 4][32 queries][4], o [groups][d][32 queries]
 *
 * Roofline, for a vector of 16 scores, in instructions, two a cycle: matmuls d / 4 + d / 4, maximum 1, weights 9 (logit
 * 2, fraction, polynomial of degree 3, power, sum, integer), their packing 1, outputs to F32 d / 32. That is 45 at d =
 * 64 and 79 at d = 128; F32 takes 2 d for the matmuls alone. Measured on Cascade Lake, a tile takes 29 cycles a vector
 * at d = 64 and 52 at d = 128: three quarters of that rate. A tile of the tail takes a tenth more. Queries, outputs and
 * packing cost a task as much as two tiles, which counts for short lists. */
#include "blocks.h"
#include "lanes16.h"

#include <omp.h>

enum { SG_SUB = SG_FILTER_ROWS, SG_SUBS = SG_BLOCK_Q / SG_SUB, SG_CHUNK = 24, SG_GROUPS = SG_BLOCK_K / SG_BLOCK_SUB };

enum { SG_CHANNELS = 255 };  /* d at most: scores stay below 2^22 */
#define SG_MAGIC 12582912.0f /* 1.5 2^23 */
#define SG_RESCALE_LAG 32.0f

typedef struct vnni_job {
    sg_blocks_job s;
    int64_t       dk, dv; /* d rounded up to fours; to eights */
    int8_t       *k, *v;  /* packed, of the heads of the ring; a tile is SG_BLOCK_K dk and SG_BLOCK_K dv */
    int32_t      *start;  /* [tiles][SG_BLOCK_K]: initial values of the scores' sums */
    float        *scale;  /* [tiles][SG_GROUPS] of k */
} vnni_job;

/* The state of SG_SUB queries between tiles. */
typedef struct sub_state {
    _Alignas(64) float scale[SG_SUB];    /* of queries, to powers of two */
    float base[SG_SUB], row_max[SG_SUB]; /* row_max: largest logit so far; -INFINITY: none */
    float sum[SG_SUB], lost[SG_SUB];     /* of weights; of those of skipped tiles */
} sub_state;

typedef struct vnni_workspace {
    uint8_t   *q;     /* [SG_SUBS][dk / 4][SG_SUB][4] */
    float     *o;     /* [SG_SUBS][dv][SG_SUB] */
    int32_t   *score; /* [SG_BLOCK_K][SG_SUB] */
    uint8_t   *p;     /* [SG_BLOCK_K / 4][SG_SUB][4] */
    sub_state *state; /* [SG_SUBS] */
    float     *row;   /* [16, dv] */
} vnni_workspace;

static int64_t workspace_bytes(const vnni_job *b)
{
    const int64_t group = SG_SUB * (b->dk + 4 * b->dv) + (int64_t)sizeof(sub_state);
    return SG_SUBS * group + SG_BLOCK_K * SG_SUB * 5 + 16 * b->dv * 4;
}

static vnni_workspace workspace_at(const vnni_job *b, char *p)
{
    vnni_workspace r = {.q = (uint8_t *)p};
    r.o = (float *)(p += SG_BLOCK_Q * b->dk);
    r.score = (int32_t *)(p += SG_BLOCK_Q * b->dv * 4);
    r.p = (uint8_t *)(p += SG_BLOCK_K * SG_SUB * 4);
    r.state = (sub_state *)(p += SG_BLOCK_K * SG_SUB);
    r.row = (float *)(p + SG_SUBS * (int64_t)sizeof(sub_state));
    return r;
}

/* sum += a dot product of four bytes. With the intrinsic gcc 12 copies the sum before and after, at half the speed. */
static inline void dot(__m512i *sum, __m512i a, __m512i x)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(x));
}

/* ---- packing ---- */

/* Bytes [e, e + 64) of 16 rows of d, of which there are `rows`: fours of them, each of all the rows. */
static inline void load_fours(__m512i x[16], const int8_t *row, int64_t rows, int64_t d, int64_t e)
{
    for (int64_t r = 0; r < 16; r++)
        x[r] = _mm512_maskz_loadu_epi8(r < rows ? sg_lanes64(d - e) : 0, row + (r < rows ? r * d + e : 0));
    sg_transpose16(x);
}

/* Packs the `rows` rows of a tile, and the initial values of their scores' sums. */
static void pack_keys(const vnni_job *b, int8_t *k, int32_t *start, const int8_t *row, int64_t rows)
{
    for (int64_t key = 0; key < SG_BLOCK_K; key += 16, k += 16 * b->dk) {
        __m512i sum = _mm512_setzero_si512();
        for (int64_t e = 0; e < b->dk; e += 64) {
            __m512i x[16];
            load_fours(x, key < rows ? row + key * b->s.d : row, rows - key, b->s.d, e);
            for (int64_t i = 0; i < 16 && e + i * 4 < b->dk; i++) {
                dot(&sum, _mm512_set1_epi8(1), x[i]);
                _mm256_storeu_si256((__m256i *)(k + (e + i * 4) * 8), _mm512_castsi512_si256(x[i]));
                _mm256_storeu_si256((__m256i *)(k + (b->dk + e + i * 4) * 8), _mm512_extracti64x4_epi64(x[i], 1));
            }
        }
        const __m512i magic = _mm512_castps_si512(_mm512_set1_ps(SG_MAGIC));
        _mm512_storeu_si512(start + key, _mm512_sub_epi32(magic, _mm512_slli_epi32(sum, 7)));
    }
}

/* Four rows of x, by eights of channels: y [dv / 8][SG_BLOCK_K / 4][8][4], of which it fills one in SG_BLOCK_K / 4. */
static void pack_eights(int8_t *y, const int8_t *x, int64_t rows, int64_t d)
{
    for (int64_t e = 0; e < d; e += 16, y += 16 * SG_BLOCK_K) {
        __m128i row[4];
        for (int64_t r = 0; r < 4; r++)
            row[r] = _mm_maskz_loadu_epi8(r < rows ? sg_lanes16(d - e) : 0, x + (r < rows ? r * d + e : 0));
        for (int half = 0; half < 2 && e + half * 8 < d; half++) {
            const __m128i  even = half ? _mm_unpackhi_epi8(row[0], row[1]) : _mm_unpacklo_epi8(row[0], row[1]);
            const __m128i  odd = half ? _mm_unpackhi_epi8(row[2], row[3]) : _mm_unpacklo_epi8(row[2], row[3]);
            __m128i *const to = (__m128i *)(y + half * 8 * SG_BLOCK_K);
            _mm_storeu_si128(to, _mm_unpacklo_epi16(even, odd));
            _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(even, odd));
        }
    }
}

static void pack_tile(const void *job, const void *workspace, int64_t head, int64_t tile)
{
    const vnni_job *const              b = job;
    const sg_attend_blocks_args *const a = b->s.a;
    const bool                         real = tile < b->s.nk;
    const int64_t                      at = sg_blocks_ring_at(&b->s, head) + tile, d = b->s.d;
    const int64_t                      first = (real ? tile : tile - b->s.nk) * SG_BLOCK_K;
    const int64_t                      all = real ? b->s.m : b->s.nk, rows = sg_min64(SG_BLOCK_K, all - first);
    const int8_t *const                x = (const int8_t *)(real ? a->k : a->tail_k).data + (head * all + first) * d;
    const int8_t *const                y = (const int8_t *)(real ? a->v : a->tail_v).data + (head * all + first) * d;
    int8_t *const k = b->k + at * SG_BLOCK_K * b->dk, *const v = b->v + at * SG_BLOCK_K * b->dv;
    (void)workspace;
    pack_keys(b, k, b->start + at * SG_BLOCK_K, x, rows);
    for (int64_t key = 0; key < SG_BLOCK_K; key += 4)
        pack_eights(v + key * 8, key < rows ? y + key * d : y, rows - key, d);
    for (int64_t g = 0; g < SG_GROUPS; g++)
        b->scale[at * SG_GROUPS + g] = sg_blocks_scale(&b->s, head, tile, g * SG_BLOCK_SUB);
}

/* Starts a task: packs the queries from `row` on and zeroes the sums. */
static void task_begin(const vnni_job *b, const vnni_workspace *w, int64_t head, int64_t row, int64_t rows)
{
    const sg_attend_blocks_args *const a = b->s.a;
    const int8_t *const                q = (const int8_t *)a->q.data + (head * b->s.n + row) * b->s.d;
    memset(w->o, 0, (size_t)(SG_BLOCK_Q * b->dv) * sizeof *w->o);
    for (int64_t i = 0; i < SG_BLOCK_Q; i += 16) {
        sub_state *const s = &w->state[i / SG_SUB];
        const int64_t    l = i % SG_SUB, at = (row + i) / a->q_group * b->s.h + head;
        const float      scale = i < rows ? ((const float *)a->q_scale.data)[at] * a->scale * SG_LOG2E : 0.0f;
        _mm512_store_ps(s->scale + l, _mm512_set1_ps(scale));
        _mm512_store_ps(s->base + l, _mm512_set1_ps(-INFINITY));
        _mm512_store_ps(s->row_max + l, _mm512_set1_ps(-INFINITY));
        _mm512_store_ps(s->sum + l, _mm512_setzero_ps());
        _mm512_store_ps(s->lost + l, _mm512_setzero_ps());
        for (int64_t e = 0; e < b->dk; e += 64) {
            uint8_t *const y = w->q + i / SG_SUB * b->dk * SG_SUB + e * SG_SUB + l * 4;
            __m512i        x[16];
            load_fours(x, i < rows ? q + i * b->s.d : q, rows - i, b->s.d, e);
            for (int64_t c = 0; c < 16 && e + c * 4 < b->dk; c++)
                _mm512_store_si512(y + c * 4 * SG_SUB, _mm512_xor_si512(x[c], _mm512_set1_epi8(-128)));
        }
    }
}

/* Divides outputs of 16 rows from i on by their sums, applies scale and center, and writes y; 0 where a sum is 0. */
static void finish(const vnni_job *b, const vnni_workspace *w, int64_t head, int64_t row, int64_t i, int64_t rows)
{
    const sg_attend_blocks_args *const a = b->s.a;
    const int64_t                      d = b->s.d, at = head / b->s.serves * d;
    const float *const                 scale = (const float *)a->v_scale.data + at;
    const float *const                 center = a->v_center.rank ? (const float *)a->v_center.data + at : NULL;
    const float *const                 o = w->o + i / SG_SUB * b->dv * SG_SUB + i % SG_SUB;
    const __m512                       sum = _mm512_load_ps(w->state[i / SG_SUB].sum + i % SG_SUB);
    const __m512                       by = _mm512_div_ps(_mm512_set1_ps(1.0f), sum);
    const __mmask16                    some = _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    for (int64_t e = 0; e < d; e += 16) {
        __m512i x[16];
        for (int64_t c = 0; c < 16; c++) {
            const int64_t from = sg_min64(e + c, d - 1);
            const __m512  z = _mm512_mul_ps(_mm512_load_ps(o + from * SG_SUB), by);
            const __m512  add = _mm512_set1_ps(center ? center[from] : 0.0f);
            x[c] = _mm512_castps_si512(_mm512_maskz_fmadd_ps(some, z, _mm512_set1_ps(scale[from]), add));
        }
        sg_transpose16(x);
        for (int64_t r = 0; r < rows; r++)
            _mm512_mask_storeu_ps(w->row + r * d + e, sg_lanes16(d - e), _mm512_castsi512_ps(x[r]));
    }
    for (int64_t r = 0; r < rows; r++) {
        const int64_t to = ((row + i + r) * b->s.h + head) * d;
        if (a->y.dtype == SG_F32)
            sg_stream_out((float *)a->y.data + to, w->row + r * d, d * (int64_t)sizeof(float));
        else
            sg_narrow((uint16_t *)a->y.data + to, w->row + r * d, d);
    }
}

/* Writes the outputs to y and sums the shares that the rows skipped. */
static double task_end(const vnni_job *b, const vnni_workspace *w, int64_t head, int64_t row, int64_t rows)
{
    double share = 0;
    for (int64_t i = 0; i < rows; i += 16) finish(b, w, head, row, i, sg_min64(16, rows - i));
    for (int64_t i = 0; i < rows; i++) {
        const sub_state *const s = &w->state[i / SG_SUB];
        const int64_t          l = i % SG_SUB;
        if (s->lost[l] > 0.0f) share += (double)s->lost[l] / ((double)s->lost[l] + (double)s->sum[l]);
    }
    return share;
}

/* ---- a tile and a group of queries ---- */

/* The map from scores s, as F32, to logits less the tile's largest: by (s - peak) + add, for each group of keys. best:
 * the largest logit. */
typedef struct tile_logits {
    __m512 by[SG_GROUPS][2], peak[SG_GROUPS][2], add[SG_GROUPS][2], best[2];
} tile_logits;

static inline __m512i four(const void *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}

/* c[r][l] = start[r] + sum over i < depth of a[i][l] x[i][r], products of four, for 8 rows r and SG_SUB lanes l. The
 * sums are named one by one and the function is not inlined: else gcc 12 moves them about, at half the speed. */
static __attribute__((noinline)) void matmul(const uint8_t *a, const int8_t *x, int64_t depth, const int32_t *start,
                                             int32_t *c)
{
#define SG_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define ROW(r) __m512i c##r##_0 = _mm512_set1_epi32(start[r]), c##r##_1 = c##r##_0;
    SG_ROWS(ROW)
#undef ROW
    for (; depth > 0; depth--, a += 4 * SG_SUB, x += 32) {
        const __m512i a0 = _mm512_load_si512(a), a1 = _mm512_load_si512(a + 64);
#define ROW(r)                                                                                                         \
    const __m512i x##r = four(x + r * 4);                                                                              \
    dot(&c##r##_0, a0, x##r);                                                                                          \
    dot(&c##r##_1, a1, x##r);
        SG_ROWS(ROW)
#undef ROW
    }
#define ROW(r)                                                                                                         \
    _mm512_store_si512(c + r * SG_SUB, c##r##_0);                                                                      \
    _mm512_store_si512(c + r * SG_SUB + 16, c##r##_1);
    SG_ROWS(ROW)
#undef ROW
#undef SG_ROWS
}

/* Prefetches `bytes` bytes from p + ahead on. */
static inline void ask(const int8_t *p, int64_t ahead, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + ahead + i, _MM_HINT_T0);
}

/* Computes the scores of a tile; peak gets the largest of each group of keys. */
static void scores(const uint8_t *q, const int8_t *k, const int32_t *start, int32_t *score, int64_t quads,
                   int64_t ahead, __m512 peak[SG_GROUPS][2])
{
    for (int g = 0; g < SG_GROUPS; g++) {
        __m512 row_max[2] = {_mm512_set1_ps(0.0f), _mm512_set1_ps(0.0f)}; /* below SG_MAGIC and any score */
        for (int half = 0; half < 2; half++, k += quads * 32, start += 8, score += 8 * SG_SUB) {
            ask(k, ahead, quads * 32);
            matmul(q, k, quads, start, score);
            for (int r = 0; r < 8; r++)
                for (int col = 0; col < 2; col++)
                    row_max[col] = _mm512_max_ps(row_max[col], _mm512_load_ps(score + r * SG_SUB + col * 16));
        }
        peak[g][0] = row_max[0];
        peak[g][1] = row_max[1];
    }
}

static inline __m512 exp2_of(__m512 x) { return (__m512)sg_lanes_exp((sg_lanes)x * 0.693147180559945309f); }

/* 255 2^x for x <= 0, with a relative error of 9e-5, or with `exact` of F32's rounding. 255 for 0, 0 for -INFINITY, NaN
 * for NaN. Minimax polynomials of degree 3 and 5 that are 1 at 0. */
static inline __attribute__((always_inline)) __m512 weight(__m512 x, bool exact)
{
    const __m512 f = _mm512_reduce_ps(x, 0x09); /* x - floor(x) */
    __m512       p;
    if (exact) {
        p = _mm512_fmadd_ps(f, _mm512_set1_ps(255 * 0.00186713088f), _mm512_set1_ps(255 * 0.00901702861f));
        p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(255 * 0.0557999143f));
        p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(255 * 0.24016445f));
        p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(255 * 0.693151312f));
    } else {
        p = _mm512_fmadd_ps(f, _mm512_set1_ps(255 * 0.0770671193f), _mm512_set1_ps(255 * 0.227644907f));
        p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(255 * 0.695116805f));
    }
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(255));
    return _mm512_scalef_ps(p, x);
}

/* Turns scores into rounded weights. The sums are of unrounded ones: weights far below a peak all round down to 0. */
static inline __attribute__((always_inline)) void weights_as(const int32_t *score, const tile_logits *t, uint8_t *p,
                                                             __m512 sum[2], bool exact)
{
    const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    sum[0] = sum[1] = _mm512_setzero_ps();
    for (int g = 0; g < SG_GROUPS; g++)
        for (int part = 0; part < SG_BLOCK_SUB / 4; part++, score += 4 * SG_SUB, p += 4 * SG_SUB)
#pragma GCC unroll 2
            for (int col = 0; col < 2; col++) {
                __m512i x[4];
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) {
                    const __m512 s = _mm512_sub_ps(_mm512_load_ps(score + r * SG_SUB + col * 16), t->peak[g][col]);
                    const __m512 y = weight(_mm512_fmadd_ps(s, t->by[g][col], t->add[g][col]), exact);
                    sum[col] = _mm512_add_ps(sum[col], y);
                    x[r] = _mm512_cvtps_epi32(y);
                }
                x[0] = _mm512_packus_epi16(_mm512_packus_epi32(x[0], x[1]), _mm512_packus_epi32(x[2], x[3]));
                _mm512_store_si512(p + col * 64, _mm512_shuffle_epi8(x[0], order));
            }
}

static void weights(const int32_t *score, const tile_logits *t, uint8_t *p, __m512 sum[2], bool exact)
{
    exact ? weights_as(score, t, p, sum, true) : weights_as(score, t, p, sum, false);
}

/* o += by (v^T p) */
static void outputs(const uint8_t *p, const int8_t *v, float *o, int64_t eights, int64_t ahead, const __m512 by[2])
{
    static const int32_t zeros[8];
    _Alignas(64) int32_t sum[8 * SG_SUB];
    for (; eights > 0; eights--, o += 8 * SG_SUB, v += 8 * SG_BLOCK_K) {
        ask(v, ahead, 8 * SG_BLOCK_K);
        matmul(p, v, SG_BLOCK_K / 4, zeros, sum);
        for (int i = 0; i < 8 * SG_SUB; i += 16) {
            const __m512 x = _mm512_cvtepi32_ps(_mm512_load_si512(sum + i));
            _mm512_store_ps(o + i, _mm512_fmadd_ps(x, by[i / 16 % 2], _mm512_load_ps(o + i)));
        }
    }
}

/* All keys visible, no bias: the largest logits follow from the largest scores. */
static void logits_of_peaks(tile_logits *l)
{
    const __m512 magic = _mm512_set1_ps(SG_MAGIC);
    for (int col = 0; col < 2; col++) {
        __m512 row_max[SG_GROUPS], best = _mm512_set1_ps(-INFINITY);
        for (int g = 0; g < SG_GROUPS; g++) {
            row_max[g] = _mm512_mul_ps(_mm512_sub_ps(l->peak[g][col], magic), l->by[g][col]);
            best = _mm512_max_ps(best, row_max[g]);
        }
        l->best[col] = best;
        for (int g = 0; g < SG_GROUPS; g++) l->add[g][col] = _mm512_sub_ps(row_max[g], best);
    }
}

/* Scores that are logits already: the identity map, with their largest. */
static void logits_as_they_are(tile_logits *l, int col, __m512 best)
{
    const __mmask16 some = _mm512_cmp_ps_mask(best, _mm512_set1_ps(-INFINITY), _CMP_NEQ_UQ);
    l->best[col] = best;
    for (int g = 0; g < SG_GROUPS; g++) {
        l->by[g][col] = _mm512_set1_ps(1.0f);
        l->peak[g][col] = _mm512_setzero_ps();
        l->add[g][col] = _mm512_maskz_sub_ps(some, _mm512_setzero_ps(), best);
    }
}

/* Turns scores into logits, -INFINITY at hidden keys. Branches on the keys would be mispredicted, so each kind of key
 * has its own loop. */
static void logits_of_keys(tile_logits *l, const sg_blocks_tile *t, int32_t *score)
{
    const __m512 magic = _mm512_set1_ps(SG_MAGIC), none = _mm512_set1_ps(-INFINITY);
    __m512       best[2] = {none, none};
    for (uint64_t rest = ~t->seen; rest; rest &= rest - 1) {
        int32_t *const s = score + __builtin_ctzll(rest) * SG_SUB;
        _mm512_store_ps(s, none);
        _mm512_store_ps(s + 16, none);
    }
    for (uint64_t rest = t->seen; rest; rest &= rest - 1) {
        const int      key = __builtin_ctzll(rest);
        const __m512   add = _mm512_set1_ps((t->add + (t->bias ? t->bias[key] : 0.0f)) * SG_LOG2E);
        int32_t *const s = score + key * SG_SUB;
        for (int col = 0; col < 2; col++) {
            const __m512 x = _mm512_sub_ps(_mm512_load_ps(s + col * 16), magic);
            const __m512 y = _mm512_fmadd_ps(x, l->by[key / SG_BLOCK_SUB][col], add);
            best[col] = _mm512_max_ps(best[col], y);
            _mm512_store_ps(s + col * 16, y);
        }
    }
    for (int col = 0; col < 2; col++) {
        __mmask16 is_nan = 0; /* the maximum drops NaN */
        for (int g = 0; g < SG_GROUPS; g++) is_nan |= _mm512_cmp_ps_mask(l->by[g][col], none, _CMP_UNORD_Q);
        logits_as_they_are(l, col, _mm512_mask_mov_ps(best[col], is_nan, _mm512_set1_ps(NAN)));
    }
}

/* Turns scores into logits one by one, -INFINITY where the key is hidden from query `row` and those after it. */
static void logits_of_edge(tile_logits *l, const sg_blocks_tile *t, int32_t *score, int64_t row)
{
    for (int col = 0; col < 2; col++) {
        __m512    best = _mm512_set1_ps(-INFINITY);
        __mmask16 is_nan = 0;
        for (int64_t key = 0; key < SG_BLOCK_K; key++) {
            const int64_t   late = t->index * SG_BLOCK_K + key - row - col * 16; /* lanes that come before it */
            const bool      some = (t->seen >> key & 1) && late < 16;
            const __mmask16 lanes = (__mmask16)(some ? 0xffff << (late < 0 ? 0 : late) : 0);
            int32_t *const  s = score + key * SG_SUB + col * 16;
            const __m512    x = _mm512_sub_ps(_mm512_load_ps(s), _mm512_set1_ps(SG_MAGIC));
            const __m512    y = _mm512_mul_ps(x, l->by[key / SG_BLOCK_SUB][col]);
            const __m512    z = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), lanes, y);
            is_nan |= _mm512_cmp_ps_mask(z, z, _CMP_UNORD_Q);
            best = _mm512_max_ps(best, z);
            _mm512_store_ps(s, z);
        }
        logits_as_they_are(l, col, _mm512_mask_mov_ps(best, is_nan, _mm512_set1_ps(NAN)));
    }
}

/* Whether the first `rows` rows of a group may all skip the tile. */
static bool left_out(const sub_state *s, const tile_logits *l, int64_t rows, float pv_threshold)
{
    uint32_t out = 0;
    for (int col = 0; col < 2; col++) {
        const __m512 under = _mm512_sub_ps(_mm512_load_ps(s->row_max + col * 16), _mm512_set1_ps(pv_threshold));
        out |= (uint32_t)_mm512_cmp_ps_mask(l->best[col], under, _CMP_LT_OQ) << col * 16;
    }
    return (out | ~(uint32_t)sg_low_bits(rows)) == ~0u;
}

/* Updates the row maxima with those of a tile. Sets `by`, the factor of its weights. Raises bases that are too low and
 * rescales the sums. */
static void rescale_outputs(const vnni_job *b, sub_state *s, float *o, const tile_logits *l, __m512 by[2])
{
    for (int col = 0; col < 2; col++) {
        const __m512    none = _mm512_set1_ps(-INFINITY), best = l->best[col], was = _mm512_load_ps(s->base + col * 16);
        const __mmask16 up = _mm512_cmp_ps_mask(best, _mm512_add_ps(was, _mm512_set1_ps(SG_RESCALE_LAG)), _CMP_GT_OQ);
        const __mmask16 some = _mm512_cmp_ps_mask(best, none, _CMP_NEQ_UQ);
        const __m512    base = _mm512_mask_mov_ps(was, up, best);
        by[col] = _mm512_maskz_mov_ps(some, exp2_of(_mm512_sub_ps(best, base)));
        _mm512_store_ps(s->base + col * 16, base);
        _mm512_store_ps(s->row_max + col * 16, _mm512_max_ps(_mm512_load_ps(s->row_max + col * 16), best));
        if (!_mm512_mask_cmp_ps_mask(up, was, none, _CMP_NEQ_UQ)) continue; /* nothing was summed */
        const __m512 rescale = _mm512_mask_mov_ps(_mm512_set1_ps(1.0f), up, exp2_of(_mm512_sub_ps(was, base)));
        float *const sum = s->sum + col * 16, *const lost = s->lost + col * 16;
        _mm512_store_ps(sum, _mm512_mul_ps(_mm512_load_ps(sum), rescale));
        _mm512_store_ps(lost, _mm512_mul_ps(_mm512_load_ps(lost), rescale));
        for (float *y = o + col * 16; y < o + b->dv * SG_SUB; y += SG_SUB)
            _mm512_store_ps(y, _mm512_mul_ps(_mm512_load_ps(y), rescale));
    }
}

/* Adds a tile to group `sub` of a task, whose `rows` queries are those from `row` on. With pv_threshold it may skip the
 * tile. Returns whether it did. */
static bool visit(const vnni_job *b, const vnni_workspace *w, const sg_blocks_tile *t, int64_t at, int64_t next,
                  int64_t sub, int64_t row, int64_t rows, float pv_threshold)
{
    sub_state *const s = &w->state[sub];
    float *const     o = w->o + sub * b->dv * SG_SUB;
    __m512           by[2], sum[2];
    tile_logits      l;
    for (int g = 0; g < SG_GROUPS; g++) {
        const float scale = b->scale[at * SG_GROUPS + g];
        for (int col = 0; col < 2; col++)
            l.by[g][col] = _mm512_mul_ps(_mm512_load_ps(s->scale + col * 16), _mm512_set1_ps(scale));
    }
    scores(w->q + sub * b->dk * SG_SUB, b->k + at * SG_BLOCK_K * b->dk, b->start + at * SG_BLOCK_K, w->score, b->dk / 4,
           (next - at) * SG_BLOCK_K * b->dk, l.peak);
    if (t->index < b->s.nk && sg_blocks_visible(t, row) == ~0ull)
        logits_of_peaks(&l);
    else if (!t->edge)
        logits_of_keys(&l, t, w->score);
    else
        logits_of_edge(&l, t, w->score, row);
    const bool out = left_out(s, &l, rows, pv_threshold);
    rescale_outputs(b, s, o, &l, by);
    weights(w->score, &l, w->p, sum, b->s.count != NULL); /* counts use unrounded weights */
    for (int col = 0; col < 2; col++) {
        float *const y = (out ? s->lost : s->sum) + col * 16;
        _mm512_store_ps(y, _mm512_fmadd_ps(sum[col], by[col], _mm512_load_ps(y)));
    }
    if (!out) outputs(w->p, b->v + at * SG_BLOCK_K * b->dv, o, b->dv / 8, (next - at) * SG_BLOCK_K * b->dv, by);
    return out;
}

/* ---- the entry ---- */

/* Block i of queries of a head. */
static void attend_task(const void *job, const void *workspace, int64_t head, int64_t i)
{
    const vnni_job *const       b = job;
    const vnni_workspace *const w = workspace;
    const int64_t               row = i * SG_BLOCK_Q, rows = sg_min64(SG_BLOCK_Q, b->s.n - row);
    const int64_t               from = sg_blocks_ring_at(&b->s, head / b->s.serves);
    const float                 pv_threshold = b->s.count ? ((const float *)b->s.a->pv_threshold.data)[head] : INFINITY;
    sg_blocks_iterator          iterator;
    sg_blocks_count             count = {0};
    sg_blocks_tile              t[SG_CHUNK];
    int64_t                     tiles = SG_CHUNK;
    sg_blocks_begin(&iterator, &b->s, head, i);
    task_begin(b, w, head, row, rows);
    for (bool first = true; tiles == SG_CHUNK; first = false) {
        for (tiles = 0; tiles < SG_CHUNK && sg_blocks_next(&iterator, &t[tiles]);) tiles++;
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

static void attend_heads(const vnni_job *b, int threads, char *workspaces)
{
#pragma omp parallel num_threads(threads)
    {
        const vnni_workspace mine = workspace_at(b, workspaces + omp_get_thread_num() * workspace_bytes(b));
        const unsigned       control = _mm_getcsr();
        _mm_setcsr(control | 0x8040); /* denormals are slow, and negligible beside the largest weight */
        sg_blocks_heads(b, &mine, b->s.nq, pack_tile, attend_task);
        _mm_setcsr(control);
        _mm_sfence();
    }
}

static sg_status attend_blocks(sg_stream *s, const sg_attend_blocks_args *a)
{
    if (a->v.dtype != SG_I8 || a->q.dim[2] > SG_CHANNELS || (a->pv_threshold.rank && a->pv_group != SG_FILTER_ROWS))
        return sg_vec_blocks_avx512(s, a);
    sg_cpu *const cpu = sg_cpu_of(s);
    vnni_job      b = {.s = sg_blocks_job_of(a)};
    b.dk = sg_div_up(b.s.d, 4) * 4;
    b.dv = sg_div_up(b.s.d, 8) * 8;
    const int64_t keys = b.s.tiles * SG_BLOCK_K, workspaces = cpu->threads * workspace_bytes(&b);
    const int64_t head_bytes = keys * (b.dk + b.dv + 4) + b.s.tiles * SG_GROUPS * 4;
    char *const   p = sg_blocks_scratch(&b.s, cpu, workspaces, head_bytes);
    if (!p) return SG_E_MEMORY;
    b.k = (int8_t *)p;
    b.v = b.k + b.s.ring * keys * b.dk;
    b.start = (int32_t *)(b.v + b.s.ring * keys * b.dv);
    b.scale = (float *)(b.start + b.s.ring * keys);
    attend_heads(&b, cpu->threads, p - workspaces);
    sg_blocks_sum_counts(&b.s);
    return SG_OK;
}

void sg_vnni_blocks_init(sg_ops *t) { t->attend_blocks = attend_blocks; }
