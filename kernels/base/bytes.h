/* bytes.h - whole numbers as files have them, whatever their alignment. */
#ifndef SG_BYTES_H
#define SG_BYTES_H

#include <stdint.h>

/* Returns the number in up to 8 bytes, the lowest first. */
static inline uint64_t sg_little_endian(const uint8_t *p, int bytes)
{
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++) n |= (uint64_t)p[i] << (8 * i);
    return n;
}

#endif
