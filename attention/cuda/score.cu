/* score.cu - what blocks of keys are expected to matter to blocks of queries, and what their means stand for: score and
 * tail_bias.
 *
 * Logits of means come from cublasLt in F32 (never TF32: which blocks are kept shall not hang on it), some rows of one head
 * at a time so that they stay in the second-level cache, and are softened from there. Roofline: F32 arithmetic of the
 * products, 2 d flops for each pair of means. */
#include "blocks.cuh"

#include <math.h>

enum { LOGIT_BYTES = 32 << 20, WARPS = SG_THREADS / SG_WARP };

/* ---- score ---- */

struct score_job {
    sg_block_rules rules;
    const float   *logits;         /* [rows of a chunk, means] */
    const float   *weight;         /* [nk, hk], or NULL */
    float         *y;              /* [nq, nk] of head g */
    int64_t g, i, rows, means, nk; /* i: the chunk's first block of queries; rows: of means of queries, of all blocks */
    int     hk, per_q, per_k;      /* means of a block */
    float   scale;                 /* times log2 e */
};

/* How wrong a mean stands in for a block of keys: sqrt(mean of k_var, mean of v_var). A warp a block. */
static __global__ void __launch_bounds__(SG_THREADS)
    weigh_blocks(const float *k, const float *v, float *weight, int64_t blocks, int64_t d, int64_t dv)
{
    const int64_t at = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP;
    const int     lane = threadIdx.x % SG_WARP;
    float         a = 0, b = 0;
    if (at >= blocks) return;
    for (int64_t e = lane; e < d; e += SG_WARP) a += k[at * d + e];
    for (int64_t e = lane; e < dv; e += SG_WARP) b += v[at * dv + e];
    a = sg_lanes_sum(a);
    b = sg_lanes_sum(b);
    if (lane == 0) weight[at] = sqrtf(a / (float)d * (b / (float)dv));
}

/* One block of queries: a warp takes a row of means and finds its largest logit and the sum of its weights, then a thread
 * takes a block of keys. */
static __global__ void __launch_bounds__(SG_THREADS) score_blocks(score_job j)
{
    extern __shared__ uint32_t counts[]; /* a bit of each block of keys: it takes part */
    __shared__ float           most[SG_BLOCK_Q / SG_BLOCK_SUB], inverse[SG_BLOCK_Q / SG_BLOCK_SUB];
    const int                  warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP;
    const int64_t              i = j.i + blockIdx.x;
    const int                  rows = (int)min((int64_t)j.per_q, j.rows - i * j.per_q);
    const float *const         logits = j.logits + (int64_t)blockIdx.x * j.per_q * j.means;
    float *const               y = j.y + i * j.nk;
    if (sg_q_fixed(j.rules, j.g, i)) {
        for (int64_t b = threadIdx.x; b < j.nk; b += SG_THREADS) y[b] = 0;
        return;
    }
    for (int64_t word = warp; word * SG_WARP < j.nk; word += WARPS) {
        const int64_t  b = word * SG_WARP + lane;
        const uint32_t bits =
            __ballot_sync(~0u, b < j.nk && sg_in_sight(j.rules, i, b) && !sg_k_fixed(j.rules, j.g, b));
        if (lane == 0) counts[word] = bits;
    }
    __syncthreads();
    for (int row = warp; row < rows; row += WARPS) {
        const float *const l = logits + row * j.means;
        float              top = -INFINITY, sum = 0;
        for (int64_t b = lane; b < j.means; b += SG_WARP)
            if (counts[b / j.per_k / SG_WARP] >> b / j.per_k % SG_WARP & 1) top = sg_most(top, l[b] * j.scale);
        for (int k = 16; k > 0; k /= 2) top = sg_most(top, __shfl_xor_sync(~0u, top, k));
        for (int64_t b = lane; b < j.means; b += SG_WARP)
            if (counts[b / j.per_k / SG_WARP] >> b / j.per_k % SG_WARP & 1) sum += exp2f(l[b] * j.scale - top);
        sum = sg_lanes_sum(sum);
        if (lane == 0) {
            most[row] = top;
            inverse[row] = 1.0f / sum;
        }
    }
    __syncthreads();
    for (int64_t b = threadIdx.x; b < j.nk; b += SG_THREADS) {
        const int64_t end = min((b + 1) * j.per_k, j.means);
        float         all = 0;
        if (counts[b / SG_WARP] >> b % SG_WARP & 1)
            for (int row = 0; row < rows; row++)
                for (int64_t k = b * j.per_k; k < end; k++)
                    all += exp2f(logits[row * j.means + k] * j.scale - most[row]) * inverse[row];
        if (all != 0) all /= (float)rows;
        if (all != 0 && j.weight) all *= j.weight[b * j.hk + j.g / (j.rules.h / j.hk)];
        y[b] = all;
    }
}

static sg_status weigh(sg_stream *s, const sg_score_args *a, score_job *j)
{
    const int64_t blocks = a->k_var.dim[0] * a->k_var.dim[1];
    float *const  weight = (float *)sg_cuda_scratch(s, "score", SG_CUDA_X, (size_t)blocks * sizeof *weight);
    if (!weight) return s->status;
    weigh_blocks<<<(unsigned)sg_div_up(blocks, WARPS), SG_THREADS, 0, sg_cuda_of(s)->queue>>>(
        (const float *)a->k_var.data, (const float *)a->v_var.data, weight, blocks, a->k_var.dim[2], a->v_var.dim[2]);
    j->weight = weight;
    return sg_cuda_launched(s, "score");
}

/* `blocks` of queries of head j->g from j->i on. */
static sg_status score_chunk(sg_stream *s, const sg_score_args *a, const score_job *j, int64_t blocks)
{
    const int64_t h = a->q.dim[1], hk = a->k.dim[1], d = a->q.dim[2], first = j->i * j->per_q;
    sg_gemm       g = {};
    g.y = (void *)j->logits;
    g.x = (const float *)a->q.data + (first * h + j->g) * d;
    g.w = (const float *)a->k.data + j->g / (h / hk) * d;
    g.n = sg_min64(blocks * j->per_q, j->rows - first);
    g.i = d;
    g.o = g.stride = j->means;
    g.x_stride = h * d;
    g.w_stride = hk * d;
    g.type = g.y_type = SG_F32;
    SG_TRY(sg_cuda_gemm(s, "score", &g));
    score_blocks<<<(unsigned)blocks, SG_THREADS, (size_t)sg_div_up(j->nk, SG_WARP) * sizeof(uint32_t),
                   sg_cuda_of(s)->queue>>>(*j);
    return sg_cuda_launched(s, "score");
}

static sg_status score(sg_stream *s, const sg_score_args *a)
{
    const int64_t h = a->y.dim[0], nq = a->y.dim[1];
    score_job     j = {};
    j.rules = sg_block_rules_of(a, h);
    j.rows = a->q.dim[0];
    j.means = a->k.dim[0];
    j.nk = a->y.dim[2];
    j.hk = (int)a->k.dim[1];
    j.per_q = a->sub ? SG_BLOCK_Q / SG_BLOCK_SUB : 1;
    j.per_k = a->sub ? SG_BLOCK_K / SG_BLOCK_SUB : 1;
    j.scale = a->scale * SG_LOG2_E;
    const int64_t block_bytes = j.per_q * j.means * (int64_t)sizeof(float);
    const int64_t chunk = sg_min64(nq, sg_max64(1, LOGIT_BYTES / block_bytes));
    j.logits = (const float *)sg_cuda_scratch(s, "score", SG_CUDA_SUM, (size_t)(chunk * block_bytes));
    if (!j.logits) return s->status;
    if (a->k_var.rank) SG_TRY(weigh(s, a, &j));
    for (j.g = 0; j.g < h; j.g++) {
        j.y = (float *)a->y.data + j.g * nq * j.nk;
        for (j.i = 0; j.i < nq; j.i += chunk) SG_TRY(score_chunk(s, a, &j, sg_min64(chunk, nq - j.i)));
    }
    return SG_OK;
}

/* ---- tail_bias ---- */

struct tail_job {
    const float *q_mean, *q_var, *k_var;
    float       *y;
    int64_t      nq, nk, h, hk, d;
    float        scale;
    bool         rank1;
};

/* One block of queries of one head: e in shared memory, a warp a block of keys. */
static __global__ void __launch_bounds__(SG_THREADS) tail_blocks(tail_job j)
{
    extern __shared__ float e[];
    const int               warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP;
    const int64_t           i = blockIdx.x, g = blockIdx.y, gk = g / (j.h / j.hk), at = (i * j.h + g) * j.d;
    const float             by = j.scale * j.scale;
    for (int64_t c = threadIdx.x; c < j.d; c += SG_THREADS)
        e[c] = j.q_var[at + c] + j.q_mean[at + c] * j.q_mean[at + c];
    __syncthreads();
    for (int64_t b = warp; b < j.nk; b += WARPS) {
        float both = 0, all = 0, k_all = 0;
        for (int64_t c = lane; c < j.d; c += SG_WARP) {
            const float k = j.k_var[(b * j.hk + gk) * j.d + c];
            both += e[c] * k;
            all += e[c];
            k_all += k;
        }
        both = sg_lanes_sum(both);
        all = sg_lanes_sum(all);
        k_all = sg_lanes_sum(k_all);
        const float c = j.rank1 ? by / 2 * all * (k_all / (float)j.d) : by / 4 * both;
        if (lane == 0) j.y[(g * j.nq + i) * j.nk + b] = 4.15888308335967186f + (c > 3 ? 3.0f : c); /* NaN stays */
    }
}

static sg_status tail_bias(sg_stream *s, const sg_tail_bias_args *a)
{
    tail_job j;
    j.q_mean = (const float *)a->q_mean.data;
    j.q_var = (const float *)a->q_var.data;
    j.k_var = (const float *)a->k_var.data;
    j.y = (float *)a->y.data;
    j.h = a->y.dim[0];
    j.nq = a->y.dim[1];
    j.nk = a->y.dim[2];
    j.hk = a->k_var.dim[1];
    j.d = a->q_mean.dim[2];
    j.scale = a->scale;
    j.rank1 = a->rule == SG_TAIL_RANK1;
    if (j.h > UINT16_MAX || j.d > 8192)
        return sg_fail(s, SG_E_UNSUPPORTED, "tail_bias: %lld heads of %lld channels; 65535 of 8192 are the most",
                       (long long)j.h, (long long)j.d);
    const dim3 grid((unsigned)j.nq, (unsigned)j.h);
    tail_blocks<<<grid, SG_THREADS, (size_t)j.d * sizeof(float), sg_cuda_of(s)->queue>>>(j);
    return sg_cuda_launched(s, "tail_bias");
}

void sg_cuda_score_init(sg_ops *t)
{
    t->score = score;
    t->tail_bias = tail_bias;
}
