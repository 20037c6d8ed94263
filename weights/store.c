/* store.c - see weights.h: one or many safetensors files under one roof. */
#include "base/text.h"
#include "safetensors.h"
#include "weights.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_INDEX = 100000000 }; /* bytes, as of a header */

struct sg_weights {
    char                 *path;
    sg_safetensors       *file;
    int                   files;
    const sg_safetensor **tensor;  /* in the order of the files */
    const sg_safetensor **by_name; /* sorted */
    size_t                count;
    uint64_t              bytes;
};

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

SG_PRINTF(1, 2) static char *print(const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int   n = vsnprintf(NULL, 0, fmt, ap);
    char *const s = n < 0 ? NULL : malloc((size_t)n + 1);
    if (s) vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return s;
}

static sg_status no_memory(const char *path, sg_error *e)
{
    return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
}

static const char *base(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *tensor_file(const sg_weights *w, const sg_safetensor *t) { return base(w->file[t->file].path); }

/* ---- which files ---- */

static bool ends(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* What else in the folder the user may have meant. */
static void hint(char *out, size_t size, const char *dir)
{
    static const char *const pickles[] = {".bin", ".pt", ".pth", ".ckpt"};
    DIR *const               d = opendir(dir);
    bool                     found = false;
    out[0] = '\0';
    for (const struct dirent *f; d && !found && (f = readdir(d));) {
        if ((found = ends(f->d_name, ".safetensors"))) snprintf(out, size, "; %s is there", sg_show(f->d_name));
        for (size_t i = 0; !out[0] && i < sizeof pickles / sizeof *pickles; i++)
            if (ends(f->d_name, pickles[i]))
                snprintf(out, size, "; pickle files such as %s are not read: convert to safetensors",
                         sg_show(f->d_name));
    }
    if (d) closedir(d);
}

static sg_status choose(sg_weights *w, const char *dir, const char *stem, bool *is_index, sg_error *e)
{
    static const char *const ends_in[] = {".safetensors", ".safetensors.index.json"};
    const bool               index_first = strncmp(stem, "diffusion_", 10) == 0;
    struct stat              st;
    char                     text[256];
    for (int i = 0; i < 2; i++) {
        *is_index = (i == 0) == index_first;
        w->path = print("%s%s%s%s", dir, ends(dir, "/") ? "" : "/", stem, ends_in[*is_index]);
        if (!w->path) return no_memory(dir, e);
        if (lstat(w->path, &st) == 0) return SG_OK;
        free(w->path);
        w->path = NULL;
    }
    if (stat(dir, &st) != 0) return sg_error_set(e, SG_E_FILE, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: is not a folder", dir);
    hint(text, sizeof text, dir);
    return sg_error_set(e, SG_E_FILE, "%s: has neither %s%s nor %s%s%s", dir, stem, ends_in[0], stem, ends_in[1], text);
}

/* ---- files into one list ---- */

static sg_status open_files(sg_weights *w, const char *const *path, int n, sg_error *e)
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
        for (size_t i = 0; i < f->count; i++) f->tensor[i].file = w->files;
        w->count += f->count;
        w->bytes += f->map.size;
    }
    return SG_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const sg_safetensor *const *)a)->name, (*(const sg_safetensor *const *)b)->name);
}

static sg_status sort_names(sg_weights *w, sg_error *e)
{
    const size_t room = w->count ? w->count : 1;
    size_t       n = 0;
    w->tensor = malloc(room * sizeof *w->tensor);
    w->by_name = malloc(room * sizeof *w->by_name);
    if (!w->tensor || !w->by_name) return no_memory(w->path, e);
    for (int f = 0; f < w->files; f++)
        for (size_t i = 0; i < w->file[f].count; i++, n++) {
            w->file[f].tensor[i].index = n;
            w->tensor[n] = w->by_name[n] = &w->file[f].tensor[i];
        }
    qsort(w->by_name, n, sizeof *w->by_name, by_name);
    for (size_t i = 1; i < n; i++) {
        const sg_safetensor *const a = w->by_name[i - 1], *const b = w->by_name[i];
        if (strcmp(a->name, b->name) == 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\" is both in %s and in %s", w->path, sg_show(a->name),
                                tensor_file(w, a), tensor_file(w, b));
    }
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
    SG_TRY(sg_map_open(&x->map, x->path, e));
    if (x->map.size > MAX_INDEX)
        return sg_error_set(e, SG_E_FORMAT, "%s: %zu bytes; an index may have at most %d", x->path, x->map.size,
                            MAX_INDEX);
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

static sg_status open_shards(sg_weights *w, const index_file *x, const char *dir, sg_error *e)
{
    struct stat  st;
    sg_status    status = SG_OK;
    char **const path = calloc((size_t)x->uniques, sizeof *path);
    if (!path) return no_memory(x->path, e);
    for (int i = 0; status == SG_OK && i < x->uniques; i++) {
        path[i] = print("%s/%s", dir, x->unique[i]);
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

/* Both lists are sorted by name: every tensor must be where the index says, and in the index. */
static sg_status check_places(const sg_weights *w, const index_file *x, sg_error *e)
{
    for (size_t i = 0, j = 0; i < w->count || j < x->weights.count;) {
        const sg_safetensor *const t = i < w->count ? w->by_name[i] : NULL;
        const char *const          name = j < x->weights.count ? x->weights.item[j].name : NULL;
        const int                  c = !t ? 1 : !name ? -1 : strcmp(t->name, name);
        if (c < 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\" of %s is not in weight_map", x->path,
                                sg_show(t->name), tensor_file(w, t));
        if (c > 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: weight_map: tensor \"%s\" is in no file, should be in %s", x->path,
                                sg_show(name), sg_show(x->shard[j]));
        if (strcmp(tensor_file(w, t), x->shard[j]) != 0)
            return sg_error_set(e, SG_E_FORMAT, "%s: weight_map: tensor \"%s\" should be in %s, but is in %s", x->path,
                                sg_show(name), sg_show(x->shard[j]), tensor_file(w, t));
        i++;
        j++;
    }
    return SG_OK;
}

static sg_status open_index(sg_weights *w, const char *dir, sg_error *e)
{
    index_file x = {.path = w->path};
    sg_status  status = index_open(&x, e);
    if (status == SG_OK) status = open_shards(w, &x, dir, e);
    if (status == SG_OK) status = sort_names(w, e);
    if (status == SG_OK) status = check_places(w, &x, e);
    index_close(&x);
    return status;
}

static sg_status open_single(sg_weights *w, sg_error *e)
{
    SG_TRY(open_files(w, (const char *const *)&w->path, 1, e));
    return sort_names(w, e);
}

/* ---- weights.h ---- */

sg_status sg_weights_open(sg_weights **out, const char *dir, const char *stem, sg_error *e)
{
    bool              is_index;
    sg_weights *const w = *out = calloc(1, sizeof *w);
    if (!w) return no_memory(dir, e);
    sg_status status = choose(w, dir, stem, &is_index, e);
    if (status == SG_OK) status = is_index ? open_index(w, dir, e) : open_single(w, e);
    if (status != SG_OK) sg_weights_close(out);
    return status;
}

void sg_weights_close(sg_weights **w)
{
    if (!*w) return;
    for (int i = 0; i < (*w)->files; i++) sg_safetensors_close(&(*w)->file[i]);
    free((*w)->file);
    free((*w)->tensor);
    free((*w)->by_name);
    free((*w)->path);
    free(*w);
    *w = NULL;
}

static sg_tensor view(const sg_safetensor *s)
{
    sg_tensor t = {.data = (void *)(uintptr_t)s->data, .rank = s->rank ? s->rank : 1, .dim = {1}};
    sg_safetensor_type(s, &t.dtype);
    if (t.dtype == SG_DTYPES) return (sg_tensor){0};
    if (s->rank) memcpy(t.dim, s->dim, sizeof t.dim);
    return t;
}

int64_t sg_weights_index(const sg_weights *w, const char *name)
{
    for (size_t lo = 0, hi = w->count; lo < hi;) {
        const size_t mid = lo + (hi - lo) / 2;
        const int    c = strcmp(name, w->by_name[mid]->name);
        if (c == 0) return (int64_t)w->by_name[mid]->index;
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return -1;
}

sg_tensor sg_weights_find(const sg_weights *w, const char *name)
{
    const int64_t i = sg_weights_index(w, name);
    return i < 0 ? (sg_tensor){0} : view(w->tensor[i]);
}

size_t sg_weights_count(const sg_weights *w) { return w->count; }

const char *sg_weights_name(const sg_weights *w, size_t i, sg_tensor *t)
{
    if (t) *t = view(w->tensor[i]);
    return w->tensor[i]->name;
}

const char *sg_weights_dtype(const sg_weights *w, size_t i)
{
    sg_dtype ignored;
    return sg_safetensor_type(w->tensor[i], &ignored);
}

const char *sg_weights_path(const sg_weights *w) { return w->path; }
int         sg_weights_files(const sg_weights *w) { return w->files; }
uint64_t    sg_weights_bytes(const sg_weights *w) { return w->bytes; }

const char *sg_weights_metadata(const sg_weights *w, const char *key)
{
    const sg_members *const m = &w->file[0].metadata;
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->item[i].name, key) == 0) return m->item[i].value;
    return NULL;
}
