/* bpe_encoder.c - Llama or CLIP and its tokenizer as one text encoder. */
#include "bpe_tokenizer.h"
#include "clip_text.h"
#include "llama.h"

#include <stdlib.h>

typedef struct bpe_encoder {
    sg_bpe_tokenizer *tokenizer;
    sg_llama         *llama; /* one of the two */
    sg_clip_text     *clip;
} bpe_encoder;

static sg_status tokenize(const void *of, const char *text, size_t size, int max, int32_t **ids, int *count,
                          sg_error *e)
{
    return sg_bpe_tokenizer_encode(((const bpe_encoder *)of)->tokenizer, text, size, max, ids, count, e);
}

static int32_t pad(const void *of) { return sg_bpe_tokenizer_pad(((const bpe_encoder *)of)->tokenizer); }

static void encoder_close(void *of)
{
    bpe_encoder *const t = of;
    sg_llama_close(&t->llama);
    sg_clip_text_close(&t->clip);
    sg_bpe_tokenizer_close(&t->tokenizer);
    free(t);
}

static sg_component *llama_component(void *of) { return sg_llama_component(((bpe_encoder *)of)->llama); }

static int llama_width(const void *of) { return sg_llama_describe(((const bpe_encoder *)of)->llama).width; }

static void llama_encode(const void *of, sg_stream *s, sg_tensor y, sg_tensor row, const int32_t *ids, int n)
{
    (void)row;
    sg_llama_encode(((const bpe_encoder *)of)->llama, s, y, ids, n);
}

static const sg_text_encoder_ops llama_ops = {.component = llama_component,
                                              .width = llama_width,
                                              .tokenize = tokenize,
                                              .pad = pad,
                                              .encode = llama_encode,
                                              .close = encoder_close};

static sg_component *clip_component(void *of) { return sg_clip_text_component(((bpe_encoder *)of)->clip); }

static int clip_width(const void *of) { return sg_clip_text_describe(((const bpe_encoder *)of)->clip).width; }

static int clip_pooled(const void *of) { return sg_clip_text_describe(((const bpe_encoder *)of)->clip).pooled; }

static void clip_encode(const void *of, sg_stream *s, sg_tensor y, sg_tensor row, const int32_t *ids, int n)
{
    sg_clip_text_encode(((const bpe_encoder *)of)->clip, s, y, row, ids, n);
}

static const sg_text_encoder_ops clip_ops = {.component = clip_component,
                                             .width = clip_width,
                                             .pooled = clip_pooled,
                                             .tokenize = tokenize,
                                             .pad = pad,
                                             .encode = clip_encode,
                                             .close = encoder_close};

/* Opens the tokenizer of text encoder `name`, in whose file it may be. */
static sg_status open_tokenizer(bpe_encoder *t, const sg_checkpoint *c, const char *name, const char *tokenizer,
                                int rows, sg_error *e)
{
    char path[1100], weights[1100];
    SG_TRY(sg_checkpoint_place(c, tokenizer, path, sizeof path, e));
    SG_TRY(sg_checkpoint_place(c, name, weights, sizeof weights, e));
    if (strcmp(path, weights) == 0)
        SG_TRY(sg_bpe_tokenizer_open_inside(&t->tokenizer, path, e));
    else
        SG_TRY(sg_bpe_tokenizer_open_padded(&t->tokenizer, path, sg_checkpoint_pad(c, tokenizer), e));
    const int ids = sg_bpe_tokenizer_vocab(t->tokenizer);
    if (ids <= rows) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: the tokenizer has %d ids, but the text encoder's table only %d rows", path,
                        ids, rows);
}

/* Hands over t, which is closed after a failure. */
static sg_status finish(sg_text_encoder *out, bpe_encoder *t, const sg_text_encoder_ops *ops, sg_status status)
{
    if (status)
        encoder_close(t);
    else
        *out = (sg_text_encoder){.ops = ops, .of = t};
    return status;
}

sg_status sg_llama_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name, const char *tokenizer,
                                int skip, sg_dtype act, sg_error *e)
{
    bpe_encoder *const t = calloc(1, sizeof *t);
    *out = (sg_text_encoder){0};
    if (!t) return sg_error_set(e, SG_E_MEMORY, "no memory for %s", name);
    sg_status status = sg_llama_open(&t->llama, c, name, skip, act, e);
    if (status == SG_OK) status = open_tokenizer(t, c, name, tokenizer, sg_llama_describe(t->llama).vocab, e);
    return finish(out, t, &llama_ops, status);
}

sg_status sg_clip_text_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name,
                                    const char *tokenizer, bool projected, int skip, sg_dtype act, sg_error *e)
{
    bpe_encoder *const t = calloc(1, sizeof *t);
    *out = (sg_text_encoder){0};
    if (!t) return sg_error_set(e, SG_E_MEMORY, "no memory for %s", name);
    sg_status status = sg_clip_text_open(&t->clip, c, name, projected, skip, act, e);
    if (status == SG_OK) status = open_tokenizer(t, c, name, tokenizer, sg_clip_text_describe(t->clip).vocab, e);
    return finish(out, t, &clip_ops, status);
}
