/* int8_pack.h - the job of a call of int8_blocks.c, packing of its operands, and unpacking of its outputs. */
#ifndef SG_INT8_PACK_H
#define SG_INT8_PACK_H

#include "blocks.h"
#include "int8_lanes.h"

enum { SG_SUB = SG_NR, SG_SUBS = SG_BLOCK_Q / SG_SUB, SG_GROUPS = SG_BLOCK_K / SG_BLOCK_SUB };
enum { SG_ROWS = SG_LANES / 2 };

/* A chunk has at most SG_CHUNK tiles, whose keys and values take at most SG_CHUNK_BYTES. */
enum { SG_CHUNK = 24, SG_CHUNK_BYTES = 384 << 10 };

enum { SG_CHANNELS = 255 };  /* d at most: scores stay below 2^22 */
#define SG_MAGIC 12582912.0f /* 1.5 2^23 */

/* Holds what the sums over the keys of a tile need beside their packed bytes. */
typedef struct tile_keys {
    _Alignas(8) int32_t first[SG_BLOCK_K]; /* what their scores' sums start from; 8: counts follow the last tile's */
    float scale[SG_GROUPS];
    bool  non_finite; /* some value of the tile is */
} tile_keys;

typedef struct int8_job {
    sg_blocks_job s;
    bool          bytes;            /* values are I8 */
    int64_t       dk, dv;           /* d rounded up to fours; to whole tiles of rows */
    int64_t       k_bytes, v_bytes; /* of a tile of keys; of values */
    int64_t       chunk;            /* tiles of a chunk */
    uint8_t      *k;                /* packed, of the heads of the ring */
    char         *v;
    tile_keys    *keys; /* [tiles] */
} int8_job;

/* Holds the state of SG_SUB queries between tiles. */
typedef struct sub_state {
    _Alignas(64) float scale[SG_SUB];    /* of queries, to powers of two */
    float base[SG_SUB], row_max[SG_SUB]; /* row_max: largest logit so far; -INFINITY: none */
    float sum[SG_SUB], lost[SG_SUB];     /* of weights; of those of skipped tiles */
} sub_state;

typedef struct int8_workspace {
    uint8_t   *q;     /* [SG_SUBS][dk / 4][SG_SUB][4] */
    float     *o;     /* [SG_SUBS][dv][SG_SUB] */
    float     *score; /* [SG_BLOCK_K][SG_SUB] */
    uint8_t   *p;     /* [SG_BLOCK_K / 4][SG_SUB][4] */
    sub_state *state; /* [SG_SUBS] */
    float     *row;   /* [SG_LANES, row_size] */
} int8_workspace;

static int64_t row_size(const int8_job *b) { return sg_div_up(b->s.d, SG_LANES) * SG_LANES; }

/* Sets r to the workspace at p. Returns its bytes; p NULL: returns them only. */
static int64_t workspace_at(const int8_job *b, int8_workspace *r, char *p)
{
    int64_t used = 0;
    SG_PART(r->state, SG_SUBS, p, used);
    SG_PART(r->o, SG_BLOCK_Q * b->dv, p, used);
    SG_PART(r->score, SG_BLOCK_K * SG_SUB, p, used);
    SG_PART(r->row, SG_LANES * row_size(b), p, used);
    SG_PART(r->q, SG_BLOCK_Q * b->dk, p, used);
    SG_PART(r->p, SG_BLOCK_K * SG_SUB, p, used);
    return used;
}

static inline sg_lanes *lanes_at(const float *x, int col) { return (sg_lanes *)(uintptr_t)(x + col * SG_LANES); }

/* ---- packing ---- */

/* Writes n bytes, at most sizeof(sg_lane_ints), as SG_PARTS: the second part is n bytes behind the first. */
static inline void put_parts(void *to, const void *x, size_t n)
{
    typedef int8_t bytes __attribute__((vector_size(4 * SG_LANES)));
    bytes          own = {0};
    memcpy(SG_PARTS == 1 ? to : &own, x, n);
    if (SG_PARTS == 1) return;
    const bytes sign = own < 0, size = (own ^ sign) - sign;
    memcpy(to, &size, n);
    memcpy((char *)to + n, &sign, n);
}

/* Returns what a sum over products of n bytes lacks: `by` times each, and the size of those below 0 where the sign is a
 * part. */
static int32_t lacking(const int8_t *x, int64_t n, int32_t by)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += by * x[i] + (SG_PARTS == 2 && x[i] < 0 ? -x[i] : 0);
    return sum;
}

/* Packs the `rows` rows of a tile. */
static void pack_keys(const int8_job *b, uint8_t *k, const int8_t *row, int64_t rows)
{
    enum { HALF = 4 * SG_ROWS };
    for (int64_t key = 0; key < SG_BLOCK_K; key += SG_LANES, k += SG_PARTS * SG_LANES * b->dk)
        for (int64_t e = 0; e < b->dk; e += 4 * SG_LANES) {
            sg_lane_ints x[SG_LANES];
            sg_load_fours(x, key < rows ? row + key * b->s.d : row, rows - key, b->s.d, e);
            for (int64_t i = 0; i < SG_LANES && e + i * 4 < b->dk; i++)
                for (int half = 0; half < 2; half++)
                    put_parts(k + SG_PARTS * (half * b->dk + e + i * 4) * SG_ROWS, (const char *)&x[i] + half * HALF,
                              HALF);
        }
}

/* Packs four rows of I8 values, those of the keys from `key` on, by SG_ROWS of channels. */
static void pack_bytes(const int8_job *b, char *v, int64_t key, const int8_t *x, int64_t rows)
{
    const int64_t d = b->s.d;
    for (int64_t e = 0; e < b->dv; e += 16) {
        __m128i       row[4], quad[4];
        const int64_t size = sg_min64(d - e, 16);
        for (int64_t r = 0; r < 4; r++) {
            const int8_t *const from = x + (key + r) * d + e;
            row[r] = _mm_setzero_si128();
            if (key + r < rows && size == 16)
                row[r] = _mm_loadu_si128((const __m128i *)from);
            else if (key + r < rows && size > 0)
                memcpy(&row[r], from, (size_t)size);
        }
        const __m128i low[2] = {_mm_unpacklo_epi8(row[0], row[1]), _mm_unpacklo_epi8(row[2], row[3])};
        const __m128i high[2] = {_mm_unpackhi_epi8(row[0], row[1]), _mm_unpackhi_epi8(row[2], row[3])};
        quad[0] = _mm_unpacklo_epi16(low[0], low[1]);
        quad[1] = _mm_unpackhi_epi16(low[0], low[1]);
        quad[2] = _mm_unpacklo_epi16(high[0], high[1]);
        quad[3] = _mm_unpackhi_epi16(high[0], high[1]);
        for (int64_t i = 0, c = e; i < 4 && c < b->dv; i++, c += 4) {
            const int64_t block = c / SG_ROWS * SG_ROWS * SG_BLOCK_K + key * SG_ROWS;
            char *const   to = v + SG_PARTS * block + c % SG_ROWS * 4;
            put_parts(to, &quad[i], sizeof quad[i]);
        }
    }
}

/* Computes what the sums of a tile's scores start from, for each key, and those of its outputs, for each channel. For
 * outputs a is the weight less 128 - SG_LIFT. */
static void pack_first(const int8_job *b, int32_t *first_k, const int8_t *k, int32_t *first_v, const int8_t *v,
                       int64_t rows)
{
    const int32_t magic = (int32_t)sg_bits(SG_MAGIC);
    const int64_t d = b->s.d;
    for (int64_t key = 0; key < SG_BLOCK_K; key++)
        first_k[key] = magic + (key < rows ? lacking(k + key * d, d, -SG_LIFT) : 0);
    for (int64_t e = 0; v && e < b->dv; e++) first_v[e] = 0;
    for (int64_t key = 0; v && SG_PARTS == 2 && key < rows; key++)
        for (int64_t e = 0; e < d; e++) first_v[e] += lacking(v + key * d + e, 1, 128 - SG_LIFT);
}

/* Packs one row of F32 or BF16 values. Returns whether some number is not finite. */
static bool pack_floats(const int8_job *b, float *v, int64_t key, const sg_tensor *t, int64_t head, int64_t row)
{
    float        own[SG_CHANNELS + 1] = {0}, spoilt = 0;
    const float *x = row < 0 ? own : sg_read_f32(t, (row * t->dim[1] + head) * b->s.d, b->s.d, own);
    for (int64_t e = 0; e < b->s.d; e++) {
        v[e * SG_BLOCK_K + key] = x[e];
        spoilt += x[e] * 0.0f; /* or NaN */
    }
    for (int64_t e = b->s.d; e < b->dv; e++) v[e * SG_BLOCK_K + key] = 0.0f;
    return spoilt != 0.0f;
}

/* Returns the first sums of a tile's outputs, which lie behind its I8 values. */
static int32_t *first_of_values(const int8_job *b, char *v) { return (int32_t *)(v + SG_PARTS * SG_BLOCK_K * b->dv); }

static void pack_tile(const void *job, const void *workspace, int64_t head, int64_t tile)
{
    const int8_job *const              b = job;
    const sg_attend_blocks_args *const a = b->s.a;
    const bool                         real = tile < b->s.nk;
    const int64_t                      at = sg_blocks_ring_at(&b->s, head) + tile, d = b->s.d;
    const int64_t                      first = (real ? tile : tile - b->s.nk) * SG_BLOCK_K;
    const int64_t                      all = real ? b->s.m : b->s.nk, rows = sg_min64(SG_BLOCK_K, all - first);
    const sg_tensor *const             v = real ? &a->v : &a->tail_v;
    const int8_t *const                x = (const int8_t *)(real ? a->k : a->tail_k).data + (head * all + first) * d;
    tile_keys *const                   t = &b->keys[at];
    char *const                        to = b->v + at * b->v_bytes;
    (void)workspace;
    pack_keys(b, b->k + at * b->k_bytes, x, rows);
    t->non_finite = false;
    const int8_t *const y = b->bytes ? (const int8_t *)v->data + (head * all + first) * d : NULL; /* I8 values */
    for (int64_t key = 0; y && key < SG_BLOCK_K; key += 4) pack_bytes(b, to, key, y, rows);
    pack_first(b, t->first, x, first_of_values(b, to), y, rows);
    for (int64_t key = 0; key < SG_BLOCK_K && !b->bytes; key++)
        t->non_finite |= pack_floats(b, (float *)to, key, v, head, sg_blocks_row(&b->s, tile, key));
    for (int64_t g = 0; g < SG_GROUPS; g++) t->scale[g] = sg_blocks_scale(&b->s, head, tile, g * SG_BLOCK_SUB);
}

/* Starts a task: packs the queries from `row` on and zeroes the sums. */
static void task_begin(const int8_job *b, const int8_workspace *w, int64_t head, int64_t row, int64_t rows)
{
    const sg_attend_blocks_args *const a = b->s.a;
    const int8_t *const                q = (const int8_t *)a->q.data + (head * b->s.n + row) * b->s.d;
    memset(w->o, 0, (size_t)(SG_BLOCK_Q * b->dv) * sizeof *w->o);
    for (int64_t i = 0; i < SG_BLOCK_Q; i += SG_LANES) {
        sub_state *const s = &w->state[i / SG_SUB];
        const int        col = (int)(i / SG_LANES % 2);
        const int64_t    at = (row + i) / a->q_group * b->s.h + head;
        uint8_t *const   y = w->q + i / SG_SUB * b->dk * SG_SUB;
        *lanes_at(s->scale, col) =
            sg_splat(i < rows ? ((const float *)a->q_scale.data)[at] * a->scale * SG_LOG2E : 0.0f);
        *lanes_at(s->base, col) = *lanes_at(s->row_max, col) = sg_splat(-INFINITY);
        *lanes_at(s->sum, col) = *lanes_at(s->lost, col) = sg_splat(0.0f);
        for (int64_t e = 0; e < b->dk; e += 4 * SG_LANES) {
            sg_lane_ints x[SG_LANES];
            sg_load_fours(x, i < rows ? q + i * b->s.d : q, rows - i, b->s.d, e);
            for (int64_t c = 0; c < SG_LANES && e + c * 4 < b->dk; c++)
                *(sg_lane_ints *)(y + (e + c * 4) * SG_SUB + col * 4 * SG_LANES) =
                    x[c] ^ (int32_t)(SG_LIFT * 0x01010101u);
        }
    }
}

/* Divides outputs of SG_LANES rows from i on by their sums, applies scale and center, and writes y; 0 where a sum is 0. */
static void finish(const int8_job *b, const int8_workspace *w, int64_t head, int64_t row, int64_t i, int64_t rows)
{
    const sg_attend_blocks_args *const a = b->s.a;
    const int64_t                      d = b->s.d, at = head / b->s.serves * d, size = row_size(b);
    const float *const                 scale = sg_f32_at(&a->v_scale, at);
    const float *const                 center = sg_f32_at(&a->v_center, at);
    const float *const                 o = w->o + i / SG_SUB * b->dv * SG_SUB + i % SG_SUB;
    const sg_lanes                     none = {0}, sum = *(const sg_lanes *)(w->state[i / SG_SUB].sum + i % SG_SUB);
    const sg_lanes                     by = 1.0f / sum;
    for (int64_t e = 0; e < d; e += SG_LANES) {
        sg_lane_ints x[SG_LANES];
        for (int64_t c = 0; c < SG_LANES; c++) {
            const int64_t  from = sg_min64(e + c, d - 1);
            const sg_lanes z = *(const sg_lanes *)(o + from * SG_SUB) * by * sg_splat(scale ? scale[from] : 1.0f);
            x[c] = (sg_lane_ints)sg_pick(sum != none, z + sg_splat(center ? center[from] : 0.0f), none);
        }
        sg_transpose(x);
        for (int64_t r = 0; r < rows; r++) *(sg_lane_ints *)(w->row + r * size + e) = x[r];
    }
    for (int64_t r = 0; r < rows; r++) {
        const int64_t to = ((row + i + r) * b->s.h + head) * d;
        if (a->y.dtype == SG_F32)
            sg_row_out((float *)a->y.data + to, w->row + r * size, d);
        else
            sg_narrow((uint16_t *)a->y.data + to, w->row + r * size, d);
    }
}

/* Writes the outputs to y and sums the shares that the rows skipped. */
static double task_end(const int8_job *b, const int8_workspace *w, int64_t head, int64_t row, int64_t rows)
{
    double share = 0;
    for (int64_t i = 0; i < rows; i += SG_LANES) finish(b, w, head, row, i, sg_min64(SG_LANES, rows - i));
    for (int64_t i = 0; i < rows; i++) {
        const sub_state *const s = &w->state[i / SG_SUB];
        share += sg_blocks_share(s->lost[i % SG_SUB], s->sum[i % SG_SUB]);
    }
    return share;
}

#endif
