/* layers.h - what the denoisers of several families are made of: weights and their binding, and the ops of a layer. x
 * [n, D] is F32, the tokens that every layer adds to; what feeds a matmul is of the part's dtype `act`. A function
 * frees the scratch memory that it takes, where it does not return it. */
#ifndef SG_LAYERS_H
#define SG_LAYERS_H

#include "bind.h"
#include "self_attention.h"

/* ---- linear ---- */

typedef struct sg_linear_weights {
    sg_tensor w, b; /* [o, i] [o] */
} sg_linear_weights;

/* Binds name.weight, as dtype `as`, and name.bias. */
void sg_want_linear(sg_bind *b, sg_linear_weights *l, sg_dtype as, const char *name, int64_t o, int64_t i);

/* Computes y = act(x l[0]) l[1], whose first result has x's dtype. Times and texts are embedded so. */
void sg_mlp(sg_stream *s, sg_tensor y, sg_tensor x, const sg_linear_weights l[2], sg_act act);

/* ---- modulation ---- */

/* Holds the rows of a modulation of D channels. */
typedef struct sg_modulation {
    sg_tensor shift, scale, gate; /* F32 [D] [D] [D]? */
} sg_modulation;

/* Returns F32 [rows, D] in s->scratch, the rows of a modulation by a time: time w, where w is [rows D, any]. */
sg_tensor sg_modulation_by(sg_stream *s, const sg_linear_weights *w, sg_tensor time, int64_t width);

/* Returns rows first, first + 1 and first + 2 of e as shift, scale and, where e has the third, gate. */
sg_modulation sg_modulation_at(sg_tensor e, int64_t first);

/* ---- attention ---- */

typedef struct sg_attention_weights {
    sg_linear_weights q, k, v, out;   /* [D, D] */
    sg_tensor         norm_q, norm_k; /* [D], or [d] of one head */
} sg_attention_weights;

/* Binds to_q, to_k, to_v, to_out.0, norm_q and norm_k as diffusers names them; the prefix goes in front. `norm` numbers
 * are normalised together; 0 means that there is no norm. */
void sg_want_attention(sg_bind *b, sg_attention_weights *w, sg_dtype act, int64_t width, int64_t norm);

/* Holds rotary tables, which have a row for each token and a column for each pair (2i, 2i + 1) of a head's channels.
 * Absent tables rotate nothing. */
typedef struct sg_rotary {
    sg_tensor cos, sin; /* F32 [n, d/2] */
} sg_rotary;

/* Returns rows [first, first + count) of the tables, where they are there. */
sg_rotary sg_rotary_rows(const sg_rotary *r, int64_t first, int64_t count);

/* Computes y [n, h, d] = norm(x l), RMS over as many numbers as norm has, where there is one. Then it rotates y, unless
 * rotary is NULL or its tables are absent. */
void sg_project_heads(sg_stream *s, sg_tensor y, sg_tensor x, const sg_linear_weights *l, sg_tensor norm, double eps,
                      const sg_rotary *rotary);

/* Computes x += gate (o l), where o is [n, h, d]; an absent gate is 1. */
void sg_project_out(sg_stream *s, sg_tensor x, sg_tensor o, const sg_linear_weights *l, sg_tensor gate);

/* Holds what cross-attention of a layer sees of a text, or of pictures, once for all steps. */
typedef struct sg_keys {
    sg_tensor key, value; /* act [rows, h, d] */
} sg_keys;

/* Makes room for the keys of so many layers and texts on the host, in the place of what *keys had. It is the caller's
 * to free. */
void sg_keys_new(sg_keys **keys, sg_stream *s, int64_t count);

/* Returns keys and values in an arena of s, those of rows x [rows, D] through k and v; keys are normalised as by
 * sg_project_heads. */
sg_keys sg_keys_of(sg_stream *s, sg_arena *where, sg_tensor x, int64_t heads, const sg_linear_weights *k,
                   const sg_linear_weights *v, sg_tensor norm, double eps);

/* ---- feed-forward ---- */

typedef struct sg_feed_forward_weights {
    sg_linear_weights up, down; /* [ffn, D] [D, ffn] */
} sg_feed_forward_weights;

/* Computes x += gate (act(y up) down), where y is the norm of x. */
void sg_feed_forward(sg_stream *s, sg_tensor x, sg_tensor y, const sg_feed_forward_weights *w, sg_act act,
                     sg_tensor gate);

/* ---- tokens ---- */

/* Returns the rows of x that `rows` names, in s->scratch, or x itself where rows is absent. */
sg_tensor sg_rows_of(sg_stream *s, sg_tensor x, sg_tensor rows);

#endif
