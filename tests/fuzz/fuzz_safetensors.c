/* fuzz_safetensors.c - any bytes as a safetensors file: opened, looked through, bound, cut, patched and loaded. */
#include "bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/sg_fuzz_safetensors_XXXXXX";
static char path[64];

static void clean_up(void)
{
    unlink(path);
    rmdir(dir);
}

static void set_up(void)
{
    if (path[0]) return;
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    atexit(clean_up);
}

static void *take(const sg_backend *b, size_t bytes)
{
    (void)b;
    return aligned_alloc(SG_ALIGN, bytes);
}

static void give(const sg_backend *b, void *p)
{
    (void)b;
    free(p);
}

/* Whatever the header says, views must lie within the file. */
static void look_through(const sg_source *w)
{
    uint64_t bytes = 0, sum = 0;
    for (size_t i = 0; i < sg_source_count(w); i++) {
        const sg_tensor   t = sg_source_view(w, i);
        const char *const name = sg_source_at(w, i)->name;
        const uint8_t    *x = t.data;
        if (sg_source_index(w, name) != (int64_t)i) abort();
        if (sg_bytes(t) > sg_source_bytes(w) - bytes) abort();
        bytes += sg_bytes(t);
        for (size_t k = 0; k < sg_bytes(t); k++) sum += x[k];
    }
    if (sum > 255 * bytes) abort();
}

enum { WANTED = 8 };

/* Every tensor as it is and, by a map, some of its rows; patched with the others where their shapes happen to fit. */
static void load_all(const sg_source *w, const sg_backend *backend)
{
    sg_bind        *b = NULL;
    sg_error        e = {0};
    sg_tensor       wanted[2 * WANTED];
    sg_name_rule    rule[WANTED];
    char            name[WANTED][32];
    static unsigned turn;
    const size_t    count = sg_source_count(w) < WANTED ? sg_source_count(w) : WANTED;
    for (size_t i = 0; i < count; i++) {
        const int of = (int)(turn++ % 5), first = (int)(turn % 3);
        snprintf(name[i], sizeof name[i], "cut%zu", i);
        rule[i] = (sg_name_rule){name[i], sg_source_at(w, i)->name, of, {{first, of - first}, {0, first}}};
    }
    const sg_name_map map = {.rules = rule, .count = count};
    if (sg_bind_open(&b, w, turn % 2 ? &map : NULL, &e) != SG_OK) return;
    for (size_t i = 0; i < count; i++) {
        const sg_tensor t = sg_source_view(w, i);
        const sg_dtype  as = turn++ % 2 ? SG_F32 : SG_BF16;
        if (!t.rank) continue;
        sg_bind_tensor_(b, &wanted[i], as, sg_source_at(w, i)->name, t.rank, t.dim);
        if (turn % 4 == 1) sg_bind_tensor_(b, &wanted[WANTED + i], as, name[i], t.rank, t.dim);
    }
    for (size_t i = 0; i < count; i++) {
        const sg_tensor t = sg_source_view(w, i), next = sg_source_view(w, (i + 1) % count);
        const sg_patch  p = {"fuzz", sg_source_at(w, i)->name, 0.5, next, t, turn++ % 2 ? t : (sg_tensor){0}};
        e = (sg_error){0};
        if (sg_bind_patch(b, &p, &e) != SG_OK && e.text[0] == '\0') abort();
    }
    e = (sg_error){0};
    if (sg_bind_load(b, backend, NULL, NULL, &e) != SG_OK && e.text[0] == '\0') abort();
    sg_bind_close(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const sg_memory  memory = {.alloc = take, .release = give};
    static const sg_backend host = {.name = "host", .memory = &memory, .host_memory = true, .threads = 1};
    sg_error                e = {0};
    sg_source              *w = NULL;
    set_up();
    FILE *const f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
    if (sg_source_open_stem(&w, dir, "m", &e) == SG_OK) {
        look_through(w);
        load_all(w, &host);
    } else if (e.text[0] == '\0' || w) {
        abort();
    }
    sg_source_close(&w);
    return 0;
}
