/* plan.c - the backend that computes nothing and counts. */
#include "meta.h"

static sg_plan_totals *totals(sg_stream *s) { return s->meta; }

static double linear_flops(const sg_linear_args *a) { return 2.0 * (double)sg_count(a->y) * (double)a->x.dim[1]; }

static double attend_flops(const sg_attend_args *a) { return 4.0 * (double)sg_count(a->q) * (double)a->k.dim[0]; }

static double conv_flops(const sg_conv_args *a)
{
    return 2.0 * (double)sg_count(a->y) * (double)(sg_count(a->w) / a->w.dim[0]);
}

static size_t widened(sg_tensor t) { return t.dtype == SG_F32 ? 0 : 4 * (size_t)sg_count(t); }

/* Backends may widen the operands of a product, and pack the weights anew at each use. */
static void count_staging(sg_plan_totals *t, sg_tensor y, sg_tensor x, sg_tensor w)
{
    const size_t bytes = widened(y) + widened(x) + 4 * (size_t)sg_count(w);
    if (bytes > t->staging) t->staging = bytes;
}

static sg_status linear(sg_stream *s, const sg_linear_args *a)
{
    totals(s)->flops += linear_flops(a);
    count_staging(totals(s), a->y, a->x, a->w);
    return SG_OK;
}

static sg_status conv(sg_stream *s, const sg_conv_args *a)
{
    totals(s)->flops += conv_flops(a);
    count_staging(totals(s), a->y, a->x, a->w);
    return SG_OK;
}

static sg_status attend(sg_stream *s, const sg_attend_args *a)
{
    totals(s)->flops += attend_flops(a);
    return SG_OK;
}

#define FREE(op)                                                                                                       \
    static sg_status op(sg_stream *s, const sg_##op##_args *a)                                                         \
    {                                                                                                                  \
        (void)s, (void)a;                                                                                              \
        return SG_OK;                                                                                                  \
    }
FREE(norm)
FREE(rope) FREE(gate_add) FREE(add) FREE(mul) FREE(act) FREE(embed) FREE(sinusoid) FREE(upsample) FREE(avg_down)
    FREE(dup_up) FREE(permute) FREE(copy) FREE(combine) FREE(rgb8) FREE(count_bad)

#define X(op) .op = op,
        static const sg_ops plan_ops = {SG_OPS(X)};
#undef X

static sg_status transfer(sg_stream *s, void *to, const void *from, size_t bytes)
{
    (void)s, (void)to, (void)from, (void)bytes;
    return SG_OK;
}

static const sg_memory plan_memory = {.upload = transfer, .download = transfer};

sg_stream sg_plan_stream(sg_plan_totals *t)
{
    /* Two made-up address ranges: nothing is ever read there, but outputs and inputs stay apart. */
    return (sg_stream){.ops = &plan_ops,
                       .memory = &plan_memory,
                       .meta = t,
                       .keep = {.base = SG_ALIGN, .cap = SIZE_MAX / 4},
                       .scratch = {.base = SIZE_MAX / 2 + 1, .cap = SIZE_MAX / 4}};
}
