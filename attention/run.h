/* run.h - binds a policy to shapes and runs attention by it. Predict, select, quantise and attend are ops of one
 * stream. They run on its device, and none waits for the host. The caller permutes the tokens. */
#ifndef SG_RUN_H
#define SG_RUN_H

#include "policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Describes the shapes that attention is bound to. */
typedef struct sg_attention_shape {
    int64_t  n;                        /* tokens */
    int64_t  h, hk, d;                 /* heads of queries, of keys and values; channels of a head */
    int64_t  text_prefix, text_suffix; /* tokens of text before and behind the video's: always dense */
    int      layers, steps, passes;
    sg_dtype values; /* the backend's member of that name */
    bool     f8;     /* the backend's */
    int64_t  m;      /* keys; 0: n */
    int64_t  whole;  /* so many tokens decide whether the sequence is short; 0: the n, which are no part of more */
    int64_t  masked; /* tokens that the policy's mask is for: of these the n are the first, but for text; 0: n */
    /* What a layer's tokens attend in, of which sg_self_attention binds each: the n are then those of one group. There
     * is no text with groups. */
    sg_groups groups;
    /* The timestep of each step, of 1000, selects the bucket of tuned thresholds. NULL means that they are unknown.
     * Only sg_attention_open borrows them. */
    const double *timesteps;
} sg_attention_shape;

/* Says why a layer of a step ran the kind that it ran. */
typedef enum sg_attention_why {
    SG_WHY_POLICY, /* by the policy */
    SG_WHY_SHORT,  /* dense: the sequence is too short to gain from skipping */
    SG_WHY_STEP,   /* dense, or as dense_steps_kind says: one of the first steps */
    SG_WHY_LAYER,  /* dense: a layer of dense_layers */
    SG_WHY_BACKEND /* dense: the backend has no other kernel */
} sg_attention_why;

typedef struct sg_attention sg_attention;

/* Binds p, and copies p but not what p borrows. Returns SG_E_ARG if thresholds, mask or layers do not fit the shape,
 * and SG_E_UNSUPPORTED if p names sage or sparge and the backend has neither, or p asks for FP8 and the backend has
 * none. */
sg_status sg_attention_open(sg_attention **out, const sg_policy *p, const sg_attention_shape *shape,
                            sg_error *e) SG_MUST_USE;
void      sg_attention_close(sg_attention **a);

/* Tells whether some layer of some step skips blocks, so that the order of the tokens matters. */
bool sg_attention_skips(const sg_attention *a);

/* Allocates thresholds and counters in s->keep and uploads the thresholds; of tuned ones it uploads the first bucket.
 * Call it before the first run on that stream. */
void sg_attention_upload(sg_attention *a, sg_stream *s);

/* Returns the kind that runs in this layer of this step, and in *why the reason. */
sg_attention_kind sg_attention_kind_of(const sg_attention *a, int layer, int step, sg_attention_why *why);

/* Returns how many steps, from this one on and with it, issue the same ops on the same memory: their layers run the
 * same kinds. Thresholds of another timestep differ in value only and are uploaded to the same memory. */
int sg_attention_same_steps(const sg_attention *a, int step);

/* Uploads the thresholds of timestep, of 1000, unless they are there. Call it before sg_step_begin: otherwise
 * sg_attention_run uploads them inside the step, and the step cannot be replayed. */
void sg_attention_set_timestep(const sg_attention *a, sg_stream *s, double timestep);

/* Sets y to the attention of q, k and v, whose tokens are in the policy's order; k and v are [m, hk, d]. args are those
 * of sg_attend, without bias and key_bias. Where attention is dense, y has q's dtype. timestep, of 1000, selects the
 * bucket of tuned thresholds. It taps q, k, v, score, list, count and y as "attention.<layer>.*". */
void sg_attention_run(const sg_attention *a, sg_stream *s, int layer, int step, int pass, double timestep,
                      const sg_attend_args *args);

typedef void sg_attention_visit(void *context, sg_stream *s, int bucket);

/* Runs layer 0 of step 0 in pass 0, which must skip blocks, by each bucket of tuned thresholds in turn, and calls visit
 * after each, which may count. What is made of q, k and v alone is made once, so all buckets must judge by the same
 * theta. No hook is called. */
void sg_attention_run_buckets(const sg_attention *a, sg_stream *s, const sg_attend_args *args,
                              sg_attention_visit *visit, void *context);

/* Holds the counts of one layer of one pass of one step, summed over its heads. */
typedef struct sg_attention_count {
    sg_attention_kind kind;
    sg_attention_why  why;
    /* blocks counts the visible pairs of blocks, those of text with them, and kept those that were computed: kept /
     * blocks is the density. Both are 0 where the layer did not run. */
    int64_t blocks, kept;
    double  mass;         /* predicted share of the mass, or of the error, in the kept pairs; mean */
    int64_t groups;       /* groups of 32 queries times kept blocks: the candidates of the PV filter */
    int64_t skipped;      /* how many of them the PV filter skipped */
    double  skipped_mass; /* share of the sums that it skipped; mean */
} sg_attention_count;

/* Reads the counts of all passes of a step, [passes][layers], from the device. Call it before the next step, which
 * overwrites them there. */
sg_status sg_attention_counts(const sg_attention *a, sg_stream *s, int step, sg_attention_count *out) SG_MUST_USE;

/* Reads the counts of each head of the first layer in the first pass: [h]. A failure is latched in s. */
void sg_attention_head_counts(const sg_attention *a, sg_stream *s, int step, sg_attention_count *out);

#ifdef __cplusplus
}
#endif
#endif
