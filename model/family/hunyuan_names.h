/* hunyuan_names.h - how the denoiser of HunyuanVideo is called in its original repository and in single files: the rules of
 * name_map.h, from the Diffusers name to the file's. A LoRA has the same names. */
#ifndef SG_HUNYUAN_NAMES_H
#define SG_HUNYUAN_NAMES_H

#include "name_map.h"

extern const sg_name_map sg_hunyuan_dit_names;
/* These are the names as ComfyUI saves it, today and before: norms then had a scale, not a weight. */
extern const sg_name_map sg_hunyuan_dit_saved_names, sg_hunyuan_dit_saved_before_names;

#endif
