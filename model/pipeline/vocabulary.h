/* vocabulary.h - the words that a small model was trained with, and a sentence about what it draws: members "vocabulary" and
 * "world" of the model's sparge-gen.json. Both may be missing.
 *
 * A word is a run of letters, marks and digits, with apostrophes inside it; compatibility forms and case do not matter
 * (NFKC with case folding), and "ball's" counts as "ball". */
#ifndef SG_VOCABULARY_H
#define SG_VOCABULARY_H

#include "config.h"

#include <jansson.h>
#include <stddef.h>

typedef struct sg_vocabulary {
    const char  *world; /* or NULL; c's, of which it was read */
    json_t      *words; /* the keys of this object, folded, in the file's order; NULL: every word is fine */
    const char **list;  /* these keys, and NULL; or NULL */
} sg_vocabulary;

/* Reads both from c, whose error is e. Returns SG_E_FORMAT for a sentence that is blank, longer than 300 bytes or has
 * characters that steer a terminal, for more than 10000 words, and for an entry that is not one word of at most 64
 * bytes. The caller frees, after a failure too. */
sg_status sg_vocabulary_read(sg_vocabulary *out, sg_config *c, sg_error *e) SG_MUST_USE;
void      sg_vocabulary_free(sg_vocabulary *v);

/* Returns how many different words of text, UTF-8, v does not have; 0 without a vocabulary, and where memory is out.
 * The first three are put into list, each with the nearest that v has, if one is near: "'cat'", "'rde' and 'balls'
 * (ball?)", "'cat', 'dog', 'hat' and 2 other words". */
int sg_vocabulary_unknown(const sg_vocabulary *v, const char *text, char *list, size_t size);

#endif
