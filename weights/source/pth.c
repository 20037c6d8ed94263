/* pth.c - what torch.save writes, as source_state.h has it: a zip of a pickle and of the bytes of its tensors. Source
 * of the zip: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3 (zip64). Sizes and places come from the central
 * directory alone: writers that stream leave those of the local headers empty. */
#include "base/array.h"
#include "base/bytes.h"
#include "base/text.h"
#include "pickle.h"
#include "source_state.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    END = 22, /* bytes of the fixed parts of records */
    END64 = 56,
    LOCATOR64 = 20,
    CENTRAL = 46,
    LOCAL = 30,
    COMMENT_MAX = 65535,
    ZIP64_EXTRA = 1,
    NAME_MAX_BYTES = 511,
    ENTRIES_MAX = 1 << 20
};

typedef struct zip_entry {
    const char    *name; /* NUL-terminated; the source owns it */
    const uint8_t *data; /* in the map */
    uint64_t       size;
    const uint8_t *local; /* where its local header begins */
} zip_entry;

typedef struct zip {
    zip_entry *entry; /* sorted by name */
    size_t     count, room;
} zip;

typedef struct place {
    sg_source    *s;
    const sg_map *map;
    const char   *name; /* NULL: the file as a whole */
    sg_error     *e;
} place;

/* The central directory: within the file. */
typedef struct directory {
    uint64_t at, size, entries;
} directory;

#define bad(p, ...) sg_error_at((p)->e, SG_E_FORMAT, (p)->s->path, "entry", (p)->name, __VA_ARGS__)

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
    if (d->entries > ENTRIES_MAX || d->entries > d->size / CENTRAL)
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
static sg_status locate(zip_entry *x, uint64_t at, uint64_t most, const place *p)
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

/* Does a name lead out of the folder that it is in? */
static bool climbs(const char *name)
{
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strncmp(part, "../", 3) == 0 || strcmp(part, "..") == 0) return true;
    return *name == '/';
}

/* c[left] begins with a central header, whose bytes go to *used. */
static sg_status read_entry(zip *z, const uint8_t *c, uint64_t left, uint64_t most, place *p, uint64_t *used)
{
    if (left < CENTRAL || !is(c, "PK\1\2")) return bad(p, "entry %zu of the directory is broken", z->count);
    const uint64_t name = sg_little_endian(c + 28, 2), extra = sg_little_endian(c + 30, 2),
                   comment = sg_little_endian(c + 32, 2);
    uint64_t packed = sg_little_endian(c + 20, 4), size = sg_little_endian(c + 24, 4), at = sg_little_endian(c + 42, 4);
    *used = CENTRAL + name + extra + comment;
    if (*used > left || !sg_source_fits_name((const char *)c + CENTRAL, (size_t)name, NAME_MAX_BYTES))
        return bad(p, "the name of entry %zu should be 1 to %d bytes of UTF-8", z->count, NAME_MAX_BYTES);
    const zip_entry x = {.name = sg_source_keep(p->s, c + CENTRAL, (size_t)name)};
    if (!x.name || !sg_array_push(z->entry, z->count, z->room, x)) return sg_error_memory(p->e, p->s->path);
    zip_entry *const entry = &z->entry[z->count - 1];
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
    const zip_entry *const x = a, *const y = b;
    return (x->local > y->local) - (x->local < y->local);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const zip_entry *)a)->name, ((const zip_entry *)b)->name);
}

/* No byte belongs to two entries, and no name either. */
static sg_status check_entries(zip *z, const place *p)
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

/* Reads the central directory. No entry is compressed or encrypted, stands twice, lies outside the file or over
 * another, or has another name in front of its data. The caller frees z->entry, after a failure too. */
static sg_status zip_open(zip *z, sg_source *s, const sg_map *map, sg_error *e)
{
    place     p = {.s = s, .map = map, .e = e};
    directory d = {0};
    uint64_t  at = 0, used = 0;
    SG_TRY(read_end(&d, &p));
    for (uint64_t i = 0; i < d.entries; i++, at += used)
        SG_TRY(read_entry(z, map->data + d.at + at, d.size - at, d.at, &p, &used));
    return check_entries(z, &p);
}

/* NULL: there is none. */
static const zip_entry *zip_find(const zip *z, const char *name)
{
    const zip_entry wanted = {.name = name};
    return z->count ? bsearch(&wanted, z->entry, z->count, sizeof *z->entry, by_name) : NULL;
}

/* ---- the tensors ---- */

/* The pickle's entry, and in root[size] what stands before "data.pkl". */
static sg_status find_pickle(const zip *z, const char *path, const zip_entry **out, char *root, size_t size,
                             sg_error *e)
{
    static const char name[] = "/data.pkl";
    *out = NULL;
    for (size_t i = 0; i < z->count; i++) {
        const char *const slash = strchr(z->entry[i].name, '/');
        if (!slash || strcmp(slash, name) != 0) continue;
        if (*out)
            return sg_error_set(e, SG_E_FORMAT, "%s: both \"%s\" and \"%s\" are in it: which one holds the tensors?",
                                path, sg_show((*out)->name), sg_show(z->entry[i].name));
        *out = &z->entry[i];
        snprintf(root, size, "%.*s/", (int)(slash - z->entry[i].name), z->entry[i].name);
    }
    if (*out) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: a zip without a data.pkl: torch.save did not write it", path);
}

static sg_status check_byte_order(const zip *z, const char *path, const char *root, sg_error *e)
{
    char name[NAME_MAX_BYTES + 16];
    snprintf(name, sizeof name, "%sbyteorder", root);
    const zip_entry *const x = zip_find(z, name);
    if (!x || (x->size == 6 && memcmp(x->data, "little", 6) == 0)) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: %s should be \"little\"", path, sg_show(name));
}

/* Is element k number k from the first? */
static bool lies_in_a_row(const sg_pickled_tensor *t)
{
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] != 1 && t->stride[i] != step) return false;
        step *= t->dim[i];
    }
    return true;
}

/* to[] = the elements at x in their order; returns the end. */
static uint8_t *copy_elements(uint8_t *to, const uint8_t *x, const sg_pickled_tensor *t)
{
    const size_t bytes = (size_t)t->type->bytes;
    const int    last = t->rank - 1;
    int64_t      at[SG_MAX_RANK] = {0};
    while (at[0] < t->dim[0]) {
        const uint8_t *from = x;
        for (int i = 0; i < last; i++) from += (size_t)(at[i] * t->stride[i]) * bytes;
        for (int64_t k = 0; k < t->dim[last]; k++, to += bytes)
            memcpy(to, from + (size_t)(k * t->stride[last]) * bytes, bytes);
        at[last] = t->dim[last];
        for (int i = last; i > 0 && at[i] >= t->dim[i]; i--) {
            at[i] = 0;
            at[i - 1]++;
        }
    }
    return to;
}

/* Copies are made of no more bytes than the file has: views of one storage, each element many times, would be as large
 * as they like. */
static sg_status copy(sg_source *s, uint64_t *copied, sg_source_tensor *to, const sg_pickled_tensor *t, sg_error *e)
{
    if (to->bytes > s->map->size - *copied)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: tensor \"%s\": its numbers do not lie in a row: convert to safetensors", s->path,
                            sg_show(to->name));
    uint8_t *const own = sg_source_keep(s, NULL, (size_t)to->bytes);
    if (!own) return sg_error_memory(e, s->path);
    *copied += to->bytes;
    if (to->bytes) copy_elements(own, to->data, t);
    to->data = own;
    return SG_OK;
}

static sg_status add_tensor(sg_source *s, uint64_t *copied, const zip *z, const char *root, const sg_pickled_tensor *t,
                            sg_error *e)
{
    char             name[NAME_MAX_BYTES + 16];
    sg_source_tensor to = {.type = t->type, .bytes = (uint64_t)t->type->bytes, .rank = t->rank};
    const int        n = snprintf(name, sizeof name, "%sdata/%.*s", root,
                                  (int)(t->storage_length < NAME_MAX_BYTES ? t->storage_length : NAME_MAX_BYTES),
                                  t->storage);
    for (int i = 0; i < t->rank; i++) {
        to.dim[i] = t->dim[i];
        to.bytes *= (uint64_t)t->dim[i];
    }
    SG_TRY(sg_source_add_fit(s, to, t->name, t->name_length, e));
    sg_source_tensor *const in = &s->tensor[s->count - 1];
    const zip_entry *const  x = n > 0 && n < (int)sizeof name ? zip_find(z, name) : NULL;
    if (!x)
        return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\": its numbers should be in %s, which is not there",
                            s->path, sg_show(in->name), sg_show(name));
    if (x->size < t->bytes)
        return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\": its storage of %llu bytes has %llu in the file",
                            s->path, sg_show(in->name), (unsigned long long)t->bytes, (unsigned long long)x->size);
    in->data = x->data + (in->bytes ? (uint64_t)t->offset * (uint64_t)t->type->bytes : 0);
    return lies_in_a_row(t) ? SG_OK : copy(s, copied, in, t, e);
}

static sg_status read_tensors(sg_source *s, const zip *z, sg_pickled *all, sg_error *e)
{
    char             root[NAME_MAX_BYTES + 1];
    const zip_entry *pickle;
    uint64_t         copied = 0;
    SG_TRY(find_pickle(z, s->path, &pickle, root, sizeof root, e));
    SG_TRY(check_byte_order(z, s->path, root, e));
    SG_TRY(sg_pickle_read(all, pickle->data, (size_t)pickle->size, s->path, e));
    for (size_t i = 0; i < all->count; i++) SG_TRY(add_tensor(s, &copied, z, root, &all->tensor[i], e));
    if (all->count) return sg_source_sort(s, e);
    return sg_error_set(e, SG_E_FORMAT,
                        "%s: names no tensors; a state dict is read, or one under \"ema_state_dict\", \"model\", "
                        "\"module\", \"state_dict\" or \"gen_model\"",
                        s->path);
}

sg_status sg_pth_read(sg_source *s, const sg_map *map, sg_error *e)
{
    zip        z = {0};
    sg_pickled all = {0};
    sg_status  status = zip_open(&z, s, map, e);
    if (status == SG_OK) status = read_tensors(s, &z, &all, e);
    sg_pickle_free(&all);
    free(z.entry);
    return status;
}

sg_status sg_old_pth_read(sg_source *s, const sg_map *map, sg_error *e)
{
    (void)map;
    return sg_error_set(e, SG_E_FORMAT, "%s: a pickle, as torch wrote before 1.6, is not read: convert to safetensors",
                        s->path);
}
