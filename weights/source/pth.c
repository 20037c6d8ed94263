/* pth.c - see pth.h. */
#include "pth.h"
#include "base/array.h"
#include "base/text.h"
#include "pickle.h"
#include "zip.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct pth {
    sg_one_file file;
    uint8_t   **copy; /* of tensors that do not lie in a row in the file */
    size_t      copies, room;
    uint64_t    copied; /* bytes */
} pth;

/* The pickle's entry, and in root[size] what stands before "data.pkl". */
static sg_status find_pickle(const sg_zip *z, const char *path, const sg_zip_entry **out, char *root, size_t size,
                             sg_error *e)
{
    static const char name[] = "/data.pkl";
    *out = NULL;
    for (size_t i = 0; i < z->count; i++) {
        const char *const slash = strchr(z->entry[i].name, '/');
        if (!slash || strcmp(slash, name) != 0) continue;
        if (*out)
            return sg_error_set(e, SG_E_FORMAT, "%s: both \"%s\" and \"%s\" are in it: which one holds the tensors?",
                                path, sg_show((*out)->name), sg_show(z->entry[i].name));
        *out = &z->entry[i];
        snprintf(root, size, "%.*s/", (int)(slash - z->entry[i].name), z->entry[i].name);
    }
    if (*out) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: a zip without a data.pkl: torch.save did not write it", path);
}

static sg_status check_byte_order(const sg_zip *z, const char *path, const char *root, sg_error *e)
{
    char name[SG_ZIP_NAME_MAX + 16];
    snprintf(name, sizeof name, "%sbyteorder", root);
    const sg_zip_entry *const x = sg_zip_find(z, name);
    if (!x || (x->size == 6 && memcmp(x->data, "little", 6) == 0)) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: %s should be \"little\"", path, sg_show(name));
}

/* Is element k number k from the first? */
static bool lies_in_a_row(const sg_pickled_tensor *t)
{
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] != 1 && t->stride[i] != step) return false;
        step *= t->dim[i];
    }
    return true;
}

/* to[] = the elements at x in their order; returns the end. */
static uint8_t *copy_elements(uint8_t *to, const uint8_t *x, const sg_pickled_tensor *t)
{
    const size_t bytes = (size_t)t->type->bytes;
    const int    last = t->rank - 1;
    int64_t      at[SG_MAX_RANK] = {0};
    while (at[0] < t->dim[0]) {
        const uint8_t *from = x;
        for (int i = 0; i < last; i++) from += (size_t)(at[i] * t->stride[i]) * bytes;
        for (int64_t k = 0; k < t->dim[last]; k++, to += bytes)
            memcpy(to, from + (size_t)(k * t->stride[last]) * bytes, bytes);
        at[last] = t->dim[last];
        for (int i = last; i > 0 && at[i] >= t->dim[i]; i--) {
            at[i] = 0;
            at[i - 1]++;
        }
    }
    return to;
}

/* Copies are made of no more bytes than the file has: views of one storage, each element many times, would be as large as
 * they like. */
static sg_status copy(pth *p, sg_source_tensor *to, const sg_pickled_tensor *t, const char *name, sg_error *e)
{
    if (to->bytes > p->file.map.size - p->copied)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: tensor \"%s\": its numbers do not lie in a row: convert to safetensors", p->file.path,
                            sg_show(name));
    uint8_t *const own = malloc(to->bytes ? to->bytes : 1);
    if (!own || !sg_array_push(p->copy, p->copies, p->room, own)) {
        free(own);
        return sg_error_memory(e, p->file.path);
    }
    p->copied += to->bytes;
    if (to->bytes) copy_elements(own, to->data, t);
    to->data = own;
    return SG_OK;
}

static sg_status add_tensor(pth *p, const sg_zip *z, const char *root, const sg_pickled_tensor *t, sg_error *e)
{
    char             name[SG_ZIP_NAME_MAX + 16];
    sg_source_tensor to = {.type = t->type, .bytes = (uint64_t)t->type->bytes, .rank = t->rank};
    const int        n =
        snprintf(name, sizeof name, "%sdata/%.*s", root,
                 (int)(t->storage_length < SG_ZIP_NAME_MAX ? t->storage_length : SG_ZIP_NAME_MAX), t->storage);
    for (int i = 0; i < t->rank; i++) {
        to.dim[i] = t->dim[i];
        to.bytes *= (uint64_t)t->dim[i];
    }
    SG_TRY(sg_one_file_add(&p->file, to, t->name, t->name_length, e));
    sg_source_tensor *const   in = &p->file.tensor[p->file.count - 1];
    const sg_zip_entry *const x = n > 0 && n < (int)sizeof name ? sg_zip_find(z, name) : NULL;
    if (!x)
        return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\": its numbers should be in %s, which is not there",
                            p->file.path, sg_show(in->name), sg_show(name));
    if (x->size < t->bytes)
        return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\": its storage of %llu bytes has %llu in the file",
                            p->file.path, sg_show(in->name), (unsigned long long)t->bytes, (unsigned long long)x->size);
    in->data = x->data + (in->bytes ? (uint64_t)t->offset * (uint64_t)t->type->bytes : 0);
    return lies_in_a_row(t) ? SG_OK : copy(p, in, t, in->name, e);
}

static sg_status read_tensors(pth *p, const sg_zip *z, sg_pickled *all, sg_error *e)
{
    char                root[SG_ZIP_NAME_MAX + 1];
    const sg_zip_entry *pickle;
    const char *const   path = p->file.path;
    SG_TRY(find_pickle(z, path, &pickle, root, sizeof root, e));
    SG_TRY(check_byte_order(z, path, root, e));
    SG_TRY(sg_pickle_read(all, pickle->data, (size_t)pickle->size, path, e));
    for (size_t i = 0; i < all->count; i++) SG_TRY(add_tensor(p, z, root, &all->tensor[i], e));
    if (all->count) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT,
                        "%s: names no tensors; a state dict is read, or one under \"model\", \"module\" or "
                        "\"state_dict\"",
                        path);
}

/* ---- as a source ---- */

static const char *pth_metadata(const void *of, const char *key)
{
    (void)of;
    (void)key;
    return NULL;
}

static void pth_close(void *of)
{
    pth *const p = of;
    for (size_t i = 0; i < p->copies; i++) free(p->copy[i]);
    free(p->copy);
    sg_one_file_close(&p->file);
    free(p);
}

static const sg_source_ops ops = {.count = sg_one_file_count,
                                  .tensor = sg_one_file_tensor,
                                  .metadata = pth_metadata,
                                  .path = sg_one_file_path,
                                  .files = sg_one_file_files,
                                  .bytes = sg_one_file_bytes,
                                  .drop = sg_one_file_drop,
                                  .close = pth_close};

sg_status sg_pth_source(sg_source **out, const char *path, sg_error *e)
{
    pth *const p = calloc(1, sizeof *p);
    sg_zip     z = {0};
    sg_pickled all = {0};
    *out = NULL;
    if (!p) return sg_error_memory(e, path);
    sg_status status = sg_one_file_open(&p->file, path, e);
    if (status == SG_OK) status = sg_zip_open(&z, &p->file.map, p->file.path, e);
    if (status == SG_OK) status = read_tensors(p, &z, &all, e);
    sg_pickle_free(&all);
    sg_zip_close(&z);
    if (status == SG_OK) return sg_source_new(out, &ops, p, e);
    pth_close(p);
    return status;
}

sg_status sg_old_pth_source(sg_source **out, const char *path, sg_error *e)
{
    *out = NULL;
    return sg_error_set(e, SG_E_FORMAT, "%s: a pickle, as torch wrote before 1.6, is not read: convert to safetensors",
                        path);
}
