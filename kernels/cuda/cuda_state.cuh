/* cuda_state.cuh - the backend's state, how failures latch, its scratch, and its products: what the C files and the
 * kernels share. C and C++. */
#ifndef SG_CUDA_STATE_CUH
#define SG_CUDA_STATE_CUH

#include "cuda_backend.h"
#include "fallback.h"
#include "quant.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks of device memory that live as long as the backend, one holder each inside an op. The first three have these
 * bytes from the start, which their holders keep to, so that a plan knows what they take; the others grow. The
 * library's are what NVIDIA advises for its newest devices. */
enum { SG_CUDA_LIBRARY_BYTES = 32 << 20, SG_CUDA_SUM_BYTES = 128 << 20, SG_CUDA_X_BYTES = 96 << 20 };

/* Bytes of shared memory that a block may ask for on any GPU from 8.0 up: that of 8.6, 8.9 and 12.0. */
enum { SG_CUDA_SMEM_MIN = 99 << 10 };

typedef enum sg_cuda_slot {
    SG_CUDA_LIBRARY, /* cublasLt's scratch, and cuDNN's */
    SG_CUDA_SUM,     /* a product before bias, activation and rounding; scores */
    SG_CUDA_X,       /* an operand in another dtype, or gathered for a convolution; weights of scores */
    SG_CUDA_W,       /* weights in another dtype or layout */
    SG_CUDA_B,       /* a bias as BF16 */
    SG_CUDA_WIDE,    /* quantised weights, widened */
    SG_CUDA_SLOTS
} sg_cuda_slot;

typedef struct sg_cuda_block {
    void  *data;
    size_t bytes;
} sg_cuda_block;

/* Pinned host memory: see sg_memory. */
typedef struct sg_cuda_stage {
    char       *data;
    cudaEvent_t over; /* what was last asked of it */
} sg_cuda_stage;

enum { SG_CUDA_STAGES = 2 };

/* How weights that stay on the host come: see sg_fetch_args. */
typedef struct sg_cuda_feed {
    cudaStream_t queue;
    cudaEvent_t  left[2]; /* ops that were called before the last fetch into the other slot are done */
    cudaEvent_t  arrived; /* the last fetch */
    int          last;    /* its slot; -1: the events say nothing */
} sg_cuda_feed;

struct sg_lt;
struct sg_dnn;
struct sg_cuda_graph;
struct sg_nvml;

/* Multiply-adds from which an op is worth cuDNN's start and, for attention and products, its compiling. A
 * convolution of fewer than SG_DNN_COLS output channels counts as one of so many: ours makes a product of it, whose
 * tiles are no narrower. */
#define SG_DNN_MIN_MACS ((int64_t)1 << 34)
#define SG_DNN_COLS 64

/* The same of a matmul and cublasLt. The embedded model's default clip has none so large: its largest is a
 * convolution's piece, 96 MB of gathered BF16 by 72 channels, which is 0.84 of this. */
#define SG_LT_MIN_MACS ((int64_t)1 << 32)
#define SG_DNN_NEVER (INT64_MAX / 2) /* not the last number: it is divided rounding up */

typedef struct sg_cuda {
    sg_ops               ops;
    cudaStream_t         queue;
    struct sg_lt        *lt;        /* NULL until a matmul wants it */
    struct sg_dnn       *dnn;       /* NULL until an op wants it */
    int64_t               dnn_min_macs; /* SG_DNN_MIN_MACS; less to try cuDNN with small shapes, SG_DNN_NEVER */
    struct sg_cuda_graph *graph;
    struct sg_nvml      *nvml;       /* NULL until clocks are asked for */
    int                  device;     /* as CUDA counts them: all that stands here is its */
    unsigned             features;   /* which of our own kernels serve */
    int                  processors; /* streaming multiprocessors */
    size_t                smem_max;   /* bytes of shared memory that a block may ask for */
    sg_cuda_block        block[SG_CUDA_SLOTS];
    sg_cuda_stage        stage[SG_CUDA_STAGES];
    size_t               stage_bytes; /* of each; 0: there are none */
    int                  staged;      /* which was given last */
    sg_cuda_feed         feed;
    int64_t              lt_min_macs; /* SG_LT_MIN_MACS; less to try cublasLt with small shapes */
    sg_fallbacks         fallbacks;
    cudaEvent_t          joined;         /* the last join or leave; NULL before the first */
    int                  program_device; /* the thread's before the last join, at first before the opening; -1: unknown */
} sg_cuda;

static inline sg_cuda *sg_cuda_of(const sg_stream *s) { return (sg_cuda *)s->impl; }

/* A macro's value as text. */
#define SG_TEXT(x) SG_TEXT_OF(x)
#define SG_TEXT_OF(x) #x

/* Opens one of NVIDIA's libraries, by dlopen: the system's, or that of the toolkit that was built with. NULL: neither
 * has it. */
void *sg_cuda_library(const char *name);

/* Sets l->name to the library's function of that name, or returns what it lacks. POSIX: memcpy copies a function,
 * too. */
#define SG_CUDA_FIND(l, LIBRARY, prefix, name)                                                                         \
    {                                                                                                                  \
        void *const p = dlsym((l)->library, prefix #name);                                                             \
        if (!p) return LIBRARY " has no " prefix #name;                                                                \
        memcpy(&(l)->name, &p, sizeof p);                                                                              \
    }

/* Latches a failure of CUDA under the op's name; SG_OK for cudaSuccess. */
sg_status sg_cuda_check(sg_stream *s, const char *op, cudaError_t e);

/* Lets a kernel have so many bytes of dynamic shared memory on the calling thread's device. */
cudaError_t sg_cuda_allow_shared(const void *kernel, size_t bytes);

/* To be returned after launches: failures of the launch itself, and those that earlier work has left. */
static inline sg_status sg_cuda_launched(sg_stream *s, const char *op)
{
    return sg_cuda_check(s, op, cudaGetLastError());
}

/* ---- clocks: cuda_clocks.c ---- */

/* Does what sg_backend_clocks says. */
bool sg_cuda_clocks(const sg_backend *b, sg_clocks *out);
void sg_cuda_clocks_close(sg_cuda *c);

/* ---- memory: cuda_memory.c ---- */

extern const sg_memory sg_cuda_memory;

/* Makes b's device the calling thread's. What fails here, the next call tells. */
void sg_cuda_enter(const sg_backend *b);

/* Allocates the scratch memory whose size is fixed, and what fetches take, on the device that the calling thread has
 * entered. What was made before a failure is for close. */
cudaError_t sg_cuda_memory_open(sg_cuda *c);
void        sg_cuda_memory_close(sg_cuda *c);

/* Does what sg_ops says of fetch. */
sg_status sg_cuda_fetch(sg_stream *s, const sg_fetch_args *a);

/* `bytes` of slot's memory, SG_ALIGN aligned; what it held is lost. NULL, latched, when memory is short. */
void *sg_cuda_scratch(sg_stream *s, const char *op, sg_cuda_slot slot, size_t bytes);

/* Each file's entries of the table. */
void sg_cuda_elem_init(sg_ops *t);
void sg_cuda_norm_rope_init(sg_ops *t);
void sg_cuda_data_movement_init(sg_ops *t);
void sg_cuda_linear_init(sg_ops *t);
void sg_cuda_conv_init(sg_ops *t);
void sg_cuda_attend_init(sg_ops *t);
void sg_cuda_pool_init(sg_ops *t);
void sg_cuda_score_init(sg_ops *t);
void sg_cuda_select_init(sg_ops *t);
void sg_cuda_blocks_init(sg_ops *t);
void sg_cuda_f8_init(sg_ops *t);    /* of level sm89 */
void sg_cuda_wgmma_init(sg_ops *t); /* of level sm90 */

/* ---- steps replayed: cuda_graph.c ---- */

/* Puts itself before the entries of c->ops, which must all be there, and adds step_begin and step_end. */
sg_status sg_graph_open(sg_cuda *c, sg_error *e);
void      sg_graph_close(sg_cuda *c);

/* To be called before anything but an op touches the queue: ops that were put off run. */
sg_status sg_graph_flush(sg_stream *s);

/* To be called before memory moves that ops launch kernels on without its being in their args. False: not now, the
 * launches are being recorded. */
bool sg_graph_may_move(sg_cuda *c);

/* ---- matmuls: by cublasLt, cuda_lt.c, from c->lt_min_macs multiply-adds on; else by gemm.cu ---- */

/* y = x w^T + b, or the gelu of that, or with add y += x w^T + b. F32 operands are multiplied as F32, never as TF32;
 * sums are F32 whatever the operands. F32 operands give an F32 y. */
typedef struct sg_gemm {
    void       *y;     /* [n, o], rows stride apart */
    const void *x, *w; /* [n, i] [o, i] */
    const void *b;     /* [o] of y's dtype, 16-byte aligned, o a multiple of 8; or NULL */
    int64_t     n, i, o, stride;
    int64_t     x_stride, w_stride; /* of rows that are not dense; 0: i */
    sg_dtype    type, y_type;       /* of x and w; of y: F32 or BF16 */
    bool        gelu;               /* only with a BF16 y: the library's tanh is not F32's */
    bool        add;                /* not with gelu */
} sg_gemm;

sg_status sg_cuda_gemm(sg_stream *s, const char *op, const sg_gemm *g);

sg_status sg_cuda_gemm_own(sg_stream *s, const char *op, const sg_gemm *g);

/* Why cublasLt was wanted and does not serve, for people; NULL: it does, or was not wanted. */
const char *sg_lt_lacks(const sg_cuda *c);
void        sg_lt_close(sg_cuda *c);

/* ---- cuDNN: cuda_dnn.c ---- */

/* Run BF16 attention without biases, and BF16 convolutions with zeros beyond the edges, from c->dnn_min_macs
 * multiply-adds on, and tell in *status how that went. w is a->w in the order [o, kt, ky, kx, i], SG_ALIGN aligned.
 * False: not for cuDNN, or it is not installed, or has no engine for this. */
bool sg_cuda_attend_dnn(sg_stream *s, const sg_attend_args *a, sg_status *status);
typedef sg_status sg_bias_fn(sg_stream *s, const sg_conv_args *a); /* y = b, or with add y += b */
bool sg_cuda_conv_dnn(sg_stream *s, const sg_conv_args *a, const void *w, sg_bias_fn *put_bias, sg_status *status);

/* As sg_backend_served. */
void sg_dnn_describe(const sg_cuda *c, char *text, size_t size);
void sg_dnn_close(sg_cuda *c);

/* ---- products on top of cublasLt: linear.cu ---- */

/* y = act(x w^T + b), or with add y += gate (x w^T + b), all rows dense. The dtypes of x and w may differ: then both
 * are multiplied as F32. */
typedef struct sg_linear_job {
    void        *y;     /* [n, o], F32 or BF16 */
    const void  *x, *w; /* [n, i] [o, i], F32 or BF16 */
    const float *b;        /* [o]? */
    const float *gate;     /* [o]?, only with add; with gate_row [r, o] */
    const int   *gate_row; /* [n]? */
    int64_t      n, i, o;
    sg_dtype     y_type, x_type, w_type;
    sg_act       act; /* SG_ACT_NONE with add */
    bool         add;
} sg_linear_job;

sg_status sg_cuda_linear(sg_stream *s, const char *op, const sg_linear_job *p);

/* The same with BF16 operands, added to an F32 y, by cuDNN: as sg_cuda_attend_dnn. */
bool sg_cuda_added_dnn(sg_stream *s, const char *op, const sg_linear_job *p, sg_status *status);

/* ---- quantised weights: quant.cu. The first of all their rows begins at SG_ALIGN. ---- */

/* Where w's numbers are now, in its dtype: in SG_CUDA_WIDE. NULL, latched: it failed. */
const void *sg_cuda_widen(sg_stream *s, const char *op, const sg_tensor *w);

/* y[n, o] = x w^T, sums in F32, of at most SG_GPU_FEW_ROWS rows of x. */
sg_status sg_cuda_few_rows(sg_stream *s, const char *op, float *y, const sg_tensor *x, const sg_tensor *w);

/* ---- group_norm.cu ---- */

sg_status sg_cuda_norm_groups(sg_stream *s, const sg_norm_args *a); /* norm of kind GROUP */

/* ---- attend_mma.cu ---- */

/* Runs BF16 attention with d at most 256 on tensor cores and tells in *status how that went. False: not for this
 * kernel, or the device has too little shared memory for it. */
bool sg_cuda_attend_mma(sg_stream *s, const sg_attend_args *a, sg_status *status);

/* ---- attend_short.cu ---- */

/* As sg_cuda_attend_mma, with d of 64, 96 or 128, without a bias for each pair, not causal, each head with keys of its own,
 * and so few keys that those of a head fit into shared memory. */
bool sg_cuda_attend_short(sg_stream *s, const sg_attend_args *a, sg_status *status);

/* ---- attend_large_head.cu ---- */

/* As sg_cuda_attend_mma, with d above 256 and without biases, by products of the library. */
bool sg_cuda_attend_large_head(sg_stream *s, const sg_attend_args *a, sg_status *status);

#ifdef __cplusplus
}
#endif

static inline int64_t sg_max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* 16 bytes may move at once. */
static inline bool sg_cuda_aligned(const void *p) { return (uintptr_t)p % 16 == 0; }
static inline bool sg_cuda_attend_aligned(const sg_attend_args *a)
{
    return sg_cuda_aligned(a->y.data) && sg_cuda_aligned(a->q.data) && sg_cuda_aligned(a->k.data) &&
           sg_cuda_aligned(a->v.data);
}

#endif
