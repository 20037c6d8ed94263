/* gguf_file.h - a GGUF that a test writes: keys, then tensors of F32, F16, BF16 or Q8_0. */
#ifndef SG_GGUF_FILE_H
#define SG_GGUF_FILE_H

#include "quant.h"
#include "safetensors_write.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* A text; a number as U32 or F32; a list of texts; a list of numbers as I32. */
typedef struct gguf_key {
    const char *name;
    char        kind; /* 's', 'u', 'f', 'S', 'I'; 0: the key is left out */
    const char *text;
    double      number;
    json_t     *list;
} gguf_key;

static inline void gguf_put(FILE *f, uint64_t n, int bytes)
{
    for (int i = 0; i < bytes; i++) fputc((int)(n >> (8 * i) & 255), f);
}

static inline void gguf_text(FILE *f, const char *text)
{
    gguf_put(f, strlen(text), 8);
    fputs(text, f);
}

static inline void gguf_float(FILE *f, double x)
{
    const float y = (float)x;
    uint32_t    bits;
    memcpy(&bits, &y, 4);
    gguf_put(f, bits, 4);
}

static inline void gguf_list(FILE *f, const gguf_key *k)
{
    enum { I32 = 5, TEXT = 8 };
    gguf_put(f, k->kind == 'S' ? TEXT : I32, 4);
    gguf_put(f, json_array_size(k->list), 8);
    for (size_t i = 0; i < json_array_size(k->list); i++) {
        const json_t *const one = json_array_get(k->list, i);
        if (k->kind == 'S')
            gguf_text(f, json_string_value(one));
        else
            gguf_put(f, (uint64_t)json_integer_value(one), 4);
    }
}

static inline void gguf_write_key(FILE *f, const gguf_key *k)
{
    enum { U32 = 4, F32 = 6, TEXT = 8, LIST = 9 };
    gguf_text(f, k->name);
    gguf_put(f, k->kind == 's' ? TEXT : k->kind == 'u' ? U32 : k->kind == 'f' ? F32 : LIST, 4);
    if (k->kind == 's')
        gguf_text(f, k->text);
    else if (k->kind == 'u')
        gguf_put(f, (uint64_t)k->number, 4);
    else if (k->kind == 'f')
        gguf_float(f, k->number);
    else
        gguf_list(f, k);
}

static inline void gguf_write(const char *path, const gguf_key *key, int keys, const sg_named_tensor *tensor, int count)
{
    FILE *const f = fopen(path, "wb");
    uint64_t    at = 0, there = 0;
    assert_non_null(f);
    for (int i = 0; i < keys; i++) there += key[i].kind != 0;
    gguf_put(f, 0x46554747, 4); /* "GGUF" */
    gguf_put(f, 3, 4);
    gguf_put(f, (uint64_t)count, 8);
    gguf_put(f, there, 8);
    for (int i = 0; i < keys; i++)
        if (key[i].kind) gguf_write_key(f, &key[i]);
    for (int i = 0; i < count; i++) {
        const sg_tensor *const t = &tensor[i].t;
        const bool             q8_0 = t->quant.type == SG_QUANT_Q8_0;
        assert_true(q8_0 || t->dtype == SG_F32 || t->dtype == SG_F16 || t->dtype == SG_BF16);
        gguf_text(f, tensor[i].name);
        gguf_put(f, (uint64_t)t->rank, 4);
        for (int k = t->rank; k-- > 0;) gguf_put(f, (uint64_t)t->dim[k], 8);
        gguf_put(f, q8_0 ? 8 : t->dtype == SG_F32 ? 0 : t->dtype == SG_F16 ? 1 : 30, 4);
        gguf_put(f, at, 8);
        at += (sg_bytes(*t) + 31) / 32 * 32;
    }
    while (ftell(f) % 32) fputc(0, f);
    for (int i = 0; i < count; i++) {
        assert_int_equal(fwrite(tensor[i].t.data, 1, sg_bytes(tensor[i].t), f), sg_bytes(tensor[i].t));
        while (ftell(f) % 32) fputc(0, f);
    }
    assert_int_equal(fclose(f), 0);
}

#endif
