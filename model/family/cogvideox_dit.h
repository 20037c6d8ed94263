/* cogvideox_dit.h - CogVideoXTransformer3DModel: the denoiser of a CogVideoX checkpoint. */
#ifndef SG_COGVIDEOX_DIT_H
#define SG_COGVIDEOX_DIT_H

#include "family.h"
#include "layers.h"

typedef struct sg_cogvideox_config {
    int64_t patch[3];    /* latent frames, rows, columns */
    bool    frame_patch; /* patches have frames at all, as in 1.5 */
    int64_t heads, head_dim, width, layers;
    int64_t channels; /* of the latent */
    int64_t input;    /* channels that go in: the latent's; of image to video twice as many */
    int64_t text_dim, text_len, time_dim;
    int64_t sample[3]; /* that the model was trained with: frames of the clip, rows and columns of the latent */
    int64_t ratio;     /* of the clip's frames to the latent's */
    double  eps, scale_time, scale_space; /* scales: how many places a unit of a sine's position is */
    bool    rotary;                       /* or sines added to the tokens */
    bool    learned;                      /* added to the tokens beside that: for clips of the sample's size alone */
    bool    offset;                       /* an embedding that is added to that of the time */
    bool    norm_affine, attention_bias, patch_bias;
} sg_cogvideox_config;

typedef struct sg_cogvideox_dit sg_cogvideox_dit;

/* Opens component "transformer" of c; loads nothing. */
sg_status sg_cogvideox_dit_open(sg_cogvideox_dit **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void      sg_cogvideox_dit_close(sg_cogvideox_dit **d);
sg_component              *sg_cogvideox_dit_component(sg_cogvideox_dit *d);
const sg_cogvideox_config *sg_cogvideox_dit_config(const sg_cogvideox_dit *d);

/* Holds what the passes of a step share, in s->scratch from the first pass to the end of the last. */
typedef struct sg_cogvideox_step {
    sg_tensor hidden; /* F32 [1, time_dim]: silu of the time embedding */
    sg_tensor e;      /* F32 [12 layers + 2, D]: modulation of every block, then of the output */
    sg_tensor x;      /* F32 [text + n, D]: the tokens */
} sg_cogvideox_step;

/* Holds what does not change between steps, in s->keep. Zero-initialise it. */
typedef struct sg_cogvideox_run {
    int64_t        grid[3]; /* patches: frames, rows, columns */
    sg_token_order tokens;
    sg_rotary      rotary;              /* with config.rotary */
    sg_tensor      sines, part;         /* F32 [frames + 3 places, D / 4]?; I32 [4 n]?: which rows a token is made of */
    bool           learned;             /* positions, in place of sines */
    sg_tensor      input;               /* F32 [input, f, y, x]?: the latents, with a picture's channels behind */
    sg_tensor      offset;              /* F32 [1, time_dim]? */
    sg_tensor      text[SG_PASSES_MAX]; /* F32 [text_len, D] */
    const sg_self_attention *self;      /* borrowed */
    sg_cogvideox_step        now;
} sg_cogvideox_run;

/* Makes order and positions of the tokens of this grid, and room for what a picture gives. */
void sg_cogvideox_run_tables(sg_cogvideox_run *run, const sg_cogvideox_dit *d, sg_stream *s, const sg_geometry *g,
                             const sg_self_attention *self);
/* Uploads what a picture gives beside the latents: F32 [input - channels, f, y, x] on the host. Taps "image". */
void sg_cogvideox_run_image(const sg_cogvideox_run *run, const sg_cogvideox_dit *d, sg_stream *s, const float *image);
/* Computes the text's rows of every pass, and the offset, once for all steps. */
void sg_cogvideox_run_text(sg_cogvideox_run *run, const sg_cogvideox_dit *d, sg_stream *s, const sg_conditioning *c);

/* Does what sg_family says of forward. What depends on the time alone is computed once for all passes. Taps "dit.*". */
void sg_cogvideox_dit_forward(const sg_cogvideox_dit *d, sg_cogvideox_run *run, sg_stream *s, const sg_pass *p);

#endif
