/* t5_tokenizer.h - text to token ids for the T5 family (T5, mT5, UMT5), from a tokenizer folder of a Diffusers
 * checkpoint.
 *
 * The ids equal those of AutoTokenizer.from_pretrained(folder) of transformers 5.23, but for UMT5's unknown characters
 * (t5_tokenizer_config.h):
 *   1. Added tokens ("</s>", "<extra_id_0>", ...) are cut out, see added_tokens.h.
 *   2. The model's character map normalises the rest, see t5_tokenizer_model.h.
 *   3. The text is split at white space (Unicode's White_Space, U+0085 included). Each word gets the mark U+2581 in
 *      front unless it has it, and is split before every further mark. By a Metaspace alone the text is one word, and
 *      its spaces are marks.
 *   4. The Unigram model of t5_tokenizer_model.h splits each word into pieces. t5_tokenizer_config.h says what happens
 *      to unknown characters.
 *   5. The ids are cut to max_len - 1, and the end token follows.
 *
 * The SentencePiece library is not used, because its ids differ from these: where a character is unknown (bytes, and
 * the id of <unk>), where an added token is written out, in the normalisation, and in long repetitions (it sums in
 * float). */
#ifndef SG_T5_TOKENIZER_H
#define SG_T5_TOKENIZER_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sg_t5_tokenizer sg_t5_tokenizer;

/* Reads spiece.model in the folder at path, and the JSON files of t5_tokenizer_config.h beside it; or the file at path as a
 * spiece.model alone. On failure *out is NULL and the message names file, field and reason: SG_E_FILE, SG_E_FORMAT,
 * SG_E_UNSUPPORTED, SG_E_MEMORY. */
sg_status sg_t5_tokenizer_open(sg_t5_tokenizer **out, const char *path, sg_error *err) SG_MUST_USE;
/* Does the same for a file of weights with the model inside: the bytes of spiece.model in a tensor "spiece_model" of
 * type U8, or in the keys of a GGUF file. */
sg_status sg_t5_tokenizer_open_inside(sg_t5_tokenizer **out, const char *path, sg_error *err) SG_MUST_USE;
void      sg_t5_tokenizer_close(sg_t5_tokenizer **t);

/* Encodes len bytes of UTF-8 (at most SG_PROMPT_MAX of prompt_clean.h) into at most max_len ids; max_len >= 1. The
 * caller frees *ids, which holds at least the end token. Several threads may encode at once. Returns SG_E_ARG,
 * SG_E_MEMORY, or SG_E_FORMAT for a character without a piece in a model without an unknown piece. A failure leaves
 * *ids and *count as they were. */
sg_status sg_t5_tokenizer_encode(const sg_t5_tokenizer *t, const char *text, size_t len, int max_len, int32_t **ids,
                                 int *count, sg_error *err) SG_MUST_USE;

/* Returns the id of pad_token, by the T5 rules "<pad>" where no file has it; -1 where there is none. */
int32_t sg_t5_tokenizer_pad(const sg_t5_tokenizer *t);

/* Returns one more than the largest id. A text encoder needs at least as many rows in its table. */
int sg_t5_tokenizer_vocab(const sg_t5_tokenizer *t);

#endif
