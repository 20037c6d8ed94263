/* cpu.c - the backend's life: what the machine has, then the table made of it, then oneDNN's part of it. */
#include "cpu.h"
#include "host_backend.h"
#include "meta.h"
#include "winograd.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef SG_ONEDNN
#define SG_ONEDNN 0 /* calls of sg_onednn_ are then dead code */
#endif

sg_status sg_cpu_use_library(sg_cpu *c, unsigned features, bool native_bf16)
{
    return SG_ONEDNN ? sg_onednn_open(c, features, native_bf16) : SG_E_UNSUPPORTED;
}

/* Whether BF16 products are faster than F32 products. Without tiles Intel's make half as many operations a cycle (measured:
 * 238 to 426 GFLOP/s on two cores of an Emerald Rapids), AMD's twice as many. */
static bool multiplies_bf16(unsigned features)
{
    return features & SG_CPU_AMX || (features & SG_CPU_BF16 && !__builtin_cpu_is("intel"));
}

sg_cpu *sg_cpu_open(int threads, unsigned mask, size_t pack_limit)
{
    sg_cpu *const c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->threads = threads > 0 ? threads : omp_get_max_threads();
    c->pack_limit = pack_limit;
    c->features = sg_cpu_features_of(mask);
    sg_cpu_fill(&c->ops, c->features);
    if (sg_cpu_use_library(c, c->features, multiplies_bf16(c->features)) != SG_E_MEMORY) return c;
    sg_cpu_close(c); /* without oneDNN for want of memory the bits would be others, in silence */
    return NULL;
}

void sg_cpu_close(sg_cpu *c)
{
    if (!c) return;
    if (SG_ONEDNN) sg_onednn_close(c);
    sg_packs_drop(c, 0, SIZE_MAX);
    sg_cpu_scratch_drop(c);
    free(c);
}

/* ---- as a backend ---- */

static void close_backend(sg_backend *b) { sg_cpu_close(b->impl); }

static size_t packed_bytes(const sg_backend *b)
{
    const sg_cpu *const c = b->impl;
    size_t              bytes = c->pack_bytes;
    for (int i = 0; i < SG_SLOTS; i++) bytes += c->block[i].bytes;
    return bytes;
}

static uint64_t packed_numbers(const sg_backend *b, const sg_tensor *w)
{
    const sg_cpu *const c = b->impl;
    const uint64_t      n = (uint64_t)sg_count(*w);
    return sg_winograd_kernel(w->dim, w->rank) && !(c->native_bf16 && w->dtype == SG_BF16) ? n / 9 * 16 : n;
}

static void limit_packed(sg_backend *b, size_t bytes)
{
    const size_t eighth = b->total_bytes / 8;
    ((sg_cpu *)b->impl)->pack_limit = bytes < eighth ? bytes : eighth;
}

static void served(const sg_backend *b, char *text, size_t size)
{
    sg_fallbacks_describe(&((const sg_cpu *)b->impl)->fallbacks, text, size);
}

static void drop_scratch(sg_backend *b) { sg_cpu_scratch_drop(b->impl); }

static void drop_packed(sg_backend *b, uintptr_t from, size_t bytes) { sg_packs_drop(b->impl, from, bytes); }

/* See onednn.c: which pairs of BF16 are not multiplied as such. */
static bool pairs_up(const sg_tensor *w) { return w->dim[1] % 2 == 0; }

static void count_linear(const sg_backend *b, sg_plan_totals *t, const sg_linear_args *a)
{
    sg_plan_product(t, a->y, a->x, a->w, sg_plan_bf16(b, a->x, a->w) && pairs_up(&a->w));
    if (a->x.dim[0] <= SG_THIN) sg_plan_raise(&t->thin, (size_t)sg_count(a->w));
    if (SG_ONEDNN && ((const sg_cpu *)b->impl)->library) sg_onednn_note_linear(b->impl, a);
}

static void count_conv(const sg_backend *b, sg_plan_totals *t, const sg_conv_args *a)
{
    const sg_cpu *const c = b->impl;
    const bool          bf16 = sg_plan_bf16(b, a->x, a->w), strided = a->stride[0] * a->stride[1] * a->stride[2] > 1;
    if (sg_winograd_takes(c, a)) {
        sg_plan_raise(&t->transformed, sg_winograd_bytes(a, c->threads));
        sg_plan_raise(&t->weight, 4 * (size_t)packed_numbers(b, &a->w));
        return;
    }
    sg_plan_product(t, a->y, a->x, a->w, bf16 && !strided && pairs_up(&a->w));
    if (SG_ONEDNN && c->library) sg_onednn_note_conv(c, a);
    if (!sg_replicates(a)) return;
    const sg_conv_args piece = sg_replicated_piece(a, 0, bf16 ? SG_BF16 : SG_F32);
    sg_plan_raise(&t->staged[0], sg_bytes(piece.x));
    if (piece.y.dim[2] > a->y.dim[2]) sg_plan_raise(&t->staged[1], sg_bytes(piece.y));
}

static void count(const sg_backend *b, sg_plan_totals *t, const char *op, const void *args)
{
    if (strcmp(op, "linear") == 0)
        count_linear(b, t, args);
    else if (strcmp(op, "conv") == 0)
        count_conv(b, t, args);
    else if (strcmp(op, "embed") == 0)
        sg_plan_raise(&t->table, (size_t)sg_count(((const sg_embed_args *)args)->w));
    else
        sg_plan_count(b, t, op, args);
}

sg_status sg_cpu_backend_open(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    char brand[64];
    SG_TRY(sg_host_open(b, "cpu", o, e));
    sg_cpu *const c = sg_cpu_open(o->threads, o->cpu_mask, b->total_bytes / 8);
    if (!c) return sg_error_set(e, SG_E_MEMORY, "no memory for the cpu backend");
    sg_cpu_brand(brand, sizeof brand);
    b->ops = &c->ops;
    b->impl = c;
    b->call = (sg_backend_calls){.close = close_backend,
                                 .served = served,
                                 .count = count,
                                 .packed_bytes = packed_bytes,
                                 .packed_numbers = packed_numbers,
                                 .limit_packed = limit_packed,
                                 .drop_scratch = drop_scratch,
                                 .drop_packed = drop_packed};
    if (SG_ONEDNN && c->library) {
        b->call.code_bytes = sg_onednn_code_bytes;
        b->call.pack = sg_onednn_pack;
    }
    b->threads = c->threads;
    b->dtype = c->native_bf16 ? SG_BF16 : SG_F32;
    b->values = sg_cpu_level_of(c->features)->values;
    b->packs = true;
    snprintf(b->device, sizeof b->device, "%s, %s%s, %d thread%s", brand, sg_cpu_level_of(c->features)->label,
             c->library ? ", oneDNN" : "", c->threads, c->threads == 1 ? "" : "s");
    return SG_OK;
}
