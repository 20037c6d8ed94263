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

static sg_status quantise_f8(sg_stream *s, const sg_quantise_args *a)
{
    transpose_job j;
    j.x = sg_view_of(a->x);
    j.center = a->center.rank ? (const float *)a->center.data : NULL;
    j.scale = (const float *)a->scale.data;
    j.y = (uint8_t *)a->y.data;
    j.n = a->x.dim[0];
    j.h = a->x.dim[1];
    j.d = a->x.dim[2];
    j.row = sg_f8_row(j.n);
    j.wide = (uintptr_t)j.y % 16 == 0;
    if (j.h > UINT16_MAX)
        return sg_fail(s, SG_E_UNSUPPORTED, "quantise: %lld heads; 65535 are the most", (long long)j.h);
    const dim3 grid((unsigned)(j.row / RUN), (unsigned)j.h);
    quantise_transposed<<<grid, (unsigned)sg_min64(sg_div_up(j.d, SG_WARP) * SG_WARP, SG_THREADS), 0,
                          sg_cuda_of(s)->queue>>>(j);
    return sg_cuda_launched(s, "quantise");
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
