/* thresholds.h - what tuning found, in a file: thresholds of every layer and head, by the share of noise that is left; and of the
 * step cache.
 *
 * The file is JSON:
 *   {"format": "sparge-gen thresholds", "version": 1,
 *    "model": "0123456789abcdef",               sg_engine_denoiser_hash of the model that was tuned; may be missing
 *    "rule": "topk",                            what amount means: "topk" or "tau"
 *    "layers": 2, "heads": 3,
 *    "buckets": [500, 0],                       bucket b: timesteps, of 1000, at or above this; falling, the last 0
 *    "amount": [[[0.5, 0.3, 1], ...], ...],     [bucket][layer][head]: top-k share or tau, in [0, 1]; 1: keep all
 *    "theta": [[[-1, -1, -1], ...], ...],       self-similarity in [-1, 1]; below 0: not judged
 *    "lambda": [[[0, 0, 0], ...], ...],         PV filter in powers of two, [0, 1000]; 0: off
 *    "bound": {"l1": 0.05, "l2": 0.06},         for people, as all that follows, and optional: the relative L1 asked for,
 *    "reached": {"l1": 0.04, "l2": 0.05, "density": 0.4}, with prediction alone and with the PV filter; what came of it
 *    "policy": {"score": "error", "tail": true, "tail_bias": "half", "order": "hilbert"},   and what it was tuned for
 *    "prompts": ["a red ball"],
 *    "cache": {"threshold": 0.2,                from 1e-6 to 1e6: when the step cache computes, as step_cache.h has it
 *              "bound": 0.01, "reached": 0.009, of the final latents: relative L2 asked for, the largest that came of it;
 *              "skipped": 0.4, "steps": 50},    share of steps skipped, of so many: for people and optional, as the two before
 *    "written": "2026-01-31T12:00:00.123456789Z"}   by tune, in its usual place; also when the file was changed last
 *
 * A file with "cache" may lack "rule" to "lambda", all of them.
 *
 * Read as well: what SpargeAttn's own tuning saves by torch.save, a state dict: for each layer L the tensors
 * "transformer_blocks.L.attn1.inner_attention.NAME" with NAME is_sparse, cdfthreshd, simthreshd1 and pvthreshd, each of
 * as many values as there are heads; or "blocks.L...", and another name for attn1. They become tau, theta and lambda of
 * one bucket; heads that are not sparse keep all. */
#ifndef SG_THRESHOLDS_H
#define SG_THRESHOLDS_H

#include "run.h"

#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_THRESHOLDS_TIME = 40 }; /* bytes of a time */

#define SG_CACHE_THRESHOLD_MIN 1e-6
#define SG_CACHE_THRESHOLD_MAX 1e6

/* Holds what was found for the step cache. */
typedef struct sg_cache_tuned {
    double threshold;                      /* 0: nothing */
    double bound, reached, skipped, steps; /* NaN: unknown */
} sg_cache_tuned;

typedef struct sg_thresholds_file {
    sg_thresholds  values;    /* owns its arrays; no layers: none */
    char           model[17]; /* "": not known */
    double         bound[2];  /* l1, l2; NaN: not known, as for the next two */
    double         reached[2], density;
    bool           spargeattn; /* saved by SpargeAttn's own tuning */
    bool           has_policy; /* the next is: score, tail, tail_bias and order, with which blocks were chosen */
    sg_policy      policy;
    char         **prompt; /* [prompts], owned */
    int            prompts;
    sg_cache_tuned cache;
    uint64_t       hash;                        /* of the file that it was read from */
    char           written[SG_THRESHOLDS_TIME]; /* "": missing */
} sg_thresholds_file;

/* Makes room for that many, or for none, all 0. Returns SG_E_MEMORY on failure. Zero is an empty file; the caller
 * frees, after a failure too. */
sg_status sg_thresholds_new(sg_thresholds_file *f, int buckets, int layers, int heads, sg_error *e) SG_MUST_USE;
void      sg_thresholds_free(sg_thresholds_file *f);

/* Adds a copy of a prompt. */
sg_status sg_thresholds_add_prompt(sg_thresholds_file *f, const char *prompt, sg_error *e) SG_MUST_USE;

/* Reads the file at path. The caller frees. Whether they fit a model is for sg_attention_open to say. */
sg_status sg_thresholds_read(sg_thresholds_file *f, const char *path, sg_error *e) SG_MUST_USE;

/* Makes the JSON text of f, with numbers to six digits; the caller frees it. */
sg_status sg_thresholds_text(char **out, const sg_thresholds_file *f, sg_error *e) SG_MUST_USE;

/* Tells whether this file is as tune wrote it in its usual place, unchanged, and this user's own. Its time of change is
 * within it: a copy, a download or a check-out has another one. */
bool sg_thresholds_is_ours(const char *path);

/* Notes the time in f->written, as it stands in the file. */
void sg_thresholds_date(sg_thresholds_file *f, struct timespec time);

#ifdef __cplusplus
}
#endif
#endif
