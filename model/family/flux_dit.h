/* flux_dit.h - FluxTransformer2DModel: the denoiser of Flux.1. */
#ifndef SG_FLUX_DIT_H
#define SG_FLUX_DIT_H

#include "mmdit.h"

enum { SG_FLUX_PATCH = 2 }; /* rows and columns of latents in a token: FluxPipeline's, no number of a file */

typedef struct sg_flux_config {
    sg_mmdit_config blocks;
    int64_t         channels; /* of the latent, in and out */
    int64_t         text_dim; /* numbers of a token's state */
    int64_t         axis[3];  /* channels of a head that each axis rotates; the first, a picture's number, is 0 */
} sg_flux_config;

typedef struct sg_flux_dit sg_flux_dit;

/* Opens component "transformer" of c; loads nothing. */
sg_status     sg_flux_dit_open(sg_flux_dit **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_flux_dit_close(sg_flux_dit **d);
sg_component *sg_flux_dit_component(sg_flux_dit *d);
const sg_flux_config *sg_flux_dit_config(const sg_flux_dit *d);

/* Holds what does not change between steps, in s->keep. */
typedef struct sg_flux_run {
    int64_t        grid[3]; /* patches: 1, rows, columns */
    sg_token_order tokens;
    sg_rotary      rotary;
    sg_tensor      text[SG_PASSES_MAX]; /* F32 [tokens, width] */
    sg_tensor      row[SG_PASSES_MAX];  /* F32 [1, width]: what text and guidance add to the time */

    const sg_self_attention *self; /* borrowed */
} sg_flux_run;

/* Starts a render of tokens of this grid. */
void sg_flux_run_open(sg_flux_run *run, const sg_flux_dit *d, sg_stream *s, const int64_t grid[3],
                      const sg_self_attention *self);

/* Takes the text of one pass after sg_flux_run_open, with weights. It has len tokens, at least 1. states F32 [len,
 * text_dim] and row [row_dim] are on the host, NULL on a plan. */
void sg_flux_run_text(sg_flux_run *run, const sg_flux_dit *d, sg_stream *s, int pass, const float *states, int len,
                      const float *row, double guidance);

/* Does what sg_family says of forward. Taps "dit.*". */
void sg_flux_dit_forward(const sg_flux_dit *d, const sg_flux_run *run, sg_stream *s, const sg_pass *p);

#endif
