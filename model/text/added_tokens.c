/* added_tokens.c - see added_tokens.h. */
#include "added_tokens.h"
#include "base/array.h"
#include "base/number.h"
#include "base/text.h"
#include "base/utf8.h"
#include "prompt_clean.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MAX_ADDED_TOKENS = 16384 };

/* A token before it has an id. */
typedef struct token_spec {
    const char *text; /* len bytes of UTF-8 */
    size_t      len;
    bool        single_word, normalized, lstrip, rstrip;
} token_spec;

/* ---- the list of tokens ---- */

/* The token with this text, or NULL. */
static sg_added_token *find_token(const sg_added_tokens *a, const char *text, size_t len)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tokens[i].len == len && !memcmp(a->tokens[i].text, text, len)) return &a->tokens[i];
    return NULL;
}

static void set_search(sg_added_token *t, const token_spec *by)
{
    t->single_word = by->single_word;
    t->normalized = by->normalized;
    t->lstrip = by->lstrip;
    t->rstrip = by->rstrip;
}

/* Appends a token with the id of the piece that has the same text, or else with the next id. Where the list has a token with
 * this text, it only changes how that is searched, and that only behind the tokens of the files. `where` begins the message. */
static sg_status append_token(sg_added_tokens *a, const sg_string_table *vocabulary, token_spec token,
                              const char *where, sg_error *e)
{
    if (!token.len) return sg_error_set(e, SG_E_FORMAT, "%s: an added token is empty", where);
    sg_added_token *const same = find_token(a, token.text, token.len);
    if (same) {
        if ((size_t)(same - a->tokens) >= a->of_files) set_search(same, &token);
        return SG_OK;
    }
    if (a->count == MAX_ADDED_TOKENS)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: more than %d added tokens", where, MAX_ADDED_TOKENS);
    const sg_string_entry *piece = sg_string_table_find(vocabulary, token.text, token.len);
    char                  *text = malloc(token.len + 1);
    if (!text) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for an added token", where);
    memcpy(text, token.text, token.len);
    text[token.len] = 0;
    sg_added_token added = {.text = text, .len = token.len, .id = piece ? piece->id : a->next_id};
    set_search(&added, &token);
    if (!sg_array_push(a->tokens, a->count, a->cap, added)) {
        free(text);
        return sg_error_set(e, SG_E_MEMORY, "%s: no memory for an added token", where);
    }
    a->next_id += !piece;
    return SG_OK;
}

/* Fills the two tables that a text is searched with. Returns false when out of memory. */
static bool index_tokens(sg_added_tokens *a, const sg_normalizer *by)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tokens[i].normalized) by->apply(by->of, &a->normal_texts, a->tokens[i].text, a->tokens[i].len);
    if (a->normal_texts.failed) return false;
    sg_textbuf one = {0};
    bool       memory = true;
    for (size_t i = 0, at = 0; memory && i < a->count; i++) {
        const sg_added_token *t = &a->tokens[i];
        sg_textbuf_clear(&one);
        if (t->normalized) by->apply(by->of, &one, t->text, t->len);
        const sg_string_entry w = t->normalized ? (sg_string_entry){a->normal_texts.data + at, one.len, (int32_t)i}
                                                : (sg_string_entry){t->text, t->len, (int32_t)i};
        at += one.len;
        memory = !one.failed && (!w.len || sg_string_table_add(t->normalized ? &a->normal : &a->raw, w));
    }
    sg_textbuf_free(&one);
    return memory;
}

static sg_status index_all(sg_added_tokens *a, const sg_normalizer *by, sg_error *e)
{
    if (!index_tokens(a, by))
        return sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for %zu added tokens", a->count);
    sg_string_table_sort(&a->raw);
    sg_string_table_sort(&a->normal);
    return SG_OK;
}

/* ---- which tokens are added ---- */

/* The list that grows, and what the functions that add to it need. */
typedef struct collector {
    const sg_tokenizer_files *c;
    const sg_string_table    *vocabulary;
    sg_added_tokens          *tokens;
    sg_error                 *err;
} collector;

/* A token that a file lists under an id. These tokens are added in order of their ids. */
typedef struct file_token {
    int           id;
    size_t        order;
    const char   *text; /* from added_tokens.json, when value is NULL */
    const json_t *value;
} file_token;

typedef struct file_tokens {
    file_token *at;
    size_t      len, cap;
} file_tokens;

/* A field of tokenizer_config.json or special_tokens_map.json has no file name in front; any other field has. */
static sg_status fail(const sg_tokenizer_files *c, const char *field, const char *why, sg_error *e)
{
    const char *const file =
        json_object_get(c->special, field) ? "special_tokens_map.json: " : "tokenizer_config.json: ";
    return sg_error_set(e, SG_E_FORMAT, "%s/%s%s: %s", c->dir, strstr(field, ".json") ? "" : file, sg_show(field), why);
}

static sg_status no_memory(const sg_tokenizer_files *c, sg_error *e)
{
    return sg_error_set(e, SG_E_MEMORY, "%s: no memory for its added tokens", c->dir);
}

static sg_status add_text(const collector *to, const char *text, size_t len, bool normalized)
{
    const token_spec t = {.text = text, .len = len, .normalized = normalized};
    return append_token(to->tokens, to->vocabulary, t, to->c->dir, to->err);
}

static bool bool_field(const json_t *token, const char *key, bool fallback)
{
    const json_t *value = json_object_get(token, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

/* Adds a token that is a string or an object with its content. A special one is searched in the raw text, unless it
 * says otherwise. */
static sg_status add_value(const collector *to, const json_t *value, bool special, const char *field)
{
    const json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
    const char   *text = json_string_value(content);
    const size_t  len = json_string_length(content);
    size_t        bad;
    if (!text || strlen(text) != len || !sg_utf8_check(text, len, &bad))
        return fail(to->c, field, "a token that is neither a string nor an object with its content", to->err);
    special = special || bool_field(value, "special", false) || json_is_string(value);
    const token_spec t = {.text = text,
                          .len = len,
                          .single_word = bool_field(value, "single_word", false),
                          .normalized = bool_field(value, "normalized", !special),
                          .lstrip = bool_field(value, "lstrip", false),
                          .rstrip = bool_field(value, "rstrip", false)};
    return append_token(to->tokens, to->vocabulary, t, to->c->dir, to->err);
}

static bool append_file_token(file_tokens *l, file_token entry)
{
    entry.order = l->len;
    return sg_array_push(l->at, l->len, l->cap, entry);
}

/* -1 for what is no id. */
static int parse_id(const char *s)
{
    int64_t id;
    return sg_number_int(s, strlen(s), 0, INT32_MAX, &id) ? (int)id : -1;
}

static int id_value(const json_t *value)
{
    int id;
    return sg_tokenizer_files_int(value, INT32_MAX, &id) ? id : -1;
}

static sg_status add_file_token(const sg_tokenizer_files *c, file_tokens *l, file_token entry, const char *field,
                                sg_error *e)
{
    if (entry.id < 0) return fail(c, field, "a token id that is not a whole number from 0 to 2147483647", e);
    return append_file_token(l, entry) ? SG_OK : no_memory(c, e);
}

static sg_status read_decoder(const sg_tokenizer_files *c, file_tokens *l, sg_error *e)
{
    json_t     *decoder = json_object_get(c->config, "added_tokens_decoder"), *value;
    const char *key;
    if (!json_is_object(decoder)) return fail(c, "added_tokens_decoder", "not an object", e);
    json_object_foreach(decoder, key, value)
        SG_TRY(add_file_token(c, l, (file_token){.id = parse_id(key), .value = value}, "added_tokens_decoder", e));
    return SG_OK;
}

static sg_status read_tokenizer(const sg_tokenizer_files *c, file_tokens *l, sg_error *e)
{
    const json_t *tokens = json_object_get(c->tokenizer, "added_tokens");
    if (tokens && !json_is_array(tokens)) return fail(c, "tokenizer.json: added_tokens", "not a list", e);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t    *value = json_array_get(tokens, i);
        const file_token entry = {.id = id_value(json_object_get(value, "id")), .value = value};
        SG_TRY(add_file_token(c, l, entry, "tokenizer.json: added_tokens", e));
    }
    return SG_OK;
}

/* Reads what counts without added_tokens_decoder. */
static sg_status read_older_files(const sg_tokenizer_files *c, file_tokens *l, sg_error *e)
{
    const char *key;
    json_t     *value;
    json_object_foreach(c->added, key, value)
        SG_TRY(add_file_token(c, l, (file_token){.id = id_value(value), .text = key}, "added_tokens.json", e));
    return read_tokenizer(c, l, e);
}

static int by_id(const void *x, const void *y)
{
    const file_token *a = x, *b = y;
    return a->id != b->id ? (a->id > b->id) - (a->id < b->id) : (a->order > b->order) - (a->order < b->order);
}

static const char *content_of(const json_t *value)
{
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

/* Returns whether a special token has this text. */
static bool is_special(const sg_tokenizer_files *c, const char *text)
{
    for (int i = 0; i < SG_SPECIALS; i++) {
        const char *have = content_of(sg_tokenizer_files_special(c, sg_special_names[i]));
        if (have && !strcmp(have, text)) return true;
    }
    return false;
}

/* Returns whether this is the text of a special token that the class adds because no file has it. */
static bool is_default_special(const sg_tokenizer_files *c, const char *text)
{
    for (int i = 0; i < SG_SPECIALS; i++)
        if (c->defaults && c->defaults[i] && !sg_tokenizer_files_special(c, sg_special_names[i]) &&
            !strcmp(c->defaults[i], text))
            return true;
    return false;
}

static bool is_extra_special(const sg_tokenizer_files *c, const char *text)
{
    const json_t *extra = json_object_get(c->config, "extra_special_tokens");
    for (size_t i = 0; i < json_array_size(extra); i++) {
        const char *have = content_of(json_array_get(extra, i));
        if (have && !strcmp(have, text)) return true;
    }
    return false;
}

/* The last of several tokens with one id counts. */
static sg_status add_in_order_of_ids(const collector *to, file_tokens *l)
{
    if (l->len) qsort(l->at, l->len, sizeof *l->at, by_id);
    for (size_t i = 0; i < l->len; i++) {
        const file_token *t = &l->at[i];
        if (i + 1 < l->len && l->at[i + 1].id == t->id) continue;
        const char *text = t->value ? content_of(t->value) : t->text;
        const bool  special = text && is_special(to->c, text);
        if (t->value)
            SG_TRY(add_value(to, t->value, special || (text && is_default_special(to->c, text)),
                             to->c->has_decoder ? "added_tokens_decoder" : "tokenizer.json: added_tokens"));
        else
            SG_TRY(add_text(to, text, strlen(text), !special && !is_extra_special(to->c, text)));
    }
    return SG_OK;
}

static sg_status add_file_tokens(const collector *to)
{
    file_tokens l = {0};
    sg_status   s = to->c->has_decoder ? read_decoder(to->c, &l, to->err) : read_older_files(to->c, &l, to->err);
    if (s == SG_OK) s = add_in_order_of_ids(to, &l);
    free(l.at);
    return s;
}

/* Adds the tokens whose names only this model has, such as "image_token". */
static sg_status add_model_specials(const collector *to, json_t *object)
{
    const char *key;
    json_t     *value;
    json_object_foreach(object, key, value)
    {
        bool known = !sg_text_ends(key, "_token") || !(json_is_string(value) || json_object_get(value, "content"));
        for (int i = 0; i < SG_SPECIALS; i++) known |= !strcmp(key, sg_special_names[i]);
        if (!known) SG_TRY(add_value(to, value, true, key));
    }
    return SG_OK;
}

/* Adds the special tokens that every tokenizer may have, then those of this model. */
static sg_status add_specials(const collector *to)
{
    for (int i = 0; i < SG_SPECIALS; i++) {
        const json_t *value = sg_tokenizer_files_special(to->c, sg_special_names[i]);
        if (value)
            SG_TRY(add_value(to, value, true, sg_special_names[i]));
        else if (to->c->defaults && to->c->defaults[i])
            SG_TRY(add_text(to, to->c->defaults[i], strlen(to->c->defaults[i]), false));
    }
    SG_TRY(add_model_specials(to, to->c->config));
    SG_TRY(add_model_specials(to, to->c->special));
    json_t     *own = json_object_get(to->c->config, "extra_special_tokens"), *value;
    const char *key;
    json_object_foreach(own, key, value) SG_TRY(add_value(to, value, true, "extra_special_tokens"));
    return SG_OK;
}

static sg_status add_list(const collector *to, const json_t *tokens, const char *field)
{
    for (size_t i = 0; i < json_array_size(tokens); i++) SG_TRY(add_value(to, json_array_get(tokens, i), true, field));
    return SG_OK;
}

static sg_status add_extra_ids(const collector *to)
{
    int count;
    SG_TRY(sg_tokenizer_files_extra_ids(to->c, &count, to->err));
    for (int i = 0; i < count; i++) {
        char      name[32];
        const int len = snprintf(name, sizeof name, "<extra_id_%d>", i);
        SG_TRY(add_text(to, name, (size_t)len, false));
    }
    return SG_OK;
}

static bool lists_extra_ids(const json_t *tokens)
{
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const char *text = content_of(json_array_get(tokens, i));
        if (text && strstr(text, "<extra_id_")) return true;
    }
    return false;
}

static sg_status add_extra_specials(const collector *to, const sg_sentencepiece_file *m)
{
    const json_t *extra = json_object_get(to->c->config, "extra_special_tokens");
    const json_t *additional = json_object_get(to->c->config, "additional_special_tokens");
    if (json_array_size(extra)) return add_list(to, extra, "extra_special_tokens");
    if (json_is_array(additional)) return add_list(to, additional, "additional_special_tokens");
    if (json_is_array(extra)) return SG_OK;
    extra = json_object_get(to->c->special, "extra_special_tokens");
    additional = json_object_get(to->c->special, "additional_special_tokens");
    if (json_is_array(extra)) return add_list(to, extra, "extra_special_tokens");
    SG_TRY(add_list(to, additional, "additional_special_tokens"));
    if (!to->c->t5_rules || lists_extra_ids(additional)) return SG_OK;
    for (size_t i = 0; !to->c->tokenizer && i < m->count; i++)
        if (m->pieces[i].type == SG_PIECE_CONTROL || m->pieces[i].type == SG_PIECE_USER)
            SG_TRY(add_text(to, m->pieces[i].text, m->pieces[i].len, false));
    return add_extra_ids(to);
}

static sg_status collect(sg_added_tokens *a, const sg_tokenizer_files *c, const sg_sentencepiece_file *m,
                         const sg_string_table *vocabulary, sg_error *e)
{
    const collector to = {.c = c, .vocabulary = vocabulary, .tokens = a, .err = e};
    a->next_id = (int32_t)vocabulary->count;
    a->of_files = MAX_ADDED_TOKENS;
    const json_t *first = c->t5_rules || c->rebuilt ? NULL : json_object_get(c->tokenizer, "added_tokens");
    for (size_t i = 0; i < json_array_size(first); i++)
        SG_TRY(add_value(&to, json_array_get(first, i), false, "tokenizer.json: added_tokens"));
    SG_TRY(add_file_tokens(&to));
    a->of_files = a->count;
    SG_TRY(add_specials(&to));
    return add_extra_specials(&to, m);
}

sg_status sg_added_tokens_open(sg_added_tokens *a, const sg_tokenizer_files *c, const sg_sentencepiece_file *m,
                               const sg_string_table *vocabulary, const sg_normalizer *by, sg_error *e)
{
    SG_TRY(collect(a, c, m, vocabulary, e));
    return index_all(a, by, e);
}

void sg_added_tokens_close(sg_added_tokens *a)
{
    for (size_t i = 0; i < a->count; i++) free(a->tokens[i].text);
    free(a->tokens);
    sg_string_table_free(&a->raw);
    sg_string_table_free(&a->normal);
    sg_textbuf_free(&a->normal_texts);
    *a = (sg_added_tokens){0};
}

/* ---- the token at the end ---- */

/* Returns the token that the template of post_processor puts after the text. Returns NULL when post_processor is not a
 * template or puts anything else. */
static const char *template_end(const json_t *post)
{
    const char   *type = json_string_value(json_object_get(post, "type"));
    const json_t *single = json_object_get(post, "single");
    const json_t *first = json_object_get(json_array_get(single, 0), "Sequence");
    const json_t *last = json_object_get(json_array_get(single, 1), "SpecialToken");
    return type && !strcmp(type, "TemplateProcessing") && json_array_size(single) == 2 && first
               ? json_string_value(json_object_get(last, "id"))
               : NULL;
}

static sg_status read_template(const sg_tokenizer_files *c, int max_id, int32_t *id, sg_error *e)
{
    const json_t *post = json_object_get(c->tokenizer, "post_processor");
    const char   *name = template_end(post);
    const json_t *token = name ? json_object_get(json_object_get(post, "special_tokens"), name) : NULL;
    const json_t *ids = json_object_get(token, "ids"), *first = json_array_get(ids, 0);
    if (json_array_size(ids) != 1)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s/tokenizer.json: post_processor: not that of a T5 tokenizer",
                            c->dir);
    if (!sg_tokenizer_files_int(first, max_id, id))
        return fail(c, "tokenizer.json: post_processor.special_tokens", "an id beyond the vocabulary", e);
    return SG_OK;
}

sg_status sg_added_tokens_end(const sg_added_tokens *a, const sg_tokenizer_files *c, int32_t *id, sg_error *e)
{
    if (!c->t5_rules) return read_template(c, a->next_id - 1, id, e);
    const int32_t eos = sg_added_tokens_id(a, sg_tokenizer_files_special_text(c, SG_SPECIAL_EOS));
    if (eos < 0) return fail(c, "tokenizer_config.json: eos_token", "not among the tokens", e);
    *id = eos;
    return SG_OK;
}

int32_t sg_added_tokens_id(const sg_added_tokens *a, const char *text)
{
    const sg_added_token *token = text ? find_token(a, text, strlen(text)) : NULL;
    return token ? token->id : -1;
}

/* ---- search in a text ---- */

/* Word characters of Unicode, as \w of a regular expression. */
static bool is_word_character(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
    }
    /* alphabetic symbols in circles and squares; the joiners */
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c || c == 0x200d;
}

/* Decodes the character before text[at] and returns where it begins. */
static size_t char_before(const char *text, size_t at, int32_t *c)
{
    size_t before = at - 1;
    while (sg_utf8_continues(text[before])) before--;
    sg_utf8_next(text + before, at - before, c);
    return before;
}

/* Returns whether no word character touches text[from..to). */
static bool is_whole_word(const char *text, size_t len, size_t from, size_t to)
{
    int32_t c;
    if (to < len) {
        sg_utf8_next(text + to, len - to, &c);
        if (is_word_character(c)) return false;
    }
    if (!from) return true;
    char_before(text, from, &c);
    return !is_word_character(c);
}

/* A token that strips takes the white space beside it, back to `first`. */
static void strip(const sg_added_token *t, const char *text, size_t len, size_t first, size_t *at, size_t *bytes)
{
    size_t  end = *at + *bytes, used;
    int32_t c;
    while (t->rstrip && end < len && (used = sg_utf8_next(text + end, len - end, &c), sg_utf8_is_space(c))) end += used;
    while (t->lstrip && *at > first && (used = char_before(text, *at, &c), sg_utf8_is_space(c))) *at = used;
    *bytes = end - *at;
}

const sg_added_token *sg_added_tokens_next(const sg_added_tokens *a, bool normalized, const char *text, size_t len,
                                           size_t *at, size_t *bytes)
{
    const sg_string_table *l = normalized ? &a->normal : &a->raw;
    for (size_t first = *at, i = first; i < len && l->count;) {
        const sg_string_entry *w = sg_string_table_longest(l, text + i, len - i);
        if (!w) {
            i++;
            continue;
        }
        const sg_added_token *t = &a->tokens[w->id];
        if (!t->single_word || is_whole_word(text, len, i, i + w->len)) {
            *at = i;
            *bytes = w->len;
            strip(t, text, len, first, at, bytes);
            return t;
        }
        i += w->len;
    }
    return NULL;
}

/* ---- a text ---- */

sg_status sg_tokenizer_no_memory(sg_error *e)
{
    return sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for the text");
}

/* The added tokens of one kind by their ids; what lies between them is normalised, and cut again, or made of words. */
static sg_status cut(sg_token_run *r, bool normalized, const char *text, size_t len, sg_error *e)
{
    for (size_t from = 0; from < len && r->ids.len < r->most;) {
        size_t                      at = from, bytes = 0;
        const sg_added_token *const t = sg_added_tokens_next(r->added, normalized, text, len, &at, &bytes);
        const size_t                stop = t ? at : len;
        if (stop > from && normalized) SG_TRY(r->words(r, text + from, stop - from, e));
        if (stop > from && !normalized) {
            sg_textbuf_clear(&r->normal);
            r->by.apply(r->by.of, &r->normal, text + from, stop - from);
            if (r->normal.failed) return sg_tokenizer_no_memory(e);
            SG_TRY(cut(r, true, r->normal.data, r->normal.len, e));
        }
        if (t && !sg_token_ids_append(&r->ids, t->id)) return sg_tokenizer_no_memory(e);
        from = stop + bytes;
    }
    return SG_OK;
}

sg_status sg_token_run_encode(sg_token_run *r, const char *text, size_t len, sg_error *e)
{
    const size_t size = r->size ? r->size : SG_PROMPT_MAX;
    size_t       bad;
    if (len > size)
        return sg_error_set(e, SG_E_ARG, "tokenizer: %zu bytes are more than the %zu that a text may have", len, size);
    if (!sg_utf8_check(text, len, &bad))
        return sg_error_set(e, SG_E_ARG, "tokenizer: not UTF-8 at byte %zu (0x%02x)", bad, (unsigned char)text[bad]);
    const sg_status status = cut(r, false, text, len, e);
    sg_textbuf_free(&r->normal);
    return status;
}
