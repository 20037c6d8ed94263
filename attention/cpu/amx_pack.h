/* amx_pack.h - what a call of amx_blocks.c works on, and how operands come into tiles and outputs out of them.
 *
 * Each key head is packed once, in blocks of 64 keys; the means of the tail follow as blocks of their own:
 *
 *   - k, I8 [blocks][2][kdepth][2][16][64]; v, BF16 [blocks][vdepth][2][2][16][32] (amx_tile.h);
 *   - q, I8 [kdepth][2][16][16][4] for each group of 32 queries,
 *
 * with kdepth = d / 64 and vdepth = d / 32, rounded up, and zeros beyond d and the last key. INT8 values are BF16
 * exactly; their scale waits for the outputs.
 *
 * A value that is not finite is packed as 0, for a weight of 0 times it is NaN to queries that do not see its key; those
 * that do get it added to their outputs in the end. */
#ifndef SG_AMX_PACK_H
#define SG_AMX_PACK_H

#include "amx_tile.h"
#include "blocks.h"
#include "lanes16.h"

typedef struct blocks_job {
    sg_blocks_job s;
    int64_t       kdepth, vdepth;
    int64_t       plain;          /* blocks before those whose keys have a bias: amx_soft.h */
    int64_t       chunk;          /* blocks of a list that stay in the cache */
    int64_t       task;           /* blocks of queries of a task */
    int64_t       k_bytes, bytes; /* of a packed block: keys; all */
    char         *packed;         /* blocks of the heads of a group */
    float        *scale;          /* [heads][tiles][4][SG_COLS], of 16 keys, twice */
    uint8_t      *wild;           /* [heads][tiles]: whether some value of a block is not finite */
} blocks_job;

/* What a group of queries carries from block to block. */
typedef struct sub_state {
    _Alignas(64) float top[SG_SUB], base[SG_SUB], sum[SG_SUB]; /* top -INFINITY: no key so far; base is then 0 */
    float   by[4 * SG_COLS];                                   /* scale of 16 queries, into powers of two, four times */
    float   grid;                                              /* what bases are multiples of */
    int64_t count;                                             /* blocks of its list */
    int64_t row;                                               /* its first query */
} sub_state;

/* 64 channels of a row of INT8; zeros where there is none. */
static inline __m512i load64(const sg_tensor *t, int64_t row, bool there, int64_t d, int64_t c)
{
    if (!there) return _mm512_setzero_si512();
    return _mm512_maskz_loadu_epi8(sg_lanes64(d - c), (const int8_t *)t->data + row * d + c);
}

/* 16 channels of a value, as BF16 in the lower halves. */
static inline __m512i load_value(const blocks_job *b, int64_t head, int64_t block, int64_t key, int64_t c)
{
    const sg_tensor *const t = block < b->s.nk ? &b->s.a->v : &b->s.a->tail_v;
    const int64_t          row = sg_blocks_row(&b->s, block, key);
    if (row < 0 || c >= b->s.d) return _mm512_setzero_si512();
    const __mmask16 some = sg_lanes16(b->s.d - c);
    const int64_t   at = (row * b->s.hk + head) * b->s.d + c;
    if (t->dtype == SG_BF16) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, (uint16_t *)t->data + at));
    if (t->dtype == SG_F32) {
        const __m512 x = _mm512_maskz_loadu_ps(some, (const float *)t->data + at);
        return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
    }
    const __m128i x = _mm_maskz_loadu_epi8(some, (const int8_t *)t->data + (head * t->dim[1] + row) * b->s.d + c);
    return _mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x))), 16);
}

/* Values of a block; whether some are not finite. */
static inline bool pack_values(const blocks_job *b, uint16_t *v, int64_t head, int64_t block)
{
    const __m512i infinite = _mm512_set1_epi16(0x7f80);
    __mmask32     wild = 0;
    for (int64_t e = 0; e < b->vdepth; e++)
        for (int64_t key = 0; key < SG_BLOCK_K; key += 32)
            for (int64_t half = 0; half < 2; half++, v += SG_TILE) {
                __m512i x[16];
                for (int64_t i = 0; i < 16; i++) {
                    const int64_t   c = e * 32 + half * 16;
                    const __m512i   even = load_value(b, head, block, key + i * 2, c);
                    const __m512i   odd = load_value(b, head, block, key + i * 2 + 1, c);
                    const __m512i   both = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
                    const __mmask32 bad = _mm512_cmpeq_epi16_mask(_mm512_and_si512(both, infinite), infinite);
                    x[i] = _mm512_maskz_mov_epi16(~bad, both);
                    wild |= bad;
                }
                sg_transpose16(x);
                for (int64_t i = 0; i < 16; i++) _mm512_store_si512(v + i * 32, x[i]);
            }
    return wild != 0;
}

/* Block `block` of a key head; those from nk on are of means. */
static inline void pack_block(const blocks_job *b, int64_t head, int64_t block)
{
    const sg_tensor *const kt = block < b->s.nk ? &b->s.a->k : &b->s.a->tail_k;
    const int64_t          at = (head - b->s.first) * b->s.tiles + block;
    int8_t *const          k = (int8_t *)(b->packed + at * b->bytes);
    for (int64_t i = 0; i < 4 * SG_COLS; i++)
        b->scale[at * 4 * SG_COLS + i] = sg_blocks_scale(&b->s, head, block, i / SG_COLS * 16);
    for (int64_t i = 0; i < SG_BLOCK_K; i++) {
        const int64_t row = sg_blocks_row(&b->s, block, i);
        for (int64_t e = 0; e < b->kdepth; e++)
            _mm512_store_si512(k + ((i / 32 * b->kdepth + e) * 32 + i % 32) * 64,
                               load64(kt, head * kt->dim[1] + row, row >= 0, b->s.d, e * 64));
    }
    b->wild[at] = pack_values(b, (uint16_t *)(b->packed + at * b->bytes + b->k_bytes), head, block);
}

/* o += the values of a block that are not finite, for the queries that see them; w: how. */
static inline void add_wild(const blocks_job *b, float *o, const sg_blocks_soft *w, int64_t head, int64_t block)
{
    for (int64_t key = 0; key < SG_BLOCK_K; key++) {
        const uint32_t seen = w->seen ? w->seen[key] : w->bias && w->bias[key] == -INFINITY ? 0 : ~0u;
        for (int64_t c = 0; c < b->s.d; c++) {
            const __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(load_value(b, head, block, key, c), 16));
            const float  v = _mm512_cvtss_f32(x);
            for (int64_t col = 0; col < SG_COLS && !isfinite(v); col++) {
                float *const y = o + (c / 16 * SG_COLS + col) * 256 + c % 16 * 16;
                const __m512 was = _mm512_load_ps(y);
                _mm512_store_ps(y, _mm512_mask_add_ps(was, (__mmask16)(seen >> col * 16), was, _mm512_set1_ps(v)));
            }
        }
    }
}

/* SG_SUB queries of a head from `row` on, and their scales. */
static inline void pack_queries(const blocks_job *b, int8_t *q, sub_state *s, int64_t head, int64_t row)
{
    const float *const scale = (const float *)b->s.a->q_scale.data;
    for (int64_t at = 0; at < 4 * SG_COLS; at++) {
        const int64_t i = row + at % SG_COLS * 16;
        s->by[at] = i < b->s.n ? scale[i / b->s.a->q_group * b->s.h + head] * b->s.a->scale * SG_LOG2E : 0;
    }
    for (int64_t e = 0; e < b->kdepth; e++)
        for (int64_t col = 0; col < SG_COLS; col++, q += SG_TILE_BYTES) {
            __m512i x[16];
            for (int64_t i = 0; i < 16; i++) {
                const int64_t r = row + col * 16 + i;
                x[i] = load64(&b->s.a->q, head * b->s.n + r, r < b->s.n, b->s.d, e * 64);
            }
            sg_transpose16(x);
            for (int64_t i = 0; i < 16; i++) _mm512_store_si512(q + i * 64, x[i]);
        }
}

/* 16 channels of outputs over their sums, with scales and centers, one channel a vector; zeros where no key counted. */
static inline void finish_outputs(const blocks_job *b, __m512i x[16], const float *o, __m512 sum, int64_t at,
                                  int64_t channels)
{
    const float *const scale = b->s.a->v_scale.rank ? (const float *)b->s.a->v_scale.data + at : NULL;
    const float *const center = b->s.a->v_center.rank ? (const float *)b->s.a->v_center.data + at : NULL;
    const __mmask16    some = _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const __m512       by = _mm512_div_ps(_mm512_set1_ps(1.0f), sum);
    for (int64_t i = 0; i < 16; i++) {
        __m512 y = _mm512_mul_ps(_mm512_load_ps(o + i * 16), by);
        if (scale && i < channels) y = _mm512_mul_ps(y, _mm512_set1_ps(scale[i]));
        if (center && i < channels) y = _mm512_add_ps(y, _mm512_set1_ps(center[i]));
        x[i] = _mm512_castps_si512(_mm512_maskz_mov_ps(some, y));
    }
}

/* The outputs of a group, home. */
static inline void unpack_outputs(const blocks_job *b, const float *o, const sub_state *s, int64_t head)
{
    for (int64_t e = 0; e < b->s.d; e += 16)
        for (int64_t col = 0; col < SG_COLS; col++, o += 256) {
            __m512i x[16];
            finish_outputs(b, x, o, _mm512_load_ps(s->sum + col * 16), head / b->s.serves * b->s.d + e, b->s.d - e);
            sg_transpose16(x);
            const int64_t row = s->row + col * 16;
            for (int64_t i = 0; i < 16 && row + i < b->s.n; i++) {
                const int64_t   at = ((row + i) * b->s.h + head) * b->s.d + e;
                const __m512    y = _mm512_castsi512_ps(x[i]);
                const __mmask16 some = sg_lanes16(b->s.d - e);
                if (b->s.a->y.dtype == SG_F32)
                    _mm512_mask_storeu_ps((float *)b->s.a->y.data + at, some, y);
                else
                    _mm256_mask_storeu_epi16((uint16_t *)b->s.a->y.data + at, some, (__m256i)_mm512_cvtneps_pbh(y));
            }
        }
}

#endif
