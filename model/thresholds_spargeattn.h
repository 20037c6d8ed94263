/* thresholds_spargeattn.h - the values that SpargeAttn's own tuning saves. Internal to thresholds.c.
 * Source: extract_sparse_attention_state_dict in spas_sage_attn/autotune.py, thu-ml/SpargeAttn. */
#ifndef SG_THRESHOLDS_SPARGEATTN_H
#define SG_THRESHOLDS_SPARGEATTN_H

#include "tensor_source.h"
#include "thresholds.h"

/* f is empty, and the caller's to free after a failure too. */
sg_status sg_thresholds_take(sg_thresholds_file *f, const sg_source *s, sg_error *e) SG_MUST_USE;

#endif
