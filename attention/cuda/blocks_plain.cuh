/* blocks_plain.cuh - attend_blocks for heads of any number of channels, without tensor cores; and what it shares with
 * blocks_mma.cuh: which rows skip a block together, and their counts.
 *
 * Simple, not fast: a CTA owns SG_BLOCK_Q queries of one head, a thread each, and COLUMNS columns of the values; CTAs
 * of other columns compute the scores again. It walks over tiles as blocks_mma.cuh does, with scores in shared
 * memory. */
#ifndef SG_BLOCKS_PLAIN_CUH
#define SG_BLOCKS_PLAIN_CUH

#include "blocks_order.cuh"

enum { THREADS = 128, WARP_ROWS = 32, COLUMNS = 64 };

/* Whether it is so in both of two neighbouring warps; barriers 1 and 2 are theirs. */
static __device__ __forceinline__ bool is_so_in_pair(bool mine, int pair)
{
    int both;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.and.pred q, %2, 64, p; selp.s32 %0, 1, 0, q; }"
                 : "=r"(both)
                 : "r"((int)mine), "r"(1 + pair)
                 : "memory");
    return both;
}

/* Stores the counts of what the warps skipped, summed in a fixed order. share: of the thread's rows; count: of each
 * warp, in shared memory. */
static __device__ void store_count(const blocks_job &j, const blocks_iterator &w, float skips, float share, int rows,
                                   float2 *count)
{
    const int  warp = threadIdx.x / SG_WARP;
    const bool counts = warp * WARP_ROWS < rows && warp * WARP_ROWS % j.pv_group == 0;
    share = sg_lanes_sum(share);
    if (threadIdx.x % SG_WARP == 0) count[warp] = make_float2(counts ? skips : 0.0f, share);
    __syncthreads();
    if (threadIdx.x == 0)
        j.count[w.g * j.nq + w.i] = make_float2(count[0].x + count[1].x + count[2].x + count[3].x,
                                                count[0].y + count[1].y + count[2].y + count[3].y);
}

/* The logit of a thread's query q and key `key` of a tile, which is token `at` of its kind. */
static __device__ __forceinline__ float plain_logit(const blocks_job &j, const blocks_iterator &w, const blocks_tile &t,
                                                    const int8_t *q, float scale, int64_t at)
{
    const int8_t *const k = (t.tail ? j.tail_k : j.k) + (w.gk * (int64_t)(t.tail ? j.nk : j.m) + at) * j.d;
    const float         unit = t.tail ? j.tail_k_scale[(int64_t)t.index * j.hk + w.gk]
                                      : j.k_scale[(at / SG_BLOCK_SUB >> j.k_shift) * j.hk + w.gk];
    const float add = !t.tail ? 0.0f : !j.tail_bias ? LOG2_BLOCK : j.tail_bias[row_of(j, w) * j.nk + at] * SG_LOG2_E;
    int         sum = 0;
    for (int e = 0; e < j.d; e++) sum += q[e] * k[e];
    return (float)sum * (scale * unit) + add;
}

/* Channel e of the value of that token. */
template <bool F8>
static __device__ __forceinline__ float plain_value(const blocks_job &j, const blocks_iterator &w, const blocks_tile &t,
                                                    int64_t at, int e)
{
    const void *const data = t.tail ? j.tail_v : j.v;
    const int64_t     tokens = t.tail ? j.nk : j.m, channel = (int64_t)w.gk * j.d + e;
    if (F8) {
        const int64_t  place = at / 16 * 16 + at % 8 / 2 * 4 + at / 8 % 2 * 2 + at % 2; /* sg_f8_position */
        const uint32_t x = ((const uint8_t *)data)[channel * (t.tail ? j.tail_row : j.v_row) + place];
        return __uint_as_float((x & 0x80) << 24 | (x & 0x7f) << 20) * 0x1p120f;
    }
    if (j.v_type == SG_I8) return ((const int8_t *)data)[(w.gk * tokens + at) * j.d + e];
    const sg_view view = {(void *)data, j.v_type == SG_BF16 && !t.tail, false};
    return sg_get(view, at * j.hk * j.d + channel);
}

template <bool F8> static __global__ void __launch_bounds__(THREADS) attend_blocks_plain(blocks_job j)
{
    __shared__ float  score[SG_BLOCK_K][THREADS];
    __shared__ float2 count[THREADS / SG_WARP];
    const int         turn = blockIdx.y * j.nq + blockIdx.x, item = j.order ? j.order[turn] : turn, row = threadIdx.x;
    const int64_t     first = (int64_t)(item % j.nq) * SG_BLOCK_Q;
    const int         rows = (int)min(j.n - first, (int64_t)SG_BLOCK_Q), column = blockIdx.z * COLUMNS;
    const int64_t     query = first + min(row, rows - 1), g = item / j.nq; /* threads beyond the rows repeat the last */
    const int8_t *const q = j.q + (g * j.n + query) * j.d;
    const float         scale = j.scale * j.q_scale[query / j.q_group * j.h + g];
    blocks_iterator     w = iterator_of(j, (int)g, item % j.nq);
    blocks_tile         t;
    float               o[COLUMNS] = {}, base = LOWEST, sum = 0, left = 0, skips = 0;
    for (bool filters = false; next_tile(j, w, t); filters = j.pv_threshold != NULL) { /* not in the first tile */
        const int64_t from = (int64_t)t.index * SG_BLOCK_K;
        float         row_max = -INFINITY;
#pragma unroll 1
        for (int k = 0; k < SG_BLOCK_K; k++) {
            const bool there = t.seen >> k & 1 && t.ahead + k <= query - first;
            score[k][row] = there ? plain_logit(j, w, t, q, scale, from + k) : -INFINITY;
            row_max = sg_max_nan(row_max, score[k][row]);
        }
        bool out = filters && !t.tail && base != LOWEST && base - row_max > j.pv_threshold[g];
        out = __all_sync(~0u, out);
        if (j.pv_threshold && j.pv_group > WARP_ROWS) out = is_so_in_pair(out, row / (2 * WARP_ROWS));
        skips += out;
        const float top = out ? base : sg_max_nan(base, row_max), by = sg_exp2(base - top);
        base = top;
        if (!out) {
            sum *= by;
            if (left != 0.0f) left *= by; /* by may be NaN */
#pragma unroll 1
            for (int c = 0; c < COLUMNS; c++) o[c] *= by;
        }
#pragma unroll 1
        for (int k = 0; k < SG_BLOCK_K; k++) {
            const float p = sg_exp2(score[k][row] - base);
            if (out) left += p;
            if (out || p == 0.0f) continue; /* a hidden key's value may be anything */
            sum += p;
#pragma unroll 1
            for (int c = 0; c < COLUMNS; c++)
                if (column + c < j.d) o[c] += p * plain_value<F8>(j, w, t, from + k, column + c);
        }
    }
#pragma unroll 1
    for (int c = 0; c < COLUMNS; c++) {
        if (row >= rows || column + c >= j.d) continue;
        const int64_t of_v = (int64_t)w.gk * j.d + column + c;
        const float   x = o[c] / sum * (j.v_scale ? j.v_scale[of_v] : 1.0f) + (j.v_center ? j.v_center[of_v] : 0.0f);
        sg_put(j.y, (query * j.h + g) * j.d + column + c, sum == 0.0f ? 0.0f : x);
    }
    if (j.count && blockIdx.z == 0)
        store_count(j, w, skips, row < rows && left != 0.0f ? left / (sum + left) : 0.0f, rows, count);
}

template <bool F8> static sg_status launch_plain(sg_stream *s, const blocks_job &j)
{
    const dim3 grid(j.nq, j.h, sg_div_up(j.d, COLUMNS));
    sg_fallback_count(&sg_cuda_of(s)->fallbacks, "attend_blocks without tensor cores: heads of more than 256 channels");
    return sg_cuda_launch(s, "attend_blocks", attend_blocks_plain<F8>, grid, THREADS, 0, j);
}

#endif
