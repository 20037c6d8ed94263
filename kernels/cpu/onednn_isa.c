/* onednn_isa.c - which oneDNN it is, and which instructions its code may use. */
#include "cpu.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <strings.h>

static unsigned isa_of(const char *name)
{
    static const struct {
        const char    *name;
        dnnl_cpu_isa_t isa;
    } known[] = {
        {"SSE41", dnnl_cpu_isa_sse41},
        {"AVX", dnnl_cpu_isa_avx},
        {"AVX2", dnnl_cpu_isa_avx2},
        {"AVX2_VNNI", dnnl_cpu_isa_avx2_vnni},
        {"AVX512_CORE", dnnl_cpu_isa_avx512_core},
        {"AVX512_CORE_VNNI", dnnl_cpu_isa_avx512_core_vnni},
        {"AVX512_CORE_BF16", dnnl_cpu_isa_avx512_core_bf16},
#if DNNL_VERSION_MAJOR >= 3
        {"AVX2_VNNI_2", dnnl_cpu_isa_avx2_vnni_2},
        {"AVX512_CORE_FP16", dnnl_cpu_isa_avx512_core_fp16},
        {"AVX10_1_512", dnnl_cpu_isa_avx512_core_fp16},
#endif
        {"AVX512_CORE_AMX", dnnl_cpu_isa_avx512_core_amx}
    };
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(name, known[i].name) == 0) return known[i].isa;
    return ~0u;
}

bool sg_onednn_hold(unsigned features, unsigned *used)
{
    static const struct {
        unsigned feature, isa;
    } known[] = {{SG_CPU_AVX2, dnnl_cpu_isa_avx2},
                 {SG_CPU_AVX512, dnnl_cpu_isa_avx512_core},
                 {SG_CPU_VNNI, dnnl_cpu_isa_avx512_core_vnni},
                 {SG_CPU_BF16, dnnl_cpu_isa_avx512_core_bf16},
                 {SG_CPU_AMX, dnnl_cpu_isa_avx512_core_amx}};
    enum { KNOWN = sizeof known / sizeof known[0] };
    const bool lowered = features != sg_cpu_usable(sg_cpu_found());
    unsigned   most = dnnl_cpu_isa_sse41;
    for (int i = 0; i < KNOWN; i++)
        if (features & known[i].feature) most |= known[i].isa;
    if (lowered) (void)dnnl_set_max_cpu_isa((dnnl_cpu_isa_t)(most & isa_of(sg_onednn_most)));
    const unsigned isa = dnnl_get_effective_cpu_isa();
    *used = SG_CPU_BASE;
    for (int i = 0; i < KNOWN; i++)
        if ((isa & known[i].isa) == known[i].isa) *used |= known[i].feature;
    if (lowered && *used & ~features) return false;
    *used &= features;
    return true;
}

void sg_onednn_version(char *text, size_t size)
{
    const dnnl_version_t *const v = dnnl_version();
    snprintf(text, size, "%d.%d.%d", v->major, v->minor, v->patch);
}
