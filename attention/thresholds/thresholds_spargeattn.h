/* thresholds_spargeattn.h - the values that SpargeAttn's own tuning saves. It is internal to thresholds.c. Source:
 * extract_sparse_attention_state_dict in spas_sage_attn/autotune.py, thu-ml/SpargeAttn. */
#ifndef SG_THRESHOLDS_SPARGEATTN_H
#define SG_THRESHOLDS_SPARGEATTN_H

#include "policy.h"
#include "tensor_source.h"

/* Checks the lists of s and reads them into t, of one bucket. The caller releases, after a failure too; zero is none. */
sg_status sg_spargeattn_read(sg_thresholds *t, const sg_source *s, sg_error *e) SG_MUST_USE;

#endif
