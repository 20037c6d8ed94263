/* pipeline.c - rendering: text, denoising, decoding, each phase with memory of its own. */
#include "meta.h"
#include "render.h"
#include "safetensors_write.h"
#include "rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory and weights of a phase ---- */

static sg_status report_progress(sg_render *q, sg_stage stage, int done, int total)
{
    if (q->cb && q->cb->progress && q->cb->progress(q->cb->context, stage, done, total))
        return sg_error_set(q->e, SG_E_CANCELLED, "cancelled");
    return SG_OK;
}

static int load_progress(void *context, int done, int total)
{
    return report_progress(context, SG_STAGE_LOAD, done, total) != SG_OK;
}

/* Seconds since start belong to this stage, and so does the memory of now. */
static void end_stage(sg_render *q, sg_stage stage, double start)
{
    sg_report *const r = q->report;
    r->seconds[stage] += sg_seconds() - start;
    r->peak_bytes = q->g->backend->host_memory ? sg_resident_peak() : r->held_bytes;
    r->stage_peak[stage] = r->peak_bytes;
}

/* Weights of one unit of a phase: sg_render_part's. */
static sg_status load(sg_render *q, sg_phase phase, int unit)
{
    const double   start = sg_seconds();
    sg_part *const p = sg_render_part(q->g->parts, phase, unit);
    SG_TRY(report_progress(q, SG_STAGE_LOAD, 0, 1));
    SG_TRY(sg_bind_load(p->bind, q->g->backend, load_progress, q, q->e));
    q->held += sg_bind_bytes(p->bind, q->g->backend, NULL);
    end_stage(q, SG_STAGE_LOAD, start);
    return SG_OK;
}

static void unload(sg_render *q, sg_phase phase, int unit)
{
    sg_part *const p = sg_render_part(q->g->parts, phase, unit);
    if (q->keep_weights) return;
    sg_backend_drop_packed(q->g->backend);
    sg_bind_unload(p->bind);
    q->held -= sg_bind_bytes(p->bind, q->g->backend, NULL);
}

/* Unloads all weights, unless the plan keeps them: what an earlier render kept is in the way of one that cannot, and a
 * render that fails leaves loaded what it was at work with. */
static void drop_weights(sg_render *q)
{
    sg_part *p;
    if (q->keep_weights) return;
    sg_backend_drop_packed(q->g->backend);
    for (int phase = 0; phase < SG_PHASES; phase++)
        for (int i = 0; (p = sg_render_part(q->g->parts, (sg_phase)phase, i)) != NULL; i++) sg_bind_unload(p->bind);
}

/* All that is held while s is open. */
static void note_peak(sg_render *q, const sg_stream *s)
{
    const size_t packed = sg_backend_packed_bytes(q->g->backend);
    const size_t held = q->held + s->keep.cap + s->scratch.cap + packed;
    if (held > q->report->held_bytes) q->report->held_bytes = held;
}

/* A stream whose arenas have exactly what the plan found for this phase. */
static sg_status stream_open(sg_render *q, sg_stream *s, sg_phase phase)
{
    *s = sg_stream_on(q->g->backend);
    s->tap = q->g->tap;
    s->tap_context = q->g->tap_context;
    if (q->g->check)
        sg_check_wrap(s);
    else if (q->g->trace)
        sg_trace_wrap(s, q->g->trace);
    sg_arena *const arena[2] = {&s->keep, &s->scratch};
    const size_t    bytes[2] = {q->need[phase].keep, q->need[phase].scratch};
    for (int i = 0; i < 2; i++) {
        void *const block = bytes[i] ? s->memory->alloc(bytes[i]) : NULL;
        if (bytes[i] && !block) {
            if (i) s->memory->release((void *)s->keep.base);
            return sg_error_set(q->e, SG_E_MEMORY, "the device cannot give %zu bytes", bytes[i]);
        }
        *arena[i] = (sg_arena){.base = (uintptr_t)block, .cap = bytes[i]};
    }
    note_peak(q, s);
    return SG_OK;
}

static void stream_close(sg_render *q, sg_stream *s)
{
    note_peak(q, s); /* packed weights have come since it was opened */
    sg_backend_drop_scratch(q->g->backend);
    s->memory->release((void *)s->keep.base);
    s->memory->release((void *)s->scratch.base);
}

/* ---- the phases ---- */

static sg_status run_encoder(sg_render *q, int encoder)
{
    const double start = sg_seconds();
    const int    all = q->g->parts->texts;
    sg_stream    s;
    SG_TRY(report_progress(q, SG_STAGE_TEXT, encoder, all));
    SG_TRY(stream_open(q, &s, SG_PHASE_TEXT));
    sg_conditioning_encode(&q->g->texts, q->g->parts, encoder, &s);
    stream_close(q, &s);
    end_stage(q, SG_STAGE_TEXT, start);
    SG_TRY(sg_render_status(&s, "text encoder", q->e));
    return report_progress(q, SG_STAGE_TEXT, encoder + 1, all);
}

/* One encoder after the other, each gone before the next comes. */
static sg_status run_text(sg_render *q)
{
    for (int i = 0; i < q->g->parts->texts; i++) {
        if (sg_conditioning_encoded(&q->g->texts, i)) continue;
        SG_TRY(load(q, SG_PHASE_TEXT, i));
        SG_TRY(run_encoder(q, i));
        unload(q, SG_PHASE_TEXT, i);
    }
    return SG_OK;
}

/* from [f, c, y, x] to [c, f, y, x]. */
static void frames_inside(float *to, const float *from, const int64_t dim[4])
{
    const size_t plane = (size_t)(dim[2] * dim[3]);
    for (int64_t f = 0; f < dim[1]; f++)
        for (int64_t c = 0; c < dim[0]; c++, from += plane)
            memcpy(to + (size_t)(c * dim[1] + f) * plane, from, plane * sizeof *to);
}

/* The next normals of the render's generator, into x [c, f, y, x]. */
static sg_status upload_noise(sg_render *q, sg_stream *s, sg_tensor x)
{
    const bool   by_frame = q->g->parts->noise_by_frame;
    const size_t n = (size_t)sg_count(x);
    float *const noise = malloc((by_frame ? 2 : 1) * n * sizeof *noise), *given = noise;
    if (!noise) return sg_error_set(q->e, SG_E_MEMORY, "no memory for %zu numbers of noise", n);
    sg_rng_randn(&q->rng, noise, n);
    if (by_frame) frames_inside(given = noise + n, noise, x.dim);
    sg_upload(s, x, given);
    free(noise);
    sg_tap(s, x, "noise");
    return SG_OK;
}

static sg_status switch_denoiser(sg_render *q, sg_stream *s, size_t mark, int from, int to)
{
    if (from >= 0) unload(q, SG_PHASE_DENOISE, from);
    SG_TRY(load(q, SG_PHASE_DENOISE, to));
    s->keep.used = mark;
    q->g->family->denoiser_open(q->g->model, s, to, &q->g->texts);
    return SG_OK;
}

static sg_status make_order(sg_render *q)
{
    const int64_t *const grid = q->geometry.grid;
    const size_t         count = (size_t)(grid[0] * grid[1] * grid[2]);
    if (!q->self.ordered) return SG_OK;
    q->order = malloc(count * sizeof *q->order);
    if (!q->order || sg_order_make(q->order, q->r->attention.order, grid[0], grid[1], grid[2]))
        return sg_error_set(q->e, SG_E_MEMORY, "no memory for the order of %zu tokens", count);
    q->self.order = q->capture.order = q->order;
    return SG_OK;
}

/* Room for what attention does, for sg_engine_attention. */
static sg_status open_counts(sg_render *q)
{
    sg_engine *const g = q->g;
    const size_t     count = (size_t)q->shape.steps * (size_t)q->shape.passes * (size_t)q->shape.layers;
    g->count = calloc(count, sizeof *g->count);
    if (!g->count) return sg_error_set(q->e, SG_E_MEMORY, "no memory for counters of %zu layers", count);
    g->steps = q->shape.steps;
    g->passes = q->shape.passes;
    g->layers = q->shape.layers;
    return SG_OK;
}

/* The latents after a step, for a caller who wants them. */
static sg_status show_latents(sg_render *q, sg_stream *s, int step, sg_tensor x)
{
    if (!q->cb || !q->cb->latents) return SG_OK;
    sg_download(s, q->host_latents, x);
    SG_TRY(sg_render_status(s, "denoising", q->e));
    return q->cb->latents(q->cb->context, step, q->host_latents, q->geometry.latent, q->e);
}

static sg_status denoise_steps(sg_render *q, sg_stream *s)
{
    SG_TRY(make_order(q));
    SG_TRY(open_counts(q));
    sg_denoising d = sg_render_place(q, s);
    int          denoiser = -1;
    sg_rng_seed(&q->rng, q->r->seed);
    SG_TRY(upload_noise(q, s, d.state.x));
    for (int i = 0; i < q->sampler.steps; i++) {
        const int want = sg_denoiser_at(q->g->parts, q->sampler.timestep[i]);
        if (want != denoiser) SG_TRY(switch_denoiser(q, s, d.mark, denoiser, want));
        if (denoiser < 0) SG_TRY(report_progress(q, SG_STAGE_DENOISE, 0, q->sampler.steps));
        denoiser = want;
        const double start = sg_seconds();
        sg_render_predict(q, s, &d, i, denoiser);
        sg_render_inspect(q, s, &d, i, denoiser);
        if (d.state.noise.rank) SG_TRY(upload_noise(q, s, d.state.noise));
        sg_sampler_step(&q->sampler, &d.state, s, i, d.v);
        sg_tap(s, d.state.x, "step.%d.latents", i);
        note_peak(q, s); /* the denoiser's weights have come since it was opened */
        end_stage(q, SG_STAGE_DENOISE, start);
        if (sg_attention_counts(q->attention, s, i, q->g->count + i * q->g->passes * q->g->layers))
            return sg_render_status(s, "denoising", q->e);
        q->report->steps_done = i + 1;
        SG_TRY(show_latents(q, s, i, d.state.x));
        SG_TRY(report_progress(q, SG_STAGE_DENOISE, i + 1, q->sampler.steps));
    }
    sg_download(s, q->host_latents, d.state.x);
    unload(q, SG_PHASE_DENOISE, denoiser);
    SG_TRY(sg_render_status(s, "denoising", q->e));
    return q->r->capture_out ? sg_capture_write(&q->capture, q->r->capture_out, q->geometry.grid, q->e) : SG_OK;
}

static sg_status run_denoise(sg_render *q)
{
    sg_stream s;
    SG_TRY(stream_open(q, &s, SG_PHASE_DENOISE));
    const sg_status st = denoise_steps(q, &s);
    stream_close(q, &s);
    if (st) {
        free(q->g->count); /* of some steps only */
        q->g->count = NULL;
    }
    return st;
}

/* Frames of one chunk of latent frames on their way to the caller. */
typedef struct chunk {
    uint8_t *host; /* how many numbers of all frames so far are not finite, I32; frames, after SG_ALIGN bytes */
    int      done; /* latent frames decoded with it */
    int      first, frames;
    size_t   bytes; /* of the frames */
} chunk;

/* Asks for the frames in rgb as bytes on the host. */
static void ask_frames(sg_stream *s, chunk *c, sg_tensor rgb, sg_tensor bad)
{
    const sg_tensor bytes = sg_alloc(s, &s->scratch, SG_U8, rgb.rank, rgb.dim);
    if (!c->host && !(c->host = s->memory->stage(s))) return;
    c->frames = (int)rgb.dim[0];
    c->bytes = sg_bytes(bytes);
    sg_count_bad(s, .y = bad, .x = rgb);
    sg_rgb8(s, .y = bytes, .x = rgb);
    sg_download(s, c->host, bad);
    sg_download(s, c->host + SG_ALIGN, bytes);
}

/* Gives what was asked for to the caller, when it has come. */
static sg_status emit_frames(sg_render *q, sg_stream *s, const chunk *c)
{
    int32_t count = 0;
    if (!s->status && s->memory->stages && s->memory->settle(s, c->host)) sg_fail(s, SG_E_DEVICE, "no frames came");
    SG_TRY(sg_render_status(s, "decoding", q->e));
    memcpy(&count, c->host, sizeof count);
    if (count)
        return sg_error_set(q->e, SG_E_NUMERIC, "decoding: NaN or infinity in the frames from number %d on",
                            c->first + 1);
    const uint8_t *frame = c->host + SG_ALIGN;
    for (int i = 0; q->cb && q->cb->frame && i < c->frames; i++, frame += c->bytes / (size_t)c->frames)
        SG_TRY(q->cb->frame(q->cb->context, c->first + i, frame, q->e));
    return report_progress(q, SG_STAGE_DECODE, c->done, (int)q->geometry.latent[1]);
}

/* Without `host` memory of its own the device decodes the next frames while the host is busy with those before. */
static sg_status decode_frames(sg_render *q, sg_stream *s, uint8_t *host, void **run)
{
    const sg_vae *const v = &q->g->parts->vae;
    const int64_t      *d = q->geometry.latent;
    const bool          ahead = !host;
    const sg_tensor     z = sg_new_keep(s, SG_F32, d[1], d[2], d[3], d[0]), bad = sg_new_keep(s, SG_I32, 1);
    const sg_tensor     given = sg_alloc(s, &s->scratch, SG_F32, 4, d);
    chunk               last = {0};
    sg_upload(s, given, q->host_latents);
    sg_upload(s, bad, &(int32_t){0});
    sg_permute(s, .y = z, .x = given, .rank = 4, .dim = {d[0], d[1], d[2], d[3]}, .perm = {1, 2, 3, 0});
    SG_TRY(v->ops->decode_open(run, v->of, s, d[2], d[3], q->e));
    SG_TRY(report_progress(q, SG_STAGE_DECODE, 0, (int)d[1]));
    while (last.done < d[1]) {
        const int64_t count = v->ops->chunk(v->of, d[1], last.done);
        chunk         now = {.host = host, .done = last.done + (int)count, .first = last.first + last.frames};
        s->scratch.used = 0;
        ask_frames(s, &now, v->ops->decode_next(*run, s, sg_rows(z, last.done, count)), bad);
        if (ahead && last.done > 0) SG_TRY(emit_frames(q, s, &last));
        if (!ahead) SG_TRY(emit_frames(q, s, &now));
        last = now;
    }
    return ahead ? emit_frames(q, s, &last) : SG_OK;
}

static sg_status run_decode(sg_render *q)
{
    const double start = sg_seconds();
    void        *run = NULL;
    sg_stream    s;
    SG_TRY(stream_open(q, &s, SG_PHASE_DECODE));
    const size_t room = SG_ALIGN + q->frame_bytes, all = room * (size_t)q->chunks;
    /* what is traced is done in turn */
    const bool     ahead = !q->g->trace && s.memory->stages && s.memory->stages(&s, room, all);
    uint8_t *const host = ahead ? NULL : malloc(room);
    sg_status      st =
        ahead || host ? decode_frames(q, &s, host, &run) : sg_error_set(q->e, SG_E_MEMORY, "no memory for frames");
    q->g->parts->vae.ops->decode_close(&run);
    stream_close(q, &s);
    free(host);
    end_stage(q, SG_STAGE_DECODE, start);
    return st;
}

/* ---- the whole ---- */

static sg_status take_latents(sg_render *q)
{
    sg_source *source = NULL;
    sg_tensor  t;
    SG_TRY(sg_latents_open(q->g, q->r->latents_in, &source, &t, q->e));
    sg_status st = SG_OK;
    if (memcmp(t.dim, q->geometry.latent, sizeof q->geometry.latent) != 0)
        st = sg_error_set(q->e, SG_E_ARG, "%s: latents [%lld, %lld, %lld, %lld] are not those of %dx%d with %d frames",
                          q->r->latents_in, (long long)t.dim[0], (long long)t.dim[1], (long long)t.dim[2],
                          (long long)t.dim[3], q->r->width, q->r->height, q->r->frames);
    else
        memcpy(q->host_latents, t.data, sg_bytes(t));
    for (int64_t i = 0; !st && i < sg_count(t); i++)
        if (!isfinite(q->host_latents[i]))
            st = sg_error_set(q->e, SG_E_NUMERIC, "%s: latents hold NaN or infinity", q->r->latents_in);
    sg_source_close(&source);
    return st;
}

static sg_status make_latents(sg_render *q)
{
    const int64_t *const d = q->geometry.latent;
    SG_TRY(run_text(q));
    SG_TRY(run_denoise(q));
    if (!q->r->latents_out) return SG_OK;
    const sg_tensor   t = {.data = q->host_latents, .dtype = SG_F32, .rank = 4, .dim = {d[0], d[1], d[2], d[3]}};
    const char *const metadata[] = {"settings", q->r->latents_note, NULL};
    return sg_safetensors_write(q->r->latents_out, "latents", t, q->r->latents_note ? metadata : metadata + 2, q->e);
}

/* The phases, by a plan that fits. */
static sg_status run_phases(sg_render *q)
{
    const int64_t *d = q->geometry.latent;
    sg_backend_limit_packed(q->g->backend, sg_render_packed_limit(q, &q->report->plan));
    q->host_latents = malloc((size_t)(d[0] * d[1] * d[2] * d[3]) * sizeof *q->host_latents);
    if (!q->host_latents) return sg_error_set(q->e, SG_E_MEMORY, "no memory for latents");
    SG_TRY(q->r->latents_in ? take_latents(q) : make_latents(q));
    SG_TRY(load(q, SG_PHASE_DECODE, 0));
    SG_TRY(run_decode(q));
    unload(q, SG_PHASE_DECODE, 0);
    return SG_OK;
}

static sg_status render_all(sg_render *q)
{
    SG_TRY(sg_engine_check_request(q->g, q->r, q->e));
    if (!q->r->prompt && !q->r->latents_in && q->g->parts->texts)
        return sg_error_set(q->e, SG_E_ARG, "a render needs a prompt");
    SG_TRY(sg_render_plan(q, &q->report->plan));
    SG_TRY(sg_plan_fits(&q->report->plan, q->e));
    drop_weights(q);
    const sg_status st = run_phases(q);
    if (st) drop_weights(q);
    return st;
}

sg_status sg_engine_render(sg_engine *g, const sg_request *r, const sg_callbacks *cb, sg_report *report, sg_error *e)
{
    const double start = sg_seconds();
    sg_render    q = {.g = g, .r = r, .cb = cb, .report = report, .e = e};
    *report = (sg_report){.seed = r->seed};
    sg_backend_enter(g->backend);
    free(g->count);
    g->count = NULL;
    snprintf(report->device, sizeof report->device, "%s", g->backend->device);
    snprintf(report->dtype, sizeof report->dtype, "%s", g->act == SG_BF16 ? "bf16" : "f32");
    const sg_status st = render_all(&q);
    sg_backend_served(g->backend, report->served, sizeof report->served);
    sg_attention_close(&q.attention);
    sg_capture_free(&q.capture);
    free(q.order);
    free(q.host_latents);
    report->total_seconds = sg_seconds() - start;
    return st;
}
