/* flux_files.h - the denoiser of Flux.1 as files have it, for the registry. */
#ifndef SG_FLUX_FILES_H
#define SG_FLUX_FILES_H

#include "checkpoint_files.h"

extern const sg_file_part sg_flux_dit_file, sg_flux_dit_saved_file, sg_flux_dit_diffusers_file;

#define SG_FLUX_FILE_PARTS &sg_flux_dit_file, &sg_flux_dit_saved_file, &sg_flux_dit_diffusers_file

#endif
