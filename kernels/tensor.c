/* tensor.c - shapes, views and the 16-bit float formats. */
#include "tensor.h"

#include <math.h>
#include <stdio.h>

size_t sg_dtype_size(sg_dtype t)
{
    static const uint8_t size[SG_DTYPES] = {
        [SG_F32] = 4, [SG_F16] = 2, [SG_BF16] = 2, [SG_I32] = 4, [SG_U8] = 1, [SG_I8] = 1};
    return size[t];
}

const char *sg_dtype_name(sg_dtype t)
{
    static const char *const name[SG_DTYPES] = {
        [SG_F32] = "F32", [SG_F16] = "F16", [SG_BF16] = "BF16", [SG_I32] = "I32", [SG_U8] = "U8", [SG_I8] = "I8"};
    return name[t];
}

int64_t sg_count(sg_tensor t)
{
    if (t.rank == 0) return 0;
    int64_t n = 1;
    for (int i = 0; i < t.rank; i++) n *= t.dim[i];
    return n;
}

size_t sg_bytes(sg_tensor t) { return (size_t)sg_count(t) * sg_dtype_size(t.dtype); }

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
    for (int i = 0; i < rank; i++) v.dim[i] = dim[i];
    return sg_count(v) == sg_count(t) ? v : (sg_tensor){0};
}

sg_tensor sg_rows(sg_tensor t, int64_t first, int64_t count)
{
    if (t.rank == 0 || first < 0 || count < 0 || first + count > t.dim[0]) return (sg_tensor){0};
    const size_t row = t.dim[0] ? sg_bytes(t) / (size_t)t.dim[0] : 0;
    t.data = t.data ? (char *)t.data + (size_t)first * row : NULL;
    t.dim[0] = count;
    return t;
}

float sg_f16_to_f32(uint16_t h)
{
    const int   e = (h >> 10) & 31, m = h & 1023;
    const float sign = h & 0x8000 ? -1.0f : 1.0f;
    if (e == 31) return m ? NAN : sign * INFINITY;
    return sign * (e ? ldexpf((float)(1024 + m), e - 25) : ldexpf((float)m, -24));
}

uint16_t sg_f32_to_f16(float f)
{
    const uint16_t sign = signbit(f) ? 0x8000 : 0;
    const float    a = fabsf(f);
    if (isnan(f)) return (uint16_t)(sign | 0x7e00);
    if (a >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (a < 0x1p-14f) return (uint16_t)(sign | (uint16_t)nearbyintf(a * 0x1p24f));
    int         e;
    const float m = frexpf(a, &e); /* a = m 2^e, m in [1/2, 1) */
    /* A mantissa that rounds up to 2048 carries into the exponent by itself. */
    return (uint16_t)(sign + ((uint32_t)(e + 13) << 10) + (uint32_t)nearbyintf(m * 2048.0f));
}
