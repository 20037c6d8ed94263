/* path.c - see path.h. */
#include "base/path.h"

#include <stdio.h>
#include <string.h>

const char *sg_path_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *sg_path_extension(const char *path)
{
    const char *const name = sg_path_name(path), *const dot = strrchr(name, '.');
    return dot ? dot : name + strlen(name);
}

char *sg_path_folder(const char *path)
{
    const size_t n = (size_t)(sg_path_name(path) - path);
    return n == 0 ? strdup(".") : strndup(path, n == 1 ? 1 : n - 1);
}

sg_status sg_path_join(char *out, size_t size, const char *folder, const char *name, sg_error *e)
{
    const size_t n = strlen(folder);
    const char  *slash = n && folder[n - 1] != '/' ? "/" : "";
    if (n + strlen(slash) + strlen(name) < size) {
        snprintf(out, size, "%s%s%s", folder, slash, name);
        return SG_OK;
    }
    *out = '\0';
    return sg_error_set(e, SG_E_FILE, "%.200s...: the path is too long", n ? folder : name);
}
