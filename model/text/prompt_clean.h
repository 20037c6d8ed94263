/* prompt_clean.h - what happens to a prompt before a tokenizer reads it.
 *
 *   clean = collapse_spaces(unescape(unescape(fix(prompt))))
 *
 * fix is ftfy.fix_text with its default settings, but without the repair of mojibake: text that was once decoded in the
 * wrong encoding stays as it is. It works line by line, and repeats these steps until nothing changes:
 *   1. HTML character references that end in a semicolon become characters. A '<' on this line or on an earlier one
 *      switches this step off.
 *   2. C1 control characters are read as Windows-1252. Latin ligatures become letters. U+3000 and U+FF01 to U+FFEF get
 *      their usual width (NFKC). Curly quotes become straight. Every line break becomes LF.
 *   3. Terminal escapes (ESC [ digits and semicolons, letter) and control characters without effect are removed.
 *   4. The line is normalised to NFC.
 * unescape is Python's html.unescape. collapse_spaces replaces every run of white space by one space and removes it at
 * both ends. White space is that of Python's str, which includes U+001C to U+001F.
 *
 * Source: prompt_clean of the Wan pipeline in diffusers 0.42.1; ftfy 6.3.1; Python 3.11's html; Unicode from utf8proc.
 */
#ifndef SG_PROMPT_CLEAN_H
#define SG_PROMPT_CLEAN_H

#include "status.h"

#include <stddef.h>

enum { SG_PROMPT_MAX = 1 << 20 }; /* bytes */

/* Cleans len bytes of text. The caller frees *out. It ends in a NUL that *out_len does not count, and it may be empty.
 * On failure both are untouched. Returns SG_E_MEMORY, or SG_E_ARG when the text is not UTF-8 (the message gives the
 * offset of the byte), when it is longer than SG_PROMPT_MAX, or when it nests character references so deeply that fix
 * would take more than linear time. */
sg_status sg_prompt_clean(const char *text, size_t len, char **out, size_t *out_len, sg_error *err) SG_MUST_USE;

/* Makes one text of the three, which goes to the caller in the same way. SG_E_MEMORY. */
sg_status sg_prompt_in_template(const char *before, const char *text, const char *behind, char **out, size_t *out_len,
                                sg_error *err) SG_MUST_USE;

#endif
