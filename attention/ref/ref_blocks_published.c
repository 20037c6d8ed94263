/* ref_blocks_published.c - the source of ref_blocks.c, rounded where SpargeAttn as published rounds: op.h says where. What is
 * not rounded there is in double, as the order of its sums in F32 is not known. */
#define SG_REF_REAL double
#define SG_REF_IS_TRUTH 1
#define SG_REF_IS_PUBLISHED 1
#include "ref_attend_blocks.c"
#include "ref_blocks.c"

#define X(op) .op = SG_REF_OP(op),
const sg_ops sg_ref_published_ops = {SG_BLOCK_OPS(X)};
#undef X
