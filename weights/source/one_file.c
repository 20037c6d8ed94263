/* one_file.c - see one_file.h. */
#include "one_file.h"
#include "base/array.h"
#include "base/path.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>

sg_status sg_one_file_open(sg_one_file *f, const char *path, sg_error *e)
{
    *f = (sg_one_file){.path = strdup(path)};
    if (!f->path) return sg_error_memory(e, path);
    return sg_map_open(&f->map, path, e);
}

void sg_one_file_close(sg_one_file *f)
{
    for (size_t i = 0; i < f->count; i++) free((char *)(uintptr_t)f->tensor[i].name);
    free(f->tensor);
    free(f->path);
    sg_map_close(&f->map);
    *f = (sg_one_file){0};
}

sg_status sg_one_file_add(sg_one_file *f, sg_source_tensor t, const char *name, size_t len, sg_error *e)
{
    size_t bad;
    if (f->count == SG_TENSORS_MAX)
        return sg_error_set(e, SG_E_FORMAT, "%s: more than %d tensors", f->path, SG_TENSORS_MAX);
    if (len == 0 || len > SG_TENSOR_NAME_MAX || memchr(name, 0, len) || !sg_utf8_check(name, len, &bad))
        return sg_error_set(e, SG_E_FORMAT, "%s: the name of tensor %zu should be 1 to %d bytes of UTF-8", f->path,
                            f->count, SG_TENSOR_NAME_MAX);
    t.name = strndup(name, len);
    t.file = sg_path_name(f->path);
    if (t.name && sg_array_push(f->tensor, f->count, f->room, t)) return SG_OK;
    free((char *)(uintptr_t)t.name);
    return sg_error_memory(e, f->path);
}

size_t sg_one_file_count(const void *of) { return ((const sg_one_file *)of)->count; }

const sg_source_tensor *sg_one_file_tensor(const void *of, size_t i) { return &((const sg_one_file *)of)->tensor[i]; }

const char *sg_one_file_path(const void *of) { return ((const sg_one_file *)of)->path; }
int         sg_one_file_files(const void *of) { return of != NULL; }
uint64_t    sg_one_file_bytes(const void *of) { return ((const sg_one_file *)of)->map.size; }

/* Bytes that were copied out of the map are none of its pages. */
void sg_one_file_drop(const void *of, const void *data, size_t bytes)
{
    const sg_map *const m = &((const sg_one_file *)of)->map;
    const uintptr_t     at = (uintptr_t)data, from = (uintptr_t)m->data;
    if (at >= from && at < from + m->size) sg_map_drop(data, bytes);
}

static const sg_source_type types[] = {
    {"F32", SG_F32, 1, 4},
    {"F16", SG_F16, 1, 2},
    {"BF16", SG_BF16, 1, 2},
    {"I32", SG_I32, 1, 4},
    {"U8", SG_U8, 1, 1},
    {"F64", SG_DTYPES, 1, 8},
    {"C64", SG_DTYPES, 1, 8},
    {"I64", SG_DTYPES, 1, 8},
    {"U64", SG_DTYPES, 1, 8},
    {"U32", SG_DTYPES, 1, 4},
    {"I16", SG_DTYPES, 1, 2},
    {"U16", SG_DTYPES, 1, 2},
    {"I8", SG_DTYPES, 1, 1},
    {"BOOL", SG_U8, 1, 1},
    {"F8_E4M3", SG_DTYPES, 1, 1},
    {"F8_E5M2", SG_DTYPES, 1, 1},
    {"F8_E8M0", SG_DTYPES, 1, 1},
    {"F8_E4M3FNUZ", SG_DTYPES, 1, 1},
    {"F8_E5M2FNUZ", SG_DTYPES, 1, 1},
    {"F6_E2M3", SG_DTYPES, 4, 3},
    {"F6_E3M2", SG_DTYPES, 4, 3},
    {"F4", SG_DTYPES, 2, 1},
};

const sg_source_type *sg_element_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}
