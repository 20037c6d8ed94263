/* clean.c - see clean.h. */
#include "clean.h"

#include "charref.h"
#include "textbuf.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    SEGMENT_CHARS = 1000000, /* ftfy cuts a line that is longer */
    DECOMPOSED = 32,         /* code points that one may become: NFKC's most is 18 */
    WORK_PER_BYTE = 16,      /* passes over a full prompt before it counts as hostile */
};

typedef struct points {
    int32_t *at;
    size_t   len, cap;
} points;

typedef struct cleaner {
    sg_textbuf line, step, next; /* one segment before, within and after a pass */
    points     decomposed;
    size_t     work; /* bytes passed over so far */
    bool       unescape;
} cleaner;

static bool is_python_space(int32_t c) { return sg_utf8_is_space(c) || (c >= 0x1c && c <= 0x1f); }

/* Marks in canonical order: a stable sort of every run of nonzero combining classes. Counting keeps it linear. */
static bool order_marks(int32_t *at, size_t n)
{
    int32_t *sorted = NULL;
    for (size_t i = 0; i < n;) {
        size_t end = i, count[257] = {0};
        for (; end < n; end++) {
            const size_t class = (size_t)utf8proc_get_property(at[end])->combining_class;
            if (!class) break;
            count[class + 1]++;
        }
        if (end - i > 1) {
            if (!sorted && !(sorted = malloc(n * sizeof *sorted))) return false;
            for (size_t k = 1; k < 257; k++) count[k] += count[k - 1];
            for (size_t k = i; k < end; k++) sorted[count[utf8proc_get_property(at[k])->combining_class]++] = at[k];
            memcpy(at + i, sorted, (end - i) * sizeof *sorted);
        }
        i = end + 1;
    }
    free(sorted);
    return true;
}

static bool points_reserve(points *p, size_t more)
{
    if (p->cap - p->len >= more) return true;
    const size_t cap = 2 * p->cap + more;
    int32_t     *at = realloc(p->at, cap * sizeof *at);
    if (!at) return false;
    p->at = at;
    p->cap = cap;
    return true;
}

static bool decompose(points *p, int32_t c, utf8proc_option_t options)
{
    if (!points_reserve(p, DECOMPOSED)) return false;
    int boundary = 0;
    p->len += (size_t)utf8proc_decompose_char(c, p->at + p->len, DECOMPOSED, options, &boundary);
    return true;
}

static void put_composed(sg_textbuf *out, points *p)
{
    if (!order_marks(p->at, p->len)) {
        out->failed = true;
        return;
    }
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(p->at, (utf8proc_ssize_t)p->len, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < n; i++) sg_textbuf_put_char(out, p->at[i]);
}

static void put_nfc(sg_textbuf *out, const sg_textbuf *in, points *p)
{
    size_t plain = 0;
    while (plain < in->len && (unsigned char)in->data[plain] < 0xcc) plain++; /* below U+0300 NFC changes nothing */
    if (plain == in->len) {
        sg_textbuf_put(out, in->data, in->len);
        return;
    }
    p->len = 0;
    for (size_t i = 0; i < in->len;) {
        int32_t c;
        i += sg_utf8_next(in->data + i, in->len - i, &c);
        if (!decompose(p, c, UTF8PROC_COMPOSE | UTF8PROC_STABLE)) {
            out->failed = true;
            return;
        }
    }
    put_composed(out, p);
}

/* The letters of a Latin ligature, or NULL. */
static const char *ligature(int32_t c)
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

static int32_t straight(int32_t c)
{
    if (c == 0x2bc || (c >= 0x2018 && c <= 0x201b)) return '\'';
    if (c >= 0x201c && c <= 0x201f) return '"';
    return c == 0x2028 || c == 0x2029 || c == '\r' ? '\n' : c;
}

static void put_usual_width(sg_textbuf *out, int32_t c, points *p)
{
    p->len = 0;
    if (decompose(p, c, UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE))
        put_composed(out, p);
    else
        out->failed = true;
}

static void fix_characters(sg_textbuf *out, const sg_textbuf *in, points *p)
{
    int32_t c = 0;
    for (size_t i = 0; i < in->len;) {
        const int32_t before = c;
        i += sg_utf8_next(in->data + i, in->len - i, &c);
        if (c == '\n' && before == '\r') continue;
        const char *letters = ligature(c);
        if (letters)
            sg_textbuf_put(out, letters, strlen(letters));
        else if (c == 0x3000)
            sg_textbuf_put(out, " ", 1);
        else if (c >= 0xff01 && c <= 0xffef)
            put_usual_width(out, c, p);
        else
            sg_textbuf_put_char(out, straight(c >= 0x80 && c <= 0x9f ? sg_utf8_from_c1(c) : c));
    }
}

/* Bytes of the terminal escape at s, 0 when there is none. */
static size_t escape_length(const char *s, size_t n)
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

static bool is_stray_control(int32_t c)
{
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\f' && c != '\r') || c == 0x7f ||
           (c >= 0x206a && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffc);
}

static void drop_controls(sg_textbuf *out, const sg_textbuf *in)
{
    for (size_t i = 0; i < in->len;) {
        const size_t escape = escape_length(in->data + i, in->len - i);
        if (escape) {
            i += escape;
            continue;
        }
        int32_t      c;
        const size_t used = sg_utf8_next(in->data + i, in->len - i, &c);
        if (!is_stray_control(c)) sg_textbuf_put(out, in->data + i, used);
        i += used;
    }
}

static void swap(sg_textbuf *a, sg_textbuf *b)
{
    const sg_textbuf t = *a;
    *a = *b;
    *b = t;
}

/* One pass over w->line, which gets the result; false when nothing changed. */
static bool fix_once(cleaner *w)
{
    sg_textbuf_clear(&w->step);
    if (w->unescape)
        sg_charref_unescape_plain(&w->step, w->line.data, w->line.len);
    else
        sg_textbuf_put(&w->step, w->line.data, w->line.len);
    sg_textbuf_clear(&w->next);
    fix_characters(&w->next, &w->step, &w->decomposed);
    sg_textbuf_clear(&w->step);
    drop_controls(&w->step, &w->next);
    sg_textbuf_clear(&w->next);
    put_nfc(&w->next, &w->step, &w->decomposed);
    const bool same = w->next.len == w->line.len && !memcmp(w->next.data, w->line.data, w->line.len);
    swap(&w->line, &w->next);
    return !same;
}

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

static sg_status fix_text(cleaner *w, sg_textbuf *out, const char *text, size_t len, sg_error *err)
{
    for (size_t i = 0; i < len;) {
        const size_t n = segment_length(text + i, len - i);
        if (memchr(text + i, '<', n)) w->unescape = false;
        sg_textbuf_clear(&w->line);
        sg_textbuf_put(&w->line, text + i, n);
        bool changed = true;
        while (changed && w->line.len && !w->line.failed) {
            w->work += w->line.len;
            if (w->work / WORK_PER_BYTE > SG_PROMPT_MAX)
                return sg_error_set(err, SG_E_ARG, "prompt: character references nested too deeply after byte %zu", i);
            changed = fix_once(w);
        }
        if (w->line.failed || w->step.failed || w->next.failed) out->failed = true;
        if (out->failed) return SG_OK;
        sg_textbuf_put(out, w->line.data, w->line.len);
        i += n;
    }
    return SG_OK;
}

static void squeeze(sg_textbuf *out, const char *text, size_t len)
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

static sg_status clean(cleaner *w, sg_textbuf *result, const char *text, size_t len, sg_error *err)
{
    SG_TRY(fix_text(w, result, text, len, err));
    sg_textbuf_clear(&w->step);
    sg_charref_unescape(&w->step, result->data, result->len);
    sg_textbuf_clear(&w->next);
    sg_charref_unescape(&w->next, w->step.data, w->step.len);
    sg_textbuf_clear(result);
    squeeze(result, w->next.data, w->next.len);
    sg_textbuf_put(result, "", 0);
    if (result->failed || w->step.failed || w->next.failed)
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
    cleaner         w = {.unescape = true};
    sg_textbuf      result = {0};
    const sg_status s = clean(&w, &result, text, len, err);
    sg_textbuf_free(&w.line);
    sg_textbuf_free(&w.step);
    sg_textbuf_free(&w.next);
    free(w.decomposed.at);
    if (s != SG_OK) {
        sg_textbuf_free(&result);
        return s;
    }
    *out = result.data;
    *out_len = result.len;
    return SG_OK;
}
