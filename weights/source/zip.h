/* zip.h - the stored entries of a zip, by its central directory. It is internal to this folder. Source: PKWARE's
 * APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3 (zip64). */
#ifndef SG_ZIP_H
#define SG_ZIP_H

#include "base/file.h"

enum { SG_ZIP_NAME_MAX = 511, SG_ZIP_ENTRIES_MAX = 1 << 20 };

typedef struct sg_zip_entry {
    const char    *name; /* NUL-terminated, malloc'd */
    const uint8_t *data; /* in the map */
    uint64_t       size;
    const uint8_t *local; /* where its local header begins */
} sg_zip_entry;

typedef struct sg_zip {
    sg_zip_entry *entry; /* sorted by name */
    size_t        count, room;
} sg_zip;

/* Reads the central directory. Zero is an empty zip; the caller frees, after a failure too. Returns SG_E_FORMAT if an
 * entry is compressed or encrypted, stands twice, lies outside the file or over another, or has another name in front
 * of its data. path is for messages. */
sg_status           sg_zip_open(sg_zip *z, const sg_map *map, const char *path, sg_error *e) SG_MUST_USE;
void                sg_zip_close(sg_zip *z);
const sg_zip_entry *sg_zip_find(const sg_zip *z, const char *name); /* NULL: there is none */

#endif
