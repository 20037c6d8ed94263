/* served_files.c - see served_files.h. */
#include "served_files.h"
#include "base/path.h"
#include "base/text.h"
#include "json_build.h"
#include "report.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sg_status sg_served_name_check(const char *name, const char *key, sg_error *e)
{
    if (*name && *name != '.' && !strchr(name, '/') && !strstr(name, "..") && strlen(name) <= NAME_MAX) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: '%s' is no name of a file or folder", key, sg_show(name));
}

/* name may be NAME:STRENGTH, of which NAME has to exist. */
static sg_status path_of(char path[PATH_MAX], const char *folder, const char *name, const char *key, const char *option,
                         sg_error *e)
{
    char              bare[PATH_MAX];
    const char *const colon = strrchr(name, ':');
    if (!folder) return sg_error_set(e, SG_E_ARG, "%s: '%s': this server has no --%s", key, sg_show(name), option);
    SG_TRY(sg_path_join(path, PATH_MAX, folder, name, e));
    if (access(path, R_OK) == 0) return SG_OK;
    snprintf(bare, sizeof bare, "%.*s", (int)(colon ? strlen(path) - strlen(colon) : 0), path);
    if (*bare && access(bare, R_OK) == 0) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: there is no '%s'", key, sg_show(name));
}

sg_status sg_served_paths_of(sg_served_paths *room, const sg_served_files *f, sg_settings *s, sg_error *e)
{
    static const char *const keys[] = {"lora", "high_noise_lora"};
    sg_text_list *const      lists[] = {&s->lora, &s->high_noise_lora};
    int                      n = 0;
    if (s->model && strcmp(s->model, f->usual_name) == 0) {
        s->model = f->usual;
    } else if (s->model) {
        SG_TRY(path_of(room->model, f->models, s->model, "model", "models", e));
        s->model = room->model;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->count; i++) {
            char *const path = room->lora[n++];
            SG_TRY(path_of(path, f->loras, lists[k]->item[i], keys[k], "loras", e));
            lists[k]->item[i] = path;
        }
    return SG_OK;
}

static int seen(const struct dirent *entry) { return *entry->d_name != '.'; }

/* Tells whether an entry may have weights: a folder, or a file with such an ending, not a README beside them. */
static bool has_weights(const char *folder, const char *name)
{
    static const char *const endings[] = {".safetensors", ".gguf", ".pth", ".pt", ".ckpt", ".bin", NULL};
    char                     path[PATH_MAX];
    struct stat              st;
    if (sg_path_join(path, sizeof path, folder, name, NULL) == SG_OK && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return true;
    return endings[sg_text_place(sg_path_extension(name), endings)];
}

static void add_entries(json_t **list, const char *folder, const char *but)
{
    struct dirent **entry = NULL;
    const int       count = folder ? scandir(folder, &entry, seen, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        const char *const name = entry[i]->d_name;
        if (strcmp(name, but) != 0 && has_weights(folder, name)) sg_json_append(list, sg_report_name(name));
        free(entry[i]);
    }
    free(entry);
}

json_t *sg_served_list(const sg_served_files *f)
{
    json_t *models = json_array(), *loras = json_array();
    sg_json_append(&models, sg_report_name(f->usual_name));
    add_entries(&models, f->models, f->usual_name);
    add_entries(&loras, f->loras, "");
    return json_pack("{s:o, s:o}", "models", models, "loras", loras);
}
