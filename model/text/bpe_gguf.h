/* bpe_gguf.h - the byte-level tokenizer that llama.cpp puts into a GGUF, as tokenizer.json has it. */
#ifndef SG_BPE_GGUF_H
#define SG_BPE_GGUF_H

#include "tensor_source.h"

#include <jansson.h>

/* *out gets an object for bpe_files.h, which the caller releases. Of the keys that begin with tokenizer.ggml. it reads
 * model, which must be "gpt2", and pre, which must be that of Llama 3; tokens, token_type and merges; and bos_token_id
 * where add_bos_token is not false. Unused tokens at the end, which fill up the text encoder's table, are left out.
 * Returns SG_E_FORMAT, SG_E_UNSUPPORTED or SG_E_MEMORY on failure. */
sg_status sg_bpe_gguf_read(json_t **out, const sg_source *s, sg_error *e) SG_MUST_USE;

#endif
