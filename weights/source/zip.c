/* zip.c - see zip.h. Sizes and places come from the central directory alone: writers that stream leave those of the local
 * headers empty. */
#include "zip.h"
#include "base/array.h"
#include "base/bytes.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    END = 22, /* bytes of the fixed parts of records */
    END64 = 56,
    LOCATOR64 = 20,
    CENTRAL = 46,
    LOCAL = 30,
    COMMENT_MAX = 65535,
    ZIP64_EXTRA = 1
};

typedef struct place {
    const sg_map *map;
    const char   *path, *name; /* name NULL: the file as a whole */
    sg_error     *e;
} place;

/* The central directory: within the file. */
typedef struct directory {
    uint64_t at, size, entries;
} directory;

#define bad(p, ...) sg_error_at((p)->e, SG_E_FORMAT, (p)->path, "entry", (p)->name, __VA_ARGS__)

static bool is(const uint8_t *p, const char *signature) { return memcmp(p, signature, 4) == 0; }

/* ---- the end of the file ---- */

static const uint8_t *find_end(const sg_map *map)
{
    for (size_t comment = 0; comment <= COMMENT_MAX && comment + END <= map->size; comment++) {
        const uint8_t *const p = map->data + map->size - END - comment;
        if (is(p, "PK\5\6") && sg_little_endian(p + 20, 2) == comment) return p;
    }
    return NULL;
}

/* What does not fit the fields of the end record stands in a record of its own before it. */
static sg_status read_end64(directory *d, const uint8_t *end, const place *p)
{
    const uint8_t *const locator = end - LOCATOR64;
    if (end - p->map->data < LOCATOR64 + END64 || !is(locator, "PK\6\7")) return SG_OK;
    const uint64_t at = sg_little_endian(locator + 8, 8), most = (uint64_t)(locator - p->map->data) - END64;
    if (at > most || !is(p->map->data + at, "PK\6\6"))
        return bad(p, "the zip64 end record is not at byte %llu", (unsigned long long)at);
    const uint8_t *const r = p->map->data + at;
    *d = (directory){
        .at = sg_little_endian(r + 48, 8), .size = sg_little_endian(r + 40, 8), .entries = sg_little_endian(r + 32, 8)};
    return SG_OK;
}

static sg_status read_end(directory *d, const place *p)
{
    const uint8_t *const end = find_end(p->map);
    if (!end) return bad(p, "the zip has no end record: the file may have been cut short");
    *d = (directory){.at = sg_little_endian(end + 16, 4),
                     .size = sg_little_endian(end + 12, 4),
                     .entries = sg_little_endian(end + 10, 2)};
    SG_TRY(read_end64(d, end, p));
    const uint64_t before = (uint64_t)(end - p->map->data);
    if (d->at > before || d->size > before - d->at)
        return bad(p, "the directory, %llu bytes at %llu, goes beyond the file", (unsigned long long)d->size,
                   (unsigned long long)d->at);
    if (d->entries > SG_ZIP_ENTRIES_MAX || d->entries > d->size / CENTRAL)
        return bad(p, "%llu entries are announced, which the directory cannot hold", (unsigned long long)d->entries);
    return SG_OK;
}

/* ---- entries ---- */

/* One after the other of the three that are all ones in the central header stands in its extra field. */
static bool read_extra64(const uint8_t *extra, size_t size, uint64_t *const field[3])
{
    for (size_t at = 0; size - at >= 4;) {
        const size_t n = (size_t)sg_little_endian(extra + at + 2, 2);
        if (n > size - at - 4) return false;
        const uint8_t *value = extra + at + 4, *const end = value + n;
        for (int i = 0; sg_little_endian(extra + at, 2) == ZIP64_EXTRA && i < 3; i++) {
            if (*field[i] != UINT32_MAX) continue;
            if (end - value < 8) return false;
            *field[i] = sg_little_endian(value, 8);
            value += 8;
        }
        at += 4 + n;
    }
    return true;
}

/* Finds the entry's data behind its local header, whose name must be the same. */
static sg_status locate(sg_zip_entry *x, uint64_t at, uint64_t most, const place *p)
{
    if (at > most || most - at < LOCAL) return bad(p, "lies at byte %llu, beyond the entries", (unsigned long long)at);
    x->local = p->map->data + at;
    const uint64_t name = sg_little_endian(x->local + 26, 2), extra = sg_little_endian(x->local + 28, 2);
    if (!is(x->local, "PK\3\4")) return bad(p, "has no header at byte %llu", (unsigned long long)at);
    if (name != strlen(x->name) || name + extra > most - at - LOCAL || memcmp(x->local + LOCAL, x->name, name) != 0)
        return bad(p, "has another name in front of its data");
    if (x->size > most - at - LOCAL - name - extra)
        return bad(p, "%llu bytes go beyond the entries: the file may have been cut short",
                   (unsigned long long)x->size);
    x->data = x->local + LOCAL + name + extra;
    return SG_OK;
}

static bool fit_name(const char *name, size_t len)
{
    size_t wrong;
    return len && len <= SG_ZIP_NAME_MAX && !memchr(name, 0, len) && sg_utf8_check(name, len, &wrong);
}

/* Does a name lead out of the folder that it is in? */
static bool climbs(const char *name)
{
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strncmp(part, "../", 3) == 0 || strcmp(part, "..") == 0) return true;
    return *name == '/';
}

/* c[left] begins with a central header, whose bytes go to *used. */
static sg_status read_entry(sg_zip *z, const uint8_t *c, uint64_t left, uint64_t most, place *p, uint64_t *used)
{
    if (left < CENTRAL || !is(c, "PK\1\2")) return bad(p, "entry %zu of the directory is broken", z->count);
    const uint64_t name = sg_little_endian(c + 28, 2), extra = sg_little_endian(c + 30, 2),
                   comment = sg_little_endian(c + 32, 2);
    uint64_t packed = sg_little_endian(c + 20, 4), size = sg_little_endian(c + 24, 4), at = sg_little_endian(c + 42, 4);
    *used = CENTRAL + name + extra + comment;
    if (*used > left || !fit_name((const char *)c + CENTRAL, (size_t)name))
        return bad(p, "the name of entry %zu should be 1 to %d bytes of UTF-8", z->count, SG_ZIP_NAME_MAX);
    sg_zip_entry x = {.name = strndup((const char *)c + CENTRAL, (size_t)name)};
    if (!x.name || !sg_array_push(z->entry, z->count, z->room, x)) {
        free((char *)(uintptr_t)x.name);
        return sg_error_memory(p->e, p->path);
    }
    sg_zip_entry *const entry = &z->entry[z->count - 1];
    p->name = entry->name;
    if (climbs(entry->name)) return bad(p, "leads out of its folder");
    if (sg_little_endian(c + 8, 2) & 1) return bad(p, "is encrypted");
    if (!read_extra64(c + CENTRAL + name, (size_t)extra, (uint64_t *const[]){&size, &packed, &at}))
        return bad(p, "its zip64 sizes are missing");
    if (sg_little_endian(c + 10, 2) != 0 || packed != size)
        return bad(p, "is compressed, as torch.save never does: convert to safetensors");
    entry->size = size;
    SG_TRY(locate(entry, at, most, p));
    p->name = NULL;
    return SG_OK;
}

static int by_place(const void *a, const void *b)
{
    const sg_zip_entry *const x = a, *const y = b;
    return (x->local > y->local) - (x->local < y->local);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const sg_zip_entry *)a)->name, ((const sg_zip_entry *)b)->name);
}

/* No byte belongs to two entries, and no name either. */
static sg_status check_entries(sg_zip *z, const place *p)
{
    if (z->count) qsort(z->entry, z->count, sizeof *z->entry, by_place);
    for (size_t i = 1; i < z->count; i++)
        if (z->entry[i - 1].data + z->entry[i - 1].size > z->entry[i].local)
            return bad(p, "entries \"%s\" and \"%s\" overlap", sg_show(z->entry[i - 1].name),
                       sg_show(z->entry[i].name));
    if (z->count) qsort(z->entry, z->count, sizeof *z->entry, by_name);
    for (size_t i = 1; i < z->count; i++)
        if (strcmp(z->entry[i - 1].name, z->entry[i].name) == 0)
            return bad(p, "entry \"%s\" stands twice", sg_show(z->entry[i].name));
    return SG_OK;
}

sg_status sg_zip_open(sg_zip *z, const sg_map *map, const char *path, sg_error *e)
{
    place     p = {.map = map, .path = path, .e = e};
    directory d = {0};
    uint64_t  at = 0, used = 0;
    SG_TRY(read_end(&d, &p));
    for (uint64_t i = 0; i < d.entries; i++, at += used)
        SG_TRY(read_entry(z, map->data + d.at + at, d.size - at, d.at, &p, &used));
    return check_entries(z, &p);
}

void sg_zip_close(sg_zip *z)
{
    for (size_t i = 0; i < z->count; i++) free((char *)(uintptr_t)z->entry[i].name);
    free(z->entry);
    *z = (sg_zip){0};
}

const sg_zip_entry *sg_zip_find(const sg_zip *z, const char *name)
{
    const sg_zip_entry wanted = {.name = name};
    return z->count ? bsearch(&wanted, z->entry, z->count, sizeof *z->entry, by_name) : NULL;
}
