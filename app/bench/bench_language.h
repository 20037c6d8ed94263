/* bench_language.h - `bench attention --inputs language`: whether planted keys are in the blocks that are kept. It
 * measures no time. */
#ifndef SG_BENCH_LANGUAGE_H
#define SG_BENCH_LANGUAGE_H

#include "bench.h"

/* Runs every arm on every input, prints a table of each or writes JSON. What an arm misses is a figure, no failure. */
sg_status sg_bench_language(sg_bench *b, sg_error *e) SG_MUST_USE;

#endif
