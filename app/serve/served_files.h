/* served_files.h - models and LoRAs that a job names: entries of the folders --models and --loras. A job names no
 * path. */
#ifndef SG_SERVED_FILES_H
#define SG_SERVED_FILES_H

#include "option_table.h"

#include <jansson.h>
#include <limits.h>

/* models and loras are NULL where there is no such folder. usual is the model that serves jobs that name none, NULL for
 * the one that comes with the program, and usual_name its own name. */
typedef struct sg_served_files {
    const char *models, *loras, *usual;
    char        usual_name[NAME_MAX + 1];
} sg_served_files;

enum { SG_SERVED_LORAS = 2 * 8 };

/* Holds what settings borrow. */
typedef struct sg_served_paths {
    char model[PATH_MAX], lora[SG_SERVED_LORAS][PATH_MAX];
} sg_served_paths;

/* Checks that a name is that of an entry of a folder: no slash, no "..", no dot at its beginning. key names the member.
 * SG_E_ARG. */
sg_status sg_served_name_check(const char *name, const char *key, sg_error *e) SG_MUST_USE;

/* Puts paths in the place of the names that s has of a model and of LoRAs. SG_E_ARG where there is no such
 * entry. */
sg_status sg_served_paths_of(sg_served_paths *room, const sg_served_files *f, sg_settings *s, sg_error *e) SG_MUST_USE;

/* Returns {models: [name, ...], loras: [name, ...]}, the usual model first. */
json_t *sg_served_list(const sg_served_files *f);

#endif
