/* tensor_source.c - see tensor_source.h: what a source holds, whatever its format. */
#include "tensor_source.h"
#include "base/array.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"
#include "base/utf8.h"
#include "source_state.h"

#include <stdlib.h>

/* ---- filling ---- */

sg_status sg_source_new(sg_source **out, const char *path, sg_error *e)
{
    sg_source *const s = *out = calloc(1, sizeof *s);
    if (s && (s->path = strdup(path))) return SG_OK;
    sg_source_close(out);
    return sg_error_memory(e, path);
}

void sg_source_close(sg_source **s)
{
    if (!*s) return;
    for (size_t i = 0; i < (*s)->owned; i++) free((*s)->own[i]);
    for (size_t i = 0; i < (*s)->maps; i++) sg_map_close(&(*s)->map[i]);
    free((*s)->own);
    free((*s)->map);
    free((*s)->tensor);
    free((*s)->key);
    free((*s)->by_name);
    free((*s)->path);
    free(*s);
    *s = NULL;
}

sg_status sg_source_map(sg_source *s, sg_map *out, const char *path, sg_error *e)
{
    *out = (sg_map){0};
    if (!sg_array_reserve(s->map, s->map_room, s->maps + 1)) return sg_error_memory(e, path);
    SG_TRY(sg_map_open(out, path, e));
    s->map[s->maps++] = *out;
    return SG_OK;
}

void *sg_source_keep(sg_source *s, const void *bytes, size_t n)
{
    char *const own = malloc(n + 1);
    if (!own || !sg_array_push(s->own, s->owned, s->own_room, own)) {
        free(own);
        return NULL;
    }
    if (bytes) memcpy(own, bytes, n);
    own[n] = '\0';
    return own;
}

sg_status sg_source_add(sg_source *s, sg_source_tensor t, const char *name, size_t len, sg_error *e)
{
    t.name = sg_source_keep(s, name, len);
    if (!t.file) t.file = sg_path_name(s->path);
    return t.name && sg_array_push(s->tensor, s->count, s->room, t) ? SG_OK : sg_error_memory(e, s->path);
}

sg_status sg_source_add_fit(sg_source *s, sg_source_tensor t, const char *name, size_t len, sg_error *e)
{
    if (s->count == SG_TENSORS_MAX)
        return sg_error_set(e, SG_E_FORMAT, "%s: more than %d tensors", s->path, SG_TENSORS_MAX);
    if (!sg_source_fits_name(name, len, SG_TENSOR_NAME_MAX))
        return sg_error_set(e, SG_E_FORMAT, "%s: the name of tensor %zu should be 1 to %d bytes of UTF-8", s->path,
                            s->count, SG_TENSOR_NAME_MAX);
    return sg_source_add(s, t, name, len, e);
}

sg_status sg_source_add_key(sg_source *s, sg_source_key k, sg_error *e)
{
    k.name = sg_source_keep(s, k.name, strlen(k.name));
    const bool text = k.text != NULL;
    if (text) k.text = sg_source_keep(s, k.text, strlen(k.text));
    return k.name && (!text || k.text) && sg_array_push(s->key, s->keys, s->key_room, k) ? SG_OK
                                                                                         : sg_error_memory(e, s->path);
}

static int by_data(const void *a, const void *b)
{
    const sg_source_tensor *const x = a, *const y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x->bytes != y->bytes ? x->bytes < y->bytes ? -1 : 1 : strcmp(x->name, y->name);
}

void sg_source_order(sg_source *s, size_t first)
{
    if (first < s->count) qsort(s->tensor + first, s->count - first, sizeof *s->tensor, by_data);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const sg_source_key *)a)->name, ((const sg_source_key *)b)->name);
}

void sg_source_sort_keys(sg_source *s)
{
    if (s->keys) qsort(s->key, s->keys, sizeof *s->key, by_key);
}

const sg_source_key *sg_source_key_of(const sg_source *s, const char *name)
{
    const sg_source_key wanted = {.name = name};
    return s->keys ? bsearch(&wanted, s->key, s->keys, sizeof *s->key, by_key) : NULL;
}

static int by_name(const void *a, const void *b, void *source)
{
    const sg_source_tensor *const t = ((const sg_source *)source)->tensor;
    return strcmp(t[*(const size_t *)a].name, t[*(const size_t *)b].name);
}

sg_status sg_source_sort(sg_source *s, sg_error *e)
{
    s->by_name = malloc((s->count ? s->count : 1) * sizeof *s->by_name);
    if (!s->by_name) return sg_error_memory(e, s->path);
    for (size_t i = 0; i < s->count; i++) s->by_name[i] = i;
    qsort_r(s->by_name, s->count, sizeof *s->by_name, by_name, s);
    for (size_t i = 1; i < s->count; i++) {
        const sg_source_tensor *const a = sg_source_at(s, s->by_name[i - 1]), *const b = sg_source_at(s, s->by_name[i]);
        if (strcmp(a->name, b->name) != 0) continue;
        if (a->file == b->file)
            return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\" stands twice", s->path, sg_show(a->name));
        return sg_error_set(e, SG_E_FORMAT, "%s: tensor \"%s\" is both in %s and in %s", s->path, sg_show(a->name),
                            a->file, b->file);
    }
    return SG_OK;
}

#define NONE SG_DTYPES

/* Those of safetensors and torch; those of GGUF. */
static const sg_source_type types[] = {
    {"F32", SG_F32, 1, 4},      {"F16", SG_F16, 1, 2},       {"BF16", SG_BF16, 1, 2},     {"I32", SG_I32, 1, 4},
    {"U8", SG_U8, 1, 1},        {"F64", NONE, 1, 8},         {"C64", NONE, 1, 8},         {"I64", NONE, 1, 8},
    {"U64", NONE, 1, 8},        {"U32", NONE, 1, 4},         {"I16", NONE, 1, 2},         {"U16", NONE, 1, 2},
    {"I8", NONE, 1, 1},         {"BOOL", SG_U8, 1, 1},       {"F8_E4M3", NONE, 1, 1},     {"F8_E5M2", NONE, 1, 1},
    {"F8_E8M0", NONE, 1, 1},    {"F8_E4M3FNUZ", NONE, 1, 1}, {"F8_E5M2FNUZ", NONE, 1, 1}, {"F6_E2M3", NONE, 4, 3},
    {"F6_E3M2", NONE, 4, 3},    {"F4", NONE, 2, 1},          {"Q4_0", NONE, 32, 18},      {"Q4_1", NONE, 32, 20},
    {"Q5_0", NONE, 32, 22},     {"Q5_1", NONE, 32, 24},      {"Q8_0", NONE, 32, 34},      {"Q8_1", NONE, 32, 36},
    {"Q2_K", NONE, 256, 84},    {"Q3_K", NONE, 256, 110},    {"Q4_K", NONE, 256, 144},    {"Q5_K", NONE, 256, 176},
    {"Q6_K", NONE, 256, 210},   {"Q8_K", NONE, 256, 292},    {"IQ2_XXS", NONE, 256, 66},  {"IQ2_XS", NONE, 256, 74},
    {"IQ3_XXS", NONE, 256, 98}, {"IQ1_S", NONE, 256, 50},    {"IQ4_NL", NONE, 32, 18},    {"IQ3_S", NONE, 256, 110},
    {"IQ2_S", NONE, 256, 82},   {"IQ4_XS", NONE, 256, 136},  {"IQ1_M", NONE, 256, 56},    {"TQ1_0", NONE, 256, 54},
    {"TQ2_0", NONE, 256, 66},   {"MXFP4", NONE, 32, 17}};

const sg_source_type *sg_source_type_of(const char *name, int most)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0 && types[i].block <= most) return &types[i];
    return NULL;
}

bool sg_source_fits_name(const char *name, size_t len, size_t most)
{
    size_t wrong;
    return len && len <= most && !memchr(name, 0, len) && sg_utf8_check(name, len, &wrong);
}

/* ---- asking ---- */

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

sg_tensor sg_source_shape(const sg_source_tensor *t)
{
    sg_tensor s = {.dtype = t->type->dtype, .rank = t->rank ? t->rank : 1, .dim = {1}};
    if (t->rank) memcpy(s.dim, t->dim, sizeof s.dim);
    return s;
}

sg_tensor sg_source_view(const sg_source *s, size_t i)
{
    sg_tensor t = sg_source_shape(&s->tensor[i]);
    t.data = (void *)(uintptr_t)s->tensor[i].data;
    return t.dtype == SG_DTYPES ? (sg_tensor){0} : t;
}

sg_tensor sg_source_find(const sg_source *s, const char *name)
{
    const int64_t i = sg_source_index(s, name);
    return i < 0 ? (sg_tensor){0} : sg_source_view(s, (size_t)i);
}

size_t                  sg_source_count(const sg_source *s) { return s->count; }
const sg_source_tensor *sg_source_at(const sg_source *s, size_t i) { return &s->tensor[i]; }
const char             *sg_source_path(const sg_source *s) { return s->path; }
int                     sg_source_files(const sg_source *s) { return (int)s->maps; }

uint64_t sg_source_bytes(const sg_source *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->maps; i++) n += s->map[i].size;
    return n;
}

/* Bytes that were copied out of a map are none of its pages. */
void sg_source_drop(const sg_source *s, const void *data, size_t bytes)
{
    const uintptr_t at = (uintptr_t)data;
    for (size_t i = 0; i < s->maps; i++)
        if (at >= (uintptr_t)s->map[i].data && at - (uintptr_t)s->map[i].data < s->map[i].size)
            sg_map_drop(data, bytes);
}

const char *sg_source_metadata(const sg_source *s, const char *key)
{
    const sg_source_key *const k = sg_source_key_of(s, key);
    return k ? k->text : NULL;
}

bool sg_source_metadata_list(const sg_source *s, const char *key, sg_source_list *out)
{
    const sg_source_key *const k = sg_source_key_of(s, key);
    if (!k || !k->value.kind) return false;
    *out = k->value;
    return true;
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
