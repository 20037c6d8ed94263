/* cpu_levels.h - the levels of the cpu backend: which features each needs, and what it puts into the op table. */
#ifndef SG_CPU_LEVELS_H
#define SG_CPU_LEVELS_H

#include "backend.h"

typedef struct sg_cpu_level {
    const char *name, *label; /* of --cpumask; for people: "AVX-512 VNNI" */
    unsigned    needs;        /* features */
    sg_dtype    values;       /* as sg_backend has it */
    void (*fill)(sg_ops *t);  /* overwrites entries of the levels before it */
} sg_cpu_level;

enum { SG_CPU_LEVELS = 8 };
extern const sg_cpu_level sg_cpu_levels[SG_CPU_LEVELS];

/* Returns those of a set of features that levels can use: AVX-512 is of no use without AVX2. BASE is always one of
 * them. */
unsigned sg_cpu_usable(unsigned features);

/* Returns the last level that needs no more than these. */
const sg_cpu_level *sg_cpu_level_of(unsigned features);

/* A mask of 0 becomes what the variable SPARGE_GEN_CPUMASK names, one of sg_cpu_mask_names, and all features without
 * it. Returns SG_E_ARG if it names none. Other masks stay. */
sg_status sg_cpu_mask_resolve(unsigned *mask, sg_error *e) SG_MUST_USE;

/* Fills t with the entries of all levels that need no more than these features, without oneDNN. */
void sg_cpu_fill(sg_ops *t, unsigned features);

#endif
