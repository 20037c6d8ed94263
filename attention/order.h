/* order.h - the order of a video's tokens in the sequence.
 *
 * The result of attention does not depend on the order of its keys, and every other op of a denoiser works on single
 * tokens. So the tokens, and the rotary tables with them, are permuted once per forward and permuted back at the end. A
 * good order makes neighbours in the sequence, which share a block, neighbours in the video. */
#ifndef SG_ORDER_H
#define SG_ORDER_H

#include "policy.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int sg_order; /* SG_ORDER_ROW and what follows it */

/* The names, by sg_order, are "row", "column", "time", "hilbert", "hilbert-cube", "hilbert-frame", "morton" and
 * "random"; NULL follows them. */
extern const char *const sg_order_names[SG_ORDERS + 1];

/* Sets at[i] to the row-major index of the token at position i, for i in [0, t y x). at has t y x entries. The sides
 * are 1 or more and t y x < 2^31. Returns SG_E_MEMORY when the curve finds no memory. */
sg_status sg_order_make(int32_t *at, sg_order order, int64_t t, int64_t y, int64_t x) SG_MUST_USE;

/* Sets inverse[at[i]] to i, for all i in [0, n). */
void sg_order_invert(int32_t *inverse, const int32_t *at, int64_t n);

/* Says which tokens attend to one another, where not all do: those of one group. Token p, its number row by row, is in
 * group p / run mod count. Groups may differ in length, and a short video leaves the last ones empty. */
typedef struct sg_groups {
    int count, run; /* 0 or 1, any: one group of all tokens */
} sg_groups;

/* Returns how many of n tokens are in a group. The first group has the most. */
int64_t sg_group_tokens(sg_groups g, int64_t n, int group);

/* Sets at[i], for i in [0, n), to the token at position i where one group follows another and a group's tokens stand as
 * in `order`, NULL: row by row. */
void sg_order_group(int32_t *at, const int32_t *order, int64_t n, sg_groups g);

#ifdef __cplusplus
}
#endif
#endif
