/* thresholds_spargeattn.h - the values that SpargeAttn's own tuning saves. It is internal to thresholds.c. Source:
 * extract_sparse_attention_state_dict in spas_sage_attn/autotune.py, thu-ml/SpargeAttn. */
#ifndef SG_THRESHOLDS_SPARGEATTN_H
#define SG_THRESHOLDS_SPARGEATTN_H

#include "policy.h"
#include "tensor_source.h"

enum { SG_SPARGEATTN_LISTS = 4 };

/* Holds the lists of a source, which outlives them. Zero is none. */
typedef struct sg_spargeattn {
    const sg_source *source;
    sg_tensor (*list)[SG_SPARGEATTN_LISTS]; /* [layers] */
    int layers, heads;
} sg_spargeattn;

/* Finds and checks the lists; the caller closes, after a failure too. */
sg_status sg_spargeattn_open(sg_spargeattn *out, const sg_source *s, sg_error *e) SG_MUST_USE;
void      sg_spargeattn_close(sg_spargeattn *x);

/* Reads them into t, of one bucket of as many layers and heads. */
sg_status sg_spargeattn_read(sg_thresholds *t, const sg_spargeattn *x, sg_error *e) SG_MUST_USE;

#endif
