/* run_folder.h - a folder that is filled in several runs, by `compare` or `eval`: it is not another's, its manifest says
 * by which settings it was begun, and what is finished waits in it. */
#ifndef SG_RUN_FOLDER_H
#define SG_RUN_FOLDER_H

#include <jansson.h>
#include <spargegen/spargegen.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns SG_E_ARG if the folder has something in it and is not ours: it has none of these files, a list that ends with
 * NULL. What a kill left on its way does not count, nor does a folder that is not there. */
sg_status sg_run_folder_check(const char *folder, const char *const *marks, sg_error *e) SG_MUST_USE;

/* Tells that members of this name may differ. Where a manifest lacks it there or now is NULL. */
typedef bool sg_manifest_free(const char *name, const json_t *there, const json_t *now);

/* Compares the manifest there with that of this run. Returns SG_E_ARG, with every difference as "name: there -> now",
 * where `holds` says what the folder has by them: "holds clips". */
sg_status sg_manifest_compare(const json_t *there, const json_t *now, const char *folder, const char *holds,
                              sg_manifest_free *may, sg_error *e) SG_MUST_USE;

/* These bytes are a part of a file. */
typedef struct sg_kept {
    void  *data;
    size_t bytes;
} sg_kept;

/* Writes the parts after one another into a file, whose head says what they are, in a line of 80 bytes at most, and has
 * their hash. Returns SG_E_FILE. */
sg_status sg_kept_save(const char *path, const char *what, const sg_kept *part, int parts, sg_error *e) SG_MUST_USE;

/* Reads them; of the last there may have been less, and the rest stays as it is. Returns SG_E_FILE where there is no such
 * file, and SG_E_FORMAT where it is of something else or damaged. */
sg_status sg_kept_load(const char *path, const char *what, const sg_kept *part, int parts, sg_error *e) SG_MUST_USE;

#endif
