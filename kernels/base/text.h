/* text.h - text that grows, and foreign text made fit for a message. */
#ifndef SG_TEXT_H
#define SG_TEXT_H

#include "status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise it. When memory runs out, `failed` is set and everything put later is dropped: check once, at the
 * end. */
typedef struct sg_textbuf {
    char *data; /* len bytes, then a NUL that is not counted; NULL while nothing was put; malloc'd, may be taken over */
    size_t len, cap;
    bool   failed;
} sg_textbuf;

bool sg_textbuf_reserve(sg_textbuf *b, size_t n); /* the next n bytes put will not move data; false: failed */
void sg_textbuf_put(sg_textbuf *b, const char *bytes, size_t n);
void sg_textbuf_put_char(sg_textbuf *b, int32_t c); /* a code point that UTF-8 can carry */
void sg_textbuf_printf(sg_textbuf *b, const char *fmt, ...) SG_PRINTF(2, 3);
void sg_textbuf_vprintf(sg_textbuf *b, const char *fmt, va_list args) SG_PRINTF(2, 0);
void sg_textbuf_clear(sg_textbuf *b); /* empty, memory kept */
void sg_textbuf_free(sg_textbuf *b);

/* Tells whether text ends in `ending` and is longer than it: "a.mp4" ends in ".mp4", ".mp4" does not. */
bool sg_text_ends(const char *text, const char *ending);

/* Returns the place of text, which may be NULL, in a NULL-ended list, or that of the NULL. */
int sg_text_place(const char *text, const char *const *list);

/* Returns how many insertions, deletions, replacements of bytes and swaps of neighbours make b of a, or 99 for texts of
 * more than 40 bytes, too long to be a slip of the finger. */
int sg_text_distance(const char *a, const char *b);

/* Puts more behind the text there, as far as there is room in its size. */
void sg_text_append(char *text, size_t size, const char *fmt, ...) SG_PRINTF(3, 4);

/* Foreign text with each byte of a control character replaced by a question mark, cut to size - 1 bytes between two
 * characters, "..." at the end when it was cut; for messages. size is at least 4. Returns out, which may be text itself. */
const char *sg_show_(char *out, size_t size, const char *text);
#define sg_show(text) sg_show_((char[112]){0}, 112, text)

/* Returns what a noun has behind a count: "" for 1, else "s". */
static inline const char *sg_plural(int64_t n) { return n == 1 ? "" : "s"; }

/* Checks a choice, whose values are 0 to count - 1. SG_E_ARG names the member. */
sg_status sg_choice_check(const char *member, int value, int count, sg_error *e) SG_MUST_USE;

/* Calls sg_error_set with 'PATH: KIND "NAME": MESSAGE', or 'PATH: MESSAGE' where name is NULL. */
sg_status sg_error_at(sg_error *e, sg_status code, const char *path, const char *kind, const char *name,
                      const char *fmt, ...) SG_PRINTF(6, 7);

#endif
