/* option_names.c - see option_names.h. */
#include "option_names.h"
#include "option_table.h"

#include <stdio.h>
#include <string.h>

/* The option of c that sets the member of this name, of n bytes; NULL: there is none. */
static const sg_option *option_of(const char *member, size_t n, sg_command c)
{
    static const char *const other[][2] = {{"path", "output"},
                                           {"mask", "block-mask"},
                                           {"tokens", "length"},
                                           {"similarity", "sim"},
                                           {"capture_out", "capture-qkv"},
                                           {"gpu_mask", "gpumask"}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strlen(other[i][0]) == n && memcmp(member, other[i][0], n) == 0)
            return sg_option_find(other[i][1], strlen(other[i][1]), c);
    return sg_option_find(member, n, c);
}

/* Puts "--NAME" and `between` in the place of the bytes of e from `from` to `to`. */
static void put(sg_error *e, size_t from, size_t to, const sg_option *o, const char *between)
{
    const sg_error member = *e;
    const size_t   left = sizeof e->text - from;
    const int      n = snprintf(e->text + from, left, "--%s%s", o->name, between);
    if (n >= 0 && (size_t)n < left) snprintf(e->text + from + n, left - (size_t)n, "%s", member.text + to);
}

static bool in_name(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

void sg_option_names_first(sg_error *e, sg_command c)
{
    size_t n = 0;
    while (in_name(e->text[n])) n++;
    const bool             named = n && (e->text[n] == ':' || strncmp(e->text + n, " has ", 5) == 0);
    const sg_option *const o = named ? option_of(e->text, n, c) : NULL;
    if (o) put(e, 0, n, o, "");
}

void sg_option_names(sg_error *e, sg_command c)
{
    if (e->code == SG_E_ARG) sg_option_names_first(e, c);
    for (const char *at = e->text; (at = strchr(at, '=')); at++) {
        size_t from = (size_t)(at - e->text);
        while (from && in_name(e->text[from - 1])) from--;
        const size_t           to = (size_t)(at - e->text);
        const sg_option *const o = from < to ? option_of(e->text + from, to - from, c) : NULL;
        if (o && o->value && strncmp(at + 1, o->value, strlen(o->value)) == 0) put(e, from, to + 1, o, " ");
    }
}
