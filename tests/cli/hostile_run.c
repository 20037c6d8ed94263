/* hostile_run.c - see hostile.h: the command under limits, and its last words. */
#include "hostile.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum { MAX_BYTES = 1 << 30, MAX_SECONDS = 60 };

void hostile_die(const char *what)
{
    perror(what);
    exit(1);
}

const char *hostile_text(const char *fmt, ...)
{
    va_list ap;
    char   *text = NULL;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0) hostile_die("memory");
    va_end(ap);
    return text;
}

static void child(char *const *args, const char *in, int out)
{
    const struct rlimit memory = {MAX_BYTES, MAX_BYTES}, none = {0, 0};
    if (!HOSTILE_SANITIZED) setrlimit(RLIMIT_DATA, &memory);
    setrlimit(RLIMIT_CORE, &none);
    const int nothing = open("/dev/null", O_RDONLY);
    if (chdir(in) != 0 || dup2(nothing, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(97);
    alarm(MAX_SECONDS); /* lives on in the program */
    execv(args[0], args);
    _exit(98);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void hostile_run(hostile_end *end, char *const *args, const char *in)
{
    FILE *const   out = tmpfile();
    struct rusage usage;
    int           status;
    const double  start = now();
    if (!out) hostile_die("a temporary file");
    const pid_t pid = fork();
    if (pid < 0) hostile_die("fork");
    if (pid == 0) child(args, in, fileno(out));
    if (wait4(pid, &status, 0, &usage) != pid) hostile_die("wait");
    *end = (hostile_end){.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                         .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                         .seconds = now() - start,
                         .peak = HOSTILE_SANITIZED ? 0 : (size_t)usage.ru_maxrss * 1024};
    rewind(out);
    end->text[fread(end->text, 1, sizeof end->text - 1, out)] = '\0';
    fclose(out);
}

/* UTF-8 without control characters, so that no terminal is harmed. */
static bool is_legible(const char *text)
{
    mbstate_t state = {0};
    wchar_t   c;
    for (size_t n; *text; text += n) {
        n = mbrtowc(&c, text, strlen(text), &state);
        if (n == 0 || n > 4 || (c < 0x20 && c != '\n') || (c >= 0x7f && c < 0xa0)) return false;
    }
    return true;
}

const char *hostile_judge(const hostile_end *end, const char *words)
{
    static const char begin[] = "sparge-gen: ";
    char             *copy = strdup(words), *rest = copy;
    if (strncmp(end->text, begin, sizeof begin - 1) != 0) return "no message of the program comes first";
    if (strstr(end->text, "\nsparge-gen: ")) return "more than one message";
    if (!is_legible(end->text)) return "the message is no sound text";
    for (char *word; (word = strtok_r(rest, "|", &rest));)
        if (!strstr(end->text, word)) return hostile_text("the message lacks: %s", word);
    free(copy);
    return NULL;
}
