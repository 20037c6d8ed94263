/* tokenizer.c - see tokenizer.h. */
#include "tokenizer.h"

#include "prompt_clean.h"
#include "tokconf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sg_tokenizer {
    sg_spiece   model;
    sg_textbuf  tail;
    sg_charsmap map;
    sg_unigram  unigram;
    sg_added    added;
    int32_t     end;
};

/* One text on its way. */
typedef struct encoder {
    const sg_tokenizer *t;
    size_t              limit; /* ids that matter */
    sg_ids              ids;
    sg_textbuf          normal, word;
    sg_error           *err;
} encoder;

static const char MARK[] = "\342\226\201"; /* U+2581 */
enum { MARK_BYTES = 3 };

static sg_status build(sg_tokenizer *t, const char *path, const sg_tokconf *c, sg_error *err)
{
    bool uses_map = false;
    SG_TRY(sg_tokconf_vocabulary(c, &t->model, &t->tail, &t->unigram, err));
    SG_TRY(sg_tokconf_uses_map(c, &t->model, &uses_map, err));
    SG_TRY(sg_charsmap_open(&t->map, t->model.charsmap, uses_map ? t->model.charsmap_size : 0, path, err));
    SG_TRY(sg_tokconf_added(c, &t->model, &t->unigram, &t->added, err));
    SG_TRY(sg_added_finish(&t->added, &t->map, err));
    return sg_tokconf_end(c, &t->added, &t->end, err);
}

static sg_status open_folder(sg_tokenizer *t, const char *dir, sg_error *err)
{
    char path[4096], other[4096];
    if (snprintf(path, sizeof path, "%s/spiece.model", dir) >= (int)sizeof path)
        return sg_error_set(err, SG_E_FILE, "%.200s...: the path is too long", dir);
    snprintf(other, sizeof other, "%s/tokenizer.json", dir);
    if (access(path, F_OK) && !access(other, F_OK))
        return sg_error_set(err, SG_E_FILE, "%s: not there; it is needed, tokenizer.json alone is not enough", path);
    SG_TRY(sg_spiece_open(&t->model, path, err));
    sg_tokconf c = {0};
    SG_TRY(sg_tokconf_open(&c, dir, err));
    const sg_status s = build(t, path, &c, err);
    sg_tokconf_close(&c);
    return s;
}

sg_status sg_tokenizer_open(sg_tokenizer **out, const char *dir, sg_error *err)
{
    *out = NULL;
    sg_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sg_error_set(err, SG_E_MEMORY, "%s: no memory for a tokenizer", dir);
    const sg_status s = open_folder(t, dir, err);
    if (s == SG_OK)
        *out = t;
    else
        sg_tokenizer_close(&t);
    return s;
}

void sg_tokenizer_close(sg_tokenizer **t)
{
    if (!*t) return;
    sg_added_free(&(*t)->added);
    sg_unigram_free(&(*t)->unigram);
    sg_textbuf_free(&(*t)->tail);
    sg_spiece_close(&(*t)->model);
    free(*t);
    *t = NULL;
}

int sg_tokenizer_vocab(const sg_tokenizer *t) { return t->added.next_id; }

static sg_status no_memory(encoder *w)
{
    return sg_error_set(w->err, SG_E_MEMORY, "tokenizer: no memory for the text");
}

static bool begins_with_mark(const char *s, size_t n) { return n >= MARK_BYTES && !memcmp(s, MARK, MARK_BYTES); }

/* A word without white space; it is cut before every mark but one at its beginning. */
static sg_status encode_word(encoder *w, const char *word, size_t n)
{
    sg_textbuf_clear(&w->word);
    if (!begins_with_mark(word, n)) sg_textbuf_put(&w->word, MARK, MARK_BYTES);
    sg_textbuf_put(&w->word, word, n);
    if (w->word.failed) return no_memory(w);
    const char *s = w->word.data;
    for (size_t from = 0, to; from < w->word.len && w->ids.len < w->limit; from = to) {
        for (to = from + 1; to < w->word.len && !begins_with_mark(s + to, w->word.len - to);) to++;
        SG_TRY(sg_unigram_encode(&w->t->unigram, s + from, to - from, &w->ids, w->err));
    }
    return SG_OK;
}

static sg_status encode_words(encoder *w, const char *text, size_t len)
{
    size_t from = 0;
    for (size_t i = 0, used; i < len && w->ids.len < w->limit; i += used) {
        int32_t c;
        used = sg_utf8_next(text + i, len - i, &c);
        const bool   space = sg_utf8_is_space(c);
        const size_t stop = space ? i : i + used;
        if ((space || stop == len) && stop > from) SG_TRY(encode_word(w, text + from, stop - from));
        if (space) from = i + used;
    }
    return SG_OK;
}

/* Encodes text with the added tokens of one kind cut out, and what lies between them by `between`. */
static sg_status cut(encoder *w, bool normalized, const char *text, size_t len,
                     sg_status (*between)(encoder *, const char *, size_t))
{
    for (size_t from = 0; from < len && w->ids.len < w->limit;) {
        size_t                at = from, bytes = 0;
        const sg_added_token *t = sg_added_next(&w->t->added, normalized, text, len, &at, &bytes);
        const size_t          stop = t ? at : len;
        if (stop > from) SG_TRY(between(w, text + from, stop - from));
        if (t && !sg_ids_put(&w->ids, t->id)) return no_memory(w);
        from = stop + bytes;
    }
    return SG_OK;
}

static sg_status normalise(encoder *w, const char *text, size_t len)
{
    sg_textbuf_clear(&w->normal);
    sg_charsmap_apply(&w->t->map, &w->normal, text, len);
    if (w->normal.failed) return no_memory(w);
    return cut(w, true, w->normal.data, w->normal.len, encode_words);
}

sg_status sg_tokenizer_encode(const sg_tokenizer *t, const char *text, size_t len, int max_len, int32_t **ids,
                              int *count, sg_error *err)
{
    size_t bad;
    if (max_len < 1)
        return sg_error_set(err, SG_E_ARG, "tokenizer: max_len is %d; at least the end token must fit", max_len);
    if (len > SG_PROMPT_MAX)
        return sg_error_set(err, SG_E_ARG, "tokenizer: %zu bytes are more than the %d that a text may have", len,
                            SG_PROMPT_MAX);
    if (!sg_utf8_check(text, len, &bad))
        return sg_error_set(err, SG_E_ARG, "tokenizer: not UTF-8 at byte %zu (0x%02x)", bad, (unsigned char)text[bad]);
    encoder   w = {.t = t, .limit = (size_t)max_len - 1, .err = err};
    sg_status s = cut(&w, false, text, len, normalise);
    if (w.ids.len > w.limit) w.ids.len = w.limit;
    if (s == SG_OK && !sg_ids_put(&w.ids, t->end)) s = no_memory(&w);
    sg_textbuf_free(&w.normal);
    sg_textbuf_free(&w.word);
    if (s != SG_OK) {
        free(w.ids.at);
        return s;
    }
    *ids = w.ids.at;
    *count = (int)w.ids.len;
    return SG_OK;
}
