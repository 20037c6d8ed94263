/* checkkern.c - every entry of every table of a backend against the oracle.
 *
 *     checkkern [--backend NAME] [--cpumask LEVEL] [--gpumask LEVEL] [--seed N] [--quick | --all] [--skip OPS] [name]
 *     checkkern --bench [--cpumask LEVEL] [name]
 *     checkkern --large [--backend NAME]
 *
 * name is a part of "level op". The cpu backend, which is the default, has levels: entries are tried where they differ
 * from the level below, and levels that this machine lacks are listed as skipped. --cpumask, or the variable
 * SPARGE_GEN_CPUMASK, keeps the whole process, oneDNN in it, at and below a level: the library can be limited only once,
 * before it first generates code, so that what it would do on a lesser machine takes a run of its own. The cuda backend's
 * levels are one after the other what the same device runs as, up to --gpumask, and without that cuDNN wherever it can.
 * --quick tries a part of the cases, as is tried of an entry that a higher level of this machine replaces; --all tries
 * all, those too that take long. --skip leaves out the ops that its one argument names.
 * --large tries attention on tensors of more than 2^31 elements, which takes 7 GB of the device's memory and of the host's.
 * One line an op; exit 1 when anything failed. */
#include "checkkern.h"
#include "../held.h"

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
    bool        quick, all, large, bench;
    const char *filter, *backend; /* NULL: all; cpu, level by level */
    const char *skip;             /* ops to leave out */
    unsigned    features;         /* of the CPU, to be used */
    int         gpu_top;          /* the highest level of the GPU's to be used: its place among the names, from 1 up */
} options;

/* What a level of the GPU may do otherwise than that below, in the order of their names from 1 up: FP8 from sm89 up, wgmma
 * from sm90 up. NULL: everything is new. */
static const char *const gpu_ops[] = {NULL, NULL, " quantise attend_blocks ", " attend_blocks "};
enum { GPU_OWN, GPU_FIRST, GPU_LEVELS = sizeof gpu_ops / sizeof gpu_ops[0] };
static const char *const dnn_ops = " linear attend conv "; /* what cuDNN may serve */

typedef struct totals {
    int passed, failed, skipped;
} totals;

static void level_open(ck_level *l, const char *name, bool there, unsigned features)
{
    l->name = name;
    l->there = there;
    for (int i = 0; there && i < 2; i++) {
        l->cpu[i] = sg_cpu_open(i + 1, features, PACK_ROOM);
        if (!l->cpu[i]) {
            fprintf(stderr, "checkkern: no memory\n");
            exit(1);
        }
    }
}

static void library_open(ck_level *l, unsigned features, bool native_bf16)
{
    for (int i = 0; l->there && i < 2; i++) l->there = sg_cpu_use_library(l->cpu[i], features, native_bf16) == SG_OK;
    if (l->there && native_bf16) l->there = l->cpu[0]->native_bf16;
    if (l->there) l->ops = l->cpu[0]->ops;
    l->changes = " conv ";
}

/* The plain levels, then what the library puts on top of the highest: all in F32, and BF16 products as such, which a
 * machine without them emulates from AVX-512 on. */
static void levels_open(ck_level level[LEVELS], unsigned features)
{
    for (int i = 0; i < SG_CPU_LEVELS; i++) {
        const unsigned needs = sg_cpu_levels[i].needs;
        level_open(&level[i], sg_cpu_levels[i].name, (needs & ~features) == 0, features);
        if (level[i].there) sg_cpu_fill(&level[i].ops, needs);
        for (int k = 0; level[i].there && k < 2; k++)
            if (sg_cpu_use_library(level[i].cpu[k], SG_CPU_BASE, false) == SG_OK)
                exit(1); /* closes it, for it wants AVX2 */
    }
    ck_level *const plain = &level[SG_CPU_LEVELS], *const bf16 = plain + 1;
    level_open(plain, "onednn", true, features);
    level_open(bf16, "onednn_bf16", true, features);
    library_open(plain, features, false);
    library_open(bf16, features, true);
    bf16->may_differ = true;
    bf16->emulated = bf16->there && !(bf16->cpu[0]->library_features & SG_CPU_AMX);
}

static bool is_one_of(const char *name, const char *list)
{
    const size_t length = strlen(name);
    for (const char *p = strstr(list, name); p; p = strstr(p + 1, name))
        if ((p == list || p[-1] == ' ') && (p[length] == ' ' || !p[length])) return true;
    return false;
}

static bool wanted(const options *o, const ck_level *l, const ck_op *op)
{
    char both[128];
    snprintf(both, sizeof both, "%s %s", l->name, op->name);
    if (is_one_of(op->name, o->skip)) return false;
    return !o->filter || strstr(both, o->filter);
}

static bool is_new(const ck_level *l, const ck_level *below, const ck_op *op)
{
    if (l->changes && is_one_of(op->name, l->changes)) return true;
    if (l->backend) return !l->changes;
    return !below || op->entry(&l->ops) != op->entry(&below->ops);
}

/* Does a higher level of this machine have an entry of its own? */
static bool is_superseded(const ck_level *l, const ck_op *op)
{
    sg_ops used = {0};
    bool   plain = false;
    for (int i = 0; i < SG_CPU_LEVELS; i++) plain = plain || strcmp(l->name, sg_cpu_levels[i].name) == 0;
    if (l->backend || !plain) return false;
    sg_cpu_fill(&used, l->cpu[0]->features);
    return op->entry(&used) != op->entry(&l->ops);
}

static void run_op(const options *o, ck_level *l, int i, totals *t)
{
    ck c = {.op = &ops[i], .level = l, .all = o->all, .random = o->seed * 1000003u + (uint64_t)i};
    c.quick = o->quick || (!o->all && is_superseded(l, &ops[i]));
    c.exact = is_one_of(c.op->name, " copy strided_copy permute embed upsample dup_up quantise ");
    const double from = omp_get_wtime();
    tries[i](&c);
    const double took = omp_get_wtime() - from;
    if (c.faults == 0) {
        t->passed++;
        printf("ok    %-11s %-13s %4d cases in %5.2f s, worst %.2f of what is allowed\n", l->name, c.op->name, c.cases,
               took, c.worst);
    } else {
        t->failed++;
        printf("FAIL  %-11s %-13s %d faults in %d cases, seed %llu: %s\n", l->name, c.op->name, c.faults, c.cases,
               (unsigned long long)o->seed, c.first);
    }
    fflush(stdout);
}

static void run_level(const options *o, ck_level *l, const ck_level *below, totals *t)
{
    for (int i = 0; i < OPS; i++) {
        if (!wanted(o, l, &ops[i])) continue;
        if (l->there && !ops[i].entry(&l->ops)) {
            t->skipped++;
            printf("skip  %-11s %-13s this backend lacks it\n", l->name, ops[i].name);
        } else if (l->there && is_new(l, below, &ops[i])) {
            run_op(o, l, i, t);
        }
    }
    if (!l->there && !o->filter) {
        t->skipped++;
        printf("skip  %-11s this machine or this build lacks it, or is held below it\n", l->name);
    }
}

static void bench_level(const options *o, ck_level *l, const ck_level *below)
{
    for (int i = 0; i < OPS; i++)
        if (wanted(o, l, &ops[i]) && is_new(l, below, &ops[i])) ck_bench(l, ops[i].name);
}

/* Level by level, then what is around the kernels. */
static void run_cpu(const options *o, totals *t)
{
    static ck_level level[LEVELS];
    const ck_level *below = NULL; /* the last that is there, without the library */
    char            brand[64];
    levels_open(level, o->features);
    sg_cpu_brand(brand, sizeof brand);
    printf("%s, up to %s, seed %llu\n", brand, sg_cpu_level_of(o->features)->label, (unsigned long long)o->seed);
    for (int i = 0; i < LEVELS; i++) {
        if (o->bench && level[i].there) bench_level(o, &level[i], below);
        if (!o->bench) run_level(o, &level[i], below, t);
        if (i < SG_CPU_LEVELS && level[i].there) below = &level[i];
    }
    if (!o->bench && !o->filter) {
        const int faults = ck_meta(o->features);
        t->failed += faults;
        t->passed += faults == 0;
    }
    for (int i = 0; i < LEVELS; i++)
        for (int k = 0; k < 2; k++) sg_cpu_close(level[i].cpu[k]);
}

/* Tries the ops in `changes` on a backend as a level; as GPU_OWN, those that cuDNN serves, by it. False: e says why not. */
static bool run_backend(const options *o, int as, const char *changes, totals *t, sg_error *e)
{
    const bool               dnn = as == GPU_OWN && changes;
    const unsigned           mask = as == GPU_OWN ? 0 : sg_gpu_mask_of(sg_gpu_level_names[as - 1]);
    const sg_backend_options how = {.name = o->backend, .gpu_mask = mask, .dnn_min_macs = dnn};
    ck_level                 level = {.there = true, .changes = changes, .aligned = dnn};
    char                     served[256];
    if (sg_backend_open(&level.backend, &how, e)) return false;
    level.name = as ? sg_gpu_level_names[as - 1] : dnn ? "cudnn" : level.backend->name;
    level.ops = *level.backend->ops;
    printf("%s, seed %llu\n", level.backend->device, (unsigned long long)o->seed);
    run_level(o, &level, NULL, t);
    sg_backend_served(level.backend, served, sizeof served);
    if (served[0]) printf("      %s\n", served);
    sg_backend_close(&level.backend);
    return true;
}

static void stop(const sg_error *e)
{
    fprintf(stderr, "checkkern: %s\n", e->text);
    exit(1);
}

/* Levels above the device's are skipped; one that does not open for another reason, or no device at all, ends the run. */
static void run_named(const options *o, totals *t)
{
    const bool cuda = strcmp(o->backend, "cuda") == 0;
    for (int i = cuda ? GPU_FIRST : GPU_OWN; i <= (cuda ? o->gpu_top : GPU_OWN); i++) {
        sg_error e = {0};
        if (run_backend(o, i, gpu_ops[i], t, &e)) continue;
        if (i <= GPU_FIRST || e.code != SG_E_UNSUPPORTED) stop(&e);
        t->skipped++;
        printf("skip  %-11s %s\n", sg_gpu_level_names[i - 1], e.text);
    }
    sg_error e = {0};
    if (cuda && o->gpu_top == GPU_LEVELS - 1 && !run_backend(o, GPU_OWN, dnn_ops, t, &e)) stop(&e);
}

/* 0: there is none of that name. */
static int gpu_top_of(const char *name)
{
    for (int i = 0; sg_gpu_level_names[i]; i++)
        if (strcmp(name, sg_gpu_level_names[i]) == 0) return i + 1;
    return 0;
}

static bool parse(options *o, int argc, char **argv)
{
    const unsigned held = held_mask();
    unsigned       mask = 0;
    bool           named = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            o->quick = true;
        else if (strcmp(argv[i], "--all") == 0)
            o->all = true;
        else if (strcmp(argv[i], "--large") == 0)
            o->large = true;
        else if (strcmp(argv[i], "--bench") == 0)
            o->bench = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            o->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--skip") == 0 && i + 1 < argc)
            o->skip = argv[++i];
        else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc)
            o->backend = argv[++i];
        else if (strcmp(argv[i], "--cpumask") == 0 && i + 1 < argc)
            mask = sg_cpu_mask_of(argv[++i]), named = true;
        else if (strcmp(argv[i], "--gpumask") == 0 && i + 1 < argc)
            o->gpu_top = gpu_top_of(argv[++i]);
        else if (argv[i][0] != '-' && !o->filter)
            o->filter = argv[i];
        else
            return false;
    }
    if (o->backend && strcmp(o->backend, "cpu") == 0) o->backend = NULL;
    o->features = sg_cpu_features_of(mask ? mask : held);
    return (mask || !named) && o->gpu_top > 0 && !(o->backend && o->bench);
}

int main(int argc, char **argv)
{
    options o = {.seed = 1, .skip = "", .gpu_top = GPU_LEVELS - 1};
    totals  t = {0};
    if (!parse(&o, argc, argv)) {
        fprintf(stderr, "usage: checkkern [--backend NAME] [--cpumask LEVEL] [--gpumask sm80|sm89|sm90] [--seed N]\n"
                        "                 [--quick | --all] [--skip OPS] [part of \"level op\"]\n"
                        "       checkkern --bench [--cpumask LEVEL] [part of \"level op\"]\n"
                        "       checkkern --large [--backend NAME]\n");
        return 2;
    }
    if (o.large) {
        const int faults = ck_large(o.backend ? o.backend : "cpu");
        t.failed += faults;
        t.passed += faults == 0;
    } else if (o.backend)
        run_named(&o, &t);
    else
        run_cpu(&o, &t);
    if (!o.bench) printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
    return t.failed != 0;
}
