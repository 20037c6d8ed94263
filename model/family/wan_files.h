/* wan_files.h - the parts of Wan as files have them, for the registry. */
#ifndef SG_WAN_FILES_H
#define SG_WAN_FILES_H

#include "checkpoint_files.h"

extern const sg_file_part sg_wan_dit_file, sg_wan_dit_diffusers_file;
extern const sg_file_part sg_wan_dit_image_file, sg_wan_dit_image_diffusers_file;
extern const sg_file_part sg_wan_vae_file, sg_wan_vae_residual_file, sg_wan_vae_diffusers_file;
extern const sg_file_part sg_wan_vae_residual_diffusers_file;

#define SG_WAN_FILE_PARTS                                                                                              \
    &sg_wan_dit_file, &sg_wan_dit_diffusers_file, &sg_wan_dit_image_file, &sg_wan_dit_image_diffusers_file,            \
        &sg_wan_vae_file, &sg_wan_vae_residual_file, &sg_wan_vae_diffusers_file, &sg_wan_vae_residual_diffusers_file

#endif
