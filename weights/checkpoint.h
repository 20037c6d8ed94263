/* checkpoint.h - what a model's components are made of: each a config, a tensor source and a name map. Nobody else knows
 * which file of a path holds what. A path is
 *   - a Diffusers folder: model_index.json, and for each component a folder of its name with config.json and safetensors,
 *     whose names are the models' own;
 *   - a folder in the layout of an original repository, or one file: checkpoint_files.h. */
#ifndef SG_CHECKPOINT_H
#define SG_CHECKPOINT_H

#include "config.h"
#include "model_parts.h"
#include "name_map.h"
#include "tensor_source.h"

typedef struct sg_checkpoint  sg_checkpoint;
typedef struct sg_model_files sg_model_files; /* checkpoint_files.h */

/* Opens the checkpoint at path, but no file of a Diffusers folder yet. Returns SG_E_ARG if the path is too long. */
sg_status sg_checkpoint_open(sg_checkpoint **out, const char *path, sg_error *e) SG_MUST_USE;
/* Does the same for any path, which may be NULL, with these parts, which may be NULL. Files are told apart by what the
 * families know of them: known(i) is that of family i from 0 on, and NULL past the last. A part that is nowhere is
 * SG_E_FILE, and e says which option gives it. */
sg_status sg_checkpoint_open_parts(sg_checkpoint **out, const char *path, const sg_model_parts *parts,
                                   const sg_model_files *(*known)(int i), sg_error *e) SG_MUST_USE;
/* Opens a folder of transformers' CLIPModel as the components "text_encoder", "image_encoder" and "tokenizer", and
 * "image_processor" where it has a preprocessor_config.json or processor_config.json. The configs of the two encoders
 * have the model's projection_dim. Returns SG_E_FILE, or SG_E_FORMAT if config.json is not one of CLIPModel. */
sg_status   sg_checkpoint_open_clip(sg_checkpoint **out, const char *folder, sg_error *e) SG_MUST_USE;
/* Opens a language model as the components "text_encoder" and "tokenizer": a folder of transformers', where both are, or
 * a GGUF that has both, which is recognised by what is known as above. Returns SG_E_FILE or SG_E_UNSUPPORTED if it is none. */
sg_status   sg_checkpoint_open_language(sg_checkpoint **out, const char *path, const sg_model_files *(*known)(int i),
                                        sg_error *e) SG_MUST_USE;
void        sg_checkpoint_close(sg_checkpoint **c);
const char *sg_checkpoint_path(const sg_checkpoint *c); /* as it was given; without one that of the denoiser */

/* Tells whether there is a Diffusers folder at this path. */
bool sg_checkpoint_is(const char *path);

/* What the checkpoint says of itself: which class, which components. The caller closes it. */
sg_status sg_checkpoint_index(const sg_checkpoint *c, sg_config **out, sg_error *e) SG_MUST_USE;

/* Components go by their names in a Diffusers folder: "transformer", "vae", "text_encoder", "text_encoder_2", "text_encoder_3",
 * "image_encoder", "tokenizer", "tokenizer_2", "tokenizer_3", "scheduler". */

bool sg_checkpoint_has(const sg_checkpoint *c, const char *component);

/* Tells where a component is: its folder or its file, for its other files and for messages. A tokenizer may be inside
 * the text encoder's file, and is then at the same place. */
sg_status sg_checkpoint_place(const sg_checkpoint *c, const char *component, char *out, size_t size,
                              sg_error *e) SG_MUST_USE;

/* Returns the pad token of a tokenizer that is another text encoder's too, whose files say another: "!" for CLIP-G. It
 * is NULL where its files have it right. */
const char *sg_checkpoint_pad(const sg_checkpoint *c, const char *tokenizer);

/* Reads a component's config, which for a file is made from the shapes of its tensors. The caller closes it. */
sg_status sg_checkpoint_config(const sg_checkpoint *c, const char *component, sg_config **out, sg_error *e) SG_MUST_USE;

/* Opens a component's weights; the caller closes them. *map says how their names follow from the model's, and is NULL
 * where they are the same; it lives as long as c. */
sg_status sg_checkpoint_source(const sg_checkpoint *c, const char *component, sg_source **out, const sg_name_map **map,
                               sg_error *e) SG_MUST_USE;

#endif
