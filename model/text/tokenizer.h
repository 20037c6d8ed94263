/* tokenizer.h - text to token ids, for the T5 family (T5, mT5, UMT5), from a tokenizer folder of a Diffusers
 * checkpoint.
 *
 * The ids equal those of transformers 5.23's AutoTokenizer.from_pretrained(folder):
 *   1. added tokens ("</s>", "<extra_id_0>", ...) are cut out, see added.h;
 *   2. the rest is normalised by the model's character map, see charsmap.h;
 *   3. split at white space (Unicode's White_Space, U+0085 included), each word gets the mark U+2581 in front unless it
 *      has it, and is cut before every further mark;
 *   4. each word goes through the Unigram model, see unigram.h; what is unknown see tokconf.h;
 *   5. the ids are cut to max_len - 1 and the end token follows.
 *
 * No library for SentencePiece is used: SentencePiece's own ids differ from these where a character is unknown (bytes,
 * and <unk>'s own id), where an added token is written out, in its normalisation and in long repetitions (its sums are
 * in float). */
#ifndef SG_TOKENIZER_H
#define SG_TOKENIZER_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sg_tokenizer sg_tokenizer;

/* Reads spiece.model in folder dir, and the JSON files of tokconf.h beside it. On failure *out is NULL and the message
 * names file, field and reason: SG_E_FILE, SG_E_FORMAT, SG_E_UNSUPPORTED, SG_E_MEMORY. */
sg_status sg_tokenizer_open(sg_tokenizer **out, const char *dir, sg_error *err) SG_MUST_USE;
void      sg_tokenizer_close(sg_tokenizer **t);

/* Encodes len bytes of UTF-8 (at most SG_PROMPT_MAX of prompt_clean.h) into at most max_len ids, max_len >= 1. *ids is the
 * caller's to free() and holds at least the end token. May run in several threads at once. SG_E_ARG, SG_E_FORMAT (a
 * character without a piece, in a model without an unknown one), SG_E_MEMORY; then *ids and *count are untouched. */
sg_status sg_tokenizer_encode(const sg_tokenizer *t, const char *text, size_t len, int max_len, int32_t **ids,
                              int *count, sg_error *err) SG_MUST_USE;

/* One more than the largest id: no encoder with fewer rows fits. */
int sg_tokenizer_vocab(const sg_tokenizer *t);

#endif
