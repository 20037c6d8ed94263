/* spiece.h - reads spiece.model, a SentencePiece model in protobuf.
 *
 * Read are ModelProto.pieces (piece, score, type), trainer_spec.model_type and normalizer_spec.precompiled_charsmap;
 * all else is checked for sound framing and skipped. Source: sentencepiece_model.proto. */
#ifndef SG_SPIECE_H
#define SG_SPIECE_H

#include "textbuf.h"

enum {
    SG_SPIECE_MAX_BYTES = 64 << 20,
    SG_SPIECE_MAX_PIECE = 512, /* bytes; SentencePiece's trainer makes pieces of at most 16 characters unless told */
};

typedef enum sg_spiece_type {
    SG_SPIECE_NORMAL = 1,
    SG_SPIECE_UNKNOWN,
    SG_SPIECE_CONTROL,
    SG_SPIECE_USER,
    SG_SPIECE_UNUSED,
    SG_SPIECE_BYTE
} sg_spiece_type;

typedef struct sg_spiece_piece {
    const char    *text; /* len bytes of UTF-8 in the file, at least one, no NUL among them */
    size_t         len;
    float          score; /* finite; the logarithm of a probability */
    sg_spiece_type type;
} sg_spiece_piece;

/* Its id is a piece's index. Zero-initialise; owns the file's bytes, into which everything else points. */
typedef struct sg_spiece {
    sg_textbuf       file;
    sg_spiece_piece *pieces;
    size_t           count, cap;
    const char      *charsmap; /* see charsmap.h; charsmap_size 0: none */
    size_t           charsmap_size;
    bool             finished; /* something follows the pieces, as in every model that was not cut short */
} sg_spiece;

/* SG_E_FILE; SG_E_FORMAT, which names path, place and reason; SG_E_UNSUPPORTED for a model that is not Unigram. Pieces
 * may still repeat one another: who sorts them notices. */
sg_status sg_spiece_open(sg_spiece *m, const char *path, sg_error *e) SG_MUST_USE;
void      sg_spiece_close(sg_spiece *m);

#endif
