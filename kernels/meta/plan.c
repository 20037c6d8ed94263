/* plan.c - the backend that computes nothing and counts. */
#include "meta.h"

enum { FEW_ROWS = 4 }; /* such products read their weights as they are */

static sg_plan_totals *totals(sg_stream *s) { return s->meta; }

double sg_op_flops(const char *op, const void *args)
{
    if (strcmp(op, "linear") == 0) {
        const sg_linear_args *const a = args;
        return 2.0 * (double)sg_count(a->y) * (double)a->x.dim[1];
    }
    if (strcmp(op, "attend") == 0) {
        const sg_attend_args *const a = args;
        return 4.0 * (double)sg_count(a->q) * (double)a->k.dim[0];
    }
    if (strcmp(op, "attend_blocks") == 0) {
        const sg_attend_blocks_args *const a = args;
        return 4.0 * (double)sg_count(a->q) * (double)a->k.dim[1];
    }
    if (strcmp(op, "conv") == 0) {
        const sg_conv_args *const a = args;
        return 2.0 * (double)sg_count(a->y) * (double)(sg_count(a->w) / a->w.dim[0]);
    }
    return 0;
}

static size_t widened(sg_tensor t) { return t.dtype == SG_F32 ? 0 : 4 * (size_t)sg_count(t); }

static void raise_to(size_t *most, size_t v)
{
    if (v > *most) *most = v;
}

/* BF16 pairs of odd depth are products of F32 on a CPU, and so are those of a convolution with a stride. */
static void count_staging(sg_plan_totals *t, sg_tensor y, sg_tensor x, sg_tensor w, bool strided)
{
    const bool as_f32 = (strided || w.dim[1] % 2) && t->backend && t->backend->host_memory;
    raise_to(&t->weight, 4 * (size_t)sg_count(w));
    if (t->native_bf16 && x.dtype == SG_BF16 && w.dtype == SG_BF16 && !as_f32) return;
    raise_to(&t->staged_x, widened(x));
    raise_to(&t->staged_y, widened(y));
}

/* x with its edges, as long as a piece of it needs them, and y with two more columns in BF16. */
static void count_edges(sg_plan_totals *t, const sg_conv_args *a)
{
    const int64_t f = a->y.dim[0], frames = sg_div_up(f, sg_div_up(f, SG_REPLICATED_FRAMES));
    const int64_t down = a->pad[0] + a->pad[1], across = a->pad[2] + a->pad[3];
    const bool    as_bf16 = t->native_bf16 && a->x.dtype == SG_BF16 && a->w.dtype == SG_BF16;
    if (a->edge != SG_EDGE_REPLICATE || down + across == 0 || !t->backend || !t->backend->host_memory) return;
    const int64_t places = ((frames - 1) * a->stride[0] + a->w.dim[2]) * (a->x.dim[1] + down) * (a->x.dim[2] + across);
    const int64_t out = frames * a->y.dim[1] * (a->y.dim[2] + 2) * a->y.dim[3];
    raise_to(&t->staged_x, (size_t)(places * a->x.dim[3]) * sg_dtype_size(as_bf16 ? SG_BF16 : SG_F32));
    if (as_bf16 && a->w.dim[4] > 1) raise_to(&t->staged_y, (size_t)out * sg_dtype_size(a->add ? SG_F32 : a->y.dtype));
}

static sg_status linear(sg_stream *s, const sg_linear_args *a)
{
    totals(s)->flops += sg_op_flops("linear", a);
    if (totals(s)->backend) sg_backend_prepare_linear(totals(s)->backend, a);
    count_staging(totals(s), a->y, a->x, a->w, false);
    if (a->x.dim[0] <= FEW_ROWS) raise_to(&totals(s)->thin, (size_t)sg_count(a->w));
    return SG_OK;
}

static sg_status embed(sg_stream *s, const sg_embed_args *a)
{
    raise_to(&totals(s)->table, (size_t)sg_count(a->w));
    return SG_OK;
}

static sg_status conv(sg_stream *s, const sg_conv_args *a)
{
    sg_plan_totals *const t = totals(s);
    const size_t          transformed = t->backend ? sg_backend_transform_bytes(t->backend, a) : 0;
    t->flops += sg_op_flops("conv", a);
    if (transformed) {
        raise_to(&t->transformed, transformed);
        raise_to(&t->weight, 4 * (size_t)sg_backend_packed_numbers(t->backend, &a->w));
        return SG_OK;
    }
    if (t->backend) sg_backend_prepare_conv(t->backend, a);
    count_staging(t, a->y, a->x, a->w, a->stride[0] * a->stride[1] * a->stride[2] > 1);
    count_edges(t, a);
    return SG_OK;
}

/* What the backend will do, if it is known. */
static bool conv_twice(const sg_stream *s, const sg_conv_args *a)
{
    const sg_backend *const b = ((const sg_plan_totals *)s->meta)->backend;
    if (!b || !b->ops->conv_twice) return false;
    const sg_stream inner = sg_stream_of(b);
    return b->ops->conv_twice(&inner, a);
}

static sg_status attend(sg_stream *s, const sg_attend_args *a)
{
    totals(s)->flops += sg_op_flops("attend", a);
    raise_to(&totals(s)->attended, 2 * sizeof(float) * (size_t)sg_count(a->k));
    return SG_OK;
}

static sg_status attend_blocks(sg_stream *s, const sg_attend_blocks_args *a)
{
    totals(s)->flops += sg_op_flops("attend_blocks", a);
    return SG_OK;
}

#define FREE(op)                                                                                                       \
    static sg_status op(sg_stream *s, const sg_##op##_args *a)                                                         \
    {                                                                                                                  \
        (void)s, (void)a;                                                                                              \
        return SG_OK;                                                                                                  \
    }
FREE(norm)
FREE(rope)
FREE(gate_add)
FREE(add)
FREE(mul)
FREE(act)
FREE(sinusoid)
FREE(upsample)
FREE(avg_down)
FREE(dup_up) FREE(permute) FREE(copy) FREE(strided_copy) FREE(combine) FREE(rgb8) FREE(count_non_finite) FREE(distance)
    FREE(pool) FREE(self_similarity) FREE(quantise) FREE(score) FREE(select) FREE(tail_bias)

#define X(op) .op = op,
        static const sg_ops plan_ops = {SG_OPS(X).conv_twice = conv_twice};
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
