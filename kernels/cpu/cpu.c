/* cpu.c - which levels this machine has, the table made of them, and the backend's life. */
#include "cpu.h"

#include <cpuid.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SG_ONEDNN
#define SG_ONEDNN 0
#endif

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

sg_cpu_level sg_cpu_machine_level(void)
{
    __builtin_cpu_init(); /* also asks whether the system saves the wide registers */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return SG_CPU_BASE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return SG_CPU_AVX2;
    if (!__builtin_cpu_supports("avx512vnni")) return SG_CPU_AVX512;
    if (!__builtin_cpu_supports("avx512bf16")) return SG_CPU_AVX512_VNNI;
    return has_tiles() ? SG_CPU_AMX : SG_CPU_AVX512_BF16;
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

const char *sg_cpu_level_name(sg_cpu_level level)
{
    static const char *const name[SG_CPU_LEVELS] = {"SSE2", "AVX2", "AVX-512", "AVX-512 VNNI", "AVX-512 BF16", "AMX"};
    return name[level];
}

const char *const sg_cpu_mask_names[] = {"base", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx", "all", NULL};

sg_status sg_cpu_mask_held(unsigned *mask, sg_error *e)
{
    static const char variable[] = "SPARGE_GEN_CPUMASK";
    const char *const name = getenv(variable);
    if (*mask != 0) return SG_OK;
    *mask = ~0u;
    if (!name || !*name) return SG_OK;
    for (int i = 0; sg_cpu_mask_names[i]; i++) {
        *mask = (2u << i) - 1;
        if (strcmp(name, sg_cpu_mask_names[i]) == 0) return SG_OK;
    }
    return sg_error_set(e, SG_E_ARG, "%s: '%s' is not one of base, avx2, avx512, avx512vnni, avx512bf16, amx, all",
                        variable, name);
}

sg_cpu_level sg_cpu_fill(sg_ops *t, unsigned mask)
{
    const sg_cpu_level machine = sg_cpu_machine_level();
    sg_cpu_level       level = SG_CPU_BASE;
    while (level < machine && (mask & (2u << level))) level++;
    sg_move_init(t);
#define X(file, isa) sg_vec_##file##_init_##isa(t);
    SG_VEC_FILES(X, base)
    SG_SPARSE_FILES(X, base)
    if (level >= SG_CPU_AVX2) {
        SG_VEC_FILES(X, avx2)
        SG_SPARSE_FILES(X, avx2)
    }
    if (level >= SG_CPU_AVX512) {
        SG_VEC_FILES(X, avx512)
        SG_SPARSE_FILES(X, avx512)
    }
#undef X
    if (level >= SG_CPU_AVX512_VNNI) sg_vnni_blocks_init(t);
    if (level >= SG_CPU_AVX512_BF16) sg_bf16_attend_init_avx512_bf16(t);
    if (level >= SG_CPU_AMX) {
        sg_bf16_attend_init_amx(t);
        sg_amx_blocks_init(t);
        sg_amx_score_init(t);
    }
    return level;
}

bool sg_cpu_use_library(sg_cpu *c, sg_cpu_level level, bool native_bf16)
{
#if SG_ONEDNN
    sg_onednn_close(c);
    const bool ok = sg_onednn_open(c, level, native_bf16);
    c->native_bf16 = ok && sg_onednn_native_bf16(c);
    return ok;
#else
    (void)c, (void)level, (void)native_bf16;
    return false;
#endif
}

sg_cpu_level sg_cpu_library_level(const sg_cpu *c)
{
#if SG_ONEDNN
    if (c->library) return sg_onednn_level(c);
#endif
    return c->level;
}

/* Whether BF16 products are faster than F32 products. Without tiles Intel's make half as many operations a cycle (measured:
 * 238 to 426 GFLOP/s on two cores of an Emerald Rapids), AMD's twice as many. */
static bool multiplies_bf16(sg_cpu_level level)
{
    return level >= SG_CPU_AMX || (level == SG_CPU_AVX512_BF16 && !__builtin_cpu_is("intel"));
}

sg_cpu *sg_cpu_open(int threads, unsigned mask, size_t pack_limit)
{
    sg_cpu *const c = calloc(1, sizeof *c);
    if (!c) return NULL;
    if (mask == 0) mask = ~0u;
    c->threads = threads > 0 ? threads : omp_get_max_threads();
    c->pack_limit = pack_limit;
    c->level = sg_cpu_fill(&c->ops, mask);
    sg_cpu_use_library(c, c->level, multiplies_bf16(c->level));
    return c;
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
