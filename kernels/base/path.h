/* path.h - names of files taken apart and put together, as text: nothing is looked up, "." and ".." are names. */
#ifndef SG_PATH_H
#define SG_PATH_H

#include "status.h"

#include <stddef.h>

/* Returns what stands behind the last slash, or all of path where it has none. The result lies within path. */
const char *sg_path_name(const char *path);

/* Returns the last dot of the name with what follows it: ".gz" of "a.tar.gz", ".x" of "d/.x"; or the empty end of path
 * where the name has no dot. The result lies within path. */
const char *sg_path_extension(const char *path);

/* Returns the folder that path is in: "a" of "a/b", "/" of "/b", "." of "b". It is NULL where there is no memory. The
 * caller frees it. */
char *sg_path_folder(const char *path);

/* Writes folder/name to out[size], without a second slash where folder ends in one; an empty folder adds nothing. name may
 * hold slashes. SG_E_FILE when it is too long, and then out is empty. */
sg_status sg_path_join(char *out, size_t size, const char *folder, const char *name, sg_error *e) SG_MUST_USE;

#endif
