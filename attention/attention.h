/* attention.h - attention for any C or C++ program: bare pointers in, bare pointers out, no models and no files.
 *
 *     o = softmax(scale q k^T) v, of each batch and head
 *
 * exactly, quantised (SageAttention), or quantised and sparse (SpargeAttn, arXiv:2502.18137, and what came after it). A
 * 0 or NULL anywhere means the usual, so this is a whole program's use of it:
 *
 *     sg_attention_context *c;
 *     sg_attention_context_open(&c, NULL, &error);
 *     sg_attention_call(c, &(sg_attention_call_args){.o = o, .q = q, .k = k, .v = v, .heads = 12, .head_dim = 128,
 *                                                    .n = 21 * 30 * 52, .grid = {21, 30, 52}}, NULL, &error);
 *     sg_attention_context_close(&c);
 *
 * What callers of the reference know: spas_sage2_attn_meansim_topk_cuda(q, k, v, topk=0.5, is_causal=False) is preset
 * "paper", topk 0.5; ..._cuda(simthreshd1, cdfthreshd, pvthreshd) are similarity, tau and pv; tensor_layout "NHD" is
 * how things lie without strides, "HND" is the stride {heads n head_dim, n head_dim, head_dim};
 * block_sparse_sage2_attn_cuda is a mask. Blocks are 128 queries by 64 keys everywhere.
 *
 * The threads are OpenMP's. How long they spin between two calls is the program's to decide: the library does not touch
 * OMP_WAIT_POLICY and GOMP_SPINCOUNT. A program that shares its processors with others sets GOMP_SPINCOUNT to about 1,500,
 * as sparge-gen does for itself (app/wait_policy.c). */
#ifndef SG_ATTENTION_H
#define SG_ATTENTION_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SG_PUBLIC __attribute__((visibility("default")))
#else
#define SG_PUBLIC
#endif

/* Every struct ends in room for members to come, which has to be 0. */
typedef struct sg_attention_options {
    const char *backend;  /* "cpu" (NULL), or "ref", the slow oracle */
    int         threads;  /* 0: one a core */
    unsigned    cpu_mask; /* bit i allows level i: SSE2, AVX2, AVX-512, its VNNI, its BF16, AMX; 0: all that there is, or
                           * up to what the environment variable SPARGE_GEN_CPUMASK names: base, avx2 .. amx */
    int64_t     reserved[8];
} sg_attention_options;

/* Threads, and memory that grows to what the largest call needs. One call at a time; several may be open. */
typedef struct sg_attention_context sg_attention_context;

/* o may be NULL. *out is NULL after a failure. */
SG_PUBLIC sg_status   sg_attention_context_open(sg_attention_context **out, const sg_attention_options *o,
                                                sg_error *e) SG_MUST_USE;
SG_PUBLIC void        sg_attention_context_close(sg_attention_context **c);
SG_PUBLIC const char *sg_attention_context_device(const sg_attention_context *c); /* for people */

/* In elements; channels lie side by side. All 0: [batch, token, head, channel] without gaps. */
typedef struct sg_attention_stride {
    int64_t batch, head, token;
} sg_attention_stride;

typedef struct sg_attention_call_args {
    /* The tensors: n queries, m keys. What lies as [token, head, channel] without gaps is used where it is, all else is
     * copied once, and so is F16, which is worked with as F32. o may not overlap what is read. */
    void               *o;
    const void         *q, *k, *v;
    sg_attention_stride o_stride, q_stride, k_stride, v_stride;
    const char         *dtype;           /* of all four: "f32" (NULL), "bf16" or "f16" */
    int64_t             batch;           /* 0: 1 */
    int64_t             heads, kv_heads; /* 0: as many; else each serves heads / kv_heads neighbouring ones */
    int64_t             head_dim, n, m;  /* m 0: n */
    double              scale;           /* 0: 1 / sqrt(head_dim) */
    int                 causal;          /* a token sees itself and those before it; n = m */

    /* Where the tokens stand in a video or a picture: text_prefix tokens of text, then t y x of the grid, frame by
     * frame and row by row, then text_suffix tokens of text. Text is always computed. The grid's tokens are put in an
     * order that makes neighbours of them, and o back; without a grid they are taken as they stand. n = m. */
    int64_t     grid[3]; /* frames, rows, columns; 0: none */
    const char *order;   /* "hilbert", "hilbert-cube", "hilbert-frame", "morton", "row", "column", "time", "random" */
    int64_t     text_prefix, text_suffix;

    /* How. Sequences of under 1,024 tokens are dense whatever is asked, which the report tells; a mask is then
     * refused. */
    const char    *kind;                  /* "sparge" (NULL), "sage" or "dense" */
    const char    *preset;                /* "usual" (NULL), or "paper": SpargeAttn to the letter */
    double         topk;                  /* the share of the blocks to keep, in (0, 1]: 0.5 */
    double         tau;                   /* or the share of the mass to keep, in (0, 1] */
    const uint8_t *mask;                  /* or those that are not 0: [mask_heads, n / 128, m / 64], rounded up */
    int64_t        mask_heads;            /* 1 or heads */
    double similarity; /* blocks whose self-similarity is below this are kept whatever their score; 0: none is */
    double         pv;                    /* the filter of weights, in powers of two; 0: off */
    int            sink;                  /* the first so many blocks of keys are kept */
    const float   *topk_of, *tau_of;      /* of each head, [heads], in place of the numbers above; 1: all */
    const float   *similarity_of, *pv_of; /* likewise */
    const char    *score;                 /* "mean", "sub16", "error" */
    const char    *tail;                  /* "on", "off": the usual with a mask */
    const char    *tail_bias;             /* "0", "half", "rank1" */
    const char    *budget;                /* of blocks, for each "row" or for all "heads" together */
    int64_t        reserved[8];
} sg_attention_call_args;

typedef struct sg_attention_report {
    const char *ran;          /* "dense", "sage" or "sparge" */
    const char *why;          /* in words, where that is not what was asked for; else NULL */
    double      density;      /* the share of pairs of blocks that was computed */
    double      mass;         /* the share of the predicted mass, or of the error, that is in them */
    double      skipped;      /* the share of these that the filter left out of the second product, by 32 queries */
    double      skipped_mass; /* the share of the weights that it left out */
    double      seconds;      /* of the whole call, in which: */
    double      copy_seconds; /* tensors into place and order, o back */
    double      pool_seconds, quantise_seconds, score_seconds, select_seconds, tail_seconds, attend_seconds;
    int64_t     reserved[8];
} sg_attention_report;

/* r may be NULL. SG_E_ARG names the member that makes no sense; SG_E_MEMORY leaves the context as it was. */
SG_PUBLIC sg_status sg_attention_call(sg_attention_context *c, const sg_attention_call_args *a, sg_attention_report *r,
                                      sg_error *e) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
