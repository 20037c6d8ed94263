/* run.h - a policy bound to shapes, and attention by it: order aside, predict, select, quantise and attend are ops of
 * one stream, all on its device, none waits for the host. */
#ifndef SG_RUN_H
#define SG_RUN_H

#include "policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What attention is about. */
typedef struct sg_attention_shape {
    int64_t  n;                        /* tokens */
    int64_t  h, hk, d;                 /* heads of queries, of keys and values; channels of a head */
    int64_t  text_prefix, text_suffix; /* of the tokens, text at either end: always dense */
    int      layers, steps, passes;
    sg_dtype values; /* of the backend: backend.h */
    bool     f8;     /* likewise */
    int64_t  m;      /* keys; 0: n */
    /* Of each step, of 1000, where tuned thresholds go by it; NULL: not known. Borrowed for sg_attention_open alone. */
    const double *timesteps;
} sg_attention_shape;

/* Why a layer of a step ran as it did. */
typedef enum sg_attention_why {
    SG_WHY_POLICY, /* as the policy says */
    SG_WHY_SHORT,  /* dense: the sequence is too short for skipping to pay */
    SG_WHY_STEP,   /* dense: one of the first steps */
    SG_WHY_LAYER,  /* dense: a layer that was named */
    SG_WHY_BACKEND /* dense: the backend knows no other */
} sg_attention_why;

typedef struct sg_attention sg_attention;

/* Binds p, which is copied but for what it borrows. SG_E_ARG where thresholds, mask or layers do not fit the shape;
 * SG_E_UNSUPPORTED where sage or sparge is named and the backend has neither, or FP8 and it has none. */
sg_status sg_attention_open(sg_attention **out, const sg_policy *p, const sg_attention_shape *shape,
                            sg_error *e) SG_MUST_USE;
void      sg_attention_close(sg_attention **a);

const sg_policy *sg_attention_policy(const sg_attention *a); /* as bound */

/* Whether some layer of some step leaves out blocks, so that the order of the tokens matters. */
bool sg_attention_skips(const sg_attention *a);

/* Puts thresholds and counters into s->keep; before the first run on that stream. Of tuned thresholds those of the first
 * bucket. */
void sg_attention_upload(sg_attention *a, sg_stream *s);

/* What runs in this layer of this step, and why. */
sg_attention_kind sg_attention_kind_of(const sg_attention *a, int layer, int step, sg_attention_why *why);

/* How many steps from this one on, it among them, ask the device for the same ops with the same memory as this one does:
 * layers run the same kinds, and thresholds of other timesteps, which differ in value only, take the same place. */
int sg_attention_same_steps(const sg_attention *a, int step);

/* Puts the thresholds of timestep, of 1000, into that place, unless they are there. To be called before sg_step_begin:
 * sg_attention_run would have to do it inside the step, which could not be replayed then. */
void sg_attention_set_timestep(const sg_attention *a, sg_stream *s, double timestep);

/* y = attention of q, k, v, which stand in the order of the policy; k and v [m, hk, d]. args as of sg_attend, bias and
 * key_bias absent; what runs dense wants y of q's dtype. timestep, of 1000, chooses the bucket of tuned thresholds.
 * Taps "attention.<layer>.*": q, k, v, score, keep, y. */
void sg_attention_run(const sg_attention *a, sg_stream *s, int layer, int step, int pass, double timestep,
                      const sg_attend_args *args);

/* What one layer of one pass of one step did, summed over its heads. */
typedef struct sg_attention_count {
    sg_attention_kind kind;
    sg_attention_why  why;
    int64_t           blocks, kept; /* visible pairs of blocks, and those computed; 0: it did not run */
    double            mass;         /* predicted share of the mass, or of the error, in what is kept; mean */
    int64_t           groups;       /* of 32 queries, times kept blocks: what the PV filter looks at */
    int64_t           skipped;      /* of these, left out by it */
    double            skipped_mass; /* share of the sums that it left out; mean */
} sg_attention_count;

/* Counters of all passes of a step, on the host: [passes][layers]. Reads the device: before the next step, which takes
 * their place there. */
sg_status sg_attention_counts(const sg_attention *a, sg_stream *s, int step, sg_attention_count *out) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
