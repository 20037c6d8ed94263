/* eval_order.h - in which order the arms of an evaluation take turns.
 *
 * A unit is one clip of one prompt, and all arms render it after one another. Whoever is first may find the machine
 * otherwise than whoever is last, and so may whoever follows a slow one. So the units take rows of a Latin square,
 * Williams' (Aust. J. Sci. Res. A 2 (1949)), forwards and backwards: in each block of twice as many units as there are
 * arms every arm is twice in each place, and follows each other one equally often. The rows of a block come in an order
 * drawn from a fixed seed, so that no periodic load keeps step with them. (A block of one square only would tie its units
 * to each other: with two arms a load of 4/3 renders' period then met the same arm in both, which doubles the variance of
 * a mean that is taken for that of independent units.)
 *
 * The order depends on the unit alone, not on what is done already. */
#ifndef SG_EVAL_ORDER_H
#define SG_EVAL_ORDER_H

#include "arms.h"

#include <stdint.h>

/* Puts 0 to arms - 1, SG_ARMS_MAX at most, into order, of the unit with this number, from 0. */
void sg_eval_order(int order[SG_ARMS_MAX], int arms, int64_t unit);

#endif
