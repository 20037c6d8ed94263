/* name_map.c - see name_map.h. */
#include "name_map.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 8 }; /* in one pattern */
enum { SPAN_MAX = 1 << 20 };

typedef struct match {
    int         components; /* of the pattern; 0: it does not fit */
    int         numbers;
    const char *number[NUMBERS];
    int         digits[NUMBERS];
    const char *rest; /* of the name: empty, or it begins with a dot */
} match;

static size_t component(const char *s) { return strcspn(s, "."); }

static bool is_number(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)s[i])) return false;
    return n == 1 || (n > 1 && s[0] != '0');
}

/* Is the component the number span - 1? */
static bool is_last(const char *s, size_t n, int span)
{
    char text[24];
    return (size_t)snprintf(text, sizeof text, "%d", span - 1) == n && memcmp(text, s, n) == 0;
}

static match fit(const char *pattern, const char *name, int span)
{
    match m = {0};
    for (int components = 1;; components++) {
        const size_t p = component(pattern), n = component(name);
        if (p == 2 && memcmp(pattern, "%d", 2) == 0) {
            if (!is_number(name, n) || m.numbers == NUMBERS) return (match){0};
            m.number[m.numbers] = name;
            m.digits[m.numbers++] = (int)n;
        } else if (p == 2 && memcmp(pattern, "%1", 2) == 0) {
            if (!is_last(name, n, span)) return (match){0};
        } else if (p != n || memcmp(pattern, name, n) != 0) {
            return (match){0};
        }
        pattern += p;
        name += n;
        if (!*pattern) {
            m.components = components;
            m.rest = name;
            return m;
        }
        if (!*name) return (match){0};
        pattern++;
        name++;
    }
}

static bool append(char file[SG_NAME_MAX], size_t *used, const char *text, size_t n)
{
    if (n >= SG_NAME_MAX - *used) return false;
    memcpy(file + *used, text, n);
    *used += n;
    file[*used] = '\0';
    return true;
}

/* One component of a file's pattern; *number: of m's numbers so many are used up. */
static bool fill_component(char file[SG_NAME_MAX], size_t *used, const char *c, size_t n, const match *m, int *number,
                           int span)
{
    char text[24];
    if (n != 2 || c[0] != '%') return append(file, used, c, n);
    if (c[1] == 'd') {
        const int i = (*number)++;
        return i < m->numbers && append(file, used, m->number[i], (size_t)m->digits[i]);
    }
    long long value = span - (c[1] - '0');
    if (c[1] == 'r') {
        const long long level = *number < m->numbers ? strtoll(m->number[(*number)++], NULL, 10) : span;
        value = span - 1 - level;
    }
    if (c[1] == 'p') {
        const bool      two = *number + 1 < m->numbers;
        const long long level = *number < m->numbers ? strtoll(m->number[*number], NULL, 10) : span;
        const long long entry = two ? strtoll(m->number[*number + 1], NULL, 10) : span - 1;
        if (level > SPAN_MAX || entry >= span) return false;
        value = span * level + entry;
        *number += 1 + two;
    }
    return value >= 0 && append(file, used, text, (size_t)snprintf(text, sizeof text, "%lld", value));
}

/* The pattern with m's numbers in it, and m's rest. */
static bool fill(char file[SG_NAME_MAX], size_t *used, const char *pattern, const match *m, int span)
{
    for (int number = 0; *pattern;) {
        const size_t n = component(pattern);
        if (!fill_component(file, used, pattern, n, m, &number, span)) return false;
        pattern += n;
        if (*pattern && !append(file, used, pattern++, 1)) return false;
    }
    return append(file, used, m->rest, strlen(m->rest));
}

static bool cuts_well(const sg_name_rule *r)
{
    for (int i = 0; r->of && i < SG_NAME_ROWS; i++)
        if (r->rows[i].first < 0 || r->rows[i].count < (i == 0) || r->rows[i].first > r->of - r->rows[i].count)
            return false;
    return r->of >= 0;
}

bool sg_name_map_find(const sg_name_map *map, const char *bound, char file[SG_NAME_MAX], const sg_name_rule **rule)
{
    match  best = {.rest = bound};
    size_t used = 0;
    *rule = NULL;
    file[0] = '\0';
    for (size_t i = 0; map && i < map->count; i++) {
        const match m = map->rules[i].bound ? fit(map->rules[i].bound, bound, map->span) : (match){0};
        if (m.components <= best.components) continue;
        best = m;
        *rule = &map->rules[i];
    }
    if (*rule && !cuts_well(*rule)) return false;
    if (map && map->prefix && !append(file, &used, map->prefix, strlen(map->prefix))) return false;
    return fill(file, &used, *rule ? (*rule)->file : "", &best, map ? map->span : 0);
}

bool sg_name_map_drops(const sg_name_map *map, const char *file)
{
    if (!map) return false;
    const size_t n = map->prefix ? strlen(map->prefix) : 0;
    if (n && strncmp(file, map->prefix, n) != 0) return true;
    for (size_t i = 0; i < map->count; i++)
        if (!map->rules[i].bound && fit(map->rules[i].file, file + n, map->span).components) return true;
    return false;
}
