/* bench_cold.c - `sparge-gen bench cold`: what a render costs as a process of its own, beside programs that only open
 * its device. They take turns by bench_rule.h: each turn starts this program again for one of sg_cold_parts; such a
 * process does its part and prints when each piece of it was over, by the clock that all processes of a machine
 * share. */
#include "base/clock.h"
#include "base/path.h"
#include "bench.h"
#include "command.h"
#include "interrupt.h"
#include "json_build.h"
#include "metrics.h"
#include "progress.h"
#include "report.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARTS = 3, PIECES = 16, NAME = 160, ARGUMENTS = 64 };
enum { CONTEXT, BACKEND, CLIP }; /* of sg_cold_parts */

static const double SLACK = 0.005; /* seconds by which starts of a process differ in any case */

/* ---- a part, in a process of its own ---- */

static void mark(const char *piece) { printf("%.6f %s\n", sg_seconds(), piece); }

static sg_status open_backend(const sg_settings *s, bool whole, sg_error *e)
{
    sg_backend_options backend;
    sg_backend        *b = NULL;
    SG_TRY(sg_bench_backend_options(&backend, s, e));
    if (!whole) return sg_backend_touch(&backend, e);
    SG_TRY(sg_backend_open(&b, &backend, e));
    mark(b->device);
    sg_backend_close(&b);
    return SG_OK;
}

static sg_status render_clip(const sg_settings *s, sg_error *e)
{
    const char *const temporary = getenv("TMPDIR");
    char              folder[PATH_MAX], file[PATH_MAX];
    sg_settings       render = *s;
    if (sg_path_join(folder, sizeof folder, temporary && *temporary ? temporary : "/tmp", "sparge-gen-XXXXXX", NULL) ||
        !mkdtemp(folder))
        return sg_error_set(e, SG_E_FILE, "bench: no folder for a clip can be made in $TMPDIR or /tmp");
    render.command = SG_COMMAND_RENDER;
    render.prompt = "a red ball bouncing on green grass";
    render.output = file;
    render.json = NULL;
    render.quiet = true;
    render.mark = mark;
    sg_status status = sg_path_join(file, sizeof file, folder, "clip.y4m", NULL);
    if (status == SG_OK) status = sg_command_render(&render, e);
    unlink(file);
    rmdir(folder);
    return status;
}

/* ---- the processes ---- */

/* What a part took: of its process, and of its pieces in the order in which they ended first. */
typedef struct cold_part {
    double seconds;
    double piece[PIECES];
    char   name[PIECES][NAME];
    int    pieces;
} cold_part;

static void add_piece(cold_part *p, const char *name, double seconds)
{
    int i = 0;
    while (i < p->pieces && strcmp(p->name[i], name) != 0) i++;
    if (i == PIECES) return;
    if (i == p->pieces) {
        snprintf(p->name[i], NAME, "%s", name);
        p->piece[p->pieces++] = 0;
    }
    p->piece[i] += seconds;
}

/* Reads what mark prints until the process closes its stdout; `since` it was started. */
static void read_pieces(cold_part *p, FILE *f, double since)
{
    char line[NAME + 32];
    *p = (cold_part){0};
    while (fgets(line, sizeof line, f)) {
        char        *name;
        const double at = strtod(line, &name);
        line[strcspn(line, "\n")] = '\0';
        if (*name != ' ') continue;
        add_piece(p, name + 1, at - since);
        since = at;
    }
    add_piece(p, "exit", sg_seconds() - since);
}

/* Starts this program with the arguments that it was given, and --part NAME after them. */
static sg_status run_part(cold_part *p, const sg_settings *s, const char *name, sg_error *e)
{
    const char  *argument[ARGUMENTS + 3];
    int          n = 0, ends[2], status = 0;
    const double since = sg_seconds();
    for (; s->arguments[n]; n++) {
        if (n == ARGUMENTS) return sg_error_set(e, SG_E_ARG, "bench cold: more than %d arguments", ARGUMENTS);
        argument[n] = s->arguments[n];
    }
    argument[n++] = "--part";
    argument[n++] = name;
    argument[n] = NULL;
    if (pipe2(ends, O_CLOEXEC)) return sg_error_set(e, SG_E_DEVICE, "bench cold: no pipe");
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execv("/proc/self/exe", (char **)(uintptr_t)argument);
        _exit(EXIT_FAILURE);
    }
    close(ends[1]);
    FILE *const f = fdopen(ends[0], "r");
    if (f) read_pieces(p, f, since);
    if (f) fclose(f);
    while (child > 0 && waitpid(child, &status, 0) < 0 && !sg_interrupt_asked()) continue;
    p->seconds = sg_seconds() - since;
    SG_TRY(sg_interrupt_check(e));
    if (child < 0 || !f || !WIFEXITED(status) || WEXITSTATUS(status))
        return sg_error_set(e, SG_E_DEVICE, "bench cold: the process for --part %s failed", name);
    return SG_OK;
}

/* ---- what came out ---- */

typedef struct cold_bench {
    sg_rule    rule;
    cold_part *turn[PARTS]; /* of each those that count, and before that only the last */
} cold_bench;

/* Over the turns of the seconds of piece i of a part; 0 where there is none. */
static double median(const cold_bench *c, int part, int i)
{
    double v[SG_REPEAT_MAX] = {0};
    for (int k = 0; k < sg_rule_runs(&c->rule); k++) v[k] = i < c->turn[part][k].pieces ? c->turn[part][k].piece[i] : 0;
    return sg_median(v, sg_rule_runs(&c->rule));
}

/* Of the median clip; 0 where it has no such piece. */
static double piece_of(const cold_bench *c, const char *name)
{
    const cold_part *const p = &c->turn[CLIP][0];
    for (int i = 0; i < p->pieces; i++)
        if (strcmp(p->name[i], name) == 0) return median(c, CLIP, i);
    return 0;
}

/* The figures of the processes that are printed. */
static const struct {
    const char *what, *key;
    int         part;
    bool        above; /* that of the empty one is taken off */
} rows[] = {{"opens the device and does nothing", "context_seconds", CONTEXT, false},
            {"opens the backend with its libraries", "backend_seconds", BACKEND, false},
            {"renders a clip", "clip_seconds", CLIP, false},
            {"renders a clip, above doing nothing", "above_context_seconds", CLIP, true}};
enum { ROWS = sizeof rows / sizeof *rows };

static double row_seconds(const cold_bench *c, int i)
{
    return sg_rule_median(&c->rule, rows[i].part) - (rows[i].above ? sg_rule_median(&c->rule, CONTEXT) : 0);
}

/* The first step over the second; 0 where there is none. */
static double first_step(const cold_bench *c)
{
    const double second = piece_of(c, "second step");
    return second > 0 ? piece_of(c, "first step") / second : 0;
}

static const char *const names[PARTS] = {"opening the device", "opening the backend", "the clip"};

/* As the backend names it, after the start of its process. */
static const char *device_of(const cold_bench *c) { return c->turn[BACKEND][0].name[1]; }

static void print_row(const char *name, double seconds) { printf("%-40s %10.1f\n", name, seconds * 1e3); }

static void print_all(const cold_bench *c)
{
    const cold_part *const p = &c->turn[CLIP][0];
    sg_print(stdout, "on %s\n", device_of(c));
    sg_bench_print_rule(NULL, &c->rule, names);
    putchar('\n');
    printf("%-40s %10s\n", "process", "ms");
    for (int i = 0; i < ROWS; i++) print_row(rows[i].what, row_seconds(c, i));
    printf("\n%-40s %10s\n", "of the clip", "ms");
    for (int i = 0; i < p->pieces; i++) print_row(p->name[i], median(c, CLIP, i));
    if (first_step(c) > 0) printf("\nthe first step takes %.3f times as long as the second\n", first_step(c));
}

static json_t *all_json(const cold_bench *c)
{
    const cold_part *const p = &c->turn[CLIP][0];
    json_t *j = json_pack("{s:s, s:o, s:f}", "device", device_of(c), "measured", sg_bench_rule_json(NULL, &c->rule),
                          "first_step_over_second", first_step(c));
    json_t *pieces = json_array();
    for (int i = 0; i < ROWS; i++) sg_json_set(&j, rows[i].key, json_real(row_seconds(c, i)));
    for (int i = 0; i < p->pieces; i++)
        sg_json_append(&pieces, json_pack("{s:s, s:f}", "piece", p->name[i], "seconds", median(c, CLIP, i)));
    sg_json_set(&j, "pieces", pieces);
    return j;
}

/* ---- the work ---- */

sg_status sg_command_bench_cold(const sg_settings *s, sg_error *e)
{
    if (s->part) {
        mark("start");
        return strcmp(s->part, sg_cold_parts[CLIP]) == 0
                   ? render_clip(s, e)
                   : open_backend(s, strcmp(s->part, sg_cold_parts[BACKEND]) == 0, e);
    }
    cold_bench       c = {0};
    const int        most = SG_REPEAT_MAX;
    cold_part *const all = calloc((size_t)(PARTS * most), sizeof *all);
    if (!all) return sg_error_memory(e, "bench");
    for (int i = 0; i < PARTS; i++) c.turn[i] = all + i * most;
    sg_status status = sg_rule_open(&c.rule, PARTS, s->repeat, SLACK, e);
    for (int part; status == SG_OK && (part = sg_rule_next(&c.rule)) >= 0;) {
        cold_part *const p = &c.turn[part][sg_rule_counts(&c.rule) ? sg_rule_runs(&c.rule) : 0];
        status = run_part(p, s, sg_cold_parts[part], e);
        sg_rule_take(&c.rule, p->seconds);
    }
    if (status == SG_OK && !(s->json && strcmp(s->json, "-") == 0)) print_all(&c);
    if (status == SG_OK && s->json)
        status = sg_report_take(s->json, sg_report_envelope(SG_COMMAND_BENCH_COLD, all_json(&c)), e);
    sg_rule_close(&c.rule);
    free(all);
    return status;
}
