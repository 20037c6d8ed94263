/* checkpoint_files.h - models that are not a Diffusers folder. People have the original repository (of A14B with
 * high_noise_model/ and low_noise_model/), or a file for each part, or all parts in one file.
 *
 * A file says little of itself, so a part is known by the name of one tensor, and its config is made from the shapes of
 * others. What no file says (heads of an unusual width, the mean of unusual latents) can be put into sparge-gen.json beside
 * the model, as fields of an object with the component's name:
 *
 *   {"transformer": {"num_attention_heads": 2, "attention_head_dim": 12}, "scheduler": {"flow_shift": 5}} */
#ifndef SG_CHECKPOINT_FILES_H
#define SG_CHECKPOINT_FILES_H

#include "base/text.h"
#include "checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* These kinds of text encoders have an option of their own each: T5 and Llama, and CLIP's two. */
#define SG_TEXT_ENCODER "text_encoder"
#define SG_CLIP_L "clip_l"
#define SG_CLIP_G "clip_g"

/* This is a part that has been found in a file. */
typedef struct sg_found_part {
    const char        *component; /* "transformer", "transformer_2" */
    const sg_source   *source;
    const sg_name_map *map;
    sg_config         *beside; /* config.json in the same folder; NULL: none */
    bool               two;    /* this is one of two denoisers */
} sg_found_part;

/* Describes a part as files have it. The families have constant tables of these. */
struct sg_file_part {
    const char        *component;  /* its name in a Diffusers folder; of a text encoder its kind */
    const char        *what;       /* for messages: "denoiser of Wan" */
    const char        *class_name; /* as model_index.json has it */
    const char        *usual;      /* the files that people have it in, for messages */
    const char        *probe;      /* a tensor that every such file has, by its name there behind the prefix */
    const char        *not_probe;  /* one that it has not; NULL: none */
    const char *const *prefixes;   /* what names may begin with, NULL-ended, "" among them */
    const sg_name_map *names;      /* NULL: the models' own */
    const char        *span; /* a bound name that the file has at its span and not at the next; NULL: there is none */
    const char        *tokenizer; /* of a text encoder: the folder beside it in which people have its tokenizer */
    bool               pieces;    /* which may be spiece.model alone */
    const char        *pad;       /* the token for its pads, where the tokenizer is another's; NULL: as its files say */
    /* These parts go with a denoiser, NULL-ended. They are needed, but for `spare`. The text encoders among them are
     * the folder's text_encoder, text_encoder_2 and so on, in this order. NULL means that they are not known. */
    const sg_file_part *const *with;
    const sg_file_part        *spare; /* one of `with`, which may be missing; NULL: none */

    /* describe writes what the shapes say, an object with a field for each component concerned:
     *   {"transformer": {"num_layers": 30, ...}, "scheduler": {...}, "model_index": {"_class_name": ...}}
     * SG_E_UNSUPPORTED for variants that are not rendered, SG_E_FORMAT. */
    sg_status (*describe)(sg_textbuf *json, const sg_found_part *p, sg_error *e);
};

/* These return the tensor that the model calls so, or NULL; its rows, or 0; and its elements, or 0. */
const sg_source_tensor *sg_found_tensor(const sg_found_part *p, const char *fmt, ...) SG_PRINTF(2, 3);
int64_t                 sg_found_rows(const sg_found_part *p, const char *fmt, ...) SG_PRINTF(2, 3);
int64_t                 sg_found_count(const sg_found_part *p, const char *fmt, ...) SG_PRINTF(2, 3);

/* Tells whether the file has a tensor whose own name begins so, behind the part's prefix. */
bool sg_found_any(const sg_found_part *p, const char *begins);

#ifdef __cplusplus
}
#endif
#endif
