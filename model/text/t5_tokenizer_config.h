/* t5_tokenizer_config.h - what the JSON files of a tokenizer folder say, beside spiece.model.
 *
 * The files are tokenizer_config.json, tokenizer.json, special_tokens_map.json and added_tokens.json. Each is optional;
 * the last two occur in older folders only. They are read as AutoTokenizer of transformers 5.23 reads them:
 *
 * - T5 rules: tokenizer_class is T5Tokenizer(Fast), or there is neither a class nor a tokenizer.json. Unknown
 *   characters get the id of unk_token, 2 where it is no piece, and never become bytes. Here 5.23 differs: its class has
 *   2 for all, which is <s> of UMT5; 3 is what transformers 4 and SentencePiece give, and what UMT5 was trained with.
 * - Other rules: tokenizer_class is PreTrainedTokenizerFast, TokenizersBackend or MT5Tokenizer(Fast), or there is none.
 *   tokenizer.json counts as it stands, with unk_id and byte_fallback. Its normalizer, pre_tokenizer and post_processor
 *   must be those of a T5 tokenizer: the text is split at white space, or by a Metaspace alone, which has a mark for
 *   each space.
 * - The vocabulary is that of spiece.model. The one of tokenizer.json must be the same and may have further pieces at
 *   its end. Without tokenizer.json, <extra_id_N-1> to <extra_id_0> follow. N is extra_ids (100).
 *
 * added_tokens.h says which tokens are added. */
#ifndef SG_T5_TOKENIZER_CONFIG_H
#define SG_T5_TOKENIZER_CONFIG_H

#include "t5_tokenizer_model.h"
#include "tokenizer_files.h"

/* T5's rules add these where no file has them. */
extern const char *const sg_t5_specials[SG_SPECIALS];

/* All functions may return SG_E_FILE, SG_E_FORMAT, SG_E_UNSUPPORTED and SG_E_MEMORY. The message names file, field and
 * reason. A duplicate key is an error. */
/* Reads the files in dir; sg_tokenizer_files_close closes them. */
sg_status sg_t5_tokenizer_config_open(sg_tokenizer_files *c, const char *dir, sg_error *e) SG_MUST_USE;

/* Fills u. Its texts point into m and into `texts`, which receives those that m lacks. */
sg_status sg_t5_tokenizer_config_vocabulary(const sg_tokenizer_files *c, const sg_sentencepiece_file *m,
                                            sg_textbuf *texts, sg_unigram *u, sg_error *e) SG_MUST_USE;

/* What is done to a text before it is split: by the model's character map, and then, where a Metaspace splits it alone,
 * white space is stripped and several spaces become one. */
typedef struct sg_t5_normalization {
    bool charsmap, metaspace, strip_left, strip_right, unite_spaces;
} sg_t5_normalization;

/* Finds it. Checks that no other applies. */
sg_status sg_t5_tokenizer_config_normalization(const sg_tokenizer_files *c, const sg_sentencepiece_file *m,
                                               sg_t5_normalization *n, sg_error *e) SG_MUST_USE;

#endif
