/* blocks_mma.cu - attend_blocks on tensor cores (mma.sync, compute capability 8.0 and up): q k^T in I8, weights times values
 * in BF16, online softmax in F32.
 *
 * A block of 128 threads owns SG_BLOCK_Q queries of one head, each of its four warps 32 of them (so many leave out a block
 * of keys together), and walks over tiles of SG_BLOCK_K keys: the blocks that its queries keep, then the means of those
 * that they do not. DK is d rounded up to 64, 96, 128 or 256. Of values it takes DV columns; at d above 128 a second block
 * counts the scores anew for the others, for want of registers: a warp holds 32 x DV sums and 32 x 64 scores.
 *
 * Weights become the left operand of the product with v where they are: see mma.cuh. They are rounded to BF16 for it and
 * summed unrounded. I8 values are exact in BF16.
 *
 * Shared memory: q I8 [128][DK + 16]; twice k I8 [64][DK + 16], v BF16 [64][DV + 8], scales and biases of a tile's keys. The
 * 16 bytes keep ldmatrix free of bank conflicts.
 * Schedule: one barrier a tile. After it tile t is there and all warps are done with t - 1, in whose place t + 1 is put
 * while t is computed.
 * Roofline: of a tile of d = 128 an H200's processor needs 256 cycles for q k^T, 512 for the values, 512 for the powers of
 * two and as many for scaling, maxima and packing, which other warps hide; shared memory gives the operands in 770. */
#include "blocks.cuh"

#include <math.h>

enum { THREADS = 128, WARP_ROWS = 32, PAD = 8 };

#define LOG2_BLOCK 6.0f /* ln SG_BLOCK_K in powers of two */

struct blocks_job {
    const int8_t *q, *k, *tail_k;
    const float  *q_scale, *k_scale, *tail_k_scale, *v_scale, *v_center, *tail_bias,
        *lambda; /* the last five may be NULL */
    const void    *v, *tail_v;
    const uint8_t *keep;
    float2        *count; /* [h, nq]: skips, sum of shares; NULL without lambda */
    sg_view        y;
    int64_t        n, m, d, nq, nk;
    int            h, hk, q_group, k_group;
    sg_dtype       v_type;
    float          scale; /* times log2 e: weights are powers of two */
    bool           causal, wide_k, wide_v;
};

template <int DK, int DV> struct blocks_shared {
    int8_t   q[SG_BLOCK_Q][DK + 16];
    int8_t   k[2][SG_BLOCK_K][DK + 16];
    uint16_t v[2][SG_BLOCK_K][DV + PAD];
    float    add[2][SG_BLOCK_K]; /* to a logit, in powers of two; -INFINITY: the key is not there */
    float    scale[2][SG_BLOCK_K / SG_BLOCK_SUB];
    float2   count[THREADS / SG_WARP];
};

/* ---- the walk ---- */

struct blocks_tile {
    int64_t  index; /* of a block of keys, or of 64 of them, whose means these are */
    uint64_t seen;  /* a bit of each key that is there */
    bool     tail;
    bool     edge; /* causal: key k only from row SG_BLOCK_K index + k on */
};

struct blocks_walk {
    int64_t i, gk;
    int64_t sight; /* how many blocks of keys are seen */
    int64_t next;  /* block of keys, then nk + word of the tail */
};

static __device__ __forceinline__ uint64_t low_bits(int64_t n)
{
    return n >= 64 ? ~0ull : n <= 0 ? 0 : (1ull << n) - 1;
}

static __device__ __forceinline__ uint64_t kept_of(const blocks_job &j, const blocks_walk &w, int64_t word)
{
    const int64_t words = (j.nk + 63) / 64;
    uint64_t      kept = ~0ull;
    if (j.keep) {
        const uint8_t *const from = j.keep + (((int64_t)blockIdx.y * j.nq + w.i) * words + word) * 8;
        kept = 0;
        for (int b = 0; b < 8; b++) kept |= (uint64_t)from[b] << 8 * b; /* it may lie anywhere */
    }
    return kept & low_bits(w.sight - word * 64);
}

static __device__ bool next_tile(const blocks_job &j, blocks_walk &w, blocks_tile &t)
{
    while (w.next < j.nk) {
        const uint64_t rest = kept_of(j, w, w.next / 64) >> w.next % 64;
        if (!rest) {
            w.next = min((w.next / 64 + 1) * 64, j.nk);
            continue;
        }
        t.index = w.next + __ffsll((long long)rest) - 1;
        t.seen = low_bits(j.m - t.index * SG_BLOCK_K);
        t.tail = false;
        t.edge = j.causal && (t.index + 1) * SG_BLOCK_K > w.i * SG_BLOCK_Q + 1;
        w.next = t.index + 1;
        return true;
    }
    while (j.tail_k && (w.next - j.nk) * 64 < j.nk) {
        const int64_t full = j.m / SG_BLOCK_K, whole = j.causal ? min(full, (w.i * SG_BLOCK_Q + 1) / SG_BLOCK_K) : full;
        t.index = w.next++ - j.nk;
        t.seen = ~kept_of(j, w, t.index) & low_bits(whole - t.index * 64);
        t.tail = true;
        t.edge = false;
        if (t.seen) return true;
    }
    return false;
}

/* ---- tiles into shared memory ---- */

/* Rows of I8 [rows, d]; zeros for those that are not there and beyond d. */
template <int ROWS, int DK>
static __device__ void load_bytes(const blocks_job &j, const int8_t *from, int64_t first, int64_t rows,
                                  int8_t (*to)[DK + 16])
{
    constexpr int PARTS = DK / 16;
    for (int i = threadIdx.x; i < ROWS * PARTS; i += THREADS) {
        const int     row = i / PARTS, e = i % PARTS * 16;
        const bool    there = first + row < rows;
        const int64_t at = there ? (first + row) * j.d + e : 0;
        if (j.wide_k)
            sg_copy_16(&to[row][e], from + (e < j.d ? at : 0), there && e < j.d);
        else
            for (int l = 0; l < 16; l++) to[row][e + l] = there && e + l < j.d ? from[at + l] : (int8_t)0;
    }
}

static __device__ __forceinline__ uint16_t value_bits(const void *v, sg_dtype type, int64_t at)
{
    if (type == SG_BF16) return ((const uint16_t *)v)[at];
    const float x = type == SG_I8 ? (float)((const int8_t *)v)[at] : ((const float *)v)[at];
    return (uint16_t)sg_two_bf16(x, 0.0f);
}

/* Values as BF16; zeros for keys that are not seen, whose values may be anything. */
template <int DV>
static __device__ void load_values(const blocks_job &j, const blocks_tile &t, int64_t gk, int64_t column,
                                   uint16_t (*to)[DV + PAD])
{
    constexpr int  PARTS = DV / 8;
    const void    *from = t.tail ? j.tail_v : j.v;
    const sg_dtype type = t.tail && j.v_type == SG_BF16 ? SG_F32 : j.v_type; /* of the tail F32, or I8 */
    const int64_t  rows = t.tail ? j.nk : j.m, first = t.index * SG_BLOCK_K;
    for (int i = threadIdx.x; i < SG_BLOCK_K * PARTS; i += THREADS) {
        const int     row = i / PARTS, e = i % PARTS * 8;
        const bool    there = t.seen >> row & 1 && column + e < j.d;
        const int64_t line = type == SG_I8 ? gk * rows + first + row : (first + row) * j.hk + gk;
        const int64_t at = there ? line * j.d + column + e : 0;
        if (j.wide_v && !t.tail)
            sg_copy_16(&to[row][e], (const uint16_t *)from + at, there);
        else
            for (int l = 0; l < 8; l++)
                to[row][e + l] = there && column + e + l < j.d ? value_bits(from, type, at + l) : (uint16_t)0;
    }
}

template <int DK, int DV>
static __device__ void load_tile(const blocks_job &j, const blocks_walk &w, const blocks_tile &t, int64_t column,
                                 blocks_shared<DK, DV> &room, int stage)
{
    const int8_t *const k = t.tail ? j.tail_k + w.gk * j.nk * j.d : j.k + w.gk * j.m * j.d;
    const int64_t       rows = t.tail ? j.nk : j.m, first = t.index * SG_BLOCK_K;
    const int           lane = threadIdx.x;
    load_bytes<SG_BLOCK_K, DK>(j, k, first, rows, room.k[stage]);
    load_values<DV>(j, t, w.gk, column, room.v[stage]);
    if (lane < SG_BLOCK_K) {
        float add = t.tail ? LOG2_BLOCK : 0.0f;
        if (t.tail && j.tail_bias && first + lane < j.nk)
            add = j.tail_bias[((int64_t)blockIdx.y * j.nq + w.i) * j.nk + first + lane] * SG_LOG2_E;
        room.add[stage][lane] = t.seen >> lane & 1 ? add : -INFINITY;
    } else if (lane < SG_BLOCK_K + SG_BLOCK_K / SG_BLOCK_SUB) {
        const int     part = lane - SG_BLOCK_K;
        const int64_t row = first + part * SG_BLOCK_SUB;
        const float  *scale = t.tail ? j.tail_k_scale + t.index * j.hk : j.k_scale + row / j.k_group * j.hk;
        room.scale[stage][part] = row < rows ? scale[w.gk] : 0.0f;
    }
    sg_copies_commit();
}

/* ---- computing ---- */

/* One warp's 32 rows: fragment f has rows 16 f + lane / 4 (r = 0) and 8 more (r = 1). */
template <int DV> struct warp_state {
    float o[2][DV / 8][4];
    float top[2][2], sum[2][2], left[2][2];
    float scale[2]; /* of the queries, times that of the logits */
    float skips;
    bool  started; /* a kept block came before */
};

/* s = q k^T, as whole numbers. */
template <int DK, int DV>
static __device__ __forceinline__ void products(const blocks_shared<DK, DV> &room, int stage, int warp, int lane,
                                                int (&s)[2][8][4])
{
#pragma unroll
    for (int f = 0; f < 2; f++)
        for (int c = 0; c < 8; c++)
            for (int i = 0; i < 4; i++) s[f][c][i] = 0;
#pragma unroll
    for (int e = 0; e < DK; e += 32) {
        uint32_t a[2][4], b[4];
#pragma unroll
        for (int f = 0; f < 2; f++) sg_load_4(a[f], &room.q[warp * WARP_ROWS + f * 16 + lane % 16][e + lane / 16 * 16]);
#pragma unroll
        for (int c = 0; c < 8; c += 2) {
            sg_load_4(b, &room.k[stage][c * 8 + lane / 16 * 8 + lane % 8][e + lane / 8 % 2 * 16]);
#pragma unroll
            for (int f = 0; f < 2; f++) {
                sg_multiply_i8(s[f][c], a[f], b[0], b[1]);
                sg_multiply_i8(s[f][c + 1], a[f], b[2], b[3]);
            }
        }
    }
}

/* Whole numbers become logits in powers of two; those of keys that a row does not see -INFINITY. */
template <int DK, int DV>
static __device__ __forceinline__ void logits(const blocks_shared<DK, DV> &room, int stage, const blocks_tile &t,
                                              const warp_state<DV> &w, int64_t row, int lane, int (&s)[2][8][4])
{
    const bool plain = !t.tail && !t.edge && t.seen == ~0ull;
#pragma unroll
    for (int c = 0; c < 8; c++) {
        const float scale = room.scale[stage][c / 2];
        float2      add = make_float2(0.0f, 0.0f);
        if (!plain) add = *(const float2 *)&room.add[stage][c * 8 + lane % 4 * 2];
#pragma unroll
        for (int f = 0; f < 2; f++) {
            const float both = w.scale[f] * scale;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float l = (float)s[f][c][i] * both;
                if (!plain) {
                    const float   more = i % 2 ? add.y : add.x;
                    const int64_t key = t.index * SG_BLOCK_K + c * 8 + lane % 4 * 2 + i % 2;
                    const bool    hidden = t.edge && key > row + f * 16 + i / 2 * 8;
                    l = more == -INFINITY || hidden ? -INFINITY : l + more; /* also where l is NaN */
                }
                s[f][c][i] = __float_as_int(l);
            }
        }
    }
}

/* Whether all 32 rows may leave out a kept block whose largest logits are most. */
template <int DV>
static __device__ __forceinline__ bool leaves(const warp_state<DV> &w, const float (&most)[2][2], float lambda,
                                              int64_t row, int64_t n)
{
    bool can = w.started;
#pragma unroll
    for (int f = 0; f < 2; f++)
        for (int r = 0; r < 2; r++) can = can && (row + f * 16 + r * 8 >= n || w.top[f][r] - most[f][r] > lambda);
    return __all_sync(~0u, can);
}

/* Logits become weights, as BF16 pairs in p; sums and o fade by what the largest logit has grown. NaN goes through the
 * largest. A row that has seen no key keeps top -INFINITY and weights 0. False: the warp leaves this tile out. */
template <int DV>
static __device__ __forceinline__ bool soften(const blocks_job &j, const blocks_tile &t, warp_state<DV> &w, int64_t row,
                                              int (&s)[2][8][4], uint32_t (&p)[2][8][2])
{
    float most[2][2];
#pragma unroll
    for (int f = 0; f < 2; f++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float max = -INFINITY;
#pragma unroll
            for (int c = 0; c < 8; c++)
                max = sg_most(max, sg_most(__int_as_float(s[f][c][2 * r]), __int_as_float(s[f][c][2 * r + 1])));
            for (int i = 2; i > 0; i /= 2) max = sg_most(max, __shfl_xor_sync(~0u, max, i));
            most[f][r] = max;
        }
    const bool out = j.lambda && !t.tail && leaves(w, most, j.lambda[blockIdx.y], row, j.n);
    w.started = true;
#pragma unroll
    for (int f = 0; f < 2; f++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float top = out ? w.top[f][r] : sg_most(w.top[f][r], most[f][r]),
                        base = top == -INFINITY ? 0.0f : top;
            const float fade = sg_power_of_two(w.top[f][r] - base);
            float       all = 0;
#pragma unroll
            for (int c = 0; c < 8; c++) {
                const float x = sg_power_of_two(__int_as_float(s[f][c][2 * r]) - base),
                            y = sg_power_of_two(__int_as_float(s[f][c][2 * r + 1]) - base);
                all += x + y;
                p[f][c][r] = sg_two_bf16(x, y);
            }
            if (out) {
                w.left[f][r] += all;
                continue;
            }
            w.top[f][r] = top;
            w.sum[f][r] = w.sum[f][r] * fade + all;
            if (w.left[f][r] != 0.0f) w.left[f][r] *= fade; /* fade may be NaN */
#pragma unroll
            for (int c = 0; c < DV / 8; c++) {
                w.o[f][c][2 * r] *= fade;
                w.o[f][c][2 * r + 1] *= fade;
            }
        }
    w.skips += out;
    return !out;
}

static __device__ __forceinline__ bool is_finite_bf16(uint32_t bits) { return (bits & 0x7f80) != 0x7f80; }

/* o += p v. WILD: of finite values only. */
template <bool WILD, int DK, int DV>
static __device__ __forceinline__ void add_values(const blocks_shared<DK, DV> &room, int stage, int lane,
                                                  const uint32_t (&p)[2][8][2], warp_state<DV> &w)
{
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t a[2][4];
#pragma unroll
        for (int f = 0; f < 2; f++)
            for (int i = 0; i < 4; i++) a[f][i] = p[f][2 * k + i / 2][i % 2];
#pragma unroll
        for (int c = 0; c < DV / 8; c += 2) {
            uint32_t b[4];
            sg_load_4_turned(b, &room.v[stage][k * 16 + lane % 16][c * 8 + lane / 16 * 8]);
            for (int i = 0; WILD && i < 4; i++)
                b[i] &= (is_finite_bf16(b[i]) ? 0xffffu : 0) | (is_finite_bf16(b[i] >> 16) ? 0xffff0000u : 0);
#pragma unroll
            for (int f = 0; f < 2; f++) {
                sg_multiply(w.o[f][c], a[f], b[0], b[1]);
                sg_multiply(w.o[f][c + 1], a[f], b[2], b[3]);
            }
        }
    }
}

/* o += what is not finite among the values that a row sees: for the others its weight of 0 would make NaN of it too. */
template <int DK, int DV>
static __device__ void add_wild(const blocks_shared<DK, DV> &room, int stage, const blocks_tile &t, int64_t row,
                                int lane, warp_state<DV> &w)
{
#pragma unroll 1
    for (int k = 0; k < SG_BLOCK_K; k++) {
        const int64_t key = t.index * SG_BLOCK_K + k;
#pragma unroll
        for (int c = 0; c < DV / 8; c++) {
            const uint32_t two = *(const uint32_t *)&room.v[stage][k][c * 8 + lane % 4 * 2];
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int f = 0; f < 4; f++)
                    if (!is_finite_bf16(two >> 16 * i) && key <= row + f * 8)
                        w.o[f / 2][c][f % 2 * 2 + i] += sg_wide_bf16(two >> 16 * i & 0xffff);
        }
    }
}

template <int DK, int DV> static __device__ bool is_wild(const blocks_shared<DK, DV> &room, int stage)
{
    bool wild = false;
    for (int i = threadIdx.x; i < SG_BLOCK_K * DV; i += THREADS)
        wild = wild || !is_finite_bf16(room.v[stage][i / DV][i % DV]);
    return __syncthreads_or(wild);
}

/* ---- the end ---- */

template <int DV>
static __device__ void store_rows(const blocks_job &j, int64_t gk, int64_t row, int64_t column, int lane,
                                  warp_state<DV> &w)
{
#pragma unroll
    for (int f = 0; f < 2; f++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t at = row + f * 16 + r * 8;
            const float   sum = w.sum[f][r], by = 1.0f / sum;
            if (at >= j.n) continue;
#pragma unroll
            for (int c = 0; c < DV / 8; c++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int64_t e = column + c * 8 + lane % 4 * 2 + i;
                    if (e >= j.d) continue;
                    float y = w.o[f][c][2 * r + i] * by;
                    if (j.v_scale) y *= j.v_scale[gk * j.d + e];
                    if (j.v_center) y += j.v_center[gk * j.d + e];
                    sg_put(j.y, (at * j.h + blockIdx.y) * j.d + e, sum == 0.0f ? 0.0f : y);
                }
        }
}

/* What the warps left out, added up in one order. */
template <int DK, int DV>
static __device__ void store_count(const blocks_job &j, blocks_shared<DK, DV> &room, const warp_state<DV> &w,
                                   int64_t row, int warp, int lane)
{
    float share = 0;
#pragma unroll
    for (int f = 0; f < 2; f++)
        for (int r = 0; r < 2; r++) {
            const float left = w.left[f][r];
            if (row + f * 16 + r * 8 < j.n && left != 0.0f && lane % 4 == 0) share += left / (w.sum[f][r] + left);
        }
    share = sg_lanes_sum(share);
    const int64_t first = (int64_t)blockIdx.x * SG_BLOCK_Q + warp * WARP_ROWS;
    if (lane == 0) room.count[warp] = make_float2(first < j.n ? w.skips : 0.0f, share);
    __syncthreads();
    if (threadIdx.x == 0)
        j.count[blockIdx.y * j.nq + blockIdx.x] =
            make_float2(room.count[0].x + room.count[1].x + room.count[2].x + room.count[3].x,
                        room.count[0].y + room.count[1].y + room.count[2].y + room.count[3].y);
}

template <int DK, int DV> static __global__ void __launch_bounds__(THREADS, 2) attend_blocks_mma(blocks_job j)
{
    extern __shared__ __align__(16) unsigned char bytes[];
    blocks_shared<DK, DV>                        &room = *(blocks_shared<DK, DV> *)bytes;
    const int                                     warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP;
    const int64_t  first = (int64_t)blockIdx.x * SG_BLOCK_Q, column = (int64_t)blockIdx.z * DV, g = blockIdx.y;
    const int64_t  row = first + warp * WARP_ROWS + lane / 4;
    blocks_walk    walk = {blockIdx.x, g / (j.h / j.hk), j.nk, 0};
    blocks_tile    t, u;
    warp_state<DV> w = {};
    if (j.causal) walk.sight = min((min(j.n, first + SG_BLOCK_Q) + SG_BLOCK_K - 1) / SG_BLOCK_K, j.nk);
#pragma unroll
    for (int f = 0; f < 2; f++) {
        const int64_t at = first + warp * WARP_ROWS + f * 16;
        w.scale[f] = at < j.n ? j.scale * j.q_scale[at / j.q_group * j.h + g] : 0.0f;
        for (int r = 0; r < 2; r++) w.top[f][r] = -INFINITY;
    }
    load_bytes<SG_BLOCK_Q, DK>(j, j.q + g * j.n * j.d, first, j.n, room.q);
    bool more = next_tile(j, walk, t);
    if (more) load_tile(j, walk, t, column, room, 0);
    for (int stage = 0; more; stage ^= 1, t = u) {
        int      s[2][8][4];
        uint32_t p[2][8][2];
        sg_copies_wait();
        __syncthreads();
        more = next_tile(j, walk, u);
        if (more) load_tile(j, walk, u, column, room, stage ^ 1);
        const bool wild = t.edge && is_wild(room, stage);
        products(room, stage, warp, lane, s);
        logits(room, stage, t, w, row, lane, s);
        if (!soften(j, t, w, row, s, p)) continue;
        if (wild) {
            add_values<true>(room, stage, lane, p, w);
            add_wild(room, stage, t, row, lane, w);
        } else {
            add_values<false>(room, stage, lane, p, w);
        }
    }
    sg_copies_wait();
#pragma unroll
    for (int f = 0; f < 2; f++)
        for (int r = 0; r < 2; r++) {
            w.sum[f][r] = sg_lanes_sum<4>(w.sum[f][r]);
            w.left[f][r] = sg_lanes_sum<4>(w.left[f][r]);
        }
    store_rows(j, walk.gk, row, column, lane, w);
    if (j.count && blockIdx.z == 0) store_count(j, room, w, row, warp, lane);
}

/* ---- launchers ---- */

static __global__ void sum_counts(blocks_job j, float *skips)
{
    const int g = threadIdx.x + blockIdx.x * blockDim.x;
    double    number = 0, share = 0;
    if (g >= j.h) return;
    for (int64_t i = 0; i < j.nq; i++) {
        number += j.count[g * j.nq + i].x;
        share += j.count[g * j.nq + i].y;
    }
    skips[2 * g] = (float)number;
    skips[2 * g + 1] = (float)(share / (double)j.n);
}

template <int DK, int DV> static sg_status launch(sg_stream *s, const blocks_job &j)
{
    const size_t bytes = sizeof(blocks_shared<DK, DV>);
    const dim3   grid((unsigned)j.nq, (unsigned)j.h, (unsigned)sg_div_up(j.d, DV));
    if (bytes > sg_cuda_of(s)->shared_max)
        return sg_fail(s, SG_E_UNSUPPORTED,
                       "attend_blocks: heads of %lld channels want %zu bytes of shared memory, of which "
                       "this GPU has %zu",
                       (long long)j.d, bytes, sg_cuda_of(s)->shared_max);
    SG_TRY(sg_cuda_check(
        s, "attend_blocks",
        cudaFuncSetAttribute(attend_blocks_mma<DK, DV>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes)));
    attend_blocks_mma<DK, DV><<<grid, THREADS, bytes, sg_cuda_of(s)->queue>>>(j);
    return sg_cuda_launched(s, "attend_blocks");
}

static const float *floats(sg_tensor t) { return t.rank ? (const float *)t.data : NULL; }

static blocks_job job_of(const sg_attend_blocks_args *a)
{
    blocks_job j = {};
    j.q = (const int8_t *)a->q.data;
    j.k = (const int8_t *)a->k.data;
    j.tail_k = a->tail_k.rank ? (const int8_t *)a->tail_k.data : NULL;
    j.q_scale = floats(a->q_scale);
    j.k_scale = floats(a->k_scale);
    j.tail_k_scale = floats(a->tail_k_scale);
    j.v_scale = floats(a->v_scale);
    j.v_center = floats(a->v_center);
    j.tail_bias = floats(a->tail_bias);
    j.lambda = floats(a->lambda);
    j.v = a->v.data;
    j.tail_v = a->tail_v.data;
    j.keep = a->keep.rank ? (const uint8_t *)a->keep.data : NULL;
    j.y = sg_view_of(a->y);
    j.h = (int)a->q.dim[0];
    j.n = a->q.dim[1];
    j.d = a->q.dim[2];
    j.hk = (int)a->k.dim[0];
    j.m = a->k.dim[1];
    j.nq = sg_div_up(j.n, SG_BLOCK_Q);
    j.nk = sg_div_up(j.m, SG_BLOCK_K);
    j.q_group = a->q_group;
    j.k_group = a->k_group;
    j.v_type = a->v.dtype;
    j.scale = a->scale * SG_LOG2_E;
    j.causal = a->causal;
    j.wide_k = j.d % 16 == 0 && ((uintptr_t)j.q | (uintptr_t)j.k | (uintptr_t)j.tail_k) % 16 == 0;
    j.wide_v = j.v_type == SG_BF16 && j.d % 8 == 0 && (uintptr_t)j.v % 16 == 0;
    return j;
}

static sg_status attend_blocks(sg_stream *s, const sg_attend_blocks_args *a)
{
    blocks_job j = job_of(a);
    if (a->q.dim[0] > UINT16_MAX)
        return sg_fail(s, SG_E_UNSUPPORTED, "attend_blocks: %d heads; 65535 are the most", j.h);
    if (j.d > 256)
        return sg_fail(s, SG_E_UNSUPPORTED, "attend_blocks: heads of %lld channels; 256 are the most", (long long)j.d);
    if (j.lambda) {
        j.count = (float2 *)sg_cuda_scratch(s, "attend_blocks", SG_CUDA_X, (size_t)(j.h * j.nq) * sizeof *j.count);
        if (!j.count) return s->status;
    }
    SG_TRY(j.d <= 64    ? (launch<64, 64>(s, j))
           : j.d <= 96  ? (launch<96, 96>(s, j))
           : j.d <= 128 ? (launch<128, 128>(s, j))
                        : (launch<256, 128>(s, j)));
    if (!j.lambda) return SG_OK;
    sum_counts<<<(unsigned)sg_div_up(j.h, SG_WARP), SG_WARP, 0, sg_cuda_of(s)->queue>>>(j, (float *)a->skips.data);
    return sg_cuda_launched(s, "attend_blocks");
}

void sg_cuda_blocks_init(sg_ops *t) { t->attend_blocks = attend_blocks; }
