/* hunyuan_files.h - the parts of HunyuanVideo as files have them, for the registry. */
#ifndef SG_HUNYUAN_FILES_H
#define SG_HUNYUAN_FILES_H

#include "checkpoint_files.h"

extern const sg_file_part sg_hunyuan_dit_file, sg_hunyuan_dit_diffusers_file;
/* ComfyUI saves the denoiser as the first today, and saved it as the second before. */
extern const sg_file_part sg_hunyuan_dit_saved_file, sg_hunyuan_dit_saved_before_file;
extern const sg_file_part sg_hunyuan_vae_file, sg_hunyuan_vae_diffusers_file;

#define SG_HUNYUAN_FILE_PARTS                                                                                          \
    &sg_hunyuan_dit_file, &sg_hunyuan_dit_diffusers_file, &sg_hunyuan_dit_saved_file,                                  \
        &sg_hunyuan_dit_saved_before_file, &sg_hunyuan_vae_file, &sg_hunyuan_vae_diffusers_file

#endif
