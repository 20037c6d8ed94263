/* quant.cu - quantised weights: widened into memory for the product that reads them, or, where x has few rows, in
 * registers, by a product of its own.
 *
 * Floor of widening: the bytes of w and of what they become over the bandwidth. */
#include "cuda_kernel.cuh"
#include "quant_run.h"

enum { WARPS = SG_THREADS / SG_WARP };

struct quant_view {
    const uint8_t *data;
    const float   *scale;                          /* NULL: all are 1 */
    int64_t        first, columns, scale_columns, across; /* first: rows before these; across: scales beside each other */
    int            scale_rows;
    bool           bf16;
};

template <int TYPE> struct quant_layout;
#define X(name, block, bytes, scale, minimum)                                                                          \
    template <> struct quant_layout<SG_QUANT_##name> {                                                                 \
        static constexpr int BLOCK = block, BYTES = bytes;                                                             \
    };
SG_QUANT_TYPES(X)
#undef X

/* The run of w from element `at` on. */
template <int TYPE>
static __device__ __forceinline__ void get_run(float (&v)[SG_QUANT_RUN], const quant_view &w, int64_t at)
{
    constexpr int BLOCK = quant_layout<TYPE>::BLOCK, BYTES = quant_layout<TYPE>::BYTES;
    sg_quant_run(v, (sg_quant_type)TYPE, w.data + at / BLOCK * BYTES, (int)(at % BLOCK));
    if (!w.scale) return;
    int64_t       column;
    const int64_t row = sg_divide(at, w.columns, &column);
    const float   scale = w.scale[(w.first + row) / w.scale_rows * w.across + column / w.scale_columns];
#pragma unroll
    for (int k = 0; k < SG_QUANT_RUN; k++) v[k] *= scale;
}

template <int TYPE> static __global__ void __launch_bounds__(SG_THREADS) widen(sg_view y, quant_view w, int64_t runs)
{
    for (int64_t r = blockIdx.x * (int64_t)SG_THREADS + threadIdx.x; r < runs; r += gridDim.x * (int64_t)SG_THREADS) {
        float v[SG_QUANT_RUN], half[SG_PACK];
        get_run<TYPE>(v, w, r * SG_QUANT_RUN);
#pragma unroll
        for (int k = 0; k < SG_QUANT_RUN; k += SG_PACK) {
            for (int l = 0; l < SG_PACK; l++) half[l] = v[k + l];
            sg_put_pack(y, r * SG_QUANT_RUN + k, SG_PACK, true, half);
        }
    }
}

/* y[row, col] = x w^T of ROWS rows: a warp for a column, whose lanes take runs in turn. */
template <int TYPE, int ROWS>
static __global__ void __launch_bounds__(SG_THREADS) few_rows(float *y, sg_view x, quant_view w, int64_t n, int64_t o)
{
    const int64_t col = blockIdx.x * (int64_t)WARPS + threadIdx.x / SG_WARP, first = blockIdx.y * (int64_t)ROWS;
    const int     lane = threadIdx.x % SG_WARP;
    float         sum[ROWS] = {};
    if (col >= o) return;
    for (int64_t k = lane * SG_QUANT_RUN; k < w.columns; k += SG_WARP * SG_QUANT_RUN) {
        float v[SG_QUANT_RUN];
        get_run<TYPE>(v, w, col * w.columns + k);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (first + r >= n) break;
#pragma unroll
            for (int e = 0; e < SG_QUANT_RUN; e += SG_PACK) {
                float part[SG_PACK];
                sg_get_pack(x, (first + r) * w.columns + k + e, SG_PACK, w.columns % SG_PACK == 0, part);
                for (int l = 0; l < SG_PACK; l++)
                    sum[r] += part[l] * (w.bf16 ? sg_bf16_to_float(sg_pack_bf16x2(v[e + l], 0.0f)) : v[e + l]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float all = sg_lanes_sum(sum[r]);
        if (lane == 0 && first + r < n) y[(first + r) * o + col] = all;
    }
}

static quant_view view_of(const sg_tensor *w)
{
    const sg_quant *const q = &w->quant;
    const float *const    scale = q->scale_rows ? (const float *)((const char *)w->data + sg_quant_scales_at(w)) : NULL;
    return {(const uint8_t *)w->data,
            scale,
            q->first,
            w->dim[1],
            q->scale_columns,
            scale ? sg_div_up(w->dim[1], q->scale_columns) : 0,
            q->scale_rows,
            w->dtype == SG_BF16};
}

const void *sg_cuda_widen(sg_stream *s, const char *op, const sg_tensor *w)
{
    const int64_t runs = sg_count(*w) / SG_QUANT_RUN;
    void *const   to = sg_cuda_scratch(s, op, SG_CUDA_WIDE, (size_t)sg_count(*w) * sg_dtype_size(w->dtype));
    if (!to || !runs) return to;
    sg_status status = SG_OK;
    switch (w->quant.type) {
#define X(name, block, bytes, scale, minimum)                                                                          \
    case SG_QUANT_##name:                                                                                              \
        status = sg_cuda_launch(s, op, widen<SG_QUANT_##name>, sg_cuda_blocks(s, runs), SG_THREADS, 0,                 \
                                sg_view_at(to, w->dtype), view_of(w), runs);                                           \
        break;
        SG_QUANT_TYPES(X)
#undef X
    }
    return status ? NULL : to;
}

sg_status sg_cuda_few_rows(sg_stream *s, const char *op, float *y, const sg_tensor *x, const sg_tensor *w)
{
    const int64_t n = x->dim[0], o = w->dim[0];
    const bool    one = n == 1;
    const dim3    grid(sg_div_up(o, WARPS), sg_div_up(n, one ? 1 : SG_GPU_FEW_ROWS));
    switch (w->quant.type) {
#define X(name, block, bytes, scale, minimum)                                                                          \
    case SG_QUANT_##name:                                                                                              \
        return sg_cuda_launch(s, op, one ? few_rows<SG_QUANT_##name, 1> : few_rows<SG_QUANT_##name, SG_GPU_FEW_ROWS>, \
                              grid, SG_THREADS, 0, y, sg_view_of(*x), view_of(w), n, o);
        SG_QUANT_TYPES(X)
#undef X
    }
    return SG_E_UNSUPPORTED;
}
