/* attend.cu - dense attention for any dtype and head size, on the plain F32 units, with an online softmax.
 *
 *     y = softmax(scale q k^T + bias + key_bias) v, per head
 *
 * With causal, a value that a row does not see must be finite, as in the other kernels: its weight is 0.
 *
 * A CTA owns QUERIES rows of one head and WIDE columns of y, and loops over the keys, KEYS at a time. Its 256 threads
 * are a square of 16 x 16. Thread (row, col) holds the 4 x 4 scores of rows 4 row.. and keys 4 col.., and of y the same
 * rows and four columns in every 64. Scores are summed over d in steps of DEPTH, so that shared memory does not depend
 * on d.
 *
 * Shared memory, 34.8 KiB: `tile` is first q and k, both transposed, [DEPTH][64 + 4] each, then v, [SLICE][WIDE];
 * `weight` has the CTA's weights, transposed, [KEYS][QUERIES + 4]. Rows are padded by one access.
 *
 * Roofline: arithmetic, 16 multiply-adds to 3 shared-memory cycles in q k^T. Measured on an H200: 25 TFLOP/s of 67 at d
 * = 128, half of that above d = 256, where the scores are computed again for every WIDE columns of y. */
#include "cuda_kernel.cuh"

#include <math.h>

enum { QUERIES = 64, KEYS = 64, DEPTH = 32, SLICE = 16, PITCH = 64 + 4 };

struct attend_job {
    sg_view y, q, k, v, bias, key_bias;
    int64_t n, m, h, hk, d;
    float   scale;
    bool    causal;
};

struct attend_smem {
    float tile[2 * DEPTH * PITCH];
    float weight[KEYS * PITCH];
};

/* ---- kernels ---- */

/* The head of keys of head g of queries. */
static __device__ __forceinline__ int64_t keys_of(const attend_job &j, int64_t g) { return g / (j.h / j.hk); }

/* 64 rows of t [rows, heads, d] from `first` on, elements [e, e + DEPTH) of head g, transposed; zeros beyond the rows and
 * beyond d. */
static __device__ void load_transposed(const attend_job &j, const sg_view &t, int64_t rows, int64_t first,
                                       int64_t heads, int64_t g, int64_t e, float *to)
{
    const int     part = threadIdx.x % 4 * 8, row = threadIdx.x / 4;
    const int64_t at = ((first + row) * heads + g) * j.d + e + part, left = j.d - e - part;
    float         x[SG_PACK] = {0};
    if (first + row < rows && left > 0) sg_get_pack(t, at, (int)min((int64_t)SG_PACK, left), j.d % SG_PACK == 0, x);
#pragma unroll
    for (int i = 0; i < SG_PACK; i++) to[(part + i) * PITCH + row] = x[i];
}

/* SLICE rows of v from `first` on, columns [e, e + WIDE) of head of keys g. */
template <int WIDE>
static __device__ void load_values(const attend_job &j, int64_t first, int64_t g, int64_t e, float *to)
{
    for (int i = threadIdx.x * SG_PACK; i < SLICE * WIDE; i += SG_THREADS * SG_PACK) {
        const int     row = i / WIDE, col = i % WIDE;
        const int64_t at = ((first + row) * j.hk + g) * j.d + e + col, left = j.d - e - col;
        float         x[SG_PACK] = {0};
        if (first + row < j.m && left > 0)
            sg_get_pack(j.v, at, (int)min((int64_t)SG_PACK, left), j.d % SG_PACK == 0, x);
        *(float4 *)(to + i) = sg_four_of(x);
        *(float4 *)(to + i + 4) = sg_four_of(x + 4);
    }
}

static __device__ void scores(const attend_job &j, attend_smem &smem, int64_t g, int64_t row, int64_t key,
                              float (&s)[4][4])
{
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    float    *q = smem.tile, *k = smem.tile + DEPTH * PITCH;
    for (int64_t e = 0; e < j.d; e += DEPTH) {
        __syncthreads();
        load_transposed(j, j.q, j.n, row, j.h, g, e, q);
        load_transposed(j, j.k, j.m, key, j.hk, keys_of(j, g), e, k);
        __syncthreads();
#pragma unroll 8
        for (int i = 0; i < DEPTH; i++) {
            float a[4], b[4];
            sg_take_apart(*(const float4 *)(q + i * PITCH + 4 * ty), a);
            sg_take_apart(*(const float4 *)(k + i * PITCH + 4 * tx), b);
#pragma unroll
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++) s[r][c] += a[r] * b[c];
        }
    }
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            const int64_t at = row + 4 * ty + r, to = key + 4 * tx + c;
            if (to >= j.m || (j.causal && to > at + j.m - j.n))
                s[r][c] = -INFINITY;
            else if (at < j.n)
                s[r][c] = s[r][c] * j.scale + sg_get_or(j.key_bias, to, 0.0f) +
                          sg_get_or(j.bias, (g * j.n + at) * j.m + to, 0.0f);
        }
}

/* Turns scores into weights, in shared memory. Rescales o and sum by the growth of the row's maximum. A row without a
 * key so far keeps row_max -INFINITY and weights 0. NaN reaches sum. */
template <int COLS>
static __device__ void softmax_update(float (&s)[4][4], float (&row_max)[4], float (&sum)[4], float (&o)[4][COLS],
                                      float *weight)
{
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int r = 0; r < 4; r++) {
        float max = fmaxf(fmaxf(s[r][0], s[r][1]), fmaxf(s[r][2], s[r][3])), all = 0;
        for (int i = 8; i > 0; i /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, i));
        max = fmaxf(max, row_max[r]);
        const float base = max == -INFINITY ? 0.0f : max, rescale = expf(row_max[r] - base);
        for (int c = 0; c < 4; c++) {
            s[r][c] = expf(s[r][c] - base);
            all += s[r][c];
        }
        all = sg_lanes_sum<16>(all);
        sum[r] = sum[r] * rescale + all;
        row_max[r] = max;
        for (int c = 0; c < COLS; c++) o[r][c] *= rescale;
    }
    for (int c = 0; c < 4; c++)
        *(float4 *)(weight + (4 * tx + c) * PITCH + 4 * ty) = make_float4(s[0][c], s[1][c], s[2][c], s[3][c]);
}

template <int WIDE>
static __global__ void __launch_bounds__(SG_THREADS) attend_tiles(attend_job j)
{
    __shared__ __align__(16) attend_smem smem;
    constexpr int COLS = WIDE / 16;
    const int     ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    const int64_t row = (int64_t)(j.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * QUERIES; /* most keys first */
    const int64_t g = blockIdx.y, first = (int64_t)blockIdx.z * WIDE;
    const int64_t end = j.causal ? min(j.m, row + QUERIES + j.m - j.n) : j.m;
    float o[4][COLS] = {}, sum[4] = {}, row_max[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int64_t key = 0; key < end; key += KEYS) {
        float s[4][4] = {};
        scores(j, smem, g, row, key, s);
        softmax_update<COLS>(s, row_max, sum, o, smem.weight);
        for (int slice = 0; slice < KEYS && key + slice < end; slice += SLICE) {
            __syncthreads();
            load_values<WIDE>(j, key + slice, keys_of(j, g), first, smem.tile);
            __syncthreads();
#pragma unroll 4
            for (int i = 0; i < SLICE; i++) {
                float p[4], v[4];
                sg_take_apart(*(const float4 *)(smem.weight + (slice + i) * PITCH + 4 * ty), p);
#pragma unroll
                for (int c = 0; c < COLS; c += 4) {
                    sg_take_apart(*(const float4 *)(smem.tile + i * WIDE + 16 * c + 4 * tx), v);
#pragma unroll
                    for (int r = 0; r < 4; r++)
                        for (int l = 0; l < 4; l++) o[r][c + l] += p[r] * v[l];
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const int64_t at = row + 4 * ty + r;
        const float   by = sum[r] == 0.0f ? 0.0f : 1.0f / sum[r];
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const int64_t e = first + c / 4 * 64 + 4 * tx + c % 4;
            if (at < j.n && e < j.d) sg_put(j.y, (at * j.h + g) * j.d + e, sum[r] == 0.0f ? 0.0f : o[r][c] * by);
        }
    }
}

/* ---- launchers ---- */

template <int WIDE> static sg_status attend_launch(sg_stream *s, const attend_job &j)
{
    const dim3 grid(sg_div_up(j.n, QUERIES), j.h, sg_div_up(j.d, WIDE));
    return sg_cuda_launch(s, "attend", attend_tiles<WIDE>, grid, SG_THREADS, 0, j);
}

static sg_status attend(sg_stream *s, const sg_attend_args *a)
{
    sg_status      status = SG_OK;
    sg_attend_args all = *a;
    all.causal = a->causal && a->q.dim[0] > 1; /* a single query sees all keys */
    a = &all;
    if (sg_cuda_attend_dnn(s, a, &status) || sg_cuda_attend_short(s, a, &status) || sg_cuda_attend_mma(s, a, &status) ||
        sg_cuda_attend_large_head(s, a, &status))
        return status;
    if (a->q.dtype == SG_BF16)
        sg_fallback_count(&sg_cuda_of(s)->fallbacks, "attend without tensor cores: heads that its kernels do not take");
    const attend_job j = {sg_view_of(a->y), sg_view_of(a->q), sg_view_of(a->k), sg_view_of(a->v), sg_view_of(a->bias),
                          sg_view_of(a->key_bias), a->q.dim[0], a->k.dim[0], a->q.dim[1], a->k.dim[1], a->q.dim[2],
                          a->scale, a->causal};
    if (j.h > UINT16_MAX) return sg_fail(s, SG_E_UNSUPPORTED, "attend: %lld heads; 65535 are the most", (long long)j.h);
    return j.d <= 64 ? attend_launch<64>(s, j) : j.d <= 128 ? attend_launch<128>(s, j) : attend_launch<256>(s, j);
}

void sg_cuda_attend_init(sg_ops *t) { t->attend = attend; }
