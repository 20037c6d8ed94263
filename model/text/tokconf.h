/* tokconf.h - what the JSON files of a tokenizer folder say, beside spiece.model.
 *
 * Files, all but the first two for folders of older make, each optional: tokenizer_config.json, tokenizer.json,
 * special_tokens_map.json, added_tokens.json. They are read as transformers 5.23's AutoTokenizer reads them:
 *
 * - tokenizer_class T5Tokenizer(Fast), or none and no tokenizer.json: the T5 rules. Unknown characters are id 2 whatever
 *   the model itself calls unknown, and never bytes.
 * - PreTrainedTokenizerFast, TokenizersBackend, MT5Tokenizer(Fast), or none: tokenizer.json as it stands. unk_id and
 *   byte_fallback count; normalizer, pre_tokenizer and post_processor must be those of a T5 tokenizer.
 * - The vocabulary is spiece.model's; tokenizer.json's must be the same, and may go on after it. Without tokenizer.json
 *   it goes on with <extra_id_N-1> to <extra_id_0>, N being extra_ids (100).
 * - Added tokens, first to last: those of added_tokens_decoder in tokenizer_config.json, or without that field of
 *   added_tokens.json and tokenizer.json, by id; the named ones (eos_token, ...), there and, again without that field,
 *   in special_tokens_map.json; extra_special_tokens or additional_special_tokens, or else (T5 rules) <extra_id_0> to
 *   <extra_id_N-1>, without tokenizer.json after the model's control and user-defined pieces. A token is known by its
 *   text: the ids in the files only order them. */
#ifndef SG_TOKCONF_H
#define SG_TOKCONF_H

#include "added.h"
#include "spiece.h"
#include "unigram.h"

#include <jansson.h>

enum { SG_TOKCONF_MAX_BYTES = 64 << 20, SG_TOKCONF_MAX_VALUES = 1 << 21, SG_TOKCONF_MAX_EXTRA = 65536 };

/* Zero-initialise. */
typedef struct sg_tokconf {
    const char *dir;                                  /* borrowed; for messages */
    json_t     *config, *tokenizer, *special, *added; /* owned; NULL where there is no such file */
    bool        t5_rules, has_decoder;
} sg_tokconf;

/* All functions: SG_E_FILE, SG_E_FORMAT, SG_E_UNSUPPORTED, SG_E_MEMORY, with a message that names file, field and
 * reason. Duplicate keys are refused. */
sg_status sg_tokconf_open(sg_tokconf *c, const char *dir, sg_error *e) SG_MUST_USE;
void      sg_tokconf_close(sg_tokconf *c);

/* Fills u, whose words point into m and tail (which it fills too). */
sg_status sg_tokconf_vocabulary(const sg_tokconf *c, const sg_spiece *m, sg_textbuf *tail, sg_unigram *u,
                                sg_error *e) SG_MUST_USE;

/* Whether the model's character map is applied to text; checks that nothing else is. */
sg_status sg_tokconf_uses_map(const sg_tokconf *c, const sg_spiece *m, bool *uses, sg_error *e) SG_MUST_USE;

/* Whether value is a whole number from 0 to max, which *out then is. */
bool sg_tokconf_whole(const json_t *value, int max, int *out);

/* How many <extra_id_...> tokens there are where no file lists them. */
sg_status sg_tokconf_extra_ids(const sg_tokconf *c, int *count, sg_error *e) SG_MUST_USE;

/* The value of a named token such as "eos_token", a string or an object with its content; NULL when no file gives one.
 */
const json_t *sg_tokconf_named(const sg_tokconf *c, const char *name);

/* Puts the added tokens; u holds the vocabulary. */
sg_status sg_tokconf_added(const sg_tokconf *c, const sg_spiece *m, const sg_unigram *u, sg_added *a,
                           sg_error *e) SG_MUST_USE;

/* The id of what ends every text; a holds the added tokens. */
sg_status sg_tokconf_end(const sg_tokconf *c, const sg_added *a, int32_t *id, sg_error *e) SG_MUST_USE;

#endif
