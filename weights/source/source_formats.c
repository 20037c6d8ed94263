/* source_formats.c - which format a file has, and which of a folder's files are meant. A new format is a source of its
 * own and a line here. */
#include "base/path.h"
#include "base/text.h"
#include "source_state.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

/* By a file's first bytes. A safetensors file begins with the length of its header, so that two bytes tell nothing:
 * torch's old form has 0x80 2, then its number, 0x8a 10 .... */
static const struct {
    const char *magic;
    size_t      bytes;
    sg_status (*read)(sg_source *s, const sg_map *map, sg_error *e);
} formats[] = {{"GGUF", 4, sg_gguf_read},
               {"PK\3\4", 4, sg_pth_read},
               {"\x80\x02\x8a\x0a", 4, sg_old_pth_read},
               {"", 0, sg_safetensors_read}};

enum { FORMATS = sizeof formats / sizeof *formats };

/* By the formats from number i on. */
static sg_status open_as(sg_source **out, const char *path, size_t i, sg_error *e)
{
    sg_map map;
    SG_TRY(sg_source_new(out, path, e));
    const bool index = sg_text_ends(path, ".index.json");
    sg_status  status = index ? sg_safetensors_read_index(*out, e) : sg_source_map(*out, &map, path, e);
    if (!index && status == SG_OK) {
        while (map.size < formats[i].bytes || memcmp(map.data, formats[i].magic, formats[i].bytes) != 0) i++;
        status = formats[i].read(*out, &map, e);
    }
    if (status != SG_OK) sg_source_close(out);
    return status;
}

sg_status sg_source_open(sg_source **out, const char *path, sg_error *e) { return open_as(out, path, 0, e); }

/* ---- a folder ---- */

/* What else in the folder the user may have meant. */
static void hint(char *out, size_t size, const char *dir)
{
    static const char *const pickles[] = {".bin", ".pt", ".pth", ".ckpt"};
    DIR *const               d = opendir(dir);
    bool                     found = false;
    out[0] = '\0';
    for (const struct dirent *f; d && !found && (f = readdir(d));) {
        if ((found = sg_text_ends(f->d_name, ".safetensors"))) snprintf(out, size, "; %s is there", sg_show(f->d_name));
        for (size_t i = 0; !out[0] && i < sizeof pickles / sizeof *pickles; i++)
            if (sg_text_ends(f->d_name, pickles[i]))
                snprintf(out, size, "; %s is there: a folder's weights should be safetensors", sg_show(f->d_name));
    }
    if (d) closedir(d);
}

sg_status sg_source_open_stem(sg_source **out, const char *dir, const char *stem, sg_error *e)
{
    static const char *const ends_in[] = {".safetensors", ".safetensors.index.json"};
    const bool               index_first = strncmp(stem, "diffusion_", 10) == 0;
    struct stat              st;
    char                     path[PATH_MAX], name[256], text[256];
    *out = NULL;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", stem, ends_in[(i == 0) == index_first]);
        SG_TRY(sg_path_join(path, sizeof path, dir, name, e));
        if (lstat(path, &st) == 0) return open_as(out, path, FORMATS - 1, e);
    }
    if (stat(dir, &st) != 0) return sg_error_set(e, SG_E_FILE, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: is not a folder", dir);
    hint(text, sizeof text, dir);
    return sg_error_set(e, SG_E_FILE, "%s: has neither %s%s nor %s%s%s", dir, stem, ends_in[0], stem, ends_in[1], text);
}
