/* text_encoder.c - T5, a decoder or CLIP and its tokenizer as one text encoder. */
#include "bpe_tokenizer.h"
#include "clip_text.h"
#include "decoder.h"
#include "t5.h"
#include "t5_tokenizer.h"

#include <stdlib.h>
#include <string.h>

typedef struct encoder {
    sg_t5_tokenizer  *pieces; /* of T5 */
    sg_bpe_tokenizer *bytes;  /* of the others */
    sg_t5            *t5;     /* one of the three */
    sg_decoder       *decoder;
    sg_clip_text     *clip;
} encoder;

static sg_status tokenize(const void *of, const char *text, size_t size, int max, int32_t **ids, int *count,
                          sg_error *e)
{
    const encoder *const t = of;
    if (t->pieces) return sg_t5_tokenizer_encode(t->pieces, text, size, max, ids, count, e);
    return sg_bpe_tokenizer_encode(t->bytes, text, size, max, ids, count, e);
}

static int32_t pad(const void *of)
{
    const encoder *const t = of;
    return t->pieces ? sg_t5_tokenizer_pad(t->pieces) : sg_bpe_tokenizer_pad(t->bytes);
}

static sg_component *component(void *of)
{
    encoder *const t = of;
    return t->t5        ? sg_t5_component(t->t5)
           : t->decoder ? sg_decoder_component(t->decoder)
                        : sg_clip_text_component(t->clip);
}

static int width(const void *of)
{
    const encoder *const t = of;
    if (t->t5) return sg_t5_describe(t->t5).width;
    return t->decoder ? sg_decoder_describe(t->decoder).width : sg_clip_text_describe(t->clip).width;
}

static int pooled(const void *of) { return sg_clip_text_describe(((const encoder *)of)->clip).pooled; }

static void encode(const void *of, sg_stream *s, sg_tensor y, sg_tensor row, const int32_t *ids, int n)
{
    const encoder *const t = of;
    if (t->t5) sg_t5_encode(t->t5, s, y, ids, n);
    if (t->decoder) sg_decoder_encode(t->decoder, s, y, ids, n);
    if (t->clip) sg_clip_text_encode(t->clip, s, y, row, ids, n);
}

static void encoder_close(void *of)
{
    encoder *const t = of;
    sg_t5_close(&t->t5);
    sg_decoder_close(&t->decoder);
    sg_clip_text_close(&t->clip);
    sg_t5_tokenizer_close(&t->pieces);
    sg_bpe_tokenizer_close(&t->bytes);
    free(t);
}

#define OPS .component = component, .width = width, .tokenize = tokenize, .pad = pad, .encode = encode
static const sg_text_encoder_ops of_tokens = {OPS, .close = encoder_close};
static const sg_text_encoder_ops of_texts = {OPS, .close = encoder_close, .pooled = pooled};

/* Opens the tokenizer of text encoder `name`, in whose file it may be. It must have from `least` to `rows` ids. */
static sg_status open_tokenizer(encoder *t, const sg_checkpoint *c, const char *name, const char *tokenizer, int least,
                                int rows, sg_error *e)
{
    char path[1100], weights[1100];
    SG_TRY(sg_checkpoint_place(c, tokenizer, path, sizeof path, e));
    SG_TRY(sg_checkpoint_place(c, name, weights, sizeof weights, e));
    const bool inside = strcmp(path, weights) == 0;
    if (t->t5)
        SG_TRY((inside ? sg_t5_tokenizer_open_inside : sg_t5_tokenizer_open)(&t->pieces, path, e));
    else if (inside)
        SG_TRY(sg_bpe_tokenizer_open_inside(&t->bytes, path, e));
    else
        SG_TRY(sg_bpe_tokenizer_open_padded(&t->bytes, path, sg_checkpoint_pad(c, tokenizer), e));
    const int ids = t->t5 ? sg_t5_tokenizer_vocab(t->pieces) : sg_bpe_tokenizer_vocab(t->bytes);
    if (ids >= least && ids <= rows) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: the tokenizer has %d ids, but the table of the text encoder %s %s%d rows",
                        path, ids, weights, ids > rows ? "only " : "has ", rows);
}

/* Hands over t, which is closed after a failure. */
static sg_status finish(sg_text_encoder *out, encoder *t, sg_status status)
{
    if (status)
        encoder_close(t);
    else
        *out = (sg_text_encoder){.ops = t->clip ? &of_texts : &of_tokens, .of = t};
    return status;
}

static encoder *start(sg_text_encoder *out, const char *name, sg_error *e)
{
    encoder *const t = calloc(1, sizeof *t);
    *out = (sg_text_encoder){0};
    if (!t) (void)sg_error_set(e, SG_E_MEMORY, "no memory for %s", name);
    return t;
}

sg_status sg_t5_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name, const char *tokenizer,
                             sg_dtype act, sg_error *e)
{
    encoder *const t = start(out, name, e);
    if (!t) return SG_E_MEMORY;
    sg_status status = sg_t5_open(&t->t5, c, name, act, e);
    const int rows = status ? 0 : sg_t5_describe(t->t5).vocab;
    /* T5 has 32,000, UMT5 256,000: one is not the other's */
    if (status == SG_OK) status = open_tokenizer(t, c, name, tokenizer, rows / 2 + 1, rows, e);
    return finish(out, t, status);
}

sg_status sg_decoder_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name, const char *tokenizer,
                                  int skip, sg_dtype act, sg_error *e)
{
    encoder *const t = start(out, name, e);
    if (!t) return SG_E_MEMORY;
    sg_status status = sg_decoder_open(&t->decoder, c, name, skip, false, act, e);
    if (status == SG_OK) status = open_tokenizer(t, c, name, tokenizer, 0, sg_decoder_describe(t->decoder).vocab, e);
    return finish(out, t, status);
}

sg_status sg_clip_text_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name,
                                    const char *tokenizer, bool projected, int skip, sg_dtype act, sg_error *e)
{
    encoder *const t = start(out, name, e);
    if (!t) return SG_E_MEMORY;
    sg_status status = sg_clip_text_open(&t->clip, c, name, projected, skip, act, e);
    if (status == SG_OK) status = open_tokenizer(t, c, name, tokenizer, 0, sg_clip_text_describe(t->clip).vocab, e);
    return finish(out, t, status);
}
