/* rows.cu - ops along the last dimension: norm and rope.
 *
 * A row belongs to GROUP threads, which read it once from memory and then again from the caches: for its mean, for its
 * spread, and for y. Memory bounds it: x and y pass once. (Rows held in registers instead leave room for too few warps
 * and are slower.) A row of rope is a head where it does not normalise, else what one mean is taken over. */
#include "cuda_kernel.cuh"

enum { BLOCKS = 6 }; /* on a processor at once: what hides the way to memory */

struct rows_job {
    sg_view      y, x, w;
    int64_t      rows, c;
    sg_norm_kind kind;
    float        eps;
};

/* ---- a row ---- */

/* The part of a row that thread `lane` of a group has: every GROUPth pack. */
template <int GROUP> struct row_part {
    sg_view x;
    int64_t at, c; /* where in x the row begins; its length */
    int     lane;
    bool    even; /* every row begins at a multiple of SG_PACK */

    /* f(i, n, numbers) for each pack, which begins at place i of the row; beyond n there are zeros. */
    template <typename F> __device__ __forceinline__ void each(F f) const
    {
        for (int64_t i = lane * SG_PACK; i < c; i += GROUP * SG_PACK) {
            const int n = (int)min((int64_t)SG_PACK, c - i);
            float     v[SG_PACK];
            sg_get_pack(x, at + i, n, even, v);
            f(i, n, v);
        }
    }
};

/* The sum over a group's threads, the same in each. `room` is shared memory for a block of one group. */
template <int GROUP> static __device__ float group_sum(float v, float *room)
{
    v = sg_lanes_sum<(GROUP < SG_WARP ? GROUP : SG_WARP)>(v);
    if (GROUP <= SG_WARP) return v;
    if (threadIdx.x % SG_WARP == 0) room[threadIdx.x / SG_WARP] = v;
    __syncthreads();
    v = room[threadIdx.x % (SG_THREADS / SG_WARP)];
    v = sg_lanes_sum<SG_THREADS / SG_WARP>(v);
    __syncthreads();
    return v;
}

template <int GROUP>
static __device__ __forceinline__ float2 layer_stats(const row_part<GROUP> &r, float eps, float *room)
{
    const float c = (float)r.c;
    float       sum = 0, one = 0, two = 0;
    r.each([&](int64_t, int, float(&x)[SG_PACK]) {
        for (int k = 0; k < SG_PACK; k++) sum += x[k];
    });
    const float guess = group_sum<GROUP>(sum, room) / c;
    r.each([&](int64_t, int n, float(&x)[SG_PACK]) {
        for (int k = 0; k < SG_PACK; k++) {
            const float d = k < n ? x[k] - guess : 0.0f;
            one += d;
            two += d * d;
        }
    });
    const float off = group_sum<GROUP>(one, room) / c, var = group_sum<GROUP>(two, room) / c - off * off;
    return make_float2(guess + off, 1.0f / sqrtf((var > 0 ? var : 0 * var) + eps)); /* 0 var keeps NaN */
}

/* What a row is shifted by and multiplied with. A mean is first estimated, then corrected by the mean of the deviations
 * from the estimate, so that a constant row comes out as zeros and not as its own rounding error over sqrt(eps). */
template <int GROUP>
static __device__ __forceinline__ float2 row_stats(const rows_job &j, const row_part<GROUP> &r, float *room)
{
    if (j.kind == SG_NORM_NONE) return make_float2(0.0f, 1.0f);
    if (j.kind == SG_NORM_LAYER) return layer_stats<GROUP>(r, j.eps, room);
    float sum = 0;
    r.each([&](int64_t, int, float(&x)[SG_PACK]) {
        for (int k = 0; k < SG_PACK; k++) sum += x[k] * x[k];
    });
    const float square = group_sum<GROUP>(sum, room), c = (float)r.c;
    if (j.kind == SG_NORM_L2) return make_float2(0.0f, sqrtf(c) / fmaxf(sqrtf(square), 1e-12f));
    return make_float2(0.0f, 1.0f / sqrtf(square / c + j.eps));
}

/* ---- what becomes of it ---- */

static __device__ __forceinline__ void get_or(const sg_view &v, int64_t i, int n, float other, float (&x)[SG_PACK])
{
    if (v.data)
        sg_get_pack(v, i, n, true, x);
    else
        for (int k = 0; k < SG_PACK; k++) x[k] = other;
}

struct norm_job : rows_job {
    sg_view b, scale, shift;
    sg_act  act;

    /* n numbers from place i of their row on. */
    __device__ __forceinline__ void finish(int64_t, int64_t i, int n, float2 stats, float (&v)[SG_PACK]) const
    {
        float p[SG_PACK], q[SG_PACK];
        get_or(w, i, n, 1.0f, p);
        get_or(b, i, n, 0.0f, q);
        for (int k = 0; k < SG_PACK; k++) v[k] = (v[k] - stats.x) * stats.y * p[k] + q[k];
        get_or(scale, i, n, 0.0f, p);
        get_or(shift, i, n, 0.0f, q);
        for (int k = 0; k < SG_PACK; k++) v[k] = sg_activate(act, v[k] * (1.0f + p[k]) + q[k]);
    }
};

struct rope_job : rows_job {
    const float *cos, *sin;
    int64_t      wide, d; /* elements of a token, of a head */
    bool         four;    /* the turns of a pack lie so that they may move at once */

    /* No two tokens share a pack: a token is one row or several. */
    __device__ __forceinline__ void finish(int64_t at, int64_t i, int n, float2 stats, float (&v)[SG_PACK]) const
    {
        int64_t       rest, e;
        const int64_t from = sg_divide(at, wide, &rest) * (d / 2);
        float         p[SG_PACK], c[4] = {0}, s[4] = {0};
        sg_divide(rest, d, &e);
        if (four) {
            const float4 a = *(const float4 *)(cos + from + e / 2), b = *(const float4 *)(sin + from + e / 2);
            c[0] = a.x, c[1] = a.y, c[2] = a.z, c[3] = a.w;
            s[0] = b.x, s[1] = b.y, s[2] = b.z, s[3] = b.w;
        } else {
#pragma unroll
            for (int k = 0; k < SG_PACK / 2; k++) {
                if (2 * k >= n) break;
                c[k] = cos[from + e / 2];
                s[k] = sin[from + e / 2];
                e = e + 2 == d ? 0 : e + 2;
            }
        }
        get_or(w, i, n, 1.0f, p);
#pragma unroll
        for (int k = 0; k < SG_PACK / 2; k++) {
            const float a = v[2 * k] * stats.y * p[2 * k], b = v[2 * k + 1] * stats.y * p[2 * k + 1];
            v[2 * k] = a * c[k] - b * s[k];
            v[2 * k + 1] = a * s[k] + b * c[k];
        }
    }
};

template <int GROUP, typename J> static __global__ void __launch_bounds__(SG_THREADS, BLOCKS) rows_kernel(J j)
{
    __shared__ float room[SG_WARP];
    constexpr int    GROUPS = SG_THREADS / GROUP;
    const bool       even = j.c % SG_PACK == 0;
    /* All groups of a warp stay in the loop as long as one has a row: they add across lanes together. */
    for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < j.rows; first += (int64_t)gridDim.x * GROUPS) {
        const int64_t mine = first + threadIdx.x / GROUP, at = min(mine, j.rows - 1) * j.c;
        const row_part<GROUP> r = {j.x, at, j.c, (int)(threadIdx.x % GROUP), even};
        const float2 stats = row_stats<GROUP>(j, r, room);
        if (mine >= j.rows) continue;
        r.each([&](int64_t i, int n, float(&x)[SG_PACK]) {
            j.finish(at + i, i, n, stats, x);
            sg_put_pack(j.y, at + i, n, even, x);
        });
    }
}

/* ---- launchers ---- */

template <int GROUP, typename J> static void rows_launch(sg_stream *s, const J &j)
{
    rows_kernel<GROUP><<<sg_cuda_blocks(s, j.rows * GROUP), SG_THREADS, 0, sg_cuda_of(s)->queue>>>(j);
}

template <typename J> static sg_status rows_run(sg_stream *s, const char *op, const J &j)
{
    if (j.c <= 16 * SG_PACK)
        rows_launch<16>(s, j);
    else if (j.c <= 8 * SG_WARP * SG_PACK)
        rows_launch<SG_WARP>(s, j);
    else
        rows_launch<SG_THREADS>(s, j);
    return sg_cuda_launched(s, op);
}

static sg_status norm(sg_stream *s, const sg_norm_args *a)
{
    norm_job j = {};
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
    return rows_run(s, "norm", j);
}

static sg_status rope(sg_stream *s, const sg_rope_args *a)
{
    rope_job j = {};
    j.d = a->x.dim[2];
    j.wide = a->x.dim[1] * j.d;
    j.cos = (const float *)a->cos.data;
    j.sin = (const float *)a->sin.data;
    j.four = j.d % SG_PACK == 0 && ((uintptr_t)j.cos | (uintptr_t)j.sin) % 16 == 0;
    j.y = sg_view_of(a->y);
    j.x = sg_view_of(a->x);
    j.w = sg_view_of(a->w);
    j.c = a->w.rank ? a->w.dim[0] : j.d;
    j.rows = sg_count(a->x) / j.c;
    j.kind = a->w.rank ? SG_NORM_RMS : SG_NORM_NONE;
    j.eps = a->eps;
    return rows_run(s, "rope", j);
}

void sg_cuda_rows_init(sg_ops *t)
{
    t->norm = norm;
    t->rope = rope;
}
