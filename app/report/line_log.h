/* line_log.h - a file that grows by lines, as a run goes on: each is whole on the disk before the next is made. A line that
 * a kill cut short has no newline: it does not count, and who writes next takes it off. */
#ifndef SG_LINE_LOG_H
#define SG_LINE_LOG_H

#include "base/text.h"

#include <limits.h>

/* fd is -1 where it is not open. cut says that an incomplete last line was taken off. */
typedef struct sg_line_log {
    int  fd;
    char path[PATH_MAX];
    bool cut;
} sg_line_log;

/* Opens l->path for writing, which no other process may have open. Returns SG_E_FILE. The caller closes. */
sg_status sg_line_log_open(sg_line_log *l, sg_error *e) SG_MUST_USE;
void      sg_line_log_close(sg_line_log *l);

/* Writes text, which ends with its newline, and flushes it to the disk. After SG_E_FILE none of it is written. */
sg_status sg_line_log_add(sg_line_log *l, const char *text, size_t bytes, sg_error *e) SG_MUST_USE;

/* Is called with each whole line, without its newline and the blanks before it; line counts from 1. */
typedef sg_status sg_line_take(void *context, const char *text, size_t bytes, int line, sg_error *e);

/* Reads a file of lines; blank ones are passed over. Returns SG_E_FILE, SG_E_FORMAT for too many lines, SG_E_MEMORY, or what take
 * returns. */
sg_status sg_line_log_read(const char *path, sg_line_take *take, void *context, sg_error *e) SG_MUST_USE;

#endif
