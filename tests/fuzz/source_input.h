/* source_input.h - what must hold of every source of tensors that opened: looked through, bound, cut, patched and loaded. */
#ifndef SG_FUZZ_SOURCE_INPUT_H
#define SG_FUZZ_SOURCE_INPUT_H

#include "bind.h"

#include <stdio.h>
#include <stdlib.h>

static void *source_take(const sg_backend *b, size_t bytes)
{
    (void)b;
    return aligned_alloc(SG_ALIGN, bytes);
}

static void source_give(const sg_backend *b, void *p)
{
    (void)b;
    free(p);
}

/* Whatever the header says, tensors must lie within the file, each no larger than it, and all of them together where none
 * shares bytes with another. */
static void source_look_through(const sg_source *w, bool apart)
{
    uint64_t bytes = 0, sum = 0;
    for (size_t i = 0; i < sg_source_count(w); i++) {
        const sg_source_tensor *const t = sg_source_at(w, i);
        if (sg_source_index(w, t->name) != (int64_t)i) abort();
        if (t->bytes > sg_source_bytes(w) - (apart ? bytes : 0)) abort();
        bytes += t->bytes;
        if (!apart && bytes > 8 * sg_source_bytes(w)) continue; /* a thousand views of one storage tell nothing more */
        for (size_t k = 0; k < t->bytes; k++) sum += t->data[k];
    }
    if (sum > 255 * bytes) abort();
}

enum { SOURCE_WANTED = 8 };

/* Some tensors as they are and, by a map, some of their rows; patched with the others where their shapes happen to fit. */
static void source_load(const sg_source *w)
{
    static const sg_memory  memory = {.alloc = source_take, .release = source_give};
    static const sg_backend host = {.name = "host", .memory = &memory, .host_memory = true, .threads = 1};
    sg_bind                *b = NULL;
    sg_error                e = {0};
    sg_tensor               wanted[2 * SOURCE_WANTED];
    sg_name_rule            rule[SOURCE_WANTED];
    char                    name[SOURCE_WANTED][32];
    static unsigned         turn;
    const size_t            count = sg_source_count(w) < SOURCE_WANTED ? sg_source_count(w) : SOURCE_WANTED;
    for (size_t i = 0; i < count; i++) {
        const int of = (int)(turn++ % 5), first = (int)(turn % 3);
        snprintf(name[i], sizeof name[i], "cut%zu", i);
        rule[i] = (sg_name_rule){name[i], sg_source_at(w, i)->name, of, {{first, of - first}, {0, first}}};
    }
    const sg_name_map map = {.rules = rule, .count = count};
    if (sg_bind_open(&b, w, turn % 2 ? &map : NULL, &e) != SG_OK) return;
    for (size_t i = count; i < sg_source_count(w) && i < 2 * SOURCE_WANTED; i++)
        sg_bind_ignore(b, sg_source_at(w, i)->name);
    for (size_t i = 0; i < count; i++) {
        const sg_source_tensor *const t = sg_source_at(w, i);
        const sg_dtype                as = turn++ % 2 ? SG_F32 : SG_BF16;
        const sg_bind_rows            rows = sg_bind_peek(b, t->name);
        if (t->rank == 0) continue;
        if (rows.rank && rows.row && rows.row < 4096 && rows.dim[0])
            (void)sg_bind_row(&rows, rows.dim[0] - 1, (float[4096]){0});
        sg_bind_tensor_(b, &wanted[i], as, t->name, t->rank, t->dim);
        if (turn % 4 == 1) sg_bind_tensor_(b, &wanted[SOURCE_WANTED + i], as, name[i], t->rank, t->dim);
    }
    for (size_t i = 0; i < count; i++) {
        const sg_source_tensor *const t = sg_source_at(w, i), *const next = sg_source_at(w, (i + 1) % count);
        const sg_factor forms[][2] = {{{t, NULL}}, {{next, t}}, {{t, NULL}, {next, NULL}}, {{next, t}, {t, next}}};
        const sg_factor *const form = forms[turn++ % 4];
        const sg_patch         p = {"fuzz", t->name, NULL, 0.5, {form[0], form[1]}};
        e = (sg_error){0};
        if (sg_bind_patch(b, &p, &e) != SG_OK && e.text[0] == '\0') abort();
    }
    e = (sg_error){0};
    if (sg_bind_load(b, &host, NULL, NULL, &e) != SG_OK && e.text[0] == '\0') abort();
    sg_bind_close(&b);
}

#endif
