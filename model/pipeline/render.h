/* render.h - one render: what its files share, a section for each file.
 *
 * render.c owns a render: it checks the request, has it planned, and runs its phases in turn. render_plan.c plans.
 * encoding.c, denoising.c, which has the loop of the steps, and decoding.c work on a phase, in memory and with progress
 * by stage.c. What is loaded, and what of it stays for the next render, is weight_keeper.c's. */
#ifndef SG_RENDER_H
#define SG_RENDER_H

#include "capture.h"
#include "conditioning.h"
#include "engine_state.h"
#include "meta.h"
#include "phase.h"
#include "preview.h"
#include "rng.h"
#include "step_cache.h"

typedef struct sg_render {
    sg_engine          *engine;
    const sg_request   *request;
    const sg_callbacks *cb;
    sg_report          *report;
    sg_error           *e;
    sg_sampler          sampler;
    sg_geometry         geometry;
    sg_self_attention   self; /* borrows order */
    int32_t            *order;
    sg_capture          capture;
    sg_step_cache       cache;
    sg_preview_tables   preview;
    sg_rng              rng;          /* of all noise */
    float              *host_latents; /* between denoising and decoding */
    int32_t            *non_finite;   /* as denoising.c has it on the device */
    float              *shadow;       /* with SG_CACHE_SHADOW: room for what a skipped step would have computed */
    sg_phase            phase[SG_PHASES_MAX];
    int                 phases;
    size_t packed_limit; /* bytes for weights in the layout that products want; the rest is packed at use */
    size_t frame_bytes;  /* of the most frames that come at once */
    int    chunks;       /* in which the latents are decoded */
    bool   tiled;        /* the VAE works in tiles */
} sg_render;

/* ---- render_plan.c ---- */

/* Makes the sampler that r asks for. Returns SG_E_ARG where there is none such. */
sg_status sg_render_sampler(sg_sampler *out, const sg_engine *engine, const sg_request *r, sg_error *e);

/* Finds out what a render needs, by running its phases on streams that compute nothing, and what the keeper keeps. It
 * tokenizes as well, since the length of the prompt is part of the plan. Leaves render->self open, after a failure
 * too. */
sg_status sg_render_plan(sg_render *render, sg_plan *out);

/* ---- stage.c: a phase at work ---- */

/* Tells the caller's progress. Returns SG_E_CANCELLED where that cancels. */
sg_status sg_stage_progress(sg_render *render, sg_stage stage, int done, int total);

/* Counts the seconds since start to this stage, and the memory of now. */
void sg_stage_end(sg_render *render, sg_stage stage, double start);

/* Loads weights, and lets go of them after their work. */
sg_status sg_stage_load(sg_render *render, sg_component *component);
void      sg_stage_release(sg_render *render, sg_component *component);

/* Opens a stream whose arenas have exactly what the plan found for this phase. */
sg_status sg_stage_open(sg_render *render, sg_stream *s, const sg_phase *phase);
void      sg_stage_close(sg_render *render, sg_stream *s);

/* Notes all that is held while s is open. */
void sg_stage_note_peak(sg_render *render, const sg_stream *s);

/* Returns what has failed in s. */
sg_status sg_stage_status(const sg_stream *s, const char *doing, sg_error *e);

/* ---- encoding.c: the texts, the start, what the family adds ---- */

/* Runs the encoder of a phase on s, on a plan too. Failures latch in s. */
void sg_encoding_compute(sg_render *render, const sg_phase *phase, sg_stream *s, sg_watch watch);

/* Does the phase. What the same tokens, pictures or frames have become before is not made again. */
sg_status sg_encoding_run(sg_render *render, const sg_phase *phase);

/* ---- start.c: what denoising starts from ---- */

/* Encodes what the render starts from, on a plan too: its latents become the engine's. Failures latch in s. */
void sg_start_encode(const sg_render *render, sg_stream *s, sg_watch watch);

/* Fills x with the next normals of the render's generator, as the model's latents are drawn. Taps "noise". */
sg_status sg_start_noise(sg_render *render, sg_stream *s, sg_tensor x);

/* st->x = what the first step starts from: noise, or the latents of its start with noise. Taps "video", "noise". */
sg_status sg_start_make(sg_render *render, sg_stream *s, sg_sampler_state *st);

/* ---- denoising.c: the loop ---- */

/* Returns the passes of a step: those of the texts, and that of skip-layer guidance, which not every step has. */
int sg_denoising_passes(const sg_render *render);

sg_status sg_denoising_plan(sg_render *render, sg_stream *s, sg_plan_totals *t);
sg_status sg_denoising_run(sg_render *render, const sg_phase *phase);

/* ---- decoding.c ---- */

sg_status sg_decoding_plan(sg_render *render, sg_stream *s, sg_plan_totals *t);
sg_status sg_decoding_run(sg_render *render, const sg_phase *phase);

/* ---- latents.c: those between the phases, on the host and in files ---- */

/* Sets shape to that of the latents that are decoded, saved and read: the geometry's without its pad. */
void sg_latents_decoded(const sg_render *render, int64_t shape[4]);

/* Returns the bytes of the latents, which are F32. */
size_t sg_latents_bytes(const sg_render *render);

/* Makes the latents x hold what the family says, by sg_family's hold. */
void sg_latents_hold(const sg_render *render, sg_stream *s, sg_tensor x);

/* Reads host_latents from the request's file, or writes them to it, where it has one. */
sg_status sg_latents_read(sg_render *render);
sg_status sg_latents_write(sg_render *render);

#endif
