/* policy.h - what is asked of the self-attention of a render: the method, which blocks it may skip, which steps and layers
 * are dense; and what came of it. */
#ifndef SG_POLICY_H
#define SG_POLICY_H

#include "block_rule.h"
#include "status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of attention. */
enum {
    SG_ATTENTION_DENSE, /* the best exact kernel */
    SG_ATTENTION_SAGE,  /* quantised: INT8 q and k, v in the backend's preferred type; every block */
    SG_ATTENTION_SPARGE /* quantised, and blocks are skipped */
};

/* What blocks are scored by. */
enum {
    SG_SCORE_MEAN,  /* means of whole blocks: SpargeAttn */
    SG_SCORE_SUB16, /* means of 16 tokens */
    SG_SCORE_ERROR  /* means of 16 tokens, weighted by the error that pooling the block would make */
};

/* What shares a budget of blocks: each row of blocks has one, or all heads of a layer have one together. */
enum { SG_BUDGET_ROW, SG_BUDGET_HEADS };

/* What is added to the logit of the mean of a skipped block: nothing, half of the variance of its logits, or a bound of
 * rank 1. */
enum { SG_TAIL_BIAS_NONE, SG_TAIL_BIAS_HALF, SG_TAIL_BIAS_RANK1 };

/* The type of weights and values in p v, where attention is not dense; AUTO is what the backend prefers. */
enum { SG_PV_AUTO, SG_PV_BF16, SG_PV_FP8, SG_PV_INT8 };

/* The order of a video's tokens in the sequence. It decides which tokens share a block, and changes nothing else. */
enum {
    SG_ORDER_ROW,     /* frames, rows, columns: the model's own */
    SG_ORDER_COLUMN,  /* frames, columns, rows: along y fastest */
    SG_ORDER_TIME,    /* rows, columns, frames: along time fastest */
    SG_ORDER_HILBERT, /* generalised 3-D Hilbert curve: each step goes to a neighbour; 2-D for one frame */
    /* HILBERT_CUBE sorts the tokens by the index on the Hilbert curve of the enclosing cube, whose side is a power of
     * two; 8 k + 1 frames begin at its third layer. */
    SG_ORDER_HILBERT_CUBE,
    SG_ORDER_HILBERT_FRAME, /* frame by frame, each along a 2-D curve, every other frame backwards */
    SG_ORDER_MORTON,        /* bits of t, y, x interleaved */
    SG_ORDER_RANDOM,        /* shuffled by a fixed seed: the worst case */
    SG_ORDERS
};

/* A sequence of fewer tokens than SG_TOKENS is dense: it would gain nothing. Of a policy that is `named` it is the
 * other one. From SG_LONGER_TOKENS on blocks of queries may be longer. */
enum { SG_TOKENS = 8192, SG_NAMED_TOKENS = 1024, SG_LONGER_TOKENS = 16384 };

typedef struct sg_policy {
    int   kind;         /* SG_ATTENTION_DENSE .. */
    bool  named;        /* the user asked for this kind: sequences from SG_NAMED_TOKENS on, not SG_TOKENS */
    int   rule;         /* SG_SELECT_TOPK .. */
    float amount;       /* top-k share, or cumulative mass, in [0, 1] */
    float similarity;   /* blocks whose self-similarity is below it are always kept, in [-1, 1]; below 0: none is */
    float pv;           /* the PV filter's threshold, powers of two, [0, 1000]; 0: off */
    int   sink;         /* how many leading blocks of keys are always kept */
    int   budget;       /* SG_BUDGET_ROW ..; HEADS goes with TOPK, not with thresholds */
    int   score;        /* SG_SCORE_MEAN .. */
    bool  tail;         /* skipped blocks enter the softmax as one mean key and value each */
    int   tail_bias;    /* SG_TAIL_BIAS_NONE .. */
    int   pv_dtype;     /* SG_PV_AUTO .. */
    int   order;        /* SG_ORDER_ROW .. */
    bool  count_hidden; /* causal: top-k is of all blocks, not of the visible ones; the diagonal is not kept */
    /* This share of the steps, the first ones, rounded up, skips nothing, and is of this kind: DENSE or SAGE. */
    double      dense_steps;
    int         dense_steps_kind;
    const char *dense_layers; /* "0,28-29": these layers are dense; NULL: none. Borrowed, as the next two */
    /* thresholds is a file of tuned thresholds, `tune`'s or SpargeAttn's own; they take the place of rule, amount, similarity
     * and pv. NULL: there is none. */
    const char *thresholds;
    /* With SG_SELECT_GIVEN mask is a safetensors file of one tensor, U8 or BOOL [heads or 1, blocks of queries, blocks of
     * keys], not 0 where a block is kept, as blocks of text are in any case. It goes with no other rule. */
    const char *mask;
    int64_t     reserved[4]; /* 0 */
} sg_policy;

/* The file of tuned thresholds that is beside a model, by which it is rendered where a policy names no other. */
#define SG_THRESHOLDS_NAME "sparge-attention.json"

/* Returns sparge with top-k 0.5, 20 % of the steps dense, and the score, tail and budget that did best. */
SG_PUBLIC sg_policy sg_policy_default(void);
/* Returns SpargeAttn to the letter: scores are of block means, skipped blocks are dropped, top-k is 0.5, similarity and
 * pv are off. */
SG_PUBLIC sg_policy sg_policy_paper(void);

/* Returns how many of the first steps skip nothing: the share is rounded up, but not for an error in the last place. */
SG_PUBLIC int sg_policy_dense_steps(const sg_policy *p, int steps);

/* Returns SG_E_ARG for an invalid policy; the message has the member, its value and valid ones. What needs the model or
 * a file is found by a plan. */
SG_PUBLIC sg_status sg_policy_check(const sg_policy *p, sg_error *e) SG_MUST_USE;

/* Returns SG_E_ARG for a list such as dense_layers that is malformed or names a layer from `layers` on; its message
 * begins with `member`. */
SG_PUBLIC sg_status sg_layers_check(const char *member, const char *list, int layers, sg_error *e) SG_MUST_USE;

/* Why a layer of a step ran the kind that it ran. */
enum {
    SG_WHY_POLICY, /* by the policy */
    SG_WHY_SHORT,  /* dense: the sequence is too short to gain from skipping */
    SG_WHY_STEP,   /* dense, or as dense_steps_kind says: one of the first steps */
    SG_WHY_LAYER,  /* dense: a layer of dense_layers */
    SG_WHY_BACKEND /* dense: the backend has no other kernel */
};

/* Holds the counts of one layer of one pass of one step, summed over its heads. */
typedef struct sg_attention_count {
    int kind; /* SG_ATTENTION_DENSE .. */
    int why;  /* SG_WHY_POLICY .. */
    /* blocks counts the visible pairs of blocks, those of text with them, and kept those that were computed: kept /
     * blocks is the density. Both are 0 where the layer did not run. */
    int64_t blocks, kept;
    double  mass;         /* predicted share of the mass, or of the error, in the kept pairs; mean */
    int64_t groups;       /* groups of 32 queries times kept blocks: the candidates of the PV filter */
    int64_t skipped;      /* how many of them the PV filter skipped */
    double  skipped_mass; /* share of the sums that it skipped; mean */
    /* With a request's attention_error, of a sample of the queries where attention was not dense: sum |y - dense y| and
     * sum |dense y|. Their quotient, of as many entries as are added up, is the relative L1. Else both are 0. */
    double  difference, dense;
    int64_t reserved[4]; /* 0 */
} sg_attention_count;

#ifdef __cplusplus
}
#endif
#endif
