/* packed_weights.c - the cache of packed weights, and the scratch of the cpu backend. */
#include "base/array.h"
#include "cpu.h"
#include "quant.h"

#include <omp.h>
#include <stdlib.h>

static void *aligned(size_t bytes)
{
    if (bytes > SIZE_MAX - SG_ALIGN) return NULL;
    return aligned_alloc(SG_ALIGN, sg_aligned(bytes));
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

void sg_cpu_scratch_drop(sg_cpu *c)
{
    for (int i = 0; i < SG_SLOTS; i++) {
        free(c->block[i].data);
        c->block[i] = (sg_cpu_block){0};
    }
}

static bool is_of(const sg_pack *p, const sg_tensor *w, uint64_t form)
{
    if (p->data != w->data || p->rank != w->rank || p->dtype != w->dtype || p->form != form) return false;
    return memcmp(p->dim, w->dim, (size_t)w->rank * sizeof w->dim[0]) == 0;
}

void *sg_pack_find(sg_cpu *c, const sg_tensor *w, uint64_t form, size_t bytes, bool *fresh)
{
    *fresh = false;
    for (size_t i = 0; i < c->packs; i++)
        if (is_of(&c->pack[i], w, form)) return c->pack[i].packed;
    *fresh = true;
    const bool  fits = c->pack_bytes + bytes <= c->pack_limit && sg_array_reserve(c->pack, c->packs_cap, c->packs + 1);
    void *const packed = fits ? aligned(bytes) : NULL;
    if (!packed) return sg_cpu_scratch(c, SG_SLOT_PACK, bytes);
    sg_pack *const p = &c->pack[c->packs];
    *p = (sg_pack){.data = w->data, .rank = w->rank, .dtype = w->dtype, .form = form, .packed = packed, .bytes = bytes};
    memcpy(p->dim, w->dim, sizeof p->dim);
    c->packs++;
    c->pack_bytes += bytes;
    return packed;
}

void sg_packs_drop(sg_cpu *c, uintptr_t from, size_t bytes)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->packs; i++) {
        const sg_pack p = c->pack[i];
        if ((uintptr_t)p.data - from < bytes) {
            c->pack_bytes -= p.bytes;
            free(p.packed);
        } else {
            c->pack[kept++] = p;
        }
    }
    c->packs = kept;
    if (kept) return;
    free(c->pack);
    c->pack = NULL;
    c->packs_cap = 0;
}

void *sg_cpu_widened(const sg_cpu *c, const sg_tensor *w)
{
    const int64_t rows = w->dim[0], columns = w->dim[1];
    const size_t  size = sg_dtype_size(w->dtype), row = (size_t)columns * size;
    float *const  buffer = w->dtype == SG_BF16 ? malloc((size_t)(c->threads * columns) * sizeof *buffer) : NULL;
    uint8_t      *wide = malloc((size_t)rows * row);
    if (!wide || (w->dtype == SG_BF16 && !buffer)) {
        free(wide);
        wide = NULL;
    }
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int64_t i = 0; i < (wide ? rows : 0); i++) {
        float *const own = buffer ? buffer + omp_get_thread_num() * columns : (float *)(void *)(wide + (size_t)i * row);
        uint16_t *const to = (uint16_t *)(void *)(wide + (size_t)i * row);
        sg_quant_read(own, w, i * columns, columns);
        for (int64_t k = 0; buffer && k < columns; k++) to[k] = sg_f32_to_bf16(own[k]);
    }
    free(buffer);
    return wide;
}
