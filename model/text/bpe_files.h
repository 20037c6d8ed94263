/* bpe_files.h - what a folder says of a byte-level tokenizer.
 *
 * tokenizer.json counts as it stands, with these parts:
 *   normalizer      none, or of NFC, Replace of the regular expression \s+ by a space, Lowercase, in this order
 *   pre_tokenizer   at most two Split by an expression of bpe_words.h, then ByteLevel without a space in front
 *   model           BPE: end_of_word_suffix, unk_token without fuse_unk, ignore_merges
 *   post_processor  none, ByteLevel, TemplateProcessing or RobertaProcessing: ids before and behind the text. Where
 *                   tokenizer_config.json has add_bos_token or add_eos_token, or there is no post_processor, those tokens
 * By CLIP's rules normalizer, splits, suffix and ids are those of transformers' CLIPTokenizer. */
#ifndef SG_BPE_FILES_H
#define SG_BPE_FILES_H

#include "added_tokens.h"
#include "base/file.h"
#include "bpe_model.h"
#include "bpe_words.h"

enum { SG_BPE_FIXED = 8 }; /* ids before a text at most, and as many behind it */

typedef struct sg_bpe_rules {
    bool                nfc, one_space, lower; /* the normalizer's steps */
    const sg_bpe_split *split[2];              /* the words of the first are split by the second; NULL: not */
    int32_t             before[SG_BPE_FIXED], after[SG_BPE_FIXED];
    int                 befores, afters;
} sg_bpe_rules;

/* Holds the files of a folder. Zero-initialise it. */
typedef struct sg_bpe_files {
    sg_tokenizer_files json;
    json_t            *vocabulary; /* vocab.json */
    sg_map             merges;     /* merges.txt */
    bool               clip;
    const char        *pad;                             /* the pad token, whatever the folder says; NULL: as it says */
    char               where[4096], merges_where[4096]; /* files, for messages */
} sg_bpe_files;

/* All functions may return SG_E_FILE, SG_E_FORMAT, SG_E_UNSUPPORTED and SG_E_MEMORY. The message names file, field and
 * reason. Close after a failure too. */
sg_status sg_bpe_files_open(sg_bpe_files *f, const char *dir, sg_error *e) SG_MUST_USE;
sg_status sg_bpe_files_open_inside(sg_bpe_files *f, const char *path, sg_error *e) SG_MUST_USE; /* of a GGUF */
void      sg_bpe_files_close(sg_bpe_files *f);

/* Says what the model is made of. *out borrows from f. */
sg_status sg_bpe_files_source(const sg_bpe_files *f, sg_bpe_source *out, sg_error *e) SG_MUST_USE;

/* Reads normalizer and splits. */
sg_status sg_bpe_files_rules(const sg_bpe_files *f, sg_bpe_rules *out, sg_error *e) SG_MUST_USE;

/* Reads the ids before and behind every text. */
sg_status sg_bpe_files_fixed(const sg_bpe_files *f, const sg_added_tokens *added, sg_bpe_rules *out,
                             sg_error *e) SG_MUST_USE;

#endif
