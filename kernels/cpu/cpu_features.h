/* cpu_features.h - what this machine's CPU has. */
#ifndef SG_CPU_FEATURES_H
#define SG_CPU_FEATURES_H

#include <stddef.h>

/* Returns the features of backend.h that the CPU has and the system lets us use. */
unsigned sg_cpu_found(void);

void sg_cpu_brand(char *out, size_t size);

#endif
