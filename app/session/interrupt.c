/* interrupt.c - see interrupt.h. */
#include "interrupt.h"
#include "base/file.h"
#include "base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
enum { CAUGHT = sizeof caught / sizeof *caught };

static volatile sig_atomic_t asked;
static volatile sig_atomic_t answer; /* 0: none, 1: a line, 2: a line in place of a terminal's changing one */

/* Calls only what a signal handler may. */
static void on_signal(int number)
{
    static const char text[] = "\r\033[Kstopping after this step; again to quit\n";
    const size_t      skip = answer == 2 ? 0 : 4;
    const int         before = errno;
    if (asked) {
        sg_output_file_unlink_all();
        signal(number, SIG_DFL);
        raise(number);
        _exit(130);
    }
    asked = 1;
    if (number == SIGINT && answer && write(STDERR_FILENO, text + skip, sizeof text - 1 - skip) < 0) answer = 0;
    errno = before;
}

/* A file that shrank while it was mapped; path is NULL where none is known. Calls only what a signal handler may. */
static void on_lost_page(const char *path)
{
    static const char begin[] = "sparge-gen: ", end[] = ": became shorter or unreadable while it was in use\n";
    sg_output_file_unlink_all();
    if (path && write(STDERR_FILENO, begin, sizeof begin - 1) > 0 && write(STDERR_FILENO, path, strlen(path)) > 0 &&
        write(STDERR_FILENO, end, sizeof end - 1) > 0)
        _exit(1);
}

void sg_interrupt_answer(bool terminal) { answer = terminal ? 2 : 1; }

void sg_interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < CAUGHT; i++) {
        struct sigaction old;
        /* What the parent had ignored stays ignored, as nohup wants it. */
        if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        sigaction(caught[i], &action, NULL);
    }
    sg_map_watch(on_lost_page);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files fails the write, not the process */
}

void sg_interrupt_fill_streams(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO) {
    }
    if (fd >= 0) close(fd);
}

bool sg_interrupt_asked(void) { return asked != 0; }

sg_status sg_interrupt_check(sg_error *e) { return asked ? sg_error_set(e, SG_E_CANCELLED, "interrupted") : SG_OK; }
