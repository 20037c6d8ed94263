/* textbuf.c - see textbuf.h. */
#include "textbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

bool sg_textbuf_reserve(sg_textbuf *b, size_t n)
{
    if (b->failed) return false;
    if (n < b->cap - b->len) return true;
    size_t cap = b->cap + b->cap / 2;
    if (n > SIZE_MAX / 2 - b->len)
        n = SIZE_MAX;
    else if (cap < b->len + n + 1)
        cap = b->len + n + 1;
    char *data = n == SIZE_MAX ? NULL : realloc(b->data, cap < 64 ? 64 : cap);
    if (!data) return !(b->failed = true);
    b->data = data;
    b->cap = cap < 64 ? 64 : cap;
    return true;
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
    utf8proc_uint8_t       bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char(c, bytes);
    sg_textbuf_put(b, (const char *)bytes, (size_t)n);
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

static sg_status read_all(sg_textbuf *b, int fd, size_t size, const char *path, sg_error *e)
{
    if (!sg_textbuf_reserve(b, size))
        return sg_error_set(e, SG_E_MEMORY, "%s: no memory for its %zu bytes", path, size);
    while (size) {
        const ssize_t got = read(fd, b->data + b->len, size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
        if (got == 0) return sg_error_set(e, SG_E_FILE, "%s: became shorter while it was read", path);
        b->len += (size_t)got;
        size -= (size_t)got;
    }
    b->data[b->len] = 0;
    return SG_OK;
}

sg_status sg_textbuf_read(sg_textbuf *b, const char *path, size_t max, sg_error *e)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    struct stat st;
    sg_status   s = SG_OK;
    if (fstat(fd, &st))
        s = sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        s = sg_error_set(e, SG_E_FILE, "%s: not a regular file", path);
    else if ((uintmax_t)st.st_size > max)
        s = sg_error_set(e, SG_E_FORMAT, "%s: %jd bytes are more than the %zu that such a file may have", path,
                         (intmax_t)st.st_size, max);
    else
        s = read_all(b, fd, (size_t)st.st_size, path, e);
    close(fd);
    return s;
}

size_t sg_utf8_next(const char *s, size_t n, int32_t *c)
{
    if (n && !(*s & 0x80)) return (void)(*c = *s), 1;
    const utf8proc_ssize_t max = n < 4 ? (utf8proc_ssize_t)n : 4;
    const utf8proc_ssize_t used = utf8proc_iterate((const utf8proc_uint8_t *)s, max, c);
    return used > 0 ? (size_t)used : 0;
}

bool sg_utf8_check(const char *s, size_t n, size_t *bad)
{
    for (size_t i = 0; i < n;) {
        int32_t      c;
        const size_t used = sg_utf8_next(s + i, n - i, &c);
        if (!used) return (void)(*bad = i), false;
        i += used;
    }
    return true;
}

bool sg_utf8_is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

int32_t sg_utf8_from_c1(int32_t c)
{
    static const uint16_t windows1252[32] = {
        0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6,  0x2030, 0x160,
        0x2039, 0x152,  0x8d,   0x17d,  0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
        0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178,
    };
    return windows1252[c - 0x80];
}
