/* rows.cu - ops along the last dimension: norm and rope.
 *
 * A row of norm belongs to GROUP threads, which read it once from memory and then again from the first-level cache: for
 * its mean, for its spread, and for y. Memory bounds it: x and y pass once. */
#include "cuda_kernel.cuh"

struct norm_job {
    sg_view      y, x, w, b, scale, shift;
    int64_t      rows, c;
    sg_norm_kind kind;
    float        eps;
    sg_act       act;
};

/* ---- kernels ---- */

/* The sum over a group's threads, the same in each. `room` is shared memory for a block of one group. */
template <int GROUP> static __device__ float group_sum(float v, float *room)
{
    constexpr int LANES = GROUP < SG_WARP ? GROUP : SG_WARP;
    for (int i = LANES / 2; i > 0; i /= 2) v += __shfl_xor_sync(~0u, v, i);
    if (GROUP <= SG_WARP) return v;
    if (threadIdx.x % SG_WARP == 0) room[threadIdx.x / SG_WARP] = v;
    __syncthreads();
    v = room[threadIdx.x % (SG_THREADS / SG_WARP)];
    for (int i = SG_THREADS / SG_WARP / 2; i > 0; i /= 2) v += __shfl_xor_sync(~0u, v, i);
    __syncthreads();
    return v;
}

template <int GROUP> static __device__ float row_sum(const norm_job &j, int64_t row, int lane, float *room)
{
    float sum = 0, x[SG_PACK];
    for (int64_t i = lane * SG_PACK; i < j.c; i += GROUP * SG_PACK) {
        sg_get_pack(j.x, row + i, (int)min((int64_t)SG_PACK, j.c - i), j.c % SG_PACK == 0, x);
        for (int k = 0; k < SG_PACK; k++) sum += x[k];
    }
    return group_sum<GROUP>(sum, room);
}

/* The sums of the deviations from `from`, and of their squares. */
template <int GROUP>
static __device__ float2 row_spread(const norm_job &j, int64_t row, int lane, float from, float *room)
{
    float one = 0, two = 0, x[SG_PACK];
    for (int64_t i = lane * SG_PACK; i < j.c; i += GROUP * SG_PACK) {
        const int n = (int)min((int64_t)SG_PACK, j.c - i);
        sg_get_pack(j.x, row + i, n, j.c % SG_PACK == 0, x);
        for (int k = 0; k < SG_PACK; k++) {
            const float d = k < n ? x[k] - from : 0.0f;
            one += d;
            two += d * d;
        }
    }
    one = group_sum<GROUP>(one, room);
    return make_float2(one, group_sum<GROUP>(two, room));
}

/* What a row is shifted by and multiplied with. A mean is first estimated, then corrected by the mean of the deviations
 * from the estimate, so that a constant row comes out as zeros and not as its own rounding error over sqrt(eps). */
template <int GROUP> static __device__ float2 row_stats(const norm_job &j, int64_t row, int lane, float *room)
{
    const float c = (float)j.c;
    if (j.kind == SG_NORM_NONE) return make_float2(0.0f, 1.0f);
    if (j.kind == SG_NORM_LAYER) {
        const float  guess = row_sum<GROUP>(j, row, lane, room) / c;
        const float2 d = row_spread<GROUP>(j, row, lane, guess, room);
        const float  off = d.x / c, var = d.y / c - off * off;
        return make_float2(guess + off, 1.0f / sqrtf((var > 0 ? var : 0 * var) + j.eps)); /* 0 var keeps NaN */
    }
    const float square = row_spread<GROUP>(j, row, lane, 0.0f, room).y;
    if (j.kind == SG_NORM_L2) return make_float2(0.0f, sqrtf(c) / fmaxf(sqrtf(square), 1e-12f));
    return make_float2(0.0f, 1.0f / sqrtf(square / c + j.eps));
}

static __device__ void get_or(const sg_view &v, int64_t i, int n, float other, float (&x)[SG_PACK])
{
    if (v.data)
        sg_get_pack(v, i, n, true, x);
    else
        for (int k = 0; k < SG_PACK; k++) x[k] = other;
}

template <int GROUP> static __global__ void __launch_bounds__(SG_THREADS) norm_rows(norm_job j)
{
    __shared__ float room[SG_WARP];
    constexpr int    GROUPS = SG_THREADS / GROUP;
    const int        lane = threadIdx.x % GROUP;
    /* All groups of a warp stay in the loop as long as one has a row: they add across lanes together. */
    for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < j.rows; first += (int64_t)gridDim.x * GROUPS) {
        const int64_t t = min(first + threadIdx.x / GROUP, j.rows - 1), row = t * j.c;
        const bool    mine = first + threadIdx.x / GROUP < j.rows;
        const float2  stats = row_stats<GROUP>(j, row, lane, room);
        for (int64_t i = lane * SG_PACK; mine && i < j.c; i += GROUP * SG_PACK) {
            const int  n = (int)min((int64_t)SG_PACK, j.c - i);
            const bool even = j.c % SG_PACK == 0;
            float      x[SG_PACK], w[SG_PACK], b[SG_PACK];
            sg_get_pack(j.x, row + i, n, even, x);
            get_or(j.w, i, n, 1.0f, w);
            get_or(j.b, i, n, 0.0f, b);
            for (int k = 0; k < SG_PACK; k++) x[k] = (x[k] - stats.x) * stats.y * w[k] + b[k];
            get_or(j.scale, i, n, 0.0f, w);
            get_or(j.shift, i, n, 0.0f, b);
            for (int k = 0; k < SG_PACK; k++) x[k] = sg_activate(j.act, x[k] * (1.0f + w[k]) + b[k]);
            sg_put_pack(j.y, row + i, n, even, x);
        }
    }
}

struct rope_kernel {
    sg_view      y, x;
    const float *cos, *sin;
    int64_t      wide, half; /* h d / 2 pairs a row, d / 2 a head */
    __device__ void operator()(int64_t i, int n) const
    {
        float p[SG_PACK];
        sg_get_pack(x, i, n, true, p);
#pragma unroll
        for (int k = 0; k < SG_PACK; k += 2) {
            if (k >= n) break;
            int64_t       pair, turn;
            const int64_t row = sg_divide(i / 2 + k / 2, wide, &pair);
            sg_divide(pair, half, &turn);
            const float c = cos[row * half + turn], d = sin[row * half + turn], a = p[k], b = p[k + 1];
            p[k] = a * c - b * d;
            p[k + 1] = a * d + b * c;
        }
        sg_put_pack(y, i, n, true, p);
    }
};

/* ---- launchers ---- */

template <int GROUP> static void norm_launch(sg_stream *s, const norm_job &j)
{
    norm_rows<GROUP><<<sg_cuda_blocks(s, j.rows * GROUP), SG_THREADS, 0, sg_cuda_of(s)->queue>>>(j);
}

static sg_status norm(sg_stream *s, const sg_norm_args *a)
{
    norm_job j;
    j.y = sg_view_of(a->y);
    j.x = sg_view_of(a->x);
    j.w = sg_view_of(a->w);
    j.b = sg_view_of(a->b);
    j.scale = sg_view_of(a->scale);
    j.shift = sg_view_of(a->shift);
    j.c = a->x.dim[a->x.rank - 1];
    j.rows = sg_count(a->x) / j.c;
    j.kind = a->kind;
    j.eps = a->eps;
    j.act = a->act;
    if (j.c <= 16 * SG_PACK)
        norm_launch<8>(s, j);
    else if (j.c <= 2 * SG_WARP * SG_PACK)
        norm_launch<SG_WARP>(s, j);
    else
        norm_launch<SG_THREADS>(s, j);
    return sg_cuda_launched(s, "norm");
}

static sg_status rope(sg_stream *s, const sg_rope_args *a)
{
    const int64_t     h = a->x.dim[1], half = a->x.dim[2] / 2;
    const rope_kernel k = {sg_view_of(a->y), sg_view_of(a->x), (const float *)a->cos.data, (const float *)a->sin.data,
                           h * half, half};
    return sg_cuda_each_pack(s, "rope", sg_count(a->x), k);
}

void sg_cuda_rows_init(sg_ops *t)
{
    t->norm = norm;
    t->rope = rope;
}
