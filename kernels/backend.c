/* backend.c - the devices by name: the only file that knows them all. */
#include "backend.h"

#include "cpu/cpu.h"
#include "meta.h"

#if SG_CUDA
#include "cuda_backend.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

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

enum { HUGE_PAGE = 2 << 20 };

/* Large blocks come in pages of 2 MiB: the first use of 4 KiB costs 1.4 us a page, of 2 MiB a third of that for the same
 * bytes. */
static void *host_alloc(const sg_backend *b, size_t bytes)
{
    (void)b;
    if (bytes > SIZE_MAX - SG_ALIGN) return NULL;
    const size_t align = bytes < 2 * HUGE_PAGE ? SG_ALIGN : HUGE_PAGE, whole = (bytes + align - 1) / align * align;
    void *const  p = aligned_alloc(align, whole ? whole : align);
    if (p && align == HUGE_PAGE) (void)madvise(p, bytes / align * align, MADV_HUGEPAGE); /* not all systems have them */
    return p;
}

static void host_release(const sg_backend *b, void *p)
{
    (void)b;
    free(p);
}

static sg_status host_copy(sg_stream *s, void *to, const void *from, size_t bytes)
{
    (void)s;
    memcpy(to, from, bytes);
    return SG_OK;
}

static const sg_memory host_memory = {
    .alloc = host_alloc, .release = host_release, .upload = host_copy, .download = host_copy};

sg_status sg_host_open(sg_backend *b, const char *name, const sg_backend_options *o, sg_error *e)
{
    if (o->device) return sg_error_set(e, SG_E_ARG, "device: backend %s has no GPU %d", name, o->device);
    b->name = name;
    b->memory = &host_memory;
    b->host_memory = b->process_memory = b->synchronous = true;
    return SG_OK;
}

static sg_status open_ref(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    SG_TRY(sg_host_open(b, "ref", o, e));
    b->ops = &sg_ref_ops;
    b->call.count = sg_plan_count;
    b->threads = 1;
    b->dtype = SG_F32;
    b->values = SG_BF16;
    b->f8 = true;
    snprintf(b->device, sizeof b->device, "the oracle in double precision, slow");
    return SG_OK;
}

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

static const struct {
    const char *name;
    sg_status (*open)(sg_backend *b, const sg_backend_options *o, sg_error *e);
} backends[] = {{"auto", open_auto}, {"cuda", sg_cuda_open}, {"cpu", sg_cpu_backend_open}, {"ref", open_ref}};

static sg_status open_named(sg_backend *b, const char *name, const sg_backend_options *o, sg_error *e)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcmp(name, backends[i].name) == 0) return backends[i].open(b, o, e);
    return sg_error_set(e, SG_E_ARG, "backend \"%s\" is not known; auto, cuda, cpu and ref are", name);
}

sg_status sg_backend_open(sg_backend **out, const sg_backend_options *o, sg_error *e)
{
    *out = NULL;
    if (o->threads < 0) return sg_error_set(e, SG_E_ARG, "threads is %d; it should be 0 or more", o->threads);
    if (o->device < 0) return sg_error_set(e, SG_E_ARG, "device is %d; it should be 0 or more", o->device);
    if (o->local_rank < 0) return sg_error_set(e, SG_E_ARG, "local_rank is %d; it should be 0 or more", o->local_rank);
    sg_backend *b = calloc(1, sizeof *b);
    if (!b) return sg_error_set(e, SG_E_MEMORY, "no memory for a backend");
    b->total_bytes = b->host_bytes = sg_free_bytes();
    sg_status status = sg_cpu_features_of(&b->features, o->cpu_mask, e);
    if (!status) status = open_named(b, o->name ? o->name : "auto", o, e);
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

void sg_backend_make_current(const sg_backend *b)
{
    if (b->call.make_current) b->call.make_current(b);
}

sg_stream sg_stream_of(const sg_backend *b)
{
    sg_backend_make_current(b);
    return (sg_stream){.ops = b->ops, .memory = b->memory, .backend = b, .impl = b->impl};
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

void sg_backend_count(const sg_backend *b, sg_plan_totals *t, const char *op, const void *args)
{
    b->call.count(b, t, op, args);
}

void sg_backend_served(const sg_backend *b, char *text, size_t size)
{
    if (size) text[0] = '\0';
    if (b->call.served) b->call.served(b, text, size);
}

size_t sg_backend_packed_bytes(const sg_backend *b) { return b->call.packed_bytes ? b->call.packed_bytes(b) : 0; }

size_t sg_backend_code_bytes(const sg_backend *b) { return b->call.code_bytes ? b->call.code_bytes(b) : 0; }

uint64_t sg_backend_packed_numbers(const sg_backend *b, const sg_tensor *w)
{
    return b->call.packed_numbers ? b->call.packed_numbers(b, w) : (uint64_t)sg_count(*w);
}

void sg_backend_pack(const sg_backend *b, const sg_tensor *w)
{
    if (b->call.pack && w->data) b->call.pack(b, w);
}

void sg_backend_limit_packed(sg_backend *b, size_t bytes)
{
    if (b->call.limit_packed) b->call.limit_packed(b, bytes);
}

void sg_backend_drop_scratch(sg_backend *b)
{
    if (b->call.drop_scratch) b->call.drop_scratch(b);
}

void sg_backend_drop_packed(sg_backend *b)
{
    if (b->call.drop_packed) b->call.drop_packed(b);
}
