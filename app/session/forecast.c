/* forecast.c - see forecast.h. */
#include "forecast.h"
#include "base/text.h"

#include <stdio.h>

const char *sg_percent(char text[16], double share)
{
    const double p = 100 * share;
    snprintf(text, 16, p >= 9.95 || p == 0 ? "%.0f" : p >= 0.095 ? "%.1f" : "%.1g", p);
    return text;
}

static int least_tokens(const sg_policy *p) { return p->named ? SG_NAMED_TOKENS : SG_TOKENS; }

static void append_rule(char text[SG_FORECAST_TEXT], const sg_policy *p)
{
    if (p->thresholds)
        sg_text_append(text, SG_FORECAST_TEXT, "tuned thresholds");
    else if (p->rule == SG_SELECT_GIVEN)
        sg_text_append(text, SG_FORECAST_TEXT, "a given mask");
    else
        sg_text_append(text, SG_FORECAST_TEXT, "%s %g", p->rule == SG_SELECT_TOPK ? "top-k" : "tau", (double)p->amount);
    if (p->rule != SG_SELECT_GIVEN) sg_text_append(text, SG_FORECAST_TEXT, " by %s", sg_names("score")[p->score]);
    if (p->budget) sg_text_append(text, SG_FORECAST_TEXT, " over all heads");
    if (!p->thresholds && p->similarity >= 0) sg_text_append(text, SG_FORECAST_TEXT, ", sim %g", (double)p->similarity);
    if (!p->thresholds && p->pv > 0) sg_text_append(text, SG_FORECAST_TEXT, ", pv %g", (double)p->pv);
    if (p->sink) sg_text_append(text, SG_FORECAST_TEXT, ", sink %d", p->sink);
    sg_text_append(text, SG_FORECAST_TEXT, ", tail %s",
                   !p->tail       ? "off"
                   : p->tail_bias ? sg_names("tail_bias")[p->tail_bias]
                                  : "on");
}

const char *sg_attention_forecast_text(char text[SG_FORECAST_TEXT], const sg_policy *p, const sg_plan *plan)
{
    const int     last = plan->attention_steps, why = plan->attention_why;
    const int     without = why == SG_WHY_STEP ? p->dense_steps_kind : SG_ATTENTION_DENSE;
    const int64_t tokens = plan->tokens;
    snprintf(text, SG_FORECAST_TEXT, "%s", sg_names("attention")[last ? p->kind : without]);
    if (why == SG_WHY_SHORT)
        sg_text_append(text, SG_FORECAST_TEXT, ": %lld token%s fewer than %d%s", (long long)tokens,
                       tokens == 1 ? " is" : "s are", least_tokens(p),
                       !p->named && tokens >= SG_NAMED_TOKENS ? "; --attention sparge takes them" : "");
    else if (why == SG_WHY_BACKEND)
        sg_text_append(text, SG_FORECAST_TEXT, ": this backend has no other");
    else if (why == SG_WHY_STEP)
        sg_text_append(text, SG_FORECAST_TEXT, ": all steps are among the first %s %% that are %s",
                       sg_percent((char[16]){0}, p->dense_steps), sg_names("attention")[p->dense_steps_kind]);
    if (last == 0) return text;
    sg_text_append(text, SG_FORECAST_TEXT, " in the last %d of %d step%s", last, plan->steps, sg_plural(plan->steps));
    if (p->kind == SG_ATTENTION_SPARGE) {
        sg_text_append(text, SG_FORECAST_TEXT, ": ");
        append_rule(text, p);
        sg_text_append(text, SG_FORECAST_TEXT, ", order %s", sg_names("order")[p->order]);
    }
    if (p->pv_dtype)
        sg_text_append(text, SG_FORECAST_TEXT, ", weights and values %s", sg_names("pv_dtype")[p->pv_dtype]);
    if (p->dense_steps_kind && last < plan->steps)
        sg_text_append(text, SG_FORECAST_TEXT, ", the first %d by %s", plan->steps - last,
                       sg_names("attention")[p->dense_steps_kind]);
    if (p->dense_layers) sg_text_append(text, SG_FORECAST_TEXT, ", layers %s dense", p->dense_layers);
    if (plan->short_layers)
        sg_text_append(text, SG_FORECAST_TEXT, ", %d of %d layers dense: groups of %lld tokens are short",
                       plan->short_layers, plan->layers, (long long)plan->group);
    return text;
}
