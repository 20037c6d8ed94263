/* causal.c - see causal.h. */
#include "causal.h"

#include <stdlib.h>

sg_tensor sg_causal_bias(sg_stream *s, int heads, int n)
{
    const size_t    count = (size_t)n;
    const sg_tensor bias = sg_new(s, SG_F32, heads, n, n);
    float *const    host = s->status ? NULL : calloc((size_t)heads * count, count * sizeof *host);
    if (!s->status && !host) sg_fail(s, SG_E_MEMORY, "no memory for the mask of %d tokens", n);
    for (size_t row = 0; host && row < (size_t)heads * count; row++)
        for (size_t j = row % count + 1; j < count; j++) host[row * count + j] = -1e30f;
    if (host) sg_upload(s, bias, host);
    free(host);
    return bias;
}
