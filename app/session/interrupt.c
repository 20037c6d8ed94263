/* interrupt.c - see interrupt.h. */
#include "interrupt.h"
#include "base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
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

/* ---- files that shrink while they are mapped ---- */

static uintptr_t hexadecimal(const char **s)
{
    uintptr_t v = 0;
    for (;; (*s)++) {
        if (**s >= '0' && **s <= '9')
            v = 16 * v + (uintptr_t)(**s - '0');
        else if (**s >= 'a' && **s <= 'f')
            v = 16 * v + (uintptr_t)(**s - 'a' + 10);
        else
            return v;
    }
}

/* The file mapped at that address, in line; NULL: none is. Calls only what a signal handler may. */
static const char *file_at(uintptr_t address, char *line, size_t size)
{
    const char *found = NULL;
    const int   fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t      n = 0;
    while (fd >= 0 && read(fd, line + n, 1) == 1) {
        if (line[n] != '\n') {
            n += n + 1 < size;
            continue;
        }
        line[n] = '\0';
        n = 0;
        const char     *at = line;
        const uintptr_t from = hexadecimal(&at), to = *at == '-' ? (at++, hexadecimal(&at)) : 0;
        if (address < from || address >= to) continue;
        found = strchr(line, '/');
        break;
    }
    if (fd >= 0) close(fd);
    return found;
}

/* A page of a mapped file that cannot be read. Calls only what a signal handler may. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    static const char begin[] = "sparge-gen: ", end[] = ": became shorter or unreadable while it was in use\n";
    static char       line[PATH_MAX + 128];
    (void)context;
    const char *const path = file_at((uintptr_t)info->si_addr, line, sizeof line);
    for (char *c = line; *c; c++)
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c; /* a terminal would obey them */
    sg_output_file_unlink_all();
    if (path && write(STDERR_FILENO, begin, sizeof begin - 1) > 0 && write(STDERR_FILENO, path, strlen(path)) > 0 &&
        write(STDERR_FILENO, end, sizeof end - 1) > 0)
        _exit(1);
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- what is caught ---- */

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
    struct sigaction lost = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigemptyset(&lost.sa_mask);
    sigaction(SIGBUS, &lost, NULL);
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
