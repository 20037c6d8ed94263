/* report_attention.c - see report_attention.h. */
#include "report_attention.h"
#include "base/text.h"
#include "json_build.h"
#include "resolve.h"

#include <stdio.h>
#include <string.h>

#define PERCENT(share) sg_percent((char[16]){0}, share)

static const char *const why_names[] = {"policy", "short", "step", "layer", "backend"};

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

/* Over the passes of a step or, for -1, of all; of a layer or, for -1, of all. */
static sum sum_of(const sg_attention_record *r, int step, int layer)
{
    sum       t = {0};
    const int entries = r->passes * r->layers, end = step < 0 ? r->steps : step + 1;
    for (int i = step < 0 ? 0 : step; i < end; i++)
        for (int k = 0; k < entries; k++)
            if (layer < 0 || k % r->layers == layer) add(&t, &r->count[(size_t)i * (size_t)entries + (size_t)k]);
    return t;
}

static double share(int64_t part, int64_t whole) { return whole ? (double)part / (double)whole : 0; }

static int kind_of(const sum *t)
{
    return t->of_kind[SG_ATTENTION_SPARGE] ? SG_ATTENTION_SPARGE
           : t->of_kind[SG_ATTENTION_SAGE] ? SG_ATTENTION_SAGE
                                           : SG_ATTENTION_DENSE;
}

/* Why what is dense is. */
static int why_of(const sum *t)
{
    for (int w = SG_WHY_BACKEND; w > SG_WHY_POLICY; w--)
        if (t->of_why[w]) return w;
    return SG_WHY_POLICY;
}

/* ---- for people ---- */

/* Layers of a step, of so many entries: what passes share is computed in one alone. */
static int layers_of(int entries, const sg_attention_record *r) { return (entries + r->passes - 1) / r->passes; }

/* The layers of a step that were named to be dense, or were it beside others since their tokens are few. */
static void append_layers(char *text, size_t size, const sum *t, const sg_attention_record *r)
{
    static const int reasons[] = {SG_WHY_LAYER, SG_WHY_SHORT};
    const int        all = layers_of(t->entries, r);
    for (int i = 0; i < 2; i++) {
        const int dense = layers_of(t->of_why[reasons[i]], r);
        if (dense && (i == 0 || kind_of(t) != SG_ATTENTION_DENSE))
            sg_text_append(text, size, ", %d of %d layer%s dense%s", dense, all, sg_plural(all),
                           i ? ": their sequences are short" : "");
    }
}

const char *sg_attention_summary(char *text, size_t size, const sg_attention_record *r)
{
    const sum all = sum_of(r, -1, -1);
    sum       last = {0};
    int       steps[3] = {0};
    *text = '\0';
    for (int i = 0; i < r->steps; i++) {
        last = sum_of(r, i, -1);
        steps[kind_of(&last)]++;
    }
    const int kind = kind_of(&all);
    if (kind == SG_ATTENTION_DENSE) return text;
    if (kind == SG_ATTENTION_SPARGE)
        sg_text_append(text, size, "%s %% of blocks skipped", PERCENT(share(all.blocks - all.kept, all.blocks)));
    else
        sg_text_append(text, size, "quantised");
    sg_text_append(text, size, " in %d of %d step%s", steps[kind], r->steps, sg_plural(r->steps));
    if (steps[SG_ATTENTION_DENSE]) sg_text_append(text, size, " (%d dense: the first)", steps[SG_ATTENTION_DENSE]);
    append_layers(text, size, &last, r);
    if (all.skipped)
        sg_text_append(text, size, "; the PV filter left out %s %% of the rest, %s %% of its mass",
                       PERCENT(share(all.skipped, all.groups)), PERCENT(all.skipped_mass));
    return text;
}

const char *sg_attention_step_text(char *text, size_t size, const sg_attention_record *r, int step)
{
    static const char *const why[] = {"", "the sequence is short", "one of the first steps", "",
                                      "the backend knows no other"};
    const sum                t = sum_of(r, step, -1);
    const int                kind = kind_of(&t);
    const int                reason = why_of(&t);
    snprintf(text, size, "step %*d  %-6s", r->steps > 99 ? 3 : 2, step + 1, sg_names("attention")[kind]);
    if (kind == SG_ATTENTION_SPARGE) {
        sg_text_append(text, size, "  %3s %% of blocks kept", PERCENT(share(t.kept, t.blocks)));
        if (t.most - t.least >= 0.01)
            sg_text_append(text, size, " (by layer %s to %s)", PERCENT(t.least), PERCENT(t.most));
        sg_text_append(text, size, ", %s %% of their score", PERCENT(t.mass));
        if (t.skipped) sg_text_append(text, size, ", PV of %s %% left out", PERCENT(share(t.skipped, t.groups)));
    }
    append_layers(text, size, &t, r);
    const bool of_layers = reason == SG_WHY_LAYER || (reason == SG_WHY_SHORT && kind != SG_ATTENTION_DENSE);
    if (reason != SG_WHY_POLICY && !of_layers) sg_text_append(text, size, "  %s", why[reason]);
    return text;
}

/* ---- for machines ---- */

static json_t *tuned_json(const sg_plan *plan)
{
    if (!plan->thresholds.layers) return json_null();
    return json_pack("{s:s, s:i, s:i, s:i}", "rule", plan->thresholds.rule == SG_SELECT_TOPK ? "topk" : "tau",
                     "buckets", plan->thresholds.buckets, "layers", plan->thresholds.layers, "heads",
                     plan->thresholds.heads);
}

json_t *sg_report_policy(const sg_policy *p, const sg_plan *plan)
{
    static const char *const rules[] = {"topk", "tau", "mask"};
    return json_pack("{s:s, s:b, s:s, s:f, s:f, s:f, s:i, s:b, s:s, s:b, s:s, s:s, s:s, s:s*, s:f, s:s, s:s?, s:o}",
                     "attention", sg_names("attention")[p->kind], "named", p->named, "rule", rules[p->rule], "amount",
                     sg_decimal(p->amount), "sim", sg_decimal(p->similarity), "pv", sg_decimal(p->pv), "sink", p->sink,
                     "causal", false, "score", sg_names("score")[p->score], "tail", p->tail, "tail_bias",
                     sg_names("tail_bias")[p->tail_bias], "budget", sg_names("budget")[p->budget], "order",
                     sg_names("order")[p->order], "pv_dtype", p->pv_dtype ? sg_names("pv_dtype")[p->pv_dtype] : NULL,
                     "dense_steps", p->dense_steps, "dense_steps_kind", sg_names("attention")[p->dense_steps_kind],
                     "dense_layers", p->dense_layers, "tuned", tuned_json(plan));
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
    json_t *j = json_pack("{s:i, s:i, s:s, s:s}", "step", step, "layer", layer, "kind",
                          sg_names("attention")[kind_of(t)], "why", why_names[why_of(t)]);
    if (kind_of(t) == SG_ATTENTION_SPARGE) sg_json_join(&j, counts(t));
    return j;
}

const char *const sg_attention_stage_names[] = {
    [SG_TIMED_PREDICT] = "predict", [SG_TIMED_SELECT] = "select", [SG_TIMED_QUANTISE] = "quantise",
    [SG_TIMED_ATTEND] = "attend",   [SG_TIMED_DENSE] = "dense",   [SG_TIMED_CROSS] = "cross"};

json_t *sg_report_attention_seconds(const double seconds[SG_ATTENTION_STAGES])
{
    json_t *j = json_object();
    for (int i = 0; i < SG_ATTENTION_STAGES; i++) sg_json_set(&j, sg_attention_stage_names[i], json_real(seconds[i]));
    return j;
}

json_t *sg_report_attention(const sg_policy *p, const sg_plan *plan, const sg_attention_record *r,
                            const double *seconds)
{
    const sum all = sum_of(r, -1, -1);
    json_t   *entries = json_array(), *totals = counts(&all);
    for (int i = 0; i < r->steps; i++)
        for (int l = 0; l < r->layers; l++) {
            const sum t = sum_of(r, i, l);
            if (t.entries) sg_json_append(&entries, entry(i, l, &t));
        }
    for (int k = 0; k < 3; k++) /* layers, of each pass */
        sg_json_set(&totals, sg_names("attention")[k], json_integer(all.of_kind[k]));
    return json_pack("{s:o, s:o, s:o, s:o*}", "policy", sg_report_policy(p, plan), "totals", totals, "layers", entries,
                     "seconds", seconds ? sg_report_attention_seconds(seconds) : NULL);
}
