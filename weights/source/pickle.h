/* pickle.h - the tensors that a pickle of torch.save names. A machine of dicts, lists, tuples, numbers and texts: it
 * knows the few names that such a pickle has, and runs nothing. It is internal to this folder. Source: Python's
 * pickletools.py (protocol 2); torch/_utils.py (_rebuild_tensor_v2 and on), torch/serialization.py */
#ifndef SG_PICKLE_H
#define SG_PICKLE_H

#include "tensor_source.h"

enum { SG_PICKLE_MAX = 16 << 20 }; /* bytes: bounds what the machine takes, up to 50 bytes for each */

/* This is a tensor that the pickle names. Element [i, j, ...] is number offset + i stride[0] + j stride[1] + ... of the
 * storage; all of these are in it. */
typedef struct sg_pickled_tensor {
    const char           *name; /* these texts are not NUL-terminated */
    size_t                name_length;
    const char           *storage;
    size_t                storage_length;
    const sg_source_type *type;
    uint64_t              bytes; /* of the storage */
    int                   rank;
    int64_t               offset, dim[SG_MAX_RANK], stride[SG_MAX_RANK]; /* elements */
} sg_pickled_tensor;

typedef struct sg_pickled {
    sg_pickled_tensor *tensor; /* of the dict at the top, or of the state dict that it has under a usual name */
    size_t             count;
} sg_pickled;

/* Reads text[size], which is all of the pickle; the result points into it. path is for messages. The caller frees,
 * after a failure too. */
sg_status sg_pickle_read(sg_pickled *out, const uint8_t *text, size_t size, const char *path, sg_error *e) SG_MUST_USE;
void      sg_pickle_free(sg_pickled *p);

#endif
