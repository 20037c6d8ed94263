/* flux_names.h - how the denoiser of Flux.1 is called by its authors, in ComfyUI's files and in GGUF: the rules of name_map.h, from the
 * Diffusers name to the file's. A LoRA has the same names. */
#ifndef SG_FLUX_NAMES_H
#define SG_FLUX_NAMES_H

#include "name_map.h"

extern const sg_name_map sg_flux_dit_names;
extern const sg_name_map sg_flux_dit_saved_names; /* as ComfyUI saves it today: norms have a weight, not a scale */

#endif
