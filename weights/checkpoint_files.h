/* checkpoint_files.h - models that are not a Diffusers folder. People have the original repository (of A14B with
 * high_noise_model/ and low_noise_model/), or a file for each part, or all parts in one file.
 *
 * A file says little of itself, so a part is known by the name of one tensor, and its config is made from the shapes of
 * others. What no file says (heads of an unusual width, the mean of unusual latents) can be put into sparge-gen.json
 * beside the model, as fields of an object with the component's name:
 *
 *   {"transformer": {"num_attention_heads": 2, "attention_head_dim": 12}, "scheduler": {"flow_shift": 5}} */
#ifndef SG_CHECKPOINT_FILES_H
#define SG_CHECKPOINT_FILES_H

#include "checkpoint.h"

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
    sg_config         *made;   /* gets what the shapes say */
    sg_error          *e;
} sg_found_part;

/* Describes a part as files have it. */
typedef struct sg_file_part sg_file_part;
struct sg_file_part {
    const char        *component;  /* its name in a Diffusers folder; of a text encoder its kind; SG_NOBODYS */
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

    /* describe puts what the shapes say into p->made: fields of each component concerned, of "scheduler" and of
     * "model_index". SG_E_UNSUPPORTED for variants that are not rendered, SG_E_FORMAT. */
    sg_status (*describe)(const sg_found_part *p);
};

/* A part of this component tells a model that is not rendered, for messages. It has no describe. */
#define SG_NOBODYS ""

/* This is a file of an original repository, by how its name begins and what is in it. */
typedef struct sg_repository_file {
    const char *component; /* NULL: every part that the file holds */
    const char *folder;    /* "." for the repository itself */
    const char *begins, *holds;
} sg_repository_file;

/* What a family has of files: constant tables. */
struct sg_model_files {
    const sg_file_part       *part;
    int                       parts;
    const sg_repository_file *repository; /* in the order in which they are looked for */
    int                       in_repository;
    const char *repository_usual; /* for messages: what tells an original repository; NULL: there is none */
};

/* Returns what family i from 0 on has; NULL past the last. */
typedef const sg_model_files *sg_known_files(int i);

/* These return the tensor that the model calls so, or NULL; its rows, or 0; its elements, or 0; these by so many rows,
 * or 0 for none. */
const sg_source_tensor *sg_found_tensor(const sg_found_part *p, const char *fmt, ...) SG_PRINTF(2, 3);
int64_t                 sg_source_rows(const sg_source_tensor *t);
int64_t                 sg_source_elements(const sg_source_tensor *t);
#define sg_found_rows(...) sg_source_rows(sg_found_tensor(__VA_ARGS__))
#define sg_found_count(...) sg_source_elements(sg_found_tensor(__VA_ARGS__))
int64_t sg_found_row(const sg_found_part *p, int64_t rows, const char *name);

/* Returns how many tensors LIST.0.NAME, LIST.1.NAME and so on there are in turn, at most so many. */
int sg_found_list(const sg_found_part *p, int most, const char *list, const char *name);

/* Tells whether the file has a tensor whose own name begins so, behind the part's prefix. */
bool sg_found_any(const sg_found_part *p, const char *begins);

#endif
