/* amx_pack.h - the job of a call of amx_blocks.c, packing of its operands into tiles, and unpacking of its outputs.
 *
 * Each head of keys is packed once, in blocks of 64 keys. The means of the tail follow as blocks of their own:
 *
 *   - k, I8 [blocks][2][kdepth][2][16][64]; v, BF16 [blocks][vdepth][2][2][16][32] (amx_tile.h);
 *   - q, I8 [kdepth][2][16][16][4] for each group of 32 queries,
 *
 * with kdepth = d / 64 and vdepth = d / 32, rounded up, and zeros beyond d and the last key. INT8 values are exact in
 * BF16. Their scale is applied to the outputs.
 *
 * A value that is not finite is packed as 0, because 0 times it is NaN for queries that do not see its key. The outputs
 * of queries that do see the key get it added at the end. */
#ifndef SG_AMX_PACK_H
#define SG_AMX_PACK_H

#include "amx_tile.h"
#include "blocks.h"
#include "lanes16.h"

typedef struct blocks_job {
    sg_blocks_job s;
    int64_t       kdepth, vdepth;
    int64_t       plain;          /* blocks before those whose keys have a bias: amx_softmax.h */
    int64_t       chunk;          /* blocks of a list that stay in the cache */
    int64_t       task;           /* blocks of queries of a task */
    int64_t       k_bytes, bytes; /* of a packed block: keys; all */
    char         *packed;         /* blocks of the heads of the ring */
    float        *scale;          /* [heads][tiles][4][SG_COLS], of 16 keys, twice */
    uint8_t      *non_finite;     /* [heads][tiles]: whether some value of a block is not finite */
} blocks_job;

/* Holds the state of a group of queries between blocks. */
typedef struct sub_state {
    /* A row_max of -INFINITY means that there was no key so far; base is then 0. */
    _Alignas(64) float row_max[SG_SUB], base[SG_SUB], sum[SG_SUB];
    float   by[4 * SG_COLS]; /* scale of 16 queries, into powers of two, four times */
    float   grid;            /* what bases are multiples of */
    int64_t count;           /* blocks of its list */
    int64_t row;             /* its first query */
} sub_state;

/* Loads 64 channels of a row of INT8, or zeros where there is no row. */
static inline __m512i load64(const sg_tensor *t, int64_t row, bool there, int64_t d, int64_t c)
{
    if (!there) return _mm512_setzero_si512();
    return _mm512_maskz_loadu_epi8(sg_lanes64(d - c), (const int8_t *)t->data + row * d + c);
}

/* Describes the values of a block, which has a row of d numbers for each of its keys. */
typedef struct block_values {
    sg_dtype    type;
    const char *row;
    int64_t     rows, step; /* how many keys there are; bytes from row to row */
} block_values;

static inline block_values values_of(const blocks_job *b, int64_t head, int64_t block)
{
    const sg_tensor *const t = block < b->s.nk ? &b->s.a->v : &b->s.a->tail_v;
    const int64_t          row = sg_blocks_row(&b->s, block, 0), all = block < b->s.nk ? b->s.m : b->s.nk;
    const int64_t          bytes = b->s.d * (int64_t)sg_dtype_size(t->dtype);
    const int64_t          at = t->dtype == SG_I8 ? head * all + row : row * b->s.hk + head;
    return (block_values){.type = t->dtype,
                          .row = (const char *)t->data + at * bytes,
                          .rows = sg_min64(all - row, SG_BLOCK_K),
                          .step = t->dtype == SG_I8 ? bytes : bytes * b->s.hk};
}

/* Loads 32 channels of a key's value, from c on, as BF16. */
static inline __m512i load_value(const block_values *v, int64_t key, int64_t c, int64_t d)
{
    const __mmask32   some = key < v->rows ? sg_lanes32(d - c) : 0;
    const char *const y = v->row + (some ? key * v->step : 0);
    __m512            x[2];
    if (v->type == SG_BF16) return _mm512_maskz_loadu_epi16(some, (const uint16_t *)y + c);
    for (int64_t half = 0; half < 2; half++) {
        const __mmask16 lanes = (__mmask16)(some >> half * 16);
        const int64_t   at = c + half * 16;
        if (v->type == SG_F32)
            x[half] = _mm512_maskz_loadu_ps(lanes, (const float *)y + at);
        else
            x[half] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(lanes, y + at)));
    }
    return (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]);
}

/* Packs the values of a block. Returns whether some are not finite. */
static inline bool pack_values(const blocks_job *b, uint16_t *v, const block_values *from)
{
    const __m512i infinite = _mm512_set1_epi16(0x7f80);
    __mmask32     non_finite = 0;
    for (int64_t e = 0; e < b->vdepth; e++)
        for (int64_t key = 0; key < SG_BLOCK_K; key += 32, v += 2 * SG_TILE) {
            __m512i x[2][16]; /* pairs of keys: channels 0 to 3 of every eight, 4 to 7 */
            for (int64_t i = 0; i < 16; i++) {
                __m512i y[2];
                for (int64_t odd = 0; odd < 2; odd++) {
                    y[odd] = load_value(from, key + i * 2 + odd, e * 32, b->s.d);
                    const __mmask32 lanes = _mm512_cmpeq_epi16_mask(_mm512_and_si512(y[odd], infinite), infinite);
                    y[odd] = _mm512_maskz_mov_epi16(~lanes, y[odd]);
                    non_finite |= lanes;
                }
                x[0][i] = _mm512_unpacklo_epi16(y[0], y[1]);
                x[1][i] = _mm512_unpackhi_epi16(y[0], y[1]);
            }
            for (int64_t half = 0; half < 2; half++) {
                sg_transpose16(x[half]);
                for (int64_t i = 0; i < 16; i++)
                    _mm512_store_si512(v + (i / 4 * 8 + half * 4 + i % 4) * 32, x[half][i]);
            }
        }
    return non_finite != 0;
}

/* Packs block `block` of a head of keys; blocks from nk on are means. */
static inline void pack_block(const void *job, const void *workspace, int64_t head, int64_t block)
{
    const blocks_job *const b = job;
    const sg_tensor *const  kt = block < b->s.nk ? &b->s.a->k : &b->s.a->tail_k;
    const int64_t           at = sg_blocks_ring_at(&b->s, head) + block;
    int8_t *const           k = (int8_t *)(b->packed + at * b->bytes);
    const block_values      v = values_of(b, head, block);
    (void)workspace;
    for (int64_t i = 0; i < 4 * SG_COLS; i++)
        b->scale[at * 4 * SG_COLS + i] = sg_blocks_scale(&b->s, head, block, i / SG_COLS * 16);
    for (int64_t i = 0; i < SG_BLOCK_K; i++) {
        const int64_t row = sg_blocks_row(&b->s, block, i);
        for (int64_t e = 0; e < b->vdepth && row >= 0; e++) /* of BF16, whose rows lie apart */
            _mm_prefetch(v.row + i * v.step + e * 64, _MM_HINT_T1);
        for (int64_t e = 0; e < b->kdepth; e++)
            _mm512_store_si512(k + ((i / 32 * b->kdepth + e) * 32 + i % 32) * 64,
                               load64(kt, head * kt->dim[1] + row, row >= 0, b->s.d, e * 64));
    }
    b->non_finite[at] = pack_values(b, (uint16_t *)(b->packed + at * b->bytes + b->k_bytes), &v);
}

/* o += the non-finite values of a block, for the queries that see their keys; w has the masks. */
static inline void add_non_finite(const blocks_job *b, float *o, const sg_blocks_softmax *w, int64_t head,
                                  int64_t block)
{
    const block_values from = values_of(b, head, block);
    for (int64_t key = 0; key < SG_BLOCK_K; key++) {
        const uint32_t seen = w->seen ? w->seen[key] : w->bias && w->bias[key] == -INFINITY ? 0 : ~0u;
        for (int64_t c = 0; c < b->s.d; c++) {
            const __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(load_value(&from, key, c, b->s.d), 16));
            const float  v = _mm512_cvtss_f32(x);
            for (int64_t col = 0; col < SG_COLS && !isfinite(v); col++) {
                float *const y = o + (c / 16 * SG_COLS + col) * 256 + c % 16 * 16;
                const __m512 was = _mm512_load_ps(y);
                _mm512_store_ps(y, _mm512_mask_add_ps(was, (__mmask16)(seen >> col * 16), was, _mm512_set1_ps(v)));
            }
        }
    }
}

/* Packs SG_SUB queries of a head from `row` on, and their scales. */
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

/* Divides 16 channels of outputs by their sums and applies scales and centers, a channel a vector; 0 where no key
 * counted. */
static inline void finish_outputs(const blocks_job *b, __m512i x[16], const float *o, __m512 sum, int64_t at,
                                  int64_t channels)
{
    const float *const scale = sg_f32_at(&b->s.a->v_scale, at);
    const float *const center = sg_f32_at(&b->s.a->v_center, at);
    const __mmask16    some = _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const __m512       by = _mm512_div_ps(_mm512_set1_ps(1.0f), sum);
    for (int64_t i = 0; i < 16; i++) {
        __m512 y = _mm512_mul_ps(_mm512_load_ps(o + i * 16), by);
        if (scale && i < channels) y = _mm512_mul_ps(y, _mm512_set1_ps(scale[i]));
        if (center && i < channels) y = _mm512_add_ps(y, _mm512_set1_ps(center[i]));
        x[i] = _mm512_castps_si512(_mm512_maskz_mov_ps(some, y));
    }
}

/* Writes the outputs of a group to y; row: scratch for 16 rows. */
static inline void unpack_outputs(const blocks_job *b, const float *o, const sub_state *s, int64_t head, float *row)
{
    const int64_t size = (int64_t)sg_dtype_size(b->s.a->y.dtype), bytes = b->s.d * size;
    for (int64_t col = 0; col < SG_COLS; col++) {
        const __m512  sum = _mm512_load_ps(s->sum + col * 16);
        const int64_t first = s->row + col * 16;
        for (int64_t e = 0; e < b->s.d; e += 16) {
            const __mmask16 some = sg_lanes16(b->s.d - e);
            __m512i         x[16];
            finish_outputs(b, x, o + (e / 16 * SG_COLS + col) * 256, sum, head / b->s.serves * b->s.d + e, b->s.d - e);
            sg_transpose16(x);
            for (int64_t i = 0; i < 16; i++) {
                const __m512 y = _mm512_castsi512_ps(x[i]);
                char *const  to = (char *)row + i * bytes + e * size;
                if (b->s.a->y.dtype == SG_F32)
                    _mm512_mask_storeu_ps(to, some, y);
                else
                    _mm256_mask_storeu_epi16(to, some, (__m256i)_mm512_cvtneps_pbh(y));
            }
        }
        for (int64_t i = 0; i < 16 && first + i < b->s.n; i++)
            sg_stream_out((char *)b->s.a->y.data + ((first + i) * b->s.h + head) * bytes, (char *)row + i * bytes,
                          bytes);
    }
}

#endif
