/* arena.h - bump allocation. The same sequence of calls gives the same addresses, so a step can be replayed. */
#ifndef SG_ARENA_H
#define SG_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { SG_ALIGN = 256 }; /* bytes: the alignment of every block */

/* Owns nothing; base is its creator's. With cap SIZE_MAX and any base it measures without memory. */
typedef struct sg_arena {
    uintptr_t base;
    size_t    cap, used, peak;
} sg_arena;

/* Address of `bytes` aligned bytes, or 0 when they do not fit. */
static inline uintptr_t sg_arena_take(sg_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX - SG_ALIGN) return 0;
    const size_t need = (bytes + SG_ALIGN - 1) & ~(size_t)(SG_ALIGN - 1);
    if (need > a->cap - a->used) return 0;
    const uintptr_t p = a->base + a->used;
    a->used += need;
    if (a->used > a->peak) a->peak = a->used;
    return p;
}

#endif
