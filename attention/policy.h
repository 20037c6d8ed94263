/* policy.h - what a user asks of attention: the method, which blocks it may skip, which steps and layers are dense. */
#ifndef SG_POLICY_H
#define SG_POLICY_H

#include "op.h"
#include "order.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sg_attention_kind {
    SG_ATTENTION_DENSE, /* the best exact kernel */
    SG_ATTENTION_SAGE,  /* quantised: INT8 q and k, v in the backend's preferred type; every block */
    SG_ATTENTION_SPARGE /* quantised, and blocks are skipped */
} sg_attention_kind;

typedef enum sg_score_kind {
    SG_SCORE_MEAN,  /* means of whole blocks: SpargeAttn */
    SG_SCORE_SUB16, /* means of 16 tokens */
    SG_SCORE_ERROR  /* means of 16 tokens, weighted by the error that pooling the block would make */
} sg_score_kind;

typedef enum sg_tail_bias { SG_TAIL_BIAS_NONE, SG_TAIL_BIAS_HALF, SG_TAIL_BIAS_RANK1 } sg_tail_bias;

/* Names the type of weights and values in p v, where attention is not dense. */
typedef enum sg_pv_dtype {
    SG_PV_AUTO, /* the backend's preferred type */
    SG_PV_BF16,
    SG_PV_FP8,
    SG_PV_INT8
} sg_pv_dtype;

extern const char *const sg_attention_names[]; /* "dense", "sage", "sparge", NULL */
extern const char *const sg_score_names[];     /* "mean", "sub16", "error", NULL */
extern const char *const sg_tail_bias_names[]; /* "0", "half", "rank1", NULL */
extern const char *const sg_pv_dtype_names[];  /* "auto", "bf16", "fp8", "int8", NULL */

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

struct sg_policy;

/* Allocates thresholds of one bucket and layer, the policy's own for each head; as sg_thresholds_alloc. */
bool sg_thresholds_of_policy(sg_thresholds *t, const struct sg_policy *p, int heads);

struct sg_attention_shape; /* run.h */

/* This is called with the operands of an attention. */
typedef void sg_attention_hook(void *context, sg_stream *s, const struct sg_attention_shape *shape, int layer, int step,
                               int pass, double timestep, const sg_attend_args *args);

typedef struct sg_policy {
    sg_attention_kind    kind;
    bool                 named; /* the user asked for this kind: sequences from SG_NAMED_TOKENS on, not SG_TOKENS */
    sg_select_rule       rule;
    float                amount;       /* top-k share, or cumulative mass */
    float                theta;        /* self-similarity below which a block is fixed, in [-1, 1]; below 0: none is */
    float                pv_threshold; /* PV filter, powers of two; 0: off */
    int                  sink;         /* how many leading blocks of keys are always kept */
    bool                 causal;       /* a token attends to itself and those before it */
    bool                 heads;        /* one budget for all heads of a layer, not one a row; not with tuned */
    sg_score_kind        score;
    bool                 tail; /* skipped blocks enter the softmax as one mean key and value each */
    sg_tail_bias         tail_bias;
    sg_pv_dtype          pv_dtype;
    sg_order             order;
    double               dense_steps;      /* this share of the steps, the first ones, skip nothing: */
    sg_attention_kind    dense_steps_kind; /* they are DENSE or SAGE */
    const char          *dense_layers;     /* "0,28-29": these layers are dense; NULL: none. Borrowed */
    const sg_thresholds *tuned;            /* replaces rule, amount, theta and pv_threshold; NULL: none. Borrowed */
    /* With rule GIVEN mask, U8 [1 or h, nq, nk] on the host, is not 0 where a block is kept, as blocks of text are in
     * any case. It is borrowed. */
    sg_tensor mask;
    /* These may be NULL. sg_attention_run calls on_begin first, before y is written, and on_end last, where attention
     * was not dense. It calls both on a plan too, which counts their scratch memory. */
    sg_attention_hook *on_begin, *on_end;
    void              *on_begin_context, *on_end_context;
} sg_policy;

enum { SG_TOKENS = 8192, SG_NAMED_TOKENS = 1024 };

/* Returns sparge with top-k 0.5, 20 % of the steps dense, and the score, tail and budget that did best in LOG.md. */
sg_policy sg_policy_default(void);
/* Returns SpargeAttn to the letter: scores are of block means, skipped blocks are dropped, top-k is 0.5, theta and
 * pv_threshold are off. */
sg_policy sg_policy_paper(void);

/* Returns how many of the first steps skip nothing: the share is rounded up, but not for an error in the last place. */
int sg_policy_dense_steps(const sg_policy *p, int steps);

/* Returns SG_E_ARG for an invalid policy; the message has the member, its value and valid ones. */
sg_status sg_policy_check(const sg_policy *p, sg_error *e) SG_MUST_USE;

/* Tells whether `layer` is in a list such as "0,28-29". sg_layers_check returns SG_E_ARG for a list that is malformed
 * or names a layer that is not there; its message begins with `option`. */
bool      sg_layers_have(const char *list, int layer);
sg_status sg_layers_check(const char *option, const char *list, int layers, sg_error *e) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
