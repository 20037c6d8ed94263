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
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".webp", ".bmp",
                                          ".gif", ".pnm", ".ppm",  ".pgm",  ".tga"};
    const char *const name = entry->d_name, *const extension = sg_path_extension(name);
    if (name[0] == '.') return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(extension, endings[i]) == 0) return 1;
    return 0;
}

sg_status sg_frame_list_open(sg_frame_list *out, const char *path, sg_error *e)
{
    struct stat     st;
    struct dirent **entry = NULL;
    *out = (sg_frame_list){0};
    if (stat(path, &st) != 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be opened: %s", path, strerror(errno));
    const bool folder = S_ISDIR(st.st_mode);
    const int  count = folder ? scandir(path, &entry, is_picture, versionsort) : 1;
    if (count < 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be read: %s", path, strerror(errno));
    bool fits = (out->path = calloc((size_t)count + 1, sizeof *out->path)) != NULL;
    for (int i = 0; i < count; i++) {
        const char *const slash = folder ? "/" : "", *const name = folder ? entry[i]->d_name : "";
        fits = fits && asprintf(&out->path[i], "%s%s%s", path, slash, name) >= 0;
        if (fits) out->count++;
        if (folder) free(entry[i]);
    }
    free(entry);
    if (fits && count) return SG_OK;
    sg_frame_list_close(out);
    if (!fits) return sg_error_memory(e, path);
    return sg_error_set(e, SG_E_FILE, "%s: holds no picture, such as .png, .jpg, .webp or .bmp", path);
}

void sg_frame_list_close(sg_frame_list *l)
{
    for (int i = 0; i < l->count; i++) free(l->path[i]);
    free(l->path);
    *l = (sg_frame_list){0};
}

const char *sg_frame_list_name(const sg_frame_list *l, int i) { return sg_path_name(l->path[i]); }
