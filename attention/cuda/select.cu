/* select.cu - selects the blocks of keys that each block of queries keeps, by the rules of op.h, without host reads.
 *
 * TOPK needs only the lowest score that a row, (head, block of queries), takes. A warp holds the row in registers, as
 * integers with the order of floats and NaN last, finds that score bit by bit, by counting, and lists the row. For MASS,
 * and for rows of more than 32 HELD blocks, a CTA sorts the row in shared memory: a bitonic sort of 64-bit keys, the
 * score's order, then the index, lower first. Sums of ranked scores are in double.
 * The rest of the budget of all heads' rows goes to the best blocks of the whole layer. Their lowest score is found by
 * counting the scores' bytes, from the highest down. All counts are integers, so every run takes the same blocks. */
#include "blocks.cuh"

#include <math.h>

enum { WARPS = SG_THREADS / SG_WARP, BINS = 256, HELD = 64 };

#define NOWHERE 0xffffffffu

struct select_job {
    sg_block_rules rules;
    const float   *score, *amount; /* [h, nq, nk]; [h] */
    uint16_t      *list;           /* [h, nq, nk] */
    uint32_t      *bits;           /* [h, nq, words]: what is kept so far */
    int32_t       *left, *kept;    /* [h nq]: of a row's budget; kept blocks */
    float         *share;          /* [h nq]: of the row's mass that is kept; -1 where it has none */
    int64_t        nq, nk, words;
    int64_t        sink;
    int            size; /* of what is sorted: a power of two */
    sg_select_rule rule;
    bool           heads, count_hidden;
};

/* The state of the layer's shared budget. */
struct select_state {
    unsigned long long need;      /* blocks still to be taken; at the end, those with the lowest score */
    uint32_t           least;     /* the bytes of that score found so far */
    uint32_t           all;       /* all free blocks are taken */
    uint32_t           bin[BINS]; /* places by their next byte */
};

/* An integer with the order of the floats; both zeros are equal, NaN is below all. */
static __device__ __forceinline__ uint32_t order_of(float x)
{
    const uint32_t bits = __float_as_uint(x + 0.0f);
    return x != x ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float score_of(uint32_t order)
{
    return order == 0 ? __uint_as_float(0x7fc00000u) : __uint_as_float(order >> 31 ? order & 0x7fffffffu : ~order);
}

/* ---- ranking a row ---- */

/* Descending; padding beyond nk ranks last. */
static __device__ void rank_row(const select_job &j, const float *score, unsigned long long *key)
{
    for (int i = threadIdx.x; i < j.size; i += SG_THREADS)
        key[i] = i < j.nk ? (unsigned long long)order_of(score[i]) << 32 | (0xffffffffu - (uint32_t)i) : 0;
    for (int run = 2; run <= j.size; run *= 2)
        for (int step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < j.size / 2; i += SG_THREADS) {
                const int                a = i / step * 2 * step + i % step, b = a + step;
                const unsigned long long x = key[a], y = key[b];
                if ((x < y) == ((a & run) == 0)) {
                    key[a] = y;
                    key[b] = x;
                }
            }
        }
    __syncthreads();
}

/* How many of the ranked scores have a sum of at most amount times that of all; each thread sums a stretch. */
static __device__ int mass_count(const select_job &j, const unsigned long long *key, float amount)
{
    __shared__ double part[SG_THREADS];
    __shared__ int    first;
    const int         stretch = (int)((j.nk + SG_THREADS - 1) / SG_THREADS), from = threadIdx.x * stretch;
    const int         end = min(from + stretch, (int)j.nk);
    double            own = 0, before = 0, all = 0;
    for (int i = from; i < end; i++) own += (double)score_of((uint32_t)(key[i] >> 32));
    part[threadIdx.x] = own;
    if (threadIdx.x == 0) first = (int)j.nk;
    __syncthreads();
    for (int t = 0; t < SG_THREADS; t++) {
        if (t == (int)threadIdx.x) before = all;
        all += part[t];
    }
    for (int i = from; i < end; i++) {
        before += (double)score_of((uint32_t)(key[i] >> 32));
        if (before <= (double)amount * all) continue;
        atomicMin(&first, i);
        break;
    }
    __syncthreads();
    return max(first, 1);
}

/* Of row i of head g. */
static __device__ int top_count(const select_job &j, int64_t g, int64_t i)
{
    return (int)sg_topk_count(j.amount[g], j.count_hidden ? j.nk : sg_visible(j.rules, i));
}

/* Sets the bits that the row's rule takes by itself. */
static __global__ void __launch_bounds__(SG_THREADS) select_rows(select_job j)
{
    extern __shared__ unsigned long long key[];
    const int64_t                        row = blockIdx.x, g = row / j.nq;
    uint32_t *const bits = (uint32_t *)(key + j.size), *const to = j.bits + row * j.words;
    rank_row(j, j.score + row * j.nk, key);
    const int count = j.rule == SG_SELECT_MASS ? mass_count(j, key, j.amount[g]) : top_count(j, g, row % j.nq);
    const int now = j.heads ? count / 4 : count;
    for (int i = threadIdx.x; i < j.words; i += SG_THREADS) bits[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < now; i += SG_THREADS) {
        const uint32_t at = 0xffffffffu - (uint32_t)key[i];
        atomicOr(&bits[at / 32], 1u << at % 32);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < j.words; i += SG_THREADS) to[i] = bits[i];
    if (threadIdx.x == 0) j.left[row] = count - now;
}

/* ---- what a row keeps ---- */

/* A lane's sums over a row. best, best_at: of its kept blocks the highest score's order, and the first block of that. */
struct row_sums {
    float    sum, mass;
    int      kept; /* of all lanes */
    uint32_t best, best_at;
};

/* What holds for all blocks of keys of a row. */
struct row_rule {
    int64_t g;
    int     visible, diagonal; /* the first so many are seen; from the second on they lie on the diagonal */
    bool    all;               /* a fixed block of queries keeps all */
};

static __device__ __forceinline__ row_rule rule_of(const select_job &j, int64_t g, int64_t i)
{
    return {g, (int)sg_visible(j.rules, i),
            (int)sg_whole_blocks(j.rules.causal && !j.count_hidden, i, j.rules.n, j.rules.m), sg_q_fixed(j.rules, g, i)};
}

/* Whether a block of keys that the rule takes, or not, is kept. */
static __device__ __forceinline__ bool keeps_block(const select_job &j, const row_rule &r, int b, bool taken)
{
    return b < r.visible && (taken | r.all | (b >= r.diagonal) | (b < j.sink) || sg_k_fixed(j.rules, r.g, b));
}

/* Adds 32 blocks, of which the lane has b. Returns the bits of those that are kept. */
static __device__ __forceinline__ uint32_t add_blocks(row_sums &r, uint32_t order, float score, int64_t b, bool keeps)
{
    const uint32_t bits = __ballot_sync(~0u, keeps);
    r.sum += score;
    if (!bits) return 0;
    r.mass += keeps ? score : 0.0f;
    r.kept += __popc(bits);
    if (keeps && (r.best_at == NOWHERE || order > r.best)) r.best = order, r.best_at = (uint32_t)b;
    return bits;
}

/* A warp stores what it knows of a row: the best block first, the others in rising order, then zeros. bits_of(word): of 32
 * blocks. */
template <typename F>
static __device__ __forceinline__ void store_row(const select_job &j, int64_t row, int lane, const row_sums &r,
                                                 F bits_of)
{
    uint16_t *const list = j.list + row * j.nk;
    const float     sum = sg_lanes_sum(r.sum), mass = sg_lanes_sum(r.mass);
    const uint32_t  most = __reduce_max_sync(~0u, r.best_at == NOWHERE ? 0 : r.best);
    const uint32_t  best = __reduce_min_sync(~0u, r.best == most ? r.best_at : NOWHERE);
    int             before = 1; /* the best's place */
    for (int word = 0; word < j.words; word++) {
        const uint32_t bits = bits_of(word);
        const uint32_t others = best / SG_WARP == (uint32_t)word ? bits & ~(1u << best % SG_WARP) : bits;
        if (others >> lane & 1) list[before + __popc(others & ((1u << lane) - 1))] = (uint16_t)(word * SG_WARP + lane);
        before += __popc(others);
    }
    for (int64_t at = max(r.kept, 1) + lane; at < j.nk; at += SG_WARP) list[at] = 0;
    if (lane) return;
    list[0] = r.kept ? (uint16_t)best : (uint16_t)0;
    j.kept[row] = r.kept;
    j.share[row] = sum == 0 ? -1.0f : mass / sum;
}

/* ---- the best of a row ---- */

/* The same for TOPK, a warp a row: lane l holds blocks l, l + 32, ..; missing ones rank after NaN. LAST: the row is stored,
 * else the layer's budget is still to be shared. */
template <int KEYS, bool LAST> static __global__ void __launch_bounds__(SG_THREADS) top_rows(select_job j)
{
    constexpr int MASKS = (KEYS + SG_WARP - 1) / SG_WARP;
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP, g = row / j.nq, at = row % j.nq;
    const int     lane = threadIdx.x % SG_WARP;
    if (row >= j.rules.h * j.nq) return;
    const float *const score = j.score + row * j.nk;
    const row_rule     rule = rule_of(j, g, at);
    uint32_t           key[KEYS], word[MASKS] = {}, least = 0;
    int                above = 0, before = 0;
    row_sums           r = {0, 0, 0, 0, NOWHERE};
#pragma unroll
    for (int i = 0; i < KEYS; i++) key[i] = i * SG_WARP + lane < j.nk ? order_of(score[i * SG_WARP + lane]) : 0;
    const int count = top_count(j, g, at), now = j.heads ? count / 4 : count;
    for (int bit = 31; bit >= 0; bit--) { /* a number that `now` keys are not below, else the largest with more */
        const uint32_t more = least | 1u << bit;
        int            enough = 0;
#pragma unroll
        for (int i = 0; i < KEYS; i++) enough += key[i] >= more;
        enough = __reduce_add_sync(~0u, enough);
        if (enough >= now) least = more;
        if (enough == now) break;
    }
#pragma unroll
    for (int i = 0; i < KEYS; i++) above += key[i] > least;
    const int need = now - __reduce_add_sync(~0u, above);
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
        const int      b = i * SG_WARP + lane;
        const bool     equals = key[i] == least && b < j.nk;
        const uint32_t same = __ballot_sync(~0u, equals);
        const bool     takes = key[i] > least || (equals && before + __popc(same & ((1u << lane) - 1)) < need);
        before += __popc(same);
        if (LAST) {
            const float    x = b < j.nk ? score_of(key[i]) : 0.0f;
            const uint32_t bits = add_blocks(r, key[i], x, b, keeps_block(j, rule, b, takes));
            if (lane == i % SG_WARP) word[i / SG_WARP] = bits;
        } else {
            const uint32_t taken = __ballot_sync(~0u, takes);
            if (lane == 0 && i < j.words) j.bits[row * j.words + i] = taken;
        }
    }
    if (LAST)
        store_row(j, row, lane, r,
                  [&](int i) { return __shfl_sync(~0u, i < SG_WARP ? word[0] : word[MASKS - 1], i % SG_WARP); });
    else if (lane == 0)
        j.left[row] = count - now;
}

/* ---- the layer's shared budget ---- */

static __global__ void __launch_bounds__(SG_THREADS) share_begin(select_job j, select_state *all)
{
    __shared__ unsigned long long need;
    if (threadIdx.x == 0) need = 0;
    __syncthreads();
    unsigned long long own = 0;
    for (int64_t row = threadIdx.x; row < j.rules.h * j.nq; row += SG_THREADS) own += (unsigned)j.left[row];
    atomicAdd(&need, own);
    all->bin[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        all->need = need;
        all->least = all->all = 0;
    }
}

/* Whether a block is not taken yet. */
static __device__ __forceinline__ bool is_free(const select_job &j, int64_t row, int64_t b)
{
    return b < j.nk && !(j.bits[row * j.words + b / 32] >> b % 32 & 1);
}

/* A histogram of the next byte, over the blocks whose score has the bytes found so far. */
static __global__ void __launch_bounds__(SG_THREADS) share_count(select_job j, select_state *all, int shift)
{
    __shared__ uint32_t bin[BINS];
    const uint32_t      least = all->least;
    bin[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t row = blockIdx.x; row < j.rules.h * j.nq; row += gridDim.x)
        for (int64_t b = threadIdx.x; b < j.nk; b += SG_THREADS) {
            const uint32_t order = order_of(j.score[row * j.nk + b]);
            if (is_free(j, row, b) && (shift == 24 || order >> shift >> 8 == least))
                atomicAdd(&bin[order >> shift & 255], 1);
        }
    __syncthreads();
    if (bin[threadIdx.x]) atomicAdd(&all->bin[threadIdx.x], bin[threadIdx.x]);
}

/* One thread: finds the byte, from the highest down, at which the need is met. */
static __global__ void share_narrow(select_state *all)
{
    int b = BINS - 1;
    while (b >= 0 && all->bin[b] < all->need) all->need -= all->bin[b--];
    all->all |= b < 0; /* can only be so at the first byte */
    all->least = all->least << 8 | (uint32_t)(b < 0 ? 0 : b);
    for (int i = 0; i < BINS; i++) all->bin[i] = 0;
}

/* A warp counts each row's free blocks with the lowest score, in left, which is no longer needed. */
static __global__ void __launch_bounds__(SG_THREADS) share_equals(select_job j, const select_state *all)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP;
    int           count = 0;
    if (row >= j.rules.h * j.nq) return;
    for (int64_t b = threadIdx.x % SG_WARP; b < j.nk; b += SG_WARP)
        count += is_free(j, row, b) && order_of(j.score[row * j.nk + b]) == all->least;
    count = __reduce_add_sync(~0u, count);
    if (threadIdx.x % SG_WARP == 0) j.left[row] = count;
}

/* left becomes its exclusive prefix sum. */
static __global__ void __launch_bounds__(SG_THREADS) share_before(select_job j)
{
    __shared__ int part[SG_THREADS];
    const int64_t  rows = j.rules.h * j.nq, stretch = (rows + SG_THREADS - 1) / SG_THREADS;
    const int64_t  from = threadIdx.x * stretch, end = min(from + stretch, rows);
    int            own = 0, before = 0;
    for (int64_t row = from; row < end; row++) own += j.left[row];
    part[threadIdx.x] = own;
    __syncthreads();
    for (int t = 0; t < (int)threadIdx.x; t++) before += part[t];
    for (int64_t row = from; row < end; row++) {
        const int here = j.left[row];
        j.left[row] = before;
        before += here;
    }
}

/* A warp takes a row's free blocks above the lowest score, and as many as are needed, the first, of those equal to it.
 */
static __global__ void __launch_bounds__(SG_THREADS) share_take(select_job j, const select_state *all)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP;
    const int     lane = threadIdx.x % SG_WARP;
    if (row >= j.rules.h * j.nq) return;
    unsigned long long before = (unsigned)j.left[row];
    for (int64_t word = 0; word < j.words; word++) {
        const int64_t  b = word * 32 + lane;
        const bool     is = is_free(j, row, b);
        const uint32_t order = is ? order_of(j.score[row * j.nk + b]) : 0;
        const uint32_t equals = __ballot_sync(~0u, is && order == all->least);
        const bool     takes = is && (all->all || order > all->least ||
                                  (order == all->least && before + __popc(equals & ((1u << lane) - 1)) < all->need));
        const uint32_t taken = __ballot_sync(~0u, takes);
        before += __popc(equals);
        __syncwarp();
        if (lane == 0) j.bits[row * j.words + word] |= taken;
        __syncwarp();
    }
}

/* ---- blocks that are always, or never, kept ---- */

/* A warp a row, whose taken blocks are known. */
static __global__ void __launch_bounds__(SG_THREADS) finish_rows(select_job j)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP, g = row / j.nq, i = row % j.nq;
    const int     lane = threadIdx.x % SG_WARP;
    row_sums      r = {0, 0, 0, 0, NOWHERE};
    if (row >= j.rules.h * j.nq) return;
    const row_rule  rule = rule_of(j, g, i);
    uint32_t *const own = j.bits + row * j.words;
#pragma unroll 4
    for (int64_t word = 0; word < j.words; word++) {
        const int64_t  b = word * 32 + lane;
        const float    score = b < j.nk ? __ldg(&j.score[row * j.nk + b]) : 0.0f;
        const bool     keeps = keeps_block(j, rule, (int)b, own[word] >> lane & 1);
        const uint32_t bits = add_blocks(r, order_of(score), score, b, keeps);
        __syncwarp();
        if (lane == 0) own[word] = bits;
    }
    __syncwarp();
    store_row(j, row, lane, r, [&](int word) { return own[word]; });
}

/* A warp a head. */
static __global__ void __launch_bounds__(SG_WARP) finish_heads(select_job j, int32_t *kept, float *mass)
{
    const int64_t g = blockIdx.x;
    int           all = 0, rows = 0;
    float         sum = 0;
    for (int64_t i = threadIdx.x; i < j.nq; i += SG_WARP) {
        const float share = j.share[g * j.nq + i];
        all += j.kept[g * j.nq + i];
        if (share == -1.0f) continue;
        sum += share;
        rows++;
    }
    all = __reduce_add_sync(~0u, all);
    rows = __reduce_add_sync(~0u, rows);
    sum = sg_lanes_sum(sum);
    if (threadIdx.x) return;
    kept[2 * g] = all;
    kept[2 * g + 1] = j.kept[g * j.nq + j.nq - 1];
    mass[g] = rows ? sum / (float)rows : 1.0f;
}

/* ---- launchers ---- */

static sg_status share_out(sg_stream *s, const select_job &j, select_state *all)
{
    const cudaStream_t queue = sg_cuda_of(s)->queue;
    const int64_t      rows = j.rules.h * j.nq;
    const unsigned     few = sg_min64(rows, (int64_t)sg_cuda_of(s)->processors * 8);
    const unsigned     by_warps = sg_div_up(rows, WARPS);
    share_begin<<<1, SG_THREADS, 0, queue>>>(j, all);
    for (int shift = 24; shift >= 0; shift -= 8) {
        share_count<<<few, SG_THREADS, 0, queue>>>(j, all, shift);
        share_narrow<<<1, 1, 0, queue>>>(all);
    }
    share_equals<<<by_warps, SG_THREADS, 0, queue>>>(j, all);
    share_before<<<1, SG_THREADS, 0, queue>>>(j);
    share_take<<<by_warps, SG_THREADS, 0, queue>>>(j, all);
    return sg_cuda_launched(s, "select");
}

template <int KEYS> static sg_status take_top(sg_stream *s, const select_job &j)
{
    const unsigned blocks = sg_div_up(j.rules.h * j.nq, WARPS);
    return sg_cuda_launch(s, "select", j.heads ? top_rows<KEYS, false> : top_rows<KEYS, true>, blocks, SG_THREADS, 0,
                          j);
}

static sg_status rank_rows(sg_stream *s, select_job &j)
{
    if (j.rule == SG_SELECT_TOPK && j.nk <= HELD / 4 * SG_WARP) return take_top<HELD / 4>(s, j);
    if (j.rule == SG_SELECT_TOPK && j.nk <= HELD * SG_WARP) return take_top<HELD>(s, j);
    for (j.size = 2; j.size < j.nk;) j.size *= 2;
    const size_t bytes = (size_t)j.size * sizeof(unsigned long long) + (size_t)j.words * sizeof(uint32_t);
    if (bytes > sg_cuda_of(s)->smem_max)
        return sg_fail(s, SG_E_UNSUPPORTED,
                       "select: %lld blocks of keys want %zu bytes of shared memory, of which this GPU has "
                       "%zu",
                       (long long)j.nk, bytes, sg_cuda_of(s)->smem_max);
    return sg_cuda_launch(s, "select", select_rows, (j.rules.h * j.nq), SG_THREADS, bytes, j);
}

static sg_status select(sg_stream *s, const sg_select_args *a)
{
    const int64_t h = a->score.dim[0];
    select_job    j = {.rules = sg_block_rules_of(a, h), .score = sg_data(a->score), .amount = sg_data(a->amount),
                       .list = sg_data(a->list), .kept = sg_data(a->count), .nq = a->score.dim[1],
                       .nk = a->score.dim[2], .words = sg_div_up(a->score.dim[2], SG_WARP), .sink = a->sink,
                       .rule = a->rule, .heads = a->heads, .count_hidden = a->count_hidden};
    const size_t rows = (size_t)(h * j.nq);
    char *const  scratch = (char *)sg_cuda_scratch(
         s, "select", SG_CUDA_X, sizeof(select_state) + rows * (2 + (size_t)j.words) * sizeof(int32_t));
    if (!scratch) return s->status;
    j.left = (int32_t *)(scratch + sizeof(select_state));
    j.share = (float *)(j.left + rows);
    j.bits = (uint32_t *)(j.share + rows);
    SG_TRY(rank_rows(s, j));
    if (j.heads) SG_TRY(share_out(s, j, (select_state *)scratch));
    if (j.rule == SG_SELECT_MASS || j.heads || j.nk > HELD * SG_WARP)
        finish_rows<<<sg_div_up((int64_t)rows, WARPS), SG_THREADS, 0, sg_cuda_of(s)->queue>>>(j);
    finish_heads<<<h, SG_WARP, 0, sg_cuda_of(s)->queue>>>(j, sg_data(a->kept), sg_data(a->mass));
    return sg_cuda_launched(s, "select");
}

void sg_cuda_select_init(sg_ops *t) { t->select = select; }
