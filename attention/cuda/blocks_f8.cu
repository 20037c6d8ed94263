/* blocks_f8.cu - values as F8. The file is compiled for compute capability 8.9 and up only. quantise transposes and
 * permutes values; attend_blocks uses them. */
#include "blocks_mma.cuh"

enum { RUN = 32 }; /* tokens of a channel that a thread writes: one sector */

struct transpose_job {
    sg_view      x;
    const float *center, *scale;
    uint8_t     *y;
    int64_t      n, h, d, row;
    bool         wide;
};

/* Lanes take neighbouring channels, so that loads are coalesced. Each lane writes RUN tokens. */
static __global__ void __launch_bounds__(SG_THREADS) quantise_transposed(transpose_job j)
{
    const int64_t first = (int64_t)blockIdx.x * RUN, g = blockIdx.y;
    for (int64_t e = threadIdx.x; e < j.d; e += blockDim.x) {
        const int64_t  c = g * j.d + e;
        const float    scale = j.scale[c], inverse = scale < 0x1p-126f ? 0.0f : 1.0f / scale; /* finite */
        const float    center = j.center ? j.center[c] : 0.0f;
        uint32_t       four[RUN / 4];
        uint8_t *const to = j.y + c * j.row + first;
#pragma unroll
        for (int i = 0; i < RUN / 4; i++) {
            float v[4];
#pragma unroll
            for (int l = 0; l < 4; l++) {
                const int64_t t = first + i / 4 * 16 + i % 4 * 2 + l / 2 * 8 + l % 2; /* at sg_f8_position 4 i + l */
                v[l] = t < j.n ? __fmul_rn(sg_get(j.x, (t * j.h + g) * j.d + e) - center, inverse) : 0.0f;
            }
            four[i] = sg_pack_f8x4(v[0], v[1], v[2], v[3]);
        }
        if (j.wide) {
#pragma unroll
            for (int i = 0; i < RUN / 16; i++)
                ((uint4 *)to)[i] = make_uint4(four[4 * i], four[4 * i + 1], four[4 * i + 2], four[4 * i + 3]);
        } else {
#pragma unroll
            for (int i = 0; i < RUN; i++) to[i] = (uint8_t)(four[i / 4] >> i % 4 * 8);
        }
    }
}

/* N neighbouring numbers of an aligned array. */
template <int N> static __device__ __forceinline__ void load_floats(const float *from, float (&to)[N])
{
#pragma unroll
    for (int k = 0; k < N; k += 4) sg_take_apart(__ldg((const float4 *)(from + k)), to + k);
}

/* The same of heads in pieces of 16 bytes: a block of keys' tokens of one head by way of shared memory, so that rows are read
 * and written whole. A thread makes of four tokens' pieces four bytes of each channel. A warp has 4 words of 8 pieces, and 16
 * bytes of padding behind each piece's channels, so that its words are in 32 banks.
 *
 * Roofline: bandwidth. A thread has 64 bytes in flight, an SM of four CTAs 64 KB. */
template <bool BF16> static __global__ void __launch_bounds__(SG_THREADS, 4) quantise_tile(transpose_job j)
{
    extern __shared__ uint4 smem[];
    enum { N = sg_numbers<BF16>, WORDS = SG_BLOCK_K / 4, PITCH = N * WORDS + 4 /* of a piece */ };
    uint32_t *const words = (uint32_t *)smem;
    const int       packs = (int)j.d / N, g = (int)(blockIdx.x % (unsigned)j.h);
    const int64_t   first = blockIdx.x / (unsigned)j.h * (int64_t)SG_BLOCK_K, row = j.h * j.d;
    const int       rows = (int)min((int64_t)SG_BLOCK_K, j.n - first);
    for (int at = threadIdx.x; at < packs * WORDS; at += blockDim.x) {
        const int     pack = at / 4 % packs, word = at / 4 / packs * 4 + at % 4;
        const int     t = word / 4 * 16 + word % 4 * 2; /* four tokens from t on, at sg_f8_position 4 word */
        const int64_t c = g * j.d + pack * N, from = (first + t) * row + c;
        uint4         x[4];
        uint32_t      there = 0; /* bytes of tokens that are */
        float         scale[N], center[N] = {};
#pragma unroll
        for (int l = 0; l < 4; l++) {
            const int more = l / 2 * 8 + l % 2;
            x[l] = make_uint4(0, 0, 0, 0);
            if (t + more < rows) x[l] = sg_load_16<BF16>(j.x, from + more * row), there |= 0xffu << 8 * l;
        }
        load_floats(j.scale + c, scale);
        if (j.center) load_floats(j.center + c, center);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float inverse = scale[k] < 0x1p-126f ? 0.0f : __frcp_rn(scale[k]); /* finite */
            float       v[4];
#pragma unroll
            for (int l = 0; l < 4; l++) v[l] = __fmul_rn(sg_number_of<BF16>(x[l], k) - center[k], inverse);
            words[pack * PITCH + k * WORDS + word] = sg_pack_f8x4(v[0], v[1], v[2], v[3]) & there;
        }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < j.d * (WORDS / 4); at += blockDim.x) {
        const int c = at / (WORDS / 4), part = at % (WORDS / 4);
        *(uint4 *)(j.y + (g * j.d + c) * j.row + first + part * 16) = smem[(c / N * PITCH + c % N * WORDS) / 4 + part];
    }
}

static sg_status quantise_f8(sg_stream *s, const sg_quantise_args *a)
{
    const transpose_job j = {sg_view_of(a->x), sg_data(a->center), sg_data(a->scale), sg_data(a->y), a->x.dim[0],
                             a->x.dim[1], a->x.dim[2], sg_f8_row(a->x.dim[0]), sg_cuda_aligned(a->y.data)};
    const int64_t blocks = sg_div_up(j.n, SG_BLOCK_K) * j.h;
    const int64_t packs = j.d / (j.x.bf16 ? sg_numbers<true> : sg_numbers<false>);
    const size_t  bytes = (size_t)(j.d * SG_BLOCK_K + packs * 16);
    if (j.wide && sg_in_pieces(j.x, j.d) && sg_cuda_aligned(j.scale) && sg_cuda_aligned(j.center) &&
        bytes <= (47 << 10) && blocks <= INT32_MAX)
        return sg_cuda_launch(s, "quantise", j.x.bf16 ? quantise_tile<true> : quantise_tile<false>, blocks,
                              (int)sg_min64(packs * (SG_BLOCK_K / 4), SG_THREADS), bytes, j);
    if (j.h > UINT16_MAX)
        return sg_fail(s, SG_E_UNSUPPORTED, "quantise: %lld heads; 65535 are the most", (long long)j.h);
    const dim3 grid((j.row / RUN), j.h);
    return sg_cuda_launch(s, "quantise", quantise_transposed, grid,
                          (int)sg_min64(sg_div_up(j.d, SG_WARP) * SG_WARP, SG_THREADS), 0, j);
}

static sg_status quantise(sg_stream *s, const sg_quantise_args *a)
{
    return a->y.dtype == SG_F8 ? quantise_f8(s, a) : sg_cuda_quantise_sm80(s, a);
}

sg_status sg_cuda_attend_sm89(sg_stream *s, const sg_attend_blocks_args *a)
{
    return a->v.dtype == SG_F8 ? attend_blocks_as<true>(s, a) : sg_cuda_attend_sm80(s, a);
}

void sg_cuda_f8_init(sg_ops *t)
{
    t->quantise = quantise;
    t->attend_blocks = sg_cuda_attend_sm89;
}
