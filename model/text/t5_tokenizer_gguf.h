/* t5_tokenizer_gguf.h - the SentencePiece model that a GGUF file holds in its keys, as llama.cpp's converter writes it:
 *
 *   tokenizer.ggml.model              "t5"
 *   tokenizer.ggml.tokens             texts of the pieces; "[PADn]" at the end fill up the encoder's table
 *   tokenizer.ggml.scores             F32 of each
 *   tokenizer.ggml.token_type         1 to 6, as SentencePiece has them
 *   tokenizer.ggml.precompiled_charsmap, .eos_token_id, .add_space_prefix    need not be there */
#ifndef SG_T5_TOKENIZER_GGUF_H
#define SG_T5_TOKENIZER_GGUF_H

#include "t5_tokenizer_model.h"
#include "tensor_source.h"

/* Tells whether there is such a model. */
bool sg_sentencepiece_is_in(const sg_source *s);

/* Does what sg_sentencepiece_file_open says. It borrows the source, which must outlive m. */
sg_status sg_sentencepiece_file_from(sg_sentencepiece_file *m, const sg_source *s, sg_error *e) SG_MUST_USE;

#endif
