/* mmdit.h - the blocks that HunyuanVideo, Flux and SD3 are made of, multimodal diffusion transformers (arXiv:2403.03206), and what
 * is around them: how time, guidance and the row of a text modulate them, and the way out. In a block of two streams picture
 * and text have weights of their own and attend together; in a block of one, attention and feed-forward are beside each
 * other, with one product out of both. Tensor names are diffusers'. Tokens x F32 [n, D] hold the rows of both streams;
 * the picture's are the video's, too. What bites: the modulation of the way out has scale before shift; guidance is 1000
 * times the number, in BF16 rounded twice, so that 6 becomes 6016. */
#ifndef SG_MMDIT_H
#define SG_MMDIT_H

#include "family.h"
#include "layers.h"

enum { SG_MMDIT_WAVE = 256 }; /* numbers of a sinusoid */

typedef enum sg_mmdit_stream { SG_MMDIT_PICTURE, SG_MMDIT_TEXT, SG_MMDIT_STREAMS } sg_mmdit_stream;

typedef struct sg_mmdit_config {
    int64_t heads, head_dim, width, ffn;
    int64_t layers, singles; /* blocks of two streams, of one */
    int64_t row_dim;         /* numbers of the row that stands for a text */
    int64_t features;        /* of a token on the way out */
    bool    guided;          /* by a number that it is given */
    bool    plain_heads;     /* queries and keys are not normalised */
    bool    text_ends;       /* the last block of two streams takes the text and leaves it as it is */
    /* [layers] tells which blocks of two streams have a picture that attends to itself besides; NULL means none. Their
     * second attentions are layers behind all blocks. The list is borrowed. */
    const bool *dual;
} sg_mmdit_config;

/* Holds the weights of one stream of a block of two. */
typedef struct sg_mmdit_side {
    /* mod is [6 D, D], with shift, scale and gate of attention and of the feed-forward; or [9 D, D], with those of the
     * second attention, too; or [2 D, D], with scale and shift, for a text that ends here and has neither attn.out nor
     * ff. */
    sg_linear_weights       mod;
    sg_attention_weights    attn;
    sg_attention_weights    attn2; /* of a dual block's picture */
    sg_feed_forward_weights ff;
} sg_mmdit_side;

typedef struct sg_mmdit_single {
    sg_linear_weights    mod;  /* [3 D, D]: shift, scale, gate */
    sg_attention_weights attn; /* without out */
    sg_linear_weights    up;   /* [ffn, D] */
    sg_linear_weights    out;  /* [D, D + ffn] */
} sg_mmdit_single;

typedef struct sg_mmdit {
    sg_mmdit_config   config; /* the family's to set, before sg_mmdit_bind */
    sg_dtype          act;
    sg_bind          *bind;                         /* borrowed */
    sg_linear_weights time[2], guidance[2], row[2]; /* [D, WAVE] [D, D]; the same?; [D, row_dim] [D, D] */
    sg_linear_weights mod_out;                      /* [2 D, D]: scale, shift */
    sg_linear_weights proj_out;                     /* [features, D] */
    sg_mmdit_side (*block)[SG_MMDIT_STREAMS];       /* [layers] */
    sg_mmdit_single *single;                        /* [singles] */
} sg_mmdit;

/* Reads from f the channels of a head that each of three axes rotates: 16, 56 and 56 where it has no such key. */
void sg_mmdit_read_axes(sg_config *f, const char *key, int64_t head_dim, int64_t axis[3]);

/* Makes room for the blocks of m->config and binds all its tensors; the prefix of b is empty behind it. SG_E_MEMORY names `what`.
 * The caller frees with sg_mmdit_free, after a failure too. */
sg_status sg_mmdit_bind(sg_mmdit *m, sg_bind *b, sg_dtype act, const char *what, sg_error *e) SG_MUST_USE;
void      sg_mmdit_free(sg_mmdit *m);

/* Binds linear_1 and linear_2 of an embedder. */
void sg_mmdit_want_embedder(sg_mmdit *m, sg_linear_weights l[2], const char *prefix, int64_t i);

/* Computes in y F32 [1, D] what the time is added to in all steps. It comes from the guidance and from the row of the
 * text [row_dim], which is on the host, and NULL on a plan. */
void sg_mmdit_row(const sg_mmdit *m, sg_stream *s, sg_tensor y, const float *row, double guidance);

/* Returns F32 [1, D] = silu(time + added) in s->scratch, where l embeds the time. The sum is tapped. */
sg_tensor sg_mmdit_time(sg_stream *s, const sg_pass *p, const sg_linear_weights l[2], sg_tensor added, const char *tap);

/* Returns F32 [rows, D], the rows of a modulation by a time, in s->scratch. */
sg_tensor sg_mmdit_modulation(sg_stream *s, const sg_linear_weights *w, sg_tensor time);

/* Describes a pass through the blocks. */
typedef struct sg_mmdit_pass {
    const sg_pass           *pass;
    const sg_self_attention *self;
    int64_t first[SG_MMDIT_STREAMS], count[SG_MMDIT_STREAMS]; /* rows of x that each stream has, all together */
    const sg_rotary *rotary; /* of the picture's rows; the text's are not rotated. NULL: none are */
    sg_tensor        time;   /* F32 [1, D]: sg_mmdit_time's */
} sg_mmdit_pass;

/* Replaces x by what all blocks make of it. Taps "dit.block.*". */
void sg_mmdit_blocks(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, sg_tensor x);

/* Returns F32 [n, features] in s->scratch, the modulated, projected rows of the picture in x. */
sg_tensor sg_mmdit_out(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, sg_tensor x);

#endif
