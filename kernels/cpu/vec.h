/* vec.h - what every vec_*.c shares. Those files are compiled once per level with that level's flags and
 * -DSG_LEVEL=base, avx2 or avx512. They hold plain loops that compilers vectorise; all they export is
 * sg_vec_<file>_init_<level>. */
#ifndef SG_VEC_H
#define SG_VEC_H

#include "cpu.h"

#include <math.h>

#define SG_PASTE4_(a, b, c, d) a##b##c##d
#define SG_PASTE4(a, b, c, d) SG_PASTE4_(a, b, c, d)
#define SG_VEC_INIT(file) SG_PASTE4(sg_vec_, file, _init_, SG_LEVEL)
#define SG_VEC_NAME(op) SG_PASTE4(sg_vec_, op, _, SG_LEVEL)

#if defined(__AVX512F__)
enum { SG_LANES = 16 };
#elif defined(__AVX2__)
enum { SG_LANES = 8 };
#else
enum { SG_LANES = 4 };
#endif

/* A run of elements that stays in the first-level cache while an op works on it as F32, and the count below which
 * starting threads costs more than it saves. */
enum { SG_RUN = 1024, SG_FEW = 32768 };

static inline int64_t sg_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t sg_div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

/* n elements of t from element `at` on as F32: in place, or widened into room. */
static inline const float *sg_in(const sg_tensor *t, int64_t at, int64_t n, float *room)
{
    if (t->dtype == SG_F32) return (const float *)t->data + at;
    sg_widen(room, (const uint16_t *)t->data + at, n);
    return room;
}

/* The same for what is read and written: sg_out_done brings it home. */
static inline float *sg_inout(const sg_tensor *t, int64_t at, int64_t n, float *room)
{
    if (t->dtype == SG_F32) return (float *)t->data + at;
    sg_widen(room, (const uint16_t *)t->data + at, n);
    return room;
}

/* Where to write n elements of t from `at` on as F32, and the call that brings them home. */
static inline float *sg_out(const sg_tensor *t, int64_t at, float *room)
{
    return t->dtype == SG_F32 ? (float *)t->data + at : room;
}

static inline void sg_out_done(const sg_tensor *t, int64_t at, int64_t n, const float *room)
{
    if (t->dtype != SG_F32) sg_narrow((uint16_t *)t->data + at, room, n);
}

/* e^x within 2 units in the last place; 0 below -103.97, infinity above 88.72, NaN for NaN. Cody and Waite's reduction
 * to |r| <= ln 2 / 2, then a polynomial of degree 6 (Cephes' expf). 2^n goes in as two factors so that neither it nor
 * the result of a denormal leaves the exponent's range early. */
static inline float sg_expf(float x)
{
    const float round = 12582912.0f; /* 1.5 2^23: adding it leaves the nearest integer in the low bits */
    const float low = x < -104.0f ? -104.0f : x, z = low > 89.0f ? 89.0f : low;
    const float shifted = z * 1.44269504088896341f + round, n = shifted - round;
    const float r = (z - n * 0.693359375f) + n * 2.12194440e-4f;
    float       p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const int32_t k = (int32_t)(sg_bits(shifted) - sg_bits(round)), half = k >> 1;
    return p * sg_of_bits((uint32_t)(half + 127) << 23) * sg_of_bits((uint32_t)(k - half + 127) << 23);
}

/* y = act(x); y may be x. */
static inline void sg_act_run(sg_act act, float *y, const float *x, int64_t n)
{
    switch (act) {
    case SG_ACT_RELU:
        for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
        break;
    case SG_ACT_SILU:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i] / (1.0f + sg_expf(-x[i]));
        break;
    case SG_ACT_GELU_TANH: /* (1 + tanh u) / 2 = 1 / (1 + exp(-2u)) */
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float u = 0.79788456080286535588f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
            y[i] = x[i] / (1.0f + sg_expf(-2.0f * u));
        }
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
