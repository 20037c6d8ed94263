/* tensor_source.c - see tensor_source.h: what all formats share, finding a tensor by its name. */
#include "tensor_source.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/text.h"

#include <stdlib.h>

struct sg_source {
    const sg_source_ops *ops;
    void                *of;
    size_t               count;
    size_t              *by_name; /* [count] numbers of tensors, sorted by their names */
};

static int by_name(const void *a, const void *b, void *source)
{
    const sg_source *const s = source;
    return strcmp(sg_source_at(s, *(const size_t *)a)->name, sg_source_at(s, *(const size_t *)b)->name);
}

static sg_status sort_names(sg_source *s, sg_error *e)
{
    s->by_name = malloc((s->count ? s->count : 1) * sizeof *s->by_name);
    if (!s->by_name) return sg_error_memory(e, sg_source_path(s));
    for (size_t i = 0; i < s->count; i++) s->by_name[i] = i;
    qsort_r(s->by_name, s->count, sizeof *s->by_name, by_name, s);
    for (size_t i = 1; i < s->count; i++) {
        const sg_source_tensor *const a = sg_source_at(s, s->by_name[i - 1]), *const b = sg_source_at(s, s->by_name[i]);
        if (strcmp(a->name, b->name) != 0) continue;
        if (a->file == b->file)
            return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\" stands twice", sg_source_path(s), sg_show(a->name));
        return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\" is both in %s and in %s", sg_source_path(s),
                            sg_show(a->name), a->file, b->file);
    }
    return SG_OK;
}

sg_status sg_source_new(sg_source **out, const sg_source_ops *ops, void *of, sg_error *e)
{
    sg_source *const s = *out = calloc(1, sizeof *s);
    if (!s) {
        const sg_status status = sg_error_memory(e, ops->path(of));
        ops->close(of);
        return status;
    }
    *s = (sg_source){.ops = ops, .of = of, .count = ops->count(of)};
    const sg_status status = sort_names(s, e);
    if (status != SG_OK) sg_source_close(out);
    return status;
}

void sg_source_close(sg_source **s)
{
    if (!*s) return;
    (*s)->ops->close((*s)->of);
    free((*s)->by_name);
    free(*s);
    *s = NULL;
}

int64_t sg_source_index(const sg_source *s, const char *name)
{
    for (size_t lo = 0, hi = s->count; lo < hi;) {
        const size_t mid = lo + (hi - lo) / 2;
        const int    c = strcmp(name, sg_source_at(s, s->by_name[mid])->name);
        if (c == 0) return (int64_t)s->by_name[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return -1;
}

sg_tensor sg_source_view(const sg_source *s, size_t i)
{
    const sg_source_tensor *const from = sg_source_at(s, i);
    sg_tensor t = {.data = (void *)(uintptr_t)from->data, .dtype = from->type->dtype, .rank = 1, .dim = {1}};
    if (t.dtype == SG_DTYPES) return (sg_tensor){0};
    if (from->rank) {
        t.rank = from->rank;
        memcpy(t.dim, from->dim, sizeof t.dim);
    }
    return t;
}

sg_tensor sg_source_find(const sg_source *s, const char *name)
{
    const int64_t i = sg_source_index(s, name);
    return i < 0 ? (sg_tensor){0} : sg_source_view(s, (size_t)i);
}

size_t                  sg_source_count(const sg_source *s) { return s->count; }
const sg_source_tensor *sg_source_at(const sg_source *s, size_t i) { return s->ops->tensor(s->of, i); }

const char *sg_source_metadata(const sg_source *s, const char *key) { return s->ops->metadata(s->of, key); }
bool        sg_source_metadata_list(const sg_source *s, const char *key, sg_source_list *out)
{
    return s->ops->list && s->ops->list(s->of, key, out);
}

double sg_source_number(const sg_source_list *l, uint64_t i)
{
    const uint64_t n = sg_little_endian(l->data + i * (uint64_t)l->bytes, l->bytes);
    const uint32_t low = (uint32_t)n;
    const int      unused = 64 - 8 * l->bytes;
    float          f;
    double         d;
    if (l->kind == 'u') return (double)n;
    if (l->kind == 'i') return (double)((int64_t)(n << unused) >> unused);
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &n, sizeof d);
    return l->bytes == 4 ? (double)f : d;
}

const char *sg_source_next_text(sg_source_list *l, size_t *length)
{
    const uint8_t *const text = l->data + 8;
    *length = (size_t)sg_little_endian(l->data, 8);
    l->data = text + *length;
    l->count--;
    return (const char *)text;
}

const char *sg_source_path(const sg_source *s) { return s->ops->path(s->of); }
int         sg_source_files(const sg_source *s) { return s->ops->files(s->of); }
uint64_t    sg_source_bytes(const sg_source *s) { return s->ops->bytes(s->of); }

void sg_source_drop(const sg_source *s, const void *data, size_t bytes)
{
    if (s->ops->drop) s->ops->drop(s->of, data, bytes);
}

/* ---- which weights ---- */

static uint64_t mix_number(uint64_t hash, uint64_t v)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(v >> (8 * i));
    return sg_hash(hash, bytes, sizeof bytes);
}

/* Adds one tensor to a hash: its name, its shape, and its first numbers as BF16, or its first bytes where they are of
 * another type. */
static uint64_t tensor_hash(uint64_t hash, const sg_source_tensor *s, sg_tensor t)
{
    enum { FIRST = 16 };
    float        head[FIRST];
    const size_t n = sg_count(t) < FIRST ? (size_t)sg_count(t) : FIRST;
    hash = sg_hash(hash, s->name, strlen(s->name) + 1);
    for (int i = 0; i < s->rank; i++) hash = mix_number(hash, (uint64_t)s->dim[i]);
    if (!t.rank) return sg_hash(hash, s->data, s->bytes < FIRST ? s->bytes : FIRST);
    if (!s->rank) hash = mix_number(hash, 1);
    if (n) memcpy(head, t.data, n * sg_dtype_size(t.dtype)); /* data may be misaligned, and is no wider than F32 */
    t.data = head;
    for (size_t i = 0; i < n; i++) hash = mix_number(hash, sg_f32_to_bf16(sg_load(&t, (int64_t)i)));
    return hash;
}

uint64_t sg_source_hash(const sg_source *s, uint64_t start)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < sg_source_count(s); i++) sum += tensor_hash(start, sg_source_at(s, i), sg_source_view(s, i));
    return sum;
}
