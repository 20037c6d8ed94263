/* run.h - binds a policy to shapes and runs attention by it. Predict, select, quantise and attend are ops of one
 * stream. They run on its device, and none waits for the host. The caller permutes the tokens. */
#ifndef SG_RUN_H
#define SG_RUN_H

#include "backend.h"
#include "op.h"
#include "order.h"
#include "policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The choices of policy.h. */
typedef int sg_attention_kind, sg_score_kind, sg_tail_bias, sg_pv_dtype, sg_attention_why;

extern const char *const sg_attention_names[]; /* "dense", "sage", "sparge", NULL */
extern const char *const sg_score_names[];     /* "mean", "sub16", "error", NULL */
extern const char *const sg_tail_bias_names[]; /* "0", "half", "rank1", NULL */
extern const char *const sg_budget_names[];    /* "row", "heads", NULL */
extern const char *const sg_pv_dtype_names[];  /* "auto", "bf16", "fp8", "int8", NULL */

/* Tells whether `layer` is in a list such as "0,28-29". */
bool sg_layers_have(const char *list, int layer);

/* Holds the thresholds of each head that tuning found; thresholds/thresholds.h describes their file. The arrays are
 * [buckets][layers][heads]. Bucket b serves timesteps (of 1000) at or above from[b]; from falls, and ends with 0. */
typedef struct sg_thresholds {
    int            buckets, layers, heads;
    sg_select_rule rule;         /* the meaning of amount */
    float         *from;         /* [buckets] */
    float         *amount;       /* top-k share or cumulative mass; 1 and above: that head keeps all */
    float         *theta;        /* self-similarity below which a block is fixed; below 0: none is */
    float         *pv_threshold; /* PV filter in powers of two; 0 and below: off */
} sg_thresholds;

/* Makes room for thresholds, all 0, in one piece of memory; sg_thresholds_release frees it, and may be called for what
 * is zero-initialised. Returns false, and t is zero, where there is no memory. */
bool sg_thresholds_alloc(sg_thresholds *t, sg_select_rule rule, int buckets, int layers, int heads);
void sg_thresholds_release(sg_thresholds *t);

/* Allocates thresholds of one bucket and layer, the policy's own for each head; as sg_thresholds_alloc. */
bool sg_thresholds_of_policy(sg_thresholds *t, const sg_policy *p, int heads);

struct sg_attention_shape;

/* This is called with the operands of an attention. */
typedef void sg_attention_hook(void *context, sg_stream *s, const struct sg_attention_shape *shape, int layer, int step,
                               int pass, double timestep, const sg_attend_args *args);

/* Who looks at attention. Both may be NULL. sg_attention_run calls on_begin first, before y is written, and on_end last,
 * where attention was not dense. It calls both on a plan too, which counts their scratch memory. */
typedef struct sg_attention_watch {
    sg_attention_hook *on_begin, *on_end;
    void              *on_begin_context, *on_end_context;
} sg_attention_watch;

/* Describes the shapes that attention is bound to. */
typedef struct sg_attention_shape {
    int64_t  n;                        /* tokens; with text, causal attention has as many keys */
    int64_t  h, hk, d;                 /* heads of queries, of keys and values; channels of a head */
    int64_t  text_prefix, text_suffix; /* tokens of text before and behind the video's: always dense */
    int      layers, steps, passes;
    sg_dtype values; /* the backend's member of that name */
    sg_f8    f8;     /* the backend's */
    int64_t  m;      /* keys; 0: n */
    /* So many tokens decide whether the sequence is short. 0: the n, which are no part of more; where causal, the m. */
    int64_t whole;
    int64_t masked; /* tokens that the mask is for: of these the n are the first, but for text; 0: n */
    /* What a layer's tokens attend in, of which sg_self_attention binds each: the n are then those of one group. There
     * is no text with groups. */
    sg_groups groups;
    /* The timestep of each step, of 1000, selects the bucket of tuned thresholds. NULL means that they are unknown.
     * Only sg_attention_open borrows them. */
    const double *timesteps;

    bool                 causal; /* a token attends to itself and those before it; the n are the last of m >= n */
    const sg_thresholds *tuned;  /* of the policy's file; NULL: there are none. Borrowed */
    /* With SG_SELECT_GIVEN mask, U8 [1 or h, nq, nk] on the host, is not 0 where a block is kept. It is borrowed. */
    sg_tensor          mask;
    sg_attention_watch watch;
} sg_attention_shape;

typedef struct sg_attention sg_attention;

/* Binds p, and copies p but not what p borrows. Returns SG_E_ARG if thresholds, mask or layers do not fit the shape or
 * each other, and SG_E_UNSUPPORTED if p names sage or sparge and the backend has neither, or p asks for FP8 and the
 * backend has none. */
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

/* Returns q or k, in whose place y of sg_attention_run may be, to take less memory: both are then written over. It
 * returns an absent tensor where y may not. */
sg_tensor sg_attention_spare(const sg_attention *a, int layer, int step, sg_tensor q, sg_tensor k);

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

/* Reads the counts of all passes of a step, [passes][layers], from the device. Call it before the next step, which
 * overwrites them there. */
sg_status sg_attention_counts(const sg_attention *a, sg_stream *s, int step, sg_attention_count *out) SG_MUST_USE;

/* Reads the counts of each head of the first layer in the first pass: [h]. A failure is latched in s. */
void sg_attention_head_counts(const sg_attention *a, sg_stream *s, int step, sg_attention_count *out);

#ifdef __cplusplus
}
#endif
#endif
