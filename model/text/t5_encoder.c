/* t5_encoder.c - a T5 encoder and its tokenizer as one text encoder. */
#include "t5.h"
#include "t5_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct t5_encoder {
    sg_t5_tokenizer *tokenizer;
    sg_t5           *t5;
} t5_encoder;

static sg_component *component(void *of) { return sg_t5_component(((t5_encoder *)of)->t5); }

static int width(const void *of) { return sg_t5_describe(((const t5_encoder *)of)->t5).width; }

static sg_status tokenize(const void *of, const char *text, size_t size, int max, int32_t **ids, int *count,
                          sg_error *e)
{
    return sg_t5_tokenizer_encode(((const t5_encoder *)of)->tokenizer, text, size, max, ids, count, e);
}

static int32_t pad(const void *of) { return sg_t5_tokenizer_pad(((const t5_encoder *)of)->tokenizer); }

static void encode(const void *of, sg_stream *s, sg_tensor y, sg_tensor row, const int32_t *ids, int n)
{
    (void)row;
    sg_t5_encode(((const t5_encoder *)of)->t5, s, y, ids, n);
}

static void encoder_close(void *of)
{
    t5_encoder *const t = of;
    sg_t5_close(&t->t5);
    sg_t5_tokenizer_close(&t->tokenizer);
    free(t);
}

static const sg_text_encoder_ops ops = {
    .component = component, .width = width, .tokenize = tokenize, .pad = pad, .encode = encode, .close = encoder_close};

static sg_status open_both(t5_encoder *t, const sg_checkpoint *c, const char *name, const char *tokenizer, sg_dtype act,
                           sg_error *e)
{
    char path[1100], weights[1100];
    SG_TRY(sg_checkpoint_place(c, tokenizer, path, sizeof path, e));
    SG_TRY(sg_checkpoint_place(c, name, weights, sizeof weights, e));
    if (strcmp(path, weights) == 0)
        SG_TRY(sg_t5_tokenizer_open_inside(&t->tokenizer, path, e));
    else
        SG_TRY(sg_t5_tokenizer_open(&t->tokenizer, path, e));
    SG_TRY(sg_t5_open(&t->t5, c, name, act, e));
    const int ids = sg_t5_tokenizer_vocab(t->tokenizer), rows = sg_t5_describe(t->t5).vocab;
    if (ids <= rows && ids > rows / 2) return SG_OK; /* T5 has 32,000, UMT5 256,000: one is not the other's */
    return sg_error_set(e, SG_E_FORMAT, "%s: the tokenizer has %d ids, but the table of the text encoder %s %s%d rows",
                        path, ids, weights, ids > rows ? "only " : "has ", rows);
}

sg_status sg_t5_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name, const char *tokenizer,
                             sg_dtype act, sg_error *e)
{
    t5_encoder *const t = calloc(1, sizeof *t);
    *out = (sg_text_encoder){0};
    if (!t) return sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(c), name);
    const sg_status st = open_both(t, c, name, tokenizer, act, e);
    if (st)
        encoder_close(t);
    else
        *out = (sg_text_encoder){.ops = &ops, .of = t};
    return st;
}
