/* model_parts.h - the files of a model: those that are given one by one, its LoRAs, and what keeps them. */
#ifndef SG_MODEL_PARTS_H
#define SG_MODEL_PARTS_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names parts that take the place of the path's, or make up a model without one: each is a file or a Diffusers
 * component's folder, a tokenizer its folder or spiece.model. NULL means that it is not given. */
typedef struct sg_model_parts {
    const char *diffusion_model;            /* of a model with two experts the one for low noise */
    const char *high_noise_diffusion_model; /* the other one */
    const char *vae, *text_encoder, *clip_vision, *tokenizer;
    /* Models with text encoders of CLIP have these, and one tokenizer for both. */
    const char *clip_l, *clip_g, *clip_tokenizer;
    const char *reserved[3]; /* NULL */
} sg_model_parts;

/* From now on no writer of this process takes the place of a file that may be the model's at `path`, which `what` reads:
 * the file and its config and tokenizer beside it, or in a folder and those within it what has a name by which a model
 * is read. SG_E_MEMORY. */
SG_PUBLIC sg_status sg_model_protect(const char *path, const char *what, sg_error *e) SG_MUST_USE;

/* Names a LoRA file, and says how much of it is added to the denoisers' weights. */
typedef struct sg_lora_option {
    const char *path;
    double      strength;
    unsigned    denoisers;   /* bit 0: the first, for the noisy steps; 0: all */
    unsigned    reserved[3]; /* 0 */
} sg_lora_option;

/* Tells what came of a LoRA. */
typedef struct sg_lora_info {
    size_t   size;
    char     name[256]; /* of its file */
    double   strength;
    unsigned denoisers; /* as it was asked for */
    bool     fast;      /* the model's own: sg_engine_options' */
    bool     few_steps; /* by its name, made for few steps without guidance */
    uint64_t hash;      /* of names, shapes, numbers and config, in whatever order the file has them */
    int      keys;      /* tensors of the file */
    int      unused;    /* that fit nothing */
    int      text;      /* of these, for a text encoder */
    int      tensors;   /* of the model, patched */
    int      rank[2];   /* least and greatest; 0: whole differences only */
    int64_t  width;     /* of the rows of the first tensor that did not fit; 0: all fitted */
    bool     beside; /* quantised weights stay as they are and its product is computed beside them; others are merged */
} sg_lora_info;

#ifdef __cplusplus
}
#endif
#endif
