/* blocks_wgmma_load.cuh - of attend_blocks for Hopper: what lies in shared memory, and the warps that fill it. The whole is
 * described in blocks_wgmma.cuh. */
#ifndef SG_BLOCKS_WGMMA_LOAD_CUH
#define SG_BLOCKS_WGMMA_LOAD_CUH

#include "blocks_iterator.cuh"
#include "wgmma.cuh"

enum {
    LOADERS = 4,     /* warps of the warpgroup that loads */
    PAIR = 2,        /* tiles of keys a step */
    LIST = 160,      /* a word's 64 tiles, and room: with 64 the compiler's code is another than that measured */
    ITEM_BARRIER = 1 /* named, of the warps that load */
};

struct hopper_job {
    CUtensorMap     q_map, k_map, v_map, tail_k_map, tail_v_map;
    blocks_job      b;
    const uint16_t *tail_v; /* as BF16 */
    uint32_t       *state;
};

/* What the state holds: the next item's place in the order; whether a mean of values is not finite; the order of items. */
enum { NEXT, NONFINITE, ORDER };

/* What is to be known of a step's tiles; of plain ones only the first scale of each. */
struct hopper_info {
    float    scale[PAIR][SG_BLOCK_K / SG_BLOCK_SUB];
    uint64_t seen[PAIR];
    int      tail[PAIR];
    int      plain; /* keys, not means, all of them there, one scale a tile */
    float    bias[PAIR][SG_BLOCK_K];
};

struct hopper_item {
    int i, g, steps; /* steps -1: there is no more */
};

/* GROUPS warpgroups compute, 64 queries each. Of a tile: bytes of keys, of values, of values that are copied. */
template <int DK, bool F8, int GROUPS> struct hopper_shape {
    static constexpr int ROWS = 64 * GROUPS, THREADS = 128 * (GROUPS + 1), CONSUMERS = 128 * GROUPS;
    static constexpr int ROWS_V = DK + (F8 ? 8 : 0);
    static constexpr int K_BYTES = SG_BLOCK_K * DK, V_BYTES = F8 ? ROWS_V * SG_BLOCK_K : DK * SG_BLOCK_K * 2;
    static constexpr int V_COPY = F8 ? DK * SG_BLOCK_K : V_BYTES;
    static constexpr int STAGES = F8 || DK == 64 ? 4 : 3;
};

template <int DK, bool F8, int GROUPS> struct hopper_smem {
    typedef hopper_shape<DK, F8, GROUPS> shape;
    int8_t                               q[2][shape::ROWS * DK];
    int8_t                               k[shape::STAGES][PAIR][shape::K_BYTES];
    uint8_t                              v[shape::STAGES][PAIR][shape::V_BYTES];
    hopper_info                          info[shape::STAGES];
    hopper_item                          item[2], loading[2];
    uint32_t                             list[LOADERS][LIST];
    uint64_t                             full[shape::STAGES], empty[shape::STAGES], q_full[2], q_empty[2];
};

/* ---- the warps that load ---- */

struct hopper_iterator {
    int      i, g, gk;
    int      word, at, have; /* the next to list; of the list, the next and how many there are */
    uint64_t rest;           /* of 32 words, the lane's */
};

/* A word of the listed blocks' bits; NULL: all bits. */
static __device__ __forceinline__ uint64_t hopper_word(const uint64_t *kept, int64_t i)
{
    return kept ? kept[i] : ~0ull;
}

/* Which of 64 blocks the item keeps. */
static __device__ __forceinline__ uint64_t hopper_kept(const blocks_job &j, const hopper_iterator &w, int word)
{
    if (word >= j.words) return 0;
    return hopper_word(j.kept, ((int64_t)w.g * j.nq + w.i) * j.words + word) & low_bits(j.nk - word * 64);
}

/* Of which of 64 blocks it sees the means, where there is a tail. */
static __device__ __forceinline__ uint64_t hopper_means(const blocks_job &j, const hopper_iterator &w, int word)
{
    return ~hopper_kept(j, w, word) & low_bits((int)(j.m / SG_BLOCK_K) - word * 64);
}

/* How many tiles the row has. */
static __device__ __forceinline__ int hopper_tiles(const blocks_job &j, const hopper_iterator &w, int lane)
{
    int count = 0;
    for (int word = lane; word < j.words; word += SG_WARP) {
        count += __popcll(hopper_kept(j, w, word));
        if (j.tail_k && hopper_means(j, w, word)) count++;
    }
    return __reduce_add_sync(~0u, count);
}

/* Lists what the next word keeps, or the next tile of means, when what is listed has been taken. */
static __device__ __forceinline__ void hopper_list(const blocks_job &j, hopper_iterator &w, int lane, uint32_t *list)
{
    while (w.at >= w.have && w.word < 2 * j.words) {
        const int word = w.word++;
        if (word < j.words) {
            if (word % SG_WARP == 0) w.rest = hopper_kept(j, w, word + lane);
            const uint64_t kept = __shfl_sync(~0u, w.rest, word % SG_WARP);
            const uint32_t low = (uint32_t)kept, high = (uint32_t)(kept >> 32), below = (1u << lane) - 1;
            __syncwarp();
            if (low >> lane & 1) list[__popc(low & below)] = (uint32_t)(word * 64 + lane);
            if (high >> lane & 1) list[__popc(low) + __popc(high & below)] = (uint32_t)(word * 64 + lane + 32);
            w.at -= w.have;
            w.have = __popcll(kept);
        } else if (j.tail_k && hopper_means(j, w, word - j.words)) {
            __syncwarp();
            if (lane == 0) list[0] = (uint32_t)(word - j.words) | 1u << 31;
            w.at -= w.have;
            w.have = 1;
        }
        __syncwarp();
    }
}

/* The next tile, nothing where there is none. */
static __device__ __forceinline__ blocks_tile hopper_tile(const blocks_job &j, hopper_iterator &w, int lane,
                                                          uint32_t *list)
{
    blocks_tile t;
    hopper_list(j, w, lane, list);
    t.index = j.nk; /* beyond the keys: zeros */
    t.tail = false;
    if (w.at < w.have) {
        const uint32_t x = list[w.at];
        t.tail = x >> 31;
        t.index = (int)(x & 0x7fffffff);
    }
    w.at++;
    return t;
}

/* Means of values, some of which are not finite: zeros for those that are not seen. */
template <int DK>
static __device__ __forceinline__ void hopper_nonfinite(const hopper_job &p, const hopper_iterator &w,
                                                        const blocks_tile &t, int lane, uint8_t *to)
{
    const blocks_job &j = p.b;
    const uint64_t    seen = hopper_means(j, w, t.index);
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
template <int DK, bool F8, int GROUPS>
static __device__ __forceinline__ void hopper_load(const hopper_job &p, const hopper_iterator &w,
                                                   const blocks_tile (&t)[PAIR], bool nonfinite, int lane,
                                                   hopper_smem<DK, F8, GROUPS> &smem, int stage)
{
    typedef hopper_shape<DK, F8, GROUPS> shape;
    uint64_t *const                      full = &smem.full[stage];
    if (!F8 && nonfinite) {
#pragma unroll
        for (int b = 0; b < PAIR; b++)
            if (t[b].tail) hopper_nonfinite<DK>(p, w, t[b], lane, smem.v[stage][b]);
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

/* What is to be known of one step's tiles. */
static __device__ __forceinline__ void hopper_load_info(const blocks_job &j, const hopper_iterator &w,
                                                        const blocks_tile (&t)[PAIR], int lane, hopper_info &info,
                                                        uint64_t *full)
{
    const int  half = lane / 4 % PAIR, part = lane % 4, index = half ? t[1].index : t[0].index;
    const bool tail = half ? t[1].tail : t[0].tail, last = index >= (int)(j.m / SG_BLOCK_K);
    if (lane < PAIR * 4) {
        const int  sub = index * (SG_BLOCK_K / SG_BLOCK_SUB) + part, group = tail ? index : sub >> j.k_shift;
        const bool there = (int64_t)sub * SG_BLOCK_SUB < (tail ? j.nk : j.m);
        sg_cp_async_4(&info.scale[half][part],
                      (tail ? j.tail_k_scale : j.k_scale) + (there ? (int64_t)group * j.hk + w.gk : 0), there);
    }
    const bool odd = tail || last || j.k_shift != 2;
    const bool any = __any_sync(~0u, lane < PAIR * 4 && odd);
    if (lane == 0) info.plain = !any;
    if (any && lane < PAIR * 4 && part == 0) {
        info.seen[half] = tail ? hopper_means(j, w, index) : low_bits(j.m - (int64_t)index * SG_BLOCK_K);
        info.tail[half] = tail;
    }
#pragma unroll
    for (int b = 0; b < PAIR; b++) {
        const int first = t[b].index * SG_BLOCK_K;
        if (!t[b].tail || !j.tail_bias) continue;
        for (int k = lane; k < SG_BLOCK_K; k += SG_WARP)
            sg_cp_async_4(&info.bias[b][k],
                          j.tail_bias + ((int64_t)w.g * j.nq + w.i) * j.nk + (first + k < j.nk ? first + k : 0),
                          first + k < j.nk);
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
template <int DK, bool F8, int GROUPS>
static __device__ __forceinline__ void hopper_load_loop(const hopper_job &p, hopper_smem<DK, F8, GROUPS> &smem,
                                                        int warp)
{
    constexpr int     STAGES = hopper_shape<DK, F8, GROUPS>::STAGES, ROWS = hopper_shape<DK, F8, GROUPS>::ROWS;
    const blocks_job &j = p.b;
    const int         lane = threadIdx.x % SG_WARP;
    const uint32_t    items = (uint32_t)j.nq * (uint32_t)j.h;
    const bool        nonfinite = p.state[NONFINITE] != 0;
    int               stage = 0, seat = 0, parity = 0;
    uint32_t          phase = 1, q_phase = 1; /* the first waits find their places empty */
    for (int turn = 0;; turn ^= 1) {
        hopper_iterator w = {};
        if (warp == 0) {
            uint32_t at = 0;
            int      tiles = 0;
            if (lane == 0) at = atomicAdd(&p.state[NEXT], 1);
            at = __shfl_sync(~0u, at, 0);
            const bool more = at < items;
            if (more) {
                const uint32_t row = p.state[ORDER + at];
                w.i = (int)(row % (uint32_t)j.nq);
                w.g = (int)(row / (uint32_t)j.nq);
                tiles = hopper_tiles(j, w, lane);
            }
            if (lane == 0) smem.loading[turn] = {w.i, w.g, more ? (tiles + 1) / PAIR : -1};
            __syncwarp();
        }
        sg_named_barrier_sync(ITEM_BARRIER, LOADERS * SG_WARP);
        const hopper_item item = smem.loading[turn];
        w.i = item.i;
        w.g = item.g;
        w.gk = w.g / (j.h / j.hk);
        if (item.steps == 0) {
            if (warp == 0) hopper_zero_rows(j, w, ROWS, lane);
            continue;
        }
        if (warp == 0) {
            sg_mbarrier_wait(&smem.q_empty[seat], q_phase);
            if (lane == 0) {
                smem.item[seat] = item;
                sg_mbarrier_arrive_expect(&smem.q_full[seat], item.steps > 0 ? ROWS * DK : 0);
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
                for (int b = 0; b < PAIR; b++) t[b] = hopper_tile(j, w, lane, smem.list[warp]);
                sg_mbarrier_wait(&smem.empty[stage], phase);
                if (warp % 2 == 0)
                    hopper_load(p, w, t, nonfinite, lane, smem, stage);
                else
                    hopper_load_info(j, w, t, lane, smem.info[stage], &smem.full[stage]);
            } else {
                for (int b = 0; b < PAIR; b++) {
                    hopper_list(j, w, lane, smem.list[warp]);
                    w.at++;
                }
            }
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
    }
}

#endif
