/* added_tokens.h - the added tokens of a tokenizer ("</s>", "<|eot_id|>", ...), which are cut out of the text before
 * anything else.
 *
 * Which tokens are added, first to last:
 *   1. By rules other than T5's and CLIP's, those of tokenizer.json.
 *   2. Those of added_tokens_decoder in tokenizer_config.json; without that field those of added_tokens.json and
 *      tokenizer.json. They go in order of their ids.
 *   3. The special tokens (eos_token, ...) of tokenizer_config.json; without added_tokens_decoder also those of
 *      special_tokens_map.json; where no file has one, the class's own.
 *   4. Those of extra_special_tokens or additional_special_tokens, in tokenizer_config.json or else in
 *      special_tokens_map.json.
 *   5. By the T5 rules, <extra_id_0> to <extra_id_N-1>, unless tokenizer_config.json has one of those two lists,
 *      special_tokens_map.json has extra_special_tokens, or its additional_special_tokens have an <extra_id_...>.
 *      Before them, without tokenizer.json, the control and user-defined pieces of the model.
 * The text identifies a token. The ids in the files only give the order. Of several with one text the first of steps 1
 * and 2 says how it is found, else the last.
 *
 * They are found as follows. Of the tokens that fit at one place the longest counts. A token marked single_word counts
 * only where no word character touches it (Unicode's letters, marks, decimal digits, connectors, joiners). Tokens
 * marked normalized are searched in the normalised text, the others in the raw text. A token marked lstrip takes the
 * white space before it, one marked rstrip that behind it. */
#ifndef SG_ADDED_TOKENS_H
#define SG_ADDED_TOKENS_H

#include "t5_tokenizer_config.h"

typedef struct sg_added_token {
    char   *text; /* owned; len bytes, at least one, then NUL */
    size_t  len;
    int32_t id; /* that of the piece with the same text, or else the next free one */
    bool    single_word, normalized, lstrip, rstrip;
} sg_added_token;

/* Holds the added tokens of a tokenizer. Zero-initialise it. */
typedef struct sg_added_tokens {
    sg_added_token *tokens; /* owned; in the order in which they were added */
    size_t          count, cap;
    size_t          of_files;    /* the first so many are of steps 1 and 2 */
    int32_t         next_id;     /* the next free id: one more than the largest */
    sg_string_table raw, normal; /* ids index tokens */
    sg_textbuf      normal_texts;
} sg_added_tokens;

/* Appends what the tokenizer makes of text before it splits it. */
typedef struct sg_normalizer {
    void (*apply)(const void *of, sg_textbuf *out, const char *text, size_t len);
    const void *of;
} sg_normalizer;

/* Collects the added tokens. m may be NULL but for T5's rules. Returns SG_E_FORMAT, SG_E_UNSUPPORTED or SG_E_MEMORY;
 * the message names file, field and reason. The caller closes a after a failure too. */
sg_status sg_added_tokens_open(sg_added_tokens *a, const sg_tokenizer_files *c, const sg_sentencepiece_file *m,
                               const sg_string_table *vocabulary, const sg_normalizer *by, sg_error *e) SG_MUST_USE;
void      sg_added_tokens_close(sg_added_tokens *a);

/* Sets *id to that of the token that ends every text of T5. The errors are the same. */
sg_status sg_added_tokens_end(const sg_added_tokens *a, const sg_tokenizer_files *c, int32_t *id,
                              sg_error *e) SG_MUST_USE;

/* Returns the id of the token with this text, which may be NULL; -1 where there is none. */
int32_t sg_added_tokens_id(const sg_added_tokens *a, const char *text);

/* Finds the first token in text[*at..len) of the kind `normalized`. Sets *at to where it begins and *bytes to its
 * length there, with the white space that it takes. Returns NULL when there is none. */
const sg_added_token *sg_added_tokens_next(const sg_added_tokens *a, bool normalized, const char *text, size_t len,
                                           size_t *at, size_t *bytes);

/* A text on its way to ids; a tokenizer's own begins with it. */
typedef struct sg_token_run sg_token_run;
struct sg_token_run {
    const sg_added_tokens *added;
    sg_normalizer          by;
    /* words appends the ids of a normalised text between added tokens, as long as there are fewer than `most`. */
    sg_status (*words)(sg_token_run *r, const char *text, size_t len, sg_error *e);
    size_t       most; /* the result keeps no more */
    size_t       size; /* bytes that a text may have; 0: SG_PROMPT_MAX of prompt_clean.h */
    sg_token_ids ids;  /* the caller frees ids.at */
    sg_textbuf   normal;
};

/* Appends the ids of len bytes of UTF-8, at most r->size: of added tokens, and what r->words
 * makes of what lies between. */
sg_status sg_token_run_encode(sg_token_run *r, const char *text, size_t len, sg_error *e) SG_MUST_USE;

sg_status sg_tokenizer_no_memory(sg_error *e); /* for the text */

#endif
