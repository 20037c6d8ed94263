/* mma.cuh - PTX for kernels on tensor cores: copies into shared memory, fragments, mma.
 *
 * Fragments of a 16 x 8 tile: lane l holds rows l/4 and l/4 + 8, columns 2 (l%4) and 2 (l%4) + 1. */
#ifndef SG_MMA_CUH
#define SG_MMA_CUH

#include "cuda_kernel.cuh"

#include <math.h>

enum { SG_VALUE_PAD = 8 };

static __device__ __forceinline__ uint32_t sg_smem_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Copies 16 bytes into shared memory, asynchronously; zeros where `there` is false. */
static __device__ __forceinline__ void sg_cp_async_16(void *to, const void *from, bool there)
{
    asm volatile(
        "{.reg .pred p; setp.eq.u32 p, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, p;}" ::"r"(sg_smem_address(to)),
        "l"(from), "r"((int)there));
}

/* The same for 4 bytes. */
static __device__ __forceinline__ void sg_cp_async_4(void *to, const void *from, bool there)
{
    asm volatile(
        "{.reg .pred p; setp.eq.u32 p, %2, 0; cp.async.ca.shared.global [%0], [%1], 4, p;}" ::"r"(sg_smem_address(to)),
        "l"(from), "r"((int)there));
}

static __device__ __forceinline__ void sg_cp_async_commit() { asm volatile("cp.async.commit_group;"); }
/* Until all groups have arrived but the last `but`. */
template <int but = 0> static __device__ __forceinline__ void sg_cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(but) : "memory");
}

/* Four matrices of 8 rows of 16 bytes; lane l gives the address of row l % 8 of matrix l / 8. */
static __device__ __forceinline__ void sg_ldmatrix_x4(uint32_t (&r)[4], const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(sg_smem_address(p))
                 : "memory");
}

/* The same, of two bytes each, transposed. */
static __device__ __forceinline__ void sg_ldmatrix_x4_trans(uint32_t (&r)[4], const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(sg_smem_address(p))
                 : "memory");
}

/* c += a b; a 16 x 16, b 16 x 8, BF16 */
static __device__ __forceinline__ void sg_mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* c += a b; a 16 x 32, b 32 x 8, I8 */
static __device__ __forceinline__ void sg_mma_i8(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* c += a b; a 16 x 32, b 32 x 8, F8; from compute capability 8.9 up */
static __device__ __forceinline__ void sg_mma_f8(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four numbers as F8, the first in the lowest byte; from 8.9 up. */
static __device__ __forceinline__ uint32_t sg_pack_f8x4(float x, float y, float z, float w)
{
    uint32_t four;
    asm("{.reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; "
        "mov.b32 %0, {low, high};}"
        : "=r"(four)
        : "f"(x), "f"(y), "f"(z), "f"(w));
    return four;
}

/* The same of four halves. */
static __device__ __forceinline__ uint32_t sg_pack_f8x4(uint32_t two, uint32_t more)
{
    uint32_t four;
    asm("{.reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f16x2 low, %1; cvt.rn.satfinite.e4m3x2.f16x2 high, %2; "
        "mov.b32 %0, {low, high};}"
        : "=r"(four)
        : "r"(two), "r"(more));
    return four;
}

/* 2^x, to 2 in the last place; 0 for -INFINITY. */
static __device__ __forceinline__ float sg_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* x / (1 + e^-x) to 2^-17, far below what BF16 keeps. */
static __device__ __forceinline__ float sg_silu_rough(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + sg_exp2(-SG_LOG2_E * x)));
    return x * y;
}

/* The larger of the two; NaN if one is. */
static __device__ __forceinline__ float sg_max_nan(float a, float b)
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

/* ---- online softmax: a warp's 16 rows, KEYS keys at a time; o [16, D] and s [16, KEYS] are fragments ---- */

/* Turns scores, in powers of two, into weights. Multiplies sum by `rescale`, for the growth of the row's maximum; o
 * must follow. A row without a key so far keeps row_max -INFINITY and weights 0. NaN reaches sum, which is the lane's
 * part only. */
template <int KEYS>
static __device__ __forceinline__ void sg_softmax_update(float (&s)[KEYS / 8][4], float (&row_max)[2], float (&sum)[2],
                                                         float (&rescale)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float max = row_max[r], all = 0;
#pragma unroll
        for (int c = 0; c < KEYS / 8; c++) max = fmaxf(max, fmaxf(s[c][2 * r], s[c][2 * r + 1]));
        for (int i = 2; i > 0; i /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, i));
        const float base = max == -INFINITY ? 0.0f : max;
        rescale[r] = sg_exp2(row_max[r] - base);
#pragma unroll
        for (int c = 0; c < KEYS / 8; c++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++) {
                s[c][i] = sg_exp2(s[c][i] - base);
                all += s[c][i];
            }
        sum[r] = sum[r] * rescale[r] + all;
        row_max[r] = max;
    }
}

template <int D> static __device__ __forceinline__ void sg_rescale(float (&o)[D / 8][4], const float (&rescale)[2])
{
#pragma unroll
    for (int c = 0; c < D / 8; c++)
        for (int i = 0; i < 4; i++) o[c][i] *= rescale[i / 2];
}

/* o += p v, v [KEYS, D] in shared memory; the padding of its rows keeps ldmatrix free of bank conflicts. */
template <int D, int KEYS>
static __device__ __forceinline__ void sg_mma_pv(const uint16_t (*v)[D + SG_VALUE_PAD], int lane,
                                                 const float (&p)[KEYS / 8][4], float (&o)[D / 8][4])
{
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
        const uint32_t a[4] = {sg_pack_bf16x2(p[2 * k][0], p[2 * k][1]), sg_pack_bf16x2(p[2 * k][2], p[2 * k][3]),
                               sg_pack_bf16x2(p[2 * k + 1][0], p[2 * k + 1][1]),
                               sg_pack_bf16x2(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
        for (int c = 0; c < D / 8; c += 2) {
            uint32_t b[4];
            sg_ldmatrix_x4_trans(b, &v[k * 16 + lane % 16][c * 8 + lane / 16 * 8]);
            sg_mma_bf16(o[c], a, b[0], b[1]);
            sg_mma_bf16(o[c + 1], a, b[2], b[3]);
        }
    }
}

#endif
