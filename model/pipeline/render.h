/* render.h - one render: what planning finds and the phases use. It is for render_plan.c and pipeline.c. */
#ifndef SG_RENDER_H
#define SG_RENDER_H

#include "capture.h"
#include "conditioning.h"
#include "engine_state.h"
#include "preview.h"
#include "rng.h"
#include "step_cache.h"

typedef enum sg_phase_kind {
    SG_PHASE_TEXT,
    SG_PHASE_START, /* of renders that start from an image or a video */
    SG_PHASE_ADDED,
    SG_PHASE_DENOISE,
    SG_PHASE_DECODE
} sg_phase_kind;

/* A phase of a render has memory of its own. */
typedef struct sg_phase {
    sg_phase_kind kind;
    int           index;         /* of the text encoder, or of what the family adds */
    size_t        keep, scratch; /* bytes of its arenas, as the plan found them */
    int           units; /* of its work that progress tells of, as the plan found them; not of the last two kinds */
} sg_phase;

/* Holds one render. */
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
    float              *shadow;       /* with SG_CACHE_SHADOW: room for what a skipped step would have computed */
    sg_phase            phase[SG_PHASES_MAX];
    int                 phases;
    size_t              frame_bytes;  /* of the most frames that come at once */
    int                 chunks;       /* in which the latents are decoded */
    bool                keep_weights; /* everything fits at once */
    bool                tiled;        /* the VAE works in tiles */
    size_t              held;         /* bytes of weights loaded now */
} sg_render;

/* Makes the sampler that r asks for. Returns SG_E_ARG where there is none such. */
sg_status sg_render_sampler(sg_sampler *out, const sg_engine *engine, const sg_request *r, sg_error *e);

/* Finds out what a render needs. It tokenizes as well, since the length of the prompt is part of the plan. Leaves
 * render->self open, after a failure too. */
sg_status sg_render_plan(sg_render *render, sg_plan *out);

/* Sets shape to that of the latents that are decoded, saved and read: the geometry's without its pad. */
void sg_render_decoded(const sg_render *render, int64_t shape[4]);

/* Returns the bytes of the latents, which are F32. */
size_t sg_render_latent_bytes(const sg_render *render);

/* Returns how many bytes the plan leaves for weights in the layout that products want; the rest is packed at every
 * use. */
size_t sg_render_packed_limit(const sg_render *render, const sg_plan *p);

/* Makes the latents x hold what the family says, by sg_family's hold. */
void sg_render_hold(const sg_render *render, sg_stream *s, sg_tensor x);

/* Holds what all steps of denoising work on, in the keep arena of s. */
typedef struct sg_denoising {
    sg_sampler_state state;
    sg_tensor        v;          /* what the model predicts, as the latents lie */
    sg_tensor        non_finite; /* I32: sg_pass's, for the denoiser of most layers */
    size_t           mark;       /* of the keep arena: what a denoiser places comes after it */
} sg_denoising;

sg_denoising sg_render_allocate(sg_render *render, sg_stream *s);

/* Returns the passes of a step: those of the texts, and that of skip-layer guidance, which not every step has. */
int sg_render_passes(const sg_render *render);

/* Returns how many steps, from this one on and with it, issue the same ops on the same memory. */
int sg_render_same_steps(const sg_render *render, int step);

/* Returns the number of the denoiser that works at this timestep of the sampler. */
int sg_denoiser_at(const sg_components *components, double timestep);

/* Returns how many layers of self-attention the denoisers before this one have. Where `denoiser` is the number of
 * denoisers, these are all of them. */
int sg_first_layer(const sg_components *components, int denoiser);

/* Sets d->v to the prediction of this step: the model's, or where the cache skips the step, the extrapolated one.
 * Latches SG_E_NUMERIC as sg_render_inspect does. */
void sg_render_step(sg_render *render, sg_stream *s, const sg_denoising *d, int step, int denoiser);

/* Sets d->v to the guided output of the model for d->state.x at this step. Taps "step.%d.v_cond", "step.%d.v_uncond",
 * "step.%d.v_skip". */
void sg_render_predict(sg_render *render, sg_stream *s, const sg_denoising *d, int step, int denoiser);

/* Looks at the results of a step. Latches SG_E_NUMERIC, and names the first block whose result was not finite. */
void sg_render_inspect(const sg_render *render, sg_stream *s, const sg_denoising *d, int step, int denoiser);

/* The phases of every render of a model, with images or without, from noise alone or not, in the order of their work:
 * each text encoder, the start, what the family adds, denoising, decoding. Returns how many. */
int sg_render_phases(const sg_components *components, bool images, bool starts, sg_phase phase[SG_PHASES_MAX]);

/* "image" or "video": what r starts from, for names and messages. */
const char *sg_start_name(const sg_request *r);

/* The phase of what the render starts from, on a plan too: its latents become the engine's. Failures latch in s. */
void sg_render_encode_start(const sg_render *render, sg_stream *s, sg_watch watch);

/* Fills x with the next normals of the render's generator, as the model's latents are drawn. Taps "noise". */
sg_status sg_render_noise(sg_render *render, sg_stream *s, sg_tensor x);

/* st->x = what the first step starts from: noise, or the latents of its start with noise. Taps "video", "noise". */
sg_status sg_render_start(sg_render *render, sg_stream *s, sg_sampler_state *st);

/* Returns the stage in which the time and the progress of a phase are counted. */
sg_stage sg_phase_stage(const sg_components *components, const sg_phase *phase);

/* Tells whether a phase of this render has work: latents that are there already are only decoded. */
bool sg_phase_runs(const sg_render *render, const sg_phase *phase);

/* Returns the weights that a phase needs. i counts denoisers, of which one is loaded at a time, unless the plan keeps
 * all; any other phase has one. It is NULL past the last. */
sg_component *sg_render_component(const sg_components *components, const sg_phase *phase, int i);

sg_status sg_render_status(const sg_stream *s, const char *doing, sg_error *e);

#endif
