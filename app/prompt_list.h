/* prompt_list.h - the prompts of a run, from --prompt or from a file with one a line. */
#ifndef SG_PROMPT_LIST_H
#define SG_PROMPT_LIST_H

#include "status.h"

typedef struct sg_prompt_list {
    int          count;
    const char **prompt; /* [count], UTF-8 */
    char        *text;   /* the file's, cut into lines */
} sg_prompt_list;

/* One of text and file is not NULL. A file has at most 1 MiB; blank lines and a byte-order mark do not count, CRLF ends
 * a line as LF does. SG_E_ARG for text that is not UTF-8 or a file without a prompt, SG_E_FILE for an unreadable one.
 */
sg_status sg_prompt_list_open(sg_prompt_list *out, const char *text, const char *file, sg_error *e) SG_MUST_USE;
void      sg_prompt_list_close(sg_prompt_list *l);

/* SG_E_ARG, with the first bad byte's position, unless text is UTF-8 without overlong forms and surrogates. */
sg_status sg_prompt_check(const char *text, const char *what, sg_error *e) SG_MUST_USE;

#endif
