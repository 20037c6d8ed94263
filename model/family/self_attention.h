/* self_attention.h - self-attention of the denoisers in one render. Layers and passes may differ in shape: in the
 * length of a text that stands beside the video, for example. Each shape is bound to the policy once. A layer may attend
 * by groups of tokens, one of which stands behind the other; what each is bound to knows a group as a pass of its own,
 * number pass * groups + group. */
#ifndef SG_SELF_ATTENTION_H
#define SG_SELF_ATTENTION_H

#include "run.h"

/* Holds the bound shapes of one render. Zero-initialise it. */
typedef struct sg_self_attention {
    int                 steps, passes, layers;
    int                 groups;  /* of the layer that has the most; 1 where none has groups */
    int                 shapes;  /* that differ */
    sg_attention_shape *shape;   /* [shapes] */
    sg_attention      **bound;   /* [shapes] */
    int                *at;      /* [passes][layers][groups]: which of these; -1: there is no such group */
    sg_groups          *rule;    /* [layers]: by which a layer attends, in every pass; zeros where it has no groups */
    bool                ordered; /* the video's tokens stand in another order than row by row */
    const int32_t      *order;   /* sg_order_make's, of the video's tokens, when ordered; NULL on a plan. Borrowed */
} sg_self_attention;

/* Binds p to shape[passes][layers], which agree in layers, steps, passes and what follows from the backend. Errors are
 * those of sg_attention_open. The caller closes, after a failure too. */
sg_status sg_self_attention_open(sg_self_attention *a, const sg_policy *p, const sg_attention_shape *shape,
                                 sg_error *e) SG_MUST_USE;
void      sg_self_attention_close(sg_self_attention *a);

/* Returns the shape that a layer, counted through all denoisers, has in a pass: that of its first group. */
const sg_attention_shape *sg_self_attention_shape(const sg_self_attention *a, int pass, int layer);

/* These do what the functions of the same names in run.h do, for all shapes together. */
bool sg_self_attention_skips(const sg_self_attention *a);
void sg_self_attention_place(const sg_self_attention *a, sg_stream *s);
int  sg_self_attention_same_steps(const sg_self_attention *a, int step);
void sg_self_attention_enter(const sg_self_attention *a, sg_stream *s, double timestep);

/* Calls sg_attention_spare in the shapes of that layer in that pass, which all have to agree. */
sg_tensor sg_self_attention_spare(const sg_self_attention *a, int layer, int step, int pass, sg_tensor q, sg_tensor k);

/* Calls sg_attention_run in the shape of that layer in that pass, for one group after the other. */
void sg_self_attention_run(const sg_self_attention *a, sg_stream *s, int layer, int step, int pass, double timestep,
                           const sg_attend_args *args);

/* Does what sg_attention_counts says; out is [passes][layers]. Counts of groups are added, means weighted by tokens. */
sg_status sg_self_attention_counts(const sg_self_attention *a, sg_stream *s, int step,
                                   sg_attention_count *out) SG_MUST_USE;

#endif
