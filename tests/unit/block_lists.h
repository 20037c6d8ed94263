/* block_lists.h - lists of blocks: U16 [h, nq, nk] and I32 [h, nq], as select writes them. */
#ifndef SG_BLOCK_LISTS_H
#define SG_BLOCK_LISTS_H

#include "op.h"

typedef struct block_lists {
    sg_tensor list, count;
} block_lists;

static inline block_lists block_lists_new(sg_stream *s, int64_t h, int64_t nq, int64_t nk)
{
    const block_lists l = {sg_new(s, SG_U16, h, nq, nk), sg_new(s, SG_I32, h, nq)};
    memset(l.count.data, 0, sg_bytes(l.count));
    return l;
}

static inline int64_t listed_count(const block_lists *l, int64_t row) { return ((const int32_t *)l->count.data)[row]; }

/* Puts block j at the end of a row, (head, block of queries). */
static inline void list_block(const block_lists *l, int64_t row, int64_t j)
{
    ((uint16_t *)l->list.data)[row * l->list.dim[2] + ((int32_t *)l->count.data)[row]++] = (uint16_t)j;
}

static inline bool is_listed(const block_lists *l, int64_t row, int64_t j)
{
    const uint16_t *const list = (const uint16_t *)l->list.data + row * l->list.dim[2];
    for (int64_t k = 0; k < listed_count(l, row); k++)
        if (list[k] == j) return true;
    return false;
}

#endif
