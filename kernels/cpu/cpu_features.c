/* cpu_features.c - what CPUID says, and what Linux has to grant. */
#include "cpu.h"

#include <cpuid.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* AMX with BF16 and INT8 tiles. The tiles are Linux's to grant, to each process once; oneDNN looks for them too. */
static bool has_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25; /* BF16, the tiles, INT8 */
    unsigned       a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return false;
#ifdef SYS_arch_prctl
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Whether AVX2 multiplies bytes (vpmaddubsw, vpmaddwd) at twice the rate of F32. Haswell, Broadwell and AMD's cores before
 * Zen 3 have one port for it, beside two for F32: speeds are then the same, and F32 is exact. */
static bool has_fast_int8(void)
{
    return !__builtin_cpu_is("haswell") && !__builtin_cpu_is("broadwell") && !__builtin_cpu_is("amdfam17h");
}

static bool has_avx_vnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 4;
}

unsigned sg_cpu_found(void)
{
    unsigned found = SG_CPU_BASE;
    __builtin_cpu_init(); /* also asks whether the system saves the wide registers */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found |= SG_CPU_AVX2;
    if (found & SG_CPU_AVX2 && has_fast_int8()) found |= SG_CPU_INT8;
    if (found & SG_CPU_AVX2 && has_avx_vnni()) found |= SG_CPU_AVXVNNI;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        found |= SG_CPU_AVX512;
    if (__builtin_cpu_supports("avx512vnni")) found |= SG_CPU_VNNI;
    if (__builtin_cpu_supports("avx512bf16")) found |= SG_CPU_BF16;
    if (has_tiles()) found |= SG_CPU_AMX;
    return found;
}

void sg_cpu_brand(char *out, size_t size)
{
    unsigned    word[12] = {0};
    char        text[sizeof word + 1] = "";
    const char *from = text;
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &word[4 * i], &word[4 * i + 1], &word[4 * i + 2], &word[4 * i + 3])) break;
    memcpy(text, word, sizeof word);
    while (*from == ' ') from++;
    snprintf(out, size, "%s", *from ? from : "x86-64");
}
