/* hunyuan_dit.h - HunyuanVideoTransformer3DModel: the denoiser of HunyuanVideo. */
#ifndef SG_HUNYUAN_DIT_H
#define SG_HUNYUAN_DIT_H

#include "mmdit.h"

typedef struct sg_hunyuan_config {
    sg_mmdit_config blocks;
    int64_t         patch[3]; /* frames, rows, columns */
    int64_t         refiners; /* blocks of the text alone */
    int64_t         channels; /* of the latent, in and out */
    int64_t         text_dim; /* numbers of a token's state */
    int64_t         axis[3];  /* channels of a head that each axis rotates */
    double          theta;
} sg_hunyuan_config;

typedef struct sg_hunyuan_dit sg_hunyuan_dit;

/* Opens component "transformer" of c; loads nothing. */
sg_status     sg_hunyuan_dit_open(sg_hunyuan_dit **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_hunyuan_dit_close(sg_hunyuan_dit **d);
sg_component *sg_hunyuan_dit_component(sg_hunyuan_dit *d);
const sg_hunyuan_config *sg_hunyuan_dit_config(const sg_hunyuan_dit *d);

/* Holds what does not change between steps, in s->keep. */
typedef struct sg_hunyuan_run {
    int64_t        grid[3]; /* patches: frames, rows, columns */
    sg_token_order tokens;
    sg_rotary      rotary;
    sg_tensor      text[SG_PASSES_MAX]; /* F32 [tokens, width]: before the refiner, which goes by the time too */
    sg_tensor      mean[SG_PASSES_MAX]; /* F32 [1, width]: what the refiner adds to the time */
    sg_tensor      row[SG_PASSES_MAX];  /* F32 [1, width]: what text and guidance add to the time */

    const sg_self_attention *self; /* borrowed */
} sg_hunyuan_run;

/* Starts a render of tokens of this grid. */
void sg_hunyuan_run_open(sg_hunyuan_run *run, const sg_hunyuan_dit *d, sg_stream *s, const int64_t grid[3],
                         const sg_self_attention *self);

/* Takes the text of one pass after sg_hunyuan_run_open, with weights. It has len tokens, at least 1. states F32 [len,
 * text_dim] and row [row_dim] are on the host, NULL on a plan. */
void sg_hunyuan_run_text(sg_hunyuan_run *run, const sg_hunyuan_dit *d, sg_stream *s, int pass, const float *states,
                         int len, const float *row, double guidance);

/* Does what sg_family says of forward. Taps "dit.*". */
void sg_hunyuan_dit_forward(const sg_hunyuan_dit *d, const sg_hunyuan_run *run, sg_stream *s, const sg_pass *p);

#endif
