/* added.h - the tokens of a tokenizer that are cut out of the text before anything else: "</s>", "<extra_id_0>", ...
 *
 * Of those that fit at a place the longest is taken; one marked single_word only where no word character (Unicode's
 * letters, marks, decimal digits, connectors, joiners) touches it. Tokens marked normalized are looked for in the
 * normalised text, the others in the raw text. lstrip and rstrip only eat white space, which makes no tokens anyway. */
#ifndef SG_ADDED_H
#define SG_ADDED_H

#include "charsmap.h"
#include "lexicon.h"

enum { SG_ADDED_MAX = 16384 }; /* tokens */

typedef struct sg_added_spec {
    const char *text; /* len bytes of UTF-8 */
    size_t      len;
    bool        single_word, normalized;
} sg_added_spec;

typedef struct sg_added_token {
    char   *text; /* owned; len bytes, at least one, then NUL */
    size_t  len;
    int32_t id;
    bool    single_word, normalized;
} sg_added_token;

/* Zero-initialise, put, finish, search. */
typedef struct sg_added {
    sg_added_token *tokens; /* owned; in the order in which they were put */
    size_t          count, cap;
    int32_t         next_id;     /* what a token that the vocabulary lacks gets; set it before the first put */
    sg_lexicon      raw, normal; /* ids index tokens */
    sg_textbuf      normal_texts;
} sg_added;

/* Puts a token with the id that its text has in vocabulary, or else the next id. A text put before is left as it is.
 * SG_E_MEMORY; SG_E_FORMAT when it is empty; SG_E_UNSUPPORTED past SG_ADDED_MAX. where is for the message. */
sg_status sg_added_put(sg_added *a, const sg_lexicon *vocabulary, sg_added_spec token, const char *where,
                       sg_error *e) SG_MUST_USE;

sg_status sg_added_finish(sg_added *a, const sg_charsmap *map, sg_error *e) SG_MUST_USE;
void      sg_added_free(sg_added *a);

/* The token with that text, or NULL; before and after finishing. */
const sg_added_token *sg_added_find(const sg_added *a, const char *text, size_t len);

/* The first token in text[*at..len): moves *at to where it begins and gives its bytes there. NULL when there is none.
 */
const sg_added_token *sg_added_next(const sg_added *a, bool normalized, const char *text, size_t len, size_t *at,
                                    size_t *bytes);

#endif
