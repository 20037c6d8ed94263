/* rng.h - torch's CPU generator: a seed gives the noise that torch.randn gives. */
#ifndef SG_RNG_H
#define SG_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills out[n] as torch.randn(n, generator=torch.Generator("cpu").manual_seed(seed)) does, to F32 rounding of the
 * logarithm and the circular functions. mt19937; n >= 16 draws in blocks of 16 and redraws the last 16 when 16 does not
 * divide n, n < 16 goes through double Box-Muller pairs. */
void sg_randn(float *out, size_t n, uint64_t seed);

/* The generator itself, for several draws in turn. */
typedef struct sg_rng {
    uint32_t state[624];
    int      next;
    bool     spared;
    double   spare; /* the second of a pair, for the next draw of less than 16 */
} sg_rng;

void sg_rng_seed(sg_rng *g, uint64_t seed);
void sg_rng_randn(sg_rng *g, float *out, size_t n); /* as sg_randn, from where the generator is */

#endif
