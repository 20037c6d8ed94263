/* command.h - the commands. Each runs with parsed options and returns a status, which main maps to an exit code. */
#ifndef SG_COMMAND_H
#define SG_COMMAND_H

#include "options.h"

typedef sg_status sg_command_run(const sg_settings *s, sg_error *e);

sg_command_run sg_command_render, sg_command_info, sg_command_check, sg_command_compare, sg_command_tune,
    sg_command_eval, sg_command_serve, sg_command_language;
sg_command_run sg_command_bench_step, sg_command_bench_attention, sg_command_bench_cold;

/* Lists the shapes that bench attention knows by name, and what the first of them, the default, is, for help. Returns
 * text. */
const char *sg_bench_shapes(char *text, size_t size);

#endif
