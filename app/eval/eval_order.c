/* eval_order.c - see eval_order.h. */
#include "eval_order.h"

/* SplitMix64's: Steele, Lea and Flood, OOPSLA 2014. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

void sg_eval_order(int order[SG_ARMS_MAX], int arms, int64_t unit)
{
    const int rows = 2 * arms;
    uint64_t  state = (uint64_t)(unit / rows);
    int       row[2 * SG_ARMS_MAX];
    for (int i = 0; i < rows; i++) row[i] = i;
    for (int i = rows - 1; i > 0; i--) {
        const int with = (int)(draw(&state) % (uint64_t)(i + 1)), was = row[i];
        row[i] = row[with];
        row[with] = was;
    }
    const int first = row[unit % rows];
    for (int i = 0; i < arms; i++) {
        const int step = i % 2 ? (i + 1) / 2 : arms - i / 2; /* 0, 1, -1, 2, -2, ... */
        order[first < arms ? i : arms - 1 - i] = (first + step) % arms;
    }
}
