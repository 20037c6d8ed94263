/* pool.cu - pool, self_similarity and quantise: means, variances and self-similarity of blocks, and INT8.
 *
 * Roofline: bandwidth. x is read once, in loads of 16 bytes, of which a thread has 8 or 16 in flight. Blocks of threads are
 * numbered heads first, so that those that run at once read whole rows. Heads whose d is no multiple of 16 bytes are read
 * one number a thread, and once more for the extremes of channels. */
#include "blocks.cuh"

#include <math.h>

enum { COLUMNS = 128, LANES = 32, POOL_THREADS = 512, HELD = 8, AHEAD = 8 };

/* The integer nearest to u r, ties to even, of magnitude below 2^22: the last bits of u r + 1.5 x 2^23. */
static __device__ __forceinline__ uint32_t whole_bits(float u, float inverse)
{
    return __float_as_uint(__fadd_rn(__fmul_rn(u, inverse), 12582912.0f));
}

/* Stores the integers of a piece as bytes. With the group's own scale none is beyond 127. */
template <bool BF16>
static __device__ __forceinline__ void store_whole(int8_t *y, const float (&u)[sg_numbers<BF16>], float inverse)
{
    uint32_t four[sg_numbers<BF16> / 4];
#pragma unroll
    for (int k = 0; k < sg_numbers<BF16> / 4; k++) {
        const uint32_t a = whole_bits(u[4 * k], inverse), b = whole_bits(u[4 * k + 1], inverse);
        const uint32_t c = whole_bits(u[4 * k + 2], inverse), d = whole_bits(u[4 * k + 3], inverse);
        four[k] = __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
    }
    if (BF16)
        *(uint2 *)y = make_uint2(four[0], four[sg_numbers<BF16> / 4 - 1]);
    else
        *(uint32_t *)y = four[0];
}

static __device__ __forceinline__ float scale_of(int absmax)
{
    return absmax >= 0x7f800000 ? __int_as_float(0x7fc00000) : __fmul_rn(__int_as_float(absmax), 1.0f / 127.0f);
}

static __device__ __forceinline__ float inverse_of(float scale) { return scale == 0 ? 0.0f : __frcp_rn(scale); }

/* ---- pool ---- */

struct pool_job {
    sg_view x;
    float  *mean, *var, *sub; /* the last two may be NULL */
    float  *low, *high;       /* extremes of the channels of a block, as mean is; or NULL */
    float  *center;           /* [c] of y, or NULL */
    float  *scale;            /* [n / group, h], or NULL */
    int8_t *y;                /* [h, n, d] */
    int64_t n, c, h, d;       /* rows, channels of all heads; heads, their channels */
    int     block, group;
};

/* The mean of `rows` rows with this sum. */
static __device__ __forceinline__ float mean_of(float sum, int rows)
{
    return rows == SG_BLOCK_SUB ? sum * (1.0f / SG_BLOCK_SUB) : sum / (float)rows;
}

/* The sums, means and squared deviations of four numbers, from number k on, of `rows` pieces; FULL: of all pieces. The others
 * are 0. */
template <bool BF16, bool FULL>
static __device__ __forceinline__ void moments(const uint4 (&x)[SG_BLOCK_SUB], int k, int rows, float (&sum)[4],
                                               float (&mean)[4], float (&square)[4])
{
#pragma unroll
    for (int l = 0; l < 4; l++) {
        sum[l] = square[l] = 0;
#pragma unroll
        for (int i = 0; i < SG_BLOCK_SUB; i++) sum[l] += sg_number_of<BF16>(x[i], k + l);
        mean[l] = mean_of(sum[l], FULL ? (int)SG_BLOCK_SUB : rows);
#pragma unroll
        for (int i = 0; i < SG_BLOCK_SUB; i++) {
            const float apart = sg_number_of<BF16>(x[i], k + l) - mean[l];
            if (FULL || i < rows) square[l] += apart * apart;
        }
    }
}

/* The smaller and the larger of the numbers in a word, two in BF16; NaN if one is. */
template <bool BF16> static __device__ __forceinline__ void stretch(uint32_t &least, uint32_t &most, uint32_t x)
{
    if (BF16) {
        asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(least) : "r"(x));
        asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(most) : "r"(x));
    } else {
        asm("min.NaN.f32 %0, %0, %1;" : "+r"(least) : "r"(x));
        asm("max.NaN.f32 %0, %0, %1;" : "+r"(most) : "r"(x));
    }
}

/* The extremes of `rows` pieces, number by number. */
template <bool BF16, bool FULL>
static __device__ __forceinline__ void extremes(const uint4 (&x)[SG_BLOCK_SUB], int rows, uint4 &least, uint4 &most)
{
    least = most = x[0];
#pragma unroll
    for (int i = 1; i < SG_BLOCK_SUB; i++) {
        if (!FULL && i >= rows) continue;
        stretch<BF16>(least.x, most.x, x[i].x);
        stretch<BF16>(least.y, most.y, x[i].y);
        stretch<BF16>(least.z, most.z, x[i].z);
        stretch<BF16>(least.w, most.w, x[i].w);
    }
}

/* The means, variances and extremes of a block of `all` rows, from those of its sub-blocks: [subs][d]. */
static __device__ __forceinline__ void merge_subs(const pool_job &j, int64_t to, int all, const float *sums,
                                                  const float *square, const float *low, const float *high)
{
    for (int c = threadIdx.x; c < j.d; c += blockDim.x) {
        float sum = 0, wide = 0;
        for (int k = 0; k * SG_BLOCK_SUB < all; k++) sum += sums[k * j.d + c];
        const float mean = sum / (float)all;
        for (int k = 0; k * SG_BLOCK_SUB < all; k++) {
            const int   more = min((int)SG_BLOCK_SUB, all - k * SG_BLOCK_SUB);
            const float apart = mean_of(sums[k * j.d + c], more) - mean;
            wide += square[k * j.d + c] + apart * apart * (float)more;
        }
        j.mean[to + c] = mean;
        if (j.var) j.var[to + c] = wide / (float)all;
        if (!j.low) continue;
        float least = low[c], most = high[c];
        for (int k = 1; k * SG_BLOCK_SUB < all; k++) {
            least = fminf(least, low[k * j.d + c]);
            most = fmaxf(most, high[k * j.d + c]);
        }
        j.low[to + c] = least;
        j.high[to + c] = most;
    }
}

/* Pools a block of one head. A thread holds a piece of each of 16 rows in registers. It writes them as INT8 after the
 * rows that share a scale have exchanged their maxima in shared memory. */
template <bool BF16> static __global__ void __launch_bounds__(POOL_THREADS) pool_heads(pool_job j)
{
    extern __shared__ float4 smem[]; /* [subs][d] sums; squared deviations; extremes; the largest of groups */
    enum { N = sg_numbers<BF16> };
    const int     packs = (int)j.d / N, subs = j.block / SG_BLOCK_SUB, size = subs * (int)j.d;
    const int     own = threadIdx.x / packs, e = threadIdx.x % packs * N, at = own * (int)j.d + e;
    const int64_t block = blockIdx.x / (unsigned)j.h, g = blockIdx.x % (unsigned)j.h;
    const int64_t row = block * j.block + own * SG_BLOCK_SUB, apart = j.h * packs;
    const int     all = (int)min((int64_t)j.block, j.n - block * j.block);
    const int     rows = own < subs ? max(0, min((int)SG_BLOCK_SUB, all - own * SG_BLOCK_SUB)) : 0;
    const int     group = j.y && own < subs ? own * SG_BLOCK_SUB / j.group : 0;
    const uint4  *from = (const uint4 *)j.x.data + (row * j.h + g) * packs + e / N;
    float *const  sums = (float *)smem, *const square = sums + size;
    float *const  low = square + size, *const high = low + (j.low ? size : 0);
    int *const    absmax = (int *)(high + (j.low ? size : 0));
    float         center[N] = {};
    uint4         x[SG_BLOCK_SUB];
#pragma unroll
    for (int i = 0; i < SG_BLOCK_SUB; i++, from += apart) x[i] = i < rows ? __ldg(from) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < N; k += 4)
        if (j.center && rows > 0) sg_take_apart(*(const float4 *)(j.center + g * j.d + e + k), center + k);
    if (threadIdx.x < subs) absmax[threadIdx.x] = 0;
    if (rows > 0)
#pragma unroll
        for (int k = 0; k < N; k += 4) {
            float sum[4], mean[4], part[4];
            if (rows == SG_BLOCK_SUB)
                moments<BF16, true>(x, k, rows, sum, mean, part);
            else
                moments<BF16, false>(x, k, rows, sum, mean, part);
            *(float4 *)(sums + at + k) = sg_four_of(sum);
            *(float4 *)(square + at + k) = sg_four_of(part);
            if (j.sub) *(float4 *)(j.sub + ((block * subs + own) * j.h + g) * j.d + e + k) = sg_four_of(mean);
        }
    int largest = 0;
    if (rows > 0 && (j.y || j.low)) {
        uint4 least, most;
        if (rows == SG_BLOCK_SUB)
            extremes<BF16, true>(x, rows, least, most);
        else
            extremes<BF16, false>(x, rows, least, most);
        float a[N], b[N];
#pragma unroll
        for (int k = 0; k < N; k++) { /* rounding is monotonic: one of these is farthest from the center */
            a[k] = sg_number_of<BF16>(least, k);
            b[k] = sg_number_of<BF16>(most, k);
            largest = max(largest, max(__float_as_int(fabsf(__fsub_rn(a[k], center[k]))),
                                       __float_as_int(fabsf(__fsub_rn(b[k], center[k])))));
        }
#pragma unroll
        for (int k = 0; j.low && k < N; k += 4) {
            *(float4 *)(low + at + k) = sg_four_of(a + k);
            *(float4 *)(high + at + k) = sg_four_of(b + k);
        }
    }
    __syncthreads();
    if (j.y && rows > 0) atomicMax(&absmax[group], largest);
    merge_subs(j, (block * j.h + g) * j.d, all, sums, square, low, high);
    if (!j.y) return;
    __syncthreads();
    if (rows == 0) return;
#pragma unroll
    for (int i = 0; i < SG_BLOCK_SUB; i++) /* otherwise the compiler keeps the numbers in registers, not the pieces */
        asm("" : "+r"(x[i].x), "+r"(x[i].y), "+r"(x[i].z), "+r"(x[i].w));
    const float scale = scale_of(absmax[group]), inverse = inverse_of(scale);
    if (e == 0 && own * SG_BLOCK_SUB % j.group == 0) j.scale[(block * (j.block / j.group) + group) * j.h + g] = scale;
    int8_t *y = j.y + (g * j.n + row) * j.d + e;
#pragma unroll
    for (int i = 0; i < SG_BLOCK_SUB; i++, y += j.d) {
        float u[N];
#pragma unroll
        for (int k = 0; k < N; k++) u[k] = __fsub_rn(sg_number_of<BF16>(x[i], k), center[k]);
        if (i < rows) store_whole<BF16>(y, u, inverse);
    }
}

/* Any heads: a thread reads the rows of one of the h d channels and merges deviations of sub-blocks: Chan, Golub and
 * LeVeque, 1979. */
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

/* The mean of all rows from those of the blocks, in a fixed order; the scale of a channel about it from the extremes of the
 * blocks: rounding is monotonic, so one of these is farthest from it. If a value is not finite, the mean is not either. */
static __global__ void __launch_bounds__(SG_WARP *LANES) pool_total(pool_job j, float *total, float *scale)
{
    __shared__ double part[LANES][SG_WARP];
    __shared__ float  low[LANES][SG_WARP], high[LANES][SG_WARP];
    const int64_t     e = (int64_t)blockIdx.x * SG_WARP + threadIdx.x, blocks = (j.n + j.block - 1) / j.block;
    double            sum = 0;
    float             least = INFINITY, most = -INFINITY;
    for (int64_t b = threadIdx.y; e < j.c && b < blocks; b += LANES * AHEAD) {
        float mean[AHEAD], low_of[AHEAD], high_of[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) { /* all in flight; the last block again in place of what is not there */
            const int64_t at = min(b + i * LANES, blocks - 1) * j.c + e;
            mean[i] = j.mean[at];
            low_of[i] = j.low ? j.low[at] : 0.0f;
            high_of[i] = j.low ? j.high[at] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int64_t rows = min((int64_t)j.block, j.n - (b + i * LANES) * j.block);
            if (rows > 0) sum += (double)mean[i] * (double)rows;
            least = fminf(least, low_of[i]);
            most = fmaxf(most, high_of[i]);
        }
    }
    part[threadIdx.y][threadIdx.x] = sum;
    low[threadIdx.y][threadIdx.x] = least;
    high[threadIdx.y][threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.y || e >= j.c) return;
    for (int k = 1; k < LANES; k++) {
        sum += part[k][threadIdx.x];
        least = fminf(least, low[k][threadIdx.x]);
        most = fmaxf(most, high[k][threadIdx.x]);
    }
    const float mean = (float)(sum / (double)j.n);
    total[e] = mean;
    if (j.low)
        scale[e] =
            scale_of(max(__float_as_int(fabsf(__fsub_rn(least, mean))), __float_as_int(fabsf(__fsub_rn(most, mean)))));
}

/* The mean of one row in SG_CENTER_STEP. */
static __global__ void __launch_bounds__(SG_WARP *LANES) pool_center(pool_job j)
{
    __shared__ double part[LANES][SG_WARP];
    const int64_t e = (int64_t)blockIdx.x * SG_WARP + threadIdx.x, rows = (j.n + SG_CENTER_STEP - 1) / SG_CENTER_STEP;
    double        sum = 0;
    for (int64_t r = threadIdx.y; e < j.c && r < rows; r += LANES * AHEAD) {
        float x[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int64_t row = r + i * LANES;
            x[i] = row < rows ? sg_get(j.x, row * SG_CENTER_STEP * j.c + e) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) sum += (double)x[i];
    }
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || e >= j.c) return;
    for (int k = 1; k < LANES; k++) sum += part[k][threadIdx.x];
    j.center[e] = (float)(sum / (double)rows);
}

/* ---- the largest of channels ---- */

struct channel_job {
    sg_view      x;
    const float *center; /* [c] */
    int         *absmax; /* bits of the largest |x - center|; infinity and NaN are largest */
    int64_t      n, c;
};

static __global__ void __launch_bounds__(COLUMNS) channel_absmax(channel_job j)
{
    const int64_t e = (int64_t)blockIdx.y * COLUMNS + threadIdx.x;
    int           absmax = 0;
    if (e >= j.c) return;
    const float center = j.center[e];
    for (int64_t row = blockIdx.x; row < j.n; row += gridDim.x)
        absmax = max(absmax, __float_as_int(fabsf(__fsub_rn(sg_get(j.x, row * j.c + e), center))));
    atomicMax(&j.absmax[e], absmax);
}

struct channel_scale_of {
    int            *absmax;
    __device__ void operator()(int64_t i) const { ((float *)absmax)[i] = scale_of(absmax[i]); }
};

/* Channel scales where the extremes of blocks have no room, or are not known. */
static sg_status scale_channels(sg_stream *s, const sg_pool_args *a)
{
    const channel_job j = {sg_view_of(a->x), sg_data(a->total), sg_data(a->channel_scale), a->x.dim[0],
                           a->x.dim[1] * a->x.dim[2]};
    const dim3        grid(sg_min64(sg_div_up(j.n, SG_BLOCK_SUB), 1024), sg_div_up(j.c, COLUMNS));
    SG_TRY(
        sg_cuda_check(s, "pool", cudaMemsetAsync(j.absmax, 0, (size_t)j.c * sizeof *j.absmax, sg_cuda_of(s)->queue)));
    SG_TRY(sg_cuda_launch(s, "pool", channel_absmax, grid, COLUMNS, 0, j));
    const channel_scale_of f = {j.absmax};
    return sg_cuda_each(s, "pool", j.c, f);
}

/* ---- quantise ---- */

struct quantise_job {
    sg_view      x;
    const float *center; /* [h, d], or NULL */
    float       *scale;
    int8_t      *y;
    int64_t      n, h, d;
    int          group;
    bool         even; /* rows may be read SG_PACK at a time */
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

/* The largest of all threads' numbers. */
static __device__ __forceinline__ int block_absmax(int absmax)
{
    __shared__ int best[SG_THREADS / SG_WARP];
    absmax = __reduce_max_sync(~0u, absmax);
    if (threadIdx.x % SG_WARP == 0) best[threadIdx.x / SG_WARP] = absmax;
    __syncthreads();
    for (int k = 0; k < SG_THREADS / SG_WARP; k++) absmax = max(absmax, best[k]);
    return absmax;
}

/* Quantises `group` rows of one head, which share a scale. A thread holds a piece of up to HELD rows. */
template <bool BF16> static __global__ void __launch_bounds__(SG_THREADS) quantise_held(quantise_job j)
{
    enum { N = sg_numbers<BF16> };
    const int     packs = (int)j.d / N, step = SG_THREADS / packs;
    const int     own = threadIdx.x / packs, e = threadIdx.x % packs * N;
    const int64_t group = blockIdx.x / (unsigned)j.h, g = blockIdx.x % (unsigned)j.h, first = group * j.group;
    const int     rows = own < step ? (int)min((int64_t)j.group, j.n - first) : 0;
    uint4         x[HELD];
    float         center[N] = {};
    int           absmax = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++)
        x[i] = own + i * step < rows ? sg_load_16<BF16>(j.x, ((first + own + i * step) * j.h + g) * j.d + e)
                                     : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < N; k++)
        if (j.center) center[k] = j.center[g * j.d + e + k];
#pragma unroll
    for (int i = 0; i < HELD; i++)
#pragma unroll
        for (int k = 0; k < N; k++)
            if (own + i * step < rows)
                absmax = max(absmax, __float_as_int(fabsf(__fsub_rn(sg_number_of<BF16>(x[i], k), center[k]))));
    const float scale = scale_of(block_absmax(absmax)), inverse = inverse_of(scale);
    if (threadIdx.x == 0) j.scale[blockIdx.x] = scale;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        float u[N];
#pragma unroll
        for (int k = 0; k < N; k++) u[k] = __fsub_rn(sg_number_of<BF16>(x[i], k), center[k]);
        if (own + i * step < rows) store_whole<BF16>(j.y + (g * j.n + first + own + i * step) * j.d + e, u, inverse);
    }
}

/* The same for any heads. */
static __global__ void __launch_bounds__(SG_THREADS) quantise_rows(quantise_job j)
{
    const int64_t g = blockIdx.x % (unsigned)j.h, first = blockIdx.x / (unsigned)j.h * (int64_t)j.group;
    const int64_t packs = (j.d + SG_PACK - 1) / SG_PACK;
    const int     count = (int)(min((int64_t)j.group, j.n - first) * packs);
    int           absmax = 0;
    float         u[SG_PACK];
    for (int i = threadIdx.x; i < count; i += SG_THREADS) {
        centred(j, first + i / packs, g, i % packs * SG_PACK, u);
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) absmax = max(absmax, __float_as_int(fabsf(u[k])));
    }
    const float scale = scale_of(block_absmax(absmax)), inverse = inverse_of(scale);
    if (threadIdx.x == 0) j.scale[blockIdx.x] = scale;
    for (int i = threadIdx.x; i < count; i += SG_THREADS) {
        const int64_t row = first + i / packs, e = i % packs * SG_PACK;
        int8_t *const y = j.y + (g * j.n + row) * j.d + e;
        centred(j, row, g, e, u);
        for (int k = 0; k < SG_PACK && e + k < j.d; k++) y[k] = whole(u[k], inverse);
    }
}

/* Quantises by known scales, one per channel. */
struct quantise_channels {
    quantise_job    j;
    __device__ void operator()(int64_t at) const
    {
        int64_t       e, row;
        const int64_t line = sg_divide(at, j.d, &e), g = sg_divide(line, j.n, &row);
        const float   u = sg_get(j.x, (row * j.h + g) * j.d + e), scale = j.scale[g * j.d + e];
        j.y[at] = whole(j.center ? __fsub_rn(u, j.center[g * j.d + e]) : u, inverse_of(scale));
    }
};

static sg_status quantise_as(sg_stream *s, const char *op, const sg_quantise_args *a)
{
    const quantise_job j = {sg_view_of(a->x), sg_data(a->center), sg_data(a->scale), sg_data(a->y), a->x.dim[0],
                            a->x.dim[1], a->x.dim[2], a->group, a->x.dim[2] % SG_PACK == 0};
    if (a->group == 0) return sg_cuda_each(s, op, sg_count(a->x), quantise_channels{j});
    const int64_t grid = sg_div_up(j.n, j.group) * j.h;
    if (grid > INT32_MAX) return sg_fail(s, SG_E_UNSUPPORTED, "%s: %lld groups", op, (long long)grid);
    const int64_t packs = j.d / (j.x.bf16 ? sg_numbers<true> : sg_numbers<false>);
    const bool    held = sg_in_pieces(j.x, j.d) && (uintptr_t)j.y % SG_PACK == 0 && packs <= SG_THREADS &&
                      j.group <= SG_THREADS / packs * HELD;
    const auto kernel = !held ? quantise_rows : j.x.bf16 ? quantise_held<true> : quantise_held<false>;
    return sg_cuda_launch(s, op, kernel, grid, SG_THREADS, 0, j);
}

sg_status sg_cuda_quantise_sm80(sg_stream *s, const sg_quantise_args *a)
{
    return a->y.dtype == SG_F8 ? sg_cuda_no_f8(s, "quantise") : quantise_as(s, "quantise", a);
}

/* Pools, and quantises with it. False: these heads are not for pool_heads. */
static bool pool_pieces(sg_stream *s, const pool_job &j)
{
    const int64_t packs = j.d / (j.x.bf16 ? sg_numbers<true> : sg_numbers<false>), subs = j.block / SG_BLOCK_SUB;
    const int64_t threads = sg_div_up(packs * subs, SG_WARP) * SG_WARP;
    const size_t  bytes = (size_t)((j.low ? 4 : 2) * subs * j.d) * sizeof(float) + (size_t)subs * sizeof(int);
    const int64_t grid = sg_div_up(j.n, j.block) * j.h;
    if (!sg_in_pieces(j.x, j.d) || threads > POOL_THREADS || bytes > (47 << 10) || grid > INT32_MAX ||
        (uintptr_t)j.y % SG_PACK || !sg_cuda_aligned(j.sub) || !sg_cuda_aligned(j.center))
        return false;
    const auto kernel = j.x.bf16 ? pool_heads<true> : pool_heads<false>;
    kernel<<<grid, threads, bytes, sg_cuda_of(s)->queue>>>(j);
    return true;
}

static sg_status pool(sg_stream *s, const sg_pool_args *a)
{
    const cudaStream_t     queue = sg_cuda_of(s)->queue;
    const sg_quantise_args rows = {a->y, a->scale, a->x, a->center, a->group};
    pool_job               j = {.x = sg_view_of(a->x), .mean = sg_data(a->mean), .var = sg_data(a->var),
                                .sub = sg_data(a->sub), .center = sg_data(a->center), .scale = sg_data(a->scale),
                                .y = sg_data(a->y), .n = a->x.dim[0], .c = a->x.dim[1] * a->x.dim[2],
                                .h = a->x.dim[1], .d = a->x.dim[2], .block = a->block, .group = a->group};
    const dim3 grid(sg_div_up(j.n, j.block), sg_div_up(j.c, COLUMNS)), lanes(SG_WARP, LANES);
    const size_t count = (size_t)(sg_div_up(j.n, j.block) * j.c); /* of blocks' channels */
    if (a->channel_scale.rank && 2 * count * sizeof *j.low <= SG_CUDA_X_BYTES) {
        j.low = (float *)sg_cuda_scratch(s, "pool", SG_CUDA_X, 2 * count * sizeof *j.low);
        if (!j.low) return s->status;
        j.high = j.low + count;
    }
    bool whole = true; /* y is made, too */
    if (j.center) pool_center<<<sg_div_up(j.c, SG_WARP), lanes, 0, queue>>>(j);
    if (!pool_pieces(s, j)) {
        pool_blocks<<<grid, COLUMNS, 0, queue>>>(j);
        whole = false;
        j.low = NULL;
    }
    if (a->total.rank)
        pool_total<<<sg_div_up(j.c, SG_WARP), lanes, 0, queue>>>(j, sg_data(a->total), sg_data(a->channel_scale));
    SG_TRY(sg_cuda_launched(s, "pool"));
    if (a->channel_scale.rank && !j.low) SG_TRY(scale_channels(s, a));
    return a->y.rank && !whole ? quantise_as(s, "pool", &rows) : SG_OK;
}

/* ---- self_similarity ---- */

struct self_similarity_job {
    sg_view      x;
    const float *center;
    float       *y;
    int64_t      n, h, d;
    int          block;
};

/* A warp takes a row. Each of the eight warps sums its rows' unit vectors in its own line of shared memory. */
static __global__ void __launch_bounds__(SG_THREADS) self_similarity_blocks(self_similarity_job j)
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

static sg_status self_similarity(sg_stream *s, const sg_self_similarity_args *a)
{
    const self_similarity_job j = {sg_view_of(a->x), sg_data(a->center), sg_data(a->y), a->x.dim[0], a->x.dim[1],
                                   a->x.dim[2], a->block};
    const size_t  width = SG_THREADS / SG_WARP * sizeof(float), bytes = (size_t)j.d * width;
    const int64_t most = (int64_t)(sg_cuda_of(s)->smem_max / width) - 1; /* the kernel's own take the last */
    const dim3    grid(sg_div_up(j.n, j.block), j.h);
    if (j.h > UINT16_MAX || j.d > most)
        return sg_fail(s, SG_E_UNSUPPORTED, "self_similarity: %lld heads of %lld channels; 65535 of %lld are the most",
                       (long long)j.h, (long long)j.d, (long long)most);
    return sg_cuda_launch(s, "self_similarity", self_similarity_blocks, grid, SG_THREADS, bytes, j);
}

void sg_cuda_pool_init(sg_ops *t)
{
    t->pool = pool;
    t->self_similarity = self_similarity;
    t->quantise = sg_cuda_quantise_sm80;
}
