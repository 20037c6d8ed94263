/* self_attention.c - see self_attention.h. */
#include "self_attention.h"

#include <stdlib.h>

static bool same_shape(const sg_attention_shape *a, const sg_attention_shape *b)
{
    return a->n == b->n && a->m == b->m && a->h == b->h && a->hk == b->hk && a->d == b->d &&
           a->text_prefix == b->text_prefix && a->text_suffix == b->text_suffix && a->masked == b->masked;
}

/* Which of the bound shapes x is; a->shapes when it is none of them. */
static int find(const sg_self_attention *a, const sg_attention_shape *x)
{
    int k = 0;
    while (k < a->shapes && !same_shape(&a->shape[k], x)) k++;
    return k;
}

static sg_status no_memory(sg_error *e) { return sg_error_set(e, SG_E_MEMORY, "no memory for self-attention"); }

static sg_status bind(sg_self_attention *a, const sg_policy *p, const sg_attention_shape *x, sg_error *e)
{
    const size_t              count = (size_t)a->shapes + 1;
    sg_attention_shape *const shape = realloc(a->shape, count * sizeof *shape);
    if (shape) a->shape = shape;
    sg_attention **const bound = realloc(a->bound, count * sizeof(sg_attention *));
    if (bound) a->bound = bound;
    if (!shape || !bound) return no_memory(e);
    SG_TRY(sg_attention_open(&a->bound[a->shapes], p, x, e));
    a->shape[a->shapes] = *x;
    a->shape[a->shapes++].timesteps = NULL; /* borrowed until now alone */
    return SG_OK;
}

sg_status sg_self_attention_open(sg_self_attention *a, const sg_policy *p, const sg_attention_shape *shape, sg_error *e)
{
    const int slots = shape->passes * shape->layers;
    *a = (sg_self_attention){.steps = shape->steps, .passes = shape->passes, .layers = shape->layers};
    a->at = calloc((size_t)slots, sizeof *a->at);
    if (!a->at) return no_memory(e);
    for (int i = 0; i < slots; i++) {
        a->at[i] = find(a, &shape[i]);
        if (a->at[i] == a->shapes) SG_TRY(bind(a, p, &shape[i], e));
    }
    return SG_OK;
}

void sg_self_attention_close(sg_self_attention *a)
{
    for (int k = 0; k < a->shapes; k++) sg_attention_close(&a->bound[k]);
    free(a->bound);
    free(a->shape);
    free(a->at);
    *a = (sg_self_attention){0};
}

const sg_attention_shape *sg_self_attention_shape(const sg_self_attention *a, int pass, int layer)
{
    return &a->shape[a->at[pass * a->layers + layer]];
}

bool sg_self_attention_skips(const sg_self_attention *a)
{
    for (int k = 0; k < a->shapes; k++)
        if (sg_attention_skips(a->bound[k])) return true;
    return false;
}

void sg_self_attention_place(const sg_self_attention *a, sg_stream *s)
{
    for (int k = 0; k < a->shapes; k++) sg_attention_upload(a->bound[k], s);
}

int sg_self_attention_same_steps(const sg_self_attention *a, int step)
{
    int least = a->steps - step;
    for (int k = 0; k < a->shapes; k++) {
        const int steps = sg_attention_same_steps(a->bound[k], step);
        if (steps < least) least = steps;
    }
    return least;
}

void sg_self_attention_enter(const sg_self_attention *a, sg_stream *s, double timestep)
{
    for (int k = 0; k < a->shapes; k++) sg_attention_set_timestep(a->bound[k], s, timestep);
}

void sg_self_attention_run(const sg_self_attention *a, sg_stream *s, int layer, int step, int pass, double timestep,
                           const sg_attend_args *args)
{
    sg_attention_run(a->bound[a->at[pass * a->layers + layer]], s, layer, step, pass, timestep, args);
}

sg_status sg_self_attention_counts(const sg_self_attention *a, sg_stream *s, int step, sg_attention_count *out)
{
    const int                 slots = a->passes * a->layers;
    sg_attention_count *const of_shape = calloc((size_t)slots, sizeof *of_shape);
    if (!of_shape) sg_fail(s, SG_E_MEMORY, "no memory for counters of %d layers", slots);
    for (int k = 0; k < a->shapes && !s->status; k++) {
        if (sg_attention_counts(a->bound[k], s, step, of_shape)) break;
        for (int i = 0; i < slots; i++)
            if (a->at[i] == k) out[i] = of_shape[i];
    }
    free(of_shape);
    return s->status;
}
