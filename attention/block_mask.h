/* block_mask.h - the mask of a policy that names the blocks itself. */
#ifndef SG_BLOCK_MASK_H
#define SG_BLOCK_MASK_H

#include "run.h"

/* Returns SG_E_ARG if the mask has other numbers of heads or blocks than x. */
sg_status sg_block_mask_check(const sg_policy *p, const sg_attention_shape *x, sg_error *e) SG_MUST_USE;

/* Lists the blocks of keys, of the first `seen`, that block i of a head's queries keeps: those of the mask, and all that
 * are a matter of text. Returns how many. */
int32_t sg_block_mask_list(uint16_t *list, const sg_policy *p, const sg_attention_shape *x, int64_t head, int64_t i,
                           int64_t seen);

#endif
