/* vocabulary.c - see vocabulary.h. */
#include "vocabulary.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    MOST_WORDS = 10000,
    WORD_BYTES = 64, /* of an entry */
    WORLD_BYTES = 300,
    LONGEST = 96, /* bytes of a text's word that are looked at, which is more than any entry has */
    SHOWN = 3
};

/* ---- words ---- */

static bool is_letter(utf8proc_int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NO; /* letters, marks, numbers */
}

static bool is_apostrophe(utf8proc_int32_t c) { return c == '\'' || c == 0x2019; }

/* Bytes of the character at p, 0 at the end of the text. */
static size_t next_character(const char *p, utf8proc_int32_t *c)
{
    const utf8proc_ssize_t n = *p ? utf8proc_iterate((const utf8proc_uint8_t *)p, -1, c) : 0;
    if (n > 0) return (size_t)n;
    *c = 0;
    return *p ? 1 : 0;
}

/* Bytes of the word that begins at p. */
static size_t word_length(const char *p)
{
    size_t           n = 0, used;
    utf8proc_int32_t c, after;
    while ((used = next_character(p + n, &c)) > 0) {
        if (!is_letter(c)) {
            if (!is_apostrophe(c) || n == 0 || !next_character(p + n + used, &after) || !is_letter(after)) break;
        }
        n += used;
    }
    return n;
}

/* The next word at *at, of *n bytes, or NULL; *at is moved behind it. */
static const char *next_word(const char **at, size_t *n)
{
    utf8proc_int32_t c;
    for (size_t used; (used = next_character(*at, &c)) > 0; *at += used) {
        if (!is_letter(c)) continue;
        const char *const word = *at;
        *n = word_length(word);
        *at += *n;
        return word;
    }
    return NULL;
}

/* A word as it is compared, the caller's to free; what is beyond LONGEST is left out. NULL: no memory. */
static char *folded(const char *word, size_t n)
{
    char             text[LONGEST];
    size_t           size = 0;
    utf8proc_int32_t c;
    for (size_t i = 0, used; i < n && (used = next_character(word + i, &c)) > 0; i += used) {
        if (size + 4 > sizeof text) break;
        if (is_apostrophe(c))
            text[size++] = '\'';
        else
            memcpy(text + size, word + i, used), size += used;
    }
    utf8proc_uint8_t *out = NULL;
    const int         how = UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD;
    if (utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &out, (utf8proc_option_t)how) < 0)
        return NULL;
    return (char *)out;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* ---- reading ---- */

static bool steers(utf8proc_int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF: /* directions among them */
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return true;
    default: return false;
    }
}

static void check_world(sg_config *c, const char *world)
{
    bool             blank = true;
    utf8proc_int32_t at;
    if (strlen(world) > WORLD_BYTES) {
        sg_config_fail(c, "world", "should have at most %d bytes, has %zu", WORLD_BYTES, strlen(world));
        return;
    }
    for (size_t i = 0, used; (used = next_character(world + i, &at)) > 0; i += used) {
        blank = blank && at == ' ';
        if (steers(at)) sg_config_fail(c, "world", "has the control character U+%04X", (unsigned)at);
    }
    if (blank) sg_config_fail(c, "world", "should not be blank");
}

/* The entry in its folded form; NULL after a failure. */
static char *take_word(sg_config *c, const char *entry, int i)
{
    const size_t n = strlen(entry);
    if (n == 0 || n > WORD_BYTES || word_length(entry) != n) {
        sg_config_fail(c, "vocabulary", "entry %d should be one word of at most %d bytes", i, WORD_BYTES);
        return NULL;
    }
    return folded(entry, n);
}

/* Entries become words of v->text, one behind the other. */
static sg_status take_words(sg_vocabulary *v, sg_config *c, const char **entry, int count, sg_error *e)
{
    size_t used = 0;
    v->word = calloc((size_t)count + 1, sizeof *v->word);
    for (int i = 0; v->word && i < count; i++) {
        char *const word = take_word(c, entry[i], i);
        if (sg_config_status(c) != SG_OK) return sg_config_status(c);
        const size_t n = word ? strlen(word) + 1 : 0;
        char *const  text = word ? realloc(v->text, used + n) : NULL;
        if (text) v->text = text, memcpy(text + used, word, n);
        free(word);
        if (!text) return sg_error_memory(e, "vocabulary");
        used += n;
    }
    if (!v->word) return sg_error_memory(e, "vocabulary");
    const char *at = v->text;
    for (int i = 0; i < count; i++, at += strlen(at) + 1) v->word[i] = at;
    v->count = count;
    qsort(v->word, (size_t)count, sizeof *v->word, by_text);
    return SG_OK;
}

sg_status sg_vocabulary_read(sg_vocabulary *out, const char *path, sg_error *e)
{
    *out = (sg_vocabulary){0};
    SG_TRY(sg_config_open(&out->own, path, e));
    sg_config *const  c = out->own;
    const char *const world = sg_config_string(c, "world", "");
    if (sg_config_has(c, "world")) check_world(c, world);
    SG_TRY(sg_config_status(c));
    out->world = *world ? world : NULL;
    if (!sg_config_has(c, "vocabulary")) return SG_OK;
    const char **const entry = calloc(MOST_WORDS, sizeof *entry);
    if (!entry) return sg_error_memory(e, "vocabulary");
    const int count = sg_config_strings(c, "vocabulary", entry, 1, MOST_WORDS);
    sg_status status = sg_config_status(c);
    if (status == SG_OK) status = take_words(out, c, entry, count, e);
    free(entry);
    return status;
}

void sg_vocabulary_free(sg_vocabulary *v)
{
    sg_config_close(&v->own);
    free(v->word);
    free(v->text);
    *v = (sg_vocabulary){0};
}

/* ---- asking ---- */

static bool has(const sg_vocabulary *v, const char *word)
{
    return bsearch(&word, v->word, (size_t)v->count, sizeof *v->word, by_text) != NULL;
}

/* "ball's" is a ball. */
static bool knows(const sg_vocabulary *v, char *word)
{
    const size_t n = strlen(word);
    if (has(v, word)) return true;
    if (n < 3 || strcmp(word + n - 2, "'s") != 0) return false;
    word[n - 2] = '\0';
    if (has(v, word)) return true;
    word[n - 2] = '\'';
    return false;
}

/* Unknown words of a text, in its order. */
typedef struct unknown {
    char **word;
    size_t count, room;
} unknown;

static bool add(unknown *u, char *word)
{
    if (u->count == u->room) {
        const size_t room = u->room ? 2 * u->room : 16;
        char **const more = reallocarray(u->word, room, sizeof *more);
        if (!more) return false;
        u->word = more;
        u->room = room;
    }
    u->word[u->count++] = word;
    return true;
}

static bool is_among(char *const *word, size_t count, const char *one)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word[i], one) == 0) return true;
    return false;
}

/* Finds the first different ones, then counts all, which sorts them. */
static int count_different(unknown *u, size_t first[SHOWN])
{
    size_t shown = 0;
    char  *seen[SHOWN];
    int    count = 0;
    for (size_t i = 0; i < u->count && shown < SHOWN; i++) {
        if (is_among(seen, shown, u->word[i])) continue;
        seen[shown] = u->word[i];
        first[shown++] = i;
    }
    char **const sorted = calloc(u->count + 1, sizeof *sorted);
    if (!sorted) return (int)shown;
    memcpy(sorted, u->word, u->count * sizeof *sorted);
    qsort(sorted, u->count, sizeof *sorted, by_text);
    for (size_t i = 0; i < u->count; i++) count += i == 0 || strcmp(sorted[i], sorted[i - 1]) != 0;
    free(sorted);
    return count;
}

static void write_list(char *list, size_t size, const unknown *u, const size_t first[SHOWN], int count)
{
    const int shown = count < SHOWN ? count : SHOWN, rest = count - shown;
    size_t    at = 0;
    for (int i = 0; i < shown && at < size; i++) {
        const char *const before = i == 0 ? "" : i == shown - 1 && !rest ? " and " : ", ";
        at += (size_t)snprintf(list + at, size - at, "%s'%s'", before, u->word[first[i]]);
    }
    if (rest && at < size) snprintf(list + at, size - at, " and %d other word%s", rest, rest == 1 ? "" : "s");
}

int sg_vocabulary_unknown(const sg_vocabulary *v, const char *text, char *list, size_t size)
{
    unknown     u = {0};
    size_t      n = 0, first[SHOWN] = {0};
    const char *word;
    bool        enough = true;
    if (size) *list = '\0';
    while (v->word && enough && (word = next_word(&text, &n)) != NULL) {
        char *const one = folded(word, n);
        enough = one != NULL;
        if (!one || knows(v, one) || !(enough = add(&u, one))) free(one);
    }
    const int count = enough && u.count ? count_different(&u, first) : 0;
    if (count) write_list(list, size, &u, first, count);
    for (size_t i = 0; i < u.count; i++) free(u.word[i]);
    free(u.word);
    return count;
}
