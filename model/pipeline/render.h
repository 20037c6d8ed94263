/* render.h - one render: what its files share, a section for each file.
 *
 * render.c owns a render: it checks the request, has it planned, and runs its phases in turn. render_plan.c plans.
 * encoding.c, modulation.c, denoising.c, which has the loop of the steps, and decoding.c work on a phase, in memory and
 * with progress by stage.c. What is loaded, and what of it stays for the next render, is weight_keeper.c's. */
#ifndef SG_RENDER_H
#define SG_RENDER_H

#include "engine_state.h"
#include "rng.h"
#include "step_cache.h"

/* q, k and v of one self-attention of a render, for a file. */
typedef struct sg_capture {
    int                layer, step; /* which; of the pass of the prompt */
    const int32_t     *order;       /* in which the video's tokens stand, text aside; NULL: row by row. Borrowed */
    sg_attention_hook *next;        /* sees what comes as well; may be NULL */
    void              *next_context;
    sg_tensor          q, k, v; /* host, rows as the model lays them out, or of a group as they attend; owned */
    int64_t            group;   /* tokens of the group that these are of, the first; 0: of all */
    int64_t            text_prefix, text_suffix;
    double             timestep;
} sg_capture;

typedef struct sg_render {
    sg_engine          *engine;
    const sg_request   *request;
    const sg_callbacks *cb;
    sg_report          *report;
    sg_error           *e;
    sg_sampler          sampler;
    sg_geometry         geometry;
    sg_self_attention   self;  /* borrows order, and the next two */
    sg_thresholds_file  tuned; /* of the request's own file; or empty */
    sg_source          *mask;  /* of the request; or NULL */
    int32_t            *order;
    sg_capture          capture;
    sg_attention_error  error; /* where it is asked for */
    sg_step_cache       cache;
    sg_rng              rng;          /* of all noise */
    float              *noise;        /* as drawn last, as the latents lie; NULL before */
    float              *host_latents; /* between denoising and decoding */
    int32_t            *non_finite;   /* as denoising.c has it on the device */
    float              *shadow;       /* with SG_CACHE_SHADOW: room for what a skipped step would have computed */
    sg_phase            phase[SG_PHASES_MAX];
    int                 phases;
    size_t  packed_limit; /* bytes for weights in the layout that products want; the rest is packed at use */
    size_t  frame_bytes;  /* of the most frames that come at once */
    int     chunks;       /* in which the latents are decoded */
    bool    tiled;        /* the VAE works in tiles */
    int64_t rows_at_once; /* of the denoiser's tokens; 0: all */
    struct {
        sg_tensor factor, bias; /* F32 [3, c], [3] in the keep arena, where there is no decoder */
        uint8_t  *host;         /* of one preview */
    } preview;                  /* what all previews share */
} sg_render;

/* ---- render_plan.c ---- */

/* Makes the sampler that r asks for. Returns SG_E_ARG where there is none such. */
sg_status sg_render_sampler(sg_sampler *out, const sg_engine *engine, const sg_request *r, sg_error *e);

/* Finds out what a render needs, by running its phases on streams that compute nothing, and what the keeper keeps. It
 * tokenizes as well, since the length of the prompt is part of the plan. Leaves render->self open, after a failure
 * too. */
sg_status sg_render_plan(sg_render *render, sg_plan *out);

/* Tells what attention will do by p, as it is bound to the longest sequence, in out, whose steps, layers and groups are
 * there. */
void sg_plan_attention(sg_plan *out, const sg_policy *p, const sg_attention *longest);

/* ---- stage.c: a phase at work ---- */

/* Returns SG_E_CANCELLED after sg_engine_cancel. */
sg_status sg_stage_check(const sg_render *render);

/* To be called with what a callback returned. A failure gets a text where the callback left none, and the device becomes
 * the thread's again: the callback may have used another one. */
sg_status sg_stage_called(const sg_render *render, sg_status status);

/* Tells the caller's progress. Returns SG_E_CANCELLED where that, or sg_engine_cancel, cancels. */
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

/* ---- modulation.c: what modulates the steps, from its phase to each of them ---- */

/* Returns the bytes on the host of all that modulates a render; 0 where the model has no such phase. */
size_t sg_modulation_bytes(const sg_render *render);

/* Returns the hash of all that modulations follow from, when the texts are encoded; it is not 0. */
uint64_t sg_modulation_hash(const sg_render *render);

/* Computes those of all steps, on a plan too: they become the engine's. Failures latch in s. */
void sg_modulation_compute(const sg_render *render, sg_stream *s);

/* Returns F32 [texts, rows, width] in s->scratch, those of this step; absent where the model has none. */
sg_tensor sg_modulation_of_step(const sg_render *render, sg_stream *s, int step);

/* ---- start.c: what denoising starts from ---- */

/* Encodes what the render starts from, on a plan too: its latents become the engine's. Failures latch in s. */
void sg_start_encode(const sg_render *render, sg_stream *s, sg_watch watch);

/* Draws normals for the latents from the render's generator, so many times, into render->noise: the last ones count. */
sg_status sg_start_draw(sg_render *render, int times);

/* Brings them to x. Taps "noise". */
void sg_start_noise(const sg_render *render, sg_stream *s, sg_tensor x);

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

/* ---- preview.c: the clean sample that a step's output stands for, by colours or by a small decoder ---- */

/* Reads the colours of sparge-gen.json, "latent_rgb_factors" and "latent_rgb_factors_bias", into engine. Faults are
 * noted in c. */
void sg_preview_read_rgb(sg_engine *engine, sg_config *c);

/* Returns SG_E_ARG for a number of steps that is none, and where there are no colours for this model's latents. */
sg_status sg_preview_check(const sg_engine *engine, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Returns the bytes of one preview; 0 where the render has none. */
size_t sg_preview_bytes(const sg_render *render);

/* Returns the decoder's weights for the phase of denoising; NULL where there are none to load. */
sg_component *sg_preview_component(const sg_render *render);

/* Puts what all previews share into s->keep. */
void sg_preview_place(sg_render *render, sg_stream *s);

/* Tells whether there is a preview after this step. */
bool sg_preview_due(const sg_render *render, int step);

/* Makes the preview after this step, before the sampler's step, of latents x and prediction v, in render->preview.host;
 * on a plan nowhere. */
sg_status sg_preview_make(const sg_render *render, sg_stream *s, sg_tensor x, sg_tensor v, int step);

/* ---- capture.c ---- */

/* Serves as sg_attention_watch's `on_begin`, with the sg_capture as context. A lack of memory is latched in s. */
sg_attention_hook sg_capture_hook;

/* Writes tensors "q" [n, h, d], "k" and "v" [n, hk, d], dtype as computed, with grid "frames,rows,columns", text_prefix
 * and text_suffix (tokens of text before and behind those of the grid), layer, step and timestep (of 1000) as
 * metadata. */
sg_status sg_capture_write(const sg_capture *c, const char *path, const int64_t grid[3], sg_error *e) SG_MUST_USE;
void      sg_capture_free(sg_capture *c);

#endif
