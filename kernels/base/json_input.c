/* json_input.c - see json_input.h. */
#include "base/json_input.h"
#include "base/array.h"
#include "base/file.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_UNREAD = 1 << 20, MAX_VALUES = 1 << 16 }; /* bytes; of a member that nobody reads */

static char *decoded(char *out, const char *text, size_t size, char *why)
{
    json_error_t  je;
    json_t *const string = json_loadb(text, size, JSON_DECODE_ANY, &je);
    if (!string) {
        sg_show_(why, 160, je.text);
        return NULL;
    }
    const size_t n = json_string_length(string);
    memcpy(out, json_string_value(string), n + 1);
    json_decref(string);
    return out + n;
}

char *sg_json_string(char *out, const char *text, size_t size, char *why)
{
    if (size < 2 || text[0] != '"') {
        snprintf(why, 160, "should be a string");
        return NULL;
    }
    size_t n = 1;
    while (n < size && text[n] >= 0x20 && text[n] < 0x7f && text[n] != '"' && text[n] != '\\') n++;
    if (n + 1 != size || text[n] != '"') return decoded(out, text, size, why);
    memcpy(out, text + 1, n - 1); /* plain ASCII, as nearly all names are */
    out[n - 1] = '\0';
    return out + n - 1;
}

bool sg_json_fits(const char *text, size_t size, size_t values)
{
    size_t marks = 0; /* every value but the first follows one; those within strings only make the bound stricter */
    for (size_t i = 0; i < size; i++) marks += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return marks < values;
}

sg_status sg_json_parse(json_t **out, const char *text, size_t size, size_t values, size_t flags, sg_json_fault *f)
{
    json_error_t why;
    *out = NULL;
    *f = (sg_json_fault){0};
    if (memchr(text, 0, size)) { /* Jansson passes over it in places */
        snprintf(f->text, sizeof f->text, "not valid JSON: it holds a zero byte");
        return SG_E_FORMAT;
    }
    if (!sg_json_fits(text, size, values)) {
        snprintf(f->text, sizeof f->text, "has more than %zu values", values);
        return SG_E_FORMAT;
    }
    if ((*out = json_loadb(text, size, JSON_REJECT_DUPLICATES | flags, &why))) return SG_OK;
    if (json_error_code(&why) == json_error_out_of_memory) {
        snprintf(f->text, sizeof f->text, "out of memory");
        return SG_E_MEMORY;
    }
    f->line = why.line;
    f->column = why.column;
    snprintf(f->text, sizeof f->text, "not valid JSON: %s", sg_show(why.text));
    return SG_E_FORMAT;
}

sg_status sg_json_check(const sg_member *m, const char *path, sg_error *e)
{
    json_t       *json;
    sg_json_fault f;
    if (m->size > MAX_UNREAD)
        return sg_error_set(e, SG_E_FORMAT, "%s: \"%s\" takes %zu bytes; at most %d are allowed", path,
                            sg_show(m->name), m->size, MAX_UNREAD);
    const sg_status status = sg_json_parse(&json, m->value, m->size, MAX_VALUES, JSON_DECODE_ANY, &f);
    if (status != SG_OK) return sg_error_set(e, status, "%s: \"%s\": %s", path, sg_show(m->name), f.text);
    json_decref(json);
    return SG_OK;
}

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

static bool skip_string(cursor *c)
{
    for (c->at++; c->at < c->end; c->at++) {
        if (*c->at == '"') return c->at++, true;
        if (*c->at == '\\' && c->end - c->at > 1) c->at++;
    }
    c->at = c->end;
    return false;
}

/* A string, a number or word, or all between brackets, however deep. */
static bool skip_value(cursor *c)
{
    size_t depth = 0;
    do {
        if (c->at >= c->end) return false;
        if (*c->at == '"') {
            if (!skip_string(c)) return false;
        } else if (*c->at == '{' || *c->at == '[') {
            depth++;
            c->at++;
        } else if (*c->at == '}' || *c->at == ']') {
            if (depth == 0) return false;
            depth--;
            c->at++;
        } else if (depth) {
            c->at++;
        } else {
            const char *const start = c->at;
            while (c->at < c->end && !strchr(",}] \t\r\n", *c->at)) c->at++;
            return c->at > start;
        }
    } while (depth);
    return true;
}

static bool skip_mark(cursor *c, char mark)
{
    skip_space(c);
    if (c->at >= c->end || *c->at != mark) return false;
    c->at++;
    return true;
}

/* One `"name": value`; what was expected in its place when it is not there, or why the name is refused. */
static const char *read_member(cursor *c, sg_member *m, char **name, char *why)
{
    skip_space(c);
    const char *const start = c->at;
    if (c->at >= c->end || *c->at != '"') return "a name in double quotes is expected";
    if (!skip_string(c)) return "the closing quote of a name is missing";
    m->name = *name;
    char *const end = sg_json_string(*name, start, (size_t)(c->at - start), why);
    if (!end) {
        c->at = start;
        return why;
    }
    *name = end + 1;
    if (!skip_mark(c, ':')) return "a colon is expected";
    skip_space(c);
    m->value = c->at;
    if (!skip_value(c)) return "a complete value is expected";
    m->size = (size_t)(c->at - m->value);
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const sg_member *)a)->name, ((const sg_member *)b)->name);
}

sg_status sg_members_read(sg_members *m, const char *text, size_t size, const char *path, const char *what, sg_error *e)
{
    cursor      c = {text, text + size};
    char        why[160];
    const char *problem = NULL;
    size_t      capacity = 0;
    bool        comma = false;

    *m = (sg_members){0};
    const char *const zero = memchr(text, 0, size); /* the parser behind this one passes over it */
    if (zero)
        return sg_error_set(e, SG_E_FORMAT, "%s: %s: not valid JSON at byte %zu: a zero byte", path, what,
                            (size_t)(zero - text));
    if (!skip_mark(&c, '{')) return sg_error_set(e, SG_E_FORMAT, "%s: %s: should be a JSON object", path, what);
    char *name = m->names = malloc(size); /* decoding never lengthens; pages that are not written cost nothing */
    if (!name) return sg_error_set(e, SG_E_MEMORY, "%s: %s: out of memory", path, what);
    while (!problem) {
        sg_member item = {0};
        if (!comma && skip_mark(&c, '}')) break;
        if ((problem = read_member(&c, &item, &name, why))) break;
        if (!sg_array_push(m->item, m->count, capacity, item))
            return sg_error_set(e, SG_E_MEMORY, "%s: %s: out of memory", path, what);
        comma = skip_mark(&c, ',');
        if (!comma && !(c.at < c.end && *c.at == '}')) problem = "a comma or a closing brace is expected";
    }
    skip_space(&c);
    if (!problem && c.at < c.end) problem = "something follows the closing brace";
    if (problem)
        return sg_error_set(e, SG_E_FORMAT, "%s: %s: not valid JSON at byte %zu: %s", path, what, (size_t)(c.at - text),
                            problem);
    if (m->count) qsort(m->item, m->count, sizeof *m->item, by_name);
    for (size_t i = 1; i < m->count; i++)
        if (strcmp(m->item[i - 1].name, m->item[i].name) == 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: %s: \"%s\" stands there twice", path, what,
                                sg_show(m->item[i].name));
    return SG_OK;
}

void sg_members_free(sg_members *m)
{
    free(m->item);
    free(m->names);
    *m = (sg_members){0};
}

void sg_items_start(sg_items *l, const char *text, size_t size) { *l = (sg_items){.at = text, .end = text + size}; }

static bool end_items(sg_items *l, cursor c, const char *problem)
{
    skip_space(&c);
    l->problem = problem ? problem : c.at < c.end ? "something follows the closing bracket" : NULL;
    l->at = c.at;
    return false;
}

bool sg_items_next(sg_items *l)
{
    cursor c = {l->at, l->end};
    if (!l->begun && !skip_mark(&c, '[')) return end_items(l, c, "a list in brackets is expected");
    if (skip_mark(&c, ']')) return end_items(l, c, NULL);
    if (l->begun && !skip_mark(&c, ',')) return end_items(l, c, "a comma or a closing bracket is expected");
    l->begun = true;
    skip_space(&c);
    l->value = c.at;
    if (!skip_value(&c)) return end_items(l, c, "a complete value is expected");
    l->size = (size_t)(c.at - l->value);
    l->at = c.at;
    return true;
}

static sg_status parse(json_t **out, const sg_map *m, const char *path, size_t values, size_t flags, sg_error *e)
{
    sg_json_fault   f;
    const sg_status status = sg_json_parse(out, (const char *)m->data, m->size, values, flags, &f);
    if (f.line) return sg_error_set(e, status, "%s: line %d, column %d: %s", path, f.line, f.column, f.text);
    if (status != SG_OK) return sg_error_set(e, status, "%s: %s", path, f.text);
    if (json_is_object(*out)) return SG_OK;
    json_decref(*out);
    *out = NULL;
    return sg_error_set(e, SG_E_FORMAT, "%s: should be a JSON object", path);
}

sg_status sg_json_open(json_t **out, const char *path, size_t bytes, size_t values, size_t flags, sg_error *e)
{
    sg_map m;
    *out = NULL;
    SG_TRY(sg_map_open_most(&m, path, bytes, e));
    const sg_status status = parse(out, &m, path, values, flags, e);
    sg_map_close(&m);
    return status;
}

static int add_text(const char *piece, size_t size, void *to)
{
    sg_textbuf_put(to, piece, size);
    return ((const sg_textbuf *)to)->failed ? -1 : 0; /* Jansson does not look at what each piece came to */
}

char *sg_json_text(const json_t *v, size_t flags)
{
    sg_textbuf t = {0};
    if (json_dump_callback(v, add_text, &t, flags) == 0 && !t.failed) return t.data;
    sg_textbuf_free(&t);
    return NULL;
}
