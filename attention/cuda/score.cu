/* score.cu - score and tail_bias: the predicted mass of blocks, and the biases of their means.
 *
 * Logits of means are computed by tensor cores from F16 operands: 11 bits, as op.h allows. Each row of means, of keys about
 * their center, is multiplied by a power of two, so that its largest number is in [2^14, 2^15).
 *
 *   round_keys    all keys as F16, in scratch: a tile of MEANS rows in the order in which fragments hold them
 *   score_logits  a block of threads: a strip of ROWS means of queries, a warp 32 of them in registers; up to STRETCH tiles of
 *                 keys, which come by asynchronous copies, two at a time in shared memory. What it writes is for each row
 *                 and block of keys log2 of the sum of 2^logit over the block's means, which one thread holds
 *   score_blocks  a block of threads: the softmax of the rows of one block of queries over blocks of keys
 *
 * With causal, tiles of keys that a strip does not see are not multiplied, and what is not written is not read.
 *
 * Roofline: F16 products, 2 d flops for each pair of means, and its power of two; written and read are 4 bytes for each row
 * and block of keys. */
#include "blocks.cuh"

#include <cuda_fp16.h>
#include <math.h>

enum { WARPS = SG_THREADS / SG_WARP, ROWS = 128, MEANS = 64, STRETCH = 8, FULL = 4, STRIP_THREADS = 128, WIDEST = 128 };
enum { LANES = WIDEST / SG_PACK /* that round a mean */, MOST_ROWS = 16 /* of a block of queries */ };

/* ---- score ---- */

struct score_job {
    sg_block_rules rules;
    sg_view        q, k;
    const float   *k_center; /* [hk, d], or NULL */
    uint4         *part;     /* F16 [heads of keys, tiles, MEANS, wide] */
    float         *unit;     /* [heads of keys, tiles, MEANS]: the unit of such a row */
    float         *logits;   /* [strips of this launch, ROWS, stride] */
    const float   *weight;   /* [hk, nk], or NULL */
    float         *y;        /* [h, nq, nk] */
    int64_t        h, hk, d, nq, nk;
    int64_t        rows, means;           /* of all blocks: of queries, of keys */
    int64_t        whole;                 /* rows of a strip's whole blocks of queries */
    int64_t        strips, tiles, stride; /* of a head; of logits */
    int64_t        first, first_k; /* the launch's first strip of all heads; the first head of keys that is rounded */
    int            wide, per_q, per_k; /* d rounded up; means of a block */
    int            stretch;            /* tiles of keys that a block of threads takes */
    float          scale;              /* times log2 e */
    bool           even;               /* SG_PACK neighbours of k, two of q, may be read at once */
};

/* weight [hk, nk]: the error of pooling a block of keys: sqrt(mean of k_var, times mean of v_var). A warp a block. */
static __global__ void __launch_bounds__(SG_THREADS)
    block_weights_kernel(const float *k, const float *v, float *weight, int64_t nk, int64_t hk, int64_t d, int64_t dv)
{
    const int64_t at = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP;
    const int     lane = threadIdx.x % SG_WARP;
    float         a = 0, b = 0;
    if (at >= nk * hk) return;
    for (int64_t e = lane; e < d; e += SG_WARP) a += k[at * d + e];
    for (int64_t e = lane; e < dv; e += SG_WARP) b += v[at * dv + e];
    a = sg_lanes_sum(a);
    b = sg_lanes_sum(b);
    if (lane == 0) weight[at % hk * nk + at / hk] = sqrtf(a / (float)d * (b / (float)dv));
}

/* ---- numbers as F16 ---- */

/* The exponent of the power of two that scales a float with these bits to [2^14, 2^15). */
static __device__ __forceinline__ int lift_of(int row_max) { return min(141 - (row_max >> 23), 100); }

static __device__ __forceinline__ float exactly(int exponent) { return __int_as_float((127 + exponent) << 23); }

static __device__ __forceinline__ uint32_t two_of(float a, float b)
{
    const __half2 x = __floats2half2_rn(a, b);
    return *(const uint32_t *)&x;
}

/* c += a b; a 16 x 16, b 16 x 8, F16 */
static __device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- keys ---- */

/* The position of mean m in a tile. The thread with columns 2 t and 2 t + 1 of fragments 2 c and 2 c + 1 gets means 16
 * t + 4 c and the next three, which are one block or four. */
static __device__ __forceinline__ int place_of(int m) { return m / 4 % 4 * 16 + m / 2 % 2 * 8 + m / 16 * 2 + m % 2; }

/* Rounds a tile of a head; half a warp four means, all of which are in flight. */
static __global__ void __launch_bounds__(MEANS / 4 * LANES) round_keys(score_job j)
{
    const int     lane = threadIdx.x % LANES, e = lane * SG_PACK, packs = j.wide / SG_PACK;
    const int64_t tile = blockIdx.y * j.tiles + blockIdx.x, g = j.first_k + blockIdx.y;
    const int     n = (int)max((int64_t)0, min((int64_t)SG_PACK, j.d - e)), first = threadIdx.x / LANES * 4;
    float         x[4][SG_PACK], center[SG_PACK];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int64_t mean = (int64_t)blockIdx.x * MEANS + first + i;
        sg_get_pack(j.k, (mean * j.hk + g) * j.d + e, mean < j.means ? n : 0, j.even, x[i]);
    }
#pragma unroll
    for (int c = 0; c < SG_PACK; c++) center[c] = j.k_center && c < n ? j.k_center[g * j.d + e + c] : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int64_t m = tile * MEANS + first + i;
        const bool    there = (int64_t)blockIdx.x * MEANS + first + i < j.means;
        int           row_max = 0;
#pragma unroll
        for (int c = 0; c < SG_PACK; c++) {
            if (there) x[i][c] -= center[c];
            row_max = max(row_max, __float_as_int(fabsf(x[i][c])));
        }
        for (int k = LANES / 2; k > 0; k /= 2) row_max = max(row_max, __shfl_xor_sync(~0u, row_max, k));
        const int   lift = lift_of(row_max);
        const float by = exactly(lift);
        if (lane == 0) j.unit[m] = exactly(-lift);
        if (lane < packs)
            j.part[(tile * MEANS + place_of(first + i)) * packs + lane] =
                make_uint4(two_of(x[i][0] * by, x[i][1] * by), two_of(x[i][2] * by, x[i][3] * by),
                           two_of(x[i][4] * by, x[i][5] * by), two_of(x[i][6] * by, x[i][7] * by));
    }
}

/* ---- logits ---- */

template <int D> struct logits_smem {
    static constexpr int PITCH = (D / 8 + 7) / 8 * 8;
    uint4                part[2][MEANS][PITCH]; /* 16 bytes at c ^ place % 8: no two rows of a matrix in one bank */
    float                unit[2][MEANS];
};

template <int D>
static __device__ __forceinline__ void fetch_tile(const score_job &j, int64_t tile, logits_smem<D> &s, int at)
{
    enum { ACROSS = D > 64 ? 16 : 8, STEP = STRIP_THREADS / ACROSS /* a multiple of 8 */ };
    const int          place = threadIdx.x / ACROSS, c = threadIdx.x % ACROSS;
    const uint4 *const from = j.part + (tile * MEANS + place) * (D / 8) + c;
#pragma unroll
    for (int n = 0; n < MEANS; n += STEP)
        if (c < D / 8) sg_cp_async_16(&s.part[at][place + n][c ^ place % 8], from + n * (D / 8), true);
    if (threadIdx.x < MEANS / 4)
        sg_cp_async_16(&s.unit[at][4 * threadIdx.x], j.unit + tile * MEANS + 4 * threadIdx.x, true);
    sg_cp_async_commit();
}

/* Rows `row`, + 8, + 16 and + 24 of head g as fragments [16 rows][16 channels], and their units. */
template <int D>
static __device__ __forceinline__ void round_queries(const score_job &j, int64_t row, int64_t g,
                                                     uint32_t (&q)[2][D / 16][4], float (&unit)[4])
{
    const int two = threadIdx.x % 4 * 2;
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float *const from = (const float *)j.q.data + ((row + 8 * r) * j.h + g) * j.d + two;
        const int          n = row + 8 * r < j.rows ? (int)j.d - two : 0; /* numbers from `from` on */
        float2             x[D / 8];
        int                row_max = 0;
        if (j.even)
#pragma unroll
            for (int c = 0; c < D / 8; c++)
                x[c] = c * 8 < n ? *(const float2 *)(from + c * 8) : make_float2(0.0f, 0.0f);
        else
#pragma unroll
            for (int c = 0; c < D / 8; c++)
                x[c] = make_float2(c * 8 < n ? from[c * 8] : 0.0f, c * 8 + 1 < n ? from[c * 8 + 1] : 0.0f);
#pragma unroll
        for (int c = 0; c < D / 8; c++) {
            x[c].x *= j.scale;
            x[c].y *= j.scale;
            row_max = max(row_max, max(__float_as_int(fabsf(x[c].x)), __float_as_int(fabsf(x[c].y))));
        }
        row_max = max(row_max, __shfl_xor_sync(~0u, row_max, 1));
        row_max = max(row_max, __shfl_xor_sync(~0u, row_max, 2));
        const int   lift = lift_of(row_max);
        const float by = exactly(lift);
#pragma unroll
        for (int c = 0; c < D / 8; c++) {
            q[r / 2][c / 2][r % 2 + c % 2 * 2] = two_of(x[c].x * by, x[c].y * by);
        }
        unit[r] = exactly(-lift);
    }
}

/* Fragments 2 c and 2 c + 1 of a tile: y[16 rows][fragment]. */
template <int D, int PITCH>
static __device__ __forceinline__ void multiply_means(const uint4 (&part)[MEANS][PITCH], int c,
                                                      const uint32_t (&q)[2][D / 16][4], float (&y)[2][2][4])
{
    const int lane = threadIdx.x % SG_WARP, place = 16 * c + lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int i = 0; i < 16; i++) y[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll
    for (int e = 0; e < D / 16; e++) {
        uint32_t k[4];
        sg_ldmatrix_x4(k, &part[place][(2 * e + lane / 8 % 2) ^ lane % 8]);
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 2; n++) multiply(y[m][n], q[m][e], k[2 * n], k[2 * n + 1]);
    }
}

/* log2 of the sum of 2^(x by), by > 0; NaN if one x is, or is infinity. */
static __device__ __forceinline__ float together(float a, float b, float c, float d, float by)
{
    const float largest = sg_max_nan(sg_max_nan(sg_max_nan(a, b), sg_max_nan(c, d)), -3e38f);
    const float base = fmaf(largest, by, 1.0f); /* the sum is in [1/2, 2] */
    float       y;
    asm("lg2.approx.ftz.f32 %0, %1;"
        : "=f"(y)
        : "f"(sg_exp2(fmaf(a, by, -base)) + sg_exp2(fmaf(b, by, -base)) +
              (sg_exp2(fmaf(c, by, -base)) + sg_exp2(fmaf(d, by, -base)))));
    return base + y;
}

template <int D, bool SUB> static __global__ void __launch_bounds__(STRIP_THREADS, 4) score_logits(score_job j)
{
    extern __shared__ uint4 smem[];
    logits_smem<D>         &s = *(logits_smem<D> *)smem;
    const int               t = threadIdx.x % 4, own = threadIdx.x / SG_WARP * 32 + threadIdx.x % SG_WARP / 4;
    const int64_t           strip = j.first + blockIdx.y, g = strip / j.strips;
    const int64_t           head = (g / (j.h / j.hk) - j.first_k) * j.tiles, from = (int64_t)blockIdx.x * j.stretch;
    const int64_t           last = min((strip % j.strips + 1) * (j.whole / j.per_q), j.nq) - 1; /* block of queries */
    const int64_t           seen = sg_visible(j.rules, last) * j.per_k;                /* means of keys */
    const int64_t           end = min(from + j.stretch, (seen + MEANS - 1) / MEANS);
    float *const            to = j.logits + ((int64_t)blockIdx.y * ROWS + own) * j.stride;
    uint32_t                q[2][D / 16][4];
    float                   q_unit[4];
    if (from >= end) return;
    fetch_tile<D>(j, head + from, s, 0);
    round_queries<D>(j, strip % j.strips * j.whole + own, g, q, q_unit);
    for (int64_t tile = from; tile < end; tile++) {
        const int at = (int)(tile - from) % 2;
        float     all[4][4]; /* row, block of keys */
        sg_cp_async_wait();
        __syncthreads();
        if (tile + 1 < end) fetch_tile<D>(j, head + tile + 1, s, 1 - at);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const float4 unit = *(const float4 *)&s.unit[at][16 * t + 4 * c];
            float        y[2][2][4];
            multiply_means<D>(s.part[at], c, q, y);
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const int   m = r / 2, i = r % 2 * 2;
                const float l[4] = {y[m][0][i] * unit.x, y[m][0][i + 1] * unit.y, y[m][1][i] * unit.z,
                                    y[m][1][i + 1] * unit.w};
                if (SUB)
                    all[r][c] = together(l[0], l[1], l[2], l[3], q_unit[r]);
                else
                    __stcg((float4 *)(to + 8 * r * j.stride + tile * MEANS + 16 * t + 4 * c),
                           make_float4(l[0] * q_unit[r], l[1] * q_unit[r], l[2] * q_unit[r], l[3] * q_unit[r]));
            }
        }
#pragma unroll
        for (int r = 0; SUB && r < 4; r++)
            __stcg((float4 *)(to + 8 * r * j.stride + tile * (MEANS / 4) + 4 * t), sg_four_of(all[r]));
    }
}

/* The same for heads of more than WIDEST channels, one row and block of keys a thread: simple, not fast. */
struct wide_logits {
    score_job       j;
    __device__ void operator()(int64_t at) const
    {
        int64_t       b, own;
        const int64_t line = sg_divide(at, j.nk, &b), strip = j.first + sg_divide(line, ROWS, &own);
        const int64_t g = strip / j.strips, gk = g / (j.h / j.hk), row = strip % j.strips * j.whole + own;
        float         l[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        if (row >= j.rows) return;
        for (int i = 0; i < j.per_k && b * j.per_k + i < j.means; i++) {
            const float *const q = (const float *)j.q.data + (row * j.h + g) * j.d;
            const float *const k = (const float *)j.k.data + ((b * j.per_k + i) * j.hk + gk) * j.d;
            float              sum = 0;
            for (int64_t e = 0; e < j.d; e++) sum += q[e] * j.scale * k[e];
            l[i] = sum;
        }
        j.logits[line * j.stride + b] = j.per_k == 1 ? l[0] : together(l[0], l[1], l[2], l[3], 1.0f);
    }
};

/* ---- shares ---- */

/* Scores one block of queries. First a warp takes a row and finds its largest logit and the sum of its weights, then a
 * thread takes a block of keys. */
static __global__ void __launch_bounds__(SG_THREADS) score_blocks(score_job j)
{
    extern __shared__ uint32_t counts[]; /* a bit per block of keys: it counts. Compilers read four at once */
    __shared__ float           row_max[MOST_ROWS], inverse[MOST_ROWS];
    const int                  warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP, blocks = (int)j.whole / j.per_q;
    const int64_t              strip = j.first + blockIdx.x / blocks, g = strip / j.strips;
    const int64_t              i = strip % j.strips * blocks + blockIdx.x % blocks;
    const int                  rows = (int)min((int64_t)j.per_q, j.rows - i * j.per_q);
    const int                  seen = (int)sg_visible(j.rules, i); /* whose logits are there */
    const float *const         logits =
        j.logits + ((int64_t)(blockIdx.x / blocks) * ROWS + blockIdx.x % blocks * j.per_q) * j.stride;
    const float *const         weight = j.weight ? j.weight + g / (j.h / j.hk) * j.nk : NULL;
    float *const               y = j.y + (g * j.nq + i) * j.nk;
    if (i >= j.nq) return;
    if (sg_q_fixed(j.rules, g, i)) {
        for (int64_t b = threadIdx.x; b < j.nk; b += SG_THREADS) y[b] = 0;
        return;
    }
    for (int64_t word = warp; word * SG_WARP < j.nk; word += WARPS) {
        const int64_t  b = word * SG_WARP + lane;
        const uint32_t bits =
            __ballot_sync(~0u, b < seen && !sg_k_fixed(j.rules, g, b));
        if (lane == 0) counts[word] = bits;
    }
    __syncthreads();
    for (int row = warp; row < rows; row += WARPS) {
        const float4 *const l = (const float4 *)(logits + row * j.stride);
        float               largest = -INFINITY, sum = 0;
#pragma unroll 4
        for (int at = lane; at < (seen + 3) / 4; at += SG_WARP) { /* rows of logits end with whole tiles */
            const float4   x = l[at];
            const uint32_t bits = counts[at / 8] >> at % 8 * 4;
            largest =
                sg_max_nan(sg_max_nan(largest, sg_max_nan(bits & 1 ? x.x : -INFINITY, bits & 2 ? x.y : -INFINITY)),
                           sg_max_nan(bits & 4 ? x.z : -INFINITY, bits & 8 ? x.w : -INFINITY));
        }
        for (int k = 16; k > 0; k /= 2) largest = sg_max_nan(largest, __shfl_xor_sync(~0u, largest, k));
#pragma unroll 4
        for (int at = lane; at < (seen + 3) / 4; at += SG_WARP) {
            const float4   x = l[at];
            const uint32_t bits = counts[at / 8] >> at % 8 * 4;
            sum += (bits & 1 ? sg_exp2(x.x - largest) : 0.0f) + (bits & 2 ? sg_exp2(x.y - largest) : 0.0f) +
                   ((bits & 4 ? sg_exp2(x.z - largest) : 0.0f) + (bits & 8 ? sg_exp2(x.w - largest) : 0.0f));
        }
        sum = sg_lanes_sum(sum);
        if (lane == 0) {
            row_max[row] = largest;
            inverse[row] = 1.0f / sum;
        }
    }
    __syncthreads();
    for (int64_t b = threadIdx.x; b < j.nk; b += SG_THREADS) {
        float all = 0;
        if (counts[b / SG_WARP] >> b % SG_WARP & 1) {
#pragma unroll 8
            for (int row = 0; row < rows; row++) {
                const float share = sg_exp2(logits[row * j.stride + b] - row_max[row]) * inverse[row];
                all += weight ? share * share : share;
            }
        }
        all /= (float)rows;
        y[b] = all == 0 ? 0.0f : weight ? sqrtf(all) * weight[b] : all;
    }
}

/* ---- launchers ---- */

static sg_status block_weights(sg_stream *s, const sg_score_args *a, float *weight)
{
    const int64_t *const of = a->k_var.dim;
    return sg_cuda_launch(s, "score", block_weights_kernel, sg_div_up(of[0] * of[1], WARPS), SG_THREADS, 0,
                          sg_data(a->k_var), sg_data(a->v_var), weight, of[0], of[1], of[2], a->v_var.dim[2]);
}

template <int D> static sg_status launch_logits(sg_stream *s, const score_job &j, int64_t strips)
{
    const dim3 grid(sg_div_up(j.tiles, j.stretch), strips);
    return sg_cuda_launch(s, "score", j.per_k > 1 ? score_logits<D, true> : score_logits<D, false>, grid, STRIP_THREADS,
                          sizeof(logits_smem<D>), j);
}

static sg_status logits(sg_stream *s, const score_job &j, int64_t strips)
{
    if (j.wide == 64) return launch_logits<64>(s, j, strips);
    if (j.wide == 96) return launch_logits<96>(s, j, strips);
    if (j.wide == 128) return launch_logits<128>(s, j, strips);
    const wide_logits f = {j};
    return sg_cuda_each(s, "score", strips * ROWS * j.nk, f);
}

/* Scores `heads` heads of keys from j.first_k on with their heads of queries, some strips at a time. */
static sg_status score_heads(sg_stream *s, score_job &j, int64_t heads, int64_t strips)
{
    const cudaStream_t queue = sg_cuda_of(s)->queue;
    const int64_t      of_k = j.h / j.hk * j.strips, end = (j.first_k + heads) * of_k;
    const dim3         grid(j.tiles, heads);
    if (j.wide) round_keys<<<grid, MEANS / 4 * LANES, 0, queue>>>(j);
    for (j.first = j.first_k * of_k; j.first < end; j.first += strips) {
        const int64_t count = sg_min64(strips, end - j.first);
        SG_TRY(logits(s, j, count));
        score_blocks<<<(count * (j.whole / j.per_q)), SG_THREADS,
                       (size_t)sg_div_up(j.nk, 4 * SG_WARP) * sizeof(uint4), queue>>>(j);
    }
    return sg_cuda_launched(s, "score");
}

static sg_status score(sg_stream *s, const sg_score_args *a)
{
    score_job j = {.rules = sg_block_rules_of(a, a->y.dim[0]), .q = sg_view_of(a->q), .k = sg_view_of(a->k),
                   .k_center = sg_data(a->k_center), .y = sg_data(a->y), .h = a->y.dim[0], .hk = a->k.dim[1],
                   .d = a->q.dim[2], .nq = a->y.dim[1], .nk = a->y.dim[2], .rows = a->q.dim[0], .means = a->k.dim[0],
                   .per_q = a->sub ? (int)sg_q_block(a->q_block) / SG_BLOCK_SUB : 1,
                   .per_k = a->sub ? SG_BLOCK_K / SG_BLOCK_SUB : 1,
                   .scale = a->scale * SG_LOG2_E};
    j.even = j.d % SG_PACK == 0 && j.q.wide;
    j.wide = j.d <= 64 ? 64 : j.d <= 96 ? 96 : j.d <= WIDEST ? WIDEST : 0;
    j.whole = ROWS / j.per_q * j.per_q;
    j.strips = sg_div_up(j.rows, j.whole);
    j.tiles = sg_div_up(j.means, MEANS);
    j.stride = j.tiles * MEANS / j.per_k;
    const int64_t full = FULL * (int64_t)sg_cuda_of(s)->processors; /* blocks of threads that a GPU can use */
    j.stretch = (int)sg_max64(1, sg_min64(STRETCH, j.h * j.strips * j.tiles / full));
    const int64_t weights = a->k_var.rank ? sg_div_up(j.nk * j.hk, SG_PACK) * SG_PACK : 0; /* floats */
    const int64_t head = j.tiles * MEANS * (int64_t)(sizeof(float) + sizeof(__half) * (size_t)j.wide);
    const int64_t heads = sg_max64(1, sg_min64(j.hk, (SG_CUDA_X_BYTES - weights * (int64_t)sizeof(float)) / head));
    const int64_t strip = ROWS * j.stride * (int64_t)sizeof(float);
    const int64_t strips =
        sg_max64(1, sg_min64(sg_min64(heads * (j.h / j.hk) * j.strips, UINT16_MAX), SG_CUDA_SUM_BYTES / strip));
    float *const scratch =
        (float *)sg_cuda_scratch(s, "score", SG_CUDA_X, (size_t)(weights * (int64_t)sizeof(float) + heads * head));
    j.logits = (float *)sg_cuda_scratch(s, "score", SG_CUDA_SUM, (size_t)(strips * strip));
    if (!scratch || !j.logits) return s->status;
    if (j.h > UINT16_MAX) return sg_fail(s, SG_E_UNSUPPORTED, "score: %lld heads; 65535 are the most", (long long)j.h);
    j.weight = weights ? scratch : NULL;
    j.unit = scratch + weights;
    j.part = (uint4 *)(j.unit + heads * j.tiles * MEANS);
    if (!j.wide)
        sg_fallback_count(&sg_cuda_of(s)->fallbacks, "score without tensor cores: heads of more than 128 channels");
    if (weights) SG_TRY(block_weights(s, a, scratch));
    for (j.first_k = 0; j.first_k < j.hk; j.first_k += heads)
        SG_TRY(score_heads(s, j, sg_min64(heads, j.hk - j.first_k), strips));
    return SG_OK;
}

/* ---- tail_bias ---- */

struct tail_job {
    const float *q_mean, *q_var, *k_var;
    float       *y;
    int64_t      nq, nk, h, hk, d;
    float        scale;
    bool         wide; /* four neighbours of y may be written at once */
};

enum { TILE = 64, DEPTH = 32, PITCH = TILE + 4, OWN = 4, PARTS = TILE * DEPTH / SG_THREADS };

/* What a thread reads of DEPTH channels: 4 rows of 8 channels a warp, which are in 32 banks. */
struct tail_part {
    float mean[PARTS], q_var[PARTS], k_var[PARTS];
};

static __device__ __forceinline__ int tail_row(int part)
{
    return 4 * (threadIdx.x / SG_WARP + WARPS * (part % 2)) + threadIdx.x % SG_WARP / 8;
}

static __device__ __forceinline__ int tail_channel(int part) { return 8 * (part / 2) + threadIdx.x % 8; }

/* Of blocks of queries from i on, of keys from b on, of channels from `from` on; 0 where there are none. */
static __device__ __forceinline__ void load_part(const tail_job &j, int64_t i, int64_t b, int64_t from, tail_part &p)
{
    const int64_t g = blockIdx.z, gk = g / (j.h / j.hk);
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        const int64_t at = tail_row(part), c = from + tail_channel(part);
        const int64_t q = ((i + at) * j.h + g) * j.d + c, k = ((b + at) * j.hk + gk) * j.d + c;
        const bool    q_there = c < j.d && i + at < j.nq, k_there = c < j.d && b + at < j.nk;
        p.mean[part] = q_there ? j.q_mean[q] : 0.0f;
        p.q_var[part] = q_there ? j.q_var[q] : 0.0f;
        p.k_var[part] = k_there ? j.k_var[k] : 0.0f;
    }
}

/* TILE x TILE pairs of blocks of one head, OWN x OWN a thread, DEPTH channels at a time in shared memory, while the next
 * are read. */
template <bool RANK1> static __global__ void __launch_bounds__(SG_THREADS) tail_blocks(tail_job j)
{
    __shared__ float4 e_of[DEPTH][PITCH / 4], k_of[DEPTH][PITCH / 4];
    const int         row = threadIdx.x / (TILE / OWN), column = threadIdx.x % (TILE / OWN);
    const int64_t     g = blockIdx.z, i = (int64_t)blockIdx.y * TILE, b = (int64_t)blockIdx.x * TILE;
    float             both[OWN][OWN] = {}, e_all[OWN] = {}, k_all[OWN] = {};
    tail_part         p;
    load_part(j, i, b, 0, p);
    for (int64_t from = 0; from < j.d; from += DEPTH) {
        __syncthreads();
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            ((float *)e_of[tail_channel(part)])[tail_row(part)] = p.q_var[part] + p.mean[part] * p.mean[part];
            ((float *)k_of[tail_channel(part)])[tail_row(part)] = p.k_var[part];
        }
        if (from + DEPTH < j.d) load_part(j, i, b, from + DEPTH, p);
        __syncthreads();
#pragma unroll 8
        for (int c = 0; c < DEPTH; c++) {
            const float4 e4 = e_of[c][row], k4 = k_of[c][column];
            const float  e[OWN] = {e4.x, e4.y, e4.z, e4.w}, k[OWN] = {k4.x, k4.y, k4.z, k4.w};
#pragma unroll
            for (int x = 0; x < OWN; x++) {
                if (RANK1) e_all[x] += e[x], k_all[x] += k[x];
#pragma unroll
                for (int z = 0; z < OWN; z++)
                    if (!RANK1) both[x][z] += e[x] * k[z];
            }
        }
    }
    const float by = j.scale * j.scale;
    for (int x = 0; x < OWN; x++) {
        const int64_t q = i + OWN * row + x, k = b + OWN * column;
        float *const  y = j.y + (g * j.nq + q) * j.nk + k;
        float         bias[OWN];
#pragma unroll
        for (int z = 0; z < OWN; z++) {
            const float c = RANK1 ? by / 2 * e_all[x] * (k_all[z] / (float)j.d) : by / 4 * both[x][z];
            bias[z] = 4.15888308335967186f + (c > 3 ? 3.0f : c); /* NaN stays */
        }
        if (q >= j.nq || k >= j.nk) continue;
        if (j.wide)
            *(float4 *)y = sg_four_of(bias);
        else
            for (int z = 0; z < OWN && k + z < j.nk; z++) y[z] = bias[z];
    }
}

static sg_status tail_bias(sg_stream *s, const sg_tail_bias_args *a)
{
    const tail_job j = {.q_mean = sg_data(a->q_mean), .q_var = sg_data(a->q_var), .k_var = sg_data(a->k_var),
                        .y = sg_data(a->y), .nq = a->y.dim[1], .nk = a->y.dim[2], .h = a->y.dim[0],
                        .hk = a->k_var.dim[1], .d = a->q_mean.dim[2], .scale = a->scale,
                        .wide = a->y.dim[2] % OWN == 0 && sg_cuda_aligned(a->y.data)};
    const dim3 grid(sg_div_up(j.nk, TILE), sg_div_up(j.nq, TILE), j.h);
    if (j.h > UINT16_MAX || grid.y > UINT16_MAX)
        return sg_fail(s, SG_E_UNSUPPORTED, "tail_bias: %lld heads of %lld blocks of queries", (long long)j.h,
                       (long long)j.nq);
    return sg_cuda_launch(s, "tail_bias", a->rule == SG_TAIL_RANK1 ? tail_blocks<true> : tail_blocks<false>, grid,
                          SG_THREADS, 0, j);
}

void sg_cuda_score_init(sg_ops *t)
{
    t->score = score;
    t->tail_bias = tail_bias;
}
