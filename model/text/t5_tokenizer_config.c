/* t5_tokenizer_config.c - see t5_tokenizer_config.h. */
#include "t5_tokenizer_config.h"
#include "base/json_input.h"
#include "base/path.h"
#include "base/text.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char CONFIG[] = "tokenizer_config.json", TOKENIZER[] = "tokenizer.json";

static sg_status fail(const sg_tokenizer_files *c, const char *file, const char *what, sg_error *e)
{
    return sg_error_set(e, SG_E_FORMAT, "%s/%s: %s", c->dir, file, what);
}

const char *const sg_t5_specials[SG_SPECIALS] = {
    [SG_SPECIAL_EOS] = "</s>", [SG_SPECIAL_UNK] = "<unk>", [SG_SPECIAL_PAD] = "<pad>"};

/* Decides between the T5 rules and the others. mT5's are T5's where no tokenizer.json says more: neither of transformers'
 * versions for that falls back to bytes. */
static sg_status read_class(sg_tokenizer_files *c, sg_error *e)
{
    static const char *const t5[] = {"T5Tokenizer", "T5TokenizerFast", "MT5Tokenizer", "MT5TokenizerFast"};
    static const char *const other[] = {"PreTrainedTokenizerFast", "TokenizersBackend", "MT5Tokenizer",
                                        "MT5TokenizerFast"};
    const size_t             t5s = c->tokenizer ? 2 : sizeof t5 / sizeof *t5;
    const json_t            *field = json_object_get(c->config, "tokenizer_class");
    const char              *name = json_string_value(field);
    bool                     known = !field || json_is_null(field);
    c->t5_rules = known && !c->tokenizer;
    for (size_t i = 0; name && i < t5s; i++)
        if (!strcmp(name, t5[i])) known = c->t5_rules = true;
    c->defaults = c->t5_rules ? sg_t5_specials : NULL;
    for (size_t i = 0; name && i < sizeof other / sizeof *other; i++) known |= !strcmp(name, other[i]);
    if (field && !name && !known) return fail(c, CONFIG, "tokenizer_class: not a string", e);
    if (!known)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s/%s: tokenizer_class: %s is not one of the T5 family", c->dir,
                            CONFIG, sg_show(name));
    if (!c->t5_rules && !c->tokenizer)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: tokenizer_class %s needs a tokenizer.json", c->dir,
                            sg_show(name));
    if (json_is_true(json_object_get(c->config, "split_special_tokens")))
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s/%s: split_special_tokens is not understood", c->dir, CONFIG);
    return SG_OK;
}

sg_status sg_t5_tokenizer_config_open(sg_tokenizer_files *c, const char *dir, sg_error *e)
{
    sg_status s = sg_tokenizer_files_open(c, dir, e);
    if (s == SG_OK) s = read_class(c, e);
    if (s != SG_OK) sg_tokenizer_files_close(c);
    return s;
}

/* Adds a piece to u with the next id. Returns false when out of memory. */
static bool add_piece(sg_unigram *u, const char *text, size_t len, double score)
{
    const size_t id = u->pieces.count;
    if (!sg_string_table_add(&u->pieces, (sg_string_entry){text, len, (int32_t)id})) return false;
    u->score[id] = score;
    return true;
}

/* Rounds a score as the number parser of Hugging Face's tokenizers does. That parser takes the shortest decimal form
 * without the point as an integer and divides it by a power of ten. It rounds twice, so the last bit may differ. That
 * bit decides between paths that are otherwise equal. Powers of ten up to 22 are exact. */
static double round_as_tokenizers(double score)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, fabs(score));
        if (strtod(text, NULL) == fabs(score)) break;
    }
    const char *e = strchr(text, 'e');
    int         exponent = atoi(e + 1) + 1;
    uint64_t    significand = 0;
    while (e[-1] == '0' && e > text + 1) e--;
    for (const char *s = text; s < e; s++) {
        if (*s < '0' || *s > '9') continue; /* the point, a comma in some locales */
        significand = significand * 10 + (uint64_t)(*s - '0');
        exponent--;
    }
    if (exponent >= 0 || exponent < -22) return score;
    return copysign((double)significand / pow(10, -exponent), score);
}

static double score_of(const sg_tokenizer_files *c, double score)
{
    return c->t5_rules ? score : round_as_tokenizers(score);
}

/* Checks that tokenizer.json's vocabulary begins with the pieces of the model. */
static sg_status check_pieces(const sg_tokenizer_files *c, const sg_sentencepiece_file *m, const json_t *vocab,
                              sg_error *e)
{
    for (size_t i = 0; i < m->count; i++) {
        const json_t *entry = json_array_get(vocab, i), *text = json_array_get(entry, 0);
        const bool    same = json_string_length(text) == m->pieces[i].len &&
                          !memcmp(json_string_value(text), m->pieces[i].text, m->pieces[i].len) &&
                          fabs(json_number_value(json_array_get(entry, 1)) - (double)m->pieces[i].score) < 1e-4;
        if (!same)
            return sg_error_set(e, SG_E_FORMAT, "%s/%s: model.vocab: entry %zu is not piece %zu of spiece.model",
                                c->dir, TOKENIZER, i, i);
    }
    return SG_OK;
}

/* Adds a piece and stores its text in `texts`. The caller has reserved the memory there: a text must not move. */
static bool add_stored_piece(sg_unigram *u, sg_textbuf *texts, const char *text, size_t len, double score)
{
    const size_t at = texts->len;
    sg_textbuf_put(texts, text, len);
    return !texts->failed && add_piece(u, texts->data + at, len, score);
}

/* Adds the pieces of tokenizer.json's vocabulary that follow those of the model. */
static sg_status read_more_pieces(const sg_tokenizer_files *c, const json_t *vocab, size_t from, sg_textbuf *texts,
                                  sg_unigram *u, sg_error *e)
{
    const size_t total = json_array_size(vocab);
    size_t       bytes = 0, bad;
    for (size_t i = from; i < total; i++) {
        const json_t *entry = json_array_get(vocab, i), *text = json_array_get(entry, 0);
        const size_t  len = json_string_length(text);
        if (!len || len > SG_PIECE_MAX_BYTES || !json_is_number(json_array_get(entry, 1)) ||
            !sg_utf8_check(json_string_value(text), len, &bad))
            return sg_error_set(e, SG_E_FORMAT, "%s/%s: model.vocab: entry %zu is not a piece with a score", c->dir,
                                TOKENIZER, i);
        bytes += len;
    }
    bool memory = sg_textbuf_reserve(texts, bytes);
    for (size_t i = from; memory && i < total; i++) {
        const json_t *entry = json_array_get(vocab, i), *text = json_array_get(entry, 0);
        memory = add_stored_piece(u, texts, json_string_value(text), json_string_length(text),
                                  score_of(c, json_number_value(json_array_get(entry, 1))));
    }
    return memory ? SG_OK : sg_error_set(e, SG_E_MEMORY, "%s: no memory for its vocabulary", c->dir);
}

/* Adds <extra_id_N-1> to <extra_id_0>. */
static sg_status make_extra_id_pieces(const sg_tokenizer_files *c, int extra, sg_textbuf *texts, sg_unigram *u,
                                      sg_error *e)
{
    char name[32];
    bool memory = sg_textbuf_reserve(texts, (size_t)extra * sizeof name);
    while (memory && extra--) {
        const int len = snprintf(name, sizeof name, "<extra_id_%d>", extra);
        memory = add_stored_piece(u, texts, name, (size_t)len, 0);
    }
    return memory ? SG_OK : sg_error_set(e, SG_E_MEMORY, "%s: no memory for its vocabulary", c->dir);
}

static void find_byte_pieces(sg_unigram *u)
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        const sg_string_entry *w = sg_string_table_find(&u->pieces, name, 6);
        u->byte_id[b] = w ? w->id : -1;
    }
}

/* Sets the score and the id of an unknown character, and whether it may become bytes. */
static sg_status read_unknown(const sg_tokenizer_files *c, const json_t *model, sg_unigram *u, sg_error *e)
{
    enum { T5_UNKNOWN = 2 };
    const json_t     *id = json_object_get(model, "unk_id"), *bytes = json_object_get(model, "byte_fallback");
    const char *const text = c->t5_rules ? sg_tokenizer_files_special_text(c, SG_SPECIAL_UNK) : NULL;
    const sg_string_entry *const piece = text ? sg_string_table_find(&u->pieces, text, strlen(text)) : NULL;
    u->unknown_id = piece ? piece->id : T5_UNKNOWN;
    if (!c->t5_rules) {
        u->unknown_id = -1;
        if (id && !json_is_null(id) && !sg_tokenizer_files_int(id, (int)u->pieces.count - 1, &u->unknown_id))
            return fail(c, TOKENIZER, "model.unk_id: not a whole number, or beyond the vocabulary", e);
        if (bytes && !json_is_boolean(bytes)) return fail(c, TOKENIZER, "model.byte_fallback: not a boolean", e);
        u->byte_fallback = json_is_true(bytes);
    }
    if (u->unknown_id >= (int64_t)u->pieces.count)
        return sg_error_set(e, SG_E_FORMAT, "%s: %zu pieces; T5 needs at least three", c->dir, u->pieces.count);
    u->unknown_score = u->score[0];
    for (size_t i = 1; i < u->pieces.count; i++) u->unknown_score = fmin(u->unknown_score, u->score[i]);
    u->unknown_score -= 10;
    return SG_OK;
}

sg_status sg_t5_tokenizer_config_vocabulary(const sg_tokenizer_files *c, const sg_sentencepiece_file *m,
                                            sg_textbuf *texts, sg_unigram *u, sg_error *e)
{
    const json_t *model = json_object_get(c->tokenizer, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *type = json_object_get(model, "type");
    int           extra = 0;
    if (!c->tokenizer && !m->complete)
        return fail(c, "spiece.model", "ends after a piece, so the rest of the model is missing", e);
    if (c->tokenizer && !json_is_array(vocab)) return fail(c, TOKENIZER, "model.vocab: missing or not a list", e);
    if (type && !(json_is_string(type) && !strcmp(json_string_value(type), "Unigram")))
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s/%s: model.type: not Unigram", c->dir, TOKENIZER);
    if (!c->tokenizer) SG_TRY(sg_tokenizer_files_extra_ids(c, &extra, e));
    if (c->tokenizer) SG_TRY(check_pieces(c, m, vocab, e));
    const size_t total = c->tokenizer ? json_array_size(vocab) : m->count + (size_t)extra;
    u->score = malloc(total * sizeof *u->score);
    bool memory = u->score;
    for (size_t i = 0; memory && i < m->count; i++)
        memory = add_piece(u, m->pieces[i].text, m->pieces[i].len, score_of(c, (double)m->pieces[i].score));
    if (!memory) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for %zu pieces", c->dir, total);
    SG_TRY(c->tokenizer ? read_more_pieces(c, vocab, m->count, texts, u, e)
                        : make_extra_id_pieces(c, extra, texts, u, e));
    const size_t duplicate = sg_string_table_sort(&u->pieces);
    if (duplicate < total)
        return sg_error_set(e, SG_E_FORMAT, "%s: pieces %d and %d of the vocabulary are the same", c->dir,
                            u->pieces.entries[duplicate - 1].id, u->pieces.entries[duplicate].id);
    find_byte_pieces(u);
    return read_unknown(c, model, u, e);
}

/* Returns whether string is the base64 text of these n bytes. */
static bool is_base64_of(const json_t *string, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char       *text = json_string_value(string);
    if (json_string_length(string) != (n + 2) / 3 * 4) return false;
    for (size_t i = 0; i < n; i += 3, text += 4) {
        const size_t left = n - i;
        unsigned     v = 0;
        for (size_t k = 0; k < 3; k++) v = v << 8 | (k < left ? (unsigned char)bytes[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            if (text[k] != (k > left ? '=' : digits[v >> (18 - 6 * k) & 63])) return false;
    }
    return true;
}

/* Returns whether it puts its mark before every word. */
static bool is_metaspace(const json_t *pre)
{
    const char *const scheme = json_string_value(json_object_get(pre, "prepend_scheme"));
    const char *const mark = json_string_value(json_object_get(pre, "replacement"));
    return sg_tokenizer_files_is(pre, "Metaspace") && (!scheme || !strcmp(scheme, "always")) &&
           (!mark || !strcmp(mark, "\342\226\201")) && !json_is_false(json_object_get(pre, "split")) &&
           !json_is_false(json_object_get(pre, "add_prefix_space"));
}

static bool splits_at_spaces(const json_t *pre)
{
    const json_t *const list = json_object_get(pre, "pretokenizers");
    return sg_tokenizer_files_is(pre, "Sequence") && json_array_size(list) == 2 &&
           sg_tokenizer_files_is(json_array_get(list, 0), "WhitespaceSplit") && is_metaspace(json_array_get(list, 1));
}

/* Takes up a Strip, or a Replace of several spaces by one or by the mark, which a Metaspace makes of one. */
static bool add_normalizer(sg_t5_normalization *n, const json_t *normalizer)
{
    const char *pattern = json_string_value(json_object_get(json_object_get(normalizer, "pattern"), "Regex"));
    const char *content = json_string_value(json_object_get(normalizer, "content"));
    if (sg_tokenizer_files_is(normalizer, "Strip") && !n->unite_spaces) {
        n->strip_left |= json_is_true(json_object_get(normalizer, "strip_left"));
        n->strip_right |= json_is_true(json_object_get(normalizer, "strip_right"));
        return true;
    }
    n->unite_spaces = true;
    return sg_tokenizer_files_is(normalizer, "Replace") && pattern && !strcmp(pattern, " {2,}") && content &&
           (!strcmp(content, " ") || !strcmp(content, "\342\226\201"));
}

sg_status sg_t5_tokenizer_config_normalization(const sg_tokenizer_files *c, const sg_sentencepiece_file *m,
                                               sg_t5_normalization *n, sg_error *e)
{
    const json_t *const pre = json_object_get(c->tokenizer, "pre_tokenizer");
    *n = (sg_t5_normalization){.charsmap = !c->tokenizer};
    if (!c->tokenizer) return SG_OK;
    const json_t *one = json_object_get(c->tokenizer, "normalizer"), *list = json_object_get(one, "normalizers");
    const bool    sequence = sg_tokenizer_files_is(one, "Sequence");
    const size_t  count = sequence ? json_array_size(list) : json_is_object(one);
    for (size_t i = 0; i < count; i++) {
        const json_t *r = sequence ? json_array_get(list, i) : one, *map = json_object_get(r, "precompiled_charsmap");
        if (sg_tokenizer_files_is(r, "Precompiled") && (i == 0 || c->t5_rules) && !n->charsmap) {
            if (!is_base64_of(map, m->charsmap, m->charsmap_size))
                return fail(c, TOKENIZER, "normalizer.precompiled_charsmap: not that of spiece.model", e);
            n->charsmap = true;
        } else if (!c->t5_rules && !add_normalizer(n, r)) {
            return sg_error_set(e, SG_E_UNSUPPORTED, "%s/%s: normalizer: not that of a T5 tokenizer", c->dir,
                                TOKENIZER);
        }
    }
    n->metaspace = !c->t5_rules && is_metaspace(pre);
    if (!c->t5_rules && !n->metaspace && !splits_at_spaces(pre))
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s/%s: pre_tokenizer: not that of a T5 tokenizer", c->dir, TOKENIZER);
    return SG_OK;
}
