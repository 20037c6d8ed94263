/* gguf.h - a GGUF file, every count and length of its header checked before use. It is internal to this folder. Format:
 * "GGUF", version, counts; keys with values; names, shapes (fastest dimension first), types and offsets of tensors; the
 * data, aligned. All little endian. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md;
 * comfy.gguf.orig_shape: city96/ComfyUI-GGUF */
#ifndef SG_GGUF_H
#define SG_GGUF_H

#include "one_file.h"

sg_status sg_gguf_source(sg_source **out, const char *path, sg_error *e) SG_MUST_USE;

#endif
