/* denoising.c - the steps of a render: which denoiser, its passes and their guidance, and what was not finite. */
#include "render.h"

#include <math.h>
#include <stdlib.h>

int sg_denoiser_at(const sg_components *components, double timestep)
{
    int i = 0;
    while (i + 1 < components->denoisers && timestep < components->denoiser[i].from) i++;
    return i;
}

int sg_first_layer(const sg_components *components, int denoiser)
{
    int layers = 0;
    for (int i = 0; i < denoiser; i++) layers += components->denoiser[i].layers;
    return layers;
}

static double guidance(const sg_render *render, int step, int denoiser)
{
    const sg_request *const r = render->request;
    const double            scale = denoiser && r->cfg_scale_2 >= 0 ? r->cfg_scale_2 : r->cfg_scale;
    if (!r->dynamic_cfg) return scale;
    return render->engine->family->dynamic_guidance(scale, render->sampler.steps, render->sampler.timestep[step]);
}

/* ---- passes ---- */

static bool skips_layers(const sg_render *render, int step)
{
    return sg_skips_layers(render->request, render->sampler.steps, step);
}

int sg_render_passes(const sg_render *render)
{
    return render->engine->texts.passes + (render->request->slg_scale > 0);
}

int sg_render_same_steps(const sg_render *render, int step)
{
    const int same = sg_self_attention_same_steps(&render->self, step);
    int       n = 1;
    while (n < same && skips_layers(render, step + n) == skips_layers(render, step)) n++;
    return n;
}

/* Pass k of a step through the denoiser: what p says of all of them, and its own. */
static void forward(const sg_render *render, sg_stream *s, sg_pass p, int k, sg_tensor out)
{
    const int texts = render->engine->texts.passes;
    p.index = k;
    p.text = k % texts; /* behind the texts comes the prompt's once more */
    p.skipped = k < texts ? NULL : render->request->skip_layers;
    p.out = out;
    render->engine->family->forward(render->engine->model, s, &p);
}

/* v = what the outputs of the passes are together. */
static void guide(const sg_render *render, sg_stream *s, sg_tensor v, const sg_tensor *out, int passes, int step,
                  int denoiser)
{
    const double g = guidance(render, step, denoiser), skip = render->request->slg_scale;
    if (passes < 2) return;
    sg_tap(s, out[1], "step.%d.v_uncond", step);
    if (passes < 3) {
        sg_combine(s, .y = v, .x = {out[1], out[0]}, .a = {(float)(1 - g), (float)g}, .count = 2);
        return;
    }
    sg_tap(s, out[2], "step.%d.v_skip", step);
    sg_combine(s, .y = v, .x = {out[1], out[0], out[2]}, .a = {(float)(1 - g), (float)(g + skip), (float)-skip},
               .count = 3);
}

/* ---- a step ---- */

/* Counters of what is not finite, zero. */
static sg_tensor allocate_counters(const sg_components *components, sg_stream *s)
{
    int most = 0;
    for (int i = 0; i < components->denoisers; i++)
        if (components->denoiser[i].layers > most) most = components->denoiser[i].layers;
    const sg_tensor non_finite = sg_new_keep(s, SG_I32, most + 2);
    if (!s->memory->alloc) return non_finite;
    int32_t *const zero = calloc((size_t)most + 2, sizeof *zero);
    if (zero)
        sg_upload(s, non_finite, zero);
    else
        sg_fail(s, SG_E_MEMORY, "no memory for %d counters", most + 2);
    free(zero);
    return non_finite;
}

static sg_step_rule cache_rule(const sg_request *r)
{
    const int    steps = sg_request_steps(r);
    sg_step_rule rule = sg_step_rule_of(r->cache, steps, sg_policy_dense_steps(&r->attention, steps));
    const double tuned = sg_request_cache_threshold(r);
    if (tuned > 0) rule.threshold = tuned;
    return rule;
}

sg_denoising sg_render_allocate(sg_render *render, sg_stream *s)
{
    sg_denoising d;
    sg_self_attention_place(&render->self, s);
    render->engine->family->render_open(render->engine->model, s, &render->geometry, &render->self);
    d.non_finite = allocate_counters(render->engine->components, s);
    d.state = sg_sampler_state_new(&render->sampler, s, render->geometry.latent);
    d.v = sg_alloc(s, &s->keep, SG_F32, 4, render->geometry.latent);
    sg_step_cache_prepare(&render->cache, s, cache_rule(render->request), render->sampler.steps, render->sampler.sigma,
                          render->geometry.latent);
    if (render->request->capture_out) render->cache.keep = render->request->capture_step;
    d.mark = s->keep.used;
    return d;
}

void sg_render_hold(const sg_render *render, sg_stream *s, sg_tensor x)
{
    const sg_engine *const engine = render->engine;
    if (engine->family->hold && render->geometry.images) engine->family->hold(engine->model, s, x);
}

void sg_render_predict(sg_render *render, sg_stream *s, const sg_denoising *d, int step, int denoiser)
{
    const sg_components *const components = render->engine->components;
    const int                  passes = render->engine->texts.passes + skips_layers(render, step);
    const size_t               mark = s->scratch.used;
    const sg_tensor            t = sg_new(s, SG_F32, 1);
    sg_tensor                  out[SG_PASSES_MAX] = {d->v};
    for (int k = 0; passes > 1 && k < passes; k++) out[k] = sg_alloc(s, &s->scratch, SG_F32, d->v.rank, d->v.dim);
    sg_upload(s, t, &(float){(float)render->sampler.timestep[step]});
    sg_self_attention_enter(&render->self, s, sg_sampler_of_1000(&render->sampler, step));
    sg_step_begin(s, sg_render_same_steps(render, step));
    for (int k = 0; k < passes; k++)
        forward(render, s,
                (sg_pass){.count = passes,
                          .denoiser = denoiser,
                          .step = step,
                          .timestep = sg_sampler_of_1000(&render->sampler, step),
                          .first_layer = sg_first_layer(components, denoiser),
                          .t = t,
                          .x = d->state.x,
                          .non_finite = sg_rows(d->non_finite, 0, components->denoiser[denoiser].layers + 2)},
                k, out[k]);
    sg_tap(s, out[0], "step.%d.v_cond", step);
    guide(render, s, d->v, out, passes, step, denoiser);
    sg_step_end(s);
    s->scratch.used = mark;
}

void sg_render_inspect(const sg_render *render, sg_stream *s, const sg_denoising *d, int step, int denoiser)
{
    const sg_denoiser *const of = &render->engine->components->denoiser[denoiser];
    const sg_tensor          counters = sg_rows(d->non_finite, 0, of->layers + 2);
    int32_t *const           non_finite = calloc((size_t)of->layers + 2, sizeof *non_finite);
    if (!non_finite) {
        sg_fail(s, SG_E_MEMORY, "no memory for %d counters", of->layers + 2);
        return;
    }
    sg_download(s, non_finite, counters);
    for (int i = 0; i < of->layers + 2; i++) {
        if (!non_finite[i]) continue;
        if (i == 0) sg_fail(s, SG_E_NUMERIC, "NaN or infinity after the patch embedding at step %d", step + 1);
        if (i == of->layers + 1)
            sg_fail(s, SG_E_NUMERIC, "NaN or infinity in the output projection at step %d", step + 1);
        sg_fail(s, SG_E_NUMERIC, "NaN or infinity first appears in block %d of the %s at step %d", i - 1,
                of->component->name, step + 1);
    }
    free(non_finite);
}

/* With SG_CACHE_SHADOW: how far the extrapolated v of a step is from the computed one. */
static void note_error(sg_render *render, const float *computed, const float *extrapolated, int step)
{
    const int64_t *const d = render->geometry.latent;
    sg_report *const     r = render->report;
    double               off = 0, size = 0;
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++) {
        const double v = (double)computed[i], e = (double)extrapolated[i] - v;
        off += e * e;
        size += v * v;
    }
    r->skip_error[step] = (float)(size > 0 ? sqrt(off / size) : 0);
    r->latent_error += sg_sampler_weight(&render->sampler, step) * sqrt(off);
}

void sg_render_step(sg_render *render, sg_stream *s, const sg_denoising *d, int step, int denoiser)
{
    const bool skips = sg_step_cache_skips(&render->cache, s, step, d->state.x);
    const bool shadow = skips && render->request->cache == SG_CACHE_SHADOW;
    double     smooth[2];
    sg_sampler_smooth(&render->sampler, step, smooth);
    render->report->distance[step] = (float)render->cache.moved;
    if (!skips || shadow) {
        sg_render_predict(render, s, d, step, denoiser);
        sg_render_inspect(render, s, d, step, denoiser);
    }
    if (!skips) {
        sg_step_cache_keep(&render->cache, s, step, smooth, d->state.x, d->v);
        return;
    }
    if (shadow) sg_download(s, render->shadow, d->v);
    sg_step_cache_extrapolate(&render->cache, s, step, smooth, d->state.x, d->v);
    render->report->skipped[step] = 1;
    render->report->steps_skipped++;
    if (!shadow) return;
    sg_download(s, render->host_latents, d->v);
    if (!s->status) note_error(render, render->shadow, render->host_latents, step);
}
