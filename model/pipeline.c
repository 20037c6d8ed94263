/* pipeline.c - planning a render and rendering: text, denoising, decoding, each phase with memory of its own. */
#include "engine_state.h"
#include "meta.h"
#include "rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One render. */
typedef struct render {
    sg_engine          *g;
    const sg_request   *r;
    const sg_callbacks *cb;
    sg_report          *report;
    sg_error           *e;
    sg_sampler          sampler;
    int64_t             latent[4];
    float              *host_latents; /* between denoising and decoding */
    struct {
        size_t keep, scratch; /* bytes of the arenas, as the plan found them */
    } need[SG_PHASES];
    size_t frame_bytes;  /* of the most frames that come at once */
    bool   keep_weights; /* everything fits at once */
    size_t held;         /* bytes of weights loaded now */
} render;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double guidance(const sg_request *r, int expert)
{
    return expert && r->cfg_scale_2 >= 0 ? r->cfg_scale_2 : r->cfg_scale;
}

/* ---- planning ---- */

/* What a phase's pass over a plan stream took. */
static void note_plan(render *q, sg_phase phase, sg_phase_plan *out, const sg_stream *s, const sg_plan_totals *t)
{
    q->need[phase].keep = s->keep.peak;
    q->need[phase].scratch = s->scratch.peak;
    out->work = s->keep.peak + s->scratch.peak;
    out->flops = t->flops;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static bool native_bf16(const sg_engine *g) { return g->act == SG_BF16 && g->backend->dtype == SG_BF16; }

static void plan_weights(render *q, sg_phase phase, sg_phase_plan *out, const sg_plan_totals *t)
{
    const sg_family *const f = q->g->family;
    const size_t           size = native_bf16(q->g) ? sizeof(uint16_t) : sizeof(float), unpacked = t->table + t->thin;
    for (int expert = 0; expert < 2; expert++) {
        size_t   bytes = 0, mapped = 0, numbers = 0, in_place;
        sg_part *p;
        for (int i = 0; (p = f->part(q->g->model, phase, expert, i)) != NULL; i++) {
            bytes += sg_bind_bytes(p->bind, q->g->backend, &in_place);
            mapped += in_place;
            numbers += sg_bind_matrix_numbers(p->bind);
        }
        if (q->g->backend->packs && numbers > unpacked) out->packed = larger(out->packed, (numbers - unpacked) * size);
        if (bytes > out->weights) out->weights = bytes;
        if (mapped > out->mapped) out->mapped = mapped;
        if (phase != SG_PHASE_DENOISE) return;
    }
}

static sg_tensor latent_tensor(sg_stream *s, sg_arena *a, const int64_t shape[4])
{
    return sg_alloc(s, a, SG_F32, 4, shape);
}

static void plan_denoise(render *q, sg_stream *s, sg_plan_totals *t)
{
    const sg_family *const f = q->g->family;
    void *const            m = q->g->model;
    f->denoise_open(m, s, q->latent);
    sg_sampler_state st = sg_sampler_state_new(s, q->latent);
    const sg_tensor  v = latent_tensor(s, &s->keep, q->latent);
    const size_t     mark = s->keep.used;
    int              last = -1;
    double           step_flops = 0;
    for (int i = 0; i < q->sampler.steps; i++) {
        const int expert = f->expert(m, q->sampler.timestep[i]);
        if (expert != last) {
            s->keep.used = mark;
            f->expert_open(m, s, expert);
            const double before = t->flops;
            f->denoise(m, s, v, st.x, i, q->sampler.timestep[i], guidance(q->r, expert));
            step_flops = t->flops - before;
        } else {
            t->flops += step_flops;
        }
        if (i < 3) sg_sampler_step(&q->sampler, &st, s, i, v);
        last = expert;
    }
}

/* The decoder's first two latent frames are special; from the third on all cost the same. */
static sg_status plan_decode(render *q, sg_stream *s, sg_plan_totals *t)
{
    const sg_family *const f = q->g->family;
    const int64_t         *d = q->latent, few = d[1] < 3 ? d[1] : 3;
    const sg_tensor        z = sg_new_keep(s, SG_F32, d[1], d[2], d[3], d[0]);
    double                 flops = 0;
    (void)sg_new_keep(s, SG_I32, 1);
    (void)latent_tensor(s, &s->scratch, d); /* as uploaded, before its axes are put in order */
    s->scratch.used = 0;
    SG_TRY(f->decode_open(q->g->model, s, d, q->e));
    for (int64_t i = 0; i < few; i++) {
        const double before = t->flops;
        s->scratch.used = 0;
        const sg_tensor rgb = f->decode_next(q->g->model, s, sg_rows(z, i, 1));
        q->frame_bytes = larger(q->frame_bytes, sg_bytes(sg_alloc(s, &s->scratch, SG_U8, rgb.rank, rgb.dim)));
        flops = t->flops - before;
    }
    t->flops += flops * (double)(d[1] - few);
    f->decode_close(q->g->model);
    return SG_OK;
}

static sg_status stream_status(const sg_stream *s, const char *doing, sg_error *e)
{
    return s->status ? sg_error_set(e, s->status, "%s: %s", doing, s->why) : SG_OK;
}

/* What the plan leaves may hold weights in the layout that products want; the rest is packed at every use. */
static size_t packed_limit(const render *q, const sg_plan *p)
{
    const size_t all = p->text.weights + p->denoise.weights + p->decode.weights;
    const size_t planned = q->keep_weights ? p->need + all : p->need;
    return smaller(q->g->backend->total_bytes / 8, planned < p->available ? p->available - planned : 0);
}

/* What the backend takes beside tensors and weights. */
static size_t staged(const sg_plan_totals *t) { return t->staged_x + t->staged_y + t->attended; }

/* What the system will show, phase by phase. */
static void plan_peaks(const render *q, sg_plan *p, const sg_plan_totals t[SG_PHASES])
{
    sg_phase_plan *const phase[SG_PHASES] = {&p->text, &p->denoise, &p->decode};
    const size_t         limit = packed_limit(q, p);
    size_t               kept = p->base, packed = 0;
    for (int i = q->r->latents_in ? SG_PHASE_DECODE : 0; i < SG_PHASES; i++) {
        const size_t more = phase[i]->packed;
        phase[i]->packed = smaller(more, limit - packed);
        packed += phase[i]->packed;
        const size_t mapped = q->g->backend->host_memory ? phase[i]->mapped : 0;
        const size_t staging = staged(&t[i]) + (phase[i]->packed < more ? t[i].weight : 0);
        phase[i]->peak = kept + phase[i]->weights + mapped + packed + phase[i]->work + staging;
        if (i == SG_PHASE_DECODE) phase[i]->peak += p->output;
        p->peak = larger(p->peak, phase[i]->peak);
        if (q->keep_weights)
            kept += phase[i]->weights + mapped;
        else
            packed = 0;
    }
}

/* Tokenizes as well: the length of the prompt is part of the plan. */
static sg_status plan_render(render *q, sg_plan *out)
{
    const sg_family *const f = q->g->family;
    sg_sampler_config      config = *f->sampler(q->g->model);
    int                    tokens[2];
    *out = (sg_plan){0};

    config.kind = q->r->sampler;
    config.flow_shift = q->r->flow_shift;
    SG_TRY(sg_sampler_init(&q->sampler, &config, q->r->steps, q->r->sigmas_old, q->e));
    out->tokens = f->latent(q->g->model, q->r, q->latent);
    memcpy(out->latent, q->latent, sizeof out->latent);

    SG_TRY(f->tokenize(q->g->model, q->r, tokens, q->e));
    if (q->report) {
        q->report->prompt_tokens = tokens[0];
        q->report->negative_tokens = tokens[1];
    }
    sg_plan_totals t[SG_PHASES] = {0};
    sg_stream      s[SG_PHASES];
    for (int i = 0; i < SG_PHASES; i++) {
        t[i].native_bf16 = native_bf16(q->g);
        s[i] = sg_plan_stream(&t[i]);
    }
    f->encode(q->g->model, &s[SG_PHASE_TEXT]);
    plan_denoise(q, &s[SG_PHASE_DENOISE], &t[SG_PHASE_DENOISE]);
    SG_TRY(plan_decode(q, &s[SG_PHASE_DECODE], &t[SG_PHASE_DECODE]));

    sg_phase_plan *const phase[SG_PHASES] = {&out->text, &out->denoise, &out->decode};
    size_t               all = 0, work = 0;
    for (int i = 0; i < SG_PHASES; i++) {
        SG_TRY(stream_status(&s[i], "planning", q->e));
        note_plan(q, (sg_phase)i, phase[i], &s[i], &t[i]);
        plan_weights(q, (sg_phase)i, phase[i], &t[i]);
        if (q->r->latents_in && i != SG_PHASE_DECODE) continue; /* those phases will not run */
        out->need = larger(out->need, phase[i]->weights + phase[i]->work);
        out->staging = larger(out->staging, staged(&t[i]) + t[i].weight);
        all += phase[i]->weights;
        work = larger(work, phase[i]->work);
    }
    out->base = q->g->base_bytes;
    out->output = q->g->backend->host_memory ? q->r->output_bytes : 0;
    out->need += out->staging + out->output;
    out->available = q->g->memory_limit ? q->g->memory_limit : q->g->backend->total_bytes;
    q->keep_weights =
        all + work + out->staging + out->output <= out->available && !f->part(q->g->model, SG_PHASE_DENOISE, 1, 0);
    plan_peaks(q, out, t);
    return SG_OK;
}

sg_status sg_engine_plan(sg_engine *g, const sg_request *r, sg_plan *out, sg_error *e)
{
    SG_TRY(sg_engine_check_request(g, r, e));
    render q = {.g = g, .r = r, .e = e};
    return plan_render(&q, out);
}

sg_status sg_plan_fits(const sg_plan *p, sg_error *e)
{
    const double gib = 1.0 / (1 << 30);
    if (p->need <= p->available) return SG_OK;
    return sg_error_set(
        e, SG_E_MEMORY,
        "this render needs %.2f GiB, but %.2f GiB may be used (weights + activations in GiB: text %.2f + "
        "%.2f, denoising %.2f + %.2f, decoding %.2f + %.2f). A smaller size, fewer frames or dtype bf16 "
        "take less.",
        (double)p->need * gib, (double)p->available * gib, (double)p->text.weights * gib, (double)p->text.work * gib,
        (double)p->denoise.weights * gib, (double)p->denoise.work * gib, (double)p->decode.weights * gib,
        (double)p->decode.work * gib);
}

/* ---- memory and weights of a phase ---- */

static sg_status report_progress(render *q, sg_stage stage, int done, int total)
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
static void end_stage(render *q, sg_stage stage, double start)
{
    sg_report *const r = q->report;
    r->seconds[stage] += now() - start;
    r->peak_bytes = q->g->backend->host_memory ? sg_resident_peak() : r->held_bytes;
    r->stage_peak[stage] = r->peak_bytes;
}

static sg_status load(render *q, sg_phase phase, int expert)
{
    const double start = now();
    sg_part     *p;
    SG_TRY(report_progress(q, SG_STAGE_LOAD, 0, 1));
    for (int i = 0; (p = q->g->family->part(q->g->model, phase, expert, i)) != NULL; i++) {
        SG_TRY(sg_bind_load(p->bind, q->g->backend, load_progress, q, q->e));
        q->held += sg_bind_bytes(p->bind, q->g->backend, NULL);
    }
    end_stage(q, SG_STAGE_LOAD, start);
    return SG_OK;
}

static void unload(render *q, sg_phase phase, int expert)
{
    sg_part *p;
    if (q->keep_weights) return;
    sg_backend_drop_packed(q->g->backend);
    for (int i = 0; (p = q->g->family->part(q->g->model, phase, expert, i)) != NULL; i++) {
        sg_bind_unload(p->bind);
        q->held -= sg_bind_bytes(p->bind, q->g->backend, NULL);
    }
}

/* All that is held while s is open. */
static void note_peak(render *q, const sg_stream *s)
{
    const size_t packed = sg_backend_packed_bytes(q->g->backend);
    q->report->held_bytes = larger(q->report->held_bytes, q->held + s->keep.cap + s->scratch.cap + packed);
}

/* A stream whose arenas have exactly what the plan found for this phase. */
static sg_status stream_open(render *q, sg_stream *s, sg_phase phase)
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

static void stream_close(render *q, sg_stream *s)
{
    note_peak(q, s); /* packed weights have come since it was opened */
    sg_backend_drop_scratch(q->g->backend);
    s->memory->release((void *)s->keep.base);
    s->memory->release((void *)s->scratch.base);
}

/* ---- the phases ---- */

static sg_status run_text(render *q)
{
    const double start = now();
    sg_stream    s;
    SG_TRY(report_progress(q, SG_STAGE_TEXT, 0, 1));
    SG_TRY(stream_open(q, &s, SG_PHASE_TEXT));
    q->g->family->encode(q->g->model, &s);
    stream_close(q, &s);
    end_stage(q, SG_STAGE_TEXT, start);
    SG_TRY(stream_status(&s, "text encoder", q->e));
    return report_progress(q, SG_STAGE_TEXT, 1, 1);
}

static sg_status upload_noise(render *q, sg_stream *s, sg_tensor x)
{
    const size_t n = (size_t)sg_count(x);
    float *const noise = malloc(n * sizeof *noise);
    if (!noise) return sg_error_set(q->e, SG_E_MEMORY, "no memory for %zu numbers of noise", n);
    sg_randn(noise, n, q->r->seed);
    sg_upload(s, x, noise);
    free(noise);
    sg_tap(s, x, "noise");
    return SG_OK;
}

static sg_status switch_expert(render *q, sg_stream *s, size_t mark, int from, int to)
{
    if (from >= 0) unload(q, SG_PHASE_DENOISE, from);
    SG_TRY(load(q, SG_PHASE_DENOISE, to));
    s->keep.used = mark;
    q->g->family->expert_open(q->g->model, s, to);
    return SG_OK;
}

static sg_status denoise_steps(render *q, sg_stream *s)
{
    const sg_family *const f = q->g->family;
    void *const            m = q->g->model;
    f->denoise_open(m, s, q->latent);
    sg_sampler_state st = sg_sampler_state_new(s, q->latent);
    const sg_tensor  v = latent_tensor(s, &s->keep, q->latent);
    const size_t     mark = s->keep.used;
    int              expert = -1;
    SG_TRY(upload_noise(q, s, st.x));
    for (int i = 0; i < q->sampler.steps; i++) {
        const int want = f->expert(m, q->sampler.timestep[i]);
        if (want != expert) SG_TRY(switch_expert(q, s, mark, expert, want));
        if (expert < 0) SG_TRY(report_progress(q, SG_STAGE_DENOISE, 0, q->sampler.steps));
        expert = want;
        const double start = now();
        f->denoise(m, s, v, st.x, i, q->sampler.timestep[i], guidance(q->r, expert));
        f->inspect(m, s, i);
        sg_sampler_step(&q->sampler, &st, s, i, v);
        sg_tap(s, st.x, "step.%d.latents", i);
        end_stage(q, SG_STAGE_DENOISE, start);
        SG_TRY(stream_status(s, "denoising", q->e));
        q->report->steps_done = i + 1;
        SG_TRY(report_progress(q, SG_STAGE_DENOISE, i + 1, q->sampler.steps));
    }
    sg_download(s, q->host_latents, st.x);
    unload(q, SG_PHASE_DENOISE, expert);
    return stream_status(s, "denoising", q->e);
}

static sg_status run_denoise(render *q)
{
    sg_stream s;
    SG_TRY(stream_open(q, &s, SG_PHASE_DENOISE));
    const sg_status st = denoise_steps(q, &s);
    stream_close(q, &s);
    return st;
}

/* Frames of one latent frame: to bytes, to the host, to the caller. */
static sg_status emit_frames(render *q, sg_stream *s, sg_tensor rgb, sg_tensor bad, int first, uint8_t *host)
{
    const sg_tensor bytes = sg_alloc(s, &s->scratch, SG_U8, rgb.rank, rgb.dim);
    int32_t         count = 0;
    sg_count_bad(s, .y = bad, .x = rgb);
    sg_rgb8(s, .y = bytes, .x = rgb);
    sg_download(s, &count, bad);
    sg_download(s, host, bytes);
    SG_TRY(stream_status(s, "decoding", q->e));
    if (count)
        return sg_error_set(q->e, SG_E_NUMERIC, "decoding: NaN or infinity in the frames from number %d on", first + 1);
    for (int i = 0; q->cb && q->cb->frame && i < rgb.dim[0]; i++)
        SG_TRY(q->cb->frame(q->cb->context, first + i, host + (size_t)i * sg_bytes(bytes) / (size_t)rgb.dim[0], q->e));
    return SG_OK;
}

static sg_status decode_frames(render *q, sg_stream *s, uint8_t *host)
{
    const sg_family *const f = q->g->family;
    const int64_t         *d = q->latent;
    const sg_tensor        z = sg_new_keep(s, SG_F32, d[1], d[2], d[3], d[0]), bad = sg_new_keep(s, SG_I32, 1);
    const sg_tensor        given = latent_tensor(s, &s->scratch, d);
    int                    frames = 0;
    sg_upload(s, given, q->host_latents);
    sg_upload(s, bad, &(int32_t){0});
    sg_permute(s, .y = z, .x = given, .rank = 4, .dim = {d[0], d[1], d[2], d[3]}, .perm = {1, 2, 3, 0});
    SG_TRY(f->decode_open(q->g->model, s, d, q->e));
    SG_TRY(report_progress(q, SG_STAGE_DECODE, 0, (int)d[1]));
    for (int64_t i = 0; i < d[1]; i++) {
        s->scratch.used = 0;
        const sg_tensor rgb = f->decode_next(q->g->model, s, sg_rows(z, i, 1));
        SG_TRY(emit_frames(q, s, rgb, bad, frames, host));
        frames += (int)rgb.dim[0];
        SG_TRY(report_progress(q, SG_STAGE_DECODE, (int)i + 1, (int)d[1]));
    }
    return SG_OK;
}

static sg_status run_decode(render *q)
{
    const double start = now();
    sg_stream    s;
    SG_TRY(stream_open(q, &s, SG_PHASE_DECODE));
    uint8_t *const host = malloc(q->frame_bytes);
    sg_status      st = host ? decode_frames(q, &s, host) : sg_error_set(q->e, SG_E_MEMORY, "no memory for frames");
    q->g->family->decode_close(q->g->model);
    stream_close(q, &s);
    free(host);
    end_stage(q, SG_STAGE_DECODE, start);
    return st;
}

/* ---- the whole ---- */

static sg_status take_latents(render *q)
{
    sg_weights *weights = NULL;
    sg_tensor   t;
    SG_TRY(sg_latents_open(q->g, q->r->latents_in, &weights, &t, q->e));
    sg_status st = SG_OK;
    if (memcmp(t.dim, q->latent, sizeof q->latent) != 0)
        st = sg_error_set(q->e, SG_E_ARG, "%s: latents [%lld, %lld, %lld, %lld] are not those of %dx%d with %d frames",
                          q->r->latents_in, (long long)t.dim[0], (long long)t.dim[1], (long long)t.dim[2],
                          (long long)t.dim[3], q->r->width, q->r->height, q->r->frames);
    else
        memcpy(q->host_latents, t.data, sg_bytes(t));
    for (int64_t i = 0; !st && i < sg_count(t); i++)
        if (!isfinite(q->host_latents[i]))
            st = sg_error_set(q->e, SG_E_NUMERIC, "%s: latents hold NaN or infinity", q->r->latents_in);
    sg_weights_close(&weights);
    return st;
}

static sg_status make_latents(render *q)
{
    SG_TRY(load(q, SG_PHASE_TEXT, 0));
    SG_TRY(run_text(q));
    unload(q, SG_PHASE_TEXT, 0);
    SG_TRY(run_denoise(q));
    if (!q->r->latents_out) return SG_OK;
    const sg_tensor   t = {.data = q->host_latents,
                           .dtype = SG_F32,
                           .rank = 4,
                           .dim = {q->latent[0], q->latent[1], q->latent[2], q->latent[3]}};
    const char *const metadata[] = {"settings", q->r->latents_note, NULL};
    return sg_safetensors_write(q->r->latents_out, "latents", t, q->r->latents_note ? metadata : metadata + 2, q->e);
}

static sg_status render_all(render *q)
{
    const int64_t *d = q->latent;
    SG_TRY(sg_engine_check_request(q->g, q->r, q->e));
    if (!q->r->prompt && !q->r->latents_in) return sg_error_set(q->e, SG_E_ARG, "a render needs a prompt");
    SG_TRY(plan_render(q, &q->report->plan));
    SG_TRY(sg_plan_fits(&q->report->plan, q->e));
    sg_backend_limit_packed(q->g->backend, packed_limit(q, &q->report->plan));
    q->host_latents = malloc((size_t)(d[0] * d[1] * d[2] * d[3]) * sizeof *q->host_latents);
    if (!q->host_latents) return sg_error_set(q->e, SG_E_MEMORY, "no memory for latents");
    SG_TRY(q->r->latents_in ? take_latents(q) : make_latents(q));
    SG_TRY(load(q, SG_PHASE_DECODE, 0));
    SG_TRY(run_decode(q));
    unload(q, SG_PHASE_DECODE, 0);
    return SG_OK;
}

sg_status sg_engine_render(sg_engine *g, const sg_request *r, const sg_callbacks *cb, sg_report *report, sg_error *e)
{
    const double start = now();
    render       q = {.g = g, .r = r, .cb = cb, .report = report, .e = e};
    *report = (sg_report){.seed = r->seed};
    snprintf(report->device, sizeof report->device, "%s", g->backend->device);
    snprintf(report->dtype, sizeof report->dtype, "%s", g->act == SG_BF16 ? "bf16" : "f32");
    const sg_status st = render_all(&q);
    free(q.host_latents);
    report->total_seconds = now() - start;
    return st;
}
