/* dequantise.c - see dequantise.h. Plain loops of fixed length that compilers vectorise. In names as in ggml: q are the
 * low bits of the elements, h the bits above them, d the scale of a block, s and m those of its groups. */
#include "dequantise.h"
#include "half.h"

static uint16_t load16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static float    scale(const uint8_t *p) { return sg_half_to_f32(load16(p)); }

/* ---- elements of one byte ---- */

static void i8(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)(int8_t)x[i];
}

/* 4 bits of exponent, bias 7, no infinity; all ones is a NaN. */
static void f8_e4m3(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t magnitude = (uint32_t)(x[i] & 0x7f) << 20, sign = (uint32_t)(x[i] & 0x80) << 24;
        float          f;
        uint32_t       u;
        memcpy(&f, &magnitude, sizeof f);
        f *= 0x1p120f;
        memcpy(&u, &f, sizeof u);
        u |= sign | ((x[i] & 0x7f) == 0x7f ? 0x7fc00000u : 0u);
        memcpy(&y[i], &u, sizeof u);
    }
}

/* The upper half of an F16. */
static void f8_e5m2(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sg_half_to_f32((uint16_t)(x[i] << 8));
}

/* ---- blocks of 32: element i and i + 16 share a byte ---- */

static void q8_0(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 34, y += 32) {
        const float d = scale(x);
        for (int i = 0; i < 32; i++) y[i] = d * (float)(int8_t)x[2 + i];
    }
}

static void q4_0(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 18, y += 32) {
        const float d = scale(x);
        for (int i = 0; i < 16; i++) y[i] = d * (float)((x[2 + i] & 15) - 8);
        for (int i = 0; i < 16; i++) y[16 + i] = d * (float)((x[2 + i] >> 4) - 8);
    }
}

static void q4_1(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 20, y += 32) {
        const float d = scale(x), m = scale(x + 2);
        for (int i = 0; i < 16; i++) y[i] = d * (float)(x[4 + i] & 15) + m;
        for (int i = 0; i < 16; i++) y[16 + i] = d * (float)(x[4 + i] >> 4) + m;
    }
}

/* h[32] = 16 where that bit of the 4 bytes is set, else 0. */
static void fifth_bits(uint8_t *restrict h, const uint8_t *restrict x)
{
    for (int i = 0; i < 4; i++) {
        const uint64_t ones = 0x0101010101010101u, own = (x[i] * ones) & 0x8040201008040201u; /* byte k has bit k */
        const uint64_t bits = (((own + 0x7f * ones) >> 7) & ones) << 4;
        memcpy(h + 8 * i, &bits, sizeof bits);
    }
}

static void q5_0(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    uint8_t h[32];
    for (; blocks; blocks--, x += 22, y += 32) {
        const float d = scale(x);
        fifth_bits(h, x + 2);
        for (int i = 0; i < 16; i++) y[i] = d * (float)(((x[6 + i] & 15) | h[i]) - 16);
        for (int i = 0; i < 16; i++) y[16 + i] = d * (float)(((x[6 + i] >> 4) | h[16 + i]) - 16);
    }
}

static void q5_1(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    uint8_t h[32];
    for (; blocks; blocks--, x += 24, y += 32) {
        const float d = scale(x), m = scale(x + 2);
        fifth_bits(h, x + 4);
        for (int i = 0; i < 16; i++) y[i] = d * (float)((x[8 + i] & 15) | h[i]) + m;
        for (int i = 0; i < 16; i++) y[16 + i] = d * (float)((x[8 + i] >> 4) | h[16 + i]) + m;
    }
}

static const float iq4_value[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void iq4_group(float *restrict y, const uint8_t *restrict q, float d)
{
    for (int i = 0; i < 16; i++) y[i] = d * iq4_value[q[i] & 15];
    for (int i = 0; i < 16; i++) y[16 + i] = d * iq4_value[q[i] >> 4];
}

static void iq4_nl(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 18, y += 32) iq4_group(y, x + 2, scale(x));
}

/* ---- blocks of 256, in groups with scales of their own ---- */

/* Scale and minimum of group j of 8, 6 bits each, of the 12 bytes at S. */
static void scale_min(const uint8_t *S, int j, float *s, float *m)
{
    const int low = S[j < 4 ? j : j + 4], high = S[j < 4 ? j + 4 : j];
    *s = (float)(j < 4 ? low & 63 : (low & 15) | (S[j - 4] >> 6) << 4);
    *m = (float)(j < 4 ? high & 63 : (low >> 4) | (high >> 6) << 4);
}

static void q4_k(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 144)
        for (int j = 0; j < 8; j++, y += 32) {
            const uint8_t *const q = x + 16 + 32 * (j / 2);
            const int            shift = 4 * (j % 2);
            float                s, m;
            scale_min(x + 4, j, &s, &m);
            s *= scale(x);
            m *= scale(x + 2);
            for (int i = 0; i < 32; i++) y[i] = s * (float)((q[i] >> shift) & 15) - m;
        }
}

static void q5_k(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 176)
        for (int j = 0; j < 8; j++, y += 32) {
            const uint8_t *const q = x + 48 + 32 * (j / 2), *const h = x + 16;
            const int shift = 4 * (j % 2);
            float     s, m;
            scale_min(x + 4, j, &s, &m);
            s *= scale(x);
            m *= scale(x + 2);
            for (int i = 0; i < 32; i++) y[i] = s * (float)(((q[i] >> shift) & 15) | ((h[i] >> j) & 1) << 4) - m;
        }
}

/* Group g of 8 is elements 32 g and on; its two halves have scales of their own. */

static void q6_k(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 210)
        for (int g = 0; g < 8; g++, y += 32) {
            const uint8_t *const q = x + 64 * (g / 4) + 32 * (g % 2), *const h = x + 128 + 32 * (g / 4);
            const int   low = g % 4 / 2 * 4, high = g % 4 * 2;
            const float s = scale(x + 208) * (float)(int8_t)x[192 + 2 * g];
            const float t = scale(x + 208) * (float)(int8_t)x[193 + 2 * g];
            for (int i = 0; i < 16; i++) y[i] = s * (float)((((q[i] >> low) & 15) | ((h[i] >> high) & 3) << 4) - 32);
            for (int i = 16; i < 32; i++) y[i] = t * (float)((((q[i] >> low) & 15) | ((h[i] >> high) & 3) << 4) - 32);
        }
}

/* Scale c of 16, 6 bits, of the 12 bytes at S. */
static float q3_scale(const uint8_t *S, int c)
{
    return (float)((((S[c % 8] >> 4 * (c / 8)) & 15) | ((S[8 + c % 4] >> 2 * (c / 4)) & 3) << 4) - 32);
}

static void q3_k(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 110)
        for (int g = 0; g < 8; g++, y += 32) {
            const uint8_t *const q = x + 32 + 32 * (g / 4), *const h = x;
            const int   shift = g % 4 * 2;
            const float s = scale(x + 108) * q3_scale(x + 96, 2 * g);
            const float t = scale(x + 108) * q3_scale(x + 96, 2 * g + 1);
            for (int i = 0; i < 16; i++) y[i] = s * (float)((((q[i] >> shift) & 3) | ((h[i] >> g) & 1) << 2) - 4);
            for (int i = 16; i < 32; i++) y[i] = t * (float)((((q[i] >> shift) & 3) | ((h[i] >> g) & 1) << 2) - 4);
        }
}

static void q2_k(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 84)
        for (int c = 0; c < 16; c++, y += 16) {
            const uint8_t *const q = x + 16 + 32 * (c / 8) + 16 * (c % 2);
            const int            shift = c % 8 / 2 * 2;
            const float          s = scale(x + 80) * (float)(x[c] & 15), m = scale(x + 82) * (float)(x[c] >> 4);
            for (int i = 0; i < 16; i++) y[i] = s * (float)((q[i] >> shift) & 3) - m;
        }
}

static void iq4_xs(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 136)
        for (int j = 0; j < 8; j++, y += 32) {
            const int s = ((x[4 + j / 2] >> 4 * (j % 2)) & 15) | ((load16(x + 2) >> 2 * j) & 3) << 4;
            iq4_group(y, x + 8 + 16 * j, scale(x) * (float)(s - 32));
        }
}

static const struct {
    const char       *name;
    int               block, bytes;
    sg_dequantise_fn *run;
} types[] = {{"F8_E4M3", 1, 1, f8_e4m3}, {"F8_E5M2", 1, 1, f8_e5m2}, {"I8", 1, 1, i8},
             {"Q8_0", 32, 34, q8_0},     {"Q6_K", 256, 210, q6_k},   {"Q5_K", 256, 176, q5_k},
             {"Q5_0", 32, 22, q5_0},     {"Q5_1", 32, 24, q5_1},     {"Q4_K", 256, 144, q4_k},
             {"Q4_0", 32, 18, q4_0},     {"Q4_1", 32, 20, q4_1},     {"Q3_K", 256, 110, q3_k},
             {"Q2_K", 256, 84, q2_k},    {"IQ4_NL", 32, 18, iq4_nl}, {"IQ4_XS", 256, 136, iq4_xs}};

sg_dequantise_fn *sg_dequantiser(const sg_source_type *type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type->name) == 0 && types[i].block == type->block && types[i].bytes == type->bytes)
            return types[i].run;
    return NULL;
}
