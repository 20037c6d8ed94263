/* serve_options.c - see serve_options.h. */
#include "serve_options.h"
#include "base/text.h"
#include "json_build.h"
#include "option_names.h"
#include "report_settings.h"
#include "served_files.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

const char *const sg_job_inputs[] = {"image", "last_image", "video", NULL};

static const char *const formats[] = {"mp4", "mkv", "webp", "png", "jpeg", "jpg", "y4m", NULL};
static const char *const format_files[] = {"content.mp4", "content.mkv", "content.webp", "content.png",
                                           "content.jpg", "content.jpg", "content.y4m"};

enum { PHASES = SG_OPTION_INPUT | SG_OPTION_RENDER, TEXT_MOST = 16384 };

bool sg_serve_option_allowed(const sg_option *o)
{
    return (o->commands & SG_COMMAND_RENDER) && (o->phase & PHASES) && !o->files;
}

/* ---- reading ---- */

/* The values of a form are texts: "3" of a number, "true" of a flag. */
static sg_status read_form(sg_settings *s, const sg_option *o, const json_t *v, sg_error *e)
{
    static const char *const words[] = {"false", "true", NULL};
    const char *const        text = json_string_value(v);
    const int                flag = sg_text_place(text, words);
    if (o->kind != SG_OPTION_FLAG && text) return sg_options_set(s, o->name, text, e);
    return sg_settings_get_option(s, o, text && flag < 2 ? json_boolean(flag) : v, e);
}

static sg_status read_format(sg_settings *s, const json_t *v, sg_error *e)
{
    char      list[64] = "";
    const int i = sg_text_place(json_string_value(v), formats);
    if (formats[i]) return s->output = format_files[i], SG_OK;
    for (const char *const *f = formats; *f; f++) sg_text_append(list, sizeof list, "%s%s", *list ? ", " : "", *f);
    return sg_error_set(e, SG_E_ARG, "output_format takes one of %s", list);
}

/* A list of names, or one name. It replaces the list that s has. */
static sg_status read_loras(sg_text_list *list, const char *key, const json_t *v, sg_error *e)
{
    const size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > SG_LIST_MAX) return sg_error_set(e, SG_E_ARG, "%s: there are more than %d", key, SG_LIST_MAX);
    *list = (sg_text_list){0};
    for (size_t i = 0; i < n; i++) {
        const char *const name = json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
        if (!name) return sg_error_set(e, SG_E_ARG, "%s takes a list of names", key);
        SG_TRY(sg_served_name_check(name, key, e));
        list->item[list->count++] = name;
    }
    return SG_OK;
}

static sg_status read_member(sg_settings *s, const char *key, const json_t *v, bool form, sg_error *e)
{
    char                   hint[SG_HINT_TEXT];
    const sg_option *const o = sg_option_find(key, strlen(key), SG_COMMAND_RENDER);
    if (json_string_length(v) > TEXT_MOST) /* memory holds all jobs that are kept */
        return sg_error_set(e, SG_E_ARG, "%s: more than %d bytes", sg_show(key), TEXT_MOST);
    if (strcmp(key, "output_format") == 0) return read_format(s, v, e);
    if (strcmp(key, "lora") == 0) return read_loras(&s->lora, key, v, e);
    if (strcmp(key, "high_noise_lora") == 0) return read_loras(&s->high_noise_lora, key, v, e);
    if (strcmp(key, "model") == 0) {
        if (!json_is_string(v)) return sg_error_set(e, SG_E_ARG, "model takes a name");
        s->model = json_string_value(v);
        return sg_served_name_check(s->model, key, e);
    }
    if (o && sg_serve_option_allowed(o)) return form ? read_form(s, o, v, e) : sg_settings_get_option(s, o, v, e);
    if (sg_job_inputs[sg_text_place(key, sg_job_inputs)])
        return sg_error_set(e, SG_E_ARG, "%s is a file: it is uploaded, as a part of a multipart form", key);
    if (o) return sg_error_set(e, SG_E_ARG, "%s is not a job's to choose", sg_show(key));
    const char *names[256] = {NULL};
    for (int i = 0, n = 0; n < 255 && i < sg_option_count; i++)
        if (sg_option_table[i].name && sg_serve_option_allowed(&sg_option_table[i]))
            names[n++] = sg_option_table[i].name;
    return sg_error_set(e, SG_E_ARG, "there is no member %s%s", sg_show(key), sg_options_hint(hint, key, names, "--"));
}

sg_status sg_serve_options_read(sg_settings *s, const json_t *object, bool form, sg_error *e)
{
    const char *key;
    json_t     *v;
    sg_status   status = SG_OK;
    json_object_foreach((json_t *)object, key, v) if (status == SG_OK) status = read_member(s, key, v, form, e);
    if (status != SG_OK) sg_serve_options_spell(e);
    return status;
}

/* ---- writing ---- */

json_t *sg_serve_options_json(const sg_settings *s)
{
    json_t          *j = json_object();
    const sg_option *o;
    for (int i = 0; (o = sg_settings_next(s, PHASES, &i)) != NULL;)
        if (sg_serve_option_allowed(o)) sg_settings_put_option(&j, s, o, false);
    return j;
}

static json_t *choices_json(const char *const *choices)
{
    json_t *a = choices ? json_array() : NULL;
    for (; choices && *choices; choices++) sg_json_append(&a, json_string(*choices));
    return a;
}

/* The help in one line, with options named as members. */
static json_t *help_json(const sg_option *o)
{
    sg_error help = {0};
    snprintf(help.text, sizeof help.text, "%s", o->help);
    for (char *p = help.text; *p; p++)
        if (*p == '\n') *p = ' ';
    sg_serve_options_spell(&help);
    return json_string(help.text);
}

static json_t *default_json(const sg_settings *s, const sg_option *o)
{
    char    key[48];
    json_t *all = json_object();
    if (o->kind == SG_OPTION_SIZE && s->size[0] && s->size[1])
        sg_json_set(&all, sg_settings_key(key, o), json_sprintf("%dx%d", s->size[0], s->size[1]));
    else if (o->kind != SG_OPTION_SIZE)
        sg_settings_put_option(&all, s, o, false);
    json_t *const v = json_incref(json_object_get(all, sg_settings_key(key, o)));
    json_decref(all);
    return v;
}

static json_t *option_json(const sg_settings *defaults, const sg_option *o)
{
    static const char *const kinds[] = {
        [SG_OPTION_FLAG] = "boolean",     [SG_OPTION_TEXT] = "string",   [SG_OPTION_CHOICE] = "string",
        [SG_OPTION_INT] = "integer",      [SG_OPTION_INT64] = "integer", [SG_OPTION_REAL] = "number",
        [SG_OPTION_SIZE] = "WIDTHxHEIGHT"};
    char       key[48];
    const bool integer = o->kind == SG_OPTION_INT || o->kind == SG_OPTION_SIZE;
    json_t    *lo = NULL, *hi = NULL;
    if (integer || o->kind == SG_OPTION_REAL) {
        lo = integer ? json_integer((json_int_t)o->lo) : json_real(o->lo);
        hi = integer ? json_integer((json_int_t)o->hi) : json_real(o->hi);
    }
    return json_pack("{s:s, s:s, s:o*, s:o*, s:o*, s:o, s:o*}", "name", sg_settings_key(key, o), "kind", kinds[o->kind],
                     "lo", lo, "hi", hi, "choices", choices_json(sg_option_choices(o)), "help", help_json(o), "default",
                     default_json(defaults, o));
}

json_t *sg_serve_options_list(const sg_settings *defaults)
{
    json_t          *a = json_array();
    const sg_option *o;
    for (int i = 0; (o = sg_option_next(SG_COMMAND_RENDER, &i)) != NULL;)
        if (sg_serve_option_allowed(o)) sg_json_append(&a, option_json(defaults, o));
    sg_json_append(&a, json_pack("{s:s, s:s, s:o, s:s}", "name", "output_format", "kind", "string", "choices",
                                 choices_json(formats), "help", "format of the result"));
    return a;
}

/* ---- messages ---- */

void sg_serve_options_spell(sg_error *e)
{
    sg_option_names(e, SG_COMMAND_RENDER);
    for (char *at = e->text; (at = strstr(at, "--")) != NULL;) {
        const size_t n = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
        if (sg_option_find(at + 2, n, SG_COMMAND_RENDER)) {
            memmove(at, at + 2, strlen(at + 2) + 1);
            for (char *p = at; p < at + n; p++)
                if (*p == '-') *p = '_';
            at += n;
        } else {
            at += 2 + n;
        }
    }
}

/* A relative path like "models" may be a word of the text; it is a path where "/" or ": " follows. */
void sg_serve_options_hide(sg_error *e, const char *path)
{
    for (char *at = e->text; path && *path && (at = strstr(at, path)) != NULL;) {
        char *const  end = at + strlen(path);
        const size_t more = strncmp(end, ": ", 2) == 0 ? 2 : *end == '/';
        if (more || *path == '/')
            memmove(at, end + more, strlen(end + more) + 1);
        else
            at = end;
    }
}
