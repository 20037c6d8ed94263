/* attend_mma.cu - dense BF16 attention on tensor cores (mma.sync, compute capability 8.0 and up), online softmax in
 * F32.
 *
 *     y = softmax(scale q k^T + bias + key_bias) v, per head
 *
 * Tiles: a CTA owns QUERIES = 128 rows of one head, 16 for each of its eight warps, and loops over the keys, KEYS at a
 * time. D is d rounded up to 64, 128 or 256; shared memory has zeros beyond d, n and m. Fragments of mma.m16n8k16: lane
 * l holds rows l/4 and l/4 + 8, columns 2 (l%4) and 2 (l%4) + 1 of every 8. So a score tile has the layout of the left
 * operand of p v. Weights are rounded to BF16 for p v, and summed unrounded.
 *
 * Shared memory: q [QUERIES][D + 8], k and v [KEYS][D + 8], BF16; the 8 keep ldmatrix free of bank conflicts.
 * Schedule, a step of KEYS keys: v(t) is loaded while q k(t)^T runs, k(t + 1) while p v(t) runs.
 *   barrier 1: k(t) has arrived; all warps are done with v(t - 1)     -> load v(t)
 *   barrier 2: v(t) has arrived; all warps are done with k(t)         -> load k(t + 1)
 * Roofline: tensor cores; 128 rows share a tile of k and v, 128 FLOP a byte from the L2 cache. */
#include "mma.cuh"

#include <math.h>

enum { QUERIES = 128, PAD = SG_VALUE_PAD };

struct mma_job {
    uint16_t       *y;
    const uint16_t *q, *k, *v;
    const float    *bias, *key_bias;
    int64_t         n, m, h, d;
    float           scale; /* times log2 e: weights are powers of two */
    bool            wide;  /* rows may be copied 16 bytes at a time */
};

template <int D, int KEYS> struct mma_smem {
    uint16_t q[QUERIES][D + PAD], k[KEYS][D + PAD], v[KEYS][D + PAD];
};

/* ---- the kernel's steps ---- */

/* Rows [first, first + ROWS) of head g. */
template <int D, int ROWS>
static __device__ void load_rows(const mma_job &j, const uint16_t *from, int64_t rows, int64_t first, int64_t g,
                                 uint16_t (&to)[ROWS][D + PAD])
{
    constexpr int CHUNKS = D / 8;
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += SG_THREADS) {
        const int     row = i / CHUNKS, e = i % CHUNKS * 8;
        const bool    there = first + row < rows;
        const int64_t at = there ? ((first + row) * j.h + g) * j.d + e : 0;
        if (j.wide)
            sg_cp_async_16(&to[row][e], from + (e < j.d ? at : 0), there && e < j.d);
        else
            for (int l = 0; l < 8; l++) to[row][e + l] = there && e + l < j.d ? from[at + l] : (uint16_t)0;
    }
    sg_cp_async_commit();
}

/* s = q k^T for the warp's 16 rows. */
template <int D, int KEYS>
static __device__ void score_tile(const mma_smem<D, KEYS> &smem, int warp, int lane, float (&s)[KEYS / 8][4])
{
#pragma unroll
    for (int c = 0; c < KEYS / 8; c++)
        for (int i = 0; i < 4; i++) s[c][i] = 0;
#pragma unroll
    for (int e = 0; e < D; e += 16) {
        uint32_t a[4], b[4];
        sg_ldmatrix_x4(a, &smem.q[warp * 16 + lane % 16][e + lane / 16 * 8]);
#pragma unroll
        for (int c = 0; c < KEYS / 8; c += 2) {
            sg_ldmatrix_x4(b, &smem.k[c * 8 + lane / 16 * 8 + lane % 8][e + lane / 8 % 2 * 8]);
            sg_mma_bf16(s[c], a, b[0], b[1]);
            sg_mma_bf16(s[c + 1], a, b[2], b[3]);
        }
    }
}

/* Scores in powers of two, with biases; -INFINITY beyond m. Lane's rows are row and row + 8. */
template <int KEYS>
static __device__ void bias_tile(const mma_job &j, int64_t g, int64_t row, int64_t key, int lane,
                                 float (&s)[KEYS / 8][4])
{
    const bool plain = !j.bias && !j.key_bias && key + KEYS <= j.m;
#pragma unroll
    for (int c = 0; c < KEYS / 8; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[c][i] *= j.scale;
            if (plain) continue;
            const int64_t to = key + c * 8 + lane % 4 * 2 + i % 2, at = row + i / 2 * 8;
            if (to >= j.m) {
                s[c][i] = -INFINITY;
            } else if (at < j.n) {
                if (j.key_bias) s[c][i] += j.key_bias[to] * SG_LOG2_E;
                if (j.bias) s[c][i] += j.bias[(g * j.n + at) * j.m + to] * SG_LOG2_E;
            }
        }
}

template <int D>
static __device__ void store_tile(const mma_job &j, int64_t g, int64_t row, int lane, const float (&o)[D / 8][4],
                                  float (&sum)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] = sg_lanes_sum<4>(sum[r]);
        const int64_t at = row + r * 8;
        if (at >= j.n) continue;
        const float     by = 1.0f / sum[r];
        uint16_t *const y = j.y + (at * j.h + g) * j.d;
#pragma unroll
        for (int c = 0; c < D / 8; c++) {
            const int      e = c * 8 + lane % 4 * 2;
            const uint32_t two = sum[r] == 0.0f ? 0 : sg_pack_bf16x2(o[c][2 * r] * by, o[c][2 * r + 1] * by);
            if (j.wide && e < j.d) {
                *(uint32_t *)(y + e) = two;
            } else {
                if (e < j.d) y[e] = (uint16_t)two;
                if (e + 1 < j.d) y[e + 1] = (uint16_t)(two >> 16);
            }
        }
    }
}

/* Two CTAs an SM where registers allow it: one computes while the other waits for loads. */
template <int D, int KEYS>
static __global__ void __launch_bounds__(SG_THREADS, D <= 128 ? 2 : 1) attend_mma(mma_job j)
{
    extern __shared__ __align__(16) unsigned char bytes[];
    mma_smem<D, KEYS>                            &smem = *(mma_smem<D, KEYS> *)bytes;
    const int                                     warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP;
    const int64_t first = (int64_t)blockIdx.x * QUERIES, g = blockIdx.y, row = first + warp * 16 + lane / 4;
    float         o[D / 8][4] = {}, row_max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    load_rows<D>(j, j.q, j.n, first, g, smem.q);
    load_rows<D>(j, j.k, j.m, 0, g, smem.k);
    for (int64_t key = 0; key < j.m; key += KEYS) {
        float s[KEYS / 8][4], rescale[2];
        sg_cp_async_wait();
        __syncthreads();
        load_rows<D>(j, j.v, j.m, key, g, smem.v);
        score_tile<D, KEYS>(smem, warp, lane, s);
        bias_tile<KEYS>(j, g, row, key, lane, s);
        sg_softmax_update<KEYS>(s, row_max, sum, rescale);
        sg_rescale<D>(o, rescale);
        sg_cp_async_wait();
        __syncthreads();
        if (key + KEYS < j.m) load_rows<D>(j, j.k, j.m, key + KEYS, g, smem.k);
        sg_mma_pv<D, KEYS>(smem.v, lane, s, o);
    }
    store_tile<D>(j, g, row, lane, o, sum);
}

/* ---- launchers ---- */

template <int D, int KEYS> static bool launch(sg_stream *s, const mma_job &j, sg_status *status)
{
    const size_t bytes = sizeof(mma_smem<D, KEYS>);
    const dim3   grid(sg_div_up(j.n, QUERIES), j.h);
    if (bytes > sg_cuda_of(s)->smem_max) return false;
    *status = sg_cuda_launch(s, "attend", attend_mma<D, KEYS>, grid, SG_THREADS, bytes, j);
    return true;
}

bool sg_cuda_attend_mma(sg_stream *s, const sg_attend_args *a, sg_status *status)
{
    if (a->q.dtype != SG_BF16 || a->q.dim[2] > 256 || a->q.dim[1] > UINT16_MAX) return false;
    const mma_job j = {.y = sg_data(a->y), .q = sg_data(a->q), .k = sg_data(a->k), .v = sg_data(a->v),
                       .bias = sg_data(a->bias), .key_bias = sg_data(a->key_bias), .n = a->q.dim[0], .m = a->k.dim[0],
                       .h = a->q.dim[1], .d = a->q.dim[2], .scale = a->scale * SG_LOG2_E,
                       .wide = a->q.dim[2] % 8 == 0 && sg_cuda_attend_aligned(a)};
    if (j.d <= 64) return launch<64, 64>(s, j, status);
    if (j.d <= 128) return launch<128, 32>(s, j, status);
    return launch<256, 32>(s, j, status);
}
