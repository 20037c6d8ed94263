/* checkpoint_state.h - what checkpoint.c answers from, checkpoint_parts.c puts together and checkpoint_files.c finds.
 * It is private to the three. */
#ifndef SG_CHECKPOINT_STATE_H
#define SG_CHECKPOINT_STATE_H

#include "checkpoint_files.h"

#define SECOND_EXPERT "transformer_2" /* only of models with two; it works last */

enum { SG_PATH_BYTES = 1024, SG_PLACES_MAX = 12 };

/* Says where a component is that is not where the Diffusers folder would have it. */
typedef struct sg_place {
    const char         *component;
    char                path[SG_PATH_BYTES]; /* a file; a component's folder; spiece.model or a tokenizer's folder */
    const sg_file_part *part;                /* NULL: a folder, or a tokenizer */
    const char         *member;              /* of a folder's config.json that is its config; NULL: the whole */
    const char         *pad;                 /* of a tokenizer; NULL: as its files say */
    char                prefix[64];
    sg_name_map         map;
} sg_place;

struct sg_checkpoint {
    char       path[SG_PATH_BYTES];
    bool       diffusers; /* path is a Diffusers folder */
    sg_place   place[SG_PLACES_MAX];
    int        places;
    sg_config *made; /* by component: configs that follow from files; a config.json of several; NULL: there are none */
};

/* Finds the place of a component. It is NULL where the Diffusers folder, if there is one, has the component. */
const sg_place *sg_place_find(const sg_checkpoint *c, const char *component);

/* Returns the first part that is known of this component, or the one behind `part`; NULL past the last. */
const sg_file_part *sg_next_part(sg_known_files *known, const sg_file_part *part, const char *component);

/* Finds out whether `component` is in this source, by the parts that are known. *p gets part, prefix and map. Returns
 * SG_E_FORMAT if it is there twice. */
sg_status sg_place_recognise(sg_place *p, bool *found, const sg_source *s, const char *component, sg_known_files *known,
                             sg_error *e) SG_MUST_USE;

/* Opens the JSON of that name beside the checkpoint at `path`; *out is NULL where there is none. */
sg_status sg_checkpoint_open_beside(sg_config **out, const char *path, const char *name, sg_error *e) SG_MUST_USE;

/* Puts the configs that the files' parts make, with what sparge-gen.json adds, into c->made. */
sg_status sg_checkpoint_describe(sg_checkpoint *c, sg_error *e) SG_MUST_USE;

#endif
