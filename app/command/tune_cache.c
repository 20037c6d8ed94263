/* tune_cache.c - see tune_cache.h. */
#include "tune_cache.h"
#include "interrupt.h"
#include "metrics.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one render ---- */

/* The frames of a render are of no use here: it ends with its last step. */
static int on_progress(void *context, sg_stage stage, int done, int total)
{
    sg_cache_search *const s = context;
    sg_progress_update(s->progress, stage, done, total);
    s->seen = stage == SG_STAGE_DENOISE && done == total;
    return s->seen || sg_interrupt_asked();
}

static sg_status on_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    sg_cache_search *const s = context;
    (void)shape;
    (void)e;
    if (step == s->request.steps - 1) memcpy(s->latents, latents, s->count * sizeof *latents);
    return SG_OK;
}

static sg_status render(sg_cache_search *s, int prompt, double threshold, sg_report *report, sg_error *e)
{
    const sg_callbacks callbacks = {.context = s, .progress = on_progress, .latents = on_latents};
    sg_error           why = {0};
    s->request.prompt = s->prompts->prompt[prompt].text;
    s->request.cache_threshold = threshold;
    s->seen = false;
    sg_progress_render(s->progress, 0, 0, NULL);
    const sg_status status = sg_engine_render(s->engine, &s->request, &callbacks, report, &why);
    sg_progress_clear(s->progress);
    s->renders++;
    s->seconds += report->seconds[SG_STAGE_DENOISE];
    if (status == SG_OK || (status == SG_E_CANCELLED && s->seen && !sg_interrupt_asked())) return SG_OK;
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
    range[0] = DBL_MAX;
    range[1] = 0;
    for (int i = 0; i < s->prompts->count; i++) {
        sg_report report = {0};
        sg_progress_say(s->progress, "%d/%d: %s", i + 1, s->prompts->count, s->prompts->prompt[i].text);
        SG_TRY(render(s, i, DBL_MIN, &report, e));
        memcpy(s->first + (size_t)i * s->count, s->latents, s->count * sizeof *s->latents);
        widen(range, report.distance, s->request.steps);
    }
    if (!(range[1] > 0 && range[1] < SG_CACHE_THRESHOLD_MAX / 2))
        return sg_error_set(e, SG_E_ARG,
                            "--steps %d: none may be extrapolated: all are dense, or their latents are odd",
                            s->request.steps);
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
    sg_cache_trial *const t = &s->trial[s->trials++];
    int                   steps = 0, skipped = 0;
    *t = (sg_cache_trial){.threshold = threshold};
    *within = true;
    for (int i = 0; *within && i < s->prompts->count; i++) {
        sg_report report = {0};
        SG_TRY(render(s, i, threshold, &report, e));
        const double error = sg_array_distance(s->first + (size_t)i * s->count, s->latents, s->count).relative_l2;
        *within = error <= s->bound; /* NaN is not */
        t->error = *within ? fmax(t->error, error) : error;
        steps += report.steps_done;
        skipped += report.steps_skipped;
    }
    t->skipped = (double)skipped / steps;
    sg_progress_say(s->progress, "threshold %.4g: %.0f %% of steps extrapolated, error %.4f", threshold,
                    100 * t->skipped, t->error);
    if (*within)
        s->found = (sg_cache_tuned){.threshold = threshold,
                                    .bound = s->bound,
                                    .reached = t->error,
                                    .skipped = t->skipped,
                                    .steps = s->request.steps};
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
    double            range[2];
    sg_plan           plan;
    sg_request *const r = &s->request;
    if (r->steps < SG_CACHE_STEPS_MIN)
        return sg_error_set(e, SG_E_ARG, "--steps %d: none is extrapolated below %d; take as many as renders have",
                            r->steps, SG_CACHE_STEPS_MIN);
    r->cache = SG_CACHE_USUAL;
    r->prompt = s->prompts->prompt[0].text;
    SG_TRY(sg_engine_plan(s->engine, r, &plan, e));
    s->count = (size_t)(plan.latent[0] * plan.latent[1] * plan.latent[2] * plan.latent[3]);
    r->output_bytes = ((size_t)s->prompts->count + 1) * s->count * sizeof(float);
    SG_TRY(sg_engine_plan(s->engine, r, &plan, e));
    SG_TRY(sg_plan_fits(&plan, e));
    s->first = malloc((size_t)s->prompts->count * s->count * sizeof *s->first);
    s->latents = malloc(s->count * sizeof *s->latents);
    if (!s->first || !s->latents) return sg_error_set(e, SG_E_MEMORY, "no memory for the latents of all prompts");
    SG_TRY(look(s, range, e));
    return search(s, range[0], range[1], e);
}

void sg_cache_search_close(sg_cache_search *s)
{
    free(s->first);
    free(s->latents);
    *s = (sg_cache_search){0};
}
