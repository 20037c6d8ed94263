/* data_movement.cu - ops that move data (embed, upsample, avg_down, dup_up, permute, strided_copy), and sinusoid. A thread
 * writes one element of y, or SG_PACK, so that writes are coalesced; scattered reads share lines in the cache. With
 * strided_copy's scatter it is the reads that are coalesced. */
#include "cuda_kernel.cuh"

#include <cuda_fp16.h>
#include <math.h>

enum { FREQUENCIES = 512 }; /* of one launch: a kernel's arguments end at 4 KiB */

/* ---- kernels ---- */

struct embed_kernel {
    sg_view         y, w;
    const int32_t  *ids;
    int64_t         c;
    __device__ void operator()(int64_t i) const
    {
        int64_t       col;
        const int64_t row = sg_divide(i, c, &col);
        sg_put(y, i, sg_get(w, ids[row] * c + col));
    }
};

/* The frequencies come from the host, as its expf rounds them: at an angle of 1000 another last bit would show. */
struct sinusoid_kernel {
    float          *y;
    const float    *t;
    int64_t         half, first, count; /* frequencies in all; those of this launch */
    float           f[FREQUENCIES];
    __device__ void operator()(int64_t i) const
    {
        int64_t       k;
        const int64_t row = sg_divide(i, count, &k);
        const double  angle = (double)__fmul_rn(t[row], f[k]);
        float *const  to = y + row * 2 * half + first + k;
        to[0] = (float)cos(angle);
        to[half] = (float)sin(angle);
    }
};

/* Frame, row, column and channel of a channels-last element of y. */
struct place {
    int64_t t, r, u, o;
};

static __device__ __forceinline__ place place_of(int64_t i, int64_t rows, int64_t cols, int64_t channels)
{
    place p;
    i = sg_divide(i, channels, &p.o);
    i = sg_divide(i, cols, &p.u);
    p.t = sg_divide(i, rows, &p.r);
    return p;
}

struct upsample_kernel {
    sg_view            y, x;
    int64_t            rows, cols, c; /* of x */
    __device__ int64_t source(int64_t i) const
    {
        const place p = place_of(i, 2 * rows, 2 * cols, c);
        return ((p.t * rows + p.r / 2) * cols + p.u / 2) * c + p.o;
    }
    __device__ void operator()(int64_t i, int n) const
    {
        float p[SG_PACK];
        if (c % SG_PACK == 0) { /* a pack's channels stay together */
            sg_get_pack(x, source(i), n, true, p);
            sg_put_pack(y, i, n, true, p);
            return;
        }
        for (int k = 0; k < n; k++) sg_put(y, i + k, sg_get(x, source(i + k)));
    }
};

/* The place beside r / 2, of n, that r lies towards. */
static __device__ __forceinline__ int64_t beside(int64_t r, int64_t n)
{
    return r % 2 ? min(r / 2 + 1, n - 1) : max(r / 2 - 1, (int64_t)0);
}

struct upsample_linear_kernel {
    sg_view y, x;
    int64_t rows, cols, c; /* of x */
    float   near;
    /* Elements [i, i + n) of y, of one place. `even`: i is a multiple of SG_PACK, and so is c. */
    __device__ void blend(int64_t i, int n, bool even) const
    {
        const place   p = place_of(i, 2 * rows, 2 * cols, c);
        const int64_t f = near > 0 ? p.t / 2 : p.t, r[2] = {p.r / 2, beside(p.r, rows)},
                      u[2] = {p.u / 2, beside(p.u, cols)};
        const float later = near > 0 ? p.t % 2 ? near : 1 - near : 0;
        float       sum[SG_PACK] = {0};
#pragma unroll
        for (int k = 0; k < 8; k++) { /* corners */
            const float share = (k & 4 ? later : 1 - later) * (k & 2 ? 0.25f : 0.75f) * (k & 1 ? 0.25f : 0.75f);
            float       q[SG_PACK];
            if (share == 0) continue;
            sg_get_pack(x, (((f + k / 4) * rows + r[k / 2 % 2]) * cols + u[k % 2]) * c + p.o, n, even, q);
#pragma unroll
            for (int j = 0; j < SG_PACK; j++) sum[j] += share * q[j];
        }
        sg_put_pack(y, i, n, even, sum);
    }
    __device__ void operator()(int64_t i, int n) const
    {
        if (c % SG_PACK == 0)
            blend(i, n, true);
        else
            for (int k = 0; k < n; k++) blend(i + k, 1, false);
    }
};

struct avg_down_kernel {
    sg_view         y, x;
    int64_t         rows, cols, o, i; /* of y, of y, channels of y, channels of x */
    int64_t         ft, fs, group, front;
    __device__ void operator()(int64_t at) const
    {
        const place p = place_of(at, rows, cols, o);
        float       sum = 0;
        for (int64_t k = p.o * group; k < (p.o + 1) * group; k++) {
            int64_t       ds, dr, dt;
            const int64_t c = sg_divide(sg_divide(sg_divide(k, fs, &ds), fs, &dr), ft, &dt), f = p.t * ft + dt - front;
            if (f >= 0) sum += sg_get(x, ((f * rows * fs + p.r * fs + dr) * cols * fs + p.u * fs + ds) * i + c);
        }
        sg_put(y, at, sum / (float)group);
    }
};

struct dup_up_kernel {
    sg_view         y, x;
    int64_t         rows, cols, o, i; /* of x, of x, channels of y, channels of x */
    int64_t         ft, fs, repeat, drop;
    __device__ void operator()(int64_t at) const
    {
        const place   p = place_of(at, rows * fs, cols * fs, o);
        int64_t       dt, dr, ds;
        const int64_t t = sg_divide(p.t + drop, ft, &dt), r = sg_divide(p.r, fs, &dr), u = sg_divide(p.u, fs, &ds);
        const int64_t k = ((p.o * ft + dt) * fs + dr) * fs + ds;
        sg_put(y, at, sg_get(x, ((t * rows + r) * cols + u) * i + k / repeat));
    }
};

/* y's axes, outermost first, each with its length and its stride in x. */
struct permute_kernel {
    sg_view         y, x;
    int             rank;
    int64_t         dim[SG_PERMUTE_RANK], stride[SG_PERMUTE_RANK];
    __device__ void operator()(int64_t i) const
    {
        int64_t from = 0, rest = i;
#pragma unroll
        for (int k = SG_PERMUTE_RANK - 1; k >= 0; k--) {
            if (k >= rank) continue;
            int64_t at;
            rest = sg_divide(rest, dim[k], &at);
            from += at * stride[k];
        }
        sg_put(y, i, sg_get(x, from));
    }
};

/* Where element i of the packed tensor lies in the other one; d and the offsets in what is moved at once. */
struct stride_map {
    const int32_t     *row;
    int64_t            h, d, first, token, head;
    __device__ int64_t operator()(int64_t i) const
    {
        int64_t       c, j;
        const int64_t t = sg_divide(sg_divide(i, d, &c), h, &j);
        return first + (row ? row[t] : t) * token + j * head + c;
    }
};

/* 16 bytes of one dtype. */
struct strided_move_kernel {
    uint4          *y;
    const uint4    *x;
    stride_map      map;
    bool            scatter;
    __device__ void operator()(int64_t i) const
    {
        const int64_t at = map(i);
        y[scatter ? at : i] = x[scatter ? i : at];
    }
};

/* An element. F16 is no view's dtype: nothing else reads it. */
struct strided_convert_kernel {
    sg_view         y, x;
    bool            half_y, half_x;
    stride_map      map;
    bool            scatter;
    __device__ void operator()(int64_t i) const
    {
        const int64_t at = map(i), to = scatter ? at : i, from = scatter ? i : at;
        const float   v = half_x ? __half2float(((const __half *)x.data)[from]) : sg_get(x, from);
        if (half_y)
            ((__half *)y.data)[to] = __float2half(v);
        else
            sg_put(y, to, v);
    }
};

/* ---- launchers ---- */

static sg_status embed(sg_stream *s, const sg_embed_args *a)
{
    const embed_kernel k = {sg_view_of(a->y), sg_view_of(a->w), sg_data(a->ids), a->w.dim[1]};
    return sg_cuda_each(s, "embed", sg_count(a->y), k);
}

static sg_status sinusoid(sg_stream *s, const sg_sinusoid_args *a)
{
    sinusoid_kernel k = {.y = sg_data(a->y), .t = sg_data(a->t), .half = a->y.dim[1] / 2};
    for (k.first = 0; k.first < k.half; k.first += FREQUENCIES) {
        k.count = sg_min64(FREQUENCIES, k.half - k.first);
        for (int64_t i = 0; i < k.count; i++) k.f[i] = expf(-9.210340371976184f * (float)(k.first + i) / (float)k.half);
        SG_TRY(sg_cuda_each(s, "sinusoid", a->t.dim[0] * k.count, k));
    }
    return SG_OK;
}

static sg_status upsample(sg_stream *s, const sg_upsample_args *a)
{
    const upsample_kernel        k = {sg_view_of(a->y), sg_view_of(a->x), a->x.dim[1], a->x.dim[2], a->x.dim[3]};
    const upsample_linear_kernel linear = {k.y, k.x, k.rows, k.cols, k.c, a->near};
    if (a->linear) return sg_cuda_each_pack(s, "upsample", sg_count(a->y), linear);
    return sg_cuda_each_pack(s, "upsample", sg_count(a->y), k);
}

static sg_status avg_down(sg_stream *s, const sg_avg_down_args *a)
{
    const int64_t *const yd = a->y.dim, *const xd = a->x.dim, ft = a->ft, fs = a->fs;
    const avg_down_kernel k = {
        sg_view_of(a->y),  sg_view_of(a->x), yd[1], yd[2], yd[3], xd[3], ft, fs, xd[3] * ft * fs * fs / yd[3],
        yd[0] * ft - xd[0]};
    return sg_cuda_each(s, "avg_down", sg_count(a->y), k);
}

static sg_status dup_up(sg_stream *s, const sg_dup_up_args *a)
{
    const int64_t *const yd = a->y.dim, *const xd = a->x.dim, ft = a->ft, fs = a->fs;
    const dup_up_kernel k = {
        sg_view_of(a->y), sg_view_of(a->x), xd[1], xd[2], yd[3], xd[3], ft, fs, yd[3] * ft * fs * fs / xd[3], a->drop};
    return sg_cuda_each(s, "dup_up", sg_count(a->y), k);
}

/* Axes of length 1 are dropped and axes that stay adjacent are merged: each saves a division. */
static sg_status permute(sg_stream *s, const sg_permute_args *a)
{
    int64_t        stride[SG_PERMUTE_RANK];
    permute_kernel p = {sg_view_of(a->y), sg_view_of(a->x)};
    for (int64_t k = a->rank - 1, step = 1; k >= 0; step *= a->dim[k--]) stride[k] = step;
    for (int k = 0; k < a->rank; k++) {
        const int64_t dim = a->dim[a->perm[k]], step = stride[a->perm[k]];
        if (dim == 1) continue;
        if (p.rank && p.stride[p.rank - 1] == dim * step) {
            p.dim[p.rank - 1] *= dim;
            p.stride[p.rank - 1] = step;
        } else {
            p.dim[p.rank] = dim;
            p.stride[p.rank++] = step;
        }
    }
    return sg_cuda_each(s, "permute", sg_count(a->y), p);
}

static sg_status strided_copy(sg_stream *s, const sg_strided_copy_args *a)
{
    const sg_tensor t = a->scatter ? a->x : a->y;
    const int64_t   most = 16 / (int64_t)sg_dtype_size(a->y.dtype);
    const bool      move = a->y.dtype == a->x.dtype && sg_cuda_aligned(a->y.data) && sg_cuda_aligned(a->x.data) &&
                      t.dim[2] % most == 0 && a->first % most == 0 && a->token % most == 0 && a->head % most == 0;
    const int64_t    pack = move ? most : 1;
    const stride_map map = {sg_data(a->row),  t.dim[1],        t.dim[2] / pack,
                            a->first / pack, a->token / pack, a->head / pack};
    if (move) {
        const strided_move_kernel k = {sg_data(a->y), sg_data(a->x), map, a->scatter};
        return sg_cuda_each(s, "strided_copy", sg_count(t) / pack, k);
    }
    const strided_convert_kernel k = {
        sg_view_of(a->y), sg_view_of(a->x), a->y.dtype == SG_F16, a->x.dtype == SG_F16, map, a->scatter};
    return sg_cuda_each(s, "strided_copy", sg_count(t), k);
}

void sg_cuda_data_movement_init(sg_ops *t)
{
    t->embed = embed;
    t->sinusoid = sinusoid;
    t->upsample = upsample;
    t->avg_down = avg_down;
    t->dup_up = dup_up;
    t->permute = permute;
    t->strided_copy = strided_copy;
}
