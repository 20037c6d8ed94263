/* checkpoint.h - what a model's components are made of: each a config, a tensor source and a name map. Nobody else knows
 * which file of a path holds what. Today a path is a Diffusers folder: model_index.json, and for each component a folder
 * of its name with config.json and safetensors, whose names are the models' own. */
#ifndef SG_CHECKPOINT_H
#define SG_CHECKPOINT_H

#include "config.h"
#include "name_map.h"
#include "tensor_source.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_checkpoint sg_checkpoint;

/* Opens no file yet. SG_E_ARG: the path is too long. */
sg_status   sg_checkpoint_open(sg_checkpoint **out, const char *path, sg_error *e) SG_MUST_USE;
void        sg_checkpoint_close(sg_checkpoint **c);
const char *sg_checkpoint_path(const sg_checkpoint *c); /* as it was given */

/* Is there a checkpoint at this path? */
bool sg_checkpoint_is(const char *path);

/* The path of a file that people put beside the checkpoint at `path`; false: it is too long. The file need not be there. */
bool sg_checkpoint_beside(const char *path, const char *name, char *out, size_t size);

/* What the checkpoint says of itself: which class, which components. The caller closes it. */
sg_status sg_checkpoint_index(const sg_checkpoint *c, sg_config **out, sg_error *e) SG_MUST_USE;

/* Components go by their names in a Diffusers folder: "transformer", "vae", "text_encoder", "tokenizer", "scheduler". */

bool sg_checkpoint_has(const sg_checkpoint *c, const char *component);

/* Where it is: its folder, for its other files and for messages. */
sg_status sg_checkpoint_place(const sg_checkpoint *c, const char *component, char *out, size_t size,
                              sg_error *e) SG_MUST_USE;

/* Its config; the caller closes it. */
sg_status sg_checkpoint_config(const sg_checkpoint *c, const char *component, sg_config **out, sg_error *e) SG_MUST_USE;

/* Its weights; the caller closes them. *map is how their names follow from the model's, NULL: they are the same; it lives
 * as long as c. */
sg_status sg_checkpoint_source(const sg_checkpoint *c, const char *component, sg_source **out, const sg_name_map **map,
                               sg_error *e) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
