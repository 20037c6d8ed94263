/* backend_calls.c - what is asked of a backend that is open: its own calls, where it has them. */
#include "backend.h"

void sg_backend_make_current(const sg_backend *b)
{
    if (b->call.make_current) b->call.make_current(b);
}

sg_stream sg_stream_of(const sg_backend *b)
{
    sg_backend_make_current(b);
    return (sg_stream){.ops = b->ops, .memory = b->memory, .backend = b, .impl = b->impl};
}

void sg_backend_served(const sg_backend *b, char *text, size_t size)
{
    if (size) text[0] = '\0';
    if (b->call.served) b->call.served(b, text, size);
}

bool sg_backend_clocks(const sg_backend *b, sg_clocks *out) { return b->call.clocks && b->call.clocks(b, out); }

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

void sg_backend_drop_packed(sg_backend *b) { sg_backend_drop_packed_in(b, 0, SIZE_MAX); }

void sg_backend_drop_packed_in(sg_backend *b, uintptr_t from, size_t bytes)
{
    if (b->call.drop_packed) b->call.drop_packed(b, from, bytes);
}
