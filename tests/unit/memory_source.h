/* memory_source.h - a tensor source of arrays in memory, and two devices to load it to. */
#ifndef SG_MEMORY_SOURCE_H
#define SG_MEMORY_SOURCE_H

#include "bind.h"
#include "host_memory.h"
#include "source_state.h"
#include "unit.h"

/* ---- two devices: one computes in the host's memory, the other does not ---- */

static const sg_backend devices[] = {{.name = "host", .memory = &host_memory, .host_memory = true, .threads = 2},
                                     {.name = "card", .memory = &host_memory, .threads = 2}};

/* ---- a source ---- */

enum { TENSORS_MAX = 16 };

typedef struct arrays {
    sg_source_tensor tensor[TENSORS_MAX];
    size_t           count;
} arrays;

static const sg_source_type types[SG_DTYPES] = {[SG_F32] = {"F32", SG_F32, 1, 4},
                                                [SG_F16] = {"F16", SG_F16, 1, 2},
                                                [SG_BF16] = {"BF16", SG_BF16, 1, 2},
                                                [SG_U8] = {"U8", SG_U8, 1, 1}};
static const sg_source_type unread = {"IQ2_XS", SG_DTYPES, 256, 74};

static inline sg_source_tensor in_file(const char *name, sg_tensor t)
{
    sg_source_tensor to = {
        .name = name, .type = &types[t.dtype], .data = t.data, .bytes = sg_bytes(t), .rank = t.rank, .file = "arrays"};
    memcpy(to.dim, t.dim, sizeof t.dim);
    return to;
}

/* A pointer to t as a file has it, for the block that it stands in. */
#define IN_FILE(t) ((sg_source_tensor[1]){in_file("", (t))})

static inline void add(arrays *a, const char *name, sg_tensor t)
{
    assert_true(a->count < TENSORS_MAX);
    a->tensor[a->count++] = in_file(name, t);
}

static inline sg_status put_arrays(sg_source **s, const arrays *a, sg_error *e)
{
    SG_TRY(sg_source_new(s, "arrays", e));
    for (size_t i = 0; i < a->count; i++)
        SG_TRY(sg_source_add(*s, a->tensor[i], a->tensor[i].name, strlen(a->tensor[i].name), e));
    SG_TRY(sg_source_add_key(*s, (sg_source_key){.name = "format", .text = "arrays"}, e));
    return sg_source_sort(*s, e);
}

static inline sg_source *open_arrays(const arrays *a)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    if (put_arrays(&s, a, &e)) fail_msg("%s", e.text);
    return s;
}

static inline sg_bind *bind_to(const sg_source *s, const sg_name_map *map)
{
    sg_bind *b = NULL;
    assert_int_equal(sg_bind_open(&b, s, map, NULL), SG_OK);
    return b;
}

static inline void close_both(sg_bind **b, sg_source **s)
{
    sg_bind_close(b);
    sg_source_close(s);
}

static inline void load(sg_bind *b, const sg_backend *device)
{
    sg_error e = {0};
    if (sg_bind_load(b, device, NULL, NULL, &e)) fail_msg("%s", e.text);
}

/* Numbers between -1 and 1, the same in every call. */
static inline sg_tensor numbers(void *data, sg_dtype type, int64_t rows, int64_t row)
{
    uint32_t  seed = 1;
    sg_tensor t = {.data = data, .dtype = type, .rank = 2, .dim = {rows, row}};
    for (int64_t i = 0; i < rows * row; i++) {
        seed = seed * 1664525u + 1013904223u;
        sg_store(&t, i, (float)(seed >> 8) / (1 << 23) - 1);
    }
    return t;
}

#endif
