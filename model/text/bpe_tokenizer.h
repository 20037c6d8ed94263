/* bpe_tokenizer.h - text to token ids by byte-level byte-pair encoding: Llama-3, Qwen2 and GPT-2 (tokenizer.json) and CLIP
 * (vocab.json and merges.txt, or tokenizer.json).
 *
 * The ids equal those of transformers 5.23 with tokenizers 0.23:
 *   1. Added tokens ("<|eot_id|>", ...) are cut out, see added_tokens.h: first those of the raw text, then, of what
 *      the normalizer made of the rest, those marked normalized.
 *   2. The text is split into words, see bpe_words.h.
 *   3. The bytes of a word become characters, 256 of them printable (GPT-2, Radford et al., 2019), CLIP's last one with
 *      "</w>". Of all neighbours that the list of merges has, the pair that stands first in the list becomes one, of equal
 *      ones the leftmost, until no pair is in the list (Sennrich et al., 2016, arXiv:1508.07909).
 *   4. The ids are cut so that those which the model puts before and behind a text fit, and these are put there. */
#ifndef SG_BPE_TOKENIZER_H
#define SG_BPE_TOKENIZER_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_bpe_tokenizer sg_bpe_tokenizer;

/* Reads the tokenizer in the folder at path: tokenizer.json with tokenizer_config.json and the files of added_tokens.h
 * beside it; or, where tokenizer_config.json names CLIPTokenizer or there is no tokenizer.json, by CLIP's rules the
 * vocabulary and merges of tokenizer.json, or vocab.json and merges.txt. What tokenizer.json asks for beyond bpe_files.h is
 * SG_E_UNSUPPORTED. On failure *out is NULL and the message names file, field and reason: SG_E_FILE, SG_E_FORMAT, SG_E_MEMORY. */
sg_status sg_bpe_tokenizer_open(sg_bpe_tokenizer **out, const char *path, sg_error *e) SG_MUST_USE;
/* Does the same with this token for pads, whatever the folder says. */
sg_status sg_bpe_tokenizer_open_padded(sg_bpe_tokenizer **out, const char *path, const char *pad,
                                       sg_error *e) SG_MUST_USE;
/* Reads the tokenizer in a GGUF of Llama 3 or Qwen2 (tokenizer_gguf.h). */
sg_status sg_bpe_tokenizer_open_inside(sg_bpe_tokenizer **out, const char *path, sg_error *e) SG_MUST_USE;
void      sg_bpe_tokenizer_close(sg_bpe_tokenizer **t);

/* Encodes len bytes of UTF-8 (at most SG_PROMPT_MAX of prompt_clean.h) into at most max ids, in O(len log len). max is
 * at least sg_bpe_tokenizer_fixed and 1. The caller frees *ids, which is never NULL. Several threads may encode at
 * once. Returns SG_E_ARG or SG_E_MEMORY on failure. A failure leaves *ids and *count as they were. */
sg_status sg_bpe_tokenizer_encode(const sg_bpe_tokenizer *t, const char *text, size_t len, int max, int32_t **ids,
                                  int *count, sg_error *e) SG_MUST_USE;

enum { SG_BPE_TEXT_MAX = 1 << 26 };

/* Encodes a long text, of at most SG_BPE_TEXT_MAX bytes, into as many ids as it has, in the same way. Those that stand behind
 * every text are left out, those before it as well unless `before`. */
sg_status sg_bpe_tokenizer_encode_long(const sg_bpe_tokenizer *t, const char *text, size_t len, bool before,
                                       int32_t **ids, int *count, sg_error *e) SG_MUST_USE;

/* Makes the bytes that n ids stand for, without added tokens and what is no id, and a NUL behind them. A character that
 * was cut is not repaired: the bytes may be no UTF-8. The caller frees *text. Returns SG_E_MEMORY on failure. */
sg_status sg_bpe_tokenizer_decode(const sg_bpe_tokenizer *t, const int32_t *ids, size_t n, char **text,
                                  sg_error *e) SG_MUST_USE;

/* Returns how many ids every text has before and behind its own. */
int sg_bpe_tokenizer_fixed(const sg_bpe_tokenizer *t);

/* Returns the id of pad_token, by CLIP's rules that of "<|endoftext|>" where no file has it; -1 where there is none. */
int32_t sg_bpe_tokenizer_pad(const sg_bpe_tokenizer *t);

/* Returns one more than the largest id. A text encoder needs at least as many rows in its table. */
int sg_bpe_tokenizer_vocab(const sg_bpe_tokenizer *t);

#endif
