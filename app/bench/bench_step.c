/* bench_step.c - `sparge-gen bench step`: a render of a few steps, every other of which is traced, op by op. */
#include "bench.h"
#include "command.h"
#include "interrupt.h"
#include "json_build.h"
#include "meta.h"
#include "notices.h"
#include "progress.h"
#include "report.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>

/* Units of one kind of work: denoising steps, or decoded chunks of frames. The first are not measured, then every other
 * one is traced. */
typedef struct series {
    int      warm, measured;
    double   plain, traced; /* seconds of the fastest without and with tracing; 0: there was none */
    sg_trace rows;          /* of that traced one */
} series;

typedef struct step_bench {
    sg_bench    *base;
    sg_session   session;
    sg_rendering now;
    series       step, chunk;
    double       since;     /* when the unit at work began */
    int          frames[2]; /* decoded before and after the last chunk */
    sg_report    report;
} step_bench;

static bool is_traced(const series *p, int unit)
{
    return unit >= p->warm && (p->measured == 1 || (unit - p->warm) % 2 == 1);
}

static void unit_ends(step_bench *t, series *p, int unit, double seconds)
{
    const bool    traced = is_traced(p, unit);
    double *const best = traced ? &p->traced : &p->plain;
    if (unit < p->warm || (*best > 0 && seconds >= *best)) return;
    *best = seconds;
    if (!traced) return;
    const sg_trace rows = t->session.trace;
    t->session.trace = p->rows;
    t->session.trace.synchronous = rows.synchronous;
    p->rows = rows;
}

/* Non-zero ends the render: after Ctrl-C, or when enough was decoded. */
static int on_progress(void *context, sg_stage stage, int done, int total)
{
    step_bench *const t = context;
    const int         most = 2 * t->base->repeat;
    const double      seconds = sg_seconds() - t->since;
    series *const     p = stage == SG_STAGE_DENOISE ? &t->step : stage == SG_STAGE_DECODE ? &t->chunk : NULL;
    sg_progress_update(&t->session.progress, stage, done, total);
    if (p == &t->chunk && done == 0) { /* the decoder's first two are unlike the rest; a short clip has no others */
        p->warm = total > 2 ? 2 : total - 1;
        p->measured = total - p->warm < most ? total - p->warm : most;
    }
    if (p && done > 0) unit_ends(t, p, done - 1, seconds);
    if (p == &t->chunk && done == p->warm + p->measured) return 1;
    if (p) {
        sg_trace_clear(&t->session.trace);
        t->session.trace.paused = !is_traced(p, done);
    }
    t->frames[0] = t->frames[1];
    t->since = sg_seconds();
    return sg_interrupt_asked();
}

static sg_status on_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    (void)rgb, (void)e;
    ((step_bench *)context)->frames[1] = index + 1;
    return SG_OK;
}

/* ---- what came out ---- */

/* The dtype whose ceiling a matrix product is measured by. */
static sg_dtype matmul_type(const sg_trace_row *r)
{
    return r->t[1].dtype == SG_BF16 && r->t[2].dtype == SG_BF16 ? SG_BF16 : SG_F32;
}

/* The least time in which the ceilings would let this be done. */
static double floor_of(const sg_bench *b, const sg_trace_row *r)
{
    return fmax(r->flops / sg_bench_ceiling(b, matmul_type(r)), r->bytes / b->ceilings.copy);
}

/* "F32 2304x384 = 2304x1152, 384x1152, BF16 384": output, then inputs, a dtype where it changes. */
static const char *tensors_text(char *text, size_t size, const sg_trace_row *r)
{
    int type = -1;
    text[0] = '\0';
    for (int i = 0; i < r->tensors; i++) {
        const sg_tensor *const t = &r->t[i];
        if (t->rank == 0) continue;
        sg_text_append(text, size, "%s", i == 0 ? "" : i > 1 ? ", " : r->adds ? " += " : " = ");
        if ((int)t->dtype != type) sg_text_append(text, size, "%s ", sg_dtype_name(t->dtype));
        type = (int)t->dtype;
        for (int k = 0; k < t->rank; k++) sg_text_append(text, size, k ? "x%lld" : "%lld", (long long)t->dim[k]);
    }
    return text;
}

static int by_seconds(const void *a, const void *b)
{
    const double x = ((const sg_trace_row *)a)->seconds, y = ((const sg_trace_row *)b)->seconds;
    return (x < y) - (x > y);
}

typedef struct sums {
    int64_t calls;
    double  seconds, floor, flops, bytes; /* of all ops */
    /* Of matrix products and attention: time, and time at the ceilings of their dtypes. */
    double matmul_seconds, matmul_ceiling;
} sums;

static sums sums_of(const sg_bench *b, const series *p)
{
    sums m = {0};
    for (size_t i = 0; i < p->rows.rows; i++) {
        const sg_trace_row *const r = &p->rows.row[i];
        m.calls += r->calls;
        m.seconds += r->seconds;
        m.floor += floor_of(b, r);
        m.flops += r->flops;
        m.bytes += r->bytes;
        if (r->flops <= 0) continue;
        m.matmul_seconds += r->seconds;
        m.matmul_ceiling += r->flops / sg_bench_ceiling(b, matmul_type(r));
    }
    return m;
}

static void print_row(const sg_bench *b, const sg_trace_row *r, double all)
{
    char         text[240];
    const bool   matmul = r->flops > 0;
    const double work = matmul ? r->flops : r->bytes;
    printf("%-16s %6lld %10.3f %5.1f%% %9.4g %-5s %9.1f %-7s %6.0f%%  %s\n", r->op, (long long)r->calls,
           r->seconds * 1e3, 100 * r->seconds / all, work * 1e-9, matmul ? "GFLOP" : "GB", work / r->seconds * 1e-9,
           matmul ? "GFLOP/s" : "GB/s", 100 * floor_of(b, r) / r->seconds, tensors_text(text, sizeof text, r));
}

static void print_series(const sg_bench *b, const char *unit, const series *p)
{
    const sums m = sums_of(b, p);
    printf("%-16s %6s %10s %6s %15s %17s %7s  %s\n", "op", "calls", "ms", "share", "work", "rate", "floor", "tensors");
    for (size_t i = 0; i < p->rows.rows; i++) print_row(b, &p->rows.row[i], m.seconds);
    printf("%-16s %6lld %10.3f %5.1f%% %9.4g GFLOP, %.4g GB, floor %.0f%%\n", "all", (long long)m.calls,
           m.seconds * 1e3, 100.0, m.flops * 1e-9, m.bytes * 1e-9, 100 * m.floor / m.seconds);
    printf("matmuls and attention: %.3f ms, %.1f GFLOP/s, %.0f%% of the ceiling\n", m.matmul_seconds * 1e3,
           m.flops / m.matmul_seconds * 1e-9, 100 * m.matmul_ceiling / m.matmul_seconds);
    printf("%s: traced %.3f ms, of them outside of ops %.3f ms; ", unit, p->traced * 1e3,
           (p->traced - m.seconds) * 1e3);
    if (p->plain > 0)
        printf("not traced %.3f ms, %.1f GFLOP/s\n", p->plain * 1e3, m.flops / p->plain * 1e-9);
    else
        puts("there was none to leave untraced");
}

static void print_all(const step_bench *t)
{
    const sg_request *const r = &t->now.request;
    const int               frames = t->frames[1] - t->frames[0], chunks = t->chunk.measured;
    sg_print(stdout, "%s in %s on %s\n%dx%d, %d frame%s, guidance %s: %lld token%s; the prompt took %.3f s",
             t->session.model.name, t->report.dtype, t->report.device, r->width, r->height, r->frames,
             sg_plural(r->frames), sg_guidance_text((char[SG_GUIDANCE_TEXT]){0}, r), (long long)t->report.plan.tokens,
             sg_plural(t->report.plan.tokens), t->report.seconds[SG_STAGE_TEXT]);
    if (r->image[SG_IMAGE_FIRST].rgb) printf(", pictures %.3f s", t->report.seconds[SG_STAGE_ENCODE]);
    putchar('\n');
    sg_bench_print_ceilings(t->base);
    printf(
        "floor: the time that the ceilings would allow, as a share of the time taken; above 100%% where caches help\n");
    printf("\na denoising step, the fastest of %d that were traced\n", t->base->repeat);
    print_series(t->base, "a step", &t->step);
    printf("\na decoded chunk of %d frame%s, the fastest of %d\n", frames, sg_plural(frames),
           chunks > 1 ? chunks / 2 : 1);
    print_series(t->base, "a chunk", &t->chunk);
}

static json_t *row_json(const sg_bench *b, const sg_trace_row *r)
{
    char text[240];
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f}", "op", r->op, "tensors", tensors_text(text, sizeof text, r),
                     "calls", (json_int_t)r->calls, "seconds", r->seconds, "flops", r->flops, "bytes", r->bytes,
                     "floor_seconds", floor_of(b, r));
}

static json_t *series_json(const sg_bench *b, const series *p)
{
    const sums m = sums_of(b, p);
    json_t    *rows = json_array();
    for (size_t i = 0; i < p->rows.rows; i++) sg_json_append(&rows, row_json(b, &p->rows.row[i]));
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "seconds",
                     p->plain > 0 ? json_real(p->plain) : json_null(), "traced_seconds", p->traced, "op_seconds",
                     m.seconds, "floor_seconds", m.floor, "flops", m.flops, "bytes", m.bytes, "matmul_seconds",
                     m.matmul_seconds, "matmul_of_ceiling",
                     m.matmul_seconds > 0 ? m.matmul_ceiling / m.matmul_seconds : 0.0, "ops", rows);
}

static json_t *all_json(const step_bench *t)
{
    const sg_request *const r = &t->now.request;
    return json_pack("{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:I, s:o, s:f, s:o, s:o, s:o, s:i}", "model",
                     sg_report_name(t->session.model.name), "device", t->report.device, "dtype", t->report.dtype,
                     "threads", t->base->backend->threads, "width", r->width, "height", r->height, "frames", r->frames,
                     "cfg_scale", r->cfg_scale, "tokens", (json_int_t)t->report.plan.tokens, "ceilings",
                     sg_bench_ceilings_json(t->base), "text_seconds", t->report.seconds[SG_STAGE_TEXT],
                     "encode_seconds",
                     r->image[SG_IMAGE_FIRST].rgb ? json_real(t->report.seconds[SG_STAGE_ENCODE]) : json_null(), "step",
                     series_json(t->base, &t->step), "chunk", series_json(t->base, &t->chunk), "chunk_frames",
                     t->frames[1] - t->frames[0]);
}

/* ---- the work ---- */

static sg_status render(step_bench *t, sg_error *e)
{
    const sg_callbacks cb = {.context = t, .progress = on_progress, .frame = on_frame};
    sg_session *const  x = &t->session;
    sg_request *const  r = &t->now.request;
    sg_error           end = {0};
    const char *const  json = t->base->settings->json;
    SG_TRY(sg_session_inputs(x, t->base->settings, e));
    t->step.warm = 1;
    t->step.measured = 2 * t->base->repeat;
    SG_TRY(sg_session_open(x, e));
    SG_TRY(sg_session_resolve(x, &t->now, e));
    sg_notice_request(x, &t->now);
    r->steps = t->step.warm + t->step.measured;
    r->sigmas.count = 0; /* --fast has fewer; a step costs the same at any */
    r->prompt = "a red ball bouncing on green grass";
    SG_TRY(sg_session_give(x, r, e));
    SG_TRY(sg_bench_ceilings(t->base, e));
    sg_progress_render(&x->progress, 0, 0, NULL);
    const sg_status status = sg_engine_render(x->engine, r, &cb, &t->report, &end);
    const bool      enough = status == SG_E_CANCELLED && !sg_interrupt_asked();
    sg_progress_clear(&x->progress);
    if (status && !enough) return sg_error_copy(e, &end);
    SG_TRY(sg_bench_ceilings(t->base, e)); /* again, for the machine may have been busy */
    qsort(t->step.rows.row, t->step.rows.rows, sizeof *t->step.rows.row, by_seconds);
    qsort(t->chunk.rows.row, t->chunk.rows.rows, sizeof *t->chunk.rows.row, by_seconds);
    if (!t->base->silent) print_all(t);
    return json ? sg_report_take(json, sg_report_envelope(SG_COMMAND_BENCH_STEP, all_json(t)), e) : SG_OK;
}

static sg_status bench_step(sg_bench *b, sg_error *e)
{
    step_bench      t = {.base = b,
                         .session.traced = true,
                         .session.trace = {.paused = true, .synchronous = !b->backend->synchronous},
                         .now.settings = *b->settings};
    const sg_status status = render(&t, e);
    sg_rendering_close(&t.now);
    sg_session_close(&t.session);
    sg_trace_free(&t.step.rows);
    sg_trace_free(&t.chunk.rows);
    return status;
}

sg_status sg_command_bench_step(const sg_settings *s, sg_error *e) { return sg_bench_run(s, bench_step, e); }
