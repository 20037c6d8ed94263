/* blocks.cuh - shared by the CUDA kernels of sparse attention: which blocks are fixed and which visible, as op.h
 * defines, and the entry points of F8 and wgmma. */
#ifndef SG_BLOCKS_CUH
#define SG_BLOCKS_CUH

#include "mma.cuh"

struct sg_block_rules {
    const float *q_similarity, *k_similarity, *theta; /* NULL, or [nq, h] [nk, hk] [h] */
    int64_t      n, m, text_prefix, text_suffix;
    int          h, hk;
    bool         ragged, causal;
    int          q_block;
};

template <typename A> static inline sg_block_rules sg_block_rules_of(const A *a, int64_t h)
{
    return {sg_data(a->q_similarity), sg_data(a->k_similarity), sg_data(a->theta), a->n, a->m, a->text_prefix,
            a->text_suffix, (int)h, a->theta.rank ? (int)a->k_similarity.dim[1] : 1, a->ragged, a->causal,
            (int)sg_q_block(a->q_block)};
}

/* Block i of `tokens` has text, or is partial where that makes it fixed. */
static __device__ __forceinline__ bool sg_block_text_or_ragged(const sg_block_rules &r, int64_t i, int size,
                                                               int64_t tokens, bool ragged)
{
    const int64_t end = ragged ? min((i + 1) * size, tokens) : (i + 1) * size;
    return i * size < r.text_prefix || end > tokens - r.text_suffix;
}

static __device__ __forceinline__ bool sg_q_fixed(const sg_block_rules &r, int64_t g, int64_t i)
{
    return sg_block_text_or_ragged(r, i, r.q_block, r.n, r.ragged) ||
           (r.theta && !(r.q_similarity[i * r.h + g] > r.theta[g]));
}

static __device__ __forceinline__ bool sg_k_fixed(const sg_block_rules &r, int64_t g, int64_t j)
{
    return sg_block_text_or_ragged(r, j, SG_BLOCK_K, r.m, false) ||
           (r.theta && !(r.k_similarity[j * r.hk + g / (r.h / r.hk)] > r.theta[g]));
}

/* How many blocks of keys block i of queries sees, the first ones. */
static __device__ __forceinline__ int64_t sg_visible(const sg_block_rules &r, int64_t i)
{
    return sg_visible_blocks(r.causal, i, r.n, r.m);
}

/* ---- 16 bytes of a row ---- */

template <bool BF16> constexpr int sg_numbers = BF16 ? 8 : 4;

template <bool BF16> static __device__ __forceinline__ float sg_number_of(const uint4 &x, int i)
{
    const uint32_t part[4] = {x.x, x.y, x.z, x.w};
    if (!BF16) return __uint_as_float(part[i]);
    return i % 2 ? __uint_as_float(part[i / 2] & 0xffff0000u) : sg_bf16_to_float(part[i / 2]);
}

/* 16 bytes of x from number i on, a multiple of sg_numbers<BF16>. */
template <bool BF16> static __device__ __forceinline__ uint4 sg_load_16(const sg_view &x, int64_t i)
{
    return __ldg((const uint4 *)x.data + i / sg_numbers<BF16>);
}

/* Whether rows of d channels can be read in such pieces. */
static inline bool sg_in_pieces(const sg_view &x, int64_t d) { return x.wide && d % (x.bf16 ? 8 : 4) == 0; }

/* Entries of the levels, which those above fall back to: pool.cu, blocks_mma.cu, blocks_f8.cu. */
sg_status sg_cuda_quantise_sm80(sg_stream *s, const sg_quantise_args *a);
sg_status sg_cuda_attend_sm80(sg_stream *s, const sg_attend_blocks_args *a);
sg_status sg_cuda_attend_sm89(sg_stream *s, const sg_attend_blocks_args *a);

static inline sg_status sg_cuda_no_f8(sg_stream *s, const char *op)
{
    return sg_fail(s, SG_E_UNSUPPORTED, "%s: FP8 values want level sm89", op);
}

#endif
