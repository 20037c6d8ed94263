/* attend_short.cu - dense BF16 attention to few keys, such as a text's, on tensor cores (mma.sync, compute capability
 * 8.0 and up).
 *
 *     y = softmax(scale q k^T + key_bias) v, per head
 *
 * All keys and values of a head are in shared memory. The tiles of all heads, ROWS = 16 queries each, are distributed
 * evenly over the CTAs, consecutive ones to each. A CTA's warps take its tiles in turn and synchronise only where a
 * head begins. Queries go from memory to registers and y from registers to memory, 16 bytes a lane; the four lanes of a
 * row are contiguous.
 *
 * Fragments: q k^T may sum over d in any order. So for columns 2 (l%4).. and 2 (l%4) + 8.. of two mma, lane l takes the
 * eight numbers of q and of k from 32 s + 8 (l%4) on. The columns of p v may have any order. So v's are permuted such
 * that lane l has those eight columns of y in its fragments of four neighbouring tiles: column 8 r + 2 t + u of 32 at 8
 * t + 2 r + u.
 *
 * Shared memory: k [keys][KEY], v [keys][D + 8], BF16, and the bias of each key, keys rounded up to KEYS; the
 * padding keeps reads free of bank conflicts. 384 keys of 128 fit into a Hopper's 227 KB.
 * Roofline: memory, q and y once, up to some hundred keys; then tensor cores. */
#include "mma.cuh"

enum { ROWS = 16, MAX_KEYS = 1024 }; /* MOST: more keys fit nowhere */

struct short_job {
    uint16_t       *y;
    const uint16_t *q, *k, *v;
    const float    *key_bias;
    int64_t         n, h;
    int             m, keys; /* keys: m rounded up */
    float           scale;   /* times log2 e: weights are powers of two */
};

template <int D> struct short_smem {
    enum { KEY = D % 64 ? D : D + 32 }; /* numbers of a key's row */
    uint16_t (*k)[KEY], (*v)[D + SG_VALUE_PAD];
    float *bias; /* times log2 e */
};

/* ---- the kernel's steps ---- */

/* Zeros beyond m: they count with weight 0. */
template <int D> static __device__ void load_head(const short_job &j, int64_t g, const short_smem<D> &smem)
{
    constexpr int CHUNKS = D / 8;
    for (int i = threadIdx.x; i < j.keys * CHUNKS; i += blockDim.x) {
        const int       row = i / CHUNKS, e = i % CHUNKS * 8;
        const int64_t at = (row * j.h + g) * D + e;
        const bool    there = row < j.m;
        const uint4   k = there ? *(const uint4 *)(j.k + at) : make_uint4(0, 0, 0, 0);
        const uint4   v = there ? *(const uint4 *)(j.v + at) : make_uint4(0, 0, 0, 0);
        uint32_t *const to = (uint32_t *)&smem.v[row][e / 32 * 32 + e % 32 / 4];
        *(uint4 *)&smem.k[row][e] = k;
        to[0] = v.x, to[4] = v.y, to[8] = v.z, to[12] = v.w;
    }
    for (int i = threadIdx.x; i < j.m; i += blockDim.x) smem.bias[i] = j.key_bias ? j.key_bias[i] * SG_LOG2_E : 0.0f;
}

/* Loads a lane's parts of two rows, 8 apart. The first starts at `at` in q; `left` rows exist from it on. Zeros for
 * missing rows. */
template <int D>
static __device__ __forceinline__ void load_queries(const short_job &j, int64_t at, int64_t left, uint4 (&q)[D / 32][2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint4 *const from = (const uint4 *)(j.q + at + r * 8 * j.h * D);
#pragma unroll
        for (int s = 0; s < D / 32; s++) q[s][r] = left > 8 * r ? __ldcg(from + s * 4) : make_uint4(0, 0, 0, 0);
    }
}

/* s = q k^T, in powers of two and with the bias, for the KEYS keys from `key` on; -INFINITY beyond m. */
template <int D, int KEYS>
static __device__ __forceinline__ void score_keys(const short_job &j, const short_smem<D> &smem, int key, int lane,
                                                  const uint4 (&q)[D / 32][2], float (&s)[KEYS / 8][4])
{
#pragma unroll
    for (int c = 0; c < KEYS / 8; c++)
        for (int i = 0; i < 4; i++) s[c][i] = 0;
#pragma unroll
    for (int e = 0; e < D / 32; e++) {
        const uint32_t a[2][4] = {{q[e][0].x, q[e][1].x, q[e][0].y, q[e][1].y},
                                  {q[e][0].z, q[e][1].z, q[e][0].w, q[e][1].w}};
#pragma unroll
        for (int c = 0; c < KEYS / 8; c++) {
            const uint4 b = *(const uint4 *)&smem.k[key + c * 8 + lane / 4][e * 32 + lane % 4 * 8];
            sg_mma_bf16(s[c], a[0], b.x, b.y);
            sg_mma_bf16(s[c], a[1], b.z, b.w);
        }
    }
#pragma unroll
    for (int c = 0; c < KEYS / 8; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = key + c * 8 + lane % 4 * 2 + i % 2;
            s[c][i] = at < j.m ? s[c][i] * j.scale + smem.bias[at] : -INFINITY;
        }
}

template <int D>
static __device__ __forceinline__ void store_rows(const short_job &j, int64_t at, int64_t left,
                                                  const float (&o)[D / 8][4], const float (&sum)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float     all = sg_lanes_sum<4>(sum[r]), by = all == 0.0f ? 0.0f : 1.0f / all;
        uint16_t *const y = j.y + at + r * 8 * j.h * D;
        if (left <= 8 * r) continue;
#pragma unroll
        for (int c = 0; c < D / 8; c += 4) {
            uint32_t two[4];
#pragma unroll
            for (int t = 0; t < 4; t++) two[t] = sg_pack_bf16x2(o[c + t][2 * r] * by, o[c + t][2 * r + 1] * by);
            *(uint4 *)(y + c * 8) = make_uint4(two[0], two[1], two[2], two[3]);
        }
    }
}

/* ONE: there are at most KEYS keys. */
template <int D, int KEYS, int WARPS, bool ONE>
static __global__ void __launch_bounds__(WARPS *SG_WARP, 1) attend_short(short_job j)
{
    extern __shared__ __align__(16) unsigned char bytes[];
    short_smem<D>                                 smem;
    smem.k = (uint16_t(*)[short_smem<D>::KEY]) bytes;
    smem.v = (uint16_t(*)[D + SG_VALUE_PAD])(smem.k + j.keys);
    smem.bias = (float *)(smem.v + j.keys);
    const int     warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP;
    const int64_t tiles = (j.n + ROWS - 1) / ROWS, all = tiles * j.h, last = all * (blockIdx.x + 1) / gridDim.x;
    for (int64_t first = all * blockIdx.x / gridDim.x, end; first < last; first = end) {
        const int64_t g = first / tiles;
        end = min(last, (g + 1) * tiles);
        __syncthreads();
        load_head<D>(j, g, smem);
        __syncthreads();
        const int64_t row = (first + warp - g * tiles) * ROWS + lane / 4, step = WARPS * ROWS;
        int64_t       at = (row * j.h + g) * D + lane % 4 * 8, left = j.n - row;
        for (int64_t t = first + warp; t < end; t += WARPS, at += step * j.h * D, left -= step) {
            float o[D / 8][4] = {}, row_max[2] = {-INFINITY, -INFINITY}, sum[2] = {}, rescale[2];
            uint4 q[D / 32][2];
            load_queries<D>(j, at, left, q);
            for (int key = 0; key < (ONE ? KEYS : j.keys); key += KEYS) {
                float s[KEYS / 8][4];
                score_keys<D, KEYS>(j, smem, key, lane, q, s);
                sg_softmax_update<KEYS>(s, row_max, sum, rescale);
                if (!ONE) sg_rescale<D>(o, rescale);
                sg_mma_pv<D, KEYS>(smem.v + key, lane, s, o);
            }
            store_rows<D>(j, at, left, o, sum);
        }
    }
}

/* ---- launchers ---- */

template <int D, int KEYS, int WARPS, bool ONE> static bool launch(sg_stream *s, short_job j, sg_status *status)
{
    const sg_cuda *const c = sg_cuda_of(s);
    const size_t         width = sizeof(uint16_t[short_smem<D>::KEY + D + SG_VALUE_PAD]) + sizeof(float);
    const int64_t        tiles = sg_div_up(j.n, ROWS) * j.h;
    j.keys = (int)sg_div_up(j.m, KEYS) * KEYS;
    const size_t bytes = (size_t)j.keys * width;
    if (bytes > c->smem_max) return false;
    const unsigned blocks = sg_min64(c->processors, sg_div_up(tiles, WARPS));
    *status = sg_cuda_launch(s, "attend", attend_short<D, KEYS, WARPS, ONE>, blocks, WARPS * SG_WARP, bytes, j);
    return true;
}

template <int D> static bool launch_for(sg_stream *s, const short_job &j, sg_status *status)
{
    return j.m <= 16 ? launch<D, 16, 16, true>(s, j, status) : launch<D, 32, 12, false>(s, j, status);
}

bool sg_cuda_attend_short(sg_stream *s, const sg_attend_args *a, sg_status *status)
{
    const int64_t m = a->k.dim[0], d = a->q.dim[2];
    if (a->q.dtype != SG_BF16 || a->bias.rank || a->causal || a->k.dim[1] != a->q.dim[1] ||
        (d != 64 && d != 96 && d != 128) || m < 1 || m > MAX_KEYS || !sg_cuda_attend_aligned(a))
        return false;
    const short_job j = {.y = sg_data(a->y), .q = sg_data(a->q), .k = sg_data(a->k), .v = sg_data(a->v),
                         .key_bias = sg_data(a->key_bias), .n = a->q.dim[0], .h = a->q.dim[1], .m = (int)m,
                         .scale = a->scale * SG_LOG2_E};
    if (d == 96) return launch_for<96>(s, j, status);
    return d == 64 ? launch_for<64>(s, j, status) : launch_for<128>(s, j, status);
}
