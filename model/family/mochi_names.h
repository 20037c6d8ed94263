/* mochi_names.h - how the parts of Mochi are called in its original repository and in single files: the rules of name_map.h,
 * from the Diffusers name to the file's. A LoRA has the same names. */
#ifndef SG_MOCHI_NAMES_H
#define SG_MOCHI_NAMES_H

#include "name_map.h"

extern const sg_name_map sg_mochi_dit_names;
extern const sg_name_map sg_mochi_vae_names; /* of the decoder, with the published number of levels */

#endif
