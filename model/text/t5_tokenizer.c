/* t5_tokenizer.c - see t5_tokenizer.h. */
#include "t5_tokenizer.h"
#include "added_tokens.h"
#include "base/path.h"
#include "base/utf8.h"
#include "tensor_source.h"
#include "tokenizer_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sg_t5_tokenizer {
    sg_sentencepiece_file model;
    sg_source            *weights; /* that model's bytes are in; or NULL */
    sg_textbuf            texts;   /* of pieces that the model lacks */
    sg_charsmap           map;
    sg_t5_normalization   normal;
    sg_unigram            unigram;
    sg_added_tokens       added;
    int32_t               end_id, pad_id;
};

/* One text that is encoded; the end token is not counted in run.most. */
typedef struct encoder {
    sg_token_run           run;
    const sg_t5_tokenizer *t;
    sg_textbuf             word;
} encoder;

static const char MARK[] = "\342\226\201"; /* U+2581 */
enum { MARK_BYTES = 3 };

static void normalise(const void *tokenizer, sg_textbuf *out, const char *text, size_t len)
{
    const sg_t5_tokenizer *const t = tokenizer;
    size_t                       to = out->len, end = to, used;
    const size_t                 start = to;
    sg_charsmap_apply(&t->map, out, text, len);
    if (!t->normal.metaspace || out->failed) return;
    for (size_t from = start; from < out->len; from += used) {
        int32_t c;
        used = sg_utf8_next(out->data + from, out->len - from, &c);
        const bool space = sg_utf8_is_space(c);
        if (space && t->normal.strip_left && end == start) continue;
        if (c == ' ' && t->normal.unite_spaces && to > start && out->data[to - 1] == ' ') continue;
        memmove(out->data + to, out->data + from, used);
        to += used;
        if (!space) end = to;
    }
    out->len = t->normal.strip_right ? end : to;
}

static sg_status build(sg_t5_tokenizer *t, const char *path, const sg_tokenizer_files *c, sg_error *err)
{
    SG_TRY(sg_t5_tokenizer_config_vocabulary(c, &t->model, &t->texts, &t->unigram, err));
    SG_TRY(sg_t5_tokenizer_config_normalization(c, &t->model, &t->normal, err));
    SG_TRY(sg_charsmap_open(&t->map, t->model.charsmap, t->normal.charsmap ? t->model.charsmap_size : 0, path, err));
    const sg_normalizer by = {normalise, t};
    SG_TRY(sg_added_tokens_open(&t->added, c, &t->model, &t->unigram.pieces, &by, err));
    t->pad_id = sg_added_tokens_id(&t->added, sg_tokenizer_files_special_text(c, SG_SPECIAL_PAD));
    return sg_added_tokens_end(&t->added, c, &t->end_id, err);
}

static sg_status open_folder(sg_t5_tokenizer *t, const char *dir, sg_error *err)
{
    char path[4096], json[4096];
    SG_TRY(sg_path_join(path, sizeof path, dir, "spiece.model", err));
    SG_TRY(sg_path_join(json, sizeof json, dir, "tokenizer.json", err));
    if (access(path, F_OK) && !access(json, F_OK))
        return sg_error_set(err, SG_E_FILE, "%s: not there; it is needed, tokenizer.json alone is not enough", path);
    SG_TRY(sg_sentencepiece_file_open(&t->model, path, err));
    sg_tokenizer_files c = {0};
    SG_TRY(sg_t5_tokenizer_config_open(&c, dir, err));
    const sg_status s = build(t, path, &c, err);
    sg_tokenizer_files_close(&c);
    return s;
}

/* A model without JSON files has T5's rules, and no tokens but its own: nobody says how many <extra_id_...> there are. */
static sg_status build_alone(sg_t5_tokenizer *t, const char *path, sg_error *err)
{
    sg_tokenizer_files c = {
        .dir = path, .t5_rules = true, .defaults = sg_t5_specials, .config = json_pack("{s:f}", "extra_ids", 0.0)};
    if (!c.config) return sg_error_set(err, SG_E_MEMORY, "%s: no memory for a tokenizer", path);
    const sg_status s = build(t, path, &c, err);
    sg_tokenizer_files_close(&c);
    return s;
}

static sg_status open_path(sg_t5_tokenizer *t, const char *path, sg_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISDIR(st.st_mode)) return open_folder(t, path, err);
    SG_TRY(sg_sentencepiece_file_open(&t->model, path, err));
    return build_alone(t, path, err);
}

static sg_status open_inside(sg_t5_tokenizer *t, const char *path, sg_error *err)
{
    SG_TRY(sg_source_open(&t->weights, path, err));
    if (sg_sentencepiece_is_in(t->weights)) {
        SG_TRY(sg_sentencepiece_file_from(&t->model, t->weights, err));
        return build_alone(t, path, err);
    }
    const sg_tensor bytes = sg_source_find(t->weights, "spiece_model");
    if (bytes.rank != 1 || bytes.dtype != SG_U8)
        return sg_error_set(err, SG_E_FORMAT, "%s: \"spiece_model\" should be a list of U8, the bytes of spiece.model",
                            path);
    SG_TRY(sg_sentencepiece_file_read(&t->model, bytes.data, sg_bytes(bytes), path, err));
    return build_alone(t, path, err);
}

static sg_status open_by(sg_t5_tokenizer **out, const char *path, sg_error *err,
                         sg_status (*open)(sg_t5_tokenizer *, const char *, sg_error *))
{
    *out = NULL;
    sg_t5_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sg_error_set(err, SG_E_MEMORY, "%s: no memory for a tokenizer", path);
    const sg_status s = open(t, path, err);
    if (s == SG_OK)
        *out = t;
    else
        sg_t5_tokenizer_close(&t);
    return s;
}

sg_status sg_t5_tokenizer_open(sg_t5_tokenizer **out, const char *path, sg_error *err)
{
    return open_by(out, path, err, open_path);
}

sg_status sg_t5_tokenizer_open_inside(sg_t5_tokenizer **out, const char *path, sg_error *err)
{
    return open_by(out, path, err, open_inside);
}

void sg_t5_tokenizer_close(sg_t5_tokenizer **t)
{
    if (!*t) return;
    sg_added_tokens_close(&(*t)->added);
    sg_unigram_free(&(*t)->unigram);
    sg_textbuf_free(&(*t)->texts);
    sg_sentencepiece_file_close(&(*t)->model);
    sg_source_close(&(*t)->weights);
    free(*t);
    *t = NULL;
}

int32_t sg_t5_tokenizer_pad(const sg_t5_tokenizer *t) { return t->pad_id; }

int sg_t5_tokenizer_vocab(const sg_t5_tokenizer *t) { return t->added.next_id; }

static bool starts_with_mark(const char *s, size_t n) { return n >= MARK_BYTES && !memcmp(s, MARK, MARK_BYTES); }

/* Encodes a text in which every space has become a mark. It starts with the mark, and is split before every further one. */
static sg_status encode_word(encoder *enc, const char *word, size_t n, sg_error *err)
{
    sg_token_ids *const ids = &enc->run.ids;
    sg_textbuf_clear(&enc->word);
    if (!starts_with_mark(word, n) && *word != ' ') sg_textbuf_put(&enc->word, MARK, MARK_BYTES);
    for (size_t from = 0, to; from < n; from = to + 1) {
        for (to = from; to < n && word[to] != ' ';) to++;
        sg_textbuf_put(&enc->word, word + from, to - from);
        if (to < n) sg_textbuf_put(&enc->word, MARK, MARK_BYTES);
    }
    if (enc->word.failed) return sg_tokenizer_no_memory(err);
    const char *s = enc->word.data;
    for (size_t from = 0, to; from < enc->word.len && ids->len < enc->run.most; from = to) {
        for (to = from + 1; to < enc->word.len && !starts_with_mark(s + to, enc->word.len - to);) to++;
        SG_TRY(sg_unigram_encode(&enc->t->unigram, s + from, to - from, ids, err));
    }
    return SG_OK;
}

/* Splits a text at white space, unless a Metaspace takes it whole, and encodes its words. */
static sg_status encode_words(sg_token_run *r, const char *text, size_t len, sg_error *err)
{
    if (((encoder *)r)->t->normal.metaspace && len) return encode_word((encoder *)r, text, len, err);
    size_t from = 0;
    for (size_t i = 0, used; i < len && r->ids.len < r->most; i += used) {
        int32_t c;
        used = sg_utf8_next(text + i, len - i, &c);
        const bool   space = sg_utf8_is_space(c);
        const size_t stop = space ? i : i + used;
        if ((space || stop == len) && stop > from) SG_TRY(encode_word((encoder *)r, text + from, stop - from, err));
        if (space) from = i + used;
    }
    return SG_OK;
}

sg_status sg_t5_tokenizer_encode(const sg_t5_tokenizer *t, const char *text, size_t len, int max_len, int32_t **ids,
                                 int *count, sg_error *err)
{
    if (max_len < 1)
        return sg_error_set(err, SG_E_ARG, "tokenizer: max_len is %d; at least the end token must fit", max_len);
    encoder enc = {
        .run = {.added = &t->added, .by = {normalise, t}, .words = encode_words, .most = (size_t)max_len - 1}, .t = t};
    sg_token_ids *const made = &enc.run.ids;
    sg_status           s = sg_token_run_encode(&enc.run, text, len, err);
    if (made->len > enc.run.most) made->len = enc.run.most;
    if (s == SG_OK && !sg_token_ids_append(made, t->end_id)) s = sg_tokenizer_no_memory(err);
    sg_textbuf_free(&enc.word);
    if (s != SG_OK) {
        free(made->at);
        return s;
    }
    *ids = made->at;
    *count = (int)made->len;
    return SG_OK;
}
