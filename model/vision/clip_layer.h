/* clip_layer.h - the layer that CLIP's image and text encoders are made of (Radford et al., 2021): transformers'
 * CLIPEncoderLayer. */
#ifndef SG_CLIP_LAYER_H
#define SG_CLIP_LAYER_H

#include "config.h"
#include "layers.h"

/* Holds what all layers of an encoder have in common. */
typedef struct sg_clip_kind {
    sg_dtype dtype; /* of products */
    int64_t  width, heads, ffn;
    float    eps;
    sg_act   act;
} sg_clip_kind;

typedef struct sg_clip_layer {
    sg_tensor               norm_w[2], norm_b[2]; /* [width]: of attention, of the feed-forward part */
    sg_linear_weights       q, k, v, out;         /* [width, width] */
    sg_feed_forward_weights ffn;
} sg_clip_layer;

/* Reads the activation and eps of a config, its hidden_act and layer_norm_eps. */
void sg_clip_kind_read(sg_clip_kind *k, sg_config *c);

/* Binds the layer of the prefix that stands; and a norm, name.weight and name.bias. */
void sg_want_clip_layer(sg_bind *b, sg_clip_layer *l, const sg_clip_kind *k);
void sg_want_clip_norm(sg_bind *b, sg_tensor *w, sg_tensor *bias, const char *name, int64_t width);

/* These add to x F32 [n, width] the attention of its norm, in which with causal a token sees itself and those
 * before it, and the feed-forward part of its norm. */
void sg_clip_attend(const sg_clip_layer *l, const sg_clip_kind *k, sg_stream *s, sg_tensor x, bool causal);
void sg_clip_feed_forward(const sg_clip_layer *l, const sg_clip_kind *k, sg_stream *s, sg_tensor x);

#endif
