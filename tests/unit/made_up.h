/* made_up.h - numbers for the weights of small checkpoints, which make_t5_table.py makes too. */
#ifndef SG_MADE_UP_H
#define SG_MADE_UP_H

#include <stdint.h>
#include <string.h>

/* Number i of the tensor of that name: in [-1, 1), of a norm near 1. */
static inline float made_up(const char *name, uint32_t i)
{
    uint32_t h = 2166136261u;
    for (const char *c = name; *c; c++) h = (h ^ (unsigned char)*c) * 16777619u;
    h += i * 0x9e3779b9u;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    const float u = (float)((h ^ (h >> 16)) >> 8) * 0x1p-23f - 1.0f;
    return strstr(name, "norm") ? 1.0f + u / 4.0f : u;
}

#endif
