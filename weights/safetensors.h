/* safetensors.h - one safetensors file, every byte of its header accounted for. Internal to this folder.
 * Format: 8 bytes N, little endian; N bytes of JSON, name to {dtype, shape, data_offsets}; the data, without holes.
 * Source: https://github.com/huggingface/safetensors#format */
#ifndef SG_SAFETENSORS_H
#define SG_SAFETENSORS_H

#include "base/file.h"
#include "json_input.h"
#include "tensor.h"

typedef struct sg_safetensor {
    const char    *name;
    const uint8_t *data; /* in the map, perhaps misaligned */
    uint64_t       bytes;
    int64_t        dim[SG_MAX_RANK];
    int            rank;
    int            type; /* for sg_safetensor_type */
    int            file; /* these two for who opens many */
    size_t         index;
} sg_safetensor;

typedef struct sg_safetensors {
    char          *path;
    sg_map         map;
    char          *names;
    sg_safetensor *tensor; /* in the order of their data */
    size_t         count;
    sg_members     metadata; /* values are decoded strings, in metadata_text */
    char          *metadata_text;
} sg_safetensors;

/* Zero is a closed file; the caller closes, after a failure too. */
sg_status sg_safetensors_open(sg_safetensors *f, const char *path, sg_error *e) SG_MUST_USE;
void      sg_safetensors_close(sg_safetensors *f);

/* How the format spells the type; *dtype gets ours, or SG_DTYPES when we have none. */
const char *sg_safetensor_type(const sg_safetensor *t, sg_dtype *dtype);

#endif
