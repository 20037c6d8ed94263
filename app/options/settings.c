/* settings.c - see settings.h. */
#include "settings.h"

#include <math.h>
#include <string.h>

void *sg_settings_at(sg_settings *s, const sg_option *o) { return (char *)s + o->offset; }

const void *sg_settings_value(const sg_settings *s, const sg_option *o) { return (const char *)s + o->offset; }

static const size_t size_of[] = {[SG_OPTION_FLAG] = sizeof(bool),         [SG_OPTION_TEXT] = sizeof(const char *),
                                 [SG_OPTION_LIST] = sizeof(sg_text_list), [SG_OPTION_CHOICE] = sizeof(const char *),
                                 [SG_OPTION_INT] = sizeof(int),           [SG_OPTION_INT64] = sizeof(int64_t),
                                 [SG_OPTION_REAL] = sizeof(double),       [SG_OPTION_SIZE] = sizeof(int[2]),
                                 [SG_OPTION_BYTES] = sizeof(size_t)};

const sg_option *sg_settings_option(const sg_settings *s, const char *name)
{
    return sg_option_find(name, strlen(name), s->command);
}

bool sg_settings_has(const sg_settings *s, const sg_option *o)
{
    const void *const at = sg_settings_value(s, o);
    switch (o->kind) {
    case SG_OPTION_HEADING: return false;
    case SG_OPTION_FLAG: return *(const bool *)at;
    case SG_OPTION_TEXT:
    case SG_OPTION_CHOICE:
    case SG_OPTION_LIST: return *(const char *const *)at != NULL; /* of a list its first */
    case SG_OPTION_INT:
    case SG_OPTION_SIZE: return *(const int *)at >= o->lo;
    case SG_OPTION_INT64: return *(const int64_t *)at != 0;
    case SG_OPTION_REAL: return *(const double *)at >= o->lo;
    case SG_OPTION_BYTES: return *(const size_t *)at != 0;
    }
    return false;
}

void sg_settings_unset(sg_settings *s, const sg_option *o)
{
    void *const at = sg_settings_at(s, o);
    memset(at, 0, size_of[o->kind]);
    if (o->kind == SG_OPTION_REAL) *(double *)at = NAN;
    if (o->kind == SG_OPTION_INT && o->lo == 0) *(int *)at = -1;
    if (o->hash) *(uint64_t *)(void *)((char *)s + o->hash) = 0;
}

bool sg_settings_strict(const sg_settings *s) { return s->strict || (s->quiet && !s->mark); }

uint64_t sg_settings_hash(const sg_settings *s, const sg_option *o)
{
    return o->hash ? *(const uint64_t *)(const void *)((const char *)s + o->hash) : 0;
}

const sg_option *sg_settings_next(const sg_settings *s, unsigned phases, int *i)
{
    const sg_option *o;
    do o = sg_option_next(s->command, i);
    while (o && (!(o->phase & phases) || o->kind == SG_OPTION_SIZE));
    return o;
}

void sg_settings_copy(sg_settings *to, const sg_settings *from, const sg_option *o)
{
    memcpy(sg_settings_at(to, o), sg_settings_value(from, o), size_of[o->kind]);
    if (o->hash) *(uint64_t *)(void *)((char *)to + o->hash) = sg_settings_hash(from, o);
}

void sg_settings_take(sg_settings *to, const sg_settings *from, unsigned phases)
{
    for (int i = 0; i < sg_option_count; i++)
        if (sg_option_table[i].phase & phases) sg_settings_copy(to, from, &sg_option_table[i]);
}

static bool same_value(const sg_settings *a, const sg_settings *b, const sg_option *o)
{
    const void *const x = sg_settings_value(a, o), *const y = sg_settings_value(b, o);
    if (sg_settings_has(a, o) != sg_settings_has(b, o)) return false;
    if (!sg_settings_has(a, o)) return true;
    if (sg_settings_hash(a, o) && sg_settings_hash(b, o)) return sg_settings_hash(a, o) == sg_settings_hash(b, o);
    const sg_text_list *const v = x, *const w = y;
    if (o->kind == SG_OPTION_LIST) {
        bool same = v->count == w->count;
        for (int i = 0; same && i < v->count; i++) same = strcmp(v->item[i], w->item[i]) == 0;
        return same;
    }
    if (o->kind == SG_OPTION_TEXT || o->kind == SG_OPTION_CHOICE)
        return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
    return memcmp(x, y, size_of[o->kind]) == 0;
}

const sg_option *sg_settings_difference(const sg_settings *a, const sg_settings *b, unsigned phases)
{
    const sg_option *o;
    for (int i = 0; (o = sg_settings_next(a, phases, &i)) != NULL;)
        if (!same_value(a, b, o)) return o;
    return NULL;
}
