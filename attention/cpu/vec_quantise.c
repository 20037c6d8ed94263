/* vec_quantise.c - quantise: x [n, h, d] to bytes [h, n, d].
 *
 * A group of rows of a head is read twice, the second time from the L1 cache. A task is one group of as many heads as
 * fit into L2; while it is written, the next one is prefetched. The largest |u| is found by comparing bit patterns,
 * where infinity and NaN are largest. */
#include "predict.h"

#include <omp.h>

/* Vectors per register of bytes; bytes that a task reads; bytes of y above which it is written past the caches. */
enum {
    SG_PACK = 4,
    SG_WIDE = SG_PACK * SG_LANES,
    SG_TILE_BYTES = 256 << 10,
    SG_PAST = 4 << 20,
    SG_AHEAD = 4096,
    SG_LINE = 64
};

typedef struct quantise_job {
    const sg_quantise_args *a;
    int64_t                 n, h, d;
    float                  *by;   /* [h, d], 1 / scale; group 0 */
    bool                    past; /* y is large, and no register of bytes crosses a line */
} quantise_job;

static inline sg_lane_ints ints_max(sg_lane_ints a, sg_lane_ints b)
{
#if defined(__AVX512F__)
    return (sg_lane_ints)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (sg_lane_ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const sg_lane_ints above = a > b;
    return (a & above) | (b & ~above);
#endif
}

static inline int32_t ints_reduce_max(sg_lane_ints a)
{
    int32_t most = a[0];
    for (int i = 1; i < SG_LANES; i++) most = a[i] > most ? a[i] : most;
    return most;
}

/* The integers nearest to SG_PACK vectors, ties to even, as bytes. */
#if defined(__AVX512F__)
static inline void bytes_out(int8_t *y, const sg_lanes *v, bool past)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i a = _mm512_packs_epi32(_mm512_cvtps_epi32((__m512)v[0]), _mm512_cvtps_epi32((__m512)v[1]));
    const __m512i b = _mm512_packs_epi32(_mm512_cvtps_epi32((__m512)v[2]), _mm512_cvtps_epi32((__m512)v[3]));
    const __m512i all = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(a, b));
    if (past)
        _mm512_stream_si512((__m512i *)y, all);
    else
        _mm512_storeu_si512(y, all);
}
#elif defined(__AVX2__)
static inline void bytes_out(int8_t *y, const sg_lanes *v, bool past)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i a = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)v[0]), _mm256_cvtps_epi32((__m256)v[1]));
    const __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)v[2]), _mm256_cvtps_epi32((__m256)v[3]));
    const __m256i all = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
    if (past)
        _mm256_stream_si256((__m256i *)y, all);
    else
        _mm256_storeu_si256((__m256i *)y, all);
}
#else
static inline void bytes_out(int8_t *y, const sg_lanes *v, bool past)
{
    const __m128i a = _mm_packs_epi32(_mm_cvtps_epi32((__m128)v[0]), _mm_cvtps_epi32((__m128)v[1]));
    const __m128i b = _mm_packs_epi32(_mm_cvtps_epi32((__m128)v[2]), _mm_cvtps_epi32((__m128)v[3]));
    const __m128i all = _mm_packs_epi16(a, b);
    if (past)
        _mm_stream_si128((__m128i *)y, all);
    else
        _mm_storeu_si128((__m128i *)y, all);
}
#endif

static float over(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }

/* Some channels of a row: pointers to x, the centers and, with a scale per channel, the factors. */
typedef struct row_part {
    const char  *x;
    const float *center, *by;
} row_part;

/* `about` says whether there are centers. */
SG_INLINE row_part part_at(const quantise_job *q, bool bf16, bool about, int64_t row, int64_t at)
{
    return (row_part){(const char *)q->a->x.data + (row * q->h * q->d + at) * (bf16 ? 2 : 4),
                      about ? (const float *)q->a->center.data + at : NULL, q->by ? q->by + at : NULL};
}

SG_INLINE sg_lanes centred(const row_part *p, bool bf16, bool about, int64_t at, int64_t n)
{
    const sg_lanes x = sg_lanes_in(p->x, bf16, at, n);
    if (!about) return x;
    return x - sg_lanes_in(p->center, false, at, n);
}

SG_INLINE sg_lane_ints bits_of(const row_part *p, bool bf16, bool about, int64_t at, int64_t n)
{
    return (sg_lane_ints)centred(p, bf16, about, at, n) & 0x7fffffff;
}

/* The scale of a channel is given, and may be too small for x. */
SG_INLINE sg_lanes scaled(const row_part *p, bool bf16, bool about, int64_t at, int64_t n, float by, bool channels)
{
    const sg_lanes u = centred(p, bf16, about, at, n);
    if (!channels) return u * by;
    return sg_lanes_min(sg_splat(127.0f), sg_lanes_max(sg_splat(-127.0f), u * sg_lanes_in(p->by, false, at, n)));
}

/* Quantises one row of one head. `ahead`: the prefetch distance in bytes of x. */
SG_INLINE void bytes_row(const quantise_job *q, bool bf16, bool about, int64_t row, int64_t head, float by,
                         bool channels, int64_t ahead)
{
    const int64_t  d = q->d;
    const row_part p = part_at(q, bf16, about, row, head * d);
    int8_t *const  y = (int8_t *)q->a->y.data + (head * q->n + row) * d;
    int64_t        i = 0;
    for (; i + SG_WIDE <= d; i += SG_WIDE) {
        sg_lanes v[SG_PACK];
#pragma GCC unroll 4
        for (int k = 0; k < SG_PACK; k++) v[k] = scaled(&p, bf16, about, i + k * SG_LANES, SG_LANES, by, channels);
        for (int64_t k = 0; k < SG_WIDE * (bf16 ? 2 : 4); k += SG_LINE)
            __builtin_prefetch(p.x + i * (bf16 ? 2 : 4) + ahead + k, 0, 2);
        bytes_out(y + i, v, q->past);
    }
    if (i == d) return;
    sg_lanes rest[SG_PACK] = {{0}};
    int8_t   last[SG_WIDE];
    for (int k = 0; i + k * SG_LANES < d; k++)
        rest[k] = scaled(&p, bf16, about, i + k * SG_LANES, d - i - k * SG_LANES, by, channels);
    bytes_out(last, rest, false);
    memcpy(y + i, last, (size_t)(d - i));
}

/* The scale of the group of rows from `row` on, of one head. */
SG_INLINE float group_scale(const quantise_job *q, bool bf16, bool about, int64_t row, int64_t rows, int64_t head)
{
    const int64_t d = q->d;
    sg_lane_ints  top[SG_PACK] = {{0}};
    for (int64_t r = row; r < row + rows; r++) {
        const row_part p = part_at(q, bf16, about, r, head * d);
        int64_t        i = 0;
        for (; i + SG_WIDE <= d; i += SG_WIDE)
#pragma GCC unroll 4
            for (int k = 0; k < SG_PACK; k++)
                top[k] = ints_max(bits_of(&p, bf16, about, i + k * SG_LANES, SG_LANES), top[k]);
        for (; i < d; i += SG_LANES) top[0] = ints_max(bits_of(&p, bf16, about, i, d - i), top[0]);
    }
    return sg_scale_of(ints_reduce_max(ints_max(ints_max(top[0], top[1]), ints_max(top[2], top[3]))));
}

SG_INLINE void quantise_tile(const quantise_job *q, bool bf16, bool about, int64_t row, int64_t head, int64_t heads,
                             int64_t ahead)
{
    const int64_t rows = sg_min64(q->a->group, q->n - row);
    for (int64_t g = head; g < head + heads; g++) {
        const float scale = group_scale(q, bf16, about, row, rows, g), by = over(scale);
        ((float *)q->a->scale.data)[row / q->a->group * q->h + g] = scale;
        for (int64_t r = row; r < row + rows; r++) bytes_row(q, bf16, about, r, g, by, false, ahead);
    }
}

/* Quantises the group of rows from `row` on, of some heads. */
static void quantise_heads(const quantise_job *q, int64_t row, int64_t head, int64_t heads, int64_t ahead)
{
    const bool bf16 = q->a->x.dtype == SG_BF16, about = q->a->center.rank > 0;
#define TILE(bf16, about) quantise_tile(q, bf16, about, row, head, heads, ahead)
    SG_OF_BOTH(TILE, bf16, about);
#undef TILE
}

static void quantise_groups(const quantise_job *q, int threads)
{
    const int64_t size = q->a->x.dtype == SG_BF16 ? 2 : 4, group = q->a->group, groups = sg_div_up(q->n, group);
    const int64_t fit = SG_TILE_BYTES / (sg_min64(group, q->n) * q->d * size);
    const int64_t heads = sg_min64(fit < 1 ? 1 : fit, q->h), across = sg_div_up(q->h, heads);
#pragma omp parallel num_threads(threads) if (q->n * q->h * q->d > SG_TINY)
    {
#pragma omp for schedule(static)
        for (int64_t t = 0; t < groups * across; t++) {
            const int64_t head = t % across * heads, count = sg_min64(heads, q->h - head);
            const int64_t ahead = (head + heads < q->h ? heads : group * q->h - head) * q->d * size;
            quantise_heads(q, t / across * group, head, count, ahead);
        }
        _mm_sfence();
    }
}

SG_INLINE void channels_row(const quantise_job *q, bool bf16, bool about, int64_t row)
{
    for (int64_t g = 0; g < q->h; g++) bytes_row(q, bf16, about, row, g, 0, true, SG_AHEAD);
}

#define ROW(bf16, about) channels_row(q, bf16, about, r)
static void quantise_channels(const quantise_job *q, int threads)
{
    const bool bf16 = q->a->x.dtype == SG_BF16, about = q->a->center.rank > 0;
    for (int64_t i = 0; i < q->h * q->d; i++) q->by[i] = over(((const float *)q->a->scale.data)[i]);
#pragma omp parallel num_threads(threads) if (q->n * q->h * q->d > SG_TINY)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < q->n; r++) SG_OF_BOTH(ROW, bf16, about);
#undef ROW
        _mm_sfence();
    }
}

static quantise_job job_of(const sg_quantise_args *a)
{
    const int64_t n = a->x.dim[0], h = a->x.dim[1], d = a->x.dim[2];
    const bool    past = n * h * d >= SG_PAST && d % SG_WIDE == 0 && (uintptr_t)a->y.data % SG_WIDE == 0;
    return (quantise_job){.a = a, .n = n, .h = h, .d = d, .past = past};
}

void SG_VEC_NAME(quantise_rows)(const sg_quantise_args *a, int64_t row)
{
    const quantise_job q = job_of(a);
    quantise_heads(&q, row, 0, q.h, a->group * q.h * q.d * (a->x.dtype == SG_BF16 ? 2 : 4));
}

static sg_status quantise(sg_stream *s, const sg_quantise_args *a)
{
    sg_cpu *const cpu = sg_cpu_of(s);
    quantise_job  q = job_of(a);
    if (a->y.dtype == SG_F8) return sg_fail(s, SG_E_UNSUPPORTED, "quantise: the cpu backend has no F8");
    if (a->group) {
        quantise_groups(&q, cpu->threads);
        return SG_OK;
    }
    q.by = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)(q.h * q.d) * sizeof *q.by);
    if (!q.by) return SG_E_MEMORY;
    quantise_channels(&q, cpu->threads);
    return SG_OK;
}

void SG_VEC_INIT(quantise)(sg_ops *t) { t->quantise = quantise; }
