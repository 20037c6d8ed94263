/* hunyuan_names.h - how the parts of HunyuanVideo are called in its original repository and in single files: the rules of
 * name_map.h, from the Diffusers name to the file's. A LoRA has the same names. */
#ifndef SG_HUNYUAN_NAMES_H
#define SG_HUNYUAN_NAMES_H

#include "name_map.h"

extern const sg_name_map sg_hunyuan_dit_names;
extern const sg_name_map sg_hunyuan_vae_names; /* ComfyUI's; the original repository has the model's own */

#endif
