/* group_norm.cu - norm of kind GROUP.
 *
 * Memory-bound: x is read twice and y written once, eight neighbours at a time. Three kernels for each batch of chunks, so
 * that a single chunk keeps all SMs busy:
 *  - channel_parts: a CTA takes a part of a chunk's places. A thread has eight channels at every so-manyth place. It keeps
 *    mean and squared deviations as Welford does (Technometrics 4, 1962), of numbers less the first that it saw: sums of
 *    squares would lose the variance of numbers far from zero.
 *  - chunk_factors: a CTA puts the parts of a group together, in double and always in the same order.
 *  - group_apply: y.
 * The first leaves moments of each channel, not of each group, so that c / groups may be any number. */
#include "mma.cuh"

enum {
    PARTS = 8,                    /* CTAs an SM of channel_parts */
    AT_ONCE = 4,                  /* places that a thread loads before it uses one */
    STRIP = SG_THREADS * SG_PACK, /* channels of a CTA */
    LEAST = 64
}; /* places that are worth a CTA */

/* Mean, and sum of squared deviations from it. */
struct moments {
    double mean, square;
};

struct group_job {
    sg_view  x;
    int64_t  c, groups;
    int64_t  places, parts, part; /* of a chunk; its parts; places of a part */
    int64_t  first;               /* chunk of the batch */
    moments *moment;              /* [chunks][parts][c] */
    float2  *factors;             /* [chunks][c]: mean, and what x - mean is multiplied by */

    __device__ int64_t places_of(int64_t k) const { return min(part, places - k * part); }
};

/* ---- moments ---- */

struct running_moments {
    float first[SG_PACK], mean[SG_PACK], square[SG_PACK];
    int   count;

    __device__ __forceinline__ void add(const float (&v)[SG_PACK])
    {
        if (count == 0)
            for (int k = 0; k < SG_PACK; k++) first[k] = v[k], mean[k] = square[k] = 0;
        const float by = 1.0f / (float)++count;
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) {
            const float d = v[k] - first[k], off = d - mean[k];
            mean[k] += off * by;
            square[k] += off * (d - mean[k]);
        }
    }
};

/* Block x: part x % parts of chunk x / parts of the batch; block y: a strip of channels. */
static __global__ void __launch_bounds__(SG_THREADS) channel_parts(group_job j)
{
    __shared__ double means[STRIP];
    __shared__ float  squares[STRIP];
    const int64_t     chunk = blockIdx.x / j.parts, k = blockIdx.x % j.parts, strip = (int64_t)blockIdx.y * STRIP;
    const int         c = (int)min((int64_t)STRIP, j.c - strip), columns = (c + SG_PACK - 1) / SG_PACK;
    const int     lanes = SG_THREADS / columns, lane = threadIdx.x / columns, channel = threadIdx.x % columns * SG_PACK;
    const int     n = min((int)SG_PACK, c - channel);
    const bool    even = j.c % SG_PACK == 0;
    const int64_t rows = j.places_of(k), from = ((j.first + chunk) * j.places + k * j.part) * j.c + strip + channel;
    running_moments r;
    r.count = 0;
    if (lane < lanes) {
        float   v[AT_ONCE][SG_PACK];
        int64_t p = lane;
        for (; p + (AT_ONCE - 1) * lanes < rows; p += AT_ONCE * lanes) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) sg_get_pack(j.x, from + (p + i * lanes) * j.c, n, even, v[i]);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) r.add(v[i]);
        }
        for (; p < rows; p += lanes) {
            sg_get_pack(j.x, from + p * j.c, n, even, v[0]);
            r.add(v[0]);
        }
        for (int e = 0; e < SG_PACK; e++) {
            const int at = (lane * columns) * SG_PACK + channel + e;
            means[at] = r.count ? (double)r.first[e] + (double)r.mean[e] : 0;
            squares[at] = r.count ? r.square[e] : 0;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < c; i += SG_THREADS) {
        const int wide = columns * SG_PACK;
        double    mean = 0, square = 0;
        for (int l = 0; l < lanes; l++) mean += (double)((rows - l + lanes - 1) / lanes) * means[l * wide + i];
        mean /= (double)rows;
        for (int l = 0; l < lanes; l++) {
            const double off = means[l * wide + i] - mean;
            square += (double)squares[l * wide + i] + (double)((rows - l + lanes - 1) / lanes) * off * off;
        }
        j.moment[(int64_t)blockIdx.x * j.c + strip + i] = {mean, square};
    }
}

/* The sum over a CTA's threads, the same in each and in the same order each time. */
static __device__ double block_sum(double v, double *smem)
{
    for (int i = SG_WARP / 2; i > 0; i /= 2) v += __shfl_xor_sync(~0u, v, i);
    if (threadIdx.x % SG_WARP == 0) smem[threadIdx.x / SG_WARP] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < SG_THREADS / SG_WARP; i++) v += smem[i];
    __syncthreads();
    return v;
}

/* Block x: group x % groups of chunk x / groups of the batch. */
static __global__ void __launch_bounds__(SG_THREADS) chunk_factors(group_job j, sg_view w, float eps)
{
    __shared__ double    smem[SG_THREADS / SG_WARP];
    const int64_t        chunk = blockIdx.x / j.groups, per = j.c / j.groups, channel = blockIdx.x % j.groups * per;
    const moments *const moment = j.moment + chunk * j.parts * j.c + channel;
    const double         all = (double)(j.places * per);
    double               sum = 0, square = 0;
    for (int64_t i = threadIdx.x; i < j.parts * per; i += SG_THREADS)
        sum += (double)j.places_of(i / per) * moment[i / per * j.c + i % per].mean;
    const double mean = block_sum(sum, smem) / all;
    for (int64_t i = threadIdx.x; i < j.parts * per; i += SG_THREADS) {
        const moments m = moment[i / per * j.c + i % per];
        square += m.square + (double)j.places_of(i / per) * (m.mean - mean) * (m.mean - mean);
    }
    const double gain = 1.0 / sqrt(block_sum(square, smem) / all + (double)eps);
    for (int64_t i = channel + threadIdx.x; i < channel + per; i += SG_THREADS)
        j.factors[chunk * j.c + i] = make_float2((float)mean, (float)(gain * (double)sg_get_or(w, i, 1.0f)));
}

/* ---- y ---- */

struct group_apply {
    sg_view       y, x, b, scale, shift;
    const float2 *factors;        /* of the batch's first chunk */
    int64_t       first, c;       /* element of x that the batch begins with */
    int64_t       rows, cols;     /* of a frame */
    int64_t       s_rows, s_cols; /* of a frame of scale and shift */
    int64_t       places;         /* of a chunk */
    sg_act        act;

    /* n neighbouring channels of one place, of element `at` of the batch on. */
    template <int N> __device__ __forceinline__ void run(int64_t at, int n, bool even, float (&v)[N]) const
    {
        int64_t             channel, rest;
        const int64_t       place = sg_divide(at, c, &channel), chunk = sg_divide(place, places, &rest);
        const float2 *const f = factors + chunk * c + channel;
#pragma unroll
        for (int k = 0; k < N; k++)
            if (k < n) v[k] = (v[k] - f[k].x) * f[k].y + sg_get_or(b, channel + k, 0.0f);
        if (scale.data || shift.data) {
            int64_t       s, r;
            const int64_t row = sg_divide(first / c + place, cols, &s), frame = sg_divide(row, rows, &r);
            const int64_t sy = sg_divide(r * s_rows, rows, &rest), sx = sg_divide(s * s_cols, cols, &rest);
            const int64_t from = ((frame * s_rows + sy) * s_cols + sx) * c + channel;
            by_place<N>(from, n, even, v);
        }
#pragma unroll
        for (int k = 0; k < N; k++) v[k] = act == SG_ACT_SILU && y.bf16 ? sg_silu_rough(v[k]) : sg_activate(act, v[k]);
    }

    template <int N> __device__ __forceinline__ void by_place(int64_t from, int n, bool even, float (&v)[N]) const
    {
        float p[SG_PACK];
        if (scale.data) {
            sg_get_pack(scale, from, n, even, p);
#pragma unroll
            for (int k = 0; k < N; k++) v[k] *= p[k];
        }
        if (shift.data) {
            sg_get_pack(shift, from, n, even, p);
#pragma unroll
            for (int k = 0; k < N; k++) v[k] += p[k];
        }
    }

    /* Eight neighbours, of one place where c is a multiple of eight. */
    __device__ void operator()(int64_t at, int n) const
    {
        if (c % SG_PACK == 0) {
            float v[SG_PACK];
            sg_get_pack(x, first + at, n, true, v);
            run(at, n, true, v);
            sg_put_pack(y, first + at, n, true, v);
            return;
        }
        for (int k = 0; k < n; k++) {
            float v[1] = {sg_get(x, first + at + k)};
            run(at + k, 1, false, v);
            sg_put(y, first + at + k, v[0]);
        }
    }
};

/* ---- launchers ---- */

/* Parts of a chunk, so that those of a batch keep all SMs busy. */
static void divide_chunk(group_job *j, const sg_cuda *cuda, int64_t chunks)
{
    const int64_t wanted = sg_div_up((int64_t)cuda->processors * PARTS, chunks);
    const int64_t parts = sg_max64(1, sg_min64(wanted, j->places / LEAST));
    j->part = sg_div_up(j->places, parts);
    j->parts = sg_div_up(j->places, j->part);
}

static group_apply apply_of(const sg_norm_args *a, const group_job *j)
{
    const sg_tensor place = a->place_scale.rank ? a->place_scale : a->place_shift;
    group_apply     k = {};
    k.y = sg_view_of(a->y);
    k.x = sg_view_of(a->x);
    k.b = sg_view_of(a->b);
    k.scale = sg_view_of(a->place_scale);
    k.shift = sg_view_of(a->place_shift);
    k.factors = j->factors;
    k.c = j->c;
    k.rows = a->x.dim[1];
    k.cols = a->x.dim[2];
    k.s_rows = place.dim[1];
    k.s_cols = place.dim[2];
    k.places = j->places;
    k.act = a->act;
    return k;
}

sg_status sg_cuda_norm_groups(sg_stream *s, const sg_norm_args *a)
{
    const int64_t *const d = a->x.dim, frames = a->chunk ? a->chunk : d[0], chunks = d[0] / frames;
    group_job            j = {};
    j.x = sg_view_of(a->x);
    j.c = d[3];
    j.groups = a->groups;
    j.places = frames * d[1] * d[2];
    divide_chunk(&j, sg_cuda_of(s), chunks);
    const size_t moment_bytes = (size_t)(j.parts * j.c) * sizeof(moments),
                 bytes = moment_bytes + (size_t)j.c * sizeof(float2);
    const int64_t batch = sg_max64(1, sg_min64(chunks, (int64_t)(SG_CUDA_SUM_BYTES / bytes)));
    char *const   scratch = (char *)sg_cuda_scratch(s, "norm", SG_CUDA_SUM, (size_t)batch * bytes);
    if (!scratch) return s->status;
    j.moment = (moments *)scratch;
    j.factors = (float2 *)(scratch + (size_t)batch * moment_bytes);
    group_apply k = apply_of(a, &j);
    for (j.first = 0; j.first < chunks; j.first += batch) {
        const int64_t n = sg_min64(batch, chunks - j.first);
        const dim3    parts((unsigned)(n * j.parts), (unsigned)sg_div_up(j.c, STRIP));
        channel_parts<<<parts, SG_THREADS, 0, sg_cuda_of(s)->queue>>>(j);
        chunk_factors<<<(unsigned)(n * j.groups), SG_THREADS, 0, sg_cuda_of(s)->queue>>>(j, sg_view_of(a->w), a->eps);
        SG_TRY(sg_cuda_launched(s, "norm"));
        k.first = j.first * j.places * j.c;
        SG_TRY(sg_cuda_each_pack(s, "norm", n * j.places * j.c, k));
    }
    return SG_OK;
}
