/* file.h - the bytes of a regular file, read where they lie. A name may lead to anything: folders, devices and pipes are
 * refused, and a pipe is not waited for. */
#ifndef SG_FILE_H
#define SG_FILE_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_map {
    const uint8_t *data;
    size_t         size; /* at least 1 while it is open */
} sg_map;

/* Maps a file that is not empty, read-only. Zero is a closed map; the caller closes. Messages name path and reason.
 * Returns SG_E_FILE if the file cannot be opened or is no regular one, SG_E_FORMAT if it is empty or larger than `most`
 * bytes, or SG_E_MEMORY. Touching the pages of a file that was cut short since raises SIGBUS. */
sg_status sg_map_open(sg_map *m, const char *path, sg_error *e) SG_MUST_USE;
sg_status sg_map_open_most(sg_map *m, const char *path, size_t most, sg_error *e) SG_MUST_USE;
void      sg_map_close(sg_map *m);

/* Says that these bytes of a map have been read and are not needed for now. The whole pages among them come back from
 * the file when they are touched again. */
void sg_map_drop(const void *data, size_t bytes);

/* *hash goes on (hash.h) with the bytes of a file. Fails as sg_map_open. */
sg_status sg_file_hash(uint64_t *hash, const char *path, sg_error *e) SG_MUST_USE;

/* Writes the path of what people put beside `path` under this name: in the folder that it is, or in that of the file.
 * Returns false if it is too long. Neither need be there. */
bool sg_file_beside(const char *path, const char *name, char *out, size_t size);

#endif
