/* line_log.c - see line_log.h. */
#include "line_log.h"
#include "base/output_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static sg_status failed(const char *path, const char *what, sg_error *e)
{
    return sg_error_set(e, SG_E_FILE, "%s: %s: %s", path, what, strerror(errno));
}

/* ---- writing ---- */

/* The file ends with its last newline. */
static sg_status take_off(sg_line_log *l, sg_error *e)
{
    const off_t size = lseek(l->fd, 0, SEEK_END);
    off_t       end = size;
    char        c;
    if (size < 0) return failed(l->path, "cannot be read", e);
    while (end > 0 && pread(l->fd, &c, 1, end - 1) == 1 && c != '\n') end--;
    l->cut = end < size;
    if (l->cut && ftruncate(l->fd, end) != 0) return failed(l->path, "cannot be cut", e);
    return SG_OK;
}

sg_status sg_line_log_open(sg_line_log *l, sg_error *e)
{
    SG_TRY(sg_output_file_check(l->path, "--output", e));
    l->fd = open(l->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (l->fd < 0) return failed(l->path, "cannot be opened", e);
    if (flock(l->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return sg_error_set(e, SG_E_FILE, "%s: another process is writing it", l->path);
    return take_off(l, e);
}

void sg_line_log_close(sg_line_log *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

sg_status sg_line_log_add(sg_line_log *l, const char *text, size_t bytes, sg_error *e)
{
    const off_t   before = lseek(l->fd, 0, SEEK_END);
    const ssize_t n = write(l->fd, text, bytes);
    const int     cause = n < 0 ? errno : ENOSPC;
    if (n == (ssize_t)bytes && (fsync(l->fd) == 0 || errno == EINVAL || errno == ENOTSUP)) return SG_OK;
    if (n != (ssize_t)bytes && (n <= 0 || ftruncate(l->fd, before) == 0)) errno = cause;
    return failed(l->path, "cannot be written", e);
}

/* ---- reading ---- */

static sg_status read_lines(FILE *f, const char *path, sg_line_take *take, void *context, sg_error *e)
{
    sg_status status = SG_OK;
    char     *text = NULL;
    size_t    room = 0;
    int       line = 0;
    ssize_t   n = 0;
    while (status == SG_OK && (n = getline(&text, &room, f)) > 0 && text[n - 1] == '\n') {
        while (n > 0 && isspace((unsigned char)text[n - 1])) n--;
        if (++line == INT_MAX)
            status = sg_error_set(e, SG_E_FORMAT, "%s: too many lines", path);
        else if (n)
            status = take(context, text, (size_t)n, line, e);
    }
    free(text);
    if (status != SG_OK || n >= 0 || feof(f)) return status;
    return sg_error_set(e, errno == ENOMEM ? SG_E_MEMORY : SG_E_FILE, "%s: cannot be read: %s", path, strerror(errno));
}

sg_status sg_line_log_read(const char *path, sg_line_take *take, void *context, sg_error *e)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a FIFO must not hold us up */
        return sg_error_set(e, SG_E_FILE, "%s: is not a regular file", path);
    FILE *const f = fopen(path, "re");
    if (!f) return failed(path, "cannot be opened", e);
    const sg_status status = read_lines(f, path, take, context, e);
    fclose(f);
    return status;
}
