/* t5_tokenizer_added.h - the added tokens of a T5 tokenizer ("</s>", "<extra_id_0>", ...), which are cut out of the
 * text before anything else.
 *
 * Which tokens are added, first to last:
 *   1. By rules other than T5's, those of tokenizer.json.
 *   2. Those of added_tokens_decoder in tokenizer_config.json; without that field those of added_tokens.json and
 *      tokenizer.json. They go in order of their ids.
 *   3. The special tokens (eos_token, ...) of tokenizer_config.json; without added_tokens_decoder also those of
 *      special_tokens_map.json.
 *   4. Those of extra_special_tokens or additional_special_tokens, in tokenizer_config.json or else in
 *      special_tokens_map.json.
 *   5. By the T5 rules, <extra_id_0> to <extra_id_N-1>, unless tokenizer_config.json has one of those two lists,
 *      special_tokens_map.json has extra_special_tokens, or its additional_special_tokens have an <extra_id_...>.
 *      Before them, without tokenizer.json, the control and user-defined pieces of the model.
 * The text identifies a token. The ids in the files only give the order.
 *
 * How they are found: of the tokens that fit at one place the longest counts. A token marked single_word counts only
 * where no word character touches it (Unicode's letters, marks, decimal digits, connectors, joiners). Tokens marked
 * normalized are searched in the normalised text, the others in the raw text. lstrip and rstrip have no effect, because
 * they only remove white space, which makes no tokens. */
#ifndef SG_T5_TOKENIZER_ADDED_H
#define SG_T5_TOKENIZER_ADDED_H

#include "t5_tokenizer_config.h"

typedef struct sg_t5_added_token {
    char   *text; /* owned; len bytes, at least one, then NUL */
    size_t  len;
    int32_t id; /* that of the piece with the same text, or else the next free one */
    bool    single_word, normalized;
} sg_t5_added_token;

/* Zero-initialise. */
typedef struct sg_t5_added_tokens {
    sg_t5_added_token *tokens; /* owned; in the order in which they were added */
    size_t             count, cap;
    int32_t            next_id;     /* the next free id: one more than the largest */
    sg_string_table    raw, normal; /* ids index tokens */
    sg_textbuf         normal_texts;
} sg_t5_added_tokens;

/* Collects the added tokens; u holds the vocabulary. SG_E_FORMAT, SG_E_UNSUPPORTED and SG_E_MEMORY; the message names
 * file, field and reason. The caller closes a after a failure too. */
sg_status sg_t5_added_tokens_open(sg_t5_added_tokens *a, const sg_t5_tokenizer_config *c,
                                  const sg_sentencepiece_file *m, const sg_unigram *u, const sg_charsmap *map,
                                  sg_error *e) SG_MUST_USE;
void      sg_t5_added_tokens_close(sg_t5_added_tokens *a);

/* Sets *id to that of the token that ends every text. Same errors. */
sg_status sg_t5_added_tokens_end(const sg_t5_added_tokens *a, const sg_t5_tokenizer_config *c, int32_t *id,
                                 sg_error *e) SG_MUST_USE;

/* The id of the token that fills texts up; -1: there is none. */
int32_t sg_t5_added_tokens_pad(const sg_t5_added_tokens *a, const sg_t5_tokenizer_config *c);

/* Finds the first token in text[*at..len) of the kind `normalized`. Sets *at to where it begins and *bytes to its
 * length there. Returns NULL when there is none. */
const sg_t5_added_token *sg_t5_added_tokens_next(const sg_t5_added_tokens *a, bool normalized, const char *text,
                                                 size_t len, size_t *at, size_t *bytes);

#endif
