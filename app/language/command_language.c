/* command_language.c - `sparge-gen language`: texts read with each kind of attention, and what that does to likelihoods and
 * answers. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_input.h"
#include "base/output_file.h"
#include "base/path.h"
#include "command.h"
#include "json_build.h"
#include "language_run.h"
#include "report.h"
#include "report_page.h"
#include "report_settings.h"
#include "run_folder.h"
#include "settings.h"
#include "setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANIFEST "manifest.json"
enum { MOST_BYTES = 1 << 24, MOST_VALUES = 1 << 16, NAME_BYTES = 64 };

/* ---- what is asked for ---- */

static sg_status find_task(sg_language_run *r, sg_error *e)
{
    const sg_settings *const s = r->settings;
    const char *const        name = s->operand ? s->operand : "";
    for (const sg_language_task *t = sg_language_tasks; t->name; t++)
        if (strcmp(name, t->name) == 0 || (*t->name == '.' && sg_text_ends(name, t->name))) r->task = t;
    if (!r->task)
        return sg_error_set(e, SG_E_ARG,
                            "language needs a task: perplexity FILE, needle, FILE.jsonl or prefill, not '%.80s'", name);
    if (r->task->file && !s->second_operand) return sg_error_set(e, SG_E_ARG, "language %s needs a file of text", name);
    if (!r->task->file && s->second_operand)
        return sg_error_set(e, SG_E_ARG, "'%.80s' belongs to no option: %s takes no file", s->second_operand, name);
    if (!s->model) return sg_error_set(e, SG_E_ARG, "language needs a model: --model, a folder or a GGUF");
    return SG_OK;
}

/* Options that other tasks take. */
static sg_status check_options(const sg_language_run *r, sg_error *e)
{
    const sg_settings *const s = r->settings;
    const sg_language_task  *own = r->task;
    for (const sg_language_task *t = sg_language_tasks; t->name; t++)
        for (const char *const *name = t->takes; *name; name++)
            if (!own->takes[sg_text_place(*name, own->takes)] && sg_settings_has(s, sg_settings_option(s, *name)))
                return sg_error_set(e, SG_E_ARG, "--%s has no effect on %s", *name,
                                    *own->name == '.' ? "a .jsonl" : own->name);
    return SG_OK;
}

/* ---- the folder ---- */

/* All that determines the results, and the device, which is for people. */
static json_t *manifest_of(const sg_language_run *r)
{
    char                          room[PATH_MAX];
    const sg_settings *const      s = r->settings;
    const sg_language_info *const m = &r->info;
    const char *const             file = s->second_operand ? s->second_operand : s->haystack ? s->haystack : s->operand;
    json_t                       *names = json_array(), *arms = json_array(), *settings = json_object(), *j;
    for (int i = 0; i < r->arms.count; i++) {
        json_t *arm = json_object();
        sg_settings_put(&arm, &r->rendering[i].settings, SG_OPTION_ATTENTION, false);
        sg_json_append(&arms, arm);
        sg_json_append(&names, json_string(r->arms.arm[i].name));
    }
    j = json_pack("{s:s, s:o, s:o, s:i, s:I, s:s, s:s, s:o, s:o, s:I, s:{s:s, s:o}}", "task", r->task->name, "file",
                  sg_report_name(sg_path_name(file)), "hash", sg_report_hash(r->hash), "items", r->items, "room",
                  (json_int_t)m->tokens, "device", m->device, "dtype", m->dtype, "arms", names, "arm_settings", arms,
                  "piece", (json_int_t)m->piece, "model", "name", sg_setup_own_name(room, s->model), "hash",
                  sg_report_hash(m->hash));
    sg_settings_put(&settings, s, SG_OPTION_INPUT, false);
    json_object_del(settings, "arms"); /* which have been taken apart */
    sg_json_set(&j, "settings", settings);
    return sg_report_envelope(SG_COMMAND_LANGUAGE, j);
}

static bool may_differ(const char *name, const json_t *there, const json_t *now)
{
    static const char *const names[] = {"device", "file", "piece", "model.name", NULL};
    (void)there, (void)now;
    return names[sg_text_place(name, names)];
}

static sg_status settle_manifest(const sg_language_run *r, const json_t *now, sg_error *e)
{
    char    path[PATH_MAX];
    json_t *there = NULL;
    SG_TRY(sg_path_join(path, sizeof path, r->folder, MANIFEST, e));
    if (access(path, F_OK) != 0) return sg_report_save(path, now, e);
    SG_TRY(sg_json_open(&there, path, MOST_BYTES, MOST_VALUES, 0, e));
    const sg_status status = sg_manifest_compare(there, now, r->folder, "holds results", may_differ, e);
    json_decref(there);
    return status;
}

static sg_status take_line(void *context, const char *text, size_t size, int line, sg_error *e)
{
    sg_language_run *const r = context;
    json_t                *j = NULL;
    sg_json_fault          f;
    char                   where[PATH_MAX + 32];
    snprintf(where, sizeof where, "%s: line %d", r->log.path, line);
    sg_status status = sg_json_parse(&j, text, size, MOST_VALUES, 0, &f);
    if (status != SG_OK) return sg_error_set(e, status, "%s: column %d: %s", where, f.column, f.text);
    return sg_error_in(e, sg_language_line_take(r, j, e), where);
}

static sg_status open_folder(sg_language_run *r, const json_t *manifest, sg_error *e)
{
    SG_TRY(sg_output_folder_make(r->folder, NULL, "--output", e));
    SG_TRY(settle_manifest(r, manifest, e));
    SG_TRY(sg_path_join(r->log.path, sizeof r->log.path, r->folder, "results.jsonl", e));
    SG_TRY(sg_line_log_open(&r->log, e));
    if (r->log.cut) sg_progress_warn(&r->progress, "%s: the last line was cut short, and is taken off", r->log.path);
    return sg_line_log_read(r->log.path, take_line, r, e);
}

/* ---- the work ---- */

/* Writes the lines of an item at once, so that they are all there or none. */
static sg_status keep(sg_language_run *r, int item, sg_error *e)
{
    sg_textbuf b = {0};
    if (!r->folder) return SG_OK;
    for (int a = 0; a < r->arms.count; a++) {
        char *const text = sg_json_text(r->line[item * r->arms.count + a], JSON_COMPACT | SG_REPORT_DIGITS);
        if (!text)
            b.failed = true;
        else
            sg_textbuf_printf(&b, "%s\n", text);
        free(text);
    }
    const sg_status status = b.failed ? sg_error_memory(e, r->log.path) : sg_line_log_add(&r->log, b.data, b.len, e);
    sg_textbuf_free(&b);
    return status;
}

static bool done(const sg_language_run *r, int item)
{
    for (int a = 0; a < r->arms.count; a++)
        if (!r->line[item * r->arms.count + a]) return false;
    return true;
}

static sg_status read_items(sg_language_run *r, sg_error *e)
{
    int there = 0;
    for (int i = 0; i < r->items; i++) there += done(r, i);
    sg_progress_say(&r->progress, "%d text%s, each by %d arm%s; %d %s there", r->items, sg_plural(r->items),
                    r->arms.count, sg_plural(r->arms.count), there, there == 1 ? "is" : "are");
    r->start = sg_seconds();
    for (int i = 0; i < r->items; i++) {
        if (done(r, i)) continue;
        SG_TRY(sg_language_item_run(r, i, e));
        SG_TRY(keep(r, i, e));
    }
    return SG_OK;
}

/* The page has the lines, too. */
static sg_status write_page(const sg_language_run *r, json_t *report, sg_error *e)
{
    char            path[PATH_MAX];
    sg_output_file *page = NULL;
    json_t         *lines = json_array(), *all = json_deep_copy(report);
    for (int i = 0; i < r->items * r->arms.count; i++) sg_json_append(&lines, json_deep_copy(r->line[i]));
    sg_json_set(&all, "lines", lines);
    sg_status status =
        all ? sg_path_join(path, sizeof path, r->folder, "report.html", e) : sg_error_memory(e, "report.html");
    if (status == SG_OK) status = sg_report_page_open(&page, path, sg_report_language_page, all, e);
    if (status == SG_OK) status = sg_output_file_publish(&page, e);
    json_decref(all);
    return status;
}

static sg_status write_all(sg_language_run *r, json_t *report, sg_error *e)
{
    char path[PATH_MAX];
    if (!r->settings->json || !sg_output_is_stdout(r->settings->json)) sg_language_print(report);
    if (r->settings->json) SG_TRY(sg_report_save(r->settings->json, report, e));
    if (!r->folder) return SG_OK;
    SG_TRY(sg_path_join(path, sizeof path, r->folder, "summary.json", e));
    SG_TRY(sg_report_save(path, report, e));
    SG_TRY(write_page(r, report, e));
    sg_progress_say(&r->progress, "%s: results.jsonl, summary.json, report.html", r->folder);
    return SG_OK;
}

static sg_status run_items(sg_language_run *r, sg_error *e)
{
    SG_TRY(r->task->count(r, e));
    r->line = calloc((size_t)r->items * (size_t)r->arms.count, sizeof *r->line);
    json_t   *report = manifest_of(r);
    sg_status status = r->line && report ? SG_OK : sg_error_memory(e, "results");
    if (status == SG_OK && r->folder) status = open_folder(r, report, e);
    if (status == SG_OK) status = read_items(r, e);
    if (status == SG_OK) {
        sg_json_join(&report, sg_language_summary(r));
        status = report ? write_all(r, report, e) : sg_error_memory(e, "summary");
    }
    json_decref(report);
    return status;
}

static sg_status run(sg_language_run *r, sg_error *e)
{
    SG_TRY(find_task(r, e));
    SG_TRY(check_options(r, e));
    if (r->settings->output) {
        SG_TRY(sg_output_folder_check(&r->folder, r->settings->output, NAME_BYTES, "--output", e));
        SG_TRY(sg_run_folder_check(r->folder, (const char *const[]){MANIFEST, NULL}, e));
    }
    SG_TRY(r->task->read(r, e));
    SG_TRY(sg_language_run_open(r, e));
    return r->task->make ? run_items(r, e) : sg_language_prefill(r, e);
}

sg_status sg_command_language(const sg_settings *s, sg_error *e)
{
    sg_language_run *const r = calloc(1, sizeof *r);
    if (!r) return sg_error_memory(e, "language");
    r->settings = s;
    r->hash = SG_HASH;
    r->log.fd = -1;
    sg_progress_init(&r->progress, s->quiet);
    const sg_status status = run(r, e);
    sg_progress_end(&r->progress);
    sg_language_run_close(r);
    free(r);
    return status;
}
