/* rng.h - torch's CPU generator: a seed gives the noise that torch.randn gives. */
#ifndef SG_RNG_H
#define SG_RNG_H

#include "tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills out[n] as torch.randn(n, generator=torch.Generator("cpu").manual_seed(seed)) does, to F32 rounding of the
 * logarithm and the circular functions. The generator is mt19937. n >= 16 draws in blocks of 16 and redraws the last 16
 * when 16 does not divide n; n < 16 goes through double Box-Muller pairs. */
void sg_randn(float *out, size_t n, uint64_t seed);

/* This is the generator itself, for several draws in turn. */
typedef struct sg_rng {
    uint32_t state[624];
    int      next;
    bool     spared;
    double   spare; /* the second of a pair, for the next draw of less than 16 */
} sg_rng;

void sg_rng_seed(sg_rng *g, uint64_t seed);
void sg_rng_randn(sg_rng *g, float *out, size_t n); /* as sg_randn, from where the generator is */
/* Draws as torch.randn(..., dtype=as) does, where `as` is SG_F32, SG_F16 or SG_BF16 and out[n] are numbers of that
 * dtype. The normals are F32's, rounded; but where 16 does not divide n, what is drawn again at the end is not drawn
 * before. This is torch of tests/golden/requirements.txt; older ones drew F16 and BF16 from fewer bits. */
void sg_rng_randn_as(sg_rng *g, sg_dtype as, float *out, size_t n);

/* Leaves the generator where such a draw would. It takes a third of the time. */
void sg_rng_skip(sg_rng *g, sg_dtype as, size_t n);

#endif
