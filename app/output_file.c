/* output_file.c - see output_file.h. */
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 };

struct sg_output_file {
    sg_output_file *next; /* in `all`; never taken out, so that a signal handler can walk the list at any time */
    atomic_bool     unlinkable;
    bool            taken;     /* false: free for the next open */
    bool            in_place;  /* a device or a pipe: no neighbour, no renaming */
    bool            nameless;  /* in the folder, but under no name yet */
    int             fd;        /* -1 once complete */
    char           *name;      /* the final one */
    char           *temporary; /* the neighbour's, once it has one; NULL before and if in_place */
    char            alias[32]; /* by which what is nameless can be opened again */
};

static _Atomic(sg_output_file *) all;

void sg_output_file_unlink_all(void)
{
    for (sg_output_file *f = atomic_load(&all); f; f = f->next)
        if (atomic_load(&f->unlinkable)) unlink(f->temporary);
}

/* Length of the folder part of path, its last slash included; 0 where there is none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static char *folder_of(const char *path)
{
    const size_t n = folder_length(path);
    return n == 0 ? strdup(".") : strndup(path, n == 1 ? 1 : n - 1);
}

static sg_status check_folder(const char *path, const char *what, sg_error *e)
{
    char       *folder = folder_of(path);
    struct stat st;
    sg_status   status = SG_OK;
    if (!folder)
        status = sg_error_set(e, SG_E_MEMORY, "%s: out of memory", what);
    else if (stat(folder, &st) != 0 && errno == ENOENT)
        status = sg_error_set(e, SG_E_FILE, "%s: %s: there is no folder %s", what, path, folder);
    else if (stat(folder, &st) != 0)
        status =
            sg_error_set(e, SG_E_FILE, "%s: %s: the folder %s cannot be used: %s", what, path, folder, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        status = sg_error_set(e, SG_E_FILE, "%s: %s: %s is not a folder", what, path, folder);
    else if (access(folder, W_OK | X_OK) != 0)
        status = sg_error_set(e, SG_E_FILE, "%s: %s: the folder %s is not writable: %s", what, path, folder,
                              strerror(errno));
    else if (strlen(path + folder_length(path)) > NAME_MAX)
        status = sg_error_set(e, SG_E_FILE, "%s: %.40s...: the name has more than %d bytes", what,
                              path + folder_length(path), NAME_MAX);
    free(folder);
    return status;
}

sg_status sg_output_file_check(const char *path, const char *what, sg_error *e)
{
    struct stat st;
    if (strcmp(path, "-") == 0) return SG_OK;
    if (!*path) return sg_error_set(e, SG_E_FILE, "%s: the name is empty", what);
    if (path[strlen(path) - 1] == '/') return sg_error_set(e, SG_E_FILE, "%s: %s is a folder's name", what, path);
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: %s is a folder", what, path);
        if (access(path, W_OK) != 0)
            return sg_error_set(e, SG_E_FILE, "%s: %s is not writable: %s", what, path, strerror(errno));
        if (!S_ISREG(st.st_mode)) return SG_OK;
    }
    return check_folder(path, what, e);
}

static sg_output_file *node(void)
{
    sg_output_file *f = atomic_load(&all);
    while (f && f->taken) f = f->next;
    if (!f) {
        if (!(f = calloc(1, sizeof *f))) return NULL;
        f->next = atomic_load(&all);
        atomic_store(&all, f);
    }
    free(f->name);
    free(f->temporary);
    f->name = f->temporary = NULL;
    f->taken = true;
    f->in_place = f->nameless = false;
    f->fd = -1;
    return f;
}

/* A new file of that name, or the nameless one under it. */
static bool take_name(sg_output_file *f)
{
    if (f->nameless) return linkat(AT_FDCWD, f->alias, AT_FDCWD, f->temporary, AT_SYMLINK_FOLLOW) == 0;
    f->fd = open(f->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return f->fd >= 0;
}

/* The neighbour's name says whose it is, should a kill leave it behind: .ball.mp4.1234abcd.part */
static sg_status name_neighbour(sg_output_file *f, sg_error *e)
{
    const size_t folder = folder_length(f->name);
    const char  *base = f->name + folder;
    const size_t size = strlen(f->name) + 32;
    if (!(f->temporary = malloc(size))) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", f->name);
    for (int i = 0; i < TRIES; i++) {
        uint32_t tag = (uint32_t)getpid() + (uint32_t)i;
        if (getrandom(&tag, sizeof tag, GRND_NONBLOCK) != sizeof tag) tag = tag * 2654435761u;
        snprintf(f->temporary, size, "%.*s.%.200s.%08x.part", (int)folder, f->name, base, tag);
        if (take_name(f)) {
            atomic_store(&f->unlinkable, true);
            f->nameless = false;
            return SG_OK;
        }
        if (errno != EEXIST) break;
    }
    return sg_error_set(e, SG_E_FILE, "%s: a file cannot be made in its folder: %s", f->name, strerror(errno));
}

/* Where the file system has it, a file without a name: a kill leaves nothing. */
static sg_status open_neighbour(sg_output_file *f, sg_error *e)
{
    char *folder = folder_of(f->name);
    if (!folder) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", f->name);
    f->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    free(folder);
    snprintf(f->alias, sizeof f->alias, "/proc/self/fd/%d", f->fd);
    f->nameless = f->fd >= 0 && access(f->alias, F_OK) == 0;
    if (f->nameless) return SG_OK;
    if (f->fd >= 0) close(f->fd);
    return name_neighbour(f, e);
}

static sg_status open_named(sg_output_file *f, sg_error *e)
{
    struct stat st;
    const bool  exists = stat(f->name, &st) == 0;
    if (exists && !S_ISREG(st.st_mode)) {
        f->in_place = true;
        f->fd = open(f->name, O_WRONLY | O_CLOEXEC);
        return f->fd >= 0 ? SG_OK : sg_error_set(e, SG_E_FILE, "%s: %s", f->name, strerror(errno));
    }
    if (exists) {
        /* Behind a symbolic link it is the target that gets replaced, not the link. */
        char *real = realpath(f->name, NULL);
        if (real) {
            free(f->name);
            f->name = real;
        }
    }
    return open_neighbour(f, e);
}

/* Where one is closed the file must not take its number, or messages would go into it. Writing to these fails too. */
static void fill_standard_streams(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO) {
    }
    if (fd >= 0) close(fd);
}

sg_status sg_output_file_open(sg_output_file **out, const char *path, sg_error *e)
{
    *out = NULL;
    SG_TRY(sg_output_file_check(path, "output", e));
    sg_output_file *f = node();
    if (!f) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    const bool out_stream = strcmp(path, "-") == 0;
    if (!out_stream) fill_standard_streams();
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files fails the write, not the process */
    f->name = strdup(out_stream ? "stdout" : path);
    sg_status status = SG_OK;
    if (!f->name) {
        status = sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    } else if (out_stream) {
        f->in_place = true;
        f->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        if (f->fd < 0) status = sg_error_set(e, SG_E_FILE, "stdout: %s", strerror(errno));
    } else {
        status = open_named(f, e);
    }
    if (status != SG_OK) {
        sg_output_file_discard(&f);
        return status;
    }
    *out = f;
    return SG_OK;
}

sg_status sg_output_file_write(sg_output_file *f, const void *data, size_t bytes, sg_error *e)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = write(f->fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be written: %s", f->name, strerror(errno));
        p += n;
        bytes -= (size_t)n;
    }
    return SG_OK;
}

const char *sg_output_file_name_now(const sg_output_file *f) { return f->nameless ? f->alias : f->temporary; }

sg_status sg_output_file_complete(sg_output_file *f, sg_error *e)
{
    if (f->fd < 0) return SG_OK;
    const bool synced = f->in_place || fsync(f->fd) == 0 || errno == EINVAL || errno == ENOTSUP;
    const int  cause = errno;
    if (synced && f->nameless) SG_TRY(name_neighbour(f, e));
    const bool closed = close(f->fd) == 0;
    f->fd = -1;
    if (synced && closed) return SG_OK;
    return sg_error_set(e, SG_E_FILE, "%s: cannot be written: %s", f->name, strerror(synced ? errno : cause));
}

sg_status sg_output_file_publish(sg_output_file **file, sg_error *e)
{
    sg_output_file *f = *file;
    sg_status       status = sg_output_file_complete(f, e);
    if (status == SG_OK && !f->in_place) {
        if (rename(f->temporary, f->name) == 0)
            atomic_store(&f->unlinkable, false);
        else
            status = sg_error_set(e, SG_E_FILE, "%s: cannot take its name: %s", f->name, strerror(errno));
    }
    sg_output_file_discard(file);
    return status;
}

void sg_output_file_discard(sg_output_file **file)
{
    sg_output_file *f = *file;
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    if (atomic_exchange(&f->unlinkable, false)) unlink(f->temporary);
    f->taken = false;
    *file = NULL;
}

sg_status sg_output_file_save(const char *path, const void *data, size_t bytes, sg_error *e)
{
    sg_output_file *f = NULL;
    SG_TRY(sg_output_file_open(&f, path, e));
    sg_status status = sg_output_file_write(f, data, bytes, e);
    if (status == SG_OK) status = sg_output_file_publish(&f, e);
    sg_output_file_discard(&f);
    return status;
}

sg_status sg_output_folder_check(char **out, const char *path, size_t room, const char *what, sg_error *e)
{
    struct stat st;
    *out = NULL;
    if (strlen(path) + room >= PATH_MAX) return sg_error_set(e, SG_E_ARG, "%s: the path is too long", what);
    if (!*path) return sg_error_set(e, SG_E_ARG, "%s: the name is empty", what);
    char *const folder = *out = strdup(path);
    if (!folder) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", what);
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--) folder[n - 1] = '\0';
    if (stat(folder, &st) != 0) return sg_output_file_check(folder, what, e);
    if (!S_ISDIR(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: %s is not a folder", what, folder);
    return SG_OK;
}

sg_status sg_output_folder_make(const char *path, bool *made, const char *what, sg_error *e)
{
    const bool now = mkdir(path, 0777) == 0;
    if (made) *made = now;
    if (now || errno == EEXIST) return SG_OK;
    return sg_error_set(e, SG_E_FILE, "%s: %s cannot be made: %s", what, path, strerror(errno));
}
