/* t5_tokenizer_model.h - what spiece.model holds, a SentencePiece model in protobuf: its pieces, its character map, and
 * the Unigram model that the pieces make. It reads no other file.
 *
 * Data flow: sg_sentencepiece_file (the pieces as they are in the file) -> sg_unigram (sorted pieces, scores; filled by
 * t5_tokenizer_config) -> sg_unigram_encode (a word to ids). sg_charsmap normalises the text before that. */
#ifndef SG_T5_TOKENIZER_MODEL_H
#define SG_T5_TOKENIZER_MODEL_H

#include "base/file.h"
#include "base/text.h"

/* ---- spiece.model ----
 *
 * The reader takes ModelProto.pieces (piece, score, type), trainer_spec.model_type and
 * normalizer_spec.precompiled_charsmap. It checks the framing of all other fields and skips them.
 * Source: sentencepiece_model.proto. */

/* SentencePiece's trainer makes pieces of at most 16 characters by default. */
enum { SG_PIECE_MAX_BYTES = 512 };

typedef enum sg_sentencepiece_type {
    SG_PIECE_NORMAL = 1,
    SG_PIECE_UNKNOWN,
    SG_PIECE_CONTROL,
    SG_PIECE_USER,
    SG_PIECE_UNUSED,
    SG_PIECE_BYTE
} sg_sentencepiece_type;

typedef struct sg_sentencepiece {
    const char           *text; /* len bytes of UTF-8 in the file, at least one, no NUL among them */
    size_t                len;
    float                 score; /* finite; the logarithm of a probability */
    sg_sentencepiece_type type;
} sg_sentencepiece;

/* The id of a piece is its index. Zero-initialise. Texts and map point into the bytes of the file. */
typedef struct sg_sentencepiece_file {
    sg_map            file;   /* owned */
    sg_sentencepiece *pieces; /* owned */
    size_t            count, cap;
    const char       *charsmap; /* see sg_charsmap; charsmap_size 0: the model has none */
    size_t            charsmap_size;
    bool              complete; /* a field follows the pieces; in a model that was cut short none does */
} sg_sentencepiece_file;

/* Reads the file at path. Returns SG_E_FILE, SG_E_FORMAT with path, place and reason in the message, SG_E_UNSUPPORTED
 * for a model that is not Unigram, or SG_E_MEMORY. Two pieces may still have the same text; sg_string_table_sort finds
 * those. */
sg_status sg_sentencepiece_file_open(sg_sentencepiece_file *m, const char *path, sg_error *e) SG_MUST_USE;
/* Does the same for its bytes, which outlive m. */
sg_status sg_sentencepiece_file_read(sg_sentencepiece_file *m, const void *data, size_t size, const char *path,
                                     sg_error *e) SG_MUST_USE;
void      sg_sentencepiece_file_close(sg_sentencepiece_file *m);

/* Returns what is wrong with a piece, or NULL. */
const char *sg_sentencepiece_fault(const sg_sentencepiece *p);

/* ---- character map ----
 *
 * The precompiled character map says which strings the normalisation replaces. Layout: u32 size of the trie in bytes;
 * the trie, a Darts double array of u32 units; a pool of NUL-terminated UTF-8 strings. Everything is little-endian. The
 * trie maps a key to the offset of its replacement in the pool. A unit holds its label in bits 0-7, "a value
 * follows" in bit 8, and the offset of its children in bits 10-30. Bit 9 shifts that offset left by 8 more. Bit 31
 * marks a unit that is a value.
 *
 * Source: the format is SentencePiece's. The map is applied as in Hugging Face's tokenizers, which differs: they take
 * text by grapheme. They replace a grapheme of less than six bytes as a whole by what its shortest key gives, or else
 * its characters one by one. */

/* This is a view of the model's bytes. All zero means that nothing is replaced. */
typedef struct sg_charsmap {
    const unsigned char *units;
    size_t               unit_count;
    const char          *pool;
    size_t               pool_size;
} sg_charsmap;

/* Checks the whole map. sg_charsmap_apply then has only the bounds of the array to check. An empty blob gives the map
 * that replaces nothing. `where` begins the message. Returns SG_E_FORMAT on failure. */
sg_status sg_charsmap_open(sg_charsmap *m, const void *blob, size_t size, const char *where, sg_error *e) SG_MUST_USE;

/* Appends the normal form of valid UTF-8, in linear time. */
void sg_charsmap_apply(const sg_charsmap *m, sg_textbuf *out, const char *text, size_t len);

/* ---- string table ---- */

typedef struct sg_string_entry {
    const char *text; /* borrowed; len bytes, at least 1 */
    size_t      len;
    int32_t     id;
} sg_string_entry;

/* This is a sorted list of byte strings. Zero-initialise it, add, sort once, search. */
typedef struct sg_string_table {
    sg_string_entry *entries; /* owned */
    size_t           count, cap;
    size_t           first[257]; /* entries first[b] to first[b + 1] - 1 begin with byte b */
} sg_string_table;

bool sg_string_table_add(sg_string_table *t, sg_string_entry w); /* false: out of memory */

/* Returns the index of an entry whose text equals that of the entry before it, or count when all texts differ. */
size_t sg_string_table_sort(sg_string_table *t);
void   sg_string_table_free(sg_string_table *t);

/* Returns the entry with exactly this text, or NULL. */
const sg_string_entry *sg_string_table_find(const sg_string_table *t, const char *text, size_t len);

/* Returns the longest entry that s begins with, or NULL. */
const sg_string_entry *sg_string_table_longest(const sg_string_table *t, const char *s, size_t n);

/* ---- Unigram model ----
 *
 * A word becomes the pieces whose scores have the greatest sum (Viterbi):
 *
 *   best(0) = 0,  best(j) = max over i < j of best(i) + score(word[i..j))
 *
 * word[i..j) is a piece, or one character that is no piece; such a character scores unknown_score. Sums are in double.
 * i goes up. At each i the pieces go from short to long. Only a strictly greater sum replaces another one. Consecutive
 * unknown characters become one unknown token.
 *
 * Source: Kudo 2018, arXiv:1804.10959. Order and ties are those of Hugging Face's tokenizers. SentencePiece itself sums
 * in float and breaks ties in long repetitions in another way. */

typedef struct sg_unigram {
    sg_string_table pieces;        /* sorted; ids index score */
    double         *score;         /* owned */
    double          unknown_score; /* least score - 10 */
    int32_t         unknown_id;    /* -1: an unknown character is an error */
    bool            byte_fallback; /* an unknown token becomes the pieces of its UTF-8 bytes, if all of them exist */
    int32_t         byte_id[256];  /* -1: no such piece */
} sg_unigram;

/* This is a growing list of ids. */
typedef struct sg_token_ids {
    int32_t *at; /* owned */
    size_t   len, cap;
} sg_token_ids;

bool sg_token_ids_append(sg_token_ids *l, int32_t id); /* false: out of memory */

/* Appends the ids of a word of n bytes of UTF-8. The time is n times the longest piece. Returns SG_E_MEMORY, or
 * SG_E_FORMAT for an unknown character in a model that has no unknown piece. */
sg_status sg_unigram_encode(const sg_unigram *u, const char *word, size_t n, sg_token_ids *ids,
                            sg_error *e) SG_MUST_USE;

void sg_unigram_free(sg_unigram *u);

#endif
