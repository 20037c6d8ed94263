/* component.h - one component of a checkpoint: its config, its tensor source, its binding. */
#ifndef SG_COMPONENT_H
#define SG_COMPONENT_H

#include "bind.h"
#include "checkpoint.h"

/* This is embedded at the top of every component's struct. It owns source and binding. */
typedef struct sg_component {
    char               name[32];  /* in the checkpoint: "transformer", "vae", ... */
    char               dir[1024]; /* where that is, for messages */
    sg_source         *source;
    const sg_name_map *map; /* of the source's names; the checkpoint owns it */
    sg_bind           *bind;
    sg_dtype           act;            /* of products and of the activations that feed them: SG_F32 or SG_BF16 */
    char               class_name[64]; /* for people, as model_index.json has it; may be empty */
    char               summary[160];   /* for people: "30 layers, 12 heads x 128, ffn 8960" */
} sg_component;

/* Opens component `name` of c, which must outlive p: its config into *config (the caller closes it, whatever is returned)
 * and its tensors. Where class_name is given and the config has a _class_name, they must agree. */
sg_status sg_component_open(sg_component *p, const sg_checkpoint *c, const char *name, const char *class_name,
                            sg_dtype act, sg_config **config, sg_error *e) SG_MUST_USE;
void      sg_component_close(sg_component *p); /* one that never opened is fine */

#endif
