/* score.h - the matmul of score and tail_bias at a level; vec_score.c has what follows it.
 *
 * A head of keys is packed in chunks of SG_SCORE_VECTORS vectors of columns. A column is a whole block, or a sub-block:
 * then a vector has the first sub-blocks of SG_LANES neighbouring blocks, the next vector their second ones, and so on,
 * so that a block's sum is a sum of vectors. A strip is some rows of one head of queries. Its scores with a chunk stay
 * in the L1 cache until they are weights. */
#ifndef SG_SCORE_H
#define SG_SCORE_H

#include "vec.h"

enum { SG_SCORE_VECTORS = 4, SG_SCORE_COLS = SG_SCORE_VECTORS * SG_LANES };

/* Holds rows of scores that are not yet weights. `run` converts the next `rows` of them. */
typedef struct sg_score_softmax sg_score_softmax;
struct sg_score_softmax {
    void (*run)(sg_score_softmax *w, int64_t rows);
    const void *strip;
    float      *s; /* [rows][SG_SCORE_COLS] */
    int64_t     chunk, row, rows;
    bool        limited; /* some columns of the chunk have no score */
};

/* Describes one form of the matmul. Numbers are F32, or of the form's own type. `wide` is d rounded up to the form's
 * depth. */
typedef struct sg_score_form {
    int64_t rows;             /* of a strip: whole blocks of eight sub-blocks */
    int64_t depth;            /* channels of one multiply */
    int64_t k_bytes;          /* of a packed number of k */
    int64_t x_bytes;          /* of a packed number of a strip; 0: the strip is not packed */
    bool    overlaps_softmax; /* matmul runs the softmax of the last chunk beside itself; else it follows each chunk */
    void (*pack)(void *panel, const float *const *from, int64_t d, int64_t wide); /* SG_SCORE_COLS columns */
    void (*pack_strip)(void *to, const float *x, int64_t lda, int64_t wide);      /* x has zeros beyond d */
    /* Computes s = x panel^T for `vectors` vectors of columns. x is the packed strip; without packing it has the
     * strip's rows, lda apart. */
    void (*matmul)(float *s, const void *x, int64_t lda, const void *panel, int64_t vectors, int64_t wide,
                   sg_score_softmax *w);
    void (*open)(void), (*close)(void); /* called before and after the matmuls of a strip; NULL: none */
} sg_score_form;

/* These compute score and tail_bias with the matmul of a form, by the vectors of a level. */
#define X(level)                                                                                                       \
    sg_status sg_vec_score_##level(sg_stream *s, const sg_score_args *a, const sg_score_form *f);                      \
    sg_status sg_vec_tail_bias_##level(sg_stream *s, const sg_tail_bias_args *a, const sg_score_form *f);
X(base)
X(avx2)
X(avx512)
#undef X

#endif
