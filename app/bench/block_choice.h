/* block_choice.h - blocks of causal attention that are kept by rules which know less, or more, than any score: what a
 * score is measured beside. Each row of blocks keeps as many as top-k does: amount times its visible blocks, rounded
 * down, 1 at least. */
#ifndef SG_BLOCK_CHOICE_H
#define SG_BLOCK_CHOICE_H

#include <stdint.h>

typedef enum sg_block_choice {
    SG_CHOICE_ORACLE, /* those with the most mass; of equals the first */
    SG_CHOICE_WINDOW, /* the first, and the last that are visible */
    SG_CHOICE_RANDOM, /* any */
    SG_CHOICES
} sg_block_choice;

extern const char *const sg_block_choice_names[]; /* "oracle", "sink + window", "random" */

/* Fills mask [h, n / 128, n / 64], 1 where a block is kept, 0 elsewhere. mass has the same shape, and room for nk
 * numbers. n is a multiple of 128. */
void sg_block_choose(uint8_t *mask, sg_block_choice by, float amount, const float *mass, int64_t n, int h, float *room,
                     uint64_t seed);

#endif
