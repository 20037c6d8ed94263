/* lora_file.h - safetensors files of many tensors, put together in memory and written. */
#ifndef SG_LORA_FILE_H
#define SG_LORA_FILE_H

#include "backend.h"
#include "base/array.h"
#include "base/text.h"
#include "family.h"
#include "lora.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct lora_file {
    sg_textbuf header;
    uint8_t   *data;
    size_t     size, room;
} lora_file;

/* A tensor of that type, as a file spells it; name needs no escapes. */
static inline void lora_put(lora_file *f, const char *name, const char *type, int rank, const int64_t *dim,
                            const void *data, size_t bytes)
{
    sg_textbuf_printf(&f->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", f->header.len ? "," : "", name, type);
    for (int i = 0; i < rank; i++) sg_textbuf_printf(&f->header, "%s%" PRId64, i ? "," : "", dim[i]);
    sg_textbuf_printf(&f->header, "],\"data_offsets\":[%zu,%zu]}", f->size, f->size + bytes);
    if (!sg_array_reserve(f->data, f->room, f->size + bytes + 1)) abort();
    if (bytes) memcpy(f->data + f->size, data, bytes);
    f->size += bytes;
}

/* metadata: a JSON object, or NULL. Empties f. */
static inline void lora_save(lora_file *f, const char *path, const char *metadata)
{
    sg_textbuf all = {0};
    sg_textbuf_printf(&all, "{%s%s%s%s}", metadata ? "\"__metadata__\":" : "", metadata ? metadata : "",
                      metadata && f->header.len ? "," : "", f->header.len ? f->header.data : "");
    while (all.len % 8) sg_textbuf_put(&all, " ", 1);
    const uint64_t n = all.len;
    FILE *const    to = fopen(path, "wb");
    if (all.failed || f->header.failed || !to || fwrite(&n, sizeof n, 1, to) != 1 ||
        fwrite(all.data, 1, all.len, to) != all.len ||
        fwrite(f->data ? f->data : (uint8_t *)"", 1, f->size, to) != f->size || fclose(to) != 0)
        abort();
    sg_textbuf_free(&all);
    sg_textbuf_free(&f->header);
    free(f->data);
    *f = (lora_file){.size = 0};
}

/* Small numbers of rank 2 for every matrix of the blocks of the weights at `of`, by their names there; metadata as above. */
static inline void lora_save_for(const char *of, const char *path, const char *metadata)
{
    enum { RANK = 2, MOST = 4096 };
    static float x[MOST];
    lora_file    f = {.size = 0};
    sg_source   *s = NULL;
    for (int i = 0; i < MOST; i++) x[i] = (float)(i * 7 % 23 - 11) / 64;
    if (sg_source_open(&s, of, NULL) != SG_OK) abort();
    for (size_t i = 0; i < sg_source_count(s); i++) {
        const sg_source_tensor *const t = sg_source_at(s, i);
        char                          key[160];
        const int                     n = (int)strlen(t->name) - (int)strlen(".weight");
        if (t->rank != 2 || strncmp(t->name, "blocks.", 7) != 0 || RANK * (t->dim[0] + t->dim[1]) + (int64_t)i > MOST)
            continue;
        snprintf(key, sizeof key, "%.*s.lora_A.weight", n, t->name);
        lora_put(&f, key, "F32", 2, (int64_t[]){RANK, t->dim[1]}, x, RANK * (size_t)t->dim[1] * sizeof *x);
        snprintf(key, sizeof key, "%.*s.lora_B.weight", n, t->name);
        lora_put(&f, key, "F32", 2, (int64_t[]){t->dim[0], RANK}, x + i, RANK * (size_t)t->dim[0] * sizeof *x);
    }
    sg_source_close(&s);
    lora_save(&f, path, metadata);
}

/* The weights at `from` as F32 with strength times the LoRA, to a file `to`; NULL: nowhere. */
static inline sg_status lora_merge(const char *from, const char *lora, double strength, const char *to, sg_error *e)
{
    enum { MOST = 256 };
    static sg_tensor tensor[MOST];
    sg_source       *s = NULL;
    sg_bind         *b = NULL;
    sg_lora         *l = NULL;
    sg_backend      *backend = NULL;
    lora_file        f = {.size = 0};
    sg_status        status = sg_source_open(&s, from, e);
    if (status == SG_OK) status = sg_backend_open(&backend, &(sg_backend_options){.name = "ref", .threads = 1}, e);
    if (status == SG_OK) status = sg_bind_open(&b, s, NULL, e);
    if (status == SG_OK) status = sg_lora_open(&l, lora, 1, e);
    const size_t count = status != SG_OK ? 0 : sg_source_count(s) < MOST ? sg_source_count(s) : MOST;
    for (size_t i = 0; i < count; i++) {
        const sg_source_tensor *const t = sg_source_at(s, i);
        sg_bind_tensor_(b, &tensor[i], SG_F32, t->name, t->rank, t->dim);
    }
    if (status == SG_OK) status = sg_lora_add(l, b, "transformer", sg_files_wan.names, strength, e);
    if (status == SG_OK) status = sg_bind_load(b, backend, NULL, NULL, e);
    for (size_t i = 0; to && status == SG_OK && i < count; i++)
        lora_put(&f, sg_source_at(s, i)->name, "F32", tensor[i].rank, tensor[i].dim, tensor[i].data,
                 sg_bytes(tensor[i]));
    if (to && status == SG_OK) lora_save(&f, to, NULL);
    sg_bind_close(&b);
    sg_lora_close(&l);
    sg_source_close(&s);
    sg_backend_close(&backend);
    return status;
}

#endif
