/* rng.h - torch's CPU generator: a seed gives the noise that torch.randn gives. */
#ifndef SG_RNG_H
#define SG_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Fills out[n] as torch.randn(n, generator=torch.Generator("cpu").manual_seed(seed)) does, to F32 rounding of the
 * logarithm and the circular functions. mt19937; n >= 16 draws in blocks of 16 and redraws the last 16 when 16 does not
 * divide n, n < 16 goes through double Box-Muller pairs. */
void sg_randn(float *out, size_t n, uint64_t seed);

#endif
