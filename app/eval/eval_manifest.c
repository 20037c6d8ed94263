/* eval_manifest.c - see eval_manifest.h. */
#include "eval_manifest.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"
#include "json_input.h"
#include "report_command.h"
#include "thresholds.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, MAX_BYTES = 1 << 24, MAX_VALUES = 1 << 16, SHOWN = 10 };

/* ---- making ---- */

static uint64_t hash_text(uint64_t hash, const char *text) { return sg_hash(hash, text, strlen(text) + 1); }

/* A set without pictures and videos has the hash of its words alone. */
static uint64_t hash_prompts(const sg_eval *v)
{
    const sg_prompt_set *const set = &v->set;
    uint64_t                   hash = SG_HASH;
    for (const sg_prompt *p = set->prompt; p < set->prompt + set->count; p++) {
        const sg_eval_hashes *const own = &v->pictures.hash[p - set->prompt];
        char                        numbers[96];
        snprintf(numbers, sizeof numbers, "%lld %dx%d %d %d %d", (long long)p->seed, p->width, p->height, p->frames,
                 p->negative != NULL, p->groups);
        hash = hash_text(hash_text(hash, p->text), numbers);
        if (p->negative) hash = hash_text(hash, p->negative);
        for (int i = 0; i < p->groups; i++) hash = hash_text(hash, set->group[set->member[p->first_group + i]]);
        if (v->pictures.any) hash = sg_hash(hash, own->image, sizeof own->image);
        if (!v->pictures.any_start) continue;
        snprintf(numbers, sizeof numbers, "%016" PRIx64 " %.17g", own->video, p->strength);
        hash = hash_text(hash, numbers);
    }
    return hash;
}

static json_t *hexadecimal(uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

static json_t *mask_json(const sg_policy *p)
{
    const sg_tensor *const m = &p->mask;
    return m->data ? hexadecimal(sg_hash(SG_HASH + (uint64_t)m->dim[0], m->data, sg_bytes(*m))) : json_null();
}

static json_t *thresholds_json(const sg_thresholds *t)
{
    if (!t) return json_null();
    const size_t       count = (size_t)t->buckets * (size_t)t->layers * (size_t)t->heads;
    const float *const list[] = {t->amount, t->theta, t->pv_threshold};
    uint64_t           hash = sg_hash(SG_HASH, t->from, (size_t)t->buckets * sizeof *t->from);
    for (int i = 0; i < 3; i++) hash = sg_hash(hash, list[i], count * sizeof *list[i]);
    return hexadecimal(hash);
}

static json_t *names_json(const sg_eval *v)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; i < v->arms.count && whole; i++)
        whole = json_array_append_new(a, json_string(v->arms.arm[i].name)) == 0;
    return sg_report_if_complete(a, whole);
}

static json_t *attention_json(const sg_eval *v)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; i < v->arms.count && whole; i++) {
        const sg_arm_result *const r = &v->arm[i];
        const sg_policy *const     p = &r->policy;
        sg_request                 request = v->request;
        sg_arm_apply(r, &request);
        json_t *const j =
            json_pack("{s:s, s:o, s:o, s:o}", "folder", v->arms.arm[i].file, "policy", sg_report_policy(p),
                      "thresholds", thresholds_json(p->tuned), "block_mask", mask_json(p));
        whole = json_array_append_new(a, j) == 0;
        if (whole && r->asked != v->request.steps) whole = json_object_set_new(j, "steps", json_integer(r->asked)) == 0;
        if (whole && r->guidance != v->request.guidance)
            whole = json_object_set_new(j, "guidance", json_real(r->guidance)) == 0;
        if (whole && r->slg_scale != v->request.slg_scale)
            whole = json_object_set_new(j, "slg_scale", json_real(r->slg_scale)) == 0;
        if (whole && r->cache != v->request.cache)
            whole = json_object_set_new(j, "cache", json_string(sg_cache_names[r->cache])) == 0;
        if (whole && sg_request_cache_threshold(&request) > 0)
            whole = json_object_set_new(j, "cache_threshold", json_real(request.cache_threshold)) == 0;
    }
    return sg_report_if_complete(a, whole);
}

static void option(FILE *f, const char *name, const char *value)
{
    if (!value) return;
    fprintf(f, " --%s ", name);
    sg_command_word(f, value);
}

/* What makes all of it again, in a folder of its own: in this one nothing is left to do. settings has no prompt. */
static json_t *command_json(const sg_eval *v, const json_t *settings)
{
    const sg_settings *const s = v->settings;
    char                    *text = NULL;
    size_t                   size;
    sg_error                 e = {0};
    json_t *const            own = json_copy((json_t *)(uintptr_t)settings);
    FILE *const              f = open_memstream(&text, &size);
    bool                     whole = own && f && sg_report_add_arms(own, v->list, s, &e) == SG_OK;
    if (whole) {
        fputs("sparge-gen eval", f);
        option(f, "prompts", s->prompts);
        option(f, "out", "again");
        option(f, "image", s->image);
        option(f, "last-image", s->last_image);
        option(f, "video", s->video);
        option(f, "image-folder", s->image_folder);
        if (s->skip_bad) fputs(" --skip-bad", f);
        if (s->strict) fputs(" --strict", f);
        if (v->per_prompt > 1) fprintf(f, " --per-prompt %d", v->per_prompt);
        sg_command_options(f, own);
        option(f, "backend", s->backend);
        option(f, "cpumask", s->cpumask);
        option(f, "gpumask", s->gpumask);
        option(f, "clip", s->clip);
    }
    whole = f && fclose(f) == 0 && whole;
    json_t *const j = whole ? sg_report_name(text) : NULL;
    free(text);
    json_decref(own);
    return j;
}

static bool add_inputs(json_t *settings, const sg_eval *v)
{
    const sg_eval_pictures *const at = &v->pictures;
    if ((at->any || at->any_start) && json_object_set_new(settings, "fit", json_string(at->now.fit)) != 0) return false;
    return !at->any_start || json_object_set_new(settings, "strength", json_real(v->request.strength)) == 0;
}

sg_status sg_eval_manifest_make(json_t **out, const sg_eval *v, sg_error *e)
{
    const sg_settings *const s = v->settings;
    char                     hash[17];
    json_t                  *settings = NULL;
    SG_TRY(sg_thresholds_hash(hash, v->model.dir, &v->model.parts, e));
    SG_TRY(sg_report_settings(&settings, &v->request, NULL, &v->model, &v->info, e));
    json_t *const j =
        json_pack("{s:s, s:i, s:{s:o, s:s}, s:{s:o, s:i, s:o}, s:i, s:o, s:o, s:s, s:s, s:s*, s:n}", "format",
                  SG_EVAL_FORMAT, "version", VERSION, "model", "name", sg_report_name(v->model.name), "hash", hash,
                  "prompts", "file", sg_report_name(sg_path_name(s->prompts)), "count", v->set.count, "hash",
                  hexadecimal(hash_prompts(v)), "per_prompt", v->per_prompt, "arms", names_json(v), "attention",
                  attention_json(v), "backend", s->backend ? s->backend : "auto", "cpumask",
                  s->cpumask ? s->cpumask : "all", "gpumask", s->gpumask, "cfg_scale_2");
    (void)json_object_del(settings, "prompt");
    const bool whole = j && add_inputs(settings, v) && (!v->clip || json_object_set(j, "clip", v->clip) == 0) &&
                       json_object_set_new(j, "command", command_json(v, settings)) == 0 &&
                       json_object_update_missing(j, settings) == 0 &&
                       (v->request.cfg_scale_2 < 0 ||
                        json_object_set(j, "cfg_scale_2", json_object_get(settings, "cfg_scale_2")) == 0);
    json_decref(settings);
    *out = sg_report_if_complete(j, whole);
    return whole ? SG_OK : sg_error_set(e, SG_E_MEMORY, "manifest.json: out of memory");
}

/* ---- the one that is there ---- */

sg_status sg_eval_manifest_read(json_t **out, const char *folder, sg_error *e)
{
    char path[PATH_MAX];
    *out = NULL;
    SG_TRY(sg_path_join(path, sizeof path, folder, SG_EVAL_MANIFEST, e));
    SG_TRY(sg_json_open(out, path, MAX_BYTES, MAX_VALUES, 0, e));
    const char *const format = json_string_value(json_object_get(*out, "format"));
    if (format && strcmp(format, SG_EVAL_FORMAT) == 0) return SG_OK;
    json_decref(*out);
    *out = NULL;
    return sg_error_set(e, SG_E_FORMAT, "%s: format is not \"" SG_EVAL_FORMAT "\"", path);
}

typedef struct differences {
    int  count;
    char text[3000];
} differences;

static const char *shown(char text[64], const json_t *v)
{
    char *const value = v ? sg_json_text(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    sg_show_(text, 64, value ? value : "none");
    free(value);
    return text;
}

static void note(differences *d, const char *name, const json_t *there, const json_t *now)
{
    char         a[64], b[64];
    const size_t n = strlen(d->text);
    if (d->count++ < SHOWN)
        snprintf(d->text + n, sizeof d->text - n, "\n  %.120s: %s -> %s", name, shown(a, there), shown(b, now));
}

static bool for_people(const char *name)
{
    return strcmp(name, "device") == 0 || strcmp(name, "prompts.file") == 0 || strcmp(name, "command") == 0 ||
           strcmp(name, "clip.name") == 0;
}

/* To the 15 digits that a report has. */
static bool same_number(double a, double b) { return fabs(a - b) <= 1e-14 * fabs(a); }

static void compare(differences *d, const char *name, const json_t *there, const json_t *now);

static void compare_members(differences *d, const char *name, json_t *there, json_t *now)
{
    const char *key;
    json_t     *value;
    char        member[256];
    json_object_foreach(there, key, value)
    {
        snprintf(member, sizeof member, "%s%s%s", name, *name ? "." : "", key);
        compare(d, member, value, json_object_get(now, key));
    }
    json_object_foreach(now, key, value)
    {
        snprintf(member, sizeof member, "%s%s%s", name, *name ? "." : "", key);
        if (!json_object_get(there, key)) compare(d, member, NULL, value);
    }
}

static void compare(differences *d, const char *name, const json_t *there, const json_t *now)
{
    if (for_people(name) || (there && now && json_equal(there, now))) return;
    if (strcmp(name, "clip") == 0 && (!there || !now)) return; /* scores come when they are asked for */
    if (json_is_number(there) && json_is_number(now) && same_number(json_number_value(there), json_number_value(now)))
        return;
    if (json_is_object(there) && json_is_object(now)) {
        compare_members(d, name, (json_t *)(uintptr_t)there, (json_t *)(uintptr_t)now);
    } else if (json_is_array(there) && json_is_array(now) && json_array_size(there) == json_array_size(now)) {
        for (size_t i = 0; i < json_array_size(there); i++) {
            char entry[256];
            snprintf(entry, sizeof entry, "%s[%zu]", name, i);
            compare(d, entry, json_array_get(there, i), json_array_get(now, i));
        }
    } else if (strcmp(name, "attention") != 0) { /* of other arms, which are reported */
        note(d, name, there, now);
    }
}

sg_status sg_eval_manifest_compare(const json_t *there, const json_t *now, const char *folder, sg_error *e)
{
    differences d = {0};
    char        more[48] = "";
    compare(&d, "", there, now);
    if (!d.count) return SG_OK;
    if (d.count > SHOWN) snprintf(more, sizeof more, "\n  and %d more", d.count - SHOWN);
    return sg_error_set(e, SG_E_ARG,
                        "--out: %s holds clips by other settings; take another folder, or the settings there "
                        "(there -> now):%s%s",
                        folder, d.text, more);
}

/* ---- scores that come later ---- */

/* What is there, and the option behind it. */
static bool add_option(json_t *manifest, const char *dir)
{
    const char *const there = json_string_value(json_object_get(manifest, "command"));
    char             *text = NULL;
    size_t            size;
    FILE *const       f = open_memstream(&text, &size);
    if (f && there) {
        fputs(there, f);
        option(f, "clip", dir);
    }
    bool whole = f && fclose(f) == 0;
    if (whole && there) whole = json_object_set_new(manifest, "command", sg_report_name(text)) == 0;
    free(text);
    return whole;
}

sg_status sg_eval_manifest_add_clip(const char *folder, json_t *clip, const char *dir, sg_error *e)
{
    char    path[PATH_MAX];
    json_t *there = NULL;
    SG_TRY(sg_path_join(path, sizeof path, folder, SG_EVAL_MANIFEST, e));
    SG_TRY(sg_eval_manifest_read(&there, folder, e));
    json_t *const now = json_copy(there);
    const bool    whole = now && json_object_set(now, "clip", clip) == 0 && add_option(now, dir);
    sg_status     status = whole ? SG_OK : sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    if (status == SG_OK) status = sg_eval_manifest_compare(there, now, folder, e);
    if (status == SG_OK && !json_object_get(there, "clip")) status = sg_report_save(path, now, e);
    json_decref(now);
    json_decref(there);
    return status;
}
