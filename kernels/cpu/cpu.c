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

sg_cpu_level sg_cpu_machine_level(void)
{
    __builtin_cpu_init(); /* also asks whether the system saves the wide registers */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return SG_CPU_BASE;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? SG_CPU_AVX512 : SG_CPU_AVX2;
}

bool sg_cpu_machine_bf16(void)
{
    unsigned a, b, c, d;
    if (sg_cpu_machine_level() < SG_CPU_AVX512 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || a < 1) return false;
#ifdef SYS_arch_prctl
    enum {
        REQUEST_PERMISSION = 0x1023,
        TILE_DATA = 18
    }; /* the tiles of AMX are Linux's to grant; oneDNN looks for them */
    if (d & (1u << 22)) syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
#endif
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5));
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
    static const char *const name[SG_CPU_LEVELS] = {"SSE2", "AVX2", "AVX-512"};
    return name[level];
}

sg_cpu_level sg_cpu_fill(sg_ops *t, unsigned mask)
{
    const sg_cpu_level machine = sg_cpu_machine_level();
    sg_cpu_level       level = SG_CPU_BASE;
    sg_move_init(t);
#define X(file, isa) sg_vec_##file##_init_##isa(t);
    SG_VEC_FILES(X, base)
    if (machine >= SG_CPU_AVX2 && (mask & (1u << SG_CPU_AVX2))) {
        SG_VEC_FILES(X, avx2)
        level = SG_CPU_AVX2;
    }
    if (machine >= SG_CPU_AVX512 && (mask & (1u << SG_CPU_AVX512))) {
        SG_VEC_FILES(X, avx512)
        level = SG_CPU_AVX512;
    }
#undef X
    return level;
}

bool sg_cpu_use_library(sg_cpu *c, unsigned mask, bool native_bf16)
{
#if SG_ONEDNN
    sg_onednn_close(c);
    const bool ok = sg_onednn_open(c, mask, native_bf16);
    c->native_bf16 = ok && native_bf16;
    return ok;
#else
    (void)c, (void)mask, (void)native_bf16;
    return false;
#endif
}

sg_cpu *sg_cpu_open(int threads, unsigned mask, size_t pack_limit)
{
    sg_cpu *const c = calloc(1, sizeof *c);
    if (!c) return NULL;
    if (mask == 0) mask = ~0u;
    c->threads = threads > 0 ? threads : omp_get_max_threads();
    c->pack_limit = pack_limit;
    c->level = sg_cpu_fill(&c->ops, mask);
    sg_cpu_use_library(c, mask, c->level == SG_CPU_AVX512 && sg_cpu_machine_bf16());
    return c;
}

void sg_cpu_close(sg_cpu *c)
{
    if (!c) return;
#if SG_ONEDNN
    sg_onednn_close(c);
#endif
    sg_packs_drop(c);
    for (int i = 0; i < SG_SLOTS; i++) free(c->block[i].data);
    free(c);
}
