/* weight_keeper.h - who keeps weights: which components are loaded, which stay from one render to the next, which are
 * dropped.
 *
 * A plan notes what each component takes and in which phases it works. Then the keeper chooses: components stay in the
 * order of what loading them again costs, which is their bytes, as long as every phase still has room for its own and
 * for its work. So the figures of a plan are those of what is in memory. */
#ifndef SG_WEIGHT_KEEPER_H
#define SG_WEIGHT_KEEPER_H

#include "family.h"

/* Bytes of weights. */
typedef struct sg_weight_bytes {
    size_t device; /* converted */
    size_t mapped; /* of files, used in place */
    size_t packed; /* in the layout of the products, if there is room for all */
    size_t host;   /* of blocks that stay on the host */
} sg_weight_bytes;

/* The weights of one component. */
typedef struct sg_kept {
    sg_component   *component;
    sg_weight_bytes bytes;  /* as the last plan noted them */
    sg_weight_bytes loaded; /* the same when they were loaded */
    unsigned        phases; /* bit i: they are needed in phase i of the plan */
    bool            beside; /* together with others of that phase, which take turns */
    bool            is_loaded, stays;
} sg_kept;

typedef struct sg_keeper {
    /* Texts, the start, added ones, denoisers; modulations, the decoder, and that of previews. */
    sg_kept kept[SG_TEXTS_MAX + 1 + SG_ADDED_MAX + SG_DENOISERS_MAX + 3];
    int     count;
} sg_keeper;

/* Begins a plan, in which nothing is needed and nothing stays. */
void sg_keeper_begin(sg_keeper *k);

/* Returns what is known of a component's weights. */
sg_kept *sg_keeper_find(sg_keeper *k, sg_component *component);

/* Returns the most bytes of weights that are there at once in a phase of the plan. What stays is there from its first
 * phase on or, as in the renders that follow, always. */
sg_weight_bytes sg_keeper_during(const sg_keeper *k, int phase, bool always);

/* Chooses what stays. p has the phases with their work; beside are bytes that are taken in all of them. */
void sg_keeper_choose(sg_keeper *k, const sg_plan *p, size_t beside);

/* Loads a component in the form that the plan noted, unless it is loaded; progress is sg_bind_load's. */
sg_status sg_keeper_load(sg_keeper *k, sg_backend *backend, sg_component *component,
                         int (*progress)(void *context, int done, int total), void *context, sg_error *e) SG_MUST_USE;

/* Unloads a component after its work, unless it stays. */
void sg_keeper_release(sg_keeper *k, sg_backend *backend, sg_component *component);

/* Unloads what does not stay, or not in the form that the plan noted; all: everything. */
void sg_keeper_drop(sg_keeper *k, sg_backend *backend, bool all);

/* Returns the bytes on the device of what is loaded. */
size_t sg_keeper_held(const sg_keeper *k);

#endif
