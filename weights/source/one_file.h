/* one_file.h - what sources of a single mapped file share: the list of its tensors. It is internal to this folder. */
#ifndef SG_ONE_FILE_H
#define SG_ONE_FILE_H

#include "base/file.h"
#include "tensor_source.h"

enum { SG_TENSOR_NAME_MAX = 127, SG_TENSORS_MAX = 1 << 20 }; /* bytes; how many a file may have */

/* This is the first member of a source, so that a pointer to one is a pointer to the other. */
typedef struct sg_one_file {
    char             *path;
    sg_map            map;
    sg_source_tensor *tensor; /* their names are malloc'd */
    size_t            count, room;
} sg_one_file;

/* Maps the file at path. Zero is a closed file; the caller closes, after a failure too. */
sg_status sg_one_file_open(sg_one_file *f, const char *path, sg_error *e) SG_MUST_USE;
void      sg_one_file_close(sg_one_file *f);

/* Appends t, whose name[len] is copied. Returns SG_E_FORMAT if the name is no fit one, or there are too many
 * tensors. */
sg_status sg_one_file_add(sg_one_file *f, sg_source_tensor t, const char *name, size_t len, sg_error *e) SG_MUST_USE;

/* These are entries of an sg_source_ops. */
size_t                  sg_one_file_count(const void *of);
const sg_source_tensor *sg_one_file_tensor(const void *of, size_t i);
const char             *sg_one_file_path(const void *of);
int                     sg_one_file_files(const void *of);
uint64_t                sg_one_file_bytes(const void *of);
void                    sg_one_file_drop(const void *of, const void *data, size_t bytes);

/* Finds a type whose blocks are single elements, by the name that safetensors gives it; NULL where there is none. */
const sg_source_type *sg_element_type(const char *name);

#endif
