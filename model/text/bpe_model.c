/* bpe_model.c - see bpe_model.h. */
#include "bpe_model.h"
#include "base/array.h"
#include "base/utf8.h"
#include "tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

enum { MERGES_MAX = 1 << 22 };

/* The pair becomes id; of all pairs the one of least rank comes first. */
struct sg_bpe_merge {
    int32_t left, right, id; /* left -1: the place is free */
    int32_t rank;
};

/* ---- the vocabulary ---- */

/* GPT-2's character for a byte: that of the same number where it is printable and no space; the others are U+0100, U+0101, ... */
static int32_t character(int byte)
{
    int before = 0;
    if ((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174) return byte;
    for (int b = 0; b < byte; b++) before += b < 33 || (b > 126 && b < 161) || b == 173;
    return 256 + before;
}

static int32_t id_of(const sg_bpe_model *m, const char *text, size_t len)
{
    const sg_string_entry *const w = len ? sg_string_table_find(&m->vocabulary, text, len) : NULL;
    return w ? w->id : -1;
}

static sg_status no_memory(const sg_bpe_source *from, sg_error *e)
{
    return sg_error_set(e, SG_E_MEMORY, "%s: no memory for its vocabulary", from->where);
}

static sg_status read_vocabulary(sg_bpe_model *m, const sg_bpe_source *from, sg_error *e)
{
    const size_t  total = json_object_size(from->vocabulary);
    size_t        bytes = 0;
    const char   *text;
    json_t       *value;
    bool         *seen = calloc(total + 1, sizeof *seen);
    json_t *const list = (json_t *)(uintptr_t)from->vocabulary; /* Jansson walks through objects that are not const */
    sg_status     status = seen ? SG_OK : no_memory(from, e);
    json_object_foreach(list, text, value) bytes += strlen(text);
    if (status == SG_OK && !sg_textbuf_reserve(&m->texts, bytes + 1)) status = no_memory(from, e);
    json_object_foreach(list, text, value)
    {
        int          id;
        const size_t len = strlen(text), at = m->texts.len;
        if (status) break;
        sg_textbuf_put(&m->texts, text, len);
        if (!sg_tokenizer_files_int(value, (int)total - 1, &id) || seen[id] || !len)
            status = sg_error_set(e, SG_E_FORMAT,
                                  "%s: the vocabulary: the id of \"%s\" is not a number of its own below %zu",
                                  from->where, sg_show(text), total);
        else if (!sg_string_table_add(&m->vocabulary, (sg_string_entry){m->texts.data + at, len, id}))
            status = no_memory(from, e);
        else
            seen[id] = true;
    }
    free(seen);
    sg_string_table_sort(&m->vocabulary);
    return status;
}

static void find_bytes(sg_bpe_model *m, const char *suffix)
{
    for (int last = 0; last < 2; last++)
        for (int b = 0; b < 256; b++) {
            char         text[4 + 16];
            const size_t n = sg_utf8_put(text, character(b)), more = last ? strlen(suffix) : 0;
            memcpy(text + n, suffix, more);
            m->first[last][b] = id_of(m, text, n + more);
        }
}

/* ---- merges ---- */

/* The place of a pair, or the free one where it would be. */
static sg_bpe_merge *place_of(const sg_bpe_model *m, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    for (h >>= 20;; h++) {
        sg_bpe_merge *const p = &m->merges[h & m->mask];
        if (p->left < 0 || (p->left == left && p->right == right)) return p;
    }
}

/* Adds a merge. Of a pair that is twice in the list the last counts. */
static sg_status add_merge(sg_bpe_model *m, const sg_bpe_source *from, const char *a, size_t a_len, const char *b,
                           size_t b_len, size_t rank, sg_textbuf *both, sg_error *e)
{
    sg_textbuf_clear(both);
    sg_textbuf_put(both, a, a_len);
    sg_textbuf_put(both, b, b_len);
    if (both->failed) return no_memory(from, e);
    const int32_t left = id_of(m, a, a_len), right = id_of(m, b, b_len), id = id_of(m, both->data, both->len);
    if (left < 0 || right < 0 || id < 0)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: merges: entry %zu makes \"%s\" of parts of which one is not in the vocabulary",
                            from->merges_where, rank, both->data ? sg_show(both->data) : "");
    *place_of(m, left, right) = (sg_bpe_merge){left, right, id, (int32_t)rank};
    return SG_OK;
}

static sg_status split_merge(sg_bpe_model *m, const sg_bpe_source *from, const char *line, size_t size, size_t rank,
                             sg_textbuf *both, sg_error *e)
{
    const char *const space = memchr(line, ' ', size);
    const size_t      left = space ? (size_t)(space - line) : 0, right = space ? size - left - 1 : 0;
    if (!space || memchr(space + 1, ' ', right))
        return sg_error_set(e, SG_E_FORMAT, "%s: merges: entry %zu is not two parts with a space between them",
                            from->merges_where, rank);
    return add_merge(m, from, line, left, space + 1, right, rank, both, e);
}

static sg_status read_list(sg_bpe_model *m, const sg_bpe_source *from, sg_textbuf *both, sg_error *e)
{
    for (size_t i = 0; i < json_array_size(from->merges); i++) {
        const json_t *const entry = json_array_get(from->merges, i);
        const json_t *const a = json_array_get(entry, 0), *const b = json_array_get(entry, 1);
        if (json_is_string(entry))
            SG_TRY(split_merge(m, from, json_string_value(entry), json_string_length(entry), i, both, e));
        else if (json_array_size(entry) == 2 && json_is_string(a) && json_is_string(b))
            SG_TRY(add_merge(m, from, json_string_value(a), json_string_length(a), json_string_value(b),
                             json_string_length(b), i, both, e));
        else
            return sg_error_set(e, SG_E_FORMAT, "%s: merges: entry %zu is neither a string nor a list of two",
                                from->merges_where, i);
    }
    return SG_OK;
}

/* The next line of text[*at..size): its bytes without the line break. */
static size_t next_line(const char *text, size_t size, size_t *at)
{
    const char *const end = memchr(text + *at, '\n', size - *at);
    const size_t      n = end ? (size_t)(end - (text + *at)) : size - *at;
    const char *const line = text + *at;
    *at += n + (end != NULL);
    return n && line[n - 1] == '\r' ? n - 1 : n;
}

static sg_status read_lines(sg_bpe_model *m, const sg_bpe_source *from, sg_textbuf *both, sg_error *e)
{
    static const char version[] = "#version";
    size_t            rank = 0;
    for (size_t at = 0; at < from->lines_size;) {
        const char *const line = from->lines + at;
        const size_t      n = next_line(from->lines, from->lines_size, &at);
        if (n >= sizeof version - 1 && memcmp(line, version, sizeof version - 1) == 0) continue;
        SG_TRY(split_merge(m, from, line, n, rank++, both, e));
    }
    return SG_OK;
}

static sg_status read_merges(sg_bpe_model *m, const sg_bpe_source *from, sg_error *e)
{
    size_t count = json_array_size(from->merges), places = 16;
    for (size_t at = 0; !from->merges && at < from->lines_size; count++) next_line(from->lines, from->lines_size, &at);
    if (count > MERGES_MAX)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: merges: more than %d", from->merges_where, MERGES_MAX);
    while (places < 2 * count) places *= 2;
    m->mask = places - 1;
    m->merges = malloc(places * sizeof *m->merges);
    if (!m->merges) return no_memory(from, e);
    for (size_t i = 0; i < places; i++) m->merges[i] = (sg_bpe_merge){.left = -1};
    sg_textbuf      both = {0};
    const sg_status status = from->merges ? read_list(m, from, &both, e) : read_lines(m, from, &both, e);
    sg_textbuf_free(&both);
    return status;
}

sg_status sg_bpe_model_open(sg_bpe_model *m, const sg_bpe_source *from, sg_error *e)
{
    if (strlen(from->suffix) > 16)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: a suffix of more than 16 bytes", from->where);
    SG_TRY(read_vocabulary(m, from, e));
    find_bytes(m, from->suffix);
    m->whole_words = from->whole_words;
    m->unknown = from->unknown ? id_of(m, from->unknown, strlen(from->unknown)) : -1;
    if (from->unknown && m->unknown < 0)
        return sg_error_set(e, SG_E_FORMAT, "%s: the vocabulary lacks the unknown token \"%s\"", from->where,
                            sg_show(from->unknown));
    return read_merges(m, from, e);
}

void sg_bpe_model_close(sg_bpe_model *m)
{
    sg_string_table_free(&m->vocabulary);
    sg_textbuf_free(&m->texts);
    free(m->merges);
    *m = (sg_bpe_model){0};
}

/* ---- a word ---- */

/* A list in the order of the word. A symbol that went into the one before it has id -1. */
typedef struct sg_bpe_symbol {
    int32_t id, before, next; /* -1: none */
} symbol;

/* Symbol `at` and the next one may become id. */
typedef struct sg_bpe_pair {
    int32_t rank, at, id;
} pair;

static bool comes_first(const pair *a, const pair *b) { return a->rank != b->rank ? a->rank < b->rank : a->at < b->at; }

/* The heap has room for what is put. */
static void put_pair(sg_bpe_work *w, pair p)
{
    size_t i = w->count++;
    for (; i > 0 && comes_first(&p, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = p;
}

static pair take_pair(sg_bpe_work *w)
{
    const pair first = w->heap[0], last = w->heap[--w->count];
    size_t     i = 0, child;
    for (; (child = 2 * i + 1) < w->count; i = child) {
        if (child + 1 < w->count && comes_first(&w->heap[child + 1], &w->heap[child])) child++;
        if (!comes_first(&w->heap[child], &last)) break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return first;
}

static void offer(const sg_bpe_model *m, sg_bpe_work *w, int32_t at)
{
    const int32_t next = at < 0 ? -1 : w->symbol[at].next;
    if (next < 0) return;
    const sg_bpe_merge *const p = place_of(m, w->symbol[at].id, w->symbol[next].id);
    if (p->left >= 0) put_pair(w, (pair){p->rank, at, p->id});
}

/* Whether the symbols are still those that p was offered for. */
static bool is_current(const sg_bpe_model *m, const sg_bpe_work *w, pair p)
{
    const symbol *const a = &w->symbol[p.at];
    if (a->id < 0 || a->next < 0) return false;
    const sg_bpe_merge *const now = place_of(m, a->id, w->symbol[a->next].id);
    return now->left >= 0 && now->id == p.id;
}

static void merge(const sg_bpe_model *m, sg_bpe_work *w)
{
    while (w->count) {
        const pair p = take_pair(w);
        if (!is_current(m, w, p)) continue;
        symbol *const a = &w->symbol[p.at], *const b = &w->symbol[a->next];
        a->id = p.id;
        a->next = b->next;
        b->id = -1;
        if (a->next >= 0) w->symbol[a->next].before = p.at;
        offer(m, w, a->before);
        offer(m, w, p.at);
    }
}

/* Whether the word as a whole is in the vocabulary, and then its id. False too when memory runs out: the text has failed. */
static bool is_whole(const sg_bpe_model *m, const char *word, size_t n, sg_bpe_work *w, int32_t *id)
{
    sg_textbuf_clear(&w->text);
    for (size_t i = 0; i < n; i++) sg_textbuf_put_char(&w->text, character((unsigned char)word[i]));
    *id = w->text.failed ? -1 : id_of(m, w->text.data, w->text.len);
    return *id >= 0;
}

bool sg_bpe_model_encode(const sg_bpe_model *m, const char *word, size_t n, sg_bpe_work *w, sg_token_ids *ids)
{
    int32_t id, count = 0;
    if (m->whole_words && is_whole(m, word, n, w, &id)) return sg_token_ids_append(ids, id);
    /* A pair for each symbol, and two for each merge. */
    if (w->text.failed || !sg_array_reserve(w->symbol, w->symbols, n) || !sg_array_reserve(w->heap, w->pairs, 3 * n))
        return false;
    for (size_t i = 0; i < n; i++) {
        const int32_t byte = m->first[i + 1 == n][(unsigned char)word[i]], have = byte >= 0 ? byte : m->unknown;
        if (have >= 0) w->symbol[count] = (symbol){have, count - 1, -1}, count++;
        if (have >= 0 && count > 1) w->symbol[count - 2].next = count - 1;
    }
    for (int32_t i = 0; i < count; i++) offer(m, w, i);
    merge(m, w);
    for (int32_t i = count ? 0 : -1; i >= 0; i = w->symbol[i].next)
        if (!sg_token_ids_append(ids, w->symbol[i].id)) return false;
    return true;
}

void sg_bpe_work_free(sg_bpe_work *w)
{
    free(w->symbol);
    free(w->heap);
    sg_textbuf_free(&w->text);
    *w = (sg_bpe_work){0};
}

/* ---- decoding ---- */

bool sg_bpe_model_decode(const sg_bpe_model *m, const int32_t *ids, size_t n, sg_textbuf *out)
{
    enum { CHARACTERS = 512 };
    const size_t            count = m->vocabulary.count;
    const sg_string_entry **by_id = calloc(count + 1, sizeof(const sg_string_entry *));
    int                     byte_of[CHARACTERS];
    for (int i = 0; i < CHARACTERS; i++) byte_of[i] = -1;
    for (int b = 0; b < 256; b++) byte_of[character(b)] = b;
    for (size_t i = 0; by_id && i < count; i++) by_id[m->vocabulary.entries[i].id] = &m->vocabulary.entries[i];
    for (size_t i = 0; by_id && i < n; i++) {
        const sg_string_entry *const w = ids[i] >= 0 && (size_t)ids[i] < count ? by_id[ids[i]] : NULL;
        for (size_t at = 0; w && at < w->len;) {
            int32_t      c;
            const size_t bytes = sg_utf8_next(w->text + at, w->len - at, &c);
            const char   byte = c < CHARACTERS && byte_of[c] >= 0 ? (char)byte_of[c] : 0;
            if (c < CHARACTERS && byte_of[c] >= 0)
                sg_textbuf_put(out, &byte, 1);
            else /* a character that stands for no byte is itself, as tokenizers has it */
                sg_textbuf_put(out, w->text + at, bytes);
            at += bytes;
        }
    }
    free(by_id);
    return by_id && !out->failed;
}
