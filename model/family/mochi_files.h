/* mochi_files.h - the parts of Mochi as files have them, for the registry. */
#ifndef SG_MOCHI_FILES_H
#define SG_MOCHI_FILES_H

#include "checkpoint_files.h"

extern const sg_file_part sg_mochi_dit_file, sg_mochi_dit_diffusers_file;
extern const sg_file_part sg_mochi_vae_file, sg_mochi_vae_diffusers_file;

#define SG_MOCHI_FILE_PARTS                                                                                            \
    &sg_mochi_dit_file, &sg_mochi_dit_diffusers_file, &sg_mochi_vae_file, &sg_mochi_vae_diffusers_file

#endif
