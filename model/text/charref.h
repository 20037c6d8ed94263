/* charref.h - HTML character references turned into the characters they stand for.
 *
 * Both functions append to out, take valid UTF-8 and give valid UTF-8, and run in linear time. Out of memory shows in
 * out->failed. */
#ifndef SG_CHARREF_H
#define SG_CHARREF_H

#include "textbuf.h"

/* As Python's html.unescape: the 2231 names of HTML5, the old ones also without a semicolon and as the longest prefix
 * of what follows the ampersand; numbers with HTML5's replacements (Windows-1252 for 0x80 to 0x9f, U+FFFD for NUL,
 * surrogates and values past U+10FFFF, nothing for other control characters and noncharacters). */
void sg_charref_unescape(sg_textbuf *out, const char *text, size_t len);

/* As ftfy's unescape_html: only what ends in a semicolon, names at most 24 letters and digits long, and names written
 * all in capitals (&NTILDE;) where HTML5 has no such name. */
void sg_charref_unescape_plain(sg_textbuf *out, const char *text, size_t len);

#endif
