/* command.h - the commands. Each runs with parsed options and returns a status, which main maps to an exit code. */
#ifndef SG_COMMAND_H
#define SG_COMMAND_H

#include "options.h"

sg_status sg_command_render(const sg_settings *s, sg_error *e);
sg_status sg_command_info(const sg_settings *s, sg_error *e);
sg_status sg_command_check(const sg_settings *s, sg_error *e);
sg_status sg_command_bench_step(const sg_settings *s, sg_error *e);
sg_status sg_command_bench_attention(const sg_settings *s, sg_error *e);
sg_status sg_command_bench_cold(const sg_settings *s, sg_error *e);
sg_status sg_command_compare(const sg_settings *s, sg_error *e);
sg_status sg_command_tune(const sg_settings *s, sg_error *e);
sg_status sg_command_eval(const sg_settings *s, sg_error *e);

#endif
