/* text_layers.c - see text_layers.h. */
#include "text_layers.h"

#include <stdlib.h>

void *sg_layers_new(const sg_component *p, const char *key, int all, int count, size_t size, sg_status *status,
                    sg_error *e)
{
    const size_t tensors = sg_source_count(p->source);
    const bool   fits = (size_t)all <= tensors;
    void *const  layers = fits ? calloc(count ? (size_t)count : 1, size) : NULL;
    *status = SG_OK;
    if (!fits)
        *status = sg_error_set(e, SG_E_FORMAT, "%s/config.json: %s: %d, but the weights are %zu tensors in all", p->dir,
                               key, all, tensors);
    else if (!layers)
        *status = sg_error_set(e, SG_E_MEMORY, "no memory for %d layers", count);
    return layers;
}

void sg_gated_feed_forward(sg_stream *s, const sg_gated *w, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const sg_dtype  act = w->gate.dtype;
    const int64_t   n = x.dim[0], c = x.dim[1], f = w->gate.dim[0];
    const sg_tensor y = sg_new(s, act, n, c), g = sg_new(s, act, n, f), u = sg_new(s, act, n, f);
    const sg_tensor p = sg_new(s, act, n, f);
    sg_norm(s, .y = y, .x = x, .w = w->norm, .kind = SG_NORM_RMS, .eps = w->eps);
    sg_linear(s, .y = g, .x = y, .w = w->gate, .act = w->act);
    sg_linear(s, .y = u, .x = y, .w = w->up);
    sg_mul(s, .y = p, .a = g, .b = u);
    sg_linear(s, .y = x, .x = p, .w = w->down, .add = true);
    s->scratch.used = mark;
}
