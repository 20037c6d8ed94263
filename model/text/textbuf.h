/* textbuf.h - a run of bytes that grows, and UTF-8 in it. */
#ifndef SG_TEXTBUF_H
#define SG_TEXTBUF_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. When memory runs out, `failed` is set and everything put later is dropped: check once, at the end.
 */
typedef struct sg_textbuf {
    char  *data; /* len bytes, then a NUL that is not counted; NULL while nothing was put */
    size_t len, cap;
    bool   failed;
} sg_textbuf;

bool sg_textbuf_reserve(sg_textbuf *b, size_t n); /* the next n bytes put will not move data; false: failed */
void sg_textbuf_put(sg_textbuf *b, const char *bytes, size_t n);
void sg_textbuf_put_char(sg_textbuf *b, int32_t c); /* a code point that UTF-8 can carry */
void sg_textbuf_clear(sg_textbuf *b);               /* empty, memory kept */
void sg_textbuf_free(sg_textbuf *b);

/* Puts the content of a regular file of at most max bytes. SG_E_FILE (the text names path and reason), SG_E_FORMAT when
 * it is larger, SG_E_MEMORY. */
sg_status sg_textbuf_read(sg_textbuf *b, const char *path, size_t max, sg_error *e) SG_MUST_USE;

/* Decodes the character at s: its bytes, 1 to 4, and *c; 0 when n is 0 or the bytes are not UTF-8 (surrogates, overlong
 * forms and values past U+10FFFF are not). */
size_t sg_utf8_next(const char *s, size_t n, int32_t *c);

/* Whether all of s is UTF-8; if not, *bad is the offset of the first byte that is not. */
bool sg_utf8_check(const char *s, size_t n, size_t *bad);

/* White space as Unicode's White_Space property has it; U+001C to U+001F are not in it. */
bool sg_utf8_is_space(int32_t c);

/* What Windows-1252 has at 0x80 to 0x9f, where Unicode has the C1 controls; its five holes stand for themselves. */
int32_t sg_utf8_from_c1(int32_t c);

#endif
