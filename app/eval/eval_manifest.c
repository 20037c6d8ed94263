/* eval_manifest.c - see eval_manifest.h. */
#include "eval_manifest.h"
#include "base/hash.h"
#include "base/json_input.h"
#include "base/path.h"
#include "base/text.h"
#include "json_build.h"
#include "option_rules.h"
#include "report.h"
#include "report_settings.h"
#include "run_folder.h"
#include "setup.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 24, MAX_VALUES = 1 << 16 };

/* ---- making ---- */

static uint64_t hash_text(uint64_t hash, const char *text) { return sg_hash(hash, text, strlen(text) + 1); }

/* Of the first entries. A set without pictures and videos has the hash of its words alone. */
static uint64_t hash_prompts(const sg_eval *v, int count)
{
    const sg_prompt_set *const set = &v->set;
    const bool                 from_image = v->session->info.image[SG_IMAGE_FIRST] == SG_IMAGE_START;
    uint64_t                   hash = SG_HASH;
    bool                       any = false, any_start = false;
    for (int i = 0; i < count; i++) {
        const uint64_t *const own = v->pictures.hash[i];
        any = any || own[SG_IMAGE_FIRST] || own[SG_IMAGE_LAST];
        any_start = any_start || own[SG_EVAL_VIDEO] || (from_image && own[SG_IMAGE_FIRST]);
    }
    for (const sg_prompt *p = set->prompt; p < set->prompt + count; p++) {
        const uint64_t *const own = v->pictures.hash[p - set->prompt];
        char                  numbers[96];
        snprintf(numbers, sizeof numbers, "%lld %dx%d %d %d %d", (long long)p->seed, p->width, p->height, p->frames,
                 p->negative != NULL, p->groups);
        hash = hash_text(hash_text(hash, p->text), numbers);
        if (p->negative) hash = hash_text(hash, p->negative);
        for (int i = 0; i < p->groups; i++) hash = hash_text(hash, set->group[set->member[p->first_group + i]]);
        if (any) hash = sg_hash(hash, own, SG_IMAGES * sizeof *own);
        if (!any_start) continue;
        snprintf(numbers, sizeof numbers, "%016" PRIx64 " %.17g", own[SG_EVAL_VIDEO], p->strength);
        hash = hash_text(hash, numbers);
    }
    return hash;
}

static json_t *names_json(const sg_eval *v)
{
    json_t *a = json_array();
    for (int i = 0; i < v->run.arms.count; i++) sg_json_append(&a, json_string(v->run.arms.arm[i].name));
    return a;
}

/* Whatever the size, which entries may have. */
static json_t *arm_settings_json(const sg_eval *v)
{
    json_t *a = json_array();
    for (int i = 0; i < v->run.arms.count; i++) {
        sg_settings kept = v->run.arm[i].now.settings;
        json_t     *j = json_pack("{s:s}", "folder", v->run.arms.arm[i].file);
        sg_settings_drop_idle(&kept, SG_OPTION_ATTENTION);
        sg_settings_put(&j, &kept, SG_OPTION_RENDER, false);
        sg_json_append(&a, j);
    }
    return a;
}

/* What all arms have in common; of the machine what was asked for, since ranks may run on several. */
static sg_settings kept_of(const sg_eval *v)
{
    const sg_eval_pictures *const at = &v->pictures;
    sg_settings                   s = v->run.shared.settings;
    s.arms = v->list;
    s.fit = at->any || at->any_start ? v->session->pictures.fit : NULL;
    s.strength = at->any_start ? v->run.shared.request.strength : NAN;
    s.backend = v->settings->backend;
    s.cpumask = v->settings->cpumask;
    s.threads = v->settings->threads;
    return s;
}

/* The command makes all of it again, in a folder of its own: in this one nothing is left to do. It has names as they
 * were typed. */
sg_status sg_eval_manifest_make(json_t **out, const sg_eval *v, sg_error *e)
{
    const sg_settings kept = kept_of(v);
    json_t *const     typed = sg_report_settings(&kept, &v->run.shared.request, &v->session->info, true);
    json_t           *j = sg_report_settings(&kept, &v->run.shared.request, &v->session->info, false);
    json_object_del(j, "clip");
    sg_json_join(&j, json_pack("{s:o, s:{s:o, s:i, s:o}, s:o, s:o, s:O*}", "again",
                               sg_settings_command(typed, SG_COMMAND_EVAL, "again"), "prompts", "file",
                               sg_report_name(sg_path_name(kept.prompts)), "count", v->set.count, "hash",
                               sg_report_hash(hash_prompts(v, v->set.count)), "arms", names_json(v), "arm_settings",
                               arm_settings_json(v), "clip", v->clip));
    json_decref(typed);
    *out = sg_report_envelope(SG_COMMAND_EVAL, j);
    return *out ? SG_OK : sg_error_memory(e, "manifest.json");
}

/* ---- the one that is there ---- */

static bool is(const json_t *j, const char *key, const char *text)
{
    const char *const value = json_string_value(json_object_get(j, key));
    return value && strcmp(value, text) == 0;
}

/* Of version 2 and before: another format, and "command" was what is "again" now. */
static void take_older(json_t *j)
{
    if (!is(j, "format", "sparge-gen eval")) return;
    (void)json_object_set(j, "again", json_object_get(j, "command"));
    (void)json_object_update_new(j, json_pack("{s:s, s:s}", "format", SG_REPORT_FORMAT, "command", "eval"));
}

sg_status sg_eval_manifest_read(json_t **out, const char *folder, sg_error *e)
{
    char path[PATH_MAX];
    *out = NULL;
    SG_TRY(sg_path_join(path, sizeof path, folder, SG_EVAL_MANIFEST, e));
    SG_TRY(sg_json_open(out, path, MAX_BYTES, MAX_VALUES, 0, e));
    take_older(*out);
    if (is(*out, "format", SG_REPORT_FORMAT) && is(*out, "command", "eval")) return SG_OK;
    json_decref(*out);
    *out = NULL;
    return sg_error_set(e, SG_E_FORMAT, "%s: format and command are not those of an eval", path);
}

/* Of members for people; scores come when they are asked for; and where there are other arms, their names tell. */
static bool may_differ(const char *name, const json_t *there, const json_t *now)
{
    static const char *const names[] = {"device", "prompts.file", "again", "clip.name", "program", "threads", NULL};
    if (strcmp(name, "clip") == 0) return !there || !now;
    if (strcmp(name, "arm_settings") == 0) return json_array_size(there) != json_array_size(now);
    return names[sg_text_place(name, names)];
}

sg_status sg_eval_manifest_compare(const json_t *there, const json_t *now, const char *folder, sg_error *e)
{
    return sg_manifest_compare(there, now, folder, "holds clips", may_differ, e);
}

/* The command of a manifest with scores has their option. */
static void take_set(json_t *there, const json_t *now)
{
    static const char *const inputs[] = {"fit", "strength"}; /* which a set has with its first picture or video */
    (void)json_object_set(there, "prompts", json_object_get(now, "prompts"));
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (!json_object_get(there, inputs[i]) && json_object_get(now, inputs[i]))
            (void)json_object_set(there, inputs[i], json_object_get(now, inputs[i]));
    if (!json_object_get(there, "clip") || json_object_get(now, "clip"))
        (void)json_object_set(there, "again", json_object_get(now, "again"));
}

sg_status sg_eval_manifest_grow(json_t *there, const json_t *now, const sg_eval *v, sg_error *e)
{
    const json_t *const prompts = json_object_get(there, "prompts");
    const char *const   hash = json_string_value(json_object_get(prompts, "hash"));
    const json_int_t    count = json_integer_value(json_object_get(prompts, "count"));
    char                own[24] = "";
    if (count >= 1 && count <= v->set.count) snprintf(own, sizeof own, "%016" PRIx64, hash_prompts(v, (int)count));
    if (hash && strcmp(hash, own) == 0) {
        if (count < v->set.count) take_set(there, now);
        return SG_OK;
    }
    return sg_error_set(
        e, SG_E_ARG,
        "--output: %s was begun with another set: its %lld entr%s to stand unchanged, with their files, at the "
        "beginning of --prompts, before new ones; or take another folder",
        v->folder, (long long)count, count == 1 ? "y has" : "ies have");
}

/* ---- scores that come later ---- */

/* The command that is there, and the option behind it. NULL: no memory. */
static json_t *with_option(const char *there, const char *dir)
{
    char       *text = NULL;
    size_t      size;
    FILE *const f = open_memstream(&text, &size);
    if (f) fprintf(f, "%s --clip ", there);
    if (f) sg_print_word(f, dir);
    json_t *const j = f && fclose(f) == 0 ? sg_report_name(text) : NULL;
    free(text);
    return j;
}

sg_status sg_eval_manifest_add_clip(const char *folder, json_t *clip, const char *dir, sg_error *e)
{
    char    path[PATH_MAX];
    json_t *there = NULL;
    SG_TRY(sg_path_join(path, sizeof path, folder, SG_EVAL_MANIFEST, e));
    SG_TRY(sg_eval_manifest_read(&there, folder, e));
    const char *const again = json_string_value(json_object_get(there, "again"));
    json_t           *now = json_copy(there);
    sg_json_set(&now, "clip", json_incref(clip));
    if (again) sg_json_set(&now, "again", with_option(again, dir));
    sg_status status = now ? SG_OK : sg_error_memory(e, path);
    if (status == SG_OK) status = sg_eval_manifest_compare(there, now, folder, e);
    if (status == SG_OK && !json_object_get(there, "clip")) status = sg_report_save(path, now, e);
    json_decref(now);
    json_decref(there);
    return status;
}
