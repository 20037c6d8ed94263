/* weights.h - safetensors files as named tensors, mapped read-only and never copied. */
#ifndef SG_WEIGHTS_H
#define SG_WEIGHTS_H

#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_weights sg_weights;

/* Opens dir/stem.safetensors, or the shards that dir/stem.safetensors.index.json names (its weight_map: tensor name to
 * a file name in the same folder). Where both exist the index is taken for stems that begin with "diffusion_", as
 * diffusers does, and the single file for others, as transformers does. Everything in the headers is checked here: one
 * message tells file, tensor and reason. Takes memory in proportion to the headers only. Owns the maps. */
sg_status sg_weights_open(sg_weights **out, const char *dir, const char *stem, sg_error *e) SG_MUST_USE;
void      sg_weights_close(sg_weights **w);

/* The tensor of that name, its data in the map; absent (rank 0) when there is none, or one of a dtype that sg_dtype
 * lacks. A scalar has shape [1]. Data may be misaligned to their element where the file has them so. */
sg_tensor sg_weights_find(const sg_weights *w, const char *name);
int64_t   sg_weights_index(const sg_weights *w, const char *name); /* for the calls below; -1: there is none */

size_t      sg_weights_count(const sg_weights *w);
const char *sg_weights_name(const sg_weights *w, size_t i, sg_tensor *t); /* in the order of the files; t may be NULL */
const char *sg_weights_dtype(const sg_weights *w, size_t i); /* as the file spells it: also what no tensor can view */
const char *sg_weights_path(const sg_weights *w);            /* for messages: the file or the index */
int         sg_weights_files(const sg_weights *w);
uint64_t    sg_weights_bytes(const sg_weights *w); /* of all files */

/* A string of the first file's metadata, or NULL. Lives as long as w. */
const char *sg_weights_metadata(const sg_weights *w, const char *key);

typedef struct sg_named_tensor {
    const char *name;
    sg_tensor   t;
} sg_named_tensor;

/* Writes tensors under their names, in this order, with string metadata as key, value, ..., NULL. The file appears
 * complete or not at all, as output_file.h has it. The second writes one. */
sg_status sg_safetensors_write_all(const char *path, const sg_named_tensor *all, int count, const char *const *metadata,
                                   sg_error *e) SG_MUST_USE;
sg_status sg_safetensors_write(const char *path, const char *name, sg_tensor t, const char *const *metadata,
                               sg_error *e) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
