/* trace.c - the backend that takes the time of another. */
#include "base/array.h"
#include "base/clock.h"
#include "meta.h"

#include <stdlib.h>

/* What one call reads and writes at least. */
static double bytes_of(const sg_trace_row *r, const void *args)
{
    const double y = (double)sg_bytes(r->t[0]);
    double       bytes = r->adds ? y : 0;
    for (int i = 0; i < r->tensors; i++) bytes += (double)sg_bytes(r->t[i]);
    if (strcmp(r->op, "combine") == 0) bytes += y * (((const sg_combine_args *)args)->count - 1);
    if (strcmp(r->op, "embed") == 0) /* of the table only the rows that are looked up */
        bytes += (double)sg_count(r->t[0]) * (double)sg_dtype_size(r->t[1].dtype) - (double)sg_bytes(r->t[1]);
    return bytes;
}

static bool same_kind(const sg_trace_row *a, const sg_trace_row *b)
{
    return strcmp(a->op, b->op) == 0 && a->adds == b->adds && memcmp(a->t, b->t, sizeof a->t) == 0;
}

static sg_trace_row *row_like(sg_trace *t, const sg_trace_row *kind)
{
    for (size_t i = 0; i < t->rows; i++)
        if (same_kind(&t->row[i], kind)) return &t->row[i];
    return sg_array_push(t->row, t->rows, t->cap, *kind) ? &t->row[t->rows - 1] : NULL;
}

static sg_status note(sg_stream *s, const char *op, const void *args, const sg_tensor *t, int tensors, double seconds)
{
    const bool   adds = sg_reads_output(op, args) && sg_op_outputs(op, args) == 1; /* a counter beside y is no matter */
    sg_trace_row kind = {.op = op, .tensors = tensors, .adds = adds};
    for (int i = 0; i < tensors; i++) {
        if (t[i].rank == 0) continue;
        kind.t[i].dtype = t[i].dtype;
        kind.t[i].rank = t[i].rank;
        memcpy(kind.t[i].dim, t[i].dim, (size_t)t[i].rank * sizeof t[i].dim[0]);
    }
    sg_trace_row *const r = row_like(s->meta, &kind);
    if (!r) return SG_E_MEMORY;
    r->calls++;
    r->seconds += seconds;
    r->flops += sg_op_flops(op, args);
    r->bytes += bytes_of(r, args);
    return SG_OK;
}

static sg_status wait(sg_stream *s, sg_tensor y)
{
    char byte;
    return ((const sg_trace *)s->meta)->synchronous ? s->memory->download(s, &byte, y.data, 1) : SG_OK;
}

#define X(op)                                                                                                          \
    static sg_status trace_##op(sg_stream *s, const sg_##op##_args *a)                                                 \
    {                                                                                                                  \
        if (((const sg_trace *)s->meta)->paused) return s->inner->op(s, a);                                            \
        sg_tensor t[SG_OP_TENSORS];                                                                                    \
        memcpy(t, a, sg_##op##_tensors * sizeof t[0]);                                                                 \
        const double start = sg_seconds();                                                                             \
        sg_status    e = s->inner->op(s, a);                                                                           \
        if (!e) e = wait(s, t[0]);                                                                                     \
        return e ? e : note(s, #op, a, t, sg_##op##_tensors, sg_seconds() - start);                                    \
    }
SG_OPS(X)
#undef X

/* What is put off has no time of its own. */
static sg_status trace_step_begin(sg_stream *s, int repeats)
{
    const bool through = ((const sg_trace *)s->meta)->paused && s->inner->step_begin;
    return through ? s->inner->step_begin(s, repeats) : SG_OK;
}

static sg_status trace_step_end(sg_stream *s) { return s->inner->step_end ? s->inner->step_end(s) : SG_OK; }

#define X(op) .op = trace_##op,
static const sg_ops trace_ops = {SG_OPS(X).step_begin = trace_step_begin, .step_end = trace_step_end};
#undef X

void sg_trace_wrap(sg_stream *s, sg_trace *t)
{
    s->inner = s->ops;
    s->ops = &trace_ops;
    s->meta = t;
}

void sg_trace_clear(sg_trace *t) { t->rows = 0; }

void sg_trace_free(sg_trace *t)
{
    free(t->row);
    *t = (sg_trace){0};
}
