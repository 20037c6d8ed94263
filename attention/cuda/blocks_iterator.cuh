/* blocks_iterator.cuh - the job of attend_blocks on tensor cores; an iterator over the tiles of a block of queries. */
#ifndef SG_BLOCKS_ITERATOR_CUH
#define SG_BLOCKS_ITERATOR_CUH

#include "blocks.cuh"

#include <math.h>

enum { MMA_CHANNELS = 256 }; /* of a head, at most, on tensor cores */

#define LOG2_BLOCK 6.0f /* ln SG_BLOCK_K in powers of two: of the tail's weights without bias */
#define F8_RAISE 8.0f   /* added to F8 logits, in powers of two: weights are at most 448 */
#define F8_LAG 0.8f     /* how far a row's largest F8 logit may rise above its base: 2^8.8 is below 448 */
#define LOWEST (-3.402823466e38f)

struct blocks_job {
    const int8_t *q, *k, *tail_k;
    const float  *q_scale, *k_scale, *tail_k_scale, *v_scale, *v_center, *tail_bias,
        *pv_threshold; /* the last five may be NULL */
    const void     *v, *tail_v;
    const uint16_t *list;   /* [h, nq, nk]; NULL: all blocks */
    const int      *listed; /* [h nq]: how many */
    uint64_t       *kept;   /* [h nq, words]: a bit of each listed block: mark_job */
    const int      *order;  /* [h nq]: the order of rows, row i of head g as g nq + i; NULL: unchanged, all as long */
    const int      *tiles;  /* with an order, [h nq]: how many tiles a row has, of keys and of means */
    float2         *count;  /* [h, nq]: skips, sum of shares; NULL without pv_threshold */
    sg_view         y;
    int64_t         n, m, v_row, tail_row; /* v_row, tail_row of F8 values: bytes of a channel */
    int             d, nq, nk, words, h, hk, q_block, q_group, pv_group, k_shift;
    sg_dtype        v_type;
    float           scale; /* times log2 e: weights are powers of two */
    bool            causal, wide_k, wide_v, wide_y;
};

static blocks_job job_of(const sg_attend_blocks_args *a)
{
    const int64_t n = a->q.dim[1], m = a->k.dim[1], nk = sg_div_up(m, SG_BLOCK_K);
    blocks_job    j = {.q = sg_data(a->q), .k = sg_data(a->k), .tail_k = sg_data(a->tail_k),
                       .q_scale = sg_data(a->q_scale), .k_scale = sg_data(a->k_scale),
                       .tail_k_scale = sg_data(a->tail_k_scale), .v_scale = sg_data(a->v_scale),
                       .v_center = sg_data(a->v_center), .tail_bias = sg_data(a->tail_bias),
                       .pv_threshold = sg_data(a->pv_threshold), .v = sg_data(a->v), .tail_v = sg_data(a->tail_v),
                       .list = sg_data(a->list), .listed = sg_data(a->count), .y = sg_view_of(a->y), .n = n, .m = m,
                       .v_row = sg_f8_row(m), .tail_row = sg_f8_row(nk), .d = (int)a->q.dim[2],
                       .nq = (int)sg_div_up(n, sg_q_block(a->q_block)), .nk = (int)nk, .words = (int)sg_div_up(nk, 64),
                       .h = (int)a->q.dim[0], .hk = (int)a->k.dim[0], .q_block = (int)sg_q_block(a->q_block),
                       .q_group = a->q_group, .pv_group = a->pv_group,
                       .k_shift = a->k_group / (2 * SG_BLOCK_SUB), /* 16, 32, 64 tokens: 0, 1, 2 */
                       .v_type = a->v.dtype, .scale = a->scale * SG_LOG2_E, .causal = a->causal};
    j.wide_k = j.d % 16 == 0 && ((uintptr_t)j.q | (uintptr_t)j.k | (uintptr_t)j.tail_k) % 16 == 0;
    j.wide_v = (j.v_type == SG_F8 || (j.v_type == SG_BF16 && j.d % 8 == 0)) &&
               ((uintptr_t)j.v | (j.v_type == SG_F8 ? (uintptr_t)j.tail_v : 0)) % 16 == 0;
    j.wide_y = (uintptr_t)j.y.data % 8 == 0;
    return j;
}

/* ---- bits of lists ---- */

/* A CTA a row. */
static __global__ void __launch_bounds__(SG_THREADS) mark_listed(blocks_job j)
{
    __shared__ uint32_t   bits[SG_LISTED / 32];
    const int64_t         row = blockIdx.x;
    const uint16_t *const list = j.list + row * j.nk;
    for (int at = threadIdx.x; at < 2 * j.words; at += SG_THREADS) bits[at] = 0;
    __syncthreads();
    for (int at = threadIdx.x; at < j.listed[row]; at += SG_THREADS)
        atomicOr(&bits[list[at] / 32], 1u << list[at] % 32);
    __syncthreads();
    for (int at = threadIdx.x; at < j.words; at += SG_THREADS)
        j.kept[row * j.words + at] = (uint64_t)bits[2 * at + 1] << 32 | bits[2 * at];
}

/* attend_blocks of a job that sm90 has made ready, its rows in order and its lists marked, with BF16 values and heads of up to
 * 128 channels. Nothing is done where *only_if, in device memory, is 0. */
sg_status sg_cuda_attend_job_sm80(sg_stream *s, const blocks_job &j, const uint32_t *only_if);

static size_t marks_bytes(const blocks_job &j) { return (size_t)j.h * (size_t)j.nq * (size_t)j.words * sizeof *j.kept; }

/* Fills j.kept, of so many bytes. */
static sg_status mark_job(sg_stream *s, const blocks_job &j)
{
    return sg_cuda_launch(s, "attend_blocks", mark_listed, (j.h * j.nq), SG_THREADS, 0, j);
}

/* ---- the walk ---- */

struct blocks_tile {
    int      index; /* of a block of keys, or of the 64 blocks whose means these are */
    uint64_t seen;  /* a bit of each key that is there */
    bool     tail;
    int      ahead; /* row r of the block of queries sees its keys up to r - ahead; of means -SG_BLOCK_K: all */
};

struct blocks_iterator {
    int i, g, gk;   /* row of blocks, head, head of keys */
    int visible;    /* how many blocks of keys are seen */
    int count;      /* how many are listed */
    int next, tail; /* the next of either kind */
    int ahead;      /* what is listed next, which is read a tile before it is needed */
};

static __device__ __forceinline__ uint64_t low_bits(int64_t n)
{
    return n >= 64 ? ~0ull : n <= 0 ? 0 : (1ull << n) - 1;
}

/* The last key that row 0 of block i of queries sees, with causal; row r sees r more. */
static __device__ __forceinline__ int diagonal_of(const blocks_job &j, int i)
{
    return i * SG_BLOCK_Q + (int)(j.m - j.n);
}

/* How many blocks of keys block i of queries sees: the first ones. */
static __device__ __forceinline__ int visible_of(const blocks_job &j, int i)
{
    return (int)sg_visible_blocks(j.causal, i, j.n, j.m);
}

/* Of how many blocks of keys a tail of block i of queries may have the means: full ones, the first; with causal, those all
 * of which its first row sees. */
static __device__ __forceinline__ int whole_of(const blocks_job &j, int i)
{
    const int full = (int)(j.m / SG_BLOCK_K);
    return j.causal ? min(full, (diagonal_of(j, i) + 1) / SG_BLOCK_K) : full;
}

static __device__ __forceinline__ int64_t row_of(const blocks_job &j, const blocks_iterator &w)
{
    return (int64_t)w.g * j.nq + w.i;
}

static __device__ __forceinline__ int listed_at(const blocks_job &j, const blocks_iterator &w, int at)
{
    return j.list ? __ldg(j.list + row_of(j, w) * j.nk + at) : at;
}

static __device__ __forceinline__ blocks_iterator iterator_of(const blocks_job &j, int g, int i)
{
    blocks_iterator w = {i, g, g / (j.h / j.hk), visible_of(j, i)};
    w.count = j.list ? j.listed[row_of(j, w)] : w.visible;
    if (w.count) w.ahead = listed_at(j, w, 0);
    return w;
}

/* Whether some row does not see all keys of a tile. */
static __device__ __forceinline__ bool is_edge(const blocks_tile &t) { return t.ahead > 1 - SG_BLOCK_K; }

static __device__ __forceinline__ bool next_tile(const blocks_job &j, blocks_iterator &w, blocks_tile &t)
{
    t.tail = false;
    t.ahead = -SG_BLOCK_K;
    while (w.next < w.count) {
        t.index = w.ahead;
        if (++w.next < w.count) w.ahead = listed_at(j, w, w.next);
        if (t.index >= w.visible) continue;
        t.seen = low_bits(j.m - (int64_t)t.index * SG_BLOCK_K);
        if (j.causal) t.ahead = t.index * SG_BLOCK_K - diagonal_of(j, w.i);
        return true;
    }
    t.tail = true;
    while (j.tail_k && w.tail < j.words) {
        t.index = w.tail++;
        t.seen = ~j.kept[row_of(j, w) * j.words + t.index] & low_bits(whole_of(j, w.i) - t.index * 64);
        if (t.seen) return true;
    }
    return false;
}

#endif
