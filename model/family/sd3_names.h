/* sd3_names.h - how the denoiser of Stable Diffusion 3 and 3.5 is called by its authors, in ComfyUI's files and in GGUF: the rules of
 * name_map.h, from the Diffusers name to the file's. A LoRA has the same names. The map's span is the number of blocks. */
#ifndef SG_SD3_NAMES_H
#define SG_SD3_NAMES_H

#include "name_map.h"

extern const sg_name_map sg_sd3_dit_names;

/* This is a bound name of the last block, whose number is span - 1. A file's span is found by it. */
#define SG_SD3_LAST "last_block.x_block.adaLN_modulation.1.weight"

#endif
