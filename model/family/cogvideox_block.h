/* cogvideox_block.h - a block of CogVideoXTransformer3DModel: for cogvideox.c. */
#ifndef SG_COGVIDEOX_BLOCK_H
#define SG_COGVIDEOX_BLOCK_H

#include "dit.h"

enum { SG_COGVIDEOX_ROWS = 12 }; /* of modulation in a block: shift, scale, gate of the video, the text; of two norms */

/* A norm, with what modulates it. */
typedef struct sg_cogvideox_norm {
    sg_linear_weights linear; /* [6 D, time_dim]; of the output [2 D, time_dim]: shift, scale */
    sg_tensor         w, b;   /* [D]? x 2 */
} sg_cogvideox_norm;

typedef struct sg_cogvideox_block {
    sg_cogvideox_norm       norm[2]; /* before attention, before the feed-forward */
    sg_attention_weights    attn;
    sg_tensor               norm_q_b, norm_k_b; /* [d] */
    sg_feed_forward_weights ff;
} sg_cogvideox_block;

typedef struct sg_cogvideox_dit {
    sg_dit              dit;
    int64_t             layers, time_dim;
    double              eps;
    bool                norm_affine, attention_bias;
    sg_cogvideox_block *block; /* [layers] */
} sg_cogvideox_dit;

/* Binds name.linear, of so many rows of modulation, and name.norm, where norms have weights. */
void sg_cogvideox_bind_norm(sg_cogvideox_dit *d, sg_cogvideox_norm *n, const char *name, int64_t rows);
/* Binds name.weight and name.bias where norms have them, or `always`. */
void sg_cogvideox_bind_affine(sg_cogvideox_dit *d, sg_tensor *w, sg_tensor *b, const char *name, int64_t width,
                              bool always);
void sg_cogvideox_bind_block(sg_cogvideox_dit *d, int i);

/* Sets y to the modulated norm of x. */
void sg_cogvideox_norm_rows(const sg_cogvideox_dit *d, sg_stream *s, sg_tensor y, sg_tensor x,
                            const sg_cogvideox_norm *w, const sg_modulation *e, sg_tensor non_finite);

/* Runs block i on the tokens x F32 [N, D], of text in front of the video's, modulated by e [SG_COGVIDEOX_ROWS, D]. Taps
 * "dit.block.". */
void sg_cogvideox_block_run(const sg_cogvideox_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, int i,
                            sg_tensor x, sg_tensor e);

#endif
