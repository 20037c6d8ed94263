/* blocks_mma.cuh - attend_blocks on tensor cores (mma.sync): q k^T in I8, weights times values in BF16 (compute capability
 * 8.0 and up) or F8 (8.9 and up), online softmax in F32.
 *
 * A CTA of 128 threads owns SG_BLOCK_Q queries of one head. Each of its four warps has 32 of them; these, or the 64 of
 * two warps, skip a block of keys together. It loops over tiles of SG_BLOCK_K keys: the blocks that its queries keep, then
 * the means of the others. DK is d rounded up to 64, 96, 128 or 256. It takes DV columns of the values. At d above 128
 * registers do not suffice, as a warp holds 32 x DV sums and 32 x 64 scores: a second CTA computes the scores again for
 * the other columns.
 *
 * Weights are in the registers where the left operand of p v needs them (mma.cuh). They are rounded to BF16; I8 values
 * are exact in BF16. Their sums are of unrounded weights. Above 64 columns and without pv_threshold they are of rounded
 * weights, by 8 more mma with a matrix of ones a tile: 1/16 more at DV 128, which would be 1/8 at 64. Those sums start
 * at 0 in each tile, so that the truncation of tensor cores stays small. A row's weights are 2^(logit - base). The base
 * follows the row's largest logit only when that has risen by more than LAG (by anything, with pv_threshold), so that o
 * and its sum are seldom rescaled.
 *
 * F8: weights are 2^(logit - base + RAISE), at most 448. Values have the order of op.h's sg_f8_position, so that
 * weights are where the left operand needs them here too. Each tile has sums of its own, as tensor cores may keep fewer
 * bits of a sum of F8 products than F32 has: 22 on Ada (SageAttention2++, arXiv:2505.21136). For 9.0 the compiler
 * widens F8 to F16, since Hopper's tensor cores take F8 by wgmma only.
 *
 * Shared memory: q I8 [128][DK + 16]; STAGES times k I8 [64][DK + 16], v BF16 [64][DV + 8] or F8 [DV][64 + 16], scales and
 * biases of a tile's keys. The 16 bytes keep ldmatrix free of bank conflicts.
 * Schedule with two stages: one barrier a tile. After it tile t has arrived and all warps are done with t - 1; tile t +
 * 1 is loaded into that stage while t is computed. With one stage, where shared memory does not hold two (d above 128
 * and BF16 values, on GPUs with 99 KiB), t + 1 is loaded after a second barrier, when all warps are done with t.
 * CTAs take rows in the order of blocks_order.cuh. Two CTAs share an SM, so that one's maxima run beside the other's
 * matmuls. The weights of the first 16 keys are computed before the mma with v, the others' between them; F8 ones all
 * before.
 * Roofline: LOG.md, "the CUDA operator by mma.sync". */
#ifndef SG_BLOCKS_MMA_CUH
#define SG_BLOCKS_MMA_CUH

#include "blocks_plain.cuh"

enum { PAD = 8 };

#define LAG 8.0f             /* how far a row's largest logit may rise above its base, in powers of two */
#define TWO_ONES 0x3f803f80u /* as BF16 */
#define WHOLE 12582912.0f    /* an integer up to 2^22, as of 256 products, added to its bits adds to its value */

template <int DV, bool F8> struct blocks_values {
    typedef uint16_t stage[SG_BLOCK_K][DV + PAD];
};

template <int DV> struct blocks_values<DV, true> {
    typedef uint8_t stage[DV][SG_BLOCK_K + 16]; /* transposed: the keys of a channel are contiguous */
};

template <int DK, int DV, bool F8, int STAGES> struct blocks_smem {
    int8_t                                q[SG_BLOCK_Q][DK + 16];
    int8_t                                k[STAGES][SG_BLOCK_K][DK + 16];
    typename blocks_values<DV, F8>::stage v[STAGES];
    float                                 bias[STAGES][SG_BLOCK_K]; /* of the means of a tail */
    float                                 scale[STAGES][SG_BLOCK_K / SG_BLOCK_SUB];
    float                                 left[THREADS][4]; /* the weights that a thread's rows skip */
    float2                                count[THREADS / SG_WARP];
};

/* ---- tiles into shared memory ---- */

/* Loads `rows` rows of I8 [.., d]; zeros for missing rows and beyond d. */
template <int ROWS, int DK>
static __device__ __forceinline__ void load_bytes(const blocks_job &j, const int8_t *from, int rows,
                                                  int8_t (*to)[DK + 16])
{
    constexpr int PARTS = DK <= 64 ? 4 : DK <= 128 ? 8 : 16, STEP = THREADS / PARTS;
    const int     first = threadIdx.x / PARTS, e = threadIdx.x % PARTS * 16;
    if (e >= DK) return;
    if (e >= j.d) rows = 0;
    if (j.wide_k) {
        from += first * j.d + e;
#pragma unroll
        for (int i = 0; i < ROWS / STEP; i++)
            sg_cp_async_16(&to[first + i * STEP][e], from + i * STEP * j.d, first + i * STEP < rows);
        return;
    }
#pragma unroll 1
    for (int row = first; row < ROWS; row += STEP)
        for (int l = 0; l < 16; l++) to[row][e + l] = row < rows && e + l < j.d ? from[row * j.d + e + l] : (int8_t)0;
}

/* Loads values as BF16; zeros for hidden keys, whose values may be anything. */
template <int DV>
static __device__ __forceinline__ void load_values(const blocks_job &j, const blocks_tile &t, int gk, int column,
                                                   uint16_t (*to)[DV + PAD])
{
    constexpr int  PARTS = DV <= 64 ? 8 : 16, STEP = THREADS / PARTS;
    const int      first = threadIdx.x / PARTS, e = threadIdx.x % PARTS * 8, width = min(8, j.d - column - e);
    const int64_t  token = (int64_t)t.index * SG_BLOCK_K + first;
    const uint64_t seen = width > 0 ? t.seen >> first : 0;
    if (e >= DV) return;
    if (j.wide_v && !t.tail) {
        const int             step = STEP * j.hk * j.d;
        const uint16_t *const from = (const uint16_t *)j.v + (token * j.hk + gk) * j.d + (column + e);
#pragma unroll
        for (int i = 0; i < SG_BLOCK_K / STEP; i++)
            sg_cp_async_16(&to[first + i * STEP][e], from + i * step, seen >> i * STEP & 1);
        return;
    }
    const sg_dtype type = t.tail && j.v_type == SG_BF16 ? SG_F32 : j.v_type; /* of the tail F32, or I8 */
    sg_view        view = {(void *)(t.tail ? j.tail_v : j.v), type == SG_BF16, j.d % 8 == 0};
    view.wide = view.wide && (uintptr_t)view.data % 16 == 0;
#pragma unroll 1
    for (int row = 0; row < SG_BLOCK_K; row += STEP) {
        const int64_t line = type == SG_I8 ? gk * (t.tail ? j.nk : j.m) + token + row : (token + row) * j.hk + gk;
        const int64_t at = line * j.d + column + e;
        float         x[SG_PACK] = {};
        if (seen >> row & 1 && type == SG_I8)
            for (int l = 0; l < width; l++) x[l] = ((const int8_t *)view.data)[at + l];
        else if (seen >> row & 1)
            sg_get_pack(view, at, width, view.wide, x);
        *(uint4 *)&to[first + row][e] = sg_eight_of(x);
    }
}

/* Loads values as F8, which are padded to whole blocks and finite. */
template <int DV>
static __device__ __forceinline__ void load_values(const blocks_job &j, const blocks_tile &t, int gk, int column,
                                                   uint8_t (*to)[SG_BLOCK_K + 16])
{
    constexpr int        PARTS = SG_BLOCK_K / 16, STEP = THREADS / PARTS;
    const int            first = threadIdx.x / PARTS, part = threadIdx.x % PARTS * 16;
    const int64_t        row = t.tail ? j.tail_row : j.v_row;
    const uint8_t *const from = (const uint8_t *)(t.tail ? j.tail_v : j.v) +
                                (gk * (int64_t)j.d + column + first) * row + (int64_t)t.index * SG_BLOCK_K + part;
    if (j.wide_v) {
#pragma unroll
        for (int e = 0; e < DV; e += STEP)
            sg_cp_async_16(&to[first + e][part], from + e * row, column + first + e < j.d);
        return;
    }
#pragma unroll 1
    for (int e = 0; e < DV; e += STEP)
        for (int l = 0; l < 16; l++)
            to[first + e][part + l] = column + first + e < j.d ? from[e * row + l] : (uint8_t)0;
}

template <int DK, int DV, bool F8, int STAGES>
static __device__ __forceinline__ void load_tile(const blocks_job &j, const blocks_iterator &w, const blocks_tile &t,
                                                 int column, blocks_smem<DK, DV, F8, STAGES> &smem, int stage)
{
    const int64_t       rows = t.tail ? j.nk : j.m, first = (int64_t)t.index * SG_BLOCK_K;
    const int8_t *const k = (t.tail ? j.tail_k : j.k) + (w.gk * rows + first) * j.d;
    const int           lane = threadIdx.x, part = lane - SG_BLOCK_K;
    load_bytes<SG_BLOCK_K, DK>(j, k, (int)min(rows - first, (int64_t)SG_BLOCK_K), smem.k[stage]);
    load_values<DV>(j, t, w.gk, column, smem.v[stage]);
    if (part >= 0 && part < SG_BLOCK_K / SG_BLOCK_SUB) {
        const int64_t sub = (int64_t)t.index * (SG_BLOCK_K / SG_BLOCK_SUB) + part,
                      group = t.tail ? t.index : sub >> j.k_shift;
        sg_cp_async_4(&smem.scale[stage][part], (t.tail ? j.tail_k_scale : j.k_scale) + group * j.hk + w.gk,
                      sub * SG_BLOCK_SUB < rows);
    } else if (t.tail && j.tail_bias && part < 0) {
        sg_cp_async_4(&smem.bias[stage][lane], j.tail_bias + ((int64_t)w.g * j.nq + w.i) * j.nk + first + lane,
                      first + lane < rows);
    }
    sg_cp_async_commit();
}

/* ---- computing ---- */

/* One warp's 32 rows: lane's row r of four is 8 r + lane / 4, and half r % 2 of fragment r / 2. */
template <int DV> struct warp_state {
    float o[2][DV / 8][4];
    float base[4], sum[4]; /* weights are 2^(logit - base) */
    float scale[2];        /* of the queries, times that of the logits */
    float skips;
};

/* s = q k^T, integers as floats. */
template <int DK, int DV, bool F8, int STAGES>
static __device__ __forceinline__ void qk_matmul(const blocks_smem<DK, DV, F8, STAGES> &smem, int stage, int warp,
                                                 int lane, float (&s)[2][8][4])
{
    int sum[2][8][4];
#pragma unroll
    for (int at = 0; at < 64; at++) sum[at / 32][at / 4 % 8][at % 4] = __float_as_int(WHOLE);
#pragma unroll
    for (int e = 0; e < DK; e += 32) {
        uint32_t a[2][4], b[4];
#pragma unroll
        for (int f = 0; f < 2; f++)
            sg_ldmatrix_x4(a[f], &smem.q[warp * WARP_ROWS + f * 16 + lane % 16][e + lane / 16 * 16]);
#pragma unroll
        for (int c = 0; c < 8; c += 2) {
            sg_ldmatrix_x4(b, &smem.k[stage][c * 8 + lane / 16 * 8 + lane % 8][e + lane / 8 % 2 * 16]);
#pragma unroll
            for (int f = 0; f < 2; f++) {
                sg_mma_i8(sum[f][c], a[f], b[0], b[1]);
                sg_mma_i8(sum[f][c + 1], a[f], b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int at = 0; at < 64; at++)
        s[at / 32][at / 4 % 8][at % 4] = __int_as_float(sum[at / 32][at / 4 % 8][at % 4]) - WHOLE;
}

/* For tiles with hidden keys or biases: turns s into logits and sets `unit` to 1. */
template <int DK, int DV, bool F8, int STAGES>
static __device__ __forceinline__ void mask(const blocks_job &j, const blocks_smem<DK, DV, F8, STAGES> &smem, int stage,
                                            const blocks_tile &t, int row, int lane, float (&unit)[2][4],
                                            float (&s)[2][8][4])
{
    const uint64_t seen = t.seen >> lane % 4 * 2;
    const int      key = t.ahead + lane % 4 * 2;
#pragma unroll
    for (int c = 0; c < 8; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float add = !t.tail        ? 0.0f
                              : !j.tail_bias ? LOG2_BLOCK
                                             : smem.bias[stage][c * 8 + lane % 4 * 2 + i % 2] * SG_LOG2_E;
            const bool  there = seen >> (c * 8 + i % 2) & 1;
#pragma unroll
            for (int f = 0; f < 2; f++) {
                const bool hidden = key + c * 8 + i % 2 > row + f * 16 + i / 2 * 8;
                s[f][c][i] =
                    there && !hidden ? s[f][c][i] * unit[f][c / 2] + add : -INFINITY; /* also where it is NaN */
            }
        }
#pragma unroll
    for (int at = 0; at < 8; at++) unit[at / 4][at % 4] = 1.0f;
}

/* The largest logits of the warp's rows in this tile; NaN where one is. */
static __device__ __forceinline__ void find_row_max(const float (&s)[2][8][4], const float (&unit)[2][4],
                                                    float (&row_max)[4])
{
#pragma unroll
    for (int r = 0; r < 4; r++) {
        row_max[r] = -INFINITY;
#pragma unroll
        for (int g = 0; g < 4; g++) {
            const float *const x = &s[r / 2][2 * g][r % 2 * 2], *const y = &s[r / 2][2 * g + 1][r % 2 * 2];
            row_max[r] =
                sg_max_nan(row_max[r], unit[r / 2][g] * sg_max_nan(sg_max_nan(x[0], x[1]), sg_max_nan(y[0], y[1])));
        }
        for (int i = 2; i > 0; i /= 2) row_max[r] = sg_max_nan(row_max[r], __shfl_xor_sync(~0u, row_max[r], i));
    }
}

/* Whether all 32 rows, of which `rows` exist, may skip a kept block with these row maxima. */
static __device__ __forceinline__ bool may_leave_out(const float (&base)[4], const float (&row_max)[4],
                                                     float pv_threshold, int row, int rows)
{
    bool can = true;
#pragma unroll
    for (int r = 0; r < 4; r++)
        can = can && (row + 8 * r >= rows || (base[r] != LOWEST && base[r] - row_max[r] > pv_threshold));
    return __all_sync(~0u, can);
}

/* Where a row's largest logit is more than `lag` above its base, raises the warp's bases and rescales its sums. */
template <int DV>
static __device__ __forceinline__ void rescale_outputs(warp_state<DV> &w, const float (&row_max)[4], float lag,
                                                       float (&left)[4])
{
    bool grows = false;
#pragma unroll
    for (int r = 0; r < 4; r++) grows = grows || !(row_max[r] <= w.base[r] + lag); /* also where it is NaN */
    if (!__any_sync(~0u, grows)) return;
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float base = sg_max_nan(w.base[r], row_max[r]), rescale = sg_exp2(w.base[r] - base);
        w.base[r] = base;
        w.sum[r] *= rescale;
        if (left[r] != 0.0f) left[r] *= rescale; /* rescale may be NaN */
#pragma unroll
        for (int c = 0; c < DV / 4; c++) w.o[r / 2][c / 2][r % 2 * 2 + c % 2] *= rescale;
    }
}

/* Four weights 2^s as F8, whose sum is added to `sum`: register q of eight for 32 keys, q % 4 as in sg_mma_f8's left
 * operand. */
static __device__ __forceinline__ uint32_t softmax_weights_f8(const float (&s)[2][8][4], int k, int q, float (&sum)[4])
{
    const int   f = q / 4, r = q % 2, c = 4 * k + q / 2 % 2 * 2;
    const float x = sg_exp2(s[f][c][2 * r]), y = sg_exp2(s[f][c][2 * r + 1]), z = sg_exp2(s[f][c + 1][2 * r]),
                w = sg_exp2(s[f][c + 1][2 * r + 1]);
    sum[2 * f + r] += (x + y) + (z + w);
    return sg_pack_f8x4(x, y, z, w);
}

/* Two neighbouring weights 2^s as BF16: pair q of eight for 16 keys, q % 4 as in mma.cuh's left operand. ADD: adds
 * their sum to `sum`. */
template <bool ADD = true>
static __device__ __forceinline__ uint32_t softmax_weights(const float (&s)[2][8][4], int k, int q, float (&sum)[4])
{
    const int   f = q / 4, r = q % 2, c = 2 * k + q / 2 % 2;
    const float x = sg_exp2(s[f][c][2 * r]), y = sg_exp2(s[f][c][2 * r + 1]);
    if (ADD) sum[2 * f + r] += x + y;
    return sg_pack_bf16x2(x, y);
}

/* o += p v. p has the weights of the first 16 keys; the next ones are computed between the mma of these. ONES: sums of
 * weights are by mma with ones, so of rounded weights. */
template <bool ONES, int DK, int DV, int STAGES>
static __device__ __forceinline__ void add_values(const blocks_smem<DK, DV, false, STAGES> &smem, int stage, int lane,
                                                  const float (&s)[2][8][4], uint32_t (&p)[2][2][4], warp_state<DV> &w)
{
    constexpr int STEPS = DV / 16, EACH = (8 + STEPS - 1) / STEPS;
    float         sum[2][4] = {}; /* the same in each column */
#pragma unroll
    for (int k = 0; k < 4; k++) {
#pragma unroll
        for (int f = 0; ONES && f < 2; f++) sg_mma_bf16(sum[f], p[k % 2][f], TWO_ONES, TWO_ONES);
#pragma unroll
        for (int c = 0; c < STEPS; c++) {
            uint32_t b[4];
            sg_ldmatrix_x4_trans(b, &smem.v[stage][k * 16 + lane % 16][c * 16 + lane / 16 * 8]);
#pragma unroll
            for (int f = 0; f < 2; f++) {
                sg_mma_bf16(w.o[f][2 * c], p[k % 2][f], b[0], b[1]);
                sg_mma_bf16(w.o[f][2 * c + 1], p[k % 2][f], b[2], b[3]);
            }
#pragma unroll
            for (int q = c * EACH; k < 3 && q < min(8, c * EACH + EACH); q++)
                p[1 - k % 2][q / 4][q % 4] = softmax_weights<!ONES>(s, k + 1, q, w.sum);
        }
    }
#pragma unroll
    for (int r = 0; ONES && r < 4; r++) w.sum[r] += sum[r / 2][r % 2 * 2];
}

/* The same of F8. */
template <int DK, int DV, int STAGES>
static __device__ __forceinline__ void add_values_f8(const blocks_smem<DK, DV, true, STAGES> &smem, int stage, int lane,
                                                     const uint32_t (&p)[2][2][4], warp_state<DV> &w)
{
#pragma unroll
    for (int c = 0; c < DV / 8; c += 2) {
        float sum[2][2][4] = {};
#pragma unroll
        for (int k = 0; k < 2; k++) {
            uint32_t b[4];
            sg_ldmatrix_x4(b, &smem.v[stage][c * 8 + lane / 16 * 8 + lane % 8][k * 32 + lane / 8 % 2 * 16]);
#pragma unroll
            for (int f = 0; f < 2; f++) {
                sg_mma_f8(sum[f][0], p[k][f], b[0], b[1]);
                sg_mma_f8(sum[f][1], p[k][f], b[2], b[3]);
            }
        }
#pragma unroll
        for (int at = 0; at < 16; at++) w.o[at / 8][c + at / 4 % 2][at % 4] += sum[at / 8][at / 4 % 2][at % 4];
    }
}

static __device__ __forceinline__ bool is_finite_bf16(uint32_t bits) { return (bits & 0x7f80) != 0x7f80; }

/* o += the non-finite values of the keys that a row sees. For other rows 0 times them would be NaN, so they are removed
 * from the tile afterwards. */
template <int DK, int DV, int STAGES>
static __device__ __forceinline__ void add_non_finite(const blocks_smem<DK, DV, false, STAGES> &smem, int stage,
                                                      const blocks_tile &t, int row, int lane, warp_state<DV> &w)
{
#pragma unroll 1
    for (int k = 0; k < SG_BLOCK_K; k++) {
        const int key = t.ahead + k;
#pragma unroll
        for (int c = 0; c < DV / 8; c++) {
            const uint32_t two = *(const uint32_t *)&smem.v[stage][k][c * 8 + lane % 4 * 2];
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int f = 0; f < 4; f++)
                    if (!is_finite_bf16(two >> 16 * i) && key <= row + f * 8)
                        w.o[f / 2][c][f % 2 * 2 + i] += sg_bf16_to_float(two >> 16 * i & 0xffff);
        }
    }
}

/* Whether any value of the tile is not finite. TAME: sets those to 0. */
template <bool TAME, int DK, int DV, int STAGES>
static __device__ bool has_non_finite(blocks_smem<DK, DV, false, STAGES> &smem, int stage)
{
    bool non_finite = false;
#pragma unroll 1
    for (int i = threadIdx.x; i < SG_BLOCK_K * DV; i += THREADS) {
        uint16_t &v = smem.v[stage][i / DV][i % DV];
        if (is_finite_bf16(v)) continue;
        non_finite = true;
        if (TAME) v = 0;
    }
    return __syncthreads_or(non_finite);
}

/* ---- the end ---- */

template <int DV>
static __device__ __forceinline__ void store_rows(const blocks_job &j, const blocks_iterator &iterator, int row,
                                                  int rows, int column, int lane, const warp_state<DV> &w)
{
    const bool  two = j.y.bf16 && j.y.wide && j.d % 2 == 0;
    const float by[4] = {1.0f / w.sum[0], 1.0f / w.sum[1], 1.0f / w.sum[2], 1.0f / w.sum[3]};
#pragma unroll
    for (int c = 0; c < DV / 8; c++) {
        const int e = column + c * 8 + lane % 4 * 2;
        float     scale[2], center[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            scale[i] = j.v_scale && e + i < j.d ? j.v_scale[iterator.gk * j.d + e + i] : 1.0f;
            center[i] = j.v_center && e + i < j.d ? j.v_center[iterator.gk * j.d + e + i] : 0.0f;
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const int          to = row + 8 * r;
            const float *const o = &w.o[r / 2][c][r % 2 * 2];
            const int64_t      at = (((int64_t)iterator.i * SG_BLOCK_Q + to) * j.h + iterator.g) * j.d + e;
            const float        x = w.sum[r] == 0.0f ? 0.0f : o[0] * by[r] * scale[0] + center[0],
                        y = w.sum[r] == 0.0f ? 0.0f : o[1] * by[r] * scale[1] + center[1];
            if (to >= rows || e >= j.d) continue;
            if (two) *(uint32_t *)((uint16_t *)j.y.data + at) = sg_pack_bf16x2(x, y);
            if (!two) sg_put(j.y, at, x);
            if (!two && e + 1 < j.d) sg_put(j.y, at + 1, y);
        }
    }
}

/* ONES: see add_values. Without pv_threshold only, whose shares need sums of unrounded weights. only_if: NULL, or does nothing
 * where it is 0. */
template <int DK, int DV, bool F8, bool ONES, int STAGES>
static __global__ void __launch_bounds__(THREADS, 2) attend_blocks_mma(blocks_job j, const uint32_t *only_if)
{
    extern __shared__ __align__(16) unsigned char bytes[];
    blocks_smem<DK, DV, F8, STAGES>              &smem = *(blocks_smem<DK, DV, F8, STAGES> *)bytes;
    if (only_if && !*only_if) return;
    const int       warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP, row = warp * WARP_ROWS + lane / 4;
    const int       turn = blockIdx.y * j.nq + blockIdx.x, item = j.order ? j.order[turn] : turn, g = item / j.nq;
    const int64_t   first = (int64_t)(item % j.nq) * SG_BLOCK_Q;
    const int       column = blockIdx.z * DV, rows = (int)min(j.n - first, (int64_t)SG_BLOCK_Q);
    blocks_iterator iterator = iterator_of(j, g, item % j.nq);
    blocks_tile     t, u;
    float(&left)[4] = smem.left[threadIdx.x];
    warp_state<DV> w = {};
#pragma unroll
    for (int f = 0; f < 2; f++) {
        const int at = warp * WARP_ROWS + f * 16;
        w.scale[f] = at < rows ? j.scale * j.q_scale[(first + at) / j.q_group * j.h + g] : 0.0f;
    }
#pragma unroll
    for (int r = 0; r < 4; r++) w.base[r] = LOWEST, left[r] = 0;
    load_bytes<SG_BLOCK_Q, DK>(j, j.q + (g * j.n + first) * j.d, rows, smem.q);
    bool more = next_tile(j, iterator, t);
    if (more)
        load_tile(j, iterator, t, column, smem, 0);
    else
        sg_cp_async_commit(); /* q's: a row without tiles waits for it too before it ends */
    for (int tile = 0; more; tile++, t = u) {
        const int stage = tile % STAGES;
        float     s[2][8][4], unit[2][4], row_max[4];
        uint32_t  p[2][2][4];
        sg_cp_async_wait();
        __syncthreads();
        more = next_tile(j, iterator, u);
        if (STAGES > 1 && more) load_tile(j, iterator, u, column, smem, stage ^ 1);
        qk_matmul(smem, stage, warp, lane, s);
#pragma unroll
        for (int at = 0; at < 8; at++) unit[at / 4][at % 4] = w.scale[at / 4] * smem.scale[stage][at % 4];
        if (t.tail || is_edge(t) || t.seen != ~0ull || j.scale < 0) mask(j, smem, stage, t, row, lane, unit, s);
        find_row_max(s, unit, row_max);
        bool out =
            j.pv_threshold && tile > 0 && !t.tail && may_leave_out(w.base, row_max, j.pv_threshold[g], row, rows);
        if (j.pv_threshold && j.pv_group > WARP_ROWS) out = is_so_in_pair(out, warp / 2);
        if (!out) rescale_outputs(w, row_max, j.pv_threshold ? 0.0f : F8 ? F8_LAG : LAG, left);
#pragma unroll
        for (int at = 0; at < 64; at++)
            s[at / 32][at / 4 % 8][at % 4] = fmaf(s[at / 32][at / 4 % 8][at % 4], unit[at / 32][at / 8 % 4],
                                                  (F8 ? F8_RAISE : 0.0f) - w.base[at / 32 * 2 + at / 2 % 2]);
        for (int at = 0; out && at < 32; at++) softmax_weights(s, at / 8, at % 8, left);
        w.skips += out;
        if constexpr (F8) {
            for (int q = 0; !out && q < 16; q++)
                p[q / 8][q / 4 % 2][q % 4] = softmax_weights_f8(s, q / 8, q % 8, w.sum);
            if (!out) add_values_f8(smem, stage, lane, p, w);
        } else {
            for (int q = 0; !out && q < 8; q++) p[0][q / 4][q % 4] = softmax_weights<!ONES>(s, 0, q, w.sum);
            if (is_edge(t) && has_non_finite<false>(smem, stage)) {
                if (!out) add_non_finite(smem, stage, t, row, lane, w);
                __syncthreads();
                has_non_finite<true>(smem, stage);
            }
            if (!out) add_values<ONES>(smem, stage, lane, s, p, w);
        }
        if constexpr (STAGES == 1) {
            __syncthreads(); /* all are done with the only stage */
            if (more) load_tile(j, iterator, u, column, smem, 0);
        }
    }
    sg_cp_async_wait();
#pragma unroll
    for (int r = 0; r < 4; r++) {
        if (!ONES) w.sum[r] = sg_lanes_sum<4>(w.sum[r]);
        left[r] = sg_lanes_sum<4>(left[r]);
    }
    store_rows(j, iterator, row, rows, column, lane, w);
    if (j.count && blockIdx.z == 0) {
        float share = 0;
#pragma unroll
        for (int r = 0; r < 4; r++)
            if (row + 8 * r < rows && left[r] != 0.0f && lane % 4 == 0) share += left[r] / (w.sum[r] + left[r]);
        store_count(j, iterator, w.skips, share, rows, smem.count);
    }
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

template <int DK, int DV, bool F8, int STAGES = 2>
static sg_status launch(sg_stream *s, const blocks_job &j, const uint32_t *only_if = NULL)
{
    const size_t bytes = sizeof(blocks_smem<DK, DV, F8, STAGES>);
    const dim3   grid(j.nq, j.h, sg_div_up(j.d, DV));
    constexpr bool ONES = !F8 && DV > 64;
    const auto     kernel =
        j.pv_threshold ? attend_blocks_mma<DK, DV, F8, false, STAGES> : attend_blocks_mma<DK, DV, F8, ONES, STAGES>;
    /* 8.6, 8.9 and 12.0 have 99 KiB, of which two tiles of 256 channels and BF16 values take 106 */
    if constexpr (STAGES == 2 && sizeof(blocks_smem<DK, DV, F8, 2>) > SG_CUDA_SMEM_MIN)
        if (bytes > sg_cuda_of(s)->smem_max) return launch<DK, DV, F8, 1>(s, j, only_if);
    if (bytes > sg_cuda_of(s)->smem_max)
        return sg_fail(s, SG_E_UNSUPPORTED,
                       "attend_blocks: heads of %lld channels want %zu bytes of shared memory, of which "
                       "this GPU has %zu",
                       (long long)j.d, bytes, sg_cuda_of(s)->smem_max);
    return sg_cuda_launch(s, "attend_blocks", kernel, grid, THREADS, bytes, j, only_if);
}

template <bool F8> static sg_status attend_blocks_as(sg_stream *s, const sg_attend_blocks_args *a)
{
    blocks_job j = job_of(a);
    if (a->q.dim[0] > UINT16_MAX)
        return sg_fail(s, SG_E_UNSUPPORTED, "attend_blocks: %d heads; 65535 are the most", j.h);
    const size_t  rows = (size_t)j.h * (size_t)j.nq;
    float2 *const scratch =
        (float2 *)sg_cuda_scratch(s, "attend_blocks", SG_CUDA_X,
                                  rows * (sizeof *j.count + 2 * sizeof *j.order) + (j.tail_k ? marks_bytes(j) : 0));
    if (!scratch) return s->status;
    if (j.pv_threshold) j.count = scratch;
    j.kept = (uint64_t *)(scratch + 2 * rows);
    if (j.tail_k) SG_TRY(mark_job(s, j));
    SG_TRY(order_job(s, &j, 2, (int *)(scratch + rows)));
    SG_TRY(j.d <= 64    ? (launch<64, 64, F8>(s, j))
           : j.d <= 96  ? (launch<96, 96, F8>(s, j))
           : j.d <= 128 ? (launch<128, 128, F8>(s, j))
           : j.d <= MMA_CHANNELS ? (launch<256, 128, F8>(s, j))
                        : launch_plain<F8>(s, j));
    if (!j.pv_threshold) return SG_OK;
    return sg_cuda_launch(s, "attend_blocks", sum_counts, sg_div_up(j.h, SG_WARP), SG_WARP, 0, j, sg_data(a->skips));
}

#endif
