/* pipeline.c - rendering: phase after phase, each with memory of its own. */
#include "base/hash.h"
#include "meta.h"
#include "render.h"
#include "rng.h"
#include "safetensors_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory and weights of a phase ---- */

static sg_status report_progress(sg_render *render, sg_stage stage, int done, int total)
{
    if (render->cb && render->cb->progress && render->cb->progress(render->cb->context, stage, done, total))
        return sg_error_set(render->e, SG_E_CANCELLED, "cancelled");
    return SG_OK;
}

static int load_progress(void *context, int done, int total)
{
    return report_progress(context, SG_STAGE_LOAD, done, total) != SG_OK;
}

/* Seconds since start belong to this stage, and so does the memory of now. */
static void end_stage(sg_render *render, sg_stage stage, double start)
{
    sg_report *const r = render->report;
    r->seconds[stage] += sg_seconds() - start;
    r->peak_bytes = render->engine->backend->host_memory ? sg_resident_peak() : r->held_bytes;
    r->stage_peak[stage] = r->peak_bytes;
}

static sg_status load_weights(sg_render *render, sg_component *p)
{
    const double start = sg_seconds();
    SG_TRY(report_progress(render, SG_STAGE_LOAD, 0, 1));
    SG_TRY(sg_bind_load(p->bind, render->engine->backend, load_progress, render, render->e));
    render->held += sg_bind_bytes(p->bind, render->engine->backend, NULL);
    end_stage(render, SG_STAGE_LOAD, start);
    return SG_OK;
}

static void unload_weights(sg_render *render, sg_component *p)
{
    if (render->keep_weights) return;
    sg_backend_drop_packed(render->engine->backend);
    sg_bind_unload(p->bind);
    render->held -= sg_bind_bytes(p->bind, render->engine->backend, NULL);
}

/* Weights of one unit of a phase: sg_render_component's. */
static sg_status load(sg_render *render, const sg_phase *phase, int unit)
{
    return load_weights(render, sg_render_component(render->engine->components, phase, unit));
}

static void unload(sg_render *render, const sg_phase *phase, int unit)
{
    unload_weights(render, sg_render_component(render->engine->components, phase, unit));
}

static void unload_all(sg_engine *engine)
{
    sg_component *p;
    sg_phase      phase[SG_PHASES_MAX];
    const int     phases = sg_render_phases(engine->components, true, true, phase);
    sg_backend_drop_packed(engine->backend);
    for (int k = 0; k < phases; k++)
        for (int i = 0; (p = sg_render_component(engine->components, &phase[k], i)) != NULL; i++)
            sg_bind_unload(p->bind);
    if (engine->preview.ops) sg_bind_unload(engine->preview.ops->component(engine->preview.of)->bind);
}

/* Unloads all weights, unless the plan keeps them: what an earlier render kept is in the way of one that cannot, and a
 * render that fails leaves loaded what it was at work with. */
static void drop_weights(sg_render *render)
{
    if (!render->keep_weights) unload_all(render->engine);
}

/* With the model's own LoRA for renders with a picture where this is one, and without it otherwise. */
static sg_status plan(sg_render *render, sg_plan *out)
{
    sg_engine *const engine = render->engine;
    const bool       image = sg_geometry_of(engine->components, render->request).images > 0;
    if (engine->image_file && image != (engine->image_lora != NULL)) {
        sg_backend_make_current(engine->backend);
        unload_all(engine);
        SG_TRY(sg_engine_set_image(engine, image, render->e));
    }
    return sg_render_plan(render, out);
}

/* All that is held while s is open. */
static void note_peak(sg_render *render, const sg_stream *s)
{
    const size_t packed = sg_backend_packed_bytes(render->engine->backend);
    const size_t held = render->held + s->keep.cap + s->scratch.cap + packed;
    if (held > render->report->held_bytes) render->report->held_bytes = held;
}

/* A stream whose arenas have exactly what the plan found for this phase. */
static sg_status stream_open(sg_render *render, sg_stream *s, const sg_phase *phase)
{
    *s = sg_stream_of(render->engine->backend);
    s->tap = render->engine->tap;
    s->tap_context = render->engine->tap_context;
    if (render->engine->check)
        sg_check_wrap(s);
    else if (render->engine->trace)
        sg_trace_wrap(s, render->engine->trace);
    sg_arena *const arena[2] = {&s->keep, &s->scratch};
    const size_t    bytes[2] = {phase->keep, phase->scratch};
    for (int i = 0; i < 2; i++) {
        void *const block = bytes[i] ? s->memory->alloc(s->backend, bytes[i]) : NULL;
        if (bytes[i] && !block) {
            if (i) s->memory->release(s->backend, (void *)s->keep.base);
            return sg_error_set(render->e, SG_E_MEMORY, "the device cannot give %zu bytes", bytes[i]);
        }
        *arena[i] = (sg_arena){.base = (uintptr_t)block, .cap = bytes[i]};
    }
    note_peak(render, s);
    return SG_OK;
}

static void stream_close(sg_render *render, sg_stream *s)
{
    note_peak(render, s); /* packed weights have come since it was opened */
    sg_backend_drop_scratch(render->engine->backend);
    s->memory->release(s->backend, (void *)s->keep.base);
    s->memory->release(s->backend, (void *)s->scratch.base);
}

/* ---- the phases ---- */

/* Progress of a stage before denoising: its phases before this one are done, and so many units of this one. */
static sg_status report_conditioning(sg_render *render, const sg_phase *phase, int units)
{
    const sg_components *const components = render->engine->components;
    const sg_stage             stage = sg_phase_stage(components, phase);
    int                        done = units, total = 0;
    for (int i = 0; i < render->phases; i++) {
        const sg_phase *const p = &render->phase[i];
        if (sg_phase_stage(components, p) != stage) continue;
        total += p->units;
        if (p < phase) done += p->units;
    }
    return report_progress(render, stage, done, total);
}

/* A phase at work. */
typedef struct phase_at_work {
    sg_render      *render;
    const sg_phase *phase;
} phase_at_work;

static bool tell_units(void *context, int done, int total)
{
    const phase_at_work *const w = context;
    (void)total; /* as on the plan */
    return report_conditioning(w->render, w->phase, done) != SG_OK;
}

/* Runs a text encoder, the encoder of the start, or what the family adds, on a stream of its own. */
static sg_status compute_condition(sg_render *render, const sg_phase *phase)
{
    sg_engine *const engine = render->engine;
    const double     start = sg_seconds();
    const bool       text = phase->kind == SG_PHASE_TEXT, start_frames = phase->kind == SG_PHASE_START;
    phase_at_work    work = {render, phase};
    const sg_watch   watch = {tell_units, &work};
    sg_stream        s;
    SG_TRY(report_conditioning(render, phase, 0));
    SG_TRY(stream_open(render, &s, phase));
    if (text)
        sg_conditioning_encode(&engine->texts, engine->components, phase->index, &s);
    else if (start_frames)
        sg_render_encode_start(render, &s, watch);
    else
        engine->components->added[phase->index].run(engine->model, &s, render->request, &render->geometry, watch);
    stream_close(render, &s);
    end_stage(render, sg_phase_stage(engine->components, phase), start);
    SG_TRY(sg_render_status(&s,
                            text           ? "text encoder"
                            : start_frames ? sg_start_name(render->request)
                                           : engine->components->added[phase->index].name,
                            render->e));
    return text ? report_conditioning(render, phase, phase->units) : SG_OK;
}

/* Where the hash of what this phase encoded last is kept; NULL: it encodes nothing. */
static uint64_t *made_of(const sg_render *render, const sg_phase *phase)
{
    sg_engine *const engine = render->engine;
    if (phase->kind == SG_PHASE_START) return &engine->start_hash;
    if (phase->kind != SG_PHASE_ADDED || !engine->components->added[phase->index].of_images) return NULL;
    return &engine->encoded[phase->index];
}

/* Of the samples of all pictures, or of the start, of their sizes and of what changes how they are encoded; not 0. */
static uint64_t hash_of_input(const sg_render *render, const sg_phase *phase)
{
    const sg_request *const r = render->request;
    const size_t            frame = (size_t)r->width * (size_t)r->height * 3;
    const int               size[] = {r->width, r->height, r->frames, render->geometry.images, render->tiled};
    uint64_t                hash = sg_hash(SG_HASH, size, sizeof size);
    if (phase->kind == SG_PHASE_START) return sg_hash(hash, sg_request_start(r), (size_t)r->frames * frame) | 1;
    for (int i = 0; i < render->geometry.images; i++) {
        const sg_request_image *const p = &r->image[i];
        const int                     whole[] = {p->whole_width, p->whole_height};
        hash = sg_hash(sg_hash(hash, p->rgb, frame), whole, sizeof whole);
        if (p->whole) hash = sg_hash(hash, p->whole, (size_t)whole[0] * (size_t)whole[1] * 3);
    }
    return hash | 1;
}

/* What the same tokens, pictures or frames have become before is not made again. */
static sg_status run_condition(sg_render *render, const sg_phase *phase)
{
    uint64_t *const made = made_of(render, phase);
    const uint64_t  want = made ? hash_of_input(render, phase) : 0;
    if (phase->kind == SG_PHASE_TEXT && sg_conditioning_encoded(&render->engine->texts, phase->index)) return SG_OK;
    if (made && *made == want) return SG_OK;
    if (made) *made = 0;
    SG_TRY(load(render, phase, 0));
    SG_TRY(compute_condition(render, phase));
    unload(render, phase, 0);
    if (made) *made = want;
    return SG_OK;
}

static sg_status switch_denoiser(sg_render *render, sg_stream *s, const sg_phase *phase, size_t mark, int from, int to)
{
    if (from >= 0) unload(render, phase, from);
    SG_TRY(load(render, phase, to));
    s->keep.used = mark;
    render->engine->family->denoiser_open(render->engine->model, s, to, &render->engine->texts);
    return SG_OK;
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

/* Room for what attention does, for sg_engine_attention. */
static sg_status open_counts(sg_render *render)
{
    sg_engine *const engine = render->engine;
    const size_t     count = (size_t)render->self.steps * (size_t)render->self.passes * (size_t)render->self.layers;
    engine->count = calloc(count, sizeof *engine->count);
    if (!engine->count) return sg_error_set(render->e, SG_E_MEMORY, "no memory for counters of %zu layers", count);
    engine->steps = render->self.steps;
    engine->passes = render->self.passes;
    engine->layers = render->self.layers;
    return SG_OK;
}

/* The latents after a step, for a caller who wants them. */
static sg_status show_latents(sg_render *render, sg_stream *s, int step, sg_tensor x)
{
    if (!render->cb || !render->cb->latents) return SG_OK;
    sg_download(s, render->host_latents, x);
    SG_TRY(sg_render_status(s, "denoising", render->e));
    return render->cb->latents(render->cb->context, step, render->host_latents, render->geometry.latent, render->e);
}

/* For a caller who wants them, if one is due. */
static sg_status show_preview(const sg_render *render, sg_stream *s, const sg_denoising *d, int step)
{
    int size[3];
    if (!sg_preview_due(render, step) || !render->cb || !render->cb->preview) return SG_OK;
    SG_TRY(sg_preview_make(render, s, d, step));
    SG_TRY(sg_render_status(s, "preview", render->e));
    SG_TRY(sg_engine_preview_size(render->engine, render->request, size, render->e));
    const sg_preview p = {
        .step = step, .frames = size[0], .height = size[1], .width = size[2], .rgb = render->preview.host};
    return render->cb->preview(render->cb->context, &p, render->e);
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

static sg_status denoise_steps(sg_render *render, const sg_phase *phase, sg_stream *s)
{
    SG_TRY(make_order(render));
    SG_TRY(open_counts(render));
    sg_preview_place(render, s);
    sg_denoising d = sg_render_allocate(render, s);
    int          denoiser = -1;
    SG_TRY(sg_render_start(render, s, &d.state));
    for (int i = 0; i < render->sampler.steps; i++) {
        const int want = sg_denoiser_at(render->engine->components, render->sampler.timestep[i]);
        if (want != denoiser) {
            SG_TRY(switch_denoiser(render, s, phase, d.mark, denoiser, want));
            sg_step_cache_forget(&render->cache);
        }
        if (denoiser < 0) SG_TRY(report_progress(render, SG_STAGE_DENOISE, 0, render->sampler.steps));
        denoiser = want;
        const double start = sg_seconds();
        sg_render_step(render, s, &d, i, denoiser);
        SG_TRY(show_preview(render, s, &d, i));
        for (int k = sg_sampler_draws(&render->sampler, i); k > 0; k--)
            SG_TRY(sg_render_noise(render, s, d.state.noise));
        sg_sampler_step(&render->sampler, &d.state, s, i, d.v);
        sg_render_hold(render, s, d.state.x);
        sg_tap(s, d.state.x, "step.%d.latents", i);
        note_peak(render, s); /* the denoiser's weights have come since it was opened */
        end_stage(render, SG_STAGE_DENOISE, start);
        if (!render->report->skipped[i] &&
            sg_self_attention_counts(&render->self, s, i,
                                     render->engine->count + i * render->engine->passes * render->engine->layers))
            return sg_render_status(s, "denoising", render->e);
        render->report->steps_done = i + 1;
        SG_TRY(show_latents(render, s, i, d.state.x));
        SG_TRY(report_progress(render, SG_STAGE_DENOISE, i + 1, render->sampler.steps));
    }
    sg_download(s, render->host_latents, d.state.x);
    unload(render, phase, denoiser);
    SG_TRY(sg_render_status(s, "denoising", render->e));
    relate_error(render);
    drop_pad(render);
    return render->request->capture_out
               ? sg_capture_write(&render->capture, render->request->capture_out, render->geometry.grid, render->e)
               : SG_OK;
}

static sg_status run_denoise(sg_render *render, const sg_phase *phase)
{
    sg_component *const preview = sg_preview_component(render);
    sg_stream           s;
    if (preview) SG_TRY(load_weights(render, preview));
    SG_TRY(stream_open(render, &s, phase));
    const sg_status st = denoise_steps(render, phase, &s);
    stream_close(render, &s);
    if (preview) unload_weights(render, preview);
    if (render->cache.rule.threshold > 0 || render->preview.factor.rank)
        sg_backend_drop_packed(render->engine->backend); /* filters and colours are gone */
    if (st) {
        free(render->engine->count); /* of some steps only */
        render->engine->count = NULL;
    }
    return st;
}

/* Frames of one chunk of latent frames on their way to the caller. */
typedef struct chunk {
    uint8_t *host;   /* how many numbers of all frames so far are not finite, I32; frames, after SG_ALIGN bytes */
    int      number; /* from 1 */
    int      done;   /* latent frames decoded with it */
    int      first, frames;
    size_t   bytes; /* of the frames */
} chunk;

/* Asks for the frames in rgb as bytes on the host. */
static void ask_frames(sg_stream *s, chunk *c, sg_tensor rgb, sg_tensor non_finite)
{
    const sg_tensor bytes = sg_alloc(s, &s->scratch, SG_U8, rgb.rank, rgb.dim);
    if (!c->host && !(c->host = s->memory->stage(s))) return;
    c->frames = (int)rgb.dim[0];
    c->bytes = sg_bytes(bytes);
    sg_count_non_finite(s, .y = non_finite, .x = rgb);
    sg_rgb8(s, .y = bytes, .x = rgb);
    sg_download(s, c->host, non_finite);
    sg_download(s, c->host + SG_ALIGN, bytes);
}

/* Gives what was asked for to the caller, when it has come. */
static sg_status emit_frames(sg_render *render, sg_stream *s, const chunk *c)
{
    int32_t count = 0;
    if (!s->status && s->memory->stages && s->memory->wait_stage(s, c->host)) sg_fail(s, SG_E_DEVICE, "no frames came");
    SG_TRY(sg_render_status(s, "decoding", render->e));
    memcpy(&count, c->host, sizeof count);
    if (count)
        return sg_error_set(render->e, SG_E_NUMERIC, "decoding: NaN or infinity in the frames from number %d on",
                            c->first + 1);
    const uint8_t *frame = c->host + SG_ALIGN;
    for (int i = 0; render->cb && render->cb->frame && i < c->frames; i++, frame += c->bytes / (size_t)c->frames)
        SG_TRY(render->cb->frame(render->cb->context, c->first + i, frame, render->e));
    return report_progress(render, SG_STAGE_DECODE, c->number, render->chunks);
}

/* Without `host` memory of its own the device decodes the next frames while the host is busy with those before. */
static sg_status decode_frames(sg_render *render, sg_stream *s, uint8_t *host, void **run)
{
    const sg_vae *const v = &render->engine->components->vae;
    const bool          ahead = !host;
    int64_t             d[4];
    sg_render_decoded(render, d);
    const sg_tensor z = sg_new_keep(s, SG_F32, d[1], d[2], d[3], d[0]), non_finite = sg_new_keep(s, SG_I32, 1);
    const sg_tensor given = sg_alloc(s, &s->scratch, SG_F32, 4, d);
    chunk           last = {0};
    sg_upload(s, given, render->host_latents);
    sg_upload(s, non_finite, &(int32_t){0});
    sg_permute(s, .y = z, .x = given, .rank = 4, .dim = {d[0], d[1], d[2], d[3]}, .perm = {1, 2, 3, 0});
    SG_TRY(v->ops->decode_open(run, v->of, s, d[2], d[3], render->e));
    SG_TRY(report_progress(render, SG_STAGE_DECODE, 0, render->chunks));
    while (last.done < d[1]) {
        const int64_t count = v->ops->chunk(v->of, d[1], last.done);
        chunk         now = {
                    .host = host, .number = last.number + 1, .done = last.done + (int)count, .first = last.first + last.frames};
        s->scratch.used = 0;
        ask_frames(s, &now, v->ops->decode_next(*run, s, sg_rows(z, last.done, count), now.done == d[1]), non_finite);
        if (ahead && last.done > 0) SG_TRY(emit_frames(render, s, &last));
        if (!ahead) SG_TRY(emit_frames(render, s, &now));
        last = now;
    }
    return ahead ? emit_frames(render, s, &last) : SG_OK;
}

static sg_status decode(sg_render *render, const sg_phase *phase)
{
    const double start = sg_seconds();
    void        *run = NULL;
    sg_stream    s;
    SG_TRY(stream_open(render, &s, phase));
    const size_t chunk_bytes = SG_ALIGN + render->frame_bytes, all = chunk_bytes * (size_t)render->chunks;
    /* what is traced is done in turn */
    const bool     ahead = !render->engine->trace && s.memory->stages && s.memory->stages(&s, chunk_bytes, all);
    uint8_t *const host = ahead ? NULL : malloc(chunk_bytes);
    sg_status      st = ahead || host ? decode_frames(render, &s, host, &run)
                                      : sg_error_set(render->e, SG_E_MEMORY, "no memory for frames");
    render->engine->components->vae.ops->decode_close(&run);
    stream_close(render, &s);
    free(host);
    end_stage(render, SG_STAGE_DECODE, start);
    return st;
}

static sg_status run_decode(sg_render *render, const sg_phase *phase)
{
    SG_TRY(load(render, phase, 0));
    SG_TRY(decode(render, phase));
    unload(render, phase, 0);
    return SG_OK;
}

/* ---- the whole ---- */

static sg_status take_latents(sg_render *render)
{
    sg_source *source = NULL;
    sg_tensor  t;
    int64_t    d[4];
    SG_TRY(sg_latents_open(render->engine, render->request->latents_in, &source, &t, render->e));
    sg_render_decoded(render, d);
    sg_status st = SG_OK;
    if (memcmp(t.dim, d, sizeof d) != 0)
        st = sg_error_set(
            render->e, SG_E_ARG, "%s: latents [%lld, %lld, %lld, %lld] are not those of %dx%d with %d frames",
            render->request->latents_in, (long long)t.dim[0], (long long)t.dim[1], (long long)t.dim[2],
            (long long)t.dim[3], render->request->width, render->request->height, render->request->frames);
    else
        memcpy(render->host_latents, t.data, sg_bytes(t));
    for (int64_t i = 0; !st && i < sg_count(t); i++)
        if (!isfinite(render->host_latents[i]))
            st = sg_error_set(render->e, SG_E_NUMERIC, "%s: latents hold NaN or infinity", render->request->latents_in);
    sg_source_close(&source);
    return st;
}

static sg_status write_latents(sg_render *render)
{
    const sg_request *const r = render->request;
    int64_t                 d[4];
    sg_render_decoded(render, d);
    const sg_tensor   t = {.data = render->host_latents, .dtype = SG_F32, .rank = 4, .dim = {d[0], d[1], d[2], d[3]}};
    const char *const metadata[] = {"settings", r->latents_note, NULL};
    if (!r->latents_out) return SG_OK;
    return sg_safetensors_write(r->latents_out, "latents", t, r->latents_note ? metadata : metadata + 2, render->e);
}

static sg_status run_phase(sg_render *render, const sg_phase *phase)
{
    switch (phase->kind) {
    case SG_PHASE_DENOISE: SG_TRY(run_denoise(render, phase)); return write_latents(render);
    case SG_PHASE_DECODE: return run_decode(render, phase);
    default: return run_condition(render, phase);
    }
}

/* The phases, by a plan that fits. */
static sg_status run_phases(sg_render *render)
{
    sg_backend_limit_packed(render->engine->backend, sg_render_packed_limit(render, &render->report->plan));
    render->host_latents = malloc(sg_render_latent_bytes(render));
    if (render->request->cache == SG_CACHE_SHADOW) render->shadow = malloc(sg_render_latent_bytes(render));
    if (!render->host_latents || (render->request->cache == SG_CACHE_SHADOW && !render->shadow))
        return sg_error_set(render->e, SG_E_MEMORY, "no memory for latents");
    const size_t preview = sg_preview_bytes(render);
    if (preview && !(render->preview.host = malloc(preview)))
        return sg_error_set(render->e, SG_E_MEMORY, "no memory for previews of %zu bytes", preview);
    if (render->request->latents_in) SG_TRY(take_latents(render));
    for (int i = 0; i < render->phases; i++)
        if (sg_phase_runs(render, &render->phase[i])) SG_TRY(run_phase(render, &render->phase[i]));
    return SG_OK;
}

static sg_status render_all(sg_render *render)
{
    SG_TRY(sg_engine_check_request(render->engine, render->request, render->e));
    if (!render->request->prompt && !render->request->latents_in && render->engine->components->texts)
        return sg_error_set(render->e, SG_E_ARG, "a render needs a prompt");
    for (int i = 0; i < SG_IMAGES && !render->request->latents_in; i++)
        if (render->engine->components->image[i] == SG_IMAGE_NEEDED && !render->request->image[i].rgb)
            return sg_error_set(render->e, SG_E_ARG, "%s: this model needs a picture for the clip to %s with",
                                i ? "last-image" : "image", i ? "end" : "begin");
    SG_TRY(plan(render, &render->report->plan));
    SG_TRY(sg_plan_fits(&render->report->plan, render->e));
    drop_weights(render);
    const sg_status st = run_phases(render);
    if (st) drop_weights(render);
    return st;
}

sg_status sg_engine_plan(sg_engine *engine, const sg_request *r, sg_plan *out, sg_error *e)
{
    SG_TRY(sg_engine_check_request(engine, r, e));
    sg_render       render = {.engine = engine, .request = r, .e = e};
    const sg_status st = plan(&render, out);
    sg_self_attention_close(&render.self);
    return st;
}

sg_status sg_engine_render(sg_engine *engine, const sg_request *r, const sg_callbacks *cb, sg_report *report,
                           sg_error *e)
{
    const double start = sg_seconds();
    sg_render    render = {.engine = engine, .request = r, .cb = cb, .report = report, .e = e};
    *report = (sg_report){.seed = r->seed};
    sg_backend_make_current(engine->backend);
    free(engine->count);
    engine->count = NULL;
    snprintf(report->device, sizeof report->device, "%s", engine->backend->device);
    snprintf(report->dtype, sizeof report->dtype, "%s", engine->act == SG_BF16 ? "bf16" : "f32");
    const sg_status st = render_all(&render);
    sg_backend_served(engine->backend, report->served, sizeof report->served);
    sg_self_attention_close(&render.self);
    sg_capture_free(&render.capture);
    free(render.order);
    free(render.host_latents);
    free(render.shadow);
    free(render.preview.host);
    report->total_seconds = sg_seconds() - start;
    return st;
}
