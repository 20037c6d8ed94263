/* half.h - F16 as F32, in a form that compilers vectorise. It is internal to this folder. */
#ifndef SG_HALF_H
#define SG_HALF_H

#include <stdint.h>
#include <string.h>

/* Converts exactly. The exponent's bias is corrected by a product, which also normalises subnormals. NaN and infinity
 * stay what they are. */
static inline float sg_half_to_f32(uint16_t h)
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

#endif
