/* part_names.h - the names of parts in files, found as the program finds them: by a tensor that the part is known
 * by. */
#ifndef SG_PART_NAMES_H
#define SG_PART_NAMES_H

#include "family_files.h"

static sg_name_map wan_dit_names, wan_vae_names, wan_vae_residual_names, wan_t5_names, wan_clip_vision_names,
    t5_gguf_names, llama_gguf_names, ldm_vae_names, cogvideox_dit_names, cogvideox_vae_names, mochi_dit_names,
    mochi_vae_names, hunyuan_dit_names, hunyuan_dit_saved_names, hunyuan_dit_saved_before_names, flux_dit_names,
    flux_dit_saved_names, sd3_dit_names;

/* A bound name of SD3's last block, whose number is span - 1. */
#define SD3_LAST "last_block.x_block.adaLN_modulation.1.weight"

/* Before main: tables of tests have the addresses. */
__attribute__((constructor)) static void find_names(void)
{
    static const struct {
        sg_name_map *map;
        const char  *what, *probe, *not_probe;
    } of[] = {{&wan_dit_names, "denoiser of Wan", "head.modulation", NULL},
              {&wan_vae_names, "VAE of Wan", "decoder.middle.0.residual.0.gamma", NULL},
              {&wan_vae_residual_names, "VAE of Wan", "decoder.upsamples.0.upsamples.0.residual.2.weight", NULL},
              {&wan_t5_names, "text encoder of the T5 family", "blocks.0.attn.q.weight", NULL},
              {&wan_clip_vision_names, "image encoder of CLIP", "transformer.0.attn.to_qkv.weight", NULL},
              {&t5_gguf_names, "text encoder of the T5 family", "enc.blk.0.attn_q.weight", NULL},
              {&llama_gguf_names, "text encoder of the Llama family", "blk.0.attn_norm.weight", NULL},
              {&ldm_vae_names, "VAE of Flux.1 or Stable Diffusion 3", "decoder.mid.block_1.conv1.weight", NULL},
              {&cogvideox_dit_names, "denoiser of CogVideoX", "mixins.patch_embed.proj.weight", NULL},
              {&cogvideox_vae_names, "VAE of CogVideoX", "decoder.mid.block_1.norm1.conv_y.conv.weight", NULL},
              {&mochi_dit_names, "denoiser of Mochi", "t5_yproj.weight", NULL},
              {&mochi_vae_names, "VAE of Mochi", "blocks.0.1.stack.0.weight", NULL},
              {&hunyuan_dit_names, "denoiser of HunyuanVideo", "double_blocks.0.img_attn_qkv.weight", NULL},
              {&hunyuan_dit_saved_names, "denoiser of HunyuanVideo",
               "txt_in.individual_token_refiner.blocks.0.self_attn.qkv.weight",
               "double_blocks.0.img_attn.norm.key_norm.scale"},
              {&hunyuan_dit_saved_before_names, "denoiser of HunyuanVideo",
               "txt_in.individual_token_refiner.blocks.0.self_attn.qkv.weight",
               "double_blocks.0.img_attn.norm.key_norm.weight"},
              {&flux_dit_names, "denoiser of Flux.1", "double_blocks.0.img_attn.norm.key_norm.scale", NULL},
              {&flux_dit_saved_names, "denoiser of Flux.1", "double_blocks.0.img_attn.norm.key_norm.weight", NULL},
              {&sd3_dit_names, "denoiser of Stable Diffusion 3", "joint_blocks.0.context_block.attn.qkv.weight", NULL}};
    const sg_model_files *files;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int k = 0; (files = sg_files_of(k)) != NULL; k++)
            for (const sg_file_part *p = files->part; p < files->part + files->parts; p++)
                if (strcmp(p->what, of[i].what) == 0 && strcmp(p->probe, of[i].probe) == 0 &&
                    (!of[i].not_probe || strcmp(p->not_probe, of[i].not_probe) == 0))
                    *of[i].map = *p->names;
}

#endif
