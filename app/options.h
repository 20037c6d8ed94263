/* options.h - the command line: one table drives parsing, help and what is said about a wrong value. */
#ifndef SG_OPTIONS_H
#define SG_OPTIONS_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum sg_command {
    SG_COMMAND_RENDER = 1,
    SG_COMMAND_INFO = 2,
    SG_COMMAND_CHECK = 4,
    SG_COMMAND_BENCH_STEP = 8,
    SG_COMMAND_BENCH_ATTENTION = 16,
    SG_COMMAND_BENCH = SG_COMMAND_BENCH_STEP | SG_COMMAND_BENCH_ATTENTION, /* while it is not known which */
    SG_COMMAND_COMPARE = 32
} sg_command;

/* The levels of --cpumask, lowest first, then "all" and NULL. */
extern const char *const sg_cpumask_names[];

/* What was asked for. Strings point into argv. Zero, NULL and NaN mean "not given: as the model has it". */
typedef struct sg_settings {
    sg_command  command;
    bool        help, version, quiet, verbose, info_json;
    const char *operand;        /* info: the folder or file; compare: the first of two */
    const char *second_operand; /* compare */

    const char *model;
    const char *prompt, *prompt_file, *negative_prompt;
    int         size[2]; /* width, height; pixels */
    int         frames, fps, steps;
    double      seconds; /* length of the clip, instead of frames */
    double      cfg_scale, cfg_scale_2, flow_shift;
    const char *sampler, *sched_compat;
    int64_t     seed; /* negative: drawn at random */

    const char *output, *latents, *json;
    const char *backend, *dtype, *cpumask;
    int         threads;
    size_t      memory_limit;
    const char *shape;  /* bench attention */
    int         repeat; /* bench */
} sg_settings;

/* Reads argv[1..argc-1], a command's name first or none for render. Unknown options, values out of range and stray
 * arguments are SG_E_ARG; e names the option, the value and what would do. With --help or --version the rest is left
 * unread. */
sg_status sg_options_parse(sg_settings *s, int argc, char **argv, sg_error *e) SG_MUST_USE;

void sg_options_help(FILE *out, sg_command c);

/* The entry of a NULL-ended list that name was probably meant to be, or NULL. */
const char *sg_options_nearest(const char *name, const char *const *list);

#endif
