/* arena.h - bump memory. Taking the same path twice yields the same addresses, which is what lets a step be replayed. */
#ifndef SG_ARENA_H
#define SG_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { SG_ALIGN = 256 }; /* bytes; of every block an arena hands out */

/* Owns nothing: base comes from whoever made it. cap SIZE_MAX with a made-up base measures without memory. */
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
