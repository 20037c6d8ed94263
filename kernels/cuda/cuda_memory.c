/* cuda_memory.c - the device's memory, transfers, weights that come from the host, and scratch. */
#include "cuda_state.cuh"

enum { STAGE_WORTH = 64 }; /* bytes sent without pinned memory in the time that it takes to pin one: kernels/LOG.md */

/* On the device that the calling thread has entered. A refusal is the caller's to tell; the next launch shall not find
 * it. cudaFree waits for the device: nothing in flight still uses what it frees. */
static void *take(size_t bytes)
{
    void *p = NULL;
    if (cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess) return p;
    cudaGetLastError();
    return NULL;
}

/* Makes b's device the calling thread's. The one that was before; what fails here, the next call tells. */
static int enter_from(const sg_backend *b)
{
    int was = -1;
    if (cudaGetDevice(&was) != cudaSuccess) cudaGetLastError();
    sg_cuda_enter(b);
    return was;
}

static void leave_to(int device)
{
    if (device >= 0 && cudaSetDevice(device) != cudaSuccess) cudaGetLastError();
}

static void *device_alloc(const sg_backend *b, size_t bytes)
{
    const int   was = enter_from(b);
    void *const p = take(bytes);
    leave_to(was);
    return p;
}

static void device_release(const sg_backend *b, void *p)
{
    const int was = enter_from(b);
    cudaFree(p);
    leave_to(was);
}

void sg_cuda_enter(const sg_backend *b)
{
    if (cudaSetDevice(((const sg_cuda *)b->impl)->device) != cudaSuccess) cudaGetLastError();
}

/* That of which p is a part; NULL: none. */
static sg_cuda_stage *stage_of(sg_cuda *c, const void *p)
{
    for (int i = 0; i < SG_CUDA_STAGES; i++) {
        const uintptr_t from = (uintptr_t)c->stage[i].data, at = (uintptr_t)p;
        if (at >= from && at < from + c->stage_bytes) return &c->stage[i];
    }
    return NULL;
}

static sg_status transfer(sg_stream *s, const char *what, void *to, const void *from, size_t bytes,
                          enum cudaMemcpyKind kind)
{
    const cudaStream_t         queue = sg_cuda_of(s)->queue;
    const sg_cuda_stage *const stage = stage_of(sg_cuda_of(s), kind == cudaMemcpyHostToDevice ? from : to);
    SG_TRY(sg_graph_flush(s));
    cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, queue);
    if (e == cudaSuccess) e = stage ? cudaEventRecord(stage->over, queue) : cudaStreamSynchronize(queue);
    return sg_cuda_check(s, what, e);
}

static sg_status device_upload(sg_stream *s, void *device, const void *host, size_t bytes)
{
    return transfer(s, "upload", device, host, bytes, cudaMemcpyHostToDevice);
}

static sg_status device_download(sg_stream *s, void *host, const void *device, size_t bytes)
{
    return transfer(s, "download", host, device, bytes, cudaMemcpyDeviceToHost);
}

static void stages_free(sg_cuda *c)
{
    for (int i = 0; i < SG_CUDA_STAGES; i++) {
        if (c->stage[i].over) cudaEventSynchronize(c->stage[i].over);
        if (c->stage[i].over) cudaEventDestroy(c->stage[i].over);
        cudaFreeHost(c->stage[i].data);
        c->stage[i] = (sg_cuda_stage){NULL, NULL};
    }
    c->stage_bytes = 0;
}

static bool device_stages(sg_stream *s, size_t bytes, size_t all)
{
    sg_cuda *const c = sg_cuda_of(s);
    cudaError_t    e = cudaSuccess;
    if (c->stage_bytes >= bytes) return true;
    if (all / STAGE_WORTH < SG_CUDA_STAGES * bytes) return false;
    stages_free(c);
    for (int i = 0; i < SG_CUDA_STAGES && !e; i++) {
        e = cudaHostAlloc((void **)&c->stage[i].data, bytes, cudaHostAllocDefault);
        if (!e) e = cudaEventCreateWithFlags(&c->stage[i].over, cudaEventDisableTiming);
    }
    if (!e) c->stage_bytes = bytes;
    if (e) stages_free(c);
    if (e) cudaGetLastError(); /* no failure: there is a plain way */
    return !e;
}

static void *device_stage(sg_stream *s)
{
    sg_cuda *const       c = sg_cuda_of(s);
    sg_cuda_stage *const p = &c->stage[c->staged = (c->staged + 1) % SG_CUDA_STAGES];
    return sg_cuda_check(s, "staging", cudaEventSynchronize(p->over)) ? NULL : p->data;
}

static sg_status device_wait_stage(sg_stream *s, const void *staged)
{
    const sg_cuda_stage *const p = stage_of(sg_cuda_of(s), staged);
    return p ? sg_cuda_check(s, "staging", cudaEventSynchronize(p->over)) : SG_OK;
}

static void *device_pin(const sg_backend *b, size_t bytes)
{
    const int         was = enter_from(b);
    void             *p = NULL;
    const cudaError_t e = cudaHostAlloc(&p, bytes ? bytes : 1, cudaHostAllocDefault);
    if (e) cudaGetLastError(); /* as in take */
    leave_to(was);
    return e ? NULL : p;
}

static void device_unpin(const sg_backend *b, void *p)
{
    const int was = enter_from(b);
    cudaFreeHost(p);
    leave_to(was);
}

sg_status sg_cuda_fetch(sg_stream *s, const sg_fetch_args *a)
{
    sg_cuda *const      c = sg_cuda_of(s);
    sg_cuda_feed *const f = &c->feed;
    const int           slot = (int)a->slot;
    const bool          first = f->last < 0;
    const int           before = first ? !slot : f->last;
    cudaError_t         e = cudaEventRecord(f->left[before], c->queue);
    if (!e) e = cudaStreamWaitEvent(f->queue, f->left[first ? before : slot], 0);
    if (!e) e = cudaMemcpyAsync(a->device, a->host, a->bytes, cudaMemcpyHostToDevice, f->queue);
    if (!e) e = cudaEventRecord(f->arrived, f->queue);
    if (!e) e = cudaStreamWaitEvent(c->queue, f->arrived, 0);
    f->last = slot;
    return sg_cuda_check(s, "fetch", e);
}

static cudaError_t feed_open(sg_cuda_feed *f)
{
    cudaEvent_t *const event[] = {&f->left[0], &f->left[1], &f->arrived};
    cudaError_t        e = cudaStreamCreateWithFlags(&f->queue, cudaStreamNonBlocking);
    for (int i = 0; i < 3 && !e; i++) e = cudaEventCreateWithFlags(event[i], cudaEventDisableTiming);
    f->last = -1;
    return e;
}

cudaError_t sg_cuda_memory_open(sg_cuda *c)
{
    static const size_t fixed[SG_CUDA_SLOTS] = {
        [SG_CUDA_LIBRARY] = SG_CUDA_LIBRARY_BYTES, [SG_CUDA_SUM] = SG_CUDA_SUM_BYTES, [SG_CUDA_X] = SG_CUDA_X_BYTES};
    cudaError_t e = feed_open(&c->feed);
    for (int i = 0; i < SG_CUDA_SLOTS && !e; i++) {
        c->block[i].bytes = fixed[i];
        if (fixed[i]) e = cudaMalloc(&c->block[i].data, fixed[i]);
    }
    return e;
}

static void feed_close(sg_cuda_feed *f)
{
    const cudaEvent_t event[] = {f->left[0], f->left[1], f->arrived};
    if (f->queue) cudaStreamSynchronize(f->queue);
    for (int i = 0; i < 3; i++)
        if (event[i]) cudaEventDestroy(event[i]);
    if (f->queue) cudaStreamDestroy(f->queue);
}

void sg_cuda_memory_close(sg_cuda *c)
{
    for (int i = 0; i < SG_CUDA_SLOTS; i++) cudaFree(c->block[i].data);
    stages_free(c);
    feed_close(&c->feed);
    if (c->joined) cudaEventDestroy(c->joined);
}

static sg_status device_join(sg_stream *s, void *queue)
{
    sg_cuda *const c = sg_cuda_of(s);
    cudaError_t    e = cudaGetDevice(&c->program_device);
    if (!e) e = cudaSetDevice(c->device);
    if (!e && !c->joined) e = cudaEventCreateWithFlags(&c->joined, cudaEventDisableTiming);
    if (!e) e = cudaEventRecord(c->joined, (cudaStream_t)queue);
    if (!e) e = cudaStreamWaitEvent(c->queue, c->joined, 0);
    return sg_cuda_check(s, "join", e);
}

static sg_status device_leave(sg_stream *s, void *queue)
{
    sg_cuda *const c = sg_cuda_of(s);
    cudaError_t    e = c->joined ? cudaEventRecord(c->joined, c->queue) : cudaSuccess;
    if (!e && c->joined) e = cudaStreamWaitEvent((cudaStream_t)queue, c->joined, 0);
    leave_to(c->program_device);
    return sg_cuda_check(s, "leave", e);
}

const sg_memory sg_cuda_memory = {.alloc = device_alloc,
                                  .release = device_release,
                                  .upload = device_upload,
                                  .download = device_download,
                                  .stages = device_stages,
                                  .stage = device_stage,
                                  .wait_stage = device_wait_stage,
                                  .pin = device_pin,
                                  .unpin = device_unpin,
                                  .join = device_join,
                                  .leave = device_leave};

void *sg_cuda_scratch(sg_stream *s, const char *op, sg_cuda_slot slot, size_t bytes)
{
    sg_cuda_block *const b = &sg_cuda_of(s)->block[slot];
    if (b->bytes >= bytes && b->data) return b->data;
    if (!sg_graph_may_move(sg_cuda_of(s))) {
        sg_fail(s, SG_E_DEVICE, "%s: scratch grows in a step that has run before", op);
        return NULL;
    }
    cudaFree(b->data);
    b->data = take(bytes);
    b->bytes = b->data ? bytes : 0;
    if (!b->data) sg_fail(s, SG_E_MEMORY, "%s: the GPU has no %zu bytes left for intermediate results", op, bytes);
    return b->data;
}

size_t sg_cuda_work_bytes(const sg_backend *b)
{
    const sg_cuda *const c = b->impl;
    size_t               bytes = 0;
    for (int i = 0; i < SG_CUDA_SLOTS; i++) bytes += c->block[i].bytes;
    return bytes;
}
