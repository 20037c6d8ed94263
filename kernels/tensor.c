/* tensor.c - shapes, views and the 16-bit and 8-bit float formats. */
#include "quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t sg_dtype_size(sg_dtype t)
{
    static const uint8_t size[SG_DTYPES] = {
        [SG_F32] = 4, [SG_F16] = 2, [SG_BF16] = 2, [SG_I32] = 4, [SG_U8] = 1, [SG_I8] = 1, [SG_F8] = 1, [SG_U16] = 2};
    return size[t];
}

const char *sg_dtype_name(sg_dtype t)
{
    static const char *const name[SG_DTYPES] = {
        [SG_F32] = "F32", [SG_F16] = "F16", [SG_BF16] = "BF16",  [SG_I32] = "I32",
        [SG_U8] = "U8",   [SG_I8] = "I8",   [SG_F8] = "F8_E4M3", [SG_U16] = "U16"};
    return name[t];
}

int64_t sg_count(sg_tensor t)
{
    if (t.rank == 0) return 0;
    int64_t n = 1;
    for (int i = 0; i < t.rank; i++) n *= t.dim[i];
    return n;
}

size_t sg_bytes(sg_tensor t)
{
    if (!t.quant.type) return (size_t)sg_count(t) * sg_dtype_size(t.dtype);
    if (!t.quant.scale_rows) return sg_quant_bytes((sg_quant_type)t.quant.type, sg_count(t));
    return sg_quant_scales_at(&t) + (size_t)sg_quant_scales(&t) * sizeof(float);
}

void sg_shape_text(char *out, size_t size, int rank, const int64_t *dim)
{
    size_t at = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? ", " : "", (long long)dim[i]);
    if (at < size) snprintf(out + at, size - at, "]");
}

sg_tensor sg_reshape_(sg_tensor t, int rank, const int64_t *dim)
{
    sg_tensor v = {.data = t.data, .dtype = t.dtype, .rank = rank};
    if (t.quant.type) return rank == 2 && dim[0] == t.dim[0] && dim[1] == t.dim[1] ? t : (sg_tensor){0};
    for (int i = 0; i < rank; i++) v.dim[i] = dim[i];
    return sg_count(v) == sg_count(t) ? v : (sg_tensor){0};
}

sg_tensor sg_rows(sg_tensor t, int64_t first, int64_t count)
{
    if (t.rank == 0 || first < 0 || count < 0 || first + count > t.dim[0]) return (sg_tensor){0};
    const int64_t all = t.dim[0];
    t.dim[0] = first;
    const size_t before = t.quant.type ? sg_quant_bytes((sg_quant_type)t.quant.type, sg_count(t)) : sg_bytes(t);
    t.data = t.data ? (char *)t.data + before : NULL;
    t.dim[0] = count;
    if (t.quant.type && !t.quant.all) t.quant.all = (int32_t)all;
    if (t.quant.type) t.quant.first += (int32_t)first;
    return t;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The exponents of F16 and F32 are 112 apart, their mantissas 13 bits. */
float sg_f16_to_f32(uint16_t h)
{
    const uint32_t e = (h >> 10) & 31, m = h & 1023u;
    float          f = float_of(((e + 112) << 23) | (m << 13));
    if (e == 0) f = (float)m * 0x1p-24f;
    if (e == 31) f = m ? NAN : INFINITY;
    return h & 0x8000 ? -f : f;
}

uint16_t sg_f32_to_f16(float f)
{
    const uint16_t sign = signbit(f) ? 0x8000 : 0;
    const float    a = fabsf(f);
    if (isnan(f)) return (uint16_t)(sign | 0x7e00);
    if (a >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (a < 0x1p-14f) return (uint16_t)(sign | (uint16_t)nearbyintf(a * 0x1p24f));
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits += 0xfff + ((bits >> 13) & 1); /* to nearest, ties to even; a carry goes on into the exponent */
    return (uint16_t)(sign | ((bits >> 13) - (112 << 10)));
}

/* The exponents of E4M3 and F32 are 120 apart, their mantissas 20 bits. */
float sg_f8_to_f32(uint8_t h)
{
    const uint32_t e = (h >> 3) & 15, m = h & 7u;
    float          f = float_of(((e + 120) << 23) | (m << 20));
    if (e == 0) f = (float)m * 0x1p-9f;
    if (e == 15 && m == 7) f = NAN;
    return h & 0x80 ? -f : f;
}

uint8_t sg_f32_to_f8(float f)
{
    enum { LARGEST = 0x7e };
    const uint8_t sign = signbit(f) ? 0x80 : 0;
    const float   a = fabsf(f);
    if (isnan(f)) return (uint8_t)(sign | 0x7f);
    if (a >= 448.0f) return (uint8_t)(sign | LARGEST);
    if (a < 0x1p-6f) return (uint8_t)(sign | (uint8_t)nearbyintf(a * 0x1p9f));
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits += 0x7ffff + ((bits >> 20) & 1); /* as above */
    return (uint8_t)(sign | ((bits >> 20) - (120 << 3)));
}
