/* preview.h - what a render looks like after a step: the clean sample that the step's output stands for, in colours that
 * follow from the latents by a matrix, or by a small decoder. */
#ifndef SG_PREVIEW_H
#define SG_PREVIEW_H

#include "engine_state.h"

typedef struct sg_render sg_render;

/* Holds what the previews of one render share. */
typedef struct sg_preview_tables {
    sg_tensor factor, bias; /* F32 [3, c], [3] in the keep arena, where there is no decoder */
    uint8_t  *host;         /* of one preview */
} sg_preview_tables;

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

#endif
