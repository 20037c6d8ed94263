/* text_layers.h - what text encoders share: their lists of layers, the gated feed-forward part. */
#ifndef SG_TEXT_LAYERS_H
#define SG_TEXT_LAYERS_H

#include "component.h"
#include "op.h"

/* Returns zeros of size bytes for each of `count` layers, at least one, which the caller frees. It is NULL, and *status
 * SG_E_FORMAT, where the config's `key` says that there are `all` layers, but p has fewer tensors than that. */
void *sg_layers_new(const sg_component *p, const char *key, int all, int count, size_t size, sg_status *status,
                    sg_error *e);

/* Computes x += down(act(gate(y)) up(y)) with y = norm(x), RMS without a bias. */
typedef struct sg_gated {
    sg_tensor norm;           /* [c] */
    sg_tensor gate, up, down; /* [f, c] x 2 [c, f] */
    sg_act    act;
    float     eps;
} sg_gated;
void sg_gated_feed_forward(sg_stream *s, const sg_gated *w, sg_tensor x);

#endif
