/* made_file.h - a checkpoint that a test makes: a folder, and files of tensors that are made up from their names. */
#ifndef SG_MADE_FILE_H
#define SG_MADE_FILE_H

#include "checkpoint.h"
#include "made_up.h"
#include "safetensors_write.h"
#include "unit.h"

static sg_checkpoint *from; /* the working directory */

static inline int make_folder(void **state) { return enter_folder(state) || sg_checkpoint_open(&from, ".", NULL); }

static inline int remove_folder(void **state)
{
    sg_checkpoint_close(&from);
    return leave_folder(state);
}

enum { MADE_TENSORS = 256, MADE_ROOM = 1 << 21 };

typedef struct made_file {
    sg_named_tensor t[MADE_TENSORS];
    char            name[MADE_TENSORS][96];
    int             count;
    size_t          used; /* bytes of data */
    _Alignas(8) unsigned char data[MADE_ROOM];
} made_file;

/* One more tensor of that name: number i is made_up(as, i). */
static inline sg_tensor made_file_put(made_file *f, const char *name, const char *as, sg_dtype dtype, int rank,
                                      const int64_t *dim)
{
    char *const own = f->name[f->count];
    sg_tensor   t = {.data = f->data + f->used, .dtype = dtype, .rank = rank};
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    assert_true(f->count < MADE_TENSORS && strlen(name) < sizeof f->name[0] && f->used + sg_bytes(t) <= MADE_ROOM);
    for (int64_t i = 0; i < sg_count(t); i++) sg_store(&t, i, made_up(as, (uint32_t)i));
    f->t[f->count++] = (sg_named_tensor){strcpy(own, name), t};
    f->used += (sg_bytes(t) + 7) / 8 * 8;
    return t;
}

/* Writes it to path; it is empty again. */
static inline void made_file_write(made_file *f, const char *path)
{
    sg_error e = {0};
    make_folders(path);
    if (sg_safetensors_write_all(path, f->t, f->count, NULL, &e)) fail_msg("%s", e.text);
    f->count = 0;
    f->used = 0;
}

#endif
