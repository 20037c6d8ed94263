/* clean.h - what a prompt goes through before it is split into tokens.
 *
 *   clean = squeeze(unescape(unescape(fix(prompt))))
 *
 * fix is ftfy.fix_text with its default settings, but without the repair of mojibake (text once decoded in the wrong
 * encoding stays as it is): line by line, until nothing changes any more,
 *   1. HTML character references that end in a semicolon, unless a '<' has been met on this line or one above;
 *   2. C1 control characters as Windows-1252; Latin ligatures in letters; U+3000 and U+FF01 to U+FFEF in their usual
 *      width (NFKC); curly quotes straight; all line breaks as LF;
 *   3. terminal escapes (ESC [ digits and semicolons, letter) and control characters without effect removed;
 *   4. NFC.
 * unescape is Python's html.unescape. squeeze makes one space of every run of white space and drops it at both ends;
 * white space is that of Python's str: U+001C to U+001F are part of it.
 *
 * Source: prompt_clean of the Wan pipeline in diffusers 0.42.1; ftfy 6.3.1; Python 3.11's html; Unicode from utf8proc.
 */
#ifndef SG_CLEAN_H
#define SG_CLEAN_H

#include "status.h"

#include <stddef.h>

enum { SG_PROMPT_MAX = 1 << 20 }; /* bytes */

/* Cleans len bytes of text. *out is the caller's to free() and ends in a NUL that *out_len does not count; it may be
 * empty. On failure both are untouched: SG_E_ARG when the text is not UTF-8 (the message gives the offset of the byte),
 * is longer than SG_PROMPT_MAX, or hides character references in one another so deeply that undoing them would take
 * more than linear time; SG_E_MEMORY. */
sg_status sg_prompt_clean(const char *text, size_t len, char **out, size_t *out_len, sg_error *err) SG_MUST_USE;

#endif
