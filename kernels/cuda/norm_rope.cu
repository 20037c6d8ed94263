/* norm_rope.cu - ops along the last dimension: norm and rope.
 *
 * GROUP threads share a row. The ops are memory-bound: x is read and y written once. Three kernels:
 *  - rows_kept holds a row in registers, QUADS times four neighbours a thread, and loads all of it before it uses any:
 *    an SM has 24 rows of 1536 or 16 of 3072 in F32, 147 and 197 KB, in flight or in work. (At 4.8 TB/s and 0.7 us a
 *    read, 132 SMs need 25 KB each in flight.) Four neighbours and not eight, so that one instruction of a warp reads
 *    whole sectors of x in F32 and of w, b, scale and shift. For lengths that are multiples of four, of tensors aligned
 *    to 16 bytes.
 *  - rows_short holds rows of 64 and 128, as heads of attention, and of other lengths of video decoders, in BF16. A
 *    thread has one pack of each of four neighbouring rows (of two, where rope's angles are not shared: they are loaded
 *    with x), or up to five packs of one row or two, and loads all of it at once. No thread idles. Here arithmetic
 *    counts too: at 1.75 GHz 132 SMs have time for 40 instructions an element at 3 TB/s, so silu does not use expf and a
 *    division.
 *  - rows_kernel takes any row, eight neighbours at a time. It reads the row from the caches again for its mean, for
 *    its variance, and for y.
 * A row of rope is a head, or with w all numbers that share a mean. */
#include "mma.cuh"

enum { BLOCKS = 6, /* CTAs an SM: hides the latency of memory */
       QUAD = 4,
       LONGEST_ACT = 512, /* longest row with an activation in rows_kept: its code is long and unrolled */
       LONGEST = 6144 };  /* row that is kept */

struct rows_job {
    sg_view      y, x, w;
    int64_t      rows, c;
    sg_norm_kind kind;
    float        eps;
    int         *non_finite; /* or NULL */

    /* One thread of a row counts it if its mean is not finite. */
    __device__ __forceinline__ void judge(float2 stats, int lane) const
    {
        if (non_finite && lane == 0 && !isfinite(stats.x)) atomicAdd(non_finite, 1);
    }

    bool is_short() const { return x.bf16 && y.bf16 && x.wide && y.wide && w.wide; }
};

/* ---- a row ---- */

/* The packs of a row that thread `lane` of a group has: every GROUPth. */
template <int GROUP> struct row_part {
    sg_view x;
    int64_t at, c; /* the row's offset in x; its length */
    int     lane;
    bool    even; /* every row begins at a multiple of SG_PACK */

    /* f(i, n, numbers) for each pack, which starts at index i of the row; zeros beyond n. */
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

/* The sum over a group's threads, the same in each. smem is shared memory for a block of one group. */
template <int GROUP> static __device__ float group_sum(float v, float *smem)
{
    v = sg_lanes_sum<(GROUP < SG_WARP ? GROUP : SG_WARP)>(v);
    if (GROUP <= SG_WARP) return v;
    if (threadIdx.x % SG_WARP == 0) smem[threadIdx.x / SG_WARP] = v;
    __syncthreads();
    v = smem[threadIdx.x % (SG_THREADS / SG_WARP)];
    v = sg_lanes_sum<SG_THREADS / SG_WARP>(v);
    __syncthreads();
    return v;
}

/* The same row in registers: every GROUPth quad. */
template <int GROUP, int QUADS> struct row_kept {
    float x[QUADS][QUAD];
    int   c, lane;

    __device__ __forceinline__ int place(int q) const { return (lane + q * GROUP) * QUAD; }

    /* `at`: where in v the row begins. */
    __device__ __forceinline__ void load(const sg_view &v, int64_t at)
    {
        if (v.bf16) {
            uint2 two[QUADS];
#pragma unroll
            for (int q = 0; q < QUADS; q++)
                two[q] = place(q) < c ? __ldcg((const uint2 *)((const uint16_t *)v.data + at + place(q))) : uint2();
#pragma unroll
            for (int q = 0; q < QUADS; q++) {
                x[q][0] = sg_bf16_to_float(two[q].x), x[q][1] = __uint_as_float(two[q].x & 0xffff0000u);
                x[q][2] = sg_bf16_to_float(two[q].y), x[q][3] = __uint_as_float(two[q].y & 0xffff0000u);
            }
        } else {
#pragma unroll
            for (int q = 0; q < QUADS; q++) {
                const float *const from = (const float *)v.data + at + place(q);
                sg_take_apart(place(q) < c ? __ldcg((const float4 *)from) : float4(), x[q]);
            }
        }
    }

    /* f(i, n, numbers) as row_part has it. */
    template <typename F> __device__ __forceinline__ void each(F f)
    {
#pragma unroll
        for (int q = 0; q < QUADS; q++)
            if (place(q) < c) f(place(q), QUAD, x[q]);
    }
};

template <int GROUP, typename R> static __device__ __forceinline__ float2 layer_stats(R &r, float eps, float *smem)
{
    const float c = (float)r.c;
    float       sum = 0, one = 0, two = 0;
    r.each([&](int64_t, int, auto &x) {
        for (float v : x) sum += v;
    });
    const float guess = group_sum<GROUP>(sum, smem) / c;
    r.each([&](int64_t, int n, auto &x) {
        for (int k = 0; k < (int)(sizeof x / sizeof x[0]); k++) {
            const float d = k < n ? x[k] - guess : 0.0f;
            one += d;
            two += d * d;
        }
    });
    const float off = group_sum<GROUP>(one, smem) / c, var = group_sum<GROUP>(two, smem) / c - off * off;
    return make_float2(guess + off, 1.0f / sqrtf((var > 0 ? var : 0 * var) + eps)); /* 0 var keeps NaN */
}

/* A row's shift and factor. The mean is first estimated, then corrected by the mean of the deviations from the
 * estimate, so that a constant row gives zeros and not its rounding error over sqrt(eps). */
template <int GROUP, typename R>
static __device__ __forceinline__ float2 row_stats(const rows_job &j, R &r, float *smem)
{
    if (j.kind == SG_NORM_NONE) return make_float2(0.0f, 1.0f);
    if (j.kind == SG_NORM_LAYER) return layer_stats<GROUP>(r, j.eps, smem);
    float sum = 0;
    r.each([&](int64_t, int, auto &x) {
        for (float v : x) sum += v * v;
    });
    const float square = group_sum<GROUP>(sum, smem), c = (float)r.c;
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

/* For a row that is kept: v is F32 and lies evenly. */
static __device__ __forceinline__ void get_or(const sg_view &v, int64_t i, int, float other, float (&x)[QUAD])
{
    const float4 four = v.data ? *(const float4 *)((const float *)v.data + i) : make_float4(other, other, other, other);
    sg_take_apart(four, x);
}

static __device__ __forceinline__ void put_quad(const sg_view &v, int64_t i, const float (&x)[QUAD])
{
    if (v.bf16)
        *(uint2 *)((uint16_t *)v.data + i) = make_uint2(sg_pack_bf16x2(x[0], x[1]), sg_pack_bf16x2(x[2], x[3]));
    else
        *(float4 *)((float *)v.data + i) = sg_four_of(x);
}

struct norm_job : rows_job {
    sg_view    b, scale, shift;
    const int *row; /* of scale and shift; or NULL */
    sg_act     act;

    bool keeps() const { return b.wide && scale.wide && shift.wide && (c <= LONGEST_ACT || act == SG_ACT_NONE); }
};

/* Norm as rows_kept and rows_kernel have it. BY_ROW: rows are not modulated by the same numbers. */
template <bool BY_ROW> struct norm_rows : norm_job {
    /* Where in scale and shift the numbers begin for the row that element `at` is in. */
    __device__ __forceinline__ int64_t modulation(int64_t at) const
    {
        int64_t rest;
        return BY_ROW ? row[sg_divide(at, c, &rest)] * c : 0;
    }

    /* n numbers from place i of their row on. */
    template <bool ACT, int N>
    __device__ __forceinline__ void modulate(int64_t from, int64_t i, int n, float2 stats, float (&v)[N]) const
    {
        float p[N], q[N];
        get_or(w, i, n, 1.0f, p);
        get_or(b, i, n, 0.0f, q);
        for (int k = 0; k < N; k++) v[k] = (v[k] - stats.x) * stats.y * p[k] + q[k];
        get_or(scale, from + i, n, 0.0f, p);
        get_or(shift, from + i, n, 0.0f, q);
        for (int k = 0; k < N; k++) v[k] = v[k] * (1.0f + p[k]) + q[k];
        if (ACT && act != SG_ACT_NONE)
            for (int k = 0; k < N; k++) v[k] = sg_activate(act, v[k]);
    }
    __device__ __forceinline__ void finish(int64_t at, int64_t i, int n, float2 stats, float (&v)[SG_PACK]) const
    {
        modulate<true>(modulation(at), i, n, stats, v);
    }

    /* The same in a row that is kept. */
    struct beside {
        int64_t from;
    };
    __device__ __forceinline__ bool repeats(int) const { return true; }
    template <bool ACT>
    __device__ __forceinline__ void finish(beside &t, bool other, int64_t at, int64_t i, float2 stats,
                                           float (&v)[QUAD]) const
    {
        if (BY_ROW && other) t.from = modulation(at);
        modulate<ACT>(BY_ROW ? t.from : 0, i, QUAD, stats, v);
    }
};

struct rope_job : rows_job {
    const float *cos, *sin;
    int64_t      wide, d; /* elements of a token, of a head */
    bool         four;    /* the cosines and sines of a pack are aligned for one load */
    bool         by_head; /* each head has its own */

    bool keeps() const { return d % QUAD == 0 && ((uintptr_t)cos | (uintptr_t)sin) % 16 == 0; }

    /* Where the cosines and sines of the token, or head, of element `at` begin; e: the element's place in its head. */
    __device__ __forceinline__ int64_t angles(int64_t at, int64_t *e) const
    {
        int64_t       rest;
        const int64_t token = sg_divide(at, wide, &rest);
        sg_divide(rest, d, e);
        return by_head ? (at - *e) / 2 : token * (d / 2);
    }

    static __device__ __forceinline__ void rotate(float &x, float &y, float c, float s)
    {
        const float a = x, b = y;
        x = a * c - b * s;
        y = a * s + b * c;
    }

    /* No two tokens share a pack: a token is one row or several. */
    __device__ __forceinline__ void finish(int64_t at, int64_t i, int n, float2 stats, float (&v)[SG_PACK]) const
    {
        int64_t       e;
        const int64_t from = angles(at, &e);
        float         p[SG_PACK], c[4] = {0}, s[4] = {0};
        if (four) {
            sg_take_apart(*(const float4 *)(cos + from + e / 2), c);
            sg_take_apart(*(const float4 *)(sin + from + e / 2), s);
        } else {
#pragma unroll
            for (int k = 0; k < SG_PACK / 2; k++) {
                if (2 * k >= n) break;
                c[k] = cos[from + e / 2];
                s[k] = sin[from + e / 2];
                e = e + 2 == d && !by_head ? 0 : e + 2; /* the next head's come next */
            }
        }
        get_or(w, i, n, 1.0f, p);
        for (int k = 0; k < SG_PACK; k++) v[k] = v[k] * stats.y * p[k];
#pragma unroll
        for (int k = 0; k < SG_PACK / 2; k++) rotate(v[2 * k], v[2 * k + 1], c[k], s[k]);
    }

    /* The same in a row that is kept. All quads of a thread have the same cosines and sines when what lies between two
     * of them is whole heads: with d = 128 a warp's quads are a head. */
    struct beside {
        float2 c, s;
    };
    __device__ __forceinline__ bool repeats(int step) const { return !by_head && (uint32_t)step % (uint32_t)d == 0; }
    template <bool>
    __device__ __forceinline__ void finish(beside &t, bool other, int64_t at, int64_t i, float2 stats,
                                           float (&v)[QUAD]) const
    {
        float p[QUAD];
        if (other) {
            int64_t       e;
            const int64_t from = angles(at, &e);
            t.c = *(const float2 *)(cos + from + e / 2);
            t.s = *(const float2 *)(sin + from + e / 2);
        }
        get_or(w, i, QUAD, 1.0f, p);
        for (int k = 0; k < QUAD; k++) v[k] = v[k] * stats.y * p[k];
        rotate(v[0], v[1], t.c.x, t.s.x);
        rotate(v[2], v[3], t.c.y, t.s.y);
    }
};

template <int GROUP, typename J> static __global__ void __launch_bounds__(SG_THREADS, BLOCKS) rows_kernel(J j)
{
    __shared__ float smem[SG_WARP];
    constexpr int    GROUPS = SG_THREADS / GROUP;
    const bool       even = j.c % SG_PACK == 0;
    /* All groups of a warp stay in the loop while one has a row: warp sums need all lanes. */
    for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < j.rows; first += (int64_t)gridDim.x * GROUPS) {
        const int64_t mine = first + threadIdx.x / GROUP, at = min(mine, j.rows - 1) * j.c;
        row_part<GROUP> r = {j.x, at, j.c, (int)(threadIdx.x % GROUP), even};
        const float2    stats = row_stats<GROUP>(j, r, smem);
        if (mine >= j.rows) continue;
        j.judge(stats, r.lane);
        r.each([&](int64_t i, int n, float(&x)[SG_PACK]) {
            j.finish(at + i, i, n, stats, x);
            sg_put_pack(j.y, at + i, n, even, x);
        });
    }
}

/* On a processor at once, so that a thread has registers for its quads. */
template <int QUADS> constexpr int kept_blocks()
{
    return QUADS > 12 ? 2 : QUADS > 6 ? 3 : QUADS > 4 ? 4 : QUADS > 2 ? 5 : BLOCKS;
}

template <int GROUP, int QUADS, typename J>
static __global__ void __launch_bounds__(SG_THREADS, kept_blocks<QUADS>()) rows_kept(J j)
{
    __shared__ float       smem[SG_WARP];
    constexpr int          GROUPS = SG_THREADS / GROUP;
    row_kept<GROUP, QUADS> r;
    typename J::beside     beside;
    const bool             once = j.repeats(GROUP * QUAD);
    r.c = (int)j.c;
    r.lane = threadIdx.x % GROUP;
    for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < j.rows; first += (int64_t)gridDim.x * GROUPS) {
        const int64_t mine = first + threadIdx.x / GROUP, at = min(mine, j.rows - 1) * j.c;
        r.load(j.x, at);
        const float2 stats = row_stats<GROUP>(j, r, smem);
        if (mine >= j.rows) continue;
        j.judge(stats, r.lane);
        r.each([&](int64_t i, int, float(&x)[QUAD]) {
            j.template finish<(GROUP * QUADS * QUAD <= LONGEST_ACT)>(beside, !once || i < GROUP * QUAD, at + i, i, stats,
                                                                     x);
            put_quad(j.y, at + i, x);
        });
    }
}

/* ---- short rows ---- */

/* The part of a row that a thread has: PACKS packs, every GROUPth. */
template <int GROUP, int PACKS> struct row_short {
    enum { c = GROUP * PACKS * SG_PACK };
    float x[PACKS][SG_PACK];

    /* f(i, n, numbers) as row_part has it, for sums, which do not ask for i. */
    template <typename F> __device__ __forceinline__ void each(F f)
    {
#pragma unroll
        for (int k = 0; k < PACKS; k++) f(0, (int)SG_PACK, x[k]);
    }
};

/* Norm as rows_short has it: N rows a thread. */
template <int N> struct short_norm : norm_job {
    static constexpr int ROWS = N;
    struct beside {};
    __device__ __forceinline__ void    load(beside &, int64_t, int) const {}
    __device__ __forceinline__ sg_view bias() const { return b; }

    __device__ __forceinline__ void finish(const beside &, int, float2 stats, const float (&p)[SG_PACK],
                                           const float (&q)[SG_PACK], float (&v)[SG_PACK]) const
    {
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) v[k] = (v[k] - stats.x) * stats.y * p[k] + q[k];
        if (act == SG_ACT_SILU)
#pragma unroll
            for (int k = 0; k < SG_PACK; k++) v[k] = sg_silu_rough(v[k]);
    }
};

/* The same for rope, where a row is a head. SHARED: four neighbouring heads are of one token and have one set of angles. */
template <bool SHARED> struct short_rope : rope_job {
    static constexpr int ROWS = SHARED ? 4 : 2, SETS = SHARED ? 1 : ROWS;
    struct beside {
        float4 c[SETS], s[SETS];
    };
    __device__ __forceinline__ sg_view bias() const { return sg_view(); }

    /* The angles of rows from `row` on, from the e-th number of a head on. */
    __device__ __forceinline__ void load(beside &t, int64_t row, int e) const
    {
#pragma unroll
        for (int i = 0; i < SETS; i++) {
            int64_t       head;
            const int64_t mine = min(row + i, rows - 1), set = by_head ? mine : sg_divide(mine, wide / d, &head);
            t.c[i] = *(const float4 *)(cos + set * (d / 2) + e / 2);
            t.s[i] = *(const float4 *)(sin + set * (d / 2) + e / 2);
        }
    }

    __device__ __forceinline__ void finish(const beside &t, int i, float2 stats, const float (&p)[SG_PACK],
                                           const float (&)[SG_PACK], float (&v)[SG_PACK]) const
    {
        const float4 c = t.c[SHARED ? 0 : i], s = t.s[SHARED ? 0 : i];
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) v[k] = v[k] * stats.y * p[k];
        rotate(v[0], v[1], c.x, s.x);
        rotate(v[2], v[3], c.y, s.y);
        rotate(v[4], v[5], c.z, s.z);
        rotate(v[6], v[7], c.w, s.w);
    }
};

static __device__ __forceinline__ void unpack(uint4 four, float (&x)[SG_PACK])
{
    const uint32_t two[] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[2 * i] = sg_bf16_to_float(two[i]), x[2 * i + 1] = __uint_as_float(two[i] & 0xffff0000u);
}

/* A pack of v, which is F32 and lies evenly. */
static __device__ __forceinline__ void get_even(const sg_view &v, int i, float other, float (&x)[SG_PACK])
{
    float low[QUAD], high[QUAD];
    get_or(v, i, QUAD, other, low);
    get_or(v, i + QUAD, QUAD, other, high);
#pragma unroll
    for (int k = 0; k < QUAD; k++) x[k] = low[k], x[QUAD + k] = high[k];
}

/* On a processor at once: 64 registers a thread. */
enum { SHORT_BLOCKS = 4 };

/* A thread has neighbouring rows, so that w, b and shared angles are loaded once for them. */
template <int GROUP, int PACKS, typename J>
static __global__ void __launch_bounds__(SG_THREADS, SHORT_BLOCKS) rows_short(J j)
{
    constexpr int           ROWS = J::ROWS;
    constexpr int64_t       C = row_short<GROUP, PACKS>::c, STEP = SG_THREADS / GROUP * ROWS;
    const int               lane = threadIdx.x % GROUP;
    row_short<GROUP, PACKS> r[ROWS];
    typename J::beside      beside;
    for (int64_t first = blockIdx.x * STEP; first < j.rows; first += gridDim.x * STEP) {
        const int64_t mine = first + threadIdx.x / GROUP * ROWS;
        uint4         four[ROWS][PACKS];
        float2        stats[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int k = 0; k < PACKS; k++) {
                const int64_t at = min(mine + i, j.rows - 1) * C + (lane + k * GROUP) * SG_PACK;
                four[i][k] = __ldcg((const uint4 *)((const uint16_t *)j.x.data + at));
            }
        j.load(beside, mine, lane * SG_PACK);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
#pragma unroll
            for (int k = 0; k < PACKS; k++) unpack(four[i][k], r[i].x[k]);
            stats[i] = row_stats<GROUP>(j, r[i], NULL);
            if (mine + i < j.rows) j.judge(stats[i], lane);
        }
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            const int place = (lane + k * GROUP) * SG_PACK;
            float     w[SG_PACK], b[SG_PACK];
            get_even(j.w, place, 1.0f, w);
            get_even(j.bias(), place, 0.0f, b);
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                if (mine + i >= j.rows) continue;
                float(&x)[SG_PACK] = r[i].x[k];
                j.finish(beside, i, stats[i], w, b, x);
                *(uint4 *)((uint16_t *)j.y.data + (mine + i) * C + place) = sg_eight_of(x);
            }
        }
    }
}

/* ---- launchers ---- */

/* By a kernel that has `group` threads for a row. */
template <typename J>
static sg_status rows_launch(sg_stream *s, const char *op, void (*kernel)(J), int64_t group, const J &j)
{
    return sg_cuda_launch(s, op, kernel, sg_cuda_blocks(s, j.rows * group), SG_THREADS, 0, j);
}

template <typename J> static sg_status rows_run(sg_stream *s, const char *op, const J &j)
{
    if (j.c % QUAD == 0 && j.c <= LONGEST && j.x.wide && j.y.wide && j.w.wide && j.keeps()) {
        if (j.c <= 128) return rows_launch(s, op, rows_kept<16, 2, J>, 16, j);
        if (j.c <= LONGEST_ACT) return rows_launch(s, op, rows_kept<SG_WARP, 4, J>, SG_WARP, j);
        if (j.c <= 1536) return rows_launch(s, op, rows_kept<SG_WARP, 12, J>, SG_WARP, j);
        if (j.c <= 3072) return rows_launch(s, op, rows_kept<SG_WARP, 24, J>, SG_WARP, j);
        return rows_launch(s, op, rows_kept<SG_THREADS, 6, J>, SG_THREADS, j);
    }
    if (j.c <= 16 * SG_PACK) return rows_launch(s, op, rows_kernel<16, J>, 16, j);
    if (j.c <= 8 * SG_WARP * SG_PACK) return rows_launch(s, op, rows_kernel<SG_WARP, J>, SG_WARP, j);
    return rows_launch(s, op, rows_kernel<SG_THREADS, J>, SG_THREADS, j);
}


template <int GROUP, int PACKS, typename J> static bool short_launch(sg_stream *s, const J &j)
{
    const int64_t threads = sg_div_up(j.rows, J::ROWS) * GROUP;
    rows_short<GROUP, PACKS><<<sg_cuda_blocks(s, threads), SG_THREADS, 0, sg_cuda_of(s)->queue>>>(j);
    return true;
}

/* By rows_short, if it is made for them. */
static bool norm_short(sg_stream *s, const norm_job &j)
{
    if (!j.is_short() || !j.b.wide || j.scale.data || j.shift.data || (j.act != SG_ACT_NONE && j.act != SG_ACT_SILU))
        return false;
    switch (j.c) {
    case 64: return short_launch<8, 1>(s, short_norm<4>{j});
    case 128: return short_launch<16, 1>(s, short_norm<4>{j});
    case 96: return short_launch<4, 3>(s, short_norm<1>{j});
    case 192: return short_launch<8, 3>(s, short_norm<1>{j});
    case 384: return short_launch<16, 3>(s, short_norm<1>{j});
    case 256: return short_launch<SG_WARP, 1>(s, short_norm<4>{j});
    case 512: return short_launch<SG_WARP, 2>(s, short_norm<2>{j});
    case 640: return short_launch<16, 5>(s, short_norm<1>{j});
    default: return false;
    }
}

static bool rope_short(sg_stream *s, const rope_job &j)
{
    if (!j.is_short() || !j.four || j.c != j.d || (j.d != 64 && j.d != 128)) return false;
    const bool shared = !j.by_head && j.wide / j.d % short_rope<true>::ROWS == 0;
    if (j.d == 64)
        return shared ? short_launch<8, 1>(s, short_rope<true>{j}) : short_launch<8, 1>(s, short_rope<false>{j});
    return shared ? short_launch<16, 1>(s, short_rope<true>{j}) : short_launch<16, 1>(s, short_rope<false>{j});
}

static sg_status norm(sg_stream *s, const sg_norm_args *a)
{
    if (a->kind == SG_NORM_GROUP) return sg_cuda_norm_groups(s, a);
    const int64_t c = a->x.dim[a->x.rank - 1];
    norm_job      j = {{sg_view_of(a->y), sg_view_of(a->x), sg_view_of(a->w), sg_count(a->x) / c, c, a->kind, a->eps,
                        sg_data(a->non_finite)},
                       sg_view_of(a->b), sg_view_of(a->scale), sg_view_of(a->shift), sg_data(a->row), a->act};
    if (j.row && j.c % SG_PACK) j.scale.wide = j.shift.wide = false; /* their rows begin anywhere */
    if (norm_short(s, j)) return sg_cuda_launched(s, "norm");
    return j.row ? rows_run(s, "norm", norm_rows<true>{j}) : rows_run(s, "norm", norm_rows<false>{j});
}

static sg_status rope(sg_stream *s, const sg_rope_args *a)
{
    const int64_t  d = a->x.dim[2], c = a->w.rank ? a->w.dim[0] : d;
    const bool     four = d % SG_PACK == 0 && sg_cuda_aligned(a->cos.data) && sg_cuda_aligned(a->sin.data);
    const rope_job j = {{sg_view_of(a->y), sg_view_of(a->x), sg_view_of(a->w), sg_count(a->x) / c, c,
                         a->w.rank ? SG_NORM_RMS : SG_NORM_NONE, a->eps, NULL},
                        sg_data(a->cos), sg_data(a->sin), a->x.dim[1] * d, d, four, a->cos.rank == 3};
    return rope_short(s, j) ? sg_cuda_launched(s, "rope") : rows_run(s, "rope", j);
}

void sg_cuda_norm_rope_init(sg_ops *t)
{
    t->norm = norm;
    t->rope = rope;
}
