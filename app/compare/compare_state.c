/* compare_state.c - what a comparison keeps in its folder until it is whole, so that the same command goes on:
 *
 *   .unfinished/manifest.json   the settings that decide its results
 *   .unfinished/N.arm, N.data   of arm N's first render: what the engine says of it, and its arrays, frames and latents
 *   .unfinished/times           seconds of all renders so far
 *
 * They come with the first render that is over, and go when all files of the comparison are there. */
#include "base/clock.h"
#include "base/json_input.h"
#include "base/output_file.h"
#include "compare.h"
#include "json_build.h"
#include "run_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE ".unfinished"
enum { VERSION = 2, MAX_BYTES = 1 << 28, MAX_VALUES = 1 << 24, PARTS = 7, MOST_PASSES = 16, MOST_LAYERS = 1024 };

/* What is as large for every arm. */
typedef struct kept_arm {
    sg_report report, warm_up;
    int       passes, layers;
    int       has_error;
    double    error_seconds;
} kept_arm;

static void name_file(char path[PATH_MAX], const char *folder, const char *name)
{
    snprintf(path, PATH_MAX, "%s/" STATE "/%s", folder, name);
}

static void name_arm(char path[PATH_MAX], const sg_comparison *c, int arm, const char *ending)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", arm, ending);
    name_file(path, c->folder, name);
}

/* ---- the folder ---- */

static bool is_report(const char *folder)
{
    char    path[PATH_MAX];
    json_t *j = NULL;
    snprintf(path, sizeof path, "%s/" SG_COMPARE_REPORT, folder);
    const bool        read = sg_json_open(&j, path, MAX_BYTES, MAX_VALUES, 0, &(sg_error){0}) == SG_OK;
    const char *const format = json_string_value(json_object_get(j, "format"));
    const char *const command = json_string_value(json_object_get(j, "command"));
    const bool        older = read && format && strcmp(format, "sparge-gen compare") == 0; /* version 2 and before */
    const bool        ours = older || (read && format && command && strcmp(format, SG_REPORT_FORMAT) == 0 &&
                                strcmp(command, "compare") == 0);
    json_decref(j);
    return ours;
}

static bool is_begun(const char *folder)
{
    char path[PATH_MAX];
    name_file(path, folder, "manifest.json");
    return access(path, F_OK) == 0;
}

sg_status sg_compare_state_check(const char *folder, sg_error *e)
{
    const char *const marks[] = {STATE, is_report(folder) ? SG_COMPARE_REPORT : NULL, NULL};
    return sg_run_folder_check(folder, marks, e);
}

int64_t sg_compare_state_seed(const char *folder)
{
    char       path[PATH_MAX];
    json_t    *j = NULL;
    json_int_t seed = -1;
    if (strlen(folder) + sizeof "/" STATE "/manifest.json" > PATH_MAX) return -1;
    name_file(path, folder, "manifest.json");
    if (sg_json_open(&j, path, MAX_BYTES, MAX_VALUES, 0, &(sg_error){0}) == SG_OK)
        (void)json_unpack(j, "{s:{s:I}}", "settings", "seed", &seed);
    json_decref(j);
    return seed;
}

/* ---- its settings ---- */

static json_t *make_manifest(const sg_comparison *c)
{
    json_t *arms = json_array();
    for (int i = 0; i < c->run.arms.count; i++) sg_json_append(&arms, json_incref(c->arm_settings[i]));
    return json_pack("{s:i, s:O, s:o}", "version", VERSION, "settings", c->settings, "arms", arms);
}

/* More rounds are more of the same. */
static bool may_differ(const char *name, const json_t *there, const json_t *now)
{
    (void)there;
    (void)now;
    return strcmp(name, "settings.repeat") == 0;
}

sg_status sg_compare_state_open(sg_comparison *c, sg_error *e)
{
    char    path[PATH_MAX];
    json_t *there = NULL, *now = NULL;
    name_file(path, c->folder, "manifest.json");
    c->begun = is_begun(c->folder);
    if (!c->begun && is_report(c->folder))
        sg_progress_say(&c->run.session.progress, "%s: the comparison there will be replaced", c->folder);
    if (!c->begun) return SG_OK;
    SG_TRY(sg_json_open(&there, path, MAX_BYTES, MAX_VALUES, 0, e));
    sg_status status = (now = make_manifest(c)) ? SG_OK : sg_error_memory(e, path);
    if (status == SG_OK)
        status =
            sg_manifest_compare(there, now, c->folder, "holds an unfinished comparison (" STATE ")", may_differ, e);
    json_decref(there);
    json_decref(now);
    return status;
}

/* ---- an arm ---- */

static const char *describe(char text[80], const sg_comparison *c, int arm)
{
    const sg_request *const r = &c->run.arm[arm].now.request;
    snprintf(text, 80, "arm %d, %dx%d, %d frames, %d steps", arm, r->width, r->height, r->frames,
             c->run.arm[arm].steps);
    return text;
}

/* The arrays of an arm whose sizes are known. */
static int arrays_of(sg_kept part[PARTS], sg_comparison *c, int arm)
{
    sg_arm_result *const r = &c->run.arm[arm];
    const size_t         steps = (size_t)r->steps, n = sg_latents_count(c->plan.latent) * sizeof(float);
    const size_t         entries = steps * (size_t)r->passes * (size_t)r->layers;
    int                  parts = 0;
    part[parts++] = (sg_kept){r->count, entries * sizeof *r->count};
    if (r->error) part[parts++] = (sg_kept){r->error, entries * sizeof *r->error};
    part[parts++] = (sg_kept){r->latents, n};
    if (arm == 0) part[parts++] = (sg_kept){c->run.latents, steps * n};
    part[parts++] = (sg_kept){r->relative_l2, steps * sizeof(double)};
    part[parts++] = (sg_kept){r->cosine, steps * sizeof(double)};
    part[parts++] = (sg_kept){r->rgb, sg_arm_clip_bytes(&r->now.request)};
    return parts;
}

static sg_status save_arm(sg_comparison *c, int arm, sg_error *e)
{
    sg_arm_result *const r = &c->run.arm[arm];
    kept_arm             fixed = {.report = r->report,
                                  .warm_up = c->run.warm_up,
                                  .passes = r->passes,
                                  .layers = r->layers,
                                  .has_error = r->error != NULL,
                                  .error_seconds = r->error_seconds};
    char                 path[PATH_MAX], what[80];
    sg_kept              part[PARTS];
    const int            parts = arrays_of(part, c, arm);
    name_arm(path, c, arm, "data");
    SG_TRY(sg_kept_save(path, describe(what, c, arm), part, parts, e));
    name_arm(path, c, arm, "arm");
    return sg_kept_save(path, what, &(sg_kept){&fixed, sizeof fixed}, 1, e);
}

/* Whether its arrays have sizes that a render may have: before there is memory for them. */
static bool is_sound(const kept_arm *a)
{
    return a->passes > 0 && a->passes <= MOST_PASSES && a->layers > 0 && a->layers <= MOST_LAYERS;
}

/* Fills r's members, whose arrays need memory first. */
static sg_status load_arm(sg_comparison *c, int arm, sg_error *e)
{
    sg_arm_result *const r = &c->run.arm[arm];
    kept_arm             fixed;
    char                 path[PATH_MAX], what[80];
    sg_kept              part[PARTS];
    name_arm(path, c, arm, "arm");
    SG_TRY(sg_kept_load(path, describe(what, c, arm), &(sg_kept){&fixed, sizeof fixed}, 1, e));
    if (!is_sound(&fixed)) return sg_error_set(e, SG_E_FORMAT, "%s: is damaged", path);
    const size_t entries = (size_t)r->steps * (size_t)fixed.passes * (size_t)fixed.layers;
    r->passes = fixed.passes;
    r->layers = fixed.layers;
    r->error_seconds = fixed.error_seconds;
    r->count = calloc(entries, sizeof *r->count);
    r->error = fixed.has_error ? calloc(entries, sizeof *r->error) : NULL;
    if (!r->count || (fixed.has_error && !r->error)) return sg_error_memory(e, path);
    name_arm(path, c, arm, "data");
    SG_TRY(sg_kept_load(path, what, part, arrays_of(part, c, arm), e));
    r->report = fixed.report;
    c->run.warm_up = fixed.warm_up;
    r->now.request.attention_error = false; /* its error is known */
    return SG_OK;
}

/* ---- the times ---- */

static int times_of(sg_kept part[SG_ARMS_MAX], const sg_comparison *c)
{
    for (int i = 0; i < c->run.arms.count; i++)
        part[i] = (sg_kept){c->run.arm[i].times.total, c->run.arm[i].times.numbers * sizeof(double)};
    return c->run.arms.count;
}

static sg_status save_times(sg_comparison *c, sg_error *e)
{
    sg_kept   part[SG_ARMS_MAX];
    char      path[PATH_MAX];
    const int parts = times_of(part, c);
    name_file(path, c->folder, "times");
    c->kept_at = sg_seconds();
    return sg_kept_save(path, "times", part, parts, e);
}

/* Of an arm that did not come back the times are forgotten. */
static void load_times(sg_comparison *c, const bool there[SG_ARMS_MAX])
{
    sg_kept   part[SG_ARMS_MAX];
    char      path[PATH_MAX];
    const int parts = times_of(part, c);
    int       rounds = c->run.rounds;
    name_file(path, c->folder, "times");
    const bool read = sg_kept_load(path, "times", part, parts, &(sg_error){0}) == SG_OK;
    for (int i = 0; i < parts; i++) {
        const sg_arm_times *const t = &c->run.arm[i].times;
        int                       done = 0;
        if (!read || !there[i]) memset(t->total, 0, t->numbers * sizeof(double));
        while (done < rounds && t->total[done] > 0) done++;
        rounds = done;
    }
    for (int i = 0; i < parts; i++) c->run.arm[i].times.rounds = rounds;
}

void sg_compare_state_load(sg_comparison *c)
{
    bool there[SG_ARMS_MAX] = {false};
    int  arms = 0;
    if (!c->begun) return;
    for (int i = 0; i < c->run.arms.count; i++) {
        sg_error why = {0};
        there[i] = load_arm(c, i, &why) == SG_OK;
        if (there[i]) continue;
        free(c->run.arm[i].error);
        c->run.arm[i].error = NULL;
    }
    load_times(c, there);
    for (int i = 0; i < c->run.arms.count; i++) arms += c->run.arm[i].times.total[0] > 0;
    sg_progress_say(&c->run.session.progress, "%s: goes on; %d of %d arms and %d whole round%s are there", c->folder,
                    arms, c->run.arms.count, c->run.arm->times.rounds, sg_plural(c->run.arm->times.rounds));
}

/* ---- the whole ---- */

static sg_status begin(sg_comparison *c, sg_error *e)
{
    char          path[PATH_MAX];
    json_t *const now = make_manifest(c);
    snprintf(path, sizeof path, "%s/" STATE, c->folder);
    sg_status status = now ? sg_output_folder_make(path, NULL, "--output", e) : sg_error_memory(e, path);
    name_file(path, c->folder, "manifest.json");
    if (status == SG_OK) status = sg_report_save(path, now, e);
    json_decref(now);
    return status;
}

void sg_compare_state_keep(sg_comparison *c, int arm)
{
    sg_error   why = {0};
    sg_status  status = SG_OK;
    const bool first = c->run.round == 0;
    if (c->unkept || (!first && sg_seconds() < c->kept_at + 1)) return;
    if (!c->begun) status = begin(c, &why);
    if (status == SG_OK && first) status = save_arm(c, arm, &why);
    if (status == SG_OK) status = save_times(c, &why);
    c->begun = true;
    c->unkept = status != SG_OK;
    if (c->unkept)
        sg_progress_say(&c->run.session.progress, "%s: if this run is interrupted, it begins anew", why.text);
}

/* What a kill left on its way, too. */
void sg_compare_state_remove(sg_comparison *c)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" STATE, c->folder);
    DIR *const d = opendir(path);
    for (const struct dirent *f; d && (f = readdir(d)) != NULL;) unlinkat(dirfd(d), f->d_name, 0);
    if (d) closedir(d);
    rmdir(path);
    c->begun = false;
}
