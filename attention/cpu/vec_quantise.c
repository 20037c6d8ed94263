/* vec_quantise.c - quantise: x [n, h, d] to bytes [h, n, d].
 *
 * A group of rows is read twice, and the second time it comes from the cache: a task is one group of as many heads as
 * fit there; while it is written, the next is fetched. Where channels have a scale each, the first reading is of all
 * rows. The largest |u| is found among bit patterns, in which infinity and NaN come last. */
#include "predict.h"

#include <omp.h>

/* Vectors that become a register of bytes; vectors of channels whose maxima are looked for side by side, over so many
 * rows; what a task reads; the bytes of y above which it goes past the caches. */
enum {
    SG_PACK = 4,
    SG_STRIP = 8,
    SG_STRIP_ROWS = 16,
    SG_TILE_BYTES = 256 << 10,
    SG_TILE_HEADS = 64,
    SG_PAST = 4 << 20,
    SG_AHEAD = 4096,
    SG_LINE = 64
};

typedef struct quantise_job {
    const sg_quantise_args *a;
    int64_t                 n, h, d;
    const float            *center; /* [h, d] */
    float                  *by;     /* [h, d], 1 / scale; group 0 */
    bool                    past;   /* y is large, and its registers of bytes lie within lines */
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

static inline int32_t ints_top(sg_lane_ints a)
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

/* The scale for a largest |u| of these bits. */
static float scale_of(int32_t bits) { return bits >= 0x7f800000 ? NAN : sg_of_bits((uint32_t)bits) * (1.0f / 127.0f); }

static float over(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }

/* Some channels of a row, where x, their centers and, with a scale for each, what they are multiplied by lie. */
typedef struct row_part {
    const char  *x;
    const float *center, *by;
} row_part;

static inline row_part part_at(const quantise_job *q, bool bf16, int64_t row, int64_t at)
{
    return (row_part){(const char *)q->a->x.data + (row * q->h * q->d + at) * (bf16 ? 2 : 4), q->center + at,
                      q->by + at};
}

SG_INLINE sg_lanes centred(const row_part *p, bool bf16, int64_t at, int64_t n)
{
    return sg_lanes_in(p->x, bf16, at, n) - sg_lanes_in(p->center, false, at, n);
}

SG_INLINE sg_lane_ints bits_of(const row_part *p, bool bf16, int64_t at, int64_t n)
{
    return (sg_lane_ints)centred(p, bf16, at, n) & 0x7fffffff;
}

/* A scale that was given may not reach as far as x does. */
SG_INLINE sg_lanes scaled(const row_part *p, bool bf16, int64_t at, int64_t n, float by, bool channels)
{
    const sg_lanes none = {0}, u = centred(p, bf16, at, n);
    if (!channels) return u * by;
    return sg_lanes_min(none + 127.0f, sg_lanes_max(none - 127.0f, u * sg_lanes_in(p->by, false, at, n)));
}

/* One row of one head. `ahead`: how many bytes of x further on to fetch. */
SG_INLINE void bytes_row(const quantise_job *q, bool bf16, int64_t row, int64_t head, float by, bool channels,
                         int64_t ahead, bool past)
{
    enum { WIDE = SG_PACK * SG_LANES };
    const int64_t  d = q->d;
    const row_part p = part_at(q, bf16, row, head * d);
    int8_t *const  y = (int8_t *)q->a->y.data + (head * q->n + row) * d;
    int64_t        i = 0;
    for (; i + WIDE <= d; i += WIDE) {
        sg_lanes v[SG_PACK];
#pragma GCC unroll 4
        for (int k = 0; k < SG_PACK; k++) v[k] = scaled(&p, bf16, i + k * SG_LANES, SG_LANES, by, channels);
        for (int64_t k = 0; k < WIDE * (bf16 ? 2 : 4); k += SG_LINE)
            __builtin_prefetch(p.x + i * (bf16 ? 2 : 4) + ahead + k, 0, 2);
        bytes_out(y + i, v, past);
    }
    if (i == d) return;
    sg_lanes rest[SG_PACK] = {{0}};
    int8_t   room[WIDE];
    for (int k = 0; i + k * SG_LANES < d; k++)
        rest[k] = scaled(&p, bf16, i + k * SG_LANES, d - i - k * SG_LANES, by, channels);
    bytes_out(room, rest, false);
    memcpy(y + i, room, (size_t)(d - i));
}

SG_INLINE void quantise_tile(const quantise_job *q, int64_t row, int64_t rows, int64_t head, int64_t heads, bool bf16,
                             int64_t ahead, bool past)
{
    const int64_t d = q->d;
    sg_lane_ints  top[SG_TILE_HEADS];
    float         by[SG_TILE_HEADS];
    memset(top, 0, sizeof top);
    for (int64_t r = row; r < row + rows; r++)
        for (int64_t g = 0; g < heads; g++) {
            const row_part p = part_at(q, bf16, r, (head + g) * d);
            sg_lane_ints   t = top[g];
            int64_t        i = 0;
            for (; i + SG_LANES <= d; i += SG_LANES) t = ints_max(bits_of(&p, bf16, i, SG_LANES), t);
            top[g] = i < d ? ints_max(bits_of(&p, bf16, i, d - i), t) : t;
        }
    for (int64_t g = 0; g < heads; g++) {
        const float scale = scale_of(ints_top(top[g]));
        ((float *)q->a->scale.data)[row / q->a->group * q->h + head + g] = scale;
        by[g] = over(scale);
    }
    for (int64_t r = row; r < row + rows; r++)
        for (int64_t g = 0; g < heads; g++) bytes_row(q, bf16, r, head + g, by[g], false, ahead, past);
}

static void quantise_groups(const quantise_job *q, int threads)
{
    const bool    bf16 = q->a->x.dtype == SG_BF16;
    const int64_t group = q->a->group, groups = sg_div_up(q->n, group);
    const int64_t bytes = sg_min64(group, q->n) * q->d * (bf16 ? 2 : 4), fit = SG_TILE_BYTES / bytes;
    const int64_t heads = sg_min64(sg_min64(fit < 1 ? 1 : fit, SG_TILE_HEADS), q->h), across = sg_div_up(q->h, heads);
#pragma omp parallel num_threads(threads) if (q->n * q->h * q->d > SG_FEW)
    {
#pragma omp for schedule(static)
        for (int64_t t = 0; t < groups * across; t++) {
            const int64_t row = t / across * group, rows = sg_min64(group, q->n - row);
            const int64_t head = t % across * heads, count = sg_min64(heads, q->h - head);
            const int64_t ahead = (head + heads < q->h ? heads : group * q->h - head) * q->d * (bf16 ? 2 : 4);
            if (bf16 && q->past)
                quantise_tile(q, row, rows, head, count, true, ahead, true);
            else if (bf16)
                quantise_tile(q, row, rows, head, count, true, ahead, false);
            else
                quantise_tile(q, row, rows, head, count, false, ahead, q->past);
        }
        _mm_sfence();
    }
}

/* Channels [at, at + wide vectors of n) of a strip of rows enter top. */
SG_INLINE void strip_tops(const quantise_job *q, bool bf16, int64_t row, int64_t rows, int64_t at, int wide, int64_t n,
                          int32_t *top)
{
    sg_lane_ints t[SG_STRIP];
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) t[v] = (sg_lane_ints)sg_lanes_in(top, false, at + v * SG_LANES, n);
    for (int64_t r = row; r < row + rows; r++) {
        const row_part p = part_at(q, bf16, r, at);
        for (int64_t k = 0; k < wide * SG_LANES * (bf16 ? 2 : 4); k += SG_LINE)
            __builtin_prefetch(p.x + SG_STRIP_ROWS * q->h * q->d * (bf16 ? 2 : 4) + k, 0, 2);
#pragma GCC unroll 8
        for (int v = 0; v < wide; v++) t[v] = ints_max(bits_of(&p, bf16, v * SG_LANES, n), t[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) sg_lanes_out((float *)top + at + v * SG_LANES, (sg_lanes)t[v], n);
}

SG_INLINE void row_tops(const quantise_job *q, bool bf16, int64_t row, int64_t rows, int32_t *top)
{
    const int64_t c = q->h * q->d, wide = SG_STRIP * SG_LANES;
    int64_t       at = 0;
    for (; at + wide <= c; at += wide) strip_tops(q, bf16, row, rows, at, SG_STRIP, SG_LANES, top);
    for (; at < c; at += SG_LANES) strip_tops(q, bf16, row, rows, at, 1, c - at, top);
}

/* The scale of every channel; top has h d numbers for each thread. */
static void channel_scales(const quantise_job *q, int threads, int32_t *top)
{
    const int64_t c = q->h * q->d;
    memset(top, 0, (size_t)(threads * c) * sizeof *top);
#pragma omp parallel for schedule(static) num_threads(threads) if (q->n * c > SG_FEW)
    for (int64_t r = 0; r < q->n; r += SG_STRIP_ROWS) {
        int32_t *const mine = top + omp_get_thread_num() * c;
        if (q->a->x.dtype == SG_BF16)
            row_tops(q, true, r, sg_min64(SG_STRIP_ROWS, q->n - r), mine);
        else
            row_tops(q, false, r, sg_min64(SG_STRIP_ROWS, q->n - r), mine);
    }
    for (int64_t i = 0; i < c; i++) {
        int32_t most = 0;
        for (int t = 0; t < threads; t++) most = top[t * c + i] > most ? top[t * c + i] : most;
        ((float *)q->a->scale.data)[i] = scale_of(most);
    }
}

static void quantise_channels(const quantise_job *q, int threads, int32_t *top)
{
    if (!q->a->given) channel_scales(q, threads, top);
    for (int64_t i = 0; i < q->h * q->d; i++) q->by[i] = over(((const float *)q->a->scale.data)[i]);
#pragma omp parallel num_threads(threads) if (q->n * q->h * q->d > SG_FEW)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < q->n; r++)
            for (int64_t g = 0; g < q->h; g++)
                if (q->a->x.dtype == SG_BF16)
                    bytes_row(q, true, r, g, 0, true, SG_AHEAD, q->past);
                else
                    bytes_row(q, false, r, g, 0, true, SG_AHEAD, q->past);
        _mm_sfence();
    }
}

static sg_status quantise(sg_stream *s, const sg_quantise_args *a)
{
    const int     threads = sg_cpu_of(s)->threads;
    quantise_job  q = {.a = a, .n = a->x.dim[0], .h = a->x.dim[1], .d = a->x.dim[2]};
    const int64_t c = q.h * q.d, wide = SG_PACK * SG_LANES;
    float *const  room = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, (size_t)((threads + 2) * c) * sizeof *room);
    if (!room) return SG_E_MEMORY;
    memset(room, 0, (size_t)c * sizeof *room);
    q.center = a->center.rank ? a->center.data : room;
    q.by = room + c;
    q.past = q.n * c >= SG_PAST && q.d % wide == 0 && (uintptr_t)a->y.data % (uintptr_t)wide == 0;
    if (a->group)
        quantise_groups(&q, threads);
    else
        quantise_channels(&q, threads, (int32_t *)(room + 2 * c));
    return SG_OK;
}

void SG_VEC_INIT(quantise)(sg_ops *t) { t->quantise = quantise; }
