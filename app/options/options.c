/* options.c - reads a command line by the table of option_table.c. */
#include "options.h"
#include "base/number.h"
#include "command_table.h"
#include "option_rules.h"
#include "option_table.h"
#include "settings.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 80 /* characters of a wrong value that a message repeats */

/* Insertions, deletions, replacements and swaps of neighbours that make b of a, or 99 for names too long to be a slip of the
 * finger. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    const size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) return 99;
    int d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

/* How unlike two names are; a beginning of a name is nearly that name. */
static int distance_to(const char *typed, const char *name)
{
    const size_t n = strlen(typed);
    if (n >= 2 && strncmp(typed, name, n) == 0) return 1;
    return distance(typed, name);
}

static bool near_enough(int unlikeness, const char *typed)
{
    const size_t n = strlen(typed);
    return unlikeness <= (n <= 3 ? 1 : n <= 6 ? 2 : 3);
}

const char *sg_options_nearest(const char *name, const char *const *list)
{
    const char *best = NULL;
    int         least = INT_MAX;
    for (; *list; list++) {
        const int d = distance_to(name, *list);
        if (d < least) least = d, best = *list;
    }
    return best && near_enough(least, name) ? best : NULL;
}

static const char *nearest_option(const char *typed, sg_command c)
{
    const char *best = NULL;
    int         least = INT_MAX;
    for (int i = 0; i < sg_option_count; i++) {
        const sg_option *o = &sg_option_table[i];
        if (!o->name || !(o->commands & c)) continue;
        const char *names[] = {o->name, o->alias[0], o->alias[1], o->alias[2]};
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (!names[k]) continue;
            const int d = distance_to(typed, names[k]);
            if (d < least) least = d, best = names[k];
        }
    }
    return best && near_enough(least, typed) ? best : NULL;
}

static const sg_option *option_by_letter(char letter, sg_command c)
{
    for (int i = 0; i < sg_option_count; i++)
        if (sg_option_table[i].letter == letter && (sg_option_table[i].commands & c)) return &sg_option_table[i];
    return NULL;
}

/* option with its dashes; near, which may be NULL, without. */
static sg_status unknown(const char *option, const char *near, sg_command c, sg_error *e)
{
    const sg_command_row *const row = sg_command_row_of(c);
    const char *const name = row ? row->name : "bench", *const subject = *name ? name : "there";
    const char *const verb = *name ? "has" : "is";
    if (near) return sg_error_set(e, SG_E_ARG, "%s %s no option %s; did you mean --%s?", subject, verb, option, near);
    return sg_error_set(e, SG_E_ARG, "%s %s no option %s; `sparge-gen help %s` lists them", subject, verb, option,
                        *name ? name : "all");
}

/* One wording for every value that will not do. */
static sg_status refuse(const sg_option *o, const char *text, const char *wanted, sg_error *e)
{
    return sg_error_set(e, SG_E_ARG, "--%s: '%.*s%s' is not %s", o->name, SHOWN, text,
                        strlen(text) > SHOWN ? "..." : "", wanted);
}

static bool read_size(const char *text, const sg_option *o, int out[2])
{
    const size_t  n = strcspn(text, "xX*");
    const int64_t lo = (int64_t)o->lo, hi = (int64_t)o->hi;
    int64_t       w, h;
    if (!text[n] || !sg_number_int(text, n, lo, hi, &w)) return false;
    if (!sg_number_int(text + n + 1, strlen(text + n + 1), lo, hi, &h)) return false;
    out[0] = (int)w;
    out[1] = (int)h;
    return true;
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

static sg_status set_int(const sg_option *o, const char *text, int *out, sg_error *e)
{
    int64_t v;
    if (sg_number_int(text, strlen(text), (int64_t)o->lo, (int64_t)o->hi, &v)) {
        *out = (int)v;
        return SG_OK;
    }
    char wanted[80];
    snprintf(wanted, sizeof wanted, "a whole number from %.0f to %.0f", o->lo, o->hi);
    return refuse(o, text, wanted, e);
}

static sg_status set_real(const sg_option *o, const char *text, double *out, sg_error *e)
{
    if (sg_number_real(text, strlen(text), o->lo, o->hi, out)) return SG_OK;
    char wanted[80];
    snprintf(wanted, sizeof wanted, "a number from %g to %g", o->lo, o->hi);
    return refuse(o, text, wanted, e);
}

static sg_status set_choice(const sg_option *o, const char *text, const char **out, sg_error *e)
{
    char wanted[160] = "one of ";
    for (const char *const *c = o->choices; *c; c++) {
        if (strcmp(*c, text) == 0) {
            *out = *c;
            return SG_OK;
        }
        const size_t n = strlen(wanted);
        snprintf(wanted + n, sizeof wanted - n, "%s%s", c == o->choices ? "" : ", ", *c);
    }
    const char *near = sg_options_nearest(text, o->choices);
    if (near) {
        const size_t n = strlen(wanted);
        snprintf(wanted + n, sizeof wanted - n, "; did you mean %s?", near);
    }
    return refuse(o, text, wanted, e);
}

static sg_status add_text(const sg_option *o, const char *text, sg_text_list *list, sg_error *e)
{
    const int most = (int)(sizeof list->item / sizeof *list->item);
    if (list->count == most) return sg_error_set(e, SG_E_ARG, "--%s: there are more than %d", o->name, most);
    list->item[list->count++] = text;
    return SG_OK;
}

/* text is NULL for flags only. */
static sg_status set(sg_settings *s, const sg_option *o, const char *text, sg_error *e)
{
    void *at = (char *)s + o->offset;
    switch (o->kind) {
    case SG_OPTION_FLAG: *(bool *)at = true; return SG_OK;
    case SG_OPTION_TEXT: *(const char **)at = text; return SG_OK;
    case SG_OPTION_LIST: return add_text(o, text, at, e);
    case SG_OPTION_CHOICE: return set_choice(o, text, at, e);
    case SG_OPTION_INT: return set_int(o, text, at, e);
    case SG_OPTION_INT64:
        if (sg_number_int(text, strlen(text), INT64_MIN, INT64_MAX, at)) return SG_OK;
        return refuse(o, text, "a whole number of 63 bits", e);
    case SG_OPTION_REAL: return set_real(o, text, at, e);
    case SG_OPTION_SIZE:
        if (read_size(text, o, at)) return SG_OK;
        return refuse(o, text, "a width and a height up to 16384, as in 832x480", e);
    case SG_OPTION_BYTES:
        if (read_bytes(text, at)) return SG_OK;
        return refuse(o, text, "a size in bytes, as in 8G or 512M", e);
    case SG_OPTION_HEADING: break;
    }
    return SG_OK;
}

static sg_status unknown_option(const char *typed, size_t n, sg_command c, sg_error *e)
{
    char name[43];
    snprintf(name, sizeof name, "--%.*s", n > 40 ? 40 : (int)n, typed);
    return unknown(name, nearest_option(name + 2, c), c, e);
}

/* The value of o: what stands in the same argument, else the next one. */
static sg_status take_value(const sg_option *o, const char *attached, char **argv, int argc, int *i, sg_command c,
                            const char **out, sg_error *e)
{
    *out = attached;
    if (attached) return SG_OK;
    if (*i + 1 >= argc) return sg_error_set(e, SG_E_ARG, "--%s needs a value: --%s %s", o->name, o->name, o->value);
    const char *next = argv[*i + 1];
    if (strncmp(next, "--", 2) == 0 && next[2] && sg_option_find(next + 2, strcspn(next + 2, "="), c))
        return sg_error_set(e, SG_E_ARG, "--%s needs a value, but %s follows; if that is the value, write --%s=%s",
                            o->name, next, o->name, next);
    *out = next;
    ++*i;
    return SG_OK;
}

static sg_status parse_option(sg_settings *s, char **argv, int argc, int *i, sg_error *e)
{
    const char      *arg = argv[*i];
    const sg_option *o;
    const char      *attached = NULL, *value = NULL;
    if (arg[1] == '-') {
        const size_t n = strcspn(arg + 2, "=");
        if (!(o = sg_option_find(arg + 2, n, s->command))) return unknown_option(arg + 2, n, s->command, e);
        if (arg[2 + n] == '=') attached = arg + 2 + n + 1;
        if (o->kind == SG_OPTION_FLAG && attached)
            return sg_error_set(e, SG_E_ARG, "--%s takes no value, but has '%.*s'", o->name, SHOWN, attached);
    } else {
        if (!(o = option_by_letter(arg[1], s->command)))
            return unknown((char[]){'-', arg[1], '\0'}, NULL, s->command, e);
        if (arg[2]) attached = arg + 2 + (arg[2] == '=');
        if (o->kind == SG_OPTION_FLAG && attached)
            return sg_error_set(e, SG_E_ARG, "-%c takes no value, but has '%.*s'", o->letter, SHOWN, attached);
    }
    if (o->kind != SG_OPTION_FLAG) SG_TRY(take_value(o, attached, argv, argc, i, s->command, &value, e));
    return set(s, o, value, e);
}

/* What is to be measured stands right after "bench": it decides which options there are. */
static sg_status parse_bench(sg_settings *s, const char *arg, sg_error *e)
{
    static const char *const names[] = {"step", "attention", "cold", NULL};
    static const sg_command  commands[] = {SG_COMMAND_BENCH_STEP, SG_COMMAND_BENCH_ATTENTION, SG_COMMAND_BENCH_COLD};
    for (int i = 0; names[i]; i++)
        if (strcmp(arg, names[i]) == 0) return s->command = commands[i], SG_OK;
    const char *const near = sg_options_nearest(arg, names);
    return sg_error_set(e, SG_E_ARG, "bench measures step, attention or cold, not '%.*s'%s%s%s", SHOWN, arg,
                        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static sg_status parse_operand(sg_settings *s, const char *arg, sg_error *e)
{
    const bool compare = s->command == SG_COMMAND_COMPARE;
    if ((s->command == SG_COMMAND_INFO || compare) && !s->operand) {
        s->operand = arg;
        return SG_OK;
    }
    if (compare && !s->second_operand) {
        s->second_operand = arg;
        return SG_OK;
    }
    if (compare) return sg_error_set(e, SG_E_ARG, "compare takes two, but '%.*s' is a third", SHOWN, arg);
    if (s->command & SG_COMMAND_BENCH)
        return sg_error_set(
            e, SG_E_ARG, "bench takes step, attention or cold, first of all; '%.*s' is one word too many", SHOWN, arg);
    if (s->command == SG_COMMAND_INFO)
        return sg_error_set(e, SG_E_ARG, "info takes one folder or file, but '%.*s' is a second", SHOWN, arg);
    return sg_error_set(e, SG_E_ARG, "'%.*s' belongs to no option; a prompt goes in quotes after --prompt", SHOWN, arg);
}

/* The command whose first word is arg; of bench, both. */
static bool command_of(const char *arg, sg_command *c)
{
    if (strcmp(arg, "bench") == 0) return *c = SG_COMMAND_BENCH, true;
    for (int i = 0; i < sg_command_count; i++)
        if (strcmp(sg_command_table[i].name, arg) == 0) return *c = sg_command_table[i].command, true;
    return false;
}

static sg_status no_command(const char *arg, const char *else_what, sg_error *e)
{
    const char *const near = sg_options_nearest(arg, sg_command_words);
    if (near) return sg_error_set(e, SG_E_ARG, "there is no command '%.*s'; did you mean %s?", SHOWN, arg, near);
    return sg_error_set(e, SG_E_ARG, "there is no command '%.*s'; %s", SHOWN, arg, else_what);
}

/* help [all | man | bash | zsh | COMMAND]. The manual page calls the command without a name render. */
static sg_status parse_help(sg_settings *s, int argc, char **argv, sg_error *e)
{
    static const char *const topics[] = {"all", "man", "bash", "zsh", NULL};
    s->help = true;
    if (argc < 3) return SG_OK;
    for (const char *const *t = topics; *t; t++)
        if (strcmp(argv[2], *t) == 0) return s->topic = *t, SG_OK;
    if (strcmp(argv[2], "render") == 0) return s->topic = "all", SG_OK;
    if (strcmp(argv[2], "help") == 0) return SG_OK;
    if (!command_of(argv[2], &s->command)) return no_command(argv[2], "`sparge-gen help` lists the commands", e);
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
    const sg_option *const o = sg_option_find(name, strlen(name), s->command);
    return o ? set(s, o, value, e) : unknown_option(name, strlen(name), s->command, e);
}

sg_status sg_options_parse(sg_settings *s, int argc, char **argv, sg_error *e)
{
    *s = sg_options_empty(SG_COMMAND_RENDER);
    s->arguments = argv;
    int i = 1;
    if (argc > 1 && strcmp(argv[1], "help") == 0) return parse_help(s, argc, argv, e);
    if (argc > 1 && argv[1][0] != '-' && argv[1][0]) {
        if (!command_of(argv[1], &s->command)) return no_command(argv[1], "a prompt goes in quotes after --prompt", e);
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
