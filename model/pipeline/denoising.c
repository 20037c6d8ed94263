/* denoising.c - the loop of a render: its steps, the denoiser of each, its passes and their guidance, what was not
 * finite. */
#include "base/clock.h"
#include "render.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What all steps work on, in the keep arena. */
typedef struct denoising {
    sg_sampler_state state;
    sg_tensor        v;          /* what the model predicts, as the latents lie */
    sg_tensor        non_finite; /* I32: sg_pass's, for the denoiser of most layers */
    size_t           mark;       /* of the arena: what a denoiser places comes after it */
} denoising;

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

int sg_denoising_passes(const sg_render *render)
{
    return render->engine->texts.passes + (render->request->slg_scale > 0);
}

/* How many steps, from this one on and with it, issue the same ops on the same memory. */
static int same_steps(const sg_render *render, int step)
{
    const int same = sg_self_attention_same_steps(&render->self, step);
    int       n = 1;
    while (n < same && skips_layers(render, step + n) == skips_layers(render, step)) n++;
    return n;
}

/* v = what the outputs of the passes are together. */
static void guide(const sg_render *render, sg_stream *s, sg_tensor v, const sg_tensor *out, int passes, int step,
                  int denoiser)
{
    const double g = guidance(render, step, denoiser), skip = passes > 2 ? render->request->slg_scale : 0;
    if (passes < 2) return;
    sg_tap(s, out[1], "step.%d.v_uncond", step);
    if (passes > 2) sg_tap(s, out[2], "step.%d.v_skip", step);
    sg_combine(s, .y = v, .x = {out[1], out[0], out[2]}, .a = {(float)(1 - g), (float)(g + skip), (float)-skip},
               .count = passes);
}

/* ---- a step ---- */

/* How many counters of what is not finite a denoiser has, at most. */
static int counters_of(const sg_components *components)
{
    int most = 0;
    for (int i = 0; i < components->denoisers; i++)
        if (components->denoiser[i].layers > most) most = components->denoiser[i].layers;
    return most + 2;
}

static sg_step_rule cache_rule(const sg_request *r)
{
    const int    steps = sg_request_steps(r);
    sg_step_rule rule = sg_step_rule_of(r->cache, steps, sg_policy_dense_steps(&r->attention, steps));
    const double tuned = sg_request_cache_threshold(r);
    if (tuned > 0) rule.threshold = tuned;
    return rule;
}

static denoising allocate(sg_render *render, sg_stream *s)
{
    denoising d;
    sg_preview_place(render, s);
    sg_self_attention_place(&render->self, s);
    render->engine->family->render_open(render->engine->model, s, &render->geometry, &render->self);
    d.non_finite = sg_new_keep(s, SG_I32, counters_of(render->engine->components));
    sg_upload(s, d.non_finite, render->non_finite); /* zeros */
    d.state = sg_sampler_state_new(&render->sampler, s, render->geometry.latent);
    d.v = sg_alloc(s, &s->keep, SG_F32, 4, render->geometry.latent);
    sg_step_cache_prepare(&render->cache, s, cache_rule(render->request), render->sampler.steps, render->sampler.sigma,
                          render->geometry.latent);
    if (render->request->capture_out) render->cache.keep = render->request->capture_step;
    d.mark = s->keep.used;
    return d;
}

static sg_tensor of_text(sg_tensor modulation, int text)
{
    if (!modulation.rank) return modulation;
    return sg_reshape(sg_rows(modulation, text, 1), modulation.dim[1], modulation.dim[2]);
}

/* d->v = the guided output of the model for d->state.x at this step. Taps "step.%d.v_cond", "step.%d.v_uncond",
 * "step.%d.v_skip". */
static void predict(sg_render *render, sg_stream *s, const denoising *d, int step, int denoiser)
{
    const sg_engine *const     engine = render->engine;
    const sg_components *const components = engine->components;
    const int                  texts = engine->texts.passes, passes = texts + skips_layers(render, step);
    const size_t               mark = s->scratch.used;
    const sg_tensor            t = sg_new(s, SG_F32, 1);
    sg_tensor                  out[SG_PASSES_MAX] = {d->v};
    for (int k = 0; passes > 1 && k < passes; k++) out[k] = sg_alloc(s, &s->scratch, SG_F32, d->v.rank, d->v.dim);
    sg_upload(s, t, &(float){(float)render->sampler.timestep[step]});
    const sg_tensor modulation = sg_modulation_of_step(render, s, step);
    sg_self_attention_enter(&render->self, s, sg_sampler_of_1000(&render->sampler, step));
    sg_step_begin(s, same_steps(render, step));
    for (int k = 0; k < passes; k++) {
        const int     text = k % texts; /* behind the texts comes the prompt's once more */
        const sg_pass p = {.index = k,
                           .count = passes,
                           .text = text,
                           .skipped = k < texts ? NULL : render->request->skip_layers,
                           .denoiser = denoiser,
                           .step = step,
                           .timestep = sg_sampler_of_1000(&render->sampler, step),
                           .first_layer = sg_first_layer(components, denoiser),
                           .t = t,
                           .modulation = of_text(modulation, text),
                           .x = d->state.x,
                           .out = out[k],
                           .non_finite = sg_rows(d->non_finite, 0, components->denoiser[denoiser].layers + 2)};
        engine->family->forward(engine->model, s, &p);
    }
    sg_tap(s, out[0], "step.%d.v_cond", step);
    guide(render, s, d->v, out, passes, step, denoiser);
    sg_step_end(s);
    s->scratch.used = mark;
}

/* Latches SG_E_NUMERIC, and names the first block whose result was not finite. */
static void inspect(const sg_render *render, sg_stream *s, const denoising *d, int step, int denoiser)
{
    const sg_denoiser *const of = &render->engine->components->denoiser[denoiser];
    int32_t *const           non_finite = render->non_finite;
    sg_download(s, non_finite, sg_rows(d->non_finite, 0, of->layers + 2));
    for (int i = 0; i < of->layers + 2; i++) {
        if (!non_finite[i]) continue;
        if (i == 0) sg_fail(s, SG_E_NUMERIC, "NaN or infinity after the patch embedding at step %d", step + 1);
        if (i == of->layers + 1)
            sg_fail(s, SG_E_NUMERIC, "NaN or infinity in the output projection at step %d", step + 1);
        sg_fail(s, SG_E_NUMERIC, "NaN or infinity first appears in block %d of the %s at step %d", i - 1,
                of->component->name, step + 1);
    }
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

/* Draws the noise that the sampler wants after this step. The host does it while a device computes. */
static sg_status draw_noise(sg_render *render, int step)
{
    const int times = sg_sampler_draws(&render->sampler, step);
    return times > 0 ? sg_start_draw(render, times) : SG_OK;
}

/* d->v = the prediction of this step: the model's, or where the cache skips the step, the extrapolated one. */
static sg_status compute_step(sg_render *render, sg_stream *s, const denoising *d, int step, int denoiser)
{
    const bool skips = sg_step_cache_skips(&render->cache, s, step, d->state.x);
    const bool shadow = skips && render->request->cache == SG_CACHE_SHADOW, computes = !skips || shadow;
    double     smooth[2];
    sg_sampler_smooth(&render->sampler, step, smooth);
    render->report->distance[step] = (float)render->cache.moved;
    if (computes) predict(render, s, d, step, denoiser);
    SG_TRY(draw_noise(render, step));
    if (computes) inspect(render, s, d, step, denoiser);
    if (!skips) {
        sg_step_cache_keep(&render->cache, s, step, smooth, d->state.x, d->v);
        return SG_OK;
    }
    if (shadow) sg_download(s, render->shadow, d->v);
    sg_step_cache_extrapolate(&render->cache, s, step, smooth, d->state.x, d->v);
    render->report->skipped[step] = 1;
    render->report->steps_skipped++;
    if (!shadow) return SG_OK;
    sg_download(s, render->host_latents, d->v);
    if (!s->status) note_error(render, render->shadow, render->host_latents, step);
    return SG_OK;
}

/* ---- the loop ---- */

/* What all steps of this denoiser share, in place of what the one before it placed. */
static void open_denoiser(const sg_render *render, sg_stream *s, const denoising *d, int denoiser)
{
    s->keep.used = d->mark;
    render->engine->family->denoiser_open(render->engine->model, s, denoiser, &render->engine->texts);
}

static sg_status switch_denoiser(sg_render *render, sg_stream *s, const denoising *d, int from, int to)
{
    const sg_denoiser *const of = render->engine->components->denoiser;
    if (from >= 0) sg_stage_release(render, of[from].component);
    SG_TRY(sg_stage_load(render, of[to].component));
    open_denoiser(render, s, d, to);
    sg_step_cache_forget(&render->cache);
    return from >= 0 ? SG_OK : sg_stage_progress(render, SG_STAGE_DENOISE, 0, render->sampler.steps);
}

static sg_status make_order(sg_render *render)
{
    const int64_t *const grid = render->geometry.grid;
    const size_t         count = (size_t)(grid[0] * grid[1] * grid[2]);
    if (!render->self.ordered) return SG_OK;
    render->order = malloc(count * sizeof *render->order);
    if (!render->order || sg_order_make(render->order, render->request->attention.order, grid[0], grid[1], grid[2]))
        return sg_error_set(render->e, SG_E_MEMORY, "no memory for the order of %zu tokens", count);
    render->self.order = render->capture.order = render->order;
    return SG_OK;
}

/* Room on the host for what is not finite, and for what attention does, which is for sg_engine_attention. */
static sg_status open_counts(sg_render *render)
{
    sg_engine *const engine = render->engine;
    const size_t     count = (size_t)render->self.steps * (size_t)render->self.passes * (size_t)render->self.layers;
    engine->count = calloc(count, sizeof *engine->count);
    render->non_finite = calloc((size_t)counters_of(engine->components), sizeof *render->non_finite);
    if (!engine->count || !render->non_finite)
        return sg_error_set(render->e, SG_E_MEMORY, "no memory for counters of %zu layers", count);
    engine->steps = render->self.steps;
    engine->passes = render->self.passes;
    engine->layers = render->self.layers;
    return SG_OK;
}

/* The latents after a step, for a caller who wants them. */
static sg_status show_latents(sg_render *render, sg_stream *s, int step, sg_tensor x)
{
    if (!render->cb->latents) return SG_OK;
    sg_download(s, render->host_latents, x);
    SG_TRY(sg_stage_status(s, "denoising", render->e));
    return sg_stage_called(render, render->cb->latents(render->cb->context, step, render->host_latents,
                                                       render->geometry.latent, render->e));
}

/* For a caller who wants them, if one is due. */
static sg_status show_preview(const sg_render *render, sg_stream *s, const denoising *d, int step)
{
    int size[3];
    if (!sg_preview_due(render, step) || !render->cb->preview) return SG_OK;
    SG_TRY(sg_preview_make(render, s, d->state.x, d->v, step));
    SG_TRY(sg_stage_status(s, "preview", render->e));
    SG_TRY(sg_engine_preview_size(render->engine, render->request, size, render->e));
    return sg_stage_called(render,
                           render->cb->preview(render->cb->context, step, render->preview.host, size, render->e));
}

/* What skipped steps change, so far an absolute error, becomes a share of the latents' norm. */
static void relate_error(sg_render *render)
{
    const int64_t *const d = render->geometry.latent;
    double               size = 0;
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++)
        size += (double)render->host_latents[i] * (double)render->host_latents[i];
    if (size > 0) render->report->latent_error /= sqrt(size);
}

/* Takes the pad away: host_latents [c, f, y, x] are as decoded from here on. */
static void drop_pad(sg_render *render)
{
    const int64_t *const d = render->geometry.latent;
    const size_t         plane = (size_t)(d[2] * d[3]), all = (size_t)d[1] * plane;
    const size_t         pad = (size_t)render->geometry.pad * plane, kept = all - pad;
    for (size_t c = 0; pad && c < (size_t)d[0]; c++)
        memmove(render->host_latents + c * kept, render->host_latents + c * all + pad,
                kept * sizeof *render->host_latents);
}

/* One step, and what the caller sees of it. */
static sg_status run_step(sg_render *render, sg_stream *s, denoising *d, int step, int denoiser)
{
    sg_report *const          r = render->report;
    sg_attention_count *const counts = render->engine->count + step * render->self.passes * render->self.layers;
    const double              start = sg_seconds();
    SG_TRY(compute_step(render, s, d, step, denoiser));
    SG_TRY(show_preview(render, s, d, step));
    if (sg_sampler_draws(&render->sampler, step) > 0) sg_start_noise(render, s, d->state.noise);
    sg_sampler_step(&render->sampler, &d->state, s, step, d->v);
    sg_latents_hold(render, s, d->state.x);
    sg_tap(s, d->state.x, "step.%d.latents", step);
    sg_stage_note_peak(render, s); /* the denoiser's weights have come since it was opened */
    sg_stage_end(render, SG_STAGE_DENOISE, start);
    if (!r->skipped[step] && sg_self_attention_counts(&render->self, s, step, counts))
        return sg_stage_status(s, "denoising", render->e);
    sg_attention_error_add(&render->error, step, render->self.passes, counts);
    r->steps_done = step + 1;
    SG_TRY(show_latents(render, s, step, d->state.x));
    return sg_stage_progress(render, SG_STAGE_DENOISE, step + 1, render->sampler.steps);
}

static sg_status run_steps(sg_render *render, sg_stream *s)
{
    const sg_components *const components = render->engine->components;
    int                        denoiser = -1;
    SG_TRY(make_order(render));
    SG_TRY(open_counts(render));
    denoising d = allocate(render, s);
    SG_TRY(sg_start_make(render, s, &d.state));
    for (int i = 0; i < render->sampler.steps; i++) {
        const int want = sg_denoiser_at(components, render->sampler.timestep[i]);
        if (want != denoiser) SG_TRY(switch_denoiser(render, s, &d, denoiser, want));
        denoiser = want;
        SG_TRY(run_step(render, s, &d, i, denoiser));
    }
    sg_download(s, render->host_latents, d.state.x);
    sg_stage_release(render, components->denoiser[denoiser].component);
    SG_TRY(sg_stage_status(s, "denoising", render->e));
    relate_error(render);
    drop_pad(render);
    if (!render->request->capture_out) return SG_OK;
    return sg_capture_write(&render->capture, render->request->capture_out, render->geometry.grid, render->e);
}

sg_status sg_denoising_run(sg_render *render, const sg_phase *phase)
{
    sg_engine *const    engine = render->engine;
    sg_component *const preview = sg_preview_component(render);
    sg_stream           s;
    if (preview) SG_TRY(sg_stage_load(render, preview));
    SG_TRY(sg_stage_open(render, &s, phase));
    const sg_status st = run_steps(render, &s);
    sg_stage_close(render, &s);
    if (preview) sg_stage_release(render, preview);
    if (st) {
        free(engine->count); /* of some steps only */
        engine->count = NULL;
    }
    return st;
}

/* A step stands for those after it that ask for the same, of the same denoiser. */
sg_status sg_denoising_plan(sg_render *render, sg_stream *s, sg_plan_totals *t)
{
    denoising d = allocate(render, s);
    int       last = -1, until = 0;
    double    step_flops = 0;
    for (int i = 0; i < render->sampler.steps; i++) {
        const int at = sg_denoiser_at(render->engine->components, render->sampler.timestep[i]);
        if (at != last) open_denoiser(render, s, &d, at);
        if (at != last || i == until) {
            const double before = t->flops;
            until = i + same_steps(render, i);
            predict(render, s, &d, i, at);
            step_flops = t->flops - before;
        } else {
            t->flops += step_flops;
        }
        if (sg_preview_due(render, i)) SG_TRY(sg_preview_make(render, s, d.state.x, d.v, i));
        if (i < 3) sg_sampler_step(&render->sampler, &d.state, s, i, d.v);
        sg_latents_hold(render, s, d.state.x);
        last = at;
    }
    return SG_OK;
}
