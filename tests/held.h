/* held.h - tests of kernels run again as on older processors: what the environment holds down. */
#ifndef SG_HELD_H
#define SG_HELD_H

#include "backend.h"

#include <stdio.h>
#include <stdlib.h>

/* The mask for backends of such a test, by SPARGE_GEN_CPUMASK; 0 without that. Masks leave oneDNN where
 * ONEDNN_MAX_CPU_ISA has it. */
static inline unsigned held_mask(void)
{
    const char *const level = getenv("SPARGE_GEN_CPUMASK");
    const unsigned    mask = level && *level ? sg_cpu_mask_of(level) : ~0u;
    sg_onednn_most = getenv("ONEDNN_MAX_CPU_ISA");
    if (mask) return mask == ~0u ? 0 : mask;
    fprintf(stderr, "SPARGE_GEN_CPUMASK: there is no level '%s'\n", level);
    exit(2);
}

#endif
