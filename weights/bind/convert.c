/* convert.c - see convert.h. Plain loops that compilers vectorise; a piece at a time, so that looking for NaN and then
 * converting costs one trip to memory. Blocks are those of ggml (https://github.com/ggml-org/ggml, src/ggml-common.h):
 * all products are exact in F32 and at most one sum rounds, so neither order nor fused operations matter. In names as
 * in ggml: q are the low bits of the elements, h the bits above them, d the scale of a block, s and m those of its
 * groups. */
#include "convert.h"

#include <string.h>

enum {
    PIECE = 1 << 14,      /* elements */
    DEQUANTISED = 1 << 11 /* of a piece at once, on the stack */
};

/* Numbers that no sg_dtype can view, as F32: 8-bit floats and integers, and the blocks of GGUF files, the same bits as
 * gguf-py's values. Sets y to the elements of so many blocks at x, which may be misaligned. A scale or an element that
 * is not finite makes at least one element of y a NaN or an infinity, and no other block's. */
typedef void dequantise_fn(float *y, const uint8_t *x, size_t blocks);

static uint32_t load32(const uint8_t *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

static uint16_t load16(const uint8_t *p)
{
    uint16_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

/* F16 as F32, exactly, in a form that compilers vectorise. The exponent's bias is corrected by a product, which also
 * normalises subnormals. NaN and infinity stay what they are. */
static inline float half_to_f32(uint16_t h)
{
    const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float          f;
    memcpy(&f, &magnitude, sizeof f);
    f *= 0x1p112f;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    u |= sign | ((h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u);
    memcpy(&f, &u, sizeof f);
    return f;
}

static float scale(const uint8_t *p) { return half_to_f32(load16(p)); }

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
    for (size_t i = 0; i < n; i++) y[i] = half_to_f32((uint16_t)(x[i] << 8));
}

/* ---- blocks of 32: element i and i + 16 share a byte ---- */

static void q8_0(float *restrict y, const uint8_t *restrict x, size_t blocks)
{
    for (; blocks; blocks--, x += 34, y += 32) {
        const float d = scale(x);
        for (int i = 0; i < 32; i++) y[i] = d * (float)(int8_t)x[2 + i];
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

/* Of 4 or, with `high`, 5 bits: a scale, with `min` a minimum, the fifth bits, the others. Adding -0 changes no
 * number. */
static inline void small_bits(float *restrict y, const uint8_t *restrict x, size_t blocks, bool high, bool min)
{
    const int at = 2 + 2 * min + 4 * high, zero = min ? 0 : high ? 16 : 8;
    for (; blocks; blocks--, x += at + 16, y += 32) {
        uint8_t     h[32];
        const float d = scale(x), m = min ? scale(x + 2) : -0.0f;
        if (high) fifth_bits(h, x + at - 4);
        for (int i = 0; i < 16; i++) y[i] = d * (float)(((x[at + i] & 15) | (high ? h[i] : 0)) - zero) + m;
        for (int i = 0; i < 16; i++) y[16 + i] = d * (float)(((x[at + i] >> 4) | (high ? h[16 + i] : 0)) - zero) + m;
    }
}

static void q4_0(float *y, const uint8_t *x, size_t blocks) { small_bits(y, x, blocks, false, false); }
static void q4_1(float *y, const uint8_t *x, size_t blocks) { small_bits(y, x, blocks, false, true); }
static void q5_0(float *y, const uint8_t *x, size_t blocks) { small_bits(y, x, blocks, true, false); }
static void q5_1(float *y, const uint8_t *x, size_t blocks) { small_bits(y, x, blocks, true, true); }

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

/* Of 4 or, with `high`, 5 bits, in 8 groups. */
static inline void grouped_bits(float *restrict y, const uint8_t *restrict x, size_t blocks, bool high)
{
    const int at = high ? 48 : 16;
    for (; blocks; blocks--, x += at + 128)
        for (int j = 0; j < 8; j++, y += 32) {
            const uint8_t *const q = x + at + 32 * (j / 2), *const h = x + 16;
            const int shift = 4 * (j % 2);
            float     s, m;
            scale_min(x + 4, j, &s, &m);
            s *= scale(x);
            m *= scale(x + 2);
            for (int i = 0; i < 32; i++)
                y[i] = s * (float)(((q[i] >> shift) & 15) | (high ? (h[i] >> j & 1) << 4 : 0)) - m;
        }
}

static void q4_k(float *y, const uint8_t *x, size_t blocks) { grouped_bits(y, x, blocks, false); }
static void q5_k(float *y, const uint8_t *x, size_t blocks) { grouped_bits(y, x, blocks, true); }

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
    const char    *type;
    dequantise_fn *run;
} types[] = {{"F8_E4M3", f8_e4m3}, {"F8_E5M2", f8_e5m2}, {"I8", i8},     {"Q8_0", q8_0},     {"Q6_K", q6_k},
             {"Q5_K", q5_k},       {"Q5_0", q5_0},       {"Q5_1", q5_1}, {"Q4_K", q4_k},     {"Q4_0", q4_0},
             {"Q4_1", q4_1},       {"Q3_K", q3_k},       {"Q2_K", q2_k}, {"IQ4_NL", iq4_nl}, {"IQ4_XS", iq4_xs}};

/* NULL: numbers of this type are not read so. */
static dequantise_fn *dequantiser(const sg_source_type *type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type->name) == 0) return types[i].run;
    return NULL;
}

/* ---- numbers as they are wanted ---- */

/* An exponent of all ones is a NaN or an infinity. */
static bool finite32(const uint8_t *x, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (load32(x + 4 * i) & 0x7f800000u) == 0x7f800000u;
    return !bad;
}

static bool finite16(const uint8_t *x, size_t n, uint16_t ones)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (load16(x + 2 * i) & ones) == ones;
    return !bad;
}

static void f16_to_f32(float *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = half_to_f32(load16(x + 2 * i));
}

static void bf16_to_f32(float *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sg_bf16_to_f32(load16(x + 2 * i));
}

static void f16_to_bf16(uint16_t *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sg_f32_to_bf16(half_to_f32(load16(x + 2 * i)));
}

static void f32_to_bf16(uint16_t *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = load32(x + 4 * i);
        y[i] = (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16); /* sg_f32_to_bf16 of a finite number */
    }
}

static bool convert_piece(void *y, sg_dtype as, const uint8_t *x, sg_dtype from, size_t n)
{
    const bool finite = from == SG_F32 ? finite32(x, n) : finite16(x, n, from == SG_F16 ? 0x7c00 : 0x7f80);
    if (!finite || !y) return finite;
    if (from == as)
        memcpy(y, x, n * sg_dtype_size(as));
    else if (from == SG_F32)
        f32_to_bf16(y, x, n);
    else if (from == SG_BF16)
        bf16_to_f32(y, x, n);
    else if (as == SG_F32)
        f16_to_f32(y, x, n);
    else
        f16_to_bf16(y, x, n);
    return as == SG_F32 || from != SG_F32 || finite16(y, n, 0x7f80); /* may have rounded to infinity */
}

/* y[n] are elements first and on of t. */
static void scale_rows(float *y, const sg_source_tensor *t, size_t first, size_t n)
{
    const size_t row = t->scales > 1 ? (size_t)(t->bytes / (uint64_t)t->scales) : SIZE_MAX; /* elements are bytes */
    for (size_t i = 0; i < n;) {
        const size_t number = (first + i) / row, left = row - (first + i) % row, count = left < n - i ? left : n - i;
        float        scale;
        memcpy(&scale, t->scale + number * sizeof scale, sizeof scale);
        for (size_t k = 0; k < count; k++) y[i + k] *= scale;
        i += count;
    }
}

/* y[n] = elements first and on of t. */
static bool dequantise_piece(void *y, sg_dtype as, const sg_source_tensor *t, size_t first, size_t n)
{
    float                f[DEQUANTISED];
    dequantise_fn *const dequantise = dequantiser(t->type);
    const size_t         block = (size_t)t->type->block, bytes = (size_t)t->type->bytes;
    uint8_t             *to = y;
    for (size_t i = 0; i < n; i += DEQUANTISED) {
        const size_t count = n - i < DEQUANTISED ? n - i : DEQUANTISED;
        float *const here = y && as == SG_F32 ? (float *)y + i : f;
        dequantise(here, t->data + (first + i) / block * bytes, count / block);
        if (t->scale) scale_rows(here, t, first + i, count);
        if (!convert_piece(here == f ? to : NULL, as, (const uint8_t *)here, SG_F32, count)) return false;
        if (to) to += count * sg_dtype_size(as);
    }
    return true;
}

static bool is_float(sg_dtype t) { return t == SG_F32 || t == SG_F16 || t == SG_BF16; }

bool sg_convert_reads(const sg_source_type *type) { return is_float(type->dtype) || dequantiser(type); }

bool sg_convert_from(void *y, sg_dtype as, const sg_source_tensor *t, size_t i, size_t n, int threads)
{
    const sg_source_type *const from = t->type;
    const size_t                block = (size_t)from->block, out = sg_dtype_size(as);
    const int64_t               pieces = (int64_t)((n + PIECE - 1) / PIECE);
    int                         bad = 0;
#pragma omp parallel for schedule(static) num_threads(threads > 0 ? threads : 1) reduction(| : bad)
    for (int64_t p = 0; p < pieces; p++) {
        const size_t         first = (size_t)p * PIECE, count = n - first < PIECE ? n - first : PIECE;
        void *const          to = y ? (uint8_t *)y + first * out : NULL;
        const uint8_t *const at = t->data + (i + first) / block * (size_t)from->bytes;
        bad |= is_float(from->dtype) ? !convert_piece(to, as, at, from->dtype, count)
                                     : !dequantise_piece(to, as, t, i + first, count);
    }
    return !bad;
}

bool sg_convert(void *y, sg_dtype as, const void *x, sg_dtype from, size_t n, int threads)
{
    const sg_source_type   type = {NULL, from, 1, (int)sg_dtype_size(from)};
    const sg_source_tensor t = {.type = &type, .data = x};
    return sg_convert_from(y, as, &t, 0, n, threads);
}
