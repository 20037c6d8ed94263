/* block_choice.c - see block_choice.h. */
#include "block_choice.h"
#include "op.h"
#include "rng.h"

#include <string.h>

const char *const sg_block_choice_names[] = {"oracle", "sink + window", "random"};

/* The `count` with the most weight of the first `visible`; those of a row are few. */
static void keep_most(uint8_t *row, const float *weight, int64_t visible, int64_t count)
{
    for (; count > 0; count--) {
        int64_t best = -1;
        for (int64_t j = 0; j < visible; j++)
            if (!row[j] && (best < 0 || weight[j] > weight[best])) best = j;
        row[best] = 1;
    }
}

void sg_block_choose(uint8_t *mask, sg_block_choice by, float amount, const float *mass, int64_t n, int h, float *room,
                     uint64_t seed)
{
    const int64_t nq = n / SG_BLOCK_Q, nk = n / SG_BLOCK_K;
    sg_rng        g;
    sg_rng_seed(&g, seed);
    memset(mask, 0, (size_t)(h * nq * nk));
    for (int64_t row = 0; row < h * nq; row++) {
        const int64_t  visible = sg_visible_blocks(true, row % nq, n, n), count = sg_topk_count(amount, visible);
        uint8_t *const to = mask + row * nk;
        if (by == SG_CHOICE_RANDOM) sg_rng_randn(&g, room, (size_t)nk);
        if (by != SG_CHOICE_WINDOW) keep_most(to, by == SG_CHOICE_ORACLE ? mass + row * nk : room, visible, count);
        for (int64_t i = 0; by == SG_CHOICE_WINDOW && i < count; i++) to[i ? visible - i : 0] = 1;
        for (int64_t j = sg_whole_blocks(true, row % nq, n, n); j < visible; j++) to[j] = 1; /* as sg_select does */
    }
}
