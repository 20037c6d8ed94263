/* bind.c - see bind.h. */
#include "bind.h"
#include "base/text.h"
#include "convert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MAX_NAME = 512,
    MAX_LINES = 9,     /* of one kind of trouble in the report */
    STAGING = 8 << 20, /* bytes on their way to a device */
};

typedef enum trouble { FITS, MISSING, MISSHAPEN, MISTYPED, TROUBLES } trouble;

typedef struct want {
    sg_tensor *tensor;
    char      *name;
    int        rank;
    int64_t    dim[SG_MAX_RANK];
    sg_tensor  source;
    int64_t    index; /* in the weights; -1: missing */
    trouble    trouble;
    int        block; /* negative: none */
} want;

/* Of one block on the host: in the order of its wants. */
typedef struct span {
    size_t at, bytes;
} span;

struct sg_bind {
    const sg_weights *weights;
    char              prefix[MAX_NAME];
    want             *want;
    size_t            count, room;
    bool             *wanted; /* by index in the weights */
    char            **ignored;
    size_t            ignores;
    const char       *mistake; /* of the caller, or lack of memory: the first */
    sg_status         mistake_code;
    int               number; /* of the block that wants are of; negative: none */
    bool              offload;
    const sg_backend *backend; /* of what is loaded; NULL: nothing is */
    void             *device;  /* what stays there, then both slots */
    uint8_t          *host;    /* blocks, pinned; NULL: they are on the device */
    span             *span;    /* of each block on the host */
    uint8_t          *slot[2];
};

sg_status sg_bind_open(sg_bind **out, const sg_weights *w, sg_error *e)
{
    sg_bind *const b = *out = calloc(1, sizeof *b);
    const size_t   n = sg_weights_count(w);
    if (b) b->wanted = calloc(n ? n : 1, sizeof *b->wanted);
    if (!b || !b->wanted) {
        free(b);
        *out = NULL;
        return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", sg_weights_path(w));
    }
    b->weights = w;
    b->number = -1;
    return SG_OK;
}

void sg_bind_close(sg_bind **b)
{
    if (!*b) return;
    sg_bind_unload(*b);
    for (size_t i = 0; i < (*b)->count; i++) free((*b)->want[i].name);
    for (size_t i = 0; i < (*b)->ignores; i++) free((*b)->ignored[i]);
    free((*b)->want);
    free((*b)->ignored);
    free((*b)->wanted);
    free(*b);
    *b = NULL;
}

/* ---- the list ---- */

static void mistake(sg_bind *b, sg_status code, const char *what)
{
    if (b->mistake) return;
    b->mistake = what;
    b->mistake_code = code;
}

static bool full_name(const sg_bind *b, const char *name, char out[MAX_NAME])
{
    const int n = snprintf(out, MAX_NAME, "%s%s", b->prefix, name);
    return n >= 0 && n < MAX_NAME;
}

void sg_bind_prefix(sg_bind *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(b->prefix, sizeof b->prefix, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= MAX_NAME) mistake(b, SG_E_ARG, "a prefix is too long");
}

bool sg_bind_has(const sg_bind *b, const char *name)
{
    char full[MAX_NAME];
    return full_name(b, name, full) && sg_weights_index(b->weights, full) >= 0;
}

/* One more, of that name; NULL latches. */
static want *more(sg_bind *b, const char *name)
{
    if (b->count == b->room) {
        const size_t room = b->room ? 2 * b->room : 256;
        want *const  p = realloc(b->want, room * sizeof *p);
        if (p) {
            b->want = p;
            b->room = room;
        }
    }
    char *const copy = b->count < b->room ? strdup(name) : NULL;
    if (!copy) {
        mistake(b, SG_E_MEMORY, "out of memory");
        return NULL;
    }
    want *const w = &b->want[b->count++];
    *w = (want){.name = copy};
    return w;
}

/* Does a tensor of these dimensions have a size? A config may ask for anything. */
static bool has_size(int rank, const int64_t *dim)
{
    int64_t n = sizeof(float);
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, dim[i] ? dim[i] : 1, &n)) return false;
    return true;
}

static trouble judge(const want *w)
{
    if (w->index < 0) return MISSING;
    if (w->source.rank == 0 || w->source.dtype == SG_I32 || w->source.dtype == SG_U8) return MISTYPED;
    if (w->source.rank != w->rank || memcmp(w->source.dim, w->dim, (size_t)w->rank * sizeof *w->dim)) return MISSHAPEN;
    return FITS;
}

void sg_want_(sg_bind *b, sg_tensor *t, sg_dtype as, const char *name, int rank, const int64_t *dim)
{
    char full[MAX_NAME];
    *t = (sg_tensor){0};
    if (rank < 1 || rank > SG_MAX_RANK || (as != SG_F32 && as != SG_BF16) || !full_name(b, name, full)) {
        mistake(b, SG_E_ARG, "a tensor of unsuitable rank, dtype or name is wanted");
        return;
    }
    want *const w = more(b, full);
    if (!w) return;
    w->tensor = t;
    w->block = b->number;
    w->rank = rank;
    w->index = sg_weights_index(b->weights, full);
    memcpy(w->dim, dim, (size_t)rank * sizeof *dim);
    if (w->index >= 0) {
        sg_weights_name(b->weights, (size_t)w->index, &w->source);
        b->wanted[w->index] = true;
    }
    w->trouble = judge(w);
    if (!has_size(rank, dim)) return;
    *t = (sg_tensor){.dtype = as, .rank = rank};
    memcpy(t->dim, dim, (size_t)rank * sizeof *dim);
}

void sg_bind_block(sg_bind *b, int number) { b->number = number; }

void sg_bind_ignore(sg_bind *b, const char *part)
{
    char **const p = realloc(b->ignored, (b->ignores + 1) * sizeof *p);
    if (p) b->ignored = p;
    char *const copy = p ? strdup(part) : NULL;
    if (copy)
        b->ignored[b->ignores++] = copy;
    else
        mistake(b, SG_E_MEMORY, "out of memory");
}

void sg_bind_share(sg_bind *b, const sg_bind *other)
{
    for (size_t i = 0; i < sg_weights_count(b->weights); i++) b->wanted[i] = b->wanted[i] || other->wanted[i];
}

static bool is_extra(const sg_bind *b, size_t i)
{
    if (b->wanted[i]) return false;
    for (size_t k = 0; k < b->ignores; k++)
        if (strstr(sg_weights_name(b->weights, i, NULL), b->ignored[k])) return false;
    return true;
}

/* ---- the report ---- */

typedef struct report {
    char   text[3600]; /* with a reserve, so that every kind can say how many more there are */
    size_t used;
    size_t listed, more; /* of the kind at hand */
} report;

SG_PRINTF(2, 3) static void line(report *r, const char *fmt, ...)
{
    const size_t reserve = 48 * TROUBLES;
    char         text[512];
    va_list      ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->listed == MAX_LINES || r->used + (size_t)n + 2 > sizeof r->text - reserve) {
        r->more++;
        return;
    }
    r->listed++;
    r->used += (size_t)snprintf(r->text + r->used, sizeof r->text - r->used, "\n  %s", text);
}

static void end_kind(report *r, const char *kind)
{
    if (r->more)
        r->used +=
            (size_t)snprintf(r->text + r->used, sizeof r->text - r->used, "\n  ... and %zu more %s", r->more, kind);
    r->listed = r->more = 0;
}

static void report_want(report *r, const sg_bind *b, const want *w)
{
    char has[120], should[120];
    sg_shape_text(should, sizeof should, w->rank, w->dim);
    sg_shape_text(has, sizeof has, w->source.rank, w->source.dim);
    if (w->trouble == MISSING)
        line(r, "missing: %s %s", sg_show(w->name), should);
    else if (w->trouble == MISSHAPEN)
        line(r, "misshapen: %s is %s, should be %s", sg_show(w->name), has, should);
    else
        line(r, "wrong type: %s is %s, should be F32, F16 or BF16", sg_show(w->name),
             sg_weights_dtype(b->weights, (size_t)w->index));
}

static sg_status tell(const sg_bind *b, const size_t count[TROUBLES], size_t extra, sg_error *e)
{
    static const char *const kind[TROUBLES] = {
        [MISSING] = "missing", [MISSHAPEN] = "misshapen", [MISTYPED] = "of the wrong type"};
    report r = {.used = 0};
    char   sums[160];
    size_t n = 0;
    sums[0] = '\0';
    for (int k = MISSING; k < TROUBLES; k++) {
        if (count[k]) n += (size_t)snprintf(sums + n, sizeof sums - n, "%s%zu %s", n ? ", " : "", count[k], kind[k]);
        for (size_t i = 0; i < b->count; i++)
            if ((int)b->want[i].trouble == k) report_want(&r, b, &b->want[i]);
        end_kind(&r, kind[k]);
    }
    if (extra) snprintf(sums + n, sizeof sums - n, "%s%zu extra", n ? ", " : "", extra);
    for (size_t i = 0; extra && i < sg_weights_count(b->weights); i++) {
        if (!is_extra(b, i)) continue;
        sg_tensor   t;
        char        shape[120];
        const char *name = sg_weights_name(b->weights, i, &t);
        sg_shape_text(shape, sizeof shape, t.rank, t.dim);
        line(&r, "extra: %s %s", sg_show(name), t.rank ? shape : sg_weights_dtype(b->weights, i));
    }
    end_kind(&r, "extra");
    return sg_error_set(e, SG_E_FORMAT, "%s: the tensors do not fit this model: %s%s", sg_weights_path(b->weights),
                        sums, r.text);
}

sg_status sg_bind_check(sg_bind *b, sg_error *e)
{
    size_t count[TROUBLES] = {0}, extra = 0;
    if (b->mistake) return sg_error_set(e, b->mistake_code, "%s: %s", sg_weights_path(b->weights), b->mistake);
    for (size_t i = 0; i < b->count; i++) count[b->want[i].trouble]++;
    for (size_t i = 0; i < sg_weights_count(b->weights); i++) extra += is_extra(b, i);
    if (count[FITS] == b->count && !extra) return SG_OK;
    return tell(b, count, extra, e);
}

/* ---- loading ---- */

/* Does the mapped tensor serve as it lies? */
static bool in_place(const want *w, const sg_backend *backend)
{
    const sg_tensor *const s = &w->source;
    return backend->host_memory && s->dtype == w->tensor->dtype && (uintptr_t)s->data % sg_dtype_size(s->dtype) == 0;
}

static size_t aligned(size_t bytes) { return (bytes + SG_ALIGN - 1) & ~(size_t)(SG_ALIGN - 1); }

/* Does it stay on the host, and the device has only room for two blocks? */
static bool stays(const sg_bind *b, const want *w, const sg_backend *backend)
{
    return b->offload && w->block >= 0 && backend->memory->pin;
}

/* Bytes. */
typedef struct layout {
    size_t kept; /* on the device, always */
    size_t mapped, host;
    size_t slot; /* the largest block on the host */
    int    blocks, slots;
} layout;

/* blocks (may be NULL) gets where each block is on the host. */
static layout lay_out(const sg_bind *b, const sg_backend *backend, span *blocks)
{
    layout l = {0};
    size_t from = 0; /* where the block at hand begins */
    for (size_t i = 0; i < b->count; i++) {
        const want *const w = &b->want[i];
        if (w->trouble != FITS) continue;
        const size_t bytes = aligned(sg_bytes(*w->tensor));
        if (stays(b, w, backend)) {
            if (w->block >= l.blocks) from = l.host;
            if (w->block >= l.blocks) l.blocks = w->block + 1;
            l.host += bytes;
            if (l.host - from > l.slot) l.slot = l.host - from;
            if (blocks) blocks[w->block] = (span){from, l.host - from};
        } else if (in_place(w, backend)) {
            l.mapped += sg_bytes(w->source);
        } else {
            l.kept += bytes;
        }
    }
    l.slots = l.blocks < 2 ? l.blocks : 2;
    return l;
}

static size_t device_bytes(const layout *l) { return l->kept + (size_t)l->slots * l->slot; }

void sg_bind_offload(sg_bind *b, bool on) { b->offload = on; }

size_t sg_bind_bytes(const sg_bind *b, const sg_backend *backend, size_t *mapped)
{
    const layout l = lay_out(b, backend, NULL);
    if (mapped) *mapped = l.mapped;
    return device_bytes(&l);
}

size_t sg_bind_host_bytes(const sg_bind *b, const sg_backend *backend) { return lay_out(b, backend, NULL).host; }

uint64_t sg_bind_matrix_numbers(const sg_bind *b)
{
    uint64_t n = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->want[i].trouble == FITS && b->want[i].rank > 1) n += (uint64_t)sg_count(b->want[i].source);
    return n;
}

/* The pages of a mapped tensor that has been read and is not needed any more. They come back by themselves if it is. */
static void let_go(const sg_tensor *t)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)t->data + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)t->data + sg_bytes(*t)) / page * page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

static sg_status not_finite(const sg_bind *b, const want *w, sg_error *e)
{
    const uint8_t *const x = w->source.data;
    const size_t         size = sg_dtype_size(w->source.dtype), n = (size_t)sg_count(w->source);
    size_t               i = 0;
    const size_t         step = 1 << 16;
    while (i < n && sg_convert(NULL, SG_F32, x + i * size, w->source.dtype, n - i < step ? n - i : step, 1)) i += step;
    while (i < n && sg_convert(NULL, SG_F32, x + i * size, w->source.dtype, 1, 1)) i++;
    if (i < n)
        return sg_error_set(e, SG_E_NUMERIC, "%s: tensor \"%s\" has a NaN or an infinity, the first at element %zu",
                            sg_weights_path(b->weights), sg_show(w->name), i);
    return sg_error_set(e, SG_E_NUMERIC, "%s: tensor \"%s\" has numbers too large for BF16",
                        sg_weights_path(b->weights), sg_show(w->name));
}

static sg_status not_sent(const sg_bind *b, const want *w, const sg_stream *s, sg_status status, sg_error *e)
{
    return sg_error_set(e, status, "%s: tensor \"%s\": upload to %s failed: %s", sg_weights_path(b->weights),
                        sg_show(w->name), b->backend->name, s->why);
}

/* Tensor w to `device` by way of own[STAGING]; NULL: of the device's staging, and one piece is converted while the one
 * before is on its way. */
static sg_status send(const sg_bind *b, const want *w, sg_stream *s, uint8_t *device, void *own, sg_error *e)
{
    const sg_dtype from = w->source.dtype, as = w->tensor->dtype;
    const size_t   in = sg_dtype_size(from), out = sg_dtype_size(as), n = (size_t)sg_count(w->source);
    const size_t   step = STAGING / out;
    for (size_t i = 0; i < n; i += step) {
        const size_t         count = n - i < step ? n - i : step;
        const uint8_t *const x = (const uint8_t *)w->source.data + i * in;
        const bool           as_is = own && from == as;
        void *const          piece = own ? own : s->memory->stage(s);
        if (!piece) return not_sent(b, w, s, s->status, e);
        if (!sg_convert(as_is ? NULL : piece, as, x, from, count, b->backend->threads)) return not_finite(b, w, e);
        const sg_status status = s->memory->upload(s, device + i * out, as_is ? x : piece, count * out);
        if (status != SG_OK) return not_sent(b, w, s, status, e);
    }
    return SG_OK;
}

/* Tensor w to where it lies from now on: `to` is on the device, or on the host where it stays there. */
static sg_status load_tensor(const sg_bind *b, const want *w, sg_stream *s, uint8_t *to, void *own, sg_error *e)
{
    const bool   serves = !stays(b, w, b->backend) && in_place(w, b->backend);
    const size_t n = (size_t)sg_count(w->source);
    if (b->backend->host_memory || stays(b, w, b->backend)) {
        if (!sg_convert(serves ? NULL : to, w->tensor->dtype, w->source.data, w->source.dtype, n, b->backend->threads))
            return not_finite(b, w, e);
    } else {
        SG_TRY(send(b, w, s, to, own, e));
    }
    w->tensor->data = serves ? w->source.data : to;
    if (!serves) let_go(&w->source);
    return SG_OK;
}

static sg_status load_all(sg_bind *b, sg_stream *s, int (*progress)(void *, int, int), void *context, void *own,
                          sg_error *e)
{
    uint8_t *device = b->device, *host = b->host;
    for (size_t i = 0; i < b->count; i++) {
        const want *const w = &b->want[i];
        const size_t      bytes = aligned(sg_bytes(*w->tensor));
        if (stays(b, w, b->backend)) {
            SG_TRY(load_tensor(b, w, s, host, own, e));
            w->tensor->data = b->slot[w->block % 2] + ((size_t)(host - b->host) - b->span[w->block].at);
            host += bytes;
        } else {
            SG_TRY(load_tensor(b, w, s, device, own, e));
            if (!in_place(w, b->backend)) device += bytes;
        }
        if (progress && progress(context, (int)i + 1, (int)b->count))
            return sg_error_set(e, SG_E_CANCELLED, "%s: loading was cancelled", sg_weights_path(b->weights));
    }
    return SG_OK;
}

/* The memory for what is to be loaded. */
static sg_status take_memory(sg_bind *b, const sg_backend *backend, layout *l, sg_error *e)
{
    *l = lay_out(b, backend, NULL);
    const size_t bytes = device_bytes(l);
    b->backend = backend;
    if (l->blocks) b->span = calloc((size_t)l->blocks, sizeof *b->span);
    if (l->blocks && b->span) b->host = backend->memory->pin(l->host);
    if (l->blocks && !b->host)
        return sg_error_set(e, SG_E_MEMORY, "%s: the host does not have the %zu MiB, page-locked, for these weights",
                            sg_weights_path(b->weights), (l->host >> 20) + 1);
    if (b->span) lay_out(b, backend, b->span);
    if (bytes) b->device = backend->memory->alloc(bytes);
    if (bytes && !b->device)
        return sg_error_set(e, SG_E_MEMORY, "%s: %s does not have the %zu MiB for these weights",
                            sg_weights_path(b->weights), backend->name, (bytes >> 20) + 1);
    for (int i = 0; i < l->slots; i++) b->slot[i] = (uint8_t *)b->device + l->kept + (size_t)i * l->slot;
    return SG_OK;
}

static sg_status load(sg_bind *b, const sg_backend *backend, int (*progress)(void *, int, int), void *context,
                      sg_error *e)
{
    layout    l;
    sg_stream s = sg_stream_on(backend);
    SG_TRY(take_memory(b, backend, &l, e));
    if (backend->host_memory) return load_all(b, &s, progress, context, NULL, e);
    if (backend->memory->stages && backend->memory->stages(&s, STAGING, l.kept))
        return load_all(b, &s, progress, context, NULL, e);
    void *const own = malloc(STAGING);
    if (!own) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", sg_weights_path(b->weights));
    const sg_status status = load_all(b, &s, progress, context, own, e);
    free(own);
    return status;
}

sg_status sg_bind_load(sg_bind *b, const sg_backend *backend, int (*progress)(void *context, int done, int total),
                       void *context, sg_error *e)
{
    const bool streams = sg_bind_host_bytes(b, backend) > 0;
    if (b->backend && streams == (b->host != NULL)) return SG_OK;
    sg_bind_unload(b);
    SG_TRY(sg_bind_check(b, e));
    const sg_status status = load(b, backend, progress, context, e);
    if (status != SG_OK) sg_bind_unload(b);
    return status;
}

void sg_bind_unload(sg_bind *b)
{
    if (!b->backend) return;
    for (size_t i = 0; i < b->count; i++) {
        if (b->want[i].trouble != FITS) continue;
        let_go(&b->want[i].source);
        b->want[i].tensor->data = NULL;
    }
    if (b->device) b->backend->memory->release(b->device);
    if (b->host) b->backend->memory->unpin(b->host); /* after release, which waits for fetches */
    free(b->span);
    b->device = NULL;
    b->host = NULL;
    b->span = NULL;
    b->backend = NULL;
}

void sg_bind_fetch(const sg_bind *b, sg_stream *s, int block)
{
    if (!b->host) return;
    sg_fetch(s, &(sg_fetch_args){.slot = block % 2,
                                 .device = b->slot[block % 2],
                                 .host = b->host + b->span[block].at,
                                 .bytes = b->span[block].bytes});
}
