/* cuda_backend.c - the backend's life: the device found, then the table made of what it has. */
#include "base/text.h"
#include "cuda_state.cuh"
#include "meta.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void served(const sg_backend *b, char *text, size_t size)
{
    const sg_cuda *const c = b->impl;
    sg_dnn_describe(c, text, size);
    if (sg_lt_lacks(c))
        sg_text_append(text, size, "%s%s: our own matmuls run in its place", *text ? "; " : "", sg_lt_lacks(c));
    sg_fallbacks_describe(&c->fallbacks, text, size);
}

/* ---- open and close ---- */

/* Says why CUDA refuses its first call. No driver and no device are facts about the machine; the rest are faults. */
static sg_status refusal(sg_error *e, cudaError_t why)
{
    int driver = 0, runtime = 0;
    cudaGetLastError();
    switch (why) {
    case cudaErrorNoDevice: return sg_error_set(e, SG_E_UNSUPPORTED, "CUDA shows no NVIDIA GPU");
    case cudaErrorInsufficientDriver:
        if (cudaDriverGetVersion(&driver) || cudaRuntimeGetVersion(&runtime) || driver == 0)
            return sg_error_set(e, SG_E_UNSUPPORTED, "CUDA finds no NVIDIA driver, libcuda.so.1");
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

/* ---- levels ---- */

static void fill_mma(sg_ops *t)
{
    sg_cuda_elem_init(t);
    sg_cuda_norm_rope_init(t);
    sg_cuda_data_movement_init(t);
    sg_cuda_linear_init(t);
    sg_cuda_conv_init(t);
    sg_cuda_attend_init(t);
    sg_cuda_pool_init(t);
    sg_cuda_score_init(t);
    sg_cuda_select_init(t);
    sg_cuda_blocks_init(t);
}

/* cuda.cmake names the architectures that it compiles a level for; a level without one is not built. */
#ifndef SG_CUDA_SM89
#define SG_CUDA_SM89 ""
#define sg_cuda_f8_init NULL
#endif
#ifndef SG_CUDA_SM90
#define SG_CUDA_SM90 ""
#define sg_cuda_wgmma_init NULL
#endif

/* In the order of filling: of two levels that a device has, the later one wins. */
static const struct {
    const char *name; /* of --gpumask */
    unsigned    needs;
    const char *code; /* as sg_gpu_runs takes it */
    void (*fill)(sg_ops *t);
} levels[] = {
    {"sm80", SG_GPU_MMA, SG_CUDA_SM80, fill_mma},
    {"sm89", SG_GPU_MMA | SG_GPU_FP8, SG_CUDA_SM89, sg_cuda_f8_init},
    {"sm90", SG_GPU_MMA | SG_GPU_FP8 | SG_GPU_WGMMA, SG_CUDA_SM90, sg_cuda_wgmma_init},
};
enum { LEVELS = sizeof levels / sizeof levels[0] };

static const char *level_name(unsigned features)
{
    int top = 0;
    for (int i = 0; i < LEVELS; i++)
        if ((levels[i].needs & ~features) == 0) top = i;
    return levels[top].name;
}

/* The features of compute capability cc that this build has code for. */
static unsigned built_features(int cc)
{
    unsigned built = 0;
    for (int i = 0; i < LEVELS; i++)
        if (sg_gpu_runs(cc, levels[i].code)) built |= levels[i].needs;
    return built & sg_gpu_features(cc);
}

/* The features of compute capability cc that o lets us use. Held below what the device has, it has no more shared
 * memory than the least of its kind, and cuDNN no say. */
static sg_status take_features(sg_cuda *c, const sg_backend_options *o, const char *name, int cc, sg_error *e)
{
    const unsigned all = sg_gpu_features(cc), own = built_features(cc), asked = o->gpu_mask ? o->gpu_mask : own;
    const bool     held = o->gpu_mask && asked != all;
    if (!all)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s has compute capability %d.%d; 8.0 is the least", name, cc / 10,
                            cc % 10);
    if (!own)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s has compute capability %d.%d; this build has code for %s", name,
                            cc / 10, cc % 10, levels[0].code);
    if (asked & ~own)
        return sg_error_set(e, SG_E_UNSUPPORTED,
                            "gpu_mask=LEVEL: %s has compute capability %d.%d, whose level is %s%s; it lacks %s", name,
                            cc / 10, cc % 10, level_name(own), own == all ? "" : " in this build", level_name(asked));
    c->features = asked;
    c->dnn_min_macs = held ? SG_DNN_NEVER : o->dnn_min_macs ? o->dnn_min_macs : SG_DNN_MIN_MACS;
    c->lt_min_macs = o->dnn_min_macs ? o->dnn_min_macs : SG_LT_MIN_MACS;
    c->processors = attribute(c, cudaDevAttrMultiProcessorCount);
    c->smem_max = (size_t)attribute(c, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (held && c->smem_max > SG_CUDA_SMEM_MIN) c->smem_max = SG_CUDA_SMEM_MIN;
    return SG_OK;
}

sg_status sg_cuda_touch(int *device, const sg_backend_options *o, sg_error *e)
{
    int         devices = 0;
    cudaError_t failed = cudaGetDeviceCount(&devices);
    if (failed) return refusal(e, failed);
    if (devices == 0) return refusal(e, cudaErrorNoDevice);
    SG_TRY(sg_backend_choose_gpu(device, o, devices, e));
    failed = cudaSetDevice(*device);
    return failed ? refusal(e, failed) : SG_OK;
}

/* The device and its memory. */
static sg_status open_device(sg_cuda *c, sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    struct cudaDeviceProp p;
    size_t                free_bytes = 0, all = 0;
    int                   devices = 0;
    SG_TRY(sg_cuda_touch(&c->device, o, e));
    cudaError_t failed = cudaGetDeviceCount(&devices);
    if (!failed) failed = cudaGetDeviceProperties(&p, c->device);
    if (failed) return refusal(e, failed);
    const int cc = 10 * p.major + p.minor;
    SG_TRY(take_features(c, o, p.name, cc, e));
    failed = cudaStreamCreateWithFlags(&c->queue, cudaStreamNonBlocking);
    if (!failed) failed = sg_cuda_memory_open(c);
    if (!failed) failed = cudaMemGetInfo(&free_bytes, &all);
    if (failed) return refusal(e, failed);
    b->total_bytes = free_bytes > SG_CUDA_WORK_BYTES ? free_bytes - SG_CUDA_WORK_BYTES : 0;
    const char *const as = o->gpu_mask ? level_name(c->features) : "";
    snprintf(b->device, sizeof b->device, "%.100s, %zu GiB, sm_%d%s%s", p.name, all >> 30, cc, *as ? " as " : "", as);
    if (devices > 1) sg_text_append(b->device, sizeof b->device, ", device %d", c->device);
    return SG_OK;
}

/* The table of what the device has; then steps, which stand before all of its entries. */
static sg_status fill_table(sg_cuda *c, sg_error *e)
{
    for (int i = 0; i < LEVELS; i++)
        if ((levels[i].needs & ~c->features) == 0) levels[i].fill(&c->ops);
    c->ops.fetch = sg_cuda_fetch;
    return sg_graph_open(c, e);
}

static void close_all(sg_cuda *c)
{
    if (c->queue) cudaStreamSynchronize(c->queue);
    sg_graph_close(c);
    sg_dnn_close(c);
    sg_lt_close(c);
    sg_cuda_clocks_close(c);
    sg_cuda_memory_close(c);
    if (c->queue) cudaStreamDestroy(c->queue);
    cudaGetLastError();
    free(c);
}

static void close_backend(sg_backend *b)
{
    int        was;
    const bool known = cudaGetDevice(&was) == cudaSuccess;
    sg_cuda_enter(b);
    close_all(b->impl);
    if (known) cudaSetDevice(was);
    cudaGetLastError();
}

sg_status sg_cuda_open(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    sg_cuda *const c = calloc(1, sizeof *c);
    if (!c) return sg_error_set(e, SG_E_MEMORY, "no memory for the cuda backend");
    if (cudaGetDevice(&c->program_device) != cudaSuccess) c->program_device = -1;
    sg_status status = open_device(c, b, o, e);
    if (!status) status = fill_table(c, e);
    if (status) {
        close_all(c);
        return status;
    }
    b->name = "cuda";
    b->ops = &c->ops;
    b->memory = &sg_cuda_memory;
    b->impl = c;
    b->call = (sg_backend_calls){.close = close_backend,
                                 .make_current = sg_cuda_enter,
                                 .count = sg_plan_count_gpu,
                                 .served = served,
                                 .clocks = sg_cuda_clocks,
                                 .packed_bytes = sg_cuda_work_bytes};
    b->dtype = SG_BF16;
    b->values = SG_BF16;
    b->f8 = c->features & SG_GPU_WGMMA ? SG_F8_FAST : c->features & SG_GPU_FP8 ? SG_F8_SLOW : SG_F8_NONE;
    b->threads = o->threads > 0 ? o->threads : omp_get_max_threads();
    return SG_OK;
}
