/* cuda_dnn.c - attention, convolutions and added products by cuDNN 9, which this file and its header alone know.
 *
 * The library is opened when an op is large enough to be worth it, not linked: opening it costs some tenths of a
 * second. An attention of a new shape is compiled, which costs about as much again, and so is the first product. It
 * need not be installed: what cuDNN does not do, or is not there to do, our own kernels do; sg_dnn_describe says so.
 * They also do strided convolutions, for which the engines that its heuristics name are slower (kernels/LOG.md).
 *
 * Each shape has an execution plan: the best engine by the library's heuristics (mode B) whose
 * sums are F32 and come out the same each time. Of those for a product, on Hopper, the one of the kernel that was the
 * fastest at every size that was tried goes first. A convolution adds to what y holds, where the bias has been put
 * before, which rounds y to BF16 once more; the engines that add a bias themselves are compiled for each shape.
 *
 * Sources: NVIDIA's cuDNN backend API reference, and cudnn-frontend for what an attention operation must say. */
#include "base/text.h"
#include "cuda_dnn_graph.h"

#include <stdio.h>

#ifdef SG_DNN
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHOICES = 8, /* engines that are looked at */
    NOTES = 16,  /* more than an engine has */
    KNOBS = 16,  /* more than the engine of a product has */
    WIDE = 40    /* KERNEL_CFG of the fastest kernel for products on Hopper */
};

/* cublasLt is sooner done with added products deeper than this, without and with a gate, although that takes a pass of
 * our own (kernels/LOG.md). */
enum { DEPTH = 3072, GATED_DEPTH = 10240 };

#define LIBRARY "libcudnn.so." SG_TEXT(CUDNN_GRAPH_MAJOR)

/* ---- plans ---- */

static void plan_free(dnn_plan *p)
{
    while (p->count > 0) p->l->BackendDestroyDescriptor(p->descriptors[--p->count]);
    free(p);
}

/* Sums in F32, none in an order that changes from run to run, none through a transformation that rounds. */
static bool is_exact(const sg_dnn *l, descriptor engine)
{
    cudnnBackendNumericalNote_t note[NOTES];
    int64_t                     count = 0;
    if (l->BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count,
                               note))
        return false;
    for (int64_t i = 0; i < sg_min64(count, NOTES); i++)
        if (note[i] != CUDNN_NUMERICAL_NOTE_TENSOR_CORE && note[i] != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
            return false;
    return true;
}

/* Makes p->run of one of the engines that the heuristics name, if it will do. */
static cudnnStatus_t plan_on(dnn_plan *p, descriptor choice)
{
    const sg_dnn *const l = p->l;
    int64_t             count = 0;
    p->status = CUDNN_STATUS_SUCCESS;
    descriptor engine = make(p, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    TRY(p->status);
    TRY(l->BackendGetAttribute(choice, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine));
    if (!is_exact(l, engine)) return CUDNN_STATUS_NOT_SUPPORTED;
    TRY(l->BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &p->engine));
    const descriptor run = BUILD(p, EXECUTION_PLAN, ONE(EXECUTION_PLAN_HANDLE, HANDLE, &l->handle),
                                 DESCRIPTOR(EXECUTION_PLAN_ENGINE_CONFIG, &choice));
    TRY(p->status);
    TRY(l->BackendGetAttribute(run, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                               &p->scratch));
    if (p->scratch > SG_CUDA_LIBRARY_BYTES) return CUDNN_STATUS_NOT_SUPPORTED;
    p->run = run;
    return CUDNN_STATUS_SUCCESS;
}

/* The kernel that a knob picks; -1: it is a knob for something else. */
static int64_t kernel_of(const sg_dnn *l, descriptor knob)
{
    cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
    int64_t                count = 0, kernel = -1;
    if (l->BackendGetAttribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &type) ||
        type != CUDNN_KNOB_TYPE_KERNEL_CFG ||
        l->BackendGetAttribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &count, &kernel))
        return -1;
    return kernel;
}

/* Whether an engine as it is named runs the kernel WIDE. */
static bool is_wide(const sg_dnn *l, descriptor choice)
{
    descriptor knob[KNOBS] = {0};
    int64_t    count = 0;
    bool       wide = false;
    int        made = 0;
    while (made < KNOBS && !l->BackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knob[made])) made++;
    if (l->BackendGetAttribute(choice, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &count,
                               knob))
        count = 0;
    for (int i = 0; i < sg_min64(count, made); i++) wide |= kernel_of(l, knob[i]) == WIDE;
    while (made > 0) l->BackendDestroyDescriptor(knob[--made]);
    return wide;
}

static cudnnStatus_t choose(dnn_plan *p, const descriptor *operations, int64_t many)
{
    const sg_dnn *const          l = p->l;
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_B;
    descriptor                   choice[CHOICES];
    int64_t                      count = 0;
    cudnnStatus_t                status = CUDNN_STATUS_NOT_SUPPORTED;
    const descriptor             graph = BUILD(p, OPERATIONGRAPH, ONE(OPERATIONGRAPH_HANDLE, HANDLE, &l->handle),
                                               SOME(OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, many, operations));
    const descriptor             advice =
        BUILD(p, ENGINEHEUR, DESCRIPTOR(ENGINEHEUR_OPERATION_GRAPH, &graph), ONE(ENGINEHEUR_MODE, HEUR_MODE, &mode));
    for (int i = 0; i < CHOICES; i++) choice[i] = make(p, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    TRY(p->status);
    TRY(l->BackendGetAttribute(advice, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CHOICES, &count,
                               choice));
    count = sg_min64(count, CHOICES);
    for (int i = 0; i < count && p->key.op == MATMUL && l->major == 9 && status != CUDNN_STATUS_SUCCESS; i++)
        if (is_wide(l, choice[i])) status = plan_on(p, choice[i]);
    for (int i = 0; i < count && status != CUDNN_STATUS_SUCCESS; i++) status = plan_on(p, choice[i]);
    return status;
}

static cudnnStatus_t plan_make(dnn_plan *p)
{
    descriptor operations[MAX_OPERATIONS];
    int64_t    count = 1;
    if (p->key.op == MATMUL)
        count = added_operations(p, operations);
    else if (p->key.op == ATTEND && p->key.number[5])
        count = causal_operations(p, operations);
    else
        operations[0] = p->key.op == CONV ? conv_operation(p) : attend_operation(p);
    return choose(p, operations, count);
}

/* The first line of what cuDNN said last. */
static void said(const sg_dnn *l, char *why, size_t size)
{
    why[0] = '\0';
    l->GetLastErrorString(why, size);
    why[strcspn(why, "\n")] = '\0';
}

/* The plan of a key, made when first needed. What cuDNN cannot plan is kept as such. NULL: there is no room for it. */
static const dnn_plan *plan_of(sg_dnn *l, const dnn_key *key)
{
    for (int i = 0; i < l->count; i++)
        if (memcmp(&l->kept[i]->key, key, sizeof *key) == 0) return l->kept[i];
    dnn_plan *const p = l->count < MAX_PLANS ? calloc(1, sizeof *p) : NULL;
    if (!p) return NULL;
    p->l = l;
    p->key = *key;
    if (plan_make(p)) {
        said(l, l->why, sizeof l->why);
        cudaGetLastError(); /* our own kernels' launches shall not find it */
    }
    return l->kept[l->count++] = p;
}

/* ---- runs ---- */

static bool is_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

/* Latches what cuDNN said last, its first line. */
static sg_status failed(sg_stream *s, const sg_dnn *l, const char *op, cudnnStatus_t status)
{
    char why[256];
    said(l, why, sizeof why);
    return sg_fail(s, is_memory(status) ? SG_E_MEMORY : SG_E_DEVICE, "%s: cuDNN fails with status %d: %s", op,
                   (int)status, why);
}

/* `count` tensors, by their names, at their addresses. */
static cudnnStatus_t execute(const dnn_plan *p, int64_t count, const int64_t *at, void *const *data, void *scratch)
{
    dnn_plan         pack = {.l = p->l};
    const descriptor variant = BUILD(&pack, VARIANT_PACK, SOME(VARIANT_PACK_UNIQUE_IDS, INT64, count, at),
                                     SOME(VARIANT_PACK_DATA_POINTERS, VOID_PTR, count, (const void *)data),
                                     ONE(VARIANT_PACK_WORKSPACE, VOID_PTR, (const void *)&scratch));
    if (!pack.status) pack.status = p->l->BackendExecute(p->l->handle, p->run, variant);
    if (pack.count) p->l->BackendDestroyDescriptor(variant);
    return pack.status;
}

static sg_status run(sg_stream *s, const char *op, const dnn_plan *p, int64_t count, const int64_t *at,
                     void *const *data)
{
    void *const scratch = sg_cuda_scratch(s, op, SG_CUDA_LIBRARY, (size_t)p->scratch);
    if (!scratch) return s->status;
    const cudnnStatus_t status = execute(p, count, at, data, scratch);
    return status == CUDNN_STATUS_SUCCESS ? sg_cuda_launched(s, op) : failed(s, p->l, op, status);
}

/* What it lacks; NULL: nothing. */
static const char *load(sg_dnn *l)
{
    l->library = sg_cuda_library(LIBRARY);
    if (!l->library) return LIBRARY " is not installed";
#define X(name) SG_CUDA_FIND(l, LIBRARY, "cudnn", name)
    DNN_CALLS(X)
#undef X
    return l->GetVersion() < SDPA_SINCE ? LIBRARY " is older than 9.13.1" : NULL;
}

static bool starts(sg_dnn *l, cudaStream_t queue)
{
    int device;
    return !l->Create(&l->handle) && !l->SetStream(l->handle, queue) && !cudaGetDevice(&device) &&
           !cudaDeviceGetAttribute(&l->major, cudaDevAttrComputeCapabilityMajor, device);
}

/* The library, opened when first asked for; NULL where there is none that works, or no memory. */
static sg_dnn *dnn_of(sg_cuda *c)
{
    if (!c->dnn) {
        sg_dnn *const l = c->dnn = calloc(1, sizeof *l);
        if (l) l->lacks = load(l);
        if (l && !l->lacks && !starts(l, c->queue)) l->lacks = LIBRARY " does not start";
    }
    return c->dnn && !c->dnn->lacks ? c->dnn : NULL;
}

/* The plan of a key; NULL: cuDNN does not serve. */
static const dnn_plan *serves(sg_cuda *c, const dnn_key *key)
{
    sg_dnn *const         l = dnn_of(c);
    const dnn_plan *const p = l ? plan_of(l, key) : NULL;
    return p && p->run ? p : NULL;
}

bool sg_cuda_attend_dnn(sg_stream *s, const sg_attend_args *a, sg_status *status)
{
    const int64_t        n = a->q.dim[0], m = a->k.dim[0], h = a->q.dim[1], hk = a->k.dim[1], d = a->q.dim[2];
    _Alignas(16) float   scale = a->scale;
    _Alignas(16) float   lowest = -INFINITY;
    _Alignas(16) int32_t shift = (int32_t)(m - n);
    if (a->q.dtype != SG_BF16 || a->bias.rank || a->key_bias.rank || d % 8 || d > 256 || !(scale > 0) || m == 0 ||
        n > INT32_MAX || m > INT32_MAX || n * h * d < sg_div_up(sg_cuda_of(s)->dnn_min_macs, m) ||
        !sg_cuda_attend_aligned(a))
        return false;
    static const int64_t  at[] = {AT_Y, AT_Q, AT_K, AT_V, AT_SCALE, AT_LOWEST, AT_SHIFT};
    void *const           data[] = {a->y.data, a->q.data, a->k.data, a->v.data, &scale, &lowest, &shift};
    const int64_t         count = !a->causal ? 5 : n == m ? 6 : COUNT(at); /* of them that the graph has */
    const dnn_key         key = {.number = {n, m, h, d, hk, a->causal}, .op = ATTEND};
    const dnn_plan *const p = serves(sg_cuda_of(s), &key);
    if (!p) return false;
    *status = run(s, "attend", p, count, at, data);
    return true;
}

static dnn_key conv_key(const sg_conv_args *a)
{
    dnn_key key = {.op = CONV, .add = a->add || a->b.rank};
    for (int i = 0; i < 4; i++) key.number[i] = a->x.dim[i];
    for (int i = 0; i < 5; i++) key.number[4 + i] = a->w.dim[i];
    for (int i = 0; i < 4; i++) key.number[9 + i] = a->pad[i];
    return key;
}

bool sg_cuda_conv_dnn(sg_stream *s, const sg_conv_args *a, const void *w, sg_bias_fn *put_bias, sg_status *status)
{
    const int64_t o = a->w.dim[0], depth = sg_count(a->w) / o;
    const int64_t y = sg_count(a->y) / o * sg_max64(o, SG_DNN_COLS);
    if (a->y.dtype != SG_BF16 || a->x.dtype != SG_BF16 || a->w.dtype != SG_BF16 ||
        a->stride[0] * a->stride[1] * a->stride[2] != 1 || y < sg_div_up(sg_cuda_of(s)->dnn_min_macs, depth) ||
        !sg_cuda_aligned(a->y.data) || !sg_cuda_aligned(a->x.data))
        return false;
    static const int64_t  at[] = {AT_Y, AT_X, AT_W};
    void *const           data[] = {a->y.data, a->x.data, (void *)(uintptr_t)w};
    const dnn_key         key = conv_key(a);
    const dnn_plan *const p = serves(sg_cuda_of(s), &key);
    if (!p) return false;
    if (a->b.rank) *status = put_bias(s, a);
    if (!*status) *status = run(s, "conv", p, COUNT(at), at, data);
    return true;
}

bool sg_cuda_added_dnn(sg_stream *s, const char *op, const sg_linear_job *p, sg_status *status)
{
    const bool does = p->add && p->y_type == SG_F32 && p->x_type == SG_BF16 && p->w_type == SG_BF16 && p->i % 8 == 0 &&
                      p->o % 8 == 0 && sg_cuda_aligned(p->y) && sg_cuda_aligned(p->x) && sg_cuda_aligned(p->w) &&
                      sg_cuda_aligned(p->gate) && sg_cuda_aligned(p->b);
    if (!does || p->i > (p->gate ? GATED_DEPTH : DEPTH) || p->n * p->o < sg_div_up(sg_cuda_of(s)->dnn_min_macs, p->i))
        return false;
    const dnn_key         key = {.number = {p->n, p->i, p->o, p->gate != NULL}, .op = MATMUL, .add = p->b != NULL};
    const dnn_plan *const plan = serves(sg_cuda_of(s), &key);
    if (!plan) return false;
    int64_t count = 4, at[] = {AT_BEFORE, AT_AFTER, AT_X, AT_W, 0, 0};
    void   *data[] = {p->y, p->y, (void *)(uintptr_t)p->x, (void *)(uintptr_t)p->w, NULL, NULL};
    if (p->b) at[count] = AT_B, data[count++] = (void *)(uintptr_t)p->b;
    if (p->gate) at[count] = AT_GATE, data[count++] = (void *)(uintptr_t)p->gate;
    *status = run(s, op, plan, count, at, data);
    return true;
}

void sg_dnn_describe(const sg_cuda *c, char *text, size_t size)
{
    const sg_dnn *const l = c->dnn;
    if (!l) return;
    if (l->lacks) {
        snprintf(text, size, "%s: our own kernels run in its place", l->lacks);
        return;
    }
    const size_t version = l->GetVersion();
    int          refused = 0;
    for (int i = 0; i < l->count; i++) refused += !l->kept[i]->run;
    snprintf(text, size, "cuDNN %zu.%zu.%zu runs %d shapes", version / 10000, version / 100 % 100, version % 100,
             l->count - refused);
    if (refused) sg_text_append(text, size, " and cannot run %d: %s", refused, l->why);
}

void sg_dnn_close(sg_cuda *c)
{
    sg_dnn *const l = c->dnn;
    if (!l) return;
    for (int i = 0; i < l->count; i++) plan_free(l->kept[i]);
    if (l->handle) l->Destroy(l->handle);
    if (l->library) dlclose(l->library);
    free(l);
    c->dnn = NULL;
}

#else /* built without the headers, or with older ones */

bool sg_cuda_attend_dnn(sg_stream *s, const sg_attend_args *a, sg_status *status)
{
    (void)s, (void)a, (void)status;
    return false;
}

bool sg_cuda_conv_dnn(sg_stream *s, const sg_conv_args *a, const void *w, sg_bias_fn *put_bias, sg_status *status)
{
    (void)s, (void)a, (void)w, (void)put_bias, (void)status;
    return false;
}

bool sg_cuda_added_dnn(sg_stream *s, const char *op, const sg_linear_job *p, sg_status *status)
{
    (void)s, (void)op, (void)p, (void)status;
    return false;
}

void sg_dnn_describe(const sg_cuda *c, char *text, size_t size)
{
    (void)c;
    snprintf(text, size, "built without cuDNN: our own kernels run in its place");
}

void sg_dnn_close(sg_cuda *c) { (void)c; }

#endif
