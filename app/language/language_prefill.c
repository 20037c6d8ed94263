/* language_prefill.c - how long prefill takes: the arms take turns, by bench_rule.h. */
#include "base/clock.h"
#include "base/output_file.h"
#include "bench.h"
#include "interrupt.h"
#include "json_build.h"
#include "language_run.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>

/* A text of n random tokens. */
typedef struct work {
    sg_language_run *r;
    int32_t         *ids;
    int64_t          n;
    float           *logits;
    double           density[SG_ARMS_MAX];
} work;

static bool cancelled(void *context, int64_t done, int64_t total)
{
    (void)context, (void)done, (void)total;
    return sg_interrupt_asked();
}

static sg_status turn(work *w, int arm, double *seconds, sg_error *e)
{
    const sg_language_progress p = {cancelled, NULL};
    SG_TRY(sg_language_arm(w->r, arm, e));
    const double start = sg_seconds();
    SG_TRY(sg_language_append(w->r->model, w->ids, w->n, NULL, NULL, &p, e));
    SG_TRY(sg_language_logits(w->r->model, w->logits, e));
    *seconds = sg_seconds() - start;
    w->density[arm] = sg_language_density(w->r);
    return SG_OK;
}

static sg_status take_turns(work *w, sg_rule *rule, sg_error *e)
{
    for (int arm; (arm = sg_rule_next(rule)) >= 0;) {
        double seconds;
        SG_TRY(turn(w, arm, &seconds, e));
        sg_rule_take(rule, seconds);
    }
    return SG_OK;
}

static void report(const work *w, const sg_rule *rule, bool silent, json_t **all)
{
    const char *name[SG_ARMS_MAX];
    json_t     *arms = json_array();
    for (int a = 0; a < w->r->arms.count; a++) {
        const double seconds = sg_rule_median(rule, a);
        name[a] = w->r->arms.arm[a].name;
        sg_json_append(&arms, json_pack("{s:s, s:f, s:f, s:f, s:f}", "name", name[a], "seconds", seconds, "spread",
                                        sg_rule_spread(rule, a), "unsteady", sg_rule_unsteady(rule, a), "density",
                                        w->density[a]));
        if (!silent)
            printf("%lld tokens, %s: %.4g s, %.3f of %s, density %.3f\n", (long long)w->n, name[a], seconds,
                   seconds / sg_rule_median(rule, 0), name[0], w->density[a]);
    }
    if (!silent) sg_bench_print_rule(NULL, rule, name);
    fflush(stdout);
    sg_json_append(all, json_pack("{s:I, s:o, s:o}", "tokens", (json_int_t)w->n, "arms", arms, "measured",
                                  sg_bench_rule_json(NULL, rule)));
}

static sg_status measure(work *w, json_t **all, bool silent, sg_error *e)
{
    sg_rule   rule;
    sg_status status = sg_rule_open(&rule, w->r->arms.count, w->r->settings->repeat, SG_BENCH_SLACK, e);
    if (status == SG_OK) status = take_turns(w, &rule, e);
    if (status == SG_OK) report(w, &rule, silent, all);
    sg_rule_close(&rule);
    return status;
}

static sg_status measure_all(work *w, sg_error *e)
{
    const sg_settings *const      s = w->r->settings;
    const sg_language_info *const m = &w->r->info;
    const bool                    silent = s->json && sg_output_is_stdout(s->json);
    json_t                       *all = json_array();
    sg_status                     status = SG_OK;
    uint32_t                      seed = 1;
    for (int64_t i = 0; i < w->r->tokens; i++)
        w->ids[i] = (int32_t)((seed = seed * 1664525 + 1013904223) >> 8) % m->vocab;
    for (int i = 0; status == SG_OK && i < w->r->lengths; i++) {
        w->n = (int64_t)w->r->length[i];
        status = measure(w, &all, silent, e);
    }
    json_t *j = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "task", "prefill", "device", m->device, "dtype",
                          m->dtype, "weights", (json_int_t)m->weights, "cache", (json_int_t)m->cache, "scratch",
                          (json_int_t)m->scratch, "lengths", all);
    if (status == SG_OK && s->json) return sg_report_take(s->json, sg_report_envelope(SG_COMMAND_LANGUAGE, j), e);
    json_decref(j);
    return status;
}

sg_status sg_language_prefill(sg_language_run *r, sg_error *e)
{
    work            w = {.r = r,
                         .ids = malloc((size_t)r->tokens * sizeof *w.ids),
                         .logits = malloc((size_t)r->info.vocab * sizeof *w.logits)};
    const sg_status status = w.ids && w.logits ? measure_all(&w, e) : sg_error_memory(e, "prefill");
    free(w.ids);
    free(w.logits);
    return status;
}
