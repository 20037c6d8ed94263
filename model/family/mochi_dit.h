/* mochi_dit.h - MochiTransformer3DModel: the denoiser of Mochi 1. */
#ifndef SG_MOCHI_DIT_H
#define SG_MOCHI_DIT_H

#include "family.h"
#include "layers.h"

typedef struct sg_mochi_config {
    int64_t patch[3]; /* frames, rows, columns */
    int64_t heads, head_dim, width, layers;
    int64_t text_width; /* of the text's tokens inside; the video's have width */
    int64_t channels;   /* of the latent, in and out */
    int64_t text_dim, freq_dim;
} sg_mochi_config;

typedef struct sg_mochi_dit sg_mochi_dit;

/* Opens component "transformer" of c; loads nothing. */
sg_status     sg_mochi_dit_open(sg_mochi_dit **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_mochi_dit_close(sg_mochi_dit **d);
sg_component *sg_mochi_dit_component(sg_mochi_dit *d);
const sg_mochi_config *sg_mochi_dit_config(const sg_mochi_dit *d);

/* Holds what does not change between steps, in s->keep. */
typedef struct sg_mochi_run {
    int64_t        grid[3]; /* patches: frames, rows, columns */
    sg_token_order tokens;
    sg_rotary      rotary;                /* [n, heads, head_dim / 2]: learned, each head its own */
    sg_tensor      text[SG_PASSES_MAX];   /* F32 [tokens, text_width]; absent: the text has no token */
    sg_tensor      pooled[SG_PASSES_MAX]; /* F32 [1, width]: what the text adds to the time */

    const sg_self_attention *self; /* borrowed */
} sg_mochi_run;

/* Starts a render of tokens of this grid. */
void sg_mochi_run_open(sg_mochi_run *run, sg_stream *s, const int64_t grid[3], const sg_self_attention *self);

/* Takes the text of one pass after sg_mochi_run_open, with weights. `states` F32 [len, text_dim] is on the host, and
 * NULL on a plan; len may be 0. */
void sg_mochi_run_text(sg_mochi_run *run, const sg_mochi_dit *d, sg_stream *s, int pass, const float *states, int len);
/* Computes the rotary tables. */
void sg_mochi_run_rotary(sg_mochi_run *run, const sg_mochi_dit *d, sg_stream *s);

/* Does what sg_family says of forward. Taps "dit.*". */
void sg_mochi_dit_forward(const sg_mochi_dit *d, const sg_mochi_run *run, sg_stream *s, const sg_pass *p);

#endif
