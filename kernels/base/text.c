/* text.c - see text.h. */
#include "base/text.h"
#include "base/array.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sg_textbuf_reserve(sg_textbuf *b, size_t n)
{
    if (!b->failed) b->failed = n > SIZE_MAX - 1 - b->len || !sg_array_reserve(b->data, b->cap, b->len + n + 1);
    return !b->failed;
}

void sg_textbuf_put(sg_textbuf *b, const char *bytes, size_t n)
{
    if (!sg_textbuf_reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = 0;
}

void sg_textbuf_put_char(sg_textbuf *b, int32_t c)
{
    char bytes[4];
    sg_textbuf_put(b, bytes, sg_utf8_put(bytes, c));
}

void sg_textbuf_vprintf(sg_textbuf *b, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) b->failed = true;
    if (!sg_textbuf_reserve(b, n < 0 ? 0 : (size_t)n)) return;
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, args);
    b->len += (size_t)n;
}

void sg_textbuf_printf(sg_textbuf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sg_textbuf_vprintf(b, fmt, args);
    va_end(args);
}

void sg_textbuf_clear(sg_textbuf *b)
{
    b->len = 0;
    if (b->data) b->data[0] = 0;
}

void sg_textbuf_free(sg_textbuf *b)
{
    free(b->data);
    *b = (sg_textbuf){0};
}

int sg_text_place(const char *text, const char *const *list)
{
    int i = 0;
    while (list[i] && !(text && strcmp(list[i], text) == 0)) i++;
    return i;
}

void sg_text_append(char *text, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list      args;
    va_start(args, fmt);
    vsnprintf(text + n, size - n, fmt, args);
    va_end(args);
}

int sg_text_distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    const size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) return 99;
    int d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

bool sg_text_ends(const char *text, const char *ending)
{
    const size_t n = strlen(text), m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

const char *sg_show_(char *out, size_t size, const char *text)
{
    size_t n = 0;
    while (text[n] && n < size - 1) {
        size_t control = sg_utf8_control(text + n);
        if (!control) {
            out[n] = text[n];
            n++;
        }
        for (; control && n < size - 1; control--) out[n++] = '?';
    }
    const bool whole = !text[n];
    out[n] = '\0';
    if (whole) return out;
    n = size - 4;
    while (n && sg_utf8_continues(out[n])) n--; /* not within a character */
    memcpy(out + n, "...", 4);
    return out;
}

sg_status sg_choice_check(const char *member, int value, int count, sg_error *e)
{
    if (value >= 0 && value < count) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: there is no number %d", member, value);
}

sg_status sg_error_at(sg_error *e, sg_status code, const char *path, const char *kind, const char *name,
                      const char *fmt, ...)
{
    char    why[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (!name) return sg_error_set(e, code, "%s: %s", path, why);
    return sg_error_set(e, code, "%s: %s \"%s\": %s", path, kind, sg_show(name), why);
}
