/* spiece_maker.h - writes small tokenizer folders for tests: spiece.model in protobuf, and files beside it. */
#ifndef SPIECE_MAKER_H
#define SPIECE_MAKER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAKER_MAX = 1 << 16 };

/* A protobuf message that is being written; it ends the test program when it grows past MAKER_MAX. */
typedef struct maker {
    unsigned char at[MAKER_MAX];
    size_t        len;
} maker;

static inline void maker_put(maker *m, const void *bytes, size_t n)
{
    if (n > MAKER_MAX - m->len) abort();
    memcpy(m->at + m->len, bytes, n);
    m->len += n;
}

static inline void maker_varint(maker *m, uint64_t v)
{
    for (; v > 127; v >>= 7) maker_put(m, &(unsigned char){(unsigned char)(v | 128)}, 1);
    maker_put(m, &(unsigned char){(unsigned char)v}, 1);
}

static inline void maker_bytes(maker *m, unsigned field, const void *bytes, size_t n)
{
    maker_varint(m, field << 3 | 2);
    maker_varint(m, n);
    maker_put(m, bytes, n);
}

static inline void maker_int(maker *m, unsigned field, uint64_t v)
{
    maker_varint(m, field << 3);
    maker_varint(m, v);
}

static inline void maker_piece(maker *m, const char *text, float score, int type)
{
    static maker piece;
    piece.len = 0;
    maker_bytes(&piece, 1, text, strlen(text));
    maker_varint(&piece, 2 << 3 | 5);
    maker_put(&piece, &score, sizeof score);
    if (type != 1) maker_int(&piece, 3, (uint64_t)type);
    maker_bytes(m, 1, piece.at, piece.len);
}

static inline void maker_u32(maker *m, size_t at, uint32_t v)
{
    for (int i = 0; i < 4; i++) m->at[at + (size_t)i] = (unsigned char)(v >> 8 * i);
}

static inline uint32_t maker_get_u32(const maker *m, size_t at)
{
    return m->at[at] | (uint32_t)m->at[at + 1] << 8 | (uint32_t)m->at[at + 2] << 16 | (uint32_t)m->at[at + 3] << 24;
}

/* A character map of count pairs key, replacement. Every node of the trie has a block of 256 units of its own for its
 * children: the child for byte c of the node whose block is b is unit 256 b + c, and unit 256 b itself holds a value.
 */
static inline void maker_charsmap(maker *m, const char *const (*pairs)[2], int count)
{
    enum { BLOCKS = 24 };
    static maker pool;
    size_t       blocks = 2, block_of[256 * BLOCKS] = {1};
    const size_t trie = (size_t)4 * 256 * BLOCKS;
    pool.len = 0;
    m->len = 4 + trie;
    memset(m->at, 0, m->len);
    maker_u32(m, 0, (uint32_t)trie);
    maker_u32(m, 4, 256 << 10);
    for (int i = 0; i < count; i++) {
        size_t unit = 0;
        for (const char *s = pairs[i][0]; *s; s++) {
            const unsigned c = (unsigned char)*s;
            unit = 256 * block_of[unit] + c;
            if (!block_of[unit]) block_of[unit] = blocks++;
            if (blocks > BLOCKS) abort();
            const uint32_t old = maker_get_u32(m, 4 + 4 * unit) & 0x100;
            maker_u32(m, 4 + 4 * unit, (uint32_t)(unit ^ 256 * block_of[unit]) << 10 | old | c);
        }
        maker_u32(m, 4 + 4 * unit, maker_get_u32(m, 4 + 4 * unit) | 0x100);
        maker_u32(m, 4 + 4 * 256 * block_of[unit], (uint32_t)pool.len | 0x80000000u);
        maker_put(&pool, pairs[i][1], strlen(pairs[i][1]) + 1);
    }
    maker_put(m, pool.at, pool.len);
}

/* Writes dir/name, or removes it when bytes is NULL. */
static inline void maker_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!bytes) {
        remove(path);
        return;
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) abort();
}

#endif
