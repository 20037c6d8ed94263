/* served_files.h - models and LoRAs that a job names: entries of the folders --models and --loras. A job names no
 * path. */
#ifndef SG_SERVED_FILES_H
#define SG_SERVED_FILES_H

#include "option_table.h"

#include <jansson.h>
#include <limits.h>

/* models and loras are NULL where the server has no such folder. usual is the model of jobs that name none, or NULL for
 * the one that comes with the program; usual_name is its name. */
typedef struct sg_served_files {
    const char *models, *loras, *usual;
    char        usual_name[NAME_MAX + 1];
} sg_served_files;

/* The paths that settings borrow: of a model, and of LoRAs of both lists. */
typedef struct sg_served_paths {
    char model[PATH_MAX], lora[2 * SG_LIST_MAX][PATH_MAX];
} sg_served_paths;

/* Refuses by SG_E_ARG a name that no entry of a folder can have, or that has ".." or begins with a dot. key is the
 * member. */
sg_status sg_served_name_check(const char *name, const char *key, sg_error *e) SG_MUST_USE;

/* Replaces the names of a model and of LoRAs in s by their paths. SG_E_ARG where there is no such entry. */
sg_status sg_served_paths_of(sg_served_paths *room, const sg_served_files *f, sg_settings *s, sg_error *e) SG_MUST_USE;

/* Returns {models: [name, ...], loras: [name, ...]}, the usual model first. */
json_t *sg_served_list(const sg_served_files *f);

#endif
