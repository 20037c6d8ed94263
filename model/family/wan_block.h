/* wan_block.h - a block of WanTransformer3DModel and what blocks take of a denoiser and of a render: for wan.c. */
#ifndef SG_WAN_BLOCK_H
#define SG_WAN_BLOCK_H

#include "dit.h"

enum {
    SG_WAN_ROWS = 6,      /* of a block's modulation */
    SG_WAN_PICTURES = 2,  /* whose keys stand behind those of the texts of the passes */
    SG_WAN_KEYS = 3,      /* of a layer */
    SG_WAN_TEXT_LEN = 512 /* rows that the denoisers were trained with; WanPipeline's max_sequence_length */
};

typedef struct sg_wan_block {
    sg_tensor               table; /* [1, 6, D]: shift, scale, gate, shift, scale, gate */
    sg_attention_weights    self, cross;
    sg_linear_weights       image_k, image_v; /* [D, D]? */
    sg_tensor               image_norm;       /* [D]?, of image_k */
    sg_tensor               norm_w, norm_b;   /* [D]?, of norm2; absent: that is the identity */
    sg_feed_forward_weights ffn;
} sg_wan_block;

typedef struct sg_wan_dit {
    sg_dit  dit; /* patch_in [D, input, pt, ph, pw] */
    int64_t ffn, layers, freq_dim, rope_max;
    double  eps;
    bool    cross_norm; /* there is a norm2 */
    /* A picture's token, to which cross-attention goes beside the text, has image_dim numbers; 0 means that there are
     * no such tokens. image_places counts the tokens of two pictures, which have learnt places; 0 stands for one
     * picture, without. */
    int64_t           image_dim, image_places;
    sg_linear_weights time[2], time_proj;   /* [D, freq_dim] [D, D]; [6 D, D] */
    sg_linear_weights text[2];              /* [D, text_dim] [D, D] */
    sg_tensor         norm_w[2], norm_b[2]; /* of pictures, before and after image: [image_dim]? [D]? */
    sg_tensor         places;               /* [1, image_places, image_dim]? */
    sg_linear_weights image[2];             /* [image_dim, image_dim]? [D, image_dim]? */
    sg_tensor         table;                /* [1, 2, D]: shift, scale of the output */
    sg_wan_block     *block;                /* [layers] */
} sg_wan_dit;

/* Holds what does not change between steps, in s->keep, and behind it what the passes of a step share, in s->scratch
 * from the first pass to the end of the last. */
typedef struct sg_wan_run {
    sg_dit_run dit;
    sg_keys   *keys;                 /* host [SG_WAN_KEYS layers]: of a pass at SG_WAN_KEYS layer + pass, of rows + 1 */
    sg_tensor  rows[SG_WAN_KEYS];    /* act [rows + 1, D]: what keys are made of in each step, in their place */
    sg_tensor  bias[SG_TEXT_PASSES]; /* F32 [rows + 1]: ln(how many padding rows the last one stands for) */
    sg_tensor  held;                 /* F32 [c, 1, y x]? the first frame of the latents, which is a picture's */
    sg_tensor  t;                    /* F32 [2], with held: the step's timestep; 0, that of the held frame's tokens */
    sg_tensor  row;                  /* I32 [n], with held: the first row of e that is a token's, 0 or SG_WAN_ROWS */

    sg_tensor temb, e6; /* F32 [times, D] [times, 6 D]; two times with held, or one */
    sg_tensor e;        /* F32 [6 times, D]: modulation of one block, or in 2 of 6 rows that of the output */
    sg_tensor x, copy;  /* F32 [n, D]: the tokens; copy only with two passes */
} sg_wan_run;

/* Binds block i; the prefix goes. */
void sg_wan_bind_block(sg_wan_dit *d, int i);

/* Sets the keys and values of a text, or of pictures, that all layers attend to, once for all steps: they depend on
 * them alone. Where memory is short, each step makes them again. states F32 [rows, any] are on the host, and NULL on a
 * plan. A text's real rows are followed by one row of zeros that stands for all of its padding. */
void sg_wan_text_keys(sg_wan_run *r, const sg_wan_dit *d, sg_stream *s, int pass, const float *states, int rows);
void sg_wan_picture_keys(sg_wan_run *r, const sg_wan_dit *d, sg_stream *s, const float *states, int rows);

/* Sets `rows` rows of r->e, for each time, to table + v. v is [times, D], or [times, rows D]. */
void sg_wan_modulate(const sg_wan_run *r, sg_stream *s, int64_t rows, sg_tensor table, sg_tensor v);

/* Sets y to the norm of x, modulated by rows first and first + 1 of r->e; row are those of r->row for x. */
void sg_wan_norm(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, sg_tensor y, sg_tensor x, int first,
                 sg_tensor non_finite, sg_tensor row);

/* These are the parts of block i, of a modulation that is made. They add to x. */
void sg_wan_self_attention(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, const sg_pass *p, int i,
                           sg_tensor x);
void sg_wan_cross_attention(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, int pass, int i, sg_tensor x);
void sg_wan_feed_forward(const sg_wan_dit *d, const sg_wan_run *r, sg_stream *s, int i, sg_tensor x);

#endif
