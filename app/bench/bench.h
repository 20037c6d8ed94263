/* bench.h - shared by the benchmarks: the backend, its ceilings and clocks, and the report. All that is measured goes by
 * bench_rule.h. */
#ifndef SG_BENCH_H
#define SG_BENCH_H

#include "backend.h"
#include "bench_rule.h"
#include "engine.h"
#include "options.h"

#include <jansson.h>

typedef struct sg_ceilings {
    double matmul[2]; /* flop/s of a large square matrix product; F32, BF16 */
    double copy;      /* bytes/s, read and written, of a copy beyond the caches */
} sg_ceilings;

/* What the device did while runs counted, as often as it was asked. */
typedef struct sg_bench_clocks {
    sg_clocks sum, last;
    double    lowest; /* mhz */
    int       times;
    double    since; /* when it was asked last */
} sg_bench_clocks;

typedef struct sg_bench {
    const sg_settings *settings;
    sg_backend        *backend;
    sg_ceilings        ceilings;
    sg_bench_clocks    clocks;
    bool               silent; /* stdout is for JSON */
} sg_bench;

/* Makes the options of the backend that s asks for. */
sg_status sg_bench_backend_options(sg_backend_options *out, const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Checks that --json can be written, opens the backend of s, calls work, and closes it. */
sg_status sg_bench_run(const sg_settings *s, sg_status (*work)(sg_bench *b, sg_error *e), sg_error *e) SG_MUST_USE;

/* Seconds by which two medians may differ where runs are ops: what a clock and a launch are uncertain by. */
#define SG_BENCH_SLACK 2e-6

/* Notes the clocks after a run that counts, now and then. */
void sg_bench_note_clocks(sg_bench *b);

/* Prints how often things were measured, whether that was steady, and the clocks of that time. JSON has the same:
 * {"runs", "warm_runs", "unsteady", "clocks"}, clocks null where the device does not tell them. b NULL: it was not asked. */
void    sg_bench_print_rule(const sg_bench *b, const sg_rule *r, const char *const *name);
json_t *sg_bench_rule_json(const sg_bench *b, const sg_rule *r);

/* Measures the ceilings, by turns. */
sg_status sg_bench_ceilings(sg_bench *b, sg_error *e) SG_MUST_USE;
void      sg_bench_print_ceilings(const sg_bench *b);
json_t   *sg_bench_ceilings_json(const sg_bench *b);

/* Returns the ceiling of matrix products of this dtype, in flop/s. */
double sg_bench_ceiling(const sg_bench *b, sg_dtype type);

/* Opens a stream of b's backend with this much scratch, which sg_bench_stream_close frees. */
sg_status sg_bench_stream_open(const sg_bench *b, sg_stream *s, size_t scratch, sg_error *e) SG_MUST_USE;
void      sg_bench_stream_close(sg_stream *s);

/* Returns the stream's failure, if it has one. */
sg_status sg_bench_failure(const sg_stream *s, sg_error *e) SG_MUST_USE;

/* Uploads as many F32 numbers as t has, as its dtype, F32 or BF16. Returns the stream's failure. */
sg_status sg_bench_upload(sg_stream *s, sg_tensor t, const float *x, sg_error *e) SG_MUST_USE;

/* Waits for t, which the stream's last op writes. Returns the stream's failure; SG_E_CANCELLED after Ctrl-C. */
sg_status sg_bench_wait(const sg_bench *b, sg_stream *s, sg_tensor t, sg_error *e) SG_MUST_USE;

#endif
