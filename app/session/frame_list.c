/* frame_list.c - see frame_list.h. */
#include "frame_list.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static int is_picture(const struct dirent *entry)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg"};
    const char *const name = entry->d_name, *const extension = sg_path_extension(name);
    if (name[0] == '.') return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(extension, endings[i]) == 0) return 1;
    return 0;
}

static sg_status list_folder(sg_frame_list *l, const char *path, sg_error *e)
{
    struct dirent **entry = NULL;
    const int       count = scandir(path, &entry, is_picture, versionsort);
    if (count < 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be read: %s", path, strerror(errno));
    bool fits = (l->path = calloc((size_t)count + 1, sizeof *l->path)) != NULL;
    for (int i = 0; i < count; i++) {
        fits = fits && asprintf(&l->path[i], "%s/%s", path, entry[i]->d_name) >= 0;
        if (fits) l->count++;
        free(entry[i]);
    }
    free(entry);
    if (!fits) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    return count ? SG_OK : sg_error_set(e, SG_E_FILE, "%s: holds no .png, .jpg or .jpeg", path);
}

static sg_status list_file(sg_frame_list *l, const char *path, sg_error *e)
{
    if ((l->path = calloc(1, sizeof *l->path)) && (l->path[0] = strdup(path))) {
        l->count = 1;
        return SG_OK;
    }
    return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
}

sg_status sg_frame_list_open(sg_frame_list *out, const char *path, sg_error *e)
{
    struct stat st;
    *out = (sg_frame_list){0};
    if (stat(path, &st) != 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be opened: %s", path, strerror(errno));
    const sg_status status = S_ISDIR(st.st_mode) ? list_folder(out, path, e) : list_file(out, path, e);
    if (status != SG_OK) sg_frame_list_close(out);
    return status;
}

void sg_frame_list_close(sg_frame_list *l)
{
    for (int i = 0; i < l->count; i++) free(l->path[i]);
    free(l->path);
    *l = (sg_frame_list){0};
}

const char *sg_frame_list_name(const sg_frame_list *l, int i) { return sg_path_name(l->path[i]); }
