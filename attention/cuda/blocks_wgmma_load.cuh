/* blocks_wgmma_load.cuh - of attend_blocks for Hopper: what lies in shared memory, and the warps that fill it. The whole is
 * described in blocks_wgmma.cuh. */
#ifndef SG_BLOCKS_WGMMA_LOAD_CUH
#define SG_BLOCKS_WGMMA_LOAD_CUH

#include "blocks_iterator.cuh"
#include "wgmma.cuh"

enum {
    LOADERS = 4,     /* warps of the warpgroup that loads */
    PAIR = 2,        /* tiles of keys a step */
    ITEM_BARRIER = 1 /* named, of the warps that load */
};

struct hopper_job {
    CUtensorMap     q_map, k_map, v_map, tail_k_map, tail_v_map;
    blocks_job      b;
    const uint16_t *tail_v; /* as BF16 */
    uint32_t       *state;
};

/* What the state holds: the next item's place in the order; whether a mean of values is not finite; whether a value is. */
enum { NEXT, NONFINITE, NONFINITE_VALUE };

/* What is to be known of a step's tiles; of plain ones only the first scale of each. */
struct alignas(16) hopper_info {
    float scale[PAIR][SG_BLOCK_K / SG_BLOCK_SUB];
    float add[PAIR][SG_BLOCK_K]; /* to logits: 0 or a bias; -INFINITY where a key is not to be seen */
    int   plain;          /* keys, not means, all of them there, one scale a tile; with causal, all rows see all */
    int   diagonal[PAIR]; /* causal: row r of the block of queries sees of a tile its keys up to diagonal + r */
};

struct hopper_item {
    int i, g, steps; /* steps -1: there is no more */
};

/* GROUPS warpgroups compute, 64 queries each. Queries and keys have rows of WIDE bytes. Of a tile: bytes of keys, of
 * values, of values that are copied. */
template <int DK, bool F8, int GROUPS> struct hopper_shape {
    static constexpr int WIDE = DK == 64 ? 64 : 128;
    static constexpr int ROWS = 64 * GROUPS, THREADS = 128 * (GROUPS + 1), CONSUMERS = 128 * GROUPS;
    static constexpr int ROWS_V = DK + (F8 ? 8 : 0);
    static constexpr int K_BYTES = SG_BLOCK_K * WIDE;
    static constexpr int V_BYTES = F8 ? ROWS_V * SG_BLOCK_K : WIDE * SG_BLOCK_K * 2;
    static constexpr int V_COPY = F8 ? DK * SG_BLOCK_K : V_BYTES;
    static constexpr int STAGES = F8 || DK == 64 ? 4 : 3;
};

template <int DK, bool F8, int GROUPS> struct hopper_smem {
    typedef hopper_shape<DK, F8, GROUPS> shape;
    int8_t                               q[2][shape::ROWS * shape::WIDE];
    int8_t                               k[shape::STAGES][PAIR][shape::K_BYTES];
    uint8_t                              v[shape::STAGES][PAIR][shape::V_BYTES];
    hopper_info                          info[shape::STAGES];
    hopper_item                          item[2], loading[2];
    uint64_t                             full[shape::STAGES], empty[shape::STAGES], q_full[2], q_empty[2];
};

/* ---- the warps that load ---- */

struct hopper_iterator {
    int      i, g, gk;
    int      count, at, have; /* listed blocks; the next tile; how many tiles have been asked for */
    int      word;            /* the next of the tail */
    uint32_t tile;            /* lane l: tile l of the last 32 asked for; the highest bit: of the tail */
};

template <bool CAUSAL> static __device__ __forceinline__ int hopper_count(const blocks_job &j, const hopper_iterator &w)
{
    return j.list ? j.listed[(int64_t)w.g * j.nq + w.i] : CAUSAL ? visible_of(j, w.i) : j.nk;
}

/* Returns a bit for each of 64 blocks whose means the item sees; there is a tail, so a list too. */
template <bool CAUSAL>
static __device__ __forceinline__ uint64_t hopper_means(const blocks_job &j, const hopper_iterator &w, int word)
{
    return ~j.kept[((int64_t)w.g * j.nq + w.i) * j.words + word] &
           low_bits((CAUSAL ? min((int)(j.m / SG_BLOCK_K), (diagonal_of(j, w.i) + 1) / SG_BLOCK_K)
                            : (int)(j.m / SG_BLOCK_K)) -
                    word * 64);
}

/* Asks for the next 32 listed blocks, or for the next tile of means, where all that was asked for has been taken. */
template <bool CAUSAL>
static __device__ __forceinline__ void hopper_list(const blocks_job &j, hopper_iterator &w, int lane)
{
    if (w.at < w.have) return;
    if (w.at < w.count) {
        const int at = w.at + lane;
        if (at < w.count) w.tile = j.list ? j.list[((int64_t)w.g * j.nq + w.i) * j.nk + at] : (uint32_t)at;
        w.have = min(w.at + SG_WARP, w.count);
        return;
    }
    while (j.tail_k && w.word < j.words) {
        const int word = w.word++;
        if (!hopper_means<CAUSAL>(j, w, word)) continue;
        w.tile = (uint32_t)word | 1u << 31;
        w.have = w.at + 1;
        return;
    }
}

/* The next tile, nothing where there is none. */
template <bool CAUSAL>
static __device__ __forceinline__ blocks_tile hopper_tile(const blocks_job &j, hopper_iterator &w, int lane)
{
    blocks_tile t;
    hopper_list<CAUSAL>(j, w, lane);
    const uint32_t tile = __shfl_sync(~0u, w.tile, w.at < w.count ? w.at % SG_WARP : 0);
    t.tail = w.at < w.have && tile >> 31;
    t.index = w.at < w.have ? (int)(tile & 0x7fffffff) : j.nk; /* beyond the keys: zeros */
    w.at++;
    return t;
}

/* Means of values, some of which are not finite: zeros for those that are not seen. */
template <int DK, bool CAUSAL>
static __device__ __forceinline__ void hopper_nonfinite(const hopper_job &p, const hopper_iterator &w,
                                                        const blocks_tile &t, int lane, uint8_t *to)
{
    const blocks_job &j = p.b;
    const uint64_t    seen = hopper_means<CAUSAL>(j, w, t.index);
#pragma unroll 1
    for (int at = lane; at < SG_BLOCK_K * DK / 8; at += SG_WARP) {
        const int key = at / (DK / 8), e = at % (DK / 8) * 8;
        uint4     x = make_uint4(0, 0, 0, 0);
        if (seen >> key & 1 && e < j.d)
            x = *(const uint4 *)(p.tail_v + (((int64_t)t.index * SG_BLOCK_K + key) * j.hk + w.gk) * j.d + e);
        *(uint4 *)(to + e / 64 * (SG_BLOCK_K * 128) + sg_swizzled<128>(key * 128 + e % 64 * 2)) = x;
    }
    sg_fence_proxy_async();
}

/* One step's keys and values. */
template <bool CAUSAL, int DK, bool F8, int GROUPS>
static __device__ __forceinline__ void hopper_load(const hopper_job &p, const hopper_iterator &w,
                                                   const blocks_tile (&t)[PAIR], bool nonfinite, int lane,
                                                   hopper_smem<DK, F8, GROUPS> &smem, int stage)
{
    typedef hopper_shape<DK, F8, GROUPS> shape;
    uint64_t *const                      full = &smem.full[stage];
    if (!F8 && nonfinite) {
#pragma unroll
        for (int b = 0; b < PAIR; b++)
            if (t[b].tail) hopper_nonfinite<DK, CAUSAL>(p, w, t[b], lane, smem.v[stage][b]);
        __syncwarp();
    }
    if (lane != 0) return;
    int bytes = 0;
#pragma unroll
    for (int b = 0; b < PAIR; b++) bytes += shape::K_BYTES + (!F8 && nonfinite && t[b].tail ? 0 : shape::V_COPY);
    sg_mbarrier_arrive_expect(full, bytes);
#pragma unroll
    for (int b = 0; b < PAIR; b++)
        sg_tma_load(smem.k[stage][b], t[b].tail ? &p.tail_k_map : &p.k_map, full, 0, t[b].index * SG_BLOCK_K, w.gk);
#pragma unroll
    for (int b = 0; b < PAIR; b++) {
        const int                first = t[b].index * SG_BLOCK_K;
        const CUtensorMap *const map = t[b].tail ? &p.tail_v_map : &p.v_map;
        if (F8) {
            sg_tma_load(smem.v[stage][b], map, full, first, 0, w.gk);
        } else if (!(nonfinite && t[b].tail)) {
#pragma unroll
            for (int e = 0; e < DK; e += 64)
                sg_tma_load(smem.v[stage][b] + e * (SG_BLOCK_K * 2), map, full, e, w.gk, first);
        }
    }
}

/* What is added to the logits of a step's keys, of each tile those of keys `lane` and lane + 32; plain: nothing, and a tile
 * has one scale. It is read while the stage is not yet empty. */
struct hopper_key_bias {
    float add[PAIR][2];
    bool  plain;
};

template <bool CAUSAL>
static __device__ __forceinline__ hopper_key_bias hopper_key_bias_of(const blocks_job &j, const hopper_iterator &w,
                                                                     const blocks_tile (&t)[PAIR], int           lane)
{
    const int       full = (int)(j.m / SG_BLOCK_K);
    hopper_key_bias bias;
    bias.plain = j.k_shift == 2;
#pragma unroll
    for (int b = 0; b < PAIR; b++) {
        bias.plain = bias.plain && !t[b].tail && t[b].index < full;
        if constexpr (CAUSAL) bias.plain = bias.plain && (t[b].index + 1) * SG_BLOCK_K <= diagonal_of(j, w.i) + 1;
    }
    if (bias.plain) return bias;
#pragma unroll
    for (int b = 0; b < PAIR; b++) {
        const int64_t  first = (int64_t)t[b].index * SG_BLOCK_K;
        const uint64_t seen = t[b].tail ? hopper_means<CAUSAL>(j, w, t[b].index) : low_bits(j.m - first);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int k = lane + i * SG_WARP;
            float     add = t[b].tail ? LOG2_BLOCK : 0.0f;
            if (t[b].tail && j.tail_bias && first + k < j.nk)
                add = j.tail_bias[((int64_t)w.g * j.nq + w.i) * j.nk + first + k] * SG_LOG2_E;
            bias.add[b][i] = seen >> k & 1 ? add : -INFINITY;
        }
    }
    return bias;
}

template <bool CAUSAL>
static __device__ __forceinline__ void hopper_load_info(const blocks_job &j, const hopper_iterator          &w,
                                                        const blocks_tile (&t)[PAIR], const hopper_key_bias &bias,
                                                        int lane, hopper_info &info, uint64_t *full)
{
    const int  half = lane / 4 % PAIR, part = lane % 4, index = half ? t[1].index : t[0].index;
    const bool tail = half ? t[1].tail : t[0].tail;
    if (lane < PAIR * 4) {
        const int  sub = index * (SG_BLOCK_K / SG_BLOCK_SUB) + part, group = tail ? index : sub >> j.k_shift;
        const bool there = (int64_t)sub * SG_BLOCK_SUB < (tail ? j.nk : j.m);
        sg_cp_async_4(&info.scale[half][part],
                      (tail ? j.tail_k_scale : j.k_scale) + (there ? (int64_t)group * j.hk + w.gk : 0), there);
    }
    if (lane == 0) info.plain = bias.plain;
    if (CAUSAL && lane < PAIR) {
        const bool means = lane ? t[1].tail : t[0].tail; /* all rows see them */
        info.diagonal[lane] = means ? SG_BLOCK_K : diagonal_of(j, w.i) - (lane ? t[1].index : t[0].index) * SG_BLOCK_K;
    }
    if (!bias.plain) {
#pragma unroll
        for (int b = 0; b < PAIR; b++)
#pragma unroll
            for (int i = 0; i < 2; i++) info.add[b][lane + i * SG_WARP] = bias.add[b][i];
    }
    sg_mbarrier_arrive_cp_async(full);
    sg_mbarrier_arrive(full);
}

/* An item without tiles. */
static __device__ __forceinline__ void hopper_zero_rows(const blocks_job &j, const hopper_iterator &w, int size,
                                                        int lane)
{
    const int64_t first = (int64_t)w.i * size, rows = min(j.n - first, (int64_t)size);
    for (int64_t r = 0; r < rows; r++)
        for (int e = lane; e < j.d; e += SG_WARP) sg_put(j.y, ((first + r) * j.h + w.g) * j.d + e, 0.0f);
}

/* Warps 0 and 2 ask for the tiles of even and odd steps, 1 and 3 tell of them. */
template <bool CAUSAL, int DK, bool F8, int GROUPS>
static __device__ __forceinline__ void hopper_load_loop(const hopper_job &p, hopper_smem<DK, F8, GROUPS> &smem,
                                                        int warp)
{
    typedef hopper_shape<DK, F8, GROUPS> shape;
    constexpr int                        STAGES = shape::STAGES, ROWS = shape::ROWS;
    const blocks_job                    &j = p.b;
    const int                            lane = threadIdx.x % SG_WARP;
    const uint32_t                       items = (uint32_t)j.nq * (uint32_t)j.h;
    const bool                           nonfinite = p.state[NONFINITE] != 0;
    int                                  stage = 0, seat = 0, parity = 0;
    uint32_t                             phase = 1, q_phase = 1; /* the first waits find their places empty */
    for (int turn = 0;; turn ^= 1) {
        hopper_iterator w = {};
        if (warp == 0) {
            uint32_t at = 0;
            int      tiles = 0;
            if (lane == 0) at = atomicAdd(&p.state[NEXT], 1);
            at = __shfl_sync(~0u, at, 0);
            const bool more = at < items;
            if (more) {
                const uint32_t row = j.order ? (uint32_t)j.order[at] : at;
                w.i = (int)(row % (uint32_t)j.nq);
                w.g = (int)(row / (uint32_t)j.nq);
                tiles = j.order ? j.tiles[row] : j.nk;
            }
            if (lane == 0) smem.loading[turn] = {w.i, w.g, more ? (tiles + 1) / PAIR : -1};
            __syncwarp();
        }
        sg_named_barrier_sync(ITEM_BARRIER, LOADERS * SG_WARP);
        const hopper_item item = smem.loading[turn];
        w.i = item.i;
        w.g = item.g;
        w.gk = w.g / (j.h / j.hk);
        if (item.steps > 0) w.count = hopper_count<CAUSAL>(j, w);
        if (item.steps == 0) {
            if (warp == 0) hopper_zero_rows(j, w, ROWS, lane);
            continue;
        }
        if (warp == 0) {
            sg_mbarrier_wait(&smem.q_empty[seat], q_phase);
            if (lane == 0) {
                smem.item[seat] = item;
                sg_mbarrier_arrive_expect(&smem.q_full[seat], item.steps > 0 ? ROWS * shape::WIDE : 0);
                if (item.steps > 0) sg_tma_load(smem.q[seat], &p.q_map, &smem.q_full[seat], 0, w.i * ROWS, w.g);
            }
            q_phase ^= (uint32_t)seat;
            seat ^= 1;
        }
        if (item.steps < 0) break;
        for (int step = 0; step < item.steps; step++, parity ^= 1) {
            if (parity == warp / 2) {
                blocks_tile t[PAIR];
#pragma unroll
                for (int b = 0; b < PAIR; b++) t[b] = hopper_tile<CAUSAL>(j, w, lane);
                if (warp % 2 == 0) {
                    sg_mbarrier_wait(&smem.empty[stage], phase);
                    hopper_load<CAUSAL>(p, w, t, nonfinite, lane, smem, stage);
                } else {
                    const hopper_key_bias bias = hopper_key_bias_of<CAUSAL>(j, w, t, lane);
                    sg_mbarrier_wait(&smem.empty[stage], phase);
                    hopper_load_info<CAUSAL>(j, w, t, bias, lane, smem.info[stage], &smem.full[stage]);
                }
            } else {
                for (int b = 0; b < PAIR; b++) {
                    hopper_list<CAUSAL>(j, w, lane);
                    w.at++;
                }
            }
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
    }
}

#endif
