/* tune_block.h - the error of 32 neighbouring queries by each of many choices of blocks of keys, from one pass over all
 * keys. Private to tune.c, its kernels and its test.
 *
 * The blocks of keys come in one order, so each choice keeps a prefix of it: sums of the softmax run along the order, and
 * the output of a choice costs a division, not another attention. */
#ifndef SG_TUNE_BLOCK_H
#define SG_TUNE_BLOCK_H

#include "op.h"

enum { SG_TUNE_AMOUNTS = 32, SG_TUNE_PV_THRESHOLDS = 12, SG_TUNE_ROWS = 32 };

/* The keys and values of one head. nk blocks of SG_BLOCK_K; `wide` is d rounded up to 64. What lies beyond m or d is 0. */
typedef struct sg_tune_keys {
    int64_t m, d;
    float  *k;      /* [nk, d, 64]: each block transposed */
    float  *v;      /* [64 nk, wide] */
    float  *mean_k; /* [ceil(nk / 64), d, 64]: means of blocks, in the same layout */
    float  *mean_v; /* [nk, wide] */
} sg_tune_keys;

typedef struct sg_tune_rows {
    const float   *q;     /* [SG_TUNE_ROWS, d], times the scale of the logits */
    const int32_t *rank;  /* [nk] blocks of keys, the last to be skipped first */
    const int32_t *count; /* [SG_TUNE_AMOUNTS] how many of rank each choice keeps: rising, from 1 or more up to nk */
    const float *bias; /* [nk]: added to the logit of a skipped block's mean; NULL: skipped blocks are dropped */
    const float *pv_threshold; /* [SG_TUNE_PV_THRESHOLDS], falling: the PV filter of op.h, in powers of two */
    int          filter;       /* the choice that the filter is tried on; -1: none */
} sg_tune_rows;

/* Sums over rows and channels, and over calls. */
typedef struct sg_tune_loss {
    double size, error[SG_TUNE_AMOUNTS];    /* of |exact|; of |y - exact| of each choice */
    double filter_size, filter_error;       /* the same of the choice that the filter was tried on, without it */
    double filtered[SG_TUNE_PV_THRESHOLDS]; /* and with it */
    double filter_blocks, skipped[SG_TUNE_PV_THRESHOLDS]; /* kept blocks; of these, left out by it */
} sg_tune_loss;

/* Adds to *loss. work: F32, sg_tune_work_count of them, SG_ALIGN aligned. */
typedef void sg_tune_kernel(sg_tune_loss *loss, const sg_tune_keys *k, const sg_tune_rows *r, float *work);

int64_t sg_tune_wide(int64_t d);
size_t  sg_tune_work_count(const sg_tune_keys *k);

sg_tune_kernel sg_vec_tune_base, sg_vec_tune_avx2, sg_vec_tune_avx512;

#endif
