/* opensora_files.h - what the scripts of Open-Sora-Plan 1.3 have beside its networks. Source: PKU-YuanGroup/Open-Sora-Plan,
 * opensora/utils/sample_utils.py and scripts/text_condition/gpu/sample_t2v_v1_3.sh. */
#ifndef SG_OPENSORA_FILES_H
#define SG_OPENSORA_FILES_H

#include "family.h"

extern const sg_known_shape sg_opensora_shapes[]; /* an sg_family's shapes and widths */
extern const sg_known_width sg_opensora_widths[];

/* Is an sg_family's `prompt`. */
sg_status sg_opensora_prompt(const void *model, int encoder, int pass, const char *text, char **out, size_t *size,
                             sg_error *e) SG_MUST_USE;

/* Returns the defaults of a denoiser with this config. c's VAE, patch and frames are set. */
sg_request sg_opensora_defaults(const sg_components *c, sg_config *config);

#endif
