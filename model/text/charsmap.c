/* charsmap.c - see charsmap.h. */
#include "charsmap.h"

#include <string.h>
#include <utf8proc.h>

enum { GRAPHEME_BYTES = 6 }; /* from here on, a grapheme is looked at by character */

static uint32_t load_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t unit_label(uint32_t u) { return u & 0x800000ffu; }
static uint32_t unit_offset(uint32_t u) { return u >> 10 << ((u & 1u << 9) >> 6); }
static bool     unit_has_value(uint32_t u) { return u & 1u << 8; }

/* The pool must be strings that one may start reading at: UTF-8 throughout, NUL at its end. */
static bool check_pool(const sg_charsmap *m)
{
    size_t bad;
    return m->pool_size && !m->pool[m->pool_size - 1] && sg_utf8_check(m->pool, m->pool_size, &bad);
}

/* Units that no key reaches are checked too: a sound map has none with a value out of bounds. */
static bool check_values(const sg_charsmap *m)
{
    for (size_t i = 0; i < m->unit_count; i++) {
        const uint32_t u = load_u32(m->units + 4 * i);
        if (u >> 31 || !unit_has_value(u)) continue;
        const size_t value_at = i ^ unit_offset(u);
        if (value_at >= m->unit_count) return false;
        const uint32_t value = load_u32(m->units + 4 * value_at) & 0x7fffffffu;
        if (value >= m->pool_size || (m->pool[value] & 0xc0) == 0x80) return false;
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

/* What the shortest key that s begins with is replaced by, or NULL. */
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
