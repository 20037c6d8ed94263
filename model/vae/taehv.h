/* taehv.h - TAEHV, the small decoder of video latents for previews: taehv.py of github.com/madebyollin/taehv, as taew2_1 and
 * taew2_2 are published, or any other of its widths. */
#ifndef SG_TAEHV_H
#define SG_TAEHV_H

#include "vae.h"

/* Opens the decoder in the file at path (safetensors, or what torch.save writes), for latents as `of` describes them.
 * It loads nothing. On failure *out stays as it is, and e tells file, tensor and reason. */
sg_status sg_taehv_open(sg_vae *out, const char *path, const sg_vae_info *of, sg_dtype act, sg_error *e) SG_MUST_USE;

#endif
