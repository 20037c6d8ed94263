/* charref.c - see charref.h. */
#include "charref.h"

#include "charref_table.h"

#include <string.h>

enum { NAME_CHARS = 32, PLAIN_CHARS = 24 };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int hex_value(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static const struct charref *find(const char *name, size_t n)
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

static void put_text(sg_textbuf *out, const struct charref *r)
{
    sg_textbuf_put_char(out, r->a);
    if (r->b) sg_textbuf_put_char(out, r->b);
}

static bool is_noncharacter(int32_t c) { return (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe; }

static void put_number(sg_textbuf *out, int32_t c)
{
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        c = 0xfffd;
    else if (c >= 0x80 && c <= 0x9f)
        c = sg_utf8_from_c1(c);
    else if ((c < 0x20 && c != '\t' && c != '\n' && c != '\f' && c != '\r') || c == 0x7f || is_noncharacter(c))
        return;
    sg_textbuf_put_char(out, c);
}

/* The digits of "#123" or "#x7b" at s: bytes up to but without the semicolon, 0 when there is no number. */
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

/* The run after an ampersand that may be a name: at most 32 characters, none of them white space, '<', '&', '#', ';'.
 */
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

/* Replaces the reference that follows an ampersand, s being past it; the bytes it took, 0 when it is none. */
static size_t put_reference(sg_textbuf *out, const char *s, size_t n)
{
    int32_t value;
    if (n && *s == '#') {
        const size_t used = scan_number(s, n, &value);
        if (used) put_number(out, value);
        return used + (used && used < n && s[used] == ';');
    }
    const size_t run = scan_name(s, n);
    const bool   closed = run && run < n && s[run] == ';';
    for (size_t used = run; used > 1; used--) {
        const struct charref *r = used < NAME_CHARS ? find(s, used) : NULL;
        if (!r || !(r->bare || (closed && used == run))) continue;
        put_text(out, r);
        return used + (closed && used == run);
    }
    return 0;
}

void sg_charref_unescape(sg_textbuf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        const char  *amp = memchr(text + i, '&', len - i);
        const size_t stop = amp ? (size_t)(amp - text) : len;
        sg_textbuf_put(out, text + i, stop - i);
        if (!amp) return;
        const size_t used = put_reference(out, amp + 1, len - stop - 1);
        if (!used) sg_textbuf_put(out, "&", 1);
        i = stop + 1 + used;
    }
}

/* A name of n letters and digits, or one in capitals; false when it is neither. */
static bool put_plain_name(sg_textbuf *out, const char *name, size_t n)
{
    const struct charref *r = find(name, n);
    if (r) return (void)put_text(out, r), true;
    char lower[PLAIN_CHARS];
    for (size_t i = 0; i < n; i++) {
        if (name[i] >= 'a' && name[i] <= 'z') return false;
        lower[i] = is_alpha(name[i]) ? (char)(name[i] | 0x20) : name[i];
    }
    r = find(lower, n);
    if (!r || !r->capital) return false;
    if (r->capital == same_text)
        put_text(out, r);
    else
        sg_textbuf_put(out, r->capital, strlen(r->capital));
    return true;
}

/* As put_reference, for the plain form. */
static size_t put_plain(sg_textbuf *out, const char *s, size_t n)
{
    size_t       i = n && *s == '#';
    const size_t first = i;
    while (i < n && i - first < PLAIN_CHARS && (is_digit(s[i]) || is_alpha(s[i]))) i++;
    if (i == first || i >= n || s[i] != ';') return 0;
    if (!first) return put_plain_name(out, s, i) ? i + 1 : 0;
    int32_t value;
    if (scan_number(s, i, &value) != i || value == ';') return 0;
    put_number(out, value);
    return i + 1;
}

void sg_charref_unescape_plain(sg_textbuf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        const char  *amp = memchr(text + i, '&', len - i);
        const size_t stop = amp ? (size_t)(amp - text) : len;
        sg_textbuf_put(out, text + i, stop - i);
        if (!amp) return;
        const size_t used = put_plain(out, amp + 1, len - stop - 1);
        if (!used) sg_textbuf_put(out, "&", 1);
        i = stop + 1 + used;
    }
}
