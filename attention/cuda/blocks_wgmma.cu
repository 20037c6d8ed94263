/* blocks_wgmma.cu - attend_blocks by wgmma, compiled for 9.0a alone: what is made ready before blocks_wgmma.cuh's kernel, and
 * its launch. */
#include "blocks_order.cuh"
#include "blocks_wgmma.cuh"

#include <atomic>

/* ---- before the kernel ---- */

/* Means of values as BF16, and whether one of them is not finite. */
static __global__ void __launch_bounds__(SG_THREADS)
    ready_means(const float *means, uint16_t *tail_v, int64_t numbers, uint32_t *state)
{
    const int64_t step = (int64_t)gridDim.x * SG_THREADS;
    bool          nonfinite = false;
    for (int64_t i = (int64_t)blockIdx.x * SG_THREADS + threadIdx.x; i < numbers; i += step) {
        const uint32_t x = sg_pack_bf16x2(means[i], 0.0f);
        nonfinite = nonfinite || (x & 0x7f80) == 0x7f80;
        tail_v[i] = (uint16_t)x;
    }
    if (nonfinite) atomicOr(&state[NONFINITE], 1u);
}

/* Whether a value, of `packs` times eight as BF16, is not finite. */
static __global__ void __launch_bounds__(SG_THREADS) find_non_finite(const uint4 *v, int64_t packs, uint32_t *state)
{
    const int64_t step = (int64_t)gridDim.x * SG_THREADS;
    bool          nonfinite = false;
    for (int64_t i = (int64_t)blockIdx.x * SG_THREADS + threadIdx.x; i < packs; i += step) {
        const uint4    x = __ldg(v + i);
        const uint32_t two[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int k = 0; k < 4; k++)
            nonfinite = nonfinite || (two[k] & 0x7f80) == 0x7f80 || (two[k] & 0x7f800000) == 0x7f800000;
    }
    if (nonfinite) atomicOr(&state[NONFINITE_VALUE], 1u);
}

/* ---- launching ---- */

typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                           const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                           CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function; NULL where it has none. Threads that ask at the same time get the same. */
static encode_fn *encoder(void)
{
    static std::atomic<void *>      found;
    cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSymbolNotFound;
    void                           *p = found.load();
    if (p) return (encode_fn *)p;
#if CUDART_VERSION >= 12050
    const cudaError_t e =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &p, 12000, cudaEnableDefault, &how);
#else
    const cudaError_t e = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &p, cudaEnableDefault, &how);
#endif
    cudaGetLastError();
    if (e != cudaSuccess || how != cudaDriverEntryPointSuccess) return NULL;
    found.store(p);
    return (encode_fn *)p;
}

/* A tensor of three dimensions, the innermost dense, in boxes whose rows are `swizzle` bytes. */
struct box {
    const void *data;
    int64_t     dim[3], stride[2]; /* bytes, of dimensions 1 and 2 */
    int         size[3], bytes;    /* of a number */
};

static sg_status encode(sg_stream *s, CUtensorMap *map, const box &b)
{
    const cuuint64_t dim[3] = {(cuuint64_t)b.dim[0], (cuuint64_t)b.dim[1], (cuuint64_t)b.dim[2]};
    const cuuint64_t stride[2] = {(cuuint64_t)b.stride[0], (cuuint64_t)b.stride[1]};
    const cuuint32_t size[3] = {(cuuint32_t)b.size[0], (cuuint32_t)b.size[1], (cuuint32_t)b.size[2]},
                     one[3] = {1, 1, 1};
    const CUresult failed =
        encoder()(map, b.bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 3,
                  (void *)b.data, dim, stride, size, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  b.size[0] * b.bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return failed ? sg_fail(s, SG_E_DEVICE,
                            "attend_blocks: the driver makes no tensor map of [%lld, %lld, %lld]: error %d",
                            (long long)b.dim[2], (long long)b.dim[1], (long long)b.dim[0], (int)failed)
                  : SG_OK;
}

/* `rows` rows of I8 of each of h heads. */
static box rows_box(const void *data, int64_t h, int64_t rows, int64_t d, int width, int count)
{
    return {data, {d, rows, h}, {d, rows * d}, {width, count, 1}, 1};
}

/* Values of `tokens` tokens. */
static box values_box(const void *data, const blocks_job &j, int64_t tokens, int channels)
{
    const int64_t row = sg_f8_row(tokens), d = j.d, hk = j.hk;
    if (j.v_type == SG_F8) return {data, {row, d, hk}, {row, d * row}, {SG_BLOCK_K, channels, 1}, 1};
    return {data, {d, hk, tokens}, {2 * d, 2 * d * hk}, {64, 1, SG_BLOCK_K}, 2};
}

template <int DK, bool F8, int GROUPS, bool CAUSAL> static sg_status launch(sg_stream *s, const hopper_job &p)
{
    const unsigned blocks = sg_min64(sg_cuda_of(s)->processors, (int64_t)p.b.nq * p.b.h);
    return sg_cuda_launch(s, "attend_blocks", attend_blocks_wgmma<DK, F8, GROUPS, CAUSAL>, blocks,
                          hopper_shape<DK, F8, GROUPS>::THREADS, sizeof(hopper_smem<DK, F8, GROUPS>), p);
}

template <int DK> static sg_status launch_for(sg_stream *s, const hopper_job &p, bool three)
{
    const bool f8 = p.b.v_type == SG_F8;
    if (three) return f8 ? launch<DK, true, 3, false>(s, p) : launch<DK, false, 3, false>(s, p);
    if (p.b.causal) return f8 ? launch<DK, true, 2, true>(s, p) : launch<DK, false, 2, true>(s, p);
    return f8 ? launch<DK, true, 2, false>(s, p) : launch<DK, false, 2, false>(s, p);
}

/* What this kernel does not serve, for people; NULL: it serves a. */
static const char *refusal(const sg_cuda *c, const sg_attend_blocks_args *a, const blocks_job &j)
{
#define BY "attend_blocks by mma.sync, not wgmma: "
    if (j.pv_threshold) return BY "a PV filter";
    if (j.d > 128 || j.d % 16) return BY "heads not of 16, 32 .. 128 channels";
    if (j.v_type != SG_F8 && (j.v_type != SG_BF16 || (j.tail_k && a->tail_v.dtype != SG_F32)))
        return BY "values neither BF16 nor F8";
    if (!j.wide_k || !j.wide_v || ((uintptr_t)j.v_scale | (uintptr_t)j.v_center) % 8)
        return BY "tensors at odd addresses";
    if (j.scale < 0 || j.n == 0 || j.m == 0 || (int64_t)j.nq * j.h > INT32_MAX / 64 || j.m >= INT32_MAX / 2 ||
        j.n >= INT32_MAX / 2 || j.h > UINT16_MAX)
        return BY "a negative scale, no tokens, or too many";
    if (c->smem_max < 227 * 1024 || !encoder()) return BY "no tensor maps, or too little shared memory";
    return NULL;
#undef BY
}

static sg_status encode_maps(sg_stream *s, hopper_job &p, int channels, int rows)
{
    const blocks_job &j = p.b;
    const int         width = channels == 64 ? 64 : 128;
    SG_TRY(encode(s, &p.q_map, rows_box(j.q, j.h, j.n, j.d, width, rows)));
    SG_TRY(encode(s, &p.k_map, rows_box(j.k, j.hk, j.m, j.d, width, SG_BLOCK_K)));
    SG_TRY(encode(s, &p.v_map, values_box(j.v, j, j.m, channels)));
    if (!j.tail_k) return SG_OK;
    SG_TRY(encode(s, &p.tail_k_map, rows_box(j.tail_k, j.hk, j.nk, j.d, width, SG_BLOCK_K)));
    return encode(s, &p.tail_v_map, values_box(j.v_type == SG_F8 ? j.tail_v : p.tail_v, j, j.nk, channels));
}

/* A row that sees some keys of a tile would have NaN of the others' values that are not finite. Where there are any, the rows
 * are computed again by the kernel that takes account of it. */
static sg_status attend_non_finite(sg_stream *s, const hopper_job &p)
{
    const blocks_job &j = p.b;
    const int64_t     packs = j.m * j.hk * j.d / SG_PACK;
    SG_TRY(sg_cuda_launch(s, "attend_blocks", find_non_finite, sg_cuda_blocks(s, packs), SG_THREADS, 0,
                          (const uint4 *)j.v, packs, p.state));
    return sg_cuda_attend_job_sm80(s, j, p.state + NONFINITE_VALUE);
}

static sg_status attend_wgmma(sg_stream *s, hopper_job &p)
{
    blocks_job &j = p.b;
    const bool  f8 = j.v_type == SG_F8, three = !j.causal && (!j.list || j.q_block > SG_BLOCK_Q);
    if (three) j.nq = (int)sg_div_up(j.n, hopper_shape<128, true, 3>::ROWS); /* without a list any rows share all tiles */
    const int     channels = j.d <= 64 ? 64 : j.d <= 96 ? 96 : 128;
    const int64_t rows = (int64_t)j.nq * j.h, numbers = j.tail_k && !f8 ? (int64_t)j.nk * j.hk * j.d : 0;
    const size_t  means = (size_t)sg_div_up(numbers * 2, 256) * 256, marks = j.tail_k ? marks_bytes(j) : 0;
    char *const   scratch = (char *)sg_cuda_scratch(s, "attend_blocks", SG_CUDA_X,
                                                    256 + means + marks + (size_t)rows * 2 * sizeof *j.order);
    if (!scratch) return s->status;
    p.state = (uint32_t *)scratch;
    p.tail_v = (uint16_t *)(scratch + 256);
    j.kept = (uint64_t *)(scratch + 256 + means);
    SG_TRY(encode_maps(s, p, channels, three ? hopper_shape<128, true, 3>::ROWS : SG_BLOCK_Q));
    if (j.tail_k) SG_TRY(mark_job(s, j));
    SG_TRY(sg_cuda_check(s, "attend_blocks", cudaMemsetAsync(p.state, 0, 256, sg_cuda_of(s)->queue)));
    if (numbers)
        SG_TRY(sg_cuda_launch(s, "attend_blocks", ready_means, sg_cuda_blocks(s, numbers), SG_THREADS, 0,
                              (const float *)j.tail_v, (uint16_t *)(scratch + 256), numbers, p.state));
    SG_TRY(order_job(s, &j, 1, (int *)(scratch + 256 + means + marks)));
    SG_TRY(channels == 64   ? launch_for<64>(s, p, three)
           : channels == 96 ? launch_for<96>(s, p, three)
                            : launch_for<128>(s, p, three));
    return j.causal && !f8 ? attend_non_finite(s, p) : SG_OK;
}

static sg_status attend_blocks(sg_stream *s, const sg_attend_blocks_args *a)
{
    hopper_job p = {};
    p.b = job_of(a);
    const char *const why = refusal(sg_cuda_of(s), a, p.b);
    if (!why) return attend_wgmma(s, p);
    if (p.b.q_block != SG_BLOCK_Q) return sg_fail(s, SG_E_UNSUPPORTED, "%s, of blocks of %d queries", why, p.b.q_block);
    if (p.b.d <= MMA_CHANNELS) sg_fallback_count(&sg_cuda_of(s)->fallbacks, why); /* else the next level tells more */
    return sg_cuda_attend_sm89(s, a);
}

void sg_cuda_wgmma_init(sg_ops *t) { t->attend_blocks = attend_blocks; }
