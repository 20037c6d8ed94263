/* no_tmpfile.c - to be preloaded: open() and renameat2() as on a file system that has no files without a name, and that
 * cannot rename without replacing. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>

__attribute__((visibility("default"))) int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    (void)from, (void)old, (void)to, (void)new, (void)flags;
    errno = EINVAL;
    return -1;
}

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
