/* plan.c - the backend that computes nothing and counts. */
#include "meta.h"
#include "quant.h"

#include <stdio.h>

/* Pairs of a query and a key that it sees. */
static double pairs(int64_t n, int64_t m, bool causal)
{
    return (double)n * ((double)m - (causal ? ((double)n - 1) / 2 : 0));
}

double sg_op_flops(const char *op, const void *args)
{
    if (strcmp(op, "linear") == 0) {
        const sg_linear_args *const a = args;
        return 2.0 * (double)sg_count(a->y) * (double)a->x.dim[1];
    }
    if (strcmp(op, "attend") == 0) {
        const sg_attend_args *const a = args;
        return 4.0 * (double)(a->q.dim[1] * a->q.dim[2]) * pairs(a->q.dim[0], a->k.dim[0], a->causal);
    }
    if (strcmp(op, "attend_blocks") == 0) {
        const sg_attend_blocks_args *const a = args;
        return 4.0 * (double)(a->q.dim[0] * a->q.dim[2]) * pairs(a->q.dim[1], a->k.dim[1], a->causal);
    }
    if (strcmp(op, "conv") == 0) {
        const sg_conv_args *const a = args;
        return 2.0 * (double)sg_count(a->y) * (double)(sg_count(a->w) / a->w.dim[0]);
    }
    return 0;
}

void sg_plan_raise(size_t *most, size_t v)
{
    if (v > *most) *most = v;
}

bool sg_plan_bf16(const sg_backend *b, sg_tensor x, sg_tensor w)
{
    return b->dtype == SG_BF16 && x.dtype == SG_BF16 && w.dtype == SG_BF16;
}

static size_t widened(sg_tensor t) { return t.dtype == SG_F32 ? 0 : 4 * (size_t)sg_count(t); }

void sg_plan_product(sg_plan_totals *t, sg_tensor y, sg_tensor x, sg_tensor w, bool bf16)
{
    sg_plan_raise(&t->weight, 4 * (size_t)sg_count(w));
    if (bf16) return;
    sg_plan_raise(&t->staged[0], widened(x));
    sg_plan_raise(&t->staged[1], widened(y));
}

void sg_plan_count(const sg_backend *b, sg_plan_totals *t, const char *op, const void *args)
{
    if (strcmp(op, "linear") == 0) {
        const sg_linear_args *const a = args;
        sg_plan_product(t, a->y, a->x, a->w, sg_plan_bf16(b, a->x, a->w));
    } else if (strcmp(op, "conv") == 0) {
        const sg_conv_args *const a = args;
        sg_plan_product(t, a->y, a->x, a->w, sg_plan_bf16(b, a->x, a->w));
    } else if (strcmp(op, "attend") == 0) {
        sg_plan_raise(&t->attended, 2 * sizeof(float) * (size_t)sg_count(((const sg_attend_args *)args)->k));
    }
}

void sg_plan_count_gpu(const sg_backend *b, sg_plan_totals *t, const char *op, const void *args)
{
    enum { PIECE = 64 << 20 }; /* of weights in another dtype, at most: linear.cu */
    if (strcmp(op, "linear") == 0) {
        const sg_linear_args *const a = args;
        const size_t                numbers = (size_t)sg_count(a->w);
        if (a->w.quant.type && a->x.dim[0] <= SG_GPU_FEW_ROWS) return; /* widened in registers */
        if (a->w.quant.type) sg_plan_raise(&t->staged[1], numbers * sg_dtype_size(a->w.dtype));
        if (a->w.dtype == SG_BF16 && a->x.dtype == SG_F32)
            sg_plan_raise(&t->staged[0], 4 * numbers < PIECE ? 4 * numbers : PIECE);
    } else if (strcmp(op, "conv") == 0) {
        const sg_conv_args *const a = args;
        sg_plan_raise(&t->staged[0], (size_t)sg_count(a->w) * (sg_plan_bf16(b, a->x, a->w) ? 2 : 4));
    }
}

static sg_status note(sg_stream *s, const char *op, const void *args)
{
    sg_plan_totals *const t = s->meta;
    t->flops += sg_op_flops(op, args);
    if (t->backend) t->backend->call.count(t->backend, t, op, args);
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

#define X(op)                                                                                                          \
    static sg_status op(sg_stream *s, const sg_##op##_args *a) { return note(s, #op, a); }
SG_OPS(X)
#undef X

#define X(op) .op = op,
static const sg_ops plan_ops = {SG_OPS(X).conv_twice = conv_twice};
#undef X

#define X(op) .op = op,
static const sg_ops gpu_ops = {SG_OPS(X)};
#undef X

static sg_status transfer(sg_stream *s, void *to, const void *from, size_t bytes)
{
    (void)s, (void)to, (void)from, (void)bytes;
    return SG_OK;
}

static const sg_memory plan_memory = {.upload = transfer, .download = transfer};

/* A plan asks only whether there is such memory. */
static void *pin(const sg_backend *b, size_t bytes)
{
    (void)b, (void)bytes;
    return NULL;
}

static const sg_memory gpu_memory = {.upload = transfer, .download = transfer, .pin = pin};

void sg_plan_gpu(sg_backend *b, int threads)
{
    b->name = "cuda";
    b->ops = &gpu_ops;
    b->memory = &gpu_memory;
    b->call.count = sg_plan_count_gpu;
    b->dtype = SG_BF16;
    b->values = SG_BF16;
    b->f8 = SG_F8_SLOW;
    b->threads = threads;
    snprintf(b->device, sizeof b->device, "an NVIDIA GPU, which is not here: a plan alone");
}

sg_stream sg_plan_stream(sg_plan_totals *t)
{
    /* Two made-up address ranges: nothing is ever read there, but outputs and inputs stay apart. */
    return (sg_stream){.ops = &plan_ops,
                       .memory = &plan_memory,
                       .meta = t,
                       .keep = {.base = SG_ALIGN, .cap = SIZE_MAX / 4},
                       .scratch = {.base = SIZE_MAX / 2 + 1, .cap = SIZE_MAX / 4}};
}
