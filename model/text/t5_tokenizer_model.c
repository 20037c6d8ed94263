/* t5_tokenizer_model.c - see t5_tokenizer_model.h. */
#include "t5_tokenizer_model.h"
#include "base/array.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- spiece.model ---- */

enum { MODEL_UNIGRAM = 1, MAX_FILE_BYTES = 64 << 20 };
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* The bytes of a protobuf message that are still to be read. */
typedef struct message {
    const unsigned char *at, *end;
} message;

typedef struct field {
    uint32_t number;
    int      wire;
    uint64_t value; /* VARINT, FIXED32 */
    message  bytes; /* BYTES */
} field;

static bool read_varint(message *m, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 70 && m->at < m->end; shift += 7) {
        const unsigned char b = *m->at++;
        if (shift == 63 && b > 1) return false;
        *value |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

/* Reads the next field of m, which must not be at its end. Returns false when the framing is broken. */
static bool read_field(message *m, field *f)
{
    uint64_t tag, size = 0;
    if (!read_varint(m, &tag) || tag >> 3 == 0 || tag >> 32) return false;
    *f = (field){.number = (uint32_t)(tag >> 3), .wire = (int)(tag & 7)};
    switch (f->wire) {
    case VARINT: return read_varint(m, &f->value);
    case FIXED64: size = 8; break;
    case FIXED32: size = 4; break;
    case BYTES:
        if (!read_varint(m, &size)) return false;
        break;
    default: return false;
    }
    if (size > (uint64_t)(m->end - m->at)) return false;
    f->bytes = (message){m->at, m->at + size};
    for (int i = 0; f->wire == FIXED32 && i < 4; i++) f->value |= (uint64_t)m->at[i] << 8 * i;
    m->at += size;
    return true;
}

static bool read_piece(message m, sg_sentencepiece *p)
{
    *p = (sg_sentencepiece){.type = SG_PIECE_NORMAL};
    field f;
    while (m.at < m.end) {
        if (!read_field(&m, &f)) return false;
        if (f.number == 1 && f.wire == BYTES) {
            p->text = (const char *)f.bytes.at;
            p->len = (size_t)(f.bytes.end - f.bytes.at);
        } else if (f.number == 2 && f.wire == FIXED32) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&p->score, &bits, sizeof p->score);
        } else if (f.number == 3 && f.wire == VARINT) {
            p->type = f.value > SG_PIECE_BYTE ? 0 : (sg_sentencepiece_type)f.value;
        } else if (f.number <= 3) {
            return false;
        }
    }
    return true;
}

const char *sg_sentencepiece_fault(const sg_sentencepiece *p)
{
    size_t bad;
    if (!p->len) return "is empty";
    if (p->len > SG_PIECE_MAX_BYTES) return "is longer than 512 bytes";
    if (!sg_utf8_check(p->text, p->len, &bad)) return "is not UTF-8";
    if (memchr(p->text, 0, p->len)) return "holds a NUL";
    if (!isfinite(p->score)) return "has a score that is not finite";
    return p->type ? NULL : "is of an unknown type";
}

static sg_status add_piece(sg_sentencepiece_file *m, message bytes, const char *path, sg_error *e)
{
    if (!sg_array_reserve(m->pieces, m->cap, m->count + 1))
        return sg_error_set(e, SG_E_MEMORY, "%s: no memory for more than %zu pieces", path, m->count);
    sg_sentencepiece *p = &m->pieces[m->count];
    const char       *fault = read_piece(bytes, p) ? sg_sentencepiece_fault(p) : "is not a SentencePiece message";
    if (fault) return sg_error_set(e, SG_E_FORMAT, "%s: piece %zu %s", path, m->count, fault);
    m->count++;
    return SG_OK;
}

static bool read_trainer(message m, uint64_t *model_type)
{
    field f;
    while (m.at < m.end) {
        if (!read_field(&m, &f)) return false;
        if (f.number == 3 && f.wire != VARINT) return false;
        if (f.number == 3) *model_type = f.value;
    }
    return true;
}

static bool read_normalizer(message m, sg_sentencepiece_file *out)
{
    field f;
    while (m.at < m.end) {
        if (!read_field(&m, &f)) return false;
        if (f.number == 2 && f.wire != BYTES) return false;
        if (f.number == 2) {
            out->charsmap = (const char *)f.bytes.at;
            out->charsmap_size = (size_t)(f.bytes.end - f.bytes.at);
        }
    }
    return true;
}

static sg_status parse(sg_sentencepiece_file *m, const unsigned char *start, size_t size, const char *path, sg_error *e)
{
    message  all = {start, start + size};
    uint64_t model_type = MODEL_UNIGRAM;
    while (all.at < all.end) {
        const size_t offset = (size_t)(all.at - start);
        field        f;
        bool         valid = read_field(&all, &f) && (f.number > 3 || f.wire == BYTES);
        if (valid && f.number == 1) SG_TRY(add_piece(m, f.bytes, path, e));
        m->complete = m->complete || f.number > 1;
        if (valid && f.number == 2) valid = read_trainer(f.bytes, &model_type);
        if (valid && f.number == 3) valid = read_normalizer(f.bytes, m);
        if (!valid)
            return sg_error_set(e, SG_E_FORMAT, "%s: not a SentencePiece model: broken at byte %zu", path, offset);
    }
    if (!m->count) return sg_error_set(e, SG_E_FORMAT, "%s: not a SentencePiece model: it has no pieces", path);
    if (model_type != MODEL_UNIGRAM)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: trainer_spec.model_type is %llu; only Unigram (1) is understood",
                            path, (unsigned long long)model_type);
    return SG_OK;
}

sg_status sg_sentencepiece_file_open(sg_sentencepiece_file *m, const char *path, sg_error *e)
{
    sg_status s = sg_map_open_most(&m->file, path, MAX_FILE_BYTES, e);
    if (s == SG_OK) s = parse(m, m->file.data, m->file.size, path, e);
    if (s != SG_OK) sg_sentencepiece_file_close(m);
    return s;
}

sg_status sg_sentencepiece_file_read(sg_sentencepiece_file *m, const void *data, size_t size, const char *path,
                                     sg_error *e)
{
    const sg_status s = parse(m, data, size, path, e);
    if (s != SG_OK) sg_sentencepiece_file_close(m);
    return s;
}

void sg_sentencepiece_file_close(sg_sentencepiece_file *m)
{
    free(m->pieces);
    sg_map_close(&m->file);
    *m = (sg_sentencepiece_file){0};
}

/* ---- character map ---- */

enum { GRAPHEME_BYTES = 6 }; /* a grapheme of this length or more is looked up character by character */

static uint32_t load_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t unit_label(uint32_t u) { return u & 0x800000ffu; }
static uint32_t unit_offset(uint32_t u) { return u >> 10 << ((u & 1u << 9) >> 6); }
static bool     unit_has_value(uint32_t u) { return u & 1u << 8; }

/* The pool must be UTF-8 and end in a NUL. */
static bool check_pool(const sg_charsmap *m)
{
    size_t bad;
    return m->pool_size && !m->pool[m->pool_size - 1] && sg_utf8_check(m->pool, m->pool_size, &bad);
}

/* Checks units that no key leads to as well: a valid map has none whose value is out of bounds. */
static bool check_values(const sg_charsmap *m)
{
    for (size_t i = 0; i < m->unit_count; i++) {
        const uint32_t u = load_u32(m->units + 4 * i);
        if (u >> 31 || !unit_has_value(u)) continue;
        const size_t value_at = i ^ unit_offset(u);
        if (value_at >= m->unit_count) return false;
        const uint32_t value = load_u32(m->units + 4 * value_at) & 0x7fffffffu;
        if (value >= m->pool_size || sg_utf8_continues(m->pool[value])) return false;
    }
    return true;
}

sg_status sg_charsmap_open(sg_charsmap *m, const void *blob, size_t size, const char *where, sg_error *e)
{
    *m = (sg_charsmap){0};
    if (!size) return SG_OK;
    const unsigned char *p = blob;
    const size_t         trie = size < 4 ? 0 : load_u32(p);
    if (size < 4 || trie > size - 4 || trie % 4 || !trie)
        return sg_error_set(e, SG_E_FORMAT, "%s: precompiled_charsmap: a trie of %zu bytes in a map of %zu", where,
                            trie, size);
    const sg_charsmap map = {
        .units = p + 4, .unit_count = trie / 4, .pool = (const char *)p + 4 + trie, .pool_size = size - 4 - trie};
    if (!check_pool(&map))
        return sg_error_set(e, SG_E_FORMAT, "%s: precompiled_charsmap: its strings are not NUL-terminated UTF-8",
                            where);
    if (!check_values(&map))
        return sg_error_set(e, SG_E_FORMAT, "%s: precompiled_charsmap: a value points out of its strings", where);
    *m = map;
    return SG_OK;
}

/* Returns the replacement of the shortest key that s begins with, or NULL. */
static const char *lookup(const sg_charsmap *m, const char *s, size_t n)
{
    size_t at = unit_offset(load_u32(m->units));
    for (size_t i = 0; i < n && s[i]; i++) {
        const unsigned char c = (unsigned char)s[i];
        at ^= c;
        if (at >= m->unit_count) return NULL;
        const uint32_t u = load_u32(m->units + 4 * at);
        if (unit_label(u) != c) return NULL;
        at ^= unit_offset(u);
        if (unit_has_value(u)) return m->pool + (load_u32(m->units + 4 * at) & 0x7fffffffu);
    }
    return NULL;
}

/* Returns the bytes of the first grapheme of s. */
static size_t grapheme_length(const char *s, size_t n)
{
    int32_t          c, next;
    utf8proc_int32_t state = 0;
    size_t           i = sg_utf8_next(s, n, &c);
    while (i < n) {
        const size_t used = sg_utf8_next(s + i, n - i, &next);
        if (utf8proc_grapheme_break_stateful(c, next, &state)) break;
        i += used;
        c = next;
    }
    return i;
}

void sg_charsmap_apply(const sg_charsmap *m, sg_textbuf *out, const char *text, size_t len)
{
    if (!m->unit_count) {
        sg_textbuf_put(out, text, len);
        return;
    }
    for (size_t i = 0; i < len;) {
        const size_t grapheme = grapheme_length(text + i, len - i), end = i + grapheme;
        const char  *whole = grapheme < GRAPHEME_BYTES ? lookup(m, text + i, grapheme) : NULL;
        if (whole) {
            sg_textbuf_put(out, whole, strlen(whole));
            i = end;
        }
        while (i < end) {
            int32_t      c;
            const size_t used = sg_utf8_next(text + i, end - i, &c);
            const char  *other = lookup(m, text + i, used);
            sg_textbuf_put(out, other ? other : text + i, other ? strlen(other) : used);
            i += used;
        }
    }
}

/* ---- string table ---- */

bool sg_string_table_add(sg_string_table *t, sg_string_entry w)
{
    return sg_array_push(t->entries, t->count, t->cap, w);
}

static int compare_entries(const void *x, const void *y)
{
    const sg_string_entry *a = x, *b = y;
    const int              order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

size_t sg_string_table_sort(sg_string_table *t)
{
    if (t->count) qsort(t->entries, t->count, sizeof *t->entries, compare_entries);
    for (size_t i = 0, b = 0; b < 257; b++) {
        while (i < t->count && (unsigned char)t->entries[i].text[0] < b) i++;
        t->first[b] = i;
    }
    for (size_t i = 1; i < t->count; i++)
        if (!compare_entries(&t->entries[i - 1], &t->entries[i])) return i;
    return t->count;
}

void sg_string_table_free(sg_string_table *t)
{
    free(t->entries);
    *t = (sg_string_table){0};
}

/* Entries lo to hi - 1 of a table, which share a prefix. A search narrows the range byte by byte:
 *
 *   string_range r = all_entries(t);
 *   for (size_t i = 0; i < n && narrow(t, &r, i, s[i]); i++)
 *       if ((entry = entry_of_length(t, r, i + 1))) ...   entry spells s[0..i]
 */
typedef struct string_range {
    size_t lo, hi;
} string_range;

static string_range all_entries(const sg_string_table *t) { return (string_range){0, t->count}; }

/* Returns the index of the first entry of r whose byte at depth is at least c. An entry that ends there is smaller than
 * every c. */
static size_t lower_bound(const sg_string_table *t, string_range r, size_t depth, unsigned c)
{
    while (r.lo < r.hi) {
        const size_t           mid = r.lo + (r.hi - r.lo) / 2;
        const sg_string_entry *w = &t->entries[mid];
        if (w->len <= depth || (unsigned char)w->text[depth] < c)
            r.lo = mid + 1;
        else
            r.hi = mid;
    }
    return r.lo;
}

/* The entries of r share their first depth bytes. Keeps those whose next byte is c; returns false when none is left. */
static bool narrow(const sg_string_table *t, string_range *r, size_t depth, char c)
{
    const unsigned b = (unsigned char)c;
    if (depth == 0) {
        *r = (string_range){t->first[b], t->first[b + 1]};
    } else {
        r->lo = lower_bound(t, *r, depth, b);
        r->hi = lower_bound(t, *r, depth, b + 1);
    }
    return r->lo < r->hi;
}

/* The entries of r share their first len bytes. Returns the one of exactly len bytes, or NULL. */
static const sg_string_entry *entry_of_length(const sg_string_table *t, string_range r, size_t len)
{
    return r.lo < r.hi && t->entries[r.lo].len == len ? &t->entries[r.lo] : NULL;
}

const sg_string_entry *sg_string_table_find(const sg_string_table *t, const char *text, size_t len)
{
    const sg_string_entry key = {.text = text, .len = len};
    return t->count ? bsearch(&key, t->entries, t->count, sizeof *t->entries, compare_entries) : NULL;
}

const sg_string_entry *sg_string_table_longest(const sg_string_table *t, const char *s, size_t n)
{
    const sg_string_entry *best = NULL;
    string_range           r = all_entries(t);
    for (size_t i = 0; i < n && narrow(t, &r, i, s[i]); i++) {
        const sg_string_entry *w = entry_of_length(t, r, i + 1);
        if (w) best = w;
    }
    return best;
}

/* ---- Unigram model ---- */

/* The best path over the bytes before this one. Its last token begins at start. */
typedef struct node {
    double  sum;
    size_t  start;
    int32_t id; /* of that token, or NOT_REACHED or UNKNOWN */
} node;

enum { NOT_REACHED = -1, UNKNOWN = -2 };

bool sg_token_ids_append(sg_token_ids *l, int32_t id) { return sg_array_push(l->at, l->len, l->cap, id); }

static void relax(node *to, double sum, size_t start, int32_t id)
{
    if (to->id == NOT_REACHED || sum > to->sum) *to = (node){sum, start, id};
}

/* Fills best[0..n] with the best path over the first bytes of the word. */
static void find_best_paths(const sg_unigram *u, const char *word, size_t n, node *best)
{
    for (size_t i = 0; i <= n; i++) best[i] = (node){.id = NOT_REACHED};
    best[0].sum = 0;
    int32_t c;
    for (size_t i = 0, used; i < n; i += used) {
        used = sg_utf8_next(word + i, n - i, &c);
        bool         known = false;
        string_range r = all_entries(&u->pieces);
        for (size_t k = 0; i + k < n && narrow(&u->pieces, &r, k, word[i + k]); k++) {
            const sg_string_entry *w = entry_of_length(&u->pieces, r, k + 1);
            if (!w) continue;
            relax(&best[i + k + 1], best[i].sum + u->score[w->id], i, w->id);
            known |= k + 1 == used;
        }
        if (!known) relax(&best[i + used], best[i].sum + u->unknown_score, i, UNKNOWN);
    }
}

/* Turns the backward links of the best path into forward links: start of a node becomes the end of the token there. */
static void reverse_path(node *best, size_t n)
{
    size_t  end = n, next_end = 0;
    int32_t next_id = 0;
    while (true) {
        const size_t  start = best[end].start;
        const int32_t id = best[end].id;
        best[end].start = next_end;
        best[end].id = next_id;
        if (!end) return;
        next_end = end;
        next_id = id;
        end = start;
    }
}

/* Appends the pieces of n bytes. Returns false, and appends nothing, when a byte has no piece. */
static bool append_bytes(const sg_unigram *u, const char *s, size_t n, sg_token_ids *ids, bool *memory)
{
    for (size_t i = 0; i < n; i++)
        if (u->byte_id[(unsigned char)s[i]] < 0) return false;
    for (size_t i = 0; i < n && *memory; i++) *memory = sg_token_ids_append(ids, u->byte_id[(unsigned char)s[i]]);
    return true;
}

static sg_status append_unknown(const sg_unigram *u, const char *s, size_t n, sg_token_ids *ids, sg_error *e)
{
    bool memory = true;
    if (!u->byte_fallback || !append_bytes(u, s, n, ids, &memory)) {
        if (u->unknown_id < 0)
            return sg_error_set(e, SG_E_FORMAT, "tokenizer: no piece for \"%.*s\", and none for what is unknown",
                                n < 64 ? (int)n : 64, s);
        memory = sg_token_ids_append(ids, u->unknown_id);
    }
    return memory ? SG_OK : sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for token ids");
}

/* Appends the ids of the path. Consecutive unknown characters become one unknown token. */
static sg_status append_path(const sg_unigram *u, const char *word, size_t n, const node *best, sg_token_ids *ids,
                             sg_error *e)
{
    for (size_t i = 0; i < n;) {
        const int32_t id = best[i].id;
        size_t        end = best[i].start;
        bool          known = id != UNKNOWN;
        if (!known || id == u->unknown_id)
            for (; end < n && (best[end].id == UNKNOWN || best[end].id == u->unknown_id); known = false)
                end = best[end].start;
        if (!known)
            SG_TRY(append_unknown(u, word + i, end - i, ids, e));
        else if (!sg_token_ids_append(ids, id))
            return sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for token ids");
        i = end;
    }
    return SG_OK;
}

sg_status sg_unigram_encode(const sg_unigram *u, const char *word, size_t n, sg_token_ids *ids, sg_error *e)
{
    if (!n) return SG_OK;
    node *best = malloc((n + 1) * sizeof *best);
    if (!best) return sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for a word of %zu bytes", n);
    find_best_paths(u, word, n, best);
    reverse_path(best, n);
    const sg_status s = append_path(u, word, n, best, ids, e);
    free(best);
    return s;
}

void sg_unigram_free(sg_unigram *u)
{
    sg_string_table_free(&u->pieces);
    free(u->score);
    *u = (sg_unigram){0};
}
