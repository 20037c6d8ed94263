/* blocks_wgmma.cu - attend_blocks by wgmma, compiled for 9.0a alone: what is made ready before blocks_wgmma.cuh's kernel, and
 * its launch. */
#include "blocks_wgmma.cuh"

enum { CLASSES = 32, ORDER_THREADS = 1024 };

/* ---- before the kernel ---- */

/* Means of values as BF16, and whether one of them is not finite; the order of the rows. */
struct ready_job {
    const int   *listed; /* NULL: all rows have as many blocks */
    uint32_t    *state;
    const float *means;
    uint16_t    *tail_v;
    int64_t      numbers; /* of means */
    int          rows, nk;
};

static __global__ void __launch_bounds__(SG_THREADS) ready_means(ready_job j)
{
    const int64_t step = (int64_t)gridDim.x * SG_THREADS;
    bool          nonfinite = false;
    for (int64_t i = (int64_t)blockIdx.x * SG_THREADS + threadIdx.x; i < j.numbers; i += step) {
        const uint32_t x = sg_pack_bf16x2(j.means[i], 0.0f);
        nonfinite = nonfinite || (x & 0x7f80) == 0x7f80;
        j.tail_v[i] = (uint16_t)x;
    }
    if (nonfinite) atomicOr(&j.state[NONFINITE], 1u);
}

/* The rows in the order in which they are to begin: by classes of count, long ones first. */
static __global__ void __launch_bounds__(ORDER_THREADS) ready_order(ready_job j)
{
    __shared__ uint32_t place[CLASSES];
    const uint32_t      all = (uint32_t)j.nk + 1;
    if (threadIdx.x < CLASSES) place[threadIdx.x] = 0;
    __syncthreads();
    for (int pass = 0; pass < 2; pass++) {
        for (int at = threadIdx.x; at < (j.rows + ORDER_THREADS - 1) / ORDER_THREADS * ORDER_THREADS;
             at += ORDER_THREADS) {
            const bool     there = at < j.rows;
            const uint32_t size = !there     ? CLASSES
                                  : j.listed ? CLASSES - 1 - (uint32_t)j.listed[at] * CLASSES / all
                                             : 0;
            const unsigned same = __match_any_sync(~0u, size);
            const int      lane = threadIdx.x % SG_WARP, first = __ffs((int)same) - 1;
            uint32_t       from = 0;
            if (there && lane == first) from = atomicAdd(&place[size], (uint32_t)__popc(same));
            from = __shfl_sync(~0u, from, first);
            if (there && pass) j.state[ORDER + from + __popc(same & ((1u << lane) - 1))] = (uint32_t)at;
        }
        __syncthreads();
        if (!pass && threadIdx.x == 0) {
            uint32_t sum = 0;
            for (int c = 0; c < CLASSES; c++) {
                const uint32_t own = place[c];
                place[c] = sum;
                sum += own;
            }
        }
        __syncthreads();
    }
}

/* ---- launching ---- */

typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                           const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                           CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static encode_fn *encoder(void)
{
    static encode_fn               *f;
    static bool                     asked;
    cudaDriverEntryPointQueryResult found;
    void                           *p = NULL;
    if (asked) return f;
    asked = true;
#if CUDART_VERSION >= 12050
    const cudaError_t e =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &p, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t e = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &p, cudaEnableDefault, &found);
#endif
    if (e == cudaSuccess && found == cudaDriverEntryPointSuccess) f = (encode_fn *)p;
    cudaGetLastError();
    return f;
}

/* A tensor of three dimensions, the innermost dense, in boxes whose rows are `swizzle` bytes. */
struct box {
    const void *data;
    int64_t     dim[3], stride[2]; /* bytes, of dimensions 1 and 2 */
    int         size[3], bytes;    /* of a number */
};

static bool encode(CUtensorMap *map, const box &b)
{
    const cuuint64_t dim[3] = {(cuuint64_t)b.dim[0], (cuuint64_t)b.dim[1], (cuuint64_t)b.dim[2]};
    const cuuint64_t stride[2] = {(cuuint64_t)b.stride[0], (cuuint64_t)b.stride[1]};
    const cuuint32_t size[3] = {(cuuint32_t)b.size[0], (cuuint32_t)b.size[1], (cuuint32_t)b.size[2]},
                     one[3] = {1, 1, 1};
    encode_fn *const f = encoder();
    return f && f(map, b.bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 3,
                  (void *)b.data, dim, stride, size, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  b.size[0] * b.bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* `rows` rows of I8 of each of h heads. */
static box rows_box(const void *data, int64_t h, int64_t rows, int64_t d, int width, int count)
{
    return {data, {d, rows, h}, {d, rows * d}, {width, count, 1}, 1};
}

/* Values of `tokens` tokens. */
static box values_box(const void *data, const blocks_job &j, int64_t tokens, int width)
{
    const int64_t row = sg_f8_row(tokens), d = j.d, hk = j.hk;
    if (j.v_type == SG_F8) return {data, {row, d, hk}, {row, d * row}, {SG_BLOCK_K, width, 1}, 1};
    return {data, {d, hk, tokens}, {2 * d, 2 * d * hk}, {64, 1, SG_BLOCK_K}, 2};
}

template <int DK, bool F8, int GROUPS = 2> static sg_status launch(sg_stream *s, const hopper_job &p)
{
    const sg_cuda *const c = sg_cuda_of(s);
    const size_t         bytes = sizeof(hopper_smem<DK, F8, GROUPS>);
    const auto           kernel = attend_blocks_wgmma<DK, F8, GROUPS>;
    const unsigned       blocks = (unsigned)sg_min64(c->processors, (int64_t)p.b.nq * p.b.h);
    SG_TRY(sg_cuda_check(s, "attend_blocks",
                         cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes)));
    kernel<<<blocks, hopper_shape<DK, F8, GROUPS>::THREADS, bytes, c->queue>>>(p);
    return sg_cuda_launched(s, "attend_blocks");
}

static bool serves(const sg_cuda *c, const sg_attend_blocks_args *a, const blocks_job &j)
{
    const bool tail = j.tail_k != NULL;
    return !j.pv_threshold && !j.causal && j.scale >= 0 && j.n > 0 && j.m > 0 && j.d <= 128 && j.d % 16 == 0 &&
           j.wide_k && j.wide_v && (uintptr_t)j.y.data % 8 == 0 &&
           ((uintptr_t)j.v_scale | (uintptr_t)j.v_center) % 8 == 0 &&
           (j.v_type == SG_F8 || (j.v_type == SG_BF16 && (!tail || a->tail_v.dtype == SG_F32))) &&
           (int64_t)j.nq * j.h <= INT32_MAX / 64 && j.m < INT32_MAX / 2 && j.n < INT32_MAX / 2 &&
           c->smem_max >= 227 * 1024;
}

bool sg_cuda_attend_wgmma(sg_stream *s, const sg_attend_blocks_args *a, sg_status *status)
{
    const sg_cuda *const c = sg_cuda_of(s);
    hopper_job           p = {};
    p.b = job_of(a);
    const blocks_job &j = p.b;
    if (!serves(c, a, j)) return false;
    const bool f8 = j.v_type == SG_F8, means = j.tail_k && !f8, three = f8 && !j.list, /* any rows share all tiles */
        marks = j.list && j.tail_k;
    if (three) p.b.nq = (int)sg_div_up(j.n, hopper_shape<128, true, 3>::ROWS);
    const int     width = j.d <= 64 ? 64 : 128;
    const int64_t rows = (int64_t)j.nq * j.h, numbers = means ? (int64_t)j.nk * j.hk * j.d : 0;
    const size_t  state = (size_t)sg_div_up((ORDER + rows) * 4, 256) * 256;
    const size_t  means_bytes = (size_t)sg_div_up(numbers * 2, 256) * 256;
    p.state =
        (uint32_t *)sg_cuda_scratch(s, "attend_blocks", SG_CUDA_X, state + means_bytes + (marks ? marks_bytes(j) : 0));
    if (!p.state) return *status = s->status, true;
    if (marks) p.b.kept = (uint64_t *)((char *)p.state + state + means_bytes);
    ready_job r = {j.list ? j.listed : NULL,
                   p.state,
                   (const float *)j.tail_v,
                   (uint16_t *)((char *)p.state + state),
                   numbers,
                   (int)rows,
                   j.nk};
    p.tail_v = r.tail_v;
    if (!encode(&p.q_map, rows_box(j.q, j.h, j.n, j.d, width, three ? hopper_shape<128, true, 3>::ROWS : SG_BLOCK_Q)) ||
        !encode(&p.k_map, rows_box(j.k, j.hk, j.m, j.d, width, SG_BLOCK_K)) ||
        !encode(&p.v_map, values_box(j.v, j, j.m, width)))
        return false;
    if (j.tail_k && (!encode(&p.tail_k_map, rows_box(j.tail_k, j.hk, j.nk, j.d, width, SG_BLOCK_K)) ||
                     !encode(&p.tail_v_map, values_box(f8 ? j.tail_v : p.tail_v, j, j.nk, width))))
        return false;
    if (marks && (*status = mark_job(s, j))) return true;
    *status = sg_cuda_check(s, "attend_blocks", cudaMemsetAsync(p.state, 0, ORDER * sizeof *p.state, c->queue));
    if (*status) return true;
    if (numbers) ready_means<<<sg_cuda_blocks(s, numbers), SG_THREADS, 0, c->queue>>>(r);
    ready_order<<<1, ORDER_THREADS, 0, c->queue>>>(r);
    *status = sg_cuda_launched(s, "attend_blocks");
    if (*status) return true;
    if (three)
        *status = width == 64 ? launch<64, true, 3>(s, p) : launch<128, true, 3>(s, p);
    else
        *status = width == 64 ? (f8 ? launch<64, true>(s, p) : launch<64, false>(s, p))
                              : (f8 ? launch<128, true>(s, p) : launch<128, false>(s, p));
    return true;
}

static sg_status attend_blocks(sg_stream *s, const sg_attend_blocks_args *a)
{
    sg_status status;
    return sg_cuda_attend_wgmma(s, a, &status) ? status : sg_cuda_attend_sm89(s, a);
}

void sg_cuda_wgmma_init(sg_ops *t) { t->attend_blocks = attend_blocks; }
