/* tune_cache.c - see tune_cache.h. */
#include "tune_cache.h"
#include "interrupt.h"
#include "metrics.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one render ---- */

static int on_progress(void *context, sg_stage stage, int done, int total)
{
    sg_tune_renders *const r = context;
    sg_progress_update(&r->session.progress, stage, done, total);
    r->seen = stage == SG_STAGE_DENOISE && done == total;
    return r->seen || sg_interrupt_asked();
}

static sg_status on_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    sg_tune_renders *const r = context;
    (void)shape;
    (void)e;
    if (step == r->now.request.steps - 1) memcpy(r->latents, latents, r->count * sizeof *latents);
    return SG_OK;
}

sg_status sg_tune_render(sg_tune_renders *r, int prompt, int of, sg_report *report, sg_error *e)
{
    const sg_callbacks callbacks = {.context = r, .progress = on_progress, .latents = r->latents ? on_latents : NULL};
    sg_error           why = {0};
    r->now.request.prompt = r->prompts->prompt[prompt].text;
    r->seen = false;
    sg_progress_render(&r->session.progress, of ? prompt : 0, of, NULL);
    const sg_status status = sg_engine_render(r->session.engine, &r->now.request, &callbacks, report, &why);
    sg_progress_clear(&r->session.progress);
    r->renders++;
    r->seconds += report->seconds[SG_STAGE_DENOISE];
    if (status == SG_OK || (status == SG_E_CANCELLED && r->seen && !sg_interrupt_asked())) return SG_OK;
    return sg_error_set(e, status, "%s", why.text);
}

/* ---- the bounds ---- */

static void widen(double range[2], const float *distance, int steps)
{
    for (int i = 0; i < steps; i++) {
        double sum = 0;
        if (distance[i] > 0) range[0] = fmin(range[0], (double)distance[i]);
        for (int k = i; k < steps && k < i + SG_CACHE_RUN; k++) sum += (double)distance[k];
        range[1] = fmax(range[1], sum);
    }
}

/* The latents to compare with, and between which thresholds something changes. */
static sg_status look(sg_cache_search *s, double range[2], sg_error *e)
{
    sg_tune_renders *const r = s->render;
    range[0] = DBL_MAX;
    range[1] = 0;
    r->now.request.cache_threshold = DBL_MIN;
    for (int i = 0; i < r->prompts->count; i++) {
        sg_report report = {0};
        sg_progress_say(&r->session.progress, "%d/%d: %s", i + 1, r->prompts->count, r->prompts->prompt[i].text);
        SG_TRY(sg_tune_render(r, i, 0, &report, e));
        memcpy(s->first + (size_t)i * r->count, r->latents, r->count * sizeof *r->latents);
        widen(range, report.distance, r->now.request.steps);
    }
    if (!(range[1] > 0 && range[1] < SG_CACHE_THRESHOLD_MAX / 2))
        return sg_error_set(e, SG_E_ARG,
                            "--steps %d: none may be extrapolated: all are dense, or their latents are odd",
                            r->now.request.steps);
    range[0] = fmax(range[0], SG_CACHE_THRESHOLD_MIN);
    range[1] = fmax(1.01 * range[1], range[0]);
    return SG_OK;
}

/* ---- the search ---- */

/* To the four digits that are shown: what is found is what was tried. */
static double rounded(double v)
{
    const double unit = pow(10, floor(log10(v)) - 3);
    return round(v / unit) * unit;
}

static sg_status try_threshold(sg_cache_search *s, double threshold, bool *within, sg_error *e)
{
    sg_tune_renders *const r = s->render;
    sg_cache_trial *const  t = &s->trial[s->trials++];
    int                    steps = 0, skipped = 0;
    r->now.request.cache_threshold = threshold;
    *t = (sg_cache_trial){.threshold = threshold};
    *within = true;
    for (int i = 0; *within && i < r->prompts->count; i++) {
        sg_report report = {0};
        SG_TRY(sg_tune_render(r, i, 0, &report, e));
        const double error = sg_array_distance(s->first + (size_t)i * r->count, r->latents, r->count).relative_l2;
        *within = error <= s->bound; /* NaN is not */
        t->error = *within ? fmax(t->error, error) : error;
        steps += report.steps_done;
        skipped += report.steps_skipped;
    }
    t->skipped = (double)skipped / steps;
    sg_progress_say(&r->session.progress, "threshold %.4g: %.0f %% of steps extrapolated, error %.4f", threshold,
                    100 * t->skipped, t->error);
    if (*within)
        s->found = (sg_cache_tuned){.threshold = threshold,
                                    .bound = s->bound,
                                    .reached = t->error,
                                    .skipped = t->skipped,
                                    .steps = r->now.request.steps};
    return SG_OK;
}

static sg_status search(sg_cache_search *s, double low, double high, sg_error *e)
{
    bool within;
    high = rounded(high);
    SG_TRY(try_threshold(s, high, &within, e));
    while (!within && high > 1.1 * low && s->trials < SG_CACHE_TRIALS) {
        bool         good;
        const double middle = rounded(sqrt(low * high));
        SG_TRY(try_threshold(s, middle, &good, e));
        if (good)
            low = middle;
        else
            high = middle;
    }
    if (s->found.skipped > 0) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "--cache-error %g: the least threshold that skips a step changes the latents more",
                        s->bound);
}

sg_status sg_cache_search_run(sg_cache_search *s, sg_error *e)
{
    double                 range[2];
    sg_plan                plan;
    sg_tune_renders *const r = s->render;
    const size_t           prompts = (size_t)r->prompts->count;
    if (r->now.request.steps < SG_CACHE_STEPS_MIN)
        return sg_error_set(e, SG_E_ARG, "--steps %d: none is extrapolated below %d; take as many as renders have",
                            r->now.request.steps, SG_CACHE_STEPS_MIN);
    r->now.request.cache = SG_CACHE_USUAL;
    r->now.request.prompt = r->prompts->prompt[0].text;
    SG_TRY(sg_engine_plan(r->session.engine, &r->now.request, &plan, e));
    r->count = (size_t)(plan.latent[0] * plan.latent[1] * plan.latent[2] * plan.latent[3]);
    r->now.request.output_bytes = (prompts + 1) * r->count * sizeof(float);
    SG_TRY(sg_engine_plan(r->session.engine, &r->now.request, &plan, e));
    SG_TRY(sg_plan_fits(&plan, e));
    s->first = malloc(prompts * r->count * sizeof *s->first);
    r->latents = malloc(r->count * sizeof *r->latents);
    if (!s->first || !r->latents) return sg_error_set(e, SG_E_MEMORY, "no memory for the latents of all prompts");
    SG_TRY(look(s, range, e));
    return search(s, range[0], range[1], e);
}

void sg_cache_search_close(sg_cache_search *s)
{
    if (s->render) {
        free(s->render->latents);
        s->render->latents = NULL;
    }
    free(s->first);
    *s = (sg_cache_search){0};
}
