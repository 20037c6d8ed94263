/* device.c - see device.h. */
#include "device.h"

#include <string.h>

sg_status sg_device_dtype(sg_dtype *out, const char *name, const sg_backend *b, sg_error *e)
{
    if (!name || strcmp(name, "auto") == 0)
        *out = b->dtype;
    else if (strcmp(name, "f32") == 0)
        *out = SG_F32;
    else if (strcmp(name, "bf16") == 0)
        *out = SG_BF16;
    else
        return sg_error_set(e, SG_E_ARG, "dtype \"%s\" is unknown; known are auto, f32, bf16", name);
    return SG_OK;
}

sg_status sg_device_take(sg_stream *s, size_t keep, size_t scratch, sg_error *e)
{
    sg_arena *const arena[2] = {&s->keep, &s->scratch};
    const size_t    bytes[2] = {keep, scratch};
    for (int i = 0; i < 2; i++) {
        void *const block = bytes[i] ? s->memory->alloc(s->backend, bytes[i]) : NULL;
        if (bytes[i] && !block) {
            if (i) s->memory->release(s->backend, (void *)s->keep.base);
            s->keep = (sg_arena){0};
            return sg_error_set(e, SG_E_MEMORY, "the device cannot give %zu bytes", bytes[i]);
        }
        *arena[i] = (sg_arena){.base = (uintptr_t)block, .cap = bytes[i]};
    }
    return SG_OK;
}

void sg_device_release(sg_stream *s)
{
    s->memory->release(s->backend, (void *)s->keep.base);
    s->memory->release(s->backend, (void *)s->scratch.base);
    s->keep = s->scratch = (sg_arena){0};
}

size_t sg_device_staged(const sg_plan_totals *t) { return t->staged[0] + t->staged[1] + t->transformed + t->attended; }
