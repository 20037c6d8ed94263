/* bpe_gguf.h - the byte-level tokenizer that llama.cpp puts into a GGUF, as tokenizer.json has it. */
#ifndef SG_BPE_GGUF_H
#define SG_BPE_GGUF_H

#include "tensor_source.h"

#include <jansson.h>

/* *out gets an object for bpe_files.h, which the caller releases. Of keys that begin with tokenizer.ggml.: model is "gpt2" and pre
 * that of Llama 3; tokens, token_type and merges; bos_token_id where add_bos_token is not false. Unused tokens at the end, which fill
 * up the text encoder's table, are left out. SG_E_FORMAT, SG_E_UNSUPPORTED, SG_E_MEMORY. */
sg_status sg_bpe_gguf_read(json_t **out, const sg_source *s, sg_error *e) SG_MUST_USE;

#endif
