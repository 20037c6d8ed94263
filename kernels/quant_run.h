/* quant_run.h - sixteen neighbours of quantised weights as numbers, by the same code on the host and on a GPU. Blocks are
 * those of ggml (https://github.com/ggml-org/ggml, src/ggml-common.h): all products are exact in F32 and at most one sum
 * rounds, so neither order nor fused operations matter. In names as in ggml: q are the low bits of the elements, h the
 * bits above them, d the scale of a block, s and m those of its groups. */
#ifndef SG_QUANT_RUN_H
#define SG_QUANT_RUN_H

#include "quant.h"

enum { SG_QUANT_RUN = 16 }; /* no group of elements with a scale of its own is shorter */

SG_BOTH float sg_run_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

SG_BOTH uint32_t sg_run_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* An F16 as F32, exactly. The exponent's bias is corrected by a product, which also normalises subnormals. NaN and
 * infinity stay what they are. */
SG_BOTH float sg_run_half(uint32_t h)
{
    const uint32_t u = sg_run_bits(sg_run_float((h & 0x7fff) << 13) * 0x1p112f);
    return sg_run_float(u | (h & 0x8000) << 16 | ((h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u));
}

/* The F16 at x, at an even address of a device. */
SG_BOTH float sg_run_scale(const uint8_t *x)
{
#ifdef __CUDA_ARCH__
    return sg_run_half(*(const uint16_t *)x);
#else
    return sg_run_half((uint32_t)x[0] | (uint32_t)x[1] << 8);
#endif
}

/* Sixteen bytes of a block. On a device blocks begin at multiples of `align`. */
typedef struct sg_run_bytes {
    uint8_t at[SG_QUANT_RUN] __attribute__((aligned(16)));
} sg_run_bytes;

SG_BOTH sg_run_bytes sg_run_take(const uint8_t *x, int align)
{
    sg_run_bytes b;
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int k = 0; k < SG_QUANT_RUN; k += align)
        if (align == 16)
            *(uint4 *)b.at = *(const uint4 *)x;
        else if (align == 8)
            *(uint2 *)(b.at + k) = *(const uint2 *)(x + k);
        else if (align == 4)
            *(uint32_t *)(b.at + k) = *(const uint32_t *)(x + k);
        else
            *(uint16_t *)(b.at + k) = *(const uint16_t *)(x + k);
#else
    (void)align;
    memcpy(b.at, x, sizeof b.at);
#endif
    return b;
}

/* ---- elements of one byte ---- */

/* 4 bits of exponent, bias 7, no infinity; all ones is a NaN. */
SG_BOTH void sg_run_e4m3(float *y, sg_run_bytes q)
{
    for (int k = 0; k < SG_QUANT_RUN; k++) {
        const uint32_t u = sg_run_bits(sg_run_float((uint32_t)(q.at[k] & 0x7f) << 20) * 0x1p120f);
        y[k] = sg_run_float(u | (uint32_t)(q.at[k] & 0x80) << 24 | ((q.at[k] & 0x7f) == 0x7f ? 0x7fc00000u : 0u));
    }
}

/* The upper half of an F16. */
SG_BOTH void sg_run_e5m2(float *y, sg_run_bytes q)
{
    for (int k = 0; k < SG_QUANT_RUN; k++) y[k] = sg_run_half((uint32_t)q.at[k] << 8);
}

SG_BOTH void sg_run_integers(float *y, sg_run_bytes q, float d)
{
    for (int k = 0; k < SG_QUANT_RUN; k++) y[k] = d * (float)(int8_t)q.at[k];
}

/* ---- blocks of 32: element i and i + 16 share a byte ---- */

/* Of 4 or, with `high`, 5 bits: a scale, with `min` a minimum, the fifth bits, the others. Adding -0 changes no
 * number. */
SG_BOTH void sg_run_small(float *y, const uint8_t *x, int i, bool high, bool min)
{
    const int          at = 2 + 2 * min + 4 * high, zero = min ? 0 : high ? 16 : 8, shift = i / 16 * 4;
    const float        d = sg_run_scale(x), m = min ? sg_run_scale(x + 2) : -0.0f;
    const sg_run_bytes q = sg_run_take(x + at, min ? high ? 8 : 4 : 2);
    const int          h = high ? x[at - 4 + i / 8] | x[at - 3 + i / 8] << 8 : 0;
    for (int k = 0; k < SG_QUANT_RUN; k++)
        y[k] = d * (float)((((q.at[k] >> shift) & 15) | (h >> k & 1) << 4) - zero) + m;
}

SG_BOTH void sg_run_iq4(float *y, sg_run_bytes q, int i, float d)
{
    const uint64_t low = 0xf6eaddcfbfad9881,
                   high = 0x7159453526190d01; /* the 16 numbers, -127 to 113, of a byte each */
    for (int k = 0; k < SG_QUANT_RUN; k++) {
        const int n = (q.at[k] >> i / 16 * 4) & 15;
        y[k] = d * (float)(int8_t)((n < 8 ? low : high) >> n % 8 * 8 & 0xff);
    }
}

/* ---- blocks of 256, in groups with scales of their own ---- */

/* Of 4 or, with `high`, 5 bits, in 8 groups, whose scales and minima have 6 bits each, in 12 bytes. */
SG_BOTH void sg_run_grouped(float *y, const uint8_t *x, int i, bool high)
{
    const int            j = i / 32, shift = j % 2 * 4;
    const uint8_t *const S = x + 4;
    const sg_run_bytes   h = sg_run_take(x + 16 + i % 32, 16),
                       q = sg_run_take(x + (high ? 48 : 16) + j / 2 * 32 + i % 32, 16);
    const int   a = S[j < 4 ? j : j + 4], b = S[j < 4 ? j + 4 : j];
    const float s = sg_run_scale(x) * (float)(j < 4 ? a & 63 : (a & 15) | (S[j - 4] >> 6) << 4);
    const float m = sg_run_scale(x + 2) * (float)(j < 4 ? b & 63 : (a >> 4) | (b >> 6) << 4);
    for (int k = 0; k < SG_QUANT_RUN; k++)
        y[k] = s * (float)(((q.at[k] >> shift) & 15) | (high ? (h.at[k] >> j & 1) << 4 : 0)) - m;
}

/* Group g of 8 is elements 32 g and on; its two halves have scales of their own. */

SG_BOTH void sg_run_q6_k(float *y, const uint8_t *x, int i)
{
    const int          g = i / 32, low = g % 4 / 2 * 4, high = g % 4 * 2;
    const sg_run_bytes q = sg_run_take(x + g / 4 * 64 + g % 2 * 32 + i % 32, 2);
    const sg_run_bytes h = sg_run_take(x + 128 + g / 4 * 32 + i % 32, 2);
    const float        s = sg_run_scale(x + 208) * (float)(int8_t)x[192 + i / 16];
    for (int k = 0; k < SG_QUANT_RUN; k++)
        y[k] = s * (float)((((q.at[k] >> low) & 15) | ((h.at[k] >> high) & 3) << 4) - 32);
}

/* Scale c of 16 has 6 bits, of the 12 bytes at S. */
SG_BOTH void sg_run_q3_k(float *y, const uint8_t *x, int i)
{
    const int            g = i / 32, shift = g % 4 * 2, c = i / 16;
    const uint8_t *const S = x + 96;
    const sg_run_bytes   h = sg_run_take(x + i % 32, 2), q = sg_run_take(x + 32 + g / 4 * 32 + i % 32, 2);
    const int            six = ((S[c % 8] >> c / 8 * 4) & 15) | ((S[8 + c % 4] >> c / 4 * 2) & 3) << 4;
    const float          s = sg_run_scale(x + 108) * (float)(six - 32);
    for (int k = 0; k < SG_QUANT_RUN; k++)
        y[k] = s * (float)((((q.at[k] >> shift) & 3) | ((h.at[k] >> g) & 1) << 2) - 4);
}

SG_BOTH void sg_run_q2_k(float *y, const uint8_t *x, int i)
{
    const int          c = i / 16, shift = c % 8 / 2 * 2;
    const sg_run_bytes q = sg_run_take(x + 16 + c / 8 * 32 + c % 2 * 16, 4);
    const float        s = sg_run_scale(x + 80) * (float)(x[c] & 15), m = sg_run_scale(x + 82) * (float)(x[c] >> 4);
    for (int k = 0; k < SG_QUANT_RUN; k++) y[k] = s * (float)((q.at[k] >> shift) & 3) - m;
}

SG_BOTH void sg_run_iq4_xs(float *y, const uint8_t *x, int i)
{
    const int j = i / 32, high = ((int)x[2] | (int)x[3] << 8) >> 2 * j & 3;
    const int s = ((x[4 + j / 2] >> j % 2 * 4) & 15) | high << 4;
    sg_run_iq4(y, sg_run_take(x + 8 + 16 * j, 8), i % 32, sg_run_scale(x) * (float)(s - 32));
}

/* Sets y[SG_QUANT_RUN] to elements i and on of the block at x, i a multiple of SG_QUANT_RUN. */
SG_BOTH void sg_quant_run(float *y, sg_quant_type type, const uint8_t *x, int i)
{
    switch (type) {
    case SG_QUANT_F8_E4M3: sg_run_e4m3(y, sg_run_take(x, 16)); break;
    case SG_QUANT_F8_E5M2: sg_run_e5m2(y, sg_run_take(x, 16)); break;
    case SG_QUANT_I8: sg_run_integers(y, sg_run_take(x, 16), 1); break;
    case SG_QUANT_Q8_0: sg_run_integers(y, sg_run_take(x + 2 + i, 2), sg_run_scale(x)); break;
    case SG_QUANT_Q6_K: sg_run_q6_k(y, x, i); break;
    case SG_QUANT_Q5_K: sg_run_grouped(y, x, i, true); break;
    case SG_QUANT_Q5_0: sg_run_small(y, x, i, true, false); break;
    case SG_QUANT_Q5_1: sg_run_small(y, x, i, true, true); break;
    case SG_QUANT_Q4_K: sg_run_grouped(y, x, i, false); break;
    case SG_QUANT_Q4_0: sg_run_small(y, x, i, false, false); break;
    case SG_QUANT_Q4_1: sg_run_small(y, x, i, false, true); break;
    case SG_QUANT_Q3_K: sg_run_q3_k(y, x, i); break;
    case SG_QUANT_Q2_K: sg_run_q2_k(y, x, i); break;
    case SG_QUANT_IQ4_NL: sg_run_iq4(y, sg_run_take(x + 2, 2), i, sg_run_scale(x)); break;
    case SG_QUANT_IQ4_XS: sg_run_iq4_xs(y, x, i); break;
    default: break;
    }
}

#endif
