/* cuda_dnn_graph.h - an op as a cuDNN graph: its tensors, and operations on them (cuda_dnn.c).
 *
 * All cuDNN objects are descriptors: they are created, given attributes, and finalised. A plan owns the descriptors
 * created for it. SG_DNN is defined where the headers' version is new enough. */
#ifndef SG_CUDA_DNN_GRAPH_H
#define SG_CUDA_DNN_GRAPH_H

#include "cuda_state.cuh"

#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif

#define SDPA_SINCE 91301 /* the first version with a working operation for attention */

#if defined(CUDNN_VERSION) && CUDNN_VERSION >= SDPA_SINCE
#define SG_DNN

enum {
    MAX_PLANS = 1024,      /* plans; none is replaced, since a graph may hold its kernels */
    MAX_DESCRIPTORS = 128, /* descriptors of a plan */
    MAX_OPERATIONS = 15    /* operations of a graph */
};

/* clang-format off */
#define DNN_CALLS(X)                                                                                                   \
    X(GetVersion) X(Create) X(Destroy) X(SetStream) X(GetLastErrorString) X(BackendCreateDescriptor)                   \
    X(BackendDestroyDescriptor) X(BackendSetAttribute) X(BackendGetAttribute) X(BackendFinalize) X(BackendExecute)
/* clang-format on */

typedef cudnnBackendDescriptor_t descriptor;

enum { ATTEND, CONV, MATMUL };

/* This is the key of a plan. Its numbers are n m h d hk causal of attend, x[4] w[5] pad[4] of conv, n i o gated of
 * matmul. `add` says whether conv adds to y, and whether matmul has a bias. */
typedef struct dnn_key {
    int64_t number[13];
    int64_t op, add;
} dnn_key;

typedef struct dnn_plan {
    const struct sg_dnn *l;
    dnn_key              key;
    descriptor           descriptors[MAX_DESCRIPTORS]; /* all that was made for it */
    int                  count;
    cudnnStatus_t        status;  /* the first failure of the engine that is tried */
    descriptor           run;     /* one of them; NULL: cuDNN has no engine for this */
    int64_t              scratch; /* bytes */
    int64_t              engine;  /* the library's number of it */
} dnn_plan;

typedef struct sg_dnn {
    void         *library;
    const char   *lacks; /* why cuDNN is not usable, for people; NULL: it is */
    cudnnHandle_t handle;
    dnn_plan     *kept[MAX_PLANS];
    int           count;
    int           major;    /* compute capability of the device */
    char          why[256]; /* why there is no plan for the shape that was refused last */
#define X(name) __typeof__(cudnn##name) *name;
    DNN_CALLS(X)
#undef X
} sg_dnn;

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const cudnnStatus_t try_ = (call);                                                                             \
        if (try_ != CUDNN_STATUS_SUCCESS) return try_;                                                                 \
    } while (0)

/* ---- descriptors ---- */

typedef struct dnn_set {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t                     count;
    const void                 *from;
} dnn_set;

#define ONE(name, type, from)                                                                                          \
    {                                                                                                                  \
        CUDNN_ATTR_##name, CUDNN_TYPE_##type, 1, from                                                                  \
    }
#define SOME(name, type, count, from)                                                                                  \
    {                                                                                                                  \
        CUDNN_ATTR_##name, CUDNN_TYPE_##type, count, from                                                              \
    }
#define ALONG(name, from) SOME(CONVOLUTION_##name, INT64, 3, from) /* t, y, x */
#define DESCRIPTOR(name, from) ONE(name, BACKEND_DESCRIPTOR, from)
#define COUNT(sets) ((int)(sizeof(sets) / sizeof(sets)[0]))
#define BUILD(p, kind, ...)                                                                                            \
    build(p, CUDNN_BACKEND_##kind##_DESCRIPTOR, (const dnn_set[]){__VA_ARGS__}, COUNT(((const dnn_set[]){__VA_ARGS__})))

/* make creates a descriptor of p, build sets its attributes and finalises it. A failure is latched in p->status; after
 * one they do nothing. */
static inline descriptor make(dnn_plan *p, cudnnBackendDescriptorType_t kind)
{
    descriptor out = NULL;
    if (!p->status && p->count == MAX_DESCRIPTORS) p->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (!p->status) p->status = p->l->BackendCreateDescriptor(kind, &out);
    if (!p->status) p->descriptors[p->count++] = out;
    return out;
}

static inline descriptor build(dnn_plan *p, cudnnBackendDescriptorType_t kind, const dnn_set *sets, int count)
{
    const descriptor out = make(p, kind);
    for (int i = 0; i < count && !p->status; i++)
        p->status = p->l->BackendSetAttribute(out, sets[i].name, sets[i].type, sets[i].count, sets[i].from);
    if (!p->status) p->status = p->l->BackendFinalize(out);
    return out;
}

/* ---- tensors and operations ---- */

/* These are the ids of tensors. Those below AT_MATMUL get an address in each run: BF16; from AT_B on F32; from AT_SCALE
 * on numbers that the host gives, of which the last is I32. The others are virtual: F32; from AT_ROW on I32; one
 * of booleans, one BF16. */
enum {
    AT_Y = 1,
    AT_X,
    AT_W,
    AT_Q,
    AT_K,
    AT_V,
    AT_B,
    AT_GATE,
    AT_BEFORE,
    AT_AFTER,
    AT_SCALE,
    AT_LOWEST,
    AT_SHIFT,
    AT_MATMUL,
    AT_SUM,
    AT_GATED,
    AT_SCALED,
    AT_MASKED,
    AT_ROW_MAX,
    AT_LOGITS,
    AT_POWERS,
    AT_ROW_SUM,
    AT_ROW_LOG,
    AT_STATISTICS,
    AT_ROW,
    AT_COLUMN,
    AT_LAST,
    AT_SEEN,
    AT_WEIGHTS
};

static inline cudnnDataType_t type_at(int64_t at)
{
    if (at < AT_B || at == AT_WEIGHTS) return CUDNN_DATA_BFLOAT16;
    if (at == AT_SEEN) return CUDNN_DATA_BOOLEAN;
    return at == AT_SHIFT || at >= AT_ROW ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
}

static inline descriptor tensor(dnn_plan *p, int64_t at, int64_t rank, const int64_t *size, const int64_t *stride)
{
    const cudnnDataType_t type = type_at(at);
    const bool            inside = at >= AT_MATMUL, value = at >= AT_SCALE && !inside;
    const int64_t         align = 16; /* bytes, of the host's numbers too */
    return BUILD(p, TENSOR, ONE(TENSOR_UNIQUE_ID, INT64, &at), ONE(TENSOR_DATA_TYPE, DATA_TYPE, &type),
                 SOME(TENSOR_DIMENSIONS, INT64, rank, size), SOME(TENSOR_STRIDES, INT64, rank, stride),
                 ONE(TENSOR_BYTE_ALIGNMENT, INT64, &align), ONE(TENSOR_IS_BY_VALUE, BOOLEAN, &value),
                 ONE(TENSOR_IS_VIRTUAL, BOOLEAN, &inside));
}

/* Describes a tensor [n, h, d] in cuDNN's dimensions: a batch of 1, heads, tokens, channels. */
static inline descriptor tokens(dnn_plan *p, int64_t at, int64_t n, int64_t h, int64_t d)
{
    const int64_t size[] = {1, h, n, d}, stride[] = {n * h * d, d, h * d, 1};
    return tensor(p, at, 4, size, stride);
}

/* Describes a number that the host gives with each run. */
static inline descriptor number(dnn_plan *p, int64_t at)
{
    const int64_t one[] = {1, 1, 1, 1};
    return tensor(p, at, 4, one, one);
}

/* Makes the operation that attends all keys. */
static inline descriptor attend_operation(dnn_plan *p)
{
    const int64_t *const key = p->key.number, n = key[0], m = key[1], h = key[2], d = key[3], hk = key[4];
    const descriptor     y = tokens(p, AT_Y, n, h, d), q = tokens(p, AT_Q, n, h, d), k = tokens(p, AT_K, m, hk, d),
                     v = tokens(p, AT_V, m, hk, d), scale = number(p, AT_SCALE);
    return BUILD(p, OPERATION_SDPA_FWD, DESCRIPTOR(OPERATION_SDPA_FWD_QDESC, &q),
                 DESCRIPTOR(OPERATION_SDPA_FWD_KDESC, &k), DESCRIPTOR(OPERATION_SDPA_FWD_VDESC, &v),
                 DESCRIPTOR(OPERATION_SDPA_FWD_ODESC, &y), DESCRIPTOR(OPERATION_SDPA_FWD_SCALEDESC, &scale));
}

/* Describes a tensor [a, t, y, x, c], whose channels are last in memory; cuDNN counts the channels second. */
static inline descriptor places(dnn_plan *p, int64_t at, int64_t a, int64_t t, int64_t y, int64_t x, int64_t c)
{
    const int64_t size[] = {a, c, t, y, x}, stride[] = {t * y * x * c, 1, y * x * c, x * c, c};
    return tensor(p, at, 5, size, stride);
}

static inline descriptor window(dnn_plan *p)
{
    const int64_t *const         pad = p->key.number + 9;
    const int64_t                before[] = {0, pad[0], pad[2]}, after[] = {0, pad[1], pad[3]};
    const int64_t                dense[] = {1, 1, 1}, rank = 3;
    const cudnnDataType_t        sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    return BUILD(p, CONVOLUTION, ONE(CONVOLUTION_SPATIAL_DIMS, INT64, &rank),
                 ONE(CONVOLUTION_COMP_TYPE, DATA_TYPE, &sums), ONE(CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, &mode),
                 ALONG(PRE_PADDINGS, before), ALONG(POST_PADDINGS, after), ALONG(DILATIONS, dense),
                 ALONG(FILTER_STRIDES, dense));
}

static inline descriptor conv_operation(dnn_plan *p)
{
    const int64_t *const key = p->key.number, *const w = key + 4, *const pad = key + 9;
    const int64_t ty = key[0] - w[2] + 1, yy = key[1] + pad[0] + pad[1] - w[3] + 1,
                  xy = key[2] + pad[2] + pad[3] - w[4] + 1;
    const float      one = 1, before = p->key.add ? 1.0f : 0.0f; /* how often y counts before it is written */
    const descriptor y = places(p, AT_Y, 1, ty, yy, xy, w[0]);
    const descriptor x = places(p, AT_X, 1, key[0], key[1], key[2], key[3]);
    const descriptor weights = places(p, AT_W, w[0], w[2], w[3], w[4], w[1]), shape = window(p);
    return BUILD(p, OPERATION_CONVOLUTION_FORWARD, DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD_X, &x),
                 DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD_W, &weights), DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD_Y, &y),
                 DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &shape),
                 ONE(OPERATION_CONVOLUTION_FORWARD_ALPHA, FLOAT, &one),
                 ONE(OPERATION_CONVOLUTION_FORWARD_BETA, FLOAT, &before));
}

/* Describes a tensor [1, rows, cols] with the strides `down` of rows and `right` of columns. */
static inline descriptor matrix(dnn_plan *p, int64_t at, int64_t rows, int64_t cols, int64_t down, int64_t right)
{
    const int64_t size[] = {1, rows, cols}, stride[] = {rows * cols, down, right};
    return tensor(p, at, 3, size, stride);
}

/* Makes the operation y = a b. */
static inline descriptor matmul_operation(dnn_plan *p, descriptor y, descriptor a, descriptor b)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const descriptor      how = BUILD(p, MATMUL, ONE(MATMUL_COMP_TYPE, DATA_TYPE, &sums));
    return BUILD(p, OPERATION_MATMUL, DESCRIPTOR(OPERATION_MATMUL_ADESC, &a), DESCRIPTOR(OPERATION_MATMUL_BDESC, &b),
                 DESCRIPTOR(OPERATION_MATMUL_CDESC, &y), DESCRIPTOR(OPERATION_MATMUL_DESC, &how));
}

/* Makes the operation that computes y of a, b (or NULL) and t (or NULL), element by element. `axis` is that of indices,
 * or -1. */
static inline descriptor each_of_three(dnn_plan *p, cudnnPointwiseMode_t mode, cudnnDataType_t in, int64_t axis,
                                       descriptor y, descriptor a, descriptor b, descriptor t)
{
    const dnn_set    how[] = {ONE(POINTWISE_MODE, POINTWISE_MODE, &mode), ONE(POINTWISE_MATH_PREC, DATA_TYPE, &in),
                              ONE(POINTWISE_AXIS, INT64, &axis)};
    const descriptor each = build(p, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, how, axis < 0 ? 2 : 3);
    const dnn_set    sets[] = {DESCRIPTOR(OPERATION_POINTWISE_PW_DESCRIPTOR, &each),
                               DESCRIPTOR(OPERATION_POINTWISE_XDESC, &a), DESCRIPTOR(OPERATION_POINTWISE_YDESC, &y),
                               DESCRIPTOR(OPERATION_POINTWISE_BDESC, &b), DESCRIPTOR(OPERATION_POINTWISE_TDESC, &t)};
    return build(p, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, sets, 3 + (b != NULL) + (t != NULL));
}

/* The same of a and b in F32. */
static inline descriptor each_operation(dnn_plan *p, cudnnPointwiseMode_t mode, descriptor y, descriptor a,
                                        descriptor b)
{
    return each_of_three(p, mode, CUDNN_DATA_FLOAT, -1, y, a, b, NULL);
}

/* Makes the operation that reduces the last dimension of x. */
static inline descriptor reduce_operation(dnn_plan *p, cudnnReduceTensorOp_t by, descriptor y, descriptor x)
{
    const cudnnDataType_t in = CUDNN_DATA_FLOAT;
    const descriptor      how = BUILD(p, REDUCTION, ONE(REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, &by),
                                      ONE(REDUCTION_COMP_TYPE, DATA_TYPE, &in));
    return BUILD(p, OPERATION_REDUCTION, DESCRIPTOR(OPERATION_REDUCTION_XDESC, &x),
                 DESCRIPTOR(OPERATION_REDUCTION_YDESC, &y), DESCRIPTOR(OPERATION_REDUCTION_DESC, &how));
}

/* ---- causal attention ---- */

/* Describes numbers of all pairs of a query and a key, [h, n, m], or [h, n] of rows. */
static inline descriptor pairs(dnn_plan *p, int64_t at, int64_t m)
{
    const int64_t n = p->key.number[0], h = p->key.number[2];
    const int64_t size[] = {1, h, n, m}, stride[] = {h * n * m, n * m, m, 1};
    return tensor(p, at, 4, size, stride);
}

/* Makes the operations of masked = the logits x where a key is seen, else AT_LOWEST, and returns how many there are.
 * Query r sees key c where r + m - n >= c. */
static inline int64_t mask_operations(dnn_plan *p, descriptor *out, descriptor masked, descriptor x)
{
    const int64_t    n = p->key.number[0], m = p->key.number[1];
    const descriptor row = pairs(p, AT_ROW, m), column = pairs(p, AT_COLUMN, m), seen = pairs(p, AT_SEEN, m);
    descriptor       last = row;
    int64_t          count = 0;
    out[count++] = each_of_three(p, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, row, x, NULL, NULL);
    out[count++] = each_of_three(p, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, column, x, NULL, NULL);
    if (m != n) {
        last = pairs(p, AT_LAST, m);
        out[count++] =
            each_of_three(p, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, -1, last, row, number(p, AT_SHIFT), NULL);
    }
    out[count++] = each_of_three(p, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, seen, last, column, NULL);
    out[count++] =
        each_of_three(p, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, masked, x, number(p, AT_LOWEST), seen);
    return count;
}

/* Makes the operations of causal attention one by one, of which cuDNN makes one kernel, and returns how many there are.
 * The single operation has no mask before cuDNN 9.21. The statistics of a row, the logarithm of the sum of exp of its
 * logits, are for nobody: they are in the pattern that cuDNN knows. */
static inline int64_t causal_operations(dnn_plan *p, descriptor *out)
{
    const int64_t *const key = p->key.number, n = key[0], m = key[1], h = key[2], d = key[3], hk = key[4];
    const int64_t        size[] = {1, hk, d, m}, stride[] = {m * hk * d, d, 1, hk * d};
    const descriptor     product = pairs(p, AT_MATMUL, m), scaled = pairs(p, AT_SCALED, m);
    const descriptor     row_max = pairs(p, AT_ROW_MAX, 1), row_sum = pairs(p, AT_ROW_SUM, 1),
                     row_log = pairs(p, AT_ROW_LOG, 1);
    const descriptor logits = pairs(p, AT_LOGITS, m), powers = pairs(p, AT_POWERS, m),
                     weights = pairs(p, AT_WEIGHTS, m);
    const descriptor masked = pairs(p, AT_MASKED, m);
    int64_t          count = 0;
    out[count++] = matmul_operation(p, product, tokens(p, AT_Q, n, h, d), tensor(p, AT_K, 4, size, stride));
    out[count++] = each_operation(p, CUDNN_POINTWISE_MUL, scaled, product, number(p, AT_SCALE));
    count += mask_operations(p, out + count, masked, scaled);
    out[count++] = reduce_operation(p, CUDNN_REDUCE_TENSOR_MAX, row_max, masked);
    out[count++] = each_operation(p, CUDNN_POINTWISE_SUB, logits, masked, row_max);
    out[count++] = each_operation(p, CUDNN_POINTWISE_EXP, powers, logits, NULL);
    out[count++] = reduce_operation(p, CUDNN_REDUCE_TENSOR_ADD, row_sum, powers);
    out[count++] = each_operation(p, CUDNN_POINTWISE_LOG, row_log, row_sum, NULL);
    out[count++] = each_operation(p, CUDNN_POINTWISE_ADD, pairs(p, AT_STATISTICS, 1), row_max, row_log);
    out[count++] = each_operation(p, CUDNN_POINTWISE_DIV, weights, powers, row_sum);
    out[count++] = matmul_operation(p, tokens(p, AT_Y, n, h, d), weights, tokens(p, AT_V, m, hk, d));
    return count;
}

/* ---- added products ---- */

/* Makes the operations of after = before + gate (x w^T + b), where gate and b are optional, and returns how many there
 * are. before and after have one address: each element is read before it is written. */
static inline int64_t added_operations(dnn_plan *p, descriptor *out)
{
    const int64_t n = p->key.number[0], i = p->key.number[1], o = p->key.number[2];
    int64_t       count = 0;
    descriptor    sum = matrix(p, AT_MATMUL, n, o, o, 1);
    out[count++] = matmul_operation(p, sum, matrix(p, AT_X, n, i, i, 1), matrix(p, AT_W, i, o, 1, i));
    if (p->key.add) {
        const descriptor biased = matrix(p, AT_SUM, n, o, o, 1);
        out[count++] = each_operation(p, CUDNN_POINTWISE_ADD, biased, sum, matrix(p, AT_B, 1, o, o, 1));
        sum = biased;
    }
    if (p->key.number[3]) {
        const descriptor gated = matrix(p, AT_GATED, n, o, o, 1);
        out[count++] = each_operation(p, CUDNN_POINTWISE_MUL, gated, sum, matrix(p, AT_GATE, 1, o, o, 1));
        sum = gated;
    }
    out[count++] =
        each_operation(p, CUDNN_POINTWISE_ADD, matrix(p, AT_AFTER, n, o, o, 1), sum, matrix(p, AT_BEFORE, n, o, o, 1));
    return count;
}

#endif
#endif
