/* safetensors_write.c - see weights.h: tensors to a file that appears complete or not at all. */
#include "input.h"
#include "weights.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 };

static sg_status failed(const char *path, const char *what, sg_error *e)
{
    const sg_status code = errno == ENOMEM ? SG_E_MEMORY : SG_E_FILE;
    return sg_error_set(e, code, "%s: cannot be %s: %s", path, what, strerror(errno));
}

static bool put_tensor(json_t *root, const sg_named_tensor *one, size_t *at)
{
    json_t *const shape = json_array();
    const size_t  begin = *at;
    bool          ok = shape != NULL;
    *at += sg_bytes(one->t);
    for (int i = 0; ok && i < one->t.rank; i++) ok = json_array_append_new(shape, json_integer(one->t.dim[i])) == 0;
    if (ok)
        ok = json_object_set_new(root, one->name,
                                 json_pack("{s:s, s:O, s:[I, I]}", "dtype", sg_dtype_name(one->t.dtype), "shape", shape,
                                           "data_offsets", (json_int_t)begin, (json_int_t)*at)) == 0;
    json_decref(shape);
    return ok;
}

/* NULL when a text is not UTF-8, or memory is short. */
static json_t *header_tree(const sg_named_tensor *all, int count, const char *const *metadata)
{
    json_t *const root = json_object(), *const note = json_object();
    bool   ok = root && note;
    size_t at = 0;
    for (; ok && metadata && metadata[0]; metadata += 2)
        ok = json_object_set_new(note, metadata[0], json_string(metadata[1])) == 0;
    if (ok && json_object_size(note)) ok = json_object_set(root, "__metadata__", note) == 0;
    for (int i = 0; ok && i < count; i++) ok = put_tensor(root, &all[i], &at);
    json_decref(note);
    if (ok) return root;
    json_decref(root);
    return NULL;
}

/* The length, the JSON, and spaces that align what follows to 8 bytes; malloc'd. */
static char *header_bytes(json_t *tree, size_t *size)
{
    char *const  json = sg_json_text(tree, JSON_COMPACT);
    const size_t n = json ? strlen(json) : 0, padded = (n + 7) & ~(size_t)7;
    char *const  out = json ? malloc(8 + padded) : NULL;
    if (out) {
        for (int i = 0; i < 8; i++) out[i] = (char)((uint64_t)padded >> (8 * i) & 0xff);
        memcpy(out + 8, json, n);
        memset(out + 8 + n, ' ', padded - n);
        *size = 8 + padded;
    }
    free(json);
    return out;
}

static int folder_length(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

/* A file without a name in the folder of path, which vanishes unless it gets one; -1 where there is no such thing. */
static int open_nameless(const char *path, char alias[32])
{
    char *const folder = strdup(path);
    if (!folder) return -1;
    folder[folder_length(path)] = '\0';
    const int fd = open(*folder ? folder : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    free(folder);
    snprintf(alias, 32, "/proc/self/fd/%d", fd);
    if (fd < 0 || access(alias, F_OK) == 0) return fd;
    close(fd);
    return -1;
}

/* A neighbour of path under a name nobody has, new or, with alias, what has none: a rename within one folder cannot
 * leave half a file. Negative when it fails. */
static int name_neighbour(char **name, const char *path, const char *alias)
{
    const int    folder = folder_length(path);
    const size_t size = strlen(path) + 40;
    int          fd = -1;
    if (!(*name = malloc(size))) return -1;
    for (int i = 0; i < TRIES && fd < 0; i++) {
        snprintf(*name, size, "%.*s.%.200s.%ld-%d.part", folder, path, path + folder, (long)getpid(), i);
        if (alias)
            fd = linkat(AT_FDCWD, alias, AT_FDCWD, *name, AT_SYMLINK_FOLLOW);
        else
            fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd < 0) {
        free(*name);
        *name = NULL;
    }
    return fd;
}

static bool write_all(int fd, const char *data, size_t size)
{
    while (size) {
        const ssize_t n = write(fd, data, size < 1u << 30 ? size : 1u << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static bool write_content(int fd, const char *header, size_t size, const sg_named_tensor *all, int count)
{
    bool ok = write_all(fd, header, size);
    for (int i = 0; ok && i < count; i++) ok = write_all(fd, all[i].t.data, sg_bytes(all[i].t));
    return ok && fsync(fd) == 0;
}

static sg_status write_file(const char *path, const char *header, size_t size, const sg_named_tensor *all, int count,
                            sg_error *e)
{
    char      alias[32], *name = NULL;
    const int nameless = open_nameless(path, alias);
    const int fd = nameless >= 0 ? nameless : name_neighbour(&name, path, NULL);
    sg_status status = SG_OK;
    if (fd < 0) {
        status = failed(path, "created", e);
    } else {
        if (!write_content(fd, header, size, all, count)) status = failed(path, "written", e);
        if (status == SG_OK && fd == nameless && name_neighbour(&name, path, alias) < 0)
            status = failed(path, "created", e);
        if (close(fd) != 0 && status == SG_OK) status = failed(path, "written", e);
        if (status == SG_OK && rename(name, path) != 0) status = failed(path, "put in place", e);
        if (status != SG_OK && name) unlink(name);
    }
    free(name);
    return status;
}

static bool writable(const sg_named_tensor *one)
{
    return one->t.rank >= 1 && one->t.rank <= SG_MAX_RANK && (one->t.data || !sg_count(one->t)) &&
           strcmp(one->name, "__metadata__") != 0;
}

sg_status sg_safetensors_write_all(const char *path, const sg_named_tensor *all, int count, const char *const *metadata,
                                   sg_error *e)
{
    struct stat st;
    size_t      size = 0;
    for (int i = 0; i < count; i++)
        if (!writable(&all[i])) return sg_error_set(e, SG_E_ARG, "%s: there is no tensor to write", path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a rename would put a file in the place of a device */
        return sg_error_set(e, SG_E_FILE, "%s: exists and is not a regular file", path);
    json_t *const tree = header_tree(all, count, metadata);
    if (!tree) return sg_error_set(e, SG_E_ARG, "%s: a name or a text for the header is not valid UTF-8", path);
    char *const header = header_bytes(tree, &size);
    json_decref(tree);
    if (!header) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for the header", path);
    const sg_status status = write_file(path, header, size, all, count, e);
    free(header);
    return status;
}

sg_status sg_safetensors_write(const char *path, const char *name, sg_tensor t, const char *const *metadata,
                               sg_error *e)
{
    return sg_safetensors_write_all(path, &(sg_named_tensor){name, t}, 1, metadata, e);
}
