/* cpu_levels.c - the table of levels. */
#include "cpu.h"

#include <string.h>

#define X(file, isa) sg_vec_##file##_init_##isa(t);
static void fill_base(sg_ops *t) { SG_VEC_FILES(X, base) }
static void fill_avx2(sg_ops *t) { SG_VEC_FILES(X, avx2) }
static void fill_avx512(sg_ops *t) { SG_VEC_FILES(X, avx512) }
#undef X

static void fill_amx(sg_ops *t)
{
    sg_bf16_attend_init_amx(t);
    sg_amx_blocks_init(t);
    sg_amx_score_init(t);
}

enum {
    AVX2 = SG_CPU_BASE | SG_CPU_AVX2,
    INT8 = AVX2 | SG_CPU_INT8,
    AVXVNNI = INT8 | SG_CPU_AVXVNNI,
    AVX512 = AVX2 | SG_CPU_AVX512,
    VNNI = AVX512 | SG_CPU_VNNI,
    BF16 = VNNI | SG_CPU_BF16,
    AMX = BF16 | SG_CPU_AMX
};

/* In the order of filling: of two levels that a machine has, the later one wins. */
const sg_cpu_level sg_cpu_levels[SG_CPU_LEVELS] = {
    {"base", "SSE2", SG_CPU_BASE, SG_BF16, fill_base},
    {"avx2f32", "AVX2 with F32 products", AVX2, SG_BF16, fill_avx2},
    {"avx2", "AVX2", INT8, SG_BF16, sg_int8_blocks_init_avx2},
    {"avxvnni", "AVX-VNNI", AVXVNNI, SG_BF16, sg_int8_blocks_init_avx_vnni},
    {"avx512", "AVX-512", AVX512, SG_BF16, fill_avx512},
    {"avx512vnni", "AVX-512 VNNI", VNNI, SG_I8, sg_int8_blocks_init_avx512_vnni},
    {"avx512bf16", "AVX-512 BF16", BF16, SG_I8, sg_bf16_attend_init_avx512_bf16},
    {"amx", "AMX", AMX, SG_BF16, fill_amx},
};

const char *const sg_cpu_mask_names[] = {"base",       "avx2f32",    "avx2", "avxvnni", "avx512",
                                         "avx512vnni", "avx512bf16", "amx",  "all",     NULL};

const char *sg_onednn_most;

unsigned sg_cpu_mask_of(const char *name)
{
    for (int i = 0; i < SG_CPU_LEVELS; i++)
        if (strcmp(name, sg_cpu_levels[i].name) == 0) return sg_cpu_levels[i].needs;
    return strcmp(name, "all") == 0 ? ~0u : 0;
}

unsigned sg_cpu_usable(unsigned features)
{
    unsigned usable = SG_CPU_BASE;
    for (int i = 0; i < SG_CPU_LEVELS; i++)
        if ((sg_cpu_levels[i].needs & ~(features | SG_CPU_BASE)) == 0) usable |= sg_cpu_levels[i].needs;
    return usable;
}

const sg_cpu_level *sg_cpu_level_of(unsigned features)
{
    int top = 0;
    for (int i = 0; i < SG_CPU_LEVELS; i++)
        if ((sg_cpu_levels[i].needs & ~(features | SG_CPU_BASE)) == 0) top = i;
    return &sg_cpu_levels[top];
}

void sg_cpu_fill(sg_ops *t, unsigned features)
{
    sg_data_movement_init(t);
    for (int i = 0; i < SG_CPU_LEVELS; i++)
        if ((sg_cpu_levels[i].needs & ~(features | SG_CPU_BASE)) == 0) sg_cpu_levels[i].fill(t);
}

unsigned sg_cpu_features_of(unsigned mask) { return sg_cpu_usable(sg_cpu_found() & (mask ? mask : ~0u)); }
