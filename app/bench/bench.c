/* bench.c - see bench.h. */
#include "bench.h"
#include "base/clock.h"
#include "environment.h"
#include "interrupt.h"
#include "progress.h"
#include "rng.h"
#include "setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW = 1 << 18, COPY_ROWS = 256, CEILING_RUNS = 5 }; /* a copy of 256 MiB */

static const double CLOCKS_EVERY = 0.5; /* seconds: a GPU rests while it is asked */

sg_status sg_bench_backend_options(sg_backend_options *out, const sg_settings *s, sg_error *e)
{
    sg_engine_options o;
    SG_TRY(sg_setup_options(&o, NULL, s, e));
    *out = (sg_backend_options){.name = o.backend,
                                .threads = o.threads,
                                .cpu_mask = o.cpu_mask,
                                .gpu_mask = o.gpu_mask,
                                .device = o.device,
                                .local_rank = o.local_rank};
    return SG_OK;
}

sg_status sg_bench_run(const sg_settings *s, sg_status (*work)(sg_bench *b, sg_error *e), sg_error *e)
{
    sg_bench           b = {.settings = s};
    sg_backend_options backend;
    sg_progress        progress;
    SG_TRY(sg_bench_backend_options(&backend, s, e));
    b.silent = s->json && strcmp(s->json, "-") == 0;
    SG_TRY(sg_backend_open(&b.backend, &backend, e));
    sg_progress_init(&progress, s->quiet);
    const char *const passed = sg_environment_passed(b.backend->passed);
    if (*passed) sg_progress_say(&progress, "%s", passed);
    const sg_status status = work(&b, e);
    sg_backend_close(&b.backend);
    return status;
}

/* ---- a stream ---- */

sg_status sg_bench_stream_open(const sg_bench *b, sg_stream *s, size_t scratch, sg_error *e)
{
    *s = sg_stream_of(b->backend);
    void *const block = scratch <= b->backend->total_bytes ? s->memory->alloc(s->backend, scratch) : NULL;
    s->scratch = (sg_arena){.base = (uintptr_t)block, .cap = scratch};
    if (block) return SG_OK;
    return sg_error_set(e, SG_E_MEMORY, "bench: this takes %.2f GiB, more than there is", (double)scratch * 0x1p-30);
}

void sg_bench_stream_close(sg_stream *s) { s->memory->release(s->backend, (void *)s->scratch.base); }

sg_status sg_bench_failure(const sg_stream *s, sg_error *e)
{
    return s->status ? sg_error_set(e, s->status, "bench: %s", s->why) : SG_OK;
}

sg_status sg_bench_wait(const sg_bench *b, sg_stream *s, sg_tensor t, sg_error *e)
{
    char byte;
    if (!s->status && !b->backend->synchronous) {
        const sg_status status = s->memory->download(s, &byte, t.data, sizeof byte);
        if (status) sg_fail(s, status, "the device failed");
    }
    SG_TRY(sg_interrupt_check(e));
    return sg_bench_failure(s, e);
}

sg_status sg_bench_upload(sg_stream *s, sg_tensor t, const float *x, sg_error *e)
{
    const int64_t   count = sg_count(t);
    uint16_t *const half = t.dtype == SG_BF16 ? malloc((size_t)count * sizeof *half) : NULL;
    if (t.dtype == SG_BF16 && !half) return sg_error_memory(e, "bench");
    for (int64_t i = 0; half && i < count; i++) half[i] = sg_f32_to_bf16(x[i]);
    sg_upload(s, t, half ? (const void *)half : x);
    free(half);
    return sg_bench_failure(s, e);
}

/* ---- the rule ---- */

void sg_bench_note_clocks(sg_bench *b)
{
    sg_bench_clocks *const c = &b->clocks;
    if (c->times && sg_seconds() - c->since < CLOCKS_EVERY) return;
    if (!sg_backend_clocks(b->backend, &c->last)) return;
    c->sum.mhz += c->last.mhz;
    c->sum.watts += c->last.watts;
    c->lowest = c->times++ ? fmin(c->lowest, c->last.mhz) : c->last.mhz;
    c->since = sg_seconds();
}

/* The thing that was least steady, and by what share. */
static int unsteadiest(const sg_rule *r, double *share)
{
    int worst = 0;
    for (int i = 1; i < r->things; i++)
        if (sg_rule_unsteady(r, i) > sg_rule_unsteady(r, worst)) worst = i;
    *share = sg_rule_unsteady(r, worst);
    return worst;
}

void sg_bench_print_rule(const sg_bench *b, const sg_rule *r, const char *const *name)
{
    const sg_bench_clocks *const c = b ? &b->clocks : NULL;
    double                       share;
    const int                    worst = unsteadiest(r, &share), runs = sg_rule_runs(r);
    printf("medians of %d run%s each%s, after %d that do not count; ", runs, sg_plural(runs),
           r->things > 1 ? ", by turns" : "", r->warm);
    if (share > 0)
        printf("NOT STEADY: %s changed by %.0f%% meanwhile\n", name[worst], 100 * share);
    else
        puts("steady");
    if (c && c->times)
        printf("clocks meanwhile: %.0f MHz, at least %.0f; memory %.0f MHz; %.0f of %.0f W; %.0f C\n",
               c->sum.mhz / c->times, c->lowest, c->last.memory_mhz, c->sum.watts / c->times, c->last.limit,
               c->last.celsius);
}

json_t *sg_bench_rule_json(const sg_bench *b, const sg_rule *r)
{
    const sg_bench_clocks *const c = b ? &b->clocks : NULL;
    double                       share;
    json_t                      *clocks = json_null();
    unsteadiest(r, &share);
    if (c && c->times)
        clocks = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "mhz", c->sum.mhz / c->times, "lowest_mhz", c->lowest,
                           "memory_mhz", c->last.memory_mhz, "watts", c->sum.watts / c->times, "limit_watts",
                           c->last.limit, "celsius", c->last.celsius);
    return json_pack("{s:i, s:i, s:f, s:o}", "runs", sg_rule_runs(r), "warm_runs", r->warm, "unsteady", share, "clocks",
                     clocks);
}

/* ---- the ceilings ---- */

/* y as a matrix product of x and w, or, without w, as a copy of x. */
typedef struct work {
    sg_tensor y, x, w;
} work;

static sg_status run(const sg_bench *b, sg_stream *s, const work *k, sg_error *e)
{
    if (k->w.rank)
        sg_linear(s, .y = k->y, .x = k->x, .w = k->w);
    else
        sg_copy(s, .y = k->y, .x = k->x);
    return sg_bench_wait(b, s, k->y, e);
}

/* Noise in every row of t: pages that were never written would cost nothing to read. */
static void fill(sg_stream *s, sg_tensor t, const float *noise)
{
    const int64_t   rows = sg_count(t) / ROW;
    const sg_tensor table = sg_reshape(t, rows, ROW);
    for (int64_t i = 0; i < rows; i++) sg_upload(s, sg_rows(table, i, 1), noise);
}

static sg_status run_by_turns(const sg_bench *b, sg_stream *s, const work *k, sg_rule *r, sg_error *e)
{
    for (int i; (i = sg_rule_next(r)) >= 0;) {
        const double start = sg_seconds();
        SG_TRY(run(b, s, &k[i], e));
        sg_rule_take(r, sg_seconds() - start);
    }
    return SG_OK;
}

static sg_status measure(sg_bench *b, sg_stream *s, int64_t n, const float *noise, sg_error *e)
{
    const work k[] = {{sg_new(s, SG_F32, n, n), sg_new(s, SG_F32, n, n), sg_new(s, SG_F32, n, n)},
                      {sg_new(s, SG_BF16, n, n), sg_new(s, SG_BF16, n, n), sg_new(s, SG_BF16, n, n)},
                      {.y = sg_new(s, SG_F32, COPY_ROWS, ROW), .x = sg_new(s, SG_F32, COPY_ROWS, ROW)}};
    fill(s, k[0].x, noise);
    fill(s, k[0].w, noise);
    sg_copy(s, .y = k[1].x, .x = k[0].x);
    sg_copy(s, .y = k[1].w, .x = k[0].w);
    fill(s, k[2].x, noise);
    const double flops = 2.0 * (double)n * (double)n * (double)n;
    sg_rule      r;
    sg_status    status = sg_rule_open(&r, 3, CEILING_RUNS, SG_BENCH_SLACK, e);
    if (!status) status = run_by_turns(b, s, k, &r, e);
    if (!status)
        b->ceilings = (sg_ceilings){{flops / sg_rule_median(&r, 0), flops / sg_rule_median(&r, 1)},
                                    2.0 * (double)sg_bytes(k[2].x) / sg_rule_median(&r, 2)};
    sg_rule_close(&r);
    return status;
}

sg_status sg_bench_ceilings(sg_bench *b, sg_error *e)
{
    /* The oracle would take minutes; a GPU is done with 2048^3 before it has begun. */
    const bool    is_ref = strcmp(b->backend->name, "ref") == 0;
    const int64_t n = is_ref ? 512 : b->backend->synchronous ? 2048 : 8192;
    const size_t  matmuls = (size_t)(3 * n * n) * (sizeof(float) + sizeof(uint16_t));
    const size_t  copies = 2 * (size_t)COPY_ROWS * ROW * sizeof(float);
    sg_stream     s;
    float *const  noise = malloc(ROW * sizeof *noise);
    if (!noise) return sg_error_memory(e, "bench");
    sg_randn(noise, ROW, 1);
    sg_status status = sg_bench_stream_open(b, &s, matmuls + copies, e);
    if (!status) {
        status = measure(b, &s, n, noise, e);
        sg_backend_drop_packed(b->backend);
        sg_bench_stream_close(&s);
    }
    free(noise);
    return status;
}

double sg_bench_ceiling(const sg_bench *b, sg_dtype type) { return b->ceilings.matmul[type == SG_BF16]; }

void sg_bench_print_ceilings(const sg_bench *b)
{
    printf("ceilings of this run: matmul F32 %.0f GFLOP/s, BF16 %.0f GFLOP/s; copy %.1f GB/s, read and written\n",
           b->ceilings.matmul[0] * 1e-9, b->ceilings.matmul[1] * 1e-9, b->ceilings.copy * 1e-9);
}

json_t *sg_bench_ceilings_json(const sg_bench *b)
{
    return json_pack("{s:f, s:f, s:f}", "f32_flops_per_second", b->ceilings.matmul[0], "bf16_flops_per_second",
                     b->ceilings.matmul[1], "copy_bytes_per_second", b->ceilings.copy);
}
