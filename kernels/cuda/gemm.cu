/* gemm.cu - matmuls too small to open cublasLt for, and all where it is not installed: y = x w^T, sums in F32.
 *
 * Three kernels, by shape. Few rows: a warp for each number of y, which reads its row of w once. F32: a CTA makes 64 x 64
 * numbers, a thread 4 x 4 of them, from 16 columns of x and w at a time. BF16: the same tile by mma.sync, a warp 32 x 32
 * of it, 32 columns at a time:
 *   shared memory: x and w [STAGES][64][32 + 8], BF16; the 8 keep ldmatrix free of bank conflicts
 *   a barrier a step: columns t have arrived, and all warps are done with t - 1 -> load t + STAGES - 1 in its place
 * Tensor cores truncate partial sums where F32 rounds them, so each 32 columns are summed by themselves and then added.
 * Roofline: L2 cache; a tile has 64 FLOP a byte. */
#include "mma.cuh"

enum { TILE = 64, DEPTH = 32, STAGES = 4, PAD = 8, SLICE = 16, FEW_ROWS = 16, MMA_THREADS = 128 };

struct gemm_job {
    sg_view y, x, w, b;
    int64_t n, i, o, y_stride, x_stride, w_stride;
    bool    gelu, add;
    bool    wide;  /* rows of x and w may be copied 16 bytes at a time */
    bool    pairs; /* two numbers of y, from an even column on, lie together as one word */
};

static __device__ __forceinline__ float2 get_pair(const sg_view &v, int64_t at)
{
    if (!v.bf16) return *(const float2 *)((const float *)v.data + at);
    const uint32_t two = *(const uint32_t *)((const uint16_t *)v.data + at);
    return make_float2(sg_bf16_to_float(two & 0xffff), sg_bf16_to_float(two >> 16));
}

static __device__ __forceinline__ float2 add(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

/* y[row, col] of the product v. */
static __device__ __forceinline__ void finish(const gemm_job &j, int64_t row, int64_t col, float v)
{
    const int64_t at = row * j.y_stride + col;
    if (j.b.data) v += sg_get(j.b, col);
    if (j.gelu) v = sg_activate(SG_ACT_GELU_TANH, v);
    sg_put(j.y, at, j.add ? sg_get(j.y, at) + v : v);
}

/* The same for columns col and col + 1, col even. */
static __device__ __forceinline__ void finish_pair(const gemm_job &j, int64_t row, int64_t col, float2 v)
{
    if (!j.pairs) {
        finish(j, row, col, v.x);
        if (col + 1 < j.o) finish(j, row, col + 1, v.y);
        return;
    }
    const int64_t at = row * j.y_stride + col;
    if (j.b.data) v = add(v, get_pair(j.b, col));
    if (j.gelu) v = make_float2(sg_activate(SG_ACT_GELU_TANH, v.x), sg_activate(SG_ACT_GELU_TANH, v.y));
    if (j.add) v = add(v, get_pair(j.y, at));
    if (j.y.bf16)
        *(uint32_t *)((uint16_t *)j.y.data + at) = sg_pack_bf16x2(v.x, v.y);
    else
        *(float2 *)((float *)j.y.data + at) = v;
}

static __global__ void __launch_bounds__(SG_THREADS) few_rows(gemm_job j)
{
    const int64_t col = blockIdx.x * (int64_t)(SG_THREADS / SG_WARP) + threadIdx.x / SG_WARP, row = blockIdx.y;
    const int     lane = threadIdx.x % SG_WARP;
    if (col >= j.o) return;
    float sum = 0;
    for (int64_t k = lane; k < j.i; k += SG_WARP)
        sum += sg_get(j.x, row * j.x_stride + k) * sg_get(j.w, col * j.w_stride + k);
    sum = sg_lanes_sum(sum);
    if (lane == 0) finish(j, row, col, sum);
}

/* ---- F32 ---- */

/* Columns [k, k + SLICE) of TILE rows of m, transposed; zeros beyond its edges. */
static __device__ void load_slice(float (&to)[SLICE][TILE + 4], sg_view m, int64_t stride, int64_t rows, int64_t first,
                                  int64_t k, int64_t depth)
{
    for (int at = threadIdx.x; at < TILE * SLICE; at += SG_THREADS) {
        const int row = at / SLICE, e = at % SLICE;
        to[e][row] =
            first + row < rows && k + e < depth ? ((const float *)m.data)[(first + row) * stride + k + e] : 0.0f;
    }
}

static __global__ void __launch_bounds__(SG_THREADS) tile_f32(gemm_job j)
{
    __shared__ float x[SLICE][TILE + 4], w[SLICE][TILE + 4];
    const int64_t    row = blockIdx.x * (int64_t)TILE, col = blockIdx.y * (int64_t)TILE;
    const int        down = threadIdx.x / 16 * 4, right = threadIdx.x % 16 * 4;
    float            sum[4][4] = {};
    for (int64_t k = 0; k < j.i; k += SLICE) {
        __syncthreads();
        load_slice(x, j.x, j.x_stride, j.n, row, k, j.i);
        load_slice(w, j.w, j.w_stride, j.o, col, k, j.i);
        __syncthreads();
#pragma unroll
        for (int e = 0; e < SLICE; e++)
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int c = 0; c < 4; c++) sum[r][c] += x[e][down + r] * w[e][right + c];
    }
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            if (row + down + r < j.n && col + right + c < j.o) finish(j, row + down + r, col + right + c, sum[r][c]);
}

/* ---- BF16 ---- */

struct gemm_smem {
    uint16_t x[STAGES][TILE][DEPTH + PAD], w[STAGES][TILE][DEPTH + PAD];
};

/* Columns [k, k + DEPTH) of TILE rows of m; zeros beyond its edges. */
static __device__ void load_tile(uint16_t (&to)[TILE][DEPTH + PAD], const gemm_job &j, const void *m, int64_t stride,
                                 int64_t rows, int64_t first, int64_t k)
{
    const uint16_t *const from = (const uint16_t *)m;
    for (int i = threadIdx.x; i < TILE * DEPTH / 8; i += MMA_THREADS) {
        const int     row = i / (DEPTH / 8), e = i % (DEPTH / 8) * 8;
        const int64_t at = (first + row) * stride + k + e;
        if (j.wide) {
            const bool there = first + row < rows && k + e < j.i;
            sg_cp_async_16(&to[row][e], from + (there ? at : 0), there);
        } else {
            for (int l = 0; l < 8; l++)
                to[row][e + l] = first + row < rows && k + e + l < j.i ? from[at + l] : (uint16_t)0;
        }
    }
}

/* Step t of both operands, on its way; an empty group after the last step. */
static __device__ __forceinline__ void load_stage(gemm_smem &to, const gemm_job &j, int64_t row, int64_t col, int t)
{
    const int64_t k = t * (int64_t)DEPTH;
    if (k < j.i) {
        load_tile(to.x[t % STAGES], j, j.x.data, j.x_stride, j.n, row, k);
        load_tile(to.w[t % STAGES], j, j.w.data, j.w_stride, j.o, col, k);
    }
    sg_cp_async_commit();
}

/* sum += x w^T of a warp's rows from `down` and columns from `right` on. */
static __device__ __forceinline__ void multiply(const uint16_t (&x)[TILE][DEPTH + PAD],
                                                const uint16_t (&w)[TILE][DEPTH + PAD], int down, int right, int lane,
                                                float (&sum)[2][4][4])
{
    float part[2][4][4] = {};
#pragma unroll
    for (int e = 0; e < DEPTH; e += 16) {
        uint32_t a[2][4], b[2][4];
        for (int r = 0; r < 2; r++) sg_ldmatrix_x4(a[r], &x[down + r * 16 + lane % 16][e + lane / 16 * 8]);
        for (int c = 0; c < 2; c++)
            sg_ldmatrix_x4(b[c], &w[right + c * 16 + lane / 16 * 8 + lane % 8][e + lane / 8 % 2 * 8]);
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int c = 0; c < 4; c++) sg_mma_bf16(part[r][c], a[r], b[c / 2][c % 2 * 2], b[c / 2][c % 2 * 2 + 1]);
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) sum[r][c][i] += part[r][c][i];
}

static __global__ void __launch_bounds__(MMA_THREADS) tile_bf16(gemm_job j)
{
    __shared__ __align__(16) gemm_smem smem;
    const int64_t                      row = blockIdx.x * (int64_t)TILE, col = blockIdx.y * (int64_t)TILE;
    const int lane = threadIdx.x % SG_WARP, warp = threadIdx.x / SG_WARP, down = warp / 2 * 32, right = warp % 2 * 32;
    float     sum[2][4][4] = {};
    for (int t = 0; t < STAGES - 1; t++) load_stage(smem, j, row, col, t);
    for (int t = 0; t * (int64_t)DEPTH < j.i; t++) {
        sg_cp_async_wait<STAGES - 2>();
        __syncthreads();
        load_stage(smem, j, row, col, t + STAGES - 1);
        multiply(smem.x[t % STAGES], smem.w[t % STAGES], down, right, lane, sum);
    }
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 4; c++)
            for (int i = 0; i < 2; i++) {
                const int64_t to = row + down + r * 16 + lane / 4 + i * 8;
                const int64_t at = col + right + c * 8 + lane % 4 * 2;
                if (to < j.n && at < j.o) finish_pair(j, to, at, make_float2(sum[r][c][2 * i], sum[r][c][2 * i + 1]));
            }
}

/* ---- launcher ---- */

sg_status sg_cuda_gemm_own(sg_stream *s, const char *op, const sg_gemm *g)
{
    gemm_job j = {.y = sg_view_at(g->y, g->y_type), .x = sg_view_at(g->x, g->type), .w = sg_view_at(g->w, g->type),
                  .b = sg_view_at(g->b, g->y_type), .n = g->n, .i = g->i, .o = g->o, .y_stride = g->stride,
                  .x_stride = g->x_stride ? g->x_stride : g->i, .w_stride = g->w_stride ? g->w_stride : g->i,
                  .gelu = g->gelu, .add = g->add};
    j.wide = j.x.wide && j.w.wide && (j.i | j.x_stride | j.w_stride) % 8 == 0;
    j.pairs = j.y.wide && (!j.b.data || j.b.wide) && (j.o | j.y_stride) % 2 == 0;
    if (j.n == 0 || j.o == 0) return SG_OK;
    const dim3 tiles(sg_div_up(j.n, TILE), sg_div_up(j.o, TILE));
    if (j.n <= FEW_ROWS)
        return sg_cuda_launch(s, op, few_rows, dim3(sg_div_up(j.o, SG_THREADS / SG_WARP), j.n),
                              SG_THREADS, 0, j);
    if (g->type == SG_F32) return sg_cuda_launch(s, op, tile_f32, tiles, SG_THREADS, 0, j);
    return sg_cuda_launch(s, op, tile_bf16, tiles, MMA_THREADS, 0, j);
}
