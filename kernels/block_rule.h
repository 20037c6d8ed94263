/* block_rule.h - how attention is cut into blocks, and by which rules blocks of keys are chosen. The first two numbers are the
 * same on every machine, so that masks and tuned thresholds mean the same everywhere. */
#ifndef SG_BLOCK_RULE_H
#define SG_BLOCK_RULE_H

/* Tokens of a block of queries, and of a block of keys. */
enum { SG_BLOCK_Q = 128, SG_BLOCK_K = 64 };

/* And of queries on Hopper, with F8 values, where blocks are predicted there. */
enum { SG_BLOCK_Q_F8 = 192 };

enum {
    SG_SELECT_TOPK, /* the floor(amount nk) best of nk, rounded as F32, at least 1; of equals the first */
    /* MASS takes the best whose scores together stay <= amount times the row's sum; at least 1; of equals the first.
     * Sums are in double, from the best down. */
    SG_SELECT_MASS,
    SG_SELECT_GIVEN /* those of a mask */
};

#endif
