/* score.h - how the products of score and tail_bias are made at a level, apart from what becomes of them
 * (vec_score.c).
 *
 * A head of keys is packed in chunks of SG_SCORE_VECTORS vectors of columns: sub-blocks of SG_LANES neighbouring
 * blocks, their first ones, their second ones and so on, so that what belongs to a block is added vector by vector;
 * or whole blocks. A strip is some rows of one head of queries. Its products with a chunk stay in the first-level
 * cache until they are weights. */
#ifndef SG_SCORE_H
#define SG_SCORE_H

#include "vec.h"

enum { SG_SCORE_VECTORS = 4, SG_SCORE_COLS = SG_SCORE_VECTORS * SG_LANES };

/* Rows of products that wait to become weights: `run` does so with the next of them, if any are left. */
typedef struct sg_score_softmax sg_score_softmax;
struct sg_score_softmax {
    void (*run)(sg_score_softmax *w, int64_t rows);
    const void *strip;
    float      *s; /* [rows][SG_SCORE_COLS] */
    int64_t     chunk, row, rows;
    bool        limited; /* some columns of the chunk are not scored */
};

/* All numbers are F32 or, where a form says so, the form's own. `wide` is d rounded up to the form's depth. */
typedef struct sg_score_form {
    int64_t rows;             /* of a strip: whole blocks of eight sub-blocks */
    int64_t depth;            /* channels that are multiplied together */
    int64_t k_bytes;          /* of a packed number of k */
    int64_t x_bytes;          /* of a packed number of a strip, which is packed if that is not 0 */
    bool    overlaps_softmax; /* product softens what waits, else each chunk is softened after its products */
    void (*pack)(void *panel, const float *const *from, int64_t d, int64_t wide); /* SG_SCORE_COLS columns */
    void (*pack_strip)(void *to, const float *x, int64_t lda, int64_t wide);      /* x has zeros behind d */
    /* s = x panel^T, `vectors` vectors of columns; x: the packed strip, or without packing its rows, lda apart */
    void (*matmul)(float *s, const void *x, int64_t lda, const void *panel, int64_t vectors, int64_t wide,
                   sg_score_softmax *w);
    void (*open)(void), (*close)(void); /* around the products of a strip; NULL: nothing */
} sg_score_form;

/* score and tail_bias with the products of a form, by the vectors of a level. */
#define X(level)                                                                                                       \
    sg_status sg_vec_score_##level(sg_stream *s, const sg_score_args *a, const sg_score_form *f);                      \
    sg_status sg_vec_tail_bias_##level(sg_stream *s, const sg_tail_bias_args *a, const sg_score_form *f);
X(base)
X(avx2)
X(avx512)
#undef X

#endif
