/* charsmap.h - the precompiled character map of a SentencePiece model: which strings its normalisation replaces.
 *
 * Layout: u32 size of the trie in bytes; the trie, a Darts double array of u32 units; a pool of NUL-terminated UTF-8
 * strings. The trie maps a key to the offset of its replacement in the pool. All little-endian. A unit holds its label
 * in bits 0-7 (and bit 31, which no label has), "a value follows" in bit 8, and in bits 10-30 the offset of its
 * children, shifted left by 8 more when bit 9 is set.
 *
 * Source: the format is SentencePiece's; the way it is applied is that of Hugging Face's tokenizers, which differs:
 * text is taken by grapheme; one of less than six bytes is replaced as a whole by what its shortest key gives, else its
 * characters one by one. */
#ifndef SG_CHARSMAP_H
#define SG_CHARSMAP_H

#include "textbuf.h"

/* A view of the model's bytes. All zero: nothing is replaced. */
typedef struct sg_charsmap {
    const unsigned char *units;
    size_t               unit_count;
    const char          *pool;
    size_t               pool_size;
} sg_charsmap;

/* Checks the whole map, so that applying it needs no more checks but the bounds of the array. where is for the message.
 * SG_E_FORMAT. An empty blob gives the map that replaces nothing. */
sg_status sg_charsmap_open(sg_charsmap *m, const void *blob, size_t size, const char *where, sg_error *e) SG_MUST_USE;

/* Appends the normal form of valid UTF-8; linear time. */
void sg_charsmap_apply(const sg_charsmap *m, sg_textbuf *out, const char *text, size_t len);

#endif
