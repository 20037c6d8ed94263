/* attention.h - attention for any C or C++ program: bare pointers in, bare pointers out, no models and no files.
 *
 *     o = softmax(scale q k^T) v, of each batch and head
 *
 * exactly, quantised (SageAttention), or quantised and sparse (SpargeAttn, arXiv:2502.18137, with later additions). A
 * member that is 0 or NULL takes its default. A complete use:
 *
 *     sg_attention_context *c;
 *     sg_attention_context_open(&c, NULL, &error);
 *     sg_attention_call(c, &(sg_attention_call_args){.o = o, .q = q, .k = k, .v = v, .heads = 12, .head_dim = 128,
 *                                                    .n = 21 * 30 * 52, .grid = {21, 30, 52}}, NULL, &error);
 *     sg_attention_context_close(&c);
 *
 * The reference's calls map to it as follows. spas_sage2_attn_meansim_topk_cuda(q, k, v, topk=0.5, is_causal=False) is
 * preset "paper" with topk 0.5. The arguments simthreshd1, cdfthreshd and pvthreshd are similarity, tau and pv.
 * tensor_layout "NHD" is the layout without strides, "HND" is the stride {heads n head_dim, n head_dim, head_dim}.
 * block_sparse_sage2_attn_cuda is a mask. Its blocks are 128 queries by 64 keys on every
 * machine.
 *
 * The threads are OpenMP's. How long they spin between two calls is the program's to decide: the library does not touch
 * OMP_WAIT_POLICY and GOMP_SPINCOUNT. A program that shares its processors with others sets GOMP_SPINCOUNT to about 1,500,
 * as sparge-gen does for itself (app/session/wait_policy.c). They do not come with a fork: in the child a thread that has
 * called before gets SG_E_UNSUPPORTED, and a new one may call. */
#ifndef SG_ATTENTION_H
#define SG_ATTENTION_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every struct ends in members that are reserved for later versions. They must be 0. */
typedef struct sg_attention_options {
    const char *backend; /* "cpu" (NULL), "cuda", or "ref", the slow oracle */
    int         threads; /* 0: one a core */
    /* Bit i of cpu_mask allows level i: SSE2, AVX2, AVX-512, its VNNI, its BF16, AMX. 0 allows all that there is. */
    unsigned cpu_mask;
    int      device; /* of cuda: which GPU, as CUDA counts them */
    int64_t  reserved[8];
} sg_attention_options;

/* Owns threads, and memory that grows to the need of the largest call. It serves one call at a time. A program may open
 * several.
 *
 * With cuda the tensors lie on the GPU, and so does the memory. A call puts its work behind what is in the program's
 * stream, and returns. What the program puts into the stream afterwards begins when the work is done. A call waits for
 * the GPU where its shape or settings differ from the last call's, where it has a mask or thresholds of heads, and where
 * a report is asked for. A call that waits cannot be captured in a CUDA graph. The calling thread's current device stays
 * what it was. */
typedef struct sg_attention_context sg_attention_context;

/* o may be NULL. *out is NULL after a failure. */
SG_PUBLIC sg_status   sg_attention_context_open(sg_attention_context **out, const sg_attention_options *o,
                                                sg_error *e) SG_MUST_USE;
SG_PUBLIC void        sg_attention_context_close(sg_attention_context **c);
SG_PUBLIC const char *sg_attention_context_device(const sg_attention_context *c); /* for people */

/* The strides count elements. Channels are contiguous. All 0 means [batch, token, head, channel] without gaps. */
typedef struct sg_attention_stride {
    int64_t batch, head, token;
} sg_attention_stride;

typedef struct sg_attention_call_args {
    /* The tensors have n queries and m keys. A tensor with layout [token, head, channel] without gaps is used in place.
     * Other layouts are copied once. F16 is copied to F32. o may not overlap q, k or v. */
    void               *o;
    const void         *q, *k, *v;
    sg_attention_stride o_stride, q_stride, k_stride, v_stride;
    const char         *dtype;           /* of all four: "f32" (NULL), "bf16" or "f16" */
    void               *stream;          /* of cuda: a cudaStream_t; NULL: the default stream */
    int64_t             batch;           /* 0: 1 */
    int64_t             heads, kv_heads; /* 0: as many; else each serves heads / kv_heads neighbouring ones */
    int64_t             head_dim, n, m;  /* m 0: n */
    double              scale;           /* 0: 1 / sqrt(head_dim) */
    int                 causal; /* a token attends to itself and to those before it; the n are the last of m >= n */

    /* The sequence is text_prefix tokens of text, the tokens of the grid (frame by frame and row by row), then
     * text_suffix tokens of text. Rows and columns of text are always computed. The grid's tokens are reordered so that
     * neighbours in space share a block, and o is put back; without a grid they keep their order. n = m. */
    int64_t     grid[3]; /* frames, rows, columns; 0: none */
    const char *order;   /* "hilbert", "hilbert-cube", "hilbert-frame", "morton", "row", "column", "time", "random" */
    int64_t     text_prefix, text_suffix;

    /* These members choose the method. Sequences of fewer than 1,024 tokens are always dense, and the report says so; a
     * mask is then refused. */
    const char    *kind;                  /* "sparge" (NULL), "sage" or "dense" */
    const char    *preset;                /* "usual" (NULL), or "paper": SpargeAttn to the letter */
    double         topk;                  /* the density to aim at, in (0, 1]: 0.5 */
    double         tau;                   /* or the share of the mass to keep, in (0, 1] */
    const uint8_t *mask;                  /* or those that are not 0: [mask_heads, n / 128, m / 64], rounded up */
    int64_t        mask_heads;            /* 1 or heads */
    double         similarity;            /* blocks with a self-similarity below this are always kept; 0: none */
    double         pv;                    /* the PV filter's threshold, in powers of two; 0: off */
    int            sink;                  /* how many leading blocks of keys are always kept */
    const float   *topk_of, *tau_of;      /* per head, [heads], instead of the numbers above; 1: all */
    const float   *similarity_of, *pv_of; /* per head, [heads] */
    const char    *score;                 /* "mean", "sub16", "error" */
    const char    *tail;                  /* "on"; "off", which is the default with a mask */
    const char    *tail_bias;             /* "0", "half", "rank1" */
    const char    *budget;                /* of blocks: one for each "row", or one for all "heads" */
    const char    *pv_dtype; /* of weights and values: "bf16", "int8", "fp8" (GPUs from 8.9 up), "auto" (NULL) */
    int64_t        reserved[8];
} sg_attention_call_args;

/* Seconds count finished work, on a GPU too. There a call with a report first waits for what is in the stream; this wait
 * counts nowhere. Then it waits for each op. The parts contain these waits, so such a call takes longer than one without
 * a report. The first call loads code, too. */
typedef struct sg_attention_report {
    const char *ran;          /* "dense", "sage" or "sparge" */
    const char *why;          /* the reason, where that is not what was asked for; else NULL */
    double      density;      /* share of the pairs of blocks that were computed */
    double      mass;         /* share of the predicted mass, or of the error, in those pairs */
    double      skipped;      /* share of them that the PV filter skipped, counted by 32 queries */
    double      skipped_mass; /* share of the weights that it skipped */
    double      seconds;      /* of all ops, without binding the call and reading the report; the parts: */
    double      copy_seconds; /* copying and reordering the tensors, o back */
    double      pool_seconds, quantise_seconds, score_seconds, select_seconds, tail_seconds, attend_seconds;
    int64_t     reserved[8];
} sg_attention_report;

/* r may be NULL. SG_E_ARG names the invalid member. SG_E_MEMORY leaves the context as it was. */
SG_PUBLIC sg_status sg_attention_call(sg_attention_context *c, const sg_attention_call_args *a, sg_attention_report *r,
                                      sg_error *e) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
