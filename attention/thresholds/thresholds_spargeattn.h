/* thresholds_spargeattn.h - the values that SpargeAttn's own tuning saves. It is internal to thresholds.c. Source:
 * extract_sparse_attention_state_dict in spas_sage_attn/autotune.py, thu-ml/SpargeAttn. */
#ifndef SG_THRESHOLDS_SPARGEATTN_H
#define SG_THRESHOLDS_SPARGEATTN_H

#include "run.h"
#include "tensor_source.h"

/* Checks the lists of s and reads them into t, as one bucket. Zero is none; the caller releases t in any case. */
sg_status sg_spargeattn_read(sg_thresholds *t, const sg_source *s, sg_error *e) SG_MUST_USE;

#endif
