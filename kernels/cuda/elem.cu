/* elem.cu - elementwise ops: gate_add, add, mul, act, copy, combine, rgb8, count_non_finite, distance. */
#include "cuda_kernel.cuh"

#include <limits.h>

/* SG_PACK numbers of a vector of m that repeats, from index i of the repetition on. With `row`, v has such vectors, and
 * repetition t is vector row[t]. */
static __device__ void get_repeated(const sg_view &v, const int *row, int64_t i, int64_t m, int n, float (&x)[SG_PACK])
{
    int64_t at, t = sg_divide(i, m, &at), from = row ? row[t] * m : 0;
    if (at + n <= m) {
        sg_get_pack(v, from + at, n, (from + at) % SG_PACK == 0, x);
        return;
    }
#pragma unroll
    for (int k = 0; k < SG_PACK; k++) {
        x[k] = k < n ? sg_get(v, from + at) : 0.0f;
        if (++at < m) continue;
        at = 0;
        if (row && k + 1 < n) from = row[++t] * m;
    }
}

/* ---- kernels ---- */

template <bool BY_ROW> struct gate_add_kernel {
    sg_view    x, r, gate;
    const int *row; /* of gate */
    int64_t    c;
    bool       tanhs;
    __device__ void operator()(int64_t i, int n) const
    {
        float a[SG_PACK], b[SG_PACK], g[SG_PACK];
        sg_get_pack(x, i, n, true, a);
        sg_get_pack(r, i, n, true, b);
        if (gate.data) {
            get_repeated(gate, BY_ROW ? row : NULL, i, c, n, g);
            if (tanhs)
                for (int k = 0; k < SG_PACK; k++) g[k] = tanhf(g[k]);
            for (int k = 0; k < SG_PACK; k++) a[k] += b[k] * g[k];
        } else {
            for (int k = 0; k < SG_PACK; k++) a[k] += b[k];
        }
        sg_put_pack(x, i, n, true, a);
    }
};

struct add_kernel {
    sg_view y, a, b;
    int64_t m; /* elements of b */
    __device__ void operator()(int64_t i, int n) const
    {
        float p[SG_PACK], q[SG_PACK];
        sg_get_pack(a, i, n, true, p);
        get_repeated(b, NULL, i, m, n, q);
        for (int k = 0; k < SG_PACK; k++) p[k] += q[k];
        sg_put_pack(y, i, n, true, p);
    }
};

struct mul_kernel {
    sg_view y, a, b;
    __device__ void operator()(int64_t i, int n) const
    {
        float p[SG_PACK], q[SG_PACK];
        sg_get_pack(a, i, n, true, p);
        sg_get_pack(b, i, n, true, q);
        for (int k = 0; k < SG_PACK; k++) p[k] *= q[k];
        sg_put_pack(y, i, n, true, p);
    }
};

/* Also copy: no activation. */
struct act_kernel {
    sg_view y, x;
    sg_act  act;
    __device__ void operator()(int64_t i, int n) const
    {
        float p[SG_PACK];
        sg_get_pack(x, i, n, true, p);
        for (int k = 0; k < SG_PACK; k++) p[k] = sg_activate(act, p[k]);
        sg_put_pack(y, i, n, true, p);
    }
};

struct combine_kernel {
    sg_view y, x[SG_COMBINE_MAX];
    float   a[SG_COMBINE_MAX];
    int     count;
    __device__ void operator()(int64_t i, int n) const
    {
        float sum[SG_PACK] = {0}, p[SG_PACK];
#pragma unroll
        for (int j = 0; j < SG_COMBINE_MAX; j++) {
            if (j >= count) break;
            sg_get_pack(x[j], i, n, true, p);
            for (int k = 0; k < SG_PACK; k++) sum[k] += a[j] * p[k];
        }
        sg_put_pack(y, i, n, true, sum);
    }
};

/* Every operation rounds to F32, which decides ties. */
struct rgb8_kernel {
    uint8_t *y;
    sg_view  x;
    __device__ void operator()(int64_t i, int n) const
    {
        float p[SG_PACK];
        sg_get_pack(x, i, n, true, p);
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) {
            if (k == n) break;
            const float v = __fadd_rn(p[k] * 0.5f, 0.5f);
            y[i + k] = (uint8_t)rintf(__fmul_rn(255.0f, v > 0 ? v < 1 ? v : 1.0f : 0.0f));
        }
    }
};

/* The count stays at INT32_MAX once it is there. */
struct count_non_finite_kernel {
    int    *y;
    sg_view x;
    __device__ void operator()(int64_t i, int n) const
    {
        float p[SG_PACK];
        int   non_finite = 0;
        sg_get_pack(x, i, n, true, p);
        for (int k = 0; k < SG_PACK; k++) non_finite += !isfinite(p[k]); /* beyond n there are zeros */
        if (non_finite == 0) return;
        int before = *(volatile int *)y, seen;
        do {
            seen = before;
            before = atomicCAS(y, seen, seen > INT_MAX - non_finite ? INT_MAX : seen + non_finite);
        } while (before != seen);
    }
};

/* A CTA a part, whose numbers are added in the same order each time. */
static __global__ void __launch_bounds__(SG_THREADS)
    distance_parts(float *y, const float *a, const float *b, int64_t n, int64_t part)
{
    __shared__ double smem[2][SG_THREADS / SG_WARP];
    const int64_t     end = (blockIdx.x + 1) * part < n ? (blockIdx.x + 1) * part : n;
    double            moved = 0, size = 0;
    for (int64_t i = blockIdx.x * part + threadIdx.x; i < end; i += SG_THREADS) {
        moved += fabs((double)a[i] - (double)b[i]);
        size += fabs((double)b[i]);
    }
    for (int i = SG_WARP / 2; i > 0; i /= 2) {
        moved += __shfl_xor_sync(~0u, moved, i);
        size += __shfl_xor_sync(~0u, size, i);
    }
    if (threadIdx.x % SG_WARP == 0) {
        smem[0][threadIdx.x / SG_WARP] = moved;
        smem[1][threadIdx.x / SG_WARP] = size;
    }
    __syncthreads();
    if (threadIdx.x >= 2) return;
    double sum = 0;
    for (int i = 0; i < SG_THREADS / SG_WARP; i++) sum += smem[threadIdx.x][i];
    y[2 * blockIdx.x + threadIdx.x] = (float)sum;
}

/* ---- launchers ---- */

template <bool BY_ROW> static sg_status gate_add_by(sg_stream *s, const sg_gate_add_args *a)
{
    const gate_add_kernel<BY_ROW> k = {sg_view_of(a->x), sg_view_of(a->r), sg_view_of(a->gate),
                                       sg_data(a->row), a->x.dim[a->x.rank - 1], a->tanh_gate};
    return sg_cuda_each_pack(s, "gate_add", sg_count(a->x), k);
}

static sg_status gate_add(sg_stream *s, const sg_gate_add_args *a)
{
    return a->row.rank ? gate_add_by<true>(s, a) : gate_add_by<false>(s, a);
}

static sg_status add(sg_stream *s, const sg_add_args *a)
{
    const add_kernel k = {sg_view_of(a->y), sg_view_of(a->a), sg_view_of(a->b), sg_count(a->b)};
    return sg_cuda_each_pack(s, "add", sg_count(a->y), k);
}

static sg_status mul(sg_stream *s, const sg_mul_args *a)
{
    const mul_kernel k = {sg_view_of(a->y), sg_view_of(a->a), sg_view_of(a->b)};
    return sg_cuda_each_pack(s, "mul", sg_count(a->y), k);
}

static sg_status act(sg_stream *s, const sg_act_args *a)
{
    const act_kernel k = {sg_view_of(a->y), sg_view_of(a->x), a->act};
    return sg_cuda_each_pack(s, "act", sg_count(a->y), k);
}

static sg_status copy(sg_stream *s, const sg_copy_args *a)
{
    if (a->y.dtype == a->x.dtype)
        return sg_cuda_check(s, "copy", cudaMemcpyAsync(a->y.data, a->x.data, sg_bytes(a->y), cudaMemcpyDeviceToDevice,
                                                        sg_cuda_of(s)->queue));
    const act_kernel k = {sg_view_of(a->y), sg_view_of(a->x), SG_ACT_NONE};
    return sg_cuda_each_pack(s, "copy", sg_count(a->y), k);
}

static sg_status combine(sg_stream *s, const sg_combine_args *a)
{
    combine_kernel k = {};
    k.y = sg_view_of(a->y);
    k.count = a->count;
    for (int i = 0; i < a->count; i++) {
        k.x[i] = sg_view_of(a->x[i]);
        k.a[i] = a->a[i];
    }
    return sg_cuda_each_pack(s, "combine", sg_count(a->y), k);
}

static sg_status rgb8(sg_stream *s, const sg_rgb8_args *a)
{
    const rgb8_kernel k = {sg_data(a->y), sg_view_of(a->x)};
    return sg_cuda_each_pack(s, "rgb8", sg_count(a->y), k);
}

static sg_status count_non_finite(sg_stream *s, const sg_count_non_finite_args *a)
{
    const count_non_finite_kernel k = {sg_data(a->y), sg_view_of(a->x)};
    return sg_count(a->x) ? sg_cuda_each_pack(s, "count_non_finite", sg_count(a->x), k) : SG_OK;
}

static sg_status distance(sg_stream *s, const sg_distance_args *a)
{
    const int64_t n = sg_count(a->a), parts = a->y.dim[0];
    return sg_cuda_launch(s, "distance", distance_parts, parts, SG_THREADS, 0, sg_data(a->y), sg_data(a->a),
                          sg_data(a->b), n, sg_div_up(n, parts));
}

void sg_cuda_elem_init(sg_ops *t)
{
    t->gate_add = gate_add;
    t->add = add;
    t->mul = mul;
    t->act = act;
    t->copy = copy;
    t->combine = combine;
    t->rgb8 = rgb8;
    t->count_non_finite = count_non_finite;
    t->distance = distance;
}
