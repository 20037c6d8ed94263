/* safetensors_source.c - one safetensors file, or many by an index, as a tensor source. */
#include "base/path.h"
#include "base/text.h"
#include "safetensors.h"
#include "scales.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MAX_INDEX = 100000000 }; /* bytes, as of a header */

typedef struct shards {
    char              *path;
    sg_safetensors    *file;
    int                files;
    sg_source_tensor **tensor; /* in the order of the files */
    size_t             count;
    uint64_t           bytes;
} shards;

/* An index file while it is read. */
typedef struct index_file {
    const char  *path;
    sg_map       map;
    sg_members   top, weights;
    char        *text;   /* the decoded shard names */
    const char **shard;  /* of weights.item[i] */
    const char **unique; /* sorted */
    int          uniques;
} index_file;

/* malloc'd; NULL: no memory. */
SG_PRINTF(1, 2) static char *print(const char *fmt, ...)
{
    sg_textbuf b = {0};
    va_list    args;
    va_start(args, fmt);
    sg_textbuf_vprintf(&b, fmt, args);
    va_end(args);
    if (b.failed) sg_textbuf_free(&b);
    return b.data;
}

static sg_status no_memory(const char *path, sg_error *e) { return sg_error_memory(e, path); }

/* ---- files into one list ---- */

static sg_status open_files(shards *w, const char *const *path, int n, sg_error *e)
{
    w->file = calloc((size_t)n, sizeof *w->file);
    if (!w->file) return no_memory(w->path, e);
    for (; w->files < n; w->files++) {
        sg_safetensors *const f = &w->file[w->files];
        const sg_status       status = sg_safetensors_open(f, path[w->files], e);
        if (status != SG_OK) {
            sg_safetensors_close(f);
            return status;
        }
        for (size_t i = 0; i < f->count; i++) f->tensor[i].file = sg_path_name(f->path);
        w->count += f->count;
        w->bytes += f->map.size;
    }
    w->tensor = malloc((w->count ? w->count : 1) * sizeof *w->tensor);
    if (!w->tensor) return no_memory(w->path, e);
    size_t at = 0;
    for (int f = 0; f < n; f++)
        for (size_t i = 0; i < w->file[f].count; i++) w->tensor[at++] = &w->file[f].tensor[i];
    return SG_OK;
}

/* ---- the index ---- */

static void index_close(index_file *x)
{
    sg_map_close(&x->map);
    sg_members_free(&x->top);
    sg_members_free(&x->weights);
    free(x->text);
    free(x->shard);
    free(x->unique);
}

/* A shard's name comes from outside: it must stay within the folder. */
static sg_status check_shard(const index_file *x, size_t i, sg_error *e)
{
    const char *const s = x->shard[i];
    bool              plain = *s && strcmp(s, ".") && strcmp(s, "..");
    for (const char *c = s; *c; c++) plain = plain && *c != '/' && (unsigned char)*c >= 0x20;
    if (plain) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT,
                        "%s: weight_map: tensor \"%s\": \"%s\" is not the name of a file in this folder", x->path,
                        sg_show(x->weights.item[i].name), sg_show(s));
}

static sg_status read_shards(index_file *x, size_t text_size, sg_error *e)
{
    char              why[160];
    const size_t      n = x->weights.count;
    char *const       text = x->text = malloc(text_size);
    const char *const what = "weight_map";
    x->shard = malloc((n ? n : 1) * sizeof *x->shard);
    x->unique = malloc((n ? n : 1) * sizeof *x->unique);
    if (!x->text || !x->shard || !x->unique) return no_memory(x->path, e);
    char *at = text;
    for (size_t i = 0; i < n; i++) {
        const sg_member *const m = &x->weights.item[i];
        char *const            end = sg_json_string(at, m->value, m->size, why);
        if (!end)
            return sg_error_set(e, SG_E_FORMAT, "%s: %s: tensor \"%s\": %s", x->path, what, sg_show(m->name), why);
        x->shard[i] = at;
        SG_TRY(check_shard(x, i, e));
        at = end + 1;
    }
    return SG_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static sg_status index_open(index_file *x, sg_error *e)
{
    SG_TRY(sg_map_open_most(&x->map, x->path, MAX_INDEX, e));
    SG_TRY(sg_members_read(&x->top, (const char *)x->map.data, x->map.size, x->path, "index", e));
    const sg_member *map = NULL;
    for (size_t i = 0; i < x->top.count; i++) {
        const sg_member *const m = &x->top.item[i];
        if (strcmp(m->name, "weight_map") == 0)
            map = m;
        else
            SG_TRY(sg_json_check(m, x->path, e));
    }
    if (!map) return sg_error_set(e, SG_E_FORMAT, "%s: weight_map is missing", x->path);
    SG_TRY(sg_members_read(&x->weights, map->value, map->size, x->path, "weight_map", e));
    SG_TRY(read_shards(x, map->size, e));
    const size_t n = x->weights.count;
    if (n == 0) return sg_error_set(e, SG_E_FORMAT, "%s: weight_map is empty", x->path);
    memcpy(x->unique, x->shard, n * sizeof *x->unique);
    qsort(x->unique, n, sizeof *x->unique, by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(x->unique[x->uniques - 1], x->unique[i]) != 0) x->unique[x->uniques++] = x->unique[i];
    return SG_OK;
}

static sg_status open_shards(shards *w, const index_file *x, sg_error *e)
{
    struct stat  st;
    sg_status    status = SG_OK;
    char **const path = calloc((size_t)x->uniques, sizeof *path);
    if (!path) return no_memory(x->path, e);
    for (int i = 0; status == SG_OK && i < x->uniques; i++) {
        path[i] = print("%.*s%s", (int)(sg_path_name(x->path) - x->path), x->path, x->unique[i]);
        if (!path[i])
            status = no_memory(x->path, e);
        else if (stat(path[i], &st) != 0)
            status = sg_error_set(e, SG_E_FILE, "%s: shard \"%s\" is named, but: %s", x->path, sg_show(x->unique[i]),
                                  strerror(errno));
    }
    if (status == SG_OK) status = open_files(w, (const char *const *)path, x->uniques, e);
    for (int i = 0; i < x->uniques; i++) free(path[i]);
    free(path);
    return status;
}

static int by_member(const void *name, const void *member) { return strcmp(name, ((const sg_member *)member)->name); }

/* Every tensor must be where the index says, and in the index. */
static sg_status check_places(const sg_source *s, const index_file *x, sg_error *e)
{
    const sg_members *const w = &x->weights;
    for (size_t i = 0; i < w->count; i++) {
        const char *const name = w->item[i].name;
        const int64_t     at = sg_source_index(s, name);
        if (at < 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: weight_map: tensor \"%s\" is in no file, should be in %s", x->path,
                                sg_show(name), sg_show(x->shard[i]));
        const char *const file = sg_source_at(s, (size_t)at)->file;
        if (strcmp(file, x->shard[i]) != 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: weight_map: tensor \"%s\" should be in %s, but is in %s", x->path,
                                sg_show(name), sg_show(x->shard[i]), file);
    }
    for (size_t i = 0; i < sg_source_count(s); i++) {
        const sg_source_tensor *const t = sg_source_at(s, i);
        if (!bsearch(t->name, w->item, w->count, sizeof *w->item, by_member))
            return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\" of %s is not in weight_map", x->path,
                                sg_show(t->name), t->file);
    }
    return SG_OK;
}

/* ---- as a source ---- */

static size_t shards_count(const void *of) { return ((const shards *)of)->count; }

static const sg_source_tensor *shards_tensor(const void *of, size_t i) { return ((const shards *)of)->tensor[i]; }

static const char *shards_metadata(const void *of, const char *key)
{
    const sg_members *const m = &((const shards *)of)->file[0].metadata;
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->item[i].name, key) == 0) return m->item[i].value;
    return NULL;
}

static const char *shards_path(const void *of) { return ((const shards *)of)->path; }
static int         shards_files(const void *of) { return ((const shards *)of)->files; }
static uint64_t    shards_bytes(const void *of) { return ((const shards *)of)->bytes; }

static void shards_drop(const void *of, const void *data, size_t bytes)
{
    (void)of;
    sg_map_drop(data, bytes);
}

static void shards_close(void *of)
{
    shards *const w = of;
    for (int i = 0; i < w->files; i++) sg_safetensors_close(&w->file[i]);
    free(w->file);
    free(w->tensor);
    free(w->path);
    free(w);
}

static const sg_source_ops ops = {.count = shards_count,
                                  .tensor = shards_tensor,
                                  .metadata = shards_metadata,
                                  .path = shards_path,
                                  .files = shards_files,
                                  .bytes = shards_bytes,
                                  .drop = shards_drop,
                                  .close = shards_close};

static sg_status open_into(sg_source **out, shards *w, index_file *x, sg_error *e)
{
    sg_status status = SG_OK;
    if (x) status = index_open(x, e);
    if (status == SG_OK) status = x ? open_shards(w, x, e) : open_files(w, (const char *const *)&w->path, 1, e);
    if (status != SG_OK) {
        shards_close(w);
        return status;
    }
    SG_TRY(sg_source_new(out, &ops, w, e));
    if (x) status = check_places(*out, x, e);
    if (status == SG_OK) status = sg_scales_attach(*out, w->tensor, e);
    if (status != SG_OK) sg_source_close(out);
    return status;
}

sg_status sg_safetensors_source(sg_source **out, const char *path, bool is_index, sg_error *e)
{
    shards *const w = calloc(1, sizeof *w);
    *out = NULL;
    if (!w || !(w->path = strdup(path))) {
        free(w);
        return no_memory(path, e);
    }
    index_file      x = {.path = path};
    const sg_status status = open_into(out, w, is_index ? &x : NULL, e);
    index_close(&x);
    return status;
}

/* ---- which files ---- */

/* What else in the folder the user may have meant. */
static void hint(char *out, size_t size, const char *dir)
{
    static const char *const pickles[] = {".bin", ".pt", ".pth", ".ckpt"};
    DIR *const               d = opendir(dir);
    bool                     found = false;
    out[0] = '\0';
    for (const struct dirent *f; d && !found && (f = readdir(d));) {
        if ((found = sg_text_ends(f->d_name, ".safetensors"))) snprintf(out, size, "; %s is there", sg_show(f->d_name));
        for (size_t i = 0; !out[0] && i < sizeof pickles / sizeof *pickles; i++)
            if (sg_text_ends(f->d_name, pickles[i]))
                snprintf(out, size, "; %s is there: a folder's weights should be safetensors", sg_show(f->d_name));
    }
    if (d) closedir(d);
}

static sg_status choose(char **path, const char *dir, const char *stem, bool *is_index, sg_error *e)
{
    static const char *const ends_in[] = {".safetensors", ".safetensors.index.json"};
    const bool               index_first = strncmp(stem, "diffusion_", 10) == 0;
    const char *const        slash = *dir && dir[strlen(dir) - 1] == '/' ? "" : "/";
    struct stat              st;
    char                     text[256];
    for (int i = 0; i < 2; i++) {
        *is_index = (i == 0) == index_first;
        *path = print("%s%s%s%s", dir, slash, stem, ends_in[*is_index]);
        if (!*path) return no_memory(dir, e);
        if (lstat(*path, &st) == 0) return SG_OK;
        free(*path);
        *path = NULL;
    }
    if (stat(dir, &st) != 0) return sg_error_set(e, SG_E_FILE, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: is not a folder", dir);
    hint(text, sizeof text, dir);
    return sg_error_set(e, SG_E_FILE, "%s: has neither %s%s nor %s%s%s", dir, stem, ends_in[0], stem, ends_in[1], text);
}

sg_status sg_source_open_stem(sg_source **out, const char *dir, const char *stem, sg_error *e)
{
    bool  is_index = false;
    char *path = NULL;
    *out = NULL;
    SG_TRY(choose(&path, dir, stem, &is_index, e));
    const sg_status status = sg_safetensors_source(out, path, is_index, e);
    free(path);
    return status;
}
