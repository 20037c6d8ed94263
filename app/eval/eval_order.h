/* eval_order.h - in which order the arms of an evaluation take turns.
 *
 * A unit is one clip of one prompt, and all arms render it after one another. Whoever is first may find the machine
 * otherwise than whoever is last, and so may whoever follows a slow one. So each unit has a row of a Latin square: in as
 * many units as there are arms, a block, each arm is once in each place. The rows are Williams' (Aust. J. Sci. Res. A 2
 * (1949)): with an even number of arms each also follows each other one once; with an odd number it does so over two
 * blocks, of which the second has the rows backwards. The rows of a block come in an order drawn from a fixed seed, so
 * that no periodic load keeps step with them.
 *
 * The order depends on the unit alone, not on what is done already. */
#ifndef SG_EVAL_ORDER_H
#define SG_EVAL_ORDER_H

#include "arms.h"

#include <stdint.h>

/* Puts 0 to arms - 1, SG_ARMS_MAX at most, into order, of the unit with this number, from 0. */
void sg_eval_order(int order[SG_ARMS_MAX], int arms, int64_t unit);

#endif
