/* utf8.h - UTF-8, strictly (RFC 3629). Refused are overlong forms, the surrogates U+D800 to U+DFFF, values above
 * U+10FFFF, stray continuation bytes, and characters that are cut short. */
#ifndef SG_UTF8_H
#define SG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at s, of which n bytes may be read, to *c. Returns how many bytes it has, 1 to 4; or 0 when n
 * is 0 or the bytes are not UTF-8, and then *c is -1. NUL is a character. In text that ends in NUL n may be 4 even
 * where fewer bytes are left. */
size_t sg_utf8_next(const char *s, size_t n, int32_t *c);

/* Encodes a code point that UTF-8 can carry. Returns how many bytes were written, 1 to 4. */
size_t sg_utf8_put(char out[4], int32_t c);

/* Tells whether all of s is UTF-8; if not, *bad is the offset of the first byte that is not. */
bool sg_utf8_check(const char *s, size_t n, size_t *bad);

/* Returns how many bytes the control character has that s, which ends in NUL, begins with: C0 and DEL take 1, C1
 * (U+0080 to U+009F) takes 2. It is 0 where s begins with none, or is empty. Terminals obey all of them. */
size_t sg_utf8_control(const char *s);

/* Tells whether c is white space, as Unicode's White_Space property has it; U+001C to U+001F are not in it. */
bool sg_utf8_is_space(int32_t c);

/* Tells whether a byte continues a character. All others begin one, so that counting them counts characters. */
static inline bool sg_utf8_continues(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

#endif
