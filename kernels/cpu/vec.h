/* vec.h - what all vec_*.c share. Those files are compiled once per level with that level's flags and -DSG_LEVEL=base,
 * avx2 or avx512. They have plain loops that compilers vectorise, and arithmetic on sg_lanes where they do not. They
 * export sg_vec_<file>_init_<level> only. */
#ifndef SG_VEC_H
#define SG_VEC_H

#include "cpu.h"

#include <immintrin.h>
#include <math.h>

#define SG_PASTE4_(a, b, c, d) a##b##c##d
#define SG_PASTE4(a, b, c, d) SG_PASTE4_(a, b, c, d)
#define SG_VEC_INIT(file) SG_PASTE4(sg_vec_, file, _init_, SG_LEVEL)
#define SG_VEC_NAME(op) SG_PASTE4(sg_vec_, op, _, SG_LEVEL)

#define SG_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
enum { SG_LANES = 16 };
typedef __m512 sg_native;
#define SG_NATIVE(op) _mm512_##op##_ps
#elif defined(__AVX2__)
enum { SG_LANES = 8 };
typedef __m256 sg_native;
#define SG_NATIVE(op) _mm256_##op##_ps
#else
enum { SG_LANES = 4 };
typedef __m128 sg_native;
#define SG_NATIVE(op) _mm_##op##_ps
#endif

/* Calls run(a, b) with constants for these two bools, so that each call has loops of its own. */
#define SG_OF_BOTH(run, a, b)                                                                                          \
    ((a) ? (b) ? run(true, true) : run(true, false) : (b) ? run(false, true) : run(false, false))

typedef float    sg_lanes __attribute__((vector_size(4 * SG_LANES), aligned(4), may_alias));
typedef uint32_t sg_lane_bits __attribute__((vector_size(4 * SG_LANES)));
typedef int32_t  sg_lane_ints __attribute__((vector_size(4 * SG_LANES), aligned(4), may_alias));

/* A run of SG_RUN elements stays in the L1 cache while an op works on it in F32. */
enum { SG_RUN = 1024 };

static inline uint32_t sg_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float sg_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline void sg_widen(float *restrict y, const uint16_t *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = sg_of_bits((uint32_t)x[i] << 16);
}

static inline void sg_narrow(uint16_t *restrict y, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t u = sg_bits(x[i]), rounded = u + 0x7fffu + ((u >> 16) & 1u);
        y[i] = (uint16_t)(((u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : rounded) >> 16);
    }
}

/* Returns n elements of t from element `at` on as F32, in place or widened into buffer. */
static inline const float *sg_read_f32(const sg_tensor *t, int64_t at, int64_t n, float *buffer)
{
    if (t->dtype == SG_F32) return (const float *)t->data + at;
    sg_widen(buffer, (const uint16_t *)t->data + at, n);
    return buffer;
}

/* Sets `part`, a pointer, to room for `count` of what it points to in a workspace at p, from byte `used` on, and raises
 * used to the line behind it. Without a workspace, p NULL, it only counts. */
#define SG_PART(part, count, p, used)                                                                                  \
    ((part) = (p) ? (void *)((p) + (used)) : NULL, (used) += sg_div_up((int64_t)sizeof *(part) * (count), 64) * 64)

/* Returns the F32 numbers of t from element `at` on; NULL where t is absent. */
static inline const float *sg_f32_at(const sg_tensor *t, int64_t at)
{
    return t->rank ? (const float *)t->data + at : NULL;
}

/* Does as sg_read_f32 for elements that are read and written; sg_write_f32_done stores them. */
static inline float *sg_update_f32(const sg_tensor *t, int64_t at, int64_t n, float *buffer)
{
    return (float *)(uintptr_t)sg_read_f32(t, at, n, buffer);
}

/* Returns where to write elements of t from `at` on as F32. The call after it stores n of them. */
static inline float *sg_write_f32(const sg_tensor *t, int64_t at, float *buffer)
{
    return t->dtype == SG_F32 ? (float *)t->data + at : buffer;
}

static inline void sg_write_f32_done(const sg_tensor *t, int64_t at, int64_t n, const float *buffer)
{
    if (t->dtype != SG_F32) sg_narrow((uint16_t *)t->data + at, buffer, n);
}

/* Returns x in all lanes. */
SG_INLINE sg_lanes sg_splat(float x) { return (sg_lanes)SG_NATIVE(set1)(x); }

static inline sg_lanes sg_lanes_bf16(const uint16_t *x)
{
#if defined(__AVX512F__)
    return (sg_lanes)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x)), 16);
#elif defined(__AVX2__)
    return (sg_lanes)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x)), 16);
#else
    return (sg_lanes)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64((const __m128i *)x));
#endif
}

/* Loads elements [at, at + n) of x, then zeros. With n at or above SG_LANES it loads all lanes. */
SG_INLINE sg_lanes sg_lanes_in(const void *x, bool bf16, int64_t at, int64_t n)
{
    const float *const    f = (const float *)x + at;
    const uint16_t *const b = (const uint16_t *)x + at;
    if (n >= SG_LANES) return bf16 ? sg_lanes_bf16(b) : *(const sg_lanes *)f;
    uint16_t half[SG_LANES] = {0};
    sg_lanes part = {0};
    memcpy(bf16 ? (void *)half : (void *)&part, bf16 ? (const void *)b : f, (size_t)n * (bf16 ? 2 : 4));
    return bf16 ? sg_lanes_bf16(half) : part;
}

/* Stores the lanes, rounded to BF16. */
static inline void sg_lanes_to_bf16(uint16_t *y, sg_lanes v)
{
    const sg_lane_bits u = (sg_lane_bits)v, nan = (sg_lane_bits)(v != v);
    const sg_lane_bits high = (nan & (u | 0x400000u)) | (~nan & (u + 0x7fffu + ((u >> 16) & 1u)));
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i *)y, _mm512_cvtepi32_epi16((__m512i)(high >> 16)));
#elif defined(__AVX2__)
    const __m256i w = (__m256i)(high >> 16);
    _mm_storeu_si128((__m128i *)y, _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
#else
    const __m128i w = _mm_srai_epi32((__m128i)high, 16); /* in the range of signed 16 bits */
    _mm_storel_epi64((__m128i *)y, _mm_packs_epi32(w, w));
#endif
}

/* Stores to elements [at, at + n) of y. With n at or above SG_LANES it stores all lanes. */
SG_INLINE void sg_lanes_put(void *y, bool bf16, int64_t at, sg_lanes v, int64_t n)
{
    float *const    f = (float *)y + at;
    uint16_t *const b = (uint16_t *)y + at;
    uint16_t        half[SG_LANES];
    if (n >= SG_LANES && bf16)
        sg_lanes_to_bf16(b, v);
    else if (n >= SG_LANES)
        *(sg_lanes *)f = v;
    else if (bf16) {
        sg_lanes_to_bf16(half, v);
        memcpy(b, half, (size_t)n * sizeof *b);
    } else
        memcpy(f, &v, (size_t)n * sizeof *f);
}

/* These return the larger and the smaller one, or b where either is NaN. */
static inline sg_lanes sg_lanes_max(sg_lanes a, sg_lanes b)
{
    return (sg_lanes)SG_NATIVE(max)((sg_native)a, (sg_native)b);
}

static inline sg_lanes sg_lanes_min(sg_lanes a, sg_lanes b)
{
    return (sg_lanes)SG_NATIVE(min)((sg_native)a, (sg_native)b);
}

/* Returns a bit for each lane: whether its highest bit is set, as a comparison sets it. */
SG_INLINE unsigned sg_lanes_mask(sg_lane_ints holds)
{
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)holds);
#else
    return (unsigned)SG_NATIVE(movemask)((sg_native)holds);
#endif
}

/* Reduces all lanes to one number, by halves. */
#if defined(__AVX512F__)
#define SG_LANES_FOLD(op, a) return _mm512_reduce_##op##_ps((__m512)(a));
#else
#if defined(__AVX2__)
#define SG_LANES_FOUR(op, a) _mm_##op##_ps(_mm256_castps256_ps128((__m256)(a)), _mm256_extractf128_ps((__m256)(a), 1))
#else
#define SG_LANES_FOUR(op, a) (__m128)(a)
#endif
#define SG_LANES_FOLD(op, a)                                                                                           \
    const __m128 four = SG_LANES_FOUR(op, a), two = _mm_##op##_ps(four, _mm_movehl_ps(four, four));                    \
    return _mm_cvtss_f32(_mm_##op##_ss(two, _mm_shuffle_ps(two, two, 1)));
#endif

static inline float sg_lanes_sum(sg_lanes a) { SG_LANES_FOLD(add, a) }

/* Returns the largest lane, and may drop NaN. */
static inline float sg_lanes_reduce_max(sg_lanes a) { SG_LANES_FOLD(max, a) }

#define SG_LOG2E 1.44269504088896341f

/* Returns e^(x - n ln 2), where n is the integer nearest to x / ln 2, by Cody and Waite's reduction, then the minimax
 * polynomial of degree 6 whose first two coefficients are 1. */
static inline sg_lanes sg_lanes_exp_reduced(sg_lanes x, sg_lanes n)
{
    const sg_lanes r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    sg_lanes       p = r * 1.3814612757e-3f + 8.3687100559e-3f;
    p = p * r + 4.1668388993e-2f;
    p = p * r + 1.6666521132e-1f;
    p = p * r + 4.9999994040e-1f;
    p = p * r + 1.0f;
    return p * r + 1.0f;
}

/* Does the same by a polynomial of degree 3, to 2^-13. */
static inline sg_lanes sg_lanes_exp_rough(sg_lanes x, sg_lanes n)
{
    const sg_lanes r = x - n * 0.693147181f, p = r * 0.165669f + 0.504964f;
    return (p * r + 1.000164f) * r + 0.999928f;
}

/* Returns e^x within 2 units in the last place, or roughly. It is 0 below -103.97, infinity above 88.72, and NaN for
 * NaN. Where there is no instruction for it, 2^n goes in as two factors so that neither it nor the result of a denormal
 * leaves the exponent's range early: `round` leaves n + 254, two biases, in the low bits, and each half of that sum is
 * an exponent. */
SG_INLINE sg_lanes sg_lanes_exp_to(sg_lanes x, bool rough)
{
    const float    round = 12582912.0f + 254.0f; /* 1.5 2^23 + 254 */
    const sg_lanes z = sg_lanes_min(sg_splat(89.0f), sg_lanes_max(sg_splat(-104.0f), x));
    const sg_lanes shifted = z * SG_LOG2E + round, n = shifted - round;
    const sg_lanes p = rough ? sg_lanes_exp_rough(z, n) : sg_lanes_exp_reduced(z, n);
#if defined(__AVX512F__)
    return (sg_lanes)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    const sg_lane_bits both = (sg_lane_bits)shifted, half = both >> 1;
    return p * (sg_lanes)(half << 23) * (sg_lanes)((both - half) << 23);
#endif
}

static inline sg_lanes sg_lanes_exp(sg_lanes x) { return sg_lanes_exp_to(x, false); }

/* Returns e^x for x <= 0, within 2 units in the last place. It is 0 below -88, where e^x is negligible beside the row's
 * largest weight, 1, and NaN for NaN. `round` leaves n, plus the exponent's bias, in the low bits: at -127 the factor
 * made of them is 0. */
static inline sg_lanes sg_lanes_weight(sg_lanes x)
{
    const float    round = 12582912.0f + 127.0f;               /* 1.5 2^23 + 127 */
    const sg_lanes z = sg_lanes_max(sg_splat(-88.029692f), x); /* -127 ln 2 */
    const sg_lanes shifted = z * SG_LOG2E + round;
    return sg_lanes_exp_reduced(z, shifted - round) * (sg_lanes)((sg_lane_bits)shifted << 23);
}

/* Returns a / b within 2 units in the last place, or to 2^-13. Where a division takes longer than a sigmoid, 1 / b is
 * estimated and corrected once; an infinite b would make the correction NaN and needs none. */
SG_INLINE sg_lanes sg_lanes_over(sg_lanes a, sg_lanes b, bool rough)
{
#if defined(__AVX512F__)
    const __m512    r = _mm512_rcp14_ps((__m512)b), one = _mm512_set1_ps(1.0f);
    const __mmask16 finite = _mm512_cmp_ps_mask((__m512)b, _mm512_set1_ps(INFINITY), _CMP_NEQ_UQ);
    if (rough) return a * (sg_lanes)r;
    return a * (sg_lanes)_mm512_mask_fmadd_ps(r, finite, _mm512_fnmadd_ps((__m512)b, r, one), r);
#else
    (void)rough;
    return a / b;
#endif
}

/* SiLU, the quick and the tanh form of GELU are x / (1 + exp(t)), as (1 + tanh u) / 2 = 1 / (1 + exp(-2u)). With
 * `rough` the result is good to 2^-12, which is enough for what is rounded to BF16. */
SG_INLINE sg_lanes sg_lanes_unit(sg_act act, sg_lanes x, bool rough)
{
    const sg_lanes s = x * -1.59576912160573071f; /* -2 sqrt(2 / pi) x */
    sg_lanes       t = s + s * 0.044715f * (x * x);
    if (act == SG_ACT_SILU) t = -x;
    if (act == SG_ACT_GELU_QUICK) t = x * -1.702f;
    return sg_lanes_over(x, 1.0f + sg_lanes_exp_to(t, rough), rough);
}

static inline void sg_unit_run(sg_act act, float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += SG_LANES)
        sg_lanes_put(y, false, i, sg_lanes_unit(act, sg_lanes_in(x, false, i, n - i), false), n - i);
}

/* Computes y = act(x); y may be x. */
static inline void sg_act_run(sg_act act, float *y, const float *x, int64_t n)
{
    switch (act) {
    case SG_ACT_RELU:
        for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
        break;
    case SG_ACT_SILU: sg_unit_run(SG_ACT_SILU, y, x, n); break;
    case SG_ACT_GELU_TANH: sg_unit_run(SG_ACT_GELU_TANH, y, x, n); break;
    case SG_ACT_GELU_QUICK: sg_unit_run(SG_ACT_GELU_QUICK, y, x, n); break;
    case SG_ACT_GELU_ERF: /* 1 + erf(u) = erfc(-u), which keeps its digits where erf is near -1 */
        for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * erfcf(x[i] * -0.70710678118654752440f);
        break;
    case SG_ACT_TANH:
        for (int64_t i = 0; i < n; i++) y[i] = tanhf(x[i]);
        break;
    case SG_ACT_CLAMP:
        for (int64_t i = 0; i < n; i++) {
            const float low = x[i] < -1.0f ? -1.0f : x[i];
            y[i] = low > 1.0f ? 1.0f : low;
        }
        break;
    default:
        if (y != x) memcpy(y, x, (size_t)n * sizeof *y);
    }
}

#endif
