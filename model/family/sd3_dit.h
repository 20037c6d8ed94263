/* sd3_dit.h - SD3Transformer2DModel: the denoiser of Stable Diffusion 3 and 3.5. */
#ifndef SG_SD3_DIT_H
#define SG_SD3_DIT_H

#include "family.h"
#include "layers.h"
#include "mmdit.h"

typedef struct sg_sd3_config {
    sg_mmdit_config blocks;
    int64_t         patch[3];    /* 1, rows, columns */
    int64_t         channels;    /* of the latent, in and out */
    int64_t         text_dim;    /* numbers of a token's state */
    int64_t         places;      /* rows, and columns, of the square of positions that the file has */
    int64_t         sample_size; /* of the latents that the pipeline makes by default */
    int64_t         duals;       /* blocks with a second attention */
} sg_sd3_config;

typedef struct sg_sd3_dit sg_sd3_dit;

/* Opens component "transformer" of c; loads nothing. */
sg_status            sg_sd3_dit_open(sg_sd3_dit **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void                 sg_sd3_dit_close(sg_sd3_dit **d);
sg_component        *sg_sd3_dit_component(sg_sd3_dit *d);
const sg_sd3_config *sg_sd3_dit_config(const sg_sd3_dit *d);

/* Holds what does not change between steps, in s->keep. */
typedef struct sg_sd3_run {
    int64_t                  grid[3]; /* patches: 1, rows, columns */
    sg_token_order           tokens;
    sg_tensor                place;                /* F32 [n, width]: of each token */
    sg_tensor                text[SG_TEXT_PASSES]; /* F32 [tokens, width] */
    sg_tensor                row[SG_TEXT_PASSES];  /* F32 [1, width]: what the text adds to the time */
    const sg_self_attention *self;                 /* borrowed */
} sg_sd3_run;

/* Starts a render of tokens of this grid, at most as many rows and columns as there are positions. */
void sg_sd3_run_open(sg_sd3_run *run, const sg_sd3_dit *d, sg_stream *s, const int64_t grid[3],
                     const sg_self_attention *self);

/* Takes the text of one pass after sg_sd3_run_open, with weights. states F32 [len, text_dim] and row [row_dim] are on
 * the host, NULL on a plan. */
void sg_sd3_run_text(sg_sd3_run *run, const sg_sd3_dit *d, sg_stream *s, int pass, const float *states, int len,
                     const float *row);

/* Does what sg_family says of forward. Taps "dit.*". */
void sg_sd3_dit_forward(const sg_sd3_dit *d, const sg_sd3_run *run, sg_stream *s, const sg_pass *p);

#endif
