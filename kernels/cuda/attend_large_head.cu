/* attend_large_head.cu - attention of heads that are too large for a kernel's registers: two matmuls of the library
 * with a softmax between them.
 *
 *     w = softmax(scale q k^T), y = w v, per head
 *
 * Scores are F32. Weights have the operands' dtype and are divided by their sum before rounding. Queries are taken in
 * pieces whose scores and weights fit into the scratch. Rows of weights are padded with zeros to whole packs. v is
 * transposed, [d, m] with the same padding, since the library's matmuls take rows.
 *
 * Roofline: the matmuls. Scores pass through memory once, and twice more through the caches. For 6240 positions of one
 * head of 384 (a VAE at 832x480): 60 GFLOP, 0.08 ms, and 0.5 GB of scores and weights, 0.12 ms. The kernel of attend.cu
 * took 4.9 ms on an H200. */
#include "cuda_kernel.cuh"

#include <math.h>

/* ---- kernels ---- */

/* to[e, key] = v[key, head, e], zeros from key m on. */
struct transpose_values {
    sg_view         to, v;
    int64_t         first, step, m, pitch; /* v's element of this head and key 0; stride of keys */
    __device__ void operator()(int64_t at) const
    {
        int64_t       key;
        const int64_t e = sg_divide(at, pitch, &key);
        sg_put(to, at, key < m ? sg_get(v, first + key * step + e) : 0.0f);
    }
};

/* Reduces x over the CTA's threads by f; every thread gets the result. */
template <typename F> static __device__ float block_reduce(float x, float *smem, F f)
{
    for (int i = SG_WARP / 2; i > 0; i /= 2) x = f(x, __shfl_xor_sync(~0u, x, i));
    __syncthreads();
    if (threadIdx.x % SG_WARP == 0) smem[threadIdx.x / SG_WARP] = x;
    __syncthreads();
    x = smem[0];
    for (int i = 1; i < SG_THREADS / SG_WARP; i++) x = f(x, smem[i]);
    return x;
}

/* A CTA a row: weights of scores s, rows pitch apart. Row r sees the first `seen` + r keys, m at most. A row of zero sum stays
 * zero; NaN reaches the sum. */
static __global__ void __launch_bounds__(SG_THREADS)
    softmax_rows(sg_view w, const float *s, int64_t seen, int64_t all, int64_t pitch, float scale)
{
    __shared__ float   smem[SG_THREADS / SG_WARP];
    const int64_t      m = min(seen + blockIdx.x, all);
    const int64_t      at = blockIdx.x * pitch;
    const float *const row = s + at;
    float              row_max = -INFINITY, sum = 0;
    for (int64_t k = threadIdx.x; k < m; k += SG_THREADS) row_max = fmaxf(row_max, row[k] * scale);
    row_max = block_reduce(row_max, smem, [](float a, float b) { return fmaxf(a, b); });
    const float base = row_max == -INFINITY ? 0.0f : row_max;
    for (int64_t k = threadIdx.x; k < m; k += SG_THREADS) sum += exp2f(row[k] * scale - base);
    sum = block_reduce(sum, smem, [](float a, float b) { return a + b; });
    const float by = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int64_t k = threadIdx.x; k < pitch; k += SG_THREADS)
        sg_put(w, at + k, k < m ? exp2f(row[k] * scale - base) * by : 0.0f);
}

/* ---- launchers ---- */

/* Rows [first, first + rows) of head g. */
static sg_status piece(sg_stream *s, const sg_attend_args *a, int64_t g, int64_t first, int64_t rows, int64_t pitch,
                       float *scores, void *weights, const void *transposed)
{
    const int64_t  h = a->q.dim[1], hk = a->k.dim[1], d = a->q.dim[2], m = a->k.dim[0];
    const int64_t  seen = a->causal ? first + m - a->q.dim[0] + 1 : m; /* keys that the first row sees */
    const sg_dtype type = a->q.dtype;
    const size_t   size = sg_dtype_size(type), at = (size_t)((first * h + g) * d) * size;
    const sg_gemm q_k = {.y = scores, .x = (const char *)a->q.data + at,
                         .w = (const char *)a->k.data + (size_t)(g / (h / hk) * d) * size, .n = rows, .i = d, .o = m,
                         .stride = pitch, .x_stride = h * d, .w_stride = hk * d, .type = type, .y_type = SG_F32};
    const sg_gemm w_v = {.y = (char *)a->y.data + at, .x = weights, .w = transposed, .n = rows, .i = pitch, .o = d,
                         .stride = h * d, .type = type, .y_type = type};
    SG_TRY(sg_cuda_gemm(s, "attend", &q_k));
    SG_TRY(sg_cuda_launch(s, "attend", softmax_rows, rows, SG_THREADS, 0, sg_view_at(weights, type), scores, seen,
                          m, pitch, a->scale * SG_LOG2_E));
    return sg_cuda_gemm(s, "attend", &w_v);
}

bool sg_cuda_attend_large_head(sg_stream *s, const sg_attend_args *a, sg_status *status)
{
    const int64_t n = a->q.dim[0], h = a->q.dim[1], hk = a->k.dim[1], d = a->q.dim[2], m = a->k.dim[0];
    const int64_t pitch = sg_div_up(m, SG_PACK) * SG_PACK;
    const size_t  size = sg_dtype_size(a->q.dtype);
    if (d <= 256 || d % SG_PACK || a->bias.rank || a->key_bias.rank || m == 0 || pitch > SG_CUDA_SUM_BYTES / 4)
        return false;
    const int64_t most = sg_min64(SG_CUDA_SUM_BYTES / 4, SG_CUDA_X_BYTES / (int64_t)size) / pitch;
    const int64_t rows = sg_div_up(n, sg_div_up(n, sg_max64(1, most)));
    void *const   transposed = sg_cuda_scratch(s, "attend", SG_CUDA_W, (size_t)(d * pitch) * size);
    float *const  scores = (float *)sg_cuda_scratch(s, "attend", SG_CUDA_SUM, (size_t)(rows * pitch) * sizeof(float));
    void *const   weights = sg_cuda_scratch(s, "attend", SG_CUDA_X, (size_t)(rows * pitch) * size);
    *status = s->status;
    for (int64_t g = 0; g < h && !*status; g++) {
        const transpose_values transpose = {
            sg_view_at(transposed, a->q.dtype), sg_view_of(a->v), g / (h / hk) * d, hk * d, m, pitch};
        if (g % (h / hk) == 0) *status = sg_cuda_each(s, "attend", d * pitch, transpose);
        for (int64_t i = 0; i < n && !*status; i += rows)
            *status = piece(s, a, g, i, sg_min64(rows, n - i), pitch, scores, weights, transposed);
    }
    return true;
}
