/* checkpoint_protect.c - the files of a model, kept from outputs. */
#include "base/file.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "checkpoint.h"

#include <dirent.h>
#include <limits.h>

enum { FOLDERS = 3 }; /* within one another: google/umt5-xxl in a model's */

/* Whether some checkpoint reads files of this name. Clips and reports that lie in its folder are no input. */
static bool is_read(const char *path)
{
    static const char *const endings[] = {".safetensors",
                                          ".gguf",
                                          ".pth",
                                          ".pt",
                                          ".bin",
                                          ".ckpt",
                                          ".model",
                                          "index.json",
                                          "config.json",
                                          "tokenizer.json",
                                          "added_tokens.json",
                                          "special_tokens_map.json",
                                          "vocab.json",
                                          "merges.txt",
                                          "sparge-gen.json"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (sg_text_ends(path, endings[i])) return true;
    return false;
}

/* A file, or those in a folder and `depth` folders deep. */
static sg_status protect(const char *path, int depth, const char *what, sg_error *e)
{
    if (is_read(path)) SG_TRY(sg_output_file_protect(path, what, e));
    DIR *const d = depth > 0 ? opendir(path) : NULL;
    sg_status  status = SG_OK;
    for (const struct dirent *f; d && status == SG_OK && (f = readdir(d)) != NULL;) {
        char in[PATH_MAX];
        if (*f->d_name != '.' && sg_path_join(in, sizeof in, path, f->d_name, NULL) == SG_OK)
            status = protect(in, depth - 1, what, e);
    }
    if (d) closedir(d);
    return status;
}

sg_status sg_model_protect(const char *path, const char *what, sg_error *e)
{
    static const char *const names[] = {"config.json", "sparge-gen.json", "spiece.model", "tokenizer"};
    char                     beside[PATH_MAX];
    SG_TRY(sg_output_file_protect(path, what, e));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sg_file_beside(path, names[i], beside, sizeof beside)) SG_TRY(protect(beside, 1, what, e));
    return protect(path, FOLDERS, what, e);
}
