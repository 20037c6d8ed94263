/* ref_rounded.c - the oracle's source in float: what rounding alone does to each op. */
#define SG_REF_REAL float
#define SG_REF_TABLE sg_ref_rounded_ops
#define SG_REF_IS_TRUTH 0
#include "ref.c"
