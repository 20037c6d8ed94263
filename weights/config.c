/* config.c - see config.h. */
#include "config.h"
#include "base/json_input.h"
#include "base/text.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG = 16 << 20, MAX_VALUES = 1 << 16 }; /* bytes */

struct sg_config {
    char     *path;
    json_t   *root;
    sg_error *e;
    sg_status status;
};

/* Takes the root; NULL: there is no memory for one. */
static sg_status config_new(sg_config **out, const char *path, json_t *root, sg_error *e)
{
    sg_config *const c = *out = calloc(1, sizeof *c);
    if (!c) json_decref(root);
    if (c) *c = (sg_config){.path = strdup(path), .root = root, .e = e};
    if (c && c->path && root) return SG_OK;
    sg_config_close(out);
    return sg_error_memory(e, path);
}

sg_status sg_config_open(sg_config **out, const char *path, sg_error *e)
{
    json_t *root;
    *out = NULL;
    SG_TRY(sg_json_open(&root, path, MAX_CONFIG, MAX_VALUES, 0, e));
    return config_new(out, path, root, e);
}

sg_status sg_config_empty(sg_config **out, const char *path, sg_error *e)
{
    return config_new(out, path, json_object(), e);
}

sg_status sg_config_member(sg_config **out, const sg_config *c, const char *key, const char *path, sg_error *e)
{
    *out = NULL;
    json_t *const value = json_object_get(c->root, key);
    if (value && !json_is_object(value) && !json_is_null(value))
        return sg_error_set(e, SG_E_FORMAT, "%s: should be an object", path);
    return config_new(out, path, json_is_object(value) ? json_incref(value) : json_object(), e);
}

sg_status sg_config_update(sg_config *c, const char *as, const sg_config *over, const char *key, sg_error *e)
{
    json_t *const value = key ? json_object_get(over->root, key) : over->root;
    if (!value) return SG_OK;
    if (!json_is_object(value)) return sg_error_set(e, SG_E_FORMAT, "%s: %s: should be an object", over->path, key);
    json_t *const one = as ? json_pack("{s:O}", as, value) : json_incref(value);
    const bool    done = one && json_object_update_recursive(c->root, one) == 0;
    json_decref(one);
    return done ? SG_OK : sg_error_memory(e, c->path);
}

static json_t *value_of(const sg_field *f, int i)
{
    if (f->number) return json_integer(f->number[i]);
    if (f->real) return json_real(f->real[i]);
    return f->yes ? json_boolean(f->yes[i]) : json_string(f->text[i]);
}

static json_t *list_of(const sg_field *f)
{
    json_t *const list = json_array();
    for (int i = 0; i < f->count; i++)
        if (json_array_append_new(list, value_of(f, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

void sg_config_put(sg_config *c, const char *object, const sg_field *field, size_t count)
{
    bool done = json_object_get(c->root, object) || json_object_set_new(c->root, object, json_object()) == 0;
    for (const sg_field *f = field; done && f < field + count; f++)
        if (f->key)
            done = json_object_set_new(json_object_get(c->root, object), f->key,
                                       f->count < 0 ? value_of(f, 0) : list_of(f)) == 0;
    if (!done && c->status == SG_OK) c->status = sg_error_memory(c->e, c->path);
}

void sg_config_close(sg_config **c)
{
    if (!*c) return;
    json_decref((*c)->root);
    free((*c)->path);
    free(*c);
    *c = NULL;
}

sg_status sg_config_status(const sg_config *c) { return c->status; }

void sg_config_fail(sg_config *c, const char *key, const char *fmt, ...)
{
    char    why[1024], clean[1024];
    va_list ap;
    if (c->status != SG_OK) return;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    c->status = sg_error_set(c->e, SG_E_FORMAT, "%s: %s: %s", c->path, key, sg_show_(clean, sizeof clean, why));
}

static const json_t *get(const sg_config *c, const char *key)
{
    const json_t *const v = json_object_get(c->root, key);
    return json_is_null(v) ? NULL : v;
}

bool sg_config_has(const sg_config *c, const char *key) { return get(c, key) != NULL; }

bool sg_config_counts(const sg_config *c, const char *key) { return json_is_integer(get(c, key)); }

/* The value as a message quotes it. */
static const char *quote(char out[80], const json_t *v)
{
    if (json_is_array(v)) return "a list";
    if (json_is_object(v)) return "an object";
    char *const text = sg_json_text(v, JSON_ENCODE_ANY);
    sg_show_(out, 80, text ? text : "of another type");
    free(text);
    return out;
}

/* A field, or entry i of a list when i >= 0, and what it should be. */
static void wrong(sg_config *c, const char *key, int i, const json_t *v, const char *should)
{
    char at[24] = "", is[80];
    if (i >= 0) snprintf(at, sizeof at, "entry %d ", i);
    sg_config_fail(c, key, "%sshould be %s, is %s", at, should, quote(is, v));
}

static int64_t read_int(sg_config *c, const char *key, int i, const json_t *v, int64_t lo, int64_t hi)
{
    char should[96];
    if (json_is_integer(v) && json_integer_value(v) >= lo && json_integer_value(v) <= hi) return json_integer_value(v);
    if (hi == INT64_MAX)
        snprintf(should, sizeof should, "a whole number of at least %lld", (long long)lo);
    else
        snprintf(should, sizeof should, "a whole number from %lld to %lld", (long long)lo, (long long)hi);
    wrong(c, key, i, v, should);
    return lo;
}

static double read_real(sg_config *c, const char *key, int i, const json_t *v, double lo, double hi)
{
    char         should[96];
    const double x = json_number_value(v);
    if (json_is_number(v) && x >= lo && x <= hi) return x;
    if (isinf(lo) && isinf(hi))
        snprintf(should, sizeof should, "a number");
    else if (isinf(hi) || hi >= 1e300)
        snprintf(should, sizeof should, "a number of at least %g", lo);
    else
        snprintf(should, sizeof should, "a number from %g to %g", lo, hi);
    wrong(c, key, i, v, should);
    return lo;
}

static bool read_bool(sg_config *c, const char *key, int i, const json_t *v)
{
    if (!json_is_boolean(v)) wrong(c, key, i, v, "true or false");
    return json_is_true(v);
}

/* The field's value; NULL after a failure or when it is absent, which is a failure too if it is required. */
static const json_t *field(sg_config *c, const char *key, bool required)
{
    const json_t *const v = c->status == SG_OK ? get(c, key) : NULL;
    if (!v && required) sg_config_fail(c, key, "is missing");
    return v;
}

/* A getter of one value, which `read` makes of v. */
#define READ_ONE(type, read, least)                                                                                    \
    const type          otherwise = fallback ? *fallback : (least);                                                    \
    const json_t *const v = field(c, key, !fallback);                                                                  \
    const type          x = v ? (read) : otherwise;                                                                    \
    return c->status == SG_OK ? x : otherwise

int64_t sg_config_int(sg_config *c, const char *key, int64_t lo, int64_t hi, const int64_t *fallback)
{
    READ_ONE(int64_t, read_int(c, key, -1, v, lo, hi), lo);
}

double sg_config_real(sg_config *c, const char *key, double lo, double hi, const double *fallback)
{
    READ_ONE(double, read_real(c, key, -1, v, lo, hi), lo);
}

bool sg_config_bool(sg_config *c, const char *key, const bool *fallback)
{
    READ_ONE(bool, read_bool(c, key, -1, v), false);
}

static const char *read_string(sg_config *c, const char *key, int i, const json_t *v)
{
    if (!json_is_string(v)) wrong(c, key, i, v, "a string");
    return json_string_value(v);
}

const char *sg_config_string(sg_config *c, const char *key, const char *fallback)
{
    const json_t *const v = field(c, key, !fallback);
    const char *const   x = v ? read_string(c, key, -1, v) : NULL;
    return x ? x : fallback;
}

void sg_config_only(sg_config *c, const char *key, const char *wanted, const char *fallback)
{
    const char *const found = sg_config_string(c, key, fallback);
    if (found && strcmp(found, wanted) != 0)
        sg_config_fail(c, key, "\"%s\" is not supported; only \"%s\" is", found, wanted);
}

bool sg_config_either(sg_config *c, const char *key, const char *one, const char *other, const char *fallback)
{
    const char *const found = sg_config_string(c, key, fallback);
    const bool        is_one = found && strcmp(found, one) == 0;
    if (found && !is_one && strcmp(found, other) != 0)
        sg_config_fail(c, key, "\"%s\" is not supported; \"%s\" and \"%s\" are", found, one, other);
    return is_one;
}

void sg_config_only_bool(sg_config *c, const char *key, bool wanted)
{
    if (sg_config_bool(c, key, &wanted) != wanted)
        sg_config_fail(c, key, "%s is not supported; only %s is", wanted ? "false" : "true", wanted ? "true" : "false");
}

/* The field if it is a list of min to max entries, else NULL. */
static const json_t *list(sg_config *c, const char *key, int min, int max)
{
    char                should[64];
    const json_t *const v = field(c, key, min > 0);
    if (!v) return NULL;
    const size_t n = json_array_size(v);
    if (min == max)
        snprintf(should, sizeof should, "a list of %d entries", min);
    else
        snprintf(should, sizeof should, "a list of %d to %d entries", min, max);
    if (!json_is_array(v))
        wrong(c, key, -1, v, should);
    else if (n < (size_t)min || n > (size_t)max)
        sg_config_fail(c, key, "should be %s, has %zu", should, n);
    else
        return v;
    return NULL;
}

/* A getter of a list, whose entry i `read` makes of v; `least` is there after a failure. */
#define READ_LIST(read, least)                                                                                         \
    const json_t *const all = list(c, key, min, max);                                                                  \
    const int           n = (int)json_array_size(all);                                                                 \
    for (int i = 0; i < n; i++) {                                                                                      \
        const json_t *const v = json_array_get(all, (size_t)i);                                                        \
        out[i] = (read);                                                                                               \
    }                                                                                                                  \
    for (int i = 0; c->status != SG_OK && i < max; i++) out[i] = (least);                                              \
    return c->status == SG_OK ? n : 0

int sg_config_ints(sg_config *c, const char *key, int64_t lo, int64_t hi, int64_t *out, int min, int max)
{
    READ_LIST(read_int(c, key, i, v, lo, hi), lo);
}

int sg_config_reals(sg_config *c, const char *key, double lo, double hi, double *out, int min, int max)
{
    READ_LIST(read_real(c, key, i, v, lo, hi), lo);
}

int sg_config_bools(sg_config *c, const char *key, bool *out, int min, int max)
{
    READ_LIST(read_bool(c, key, i, v), false);
}

int sg_config_strings(sg_config *c, const char *key, const char **out, int min, int max)
{
    READ_LIST(read_string(c, key, i, v), NULL);
}

const char *sg_config_string_at(sg_config *c, const char *key, int i)
{
    const json_t *const v = field(c, key, false);
    const json_t *const s = i < 0 ? NULL : json_array_get(v, (size_t)i);
    if (v && !json_is_array(v)) wrong(c, key, -1, v, "a list");
    if (s && !json_is_string(s) && !json_is_null(s)) wrong(c, key, i, s, "a string");
    return json_string_value(s);
}
