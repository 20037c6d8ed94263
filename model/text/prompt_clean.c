/* prompt_clean.c - see prompt_clean.h. */
#include "prompt_clean.h"
#include "base/text.h"
#include "base/utf8.h"
#include "charref_table.h"
#include "nfc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- HTML character references ---- */

enum {
    NAME_CHARS = 32,      /* Python looks at this many characters after an ampersand */
    FTFY_NAME_CHARS = 24, /* ftfy looks at this many */
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int hex_value(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Binary search for a name of n bytes; NULL when HTML5 has no such name. */
static const struct charref *find_name(const char *name, size_t n)
{
    size_t lo = 0, hi = sizeof charrefs / sizeof *charrefs;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        const char  *have = charrefs[mid].name;
        int          order = strncmp(have, name, n);
        if (order == 0) order = have[n] != 0;
        if (order == 0) return &charrefs[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static void append_characters(sg_textbuf *out, const struct charref *r)
{
    sg_textbuf_put_char(out, r->a);
    if (r->b) sg_textbuf_put_char(out, r->b);
}

static bool is_noncharacter(int32_t c) { return (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe; }

/* What Windows-1252 has at 0x80 to 0x9f, where Unicode has the C1 controls; its five holes stand for themselves. */
static int32_t from_c1(int32_t c)
{
    static const uint16_t windows1252[32] = {
        0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6,  0x2030, 0x160,
        0x2039, 0x152,  0x8d,   0x17d,  0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
        0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178,
    };
    return windows1252[c - 0x80];
}

/* Appends the character of a numeric reference, with the replacements of HTML5. Some numbers stand for nothing. */
static void append_number(sg_textbuf *out, int32_t c)
{
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        c = 0xfffd;
    else if (c >= 0x80 && c <= 0x9f)
        c = from_c1(c);
    else if ((c < 0x20 && c != '\t' && c != '\n' && c != '\f' && c != '\r') || c == 0x7f || is_noncharacter(c))
        return;
    sg_textbuf_put_char(out, c);
}

/* Parses "#123" or "#x7b" at s. Returns the bytes before the semicolon, or 0 when s holds no number. */
static size_t scan_number(const char *s, size_t n, int32_t *value)
{
    const bool   hex = n > 1 && (s[1] == 'x' || s[1] == 'X');
    size_t       i = hex ? 2 : 1;
    const size_t first = i;
    *value = 0;
    for (; i < n && (hex ? hex_value(s[i]) >= 0 : is_digit(s[i])); i++)
        if (*value <= 0x10ffff) *value = *value * (hex ? 16 : 10) + hex_value(s[i]);
    return i > first ? i : 0;
}

/* Returns the length in bytes of what may be a name: at most NAME_CHARS characters. White space, '<', '&', '#' and ';'
 * end it. */
static size_t scan_name(const char *s, size_t n)
{
    size_t i = 0;
    for (int chars = 0; i < n && chars < NAME_CHARS; chars++) {
        if (memchr("\t\n\f <&#;", s[i], 8)) break;
        int32_t c;
        i += sg_utf8_next(s + i, n - i, &c);
    }
    return i;
}

/* Appends what the reference at s stands for; s is just past the ampersand. Returns the bytes that the reference takes,
 * or 0 when s holds none. */
static size_t append_python_reference(sg_textbuf *out, const char *s, size_t n)
{
    int32_t value;
    if (n && *s == '#') {
        const size_t used = scan_number(s, n, &value);
        if (used) append_number(out, value);
        return used + (used && used < n && s[used] == ';');
    }
    const size_t run = scan_name(s, n);
    const bool   closed = run && run < n && s[run] == ';';
    for (size_t used = run; used > 1; used--) {
        const struct charref *r = used < NAME_CHARS ? find_name(s, used) : NULL;
        if (!r || !(r->semicolon_optional || (closed && used == run))) continue;
        append_characters(out, r);
        return used + (closed && used == run);
    }
    return 0;
}

/* text with its references replaced: append puts what s[n], the text after an ampersand, begins with, and returns how many
 * bytes that was; 0: it is no reference, and the ampersand stays. Linear time. */
static void unescape(sg_textbuf *out, const char *text, size_t len,
                     size_t (*append)(sg_textbuf *out, const char *s, size_t n))
{
    for (size_t i = 0; i < len;) {
        const char  *amp = memchr(text + i, '&', len - i);
        const size_t stop = amp ? (size_t)(amp - text) : len;
        sg_textbuf_put(out, text + i, stop - i);
        if (!amp) return;
        const size_t used = append(out, amp + 1, len - stop - 1);
        if (!used) sg_textbuf_put(out, "&", 1);
        i = stop + 1 + used;
    }
}

/* html.unescape of Python: the 2231 names of HTML5. The old names also work without a semicolon; the longest one that
 * the text begins with counts. Numbers have the replacements of HTML5: 0x80 to 0x9f are Windows-1252; NUL, surrogates
 * and values past U+10FFFF become U+FFFD; other control characters and noncharacters are removed. */
static void unescape_as_python(sg_textbuf *out, const char *text, size_t len)
{
    unescape(out, text, len, append_python_reference);
}

/* Appends what a name of n letters and digits stands for. A name in capitals that HTML5 lacks (NTILDE) stands for the
 * capitals of what its lower-case form stands for. Returns false when the name is neither. */
static bool append_ftfy_name(sg_textbuf *out, const char *name, size_t n)
{
    const struct charref *r = find_name(name, n);
    if (r) return (void)append_characters(out, r), true;
    char lower[FTFY_NAME_CHARS];
    for (size_t i = 0; i < n; i++) {
        if (name[i] >= 'a' && name[i] <= 'z') return false;
        lower[i] = is_alpha(name[i]) ? (char)(name[i] | 0x20) : name[i];
    }
    r = find_name(lower, n);
    if (!r || !r->capital) return false;
    if (r->capital == same_text)
        append_characters(out, r);
    else
        sg_textbuf_put(out, r->capital, strlen(r->capital));
    return true;
}

/* append_python_reference by the rules of ftfy. */
static size_t append_ftfy_reference(sg_textbuf *out, const char *s, size_t n)
{
    size_t       i = n && *s == '#';
    const size_t first = i;
    while (i < n && i - first < FTFY_NAME_CHARS && (is_digit(s[i]) || is_alpha(s[i]))) i++;
    if (i == first || i >= n || s[i] != ';') return 0;
    if (!first) return append_ftfy_name(out, s, i) ? i + 1 : 0;
    int32_t value;
    if (scan_number(s, i, &value) != i || value == ';') return 0;
    append_number(out, value);
    return i + 1;
}

/* unescape_html of ftfy: only references that end in a semicolon, and names of at most FTFY_NAME_CHARS letters and
 * digits. */
static void unescape_as_ftfy(sg_textbuf *out, const char *text, size_t len)
{
    unescape(out, text, len, append_ftfy_reference);
}

/* ---- ftfy.fix_text ---- */

enum {
    SEGMENT_CHARS = 1000000, /* ftfy cuts longer lines into segments of this length */
    WORK_PER_BYTE = 16,      /* passes over a prompt of full size before it is refused */
};

typedef struct cleaner {
    sg_textbuf     line, step, next; /* one segment before, within and after a pass */
    sg_code_points decomposed;
    size_t         work;     /* bytes that all passes have read so far */
    bool           unescape; /* no '<' has been met yet */
} cleaner;

/* Returns the letters that a Latin ligature is made of, or NULL for any other character. */
static const char *ligature_letters(int32_t c)
{
    static const struct {
        int32_t     c;
        const char *letters;
    } table[] = {
        {0x132, "IJ"},         {0x133, "ij"},  {0x149, "'n"},  {0x1c4, "D\305\275"}, {0x1c5, "D\305\276"},
        {0x1c6, "d\305\276"},  {0x1c7, "LJ"},  {0x1c8, "Lj"},  {0x1c9, "lj"},        {0x1ca, "NJ"},
        {0x1cb, "Nj"},         {0x1cc, "nj"},  {0x1f1, "DZ"},  {0x1f2, "Dz"},        {0x1f3, "dz"},
        {0xfb00, "ff"},        {0xfb01, "fi"}, {0xfb02, "fl"}, {0xfb03, "ffi"},      {0xfb04, "ffl"},
        {0xfb05, "\305\277t"}, {0xfb06, "st"},
    };
    if (c < 0x132 || (c > 0x1f3 && c < 0xfb00) || c > 0xfb06) return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].c == c) return table[i].letters;
    return NULL;
}

/* Makes curly quotes straight and every line break LF. */
static int32_t plain_punctuation(int32_t c)
{
    if (c == 0x2bc || (c >= 0x2018 && c <= 0x201b)) return '\'';
    if (c >= 0x201c && c <= 0x201f) return '"';
    return c == 0x2028 || c == 0x2029 || c == '\r' ? '\n' : c;
}

static void append_nfkc(sg_textbuf *out, int32_t c, sg_code_points *p)
{
    p->len = 0;
    if (sg_code_points_add(p, c, UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE))
        sg_code_points_compose(out, p);
    else
        out->failed = true;
}

/* Step 2 of fix. */
static void fix_characters(sg_textbuf *out, const sg_textbuf *in, sg_code_points *p)
{
    int32_t c = 0;
    for (size_t i = 0; i < in->len;) {
        const int32_t before = c;
        i += sg_utf8_next(in->data + i, in->len - i, &c);
        if (c == '\n' && before == '\r') continue;
        const char *letters = ligature_letters(c);
        if (letters)
            sg_textbuf_put(out, letters, strlen(letters));
        else if (c == 0x3000)
            sg_textbuf_put(out, " ", 1);
        else if (c >= 0xff01 && c <= 0xffef)
            append_nfkc(out, c, p);
        else
            sg_textbuf_put_char(out, plain_punctuation(c >= 0x80 && c <= 0x9f ? from_c1(c) : c));
    }
}

/* Returns the bytes of the terminal escape at s, or 0 when there is none. */
static size_t terminal_escape_length(const char *s, size_t n)
{
    if (n < 3 || s[0] != 0x1b || s[1] != '[') return 0;
    for (size_t i = 2; i < n;) {
        int32_t      c;
        const size_t used = sg_utf8_next(s + i, n - i, &c);
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return i + used;
        if (c != ';' && utf8proc_category(c) != UTF8PROC_CATEGORY_ND) return 0;
        i += used;
    }
    return 0;
}

static bool is_removed_control(int32_t c)
{
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\f' && c != '\r') || c == 0x7f ||
           (c >= 0x206a && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffc);
}

/* Step 3 of fix. */
static void remove_controls(sg_textbuf *out, const sg_textbuf *in)
{
    for (size_t i = 0; i < in->len;) {
        const size_t escape = terminal_escape_length(in->data + i, in->len - i);
        if (escape) {
            i += escape;
            continue;
        }
        int32_t      c;
        const size_t used = sg_utf8_next(in->data + i, in->len - i, &c);
        if (!is_removed_control(c)) sg_textbuf_put(out, in->data + i, used);
        i += used;
    }
}

static void swap(sg_textbuf *a, sg_textbuf *b)
{
    const sg_textbuf t = *a;
    *a = *b;
    *b = t;
}

/* Makes one pass over c->line and leaves the result there. Returns false when nothing changed. */
static bool fix_once(cleaner *c)
{
    sg_textbuf_clear(&c->step);
    if (c->unescape)
        unescape_as_ftfy(&c->step, c->line.data, c->line.len);
    else
        sg_textbuf_put(&c->step, c->line.data, c->line.len);
    sg_textbuf_clear(&c->next);
    fix_characters(&c->next, &c->step, &c->decomposed);
    sg_textbuf_clear(&c->step);
    remove_controls(&c->step, &c->next);
    sg_textbuf_clear(&c->next);
    sg_nfc(&c->next, c->step.data, c->step.len, &c->decomposed);
    const bool same = c->next.len == c->line.len && !memcmp(c->next.data, c->line.data, c->line.len);
    swap(&c->line, &c->next);
    return !same;
}

/* Returns the bytes of the next segment: a line with its LF, or its first SEGMENT_CHARS characters. */
static size_t segment_length(const char *s, size_t n)
{
    const char *lf = memchr(s, '\n', n);
    if (lf) n = (size_t)(lf - s) + 1;
    size_t i = 0;
    for (int chars = 0; i < n && chars < SEGMENT_CHARS; chars++) {
        int32_t c;
        i += sg_utf8_next(s + i, n - i, &c);
    }
    return i;
}

static sg_status fix_text(cleaner *c, sg_textbuf *out, const char *text, size_t len, sg_error *err)
{
    for (size_t i = 0; i < len;) {
        const size_t n = segment_length(text + i, len - i);
        if (memchr(text + i, '<', n)) c->unescape = false;
        sg_textbuf_clear(&c->line);
        sg_textbuf_put(&c->line, text + i, n);
        bool changed = true;
        while (changed && c->line.len && !c->line.failed) {
            c->work += c->line.len;
            if (c->work / WORK_PER_BYTE > SG_PROMPT_MAX)
                return sg_error_set(err, SG_E_ARG, "prompt: character references nested too deeply after byte %zu", i);
            changed = fix_once(c);
        }
        if (c->line.failed || c->step.failed || c->next.failed) out->failed = true;
        if (out->failed) return SG_OK;
        sg_textbuf_put(out, c->line.data, c->line.len);
        i += n;
    }
    return SG_OK;
}

/* ---- prompt_clean ---- */

static bool is_python_space(int32_t c) { return sg_utf8_is_space(c) || (c >= 0x1c && c <= 0x1f); }

static void collapse_spaces(sg_textbuf *out, const char *text, size_t len)
{
    bool gap = false;
    for (size_t i = 0; i < len;) {
        int32_t      c;
        const size_t used = sg_utf8_next(text + i, len - i, &c);
        const bool   space = is_python_space(c);
        if (!space && gap && out->len) sg_textbuf_put(out, " ", 1);
        if (!space) sg_textbuf_put(out, text + i, used);
        gap = space;
        i += used;
    }
}

static sg_status clean_into(cleaner *c, sg_textbuf *result, const char *text, size_t len, sg_error *err)
{
    SG_TRY(fix_text(c, result, text, len, err));
    sg_textbuf_clear(&c->step);
    unescape_as_python(&c->step, result->data, result->len);
    sg_textbuf_clear(&c->next);
    unescape_as_python(&c->next, c->step.data, c->step.len);
    sg_textbuf_clear(result);
    collapse_spaces(result, c->next.data, c->next.len);
    sg_textbuf_put(result, "", 0);
    if (result->failed || c->step.failed || c->next.failed)
        return sg_error_set(err, SG_E_MEMORY, "prompt: no memory to clean its %zu bytes", len);
    return SG_OK;
}

sg_status sg_prompt_clean(const char *text, size_t len, char **out, size_t *out_len, sg_error *err)
{
    size_t bad;
    if (len > SG_PROMPT_MAX)
        return sg_error_set(err, SG_E_ARG, "prompt: %zu bytes are more than the %d that a prompt may have", len,
                            SG_PROMPT_MAX);
    if (!sg_utf8_check(text, len, &bad))
        return sg_error_set(err, SG_E_ARG, "prompt: not UTF-8 at byte %zu (0x%02x)", bad, (unsigned char)text[bad]);
    cleaner         c = {.unescape = true};
    sg_textbuf      result = {0};
    const sg_status s = clean_into(&c, &result, text, len, err);
    sg_textbuf_free(&c.line);
    sg_textbuf_free(&c.step);
    sg_textbuf_free(&c.next);
    free(c.decomposed.at);
    if (s != SG_OK) {
        sg_textbuf_free(&result);
        return s;
    }
    *out = result.data;
    *out_len = result.len;
    return SG_OK;
}

/* ---- a template ---- */

sg_status sg_prompt_in_template(const char *before, const char *text, const char *behind, char **out, size_t *out_len,
                                sg_error *err)
{
    const size_t size = strlen(before) + strlen(text) + strlen(behind);
    char *const  made = malloc(size + 1);
    if (!made) return sg_error_set(err, SG_E_MEMORY, "no memory for a prompt of %zu bytes", size);
    snprintf(made, size + 1, "%s%s%s", before, text, behind);
    *out = made;
    *out_len = size;
    return SG_OK;
}
