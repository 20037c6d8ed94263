/* safetensors.c - see safetensors.h. */
#include "safetensors.h"
#include "base/bytes.h"
#include "base/text.h"
#include "one_file.h"

#include <jansson.h>
#include <stdlib.h>

enum {
    MAX_HEADER = 100000000, /* bytes; the reference's limit */
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
    t->type = sg_element_type(name);
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
    *t = (sg_source_tensor){.name = m->name};
    if (m->size > MAX_DESCRIPTION)
        return bad(p, "its description takes %zu bytes; at most %d are read", m->size, MAX_DESCRIPTION);
    json_t *const json = json_loadb(m->value, m->size, JSON_REJECT_DUPLICATES, &je);
    if (!json) return bad(p, "not valid JSON: %s", sg_show(je.text));
    const sg_status status = read_fields(t, json, data, p);
    json_decref(json);
    return status;
}

static sg_status read_metadata(sg_safetensors *f, const sg_member *m, sg_error *e)
{
    char              why[160];
    sg_members *const items = &f->metadata;
    SG_TRY(sg_members_read(items, m->value, m->size, f->path, m->name, e));
    /* A decoded string and its NUL are shorter than the string in quotes. */
    char *at = f->metadata_text = malloc(m->size);
    if (!at) return sg_error_memory(e, f->path);
    for (size_t i = 0; i < items->count; i++) {
        char *const end = sg_json_string(at, items->item[i].value, items->item[i].size, why);
        if (!end)
            return sg_error_set(e, SG_E_FORMAT, "%s: %s: \"%s\": %s", f->path, m->name, sg_show(items->item[i].name),
                                why);
        items->item[i].value = at;
        at = end + 1;
    }
    return SG_OK;
}

static int by_offset(const void *a, const void *b)
{
    const sg_source_tensor *const x = a, *const y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The tensors must cover the data from end to end: no byte twice, none unused. */
static sg_status check_cover(const sg_safetensors *f, const sg_map *data, sg_error *e)
{
    const uint8_t *at = data->data;
    for (size_t i = 0; i < f->count; at = f->tensor[i].data + f->tensor[i].bytes, i++) {
        const place    p = {f->path, f->tensor[i].name, e};
        const uint8_t *d = f->tensor[i].data;
        if (d < at) return bad(&p, "overlaps tensor \"%s\"", sg_show(f->tensor[i - 1].name));
        if (d > at)
            return bad(&p, "%zu byte%s to no tensor", (size_t)(d - at),
                       d - at == 1 ? " of data before it belongs" : "s of data before it belong");
    }
    const size_t rest = (size_t)(data->data + data->size - at);
    if (rest)
        return sg_error_set(e, SG_E_FORMAT, "%s: the last %zu byte%s to no tensor", f->path, rest,
                            rest == 1 ? " belongs" : "s belong");
    return SG_OK;
}

static sg_status read_tensors(sg_safetensors *f, const sg_members *m, const sg_map *data, sg_error *e)
{
    f->tensor = calloc(m->count ? m->count : 1, sizeof *f->tensor);
    if (!f->tensor) return sg_error_memory(e, f->path);
    for (size_t i = 0; i < m->count; i++) {
        const sg_member *const item = &m->item[i];
        if (strcmp(item->name, "__metadata__") == 0)
            SG_TRY(read_metadata(f, item, e));
        else
            SG_TRY(read_tensor(&f->tensor[f->count++], item, data, &(place){f->path, item->name, e}));
    }
    if (f->count) qsort(f->tensor, f->count, sizeof *f->tensor, by_offset);
    return check_cover(f, data, e);
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

sg_status sg_safetensors_open(sg_safetensors *f, const char *path, sg_error *e)
{
    sg_members m = {0};
    size_t     size = 0;
    *f = (sg_safetensors){.path = strdup(path)};
    if (!f->path) return sg_error_memory(e, path);
    SG_TRY(sg_map_open(&f->map, path, e));
    SG_TRY(find_header(&f->map, path, &size, e));
    sg_status status = sg_members_read(&m, (const char *)f->map.data + 8, size, path, "header", e);
    if (status == SG_OK) status = read_tensors(f, &m, &(sg_map){f->map.data + 8 + size, f->map.size - 8 - size}, e);
    f->names = m.names;
    m.names = NULL;
    sg_members_free(&m);
    return status;
}

void sg_safetensors_close(sg_safetensors *f)
{
    sg_map_close(&f->map);
    free(f->path);
    free(f->names);
    free(f->tensor);
    sg_members_free(&f->metadata);
    free(f->metadata_text);
    *f = (sg_safetensors){0};
}
