/* bench_step.c - `sparge-gen bench step`: renders of a few steps. The first ones warm up, by bench_rule.h; the next one's
 * steps count; in the last one every op of a step and of every other decoded chunk is timed, which on a GPU means that
 * each op is waited for. */
#include "base/clock.h"
#include "bench.h"
#include "command.h"
#include "interrupt.h"
#include "json_build.h"
#include "meta.h"
#include "metrics.h"
#include "notices.h"
#include "progress.h"
#include "report.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first steps of a render are unlike the rest: keys of the text are made, and a GPU's graph. So are the first two
 * chunks of a decoder. */
enum { FIRST_STEPS = 3, FIRST_CHUNKS = 2, WARM_STEPS = 200, TRACED = 5 };

typedef enum step_phase { WARM, PLAIN, TRACE } step_phase;

/* Steps, or decoded chunks of frames, whose ops were timed. */
typedef struct traced {
    int      count;
    double   seconds[TRACED];
    sg_trace rows[TRACED];
} traced;

typedef struct step_bench {
    sg_bench    *base;
    sg_session   session;
    sg_trace     trace; /* of its engine */
    sg_rendering now;
    step_phase   phase;
    sg_rule      rule; /* of steps */
    traced       step, chunk;
    int          first, most;   /* of the chunks: those that are unlike the rest; how many are measured */
    double       plain[TRACED]; /* seconds of chunks whose ops are not timed */
    int          plain_chunks;
    double       text, encode; /* seconds, of the first render: later ones have their results */
    double       since;        /* when the unit at work began */
    int          frames[2];    /* decoded before and after the last chunk */
    sg_report    report;
} step_bench;

/* Whether ops of this unit are timed. */
static bool is_traced(const step_bench *t, int stage, int unit)
{
    if (t->phase != TRACE) return false;
    if (stage == SG_STAGE_DENOISE) return unit >= FIRST_STEPS;
    return unit >= t->first && (t->most == 1 || (unit - t->first) % 2 == 1);
}

static void keep_trace(step_bench *t, traced *p, double seconds)
{
    sg_trace *const now = &t->trace;
    p->rows[p->count] = *now;
    p->seconds[p->count++] = seconds;
    *now = (sg_trace){.synchronous = now->synchronous};
}

static void unit_ends(step_bench *t, int stage, int unit, double seconds)
{
    if (is_traced(t, stage, unit))
        keep_trace(t, stage == SG_STAGE_DENOISE ? &t->step : &t->chunk, seconds);
    else if (stage == SG_STAGE_DECODE && unit >= t->first)
        t->plain[t->plain_chunks++] = seconds;
    else if (stage == SG_STAGE_DENOISE && (t->phase == WARM || (t->phase == PLAIN && unit >= FIRST_STEPS))) {
        sg_rule_take(&t->rule, seconds);
        if (t->phase == PLAIN) sg_bench_note_clocks(t->base);
    }
}

/* Non-zero ends the render: after Ctrl-C, or when enough was measured. */
static int on_progress(void *context, int stage, int done, int total)
{
    step_bench *const t = context;
    const double      seconds = sg_seconds() - t->since;
    const bool        unit = stage == SG_STAGE_DENOISE || stage == SG_STAGE_DECODE;
    sg_progress_update(&t->session.progress, stage, done, total);
    if (stage == SG_STAGE_DECODE && done == 0) { /* a short clip has no others */
        t->first = total > FIRST_CHUNKS ? FIRST_CHUNKS : total - 1;
        t->most = total - t->first < 2 * TRACED ? total - t->first : 2 * TRACED;
    }
    if (unit && done > 0) unit_ends(t, stage, done - 1, seconds);
    if (stage == SG_STAGE_DECODE && done == t->first + t->most) return 1;
    if (t->phase == WARM && sg_rule_counts(&t->rule)) return 1;
    if (t->phase == PLAIN && sg_rule_next(&t->rule) < 0) return 1;
    if (unit) {
        sg_trace_clear(&t->trace);
        t->trace.paused = !is_traced(t, stage, done);
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

/* Of the median one: of two in the middle the faster. */
static const sg_trace *median_trace(const traced *p, double *seconds)
{
    double sorted[TRACED];
    int    i = 0;
    memcpy(sorted, p->seconds, sizeof sorted);
    qsort(sorted, (size_t)p->count, sizeof *sorted, sg_double_order);
    *seconds = sorted[(p->count - 1) / 2];
    while (p->seconds[i] != *seconds) i++;
    return &p->rows[i];
}

/* 0: there was none. */
static double plain_chunk(const step_bench *t)
{
    double v[TRACED];
    memcpy(v, t->plain, sizeof v);
    return t->plain_chunks ? sg_median(v, t->plain_chunks) : 0;
}

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

static sums sums_of(const sg_bench *b, const sg_trace *p)
{
    sums m = {0};
    for (size_t i = 0; i < p->rows; i++) {
        const sg_trace_row *const r = &p->row[i];
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

static void print_series(const sg_bench *b, const char *unit, double plain, const traced *t)
{
    double                seconds;
    const sg_trace *const p = median_trace(t, &seconds);
    const sums            m = sums_of(b, p);
    printf("%-16s %6s %10s %6s %15s %17s %7s  %s\n", "op", "calls", "ms", "share", "work", "rate", "floor", "tensors");
    for (size_t i = 0; i < p->rows; i++) print_row(b, &p->row[i], m.seconds);
    printf("%-16s %6lld %10.3f %5.1f%% %9.4g GFLOP, %.4g GB, floor %.0f%%\n", "all", (long long)m.calls,
           m.seconds * 1e3, 100.0, m.flops * 1e-9, m.bytes * 1e-9, 100 * m.floor / m.seconds);
    printf("matmuls and attention: %.3f ms, %.1f GFLOP/s, %.0f%% of the ceiling\n", m.matmul_seconds * 1e3,
           m.flops / m.matmul_seconds * 1e-9, 100 * m.matmul_ceiling / m.matmul_seconds);
    printf("%s: %.3f ms with each op timed, of them outside of ops %.3f ms; ", unit, seconds * 1e3,
           (seconds - m.seconds) * 1e3);
    if (plain > 0)
        printf("without %.3f ms, %.1f GFLOP/s\n", plain * 1e3, m.flops / plain * 1e-9);
    else
        puts("there was no other");
}

/* What ran in most layers of a step, and the share of the blocks that it computed. */
static const char *attention_of(const step_bench *t, double *density)
{
    int                             steps, passes, layers, most = 0, ran[SG_ATTENTION_SPARGE + 1] = {0};
    const sg_attention_count *const count = sg_engine_attention(t->session.engine, &steps, &passes, &layers);
    int64_t                         kept = 0, blocks = 0;
    for (int i = 0; i < steps * passes * layers; i++) {
        ran[count[i].kind]++;
        kept += count[i].kept;
        blocks += count[i].blocks;
    }
    *density = blocks ? (double)kept / (double)blocks : 1;
    for (int i = 1; i <= SG_ATTENTION_SPARGE; i++)
        if (ran[i] > ran[most]) most = i;
    return sg_names("attention")[most];
}

static void print_all(const step_bench *t)
{
    const sg_request *const r = &t->now.request;
    const int               frames = t->frames[1] - t->frames[0];
    const char *const       name = "the step";
    double                  density;
    const char *const       attention = attention_of(t, &density);
    sg_print(stdout, "%s in %s on %s\n%dx%d, %d frame%s, guidance %s: %lld token%s; the prompt took %.3f s",
             t->session.model.name, t->report.dtype, t->report.device, r->width, r->height, r->frames,
             sg_plural(r->frames), sg_guidance_text((char[SG_GUIDANCE_TEXT]){0}, r), (long long)t->report.plan.tokens,
             sg_plural(t->report.plan.tokens), t->text);
    if (r->image[SG_IMAGE_FIRST].rgb) printf(", pictures %.3f s", t->encode);
    putchar('\n');
    sg_bench_print_ceilings(t->base);
    printf(
        "floor: the time that the ceilings would allow, as a share of the time taken; above 100%% where caches help\n");
    sg_bench_print_rule(t->base, &t->rule, &name);
    printf("a denoising step: %.3f ms +- %.1f%%, attention %s, %.0f%% of the blocks\n",
           sg_rule_median(&t->rule, 0) * 1e3, 100 * sg_rule_spread(&t->rule, 0), attention, 100 * density);
    printf("\nits ops, of the median one of %d in which each op is timed\n", t->step.count);
    print_series(t->base, "a step", sg_rule_median(&t->rule, 0), &t->step);
    printf("\na decoded chunk of %d frame%s, of the median one of %d\n", frames, sg_plural(frames), t->chunk.count);
    print_series(t->base, "a chunk", plain_chunk(t), &t->chunk);
}

static json_t *row_json(const sg_bench *b, const sg_trace_row *r)
{
    char text[240];
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f}", "op", r->op, "tensors", tensors_text(text, sizeof text, r),
                     "calls", (json_int_t)r->calls, "seconds", r->seconds, "flops", r->flops, "bytes", r->bytes,
                     "floor_seconds", floor_of(b, r));
}

static json_t *series_json(const sg_bench *b, double plain, const traced *t)
{
    double                seconds;
    const sg_trace *const p = median_trace(t, &seconds);
    const sums            m = sums_of(b, p);
    json_t               *rows = json_array();
    for (size_t i = 0; i < p->rows; i++) sg_json_append(&rows, row_json(b, &p->row[i]));
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "seconds",
                     plain > 0 ? json_real(plain) : json_null(), "traced_seconds", seconds, "op_seconds", m.seconds,
                     "floor_seconds", m.floor, "flops", m.flops, "bytes", m.bytes, "matmul_seconds", m.matmul_seconds,
                     "matmul_of_ceiling", m.matmul_seconds > 0 ? m.matmul_ceiling / m.matmul_seconds : 0.0, "ops",
                     rows);
}

static json_t *all_json(const step_bench *t)
{
    const sg_request *const r = &t->now.request;
    double                  density;
    const char *const       attention = attention_of(t, &density);
    return json_pack("{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:I, s:s, s:f, s:o, s:o, s:f, s:f, s:o, s:o, s:o, s:i}",
                     "model", sg_report_name(t->session.model.name), "device", t->report.device, "dtype",
                     t->report.dtype, "threads", t->base->backend->threads, "width", r->width, "height", r->height,
                     "frames", r->frames, "cfg_scale", r->cfg_scale, "tokens", (json_int_t)t->report.plan.tokens,
                     "attention", attention, "density", density, "ceilings", sg_bench_ceilings_json(t->base),
                     "measured", sg_bench_rule_json(t->base, &t->rule), "spread", sg_rule_spread(&t->rule, 0),
                     "text_seconds", t->text, "encode_seconds",
                     r->image[SG_IMAGE_FIRST].rgb ? json_real(t->encode) : json_null(), "step",
                     series_json(t->base, sg_rule_median(&t->rule, 0), &t->step), "chunk",
                     series_json(t->base, plain_chunk(t), &t->chunk), "chunk_frames", t->frames[1] - t->frames[0]);
}

/* ---- the work ---- */

/* A render of a phase. The steps that a schedule has more than needed are not run. */
static sg_status render(step_bench *t, step_phase phase, sg_error *e)
{
    const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = t, .progress = on_progress, .frame = on_frame};
    sg_session *const  x = &t->session;
    sg_request *const  r = &t->now.request;
    sg_error           end = {0};
    t->phase = phase;
    r->steps = WARM_STEPS;
    if (phase == PLAIN) r->steps = FIRST_STEPS + t->rule.repeat;
    if (phase == TRACE) r->steps = FIRST_STEPS + (t->rule.repeat < TRACED ? t->rule.repeat : TRACED);
    t->trace.paused = true;
    t->report.size = sizeof t->report;
    sg_progress_render(&x->progress, 0, 0, NULL);
    const sg_status status = sg_engine_render(x->engine, r, &cb, &t->report, &end);
    sg_progress_clear(&x->progress);
    return status && (status != SG_E_CANCELLED || sg_interrupt_asked()) ? sg_error_copy(e, &end) : SG_OK;
}

static sg_status measure(step_bench *t, sg_error *e)
{
    sg_session *const x = &t->session;
    sg_request *const r = &t->now.request;
    SG_TRY(sg_session_inputs(x, t->base->settings, e));
    SG_TRY(sg_rule_open(&t->rule, 1, t->base->settings->repeat, SG_BENCH_SLACK, e));
    SG_TRY(sg_session_open(x, e));
    sg_engine_trace(x->engine, &t->trace);
    SG_TRY(sg_session_resolve(x, &t->now, e));
    sg_notice_request(x, &t->now);
    r->sigmas.count = 0;          /* --fast has fewer; a step costs the same at any */
    r->attention.dense_steps = 0; /* a step as most are */
    r->prompt = "a red ball bouncing on green grass";
    SG_TRY(sg_session_give(x, r, e));
    SG_TRY(sg_bench_ceilings(t->base, e));
    while (!sg_rule_counts(&t->rule)) {
        SG_TRY(render(t, WARM, e));
        t->text += t->report.seconds[SG_STAGE_TEXT];
        t->encode += t->report.seconds[SG_STAGE_ENCODE];
    }
    SG_TRY(render(t, PLAIN, e));
    return render(t, TRACE, e);
}

static sg_status show(step_bench *t, sg_error *e)
{
    const char *const json = t->base->settings->json;
    for (int i = 0; i < t->step.count; i++)
        qsort(t->step.rows[i].row, t->step.rows[i].rows, sizeof *t->step.rows[i].row, by_seconds);
    for (int i = 0; i < t->chunk.count; i++)
        qsort(t->chunk.rows[i].row, t->chunk.rows[i].rows, sizeof *t->chunk.rows[i].row, by_seconds);
    if (!t->base->silent) print_all(t);
    return json ? sg_report_take(json, sg_report_envelope(SG_COMMAND_BENCH_STEP, all_json(t)), e) : SG_OK;
}

static sg_status bench_step(sg_bench *b, sg_error *e)
{
    step_bench t = {
        .base = b, .trace = {.paused = true, .synchronous = !b->backend->synchronous}, .now.settings = *b->settings};
    sg_status status = measure(&t, e);
    if (!status) status = show(&t, e);
    sg_session_close(&t.session);
    sg_trace_free(&t.trace);
    sg_rule_close(&t.rule);
    for (int i = 0; i < TRACED; i++) {
        sg_trace_free(&t.step.rows[i]);
        sg_trace_free(&t.chunk.rows[i]);
    }
    return status;
}

sg_status sg_command_bench_step(const sg_settings *s, sg_error *e) { return sg_bench_run(s, bench_step, e); }
