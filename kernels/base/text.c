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
