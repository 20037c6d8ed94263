/* pack.c - packed weights that stay from call to call, and the scratch of the cpu backend. */
#include "cpu.h"

#include <stdlib.h>

static void *aligned(size_t bytes)
{
    if (bytes > SIZE_MAX - SG_ALIGN) return NULL;
    return aligned_alloc(SG_ALIGN, (bytes + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN);
}

void *sg_cpu_scratch(sg_cpu *c, sg_cpu_slot slot, size_t bytes)
{
    sg_cpu_block *const b = &c->block[slot];
    if (bytes == 0) bytes = 1;
    if (b->bytes >= bytes) return b->data;
    free(b->data);
    b->data = aligned(bytes);
    b->bytes = b->data ? bytes : 0;
    return b->data;
}

/* A view's content, sampled: weights that were loaded into the place of others differ almost everywhere. */
static uint64_t fingerprint(const sg_tensor *w)
{
    enum { SAMPLES = 256 };
    const size_t         bytes = sg_bytes(*w), step = bytes / SAMPLES + 1;
    const uint8_t *const p = w->data;
    uint64_t             h = 0xcbf29ce484222325u;
    for (size_t at = 0; at + 4 <= bytes; at += step) {
        uint32_t v;
        memcpy(&v, p + at / 4 * 4, sizeof v);
        h = (h ^ v) * 0x100000001b3u;
    }
    return h;
}

static bool is_of(const sg_pack *p, const sg_tensor *w, uint64_t form)
{
    if (p->data != w->data || p->rank != w->rank || p->dtype != w->dtype || p->form != form) return false;
    return memcmp(p->dim, w->dim, (size_t)w->rank * sizeof w->dim[0]) == 0;
}

/* A free place at the end of the list; NULL when memory is short. */
static sg_pack *grow(sg_cpu *c)
{
    if (c->packs == c->packs_cap) {
        const size_t   cap = c->packs_cap ? 2 * c->packs_cap : 64;
        sg_pack *const more = realloc(c->pack, cap * sizeof *more);
        if (!more) return NULL;
        c->pack = more;
        c->packs_cap = cap;
    }
    return &c->pack[c->packs];
}

void *sg_pack_find(sg_cpu *c, const sg_tensor *w, uint64_t form, size_t bytes, bool *fresh)
{
    const uint64_t print = fingerprint(w);
    for (size_t i = 0; i < c->packs; i++) {
        sg_pack *const p = &c->pack[i];
        if (!is_of(p, w, form)) continue;
        *fresh = p->print != print;
        p->print = print;
        return p->packed;
    }
    *fresh = true;
    sg_pack *const p = c->pack_bytes + bytes <= c->pack_limit ? grow(c) : NULL;
    void *const    packed = p ? aligned(bytes) : NULL;
    if (!packed) return sg_cpu_scratch(c, SG_SLOT_PACK, bytes);
    *p = (sg_pack){.data = w->data, .rank = w->rank, .dtype = w->dtype, .form = form, .print = print, .packed = packed};
    memcpy(p->dim, w->dim, sizeof p->dim);
    c->packs++;
    c->pack_bytes += bytes;
    return packed;
}

void sg_packs_drop(sg_cpu *c)
{
    for (size_t i = 0; i < c->packs; i++) free(c->pack[i].packed);
    free(c->pack);
    c->pack = NULL;
    c->packs = c->packs_cap = c->pack_bytes = 0;
}
