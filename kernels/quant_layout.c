/* quant_layout.c - see quant.h: what quantised weights take, and where. */
#include "quant.h"

#include <string.h>

static const struct {
    const char *name;
    int         block, bytes;
} types[SG_QUANT_COUNT] = {
#define X(name, block, bytes, scale, minimum) [SG_QUANT_##name] = {#name, block, bytes},
    SG_QUANT_TYPES(X)
#undef X
};

sg_quant_type sg_quant_of(const char *name)
{
    int t = SG_QUANT_COUNT - 1;
    while (t > SG_QUANT_NONE && strcmp(types[t].name, name) != 0) t--;
    return (sg_quant_type)t;
}

const char *sg_quant_name(sg_quant_type t) { return types[t].name; }
int         sg_quant_block(sg_quant_type t) { return types[t].block; }
size_t      sg_quant_bytes(sg_quant_type t, int64_t n) { return (size_t)(n / types[t].block) * (size_t)types[t].bytes; }

size_t sg_quant_scales_at(const sg_tensor *w)
{
    const sg_quant *const q = &w->quant;
    const size_t          row = sg_quant_bytes((sg_quant_type)q->type, w->dim[1]);
    return sg_aligned(row * (size_t)(q->all ? q->all : w->dim[0])) - row * (size_t)q->first;
}

int64_t sg_quant_scales(const sg_tensor *w)
{
    const sg_quant *const q = &w->quant;
    return q->scale_rows ? sg_div_up(q->first + w->dim[0], q->scale_rows) * sg_div_up(w->dim[1], q->scale_columns) : 0;
}
