/* pool.cu - means, variances and likeness of blocks, and whole numbers of 8 bits: pool, alike and quantise.
 *
 * Means and variances are each channel's own, so that heads do not matter: a thread walks down the rows of one of the h d
 * channels, 16 at a time in registers. Roofline: bandwidth, x read once. */
#include "blocks.cuh"

#include <math.h>

enum { COLUMNS = 128, LANES = 8 };

/* ---- pool ---- */

struct pool_job {
    sg_view x;
    float  *mean, *var, *sub; /* the last two may be NULL */
    int64_t n, c;             /* rows, channels of all heads */
    int     block;
};

/* Merges the deviations of parts: Chan, Golub and LeVeque, 1979. */
static __global__ void __launch_bounds__(COLUMNS) pool_blocks(pool_job j)
{
    const int64_t e = (int64_t)blockIdx.y * COLUMNS + threadIdx.x, first = (int64_t)blockIdx.x * j.block;
    const int64_t end = min(first + j.block, j.n);
    float         sum = 0, middle = 0, square = 0;
    if (e >= j.c) return;
    for (int64_t row = first; row < end; row += SG_BLOCK_SUB) {
        const int rows = (int)min((int64_t)SG_BLOCK_SUB, end - row);
        float     x[SG_BLOCK_SUB], part = 0, own = 0;
#pragma unroll
        for (int i = 0; i < SG_BLOCK_SUB; i++) x[i] = i < rows ? sg_get(j.x, (row + i) * j.c + e) : 0.0f;
#pragma unroll
        for (int i = 0; i < SG_BLOCK_SUB; i++) part += x[i];
        const float mean = part / (float)rows;
#pragma unroll
        for (int i = 0; i < SG_BLOCK_SUB; i++)
            if (i < rows) own += (x[i] - mean) * (x[i] - mean);
        const float before = (float)(row - first), after = before + (float)rows, apart = mean - middle;
        square += own + apart * apart * (before * (float)rows / after);
        middle += apart * ((float)rows / after);
        sum += part;
        if (j.sub) j.sub[row / SG_BLOCK_SUB * j.c + e] = mean;
    }
    j.mean[blockIdx.x * j.c + e] = sum / (float)(end - first);
    if (j.var) j.var[blockIdx.x * j.c + e] = square / (float)(end - first);
}

/* The mean of all rows out of those of the blocks, always in one order. */
static __global__ void __launch_bounds__(SG_WARP *LANES) pool_total(pool_job j, float *total)
{
    __shared__ double part[LANES][SG_WARP];
    const int64_t     e = (int64_t)blockIdx.x * SG_WARP + threadIdx.x, blocks = (j.n + j.block - 1) / j.block;
    double            sum = 0;
    for (int64_t b = threadIdx.y; e < j.c && b < blocks; b += LANES)
        sum += (double)j.mean[b * j.c + e] * (double)(min((b + 1) * j.block, j.n) - b * j.block);
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || e >= j.c) return;
    for (int k = 1; k < LANES; k++) sum += part[k][threadIdx.x];
    total[e] = (float)(sum / (double)j.n);
}

/* ---- the largest of channels ---- */

struct reach_job {
    sg_view      x;
    const float *center; /* [c], or NULL */
    int         *most;   /* bits of the largest |x - center|, in which infinity and NaN come last */
    int64_t      n, c;
};

static __global__ void __launch_bounds__(COLUMNS) reach_channels(reach_job j)
{
    const int64_t e = (int64_t)blockIdx.y * COLUMNS + threadIdx.x;
    int           most = 0;
    if (e >= j.c) return;
    const float center = j.center ? j.center[e] : 0.0f;
    for (int64_t row = blockIdx.x; row < j.n; row += gridDim.x)
        most = max(most, __float_as_int(fabsf(__fsub_rn(sg_get(j.x, row * j.c + e), center))));
    atomicMax(&j.most[e], most);
}

static __device__ __forceinline__ float scale_of(int most)
{
    return most >= 0x7f800000 ? __int_as_float(0x7fc00000) : __fmul_rn(__int_as_float(most), 1.0f / 127.0f);
}

struct finish_reach {
    int            *most;
    __device__ void operator()(int64_t i) const { ((float *)most)[i] = scale_of(most[i]); }
};

/* scale [c] of channels about center. */
static sg_status reach(sg_stream *s, const char *op, sg_tensor x, sg_tensor center, sg_tensor scale)
{
    reach_job j;
    j.x = sg_view_of(x);
    j.center = center.rank ? (const float *)center.data : NULL;
    j.most = (int *)scale.data;
    j.n = x.dim[0];
    j.c = x.dim[1] * x.dim[2];
    const dim3 grid((unsigned)sg_min64(sg_div_up(j.n, SG_BLOCK_SUB), 1024), (unsigned)sg_div_up(j.c, COLUMNS));
    SG_TRY(sg_cuda_check(s, op, cudaMemsetAsync(j.most, 0, (size_t)j.c * sizeof *j.most, sg_cuda_of(s)->queue)));
    reach_channels<<<grid, COLUMNS, 0, sg_cuda_of(s)->queue>>>(j);
    const finish_reach f = {j.most};
    return sg_cuda_each(s, op, j.c, f);
}

/* ---- quantise ---- */

struct quantise_job {
    sg_view      x;
    const float *center; /* [h, d], or NULL */
    float       *scale;
    int8_t      *y;
    int64_t      n, h, d;
    int          group;
    bool         even; /* rows may be moved SG_PACK at a time */
};

static __device__ __forceinline__ void centred(const quantise_job &j, int64_t row, int64_t g, int64_t e,
                                               float (&u)[SG_PACK])
{
    const int n = (int)min((int64_t)SG_PACK, j.d - e);
    sg_get_pack(j.x, (row * j.h + g) * j.d + e, n, j.even, u);
    if (!j.center) return;
#pragma unroll
    for (int i = 0; i < SG_PACK; i++) u[i] = i < n ? __fsub_rn(u[i], j.center[g * j.d + e + i]) : 0.0f;
}

static __device__ __forceinline__ int8_t whole(float u, float inverse)
{
    return (int8_t)__float2int_rn(fminf(fmaxf(__fmul_rn(u, inverse), -127.0f), 127.0f));
}

/* `group` rows of one head, which share a scale. */
static __global__ void __launch_bounds__(SG_THREADS) quantise_rows(quantise_job j)
{
    __shared__ int best[SG_THREADS / SG_WARP];
    const int64_t  first = (int64_t)blockIdx.x * j.group, g = blockIdx.y, packs = (j.d + SG_PACK - 1) / SG_PACK;
    const int      count = (int)(min((int64_t)j.group, j.n - first) * packs);
    int            most = 0;
    float          u[SG_PACK];
    for (int i = threadIdx.x; i < count; i += SG_THREADS) {
        centred(j, first + i / packs, g, i % packs * SG_PACK, u);
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) most = max(most, __float_as_int(fabsf(u[k])));
    }
    most = __reduce_max_sync(~0u, most);
    if (threadIdx.x % SG_WARP == 0) best[threadIdx.x / SG_WARP] = most;
    __syncthreads();
    for (int k = 0; k < SG_THREADS / SG_WARP; k++) most = max(most, best[k]);
    const float scale = scale_of(most), inverse = scale == 0 ? 0.0f : __frcp_rn(scale);
    if (threadIdx.x == 0) j.scale[blockIdx.x * j.h + g] = scale;
    for (int i = threadIdx.x; i < count; i += SG_THREADS) {
        const int64_t row = first + i / packs, e = i % packs * SG_PACK;
        int8_t *const y = j.y + (g * j.n + row) * j.d + e;
        centred(j, row, g, e, u);
        if (j.even) {
            char2 two[SG_PACK / 2];
#pragma unroll
            for (int k = 0; k < SG_PACK / 2; k++)
                two[k] = make_char2(whole(u[2 * k], inverse), whole(u[2 * k + 1], inverse));
            *(uint2 *)y = *(const uint2 *)two;
        } else {
            for (int k = 0; k < SG_PACK && e + k < j.d; k++) y[k] = whole(u[k], inverse);
        }
    }
}

/* All rows of a channel share its scale, which is known. */
struct quantise_channels {
    quantise_job    j;
    __device__ void operator()(int64_t at) const
    {
        int64_t       e, row;
        const int64_t line = sg_divide(at, j.d, &e), g = sg_divide(line, j.n, &row);
        const float   u = sg_get(j.x, (row * j.h + g) * j.d + e), scale = j.scale[g * j.d + e];
        j.y[at] = whole(j.center ? __fsub_rn(u, j.center[g * j.d + e]) : u, scale == 0 ? 0.0f : __frcp_rn(scale));
    }
};

static sg_status quantise_as(sg_stream *s, const char *op, const sg_quantise_args *a)
{
    quantise_channels f;
    quantise_job     &j = f.j;
    j.x = sg_view_of(a->x);
    j.center = a->center.rank ? (const float *)a->center.data : NULL;
    j.scale = (float *)a->scale.data;
    j.y = (int8_t *)a->y.data;
    j.n = a->x.dim[0];
    j.h = a->x.dim[1];
    j.d = a->x.dim[2];
    j.group = a->group;
    j.even = j.d % SG_PACK == 0 && (uintptr_t)j.y % SG_PACK == 0;
    if (j.h > UINT16_MAX) return sg_fail(s, SG_E_UNSUPPORTED, "%s: %lld heads; 65535 are the most", op, (long long)j.h);
    if (a->group == 0) {
        if (!a->given) SG_TRY(reach(s, op, a->x, a->center, a->scale));
        return sg_cuda_each(s, op, j.n * j.h * j.d, f);
    }
    const dim3 grid((unsigned)sg_div_up(j.n, j.group), (unsigned)j.h);
    quantise_rows<<<grid, SG_THREADS, 0, sg_cuda_of(s)->queue>>>(j);
    return sg_cuda_launched(s, op);
}

static sg_status quantise(sg_stream *s, const sg_quantise_args *a)
{
    return a->y.dtype == SG_F8 ? sg_cuda_quantise_f8(s, a) : quantise_as(s, "quantise", a);
}

static sg_status pool(sg_stream *s, const sg_pool_args *a)
{
    pool_job               j;
    const cudaStream_t     queue = sg_cuda_of(s)->queue;
    const sg_quantise_args rows = {a->y, a->scale, a->x, {}, a->group, false};
    j.x = sg_view_of(a->x);
    j.mean = (float *)a->mean.data;
    j.var = a->var.rank ? (float *)a->var.data : NULL;
    j.sub = a->sub.rank ? (float *)a->sub.data : NULL;
    j.n = a->x.dim[0];
    j.c = a->x.dim[1] * a->x.dim[2];
    j.block = a->block;
    const dim3 grid((unsigned)sg_div_up(j.n, j.block), (unsigned)sg_div_up(j.c, COLUMNS)), lanes(SG_WARP, LANES);
    pool_blocks<<<grid, COLUMNS, 0, queue>>>(j);
    if (a->total.rank) pool_total<<<(unsigned)sg_div_up(j.c, SG_WARP), lanes, 0, queue>>>(j, (float *)a->total.data);
    SG_TRY(sg_cuda_launched(s, "pool"));
    if (a->reach.rank) SG_TRY(reach(s, "pool", a->x, a->total, a->reach));
    return a->y.rank ? quantise_as(s, "pool", &rows) : SG_OK;
}

/* ---- alike ---- */

struct alike_job {
    sg_view      x;
    const float *center;
    float       *y;
    int64_t      n, h, d;
    int          block;
};

/* A warp takes a row; each of the eight adds up its rows' directions in its own line of shared memory. */
static __global__ void __launch_bounds__(SG_THREADS) alike_blocks(alike_job j)
{
    extern __shared__ float sums[];
    __shared__ float        part[SG_THREADS / SG_WARP];
    const int               warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP, warps = SG_THREADS / SG_WARP;
    const int64_t           first = (int64_t)blockIdx.x * j.block, g = blockIdx.y, end = min(first + j.block, j.n);
    float *const            sum = sums + warp * j.d;
    for (int64_t e = lane; e < j.d; e += SG_WARP) sum[e] = 0;
    for (int64_t row = first + warp; row < end; row += warps) {
        const int64_t at = (row * j.h + g) * j.d;
        float         square = 0;
        for (int64_t e = lane; e < j.d; e += SG_WARP) {
            const float u = sg_get(j.x, at + e) - (j.center ? j.center[g * j.d + e] : 0.0f);
            square += u * u;
        }
        square = sg_lanes_sum(square);
        const float length = sqrtf(square);
        for (int64_t e = lane; e < j.d; e += SG_WARP)
            sum[e] += (sg_get(j.x, at + e) - (j.center ? j.center[g * j.d + e] : 0.0f)) / length;
    }
    __syncthreads();
    float square = 0;
    for (int64_t e = threadIdx.x; e < j.d; e += SG_THREADS) {
        float all = 0;
        for (int k = 0; k < warps; k++) all += sums[k * j.d + e];
        square += all * all;
    }
    square = sg_lanes_sum(square);
    if (lane == 0) part[warp] = square;
    __syncthreads();
    if (threadIdx.x) return;
    for (int k = 1; k < warps; k++) square += part[k];
    const float rows = (float)(end - first);
    j.y[blockIdx.x * j.h + g] = square / (rows * rows);
}

static sg_status alike(sg_stream *s, const sg_alike_args *a)
{
    alike_job j;
    j.x = sg_view_of(a->x);
    j.center = a->center.rank ? (const float *)a->center.data : NULL;
    j.y = (float *)a->y.data;
    j.n = a->x.dim[0];
    j.h = a->x.dim[1];
    j.d = a->x.dim[2];
    j.block = a->block;
    const size_t bytes = (size_t)j.d * SG_THREADS / SG_WARP * sizeof(float);
    const dim3   grid((unsigned)sg_div_up(j.n, j.block), (unsigned)j.h);
    if (j.h > UINT16_MAX || bytes > (47 << 10))
        return sg_fail(s, SG_E_UNSUPPORTED, "alike: %lld heads of %lld channels; 65535 of 1504 are the most",
                       (long long)j.h, (long long)j.d);
    alike_blocks<<<grid, SG_THREADS, bytes, sg_cuda_of(s)->queue>>>(j);
    return sg_cuda_launched(s, "alike");
}

void sg_cuda_pool_init(sg_ops *t)
{
    t->pool = pool;
    t->alike = alike;
    t->quantise = quantise;
}
