/* wan_names.h - how the parts of Wan are called where they are not a Diffusers folder: as the original repositories, single
 * files of other programs and GGUF have them. The rules of name_map.h, from the Diffusers name to the file's. A LoRA has the
 * same names. */
#ifndef SG_WAN_NAMES_H
#define SG_WAN_NAMES_H

#include "name_map.h"

extern const sg_name_map sg_wan_dit_names;
extern const sg_name_map sg_wan_vae_names;          /* 2.1; span is that of the published files */
extern const sg_name_map sg_wan_vae_residual_names; /* the same of 2.2 */

#endif
