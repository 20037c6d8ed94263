/* bench_attention.c - `sparge-gen bench attention`: dense, quantised and sparse attention on inputs like those of a
 * video model: time, that of each stage, and how far the results are from those of F32. */
#include "attention.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "bench.h"
#include "bench_input.h"
#include "bench_language.h"
#include "command.h"
#include "json_build.h"
#include "meta.h"
#include "metrics.h"
#include "progress.h"
#include "report.h"
#include "resolve.h"
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* At most; and rows of queries that are computed in F32 too, where attention is causal so many neighbours at once. */
enum { KERNELS = 10, SAMPLE = 512, RUN = 16 };

/* Columns of the table of stages; attend is also attend_blocks. */
enum { STAGES = 7, ATTEND = STAGES - 1 };
static const char *const stages[STAGES + 1] = {"pool",   "self_similarity", "quantise", "score",
                                               "select", "tail_bias",       "attend",   NULL};

typedef struct kernel {
    char               name[32];
    sg_policy          policy;
    sg_attention      *bound;
    sg_attention_count count; /* of the first of the batch */
    double             l1, l2, cosine;
    int                traced;                       /* the thing that is its runs by stages; 0: it has none */
    double             stage[SG_REPEAT_MAX][STAGES]; /* of those that count */
} kernel;

typedef struct work {
    sg_bench      *base;
    sg_bench_input in;
    sg_rendering   now; /* with the policy that kernels differ from */
    sg_trace       trace;
    size_t         keep, scratch;     /* bytes, the most that a kernel needs */
    sg_tensor      y, q, k, v, token; /* on the device, for all of a batch; the order */
    kernel         kernel[KERNELS];
    int            kernels;
    sg_rule
        rule; /* things: the kernels, those that have stages once more, and last the order of tokens, unless it is causal */
    int         thing[SG_RULE_THINGS]; /* which kernel */
    const char *name[SG_RULE_THINGS];
} work;

/* ---- what is measured ---- */

static const kernel *first_of(const work *w, sg_attention_kind kind)
{
    for (int i = 0; i < w->kernels; i++)
        if (w->kernel[i].policy.kind == kind) return &w->kernel[i];
    return NULL;
}

static sg_status add(work *w, const sg_policy *usual, sg_attention_kind kind, double amount, sg_error *e)
{
    const char *const name = sg_names("attention")[kind];
    if (w->kernels == KERNELS)
        return sg_error_set(e, SG_E_ARG, "--topk: more than %d kernels at once are too many", KERNELS);
    kernel *const k = &w->kernel[w->kernels++];
    k->policy = *usual;
    k->policy.kind = kind;
    k->policy.named = true;
    k->policy.dense_steps = 0;
    k->policy.amount = (float)amount;
    if (kind != SG_ATTENTION_SPARGE)
        snprintf(k->name, sizeof k->name, "%s", name);
    else
        snprintf(k->name, sizeof k->name, "%s %s%g", name, usual->rule == SG_SELECT_MASS ? "tau " : "", amount);
    return SG_OK;
}

/* One kernel for each share of the list, or the one of --tau. */
static sg_status add_sparge(work *w, const sg_policy *usual, const char *list, sg_error *e)
{
    if (usual->rule == SG_SELECT_MASS) return add(w, usual, SG_ATTENTION_SPARGE, (double)usual->amount, e);
    double    share[SG_RULE_THINGS];
    const int count = sg_number_list(list ? list : "0.5,0.3,0.2,0.1", 1e-6, 1, share, SG_RULE_THINGS);
    for (int i = 0; i < count; i++) SG_TRY(add(w, usual, SG_ATTENTION_SPARGE, share[i], e));
    if (count) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "--topk: '%.80s' is not a list of shares above 0, as in 0.5,0.3", list);
}

static sg_status list_kernels(work *w, sg_error *e)
{
    const sg_settings *const s = w->base->settings;
    const char              *at = s->kinds;
    w->now = (sg_rendering){.settings = *s, .request.attention = sg_policy_default()};
    SG_TRY(sg_resolve_attention(&w->now, e));
    const sg_policy *const usual = &w->now.request.attention;
    w->in.order = usual->order;
    if (!at) at = w->base->backend->values == SG_F32 ? "dense" : "dense,sage,sparge";
    for (size_t n;; at += n + 1) {
        int         kind = 0;
        const char *name;
        n = strcspn(at, ",");
        while ((name = sg_names("attention")[kind]) != NULL && (strncmp(at, name, n) != 0 || name[n])) kind++;
        if (!name)
            return sg_error_set(e, SG_E_ARG, "--attention: '%.*s' is not one of dense, sage, sparge", (int)n, at);
        SG_TRY(kind == SG_ATTENTION_SPARGE ? add_sparge(w, usual, s->topk_list, e)
                                           : add(w, usual, (sg_attention_kind)kind, 0, e));
        if (!at[n]) break;
    }
    if (!s->topk_list || first_of(w, SG_ATTENTION_SPARGE)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "--topk has no effect without --attention sparge");
}

/* ---- a run ---- */

static sg_attend_args args_of(const work *w)
{
    return (sg_attend_args){.y = w->y, .q = w->q, .k = w->k, .v = w->v, .scale = 1 / sqrtf((float)w->in.d)};
}

/* Binds k, and adds what a run needs to what is known to be needed. */
static sg_status bind(work *w, kernel *k, const sg_attend_args *args, sg_error *e)
{
    const sg_bench_input *const in = &w->in;
    const sg_attention_shape    shape = {.n = in->n,
                                         .h = in->h,
                                         .hk = in->hk,
                                         .d = in->d,
                                         .text_prefix = in->text_prefix,
                                         .text_suffix = in->text_suffix,
                                         .layers = 1,
                                         .steps = 1,
                                         .passes = in->b,
                                         .values = w->base->backend->values,
                                         .f8 = w->base->backend->f8,
                                         .causal = in->causal};
    sg_plan_totals              totals = {0};
    sg_stream                   plan = sg_plan_stream(&totals);
    SG_TRY(sg_attention_open(&k->bound, &k->policy, &shape, e));
    sg_attention_upload(k->bound, &plan);
    sg_attention_run(k->bound, &plan, 0, 0, 0, 0, args);
    if (plan.keep.peak > w->keep) w->keep = plan.keep.peak;
    if (plan.scratch.peak > w->scratch) w->scratch = plan.scratch.peak;
    return sg_bench_failure(&plan, e);
}

/* What the traced ops of a run took. */
static void take_stages(const sg_trace *t, double *seconds)
{
    for (size_t i = 0; i < t->rows; i++) {
        const char *const op = t->row[i].op;
        const int         stage = strcmp(op, "attend_blocks") == 0 ? ATTEND : sg_text_place(op, stages);
        if (stage < STAGES) seconds[stage] += t->row[i].seconds;
    }
}

/* The tokens of the first operand of a layer put in order, twice: once there, once back. */
static void run_order(work *w, sg_stream *s)
{
    const int64_t   width = (int64_t)w->in.h * w->in.d;
    const sg_tensor y = sg_reshape(w->y, w->in.n, width), q = sg_reshape(w->q, w->in.n, width);
    for (int k = 0; k < 2 * w->in.b; k++) sg_embed(s, .y = y, .w = q, .ids = w->token);
}

/* The run of a thing whose turn it is, for the whole batch. Stages are timed in runs of their own, for on a GPU each op
 * is waited for then. */
static sg_status run(work *w, sg_stream *s, int thing, sg_error *e)
{
    sg_rule *const       r = &w->rule;
    const sg_attend_args args = args_of(w);
    kernel *const        k = &w->kernel[w->thing[thing]];
    const bool           order = !w->in.causal && thing == r->things - 1, traced = !order && thing >= w->kernels;
    w->trace.paused = !traced;
    s->keep.used = 0;
    if (!order) sg_attention_upload(k->bound, s);
    SG_TRY(sg_bench_wait(w->base, s, w->y, e));
    sg_trace_clear(&w->trace);
    const double start = sg_seconds();
    if (order) run_order(w, s);
    for (int pass = 0; !order && pass < w->in.b; pass++) sg_attention_run(k->bound, s, 0, 0, pass, 0, &args);
    SG_TRY(sg_bench_wait(w->base, s, w->y, e));
    const double took = sg_seconds() - start;
    if (sg_rule_counts(r)) {
        if (traced) take_stages(&w->trace, k->stage[sg_rule_runs(r)]);
        sg_bench_note_clocks(w->base);
    }
    sg_rule_take(r, took);
    return SG_OK;
}

static sg_status take_count(kernel *k, sg_stream *s, sg_error *e)
{
    sg_attention_count count[SG_BENCH_BATCH];
    const sg_status    status = sg_attention_counts(k->bound, s, 0, count);
    k->count = count[0];
    return status ? sg_error_set(e, status, "bench: what was kept cannot be read") : SG_OK;
}

/* ---- how exact ---- */

static int64_t samples(const work *w) { return w->in.n < SAMPLE ? w->in.n : SAMPLE; }

/* Causal shapes have more tokens than SAMPLE. */
static int64_t sample(const work *w, int64_t i)
{
    return w->in.causal ? i / RUN * RUN * w->in.n / SAMPLE + i % RUN : i * w->in.n / samples(w);
}

static sg_status attend_exactly(const work *w, sg_attention_context *cpu, sg_attention_call_args *a, sg_error *e)
{
    const int64_t width = (int64_t)w->in.h * w->in.d, run = w->in.causal ? RUN : samples(w);
    sg_status     status = SG_OK;
    a->n = run;
    a->causal = w->in.causal;
    for (int64_t i = 0; i < samples(w) && status == SG_OK; i += run) {
        a->m = w->in.causal ? sample(w, i) + run : w->in.n;
        status = sg_attention_call(cpu, a, NULL, e);
        a->q = (const float *)a->q + run * width;
        a->o = (float *)a->o + run * width;
    }
    return status;
}

/* Rows of queries attended to in F32 by the CPU's exact kernel, [samples, h, d]. queries has room for as many. */
static sg_status true_rows(const work *w, float *rows, float *queries, sg_error *e)
{
    const sg_bench_input *const in = &w->in;
    const size_t                width = (size_t)in->h * (size_t)in->d;
    const sg_attention_options  o = {.threads = w->base->settings->threads};
    sg_attention_call_args      args = {.o = rows,
                                        .q = queries,
                                        .k = in->host[1],
                                        .v = in->host[2],
                                        .heads = in->h,
                                        .kv_heads = in->hk,
                                        .head_dim = in->d,
                                        .kind = "dense"};
    sg_attention_context       *cpu;
    for (int64_t i = 0; i < samples(w); i++)
        memcpy(queries + (size_t)i * width, in->host[0] + (size_t)sample(w, i) * width, width * sizeof *queries);
    SG_TRY(sg_attention_context_open(&cpu, &o, e));
    const sg_status status = attend_exactly(w, cpu, &args, e);
    sg_attention_context_close(&cpu);
    return status;
}

/* got has room for the sampled rows, and one of the device's behind them. */
static sg_status take_error(const work *w, sg_stream *s, const float *truth, float *got, kernel *k, sg_error *e)
{
    const int64_t   width = (int64_t)w->in.h * w->in.d, count = samples(w) * width;
    const sg_tensor row = {.data = got + count, .dtype = w->in.dtype};
    double          l1 = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i % width == 0) sg_download(s, row.data, sg_rows(w->y, sample(w, i / width), 1));
        got[i] = sg_load(&row, i % width);
        l1 += fabs((double)got[i] - (double)truth[i]);
        all += fabs((double)truth[i]);
    }
    const sg_distance d = sg_array_distance(truth, got, (size_t)count);
    k->l1 = l1 / all;
    k->l2 = d.relative_l2;
    k->cosine = d.cosine;
    return sg_bench_failure(s, e);
}

/* ---- the work ---- */

static sg_status upload_all(work *w, sg_stream *s, sg_error *e)
{
    SG_TRY(sg_bench_upload(s, w->q, w->in.host[0], e));
    SG_TRY(sg_bench_upload(s, w->k, w->in.host[1], e));
    SG_TRY(sg_bench_upload(s, w->v, w->in.host[2], e));
    int32_t *const token = sg_bench_input_order(&w->in, w->in.order);
    if (!token) return sg_error_memory(e, "bench");
    sg_upload(s, w->token, token);
    free(token);
    return SG_OK;
}

static int list_things(work *w)
{
    int n = 0;
    for (int traced = 0; traced < 2; traced++)
        for (int i = 0; i < w->kernels; i++) {
            if (traced && w->kernel[i].policy.kind == SG_ATTENTION_DENSE) continue;
            if (traced) w->kernel[i].traced = n;
            w->name[n] = w->kernel[i].name;
            w->thing[n++] = i;
        }
    if (!w->in.causal) w->name[n++] = "the order of tokens";
    return n;
}

static sg_status run_all(work *w, sg_stream *s, const float *truth, float *got, sg_error *e)
{
    SG_TRY(sg_rule_open(&w->rule, list_things(w), w->base->settings->repeat, SG_BENCH_SLACK, e));
    for (int i; (i = sg_rule_next(&w->rule)) >= 0;) {
        const bool first = w->rule.turns < w->kernels;
        SG_TRY(run(w, s, i, e));
        if (first) SG_TRY(take_count(&w->kernel[i], s, e));
        if (first) SG_TRY(take_error(w, s, truth, got, &w->kernel[i], e));
    }
    return SG_OK;
}

static sg_status measure(work *w, sg_stream *s, sg_error *e)
{
    const size_t width = (size_t)w->in.h * (size_t)w->in.d, count = (size_t)samples(w) * width;
    float *const truth = malloc((2 * count + width) * sizeof *truth), *const got = truth + count;
    sg_status status = truth ? upload_all(w, s, e) : sg_error_memory(e, "bench");
    if (!status) status = true_rows(w, truth, got, e);
    if (!status) {
        sg_trace_wrap(s, &w->trace);
        w->trace.synchronous = !w->base->backend->synchronous;
        status = run_all(w, s, truth, got, e);
    }
    free(truth);
    return status;
}

/* The tensors: without data, or in s. */
static void place(work *w, sg_stream *s)
{
    const sg_bench_input *const in = &w->in;
    w->y = sg_new(s, in->dtype, in->n, in->h, in->d);
    w->q = sg_new(s, in->dtype, in->n, in->h, in->d);
    w->k = sg_new(s, in->dtype, in->n, in->hk, in->d);
    w->v = sg_new(s, in->dtype, in->n, in->hk, in->d);
    w->token = sg_new(s, SG_I32, in->n);
}

static sg_status prepare(work *w, size_t *bytes, sg_error *e)
{
    sg_plan_totals totals = {0};
    sg_stream      plan = sg_plan_stream(&totals);
    place(w, &plan);
    /* or the plans of the kernels would find them in their scratch */
    w->y.data = w->q.data = w->k.data = w->v.data = NULL;
    const sg_attend_args args = args_of(w);
    for (int i = 0; i < w->kernels; i++) SG_TRY(bind(w, &w->kernel[i], &args, e));
    w->keep = sg_aligned(w->keep);
    *bytes = plan.scratch.peak + w->keep + w->scratch;
    const size_t total = w->base->backend->total_bytes;
    const size_t host = (size_t)w->in.n * (size_t)(w->in.h + 2 * w->in.hk) * (size_t)w->in.d * sizeof(float);
    if (host <= total && *bytes <= total - (w->base->backend->process_memory ? host : 0)) return SG_OK;
    return sg_error_set(e, SG_E_MEMORY, "bench: this shape takes %.1f GiB, more than there is; --heads takes less",
                        (double)(*bytes + host) * 0x1p-30);
}

static sg_status work_on(work *w, sg_error *e)
{
    size_t    bytes = 0;
    sg_stream s;
    SG_TRY(list_kernels(w, e));
    SG_TRY(sg_bench_input_open(&w->in, w->base->settings, e));
    if (w->in.causal && w->base->settings->order)
        return sg_error_set(e, SG_E_ARG, "--order has no effect with --shape %s: tokens of a text have one",
                            w->in.name);
    SG_TRY(prepare(w, &bytes, e));
    SG_TRY(sg_bench_ceilings(w->base, e));
    SG_TRY(sg_bench_input_fill(&w->in, w->base->backend->threads, e));
    SG_TRY(sg_bench_stream_open(w->base, &s, bytes, e));
    s.scratch.cap -= w->keep;
    s.keep = (sg_arena){.base = s.scratch.base + s.scratch.cap, .cap = w->keep};
    place(w, &s);
    const sg_status status = measure(w, &s, e);
    sg_bench_stream_close(&s);
    return status;
}

/* ---- what came out ---- */

/* Of the pairs that are visible. */
static double flops_of(const sg_bench_input *in)
{
    const double n = (double)in->n;
    return 4.0 * in->b * in->h * (in->causal ? n * (n + 1) / 2 : n * n) * in->d;
}

/* Seconds of a copy of q, k and v in and of 8 bits of each out. */
static double floor_of(const work *w)
{
    const sg_bench_input *const in = &w->in;
    const double                numbers = (double)in->b * (double)in->n * (in->h + 2 * in->hk) * in->d;
    return numbers * (double)(sg_dtype_size(in->dtype) + 1) / w->base->ceilings.copy;
}

static double density_of(const kernel *k)
{
    return k->count.blocks > 0 ? (double)k->count.kept / (double)k->count.blocks : 1;
}

static double median_of(const work *w, const kernel *k) { return sg_rule_median(&w->rule, (int)(k - w->kernel)); }

static double order_of(const work *w) { return w->in.causal ? 0 : sg_rule_median(&w->rule, w->rule.things - 1); }

/* Of the median one of the runs by stages. */
static const double *stages_of(const work *w, const kernel *k)
{
    return k->stage[k->traced ? sg_rule_median_run(&w->rule, k->traced) : 0];
}

/* What it takes before attending: the stages, and a layer's share of the order where that matters. */
static double before_of(const work *w, const kernel *k)
{
    double sum = k->policy.kind == SG_ATTENTION_SPARGE && w->in.layers ? order_of(w) / w->in.layers : 0;
    for (int i = 0; i < ATTEND; i++) sum += stages_of(w, k)[i];
    return sum;
}

static void print_ratio(const work *w, const kernel *to, const kernel *k)
{
    if (to)
        printf(" %6.2fx", median_of(w, to) / median_of(w, k));
    else
        printf(" %7s", "-");
}

static void print_kernels(const work *w)
{
    const kernel *const dense = first_of(w, SG_ATTENTION_DENSE), *const sage = first_of(w, SG_ATTENTION_SAGE);
    printf("%-14s %11s %8s %8s %7s %7s %8s %7s %9s %9s %10s\n", "kernel", "ms", "+-", "TOPS", "dense", "sage",
           "density", "mass", "rel. L1", "rel. L2", "cosine");
    for (int i = 0; i < w->kernels; i++) {
        const kernel *const k = &w->kernel[i];
        printf("%-14s %11.3f %7.1f%% %8.3f", k->name, median_of(w, k) * 1e3, 100 * sg_rule_spread(&w->rule, i),
               flops_of(&w->in) / median_of(w, k) * 1e-12);
        print_ratio(w, dense, k);
        print_ratio(w, sage, k);
        printf(" %7.1f%% %6.1f%% %9.2e %9.2e %10.7f%s\n", 100 * density_of(k), 100 * k->count.mass, k->l1, k->l2,
               k->cosine, k->count.kind == k->policy.kind ? "" : "  ran dense: too few tokens");
    }
}

/* Of a column with this heading. */
static int width_of(const char *heading)
{
    const int length = (int)strlen(heading);
    return length > 9 ? length : 9;
}

static void print_stages(const work *w)
{
    printf("\nstages, ms, of the median one of runs in which each stage is timed\n%-14s", "kernel");
    for (int i = 0; i < STAGES; i++) printf(" %*s", width_of(stages[i]), stages[i]);
    printf(" %9s %9s %9s\n", "rest", "before", "of copies");
    for (int i = 0; i < w->kernels; i++) {
        const kernel *const k = &w->kernel[i];
        if (!k->traced) continue;
        double rest = sg_rule_seconds(&w->rule, k->traced, sg_rule_median_run(&w->rule, k->traced));
        printf("%-14s", k->name);
        for (int j = 0; j < STAGES; j++) {
            printf(" %*.3f", width_of(stages[j]), stages_of(w, k)[j] * 1e3);
            rest -= stages_of(w, k)[j];
        }
        printf(" %9.3f %9.3f %8.2fx\n", rest * 1e3, before_of(w, k) * 1e3, before_of(w, k) / floor_of(w));
    }
    printf("before: what is done before attending; copies: q, k, v in and 8 bits of each out, %.3f ms\n",
           floor_of(w) * 1e3);
    if (!first_of(w, SG_ATTENTION_SPARGE) || w->in.causal) return;
    printf("order %s: %.3f ms to put the tokens in order and back, once a forward", sg_names("order")[w->in.order],
           order_of(w) * 1e3);
    if (w->in.layers)
        printf("; over %d layer%s %.3f ms each, which is in before", w->in.layers, sg_plural(w->in.layers),
               order_of(w) / w->in.layers * 1e3);
    putchar('\n');
}

static void print_all(const work *w)
{
    const sg_bench_input *const in = &w->in;
    sg_print(stdout, "%s in %s on %s\n%d x %d head%s of %d", in->name, in->dtype == SG_BF16 ? "bf16" : "f32",
             w->base->backend->device, in->b, in->h, sg_plural(in->h), in->d);
    if (in->h < in->all_heads) printf(" (of %d)", in->all_heads);
    if (in->hk < in->h) printf(", %d of keys", in->hk);
    printf(", %lld token%s (%s%lldx%lldx%lld", (long long)in->n, sg_plural(in->n), in->causal ? "causal, " : "",
           (long long)in->grid[0], (long long)in->grid[1], (long long)in->grid[2]);
    if (in->text_prefix) printf(", %lld of text before", (long long)in->text_prefix);
    if (in->text_suffix) printf(", %lld of text behind", (long long)in->text_suffix);
    printf("), %.4g TFLOP\n", flops_of(in) * 1e-12);
    sg_bench_print_ceilings(w->base);
    sg_bench_print_rule(w->base, &w->rule, w->name);
    printf("+-: half the distance between quartiles; TOPS: as if nothing were skipped; errors against F32 on %lld of "
           "the rows\n\n",
           (long long)samples(w));
    print_kernels(w);
    if (first_of(w, SG_ATTENTION_SAGE) || first_of(w, SG_ATTENTION_SPARGE)) print_stages(w);
}

static json_t *kernel_json(const work *w, const kernel *k)
{
    json_t      *stage = json_object();
    const double seconds = median_of(w, k), rate = flops_of(&w->in) / seconds;
    for (int i = 0; i < STAGES; i++) sg_json_set(&stage, stages[i], json_real(stages_of(w, k)[i]));
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:f}", "kernel", k->name, "ran",
                     sg_names("attention")[k->count.kind], "median_seconds", seconds, "spread",
                     sg_rule_spread(&w->rule, (int)(k - w->kernel)), "flops_per_second", rate, "of_ceiling",
                     rate / sg_bench_ceiling(w->base, w->in.dtype), "density", density_of(k), "mass", k->count.mass,
                     "relative_l1", k->l1, "relative_l2", k->l2, "cosine", k->cosine, "stage_seconds", stage,
                     "before_seconds", before_of(w, k));
}

static json_t *all_json(const work *w)
{
    const sg_bench_input *const in = &w->in;
    json_t                     *rows = json_array();
    for (int i = 0; i < w->kernels; i++) sg_json_append(&rows, kernel_json(w, &w->kernel[i]));
    return json_pack(
        "{s:o, s:[i,i,I,i], s:i, s:i, s:[I,I,I], s:I, s:I, s:b, s:s, s:s, s:i, s:f, s:s, s:f, s:i, s:f, s:o, s:o, s:o}",
        "shape", sg_report_name(in->name), "bhnd", in->b, in->h, (json_int_t)in->n, in->d, "kv_heads", in->hk,
        "all_heads", in->all_heads, "grid", (json_int_t)in->grid[0], (json_int_t)in->grid[1], (json_int_t)in->grid[2],
        "text_prefix", (json_int_t)in->text_prefix, "text_suffix", (json_int_t)in->text_suffix, "causal", in->causal,
        "device", w->base->backend->device, "dtype", in->dtype == SG_BF16 ? "bf16" : "f32", "threads",
        w->base->backend->threads, "flops", flops_of(in), "order", sg_names("order")[in->order], "order_seconds",
        order_of(w), "layers", in->layers, "copy_seconds", floor_of(w), "ceilings", sg_bench_ceilings_json(w->base),
        "measured", sg_bench_rule_json(w->base, &w->rule), "kernels", rows);
}

static sg_status bench_attention(sg_bench *b, sg_error *e)
{
    if (b->settings->inputs && strcmp(b->settings->inputs, "language") == 0) return sg_bench_language(b, e);
    const char *const dtype = b->settings->dtype ? b->settings->dtype : "auto";
    work *const       w = calloc(1, sizeof *w);
    if (!w) return sg_error_memory(e, "bench");
    w->base = b;
    w->in.dtype = b->backend->dtype;
    if (strcmp(dtype, "auto") != 0) w->in.dtype = strcmp(dtype, "bf16") == 0 ? SG_BF16 : SG_F32;
    sg_status status = work_on(w, e);
    if (!status && !b->silent) print_all(w);
    if (!status && b->settings->json)
        status = sg_report_take(b->settings->json, sg_report_envelope(SG_COMMAND_BENCH_ATTENTION, all_json(w)), e);
    for (int i = 0; i < w->kernels; i++) sg_attention_close(&w->kernel[i].bound);
    sg_rule_close(&w->rule);
    sg_trace_free(&w->trace);
    sg_bench_input_close(&w->in);
    free(w);
    return status;
}

sg_status sg_command_bench_attention(const sg_settings *s, sg_error *e) { return sg_bench_run(s, bench_attention, e); }
