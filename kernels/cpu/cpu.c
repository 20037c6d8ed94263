/* cpu.c - the backend's life: what the machine has, then the table made of it, then oneDNN's part of it. */
#include "cpu.h"
#include "winograd.h"

#include <omp.h>
#include <stdlib.h>

#ifndef SG_ONEDNN
#define SG_ONEDNN 0
#endif

#if SG_ONEDNN
static sg_status conv(sg_stream *s, const sg_conv_args *a)
{
    return (sg_winograd_takes(s, a) ? sg_cpu_of(s)->plain_conv : sg_cpu_of(s)->library_conv)(s, a);
}
#endif

sg_status sg_cpu_use_library(sg_cpu *c, unsigned features, bool native_bf16)
{
#if SG_ONEDNN
    sg_onednn_close(c);
    c->plain_conv = c->ops.conv;
    const sg_status status = sg_onednn_open(c, features, native_bf16);
    c->native_bf16 = status == SG_OK && sg_onednn_native_bf16(c);
    if (status) return status;
    c->library_conv = c->ops.conv;
    c->ops.conv = conv;
    return SG_OK;
#else
    (void)c, (void)features, (void)native_bf16;
    return SG_E_UNSUPPORTED;
#endif
}

unsigned sg_cpu_library_features(const sg_cpu *c)
{
#if SG_ONEDNN
    if (c->library) return sg_onednn_features(c);
#endif
    return c->features;
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
    if (mask == 0) mask = ~0u;
    c->threads = threads > 0 ? threads : omp_get_max_threads();
    c->pack_limit = pack_limit;
    c->features = sg_cpu_usable(sg_cpu_found() & mask);
    sg_cpu_fill(&c->ops, c->features);
    if (sg_cpu_use_library(c, c->features, multiplies_bf16(c->features)) != SG_E_MEMORY) return c;
    sg_cpu_close(c); /* without oneDNN for want of memory the bits would be others, in silence */
    return NULL;
}

void sg_cpu_close(sg_cpu *c)
{
    if (!c) return;
#if SG_ONEDNN
    sg_onednn_close(c);
#endif
    sg_packs_drop(c);
    sg_cpu_scratch_drop(c);
    free(c);
}
