/* arms.c - see arms.h. */
#include "arms.h"
#include "base/text.h"
#include "option_rules.h"
#include "prompt_set.h"
#include "settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the piece at *at before the next of these separators, takes its backslashes away and moves on. The separator that
 * was there, or 0 at the end. */
static char cut(char **at, const char *separators)
{
    char *to = *at, *from = *at;
    while (*from && !strchr(separators, *from)) {
        if (*from == '\\' && from[1]) from++;
        *to++ = *from++;
    }
    const char end = *from;
    *at = end ? from + 1 : from;
    *to = '\0';
    return end;
}

/* ---- one arm ---- */

/* An arm that has a scale of its own takes what the command says of it. */
static void take_slg(sg_settings *s, const sg_settings *base)
{
    for (const char *const *of = sg_options_of_slg; *of && s->slg_scale > 0; of++) {
        const sg_option *const o = sg_settings_option(s, *of);
        if (!sg_settings_has(s, o)) sg_settings_copy(s, base, o);
    }
}

/* What the command says of all arms holds for those that it concerns. */
static void start(sg_arm *a, const char *kind, const sg_settings *base)
{
    sg_settings *const s = &a->settings;
    *s = sg_options_empty(SG_COMMAND_RENDER); /* what an arm says has to make sense there */
    sg_settings_take(s, base, SG_OPTION_LOAD | SG_OPTION_RENDER);
    s->attention = kind;
    if (!s->cache) s->cache = "off";
    for (const char *const *of = sg_options_of_slg; *of; of++) sg_settings_unset(s, sg_settings_option(s, *of));
    sg_settings_drop_idle(s, SG_OPTION_ATTENTION);
    if (strcmp(kind, sg_names("attention")[SG_ATTENTION_SPARGE]) != 0) s->preset = NULL;
}

/* Which blocks are kept: the first of these that an arm says, which *ruled tells, replaces what the command says. */
static void forget_rule(sg_settings *s, const char *key, bool *ruled)
{
    static const char *const rules[] = {"topk", "tau", "sparse-config", "block-mask", NULL};
    if (*ruled || !rules[sg_text_place(key, rules)]) return;
    for (int i = 0; rules[i]; i++) sg_settings_unset(s, sg_settings_option(s, rules[i]));
    *ruled = true;
}

/* The option of an arm of this name, or NULL; hint gets the one that was probably meant. Its kind of attention is
 * none. */
static const sg_option *option_of(const sg_settings *s, const char *key, char hint[SG_HINT_TEXT])
{
    const char      *names[96] = {"name"};
    const sg_option *o;
    int              n = 1;
    for (int i = 0; (o = sg_settings_next(s, SG_OPTION_RENDER, &i)) != NULL;) {
        if (strcmp(o->name, "attention") == 0) continue;
        if (strcmp(o->name, key) == 0) return o;
        if (n < (int)(sizeof names / sizeof *names) - 1) names[n++] = o->name;
    }
    sg_options_hint(hint, key, names, "");
    return NULL;
}

/* One "key=value"; ruled: the arm has said already which blocks it keeps. */
static sg_status set_key(sg_arm *a, char *pair, bool *ruled, sg_error *e)
{
    sg_error    why = {0};
    char        hint[SG_HINT_TEXT];
    char *const equals = strchr(pair, '=');
    if (equals) *equals = '\0';
    const char *const value = equals ? equals + 1 : "";
    const bool        named = strcmp(pair, "name") == 0;
    if (!named && !option_of(&a->settings, pair, hint))
        return sg_error_set(e, SG_E_ARG, "'%.40s' is no option of an arm%s", pair, hint);
    if (!*value) return sg_error_set(e, SG_E_ARG, "%s needs a value: %s=...", pair, pair);
    if (named && strlen(value) > SG_ARM_NAME)
        return sg_error_set(e, SG_E_ARG, "name: has more than %d bytes", SG_ARM_NAME);
    if (named) return snprintf(a->name, sizeof a->name, "%s", value), SG_OK;
    forget_rule(&a->settings, pair, ruled);
    if (sg_options_set(&a->settings, pair, value, &why) == SG_OK) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s", why.text + strspn(why.text, "-"));
}

static void make_file(sg_arm *a)
{
    size_t i = 0;
    for (; a->name[i]; i++) {
        const bool plain = isalnum((unsigned char)a->name[i]) || strchr("=._-", a->name[i]);
        a->file[i] = plain && (i > 0 || a->name[i] != '.') ? a->name[i] : '-';
    }
    a->file[i] = '\0';
}

/* "kind:key=value:key=value" in text, whose values the arm borrows. */
static sg_status parse_arm(sg_arm *a, char *text, const sg_settings *base, sg_error *e)
{
    bool              ruled = false;
    char             *at = text, *piece = at, hint[SG_HINT_TEXT];
    char              end = cut(&at, ":");
    const char *const kind = sg_names("attention")[sg_text_place(piece, sg_names("attention"))];
    sg_options_hint(hint, piece, sg_names("attention"), "");
    if (!kind)
        return sg_error_set(e, SG_E_ARG, "'%.40s' is not one of dense, sage, sparge%s", piece,
                            *hint ? hint : "; a comma in a value is written \\,");
    start(a, kind, base);
    while (end) {
        piece = at;
        end = cut(&at, ":");
        SG_TRY(set_key(a, piece, &ruled, e));
    }
    make_file(a);
    take_slg(&a->settings, base);
    return sg_options_check(&a->settings, e);
}

/* ---- the list ---- */

/* Among those before it. */
static sg_status check_unique(const sg_arms *all, const sg_arm *a, sg_error *e)
{
    if (strcmp(a->file, "side") == 0) return sg_error_set(e, SG_E_ARG, "name: is that of the clip with all arms");
    for (const sg_arm *b = all->arm; b < a; b++)
        if (strcmp(b->file, a->file) == 0)
            return sg_error_set(e, SG_E_ARG, "%s before; a name of its own is given by :name=...",
                                strcmp(b->name, a->name) == 0 ? "stands there"
                                                              : "a file of that name comes from an arm");
    return SG_OK;
}

/* text is what the list has of the arm. */
static sg_status open_arm(const sg_arms *all, sg_arm *a, char *text, const sg_settings *base, sg_error *e)
{
    if (snprintf(a->name, sizeof a->name, "%s", text) > SG_ARM_NAME && !strstr(text, ":name="))
        return sg_error_set(e, SG_E_ARG, "...: has more than %d bytes; a short name is given by :name=...",
                            SG_ARM_NAME);
    SG_TRY(parse_arm(a, text, base, e));
    return check_unique(all, a, e);
}

/* The end of the arm that begins at text: a comma without a backslash, or the end. */
static size_t arm_length(const char *text)
{
    size_t n = 0;
    while (text[n] && text[n] != ',') n += text[n] == '\\' && text[n + 1] ? 2 : 1;
    return n;
}

sg_status sg_arms_open(sg_arms *out, const char *list, const sg_settings *base, sg_error *e)
{
    *out = (sg_arms){.text = strdup(list)};
    if (!out->text) return sg_error_memory(e, "--arms");
    SG_TRY(sg_prompt_check(list, "--arms", e));
    for (const char *p = list; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            return sg_error_set(e, SG_E_ARG, "--arms: a control character, at position %td", p - list + 1);
    char *at = out->text, where[SG_ARM_NAME + 16];
    for (bool more = true; more;) {
        if (out->count == SG_ARMS_MAX)
            return sg_error_set(e, SG_E_ARG, "--arms: more than %d cannot be compared at once", SG_ARMS_MAX);
        sg_arm *const a = &out->arm[out->count];
        const size_t  n = arm_length(at);
        more = at[n] == ',';
        at[n] = '\0';
        if (n == 0) return sg_error_set(e, SG_E_ARG, "--arms: arm %d is empty", out->count + 1);
        const sg_status status = open_arm(out, a, at, base, e);
        snprintf(where, sizeof where, "--arms: '%s'", a->name);
        SG_TRY(sg_error_in(e, status, where));
        out->count++;
        at += n + 1;
    }
    return SG_OK;
}

void sg_arms_close(sg_arms *a)
{
    free(a->text);
    *a = (sg_arms){0};
}
