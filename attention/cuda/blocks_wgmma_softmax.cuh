/* blocks_wgmma_softmax.cuh - of attend_blocks for Hopper: what a thread has of its two rows, and how products of a step become
 * logits and weights. The whole is described in blocks_wgmma.cuh. */
#ifndef SG_BLOCKS_WGMMA_SOFTMAX_CUH
#define SG_BLOCKS_WGMMA_SOFTMAX_CUH

#include "blocks_wgmma_load.cuh"

#define BF16_LIMIT 0x1p30f /* of the sum of a thread's weights of a step */
#define BF16_LAG 20.0f      /* how far, in powers of two, a row's largest BF16 logit may rise above its base */
#define POWER_RAISE 8.1124f /* octaves of an F8 weight at its row's base, see hopper_powers */
#define POWER_LAG 0.63f     /* how far a row's largest F8 logit may rise above its base: 1.743 x 2^8 rounds to 448 */

/* A thread's two rows. */
template <int DK> struct hopper_rows {
    float o[DK / 2], base[2], sum[2];
};

/* The thread's largest scores as whole numbers: of row r and tile b at 2 b + r. Four chains, which do not wait for each other. */
static __device__ __forceinline__ void hopper_tile_max(const uint32_t (&s)[64], int (&top)[4])
{
#pragma unroll
    for (int q = 0; q < 4; q++) top[q] = (int)s[q / 2 * 32 + q % 2 * 2];
#pragma unroll
    for (int c = 0; c < 8; c++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int at = q / 2 * 32 + c * 4 + q % 2 * 2;
            top[q] = __vimax3_s32(top[q], (int)s[at], (int)s[at + 1]);
        }
}

/* Products become logits, as floats; CAUSAL: -INFINITY where the thread's rows, `row` and row + 8, do not see the key. */
template <bool CAUSAL>
static __device__ __forceinline__ void hopper_logits(const hopper_info &info, int lane, int row, float scale,
                                                     const uint32_t (&s)[64], float (&y)[64])
{
#pragma unroll
    for (int c = 0; c < 16; c++) {
        const float2 add = *(const float2 *)&info.add[c / 8][c % 8 * 8 + lane % 4 * 2];
        const float  unit = scale * info.scale[c / 8][c % 8 / 2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            y[c * 4 + i] = fmaf((float)(int)s[c * 4 + i], unit, i % 2 ? add.y : add.x);
            if constexpr (CAUSAL) {
                const int last = info.diagonal[c / 8] + row - lane % 4 * 2;
                if (c % 8 * 8 + i % 2 > last + i / 2 * 8) y[c * 4 + i] = -INFINITY;
            }
        }
    }
}

/* A step's products become x, floats whose `unit`-fold is a logit; the largest logits among the thread's own. */
template <bool CAUSAL>
static __device__ __forceinline__ void hopper_row_max(const hopper_info &info, int lane, int row, float scale,
                                                      const uint32_t (&s)[64], float (&x)[64], float (&unit)[2],
                                                      float (&row_max)[2])
{
    unit[0] = scale * info.scale[0][0];
    unit[1] = scale * info.scale[1][0];
    if (info.plain && unit[0] >= 0 && unit[1] >= 0) {
        int top[4];
        hopper_tile_max(s, top);
#pragma unroll
        for (int r = 0; r < 2; r++) row_max[r] = fmaxf(unit[0] * (float)top[r], unit[1] * (float)top[2 + r]);
#pragma unroll
        for (int i = 0; i < 64; i++) x[i] = (float)(int)s[i];
    } else {
        hopper_logits<CAUSAL>(info, lane, row, scale, s, x);
        unit[0] = unit[1] = 1.0f;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            row_max[r] = -INFINITY;
#pragma unroll
            for (int c = 0; c < 32; c++) row_max[r] = sg_max_nan(row_max[r], x[c / 2 * 4 + 2 * r + c % 2]);
        }
    }
}

/* What the last matmul with F8 values gave is added to o; the sums of weights lie behind the channels. */
template <int DK, int SUMS>
static __device__ __forceinline__ void hopper_add(hopper_rows<DK> &w, const float (&part)[SUMS])
{
#pragma unroll
    for (int i = 0; i < DK / 2; i++) w.o[i] += part[i];
    w.sum[0] += part[DK / 2];
    w.sum[1] += part[DK / 2 + 2];
}

/* Bases follow the largest logits, of which each thread has its own share, where one of the warp's has risen by more than
 * the lag; what is summed follows, with PART the sums with the last step's values too, which are then 0. */
template <bool PART, int DK, int SUMS>
static __device__ __forceinline__ void hopper_rescale(hopper_rows<DK> &w, float (&row_max)[2], float (&part)[SUMS])
{
    if (!__any_sync(~0u, !(row_max[0] <= w.base[0] + POWER_LAG) || !(row_max[1] <= w.base[1] + POWER_LAG)))
        return; /* also where it is NaN */
    if constexpr (PART) {
        hopper_add<DK>(w, part);
#pragma unroll
        for (int i = 0; i < SUMS; i++) part[i] = 0;
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        for (int i = 2; i > 0; i /= 2) row_max[r] = sg_max_nan(row_max[r], __shfl_xor_sync(~0u, row_max[r], i));
        const float base = sg_max_nan(w.base[r], row_max[r]);
        const float by = sg_exp2(w.base[r] - base) + (base - base); /* NaN about infinity, too: its weights are 0 */
        w.base[r] = base;
        w.sum[r] *= by;
#pragma unroll
        for (int c = 0; c < DK / 4; c++) w.o[c / 2 * 4 + 2 * r + c % 2] *= by;
    }
}

/* F8 weights without exponentials: an octave is 1024 in the bits of a half, so x octaves above 2^-15, times 1024, are the
 * bits of (1 + f) 2^E where 2^(E + f) is meant. That is 1 to 1.0615 times as much, 1 / (2 ln^2 2) = 1.0407 in the mean,
 * which numerator and denominator share; about it the root mean square is 0.019, beside F8's 0.0265. A row's largest
 * weight, which has no f of its own, is put at log2(1.125 x 2 ln^2 2) = 0.1124 of an octave, where its half rounds to
 * 1.125 and is off by this mean as well. Halves round to F8 as usual, to its subnormal numbers too.
 *
 * Two halves, of logits as x / 32; below 2^-15 they are 0. */
static __device__ __forceinline__ uint32_t hopper_powers(float x, float y)
{
    return __byte_perm(__float_as_uint(__saturatef(x) + 256.0f), __float_as_uint(__saturatef(y) + 256.0f), 0x5410);
}

/* Weights of a step's rows as left operands; with PART what the last matmul with values gave is added on the way. */
template <int DK, bool PART, int SUMS>
static __device__ __forceinline__ void hopper_weights(const float (&unit)[2], const float (&s)[64],
                                                      const float (&part)[SUMS], uint32_t (&p)[16], hopper_rows<DK> &w)
{
    const float by[2] = {unit[0] / 32, unit[1] / 32};
    const float more[2] = {(15.0f + POWER_RAISE - w.base[0]) / 32, (15.0f + POWER_RAISE - w.base[1]) / 32};
#pragma unroll
    for (int c = 0; c < 16; c += 2)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float x[4];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = fmaf(s[(c + i / 2) * 4 + 2 * r + i % 2], by[c / 8], more[r]);
            if constexpr (PART) {
#pragma unroll
                for (int i = (c + r) * (DK / 32); i < (c + r + 1) * (DK / 32); i++) w.o[i] += part[i];
            }
            p[c / 4 * 4 + c / 2 % 2 * 2 + r] = sg_pack_f8x4(hopper_powers(x[0], x[1]), hopper_powers(x[2], x[3]));
        }
    if constexpr (PART) {
        w.sum[0] += part[DK / 2];
        w.sum[1] += part[DK / 2 + 2];
    }
}

/* BF16: products of a step become x, floats whose `unit`-fold is a logit. */
template <bool CAUSAL>
static __device__ __forceinline__ void hopper_floats(const hopper_info &info, int lane, int row, float scale,
                                                     const uint32_t (&s)[64], float (&x)[64], float (&unit)[2])
{
    if (info.plain) {
        unit[0] = scale * info.scale[0][0];
        unit[1] = scale * info.scale[1][0];
#pragma unroll
        for (int i = 0; i < 64; i++) x[i] = (float)(int)s[i];
    } else {
        hopper_logits<CAUSAL>(info, lane, row, scale, s, x);
        unit[0] = unit[1] = 1.0f;
    }
}

/* BF16: weights of a step's rows about their bases, as left operands, and their sums. True, for all of a warp, where a sum
 * is larger than it may be, or NaN. */
static __device__ __forceinline__ bool hopper_bf16_weights(const float (&unit)[2], const float (&x)[64],
                                                           const float (&base)[2], uint32_t (&p)[32], float (&sum)[2])
{
    float part[2][2] = {};
#pragma unroll
    for (int c = 0; c < 16; c += 2)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float e[4];
#pragma unroll
            for (int i = 0; i < 4; i++) e[i] = sg_exp2(fmaf(x[(c + i / 2) * 4 + 2 * r + i % 2], unit[c / 8], -base[r]));
            part[r][c / 2 % 2] += (e[0] + e[1]) + (e[2] + e[3]);
            p[c * 2 + r] = sg_pack_bf16x2(e[0], e[1]);
            p[c * 2 + 2 + r] = sg_pack_bf16x2(e[2], e[3]);
        }
    sum[0] = part[0][0] + part[0][1];
    sum[1] = part[1][0] + part[1][1];
    return __any_sync(~0u, !(sum[0] <= BF16_LIMIT) || !(sum[1] <= BF16_LIMIT));
}

/* BF16: bases follow a step's largest logits; what is summed follows the bases, o only where it holds anything. */
template <int DK>
static __device__ __forceinline__ void hopper_bf16_raise(hopper_rows<DK> &w, const float (&unit)[2],
                                                         const float (&x)[64], bool summed)
{
    float by[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = w.base[r];
#pragma unroll
        for (int c = 0; c < 32; c++) top = sg_max_nan(top, unit[c / 16] * x[c / 2 * 4 + 2 * r + c % 2]);
        for (int i = 2; i > 0; i /= 2) top = sg_max_nan(top, __shfl_xor_sync(~0u, top, i));
        by[r] = sg_exp2(w.base[r] - top);
        w.base[r] = top;
        w.sum[r] *= by[r];
    }
    if (!summed) return;
#pragma unroll
    for (int i = 0; i < DK / 2; i++) w.o[i] *= by[i / 2 % 2];
}

/* BF16: a step's weights and their sums, where nothing is under way: bases follow first, where a row's largest logit has
 * risen too far above. */
template <int DK>
static __device__ __forceinline__ void hopper_bf16_weigh(const float (&unit)[2], const float (&x)[64],
                                                         const float (&row_max)[2], uint32_t (&p)[32],
                                                         hopper_rows<DK> &w)
{
    float sum[2];
    if (__any_sync(~0u, !(row_max[0] <= w.base[0] + BF16_LAG) || !(row_max[1] <= w.base[1] + BF16_LAG)))
        hopper_bf16_raise(w, unit, x, true);
    hopper_bf16_weights(unit, x, w.base, p, sum);
    w.sum[0] += sum[0];
    w.sum[1] += sum[1];
}

#endif
