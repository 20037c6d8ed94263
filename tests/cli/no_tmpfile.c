/* no_tmpfile.c - to be preloaded: open() as on a file system that has no files without a name. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

typedef int open_fn(const char *, int, ...);

__attribute__((visibility("default"))) int open(const char *path, int flags, ...)
{
    va_list ap;
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    va_start(ap, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    open_fn *real;
    *(void **)&real = dlsym(RTLD_NEXT, "open");
    return real(path, flags, mode);
}
