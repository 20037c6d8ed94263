/* safetensors.c - one safetensors file, or many by an index, as source_state.h has them. */
#include "base/array.h"
#include "base/bytes.h"
#include "base/json_input.h"
#include "base/path.h"
#include "base/text.h"
#include "source_state.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    MAX_HEADER = 100000000, /* bytes, also of an index; the reference's limit */
    MAX_DESCRIPTION = 4096  /* bytes of one tensor's JSON: bounds the memory of its tree */
};

/* The place of every message about one tensor. */
typedef struct place {
    const char *path, *name;
    sg_error   *e;
} place;

#define bad(p, ...) sg_error_at((p)->e, SG_E_FORMAT, (p)->path, "tensor", (p)->name, __VA_ARGS__)

static sg_status read_type(sg_source_tensor *t, const json_t *json, const place *p)
{
    const char *const name = json_string_value(json);
    if (!name) return bad(p, "dtype should be a string");
    t->type = sg_source_type_of(name, SG_ELEMENTS);
    return t->type ? SG_OK : bad(p, "dtype \"%s\" is not known", sg_show(name));
}

static sg_status read_shape(sg_source_tensor *t, const json_t *json, const place *p)
{
    if (!json_is_array(json)) return bad(p, "shape should be a list");
    if (json_array_size(json) > SG_MAX_RANK)
        return bad(p, "shape has %zu dimensions; at most %d are supported", json_array_size(json), SG_MAX_RANK);
    t->rank = (int)json_array_size(json);
    for (int i = 0; i < t->rank; i++) {
        const json_t *const d = json_array_get(json, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return bad(p, "shape[%d] should be a whole number, 0 or more", i);
        t->dim[i] = json_integer_value(d);
    }
    return SG_OK;
}

static sg_status read_offsets(sg_source_tensor *t, const json_t *json, const sg_map *data, const place *p)
{
    const json_t *const begin = json_array_get(json, 0), *const end = json_array_get(json, 1);
    if (json_array_size(json) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad(p, "data_offsets should be a list of two whole numbers");
    const long long from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from) return bad(p, "data_offsets [%lld, %lld] should rise from 0", from, to);
    if ((uint64_t)to > data->size)
        return bad(p, "data_offsets [%lld, %lld] go beyond the %zu bytes of data: the file may have been cut short",
                   from, to, data->size);
    t->data = data->data + from;
    t->bytes = (uint64_t)(to - from);
    return SG_OK;
}

/* No product of dimensions may overflow, even where another dimension is 0: views multiply them in any order. */
static sg_status check_size(const sg_source_tensor *t, const place *p)
{
    int64_t bits = 8 * t->type->bytes / t->type->block;
    bool    none = false;
    char    shape[128];
    sg_shape_text(shape, sizeof shape, t->rank, t->dim);
    for (int i = 0; i < t->rank; i++) {
        none = none || t->dim[i] == 0;
        if (__builtin_mul_overflow(bits, t->dim[i] ? t->dim[i] : 1, &bits))
            return bad(p, "shape %s is too large for any memory", shape);
    }
    if (none) bits = 0;
    if (bits % 8 || (uint64_t)bits / 8 != t->bytes)
        return bad(p, "%s %s takes %lld bits, but its data_offsets span %llu bytes", t->type->name, shape,
                   (long long)bits, (unsigned long long)t->bytes);
    return SG_OK;
}

static sg_status read_fields(sg_source_tensor *t, json_t *json, const sg_map *data, const place *p)
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    if (!json_is_object(json)) return bad(p, "should be an object");
    for (int i = 0; i < 3; i++)
        if (!json_object_get(json, fields[i])) return bad(p, "%s is missing", fields[i]);
    for (void *i = json_object_iter(json); i; i = json_object_iter_next(json, i)) {
        const char *const key = json_object_iter_key(i);
        if (strcmp(key, fields[0]) && strcmp(key, fields[1]) && strcmp(key, fields[2]))
            return bad(p, "\"%s\" is not a field of this format", sg_show(key));
    }
    SG_TRY(read_type(t, json_object_get(json, "dtype"), p));
    SG_TRY(read_shape(t, json_object_get(json, "shape"), p));
    SG_TRY(read_offsets(t, json_object_get(json, "data_offsets"), data, p));
    return check_size(t, p);
}

static sg_status read_tensor(sg_source_tensor *t, const sg_member *m, const sg_map *data, const place *p)
{
    json_error_t je;
    if (m->size > MAX_DESCRIPTION)
        return bad(p, "its description takes %zu bytes; at most %d are read", m->size, MAX_DESCRIPTION);
    json_t *const json = json_loadb(m->value, m->size, JSON_REJECT_DUPLICATES, &je);
    if (!json) return bad(p, "not valid JSON: %s", sg_show(je.text));
    const sg_status status = read_fields(t, json, data, p);
    json_decref(json);
    return status;
}

/* text[] of the strings that the members are, one behind the other in *memory, which the caller frees: a decoded
 * string and its NUL are shorter than the string in quotes. `kind` of a member is named in messages. */
static sg_status read_texts(char **memory, const char ***text, const sg_members *m, size_t bytes, const char *path,
                            const char *what, const char *kind, sg_error *e)
{
    char  why[160];
    char *at = *memory = malloc(bytes ? bytes : 1);
    *text = malloc((m->count + 1) * sizeof **text);
    if (!at || !*text) return sg_error_memory(e, path);
    for (size_t i = 0; i < m->count; i++) {
        char *const end = sg_json_string(at, m->item[i].value, m->item[i].size, why);
        if (!end)
            return sg_error_set(e, SG_E_FORMAT, "%s: %s: %s\"%s\": %s", path, what, kind, sg_show(m->item[i].name),
                                why);
        (*text)[i] = at;
        at = end + 1;
    }
    return SG_OK;
}

/* The metadata of shards after the first are checked alone. */
static sg_status read_metadata(sg_source *s, const sg_member *m, const char *path, sg_error *e)
{
    sg_members   items = {0};
    char        *memory = NULL;
    const char **text = NULL;
    sg_status    status = sg_members_read(&items, m->value, m->size, path, m->name, e);
    if (status == SG_OK) status = read_texts(&memory, &text, &items, m->size, path, m->name, "", e);
    for (size_t i = 0; status == SG_OK && s->maps == 1 && i < items.count; i++)
        status = sg_source_add_key(s, (sg_source_key){.name = items.item[i].name, .text = text[i]}, e);
    sg_source_sort_keys(s);
    sg_members_free(&items);
    free(memory);
    free(text);
    return status;
}

/* The tensors must cover the data from end to end: no byte twice, none unused. */
static sg_status check_cover(const sg_source_tensor *t, size_t count, const sg_map *data, const char *path, sg_error *e)
{
    const uint8_t *at = data->data;
    for (size_t i = 0; i < count; at = t[i].data + t[i].bytes, i++) {
        const place p = {path, t[i].name, e};
        if (t[i].data < at) return bad(&p, "overlaps tensor \"%s\"", sg_show(t[i - 1].name));
        if (t[i].data > at)
            return bad(&p, "%zu byte%s to no tensor", (size_t)(t[i].data - at),
                       t[i].data - at == 1 ? " of data before it belongs" : "s of data before it belong");
    }
    const size_t rest = (size_t)(data->data + data->size - at);
    if (rest)
        return sg_error_set(e, SG_E_FORMAT, "%s: the last %zu byte%s to no tensor", path, rest,
                            rest == 1 ? " belongs" : "s belong");
    return SG_OK;
}

/* Appends the tensors of a file in the order of their data. */
static sg_status read_tensors(sg_source *s, const sg_members *m, const sg_map *data, const char *path, sg_error *e)
{
    const size_t      first = s->count;
    const char *const file = sg_source_keep(s, sg_path_name(path), strlen(sg_path_name(path)));
    if (!file) return sg_error_memory(e, path);
    for (size_t i = 0; i < m->count; i++) {
        const sg_member *const item = &m->item[i];
        sg_source_tensor       t = {.file = file};
        if (strcmp(item->name, "__metadata__") == 0) {
            SG_TRY(read_metadata(s, item, path, e));
            continue;
        }
        SG_TRY(read_tensor(&t, item, data, &(place){path, item->name, e}));
        SG_TRY(sg_source_add(s, t, item->name, strlen(item->name), e));
    }
    if (s->count == first) return check_cover(NULL, 0, data, path, e);
    sg_source_order(s, first);
    return check_cover(s->tensor + first, s->count - first, data, path, e);
}

static sg_status find_header(const sg_map *map, const char *path, size_t *size, sg_error *e)
{
    if (map->size < 8)
        return sg_error_set(e, SG_E_FORMAT, "%s: %zu byte%s too few for a safetensors file", path, map->size,
                            map->size == 1 ? " is" : "s are");
    const uint64_t n = sg_little_endian(map->data, 8);
    if (n > MAX_HEADER)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: not a safetensors file: a header of %llu bytes is announced; at most %d are allowed",
                            path, (unsigned long long)n, MAX_HEADER);
    if (n > map->size - 8)
        return sg_error_set(e, SG_E_FORMAT, "%s: cut short: a header of %llu bytes is announced, but %zu follow", path,
                            (unsigned long long)n, map->size - 8);
    if (n < 2 || map->data[8] != '{')
        return sg_error_set(e, SG_E_FORMAT, "%s: not a safetensors file: the header should begin with {", path);
    *size = (size_t)n;
    return SG_OK;
}

static sg_status read_file(sg_source *s, const sg_map *map, const char *path, sg_error *e)
{
    sg_members m = {0};
    size_t     size = 0;
    SG_TRY(find_header(map, path, &size, e));
    sg_status status = sg_members_read(&m, (const char *)map->data + 8, size, path, "header", e);
    if (status == SG_OK) status = read_tensors(s, &m, &(sg_map){map->data + 8 + size, map->size - 8 - size}, path, e);
    sg_members_free(&m);
    return status;
}

sg_status sg_safetensors_read(sg_source *s, const sg_map *map, sg_error *e)
{
    SG_TRY(read_file(s, map, s->path, e));
    SG_TRY(sg_source_sort(s, e));
    return sg_scales_attach(s, e);
}

/* ---- the index ---- */

/* An index file while it is read. */
typedef struct index_file {
    const char  *path;
    sg_map       map;
    sg_members   top, weights;
    char        *text;   /* the decoded shard names */
    const char **shard;  /* of weights.item[i] */
    const char **unique; /* sorted */
    size_t       uniques;
} index_file;

static void index_close(index_file *x)
{
    sg_map_close(&x->map);
    sg_members_free(&x->top);
    sg_members_free(&x->weights);
    free(x->text);
    free(x->shard);
    free(x->unique);
}

/* A shard's name comes from outside: it must stay within the folder. */
static sg_status check_shard(const index_file *x, size_t i, sg_error *e)
{
    const char *const s = x->shard[i];
    bool              plain = *s && strcmp(s, ".") && strcmp(s, "..");
    for (const char *c = s; *c; c++) plain = plain && *c != '/' && (unsigned char)*c >= 0x20;
    if (plain) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT,
                        "%s: weight_map: tensor \"%s\": \"%s\" is not the name of a file in this folder", x->path,
                        sg_show(x->weights.item[i].name), sg_show(s));
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static sg_status index_open(index_file *x, sg_error *e)
{
    SG_TRY(sg_map_open_most(&x->map, x->path, MAX_HEADER, e));
    SG_TRY(sg_members_read(&x->top, (const char *)x->map.data, x->map.size, x->path, "index", e));
    const sg_member *map = NULL;
    for (size_t i = 0; i < x->top.count; i++) {
        const sg_member *const m = &x->top.item[i];
        if (strcmp(m->name, "weight_map") == 0)
            map = m;
        else
            SG_TRY(sg_json_check(m, x->path, e));
    }
    if (!map) return sg_error_set(e, SG_E_FORMAT, "%s: weight_map is missing", x->path);
    SG_TRY(sg_members_read(&x->weights, map->value, map->size, x->path, "weight_map", e));
    SG_TRY(read_texts(&x->text, &x->shard, &x->weights, map->size, x->path, "weight_map", "tensor ", e));
    const size_t n = x->weights.count;
    for (size_t i = 0; i < n; i++) SG_TRY(check_shard(x, i, e));
    if (n == 0) return sg_error_set(e, SG_E_FORMAT, "%s: weight_map is empty", x->path);
    if (!(x->unique = malloc(n * sizeof *x->unique))) return sg_error_memory(e, x->path);
    memcpy(x->unique, x->shard, n * sizeof *x->unique);
    qsort(x->unique, n, sizeof *x->unique, by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(x->unique[x->uniques - 1], x->unique[i]) != 0) x->unique[x->uniques++] = x->unique[i];
    return SG_OK;
}

static sg_status read_shard(sg_source *s, const index_file *x, const char *name, sg_error *e)
{
    char        path[PATH_MAX];
    struct stat st;
    sg_map      map;
    const int   n = snprintf(path, sizeof path, "%.*s%s", (int)(sg_path_name(x->path) - x->path), x->path, name);
    if (n >= PATH_MAX) errno = ENAMETOOLONG;
    if (n >= PATH_MAX || stat(path, &st) != 0)
        return sg_error_set(e, SG_E_FILE, "%s: shard \"%s\" is named, but: %s", x->path, sg_show(name),
                            strerror(errno));
    SG_TRY(sg_source_map(s, &map, path, e));
    return read_file(s, &map, path, e);
}

static int by_member(const void *name, const void *member) { return strcmp(name, ((const sg_member *)member)->name); }

/* Every tensor must be where the index says, and in the index. */
static sg_status check_places(const sg_source *s, const index_file *x, sg_error *e)
{
    const sg_members *const w = &x->weights;
    for (size_t i = 0; i < w->count; i++) {
        const char *const name = w->item[i].name;
        const int64_t     at = sg_source_index(s, name);
        if (at < 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: weight_map: tensor \"%s\" is in no file, should be in %s", x->path,
                                sg_show(name), sg_show(x->shard[i]));
        const char *const file = sg_source_at(s, (size_t)at)->file;
        if (strcmp(file, x->shard[i]) != 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: weight_map: tensor \"%s\" should be in %s, but is in %s", x->path,
                                sg_show(name), sg_show(x->shard[i]), file);
    }
    for (size_t i = 0; i < sg_source_count(s); i++) {
        const sg_source_tensor *const t = sg_source_at(s, i);
        if (!bsearch(t->name, w->item, w->count, sizeof *w->item, by_member))
            return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\" of %s is not in weight_map", x->path,
                                sg_show(t->name), t->file);
    }
    return SG_OK;
}

static sg_status read_index(sg_source *s, index_file *x, sg_error *e)
{
    SG_TRY(index_open(x, e));
    for (size_t i = 0; i < x->uniques; i++) SG_TRY(read_shard(s, x, x->unique[i], e));
    SG_TRY(sg_source_sort(s, e));
    SG_TRY(check_places(s, x, e));
    return sg_scales_attach(s, e);
}

sg_status sg_safetensors_read_index(sg_source *s, sg_error *e)
{
    index_file      x = {.path = s->path};
    const sg_status status = read_index(s, &x, e);
    index_close(&x);
    return status;
}
