/* cuda_kernel.cuh - how kernels read, write and iterate over tensors.
 *
 * Memory-bound kernels take the dtype of a tensor as a value, not as a template parameter: the branch is uniform and
 * hidden behind the load, and one kernel serves all mixtures of F32 and BF16. They move SG_PACK neighbours at a time,
 * with wide instructions where address and count allow it. */
#ifndef SG_CUDA_KERNEL_CUH
#define SG_CUDA_KERNEL_CUH

#include "cuda_state.cuh"

enum { SG_THREADS = 256, SG_WARP = 32, SG_PACK = 8 };

/* CTAs of a grid-stride loop over `work` items: enough to fill the device several times, no more. */
static inline unsigned sg_cuda_blocks(const sg_stream *s, int64_t work)
{
    return sg_max64(1, sg_min64(sg_div_up(work, SG_THREADS), (int64_t)sg_cuda_of(s)->processors * 32));
}

/* ---- tensors ---- */

struct sg_view {
    void *data; /* NULL: absent */
    bool  bf16;
    bool  wide; /* aligned: SG_PACK elements from a multiple of SG_PACK on can move at once */
};

/* A view of data as one row; NULL: absent. */
static inline sg_view sg_view_at(const void *data, sg_dtype type)
{
    return {(void *)data, type == SG_BF16, sg_cuda_aligned(data)};
}

static inline sg_view sg_view_of(const sg_tensor &t) { return sg_view_at(t.rank ? t.data : NULL, t.dtype); }

/* A tensor's address, of the type that is wanted where it goes; NULL: absent. */
struct sg_address {
    void                          *data;
    template <typename T> operator T *() const { return (T *)data; }
};

static inline sg_address sg_data(const sg_tensor &t) { return {t.rank ? t.data : NULL}; }

#define SG_LOG2_E 1.4426950408889634f

/* The sum over LANES neighbouring lanes, a power of two of them, the same in each. All lanes of the warp take part. */
template <int LANES = SG_WARP> static __device__ __forceinline__ float sg_lanes_sum(float x)
{
    for (int i = LANES / 2; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

static __device__ __forceinline__ float sg_bf16_to_float(uint32_t bits) { return __uint_as_float(bits << 16); }

/* Two numbers as BF16, rounded to nearest even; `low` in the lower half. */
static __device__ __forceinline__ uint32_t sg_pack_bf16x2(float low, float high)
{
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}

/* Neighbouring numbers as a word of memory, and back. */
static __device__ __forceinline__ float4 sg_four_of(const float *x) { return make_float4(x[0], x[1], x[2], x[3]); }

static __device__ __forceinline__ uint4 sg_eight_of(const float *x)
{
    return make_uint4(sg_pack_bf16x2(x[0], x[1]), sg_pack_bf16x2(x[2], x[3]), sg_pack_bf16x2(x[4], x[5]),
                      sg_pack_bf16x2(x[6], x[7]));
}

static __device__ __forceinline__ void sg_take_apart(const float4 &four, float *x)
{
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

static __device__ __forceinline__ float sg_get(const sg_view &v, int64_t i)
{
    return v.bf16 ? sg_bf16_to_float(((const uint16_t *)v.data)[i]) : ((const float *)v.data)[i];
}

static __device__ __forceinline__ float sg_get_or(const sg_view &v, int64_t i, float other)
{
    return v.data ? sg_get(v, i) : other;
}

static __device__ __forceinline__ void sg_put(const sg_view &v, int64_t i, float x)
{
    if (v.bf16)
        ((uint16_t *)v.data)[i] = (uint16_t)sg_pack_bf16x2(x, 0.0f);
    else
        ((float *)v.data)[i] = x;
}

/* Elements [i, i + n) of v, n at most SG_PACK, into x. `even`: i is a multiple of SG_PACK. */
static __device__ __forceinline__ void sg_get_pack(const sg_view &v, int64_t i, int n, bool even, float (&x)[SG_PACK])
{
    if (n == SG_PACK && even && v.wide) {
        if (v.bf16) {
            const uint4    four = *(const uint4 *)((const uint16_t *)v.data + i);
            const uint32_t part[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int k = 0; k < 4; k++) {
                x[2 * k] = sg_bf16_to_float(part[k]);
                x[2 * k + 1] = __uint_as_float(part[k] & 0xffff0000u);
            }
        } else {
            const float4 a = *(const float4 *)((const float *)v.data + i),
                         b = *(const float4 *)((const float *)v.data + i + 4);
            sg_take_apart(a, x);
            sg_take_apart(b, x + 4);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < SG_PACK; k++) x[k] = k < n ? sg_get(v, i + k) : 0.0f;
}

static __device__ __forceinline__ void sg_put_pack(const sg_view &v, int64_t i, int n, bool even,
                                                   const float (&x)[SG_PACK])
{
    if (n == SG_PACK && even && v.wide) {
        if (v.bf16) {
            *(uint4 *)((uint16_t *)v.data + i) = sg_eight_of(x);
        } else {
            *(float4 *)((float *)v.data + i) = sg_four_of(x);
            *(float4 *)((float *)v.data + i + 4) = sg_four_of(x + 4);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < SG_PACK; k++)
        if (k < n) sg_put(v, i + k, x[k]);
}

/* a / b and a % b for a >= 0, b > 0, in 32 bits when they suffice: several times quicker. */
static __device__ __forceinline__ int64_t sg_divide(int64_t a, int64_t b, int64_t *rest)
{
    if (((uint64_t)a | (uint64_t)b) >> 32 == 0) {
        const uint32_t q = (uint32_t)a / (uint32_t)b;
        *rest = (uint32_t)a - q * (uint32_t)b;
        return q;
    }
    const int64_t q = a / b;
    *rest = a - q * b;
    return q;
}

static __device__ __forceinline__ float sg_activate(sg_act act, float x)
{
    switch (act) {
    case SG_ACT_RELU: return x < 0 ? 0.0f : x; /* lets NaN through */
    case SG_ACT_SILU: return x / (1.0f + expf(-x));
    case SG_ACT_GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
    case SG_ACT_GELU_ERF: return 0.5f * x * erfcf(x * -0.70710678118654752440f);
    case SG_ACT_GELU_QUICK: return x / (1.0f + expf(-1.702f * x));
    case SG_ACT_TANH: return tanhf(x);
    case SG_ACT_CLAMP: return x < -1 ? -1.0f : x > 1 ? 1.0f : x;
    default: return x;
    }
}

/* Launches a kernel on the stream's queue, with `bytes` bytes of dynamic shared memory. */
template <typename K, typename... A>
static sg_status sg_cuda_launch(sg_stream *s, const char *op, K kernel, dim3 grid, int threads, size_t bytes,
                                const A &...args)
{
    if (bytes > (32 << 10)) /* any kernel may have so much and its own */
        SG_TRY(sg_cuda_check(s, op, sg_cuda_allow_shared((const void *)kernel, bytes)));
    kernel<<<grid, threads, bytes, sg_cuda_of(s)->queue>>>(args...);
    return sg_cuda_launched(s, op);
}

/* f(i, n) for every run of n neighbours from i on, n = SG_PACK but for the last. */
template <typename F> static __global__ void __launch_bounds__(SG_THREADS) sg_each_pack(int64_t count, F f)
{
    const int64_t step = (int64_t)gridDim.x * SG_THREADS * SG_PACK;
    for (int64_t i = ((int64_t)blockIdx.x * SG_THREADS + threadIdx.x) * SG_PACK; i < count; i += step)
        f(i, count - i < SG_PACK ? (int)(count - i) : (int)SG_PACK);
}

template <typename F> static sg_status sg_cuda_each_pack(sg_stream *s, const char *op, int64_t count, const F &f)
{
    return sg_cuda_launch(s, op, sg_each_pack<F>, sg_cuda_blocks(s, sg_div_up(count, SG_PACK)), SG_THREADS, 0, count,
                          f);
}

/* f(i) for i below count. */
template <typename F> static __global__ void __launch_bounds__(SG_THREADS) sg_each(int64_t count, F f)
{
    const int64_t step = (int64_t)gridDim.x * SG_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * SG_THREADS + threadIdx.x; i < count; i += step) f(i);
}

template <typename F> static sg_status sg_cuda_each(sg_stream *s, const char *op, int64_t count, const F &f)
{
    return sg_cuda_launch(s, op, sg_each<F>, sg_cuda_blocks(s, count), SG_THREADS, 0, count, f);
}

#endif
