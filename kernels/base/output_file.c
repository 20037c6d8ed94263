/* output_file.c - see output_file.h. */
#include "base/output_file.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100, MAX_LINKS = 40, MAX_AT_ONCE = 1 << 30 }; /* the last: bytes, of one write */

struct sg_output_file {
    sg_output_file *next; /* in `all`; never taken out, so that a signal handler can walk the list at any time */
    atomic_bool     unlinkable;
    atomic_bool     taken;    /* false: free for the next open */
    bool            in_place; /* a device or a pipe: no neighbour, no renaming */
    bool            nameless; /* in the folder, but under no name yet */
    bool            replaces; /* a file of that name is there, and `old` is its state */
    struct stat     old;
    int             fd;        /* -1 once complete */
    char           *name;      /* the final one */
    char           *temporary; /* the neighbour's, once it has one; NULL before and if in_place */
    char            alias[32]; /* by which what is nameless can be opened again */
};

static _Atomic(sg_output_file *) all;

/* A file that no output may replace. */
typedef struct input {
    struct input *next;
    dev_t         device;
    ino_t         number;
    char          what[48];
} input;

static _Atomic(input *) inputs; /* all of them; none is taken out, so that engines of several threads may use it */

/* What reads the file; NULL: nothing does. */
static const char *reader_of(const struct stat *st)
{
    const input *i = atomic_load(&inputs);
    while (i && (st->st_dev != i->device || st->st_ino != i->number)) i = i->next;
    return i ? i->what : NULL;
}

sg_status sg_output_file_protect(const char *path, const char *what, sg_error *e)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || reader_of(&st)) return SG_OK;
    input *const one = malloc(sizeof *one);
    if (!one) return sg_error_memory(e, what);
    *one = (input){.device = st.st_dev, .number = st.st_ino};
    snprintf(one->what, sizeof one->what, "%s", what);
    one->next = atomic_load(&inputs);
    while (!atomic_compare_exchange_weak(&inputs, &one->next, one)) {
    }
    return SG_OK;
}

void sg_output_file_unlink_all(void)
{
    for (sg_output_file *f = atomic_load(&all); f; f = f->next)
        if (atomic_load(&f->unlinkable)) unlink(f->temporary);
}

static sg_status check_folder(const char *path, const char *what, sg_error *e)
{
    const char *const name = sg_path_name(path);
    char             *folder = sg_path_folder(path);
    struct stat       st;
    sg_status         status = SG_OK;
    if (!folder)
        status = sg_error_memory(e, what);
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
    else if (strlen(name) > NAME_MAX)
        status = sg_error_set(e, SG_E_FILE, "%s: %.40s...: the name has more than %d bytes", what, name, NAME_MAX);
    free(folder);
    return status;
}

/* The name that symbolic links at the end of path lead to, whether there is a file or not; the caller frees. A link among
 * the folders needs no help: the system follows it. NULL with errno ELOOP or ENOMEM. */
static char *behind_links(const char *path)
{
    char *name = strdup(path);
    int   i = 0;
    for (; name; i++) {
        char          to[PATH_MAX];
        const ssize_t n = readlink(name, to, sizeof to - 1);
        if (n < 0) return name; /* no link */
        to[n] = '\0';
        const int folder = to[0] == '/' ? 0 : (int)(sg_path_name(name) - name);
        char     *next = NULL;
        if (i < MAX_LINKS && asprintf(&next, "%.*s%s", folder, name, to) < 0) next = NULL;
        free(name);
        name = next;
    }
    errno = i > MAX_LINKS ? ELOOP : ENOMEM;
    return NULL;
}

/* What an output named path is to be: *name, the caller's to free, is where it goes, and *old the state of what is there,
 * st_mode 0 when there is nothing. */
static sg_status find_target(char **name, struct stat *old, const char *path, const char *what, sg_error *e)
{
    struct stat behind;
    *old = (struct stat){0};
    *name = NULL;
    if (!*path) return sg_error_set(e, SG_E_FILE, "%s: the name is empty", what);
    if (path[strlen(path) - 1] == '/') return sg_error_set(e, SG_E_FILE, "%s: %s is a folder's name", what, path);
    const bool there = stat(path, old) == 0;
    if (!there) *old = (struct stat){0};
    if (there && S_ISDIR(old->st_mode)) return sg_error_set(e, SG_E_FILE, "%s: %s is a folder", what, path);
    if (there && reader_of(old))
        return sg_error_set(e, SG_E_ARG, "%s: %s is what %s reads, and would be replaced", what, path, reader_of(old));
    if (there && access(path, W_OK) != 0)
        return sg_error_set(e, SG_E_FILE, "%s: %s is not writable: %s", what, path, strerror(errno));
    errno = ENOMEM;
    *name = there && !S_ISREG(old->st_mode) ? strdup(path) : behind_links(path);
    if (!*name)
        return sg_error_set(e, errno == ELOOP ? SG_E_FILE : SG_E_MEMORY, "%s: %s: %s", what, path, strerror(errno));
    if (!there || !S_ISREG(old->st_mode)) return SG_OK;
    /* A link of /proc may show a name that is gone. */
    if (stat(*name, &behind) == 0 && behind.st_dev == old->st_dev && behind.st_ino == old->st_ino) return SG_OK;
    free(*name);
    *name = NULL;
    return sg_error_set(e, SG_E_FILE, "%s: %s leads to a file that has no name any more", what, path);
}

bool sg_output_is_stdout(const char *path) { return strcmp(path, "-") == 0; }

sg_status sg_output_file_check(const char *path, const char *what, sg_error *e)
{
    struct stat old;
    char       *name;
    if (sg_output_is_stdout(path)) return SG_OK;
    SG_TRY(find_target(&name, &old, path, what, e));
    const bool      in_place = old.st_mode && !S_ISREG(old.st_mode);
    const sg_status status = in_place ? SG_OK : check_folder(name, what, e);
    free(name);
    return status;
}

/* Its folder's state and its name in it, which is in *path, the caller's to free. */
static bool find_place(const char *output, char **path, struct stat *folder)
{
    struct stat st;
    if (sg_output_is_stdout(output) || (stat(output, &st) == 0 && !S_ISREG(st.st_mode))) return false;
    *path = behind_links(output);
    char *const in = *path ? sg_path_folder(*path) : NULL;
    const bool  found = in && stat(in, folder) == 0;
    free(in);
    return found;
}

bool sg_output_file_same(const char *a, const char *b)
{
    char       *path[2] = {0};
    struct stat folder[2];
    const bool  found = find_place(a, &path[0], &folder[0]) && find_place(b, &path[1], &folder[1]);
    const bool  same = found && folder[0].st_dev == folder[1].st_dev && folder[0].st_ino == folder[1].st_ino &&
                      strcmp(sg_path_name(path[0]), sg_path_name(path[1])) == 0;
    free(path[0]);
    free(path[1]);
    return same;
}

/* A node that nobody has, from now on the caller's; NULL: no memory. */
static sg_output_file *node(void)
{
    sg_output_file *f = atomic_load(&all);
    while (f && atomic_exchange(&f->taken, true)) f = f->next;
    if (!f) {
        if (!(f = calloc(1, sizeof *f))) return NULL;
        atomic_store(&f->taken, true);
        f->next = atomic_load(&all);
        while (!atomic_compare_exchange_weak(&all, &f->next, f)) {
        }
    }
    free(f->name);
    free(f->temporary);
    f->name = f->temporary = NULL;
    f->in_place = f->nameless = f->replaces = false;
    f->fd = -1;
    return f;
}

/* Nobody else reads what may replace a private file, before its permissions are those of the old one. */
static mode_t first_mode(const sg_output_file *f) { return f->replaces ? 0600 : 0666; }

/* A new file of that name, or the nameless one under it. */
static bool take_name(sg_output_file *f)
{
    if (f->nameless) return linkat(AT_FDCWD, f->alias, AT_FDCWD, f->temporary, AT_SYMLINK_FOLLOW) == 0;
    f->fd = open(f->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, first_mode(f));
    return f->fd >= 0;
}

/* The neighbour's name says whose it is, should a kill leave it behind: .ball.mp4.1234abcd.part */
static sg_status name_neighbour(sg_output_file *f, sg_error *e)
{
    const char *const base = sg_path_name(f->name);
    const int         folder = (int)(base - f->name);
    const size_t      size = strlen(f->name) + 32;
    if (!(f->temporary = malloc(size))) return sg_error_memory(e, f->name);
    for (int i = 0; i < TRIES; i++) {
        uint32_t tag = (uint32_t)getpid() + (uint32_t)i;
        if (getrandom(&tag, sizeof tag, GRND_NONBLOCK) != sizeof tag) tag = tag * 2654435761u;
        snprintf(f->temporary, size, "%.*s.%.200s.%08x.part", folder, f->name, base, tag);
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
    char *folder = sg_path_folder(f->name);
    if (!folder) return sg_error_memory(e, f->name);
    f->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, first_mode(f));
    free(folder);
    snprintf(f->alias, sizeof f->alias, "/proc/self/fd/%d", f->fd);
    f->nameless = f->fd >= 0 && access(f->alias, F_OK) == 0;
    if (f->nameless) return SG_OK;
    if (f->fd >= 0) close(f->fd);
    return name_neighbour(f, e);
}

static sg_status open_named(sg_output_file *f, const char *path, sg_error *e)
{
    SG_TRY(find_target(&f->name, &f->old, path, "output", e));
    f->replaces = S_ISREG(f->old.st_mode);
    if (f->old.st_mode && !f->replaces) {
        f->in_place = true;
        f->fd = open(f->name, O_WRONLY | O_CLOEXEC);
        return f->fd >= 0 ? SG_OK : sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    }
    SG_TRY(check_folder(f->name, "output", e));
    return open_neighbour(f, e);
}

static sg_status open_descriptor(sg_output_file *f, int descriptor, const char *name, sg_error *e)
{
    f->in_place = true;
    if (!(f->name = strdup(name))) return sg_error_memory(e, name);
    const int mode = fcntl(descriptor, F_GETFL);
    if (mode >= 0 && (mode & O_ACCMODE) == O_RDONLY) /* what stands in for a closed one */
        errno = EBADF;
    else
        f->fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return f->fd >= 0 ? SG_OK : sg_error_set(e, SG_E_FILE, "%s: %s", name, strerror(errno));
}

/* A file of that name, or of the descriptor where path is NULL. */
static sg_status open_file(sg_output_file **out, const char *path, int descriptor, const char *name, sg_error *e)
{
    *out = NULL;
    sg_output_file *f = node();
    if (!f) return sg_error_memory(e, name);
    const sg_status status = path ? open_named(f, path, e) : open_descriptor(f, descriptor, name, e);
    if (status != SG_OK)
        sg_output_file_discard(&f);
    else
        *out = f;
    return status;
}

sg_status sg_output_file_open(sg_output_file **out, const char *path, sg_error *e)
{
    return open_file(out, path, -1, path, e);
}

sg_status sg_output_file_open_descriptor(sg_output_file **out, int descriptor, const char *name, sg_error *e)
{
    return open_file(out, NULL, descriptor, name, e);
}

sg_status sg_output_file_write(sg_output_file *f, const void *data, size_t bytes, sg_error *e)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = write(f->fd, p, bytes < MAX_AT_ONCE ? bytes : MAX_AT_ONCE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be written: %s", f->name, strerror(errno));
        p += n;
        bytes -= (size_t)n;
    }
    return SG_OK;
}

void sg_output_file_set_time(sg_output_file *f, struct timespec time)
{
    if (!f->in_place) (void)futimens(f->fd, (const struct timespec[]){time, time});
}

const char *sg_output_file_name_now(const sg_output_file *f) { return f->nameless ? f->alias : f->temporary; }

/* The new file is whose the old one was, as far as the system lets us, and may be read and written by the same. */
static void keep_permissions(const sg_output_file *f)
{
    if (!f->replaces) return;
    if (fchown(f->fd, f->old.st_uid, f->old.st_gid) != 0 && fchown(f->fd, (uid_t)-1, f->old.st_gid) != 0) {
        /* it is ours then */
    }
    (void)fchmod(f->fd, f->old.st_mode & 0777);
}

sg_status sg_output_file_complete(sg_output_file *f, sg_error *e)
{
    if (f->fd < 0) return SG_OK;
    keep_permissions(f);
    const bool synced = f->in_place || fsync(f->fd) == 0 || errno == EINVAL || errno == ENOTSUP;
    const int  cause = errno;
    if (synced && f->nameless) SG_TRY(name_neighbour(f, e));
    const bool closed = close(f->fd) == 0;
    f->fd = -1;
    if (synced && closed) return SG_OK;
    return sg_error_set(e, SG_E_FILE, "%s: cannot be written: %s", f->name, strerror(synced ? errno : cause));
}

char *sg_output_name_next(const char *path, int i)
{
    char             *name;
    const char *const extension = sg_path_extension(path);
    if (i == 0) return strdup(path);
    return asprintf(&name, "%.*s-%d%s", (int)(extension - path), path, i, extension) < 0 ? NULL : name;
}

/* Gives the file a name that nobody has. A file system that does not know how has an empty file there for a moment. */
static bool rename_to_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    const int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 || close(fd) != 0) return false;
    if (rename(from, to) == 0) return true;
    const int cause = errno;
    unlink(to);
    errno = cause;
    return false;
}

/* The first free of the names that come of `first`, which becomes f's. */
static bool rename_to_free(sg_output_file *f, const char *first)
{
    char *name;
    for (int i = 0; (name = sg_output_name_next(first, i)) != NULL; i++) {
        const bool taken = rename_to_new(f->temporary, name);
        if (taken || errno != EEXIST) {
            free(f->name);
            f->name = name;
            return taken;
        }
        free(name);
    }
    return false;
}

static sg_status publish(sg_output_file *f, const char *first, sg_error *e)
{
    SG_TRY(sg_output_file_complete(f, e));
    if (f->in_place) return SG_OK;
    if (!(first ? rename_to_free(f, first) : rename(f->temporary, f->name) == 0))
        return sg_error_set(e, errno == ENOMEM ? SG_E_MEMORY : SG_E_FILE, "%s: cannot take its name: %s", f->name,
                            strerror(errno));
    atomic_store(&f->unlinkable, false);
    return SG_OK;
}

sg_status sg_output_file_publish(sg_output_file **f, sg_error *e)
{
    const sg_status status = publish(*f, NULL, e);
    sg_output_file_discard(f);
    return status;
}

sg_status sg_output_file_publish_beside(sg_output_file **f, const char *first, char **name, sg_error *e)
{
    const sg_status status = publish(*f, first, e);
    *name = status == SG_OK ? (*f)->name : NULL;
    if (status == SG_OK) (*f)->name = NULL;
    sg_output_file_discard(f);
    return status;
}

void sg_output_file_discard(sg_output_file **file)
{
    sg_output_file *f = *file;
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    if (atomic_exchange(&f->unlinkable, false)) unlink(f->temporary);
    atomic_store(&f->taken, false);
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

sg_status sg_output_folder_check(char **out, const char *path, size_t reserve, const char *what, sg_error *e)
{
    struct stat st;
    *out = NULL;
    if (strlen(path) + reserve >= PATH_MAX) return sg_error_set(e, SG_E_ARG, "%s: the path is too long", what);
    if (!*path) return sg_error_set(e, SG_E_ARG, "%s: the name is empty", what);
    char *const folder = *out = strdup(path);
    if (!folder) return sg_error_memory(e, what);
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
