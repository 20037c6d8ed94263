/* report_attention.c - see report_attention.h. */
#include "report_attention.h"
#include "base/text.h"
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const why_names[] = {"policy", "short", "step", "layer", "backend"};

static void append(char *text, size_t size, const char *fmt, ...) SG_PRINTF(3, 4);
static void append(char *text, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list      args;
    va_start(args, fmt);
    vsnprintf(text + n, size - n, fmt, args);
    va_end(args);
}

/* A share in percent, with a digit behind the point where that says something. */
static const char *percent(char text[16], double share)
{
    const double p = 100 * share;
    snprintf(text, 16, p >= 9.95 || p == 0 ? "%.0f" : p >= 0.095 ? "%.1f" : "%.1g", p);
    return text;
}
#define PERCENT(share) percent((char[16]){0}, share)

/* ---- before ---- */

sg_status sg_attention_bind_kinds(sg_attention **out, const sg_policy *p, const sg_model_info *info, int64_t tokens,
                                  int layers, int steps, sg_error *e)
{
    const sg_policy          any = {.kind = p->kind,
                                    .named = p->named,
                                    .dense_steps = p->dense_steps,
                                    .dense_steps_kind = p->dense_steps_kind,
                                    .dense_layers = p->dense_layers};
    const sg_attention_shape shape = {.n = tokens,
                                      .h = 1,
                                      .hk = 1,
                                      .d = 64,
                                      .layers = layers,
                                      .steps = steps,
                                      .passes = 1,
                                      .values = info->skips ? SG_I8 : SG_F32};
    return sg_attention_open(out, &any, &shape, e);
}

sg_status sg_attention_predict_runs(sg_attention_forecast *out, const sg_policy *p, const sg_model_info *info,
                                    int64_t tokens, int steps, sg_error *e)
{
    sg_attention *a = NULL;
    sg_policy     any = *p;
    any.dense_layers = NULL; /* device, tokens and steps decide; a layer stands for all */
    *out = (sg_attention_forecast){.steps = steps};
    SG_TRY(sg_attention_bind_kinds(&a, &any, info, tokens, 1, steps, e));
    for (int i = 0; i < steps; i++) {
        (void)sg_attention_kind_of(a, 0, i, &out->why);
        out->last += out->why == SG_WHY_POLICY && p->kind != SG_ATTENTION_DENSE;
    }
    sg_attention_close(&a);
    return SG_OK;
}

static void append_rule(char *text, size_t size, const sg_policy *p)
{
    if (p->tuned)
        append(text, size, "tuned thresholds");
    else if (p->rule == SG_SELECT_GIVEN)
        append(text, size, "a given mask");
    else
        append(text, size, "%s %g", p->rule == SG_SELECT_TOPK ? "top-k" : "tau", (double)p->amount);
    if (p->rule != SG_SELECT_GIVEN) append(text, size, " by %s", sg_score_names[p->score]);
    if (p->heads) append(text, size, " over all heads");
    if (!p->tuned && p->theta >= 0) append(text, size, ", sim %g", (double)p->theta);
    if (!p->tuned && p->pv_threshold > 0) append(text, size, ", pv %g", (double)p->pv_threshold);
    if (p->sink) append(text, size, ", sink %d", p->sink);
    append(text, size, ", tail %s", !p->tail ? "off" : p->tail_bias ? sg_tail_bias_names[p->tail_bias] : "on");
}

const char *sg_attention_forecast_text(char *text, size_t size, const sg_policy *p, const sg_attention_forecast *o,
                                       int64_t tokens)
{
    const sg_attention_kind without = o->why == SG_WHY_STEP ? p->dense_steps_kind : SG_ATTENTION_DENSE;
    snprintf(text, size, "%s", sg_attention_names[o->last ? p->kind : without]);
    if (o->why == SG_WHY_SHORT)
        append(text, size, ": %lld token%s fewer than %d%s", (long long)tokens, tokens == 1 ? " is" : "s are",
               p->named ? SG_NAMED_TOKENS : SG_TOKENS,
               !p->named && tokens >= SG_NAMED_TOKENS ? "; --attention sparge takes them" : "");
    else if (o->why == SG_WHY_BACKEND)
        append(text, size, ": this backend has no other");
    else if (o->why == SG_WHY_STEP)
        append(text, size, ": all steps are among the first %s %% that are %s", PERCENT(p->dense_steps),
               sg_attention_names[p->dense_steps_kind]);
    if (o->last == 0) return text;
    append(text, size, " in the last %d of %d step%s", o->last, o->steps, sg_plural(o->steps));
    if (p->kind == SG_ATTENTION_SPARGE) {
        append(text, size, ": ");
        append_rule(text, size, p);
        append(text, size, ", order %s", sg_order_names[p->order]);
    }
    if (p->pv_dtype) append(text, size, ", weights and values %s", sg_pv_dtype_names[p->pv_dtype]);
    if (p->dense_steps_kind && o->last < o->steps)
        append(text, size, ", the first %d by %s", o->steps - o->last, sg_attention_names[p->dense_steps_kind]);
    if (p->dense_layers) append(text, size, ", layers %s dense", p->dense_layers);
    return text;
}

/* ---- sums over passes and layers ---- */

typedef struct sum {
    int     entries, of_kind[3], of_why[SG_WHY_BACKEND + 1];
    int64_t blocks, kept, groups, skipped;
    double  mass, skipped_mass, least, most; /* mean of shares; kept share of an entry */
} sum;

static void add(sum *t, const sg_attention_count *c)
{
    if (!c->blocks) return; /* of another expert's steps */
    t->entries++;
    t->of_kind[c->kind]++;
    t->of_why[c->why]++;
    if (c->kind != SG_ATTENTION_SPARGE) return;
    const int    n = t->of_kind[SG_ATTENTION_SPARGE];
    const double kept = (double)c->kept / (double)c->blocks;
    t->blocks += c->blocks;
    t->kept += c->kept;
    t->groups += c->groups;
    t->skipped += c->skipped;
    t->mass += (c->mass - t->mass) / n;
    t->skipped_mass += (c->skipped_mass - t->skipped_mass) / n;
    if (n == 1 || kept < t->least) t->least = kept;
    if (n == 1 || kept > t->most) t->most = kept;
}

/* Of one layer of one step, over its passes; -1: of all layers. */
static sum of_step(const sg_attention_record *r, int step, int layer)
{
    sum t = {0};
    for (int p = 0; p < r->passes; p++)
        for (int l = 0; l < r->layers; l++)
            if (layer < 0 || l == layer)
                add(&t, &r->count[((size_t)step * (size_t)r->passes + (size_t)p) * (size_t)r->layers + (size_t)l]);
    return t;
}

static double share(int64_t part, int64_t whole) { return whole ? (double)part / (double)whole : 0; }

static sg_attention_kind kind_of(const sum *t)
{
    return t->of_kind[SG_ATTENTION_SPARGE] ? SG_ATTENTION_SPARGE
           : t->of_kind[SG_ATTENTION_SAGE] ? SG_ATTENTION_SAGE
                                           : SG_ATTENTION_DENSE;
}

/* Why what is dense is. */
static sg_attention_why why_of(const sum *t)
{
    for (int w = SG_WHY_BACKEND; w > SG_WHY_POLICY; w--)
        if (t->of_why[w]) return (sg_attention_why)w;
    return SG_WHY_POLICY;
}

static size_t entries_of(const sg_attention_record *r)
{
    return (size_t)r->steps * (size_t)r->passes * (size_t)r->layers;
}

/* ---- for people ---- */

/* The layers of a step that were named to be dense. */
static void append_layers(char *text, size_t size, const sum *t, const sg_attention_record *r)
{
    const int dense = t->of_why[SG_WHY_LAYER] / r->passes;
    if (dense)
        append(text, size, ", %d of %d layer%s dense", dense, t->entries / r->passes,
               sg_plural(t->entries / r->passes));
}

const char *sg_attention_summary(char *text, size_t size, const sg_attention_record *r)
{
    sum all = {0}, last = {0};
    int steps[3] = {0};
    *text = '\0';
    for (int i = 0; i < r->steps; i++) {
        last = of_step(r, i, -1);
        steps[kind_of(&last)]++;
    }
    for (size_t k = 0; k < entries_of(r); k++) add(&all, &r->count[k]);
    const sg_attention_kind kind = kind_of(&all);
    if (kind == SG_ATTENTION_DENSE) return text;
    if (kind == SG_ATTENTION_SPARGE)
        append(text, size, "%s %% of blocks skipped", PERCENT(share(all.blocks - all.kept, all.blocks)));
    else
        append(text, size, "quantised");
    append(text, size, " in %d of %d step%s", steps[kind], r->steps, sg_plural(r->steps));
    if (steps[SG_ATTENTION_DENSE]) append(text, size, " (%d dense: the first)", steps[SG_ATTENTION_DENSE]);
    append_layers(text, size, &last, r);
    if (all.skipped)
        append(text, size, "; the PV filter left out %s %% of the rest, %s %% of its mass",
               PERCENT(share(all.skipped, all.groups)), PERCENT(all.skipped_mass));
    return text;
}

const char *sg_attention_step_text(char *text, size_t size, const sg_attention_record *r, int step)
{
    static const char *const why[] = {"", "the sequence is short", "one of the first steps", "",
                                      "the backend knows no other"};
    const sum                t = of_step(r, step, -1);
    const sg_attention_kind  kind = kind_of(&t);
    const sg_attention_why   reason = why_of(&t);
    snprintf(text, size, "step %*d  %-6s", r->steps > 99 ? 3 : 2, step + 1, sg_attention_names[kind]);
    if (kind == SG_ATTENTION_SPARGE) {
        append(text, size, "  %3s %% of blocks kept", PERCENT(share(t.kept, t.blocks)));
        if (t.most - t.least >= 0.01) append(text, size, " (by layer %s to %s)", PERCENT(t.least), PERCENT(t.most));
        append(text, size, ", %s %% of their score", PERCENT(t.mass));
        if (t.skipped) append(text, size, ", PV of %s %% left out", PERCENT(share(t.skipped, t.groups)));
    }
    append_layers(text, size, &t, r);
    if (reason != SG_WHY_POLICY && reason != SG_WHY_LAYER) append(text, size, "  %s", why[reason]);
    return text;
}

/* ---- for machines ---- */

/* The decimal number that was asked for, not the float next to it. */
static json_t *decimal(float v)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)v);
    return json_real(strtod(text, NULL));
}

static json_t *text_or_null(const char *text) { return text ? json_string(text) : json_null(); }

static json_t *tuned_json(const sg_thresholds *t)
{
    if (!t) return json_null();
    return json_pack("{s:s, s:i, s:i, s:i}", "rule", t->rule == SG_SELECT_TOPK ? "topk" : "tau", "buckets", t->buckets,
                     "layers", t->layers, "heads", t->heads);
}

json_t *sg_report_policy(const sg_policy *p)
{
    static const char *const rules[] = {"topk", "tau", "mask"};
    return json_pack("{s:s, s:b, s:s, s:o, s:o, s:o, s:i, s:b, s:s, s:b, s:s, s:s, s:s, s:s*, s:f, s:s, s:o, s:o}",
                     "attention", sg_attention_names[p->kind], "named", p->named, "rule", rules[p->rule], "amount",
                     decimal(p->amount), "sim", decimal(p->theta), "pv", decimal(p->pv_threshold), "sink", p->sink,
                     "causal", p->causal, "score", sg_score_names[p->score], "tail", p->tail, "tail_bias",
                     sg_tail_bias_names[p->tail_bias], "budget", p->heads ? "heads" : "row", "order",
                     sg_order_names[p->order], "pv_dtype", p->pv_dtype ? sg_pv_dtype_names[p->pv_dtype] : NULL,
                     "dense_steps", p->dense_steps, "dense_steps_kind", sg_attention_names[p->dense_steps_kind],
                     "dense_layers", text_or_null(p->dense_layers), "tuned", tuned_json(p->tuned));
}

/* What was counted of sparse attention. */
static json_t *counts(const sum *t)
{
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:I, s:f}", "blocks", (json_int_t)t->blocks, "kept",
                     (json_int_t)t->kept, "density", share(t->kept, t->blocks), "mass", t->mass, "pv_groups",
                     (json_int_t)t->groups, "pv_skips", (json_int_t)t->skipped, "pv_skipped_mass", t->skipped_mass);
}

static json_t *entry(int step, int layer, const sum *t)
{
    json_t *const j = json_pack("{s:i, s:i, s:s, s:s}", "step", step, "layer", layer, "kind",
                                sg_attention_names[kind_of(t)], "why", why_names[why_of(t)]);
    return sg_report_if_complete(j, kind_of(t) != SG_ATTENTION_SPARGE || json_object_update_new(j, counts(t)) == 0);
}

static const struct {
    const char *op, *stage;
} stages[] = {
    {"pool", "predict"},  {"self_similarity", "predict"}, {"score", "predict"},        {"tail_bias", "predict"},
    {"select", "select"}, {"quantise", "quantise"},       {"attend_blocks", "attend"}, {"attend", "other"}};

static double op_seconds(const sg_trace *trace, const char *op)
{
    double seconds = 0;
    for (size_t k = 0; k < trace->rows; k++)
        if (strcmp(trace->row[k].op, op) == 0) seconds += trace->row[k].seconds;
    return seconds;
}

double sg_attention_trace_seconds(const sg_trace *trace)
{
    double seconds = 0;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) seconds += op_seconds(trace, stages[i].op);
    return seconds;
}

/* Seconds of a render by what the ops of sparse attention are for; "other" is all attention that is dense, that to the
 * prompt and the text encoder's too. */
static json_t *stage_seconds(const sg_trace *trace)
{
    json_t *j = json_object();
    bool    whole = j;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const double seconds = json_real_value(json_object_get(j, stages[i].stage)) + op_seconds(trace, stages[i].op);
        whole = whole && json_object_set_new(j, stages[i].stage, json_real(seconds)) == 0;
    }
    return sg_report_if_complete(j, whole);
}

json_t *sg_report_attention(const sg_policy *p, const sg_attention_record *r, const sg_trace *trace)
{
    json_t *const entries = json_array();
    sum           all = {0};
    bool          whole = entries;
    for (size_t k = 0; k < entries_of(r); k++) add(&all, &r->count[k]);
    for (int i = 0; i < r->steps; i++)
        for (int l = 0; l < r->layers && whole; l++) {
            const sum t = of_step(r, i, l);
            if (t.entries) whole = json_array_append_new(entries, entry(i, l, &t)) == 0;
        }
    json_t *const totals = counts(&all);
    for (int k = 0; whole && k < 3; k++) /* layers, of each pass */
        whole = json_object_set_new(totals, sg_attention_names[k], json_integer(all.of_kind[k])) == 0;
    json_t *const j = json_pack("{s:o, s:o, s:o}", "policy", sg_report_policy(p), "totals", totals, "layers", entries);
    if (whole && trace && trace->rows) whole = json_object_set_new(j, "seconds", stage_seconds(trace)) == 0;
    return sg_report_if_complete(j, whole);
}

/* What decides which blocks are kept. */
static bool set_rule(json_t *j, const sg_policy *p, const sg_settings *s)
{
    bool ok = true;
    if (s->sparse_config && p->tuned)
        ok = json_object_set_new(j, "sparse_config", sg_report_name(s->sparse_config)) == 0;
    else if (p->tuned)
        ok = json_object_set_new(j, "tuned", json_true()) == 0;
    else if (p->rule == SG_SELECT_GIVEN)
        ok = json_object_set_new(j, "block_mask", sg_report_name(s->block_mask)) == 0;
    else
        ok = json_object_set_new(j, p->rule == SG_SELECT_TOPK ? "topk" : "tau", decimal(p->amount)) == 0 &&
             json_object_set_new(j, "sim", decimal(p->theta)) == 0;
    if (!p->tuned) ok = ok && json_object_set_new(j, "pv", decimal(p->pv_threshold)) == 0;
    if (p->rule != SG_SELECT_GIVEN)
        ok = ok && json_object_set_new(j, "sink", json_integer(p->sink)) == 0 &&
             json_object_set_new(j, "score", json_string(sg_score_names[p->score])) == 0 &&
             json_object_set_new(j, "budget", json_string(p->heads ? "heads" : "row")) == 0;
    ok = ok && json_object_set_new(j, "tail", json_string(p->tail ? "on" : "off")) == 0;
    if (p->tail) ok = ok && json_object_set_new(j, "tail_bias", json_string(sg_tail_bias_names[p->tail_bias])) == 0;
    return ok && json_object_set_new(j, "order", json_string(sg_order_names[p->order])) == 0;
}

sg_status sg_report_add_attention(json_t *settings, const sg_policy *p, const sg_settings *s,
                                  const sg_attention_forecast *o, sg_error *e)
{
    const bool              quantised = o->last || (o->why == SG_WHY_STEP && p->dense_steps_kind);
    const sg_attention_kind kind = quantised ? p->kind : SG_ATTENTION_DENSE;
    bool                    ok = json_object_set_new(settings, "attention", json_string(sg_attention_names[kind])) == 0;
    if (kind == SG_ATTENTION_SPARGE) ok = ok && set_rule(settings, p, s);
    if (kind != SG_ATTENTION_DENSE) {
        ok = ok && json_object_set_new(settings, "dense_steps", json_real(p->dense_steps)) == 0;
        if (p->dense_steps_kind)
            ok = ok && json_object_set_new(settings, "dense_steps_kind",
                                           json_string(sg_attention_names[p->dense_steps_kind])) == 0;
        if (p->pv_dtype)
            ok = ok && json_object_set_new(settings, "pv_dtype", json_string(sg_pv_dtype_names[p->pv_dtype])) == 0;
        if (p->dense_layers)
            ok = ok && json_object_set_new(settings, "dense_layers", json_string(p->dense_layers)) == 0;
    }
    return ok ? SG_OK : sg_error_set(e, SG_E_MEMORY, "settings: cannot be put into JSON");
}
