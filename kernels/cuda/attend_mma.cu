/* attend_mma.cu - dense BF16 attention on tensor cores (mma.sync, compute capability 8.0 and up), online softmax in
 * F32.
 *
 *     y = softmax(scale q k^T + bias + key_bias) v, per head
 *
 * Heads that share their keys are one: row r of a head of keys is query r / group of its head r % group. So a tile of keys
 * serves `group` heads. With causal, keys that no row of a CTA sees are not loaded, and CTAs with most keys begin first. A
 * value that a row does not see must be finite: its weight is 0.
 *
 * Tiles: a CTA owns QUERIES = 128 such rows, 16 for each of its eight warps, and loops over the keys, KEYS at a time. D is
 * d rounded up to 64, 128 or 256; shared memory has zeros beyond d, n and m. Fragments of mma.m16n8k16: lane
 * l holds rows l/4 and l/4 + 8, columns 2 (l%4) and 2 (l%4) + 1 of every 8. So a score tile has the layout of the left
 * operand of p v. Weights are rounded to BF16 for p v, and summed unrounded.
 *
 * Shared memory: q [QUERIES][D + 8], k and v [KEYS][D + 8], BF16; the 8 keep ldmatrix free of bank conflicts.
 * Schedule, a step of KEYS keys: v(t) is loaded while q k(t)^T runs, k(t + 1) while p v(t) runs.
 *   barrier 1: k(t) has arrived; all warps are done with v(t - 1)     -> load v(t)
 *   barrier 2: v(t) has arrived; all warps are done with k(t)         -> load k(t + 1)
 * Where one CTA has all rows of a head of keys, as with a single query, the keys are split among CTAs, which store what they
 * have summed; combine_splits puts that together.
 * Roofline: tensor cores; 128 rows share a tile of k and v, 128 FLOP a byte from the L2 cache. */
#include "mma.cuh"

#include <math.h>

enum { QUERIES = 128, PAD = SG_VALUE_PAD };

struct mma_job {
    uint16_t       *y;
    const uint16_t *q, *k, *v;
    const float    *bias, *key_bias;
    float          *part; /* [splits, n, h, d + 2]: sums, their base and the sum of weights; NULL: one CTA has all keys */
    int64_t         n, m, h, hk, d;
    unsigned        group; /* h / hk */
    float           scale; /* times log2 e: weights are powers of two */
    bool            wide;  /* rows may be copied 16 bytes at a time */
    bool            causal;
};

template <int D, int KEYS> struct mma_smem {
    uint16_t q[QUERIES][D + PAD], k[KEYS][D + PAD], v[KEYS][D + PAD];
};

/* ---- the kernel's steps ---- */

/* Where row r of queries of head of keys g begins, in q and y. */
static __device__ __forceinline__ int64_t query_at(const mma_job &j, int64_t g, unsigned r)
{
    return ((int64_t)(r / j.group) * j.h + g * j.group + r % j.group) * j.d;
}

/* How many keys that row sees. */
static __device__ __forceinline__ int64_t seen_by(const mma_job &j, unsigned r)
{
    return j.causal ? min((int64_t)(r / j.group) + j.m - j.n + 1, j.m) : j.m;
}

/* Rows [first, first + ROWS) of `rows`; row_at(r): where row r begins. */
template <int D, int ROWS, typename F>
static __device__ void load_rows(const mma_job &j, const uint16_t *from, int64_t rows, int64_t first, F row_at,
                                 uint16_t (&to)[ROWS][D + PAD])
{
    constexpr int CHUNKS = D / 8;
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += SG_THREADS) {
        const int     row = i / CHUNKS, e = i % CHUNKS * 8;
        const bool    there = first + row < rows;
        const int64_t at = there ? row_at(first + row) + e : 0;
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

/* Scores in powers of two, with biases; -INFINITY for keys that are not seen. Lane's rows are row and row + 8; all rows see
 * the first `all` keys. */
template <int KEYS>
static __device__ void bias_tile(const mma_job &j, int64_t g, unsigned row, int64_t key, int64_t all, int lane,
                                 float (&s)[KEYS / 8][4])
{
    const bool plain = !j.bias && !j.key_bias && key + KEYS <= all;
    int64_t    seen[2];
    if (!plain) seen[0] = seen_by(j, row), seen[1] = seen_by(j, row + 8);
#pragma unroll
    for (int c = 0; c < KEYS / 8; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[c][i] *= j.scale;
            if (plain) continue;
            const int64_t  to = key + c * 8 + lane % 4 * 2 + i % 2;
            const unsigned r = row + i / 2 * 8, query = r / j.group;
            if (to >= seen[i / 2]) {
                s[c][i] = -INFINITY;
            } else if (query < j.n) {
                if (j.key_bias) s[c][i] += j.key_bias[to] * SG_LOG2_E;
                if (j.bias) s[c][i] += j.bias[((g * j.group + r % j.group) * j.n + query) * j.m + to] * SG_LOG2_E;
            }
        }
}

template <int D>
static __device__ void store_tile(const mma_job &j, int64_t g, unsigned row, int lane, const float (&o)[D / 8][4],
                                  float (&sum)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] = sg_lanes_sum<4>(sum[r]);
        const unsigned at = row + r * 8;
        if (at >= j.n * j.group) continue;
        const float     by = 1.0f / sum[r];
        uint16_t *const y = j.y + query_at(j, g, at);
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

/* What a split of the keys has summed. */
template <int D>
static __device__ void store_part(const mma_job &j, int64_t g, unsigned row, int lane, const float (&o)[D / 8][4],
                                  const float (&row_max)[2], const float (&sum)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const unsigned at = row + r * 8;
        const float    all = sg_lanes_sum<4>(sum[r]);
        if (at >= j.n * j.group) continue;
        float *const to = j.part + (blockIdx.z * j.n * j.h + query_at(j, g, at) / j.d) * (j.d + 2);
#pragma unroll
        for (int c = 0; c < D / 8; c++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int e = c * 8 + lane % 4 * 2 + i;
                if (e < j.d) to[e] = o[c][2 * r + i];
            }
        if (lane % 4 == 0) to[j.d] = row_max[r], to[j.d + 1] = all;
    }
}

/* y of what all splits have summed. A row without a key is 0; NaN reaches the sum. */
struct combine_splits {
    uint16_t       *y;
    const float    *part;
    int64_t         rows, d; /* queries of all heads */
    int             splits;
    __device__ void operator()(int64_t at) const
    {
        int64_t            e;
        const int64_t      row = sg_divide(at, d, &e), step = rows * (d + 2);
        const float *const from = part + row * (d + 2);
        float              base = -INFINITY, sum = 0, o = 0;
        for (int i = 0; i < splits; i++) base = fmaxf(base, from[i * step + d]);
        if (base == -INFINITY) base = 0;
        for (int i = 0; i < splits; i++) {
            const float by = sg_exp2(from[i * step + d] - base);
            sum += by * from[i * step + d + 1];
            o += by * from[i * step + e];
        }
        y[at] = (uint16_t)sg_pack_bf16x2(sum == 0.0f ? 0.0f : o / sum, 0.0f);
    }
};

/* Two CTAs an SM where registers allow it: one computes while the other waits for loads. */
template <int D, int KEYS>
static __global__ void __launch_bounds__(SG_THREADS, D <= 128 ? 2 : 1) attend_mma(mma_job j)
{
    extern __shared__ __align__(16) unsigned char bytes[];
    mma_smem<D, KEYS>                            &smem = *(mma_smem<D, KEYS> *)bytes;
    const int                                     warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP;
    const unsigned first = (j.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * QUERIES, rows = j.n * j.group;
    const unsigned row = first + warp * 16 + lane / 4;
    const int64_t  stretch = (j.m / KEYS / gridDim.z + 1) * KEYS, from = blockIdx.z * stretch; /* of this split's keys */
    const int64_t  g = blockIdx.y, all = seen_by(j, first);
    const int64_t  end = min(seen_by(j, min(first + QUERIES, rows) - 1), from + stretch);
    const auto     key_at = [&](int64_t r) { return (r * j.hk + g) * j.d; };
    float          o[D / 8][4] = {}, row_max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    load_rows<D>(
        j, j.q, rows, first, [&](int64_t r) { return query_at(j, g, (unsigned)r); }, smem.q);
    load_rows<D>(j, j.k, j.m, from, key_at, smem.k);
    for (int64_t key = from; key < end; key += KEYS) {
        float s[KEYS / 8][4], rescale[2];
        sg_cp_async_wait();
        __syncthreads();
        load_rows<D>(j, j.v, j.m, key, key_at, smem.v);
        score_tile<D, KEYS>(smem, warp, lane, s);
        bias_tile<KEYS>(j, g, row, key, all, lane, s);
        sg_softmax_update<KEYS>(s, row_max, sum, rescale);
        sg_rescale<D>(o, rescale);
        sg_cp_async_wait();
        __syncthreads();
        if (key + KEYS < end) load_rows<D>(j, j.k, j.m, key + KEYS, key_at, smem.k);
        sg_mma_pv<D, KEYS>(smem.v, lane, s, o);
    }
    sg_cp_async_wait(); /* for a split without a key */
    if (j.part)
        store_part<D>(j, g, row, lane, o, row_max, sum);
    else
        store_tile<D>(j, g, row, lane, o, sum);
}

/* ---- launchers ---- */

/* Among how many CTAs the keys of a head are split: so many that each SM has two, each with LEAST keys or more. */
static int64_t splits_of(const sg_cuda *c, const mma_job &j)
{
    enum { LEAST = 512 };
    const int64_t most = SG_CUDA_SUM_BYTES / (int64_t)sizeof(float) / (j.n * j.h * (j.d + 2));
    if (j.n * j.group > QUERIES) return 1;
    return sg_max64(1, sg_min64(most, sg_min64(2 * c->processors / j.hk, j.m / LEAST)));
}

template <int D, int KEYS> static bool launch(sg_stream *s, mma_job j, sg_status *status)
{
    const size_t  bytes = sizeof(mma_smem<D, KEYS>);
    const int64_t splits = splits_of(sg_cuda_of(s), j), rows = j.n * j.h;
    const dim3    grid(sg_div_up(j.n * j.group, QUERIES), j.hk, splits);
    if (bytes > sg_cuda_of(s)->smem_max) return false;
    const size_t  part = (size_t)(splits * rows * (j.d + 2)) * sizeof *j.part;
    if (splits > 1) j.part = (float *)sg_cuda_scratch(s, "attend", SG_CUDA_SUM, part);
    *status = s->status;
    if (!*status) *status = sg_cuda_launch(s, "attend", attend_mma<D, KEYS>, grid, SG_THREADS, bytes, j);
    if (*status || splits == 1) return true;
    const combine_splits f = {j.y, j.part, rows, j.d, (int)splits};
    *status = sg_cuda_each(s, "attend", rows * j.d, f);
    return true;
}

bool sg_cuda_attend_mma(sg_stream *s, const sg_attend_args *a, sg_status *status)
{
    const int64_t n = a->q.dim[0], h = a->q.dim[1], hk = a->k.dim[1];
    if (a->q.dtype != SG_BF16 || a->q.dim[2] > 256 || hk > UINT16_MAX || n > INT32_MAX / (h / hk)) return false;
    const mma_job j = {.y = sg_data(a->y), .q = sg_data(a->q), .k = sg_data(a->k), .v = sg_data(a->v),
                       .bias = sg_data(a->bias), .key_bias = sg_data(a->key_bias), .n = n, .m = a->k.dim[0], .h = h,
                       .hk = hk, .d = a->q.dim[2], .group = (unsigned)(h / hk), .scale = a->scale * SG_LOG2_E,
                       .wide = a->q.dim[2] % 8 == 0 && sg_cuda_attend_aligned(a), .causal = a->causal};
    if (j.d <= 64) return launch<64, 64>(s, j, status);
    if (j.d <= 128) return launch<128, 32>(s, j, status);
    return launch<256, 32>(s, j, status);
}
