/* main.c - sparge-gen: reads the command line, runs one command, tells how it ended: 0 done, 1 failed, 2 misused,
 * 130 interrupted. */
#include "backend.h"
#include "build_facts.h"
#include "command.h"
#include "environment.h"
#include "file_options.h"
#include "help.h"
#include "interrupt.h"
#include "option_names.h"
#include "progress.h"

#include <malloc.h>
#include <poll.h>
#include <spargegen/spargegen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_MISUSED = 2, EXIT_INTERRUPTED = 130 };

static sg_status run(const sg_settings *s, sg_error *e)
{
    SG_TRY(sg_file_options_check(s, e));
    switch (s->command) {
    case SG_COMMAND_INFO: return sg_command_info(s, e);
    case SG_COMMAND_CHECK: return sg_command_check(s, e);
    case SG_COMMAND_BENCH_STEP: return sg_command_bench_step(s, e);
    case SG_COMMAND_BENCH_ATTENTION: return sg_command_bench_attention(s, e);
    case SG_COMMAND_BENCH_COLD: return sg_command_bench_cold(s, e);
    case SG_COMMAND_COMPARE: return sg_command_compare(s, e);
    case SG_COMMAND_TUNE: return sg_command_tune(s, e);
    case SG_COMMAND_EVAL: return sg_command_eval(s, e);
    case SG_COMMAND_SERVE: return sg_command_serve(s, e);
    case SG_COMMAND_LANGUAGE: return sg_command_language(s, e);
    default: return sg_command_render(s, e);
    }
}

/* Text that stdout could not take is a failure too, unless its reader, such as head, has read enough and is gone. The
 * write that failed may be long ago, and its errno with it. */
static sg_status flush_stdout(sg_error *e)
{
    struct pollfd p = {.fd = STDOUT_FILENO};
    if ((fflush(stdout) == 0 && !ferror(stdout)) || (poll(&p, 1, 0) == 1 && p.revents & POLLERR)) return SG_OK;
    return sg_error_set(e, SG_E_FILE, "stdout: cannot be written");
}

static int exit_code(sg_status status)
{
    switch (status) {
    case SG_OK: return EXIT_DONE;
    case SG_E_ARG: return EXIT_MISUSED;
    case SG_E_CANCELLED: return EXIT_INTERRUPTED;
    default: return EXIT_FAILED;
    }
}

/* Red on a terminal. */
static void say_failure(const char *text)
{
    const bool red = sg_progress_terminal() && !getenv("NO_COLOR");
    fprintf(stderr, "%ssparge-gen: %s%s\n", red ? "\033[31m" : "", text, red ? "\033[m" : "");
}

int main(int argc, char **argv)
{
#ifdef M_MMAP_THRESHOLD
    /* Large blocks go back to the system as soon as they are free, so that memory is what was planned. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
    sg_settings s;
    sg_error    e = {0};
    sg_onednn_most = sg_environment_settle();
    sg_interrupt_catch();
    sg_interrupt_fill_streams();
    if (argc < 2) {
        sg_help(stderr, SG_COMMAND_RENDER, NULL);
        return EXIT_MISUSED;
    }
    sg_status status = sg_options_parse(&s, argc, argv, &e);
    if (status == SG_OK && s.help)
        sg_help(stdout, s.command, s.topic);
    else if (status == SG_OK && s.version)
        printf("sparge-gen " SG_VERSION ", writes %s\n%s\nLicense: Apache-2.0\n", sg_writer_endings((char[80]){0}, 80),
               sg_build_facts_text((char[SG_BUILD_TEXT]){0}, ""));
    else if (status == SG_OK && (status = run(&s, &e)) != SG_OK)
        sg_option_names(&e, s.command);
    if (status == SG_OK) status = flush_stdout(&e);
    if (status == SG_E_CANCELLED)
        fputs("sparge-gen: interrupted\n", stderr);
    else if (status != SG_OK)
        say_failure(e.text);
    return exit_code(status);
}
