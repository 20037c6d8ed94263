/* source_input.h - what must hold of every source of tensors that opened: looked through, bound, cut, patched and loaded;
 * quantised matrices as they are and widened. */
#ifndef SG_FUZZ_SOURCE_INPUT_H
#define SG_FUZZ_SOURCE_INPUT_H

#include "../unit/host_memory.h"
#include "bind.h"
#include "quant.h"

#include <math.h>
#include <stdio.h>

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
    static const sg_backend host = {.name = "host", .memory = &host_memory, .host_memory = true, .threads = 1};
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

/* Row o of a matrix that stays as the file has it, and of the same that is converted: equal numbers; with a LoRA beside
 * the first, of F32, within the rounding of the sums. */
static void source_compare_row(const sg_tensor *kept, const sg_tensor *wide, int64_t o, float *row)
{
    const sg_adapter *const a = kept->adapter;
    const int64_t           n = kept->dim[1], rank = a ? a->down.dim[0] : 0;
    if (kept->quant.type) sg_quant_read(row, kept, o * n, n);
    for (int64_t i = 0; i < n; i++) {
        const float x = kept->quant.type ? row[i] : sg_load(kept, o * n + i), y = sg_load(wide, o * n + i);
        double      sum = x, apart = 0;
        if (!isfinite(x) || !isfinite(y)) abort();
        for (int64_t r = 0; r < rank; r++) {
            const double u = sg_load(&a->up, o * rank + r), d = sg_load(&a->down, r * n + i);
            sum += u * d;
            apart += fabs(u * d) * 1e-6 + fabs(d) * 0x1p-148 + 0x1p-140; /* the last two where numbers are subnormal */
        }
        if (a ? kept->dtype == SG_F32 && fabs(sum - y) > (fabs(x) * 1e-6 + apart) * (double)(rank + 1) : x != y)
            abort();
    }
}

/* Row o of a matrix that is packed with its LoRA, and of the same that is widened: packed, that is the same. */
static void source_compare_packed(const sg_tensor *packed, const sg_tensor *wide, int64_t o)
{
    const size_t   n = (size_t)wide->dim[1], bytes = sg_quant_bytes(SG_QUANT_Q8_0, wide->dim[1]);
    uint8_t *const row = malloc(bytes);
    if (!row || packed->quant.type != SG_QUANT_Q8_0) abort();
    if (!sg_quant_pack(row, (const float *)wide->data + (size_t)o * n, n)) abort();
    if (memcmp(row, (const uint8_t *)packed->data + (size_t)o * bytes, bytes) != 0) abort();
    free(row);
}

/* A matrix kept and converted; lora (may be NULL) is added to both. Where one is refused, so is the other, but for sums
 * that are too large, which the first does not make. */
static void source_keep(const sg_source *w, const sg_source_tensor *t, const sg_factor *lora, unsigned turn)
{
    const sg_backend device = {.name = "device", .memory = &host_memory, .host_memory = turn & 1, .threads = 1};
    sg_bind         *b[2];
    sg_tensor        m[2];
    sg_status        status[2];
    const bool       merge = lora && turn & 8;
    float *const     row = malloc((size_t)t->dim[1] * sizeof *row + 1);
    for (int k = 0; k < 2; k++) {
        sg_error e = {0};
        if (!row || sg_bind_open(&b[k], w, NULL, &e) != SG_OK) abort();
        sg_bind_ignore(b[k], ""); /* everything else */
        sg_bind_pairs(b[k], turn & 2 && t->dim[0] % 2 == 0 ? t->dim[0] : 0);
        sg_bind_matrix(b[k], &m[k], turn & 4 ? SG_F32 : SG_BF16, t->name, t->dim[0], t->dim[1]);
        const sg_patch p = {"fuzz", t->name, NULL, 0.5, {lora ? *lora : (sg_factor){0}}};
        if (lora && sg_bind_patch(b[k], &p, &e) != SG_OK) abort();
        sg_bind_keep_types(b[k], k == 0);
        sg_bind_merge(b[k], merge);
        status[k] = sg_bind_load(b[k], &device, NULL, NULL, &e);
        if (status[k] && e.text[0] == '\0') abort();
    }
    if (!lora && status[0] != status[1]) abort();
    for (int64_t o = 0; !status[0] && !status[1] && o < t->dim[0]; o++)
        if (!merge || !m[0].quant.type)
            source_compare_row(&m[0], &m[1], o, row);
        else if (m[1].dtype == SG_F32)
            source_compare_packed(&m[0], &m[1], o);
    sg_bind_close(&b[0]);
    sg_bind_close(&b[1]);
    free(row);
}

static bool source_is_matrix(const sg_source_tensor *t)
{
    return t->rank == 2 && t->dim[0] > 0 && t->dim[1] > 0 && t->bytes > 0;
}

/* Every quantised matrix, by itself and with what happens to be a LoRA of it. */
static void source_keep_all(const sg_source *w)
{
    static unsigned turn;
    const size_t    count = sg_source_count(w) < SOURCE_WANTED ? sg_source_count(w) : SOURCE_WANTED;
    for (size_t i = 0; i < count; i++) {
        const sg_source_tensor *const t = sg_source_at(w, i);
        if (!source_is_matrix(t) || !sg_quant_of(t->type->name)) continue;
        source_keep(w, t, NULL, turn++);
        for (size_t k = 0; k < count * count; k++) {
            const sg_source_tensor *const up = sg_source_at(w, k / count), *const down = sg_source_at(w, k % count);
            if (source_is_matrix(up) && source_is_matrix(down) && up->type->dtype < SG_I32 &&
                down->type->dtype < SG_I32 && up->dim[0] == t->dim[0] && up->dim[1] == down->dim[0] &&
                down->dim[1] == t->dim[1])
                source_keep(w, t, &(sg_factor){up, down}, turn++);
        }
    }
}

#endif
