/* safetensors.h - one safetensors file, every byte of its header accounted for. It is internal to this folder. Format:
 * 8 bytes N, little endian; N bytes of JSON, name to {dtype, shape, data_offsets}; the data, without holes. Source:
 * https://github.com/huggingface/safetensors#format */
#ifndef SG_SAFETENSORS_H
#define SG_SAFETENSORS_H

#include "base/file.h"
#include "json_input.h"
#include "tensor_source.h"

typedef struct sg_safetensors {
    char             *path;
    sg_map            map;
    char             *names;
    sg_source_tensor *tensor; /* in the order of their data */
    size_t            count;
    sg_members        metadata; /* values are decoded strings, in metadata_text */
    char             *metadata_text;
} sg_safetensors;

/* Opens one file. Zero is a closed file; the caller closes, after a failure too. */
sg_status sg_safetensors_open(sg_safetensors *f, const char *path, sg_error *e) SG_MUST_USE;
void      sg_safetensors_close(sg_safetensors *f);

/* Opens the file at path, or the shards of an index, as a source. */
sg_status sg_safetensors_source(sg_source **out, const char *path, bool is_index, sg_error *e) SG_MUST_USE;

#endif
