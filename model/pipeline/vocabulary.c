/* vocabulary.c - see vocabulary.h. */
#include "vocabulary.h"
#include "base/text.h"

#include <stdbool.h>
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

/* Adds a folded word to the keys of an object. */
static bool add(json_t *words, const char *word) { return json_object_set_new(words, word, json_null()) == 0; }

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

/* Puts the words of the list, folded and each once, into v, and their number of keys with NULL into the list. */
static sg_status take_words(sg_vocabulary *v, sg_config *c, int count, sg_error *e)
{
    v->words = json_object();
    bool enough = v->words != NULL;
    for (int i = 0; i < count && enough; i++) {
        const size_t n = strlen(v->list[i]);
        if (n == 0 || n > WORD_BYTES || word_length(v->list[i]) != n) {
            sg_config_fail(c, "vocabulary", "entry %d should be one word of at most %d bytes", i, WORD_BYTES);
            return sg_config_status(c);
        }
        char *const word = folded(v->list[i], n);
        enough = word && add(v->words, word);
        free(word);
    }
    if (!enough) return sg_error_memory(e, "vocabulary");
    const char *word;
    json_t     *null;
    count = 0;
    json_object_foreach(v->words, word, null) v->list[count++] = word;
    v->list[count] = NULL;
    return SG_OK;
}

sg_status sg_vocabulary_read(sg_vocabulary *out, sg_config *c, sg_error *e)
{
    const char *const world = sg_config_string(c, "world", "");
    if (sg_config_has(c, "world")) check_world(c, world);
    SG_TRY(sg_config_status(c));
    out->world = *world ? world : NULL;
    if (!sg_config_has(c, "vocabulary")) return SG_OK;
    out->list = calloc(MOST_WORDS + 1, sizeof *out->list);
    if (!out->list) return sg_error_memory(e, "vocabulary");
    const int count = sg_config_strings(c, "vocabulary", out->list, 1, MOST_WORDS);
    SG_TRY(sg_config_status(c));
    return take_words(out, c, count, e);
}

void sg_vocabulary_free(sg_vocabulary *v)
{
    free(v->list);
    json_decref(v->words);
    *v = (sg_vocabulary){0};
}

/* ---- asking ---- */

/* "ball's" is a ball. */
static bool knows(const sg_vocabulary *v, char *word)
{
    const size_t n = strlen(word);
    if (json_object_get(v->words, word)) return true;
    if (n < 3 || strcmp(word + n - 2, "'s") != 0) return false;
    word[n - 2] = '\0';
    const bool known = json_object_get(v->words, word);
    word[n - 2] = '\'';
    return known;
}

/* The word that was probably meant, or NULL: of short ones every other is near. */
static const char *near(const sg_vocabulary *v, const char *word)
{
    const size_t n = strlen(word);
    const char  *best = NULL, *known;
    int          least = n < 4 ? 0 : n < 6 ? 2 : 3;
    json_t      *null;
    json_object_foreach(v->words, known, null)
    {
        const int d = *known == *word ? sg_text_distance(word, known) : least;
        if (d < least) least = d, best = known;
    }
    return best;
}

int sg_vocabulary_unknown(const sg_vocabulary *v, const char *text, char *list, size_t size)
{
    json_t     *unknown = json_object(), *null;
    size_t      n = 0;
    const char *word;
    bool        enough = true;
    while (v->words && enough && (word = next_word(&text, &n)) != NULL) {
        char *const one = folded(word, n);
        enough = one && (knows(v, one) || add(unknown, one));
        free(one);
    }
    const int count = enough ? (int)json_object_size(unknown) : 0;
    int       left = count < SHOWN ? count : SHOWN; /* to be shown */
    *list = '\0';
    json_object_foreach(unknown, word, null)
    {
        if (left-- <= 0) break;
        const char *const known = near(v, word);
        sg_text_append(list, size, "%s'%s'%s%s%s",
                       !*list                  ? ""
                       : left || count > SHOWN ? ", "
                                               : " and ",
                       word, known ? " (" : "", known ? known : "", known ? "?)" : "");
    }
    if (count > SHOWN) sg_text_append(list, size, " and %d other word%s", count - SHOWN, sg_plural(count - SHOWN));
    json_decref(unknown);
    return count;
}
