/* file.c - see file.h. */
#include "base/file.h"
#include "base/hash.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static sg_status map_descriptor(sg_map *m, int fd, const char *path, size_t most, sg_error *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: is a folder, should be a file", path);
    if (!S_ISREG(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: is not a regular file", path);
    if (st.st_size <= 0) return sg_error_set(e, SG_E_FORMAT, "%s: the file is empty", path);
    if ((uintmax_t)st.st_size > most)
        return sg_error_set(e, SG_E_FORMAT, "%s: %jd bytes; at most %zu are read", path, (intmax_t)st.st_size, most);
    void *const p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return sg_error_set(e, errno == ENOMEM ? SG_E_MEMORY : SG_E_FILE, "%s: cannot be mapped: %s", path,
                            strerror(errno));
    *m = (sg_map){p, (size_t)st.st_size};
    return SG_OK;
}

sg_status sg_map_open_most(sg_map *m, const char *path, size_t most, sg_error *e)
{
    *m = (sg_map){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */
    if (fd < 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be opened: %s", path, strerror(errno));
    const sg_status status = map_descriptor(m, fd, path, most, e);
    close(fd);
    return status;
}

sg_status sg_map_open(sg_map *m, const char *path, sg_error *e) { return sg_map_open_most(m, path, SIZE_MAX, e); }

void sg_map_close(sg_map *m)
{
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    *m = (sg_map){0};
}

void sg_map_drop(const void *data, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    const uintptr_t from = (at + page - 1) / page * page, to = (at + bytes) / page * page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

sg_status sg_file_hash(uint64_t *hash, const char *path, sg_error *e)
{
    sg_map map;
    SG_TRY(sg_map_open(&map, path, e));
    *hash = sg_hash(*hash, map.data, map.size);
    sg_map_close(&map);
    return SG_OK;
}

bool sg_file_beside(const char *path, const char *name, char *out, size_t size)
{
    struct stat st;
    const bool  file = stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
    const int   folder = (int)(file ? sg_path_name(path) - path : (ptrdiff_t)strlen(path));
    const int   n = snprintf(out, size, "%.*s%s%s", folder, path, file ? "" : "/", name);
    return n >= 0 && (size_t)n < size;
}
