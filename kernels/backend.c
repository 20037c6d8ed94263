/* backend.c - the devices by name: the only file that knows them all. */
#include "backend.h"

#include "cpu/cpu.h"
#include "host_backend.h"
#include "meta/meta.h"

#if SG_CUDA
#include "cuda_backend.h"
#endif

#include <stdio.h>
#include <stdlib.h>

#if !SG_CUDA
static sg_status sg_cuda_open(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    (void)b, (void)o;
    return sg_error_set(e, SG_E_UNSUPPORTED, "this build has no cuda backend");
}
static sg_status sg_cuda_touch(int *device, const sg_backend_options *o, sg_error *e)
{
    *device = 0;
    return sg_cuda_open(NULL, o, e);
}
#endif

/* Whether auto takes the CPU when no GPU opens; the failure of a GPU that is there is reported. */
static bool may_do_without(const sg_backend_options *o, sg_status status)
{
    return status == SG_E_UNSUPPORTED && o->gpu_mask == 0 && !o->device;
}

static void say_passed(sg_backend *b, const sg_backend_options *o, const char *why)
{
    char driver[32];
    if (!sg_gpu_is_there(o->root, driver, sizeof driver)) return;
    snprintf(b->passed, sizeof b->passed, "not on the NVIDIA card%s%s%s: %.180s", *driver ? " (driver " : "", driver,
             *driver ? ")" : "", why);
}

static sg_status open_auto(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    sg_error        why = {0};
    const sg_status status = sg_cuda_open(b, o, &why);
    if (may_do_without(o, status)) {
        say_passed(b, o, why.text);
        return sg_cpu_backend_open(b, o, e);
    }
    return sg_error_copy(e, &why);
}

static sg_status open_gpu(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    sg_error        why = {0};
    const sg_status status = sg_cuda_open(b, o, &why);
    if (status != SG_E_UNSUPPORTED || !o->plan_only) return sg_error_copy(e, &why);
    sg_plan_gpu(b, o->threads > 0 ? o->threads : 1);
    return SG_OK;
}

enum { THREADS = 4096 }; /* at most */

static const struct {
    const char *name;
    sg_status (*open)(sg_backend *b, const sg_backend_options *o, sg_error *e);
} backends[] = {{"auto", open_auto}, {"cuda", open_gpu}, {"cpu", sg_cpu_backend_open}, {"ref", sg_ref_backend_open}};

static sg_status open_named(sg_backend *b, const char *name, const sg_backend_options *o, sg_error *e)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcmp(name, backends[i].name) == 0) return backends[i].open(b, o, e);
    return sg_error_set(e, SG_E_ARG, "backend \"%s\" is not known; auto, cuda, cpu and ref are", name);
}

sg_status sg_backend_open(sg_backend **out, const sg_backend_options *o, sg_error *e)
{
    *out = NULL;
    if (o->threads < 0 || o->threads > THREADS) /* OpenMP ends the process where it cannot start them */
        return sg_error_set(e, SG_E_ARG, "threads is %d; it should be 0 to %d", o->threads, THREADS);
    if (o->device < 0) return sg_error_set(e, SG_E_ARG, "device is %d; it should be 0 or more", o->device);
    if (o->local_rank < 0) return sg_error_set(e, SG_E_ARG, "local_rank is %d; it should be 0 or more", o->local_rank);
    sg_backend *b = calloc(1, sizeof *b);
    if (!b) return sg_error_set(e, SG_E_MEMORY, "no memory for a backend");
    b->total_bytes = b->host_bytes = sg_free_bytes();
    b->features = sg_cpu_features_of(o->cpu_mask);
    const sg_status status = open_named(b, o->name ? o->name : "auto", o, e);
    if (status) {
        sg_backend_close(&b);
        return status;
    }
    *out = b;
    return SG_OK;
}

sg_status sg_backend_touch(const sg_backend_options *o, sg_error *e)
{
    const char *const name = o->name ? o->name : "auto";
    const bool        automatic = strcmp(name, "auto") == 0;
    int               device;
    if (!automatic && strcmp(name, "cuda") != 0) return SG_OK;
    const sg_status status = sg_cuda_touch(&device, o, e);
    return automatic && may_do_without(o, status) ? SG_OK : status;
}

void sg_backend_close(sg_backend **b)
{
    if (!b || !*b) return;
    if ((*b)->call.close) (*b)->call.close(*b);
    free(*b);
    *b = NULL;
}

sg_build sg_backend_build(void)
{
    sg_build build = {0};
#if SG_CUDA
    build.cuda = SG_CUDA_VERSION;
    build.cuda_targets = SG_CUDA_TARGETS;
#endif
#if SG_ONEDNN
    sg_onednn_version(build.onednn, sizeof build.onednn);
#endif
    return build;
}
