/* safetensors_write.c - see safetensors_write.h: tensors to a file that appears complete or not at all. */
#include "safetensors_write.h"
#include "base/json_input.h"
#include "base/output_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool put_tensor(json_t *root, const sg_named_tensor *one, size_t *at)
{
    json_t *const shape = json_array();
    const size_t  begin = *at;
    bool          ok = shape != NULL;
    *at += sg_bytes(one->t);
    for (int i = 0; ok && i < one->t.rank; i++) ok = json_array_append_new(shape, json_integer(one->t.dim[i])) == 0;
    if (ok)
        ok = json_object_set_new(root, one->name,
                                 json_pack("{s:s, s:O, s:[I, I]}", "dtype", sg_dtype_name(one->t.dtype), "shape", shape,
                                           "data_offsets", (json_int_t)begin, (json_int_t)*at)) == 0;
    json_decref(shape);
    return ok;
}

/* NULL when a text is not UTF-8, or memory is short. */
static json_t *header_tree(const sg_named_tensor *all, int count, const char *const *metadata)
{
    json_t *const root = json_object(), *const note = json_object();
    bool   ok = root && note;
    size_t at = 0;
    for (; ok && metadata && metadata[0]; metadata += 2)
        ok = json_object_set_new(note, metadata[0], json_string(metadata[1])) == 0;
    if (ok && json_object_size(note)) ok = json_object_set(root, "__metadata__", note) == 0;
    for (int i = 0; ok && i < count; i++) ok = put_tensor(root, &all[i], &at);
    json_decref(note);
    if (ok) return root;
    json_decref(root);
    return NULL;
}

/* The length, the JSON, and spaces that align what follows to 8 bytes; malloc'd. */
static char *header_bytes(json_t *tree, size_t *size)
{
    char *const  json = sg_json_text(tree, JSON_COMPACT);
    const size_t n = json ? strlen(json) : 0, padded = (n + 7) & ~(size_t)7;
    char *const  out = json ? malloc(8 + padded) : NULL;
    if (out) {
        for (int i = 0; i < 8; i++) out[i] = (char)((uint64_t)padded >> (8 * i) & 0xff);
        memcpy(out + 8, json, n);
        memset(out + 8 + n, ' ', padded - n);
        *size = 8 + padded;
    }
    free(json);
    return out;
}

static sg_status write_file(const char *path, const char *header, size_t size, const sg_named_tensor *all, int count,
                            sg_error *e)
{
    sg_output_file *f = NULL;
    SG_TRY(sg_output_file_open(&f, path, e));
    sg_status status = sg_output_file_write(f, header, size, e);
    for (int i = 0; status == SG_OK && i < count; i++)
        status = sg_output_file_write(f, all[i].t.data, sg_bytes(all[i].t), e);
    if (status == SG_OK) status = sg_output_file_publish(&f, e);
    sg_output_file_discard(&f);
    return status;
}

static bool writable(const sg_named_tensor *one)
{
    return one->t.rank >= 1 && one->t.rank <= SG_MAX_RANK && (one->t.data || !sg_count(one->t)) &&
           strcmp(one->name, "__metadata__") != 0;
}

sg_status sg_safetensors_write_all(const char *path, const sg_named_tensor *all, int count, const char *const *metadata,
                                   sg_error *e)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        if (!writable(&all[i])) return sg_error_set(e, SG_E_ARG, "%s: there is no tensor to write", path);
    json_t *const tree = header_tree(all, count, metadata);
    if (!tree) return sg_error_set(e, SG_E_ARG, "%s: a name or a text for the header is not valid UTF-8", path);
    char *const header = header_bytes(tree, &size);
    json_decref(tree);
    if (!header) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for the header", path);
    const sg_status status = write_file(path, header, size, all, count, e);
    free(header);
    return status;
}

sg_status sg_safetensors_write(const char *path, const char *name, sg_tensor t, const char *const *metadata,
                               sg_error *e)
{
    return sg_safetensors_write_all(path, &(sg_named_tensor){name, t}, 1, metadata, e);
}
