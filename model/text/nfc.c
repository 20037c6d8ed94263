/* nfc.c - see nfc.h. */
#include "nfc.h"
#include "base/array.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { DECOMPOSED = 32 }; /* most code points that one decomposes into; NFKC needs 18 */

/* Puts combining marks in canonical order: a stable sort of every run of nonzero combining classes. It is a counting
 * sort, so the time is linear. */
static bool sort_combining_marks(int32_t *at, size_t n)
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

bool sg_code_points_add(sg_code_points *p, int32_t c, utf8proc_option_t options)
{
    if (!sg_array_reserve(p->at, p->cap, p->len + DECOMPOSED)) return false;
    int boundary = 0;
    p->len += (size_t)utf8proc_decompose_char(c, p->at + p->len, DECOMPOSED, options, &boundary);
    return true;
}

void sg_code_points_compose(sg_textbuf *out, sg_code_points *p)
{
    if (!sort_combining_marks(p->at, p->len)) {
        out->failed = true;
        return;
    }
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(p->at, (utf8proc_ssize_t)p->len, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < n; i++) sg_textbuf_put_char(out, p->at[i]);
}

void sg_nfc(sg_textbuf *out, const char *text, size_t len, sg_code_points *p)
{
    size_t plain = 0;
    while (plain < len && (unsigned char)text[plain] < 0xcc) plain++; /* NFC changes nothing below U+0300 */
    if (plain == len) {
        sg_textbuf_put(out, text, len);
        return;
    }
    p->len = 0;
    for (size_t i = 0; i < len;) {
        int32_t c;
        i += sg_utf8_next(text + i, len - i, &c);
        if (!sg_code_points_add(p, c, UTF8PROC_COMPOSE | UTF8PROC_STABLE)) {
            out->failed = true;
            return;
        }
    }
    sg_code_points_compose(out, p);
}
