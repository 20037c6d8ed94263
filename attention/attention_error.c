/* attention_error.c - see attention_error.h. */
#include "attention_error.h"

#include "backend.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

/* One call of attention. */
typedef struct call {
    sg_attention_error       *e;
    const sg_attention_shape *shape;
    int                       layer, step, pass;
    const sg_attend_args     *x;
} call;

/* The first of the `run` queries to measure in part i of `count` equal parts of them all. */
static int64_t query_of(const call *c, int64_t i, int64_t count, int64_t run)
{
    const int64_t n = c->x->q.dim[0], first = n * i / count, end = n * (i + 1) / count;
    return first + (3 * c->step + 5 * c->pass + 7 * c->layer + 11 * i) % (end - first - run + 1);
}

/* Indices of the sampled rows of q as [n h, d]. Heads that share keys become queries of one head: [count g, hk]. */
static sg_tensor choose_rows(const call *c, sg_stream *s, int64_t count)
{
    const int64_t   h = c->x->q.dim[1], hk = c->x->k.dim[1], g = h / hk;
    const sg_tensor ids = sg_new(s, SG_I32, count * h);
    int32_t *const  host = malloc(sg_bytes(ids));
    if (!host) sg_fail(s, SG_E_MEMORY, "no memory for %lld rows of attention", (long long)(count * h));
    for (int64_t i = 0; host && i < count * h; i++) {
        const int64_t query = query_of(c, i / h, count, 1), of = i / hk % g, head = i % hk;
        host[i] = (int32_t)(query * h + head * g + of);
    }
    if (host) sg_upload(s, ids, host);
    free(host);
    return ids;
}

static void add(double sum[2], sg_tensor y, sg_tensor dense)
{
    for (int64_t i = 0; i < sg_count(y); i++) {
        const double v = (double)sg_load(&dense, i);
        sum[0] += fabs((double)sg_load(&y, i) - v);
        sum[1] += fabs(v);
    }
}

static bool prepare(const call *c, sg_stream *s)
{
    sg_attention_error *const       e = c->e;
    const sg_attention_shape *const shape = c->shape;
    if (!e->sum) {
        e->steps = shape->steps;
        e->passes = shape->passes;
        e->layers = shape->layers;
        e->sum = calloc((size_t)e->steps * (size_t)e->passes * (size_t)e->layers, 2 * sizeof *e->sum);
    }
    if (!e->sum)
        sg_fail(s, SG_E_MEMORY, "no memory for errors of %d layers in %d steps", shape->layers, shape->steps);
    else if (e->steps != shape->steps || e->passes != shape->passes || e->layers != shape->layers)
        sg_fail(s, SG_E_ARG, "errors are those of one render");
    return !s->status;
}

static double *sums_of(const sg_attention_error *e, int step, int pass, int layer)
{
    return e->sum + 2 * (((size_t)step * (size_t)e->passes + (size_t)pass) * (size_t)e->layers + (size_t)layer);
}

/* Adds the distance of y and dense, which are on the device. */
static void compare(const call *c, sg_stream *s, sg_tensor y, sg_tensor dense)
{
    sg_tensor at[2] = {y, dense};
    if (!s->memory->alloc || !prepare(c, s)) return; /* a plan has no data */
    for (int i = 0; i < 2; i++) {
        at[i].data = malloc(sg_bytes(at[i]));
        if (!at[i].data) sg_fail(s, SG_E_MEMORY, "no memory for %zu bytes of attention", sg_bytes(at[i]));
        sg_download(s, at[i].data, i ? dense : y);
    }
    if (!s->status) add(sums_of(c->e, c->step, c->pass, c->layer), at[0], at[1]);
    for (int i = 0; i < 2; i++) free(at[i].data);
}

static void measure_rows(const call *c, sg_stream *s)
{
    const sg_attend_args *const x = c->x;
    const int64_t               n = x->q.dim[0], h = x->q.dim[1], hk = x->k.dim[1], d = x->q.dim[2];
    const int64_t               count = sg_min64(n, SG_ERROR_ROWS), rows = count * h;
    const sg_tensor             ids = choose_rows(c, s, count);
    const sg_tensor             q = sg_new(s, x->q.dtype, rows, d), y = sg_new(s, x->y.dtype, rows, d);
    const sg_tensor             dense = sg_new(s, x->q.dtype, rows / hk, hk, d);
    sg_embed(s, .y = q, .ids = ids, .w = sg_reshape(x->q, n * h, d));
    sg_embed(s, .y = y, .ids = ids, .w = sg_reshape(x->y, n * h, d));
    sg_attend(s, .y = dense, .q = sg_reshape(q, rows / hk, hk, d), .k = x->k, .v = x->v, .scale = x->scale);
    compare(c, s, y, dense);
}

static void measure_runs(const call *c, sg_stream *s)
{
    const sg_attend_args *const x = c->x;
    const int64_t               n = x->q.dim[0], m = x->k.dim[0], parts = SG_ERROR_ROWS / SG_ERROR_RUN;
    const int64_t               count = n < SG_ERROR_ROWS ? 1 : parts, rows = n < SG_ERROR_ROWS ? n : SG_ERROR_RUN;
    const sg_tensor             dense = sg_new(s, x->q.dtype, rows, x->q.dim[1], x->q.dim[2]);
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = query_of(c, i, count, rows), keys = first + rows + m - n;
        sg_attend(s, .y = dense, .q = sg_rows(x->q, first, rows), .k = sg_rows(x->k, 0, keys),
                  .v = sg_rows(x->v, 0, keys), .scale = x->scale, .causal = true);
        compare(c, s, sg_rows(x->y, first, rows), dense);
    }
}

void sg_attention_error_hook(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step,
                             int pass, double timestep, const sg_attend_args *args)
{
    (void)timestep;
    sg_attention_error *const e = context;
    const call                c = {e, shape, layer, step, pass, args};
    const sg_ops *const       ops = s->ops;
    const size_t              mark = s->scratch.used;
    char                      byte;
    sg_download(s, &byte, (sg_tensor){.data = args->y.data, .dtype = SG_U8, .rank = 1, .dim = {1}}); /* waits */
    const double start = sg_seconds();
    if (s->inner) s->ops = s->inner; /* decorators must not count this as part of the render */
    (shape->causal ? measure_runs : measure_rows)(&c, s);
    s->ops = ops;
    s->scratch.used = mark;
    if (s->memory->alloc) e->seconds += sg_seconds() - start;
}

void sg_attention_error_add(const sg_attention_error *e, int step, int passes, sg_attention_count *out)
{
    for (int pass = 0; e->sum && pass < e->passes; pass++)
        for (int l = 0; l < e->layers; l++) {
            const double *const       sum = sums_of(e, step, pass, l);
            sg_attention_count *const to = &out[pass / (e->passes / passes) * e->layers + l];
            to->difference += sum[0];
            to->dense += sum[1];
        }
}

void sg_attention_error_free(sg_attention_error *e)
{
    free(e->sum);
    *e = (sg_attention_error){0};
}
