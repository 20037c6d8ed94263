/* blocks.cuh - what the CUDA kernels of sparse attention share: which blocks are fixed and which in sight, as op.h says; and
 * what values as F8 take. */
#ifndef SG_BLOCKS_CUH
#define SG_BLOCKS_CUH

#include "mma.cuh"

struct sg_block_rules {
    const float *q_alike, *k_alike, *theta; /* NULL, or [nq, h] [nk, hk] [h] */
    int64_t      n, m, front, back;
    int          h, hk;
    bool         ragged, causal;
};

template <typename A> static inline sg_block_rules sg_block_rules_of(const A *a, int64_t h)
{
    sg_block_rules r;
    r.q_alike = (const float *)a->q_alike.data;
    r.k_alike = (const float *)a->k_alike.data;
    r.theta = a->theta.rank ? (const float *)a->theta.data : NULL;
    r.n = a->n;
    r.m = a->m;
    r.front = a->front;
    r.back = a->back;
    r.h = (int)h;
    r.hk = a->theta.rank ? (int)a->k_alike.dim[1] : 1;
    r.ragged = a->ragged;
    r.causal = a->causal;
    return r;
}

/* Of `tokens`, block i holds text, or is not full and should be. */
static __device__ __forceinline__ bool sg_block_edge(const sg_block_rules &r, int64_t i, int size, int64_t tokens,
                                                     bool ragged)
{
    const int64_t end = ragged ? min((i + 1) * size, tokens) : (i + 1) * size;
    return i * size < r.front || end > tokens - r.back;
}

static __device__ __forceinline__ bool sg_q_fixed(const sg_block_rules &r, int64_t g, int64_t i)
{
    return sg_block_edge(r, i, SG_BLOCK_Q, r.n, r.ragged) || (r.theta && !(r.q_alike[i * r.h + g] > r.theta[g]));
}

static __device__ __forceinline__ bool sg_k_fixed(const sg_block_rules &r, int64_t g, int64_t j)
{
    return sg_block_edge(r, j, SG_BLOCK_K, r.m, false) ||
           (r.theta && !(r.k_alike[j * r.hk + g / (r.h / r.hk)] > r.theta[g]));
}

static __device__ __forceinline__ bool sg_in_sight(const sg_block_rules &r, int64_t i, int64_t j)
{
    return !r.causal || j * SG_BLOCK_K < min((i + 1) * SG_BLOCK_Q, r.n);
}

/* Entries of the levels, which those above fall back to: pool.cu, blocks_mma.cu, blocks_f8.cu. */
sg_status sg_cuda_quantise_sm80(sg_stream *s, const sg_quantise_args *a);
sg_status sg_cuda_attend_sm80(sg_stream *s, const sg_attend_blocks_args *a);
sg_status sg_cuda_attend_sm89(sg_stream *s, const sg_attend_blocks_args *a);

static inline sg_status sg_cuda_no_f8(sg_stream *s, const char *op)
{
    return sg_fail(s, SG_E_UNSUPPORTED, "%s: FP8 values want level sm89", op);
}

/* blocks_wgmma.cu: runs attend_blocks as level sm90 does and tells in *status how that went. False: not for that kernel. */
bool sg_cuda_attend_wgmma(sg_stream *s, const sg_attend_blocks_args *a, sg_status *status);

#endif
