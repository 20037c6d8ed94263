/* cogvideox_names.h - how the parts of CogVideoX are called in its original repository: the rules of name_map.h, from the
 * Diffusers name to the file's. A LoRA has the same names. */
#ifndef SG_COGVIDEOX_NAMES_H
#define SG_COGVIDEOX_NAMES_H

#include "name_map.h"

extern const sg_name_map sg_cogvideox_dit_names;
extern const sg_name_map sg_cogvideox_vae_names; /* span is that of the published files */

#endif
