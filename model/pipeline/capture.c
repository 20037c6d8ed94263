/* capture.c - q, k and v of one self-attention of a render, into a file. */
#include "render.h"
#include "safetensors_write.h"

#include <stdio.h>
#include <stdlib.h>

/* t on the host, its rows put back. Text at either end stays where it is, and so do the rows of a group. */
static sg_tensor taken(const sg_capture *c, sg_stream *s, const sg_attention_shape *shape, sg_tensor t)
{
    const size_t  bytes = sg_bytes(t), row = bytes / (size_t)t.dim[0];
    const int64_t end = t.dim[0] - shape->text_suffix;
    char *const as_is = malloc(bytes), *const by_row = malloc(bytes);
    if (as_is && by_row) {
        sg_download(s, as_is, t);
        for (int64_t i = 0; i < t.dim[0]; i++) {
            const bool    moved = c->order && !c->group && i >= shape->text_prefix && i < end;
            const int64_t to = moved ? shape->text_prefix + c->order[i - shape->text_prefix] : i;
            memcpy(by_row + (size_t)to * row, as_is + (size_t)i * row, row);
        }
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory to capture %zu bytes", bytes);
    }
    free(as_is);
    t.data = by_row;
    return t;
}

void sg_capture_hook(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                     double timestep, const sg_attend_args *args)
{
    sg_capture *const c = context;
    if (s->memory->alloc && layer == c->layer && step == c->step && pass == 0) { /* a plan has no data */
        sg_capture_free(c);
        c->group = shape->groups.count > 1 ? shape->n : 0;
        c->q = taken(c, s, shape, args->q);
        c->k = taken(c, s, shape, args->k);
        c->v = taken(c, s, shape, args->v);
        c->text_prefix = shape->text_prefix;
        c->text_suffix = shape->text_suffix;
        c->timestep = timestep;
    }
    if (c->next) c->next(c->next_context, s, shape, layer, step, pass, timestep, args);
}

sg_status sg_capture_write(const sg_capture *c, const char *path, const int64_t grid[3], sg_error *e)
{
    char layer[16], step[16], prefix[24], suffix[24], timestep[32], sides[80];
    snprintf(layer, sizeof layer, "%d", c->layer);
    snprintf(step, sizeof step, "%d", c->step);
    snprintf(prefix, sizeof prefix, "%lld", (long long)c->text_prefix);
    snprintf(suffix, sizeof suffix, "%lld", (long long)c->text_suffix);
    snprintf(timestep, sizeof timestep, "%.9g", c->timestep);
    if (c->group)
        snprintf(sides, sizeof sides, "1,1,%lld", (long long)c->group);
    else
        snprintf(sides, sizeof sides, "%lld,%lld,%lld", (long long)grid[0], (long long)grid[1], (long long)grid[2]);
    const char *const     metadata[] = {"grid", sides,  "text_prefix", prefix,     "text_suffix", suffix, "layer",
                                        layer,  "step", step,          "timestep", timestep,      NULL};
    const sg_named_tensor all[] = {{"q", c->q}, {"k", c->k}, {"v", c->v}};
    return sg_safetensors_write_all(path, all, 3, metadata, e);
}

void sg_capture_free(sg_capture *c)
{
    sg_tensor *const t[] = {&c->q, &c->k, &c->v};
    for (int i = 0; i < 3; i++) {
        free(t[i]->data);
        *t[i] = (sg_tensor){0};
    }
}
