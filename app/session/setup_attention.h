/* setup_attention.h - from the options of attention to a policy. */
#ifndef SG_SETUP_ATTENTION_H
#define SG_SETUP_ATTENTION_H

#include "engine.h"
#include "setup.h"
#include "tensor_source.h"
#include "thresholds.h"

/* What a policy borrows from files that options name. Zero is none. */
typedef struct sg_attention_files {
    sg_thresholds_file tuned;
    sg_source         *mask;
} sg_attention_files;

/* Changes p, the model's, to what s asks for; strings are borrowed from s. The caller closes f after the last use of p, after
 * a failure too. SG_E_ARG, SG_E_FILE or SG_E_FORMAT with the option and the file. */
sg_status sg_setup_attention(sg_policy *p, sg_attention_files *f, const sg_settings *s, sg_error *e) SG_MUST_USE;
void      sg_attention_files_close(sg_attention_files *f);

/* A warning about the thresholds that p uses, f's or those beside the model: they are of another checkpoint, or for
 * another way to choose blocks. "" if there is none. Returns text. */
const char *sg_setup_warning(char *text, size_t size, const sg_policy *p, const sg_attention_files *f,
                             const sg_model_path *model);

/* A warning about the threshold of the step cache beside the model: it is of another checkpoint. "" if not. Returns text. */
const char *sg_setup_cache_warning(char *text, size_t size, const sg_model_path *model);

#endif
