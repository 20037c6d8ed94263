/* backend.c - the devices by name: the only file that knows them all. */
#include "backend.h"

#include "cpu/cpu.h"
#include "cpu/winograd.h"

#if SG_CUDA
#include "cuda_backend.h"
#endif

#include <omp.h>
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
static void   sg_cuda_close(sg_backend *b) { (void)b; }
static size_t sg_cuda_work_bytes(const sg_backend *b) { return (void)b, (size_t)0; }
static void   sg_cuda_served(const sg_backend *b, char *text, size_t size) { (void)b, (void)text, (void)size; }
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

static sg_status open_cpu(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    unsigned mask = o->cpu_mask;
    SG_TRY(sg_cpu_mask_resolve(&mask, e));
    sg_cpu *const c = sg_cpu_open(o->threads, mask, b->total_bytes / 8);
    if (!c) return sg_error_set(e, SG_E_MEMORY, "no memory for the cpu backend");
    char brand[64];
    sg_cpu_brand(brand, sizeof brand);
    b->name = "cpu";
    b->ops = &c->ops;
    b->impl = c;
    b->threads = c->threads;
    b->dtype = c->native_bf16 ? SG_BF16 : SG_F32;
    b->values = sg_cpu_level_of(c->features)->values;
    b->packs = true;
    snprintf(b->device, sizeof b->device, "%s, %s%s, %d thread%s", brand, sg_cpu_level_of(c->features)->label,
             c->library ? ", oneDNN" : "", c->threads, c->threads == 1 ? "" : "s");
    return SG_OK;
}

static sg_status open_ref(sg_backend *b)
{
    b->name = "ref";
    b->ops = &sg_ref_ops;
    b->threads = 1;
    b->dtype = SG_F32;
    b->values = SG_BF16;
    b->f8 = true;
    snprintf(b->device, sizeof b->device, "the oracle in double precision, slow");
    return SG_OK;
}

static sg_status open_cuda(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    SG_TRY(sg_cuda_open(b, o, e));
    b->threads = o->threads > 0 ? o->threads : omp_get_max_threads();
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
    const sg_status status = open_cuda(b, o, &why);
    if (may_do_without(o, status)) {
        say_passed(b, o, why.text);
        return open_cpu(b, o, e);
    }
    return sg_error_copy(e, &why);
}

static sg_status open_named(sg_backend *b, const char *name, const sg_backend_options *o, sg_error *e)
{
    if (strcmp(name, "auto") == 0) return open_auto(b, o, e);
    if (strcmp(name, "cuda") == 0) return open_cuda(b, o, e);
    if (o->device && (strcmp(name, "cpu") == 0 || strcmp(name, "ref") == 0))
        return sg_error_set(e, SG_E_ARG, "device: backend %s has no GPU %d", name, o->device);
    if (strcmp(name, "cpu") == 0) return open_cpu(b, o, e);
    if (strcmp(name, "ref") == 0) return open_ref(b);
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
    b->memory = &host_memory;
    b->host_memory = true;
    b->total_bytes = b->host_bytes = sg_free_bytes();
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
    if ((*b)->host_memory)
        sg_cpu_close((*b)->impl);
    else
        sg_cuda_close(*b);
    free(*b);
    *b = NULL;
}

void sg_backend_make_current(const sg_backend *b)
{
    if (b->make_current) b->make_current(b);
}

sg_stream sg_stream_of(const sg_backend *b)
{
    sg_backend_make_current(b);
    return (sg_stream){.ops = b->ops, .memory = b->memory, .backend = b, .impl = b->impl};
}

size_t sg_backend_packed_bytes(const sg_backend *b)
{
    if (!b->host_memory) return sg_cuda_work_bytes(b);
    const sg_cpu *const c = b->impl;
    size_t              bytes = c ? c->pack_bytes : 0;
    for (int i = 0; c && i < SG_SLOTS; i++) bytes += c->block[i].bytes;
    return bytes;
}

void sg_backend_served(const sg_backend *b, char *text, size_t size)
{
    if (size) text[0] = '\0';
    if (!b->host_memory) sg_cuda_served(b, text, size);
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

#if SG_ONEDNN
/* What oneDNN reads in of its code, and generates for products, beside what it generates for convolutions: measured. */
enum { CODE_BYTES = 3 << 20 };

static sg_cpu *with_library(const sg_backend *b)
{
    sg_cpu *const c = b->host_memory ? b->impl : NULL;
    return c && c->library ? c : NULL;
}

void sg_backend_prepare_linear(const sg_backend *b, const sg_linear_args *a)
{
    const sg_cpu *const c = with_library(b);
    if (c) sg_onednn_prepare_linear(c, a);
}

void sg_backend_prepare_conv(const sg_backend *b, const sg_conv_args *a)
{
    const sg_cpu *const c = with_library(b);
    if (c && !sg_backend_transform_bytes(b, a)) sg_onednn_prepare_conv(c, a);
}

void sg_backend_pack(const sg_backend *b, const sg_tensor *w)
{
    sg_cpu *const c = with_library(b);
    if (c && w->data) sg_onednn_pack(c, w);
}

size_t sg_backend_code_bytes(const sg_backend *b)
{
    const sg_cpu *const c = with_library(b);
    return c ? CODE_BYTES + sg_onednn_code_bytes(c) : 0;
}
#else
void   sg_backend_prepare_linear(const sg_backend *b, const sg_linear_args *a) { (void)b, (void)a; }
void   sg_backend_prepare_conv(const sg_backend *b, const sg_conv_args *a) { (void)b, (void)a; }
void   sg_backend_pack(const sg_backend *b, const sg_tensor *w) { (void)b, (void)w; }
size_t sg_backend_code_bytes(const sg_backend *b) { return (void)b, (size_t)0; }
#endif

size_t sg_backend_transform_bytes(const sg_backend *b, const sg_conv_args *a)
{
    const sg_cpu *const c = b->host_memory ? b->impl : NULL;
    const sg_stream     s = {.impl = b->impl};
    return c && sg_winograd_takes(&s, a) ? sg_winograd_bytes(a, c->threads) : 0;
}

uint64_t sg_backend_packed_numbers(const sg_backend *b, const sg_tensor *w)
{
    const sg_cpu *const c = b->host_memory ? b->impl : NULL;
    const uint64_t      n = (uint64_t)sg_count(*w);
    return c && sg_winograd_kernel(w->dim, w->rank) && !(c->native_bf16 && w->dtype == SG_BF16) ? n / 9 * 16 : n;
}

void sg_backend_drop_packed(sg_backend *b)
{
    if (b->impl && b->host_memory) sg_packs_drop(b->impl);
}

void sg_backend_drop_scratch(sg_backend *b)
{
    if (b->impl && b->host_memory) sg_cpu_scratch_drop(b->impl);
}

void sg_backend_limit_packed(sg_backend *b, size_t bytes)
{
    sg_cpu *const c = b->host_memory ? b->impl : NULL;
    const size_t  eighth = b->total_bytes / 8;
    if (c) c->pack_limit = bytes < eighth ? bytes : eighth;
}
