/* options.c - reads a command line by the table of option_table.c. */
#include "options.h"
#include "base/number.h"
#include "base/text.h"
#include "command_table.h"
#include "help.h"
#include "option_rules.h"
#include "option_table.h"
#include "settings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHOWN 80 /* characters of a wrong value that a message repeats */

const char *sg_options_hint(char text[SG_HINT_TEXT], const char *typed, const char *const *list, const char *dashes)
{
    const size_t n = strlen(typed);
    const char  *best = NULL;
    int          least = n <= 3 ? 2 : n <= 6 ? 3 : 4;
    for (; *list; list++) {
        const bool begins = n >= 2 && strncmp(typed, *list, n) == 0; /* which is nearly that name */
        const int  d = begins ? 1 : sg_text_distance(typed, *list);
        if (d < least) least = d, best = *list;
    }
    snprintf(text, SG_HINT_TEXT, "; did you mean %s%s?", dashes, best ? best : "");
    if (!best) *text = '\0';
    return text;
}

/* option is what was typed, with its dashes. */
static sg_status unknown(const char *option, sg_command c, sg_error *e)
{
    enum { NAMES = 1024 };
    const sg_command_row *const row = sg_command_row_of(c);
    const char *const           name = row ? row->name : "bench";
    const char                 *names[NAMES] = {NULL};
    char                        hint[SG_HINT_TEXT], has[32];
    const sg_option            *o;
    snprintf(has, sizeof has, "%s has", name);
    for (int i = 0, n = 0; option[1] == '-' && n < NAMES - 4 && (o = sg_option_next(c, &i)) != NULL;) {
        names[n++] = o->name;
        for (const char *const *a = o->alias; *a; a++) names[n++] = *a;
    }
    if (!*sg_options_hint(hint, option + 2, names, "--"))
        snprintf(hint, sizeof hint, "; `sparge-gen help %s` lists them", *name ? name : "all");
    return sg_error_set(e, SG_E_ARG, "%s no option %s%s", *name ? has : "there is", option, hint);
}

static sg_status refuse(const sg_option *o, const char *text, sg_error *e, const char *fmt, ...) SG_PRINTF(4, 5);

/* One wording for every value that will not do. */
static sg_status refuse(const sg_option *o, const char *text, sg_error *e, const char *fmt, ...)
{
    char    wanted[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(wanted, sizeof wanted, fmt, args);
    va_end(args);
    return sg_error_set(e, SG_E_ARG, "--%s: '%.*s%s' is not %s", o->name, SHOWN, text,
                        strlen(text) > SHOWN ? "..." : "", wanted);
}

/* A number, then perhaps a unit: K or k, Ki, KB, KiB; M, G and T in the same ways; or B alone. */
static bool read_bytes(const char *text, size_t *out)
{
    static const char units[] = "KkMmGgTt";
    size_t            n = strlen(text);
    double            v, scale = 1;
    if (n && text[n - 1] == 'B') n--;
    const bool        i = n > 1 && text[n - 1] == 'i';
    const char *const unit = n > (size_t)i ? strchr(units, text[n - 1 - i]) : NULL;
    if (unit) {
        scale = ldexp(1, 10 * (int)((unit - units) / 2 + 1));
        n -= 1 + (size_t)i;
    }
    if (!sg_number_real(text, n, 0, 0x1p62, &v)) return false;
    v *= scale;
    if (v < 1 || v > 0x1p62) return false;
    *out = (size_t)v;
    return true;
}

static sg_status set_choice(const sg_option *o, const char *text, const char **out, sg_error *e)
{
    char                     list[160] = "", hint[SG_HINT_TEXT];
    const char *const *const choices = sg_option_choices(o);
    for (const char *const *c = choices; *c; c++) {
        if (strcmp(*c, text) == 0) return *out = *c, SG_OK;
        sg_text_append(list, sizeof list, "%s%s", *list ? ", " : "", *c);
    }
    return refuse(o, text, e, "one of %s%s", list, sg_options_hint(hint, text, choices, ""));
}

/* text is NULL for flags only. */
static sg_status set(sg_settings *s, const sg_option *o, const char *text, sg_error *e)
{
    void *const         at = sg_settings_at(s, o);
    sg_text_list *const list = at;
    const int           most = (int)(sizeof list->item / sizeof *list->item);
    const size_t        n = text ? strlen(text) : 0;
    switch (o->kind) {
    case SG_OPTION_FLAG: *(bool *)at = true; return SG_OK;
    case SG_OPTION_TEXT: *(const char **)at = text; return SG_OK;
    case SG_OPTION_LIST:
        if (list->count == most) return sg_error_set(e, SG_E_ARG, "--%s: there are more than %d", o->name, most);
        list->item[list->count++] = text;
        return SG_OK;
    case SG_OPTION_CHOICE: return set_choice(o, text, at, e);
    case SG_OPTION_INT:
        if (sg_number_small(text, n, (int)o->lo, (int)o->hi, at)) return SG_OK;
        return refuse(o, text, e, "a whole number from %.0f to %.0f", o->lo, o->hi);
    case SG_OPTION_INT64:
        if (sg_number_int(text, n, INT64_MIN, INT64_MAX, at)) return SG_OK;
        return refuse(o, text, e, "a whole number of 63 bits");
    case SG_OPTION_REAL:
        if (sg_number_real(text, n, o->lo, o->hi, at)) return SG_OK;
        return refuse(o, text, e, "a number from %g to %g", o->lo, o->hi);
    case SG_OPTION_SIZE:
        if (sg_number_pair(text, "xX*", (int)o->lo, (int)o->hi, at)) return SG_OK;
        return refuse(o, text, e, "a width and a height up to %.0f, as in 832x480", o->hi);
    case SG_OPTION_BYTES:
        if (read_bytes(text, at)) return SG_OK;
        return refuse(o, text, e, "a size in bytes, as in 8G or 512M");
    case SG_OPTION_HEADING: break;
    }
    return SG_OK;
}

/* "; did you mean --size?" where arg is the name of an option but for its dashes, perhaps with a value. Returns text. */
static const char *without_dashes(char text[SG_HINT_TEXT], const char *arg, sg_command c)
{
    const sg_option *const o = sg_option_find(arg, strcspn(arg, "="), c);
    *text = '\0';
    if (o) snprintf(text, SG_HINT_TEXT, "; did you mean --%.40s?", arg);
    return text;
}

static sg_status parse_option(sg_settings *s, char **argv, int argc, int *i, sg_error *e)
{
    const char *const arg = argv[*i];
    const bool        whole = arg[1] == '-'; /* not a letter alone */
    const size_t      n = whole ? 2 + strcspn(arg + 2, "=") : 2;
    char              shown[43];
    const char *const attached = arg[n] ? arg + n + (arg[n] == '=') : NULL;
    const char *const next = *i + 1 < argc ? argv[*i + 1] : NULL;
    const sg_option  *o = NULL;
    char              hint[SG_HINT_TEXT];
    snprintf(shown, sizeof shown, "%.*s", (int)n, arg);
    if (!whole && arg[2] && *without_dashes(hint, arg + 1, s->command))
        return sg_error_set(e, SG_E_ARG, "%.*s has one dash%s", SHOWN, arg, hint);
    if (whole) o = sg_option_find(arg + 2, n - 2, s->command);
    for (int k = 0; !whole && (o = sg_option_next(s->command, &k)) != NULL && o->letter != arg[1];) {
    }
    if (!o) return unknown(shown, s->command, e);
    if (o->kind == SG_OPTION_FLAG && attached)
        return sg_error_set(e, SG_E_ARG, "%s takes no value, but has '%.*s'", shown, SHOWN, attached);
    if (o->kind == SG_OPTION_FLAG || attached) return set(s, o, attached, e);
    if (!next) return sg_error_set(e, SG_E_ARG, "--%s needs a value: --%s %s", o->name, o->name, o->value);
    if (strncmp(next, "--", 2) == 0 && next[2] && sg_option_find(next + 2, strcspn(next + 2, "="), s->command))
        return sg_error_set(e, SG_E_ARG, "--%s needs a value, but %s follows; if that is the value, write --%s=%s",
                            o->name, next, o->name, next);
    ++*i;
    return set(s, o, next, e);
}

/* Finds the command whose name is `of` and arg; bench alone is all of its commands. */
static bool command_of(const char *of, const char *arg, sg_command *c)
{
    char name[SHOWN];
    snprintf(name, sizeof name, "%s%s", of, arg);
    if (strcmp(name, "bench") == 0) return *c = SG_COMMAND_BENCH, true;
    for (int i = 0; i < sg_command_count; i++)
        if (strcmp(sg_command_table[i].name, name) == 0) return *c = sg_command_table[i].command, true;
    return false;
}

/* What is to be measured stands right after "bench": it decides which options there are. */
static sg_status parse_bench(sg_settings *s, const char *arg, sg_error *e)
{
    static const char *const names[] = {"step", "attention", "cold", NULL};
    if (command_of("bench ", arg, &s->command)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "bench measures step, attention or cold, not '%.*s'%s", SHOWN, arg,
                        sg_options_hint((char[SG_HINT_TEXT]){0}, arg, names, ""));
}

static sg_status parse_operand(sg_settings *s, const char *arg, sg_error *e)
{
    const char *takes = "a prompt goes in quotes after --prompt", **at = NULL;
    char        hint[SG_HINT_TEXT];
    if (s->command & SG_COMMAND_BENCH) takes = "bench takes step, attention or cold, first of all";
    if (s->command == SG_COMMAND_INFO) takes = "info takes one folder or file", at = &s->operand;
    if (s->command == SG_COMMAND_SERVE) takes = "a model goes after --model, a folder of models after --models";
    if (s->command == SG_COMMAND_COMPARE) takes = "compare takes two";
    if (s->command == SG_COMMAND_LANGUAGE) takes = "language takes a task, and perplexity a file";
    if (s->command & (SG_COMMAND_COMPARE | SG_COMMAND_LANGUAGE)) at = s->operand ? &s->second_operand : &s->operand;
    without_dashes(hint, arg, s->command);
    if (s->command & SG_COMMAND_BENCH && command_of("bench ", arg, &(sg_command){0})) *hint = '\0'; /* attention */
    if (at && !*at && (!*hint || access(arg, F_OK) == 0)) return *at = arg, SG_OK;
    return sg_error_set(e, SG_E_ARG, "'%.*s' belongs to no option%s%s", SHOWN, arg, *hint ? hint : "; ",
                        *hint ? "" : takes);
}

/* What others call the command that has no name here. */
static const char *const rendering[] = {"render", "generate", NULL};

static sg_status no_command(const char *arg, const char *else_what, sg_error *e)
{
    char hint[SG_HINT_TEXT];
    if (rendering[sg_text_place(arg, rendering)])
        return sg_error_set(e, SG_E_ARG, "there is no command '%s'; sparge-gen -p TEXT renders", arg);
    if (!*without_dashes(hint, arg, SG_COMMAND_RENDER)) sg_options_hint(hint, arg, sg_command_words, "");
    return sg_error_set(e, SG_E_ARG, "there is no command '%.*s'%s", SHOWN, arg, *hint ? hint : else_what);
}

/* help [all | man | bash | zsh | COMMAND | WORD]. The manual page calls the command without a name render. */
static sg_status parse_help(sg_settings *s, int argc, char **argv, sg_error *e)
{
    static const char *const topics[] = {"all", "man", "bash", "zsh", NULL};
    s->help = true;
    if (argc < 3) return SG_OK;
    if ((s->topic = topics[sg_text_place(argv[2], topics)]) != NULL) return SG_OK;
    if (rendering[sg_text_place(argv[2], rendering)]) return s->topic = "all", SG_OK;
    if (strcmp(argv[2], "help") == 0) return SG_OK;
    const bool command = command_of("", argv[2], &s->command);
    if (!command && sg_help_word(NULL, argv[2])) return s->topic = argv[2], SG_OK;
    if (!command) return no_command(argv[2], "; `sparge-gen help` lists the commands", e);
    return s->command == SG_COMMAND_BENCH && argc > 3 ? parse_bench(s, argv[3], e) : SG_OK;
}

sg_settings sg_options_empty(sg_command c)
{
    sg_settings s = {.command = c};
    for (int i = 0; i < sg_option_count; i++) sg_settings_unset(&s, &sg_option_table[i]);
    return s;
}

sg_status sg_options_set(sg_settings *s, const char *name, const char *value, sg_error *e)
{
    const sg_option *const o = sg_settings_option(s, name);
    char                   shown[43];
    snprintf(shown, sizeof shown, "--%s", name);
    return o ? set(s, o, value, e) : unknown(shown, s->command, e);
}

sg_status sg_options_parse(sg_settings *s, int argc, char **argv, sg_error *e)
{
    *s = sg_options_empty(SG_COMMAND_RENDER);
    s->arguments = argv;
    int i = 1;
    if (argc > 1 && strcmp(argv[1], "help") == 0) return parse_help(s, argc, argv, e);
    if (argc > 1 && argv[1][0] != '-' && argv[1][0]) {
        if (!command_of("", argv[1], &s->command))
            return no_command(argv[1], "; a prompt goes in quotes after --prompt", e);
        i = 2;
        if (s->command == SG_COMMAND_BENCH && argc > 2 && argv[2][0] != '-') SG_TRY(parse_bench(s, argv[i++], e));
    }
    for (bool only_operands = false; i < argc && !s->help && !s->version; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
            SG_TRY(parse_option(s, argv, argc, &i, e));
            if (s->help && i + 1 < argc && strcmp(argv[i + 1], "all") == 0) s->topic = "all";
        } else {
            SG_TRY(parse_operand(s, argv[i], e));
        }
    }
    return s->help || s->version ? SG_OK : sg_options_check(s, e);
}
