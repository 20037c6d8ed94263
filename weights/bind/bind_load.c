/* bind_load.c - see bind.h: what a binding takes, and how numbers get from the source to where they are computed with. */
#include "base/text.h"
#include "bind_state.h"

#include <stdlib.h>
#include <string.h>

enum { STAGING = 8 << 20 }; /* bytes on their way to a device */

/* Does the mapped tensor serve as it lies? */
static bool in_place(const sg_bind_want *w, const sg_backend *backend)
{
    const sg_quant q = w->tensor->quant;
    const sg_dtype is = sg_source_shape(w->from).dtype;
    if (!backend->host_memory || w->runs != 1 || sg_bind_merges(w) || w->pairs) return false;
    return q.type ? !q.scale_rows : is == w->tensor->dtype && (uintptr_t)w->data % sg_dtype_size(is) == 0;
}

/* How many blocks before this one stay on the host. */
static int hosted_before(const sg_bind *b, int block)
{
    const int hosted = b->offload < b->blocks ? b->offload : b->blocks;
    return b->blocks ? (int)((int64_t)block * hosted / b->blocks) : 0;
}

static bool is_hosted(const sg_bind *b, int block) { return hosted_before(b, block + 1) > hosted_before(b, block); }

/* Does it stay on the host? */
static bool stays(const sg_bind *b, const sg_bind_want *w, const sg_backend *backend)
{
    return w->block >= 0 && is_hosted(b, w->block) && backend->memory->pin;
}

/* Bytes. */
typedef struct layout {
    size_t kept; /* on the device, always */
    size_t mapped, host;
    size_t slot; /* the largest block on the host */
    int    hosted, slots;
} layout;

/* blocks (may be NULL) gets where each block of the host is there. */
static layout plan_layout(const sg_bind *b, const sg_backend *backend, sg_bind_span *blocks)
{
    layout l = {0};
    size_t from = 0; /* where the block at hand begins */
    for (size_t i = 0; i < b->count; i++) {
        const sg_bind_want *const w = &b->binding[i];
        if (w->trouble != SG_BIND_FITS) continue;
        const size_t beside = sg_bind_adapter_bytes(w), bytes = sg_bind_want_bytes(w) + beside;
        if (stays(b, w, backend)) {
            const int place = hosted_before(b, w->block);
            if (place >= l.hosted) from = l.host;
            if (place >= l.hosted) l.hosted = place + 1;
            l.host += bytes;
            if (l.host - from > l.slot) l.slot = l.host - from;
            if (blocks) blocks[place] = (sg_bind_span){from, l.host - from};
        } else if (in_place(w, backend)) {
            l.mapped += sg_bytes(*w->tensor);
            l.kept += beside;
        } else {
            l.kept += bytes;
        }
    }
    l.slots = l.hosted < 2 ? l.hosted : 2;
    return l;
}

static size_t device_bytes(const layout *l) { return l->kept + (size_t)l->slots * l->slot; }

void sg_bind_offload(sg_bind *b, int blocks) { b->offload = blocks; }

size_t sg_bind_bytes(const sg_bind *b, const sg_backend *backend, size_t *mapped)
{
    const layout l = plan_layout(b, backend, NULL);
    if (mapped) *mapped = l.mapped;
    return device_bytes(&l);
}

size_t sg_bind_host_bytes(const sg_bind *b, const sg_backend *backend) { return plan_layout(b, backend, NULL).host; }

/* What products read of w: the tensor, and what is beside it. Returns how many these are. */
static int list_parts(const sg_tensor *part[3], const sg_bind_want *w)
{
    part[0] = w->tensor;
    if (!w->adapter) return 1;
    part[1] = &w->adapter->up;
    part[2] = &w->adapter->down;
    return 3;
}

uint64_t sg_bind_packed_numbers(const sg_bind *b, const sg_backend *backend)
{
    const sg_tensor *part[3];
    uint64_t         n = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->binding[i].trouble == SG_BIND_FITS && b->binding[i].rank > 1)
            for (int parts = list_parts(part, &b->binding[i]), k = 0; k < parts; k++)
                n += sg_backend_packed_numbers(backend, part[k]);
    return n;
}

static void pack(const sg_bind *b)
{
    const sg_tensor *part[3];
    for (size_t i = 0; i < b->count; i++)
        for (int parts = list_parts(part, &b->binding[i]), k = 0; k < parts; k++) sg_backend_pack(b->backend, part[k]);
}

static void drop(const sg_bind *b, const sg_bind_want *w)
{
    const size_t block = (size_t)w->from->type->block, bytes = (size_t)w->from->type->bytes;
    for (int i = 0; i < w->runs; i++)
        sg_source_drop(b->source, w->from->data + w->run[i].first / block * bytes, w->run[i].count / block * bytes);
}

/* Of each run of w->pairs rows of y, which has all rows of so many bytes, the halves become pairs. */
static sg_status pair_rows(const sg_bind *b, const sg_bind_want *w, uint8_t *y, size_t row, sg_error *e)
{
    const size_t   rows = (size_t)w->pairs, all = (size_t)w->dim[0];
    uint8_t *const run = malloc(rows * row + 1);
    if (!run) return sg_error_memory(e, sg_source_path(b->source));
    for (size_t first = 0; first < all; first += rows, y += rows * row) {
        memcpy(run, y, rows * row);
        for (size_t i = 0; i < rows; i++) memcpy(y + i * row, run + (i / 2 + i % 2 * (rows / 2)) * row, row);
    }
    free(run);
    return SG_OK;
}

/* y[count] = elements i to i + count of w as they are wanted, but for pairs; y NULL: only looks. */
static sg_status make(const sg_bind *b, const sg_bind_want *w, const sg_bind_patched *p, void *y, size_t i,
                      size_t count, sg_error *e)
{
    if (sg_bind_merges(w)) return sg_bind_patched_make(p, b, w, y, i, count, e);
    return sg_bind_convert(b, w, y, w->tensor->dtype, i, count, b->backend->threads, e);
}

static sg_status not_sent(const sg_bind *b, const sg_bind_want *w, const sg_stream *s, sg_status status, sg_error *e)
{
    return sg_error_set(e, status, "%s: tensor \"%s\": upload to %s failed: %s", sg_source_path(b->source),
                        sg_show(w->name), b->backend->name, s->why);
}

static sg_status upload(const sg_bind *b, const sg_bind_want *w, sg_stream *s, uint8_t *to, const void *from,
                        size_t bytes, sg_error *e)
{
    const sg_status status = s->memory->upload(s, to, from, bytes);
    return status == SG_OK ? SG_OK : not_sent(b, w, s, status, e);
}

/* A tensor to `device` by way of own[STAGING]; NULL: of the device's staging, and one piece is converted while the one
 * before is on its way. */
static sg_status send(const sg_bind *b, const sg_bind_want *w, const sg_bind_patched *p, sg_stream *s, uint8_t *device,
                      void *own, sg_error *e)
{
    const size_t n = (size_t)sg_count(*w->tensor), step = STAGING / sg_dtype_size(w->tensor->dtype);
    const bool as_is = own && sg_source_shape(w->from).dtype == w->tensor->dtype && w->runs == 1 && !sg_bind_merges(w);
    for (size_t i = 0; i < n; i += step) {
        const size_t count = n - i < step ? n - i : step;
        void *const  piece = own ? own : s->memory->stage(s);
        if (!piece) return not_sent(b, w, s, s->status, e);
        SG_TRY(make(b, w, p, as_is ? NULL : piece, i, count, e));
        const void *const from = as_is ? w->data + sg_bind_bytes_of(w, i) : piece;
        SG_TRY(upload(b, w, s, device + sg_bind_bytes_of(w, i), from, sg_bind_bytes_of(w, count), e));
    }
    return SG_OK;
}

/* The scales of w, which stays as the file has it, in y: of the rows that it takes. */
static sg_status make_scales(const sg_bind *b, const sg_bind_want *w, float *y, sg_error *e)
{
    const size_t row = (size_t)w->dim[1];
    float       *to = y;
    const size_t block = (size_t)w->from->scale_block;
    if (w->from->scales == 1 || block) {
        const size_t first = block ? w->run[0].first / row / block * ((row + block - 1) / block) : 0;
        memcpy(y, w->from->scale + first * sizeof *y, (size_t)sg_quant_scales(w->tensor) * sizeof *y);
        return SG_OK;
    }
    for (int k = 0; k < w->runs; k++) {
        const size_t first = w->run[k].first / row, count = w->run[k].count / row;
        memcpy(to, w->from->scale + first * sizeof *to, count * sizeof *to);
        to += count;
    }
    return w->pairs ? pair_rows(b, w, (uint8_t *)y, sizeof *y, e) : SG_OK;
}

/* All of w on the host, in y; NULL: only looks. */
static sg_status make_all(const sg_bind *b, const sg_bind_want *w, const sg_bind_patched *p, void *y, sg_error *e)
{
    const sg_tensor *const t = w->tensor;
    const size_t           n = (size_t)sg_count(*t);
    SG_TRY(make(b, w, p, y, 0, n, e));
    if (y && t->quant.scale_rows) SG_TRY(make_scales(b, w, (float *)(void *)((uint8_t *)y + sg_quant_scales_at(t)), e));
    return w->pairs ? pair_rows(b, w, y, sg_bind_bytes_of(w, n) / (size_t)w->dim[0], e) : SG_OK;
}

/* A tensor of pairs to `device`, in one piece: a run may be of any length. */
static sg_status send_pairs(const sg_bind *b, const sg_bind_want *w, const sg_bind_patched *p, sg_stream *s,
                            uint8_t *device, sg_error *e)
{
    const size_t bytes = sg_bytes(*w->tensor);
    void *const  all = malloc(bytes + 1);
    if (!all) return sg_error_memory(e, sg_source_path(b->source));
    sg_status status = make_all(b, w, p, all, e);
    if (status == SG_OK) status = upload(b, w, s, device, all, bytes, e);
    free(all);
    return status;
}

/* The scales of w to where they lie behind its numbers on the device. */
static sg_status send_scales(const sg_bind *b, const sg_bind_want *w, sg_stream *s, uint8_t *device, sg_error *e)
{
    const size_t bytes = (size_t)sg_quant_scales(w->tensor) * sizeof(float);
    float *const scale = malloc(bytes);
    if (!scale) return sg_error_memory(e, sg_source_path(b->source));
    sg_status status = make_scales(b, w, scale, e);
    if (status == SG_OK) status = upload(b, w, s, device + sg_quant_scales_at(w->tensor), scale, bytes, e);
    free(scale);
    return status;
}

/* Tensor w to where it lies from now on: `to` is on the device, or on the host where it stays there. */
static sg_status load_tensor(const sg_bind *b, const sg_bind_want *w, sg_stream *s, uint8_t *to, void *own, sg_error *e)
{
    const bool      host = b->backend->host_memory || stays(b, w, b->backend);
    const bool      serves = !stays(b, w, b->backend) && in_place(w, b->backend);
    sg_bind_patched p = {0};
    sg_status       status = sg_bind_merges(w) ? sg_bind_patched_open(&p, b, w, e) : SG_OK;
    if (status == SG_OK)
        status = host       ? make_all(b, w, &p, serves ? NULL : to, e)
                 : w->pairs ? send_pairs(b, w, &p, s, to, e)
                            : send(b, w, &p, s, to, own, e);
    if (status == SG_OK && !host && !w->pairs && w->tensor->quant.scale_rows) status = send_scales(b, w, s, to, e);
    sg_bind_patched_close(&p, w);
    if (status != SG_OK) return status;
    w->tensor->data = serves ? (void *)(uintptr_t)w->data : to;
    if (!serves) drop(b, w);
    return SG_OK;
}

/* The adapter of w to `to`, on the device, or with s NULL on the host. lies is where ops will find it. */
static sg_status load_adapter(const sg_bind *b, const sg_bind_want *w, sg_stream *s, uint8_t *to, uint8_t *lies,
                              sg_error *e)
{
    const size_t   bytes = sg_bind_adapter_bytes(w);
    uint8_t *const own = s ? malloc(bytes) : NULL;
    if (s && !own) return sg_error_memory(e, sg_source_path(b->source));
    sg_status status = sg_bind_adapter_make(b, w, s ? own : to, e);
    if (status == SG_OK && s) status = upload(b, w, s, to, own, bytes, e);
    free(own);
    w->adapter->up.data = lies;
    w->adapter->down.data = lies + sg_aligned(sg_bytes(w->adapter->up));
    return status;
}

static sg_status load_all(sg_bind *b, sg_stream *s, int (*progress)(void *, int, int), void *context, void *own,
                          sg_error *e)
{
    uint8_t *device = b->device, *host = b->host;
    for (size_t i = 0; i < b->count; i++) {
        const sg_bind_want *const w = &b->binding[i];
        const size_t              bytes = sg_bind_want_bytes(w), beside = sg_bind_adapter_bytes(w);
        if (stays(b, w, b->backend)) {
            SG_TRY(load_tensor(b, w, s, host, own, e));
            const int place = hosted_before(b, w->block);
            w->tensor->data = b->slot[place % 2] + ((size_t)(host - b->host) - b->span[place].at);
            if (beside) SG_TRY(load_adapter(b, w, NULL, host + bytes, (uint8_t *)w->tensor->data + bytes, e));
            host += bytes + beside;
        } else {
            SG_TRY(load_tensor(b, w, s, device, own, e));
            if (bytes && !in_place(w, b->backend)) device += bytes; /* NULL: nothing lies there */
            if (beside) {
                SG_TRY(load_adapter(b, w, b->backend->host_memory ? NULL : s, device, device, e));
                device += beside;
            }
        }
        if (progress && progress(context, (int)i + 1, (int)b->count))
            return sg_error_set(e, SG_E_CANCELLED, "%s: loading was cancelled", sg_source_path(b->source));
    }
    return SG_OK;
}

/* The memory for what is to be loaded. */
static sg_status take_memory(sg_bind *b, const sg_backend *backend, layout *l, sg_error *e)
{
    *l = plan_layout(b, backend, NULL);
    const size_t bytes = device_bytes(l);
    b->backend = backend;
    if (l->hosted) b->span = calloc((size_t)l->hosted, sizeof *b->span);
    b->host_bytes = l->host;
    if (l->hosted && b->span) b->host = backend->memory->pin(backend, l->host);
    if (l->hosted && !b->host)
        return sg_error_set(e, SG_E_MEMORY, "%s: the host does not have the %zu MiB, page-locked, for these weights",
                            sg_source_path(b->source), (l->host >> 20) + 1);
    if (b->span) plan_layout(b, backend, b->span);
    if (bytes) b->device = backend->memory->alloc(backend, bytes);
    if (bytes && !b->device)
        return sg_error_set(e, SG_E_MEMORY, "%s: %s does not have the %zu MiB for these weights",
                            sg_source_path(b->source), backend->name, (bytes >> 20) + 1);
    for (int i = 0; i < l->slots; i++) b->slot[i] = (uint8_t *)b->device + l->kept + (size_t)i * l->slot;
    return SG_OK;
}

static sg_status load(sg_bind *b, const sg_backend *backend, int (*progress)(void *, int, int), void *context,
                      sg_error *e)
{
    layout    l;
    sg_stream s = sg_stream_of(backend);
    SG_TRY(take_memory(b, backend, &l, e));
    if (backend->host_memory) return load_all(b, &s, progress, context, NULL, e);
    if (backend->memory->stages && backend->memory->stages(&s, STAGING, l.kept))
        return load_all(b, &s, progress, context, NULL, e);
    void *const own = malloc(STAGING);
    if (!own) return sg_error_memory(e, sg_source_path(b->source));
    const sg_status status = load_all(b, &s, progress, context, own, e);
    free(own);
    return status;
}

sg_status sg_bind_load(sg_bind *b, const sg_backend *backend, int (*progress)(void *context, int done, int total),
                       void *context, sg_error *e)
{
    const size_t host = sg_bind_host_bytes(b, backend);
    if (b->backend && host == b->host_bytes) return SG_OK;
    sg_bind_unload(b);
    SG_TRY(sg_bind_check(b, e));
    const sg_status status = load(b, backend, progress, context, e);
    if (status != SG_OK) sg_bind_unload(b);
    if (status == SG_OK) pack(b);
    return status;
}

void sg_bind_unload(sg_bind *b)
{
    if (!b->backend) return;
    for (size_t i = 0; i < b->count; i++) {
        if (b->binding[i].trouble != SG_BIND_FITS) continue;
        drop(b, &b->binding[i]);
        b->binding[i].tensor->data = NULL;
        if (b->binding[i].adapter) b->binding[i].adapter->up.data = b->binding[i].adapter->down.data = NULL;
    }
    if (b->device) b->backend->memory->release(b->backend, b->device);
    if (b->host) b->backend->memory->unpin(b->backend, b->host); /* after release, which waits for fetches */
    free(b->span);
    b->device = NULL;
    b->host = NULL;
    b->span = NULL;
    b->backend = NULL;
}

void sg_bind_close(sg_bind **b)
{
    if (!*b) return;
    sg_bind_unload(*b);
    for (size_t i = 0; i < (*b)->count; i++) {
        free((*b)->binding[i].name);
        free((*b)->binding[i].adapter);
    }
    for (size_t i = 0; i < (*b)->ignores; i++) free((*b)->ignored[i]);
    free((*b)->binding);
    free((*b)->ignored);
    free((*b)->bound);
    free((*b)->patch);
    free(*b);
    *b = NULL;
}

void sg_bind_fetch(const sg_bind *b, sg_stream *s, int block)
{
    if (!b->host || !is_hosted(b, block)) return;
    const int place = hosted_before(b, block);
    sg_fetch(s, &(sg_fetch_args){.slot = place % 2,
                                 .device = b->slot[place % 2],
                                 .host = b->host + b->span[place].at,
                                 .bytes = b->span[place].bytes});
}
