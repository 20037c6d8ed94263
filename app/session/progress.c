/* progress.c - see progress.h. */
#include "progress.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "interrupt.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <utf8proc.h>

/* Without a terminal the denoiser speaks at its quarters only, and not more often than this. */
#define SECONDS_BETWEEN_LINES 5.0

/* A warning is said again after so many seconds, or so many lines. */
enum { AGAIN_SECONDS = 60, AGAIN_LINES = 24 };

enum { TICK_MS = 500, COLUMNS_USUAL = 80, BAR = 24 };

static const char *const stage_names[SG_STAGES] = {"loading", "reading the prompt", "encoding", "denoising",
                                                   "decoding"};

const char *sg_duration(char text[32], double seconds)
{
    const long whole = (long)(seconds + 0.5);
    if (seconds < 59.95)
        snprintf(text, 32, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(text, 32, "%ld min %ld s", whole / 60, whole % 60);
    else
        snprintf(text, 32, "%ld h %02ld min", whole / 3600, whole % 3600 / 60);
    return text;
}

const char *sg_clip_text(char text[SG_CLIP_TEXT], const sg_request *r)
{
    if (r->frames == 1)
        snprintf(text, SG_CLIP_TEXT, "image of %dx%d", r->width, r->height);
    else
        snprintf(text, SG_CLIP_TEXT, "%dx%d, %d frames at %d fps", r->width, r->height, r->frames, r->fps);
    return text;
}

const char *sg_guidance_text(char text[SG_GUIDANCE_TEXT], const sg_request *r)
{
    snprintf(text, SG_GUIDANCE_TEXT, "%g", r->guidance > 0 ? r->guidance : r->cfg_scale);
    if (r->guidance > 0 && r->cfg_scale > 1) sg_text_append(text, SG_GUIDANCE_TEXT, ", cfg scale %g", r->cfg_scale);
    if (r->slg_scale > 0) sg_text_append(text, SG_GUIDANCE_TEXT, ", skip-layer guidance %g", r->slg_scale);
    return text;
}

const char *sg_offloaded_part(const sg_phase_plan *p)
{
    if (p->stage == SG_STAGE_DENOISE) return "denoiser";
    return strcmp(p->name, "modulation") == 0 ? "modulations" : "text encoder";
}

const char *sg_clip_noun(int frames) { return frames == 1 ? "image" : "clip"; }

bool sg_progress_terminal(void)
{
    const char *const kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
}

void sg_progress_init(sg_progress *p, bool quiet)
{
    *p = (sg_progress){.quiet = quiet,
                       .terminal = sg_progress_terminal(),
                       .clock = sg_seconds,
                       .tick_ms = TICK_MS,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .wake = PTHREAD_COND_INITIALIZER};
    p->start = p->last_time = p->last_line = p->clock();
}

static void stop_ticking(sg_progress *p);

void sg_progress_clear(sg_progress *p)
{
    stop_ticking(p);
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

static void say_list(sg_progress *p, const char *fmt, va_list args) SG_PRINTF(2, 0);
static void say_list(sg_progress *p, const char *fmt, va_list args)
{
    if (p->quiet) return;
    sg_progress_clear(p);
    p->summed = false;
    print_list(stderr, fmt, args);
    fputc('\n', stderr);
    p->lines++;
}

void sg_progress_say(sg_progress *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say_list(p, fmt, args);
    va_end(args);
}

void sg_progress_warn(sg_progress *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say_list(p, fmt, args);
    va_end(args);
    if (!p->warnings.len) p->warned_at = p->clock(), p->lines = 0;
    va_start(args, fmt);
    sg_textbuf_vprintf(&p->warnings, fmt, args);
    va_end(args);
    sg_textbuf_put_char(&p->warnings, '\n');
}

void sg_progress_end(sg_progress *p)
{
    sg_textbuf *const w = &p->warnings;
    const bool        away = w->len && (p->clock() - p->warned_at >= AGAIN_SECONDS || p->lines >= AGAIN_LINES);
    if (away && !w->failed) sg_progress_say(p, "warnings, once more:\n%.*s", (int)w->len - 1, w->data);
    sg_textbuf_free(w);
}

/* ---- estimates ---- */

/* Seconds of a unit of this stage; 0: none is over. The first takes longer than the rest, so it counts only as long as it is
 * the only one. */
static double unit_seconds(const sg_progress *p)
{
    if (p->done > p->first) return (p->last_time - p->first_time) / (p->done - p->first);
    return p->done > p->base ? (p->last_time - p->start) / (p->done - p->base) : 0;
}

static double sum(const double seconds[SG_STAGES], int from)
{
    double s = 0;
    for (int i = (int)from; i < SG_STAGES; i++) s += seconds[i];
    return s;
}

/* Seconds that this stage still takes; negative: not known. */
static double stage_left(const sg_progress *p, double now)
{
    const double unit = unit_seconds(p);
    if (p->over) return 0;
    /* the first latent frame has less work than others, so it counts only if nothing else is known */
    const bool usual = p->stage != SG_STAGE_DECODE || p->done > 1 || !(p->past || p->share > 0);
    if (unit > 0 && usual) return fmax(unit * (p->total - p->done) - fmax(now - p->last_time, 0), 0);
    return p->past ? fmax(p->past_stage[p->stage] - (now - p->start), 0) : -1;
}

/* Seconds that this render still takes; negative: not known. */
static double render_left(const sg_progress *p, double now)
{
    const double left = stage_left(p, now);
    if (p->stage == SG_STAGE_LOAD)
        return p->past ? fmax(p->past_seconds / p->past - sum(p->seconds, SG_STAGE_TEXT), 0) : -1;
    if (left < 0 && p->stage == SG_STAGE_DECODE && p->share > 0)
        return fmax(p->seconds[SG_STAGE_DENOISE] * p->share - (now - p->start), 0);
    if (left < 0 || p->stage == SG_STAGE_DECODE) return left;
    if (p->past) return left + sum(p->past_stage, p->stage + 1);
    return p->stage == SG_STAGE_DENOISE ? left + (now - p->start + left) * p->share : -1;
}

/* Seconds that the job still takes; negative: not known. */
static double job_left(const sg_progress *p, double now)
{
    const double left = render_left(p, now);
    if (left < 0 || p->count < 2) return left;
    const double spent = sum(p->seconds, SG_STAGE_TEXT) + (p->over || p->stage == SG_STAGE_LOAD ? 0 : now - p->start);
    const double one = p->past ? p->past_seconds / p->past : spent + left;
    return left + one * (p->count - p->index - 1);
}

double sg_progress_left(const sg_progress *p) { return job_left(p, p->clock()); }

/* ---- the changing line ---- */

static int columns_of_terminal(void)
{
    struct winsize    w = {0};
    const char *const given = getenv("COLUMNS");
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0) return w.ws_col;
    const long n = given ? strtol(given, NULL, 10) : 0;
    return n > 0 && n < 10000 ? (int)n : COLUMNS_USUAL;
}

/* Columns that text, which has no control characters, takes; of its first bytes, as many as fit into so many columns. */
static int columns_of(const char *text, int most, size_t *fit)
{
    int columns = 0;
    *fit = 0;
    for (const char *p = text; *p;) {
        int32_t      c;
        const size_t bytes = sg_utf8_next(p, 4, &c);
        columns += bytes ? utf8proc_charwidth(c) : 1;
        p += bytes ? bytes : 1;
        if (columns <= most) *fit = (size_t)(p - text);
    }
    return columns;
}

#define DURATION(seconds) sg_duration((char[32]){0}, seconds)

/* "denoising 5/12 [#####-------] 0.52 s/step, 14.0 s left"; at its end without a terminal, "denoising 12/12, 0.52
 * s/step, 6.2 s". */
static void compose(sg_textbuf *line, const sg_progress *p, double now, int bar)
{
    static const char full[] = "########################", rest[] = "------------------------"; /* BAR of them */
    const double      unit = unit_seconds(p), left = job_left(p, now);
    const char *const name = p->stage == SG_STAGE_DENOISE ? "step" : NULL, *const comma = bar ? "" : ",";
    const int part = (int)((long)bar * p->done / p->total);
    sg_textbuf_clear(line);
    sg_textbuf_printf(line, "%s%s%s %d/%d", p->row, *p->row ? " | " : "", stage_names[p->stage], p->done, p->total);
    if (bar) sg_textbuf_printf(line, " [%.*s%.*s]", part, full, bar - part, rest);
    const size_t bare = line->len;
    if (unit == 0 && !p->over && name)
        sg_textbuf_printf(line, "%s %s %d for %s", comma, name, p->done + 1, DURATION(now - p->start));
    else if (unit == 0 && !p->over)
        sg_textbuf_printf(line, "%s for %s", comma, DURATION(now - p->start));
    else if (unit > 0 && name)
        sg_textbuf_printf(line, "%s %.3g s/%s", comma, unit, name);
    if (*p->row) return; /* of many renders, the row tells */
    if (p->over) sg_textbuf_printf(line, ", %s", DURATION(p->last_time - p->start));
    if (p->over || left < 0) return;
    sg_textbuf_printf(line, "%s %s left", line->len > bare || !bar ? "," : "", DURATION(left));
    if (p->count > 1) sg_textbuf_printf(line, " of all %d", p->count);
}

/* Writes as much of line as fits, and frees it: as the changing line, or as the one above it. The line that answers
 * Ctrl-C stays. */
static void put_line(sg_progress *p, sg_textbuf *line, bool above)
{
    size_t fit = 0;
    if (!p->stopping && sg_interrupt_asked()) {
        p->stopping = true;
        p->summed = p->shown = false;
    }
    if (line->data && !line->failed) {
        columns_of(line->data, columns_of_terminal() - 1, &fit);
        fprintf(stderr, "\r%s%s%.*s\033[K%s", above ? "\033[K" : "", above && p->summed ? "\033[A\r" : "", (int)fit,
                line->data, above ? "\n" : "");
    }
    fflush(stderr);
    p->summed = p->summed || above;
    p->shown = !above;
    sg_textbuf_free(line);
}

/* What is left of the bar's width once the rest has its own. */
static void draw(sg_progress *p)
{
    static const int bars[] = {BAR, BAR / 2, 0};
    sg_textbuf       line = {0};
    const double     now = p->clock();
    const int        most = columns_of_terminal() - 1; /* the last column stays free, or some terminals wrap */
    for (int i = *p->row ? 2 : 0; i < 3; i++) {
        compose(&line, p, now, bars[i]);
        if (line.failed || columns_of(line.data, most, &(size_t){0}) <= most) break;
    }
    put_line(p, &line, false);
}

/* "load 0.4 s, text 0.3 s, denoise 12 steps 9.8 s" in the line above the changing one. */
static void draw_sum(sg_progress *p)
{
    sg_textbuf line = {0};
    char       units[32] = "";
    snprintf(units, sizeof units, " %d step%s", p->steps, sg_plural(p->steps));
    for (int i = 0; i < SG_STAGES; i++)
        if (p->seconds[i] >= (i == SG_STAGE_LOAD ? 0.05 : 1e-9))
            sg_textbuf_printf(&line, "%s%s%s %s", line.len ? ", " : "", sg_names("stage")[i],
                              i == SG_STAGE_DENOISE ? units : "", DURATION(p->seconds[i]));
    if (line.data) put_line(p, &line, true);
}

/* ---- the ticker ---- */

static void *tick(void *context)
{
    sg_progress *const p = context;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += p->tick_ms * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (!p->stop && pthread_cond_clockwait(&p->wake, &p->lock, CLOCK_MONOTONIC, &until) == 0) {
        }
        if (!p->stop && !p->over) draw(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Without a thread the line changes with each unit only. */
static void start_ticking(sg_progress *p)
{
    if (p->ticks || !p->tick_ms) return;
    p->stop = false;
    p->ticks = sg_thread_start(&p->ticker, tick, p) == 0;
}

static void stop_ticking(sg_progress *p)
{
    if (!p->ticks) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->ticker, NULL);
    p->ticks = false;
}

/* ---- lines without a terminal ---- */

static void print_stage(sg_progress *p)
{
    sg_textbuf line = {0};
    const bool over = p->over && p->stage != SG_STAGE_LOAD;
    const bool quarter = (long)p->done * 4 / p->total != (long)(p->done - 1) * 4 / p->total;
    const bool due = p->stage == SG_STAGE_DENOISE && quarter && p->last_time - p->last_line >= SECONDS_BETWEEN_LINES;
    if (*p->row || (!over && !due)) return;
    p->last_line = p->last_time;
    p->lines++;
    compose(&line, p, p->last_time, 0);
    if (!line.failed) fprintf(stderr, "%s\n", line.data);
    sg_textbuf_free(&line);
}

void sg_progress_row(sg_progress *p, const char *fmt, ...)
{
    const double now = p->clock();
    va_list      args;
    va_start(args, fmt);
    vsnprintf(p->row, sizeof p->row, fmt, args);
    va_end(args);
    sg_show_(p->row, strlen(p->row) + 1, p->row);
    if (p->quiet || p->terminal || now - p->last_line < SECONDS_BETWEEN_LINES) return;
    p->last_line = now;
    p->lines++;
    fprintf(stderr, "%s\n", p->row);
}

/* ---- what happens ---- */

/* The stage at work is over, or another begins. */
static void end_stage(sg_progress *p, double now)
{
    if (!p->begun || p->over) return;
    p->over = true;
    p->seconds[p->stage] += now - p->start;
    if (p->stage == SG_STAGE_DENOISE) p->steps = p->done;
}

static double stage_flops(const sg_plan *plan, int stage)
{
    double flops = 0;
    for (int i = 0; i < plan->phases; i++)
        if (plan->phase[i].stage == stage) flops += plan->phase[i].flops;
    return flops;
}

void sg_progress_render(sg_progress *p, int index, int count, const sg_plan *plan)
{
    if (p->count && p->begun && p->over) {
        p->past++;
        p->past_seconds += sum(p->seconds, SG_STAGE_TEXT);
        memcpy(p->past_stage, p->seconds, sizeof p->past_stage);
    }
    memset(p->seconds, 0, sizeof p->seconds);
    p->steps = 0;
    p->begun = p->summed = false;
    p->index = index;
    p->count = count;
    const double denoise = plan ? stage_flops(plan, SG_STAGE_DENOISE) : 0;
    p->share = denoise > 0 ? stage_flops(plan, SG_STAGE_DECODE) / denoise : 0;
    p->last_time = p->clock();
    if (!p->quiet) sg_interrupt_answer(p->terminal);
}

static void begin_stage(sg_progress *p, int stage, int done, double now)
{
    end_stage(p, now);
    p->begun = true;
    p->over = false;
    p->stage = stage;
    p->base = done > 0 ? done - 1 : 0;
    /* A unit takes long, so a stage that did not say so began when the one before it was last heard of. */
    p->start = done > 0 ? p->last_time : now;
    p->first = INT_MAX;
}

void sg_progress_take(sg_progress *p, int stage, int done, int total)
{
    const double now = p->clock();
    const bool   begins = !p->begun || p->over || stage != p->stage || done < p->done;
    if (begins) begin_stage(p, stage, done, now);
    if (done > p->base && p->first == INT_MAX) p->first = done, p->first_time = now;
    p->done = done;
    p->total = total;
    p->last_time = now;
    if (done >= total) end_stage(p, now);
}

void sg_progress_update(sg_progress *p, int stage, int done, int total)
{
    if (p->quiet || total < 1) return;
    if (!p->terminal) {
        sg_progress_take(p, stage, done, total);
        print_stage(p);
        return;
    }
    pthread_mutex_lock(&p->lock);
    const double before = p->last_time;
    const bool   same = p->shown && p->begun && p->stage == stage && !p->over && done < total;
    sg_progress_take(p, stage, done, total);
    /* the tensors of a model are many */
    const bool due = stage != SG_STAGE_LOAD || !same || p->last_time - before > 0.1;
    if (p->over && !*p->row)
        draw_sum(p);
    else if (due)
        draw(p);
    pthread_mutex_unlock(&p->lock);
    start_ticking(p);
}
