/* wan_dit.h - WanTransformer3DModel: one denoiser of a Wan checkpoint. */
#ifndef SG_WAN_DIT_H
#define SG_WAN_DIT_H

#include "family.h"
#include "layers.h"

typedef struct sg_wan_config {
    int64_t patch[3]; /* frames, rows, columns */
    int64_t heads, head_dim, width, ffn, layers;
    int64_t channels; /* of the latent, and of what comes out */
    int64_t input;    /* what goes in: channels, or beside the latent those of a picture */
    int64_t text_dim, freq_dim, rope_max;
    double  eps;
    bool    cross_norm; /* norm2 has weights; otherwise it is the identity */
    /* A picture's token, to which cross-attention goes beside the text, has image_dim numbers; 0 means that there are
     * no such tokens. image_places counts the tokens of two pictures, which have learnt places; 0 stands for one
     * picture, without. */
    int64_t image_dim;
    int64_t image_places;
} sg_wan_config;

typedef struct sg_wan_dit sg_wan_dit;

/* Opens component `name` of c ("transformer" or "transformer_2"); loads nothing. */
sg_status            sg_wan_dit_open(sg_wan_dit **out, const sg_checkpoint *c, const char *name, sg_dtype act,
                                     sg_error *e) SG_MUST_USE;
void                 sg_wan_dit_close(sg_wan_dit **d);
sg_component        *sg_wan_dit_component(sg_wan_dit *d);
const sg_wan_config *sg_wan_dit_config(const sg_wan_dit *d);

/* This is a prompt as the denoiser sees it: real rows, then one row of zeros that stands for all the padding. For
 * pictures, with image_dim in place of text_dim, it holds their tokens. */
typedef struct sg_wan_text {
    const float *states; /* host, F32 [rows, text_dim]; NULL on a plan */
    int          rows;   /* real tokens */
} sg_wan_text;

/* Holds what the passes of a step share, in s->scratch from the first pass to the end of the last. */
typedef struct sg_wan_step {
    sg_tensor temb, e6; /* F32 [1, D], [1, 6 D]; with held tokens a second row, theirs */
    sg_tensor e, still; /* F32 [6, D]: modulation of one block; the same of held tokens */
    sg_tensor x, copy;  /* F32 [n, D]: the tokens; copy only with two passes */
} sg_wan_step;

/* Holds what does not change between steps, in s->keep. Zero-initialise it. */
typedef struct sg_wan_run {
    int64_t        grid[3]; /* patches: frames, rows, columns */
    sg_token_order tokens;
    sg_rotary      rotary;
    /* key and value are act [rows + 1, heads, head_dim] at index 3 layer + pass, the third pass being the pictures'.
     * The arrays are on the host. */
    sg_tensor *key, *value;
    sg_tensor  bias[2]; /* F32 [rows + 1]: ln(how many padding rows the last one stands for) */
    sg_tensor  input;   /* F32 [input, f, y, x]? the latents, with a picture's channels behind */
    sg_tensor  held;    /* F32 [c, 1, y x]? the first frame of the latents, which is a picture's */
    sg_tensor  t;       /* F32 [2], with held: the step's timestep; 0, that of the held frame's tokens */

    const sg_self_attention *self; /* borrowed */
    sg_wan_step              now;
} sg_wan_run;

/* Makes order and rotary tables for tokens of this grid. */
void sg_wan_run_tables(sg_wan_run *run, const sg_wan_dit *d, sg_stream *s, const int64_t grid[3],
                       const sg_self_attention *self);
/* Uploads what a picture gives, with the latents' f, y, x. image is F32 on the host: [input - channels, f, y, x] that
 * go in beside the latents, or, where nothing does, [channels, 1, y, x] that are the first frame. It is NULL on a
 * plan. */
void sg_wan_run_image(sg_wan_run *run, const sg_wan_dit *d, sg_stream *s, const float *image, const int64_t latent[4]);
/* Computes cross-attention keys and values of the text of each pass, once for all steps: they depend on the text alone.
 * text_len is the padded length that the model was trained with (512). pictures counts where there is image_dim. */
void sg_wan_run_text(sg_wan_run *run, const sg_wan_dit *d, sg_stream *s, const sg_wan_text *text, int passes,
                     int text_len, const sg_wan_text *pictures);
void sg_wan_run_close(sg_wan_run *run);

/* Puts the held frame into x F32 [c, f, y, x]. */
void sg_wan_run_hold(const sg_wan_run *run, sg_stream *s, sg_tensor x);

/* Does what sg_family says of forward. What the passes share (patch embedding, time, the first block's self-attention)
 * is computed once. Taps "dit.*". */
void sg_wan_dit_forward(const sg_wan_dit *d, sg_wan_run *run, sg_stream *s, const sg_pass *p);

#endif
