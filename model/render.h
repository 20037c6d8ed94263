/* render.h - one render: what planning finds and the phases use. For render_plan.c and pipeline.c. */
#ifndef SG_RENDER_H
#define SG_RENDER_H

#include "capture.h"
#include "engine_state.h"

/* One render. */
typedef struct sg_render {
    sg_engine          *g;
    const sg_request   *r;
    const sg_callbacks *cb;
    sg_report          *report;
    sg_error           *e;
    sg_sampler          sampler;
    int64_t             latent[4];
    sg_attention       *attention;
    int64_t             grid[3]; /* of the denoiser's tokens */
    sg_attending        how;     /* borrows attention and order */
    int32_t            *order;
    sg_capture          capture;
    float              *host_latents; /* between denoising and decoding */
    struct {
        size_t keep, scratch; /* bytes of the arenas, as the plan found them */
    } need[SG_PHASES];
    size_t frame_bytes;  /* of the most frames that come at once */
    bool   keep_weights; /* everything fits at once */
    size_t held;         /* bytes of weights loaded now */
} sg_render;

/* Finds out what a render needs. Tokenizes as well: the length of the prompt is part of the plan. Leaves attention
 * open, after a failure too. */
sg_status sg_render_plan(sg_render *q, sg_plan *out);

/* Bytes: what the plan leaves may hold weights in the layout that products want; the rest is packed at every use. */
size_t sg_render_packed_limit(const sg_render *q, const sg_plan *p);

/* What all steps of denoising work on, in the keep arena of s. */
typedef struct sg_denoising {
    sg_sampler_state state;
    sg_tensor        v;    /* what the model predicts, as the latents lie */
    size_t           mark; /* of the keep arena: what an expert places comes after it */
} sg_denoising;

sg_denoising sg_render_place(sg_render *q, sg_stream *s);

double    sg_render_guidance(const sg_request *r, int expert);
sg_status sg_render_status(const sg_stream *s, const char *doing, sg_error *e);

#endif
