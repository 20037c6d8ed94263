/* file_parts.h - what the files of several families have in common: prefixes of names, encoders of texts and pictures, and
 * the VAE of models of pictures. */
#ifndef SG_FILE_PARTS_H
#define SG_FILE_PARTS_H

#include "checkpoint_files.h"

/* The names of a part may begin with these in a file that has others too. The lists are NULL-ended. */
extern const char *const sg_denoiser_prefixes[], *const sg_vae_prefixes[];

/* UMT5 has a table of position biases in every block, T5 one alone. */
extern const sg_file_part sg_umt5_file, sg_umt5_gguf_file, sg_wan_t5_file;
extern const sg_file_part sg_t5_file, sg_t5_gguf_file;
extern const sg_file_part sg_llama_file, sg_llama_gguf_file;
/* The first of each two has "text_model." in front of its names, the "bare" one has not. */
extern const sg_file_part sg_clip_l_file, sg_clip_l_bare_file, sg_clip_g_file, sg_clip_g_bare_file;
extern const sg_file_part sg_kl_vae_file, sg_kl_vae_diffusers_file;
extern const sg_file_part sg_clip_vision_file, sg_wan_clip_vision_file;

#define SG_SHARED_FILE_PARTS                                                                                           \
    &sg_umt5_file, &sg_umt5_gguf_file, &sg_wan_t5_file, &sg_t5_file, &sg_t5_gguf_file, &sg_llama_file,                 \
        &sg_llama_gguf_file, &sg_clip_l_file, &sg_clip_l_bare_file, &sg_clip_g_file, &sg_clip_g_bare_file,             \
        &sg_clip_vision_file, &sg_wan_clip_vision_file, &sg_kl_vae_file, &sg_kl_vae_diffusers_file

#endif
