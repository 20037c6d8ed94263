/* mmdit.h - the blocks that HunyuanVideo, Flux and SD3 are made of, multimodal diffusion transformers
 * (arXiv:2403.03206), and what is around them: how time, guidance and the row of a text modulate them, and the way
 * out. In a block of two streams picture and text have weights of their own and attend together; in a block of one,
 * attention and feed-forward are beside each other, with one product out of both. Tensor names are diffusers'.
 * Tokens x F32 [n, D] hold the rows of both streams; the picture's are the video's, too. What bites: the modulation
 * of the way out has scale before shift; guidance is 1000 times the number, in BF16 rounded twice, so that 6 becomes
 * 6016. A quarter of the weights are read with one row a step: those of the modulations, which are a component of
 * their own (sg_modulations). */
#ifndef SG_MMDIT_H
#define SG_MMDIT_H

#include "dit.h"

enum { SG_MMDIT_WAVE = 256 }; /* numbers of a sinusoid */

enum { SG_MMDIT_PICTURE, SG_MMDIT_TEXT, SG_MMDIT_STREAMS }; /* streams of tokens */

/* Holds the weights of a modulation, [rows D, D], and which rows of all modulations of a step they make. */
typedef struct sg_mmdit_mod {
    sg_linear_weights weights;
    int64_t           first, rows;
} sg_mmdit_mod;

/* Holds the weights of one stream of a block of two. */
typedef struct sg_mmdit_side {
    /* The rows of mod are shift, scale and gate of attention and of the feed-forward; and, as the third, of the second
     * attention, too; or scale and shift, for a text that ends here and has neither attn.out nor ff. */
    sg_mmdit_mod            mod;
    sg_attention_weights    attn;
    sg_attention_weights    attn2; /* of a dual block's picture */
    sg_feed_forward_weights ff;
} sg_mmdit_side;

typedef struct sg_mmdit_single {
    sg_mmdit_mod         mod;  /* shift, scale, gate */
    sg_attention_weights attn; /* without out */
    sg_linear_weights    up;   /* [ffn, D] */
    sg_linear_weights    out;  /* [D, D + ffn] */
} sg_mmdit_single;

typedef struct sg_mmdit {
    sg_dit dit; /* its numbers, and what follows up to `dual`, are the family's to set, before sg_mmdit_bind */

    int64_t ffn;
    int64_t layers, singles; /* blocks of two streams, of one */
    int64_t row_dim;         /* numbers of the row that stands for a text */
    bool    guided;          /* by a number that it is given */
    bool    plain_heads;     /* queries and keys are not normalised */
    bool    text_ends;       /* the last block of two streams takes the text and leaves it as it is */
    bool    text_first;      /* the text's tokens stand before the picture's, not behind */
    /* [layers] tells which blocks of two streams have a picture that attends to itself besides; NULL means none. Their
     * second attentions are layers behind all blocks. The list is borrowed. */
    const bool *dual;

    /* What follows up to mod_out, and mod of every block, has its binding in `modulation`. */
    sg_component      modulation;                   /* over dit.component's source */
    int64_t           modulation_rows;              /* of a step with a text: of all blocks and of the way out */
    sg_linear_weights time[2], guidance[2], row[2]; /* [D, WAVE] [D, D]; the same?; [D, row_dim] [D, D] */
    sg_mmdit_mod      mod_out;                      /* scale, shift */
    sg_mmdit_side (*block)[SG_MMDIT_STREAMS];       /* [layers] */
    sg_mmdit_single *single;                        /* [singles] */
} sg_mmdit;

/* Reads from f the channels of a head that each of three axes rotates: 16, 56 and 56 where it has no such key. */
void sg_mmdit_read_axes(sg_config *f, const char *key, int64_t head_dim, int64_t axis[3]);

/* Makes room for the blocks and binds all tensors that these models have in common, of dit proj_out too; the prefix is
 * empty behind it. SG_E_MEMORY names the component. sg_mmdit_close closes, after a failure too. */
sg_status sg_mmdit_bind(sg_mmdit *m, sg_error *e) SG_MUST_USE;

/* Ends opening, as sg_dit_check does, with a summary by the blocks. */
sg_status sg_mmdit_check(sg_mmdit *m, sg_error *e) SG_MUST_USE;

/* Adds m, its modulations and its layers of self-attention, those of all blocks and second ones, to c as
 * sg_components_add_dit does. */
void sg_components_add_mmdit(sg_components *c, sg_mmdit *m, const sg_name_map *map);

/* Closes m->dit and the modulations, and frees the blocks. */
void sg_mmdit_close(sg_mmdit *m);

/* Binds linear_1 and linear_2 of an embedder of i numbers in b. */
void sg_mmdit_want_embedder(const sg_mmdit *m, sg_bind *b, sg_linear_weights l[2], const char *prefix, int64_t i);

/* Sets y, as sg_family's modulate does, from the timesteps t, from the guidance of c and from the row of each of its
 * texts [row_dim], which is on the host, and NULL on a plan. Taps "dit.temb". */
void sg_mmdit_modulate(const sg_mmdit *m, sg_stream *s, const sg_conditioning *c,
                       const float *const row[SG_TEXT_PASSES], sg_tensor t, sg_tensor y);

/* Describes a pass through the blocks. */
typedef struct sg_mmdit_pass {
    const sg_pass    *pass;
    const sg_dit_run *run; /* its rotary is of the picture's rows; the text's are not rotated */
    int64_t           first[SG_MMDIT_STREAMS], count[SG_MMDIT_STREAMS]; /* rows of x that each stream has */
} sg_mmdit_pass;

/* Says where the rows of both streams are in a pass. */
sg_mmdit_pass sg_mmdit_pass_of(const sg_mmdit *m, const sg_dit_run *r, const sg_pass *p);

/* Returns the rows of a stream in x, which has all. */
sg_tensor sg_mmdit_rows(const sg_mmdit_pass *p, sg_tensor x, int stream);

/* Replaces x by what all blocks make of it. Taps "dit.block.*". */
void sg_mmdit_blocks(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, sg_tensor x);

/* Sets the pass's out to the picture's rows of x, normalised, modulated and projected: sg_dit_project_out. */
void sg_mmdit_project_out(const sg_mmdit *m, const sg_mmdit_pass *p, sg_stream *s, sg_tensor x);

#endif
