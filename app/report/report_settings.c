/* report_settings.c - see report_settings.h. */
#include "report_settings.h"
#include "base/json_input.h"
#include "base/path.h"
#include "base/utf8.h"
#include "command_table.h"
#include "json_build.h"
#include "option_rules.h"
#include "report.h"
#include "settings.h"
#include "setup.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- as JSON ---- */

const char *sg_settings_key(char key[48], const sg_option *o)
{
    snprintf(key, 48, "%s", o->name);
    for (char *p = key; *p; p++)
        if (*p == '-') *p = '_';
    return key;
}

/* By its own name. */
static json_t *file_json(const char *path, uint64_t hash, bool whole)
{
    char    room[PATH_MAX];
    json_t *name = sg_report_name(whole && !hash ? path : sg_setup_own_name(room, path));
    if (!hash) return name;
    return json_pack("{s:o, s:o, s:o*}", "file", name, "hash", sg_report_hash(hash), "path",
                     whole ? sg_report_name(path) : NULL);
}

static json_t *option_json(const sg_settings *s, const sg_option *o, bool paths)
{
    const void *const at = sg_settings_value(s, o);
    switch (o->kind) {
    case SG_OPTION_FLAG: return json_true();
    case SG_OPTION_INT: return json_integer(*(const int *)at);
    case SG_OPTION_INT64: return json_integer(*(const int64_t *)at);
    case SG_OPTION_REAL: return json_real(*(const double *)at);
    case SG_OPTION_TEXT:
    case SG_OPTION_CHOICE:
        if (!o->files) return sg_report_name(*(const char *const *)at);
        return file_json(*(const char *const *)at, sg_settings_hash(s, o), paths);
    default: return NULL;
    }
}

/* A seed is always there. LoRAs are with the engine, which has read them. */
void sg_settings_put_option(json_t **j, const sg_settings *s, const sg_option *o, bool paths)
{
    char key[48];
    if (o->kind == SG_OPTION_LIST || (o->kind != SG_OPTION_INT64 && !sg_settings_has(s, o))) return;
    sg_json_set(j, sg_settings_key(key, o), option_json(s, o, paths));
}

void sg_settings_put(json_t **j, const sg_settings *s, unsigned phases, bool paths)
{
    const sg_option *o;
    for (int i = 0; (o = sg_settings_next(s, phases, &i)) != NULL;) sg_settings_put_option(j, s, o, paths);
    if (s->hash.tuned && (phases & SG_OPTION_ATTENTION))
        sg_json_set(j, "tuned", file_json(SG_THRESHOLDS_NAME, s->hash.tuned, false));
}

/* The LoRAs of the high-noise expert, or the others. */
static void put_loras(json_t **j, const char *key, const sg_model_info *info, bool high_noise)
{
    json_t *list = json_array();
    for (int i = 0; i < info->loras; i++) {
        const sg_lora_info *const l = info->lora[i];
        if ((l->denoisers == 1) == high_noise)
            sg_json_append(&list, json_pack("{s:o, s:f, s:o, s:o*, s:o*}", "file", sg_report_name(l->name), "strength",
                                            l->strength, "hash", sg_report_hash(l->hash), "fast",
                                            l->fast ? json_true() : NULL, "beside", l->beside ? json_true() : NULL));
    }
    if (!list || json_array_size(list))
        sg_json_set(j, key, list);
    else
        json_decref(list);
}

static json_t *start(const sg_model_info *info)
{
    return json_pack("{s:s, s:s}", "program", "sparge-gen " SG_VERSION, "device", info->device);
}

json_t *sg_report_settings(const sg_settings *kept, const sg_request *r, const sg_model_info *info, bool paths)
{
    json_t      *j = start(info);
    const double threshold = sg_request_cache_threshold(r);
    sg_settings_put(&j, kept, SG_OPTION_KEPT, paths);
    put_loras(&j, "lora", info, false);
    put_loras(&j, "high_noise_lora", info, true);
    if (threshold > 0)
        sg_json_set(&j, "cache_threshold",
                    json_pack("{s:s, s:o, s:f}", "file", SG_THRESHOLDS_NAME, "hash", sg_report_hash(info->thresholds),
                              "threshold", threshold));
    return j;
}

/* Latents bring their picture along: what their file tells of it still holds, if it tells anything. */
json_t *sg_report_decoding(const sg_settings *kept, const sg_request *r, const char *note, const sg_model_info *info,
                           bool paths)
{
    json_t *now = start(info), *made = note ? json_loads(note, JSON_REJECT_DUPLICATES, NULL) : NULL;
    sg_settings_put(&now, kept, SG_OPTION_LOAD | SG_OPTION_OUTPUT, paths);
    sg_json_join(&now, json_pack("{s:o, s:i, s:i}", "latents", sg_report_name(r->latents_in), "width", r->width,
                                 "height", r->height));
    if (info->frame_step) /* not of images */
        sg_json_join(&now, json_pack("{s:i, s:i}", "frames", r->frames, "fps", r->fps));
    if (!json_is_object(made)) {
        json_decref(made);
        return now;
    }
    sg_json_join(&made, now);
    return made;
}

sg_status sg_report_text(char **out, const json_t *settings, sg_error *e)
{
    *out = settings ? sg_json_text(settings, JSON_COMPACT | SG_REPORT_DIGITS) : NULL;
    return *out ? SG_OK : sg_error_set(e, SG_E_MEMORY, "settings: cannot be put into JSON");
}

/* ---- back from JSON ---- */

/* FILE:STRENGTH of each, put into the JSON for the settings to borrow; --fast for those that the model names itself. */
static void get_loras(sg_settings *s, sg_text_list *list, json_t *j)
{
    size_t  i;
    json_t *v;
    json_array_foreach(j, i, v)
    {
        const char *const file = json_string_value(json_object_get(v, "file"));
        if (json_is_true(json_object_get(v, "fast"))) s->fast = true;
        if (!file || json_is_true(json_object_get(v, "fast")) || list->count == sizeof list->item / sizeof *list->item)
            continue;
        json_t *const text = json_sprintf("%.255s:%.15g", file, json_number_value(json_object_get(v, "strength")));
        if (json_object_set_new(v, "option", text) == 0) list->item[list->count++] = json_string_value(text);
    }
}

/* The option's own reader has its range, and the words for what is out of it. */
sg_status sg_settings_get_option(sg_settings *s, const sg_option *o, const json_t *v, sg_error *e)
{
    const struct {
        bool        fits;
        const char *what;
    } kinds[] = {[SG_OPTION_FLAG] = {json_is_boolean(v), "true or false"},
                 [SG_OPTION_TEXT] = {json_is_string(v), "a string"},
                 [SG_OPTION_CHOICE] = {json_is_string(v), "a string"},
                 [SG_OPTION_INT] = {json_is_integer(v), "a whole number"},
                 [SG_OPTION_INT64] = {json_is_integer(v), "a whole number"},
                 [SG_OPTION_REAL] = {json_is_number(v), "a number"},
                 [SG_OPTION_SIZE] = {json_is_string(v), "a string, as \"832x480\""},
                 [SG_OPTION_LIST] = {false, "what others read"},
                 [SG_OPTION_BYTES] = {false, "no value that is kept"}};
    if (!kinds[o->kind].fits) return sg_error_set(e, SG_E_ARG, "--%s takes %s", o->name, kinds[o->kind].what);
    if (json_is_false(v)) return SG_OK;
    char *const number = json_is_number(v) ? sg_json_text(v, JSON_ENCODE_ANY) : NULL;
    if (json_is_number(v) && !number) return sg_error_memory(e, o->name);
    const sg_status status = sg_options_set(s, o->name, number ? number : json_string_value(v), e);
    free(number);
    return status;
}

/* What this program does not take is passed over, but for a name that another one knew: the command refuses it. */
static void get_option(sg_settings *s, const sg_option *o, json_t *v)
{
    void *const at = sg_settings_at(s, o);
    if (o->hash && json_is_object(v)) {
        const char *const hash = json_string_value(json_object_get(v, "hash"));
        if (hash) *(uint64_t *)(void *)((char *)s + o->hash) = strtoull(hash, NULL, 16);
    }
    if (o->kind == SG_OPTION_LIST) {
        get_loras(s, at, v);
        return;
    }
    if (json_is_object(v)) v = json_object_get(v, json_object_get(v, "path") ? "path" : "file");
    if (sg_settings_get_option(s, o, v, NULL) != SG_OK && o->kind == SG_OPTION_CHOICE && json_is_string(v))
        *(const char **)at = json_string_value(v);
}

/* Reads settings as sg_report_settings has them, or a program before it had them. They may be hostile: what is of
 * another type than its option is passed over. Strings are borrowed from j, which gets some. s is empty but for its
 * command. */
static void get_settings(sg_settings *s, json_t *j)
{
    const sg_option *o;
    char             key[48];
    for (int i = 0; (o = sg_settings_next(s, SG_OPTION_KEPT, &i)) != NULL;) {
        json_t *const v = json_object_get(j, sg_settings_key(key, o));
        if (v) get_option(s, o, v);
    }
    if (json_object_get(j, "tuned")) s->hash.tuned = 1; /* "true" before there were hashes */
    const char *const tuned = json_string_value(json_object_get(json_object_get(j, "tuned"), "hash"));
    if (tuned) s->hash.tuned = strtoull(tuned, NULL, 16);
    if (!s->cache && !s->arms) s->cache = "off"; /* which was not kept, and is not the default of many steps */
}

/* ---- as a command ---- */

void sg_print_escaped(FILE *f, const char *text, const char *more)
{
    for (const char *p = text; *p; p++) {
        size_t control = sg_utf8_control(p);
        if (*p == '\n')
            fputs("\\n", f);
        else if (*p == '\t')
            fputs("\\t", f);
        else if (strchr(more, *p))
            fprintf(f, "\\%c", *p);
        else if (!control)
            fputc(*p, f);
        else
            for (p--; control; control--) fprintf(f, "\\x%02x", (unsigned char)*++p);
    }
}

static bool holds_control(const char *text)
{
    for (const char *p = text; *p; p++)
        if (sg_utf8_control(p)) return true;
    return false;
}

void sg_print_word(FILE *f, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,/+:@";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, f);
    } else if (strchr(word, '\'') || holds_control(word)) {
        fputs("$'", f);
        sg_print_escaped(f, word, "\\'");
        fputc('\'', f);
    } else {
        fprintf(f, "'%s'", word);
    }
}

void sg_print_value(FILE *f, const json_t *v)
{
    if (json_is_string(v))
        sg_print_escaped(f, json_string_value(v), "");
    else if (json_is_integer(v))
        fprintf(f, "%lld", (long long)json_integer_value(v));
    else if (json_is_number(v))
        fprintf(f, "%.15g", json_number_value(v));
    else
        json_dumpf(v, f, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
}

/* One that looks like an option is no value of its own. */
static void print_text(FILE *f, const sg_option *o, const char *text)
{
    fprintf(f, " --%s%c", o->name, strncmp(text, "--", 2) == 0 ? '=' : ' ');
    sg_print_word(f, text);
}

static void print_option(FILE *f, const sg_settings *s, const sg_option *o)
{
    const void *const at = sg_settings_value(s, o);
    if (o->kind == SG_OPTION_TEXT || o->kind == SG_OPTION_CHOICE) {
        print_text(f, o, *(const char *const *)at);
    } else if (o->kind == SG_OPTION_LIST) {
        for (int i = 0; i < ((const sg_text_list *)at)->count; i++)
            print_text(f, o, ((const sg_text_list *)at)->item[i]);
    } else {
        json_t *const v = o->kind == SG_OPTION_FLAG ? NULL : option_json(s, o, true);
        fprintf(f, " --%s%s", o->name, v ? " " : "");
        if (v) sg_print_value(f, v);
        json_decref(v);
    }
}

void sg_settings_print(FILE *f, json_t *settings, sg_command command, const char *output)
{
    static const char ours[] = "tiny-wan"; /* needs no --model, if its own denoiser is at work */
    const char *const name = sg_command_row_of(command)->name;
    sg_settings       s = sg_options_empty(command);
    const sg_option  *o;
    get_settings(&s, settings);
    if (s.model && !s.parts.diffusion_model && strcmp(sg_path_name(s.model), ours) == 0) s.model = NULL;
    sg_settings_drop_idle(&s, SG_OPTION_KEPT);
    fprintf(f, "sparge-gen%s%s", *name ? " " : "", name);
    for (int i = 0; (o = sg_settings_next(&s, SG_OPTION_KEPT, &i)) != NULL;)
        if (sg_settings_has(&s, o) || o->kind == SG_OPTION_INT64) print_option(f, &s, o);
    fputs(s.batch ? " --grid " : " -o ", f); /* of a batch the file is its grid */
    sg_print_word(f, output);
}

json_t *sg_settings_command(json_t *settings, sg_command command, const char *output)
{
    char       *text = NULL;
    size_t      size;
    FILE *const f = open_memstream(&text, &size);
    if (f) sg_settings_print(f, settings, command, output);
    const bool    whole = f && !ferror(f);
    json_t *const j = f && fclose(f) == 0 && whole ? json_string(text) : NULL;
    free(text);
    return j;
}
