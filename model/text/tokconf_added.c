/* tokconf_added.c - see tokconf.h: which tokens are added, and in which order. */
#include "tokconf.h"

#include "input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
enum { NAMED = sizeof named / sizeof *named };
static const char *const usual[NAMED] = {[1] = "</s>", [2] = "<unk>", [4] = "<pad>"}; /* by the T5 rules */

/* Where tokens go, and what messages need. */
typedef struct adder {
    const sg_tokconf *c;
    const sg_lexicon *vocabulary;
    sg_added         *to;
    sg_error         *e;
} adder;

/* A token that the files list under an id; those are put by id. */
typedef struct listed {
    int           id;
    size_t        order;
    const char   *text; /* when value is NULL: what added_tokens.json names */
    const json_t *value;
} listed;

typedef struct listing {
    listed *at;
    size_t  len, cap;
} listing;

/* A field of another file than these two begins with the file's name. */
static sg_status fail(const sg_tokconf *c, const char *field, const char *why, sg_error *e)
{
    const char *const ours =
        json_object_get(c->special, field) ? "special_tokens_map.json: " : "tokenizer_config.json: ";
    return sg_error_set(e, SG_E_FORMAT, "%s/%s%s: %s", c->dir, strstr(field, ".json") ? "" : ours, sg_show(field), why);
}

static sg_status no_memory(const sg_tokconf *c, sg_error *e)
{
    return sg_error_set(e, SG_E_MEMORY, "%s: no memory for its added tokens", c->dir);
}

sg_status sg_tokconf_extra_ids(const sg_tokconf *c, int *count, sg_error *e)
{
    const json_t *field = json_object_get(c->config, "extra_ids");
    *count = 100;
    if (!field || json_is_null(field)) return SG_OK;
    if (!sg_tokconf_whole(field, SG_TOKCONF_MAX_EXTRA, count))
        return fail(c, "extra_ids", "not a whole number from 0 to 65536", e);
    return SG_OK;
}

const json_t *sg_tokconf_named(const sg_tokconf *c, const char *name)
{
    const json_t *value = json_object_get(c->special, name);
    if (!value || json_is_null(value)) value = json_object_get(c->config, name);
    return !value || json_is_null(value) ? NULL : value;
}

static sg_status put_text(const adder *w, const char *text, size_t len, bool normalized, bool single_word)
{
    const sg_added_spec t = {.text = text, .len = len, .single_word = single_word, .normalized = normalized};
    return sg_added_put(w->to, w->vocabulary, t, w->c->dir, w->e);
}

static bool flag(const json_t *token, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(token, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* A token as a string or as an object; a special one is looked for in the raw text unless it says otherwise. */
static sg_status put_value(const adder *w, const json_t *value, bool special, const char *field)
{
    const json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
    const char   *text = json_string_value(content);
    const size_t  len = json_string_length(content);
    size_t        bad;
    if (!text || strlen(text) != len || !sg_utf8_check(text, len, &bad))
        return fail(w->c, field, "a token that is neither a string nor an object with its content", w->e);
    special = special || flag(value, "special", false) || json_is_string(value);
    return put_text(w, text, len, flag(value, "normalized", !special), flag(value, "single_word", false));
}

static bool list(listing *l, listed entry)
{
    if (l->len == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 64;
        listed      *at = realloc(l->at, cap * sizeof *at);
        if (!at) return false;
        l->at = at;
        l->cap = cap;
    }
    entry.order = l->len;
    l->at[l->len++] = entry;
    return true;
}

/* Decimal digits only; -1 for anything else and for what no id can be. */
static int parse_id(const char *s)
{
    int64_t id = 0;
    if (!*s) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        id = id * 10 + (*s - '0');
        if (id > INT32_MAX) return -1;
    }
    return (int)id;
}

static int id_value(const json_t *value)
{
    int id;
    return sg_tokconf_whole(value, INT32_MAX, &id) ? id : -1;
}

static sg_status list_entry(const sg_tokconf *c, listing *l, listed entry, const char *field, sg_error *e)
{
    if (entry.id < 0) return fail(c, field, "a token id that is not a whole number from 0 to 2147483647", e);
    return list(l, entry) ? SG_OK : no_memory(c, e);
}

static sg_status list_decoder(const sg_tokconf *c, listing *l, sg_error *e)
{
    json_t     *decoder = json_object_get(c->config, "added_tokens_decoder"), *value;
    const char *key;
    if (!json_is_object(decoder)) return fail(c, "added_tokens_decoder", "not an object", e);
    json_object_foreach(decoder, key, value)
        SG_TRY(list_entry(c, l, (listed){.id = parse_id(key), .value = value}, "added_tokens_decoder", e));
    return SG_OK;
}

static sg_status list_tokenizer(const sg_tokconf *c, listing *l, sg_error *e)
{
    const json_t *tokens = json_object_get(c->tokenizer, "added_tokens");
    if (tokens && !json_is_array(tokens)) return fail(c, "tokenizer.json: added_tokens", "not a list", e);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *value = json_array_get(tokens, i);
        const listed  entry = {.id = id_value(json_object_get(value, "id")), .value = value};
        SG_TRY(list_entry(c, l, entry, "tokenizer.json: added_tokens", e));
    }
    return SG_OK;
}

static sg_status list_legacy(const sg_tokconf *c, listing *l, sg_error *e)
{
    const char *key;
    json_t     *value;
    json_object_foreach(c->added, key, value)
        SG_TRY(list_entry(c, l, (listed){.id = id_value(value), .text = key}, "added_tokens.json", e));
    return list_tokenizer(c, l, e);
}

static int by_id(const void *x, const void *y)
{
    const listed *a = x, *b = y;
    return a->id != b->id ? (a->id > b->id) - (a->id < b->id) : (a->order > b->order) - (a->order < b->order);
}

static const char *content_of(const json_t *value)
{
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static bool is_named(const sg_tokconf *c, const char *text)
{
    for (int i = 0; i < NAMED; i++) {
        const char *have = content_of(sg_tokconf_named(c, named[i]));
        if (have && !strcmp(have, text)) return true;
    }
    return false;
}

static bool is_usual(const sg_tokconf *c, const char *text)
{
    for (int i = 0; i < NAMED; i++)
        if (usual[i] && !sg_tokconf_named(c, named[i]) && !strcmp(usual[i], text)) return c->t5_rules;
    return false;
}

static bool is_extra(const sg_tokconf *c, const char *text)
{
    const json_t *extra = json_object_get(c->config, "extra_special_tokens");
    for (size_t i = 0; i < json_array_size(extra); i++) {
        const char *have = content_of(json_array_get(extra, i));
        if (have && !strcmp(have, text)) return true;
    }
    return false;
}

/* Of several under one id the last counts. */
static sg_status put_listing(const adder *w, listing *l)
{
    if (l->len) qsort(l->at, l->len, sizeof *l->at, by_id);
    for (size_t i = 0; i < l->len; i++) {
        const listed *t = &l->at[i];
        if (i + 1 < l->len && l->at[i + 1].id == t->id) continue;
        const char *text = t->value ? content_of(t->value) : t->text;
        const bool  special = text && is_named(w->c, text);
        if (t->value)
            SG_TRY(put_value(w, t->value, special || (text && is_usual(w->c, text)),
                             w->c->has_decoder ? "added_tokens_decoder" : "tokenizer.json: added_tokens"));
        else
            SG_TRY(put_text(w, text, strlen(text), !special && !is_extra(w->c, text), false));
    }
    return SG_OK;
}

static sg_status put_listed(const adder *w)
{
    listing   l = {0};
    sg_status s = w->c->has_decoder ? list_decoder(w->c, &l, w->e) : list_legacy(w->c, &l, w->e);
    if (s == SG_OK) s = put_listing(w, &l);
    free(l.at);
    return s;
}

static bool ends_in_token(const char *key)
{
    const size_t n = strlen(key);
    return n > 6 && !strcmp(key + n - 6, "_token");
}

/* Tokens that a model has under names of its own, such as "image_token". */
static sg_status put_own_names(const adder *w, json_t *object)
{
    const char *key;
    json_t     *value;
    json_object_foreach(object, key, value)
    {
        bool known = !ends_in_token(key) || !(json_is_string(value) || json_object_get(value, "content"));
        for (int i = 0; i < NAMED; i++) known |= !strcmp(key, named[i]);
        if (!known) SG_TRY(put_value(w, value, true, key));
    }
    return SG_OK;
}

static sg_status put_named(const adder *w)
{
    for (int i = 0; i < NAMED; i++) {
        const json_t *value = sg_tokconf_named(w->c, named[i]);
        if (value)
            SG_TRY(put_value(w, value, true, named[i]));
        else if (w->c->t5_rules && usual[i])
            SG_TRY(put_text(w, usual[i], strlen(usual[i]), false, false));
    }
    SG_TRY(put_own_names(w, w->c->config));
    SG_TRY(put_own_names(w, w->c->special));
    json_t     *own = json_object_get(w->c->config, "extra_special_tokens"), *value;
    const char *key;
    json_object_foreach(own, key, value) SG_TRY(put_value(w, value, true, "extra_special_tokens"));
    return SG_OK;
}

static sg_status put_list(const adder *w, const json_t *tokens, const char *field)
{
    for (size_t i = 0; i < json_array_size(tokens); i++) SG_TRY(put_value(w, json_array_get(tokens, i), true, field));
    return SG_OK;
}

static sg_status put_extra_ids(const adder *w)
{
    int count;
    SG_TRY(sg_tokconf_extra_ids(w->c, &count, w->e));
    for (int i = 0; i < count; i++) {
        char      name[32];
        const int len = snprintf(name, sizeof name, "<extra_id_%d>", i);
        SG_TRY(put_text(w, name, (size_t)len, false, false));
    }
    return SG_OK;
}

static bool names_extra_ids(const json_t *tokens)
{
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const char *text = content_of(json_array_get(tokens, i));
        if (text && strstr(text, "<extra_id_")) return true;
    }
    return false;
}

static sg_status put_special(const adder *w, const sg_spiece *m)
{
    const json_t *extra = json_object_get(w->c->config, "extra_special_tokens");
    const json_t *additional = json_object_get(w->c->config, "additional_special_tokens");
    if (json_array_size(extra)) return put_list(w, extra, "extra_special_tokens");
    if (json_is_array(additional)) return put_list(w, additional, "additional_special_tokens");
    if (json_is_array(extra)) return SG_OK;
    extra = json_object_get(w->c->special, "extra_special_tokens");
    additional = json_object_get(w->c->special, "additional_special_tokens");
    if (json_is_array(extra)) return put_list(w, extra, "extra_special_tokens");
    SG_TRY(put_list(w, additional, "additional_special_tokens"));
    if (!w->c->t5_rules || names_extra_ids(additional)) return SG_OK;
    for (size_t i = 0; !w->c->tokenizer && i < m->count; i++)
        if (m->pieces[i].type == SG_SPIECE_CONTROL || m->pieces[i].type == SG_SPIECE_USER)
            SG_TRY(put_text(w, m->pieces[i].text, m->pieces[i].len, false, false));
    return put_extra_ids(w);
}

sg_status sg_tokconf_added(const sg_tokconf *c, const sg_spiece *m, const sg_unigram *u, sg_added *a, sg_error *e)
{
    const adder w = {.c = c, .vocabulary = &u->pieces, .to = a, .e = e};
    a->next_id = (int32_t)u->pieces.count;
    const json_t *first = c->t5_rules ? NULL : json_object_get(c->tokenizer, "added_tokens");
    for (size_t i = 0; i < json_array_size(first); i++)
        SG_TRY(put_value(&w, json_array_get(first, i), false, "tokenizer.json: added_tokens"));
    SG_TRY(put_listed(&w));
    SG_TRY(put_named(&w));
    return put_special(&w, m);
}
