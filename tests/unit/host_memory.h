/* host_memory.h - the heap as a device's memory, for streams without a backend. */
#ifndef SG_HOST_MEMORY_H
#define SG_HOST_MEMORY_H

#include "op.h"

#include <stdlib.h>
#include <string.h>

static inline sg_status host_copy(sg_stream *s, void *to, const void *from, size_t n)
{
    (void)s;
    memcpy(to, from, n);
    return SG_OK;
}

static inline void *host_alloc(const sg_backend *b, size_t bytes)
{
    (void)b;
    return aligned_alloc(SG_ALIGN, (bytes + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN);
}

static inline void host_release(const sg_backend *b, void *p)
{
    (void)b;
    free(p);
}

static const sg_memory host_memory = {
    .alloc = host_alloc, .release = host_release, .upload = host_copy, .download = host_copy};

#endif
