/* tokenizer_gguf.h - the tokenizers that llama.cpp's converter writes into the keys of a GGUF.
 *
 *   tokenizer.ggml.model              "t5", a SentencePiece model; "gpt2", a byte-level tokenizer
 *   tokenizer.ggml.tokens             texts; "[PADn]" and unused ones at the end fill up the encoder's table
 *   tokenizer.ggml.token_type         1 to 6, as SentencePiece has them
 *   of "t5"
 *     tokenizer.ggml.scores           F32 of each token
 *     tokenizer.ggml.precompiled_charsmap, .eos_token_id, .add_space_prefix    need not be there
 *   of "gpt2"
 *     tokenizer.ggml.pre              that of Llama 3, or qwen2: of Qwen2, Qwen2.5 and Qwen3
 *     tokenizer.ggml.merges           texts
 *     tokenizer.ggml.bos_token_id     where add_bos_token says so, or Llama 3 has no add_bos_token */
#ifndef SG_TOKENIZER_GGUF_H
#define SG_TOKENIZER_GGUF_H

#include "t5_tokenizer_model.h"
#include "tensor_source.h"

#include <jansson.h>

/* *out gets an object as tokenizer.json has it, for bpe_files.h, which the caller releases. Tokens that fill up the
 * table are left out. Returns SG_E_FORMAT, SG_E_UNSUPPORTED or SG_E_MEMORY on failure. */
sg_status sg_bpe_gguf_read(json_t **out, const sg_source *s, sg_error *e) SG_MUST_USE;

/* Tells whether there are tokens. */
bool sg_sentencepiece_is_in(const sg_source *s);

/* Does what sg_sentencepiece_file_open says. It borrows the source, which must outlive m. */
sg_status sg_sentencepiece_file_from(sg_sentencepiece_file *m, const sg_source *s, sg_error *e) SG_MUST_USE;

#endif
