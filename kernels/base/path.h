/* path.h - names of files taken apart and put together, as text: nothing is looked up, "." and ".." are names. */
#ifndef SG_PATH_H
#define SG_PATH_H

#include "status.h"

#include <stddef.h>

/* What stands behind the last slash; all of path where it has none. Within path. */
const char *sg_path_name(const char *path);

/* The last dot of the name with what follows it: ".gz" of "a.tar.gz", ".x" of "d/.x"; the empty end of path where the name
 * has no dot. Within path. */
const char *sg_path_extension(const char *path);

/* The folder that path is in: "a" of "a/b", "/" of "/b", "." of "b". NULL: no memory. The caller frees. */
char *sg_path_folder(const char *path);

/* Writes folder/name to out[size], without a second slash where folder ends in one; an empty folder adds nothing. name may
 * hold slashes. SG_E_FILE when it is too long, and then out is empty. */
sg_status sg_path_join(char *out, size_t size, const char *folder, const char *name, sg_error *e) SG_MUST_USE;

#endif
