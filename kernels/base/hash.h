/* hash.h - FNV-1a, 64 bits: tells contents apart; keeps nobody out. */
#ifndef SG_HASH_H
#define SG_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SG_HASH 0xcbf29ce484222325u /* where a hash begins */

/* Returns the hash of the bytes, going on from `hash`. */
static inline uint64_t sg_hash(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *const p = (const uint8_t *)data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

#endif
