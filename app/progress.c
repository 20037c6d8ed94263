/* progress.c - see progress.h. */
#include "progress.h"
#include "backend.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

/* Without a terminal the denoiser speaks at its quarters only, and not more often than this. */
#define SECONDS_BETWEEN_LINES 5.0

static const char *const stage_names[SG_STAGES] = {"loading", "reading the prompt", "denoising", "decoding"};
static const char *const unit_names[SG_STAGES] = {NULL, NULL, "step", NULL};

const char *sg_duration(char *text, size_t size, double seconds)
{
    const long whole = (long)(seconds + 0.5);
    if (seconds < 59.95)
        snprintf(text, size, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(text, size, "%ld min %ld s", whole / 60, whole % 60);
    else
        snprintf(text, size, "%ld h %02ld min", whole / 3600, whole % 3600 / 60);
    return text;
}

bool sg_progress_terminal(void)
{
    const char *const kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
}

void sg_progress_init(sg_progress *p, bool quiet)
{
    *p = (sg_progress){.quiet = quiet, .terminal = sg_progress_terminal()};
    p->last_time = p->last_line = sg_seconds();
}

void sg_progress_clear(sg_progress *p)
{
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}

static void print_list(FILE *out, const char *fmt, va_list args) SG_PRINTF(2, 0);
static void print_list(FILE *out, const char *fmt, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, args) < 0) return;
    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        fputs(sg_show_(line, strlen(line) + 1, line), out);
        if (end) fputc('\n', out);
    }
    free(text);
}

void sg_print(FILE *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_list(out, fmt, args);
    va_end(args);
}

void sg_progress_say(sg_progress *p, const char *fmt, ...)
{
    if (p->quiet) return;
    sg_progress_clear(p);
    va_list args;
    va_start(args, fmt);
    print_list(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

const char *sg_plural(int64_t n) { return n == 1 ? "" : "s"; }

void sg_progress_say_start(sg_progress *p, const char *model, const sg_model_info *info, const sg_request *r,
                           int64_t tokens, bool drawn)
{
    char all[32] = "";
    if (tokens) snprintf(all, sizeof all, ", %lld tokens", (long long)tokens);
    sg_progress_say(p, "%s in %s on %s", model, info->dtype, info->device);
    sg_progress_say(p, "%dx%d, %d frame%s at %d fps, %d step%s, guidance %g, seed %llu%s", r->width, r->height,
                    r->frames, sg_plural(r->frames), r->fps, r->steps, sg_plural(r->steps), r->cfg_scale,
                    (unsigned long long)r->seed, all);
    if (p->quiet && drawn) fprintf(stderr, "sparge-gen: seed %llu\n", (unsigned long long)r->seed);
}

void sg_progress_say_offload(sg_progress *p, const sg_plan *plan)
{
    if (plan->host)
        sg_progress_say(p, "offload: %.2f GiB of the denoiser stay on the host, all but two blocks at a time",
                        (double)plan->host * 0x1p-30);
}

static bool is_quarter(int done, int total) { return (long)done * 4 / total != (long)(done - 1) * 4 / total; }

/* One stage's state in words: "denoising 7/16, 0.52 s a step, 4.7 s left". */
static void describe(const sg_progress *p, int done, int total, char *text, size_t size)
{
    const double spent = p->last_time - p->base_time;
    const double rate = done > p->base_done ? spent / (done - p->base_done) : 0;
    char         duration[32];
    int          n = snprintf(text, size, "%s %d/%d", stage_names[p->stage], done, total);
    if (unit_names[p->stage] && done > p->base_done)
        n += snprintf(text + n, size - (size_t)n, ", %.3g s a %s", rate, unit_names[p->stage]);
    if (done < total && done > p->base_done)
        snprintf(text + n, size - (size_t)n, ", %s left",
                 sg_duration(duration, sizeof duration, rate * (total - done)));
    else if (done == total)
        snprintf(text + n, size - (size_t)n, ", %s", sg_duration(duration, sizeof duration, spent));
}

/* Cuts text, which has no control characters, to what a line of the terminal holds, whose last column stays free. */
static void fit_line(char *text)
{
    struct winsize w = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col < 2) return;
    int columns = 0;
    for (char *p = text; *p;) {
        int32_t      c;
        const size_t bytes = sg_utf8_next(p, 4, &c);
        columns += bytes ? utf8proc_charwidth(c) : 1;
        if (columns >= w.ws_col) *p = '\0';
        if (*p) p += bytes ? bytes : 1;
    }
}

/* The changing line. */
static void show(sg_progress *p, char *text)
{
    fit_line(text);
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
    p->shown = true;
}

void sg_progress_row(sg_progress *p, bool due, const char *fmt, ...)
{
    const double now = sg_seconds();
    va_list      args;
    va_start(args, fmt);
    vsnprintf(p->row, sizeof p->row, fmt, args);
    va_end(args);
    sg_show_(p->row, strlen(p->row) + 1, p->row);
    if (p->quiet || p->terminal || (!due && now - p->last_line < SECONDS_BETWEEN_LINES)) return;
    p->last_line = now;
    fprintf(stderr, "%s\n", p->row);
}

void sg_progress_update(sg_progress *p, sg_stage stage, int done, int total)
{
    if (p->quiet || total < 1) return;
    if (!p->begun || stage != p->stage) {
        /* A unit takes long, so the stage began when the one before it was last heard of. */
        p->begun = true;
        p->stage = stage;
        p->base_done = done > 0 ? done - 1 : 0;
        p->base_time = p->last_time;
    }
    p->last_time = sg_seconds();
    char         text[sizeof p->row + 160];
    const size_t n = strlen(strcpy(text, p->row));
    if (n) strcpy(text + n, " | ");
    describe(p, done, total, text + strlen(text), 160 - 3);
    if (p->terminal) {
        show(p, text);
        return;
    }
    if (n) return;
    const bool over = done == total && stage != SG_STAGE_LOAD;
    const bool due =
        stage == SG_STAGE_DENOISE && is_quarter(done, total) && p->last_time - p->last_line >= SECONDS_BETWEEN_LINES;
    if (!over && !due) return;
    p->last_line = p->last_time;
    fprintf(stderr, "%s\n", text);
}
