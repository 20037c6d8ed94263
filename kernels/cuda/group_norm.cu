/* group_norm.cu - norm of kind GROUP.
 *
 * Memory-bound: x is read twice and y written once, eight neighbours at a time. Three kernels for each batch of chunks, so
 * that a single chunk keeps all SMs busy:
 *  - channel_parts: a CTA takes a part of a chunk's places. A thread has eight channels at every so-manyth place. It keeps
 *    mean and squared deviations as Welford does (Technometrics 4, 1962), of numbers less the first that it saw: sums of
 *    squares would lose the variance of numbers far from zero.
 *  - chunk_factors: a CTA puts the parts of a group together, in double and always in the same order.
 *  - group_apply: y. A CTA takes a run of places of one row. A thread keeps the factors of its eight channels and finds
 *    frame and row once for the run.
 * The first leaves moments of each channel, not of each group, so that c / groups may be any number.
 *
 * At 1.75 GHz 132 SMs have time for 15 instructions an element of BF16 read at 4 TB/s, and for 30 of one read and written.
 * channel_parts takes about 7, group_apply with silu, scale and shift of places about 14. */
#include "mma.cuh"

enum {
    PARTS = 8,                    /* CTAs an SM of channel_parts */
    RUNS = 16,                    /* CTAs an SM of group_apply */
    AT_ONCE = 4,                  /* places that a thread of channel_parts loads before it uses one */
    PAIR = 2,                     /* the same of group_apply */
    STRIP = SG_THREADS * SG_PACK, /* channels of a CTA */
    LEAST = 32                    /* places that are worth a CTA */
};

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

/* Which channels of which places a thread has: CTAs of one blockIdx.y have a strip of channels. */
struct thread_part {
    int64_t strip;       /* the first channel of the strip */
    int     c, columns;  /* its channels, in packs */
    int     lanes, lane; /* places of a CTA at once; the thread's, which idles beyond them */
    int     channel, n;  /* of the strip, the thread's first; how many it has */
    bool    even;

    __device__ __forceinline__ explicit thread_part(int64_t channels)
    {
        strip = (int64_t)blockIdx.y * STRIP;
        c = (int)min((int64_t)STRIP, channels - strip);
        columns = (c + SG_PACK - 1) / SG_PACK;
        lanes = SG_THREADS / columns;
        lane = threadIdx.x / columns;
        channel = threadIdx.x % columns * SG_PACK;
        n = min((int)SG_PACK, c - channel);
        even = channels % SG_PACK == 0;
    }
};

/* ---- moments ---- */

struct running_moments {
    float first[SG_PACK], mean[SG_PACK], square[SG_PACK];
    int   count;

    __device__ __forceinline__ void begin(const float (&v)[SG_PACK])
    {
        count = 0;
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) first[k] = v[k], mean[k] = square[k] = 0;
    }

    __device__ __forceinline__ void add(const float (&v)[SG_PACK])
    {
        const float by = __fdividef(1.0f, (float)++count);
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) {
            const float d = v[k] - first[k], off = d - mean[k];
            mean[k] += off * by;
            square[k] += off * (d - mean[k]);
        }
    }
};

/* Block x: part x % parts of chunk x / parts of the batch; block y: a strip of channels. */
static __global__ void __launch_bounds__(SG_THREADS, 3) channel_parts(group_job j)
{
    __shared__ double means[STRIP];
    __shared__ float  squares[STRIP];
    const thread_part t(j.c);
    const int64_t     chunk = blockIdx.x / j.parts, k = blockIdx.x % j.parts, step = t.lanes * j.c;
    const int         rows = (int)j.places_of(k);
    int64_t           at = ((j.first + chunk) * j.places + k * j.part + t.lane) * j.c + t.strip + t.channel;
    if (t.lane < t.lanes) {
        running_moments r;
        float           v[AT_ONCE][SG_PACK] = {};
        int             p = t.lane;
        if (p < rows) sg_get_pack(j.x, at, t.n, t.even, v[0]);
        r.begin(v[0]);
        for (; p < rows - (AT_ONCE - 1) * t.lanes; p += AT_ONCE * t.lanes, at += AT_ONCE * step) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) sg_get_pack(j.x, at + i * step, t.n, t.even, v[i]);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) r.add(v[i]);
        }
        for (; p < rows; p += t.lanes, at += step) {
            sg_get_pack(j.x, at, t.n, t.even, v[0]);
            r.add(v[0]);
        }
        for (int e = 0; e < SG_PACK; e++) {
            const int to = (t.lane * t.columns) * SG_PACK + t.channel + e;
            means[to] = (double)r.first[e] + (double)r.mean[e];
            squares[to] = r.square[e];
        }
    }
    __syncthreads();
    const int wide = t.columns * SG_PACK, least = rows / t.lanes, more = rows % t.lanes;
    for (int i = threadIdx.x; i < t.c; i += SG_THREADS) {
        double mean = 0, square = 0;
        for (int l = 0; l < t.lanes; l++) mean += (double)(least + (l < more)) * means[l * wide + i];
        mean /= (double)rows;
        for (int l = 0; l < t.lanes; l++) {
            const double off = means[l * wide + i] - mean;
            square += (double)squares[l * wide + i] + (double)(least + (l < more)) * off * off;
        }
        j.moment[(int64_t)blockIdx.x * j.c + t.strip + i] = {mean, square};
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

/* Block x: group x % groups of chunk x / groups of the batch. Sums are of deviations from the group's first mean. */
static __global__ void __launch_bounds__(SG_THREADS) chunk_factors(group_job j, sg_view w, float eps)
{
    __shared__ double    smem[SG_THREADS / SG_WARP];
    const int            groups = (int)j.groups, per = (int)(j.c / j.groups), parts = (int)j.parts;
    const int64_t        chunk = blockIdx.x / groups, channel = (int64_t)(blockIdx.x % groups) * per;
    const moments *const moment = j.moment + chunk * j.parts * j.c + channel;
    const int            across = min(per, (int)SG_THREADS), lanes = SG_THREADS / across, lane = threadIdx.x / across;
    const double         all = (double)(j.places * per), guess = moment[0].mean;
    double               one = 0, two = 0;
    for (int k = lane; k < parts && lane < lanes; k += lanes) {
        const double count = (double)j.places_of(k);
        for (int i = threadIdx.x % across; i < per; i += across) {
            const moments m = moment[k * j.c + i];
            const double  off = m.mean - guess;
            one += count * off;
            two += m.square + count * off * off;
        }
    }
    const double off = block_sum(one, smem) / all, var = block_sum(two, smem) / all - off * off;
    const double mean = guess + off, gain = 1.0 / sqrt((var > 0 ? var : 0 * var) + (double)eps); /* 0 var keeps NaN */
    for (int64_t i = channel + threadIdx.x; i < channel + per; i += SG_THREADS)
        j.factors[chunk * j.c + i] = make_float2((float)mean, (float)(gain * (double)sg_get_or(w, i, 1.0f)));
}

/* ---- y ---- */

struct apply_job {
    sg_view       y, x, b, scale, shift;
    const float2 *factors;        /* of the batch's first chunk */
    int64_t       c, first;       /* frame that the batch begins with */
    int           frames;         /* of a chunk */
    int           rows, cols;     /* of a frame */
    int           s_rows, s_cols; /* of a frame of scale and shift */
    int           run, runs;      /* places of a run; runs of a row */
    sg_act        act;
};

/* The factors and the bias of a thread's channels. */
struct channel_factors {
    float mean[SG_PACK], gain[SG_PACK], bias[SG_PACK];

    __device__ __forceinline__ void load(const apply_job &j, const thread_part &t, int64_t chunk)
    {
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) {
            const int64_t i = t.strip + t.channel + min(k, t.n - 1);
            const float2  f = j.factors[chunk * j.c + i];
            mean[k] = f.x, gain[k] = f.y, bias[k] = sg_get_or(j.b, i, 0.0f);
        }
    }
};

/* Which column of scale and shift serves a place: s cols' / cols, rounded down, as place s moves on by equal steps. */
struct scaled_column {
    int at, rest, step, step_rest, cols;

    __device__ __forceinline__ scaled_column(int place, int by, int s_cols, int all)
    {
        int64_t left;
        cols = all;
        at = (int)sg_divide((int64_t)place * s_cols, cols, &left), rest = (int)left;
        step = (int)sg_divide((int64_t)by * s_cols, cols, &left), step_rest = (int)left;
    }
    __device__ __forceinline__ void move()
    {
        at += step, rest += step_rest;
        if (rest >= cols) rest -= cols, at++;
    }
};

/* v, of one place, whose place in scale and shift begins at `from`. */
static __device__ __forceinline__ void finish(const apply_job &j, const thread_part &t, const channel_factors &f,
                                              int64_t from, float (&v)[SG_PACK])
{
    float p[SG_PACK];
    from += t.strip + t.channel;
#pragma unroll
    for (int k = 0; k < SG_PACK; k++) v[k] = (v[k] - f.mean[k]) * f.gain[k] + f.bias[k];
    if (j.scale.data) {
        sg_get_pack(j.scale, from, t.n, t.even, p);
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) v[k] *= p[k];
    }
    if (j.shift.data) {
        sg_get_pack(j.shift, from, t.n, t.even, p);
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) v[k] += p[k];
    }
    if (j.act == SG_ACT_SILU && j.y.bf16) {
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) v[k] = sg_silu_rough(v[k]);
    } else if (j.act != SG_ACT_NONE) {
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) v[k] = sg_activate(j.act, v[k]);
    }
}

/* Run u: run u % runs of row u / runs of the batch's frames; block y: a strip of channels. */
static __global__ void __launch_bounds__(SG_THREADS, 3) group_apply(apply_job j, int64_t count)
{
    const thread_part t(j.c);
    const int64_t     step = t.lanes * j.c;
    int               chunk = -1;
    channel_factors   f;
    if (t.lane >= t.lanes) return;
    for (int64_t u = blockIdx.x; u < count; u += gridDim.x) {
        int64_t       part, row, rest;
        const int64_t line = sg_divide(u, j.runs, &part), frame = sg_divide(line, j.rows, &row);
        const int     mine = (int)sg_divide(frame, j.frames, &rest);
        const int     begin = (int)part * j.run, end = min(begin + j.run, j.cols);
        const int64_t s_line = (j.first + frame) * j.s_rows + sg_divide(row * j.s_rows, j.rows, &rest);
        int64_t       at = ((j.first * j.rows + line) * j.cols + begin + t.lane) * j.c + t.strip + t.channel;
        if (mine != chunk) f.load(j, t, chunk = mine);
        scaled_column s(begin + t.lane, t.lanes, j.s_cols, j.cols);
        for (int p = begin + t.lane; p < end; p += PAIR * t.lanes, at += PAIR * step) {
            const bool both = p + t.lanes < end;
            float      v[PAIR][SG_PACK];
            sg_get_pack(j.x, at, t.n, t.even, v[0]);
            if (both) sg_get_pack(j.x, at + step, t.n, t.even, v[1]);
            finish(j, t, f, (s_line * j.s_cols + s.at) * j.c, v[0]);
            sg_put_pack(j.y, at, t.n, t.even, v[0]);
            s.move();
            if (both) {
                finish(j, t, f, (s_line * j.s_cols + s.at) * j.c, v[1]);
                sg_put_pack(j.y, at + step, t.n, t.even, v[1]);
            }
            s.move();
        }
    }
}

/* ---- launchers ---- */

/* Parts of a chunk, so that those of a batch keep all SMs busy. */
static void divide_chunk(group_job *j, const sg_cuda *cuda, int64_t chunks)
{
    const int64_t wanted = sg_div_up((int64_t)cuda->processors * PARTS, chunks);
    const int64_t parts = sg_max64(1, sg_min64(wanted, j->places / LEAST));
    j->part = sg_div_up(j->places, parts);
    j->parts = sg_div_up(j->places, j->part);
}

static apply_job apply_of(const sg_norm_args *a, const group_job *j, const sg_cuda *cuda)
{
    const sg_tensor place = a->place_scale.rank ? a->place_scale : a->place_shift;
    const int64_t   columns = sg_min64(SG_THREADS, sg_div_up(j->c, SG_PACK));
    const int64_t   least = SG_THREADS / columns * 2 * PAIR; /* places for two loads of each thread */
    const int64_t   runs = sg_div_up((int64_t)cuda->processors * RUNS, a->x.dim[0] * a->x.dim[1]);
    const int       cols = (int)a->x.dim[2];
    const int       run = runs == 1 ? cols : (int)sg_max64(least, cols / runs / least * least);
    return {.y = sg_view_of(a->y), .x = sg_view_of(a->x), .b = sg_view_of(a->b), .scale = sg_view_of(a->place_scale),
            .shift = sg_view_of(a->place_shift), .factors = j->factors, .c = j->c,
            .frames = (int)(a->chunk ? a->chunk : a->x.dim[0]), .rows = (int)a->x.dim[1], .cols = cols,
            .s_rows = (int)place.dim[1], .s_cols = (int)place.dim[2], .run = run, .runs = (int)sg_div_up(cols, run),
            .act = a->act};
}

sg_status sg_cuda_norm_groups(sg_stream *s, const sg_norm_args *a)
{
    const int64_t *const d = a->x.dim, frames = a->chunk ? a->chunk : d[0], chunks = d[0] / frames;
    const sg_cuda *const cuda = sg_cuda_of(s);
    const unsigned       strips = sg_div_up(d[3], STRIP);
    group_job j = {.x = sg_view_of(a->x), .c = d[3], .groups = a->groups, .places = frames * d[1] * d[2]};
    divide_chunk(&j, cuda, chunks);
    const size_t moment_bytes = (size_t)(j.parts * j.c) * sizeof(moments),
                 bytes = moment_bytes + (size_t)j.c * sizeof(float2);
    const int64_t batch = sg_max64(1, sg_min64(chunks, (int64_t)(SG_CUDA_SUM_BYTES / bytes)));
    char *const   scratch = (char *)sg_cuda_scratch(s, "norm", SG_CUDA_SUM, (size_t)batch * bytes);
    if (!scratch) return s->status;
    j.moment = (moments *)scratch;
    j.factors = (float2 *)(scratch + (size_t)batch * moment_bytes);
    apply_job k = apply_of(a, &j, cuda);
    for (j.first = 0; j.first < chunks; j.first += batch) {
        const int64_t n = sg_min64(batch, chunks - j.first), runs = n * frames * k.rows * k.runs;
        k.first = j.first * frames;
        channel_parts<<<dim3((n * j.parts), strips), SG_THREADS, 0, cuda->queue>>>(j);
        chunk_factors<<<(n * j.groups), SG_THREADS, 0, cuda->queue>>>(j, sg_view_of(a->w), a->eps);
        const unsigned blocks = sg_min64(runs, (int64_t)cuda->processors * 32);
        group_apply<<<dim3(blocks, strips), SG_THREADS, 0, cuda->queue>>>(k, runs);
        SG_TRY(sg_cuda_launched(s, "norm"));
    }
    return SG_OK;
}
