/* pickle.c - see pickle.h. Values refer to dicts by number and own nothing, so that depth and cycles cost nothing. */
#include "pickle.h"
#include "base/array.h"
#include "base/bytes.h"
#include "base/text.h"
#include "source_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { STACK_MAX = 1 << 20, MEMO_MAX = 1 << 22, PROTOCOL = 2, LONG_MAX_BYTES = 8 };

typedef enum kind { NOTHING, INT, REAL, TEXT, TUPLE, LIST, DICT, GLOBAL, STORAGE, TENSOR, MARK } kind;
static const char *const kind_names[] = {"nothing", "a number", "a number",  "a text",   "a tuple", "a list",
                                         "a dict",  "a name",   "a storage", "a tensor", "a mark"};

typedef struct value {
    kind     kind;
    uint32_t count; /* of TUPLE: items; of TEXT: bytes */
    union {
        int64_t     number; /* INT */
        const char *text;   /* TEXT */
        size_t      at;     /* TUPLE: its first item; DICT, GLOBAL, STORAGE, TENSOR: which one */
    };
} value;

typedef struct entry {
    value  key, value;
    size_t dict;
} entry;

typedef struct storage {
    const sg_source_type *type;
    value                 key;
    uint64_t              bytes;
} storage;

/* What the names stand for. */
typedef enum role { NEW_DICT, REBUILD, REBUILD_TYPED, PARAMETER, CLASS, DTYPE } role;
static const struct {
    const char *name;
    role        role;
    const char *type; /* of CLASS and DTYPE */
} globals[] = {{"collections OrderedDict", NEW_DICT, NULL},
               {"torch._utils _rebuild_tensor_v2", REBUILD, NULL},
               {"torch._utils _rebuild_tensor_v3", REBUILD_TYPED, NULL},
               {"torch._utils _rebuild_parameter", PARAMETER, NULL},
               {"torch FloatStorage", CLASS, "F32"},
               {"torch HalfStorage", CLASS, "F16"},
               {"torch BFloat16Storage", CLASS, "BF16"},
               {"torch DoubleStorage", CLASS, "F64"},
               {"torch LongStorage", CLASS, "I64"},
               {"torch IntStorage", CLASS, "I32"},
               {"torch ShortStorage", CLASS, "I16"},
               {"torch CharStorage", CLASS, "I8"},
               {"torch ByteStorage", CLASS, "U8"},
               {"torch BoolStorage", CLASS, "BOOL"},
               {"torch.storage UntypedStorage", CLASS, "U8"},
               {"torch float32", DTYPE, "F32"},
               {"torch float16", DTYPE, "F16"},
               {"torch bfloat16", DTYPE, "BF16"},
               {"torch float8_e4m3fn", DTYPE, "F8_E4M3"},
               {"torch float8_e5m2", DTYPE, "F8_E5M2"},
               {"torch int8", DTYPE, "I8"},
               {"torch uint8", DTYPE, "U8"},
               {"torch uint16", DTYPE, "U16"},
               {"torch uint32", DTYPE, "U32"},
               {"torch uint64", DTYPE, "U64"}};
enum { GLOBALS = sizeof globals / sizeof *globals };

typedef struct machine {
    const uint8_t     *start, *op, *at, *end;
    const char        *path;
    sg_error          *e;
    value             *stack, *memo, *item;
    size_t             depth, stack_room, memos, memo_room, items, item_room;
    entry             *entry;
    size_t             entries, entry_room, dicts;
    storage           *storage;
    size_t             storages, storage_room;
    sg_pickled_tensor *tensor;
    size_t             tensors, tensor_room;
} machine;

SG_PRINTF(2, 3) static sg_status bad(const machine *m, const char *fmt, ...)
{
    char    why[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return sg_error_set(m->e, SG_E_FORMAT, "%s: data.pkl: byte %zu: %s", m->path, (size_t)(m->op - m->start), why);
}

static sg_status no_memory(const machine *m) { return sg_error_memory(m->e, m->path); }

/* ---- the stack ---- */

static sg_status push(machine *m, value v)
{
    if (m->depth == STACK_MAX) return bad(m, "more than %d values on the stack", STACK_MAX);
    return sg_array_push(m->stack, m->depth, m->stack_room, v) ? SG_OK : no_memory(m);
}

static sg_status pop(machine *m, value *v)
{
    if (m->depth == 0 || m->stack[m->depth - 1].kind == MARK) return bad(m, "the stack is empty");
    *v = m->stack[--m->depth];
    return SG_OK;
}

static sg_status pop_kind(machine *m, kind k, const char *what, value *v)
{
    SG_TRY(pop(m, v));
    return v->kind == k ? SG_OK : bad(m, "%s is %s, should be %s", what, kind_names[v->kind], kind_names[k]);
}

static sg_status top(const machine *m, kind k, value *v)
{
    if (m->depth == 0) return bad(m, "the stack is empty");
    *v = m->stack[m->depth - 1];
    return v->kind == k ? SG_OK
                        : bad(m, "something is put into %s as if it were %s", kind_names[v->kind], kind_names[k]);
}

/* The values above the last mark: count of them from stack[*first]. The mark and they leave the stack, but not memory.
 * */
static sg_status pop_mark(machine *m, size_t *first, size_t *count)
{
    size_t i = m->depth;
    while (i > 0 && m->stack[i - 1].kind != MARK) i--;
    if (i == 0) return bad(m, "there is no mark on the stack");
    *first = i;
    *count = m->depth - i;
    m->depth = i - 1;
    return SG_OK;
}

/* ---- arguments of opcodes ---- */

static sg_status take(machine *m, size_t bytes, const uint8_t **out)
{
    if ((size_t)(m->end - m->at) < bytes) return bad(m, "the pickle ends here: the file may have been cut short");
    *out = m->at;
    m->at += bytes;
    return SG_OK;
}

static sg_status take_number(machine *m, int bytes, uint64_t *n)
{
    const uint8_t *p = NULL;
    SG_TRY(take(m, (size_t)bytes, &p));
    *n = sg_little_endian(p, bytes);
    return SG_OK;
}

static sg_status push_number(machine *m, int bytes, bool sign)
{
    uint64_t n = 0;
    SG_TRY(take_number(m, bytes, &n));
    const int unused = 64 - 8 * bytes;
    return push(m, (value){.kind = INT, .number = !sign ? (int64_t)n : bytes ? (int64_t)(n << unused) >> unused : 0});
}

static sg_status push_long(machine *m)
{
    uint64_t       bytes = 0;
    const uint8_t *digits = NULL;
    SG_TRY(take_number(m, 1, &bytes));
    if (bytes <= LONG_MAX_BYTES) return push_number(m, (int)bytes, true);
    SG_TRY(take(m, (size_t)bytes, &digits)); /* a seed, say: no size of a tensor */
    return push(m, (value){.kind = REAL});
}

static sg_status push_text(machine *m)
{
    uint64_t       n = 0;
    const uint8_t *text = NULL;
    SG_TRY(take_number(m, 4, &n));
    SG_TRY(take(m, (size_t)n, &text));
    return push(m, (value){.kind = TEXT, .count = (uint32_t)n, .text = (const char *)text});
}

static sg_status push_global(machine *m)
{
    const uint8_t *const first = memchr(m->at, '\n', (size_t)(m->end - m->at));
    const uint8_t *const second = first ? memchr(first + 1, '\n', (size_t)(m->end - first - 1)) : NULL;
    if (!second) return bad(m, "a name does not end");
    char      name[112];
    const int n = snprintf(name, sizeof name, "%.*s %.*s", (int)(first - m->at), (const char *)m->at,
                           (int)(second - first - 1), (const char *)first + 1);
    m->at = second + 1;
    for (size_t i = 0; i < GLOBALS && n < (int)sizeof name; i++)
        if (strcmp(globals[i].name, name) == 0) return push(m, (value){.kind = GLOBAL, .at = i});
    return bad(m, "asks for \"%s\", which is not read: convert to safetensors", sg_show(name));
}

static sg_status remember(machine *m, int bytes)
{
    uint64_t at = 0;
    SG_TRY(take_number(m, bytes, &at));
    if (m->depth == 0) return bad(m, "the stack is empty");
    if (at >= MEMO_MAX) return bad(m, "memo %llu; at most %d are kept", (unsigned long long)at, MEMO_MAX);
    if (!sg_array_reserve(m->memo, m->memo_room, (size_t)at + 1)) return no_memory(m);
    while (m->memos <= at) m->memo[m->memos++] = (value){.kind = MARK};
    m->memo[at] = m->stack[m->depth - 1];
    return SG_OK;
}

static sg_status recall(machine *m, int bytes)
{
    uint64_t at = 0;
    SG_TRY(take_number(m, bytes, &at));
    if (at >= m->memos || m->memo[at].kind == MARK) return bad(m, "memo %llu is not set", (unsigned long long)at);
    return push(m, m->memo[at]);
}

/* ---- containers ---- */

/* Returns the items of a tuple; NULL where it is empty. */
static const value *items_of(const machine *m, value tuple) { return tuple.count ? m->item + tuple.at : NULL; }

static sg_status push_tuple(machine *m, size_t first, size_t count)
{
    const size_t at = m->items;
    for (size_t i = 0; i < count; i++)
        if (!sg_array_push(m->item, m->items, m->item_room, m->stack[first + i])) return no_memory(m);
    return push(m, (value){.kind = TUPLE, .count = (uint32_t)count, .at = at});
}

static sg_status push_last(machine *m, size_t count)
{
    value ignored = {0};
    for (size_t i = 0; i < count; i++) SG_TRY(pop(m, &ignored)); /* which leaves memory as it is */
    return push_tuple(m, m->depth, count);
}

static sg_status push_dict(machine *m) { return push(m, (value){.kind = DICT, .at = m->dicts++}); }

static sg_status set_items(machine *m, size_t first, size_t count)
{
    value dict = {0};
    if (count % 2) return bad(m, "a key has no value");
    SG_TRY(top(m, DICT, &dict));
    for (size_t i = first; i < first + count; i += 2)
        if (!sg_array_push(m->entry, m->entries, m->entry_room, (entry){m->stack[i], m->stack[i + 1], dict.at}))
            return no_memory(m);
    return SG_OK;
}

/* ---- storages and tensors ---- */

static bool is_text(value v, const char *text)
{
    return v.kind == TEXT && v.count == strlen(text) && memcmp(v.text, text, v.count) == 0;
}

/* ("storage", class, key, device, elements) */
static sg_status push_storage(machine *m)
{
    value id = {0};
    SG_TRY(pop_kind(m, TUPLE, "a persistent id", &id));
    const value *const x = items_of(m, id);
    if (id.count != 5 || !is_text(x[0], "storage") || x[1].kind != GLOBAL || globals[x[1].at].role != CLASS ||
        x[2].kind != TEXT || x[4].kind != INT || x[4].number < 0)
        return bad(m, "a persistent id is no storage of torch");
    storage s = {.type = sg_source_type_of(globals[x[1].at].type, SG_ELEMENTS), .key = x[2]};
    if (__builtin_mul_overflow((uint64_t)x[4].number, (uint64_t)s.type->bytes, &s.bytes))
        return bad(m, "a storage of %lld elements", (long long)x[4].number);
    if (!sg_array_push(m->storage, m->storages, m->storage_room, s)) return no_memory(m);
    return push(m, (value){.kind = STORAGE, .at = m->storages - 1});
}

/* Tuples of whole numbers, 0 or more, as many as there are dimensions. */
static bool read_layout(const machine *m, value size, value stride, sg_pickled_tensor *t)
{
    if (size.kind != TUPLE || stride.kind != TUPLE || size.count != stride.count || size.count > SG_MAX_RANK)
        return false;
    t->rank = (int)size.count;
    for (int i = 0; i < t->rank; i++) {
        const value *const n = m->item + size.at + i, *const step = m->item + stride.at + i;
        if (n->kind != INT || n->number < 0 || step->kind != INT || step->number < 0) return false;
        t->dim[i] = n->number;
        t->stride[i] = step->number;
    }
    return true;
}

/* Does every element lie in the storage, and is their number one that memory can have? */
static bool fits(const sg_pickled_tensor *t)
{
    int64_t last = t->offset, bits = 8 * (int64_t)t->type->bytes, end = 0, step;
    bool    none = false;
    for (int i = 0; i < t->rank; i++) {
        const int64_t n = t->dim[i] ? t->dim[i] : 1;
        none = none || t->dim[i] == 0;
        if (__builtin_mul_overflow(bits, n, &bits) || __builtin_mul_overflow(n - 1, t->stride[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return none || (!__builtin_add_overflow(last, 1, &last) &&
                    !__builtin_mul_overflow(last, (int64_t)t->type->bytes, &end) && (uint64_t)end <= t->bytes);
}

/* (storage, offset, size, stride, requires_grad, hooks), then for the typed one the dtype. What may follow says that
 * the numbers are not those of the storage: negated, say. */
static sg_status push_tensor(machine *m, const value *x, size_t count, bool typed)
{
    if (count != (typed ? 7u : 6u) || x[0].kind != STORAGE || x[1].kind != INT || x[1].number < 0 ||
        (typed && (x[6].kind != GLOBAL || globals[x[6].at].role != DTYPE)))
        return bad(m, "the arguments of a tensor are not those that torch writes");
    const storage *const s = &m->storage[x[0].at];
    sg_pickled_tensor    t = {.storage = s->key.text,
                              .storage_length = s->key.count,
                              .type = typed ? sg_source_type_of(globals[x[6].at].type, SG_ELEMENTS) : s->type,
                              .bytes = s->bytes,
                              .offset = x[1].number};
    if (!read_layout(m, x[2], x[3], &t))
        return bad(m, "size and stride of a tensor should be at most %d whole numbers, 0 or more", SG_MAX_RANK);
    if (!fits(&t)) return bad(m, "a tensor goes beyond its storage of %llu bytes", (unsigned long long)t.bytes);
    if (!sg_array_push(m->tensor, m->tensors, m->tensor_room, t)) return no_memory(m);
    return push(m, (value){.kind = TENSOR, .at = m->tensors - 1});
}

static sg_status call(machine *m)
{
    value arguments = {0}, function = {0};
    SG_TRY(pop_kind(m, TUPLE, "what a function is called with", &arguments));
    SG_TRY(pop_kind(m, GLOBAL, "what is called", &function));
    const value *const x = items_of(m, arguments);
    const role         what = globals[function.at].role;
    if (what == NEW_DICT && arguments.count == 0) return push_dict(m);
    if (what == REBUILD || what == REBUILD_TYPED) return push_tensor(m, x, arguments.count, what == REBUILD_TYPED);
    if (what == PARAMETER && arguments.count > 0 && x[0].kind == TENSOR) return push(m, x[0]);
    return bad(m, "\"%s\" is called as torch does not", globals[function.at].name);
}

/* ---- the machine ---- */

static sg_status step(machine *m)
{
    const uint8_t *p = NULL;
    size_t         first = 0, count = 0;
    value          state;
    switch (*m->op) {
    case 0x80:
        SG_TRY(take(m, 1, &p));
        return *p == PROTOCOL ? SG_OK : bad(m, "protocol %d; %d is read: convert to safetensors", *p, PROTOCOL);
    case 'q': return remember(m, 1);
    case 'r': return remember(m, 4);
    case 'h': return recall(m, 1);
    case 'j': return recall(m, 4);
    case 'K': return push_number(m, 1, false);
    case 'M': return push_number(m, 2, false);
    case 'J': return push_number(m, 4, true);
    case 0x8a: return push_long(m);
    case 'G': SG_TRY(take(m, 8, &p)); return push(m, (value){.kind = REAL});
    case 'X': return push_text(m);
    case 0x88: return push(m, (value){.kind = INT, .number = 1});
    case 0x89: return push(m, (value){.kind = INT, .number = 0});
    case 'N': return push(m, (value){.kind = NOTHING});
    case 'c': return push_global(m);
    case '}': return push_dict(m);
    case ']': return push(m, (value){.kind = LIST});
    case ')': return push_tuple(m, 0, 0);
    case '(': return push(m, (value){.kind = MARK});
    case 't': SG_TRY(pop_mark(m, &first, &count)); return push_tuple(m, first, count);
    case 0x85: return push_last(m, 1);
    case 0x86: return push_last(m, 2);
    case 0x87: return push_last(m, 3);
    case 's':
        SG_TRY(pop(m, &state));
        SG_TRY(pop(m, &state));
        return set_items(m, m->depth, 2);
    case 'u': SG_TRY(pop_mark(m, &first, &count)); return set_items(m, first, count);
    case 'a': SG_TRY(pop(m, &state)); return top(m, LIST, &state); /* no list is looked into */
    case 'e': SG_TRY(pop_mark(m, &first, &count)); return top(m, LIST, &state);
    case 'Q': return push_storage(m);
    case 'R': return call(m);
    case 'b': return pop(m, &state); /* of an OrderedDict: nobody needs it */
    default: return bad(m, "opcode 0x%02x is not one that torch writes: convert to safetensors", *m->op);
    }
}

static sg_status run(machine *m, value *result)
{
    while (m->at < m->end) {
        m->op = m->at++;
        if (*m->op == '.') return pop_kind(m, DICT, "the file's content", result);
        SG_TRY(step(m));
    }
    m->op = m->at;
    return bad(m, "the pickle ends here: the file may have been cut short");
}

static bool has_entries(const machine *m, size_t dict)
{
    for (size_t i = 0; i < m->entries; i++)
        if (m->entry[i].dict == dict) return true;
    return false;
}

/* *dict = the dict under this name in that one, if there is one and it is not empty. */
static void enter(const machine *m, const char *name, size_t *dict)
{
    for (size_t i = m->entries; i-- > 0;)
        if (m->entry[i].dict == *dict && m->entry[i].value.kind == DICT && is_text(m->entry[i].key, name)) {
            if (has_entries(m, m->entry[i].value.at)) *dict = m->entry[i].value.at;
            return;
        }
}

static sg_status collect(const machine *m, size_t dict, sg_pickled *out)
{
    size_t room = 0;
    for (size_t i = 0; i < m->entries; i++) {
        const entry *const x = &m->entry[i];
        if (x->dict != dict || x->value.kind != TENSOR || x->key.kind != TEXT) continue;
        if (!sg_array_push(out->tensor, out->count, room, m->tensor[x->value.at])) return no_memory(m);
        out->tensor[out->count - 1].name = x->key.text;
        out->tensor[out->count - 1].name_length = x->key.count;
    }
    return SG_OK;
}

sg_status sg_pickle_read(sg_pickled *out, const uint8_t *text, size_t size, const char *path, sg_error *e)
{
    static const char *const inner[] = {"ema_state_dict", "model", "module", "state_dict", "gen_model"};
    machine                  m = {.start = text, .op = text, .at = text, .end = text + size, .path = path, .e = e};
    value                    all = {0};
    sg_status                status =
        size <= SG_PICKLE_MAX ? run(&m, &all) : bad(&m, "%zu bytes; at most %d are read", size, SG_PICKLE_MAX);
    for (size_t i = 0; status == SG_OK && i < sizeof inner / sizeof *inner; i++) enter(&m, inner[i], &all.at);
    if (status == SG_OK) status = collect(&m, all.at, out);
    free(m.stack);
    free(m.memo);
    free(m.item);
    free(m.entry);
    free(m.storage);
    free(m.tensor);
    return status;
}

void sg_pickle_free(sg_pickled *p)
{
    free(p->tensor);
    *p = (sg_pickled){0};
}
