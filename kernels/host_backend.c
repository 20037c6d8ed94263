/* host_backend.c - backends in the memory of the host, and the oracle, which is one. */
#include "host_backend.h"
#include "meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

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

sg_status sg_ref_backend_open(sg_backend *b, const sg_backend_options *o, sg_error *e)
{
    SG_TRY(sg_host_open(b, "ref", o, e));
    b->ops = &sg_ref_ops;
    b->call.count = sg_plan_count;
    b->threads = 1;
    b->dtype = SG_F32;
    b->values = SG_BF16;
    b->f8 = SG_F8_SLOW;
    snprintf(b->device, sizeof b->device, "the oracle in double precision, slow");
    return SG_OK;
}
