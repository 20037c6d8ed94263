/* environment.h - the environment's variables that the library leaves to the program. */
#ifndef SG_ENVIRONMENT_H
#define SG_ENVIRONMENT_H

#include <spargegen/spargegen.h>

/* Sets what a library below reads of the environment, and returns what oneDNN's own variable says: sg_onednn_most. Call it
 * first. */
const char *sg_environment_settle(void);

/* Returns the level of the CPU that SPARGE_GEN_CPUMASK names, NULL without one. */
const char *sg_environment_cpumask(void);

/* Finds the mask of this level of the CPU, an option's; where that is NULL, of the variable's; 0 without either.
 * Returns SG_E_ARG if the variable names none. */
sg_status sg_environment_cpu_mask(unsigned *mask, const char *level, sg_error *e) SG_MUST_USE;

/* Returns what a backend says of the NVIDIA card that auto passed, "" where CUDA_VISIBLE_DEVICES hides it. */
const char *sg_environment_passed(const char *passed);

#endif
