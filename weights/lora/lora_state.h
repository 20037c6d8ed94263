/* lora_state.h - what an open LoRA holds. It is for lora.c and lora_patch.c. */
#ifndef SG_LORA_STATE_H
#define SG_LORA_STATE_H

#include "lora.h"
#include "lora_names.h"

struct json_t;

struct sg_lora {
    sg_source     *source;
    struct json_t *peft; /* the adapter's config of the metadata; NULL: none */
    bool          *used; /* by key */
    bool           by_component;
    uint64_t       hash;
    int            tensors;
    int            rank[2];
    int64_t        width; /* as in sg_lora_figures */
};

/* Tells whether key number i is for this component. */
bool sg_lora_is_for(const sg_lora *l, size_t i, const char *component);

/* Finds alpha / r of a module by the metadata, or by its own key `alpha`, which may be NULL. */
sg_status sg_lora_scale(const sg_lora *l, const char *component, const sg_lora_key *down, const sg_source_tensor *alpha,
                        int64_t r, double *out, sg_error *e) SG_MUST_USE;

#endif
