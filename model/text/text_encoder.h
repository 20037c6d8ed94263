/* text_encoder.h - what the engine asks of a text encoder together with its tokenizer: one table of functions each. */
#ifndef SG_TEXT_ENCODER_H
#define SG_TEXT_ENCODER_H

#include "component.h"
#include "op.h"

typedef struct sg_text_encoder_ops {
    sg_component *(*component)(void *of); /* its weights, which the engine loads before encode */
    int (*width)(const void *of);
    /* pooled returns how many numbers the row has that stands for a whole text. NULL means that the encoder makes
     * none. */
    int (*pooled)(const void *of);

    /* tokenize makes at most max ids of size bytes of UTF-8; *ids is the caller's to free. On failure both are
     * untouched. */
    sg_status (*tokenize)(const void *of, const char *text, size_t size, int max, int32_t **ids, int *count,
                          sg_error *e);
    /* pad returns the id that fills a text up where all are to have one length. It is negative where the tokenizer has
     * none. */
    int32_t (*pad)(const void *of);
    /* encode computes y F32 [n, width], the states of n tokens whose ids are on the host, and row F32 [1, pooled], the
     * row of the whole text, which is absent where there is none. It uses s->scratch and leaves nothing in it; failures
     * are latched in s. On a plan ids are zeros. */
    void (*encode)(const void *of, sg_stream *s, sg_tensor y, sg_tensor row, const int32_t *ids, int n);
    void (*close)(void *of);
} sg_text_encoder_ops;

typedef struct sg_text_encoder {
    const sg_text_encoder_ops *ops; /* NULL: none */
    void                      *of;  /* owned by whoever opened it: ops->close */
} sg_text_encoder;

/* Closes t, which may have no ops. */
static inline void sg_text_encoder_close(const sg_text_encoder *t)
{
    if (t->ops) t->ops->close(t->of);
}

#endif
