/* added.c - see added.h. */
#include "added.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

const sg_added_token *sg_added_find(const sg_added *a, const char *text, size_t len)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tokens[i].len == len && !memcmp(a->tokens[i].text, text, len)) return &a->tokens[i];
    return NULL;
}

sg_status sg_added_put(sg_added *a, const sg_lexicon *vocabulary, sg_added_spec token, const char *where, sg_error *e)
{
    if (!token.len) return sg_error_set(e, SG_E_FORMAT, "%s: an added token is empty", where);
    if (sg_added_find(a, token.text, token.len)) return SG_OK;
    if (a->count == SG_ADDED_MAX)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: more than %d added tokens", where, SG_ADDED_MAX);
    if (a->count == a->cap) {
        const size_t    cap = a->cap ? 2 * a->cap : 64;
        sg_added_token *tokens = realloc(a->tokens, cap * sizeof *tokens);
        if (!tokens) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for %zu added tokens", where, cap);
        a->tokens = tokens;
        a->cap = cap;
    }
    const sg_word *known = sg_lexicon_find(vocabulary, token.text, token.len);
    char          *text = malloc(token.len + 1);
    if (!text) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for an added token", where);
    memcpy(text, token.text, token.len);
    text[token.len] = 0;
    a->tokens[a->count++] = (sg_added_token){.text = text,
                                             .len = token.len,
                                             .id = known ? known->id : a->next_id++,
                                             .single_word = token.single_word,
                                             .normalized = token.normalized};
    return SG_OK;
}

static bool index_tokens(sg_added *a, const sg_charsmap *map)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tokens[i].normalized) sg_charsmap_apply(map, &a->normal_texts, a->tokens[i].text, a->tokens[i].len);
    if (a->normal_texts.failed) return false;
    sg_textbuf one = {0};
    bool       memory = true;
    for (size_t i = 0, at = 0; memory && i < a->count; i++) {
        const sg_added_token *t = &a->tokens[i];
        sg_textbuf_clear(&one);
        if (t->normalized) sg_charsmap_apply(map, &one, t->text, t->len);
        const sg_word w = t->normalized ? (sg_word){a->normal_texts.data + at, one.len, (int32_t)i}
                                        : (sg_word){t->text, t->len, (int32_t)i};
        at += one.len;
        memory = !one.failed && (!w.len || sg_lexicon_add(t->normalized ? &a->normal : &a->raw, w));
    }
    sg_textbuf_free(&one);
    return memory;
}

sg_status sg_added_finish(sg_added *a, const sg_charsmap *map, sg_error *e)
{
    if (!index_tokens(a, map))
        return sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for %zu added tokens", a->count);
    sg_lexicon_sort(&a->raw);
    sg_lexicon_sort(&a->normal);
    return SG_OK;
}

void sg_added_free(sg_added *a)
{
    for (size_t i = 0; i < a->count; i++) free(a->tokens[i].text);
    free(a->tokens);
    sg_lexicon_free(&a->raw);
    sg_lexicon_free(&a->normal);
    sg_textbuf_free(&a->normal_texts);
    *a = (sg_added){0};
}

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

static bool stands_alone(const char *text, size_t len, size_t from, size_t to)
{
    int32_t c;
    if (to < len) {
        sg_utf8_next(text + to, len - to, &c);
        if (is_word_character(c)) return false;
    }
    if (!from) return true;
    size_t before = from - 1;
    while ((text[before] & 0xc0) == 0x80) before--;
    sg_utf8_next(text + before, from - before, &c);
    return !is_word_character(c);
}

const sg_added_token *sg_added_next(const sg_added *a, bool normalized, const char *text, size_t len, size_t *at,
                                    size_t *bytes)
{
    const sg_lexicon *l = normalized ? &a->normal : &a->raw;
    for (size_t i = *at; i < len && l->count;) {
        const sg_word *w = sg_lexicon_longest(l, text + i, len - i);
        if (!w) {
            i++;
            continue;
        }
        const sg_added_token *t = &a->tokens[w->id];
        if (!t->single_word || stands_alone(text, len, i, i + w->len)) {
            *at = i;
            *bytes = w->len;
            return t;
        }
        i += w->len;
    }
    return NULL;
}
