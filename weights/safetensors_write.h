/* safetensors_write.h - tensors into a file that appears complete or not at all, as output_file.h has it. */
#ifndef SG_SAFETENSORS_WRITE_H
#define SG_SAFETENSORS_WRITE_H

#include "status.h"
#include "tensor.h"

typedef struct sg_named_tensor {
    const char *name;
    sg_tensor   t;
} sg_named_tensor;

/* Writes tensors under their names, in this order, with string metadata as key, value, ..., NULL. The second writes
 * one. */
sg_status sg_safetensors_write_all(const char *path, const sg_named_tensor *all, int count, const char *const *metadata,
                                   sg_error *e) SG_MUST_USE;
sg_status sg_safetensors_write(const char *path, const char *name, sg_tensor t, const char *const *metadata,
                               sg_error *e) SG_MUST_USE;

#endif
