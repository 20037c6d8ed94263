/* checkkern.c - every entry of every table of the cpu backend against the oracle.
 *
 *     checkkern [--seed N] [--quick] [--bench] [name]
 *
 * name is a part of "level op". A level's entries are tried where they differ from the level below; levels that this
 * machine lacks are listed as skipped. One line an op; exit 1 when anything failed. */
#include "checkkern.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { PACK_ROOM = 1 << 28, LEVELS = SG_CPU_LEVELS + 2 };

#define X(op)                                                                                                          \
    static void  call_##op(sg_stream *s, const void *a) { sg_##op##_(s, a); }                                          \
    static void *entry_##op(const sg_ops *t)                                                                           \
    {                                                                                                                  \
        void *p;                                                                                                       \
        memcpy(&p, &t->op, sizeof p); /* a function as a plain address, only to be compared */                         \
        return p;                                                                                                      \
    }
SG_OPS(X)
#undef X

#define X(op) {.name = #op, .call = call_##op, .entry = entry_##op, .args_size = sizeof(sg_##op##_args)},
static const ck_op ops[] = {SG_OPS(X)};
#undef X
#define X(op) ck_try_##op,
static void (*const tries[])(ck *) = {SG_OPS(X)};
#undef X
enum { OPS = sizeof ops / sizeof ops[0] };

typedef struct options {
    uint64_t    seed;
    bool        quick, bench;
    const char *filter;
} options;

typedef struct totals {
    int passed, failed, skipped;
} totals;

static void level_open(ck_level *l, const char *name, bool there)
{
    l->name = name;
    l->there = there;
    for (int i = 0; there && i < 2; i++) {
        l->cpu[i] = sg_cpu_open(i + 1, 0, PACK_ROOM);
        if (!l->cpu[i]) {
            fprintf(stderr, "checkkern: no memory\n");
            exit(1);
        }
    }
}

/* The plain levels, then what the library puts on top: with BF16 as this machine has it, and with BF16 products forced.
 */
static void levels_open(ck_level level[LEVELS])
{
    static const char *const name[SG_CPU_LEVELS] = {"base", "avx2", "avx512"};
    const sg_cpu_level       machine = sg_cpu_machine_level();
    for (int i = 0; i < SG_CPU_LEVELS; i++) {
        level_open(&level[i], name[i], i <= (int)machine);
        if (level[i].there) sg_cpu_fill(&level[i].ops, (2u << i) - 1);
    }
    ck_level *const plain = &level[SG_CPU_LEVELS], *const bf16 = plain + 1;
    const bool built = level[0].cpu[0]->library != NULL;
    level_open(plain, "onednn", built);
    level_open(bf16, "onednn_bf16", built && machine == SG_CPU_AVX512 && !plain->cpu[0]->native_bf16);
    if (plain->there) plain->ops = plain->cpu[0]->ops;
    for (int i = 0; bf16->there && i < 2; i++) bf16->there = sg_cpu_use_library(bf16->cpu[i], ~0u, true);
    if (bf16->there) bf16->ops = bf16->cpu[0]->ops;
    bf16->may_differ = bf16->emulated = true;
    plain->may_differ = plain->there && plain->cpu[0]->native_bf16;
}

static bool wanted(const options *o, const ck_level *l, const ck_op *op)
{
    char both[128];
    snprintf(both, sizeof both, "%s %s", l->name, op->name);
    return !o->filter || strstr(both, o->filter);
}

static bool is_new(const ck_level *l, const ck_level *below, const ck_op *op)
{
    return !below || op->entry(&l->ops) != op->entry(&below->ops);
}

static bool is_one_of(const char *name, const char *list)
{
    char spaced[32];
    snprintf(spaced, sizeof spaced, " %s ", name);
    return strstr(list, spaced) != NULL;
}

static void run_op(const options *o, ck_level *l, int i, totals *t)
{
    ck c = {.op = &ops[i], .level = l, .quick = o->quick, .random = o->seed * 1000003u + (uint64_t)i};
    c.adds = is_one_of(c.op->name, " gate_add count_bad ");
    c.exact = is_one_of(c.op->name, " copy permute embed upsample dup_up ");
    const double from = omp_get_wtime();
    tries[i](&c);
    const double took = omp_get_wtime() - from;
    if (c.faults == 0) {
        t->passed++;
        printf("ok    %-11s %-9s %4d cases in %5.2f s, worst %.2f of what is allowed\n", l->name, c.op->name, c.cases,
               took, c.worst);
    } else {
        t->failed++;
        printf("FAIL  %-11s %-9s %d faults in %d cases, seed %llu: %s\n", l->name, c.op->name, c.faults, c.cases,
               (unsigned long long)o->seed, c.first);
    }
    fflush(stdout);
}

static void run_level(const options *o, ck_level *l, const ck_level *below, totals *t)
{
    for (int i = 0; i < OPS; i++) {
        if (!wanted(o, l, &ops[i])) continue;
        if (l->there && is_new(l, below, &ops[i])) run_op(o, l, i, t);
    }
    if (!l->there && !o->filter) {
        t->skipped++;
        printf("skip  %-11s this machine or this build lacks it\n", l->name);
    }
}

static void bench_level(const options *o, ck_level *l, const ck_level *below)
{
    for (int i = 0; i < OPS; i++)
        if (wanted(o, l, &ops[i]) && is_new(l, below, &ops[i])) ck_bench(l, ops[i].name);
}

static bool parse(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            o->quick = true;
        else if (strcmp(argv[i], "--bench") == 0)
            o->bench = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            o->seed = strtoull(argv[++i], NULL, 10);
        else if (argv[i][0] != '-' && !o->filter)
            o->filter = argv[i];
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    options o = {.seed = 1};
    if (!parse(&o, argc, argv)) {
        fprintf(stderr, "usage: checkkern [--seed N] [--quick] [--bench] [part of \"level op\"]\n");
        return 2;
    }
    static ck_level level[LEVELS];
    totals          t = {0};
    char            brand[64];
    levels_open(level);
    sg_cpu_brand(brand, sizeof brand);
    printf("%s, seed %llu\n", brand, (unsigned long long)o.seed);
    for (int i = 0; i < LEVELS; i++) {
        const int             top = (int)sg_cpu_machine_level(); /* the library lies on the highest level */
        const ck_level *const below = i == 0 ? NULL : &level[i > top ? top : i - 1];
        if (o.bench && level[i].there) bench_level(&o, &level[i], below);
        if (!o.bench) run_level(&o, &level[i], below, &t);
    }
    if (!o.bench && !o.filter) {
        const int faults = ck_meta();
        t.failed += faults;
        t.passed += faults == 0;
    }
    for (int i = 0; i < LEVELS; i++)
        for (int k = 0; k < 2; k++) sg_cpu_close(level[i].cpu[k]);
    if (!o.bench) printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
    return t.failed != 0;
}
