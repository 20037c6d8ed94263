/* ref_blocks_rounded.c - the source of ref_blocks.c in float: what rounding alone does to each stage. */
#define SG_REF_REAL float
#define SG_REF_TABLE sg_ref_rounded_ops
#define SG_REF_IS_TRUTH 0
#include "ref_attend_blocks.c"
#include "ref_blocks.c"
