/* bpe_tokenizer.c - see bpe_tokenizer.h. */
#include "bpe_tokenizer.h"
#include "base/array.h"
#include "base/utf8.h"
#include "bpe_files.h"
#include "nfc.h"

#include <limits.h>
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

/* One text that is encoded. */
typedef struct encoder {
    sg_token_run            run;
    const sg_bpe_tokenizer *t;
    sg_bpe_work             work;
} encoder;

/* Encodes a text by the split of that number: each word goes through the splits after it, then becomes ids. Returns
 * false when memory runs out. */
static bool encode_by(encoder *enc, int split, const char *text, size_t len)
{
    const sg_bpe_split *const by = split < 2 ? enc->t->rules.split[split] : NULL;
    if (!by) return sg_bpe_model_encode(&enc->t->model, text, len, &enc->work, &enc->run.ids);
    size_t at = 0;
    while (enc->run.ids.len < enc->run.most) {
        const size_t bytes = sg_bpe_split_next(by, text, len, &at);
        if (bytes == 0) break;
        if (!encode_by(enc, split + 1, text + at, bytes)) return false;
        at += bytes;
    }
    return true;
}

static sg_status encode_words(sg_token_run *r, const char *text, size_t len, sg_error *e)
{
    return encode_by((encoder *)r, 0, text, len) ? SG_OK : sg_tokenizer_no_memory(e);
}

/* Ids that stand at every text. */
static sg_status append(sg_token_ids *ids, const int32_t *fixed, int count, sg_error *e)
{
    for (int i = 0; i < count; i++)
        if (!sg_token_ids_append(ids, fixed[i])) return sg_tokenizer_no_memory(e);
    return SG_OK;
}

/* With the ids that stand before and behind every text, where they are asked for. */
static sg_status encode(encoder *enc, const char *text, size_t len, bool before, bool after, sg_error *e)
{
    const sg_bpe_rules *const r = &enc->t->rules;
    sg_token_ids *const       ids = &enc->run.ids;
    if (before) SG_TRY(append(ids, r->before, r->befores, e));
    SG_TRY(sg_token_run_encode(&enc->run, text, len, e));
    if (ids->len > enc->run.most) ids->len = enc->run.most;
    if (after) SG_TRY(append(ids, r->after, r->afters, e));
    return sg_array_reserve(ids->at, ids->cap, 1) ? SG_OK : sg_tokenizer_no_memory(e);
}

static encoder encoder_of(const sg_bpe_tokenizer *t, int most)
{
    return (encoder){
        .run = {.added = &t->added, .by = {normalize, &t->rules}, .words = encode_words, .most = (size_t)most}, .t = t};
}

/* Hands the ids over, or frees them after a failure. */
static sg_status finish(encoder *enc, sg_status status, int32_t **ids, int *count)
{
    sg_bpe_work_free(&enc->work);
    if (status != SG_OK) {
        free(enc->run.ids.at);
        return status;
    }
    *ids = enc->run.ids.at;
    *count = (int)enc->run.ids.len;
    return SG_OK;
}

sg_status sg_bpe_tokenizer_encode(const sg_bpe_tokenizer *t, const char *text, size_t len, int max, int32_t **ids,
                                  int *count, sg_error *e)
{
    if (max < sg_bpe_tokenizer_fixed(t) || max < 1)
        return sg_error_set(e, SG_E_ARG, "tokenizer: at most %d tokens, but every text has %d", max,
                            sg_bpe_tokenizer_fixed(t));
    encoder enc = encoder_of(t, max - t->rules.afters);
    return finish(&enc, encode(&enc, text, len, true, true, e), ids, count);
}

sg_status sg_bpe_tokenizer_encode_long(const sg_bpe_tokenizer *t, const char *text, size_t len, bool before,
                                       int32_t **ids, int *count, sg_error *e)
{
    encoder enc = encoder_of(t, INT_MAX);
    enc.run.size = SG_BPE_TEXT_MAX;
    return finish(&enc, encode(&enc, text, len, before, false, e), ids, count);
}

sg_status sg_bpe_tokenizer_decode(const sg_bpe_tokenizer *t, const int32_t *ids, size_t n, char **text, sg_error *e)
{
    sg_textbuf out = {0};
    int32_t   *kept = malloc((n + 1) * sizeof *kept);
    size_t     count = 0;
    for (size_t i = 0; kept && i < n; i++) {
        bool added = false;
        for (size_t k = 0; k < t->added.count; k++) added = added || t->added.tokens[k].id == ids[i];
        if (!added) kept[count++] = ids[i];
    }
    const bool done = kept && sg_bpe_model_decode(&t->model, kept, count, &out);
    free(kept);
    if (done) sg_textbuf_put(&out, "", 1);
    if (done && !out.failed) {
        *text = out.data;
        return SG_OK;
    }
    sg_textbuf_free(&out);
    return sg_tokenizer_no_memory(e);
}
