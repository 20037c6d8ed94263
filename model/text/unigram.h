/* unigram.h - the Unigram model: a word becomes the pieces whose scores have the greatest sum.
 *
 *   best(0) = 0,  best(j) = max over i < j of best(i) + score(word[i..j))
 *
 * where word[i..j) is a piece, or one character that is no piece and scores `unknown`. Sums are in double, i goes up,
 * at each i pieces go from short to long, and only a strictly greater sum displaces another. Neighbouring unknown
 * characters are one unknown token.
 *
 * Source: Kudo 2018, arXiv:1804.10959; order and ties as in Hugging Face's tokenizers (SentencePiece itself sums in
 * float and so breaks ties in long repetitions otherwise). */
#ifndef SG_UNIGRAM_H
#define SG_UNIGRAM_H

#include "lexicon.h"

typedef struct sg_unigram {
    sg_lexicon pieces;       /* sorted; ids index score */
    double    *score;        /* owned */
    double     unknown;      /* least score - 10 */
    int32_t    unknown_id;   /* -1: an unknown character is an error */
    bool       use_bytes;    /* an unknown token becomes its UTF-8 bytes' pieces where all of them exist */
    int32_t    byte_id[256]; /* -1: no such piece */
} sg_unigram;

/* A growing list of ids. */
typedef struct sg_ids {
    int32_t *at; /* owned */
    size_t   len, cap;
} sg_ids;

bool sg_ids_put(sg_ids *l, int32_t id); /* false: out of memory */

/* Appends the ids of a word of n bytes of UTF-8. Time is n times the longest piece. SG_E_MEMORY; SG_E_FORMAT for an
 * unknown character in a model that has no unknown piece. */
sg_status sg_unigram_encode(const sg_unigram *u, const char *word, size_t n, sg_ids *ids, sg_error *e) SG_MUST_USE;

void sg_unigram_free(sg_unigram *u);

#endif
