/* mochi_names.c - see mochi_names.h. Source: the modules of genmoai/mochi (dit/joint_model, vae/models.py) and diffusers'
 * converter. */
#include "mochi_names.h"
#include "file_names.h"

/* ---- the denoiser ---- */

#define T "transformer_blocks.%d."
#define A "transformer_blocks.%d.attn1."
#define B "blocks.%d."

static const sg_name_rule dit[] = {
    AS("patch_embed.proj", "x_embedder.proj"),
    AS("time_embed.pooler", "t5_y_embedder"),
    AS("time_embed.caption_proj", "t5_yproj"),
    AS("time_embed.timestep_embedder.linear_1", "t_embedder.mlp.0"),
    AS("time_embed.timestep_embedder.linear_2", "t_embedder.mlp.2"),
    AS(T "norm1.linear", B "mod_x"),
    AS(T "norm1_context.linear", B "mod_y"),
    AS(T "norm1_context.linear_1", B "mod_y"), /* of the last block */
    PART(A "to_q", B "attn.qkv_x", 0, 3),
    PART(A "to_k", B "attn.qkv_x", 1, 3),
    PART(A "to_v", B "attn.qkv_x", 2, 3),
    PART(A "add_q_proj", B "attn.qkv_y", 0, 3),
    PART(A "add_k_proj", B "attn.qkv_y", 1, 3),
    PART(A "add_v_proj", B "attn.qkv_y", 2, 3),
    AS(A "norm_q", B "attn.q_norm_x"),
    AS(A "norm_k", B "attn.k_norm_x"),
    AS(A "norm_added_q", B "attn.q_norm_y"),
    AS(A "norm_added_k", B "attn.k_norm_y"),
    AS(A "to_out.0", B "attn.proj_x"),
    AS(A "to_add_out", B "attn.proj_y"),
    SWAPPED(T "ff.net.0.proj", B "mlp_x.w1"),
    SWAPPED(T "ff_context.net.0.proj", B "mlp_y.w1"),
    AS(T "ff.net.2", B "mlp_x.w2"),
    AS(T "ff_context.net.2", B "mlp_y.w2"),
    AS("proj_out", "final_layer.linear"),
    SWAPPED("norm_out.linear", "final_layer.mod"),
};
const sg_name_map sg_mochi_dit_names = {MAP(dit)};

/* ---- the VAE ---- */

#define RESNET(bound, file)                                                                                            \
    AS(bound ".norm1.norm_layer", file ".stack.0"), AS(bound ".conv1.conv", file ".stack.2"),                          \
        AS(bound ".norm2.norm_layer", file ".stack.3"), AS(bound ".conv2.conv", file ".stack.5")
#define LEVEL(bound, file) RESNET(bound ".resnets.%d", file ".blocks.%d"), AS(bound ".proj", file ".proj")

static const sg_name_rule vae[] = {
    AS("decoder.conv_in", "blocks.0.0"),
    AS("decoder.proj_out", "output_proj"),
    RESNET("decoder.block_in.resnets.0", "blocks.0.1"),
    RESNET("decoder.block_in.resnets.1", "blocks.0.2"),
    RESNET("decoder.block_in.resnets.2", "blocks.0.3"),
    LEVEL("decoder.up_blocks.0", "blocks.1"),
    LEVEL("decoder.up_blocks.1", "blocks.2"),
    LEVEL("decoder.up_blocks.2", "blocks.3"),
    RESNET("decoder.block_out.resnets.%d", "blocks.4.%d"),
};
const sg_name_map sg_mochi_vae_names = {MAP(vae)};
