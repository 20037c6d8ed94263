/* cogvideox_files.h - the parts of CogVideoX as files have them, for the registry. */
#ifndef SG_COGVIDEOX_FILES_H
#define SG_COGVIDEOX_FILES_H

#include "checkpoint_files.h"

extern const sg_file_part sg_cogvideox_dit_file, sg_cogvideox_dit_diffusers_file;
extern const sg_file_part sg_cogvideox_vae_file, sg_cogvideox_vae_diffusers_file;

#define SG_COGVIDEOX_FILE_PARTS                                                                                        \
    &sg_cogvideox_dit_file, &sg_cogvideox_dit_diffusers_file, &sg_cogvideox_vae_file, &sg_cogvideox_vae_diffusers_file

#endif
