/* cuda_lt.c - matmuls by cublasLt. No other file uses it.
 *
 * The library is opened when a matmul is large enough to be worth it, not linked. It is half a gigabyte: loading it costs
 * 50 ms where the file is cached, its first matmul of each kind 25 to 70 ms, and of each further shape 2 ms. It need not
 * be installed: what is smaller, and all where it is not there, goes to gemm.cu.
 *
 * The algorithm that cublasLt chooses for a shape is kept. It may not reduce in the output's dtype: sums are F32.
 * cublasLt is column-major, so a row-major y = x w^T is y^T = (w^T)^T x^T there. */
#include "cuda_state.cuh"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEPT = 512 };

#define LIBRARY "libcublasLt.so." SG_TEXT(CUBLAS_VER_MAJOR)

#define LT_CALLS(X)                                                                                                    \
    X(Create)                                                                                                          \
    X(Destroy) X(Matmul) X(MatmulAlgoGetHeuristic) X(MatmulDescCreate) X(MatmulDescDestroy) X(MatmulDescSetAttribute)  \
        X(MatrixLayoutCreate) X(MatrixLayoutDestroy) X(MatmulPreferenceCreate) X(MatmulPreferenceDestroy)              \
            X(MatmulPreferenceSetAttribute)

/* Without padding: keys are compared as bytes. */
typedef struct gemm_key {
    int64_t n, i, o, stride, x_stride, w_stride, align_x, align_w, align_y, type, y_type, bias, gelu;
} gemm_key;

typedef struct gemm_plan {
    gemm_key               key;
    cublasLtMatmulDesc_t   desc;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulAlgo_t   algo;
} gemm_plan;

typedef struct sg_lt {
    void            *library;
    const char      *lacks; /* why cublasLt is not usable, for people; NULL: it is */
    cublasLtHandle_t handle;
    gemm_plan       *kept[KEPT];
    int              count, next;
#define X(name) __typeof__(cublasLt##name) *name;
    LT_CALLS(X)
#undef X
} sg_lt;

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const cublasStatus_t try_ = (call);                                                                            \
        if (try_ != CUBLAS_STATUS_SUCCESS) return try_;                                                                \
    } while (0)

static void plan_free(const sg_lt *l, gemm_plan *p)
{
    if (!p) return;
    if (p->desc) l->MatmulDescDestroy(p->desc);
    if (p->w) l->MatrixLayoutDestroy(p->w);
    if (p->x) l->MatrixLayoutDestroy(p->x);
    if (p->y) l->MatrixLayoutDestroy(p->y);
    free(p);
}

static cudaDataType_t type_of(int64_t t) { return t == SG_BF16 ? CUDA_R_16BF : CUDA_R_32F; }

static cublasStatus_t describe(const sg_lt *l, gemm_plan *p)
{
    const gemm_key *const     k = &p->key;
    const cublasOperation_t   transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t  after[2][2] = {{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS},
                                             {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}};
    const cublasLtEpilogue_t  end = after[k->gelu][k->bias];
    const cublasComputeType_t in = k->type == SG_BF16 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_PEDANTIC;
    TRY(l->MatmulDescCreate(&p->desc, in, CUDA_R_32F));
    TRY(l->MatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    TRY(l->MatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end));
    TRY(l->MatrixLayoutCreate(&p->w, type_of(k->type), (uint64_t)k->i, (uint64_t)k->o, k->w_stride));
    TRY(l->MatrixLayoutCreate(&p->x, type_of(k->type), (uint64_t)k->i, (uint64_t)k->n, k->x_stride));
    return l->MatrixLayoutCreate(&p->y, type_of(k->y_type), (uint64_t)k->o, (uint64_t)k->n, k->stride);
}

static cublasStatus_t choose(const sg_lt *l, gemm_plan *p, cublasLtMatmulPreference_t likes)
{
    const uint64_t scratch = SG_CUDA_LIBRARY_BYTES;
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        uint32_t                             bytes;
    } align[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)p->key.align_w},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)p->key.align_x},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)p->key.align_y},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)p->key.align_y}};
    cublasLtMatmulHeuristicResult_t best;
    int                             found = 0;
    TRY(l->MatmulPreferenceSetAttribute(likes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &scratch, sizeof scratch));
    TRY(l->MatmulPreferenceSetAttribute(likes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums));
    for (size_t i = 0; i < sizeof align / sizeof align[0]; i++)
        TRY(l->MatmulPreferenceSetAttribute(likes, align[i].what, &align[i].bytes, sizeof align[i].bytes));
    TRY(l->MatmulAlgoGetHeuristic(l->handle, p->desc, p->w, p->x, p->y, p->y, likes, 1, &best, &found));
    if (found == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    p->algo = best.algo;
    return best.state;
}

static cublasStatus_t plan_make(const sg_lt *l, gemm_plan *p)
{
    cublasLtMatmulPreference_t likes = NULL;
    TRY(describe(l, p));
    TRY(l->MatmulPreferenceCreate(&likes));
    const cublasStatus_t status = choose(l, p, likes);
    l->MatmulPreferenceDestroy(likes);
    return status;
}

/* The plan of a key, made on first use; it replaces the oldest when there are too many. */
static cublasStatus_t plan_of(sg_lt *l, const gemm_key *key, gemm_plan **out)
{
    for (int i = 0; i < l->count; i++)
        if (memcmp(&l->kept[i]->key, key, sizeof *key) == 0) {
            *out = l->kept[i];
            return CUBLAS_STATUS_SUCCESS;
        }
    gemm_plan *const p = calloc(1, sizeof *p);
    if (!p) return CUBLAS_STATUS_ALLOC_FAILED;
    p->key = *key;
    const cublasStatus_t status = plan_make(l, p);
    if (status != CUBLAS_STATUS_SUCCESS) {
        plan_free(l, p);
        return status;
    }
    const int at = l->count < KEPT ? l->count++ : l->next++ % KEPT;
    plan_free(l, l->kept[at]);
    *out = l->kept[at] = p;
    return CUBLAS_STATUS_SUCCESS;
}

static int64_t alignment(const void *p)
{
    const uintptr_t a = (uintptr_t)p | SG_ALIGN;
    return (int64_t)(a & (0 - a));
}

static cublasStatus_t run(sg_cuda *c, const sg_gemm *g, void *scratch)
{
    sg_lt *const   l = c->lt;
    const int64_t  x_stride = g->x_stride ? g->x_stride : g->i, w_stride = g->w_stride ? g->w_stride : g->i;
    const gemm_key k = {g->n, g->i, g->o, g->stride, x_stride, w_stride, alignment(g->x), alignment(g->w),
                        alignment(g->y), g->type, g->y_type, g->b != NULL, g->gelu};
    gemm_plan     *p;
    TRY(plan_of(l, &k, &p));
    if (g->b) TRY(l->MatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->b, sizeof g->b));
    const float one = 1, before = g->add ? 1.0f : 0.0f; /* how often y counts before it is written */
    return l->Matmul(l->handle, p->desc, &one, g->w, p->w, g->x, p->x, &before, g->y, p->y, g->y, p->y, &p->algo,
                     scratch, SG_CUDA_LIBRARY_BYTES, c->queue);
}

/* ---- opened on demand ---- */

/* What it lacks; NULL: nothing. */
static const char *load(sg_lt *l)
{
    l->library = sg_cuda_library(LIBRARY);
    if (!l->library) return LIBRARY " is not installed";
#define X(name) SG_CUDA_FIND(l, LIBRARY, "cublasLt", name)
    LT_CALLS(X)
#undef X
    return l->Create(&l->handle) == CUBLAS_STATUS_SUCCESS ? NULL : LIBRARY " does not start";
}

/* The library, opened when first asked for; NULL where there is none that works, or no memory. */
static sg_lt *lt_of(sg_cuda *c)
{
    if (!c->lt) {
        c->lt = calloc(1, sizeof *c->lt);
        if (c->lt) c->lt->lacks = load(c->lt);
        cudaGetLastError(); /* our own kernels' launches shall not find it */
    }
    return c->lt && !c->lt->lacks ? c->lt : NULL;
}

sg_status sg_cuda_gemm(sg_stream *s, const char *op, const sg_gemm *g)
{
    const bool small = g->i > 0 && g->n * g->o < sg_div_up(sg_cuda_of(s)->lt_min_macs, g->i);
    if (small || !lt_of(sg_cuda_of(s))) return sg_cuda_gemm_own(s, op, g);
    void *const scratch = sg_cuda_scratch(s, op, SG_CUDA_LIBRARY, SG_CUDA_LIBRARY_BYTES);
    if (!scratch) return s->status;
    const cublasStatus_t status = run(sg_cuda_of(s), g, scratch);
    if (status == CUBLAS_STATUS_SUCCESS) return sg_cuda_launched(s, op);
    return sg_fail(s, status == CUBLAS_STATUS_ALLOC_FAILED ? SG_E_MEMORY : SG_E_DEVICE,
                   "%s: cublasLt fails with status %d at %s [%lld, %lld] x [%lld, %lld] to %s", op, (int)status,
                   sg_dtype_name(g->type), (long long)g->n, (long long)g->i, (long long)g->o, (long long)g->i,
                   sg_dtype_name(g->y_type));
}

const char *sg_lt_lacks(const sg_cuda *c) { return c->lt ? c->lt->lacks : NULL; }

void sg_lt_close(sg_cuda *c)
{
    sg_lt *const l = c->lt;
    if (!l) return;
    for (int i = 0; i < l->count; i++) plan_free(l, l->kept[i]);
    if (l->handle) l->Destroy(l->handle);
    if (l->library) dlclose(l->library);
    free(l);
    c->lt = NULL;
}
