/* sd3_files.h - the denoiser of Stable Diffusion 3 and 3.5 as files have it, for the registry. */
#ifndef SG_SD3_FILES_H
#define SG_SD3_FILES_H

#include "checkpoint_files.h"

extern const sg_file_part sg_sd3_dit_file, sg_sd3_dit_diffusers_file;

#define SG_SD3_FILE_PARTS &sg_sd3_dit_file, &sg_sd3_dit_diffusers_file

#endif
