/* family.h - what a model family is: one const struct of functions. The engine drives every family through this table
 * and asks nobody which model it is. A model holds at most one render at a time. */
#ifndef SG_FAMILY_H
#define SG_FAMILY_H

#include "engine.h"
#include "part.h"
#include "sampler.h"

typedef enum sg_phase { SG_PHASE_TEXT, SG_PHASE_DENOISE, SG_PHASE_DECODE, SG_PHASES } sg_phase;

/* How the denoiser attends to itself in one render. */
typedef struct sg_attending {
    const sg_attention *attention;
    bool                ordered; /* its tokens stand in another order than row by row */
    const int32_t      *order;   /* sg_order_make's, of all tokens, when ordered; NULL on a plan */
} sg_attending;

typedef struct sg_family {
    const char *name;
    const char *class_name; /* _class_name in model_index.json */

    /* Opens every component in dir; index is model_index.json. Loads nothing. */
    sg_status (*open)(void **model, const char *dir, sg_config *index, sg_dtype act, sg_error *e);
    void (*close)(void *model);
    sg_request (*defaults)(const void *model);
    void (*describe)(const void *model, sg_model_info *info); /* multiples and components */
    const sg_sampler_config *(*sampler)(const void *model);

    /* Latent shape c, f, y, x of r; the return value is the denoiser's sequence length. */
    int64_t (*latent)(const void *model, const sg_request *r, int64_t shape[4]);
    /* The denoiser's self-attention in a render of r: all of shape but steps and values; the layers are those of both
     * experts, the second's after the first's, as many. grid: frames, rows, columns of the tokens. */
    void (*attention)(const void *model, const sg_request *r, sg_attention_shape *shape, int64_t grid[3]);
    /* What r may not ask beyond the engine's own checks. */
    sg_status (*check)(const void *model, const sg_request *r, sg_error *e);

    /* The i-th part whose weights the phase needs (of expert 0 or 1 when denoising); NULL past the last. */
    sg_part *(*part)(void *model, sg_phase phase, int expert, int i);

    /* Host work of the text phase: cleans and tokenizes prompt and negative prompt. Without a prompt, as when a plan is
     * asked for no prompt in particular, the longest is assumed. tokens gets both lengths; 0 for a pass left out. */
    sg_status (*tokenize)(void *model, const sg_request *r, int tokens[2], sg_error *e);
    /* Runs the text encoders; the states come back to the host and stay until other texts are tokenized. */
    void (*encode)(void *model, sg_stream *s);
    /* Whether the states of what was tokenized last are there. */
    bool (*encoded)(const void *model);

    /* Which expert denoises at this timestep. */
    int (*expert)(const void *model, double timestep);
    /* Puts into s->keep what all steps of a render share; how->attention is in its place already, and borrowed. */
    void (*denoise_open)(void *model, sg_stream *s, const int64_t latent[4], const sg_attending *how);
    /* Puts into s->keep, after that, what all steps of this expert share. */
    void (*expert_open)(void *model, sg_stream *s, int expert);
    /* v = the guided model output for x at this timestep. v, x F32 [c, f, y, x]. */
    void (*denoise)(void *model, sg_stream *s, sg_tensor v, sg_tensor x, int step, double timestep, double guidance);
    /* After a step: SG_E_NUMERIC, latched, naming the first block whose result was not finite. */
    void (*inspect)(void *model, sg_stream *s, int step);

    /* The decoder's stream: latent frames F32 [1, y, x, c] in, RGB frames F32 [n, H, W, 3] in s->scratch out. */
    sg_status (*decode_open)(void *model, sg_stream *s, const int64_t latent[4], sg_error *e);
    sg_tensor (*decode_next)(void *model, sg_stream *s, sg_tensor z);
    void (*decode_close)(void *model);
} sg_family;

/* Every family there is, NULL-ended. */
extern const sg_family *const sg_families[];

extern const sg_family sg_family_wan;

#endif
