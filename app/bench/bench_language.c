/* bench_language.c - see bench_language.h. */
#include "bench_language.h"
#include "base/number.h"
#include "base/text.h"
#include "bench_input.h"
#include "block_choice.h"
#include "command.h"
#include "json_build.h"
#include "meta.h"
#include "planted_keys.h"
#include "report.h"
#include "resolve.h"
#include "run.h"
#include "safetensors_write.h"
#include "tensor_source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 8, SCORES = 3, ARMS = SG_CHOICES + 1 + 2 * SCORES, SAMPLES = 512, SEED = 51 };
static const double SIMILARITY = 0.6; /* SpargeAttn's default, where the judge is on */
static const double GATE = 0.95;      /* of the oracle's recall, where a planted key has half of the mass or more */

/* Numbers of an option: "0.1,0.2". */
typedef struct numbers {
    double at[NUMBERS];
    int    count;
} numbers;

typedef struct arm {
    char            name[32];
    sg_policy       policy;
    bool            chosen; /* by what */
    sg_block_choice by;
    double          density, recall, mass, l1;
} arm;

typedef struct work {
    sg_bench      *base;
    sg_bench_input shape; /* of which only the shape is used */
    sg_rendering   now;
    sg_planted     in;
    numbers        margins, topk;
    sg_source     *file; /* --block-mask */
    sg_tensor      given;
    arm            arm[ARMS];
    int            arms;
    uint8_t       *mask;  /* [h, nq, nk] of an arm, and what it kept */
    float         *room;  /* [nk] */
    uint16_t      *list;  /* [h, nq, nk] */
    int32_t       *count; /* [h, nq] */
    json_t        *inputs;
} work;

static int64_t rows_of(const work *w) { return w->in.h * (w->in.n / SG_BLOCK_Q); }
static int64_t pairs_of(const work *w) { return rows_of(w) * (w->in.n / SG_BLOCK_K); }

/* ---- what is asked for ---- */

static sg_status read_numbers(numbers *to, const char *option, const char *text, double lo, double hi, sg_error *e)
{
    to->count = sg_number_list(text, lo, hi, to->at, NUMBERS);
    if (to->count) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: '%.80s' is not a list of up to %d numbers from %g to %g", option, text,
                        NUMBERS, lo, hi);
}

static sg_status read_shape(work *w, sg_error *e)
{
    sg_settings s = *w->base->settings;
    if (!s.shape) s.shape = "1,8,8192,64";
    SG_TRY(sg_bench_input_open(&w->shape, &s, e));
    const sg_bench_input *const in = &w->shape;
    const int                   hk = s.kv_heads ? s.kv_heads : in->h % 4 ? in->h : in->h / 4;
    if (in->b != 1 || in->text_prefix || in->text_suffix || in->n % SG_BLOCK_Q || in->n < SG_PLANTED_TOKENS_MIN ||
        in->d < SG_PLANTED_HEAD_MIN)
        return sg_error_set(
            e, SG_E_ARG,
            "--shape: '%s' should be 1,H,N,D with --inputs language, N a multiple of %d from %d on and D "
            "%d at least",
            s.shape, SG_BLOCK_Q, SG_PLANTED_TOKENS_MIN, SG_PLANTED_HEAD_MIN);
    if (in->h % hk) return sg_error_set(e, SG_E_ARG, "--kv-heads: %d is no divisor of %d heads", hk, in->h);
    w->in = (sg_planted){.n = in->n, .h = in->h, .hk = hk, .d = in->d, .dtype = SG_F32};
    const char *const dtype = s.dtype ? s.dtype : "auto";
    if (strcmp(dtype, "auto") == 0 ? w->base->backend->dtype == SG_BF16 : strcmp(dtype, "bf16") == 0)
        w->in.dtype = SG_BF16;
    return SG_OK;
}

/* The share of the visible blocks that the given mask keeps. */
static double density_of_given(const work *w)
{
    const int64_t        n = w->in.n, nq = n / SG_BLOCK_Q, nk = n / SG_BLOCK_K, heads = w->given.dim[0];
    const uint8_t *const mask = w->given.data;
    int64_t              kept = 0, all = 0;
    for (int64_t row = 0; row < heads * nq; row++) {
        const int64_t visible = sg_visible_blocks(true, row % nq, n, n);
        for (int64_t j = 0; j < visible; j++) kept += mask[row * nk + j] != 0;
        all += visible;
    }
    return (double)kept / (double)all;
}

static sg_status read_given(work *w, sg_error *e)
{
    const char *const path = w->now.request.attention.mask;
    sg_tensor *const  t = &w->given;
    const int64_t     nq = w->in.n / SG_BLOCK_Q, nk = w->in.n / SG_BLOCK_K;
    SG_TRY(sg_source_open(&w->file, path, e));
    if (sg_source_count(w->file) == 1) *t = sg_source_view(w->file, 0);
    if (t->rank != 3 || t->dtype != SG_U8 || (t->dim[0] != 1 && t->dim[0] != w->in.h) || t->dim[1] != nq ||
        t->dim[2] != nk)
        return sg_error_set(e, SG_E_FORMAT, "%s: should be one tensor, U8 or BOOL [1 or %d, %lld, %lld]", path, w->in.h,
                            (long long)nq, (long long)nk);
    w->topk = (numbers){{density_of_given(w)}, 1};
    if (w->topk.at[0] > 0) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: no block is kept", path);
}

/* ---- arms ---- */

static arm *add_arm(work *w, const char *name)
{
    arm *const a = &w->arm[w->arms++];
    *a = (arm){.policy = w->now.request.attention};
    snprintf(a->name, sizeof a->name, "%s", name);
    a->policy.kind = SG_ATTENTION_SPARGE;
    a->policy.named = true;
    a->policy.dense_steps = 0;
    a->policy.mask = NULL;
    a->policy.sink = 0;
    a->policy.budget = SG_BUDGET_ROW;
    a->policy.rule = SG_SELECT_GIVEN;
    return a;
}

static void list_arms(work *w)
{
    const sg_policy *const usual = &w->now.request.attention;
    for (int by = 0; by < SG_CHOICES; by++) {
        arm *const a = add_arm(w, sg_block_choice_names[by]);
        a->chosen = true;
        a->by = (sg_block_choice)by;
    }
    if (w->file) add_arm(w, "the given mask");
    for (int score = 0; score < SCORES; score++)
        for (int judge = 0; judge < 2; judge++) {
            if (w->base->settings->score && score != usual->score) continue;
            arm *const a = add_arm(w, sg_names("score")[score]);
            if (judge) sg_text_append(a->name, sizeof a->name, ", judged");
            a->policy.rule = SG_SELECT_TOPK;
            a->policy.score = score;
            a->policy.sink = usual->sink;
            a->policy.budget = usual->budget;
            a->policy.similarity = !judge ? -1 : usual->similarity >= 0 ? usual->similarity : (float)SIMILARITY;
        }
}

static sg_status settle(work *w, sg_error *e)
{
    const sg_settings *const s = w->base->settings;
    w->now = (sg_rendering){.settings = *s, .request.attention = sg_policy_default()};
    SG_TRY(sg_resolve_attention(&w->now, e));
    SG_TRY(read_shape(w, e));
    SG_TRY(read_numbers(&w->margins, "--margin", s->margins ? s->margins : "-2,0,2", -20, 20, e));
    SG_TRY(s->block_mask ? read_given(w, e)
                         : read_numbers(&w->topk, "--topk", s->topk_list ? s->topk_list : "0.1,0.2", 1e-6, 1, e));
    if (s->save_qkv && (!s->planted || w->margins.count > 1))
        return sg_error_set(e, SG_E_ARG, "--save-qkv takes one input: give --planted and one --margin");
    list_arms(w);
    const size_t host = (size_t)w->in.n * (size_t)(2 * w->in.h + 4 * w->in.hk) * (size_t)w->in.d * sizeof(float) +
                        (size_t)pairs_of(w) * (sizeof *w->in.mass + sizeof *w->mask + sizeof *w->list);
    if (host < w->base->backend->total_bytes / 2) return SG_OK;
    return sg_error_set(e, SG_E_MEMORY, "bench: this shape takes more than there is; --heads takes less");
}

/* ---- a run ---- */

typedef struct tensors {
    sg_tensor y, q, k, v;
} tensors;

static tensors place(const work *w, sg_stream *s)
{
    const sg_planted *const p = &w->in;
    return (tensors){sg_new(s, p->dtype, p->n, p->h, p->d), sg_new(s, p->dtype, p->n, p->h, p->d),
                     sg_new(s, p->dtype, p->n, p->hk, p->d), sg_new(s, p->dtype, p->n, p->hk, p->d)};
}

static void attend(const work *w, sg_attention *a, sg_stream *s, const tensors *t)
{
    const sg_attend_args args = {.y = t->y, .q = t->q, .k = t->k, .v = t->v, .scale = 1 / sqrtf((float)w->in.d)};
    sg_attention_upload(a, s);
    sg_attention_run(a, s, 0, 0, 0, 0, &args);
}

/* Keeps the lists of blocks. */
static void take_lists(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    const work *const w = context;
    if (sg_text_ends(name, ".list")) sg_download(s, w->list, t);
    if (sg_text_ends(name, ".count")) sg_download(s, w->count, t);
}

/* Relative L1 of the sampled rows. */
static sg_status take_error(const work *w, sg_stream *s, sg_tensor y, arm *a, sg_error *e)
{
    const int64_t   width = (int64_t)w->in.h * w->in.d;
    const sg_tensor row = {.data = malloc((size_t)width * sizeof(float)), .dtype = w->in.dtype};
    double          apart = 0, all = 0;
    if (!row.data) return sg_error_memory(e, "bench");
    for (int64_t i = 0; i < w->in.samples; i++) {
        sg_download(s, row.data, sg_rows(y, sg_planted_row(&w->in, i), 1));
        for (int64_t c = 0; !s->status && c < width; c++) {
            const double exact = (double)w->in.output[i * width + c];
            apart += fabs((double)sg_load(&row, c) - exact);
            all += fabs(exact);
        }
    }
    free(row.data);
    a->l1 = apart / all;
    return sg_bench_failure(s, e);
}

/* What share of the planted keys is in kept blocks, and what share of all mass; mask holds what was kept. */
static void take_recall(const work *w, arm *a)
{
    const sg_planted *const p = &w->in;
    const int64_t           nq = p->n / SG_BLOCK_Q, nk = p->n / SG_BLOCK_K;
    int64_t                 found = 0;
    double                  mass = 0;
    memset(w->mask, 0, (size_t)pairs_of(w));
    for (int64_t row = 0; row < rows_of(w); row++)
        for (int32_t i = 0; i < w->count[row]; i++) {
            const int64_t at = row * nk + w->list[row * nk + i];
            w->mask[at] = 1;
            mass += (double)p->mass[at];
        }
    for (int64_t t = SG_PLANTED_FIRST; t < p->n; t++)
        for (int head = 0; head < p->h; head++)
            found += w->mask[(head * nq + t / SG_BLOCK_Q) * nk + p->key[t * p->h + head] / SG_BLOCK_K];
    a->recall = (double)found / (double)((p->n - SG_PLANTED_FIRST) * p->h);
    a->mass = mass / (double)rows_of(w);
}

static sg_status run_on(work *w, arm *a, sg_attention *bound, sg_stream *s, sg_error *e)
{
    const tensors      t = place(w, s);
    sg_attention_count count;
    SG_TRY(sg_bench_upload(s, t.q, w->in.q, e));
    SG_TRY(sg_bench_upload(s, t.k, w->in.k, e));
    SG_TRY(sg_bench_upload(s, t.v, w->in.v, e));
    s->tap = take_lists;
    s->tap_context = w;
    attend(w, bound, s, &t);
    SG_TRY(sg_bench_wait(w->base, s, t.y, e));
    const sg_status status = sg_attention_counts(bound, s, 0, &count);
    if (status) return sg_error_set(e, status, "bench: what was kept cannot be read");
    a->density = (double)count.kept / (double)count.blocks;
    take_recall(w, a);
    return take_error(w, s, t.y, a, e);
}

/* Plans the run, and runs it in memory of that size. */
static sg_status run_bound(work *w, arm *a, sg_attention *bound, sg_error *e)
{
    sg_plan_totals totals = {0};
    sg_stream      plan = sg_plan_stream(&totals), s;
    const tensors  t = place(w, &plan);
    attend(w, bound, &plan, &t);
    SG_TRY(sg_bench_failure(&plan, e));
    const size_t keep = sg_aligned(plan.keep.peak);
    SG_TRY(sg_bench_stream_open(w->base, &s, plan.scratch.peak + keep, e));
    s.scratch.cap -= keep;
    s.keep = (sg_arena){.base = s.scratch.base + s.scratch.cap, .cap = keep};
    const sg_status status = run_on(w, a, bound, &s, e);
    sg_bench_stream_close(&s);
    return status;
}

static sg_status run_arm(work *w, arm *a, double topk, sg_error *e)
{
    const sg_planted *const  p = &w->in;
    const int64_t            nq = p->n / SG_BLOCK_Q, nk = p->n / SG_BLOCK_K;
    const sg_attention_shape shape = {
        .n = p->n,
        .h = p->h,
        .hk = p->hk,
        .d = p->d,
        .layers = 1,
        .steps = 1,
        .passes = 1,
        .values = w->base->backend->values,
        .f8 = w->base->backend->f8,
        .causal = true,
        .mask = a->chosen ? (sg_tensor){.data = w->mask, .dtype = SG_U8, .rank = 3, .dim = {p->h, nq, nk}} : w->given};
    sg_attention *bound;
    a->policy.amount = (float)topk;
    if (a->chosen) sg_block_choose(w->mask, a->by, (float)topk, p->mass, p->n, p->h, w->room, SEED);
    SG_TRY(sg_attention_open(&bound, &a->policy, &shape, e));
    const sg_status status = run_bound(w, a, bound, e);
    sg_attention_close(&bound);
    return status;
}

/* ---- what came out ---- */

static double of_oracle(const work *w, const arm *a)
{
    return w->arm[SG_CHOICE_ORACLE].recall > 0 ? a->recall / w->arm[SG_CHOICE_ORACLE].recall : 1;
}

static void print_input(const work *w, double topk)
{
    printf("\n%s, m = %g: a planted key has %.1f%% of its row; top-k %g\n", sg_planted_names[w->in.in], w->in.margin,
           100 * w->in.share, topk);
    printf("%-16s %8s %8s %10s %8s %9s\n", "kept by", "density", "recall", "of oracle", "mass", "rel. L1");
    for (int i = 0; i < w->arms; i++) {
        const arm *const a = &w->arm[i];
        const bool       misses = w->in.margin >= 0 && of_oracle(w, a) < GATE;
        printf("%-16s %7.1f%% %7.1f%% %10.3f %7.1f%% %9.2e%s\n", a->name, 100 * a->density, 100 * a->recall,
               of_oracle(w, a), 100 * a->mass, a->l1, misses ? "  misses" : "");
    }
    fflush(stdout); /* the next takes a while */
}

static void add_json(work *w, double topk)
{
    json_t *arms = json_array();
    for (int i = 0; i < w->arms; i++) {
        const arm *const a = &w->arm[i];
        sg_json_append(&arms,
                       json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "kept_by", a->name, "density", a->density, "recall",
                                 a->recall, "of_oracle", of_oracle(w, a), "mass", a->mass, "relative_l1", a->l1));
    }
    sg_json_append(&w->inputs, json_pack("{s:s, s:f, s:f, s:f, s:o}", "planted", sg_planted_names[w->in.in], "margin",
                                         w->in.margin, "share", w->in.share, "topk", topk, "arms", arms));
}

static json_t *all_json(work *w)
{
    const sg_planted *const p = &w->in;
    json_t *const           inputs = w->inputs;
    w->inputs = NULL;
    return json_pack("{s:[i,i,I,i], s:i, s:s, s:s, s:i, s:o}", "bhnd", 1, p->h, (json_int_t)p->n, p->d, "kv_heads",
                     p->hk, "device", w->base->backend->device, "dtype", p->dtype == SG_BF16 ? "bf16" : "f32",
                     "threads", w->base->backend->threads, "inputs", inputs);
}

static void print_head(const work *w)
{
    const sg_planted *const p = &w->in;
    printf("planted keys in %s on %s\n%d head%s of %d, %d of keys, %lld tokens, causal; errors against F32 on %lld of "
           "the rows\n",
           p->dtype == SG_BF16 ? "bf16" : "f32", w->base->backend->device, p->h, sg_plural(p->h), p->d, p->hk,
           (long long)p->n, (long long)p->samples);
    puts("recall: planted keys in kept blocks; mass: of exact attention in kept blocks; misses: below 0.95 of the\n"
         "oracle's recall, where a planted key has half of the mass or more");
}

/* ---- the work ---- */

static sg_status save(const work *w, sg_error *e)
{
    const sg_planted *const p = &w->in;
    const sg_named_tensor   all[] = {{"q", {p->q, SG_F32, 3, {p->n, p->h, p->d}}},
                                     {"k", {p->k, SG_F32, 3, {p->n, p->hk, p->d}}},
                                     {"v", {p->v, SG_F32, 3, {p->n, p->hk, p->d}}}};
    return sg_safetensors_write_all(w->base->settings->save_qkv, all, 3, NULL, e);
}

static sg_status measure_input(work *w, sg_error *e)
{
    SG_TRY(sg_planted_make(&w->in, SEED, w->base->backend->threads, e));
    if (w->base->settings->save_qkv) SG_TRY(save(w, e));
    SG_TRY(sg_planted_attend(&w->in, w->base->backend->threads, e));
    for (int i = 0; i < w->topk.count; i++) {
        for (int k = 0; k < w->arms; k++) SG_TRY(run_arm(w, &w->arm[k], w->topk.at[i], e));
        if (!w->base->silent) print_input(w, w->topk.at[i]);
        add_json(w, w->topk.at[i]);
    }
    return SG_OK;
}

static sg_status measure(work *w, sg_error *e)
{
    const sg_planted  shape = w->in;
    const char *const only = w->base->settings->planted;
    for (int in = 0; in < SG_PLANTED_KINDS; in++)
        for (int i = 0; i < w->margins.count; i++) {
            if (only && strcmp(only, sg_planted_names[in]) != 0) continue;
            sg_planted_free(&w->in);
            w->in = shape;
            w->in.in = (sg_planted_in)in;
            w->in.margin = w->margins.at[i];
            SG_TRY(measure_input(w, e));
        }
    return SG_OK;
}

static sg_status work_on(work *w, sg_error *e)
{
    SG_TRY(settle(w, e));
    w->in.samples = w->in.n < SAMPLES ? w->in.n : SAMPLES;
    w->inputs = json_array();
    w->mask = malloc((size_t)pairs_of(w));
    w->room = malloc((size_t)(w->in.n / SG_BLOCK_K) * sizeof *w->room);
    w->list = malloc((size_t)pairs_of(w) * sizeof *w->list);
    w->count = malloc((size_t)rows_of(w) * sizeof *w->count);
    if (!w->mask || !w->room || !w->list || !w->count) return sg_error_memory(e, "bench");
    if (!w->base->silent) print_head(w);
    SG_TRY(measure(w, e));
    if (!w->base->settings->json) return SG_OK;
    return sg_report_take(w->base->settings->json, sg_report_envelope(SG_COMMAND_BENCH_ATTENTION, all_json(w)), e);
}

sg_status sg_bench_language(sg_bench *b, sg_error *e)
{
    work *const w = calloc(1, sizeof *w);
    if (!w) return sg_error_memory(e, "bench");
    w->base = b;
    const sg_status status = work_on(w, e);
    json_decref(w->inputs);
    sg_planted_free(&w->in);
    sg_source_close(&w->file);
    sg_bench_input_close(&w->shape);
    free(w->mask);
    free(w->room);
    free(w->list);
    free(w->count);
    free(w);
    return status;
}
