/* cuda_backend.c - the device found, its memory, its scratch, and how its failures are told. */
#include "cuda_state.cuh"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    OLDEST = 80,     /* compute capability 8.0: the first with BF16 */
    STAGE_WORTH = 64 /* bytes sent without pinned memory in the time that it takes to pin one: kernels/NOTES.md */
};

/* Where the toolkit of the build has its libraries. */
#ifndef SG_CUDA_LIBRARIES
#define SG_CUDA_LIBRARIES "/usr/local/cuda/lib64"
#endif

void *sg_cuda_library(const char *name)
{
    char        path[1024];
    void *const found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    snprintf(path, sizeof path, "%s/%s", SG_CUDA_LIBRARIES, name);
    return found ? found : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

sg_status sg_cuda_check(sg_stream *s, const char *op, cudaError_t e)
{
    if (e == cudaSuccess) return SG_OK;
    const sg_status code = e == cudaErrorMemoryAllocation ? SG_E_MEMORY : SG_E_DEVICE;
    return sg_fail(s, code, "%s: CUDA says \"%s\" (%s), in this op or one shortly before it", op, cudaGetErrorString(e),
                   cudaGetErrorName(e));
}

/* ---- memory ---- */

static void *device_alloc(size_t bytes)
{
    void *p = NULL;
    if (cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess) return p;
    cudaGetLastError(); /* a refusal is the caller's to tell; the next launch shall not find it */
    return NULL;
}

/* cudaFree waits for the device: nothing in flight still uses p. */
static void device_release(void *p) { cudaFree(p); }

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
    SG_TRY(sg_step_break(s));
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

static sg_status device_settle(sg_stream *s, const void *staged)
{
    const sg_cuda_stage *const p = stage_of(sg_cuda_of(s), staged);
    return p ? sg_cuda_check(s, "staging", cudaEventSynchronize(p->over)) : SG_OK;
}

static void *device_pin(size_t bytes)
{
    void *p = NULL;
    if (cudaHostAlloc(&p, bytes ? bytes : 1, cudaHostAllocDefault) == cudaSuccess) return p;
    cudaGetLastError(); /* as in device_alloc */
    return NULL;
}

static void device_unpin(void *p) { cudaFreeHost(p); }

static sg_status device_fetch(sg_stream *s, const sg_fetch_args *a)
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

static void feed_close(sg_cuda_feed *f)
{
    const cudaEvent_t event[] = {f->left[0], f->left[1], f->arrived};
    if (f->queue) cudaStreamSynchronize(f->queue);
    for (int i = 0; i < 3; i++)
        if (event[i]) cudaEventDestroy(event[i]);
    if (f->queue) cudaStreamDestroy(f->queue);
}

static const sg_memory device_memory = {.alloc = device_alloc,
                                        .release = device_release,
                                        .upload = device_upload,
                                        .download = device_download,
                                        .stages = device_stages,
                                        .stage = device_stage,
                                        .settle = device_settle,
                                        .pin = device_pin,
                                        .unpin = device_unpin};

void *sg_cuda_scratch(sg_stream *s, const char *op, sg_cuda_slot slot, size_t bytes)
{
    sg_cuda_block *const b = &sg_cuda_of(s)->block[slot];
    if (b->bytes >= bytes && b->data) return b->data;
    if (!sg_step_moves(sg_cuda_of(s))) {
        sg_fail(s, SG_E_DEVICE, "%s: scratch grows in a step that has run before", op);
        return NULL;
    }
    device_release(b->data);
    b->data = device_alloc(bytes);
    b->bytes = b->data ? bytes : 0;
    if (!b->data) sg_fail(s, SG_E_MEMORY, "%s: the GPU has no %zu bytes left for intermediate results", op, bytes);
    return b->data;
}

static void enter(const sg_backend *b)
{
    /* What fails here, the next call tells. */
    if (cudaSetDevice(((const sg_cuda *)b->impl)->device) != cudaSuccess) cudaGetLastError();
}

size_t sg_cuda_work_bytes(const sg_backend *b)
{
    const sg_cuda *const c = (const sg_cuda *)b->impl;
    size_t               bytes = 0;
    for (int i = 0; i < SG_CUDA_SLOTS; i++) bytes += c->block[i].bytes;
    return bytes;
}

void sg_cuda_served(const sg_backend *b, char *text, size_t size) { sg_dnn_tell((const sg_cuda *)b->impl, text, size); }

/* ---- open and close ---- */

/* Of what CUDA refuses at its first call: no driver and no device are facts about the machine, the rest are faults. */
static sg_status refusal(sg_error *e, cudaError_t why)
{
    int driver = 0, runtime = 0;
    cudaGetLastError();
    switch (why) {
    case cudaErrorNoDevice: return sg_error_set(e, SG_E_UNSUPPORTED, "this machine shows no NVIDIA GPU");
    case cudaErrorInsufficientDriver:
        if (cudaDriverGetVersion(&driver) || cudaRuntimeGetVersion(&runtime) || driver == 0)
            return sg_error_set(e, SG_E_UNSUPPORTED, "this machine has no NVIDIA driver");
        return sg_error_set(e, SG_E_UNSUPPORTED,
                            "the NVIDIA driver knows CUDA %d.%d and this build needs %d.%d or newer", driver / 1000,
                            driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    case cudaErrorMemoryAllocation:
        return sg_error_set(e, SG_E_MEMORY, "the GPU has no memory left for the cuda backend");
    default:
        return sg_error_set(e, SG_E_DEVICE, "the GPU does not start: CUDA says \"%s\" (%s)", cudaGetErrorString(why),
                            cudaGetErrorName(why));
    }
}

static int attribute(const sg_cuda *c, enum cudaDeviceAttr a)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, a, c->device) == cudaSuccess ? value : 0;
}

/* The level of compute capability cc. Newer devices run PTX: that of 8.9 where there are kernels for it. */
static sg_gpu_level level_of(int cc) { return cc < 89 ? SG_GPU_SM80 : cc / 10 == 9 ? SG_GPU_SM90 : SG_GPU_SM89; }

static sg_status take_level(sg_cuda *c, const sg_backend_options *o, const char *name, int cc, sg_error *e)
{
    const sg_gpu_level own = level_of(cc), asked = o->gpu_level;
    if (asked > own)
        return sg_error_set(e, SG_E_UNSUPPORTED, "gpumask: %s has compute capability %d.%d, whose level is %s; %s is above",
                            name, cc / 10, cc % 10, sg_gpu_level_names[own - 1], sg_gpu_level_names[asked - 1]);
    c->level = asked ? asked : own;
    c->dnn_least = c->level < own ? SG_DNN_NEVER : o->dnn_least ? o->dnn_least : SG_DNN_LEAST;
    return SG_OK;
}

static sg_status open_on(sg_cuda *c, sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    static const size_t fixed[SG_CUDA_SLOTS] = {[SG_CUDA_LIBRARY] = SG_CUDA_LIBRARY_BYTES,
                                                [SG_CUDA_SUM] = SG_CUDA_SUM_BYTES,
                                                [SG_CUDA_X] = SG_CUDA_X_BYTES};
    struct cudaDeviceProp p;
    size_t                free_bytes = 0, all = 0;
    int                   devices = 0;
    cudaError_t           failed = cudaGetDeviceCount(&devices);
    if (failed) return refusal(e, failed);
    if (devices == 0) return refusal(e, cudaErrorNoDevice);
    SG_TRY(sg_backend_choose_gpu(&c->device, o, devices, e));
    failed = cudaGetDeviceProperties(&p, c->device);
    if (failed) return refusal(e, failed);
    const int cc = 10 * p.major + p.minor;
    if (cc < OLDEST)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s has compute capability %d.%d; 8.0 is the least", p.name, p.major,
                            p.minor);
    SG_TRY(take_level(c, o, p.name, cc, e));
    failed = cudaSetDevice(c->device);
    if (!failed) failed = cudaStreamCreateWithFlags(&c->queue, cudaStreamNonBlocking);
    if (!failed) failed = feed_open(&c->feed);
    for (int i = 0; i < SG_CUDA_SLOTS && !failed; i++) {
        c->block[i].bytes = fixed[i];
        if (fixed[i]) failed = cudaMalloc(&c->block[i].data, fixed[i]);
    }
    if (!failed) failed = cudaMemGetInfo(&free_bytes, &all);
    if (failed) return refusal(e, failed);
    c->processors = attribute(c, cudaDevAttrMultiProcessorCount);
    c->shared_max = (size_t)attribute(c, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (o->gpu_level && o->gpu_level < level_of(cc) && c->shared_max > SG_CUDA_SHARED_LEAST)
        c->shared_max = SG_CUDA_SHARED_LEAST;
    SG_TRY(sg_lt_open(c, e));
    b->total_bytes = free_bytes > SG_CUDA_WORK_BYTES ? free_bytes - SG_CUDA_WORK_BYTES : 0;
    const char *const as = o->gpu_level ? sg_gpu_level_names[o->gpu_level - 1] : "";
    const int at = snprintf(b->device, sizeof b->device, "%.100s, %zu GiB, sm_%d%s%s", p.name, all >> 30, cc,
                            *as ? " as " : "", as);
    if (devices > 1) snprintf(b->device + at, sizeof b->device - (size_t)at, ", device %d", c->device);
    return SG_OK;
}

static void close_all(sg_cuda *c)
{
    if (c->queue) cudaStreamSynchronize(c->queue);
    sg_step_close(c);
    sg_dnn_close(c);
    sg_lt_close(c);
    for (int i = 0; i < SG_CUDA_SLOTS; i++) device_release(c->block[i].data);
    stages_free(c);
    feed_close(&c->feed);
    if (c->queue) cudaStreamDestroy(c->queue);
    cudaGetLastError();
    free(c);
}

sg_status sg_cuda_open(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    sg_cuda *const c = (sg_cuda *)calloc(1, sizeof *c);
    if (!c) return sg_error_set(e, SG_E_MEMORY, "no memory for the cuda backend");
    sg_cuda_elem_init(&c->ops);
    sg_cuda_rows_init(&c->ops);
    sg_cuda_gather_init(&c->ops);
    sg_cuda_product_init(&c->ops);
    sg_cuda_conv_init(&c->ops);
    sg_cuda_attend_init(&c->ops);
    sg_cuda_pool_init(&c->ops);
    sg_cuda_score_init(&c->ops);
    sg_cuda_select_init(&c->ops);
    sg_cuda_blocks_init(&c->ops);
    c->ops.fetch = device_fetch;
    sg_status status = open_on(c, b, o, e);
    if (!status) status = sg_step_open(c, e);
    if (status) {
        close_all(c);
        return status;
    }
    b->name = "cuda";
    b->ops = &c->ops;
    b->memory = &device_memory;
    b->impl = c;
    b->enter = enter;
    b->dtype = SG_BF16;
    b->values = SG_BF16;
    b->f8 = c->level >= SG_GPU_SM89;
    b->host_memory = false;
    return SG_OK;
}

void sg_cuda_close(sg_backend *b)
{
    if (b->impl) enter(b);
    if (b->impl) close_all((sg_cuda *)b->impl);
    b->impl = NULL;
}
