/* tokenizer_files.h - the JSON files of a tokenizer folder: tokenizer_config.json, tokenizer.json, special_tokens_map.json and
 * added_tokens.json. Each is optional; the last two occur in older folders only. */
#ifndef SG_TOKENIZER_FILES_H
#define SG_TOKENIZER_FILES_H

#include "status.h"

#include <jansson.h>
#include <stdbool.h>

enum {
    SG_SPECIAL_BOS,
    SG_SPECIAL_EOS,
    SG_SPECIAL_UNK,
    SG_SPECIAL_SEP,
    SG_SPECIAL_PAD,
    SG_SPECIAL_CLS,
    SG_SPECIAL_MASK,
    SG_SPECIALS
};
extern const char *const sg_special_names[SG_SPECIALS]; /* "bos_token", ... */

/* Holds the JSON files of a folder. Zero-initialise it. */
typedef struct sg_tokenizer_files {
    const char *dir;                                  /* borrowed; for messages */
    json_t     *config, *tokenizer, *special, *added; /* owned; NULL where there is no such file */
    bool        has_decoder;                          /* tokenizer_config.json has added_tokens_decoder */
    bool        t5_rules;                             /* see t5_tokenizer_config.h */
    /* The class makes the tokenizer itself: of tokenizer.json only the vocabulary counts, and the list of added tokens where
     * no other file has one. */
    bool rebuilt;
    /* [SG_SPECIALS] are the class's special tokens, NULL for those that it lacks. NULL means that it has none. */
    const char *const *defaults;
} sg_tokenizer_files;

/* Reads the files in dir, of which special_tokens_map.json and added_tokens.json count without added_tokens_decoder
 * only. Returns SG_E_FILE, SG_E_FORMAT or SG_E_MEMORY; the message names file, field and reason. A duplicate key is an
 * error. Integers are reals, since a model_max_length of 10^30 is common. The caller closes, after a failure too. */
sg_status sg_tokenizer_files_open(sg_tokenizer_files *c, const char *dir, sg_error *e) SG_MUST_USE;
void      sg_tokenizer_files_close(sg_tokenizer_files *c);

/* Loads one more JSON object of the folder; *out stays NULL when there is no such file. */
sg_status sg_tokenizer_files_load(const sg_tokenizer_files *c, const char *name, json_t **out, sg_error *e) SG_MUST_USE;

/* Returns whether the object's type is this one. */
bool sg_tokenizer_files_is(const json_t *object, const char *type);

/* Returns whether value is an integer from 0 to max, and then sets *out to it. */
bool sg_tokenizer_files_int(const json_t *value, int max, int *out);

/* Sets *count to the number of <extra_id_...> tokens, for folders of T5 that do not list them. */
sg_status sg_tokenizer_files_extra_ids(const sg_tokenizer_files *c, int *count, sg_error *e) SG_MUST_USE;

/* Returns the value of a special token such as "eos_token": a string, or an object with its content. It is NULL where
 * no file has it. */
const json_t *sg_tokenizer_files_special(const sg_tokenizer_files *c, const char *name);

/* Returns the text of the special token of that number: that of the files, else that of the class; NULL where it has
 * none. */
const char *sg_tokenizer_files_special_text(const sg_tokenizer_files *c, int special);

#endif
