/* lexicon.h - a sorted list of byte strings that is searched prefix by prefix.
 *
 *   sg_lexicon_range r = sg_lexicon_all(&l);
 *   for (size_t i = 0; i < n && sg_lexicon_step(&l, &r, i, s[i]); i++)
 *       if ((w = sg_lexicon_exact(&l, r, i + 1))) ...   w spells s[0..i]
 */
#ifndef SG_LEXICON_H
#define SG_LEXICON_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_word {
    const char *text; /* borrowed; len bytes, at least 1 */
    size_t      len;
    int32_t     id;
} sg_word;

typedef struct sg_lexicon {
    sg_word *words; /* owned */
    size_t   count, cap;
    size_t   first[257]; /* words that begin with byte b are first[b] to first[b + 1] - 1 */
} sg_lexicon;

typedef struct sg_lexicon_range {
    size_t lo, hi;
} sg_lexicon_range;

/* Zero-initialise, add, sort once, search. Adding the same text twice is for the caller to avoid or to find: sort
 * returns the index of a word that equals the one before it, or count. */
bool   sg_lexicon_add(sg_lexicon *l, sg_word w); /* false: out of memory */
size_t sg_lexicon_sort(sg_lexicon *l);
void   sg_lexicon_free(sg_lexicon *l);

sg_lexicon_range sg_lexicon_all(const sg_lexicon *l);

/* r holds the words that share their first depth bytes; keeps those whose next byte is c. False when none is left. */
bool sg_lexicon_step(const sg_lexicon *l, sg_lexicon_range *r, size_t depth, char c);

/* The word of exactly len bytes in r, whose words share their first len bytes; NULL when there is none. */
const sg_word *sg_lexicon_exact(const sg_lexicon *l, sg_lexicon_range r, size_t len);

const sg_word *sg_lexicon_find(const sg_lexicon *l, const char *text, size_t len);

/* The longest word that s begins with, or NULL. */
const sg_word *sg_lexicon_longest(const sg_lexicon *l, const char *s, size_t n);

#endif
