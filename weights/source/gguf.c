/* gguf.c - GGUF, as source_state.h has it. Wider than ggml's own reader: names of 127 bytes and 5 dimensions, which
 * Wan's files have. */
#include "base/array.h"
#include "base/bytes.h"
#include "base/text.h"
#include "source_state.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    KEYS_MAX = 1 << 16,
    KEY_NAME_MAX = 65535,
    LEAST_KEY = 13,    /* bytes: the length of a name, a type, a value */
    LEAST_TENSOR = 24, /* bytes: the length of a name, a rank, a type, an offset */
    TEXT = 8,          /* types of values */
    ARRAY = 9
};

/* Kind and bytes of the values of a type; 0: they vary. */
static const struct {
    char kind;
    int  bytes;
} value_types[] = {{'u', 1}, {'i', 1}, {'u', 2}, {'i', 2}, {'u', 4}, {'i', 4}, {'f', 4},
                   {'u', 1}, {'s', 0}, {0, 0},   {'u', 8}, {'i', 8}, {'f', 8}};
enum { VALUE_TYPES = sizeof value_types / sizeof *value_types };

/* By number. NULL: GGUF has or had such a type, which nobody writes any more, or it is not known here. */
static const char *const types[] = {"F32",     "F16",    "Q4_0",    "Q4_1",  NULL,     NULL,    "Q5_0",  "Q5_1",
                                    "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
                                    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
                                    "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  NULL,
                                    NULL,      NULL,     "TQ1_0",   "TQ2_0", NULL,     NULL,    NULL,    "MXFP4"};
enum { TYPES = sizeof types / sizeof *types };
static const sg_source_type unknown = {"of a type that is not known", SG_DTYPES, 1, 0};

/* What is still to be read, and the place of messages. */
typedef struct header {
    const sg_map  *map;
    const uint8_t *at, *end;
    const char    *path;
    const char    *what; /* "key", "tensor" */
    uint64_t       number;
    const char    *name; /* NULL: not read yet */
    sg_error      *e;
} header;

SG_PRINTF(2, 3) static sg_status bad(const header *h, const char *fmt, ...)
{
    char    why[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (h->name) return sg_error_set(h->e, SG_E_FORMAT, "%s: %s \"%s\": %s", h->path, h->what, sg_show(h->name), why);
    if (h->what)
        return sg_error_set(h->e, SG_E_FORMAT, "%s: %s %llu: %s", h->path, h->what, (unsigned long long)h->number, why);
    return sg_error_set(h->e, SG_E_FORMAT, "%s: %s", h->path, why);
}

static size_t left(const header *h) { return (size_t)(h->end - h->at); }

static sg_status take(header *h, const char *field, int bytes, uint64_t *out)
{
    if (left(h) < (size_t)bytes) return bad(h, "%s: the file ends here: it may have been cut short", field);
    *out = sg_little_endian(h->at, bytes);
    h->at += bytes;
    return SG_OK;
}

static sg_status take_text(header *h, const char *field, const char **text, size_t *len)
{
    uint64_t n = 0;
    SG_TRY(take(h, field, 8, &n));
    if (n > left(h))
        return bad(h, "%s: %llu bytes are announced, but the file has %zu more", field, (unsigned long long)n, left(h));
    *text = (const char *)h->at;
    *len = (size_t)n;
    h->at += n;
    return SG_OK;
}

/* ---- keys ---- */

/* The elements of v, of that type; they are walked through, not copied. */
static sg_status take_elements(header *h, uint64_t type, sg_source_list *v)
{
    const char *text;
    size_t      len;
    v->kind = value_types[type].kind;
    v->bytes = value_types[type].bytes;
    v->data = h->at;
    const uint64_t least = v->bytes ? (uint64_t)v->bytes : 8;
    if (v->count > left(h) / least)
        return bad(h, "%llu elements are announced, but the file has %zu more bytes", (unsigned long long)v->count,
                   left(h));
    if (v->bytes) h->at += v->count * least;
    for (uint64_t i = 0; !v->bytes && i < v->count; i++) SG_TRY(take_text(h, "text", &text, &len));
    return SG_OK;
}

/* Copies of texts are s's. */
static sg_status take_value(header *h, sg_source *s, sg_source_key *k)
{
    uint64_t type = 0;
    SG_TRY(take(h, "type", 4, &type));
    k->value.count = 1;
    k->array = type == ARRAY;
    if (k->array) {
        SG_TRY(take(h, "element type", 4, &type));
        SG_TRY(take(h, "count", 8, &k->value.count));
        if (type == ARRAY) return bad(h, "an array of arrays is not read");
    }
    if (type >= VALUE_TYPES) return bad(h, "values of type %llu are not known", (unsigned long long)type);
    SG_TRY(take_elements(h, type, &k->value));
    if (type != TEXT || k->array) return SG_OK;
    k->text = sg_source_keep(s, k->value.data + 8, (size_t)(h->at - k->value.data) - 8);
    return k->text ? SG_OK : sg_error_memory(h->e, h->path);
}

static sg_status take_key(header *h, sg_source *s)
{
    const char   *name = NULL;
    size_t        len = 0;
    sg_source_key k = {0};
    SG_TRY(take_text(h, "name", &name, &len));
    if (!sg_source_fits_name(name, len, KEY_NAME_MAX))
        return bad(h, "its name should be 1 to %d bytes of UTF-8", KEY_NAME_MAX);
    h->name = k.name = sg_source_keep(s, name, len);
    if (!k.name) return sg_error_memory(h->e, h->path);
    SG_TRY(take_value(h, s, &k));
    h->name = NULL;
    return sg_array_push(s->key, s->keys, s->key_room, k) ? SG_OK : sg_error_memory(h->e, h->path);
}

static sg_status take_keys(header *h, sg_source *s, uint64_t count)
{
    h->what = "key";
    for (h->number = 0; h->number < count; h->number++) SG_TRY(take_key(h, s));
    h->what = NULL;
    sg_source_sort_keys(s);
    for (size_t i = 1; i < s->keys; i++)
        if (strcmp(s->key[i - 1].name, s->key[i].name) == 0)
            return bad(h, "key \"%s\" stands twice", sg_show(s->key[i].name));
    return SG_OK;
}

/* A whole number that may be missing. */
static sg_status number(const header *h, const sg_source *s, const char *name, uint64_t missing, uint64_t *out)
{
    const sg_source_key *const k = sg_source_key_of(s, name);
    *out = missing;
    if (!k) return SG_OK;
    if (k->array || k->value.kind != 'u') return bad(h, "key \"%s\" should be a whole number, 0 or more", name);
    *out = sg_little_endian(k->value.data, k->value.bytes);
    return SG_OK;
}

/* ---- tensors ---- */

/* The shape before a converter made it fit for quantising. */
static sg_status original_shape(const header *h, const sg_source *s, sg_source_tensor *t, uint64_t elements)
{
    char     name[SG_TENSOR_NAME_MAX + 32];
    uint64_t n = 1;
    snprintf(name, sizeof name, "comfy.gguf.orig_shape.%s", h->name);
    const sg_source_key *const k = sg_source_key_of(s, name);
    if (!k) return SG_OK;
    if (!k->array || (k->value.kind != 'i' && k->value.kind != 'u') || k->value.count > SG_MAX_RANK)
        return bad(h, "key \"%s\" should be a list of at most %d whole numbers", sg_show(name), SG_MAX_RANK);
    t->rank = (int)k->value.count;
    for (int i = 0; i < t->rank; i++) {
        const double d = sg_source_number(&k->value, (uint64_t)i);
        if (!(d >= 1 && d <= INT32_MAX) || __builtin_mul_overflow(n, (uint64_t)d, &n))
            return bad(h, "key \"%s\": number %d is no size", sg_show(name), i);
        t->dim[i] = (int64_t)d;
    }
    if (n != elements)
        return bad(h, "key \"%s\" has %llu elements, but the tensor %llu", sg_show(name), (unsigned long long)n,
                   (unsigned long long)elements);
    return SG_OK;
}

static sg_status take_shape(header *h, sg_source_tensor *t, uint64_t *elements)
{
    uint64_t rank = 0, ne = 0;
    SG_TRY(take(h, "number of dimensions", 4, &rank));
    if (rank > SG_MAX_RANK)
        return bad(h, "%llu dimensions; at most %d are supported", (unsigned long long)rank, SG_MAX_RANK);
    t->rank = (int)rank;
    *elements = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        SG_TRY(take(h, "shape", 8, &ne));
        if (ne == 0) return bad(h, "a dimension is 0");
        if (__builtin_mul_overflow(*elements, ne, elements) || *elements > INT64_MAX / 8)
            return bad(h, "its shape is too large for any memory");
        t->dim[i] = (int64_t)ne;
    }
    return SG_OK;
}

/* From the type on. t->data stays an offset until all headers are read. */
static sg_status take_place(header *h, sg_source_tensor *t, uint64_t elements, uint64_t alignment)
{
    uint64_t type = 0, offset = 0;
    SG_TRY(take(h, "type", 4, &type));
    SG_TRY(take(h, "offset", 8, &offset));
    t->type = type < TYPES && types[type] ? sg_source_type_of(types[type], INT_MAX) : &unknown;
    const uint64_t block = (uint64_t)t->type->block, row = t->rank ? (uint64_t)t->dim[t->rank - 1] : 1;
    if (row % block)
        return bad(h, "its rows have %llu elements, but %s has blocks of %llu", (unsigned long long)row, t->type->name,
                   (unsigned long long)block);
    if (__builtin_mul_overflow(elements / block, (uint64_t)t->type->bytes, &t->bytes))
        return bad(h, "its shape is too large for any memory");
    if (offset % alignment)
        return bad(h, "offset %llu is no multiple of the alignment, %llu", (unsigned long long)offset,
                   (unsigned long long)alignment);
    t->data = (const uint8_t *)(uintptr_t)offset;
    return SG_OK;
}

static sg_status take_tensor(header *h, sg_source *s, uint64_t alignment)
{
    const char      *name = NULL;
    size_t           len = 0;
    uint64_t         elements = 0;
    sg_source_tensor t = {0};
    SG_TRY(take_text(h, "name", &name, &len));
    SG_TRY(sg_source_add_fit(s, t, name, len, h->e));
    sg_source_tensor *const to = &s->tensor[s->count - 1];
    h->name = to->name;
    SG_TRY(take_shape(h, to, &elements));
    SG_TRY(take_place(h, to, elements, alignment));
    SG_TRY(original_shape(h, s, to, elements));
    h->name = NULL;
    return SG_OK;
}

/* Every tensor within the data, none over another; from here on they are in the order of their data. */
static sg_status place_all(header *h, sg_source *s, uint64_t alignment)
{
    const sg_map *const map = h->map;
    const uint64_t      used = (uint64_t)(h->at - map->data), pad = (alignment - used % alignment) % alignment;
    const uint64_t      room = pad <= map->size - used ? map->size - used - pad : 0;
    h->what = "tensor";
    for (size_t i = 0; i < s->count; i++) {
        sg_source_tensor *const t = &s->tensor[i];
        const uint64_t          offset = (uint64_t)(uintptr_t)t->data;
        h->name = t->name;
        if (offset > room || t->bytes > room - offset)
            return bad(h,
                       "%llu bytes at offset %llu go beyond the %llu bytes of data: the file may have been cut short",
                       (unsigned long long)t->bytes, (unsigned long long)offset, (unsigned long long)room);
        t->data = map->data + (map->size - room) + offset;
    }
    sg_source_order(s, 0);
    for (size_t i = 1; i < s->count; i++) {
        const sg_source_tensor *const a = &s->tensor[i - 1], *const b = a + 1;
        h->name = b->name;
        if (a->data + a->bytes > b->data) return bad(h, "overlaps tensor \"%s\"", sg_show(a->name));
    }
    h->what = h->name = NULL;
    return SG_OK;
}

static sg_status take_tensors(header *h, sg_source *s, uint64_t count)
{
    uint64_t alignment = 0, parts = 0;
    SG_TRY(number(h, s, "general.alignment", 32, &alignment));
    SG_TRY(number(h, s, "split.count", 1, &parts));
    if (alignment == 0 || alignment & (alignment - 1))
        return bad(h, "key \"general.alignment\" is %llu, should be a power of two", (unsigned long long)alignment);
    if (parts > 1)
        return bad(h, "is one part of %llu: llama.cpp's gguf-split --merge makes one file of them",
                   (unsigned long long)parts);
    h->what = "tensor";
    for (h->number = 0; h->number < count; h->number++) SG_TRY(take_tensor(h, s, alignment));
    return place_all(h, s, alignment);
}

sg_status sg_gguf_read(sg_source *s, const sg_map *map, sg_error *e)
{
    header   h = {.map = map, .at = map->data + 4, .end = map->data + map->size, .path = s->path, .e = e};
    uint64_t version = 0, tensors = 0, keys = 0;
    SG_TRY(take(&h, "version", 4, &version));
    if ((version & 0xffff) == 0) return bad(&h, "is big-endian: only little-endian GGUF is read");
    if (version != 2 && version != 3)
        return bad(&h, "version %llu; GGUF 2 and 3 are read", (unsigned long long)version);
    SG_TRY(take(&h, "number of tensors", 8, &tensors));
    SG_TRY(take(&h, "number of keys", 8, &keys));
    if (tensors > SG_TENSORS_MAX || tensors > left(&h) / LEAST_TENSOR)
        return bad(&h, "%llu tensors are announced, which the file cannot hold", (unsigned long long)tensors);
    if (keys > KEYS_MAX || keys > left(&h) / LEAST_KEY)
        return bad(&h, "%llu keys are announced, which the file cannot hold", (unsigned long long)keys);
    SG_TRY(take_keys(&h, s, keys));
    SG_TRY(take_tensors(&h, s, tensors));
    return sg_source_sort(s, e);
}
