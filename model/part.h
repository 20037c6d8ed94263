/* part.h - one component of a checkpoint folder: its config, its files, its binding. */
#ifndef SG_PART_H
#define SG_PART_H

#include "bind.h"
#include "config.h"

/* Embedded at the top of every component's struct. Owns both members. */
typedef struct sg_part {
    char        name[32];  /* sub-folder: "transformer", "vae", ... */
    char        dir[1024]; /* its path */
    sg_weights *weights;
    sg_bind    *bind;
    sg_dtype    act;            /* of products and of the activations that feed them: SG_F32 or SG_BF16 */
    char        class_name[64]; /* for people, as model_index.json has it; may be empty */
    char        summary[160];   /* for people: "30 layers, 12 heads x 128, ffn 8960" */
} sg_part;

/* Opens model_dir/name, its config.json into *config (the caller closes it, whatever is returned) and its weights under
 * `stem`. Where class_name is given and the config has a _class_name, they must agree. */
sg_status sg_part_open(sg_part *p, const char *model_dir, const char *name, const char *stem, const char *class_name,
                       sg_dtype act, sg_config **config, sg_error *e) SG_MUST_USE;
void      sg_part_close(sg_part *p); /* a part that never opened is fine */

#endif
