/* lora_state.h - what an open LoRA holds; its keys: what kind of numbers each has, and which tensors of a model it
 * means. It is internal to this folder. */
#ifndef SG_LORA_STATE_H
#define SG_LORA_STATE_H

#include "lora.h"

/* Says what a key's numbers are to its module. */
typedef enum sg_lora_kind {
    SG_LORA_DOWN,
    SG_LORA_UP,
    SG_LORA_UP_BIAS,
    SG_LORA_ALPHA,
    SG_LORA_DIFF,
    SG_LORA_DIFF_BIAS,
    SG_LORA_HADA_1A,
    SG_LORA_HADA_1B,
    SG_LORA_HADA_2A,
    SG_LORA_HADA_2B,
    SG_LORA_LOKR_1,
    SG_LORA_LOKR_1A,
    SG_LORA_LOKR_1B,
    SG_LORA_LOKR_2,
    SG_LORA_LOKR_2A,
    SG_LORA_LOKR_2B,
    SG_LORA_KINDS
} sg_lora_kind;

typedef struct sg_lora_key {
    const char  *module; /* with its prefixes */
    int          length; /* of module */
    sg_lora_kind kind;
    const char  *leaf; /* of the tensor that is meant: ".weight", ".modulation" */
} sg_lora_key;

/* Takes the name of a key apart. Its kind is SG_LORA_KINDS where the key is of no kind. *refused is NULL, or the name
 * of a kind that is not read. */
sg_lora_key sg_lora_key_of(const char *name, const char **refused);

/* Returns the module without prefixes: what stands behind the last one, no longer than *length. */
const char *sg_lora_module(const sg_lora_key *key, int *length);

bool sg_lora_is_of_text(const char *name); /* a text encoder's */

/* This is a tensor of the model under one of its names, whose dots become underscores. */
typedef struct sg_lora_name {
    char               *flat;
    size_t              tensor; /* by sg_bind_name */
    const sg_name_rule *cut;    /* which rows of what has that name; NULL: all */
} sg_lora_name;

typedef struct sg_lora_names {
    sg_lora_name *name; /* sorted by flat, then by tensor */
    size_t        count, room;
} sg_lora_names;

/* Lists b's tensors by their own names and by those of map, which may be NULL. Zero is an empty list; the caller frees,
 * after a failure too. Returns false when memory runs out. */
bool sg_lora_names_open(sg_lora_names *n, const sg_bind *b, const sg_name_map *map);
void sg_lora_names_free(sg_lora_names *n);

/* Returns the names that the module's leaf has in n: the first of *count, each with a part of its rows. It is NULL
 * where there are none. Dots and underscores count the same. */
const sg_lora_name *sg_lora_names_find(const sg_lora_names *n, const char *module, int length, const char *leaf,
                                       size_t *count);

/* Does the same for a key, which it tries without one prefix after the other. */
const sg_lora_name *sg_lora_names_of(const sg_lora_names *n, const sg_lora_key *key, size_t *count);

struct json_t;

struct sg_lora {
    sg_source     *source;
    struct json_t *peft; /* the adapter's config of the metadata; NULL: none */
    bool          *used; /* by key */
    bool           by_component;
    sg_lora_info   so_far; /* but for what is counted at the end: keys, unused, text, few_steps */
};

/* Tells whether key number i is for this component. */
bool sg_lora_is_for(const sg_lora *l, size_t i, const char *component);

/* Finds alpha / r of a module by the metadata, or by its own key `alpha`, which may be NULL. */
sg_status sg_lora_scale(const sg_lora *l, const char *component, const sg_lora_key *down, const sg_source_tensor *alpha,
                        int64_t r, double *out, sg_error *e) SG_MUST_USE;

#endif
