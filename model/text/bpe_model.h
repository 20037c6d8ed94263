/* bpe_model.h - the vocabulary and the merges of a byte-level tokenizer: words to ids. */
#ifndef SG_BPE_MODEL_H
#define SG_BPE_MODEL_H

#include "t5_tokenizer_model.h"

#include <jansson.h>

typedef struct sg_bpe_merge sg_bpe_merge;

/* Holds a vocabulary and its merges. Zero-initialise it. */
typedef struct sg_bpe_model {
    sg_string_table vocabulary;    /* sorted; ids are 0 to count - 1, each once */
    sg_textbuf      texts;         /* of the vocabulary */
    sg_bpe_merge   *merges;        /* owned; a hash table */
    size_t          mask;          /* its places less 1, a power of two */
    int32_t         first[2][256]; /* the id of a byte, [1] that of a word's last one; -1: none */
    int32_t         unknown;       /* of a byte without an id; -1: such a byte makes no token */
    bool            whole_words;   /* a word of the vocabulary is not merged */
} sg_bpe_model;

/* Holds what a file says of a model. All is borrowed. */
typedef struct sg_bpe_source {
    const char   *where, *merges_where; /* files, for messages */
    const json_t *vocabulary;           /* an object: text to id */
    const json_t *merges;               /* a list of "a b" or ["a", "b"], or NULL: */
    const char   *lines;                /* a merge a line, those that begin with #version left out */
    size_t        lines_size;
    const char   *suffix;  /* of a word's last character; may be "" */
    const char   *unknown; /* the token of a byte without one; NULL: none */
    bool          whole_words;
} sg_bpe_source;

/* Opens the model that a file describes. Returns SG_E_FORMAT or SG_E_MEMORY on failure. The caller closes, after a
 * failure too. */
sg_status sg_bpe_model_open(sg_bpe_model *m, const sg_bpe_source *from, sg_error *e) SG_MUST_USE;
void      sg_bpe_model_close(sg_bpe_model *m);

/* Appends the bytes that n ids stand for; what is no id of the vocabulary stands for none. Returns false when memory runs
 * out. The texts of a model with a suffix keep it. */
bool sg_bpe_model_decode(const sg_bpe_model *m, const int32_t *ids, size_t n, sg_textbuf *out);

/* Lends encoding its memory from word to word. Zero-initialise it. */
typedef struct sg_bpe_work {
    struct sg_bpe_symbol *symbol;
    struct sg_bpe_pair   *heap;
    size_t                symbols, pairs; /* room */
    size_t                count;          /* of the heap */
    sg_textbuf            text;
} sg_bpe_work;

void sg_bpe_work_free(sg_bpe_work *w);

/* Appends the ids of a word of n bytes, in O(n log n). Returns false when memory runs out. */
bool sg_bpe_model_encode(const sg_bpe_model *m, const char *word, size_t n, sg_bpe_work *w, sg_token_ids *ids);

#endif
