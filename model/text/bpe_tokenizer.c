/* bpe_tokenizer.c - see bpe_tokenizer.h. */
#include "bpe_tokenizer.h"
#include "base/array.h"
#include "base/utf8.h"
#include "bpe_files.h"
#include "nfc.h"
#include "prompt_clean.h"

#include <stdlib.h>
#include <string.h>

struct sg_bpe_tokenizer {
    sg_bpe_rules    rules;
    sg_bpe_model    model;
    sg_added_tokens added;
    int32_t         pad;
};

/* ---- normalizer ---- */

/* Lower case, a character by itself; white space as one space. */
static void fold(const sg_bpe_rules *r, sg_textbuf *out, const char *text, size_t len)
{
    enum { CAPITAL_I_DOT = 0x130, DOT_ABOVE = 0x307 };
    bool after_space = false;
    for (size_t i = 0; i < len;) {
        int32_t c;
        i += sg_utf8_next(text + i, len - i, &c);
        const bool space = r->one_space && sg_utf8_is_space(c);
        if (!space || !after_space) sg_textbuf_put_char(out, space ? ' ' : r->lower ? utf8proc_tolower(c) : c);
        if (r->lower && c == CAPITAL_I_DOT) sg_textbuf_put_char(out, DOT_ABOVE);
        after_space = space;
    }
}

static void normalize(const void *of, sg_textbuf *out, const char *text, size_t len)
{
    const sg_bpe_rules *const r = of;
    sg_code_points            points = {0};
    sg_textbuf                composed = {0};
    if (r->nfc) sg_nfc(&composed, text, len, &points);
    if (composed.failed)
        out->failed = true;
    else
        fold(r, out, r->nfc ? (composed.data ? composed.data : "") : text, r->nfc ? composed.len : len);
    sg_textbuf_free(&composed);
    free(points.at);
}

/* ---- opening ---- */

static sg_status build(sg_bpe_tokenizer *t, const sg_bpe_files *f, sg_error *e)
{
    const sg_normalizer by = {normalize, &t->rules};
    sg_bpe_source       source;
    SG_TRY(sg_bpe_files_source(f, &source, e));
    SG_TRY(sg_bpe_files_rules(f, &t->rules, e));
    SG_TRY(sg_bpe_model_open(&t->model, &source, e));
    SG_TRY(sg_added_tokens_open(&t->added, &f->json, NULL, &t->model.vocabulary, &by, e));
    t->pad = sg_added_tokens_id(&t->added, sg_tokenizer_files_special_text(&f->json, SG_SPECIAL_PAD));
    return sg_bpe_files_fixed(f, &t->added, &t->rules, e);
}

static sg_status open_by(sg_bpe_tokenizer **out, const char *path, const char *pad,
                         sg_status (*open)(sg_bpe_files *, const char *, sg_error *), sg_error *e)
{
    sg_bpe_files f = {.pad = pad};
    *out = NULL;
    sg_bpe_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for a tokenizer", path);
    sg_status status = open(&f, path, e);
    if (status == SG_OK) status = build(t, &f, e);
    sg_bpe_files_close(&f);
    if (status == SG_OK)
        *out = t;
    else
        sg_bpe_tokenizer_close(&t);
    return status;
}

sg_status sg_bpe_tokenizer_open(sg_bpe_tokenizer **out, const char *path, sg_error *e)
{
    return open_by(out, path, NULL, sg_bpe_files_open, e);
}

sg_status sg_bpe_tokenizer_open_padded(sg_bpe_tokenizer **out, const char *path, const char *pad, sg_error *e)
{
    return open_by(out, path, pad, sg_bpe_files_open, e);
}

sg_status sg_bpe_tokenizer_open_inside(sg_bpe_tokenizer **out, const char *path, sg_error *e)
{
    return open_by(out, path, NULL, sg_bpe_files_open_inside, e);
}

void sg_bpe_tokenizer_close(sg_bpe_tokenizer **t)
{
    if (!*t) return;
    sg_added_tokens_close(&(*t)->added);
    sg_bpe_model_close(&(*t)->model);
    free(*t);
    *t = NULL;
}

int32_t sg_bpe_tokenizer_pad(const sg_bpe_tokenizer *t) { return t->pad; }

int sg_bpe_tokenizer_vocab(const sg_bpe_tokenizer *t) { return t->added.next_id; }

int sg_bpe_tokenizer_fixed(const sg_bpe_tokenizer *t) { return t->rules.befores + t->rules.afters; }

/* ---- encoding ---- */

/* The state while one text is encoded. Each function returns false when memory runs out. */
typedef struct encoder {
    const sg_bpe_tokenizer *t;
    size_t                  most; /* the result keeps no more */
    sg_token_ids            ids;
    sg_textbuf              normal;
    sg_bpe_work             work;
} encoder;

/* Encodes a text by the split of that number: each word goes through the splits after it, then becomes ids. */
static bool encode_words(encoder *enc, int split, const char *text, size_t len)
{
    const sg_bpe_split *const by = split < 2 ? enc->t->rules.split[split] : NULL;
    if (!by) return sg_bpe_model_encode(&enc->t->model, text, len, &enc->work, &enc->ids);
    size_t at = 0;
    while (enc->ids.len < enc->most) {
        const size_t bytes = sg_bpe_split_next(by, text, len, &at);
        if (bytes == 0) break;
        if (!encode_words(enc, split + 1, text + at, bytes)) return false;
        at += bytes;
    }
    return true;
}

static bool encode_normal(encoder *enc, const char *text, size_t len) { return encode_words(enc, 0, text, len); }

/* Encodes a text: the added tokens of one kind by their ids, and what lies between them by encode_rest. */
static bool split_at_added_tokens(encoder *enc, bool normalized, const char *text, size_t len,
                                  bool (*encode_rest)(encoder *, const char *, size_t))
{
    for (size_t from = 0; from < len && enc->ids.len < enc->most;) {
        size_t                      at = from, bytes = 0;
        const sg_added_token *const t = sg_added_tokens_next(&enc->t->added, normalized, text, len, &at, &bytes);
        const size_t                stop = t ? at : len;
        if (stop > from && !encode_rest(enc, text + from, stop - from)) return false;
        if (t && !sg_token_ids_append(&enc->ids, t->id)) return false;
        from = stop + bytes;
    }
    return true;
}

static bool encode_raw(encoder *enc, const char *text, size_t len)
{
    sg_textbuf_clear(&enc->normal);
    normalize(&enc->t->rules, &enc->normal, text, len);
    return !enc->normal.failed && split_at_added_tokens(enc, true, enc->normal.data, enc->normal.len, encode_normal);
}

static bool append(sg_token_ids *ids, const int32_t *fixed, int count)
{
    for (int i = 0; i < count; i++)
        if (!sg_token_ids_append(ids, fixed[i])) return false;
    return true;
}

static bool encode(encoder *enc, const char *text, size_t len)
{
    const sg_bpe_rules *const r = &enc->t->rules;
    if (!append(&enc->ids, r->before, r->befores)) return false;
    if (!split_at_added_tokens(enc, false, text, len, encode_raw)) return false;
    if (enc->ids.len > enc->most) enc->ids.len = enc->most;
    return append(&enc->ids, r->after, r->afters);
}

sg_status sg_bpe_tokenizer_encode(const sg_bpe_tokenizer *t, const char *text, size_t len, int max, int32_t **ids,
                                  int *count, sg_error *e)
{
    size_t bad;
    if (max < sg_bpe_tokenizer_fixed(t) || max < 1)
        return sg_error_set(e, SG_E_ARG, "tokenizer: at most %d tokens, but every text has %d", max,
                            sg_bpe_tokenizer_fixed(t));
    if (len > SG_PROMPT_MAX)
        return sg_error_set(e, SG_E_ARG, "tokenizer: %zu bytes are more than the %d that a text may have", len,
                            SG_PROMPT_MAX);
    if (!sg_utf8_check(text, len, &bad))
        return sg_error_set(e, SG_E_ARG, "tokenizer: not UTF-8 at byte %zu (0x%02x)", bad, (unsigned char)text[bad]);
    encoder    enc = {.t = t, .most = (size_t)(max - t->rules.afters)};
    const bool done = encode(&enc, text, len) && sg_array_reserve(enc.ids.at, enc.ids.cap, 1);
    sg_textbuf_free(&enc.normal);
    sg_bpe_work_free(&enc.work);
    if (!done) {
        free(enc.ids.at);
        return sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for the text");
    }
    *ids = enc.ids.at;
    *count = (int)enc.ids.len;
    return SG_OK;
}
