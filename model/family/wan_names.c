/* wan_names.c - see wan_names.h. Source: the modules of Wan2.1 and Wan2.2 (wan/modules), and diffusers' converters. */
#include "wan_names.h"
#include "file_names.h"

/* ---- the denoiser ---- */

#define C "condition_embedder."
#define B "blocks.%d."

static const sg_name_rule dit[] = {
    AS(C "text_embedder.linear_1", "text_embedding.0"),
    AS(C "text_embedder.linear_2", "text_embedding.2"),
    AS(C "time_embedder.linear_1", "time_embedding.0"),
    AS(C "time_embedder.linear_2", "time_embedding.2"),
    AS(C "time_proj", "time_projection.1"),
    AS("proj_out", "head.head"),
    AS("scale_shift_table", "head.modulation"),
    AS(C "image_embedder.norm1", "img_emb.proj.0"),
    AS(C "image_embedder.ff.net.0.proj", "img_emb.proj.1"),
    AS(C "image_embedder.ff.net.2", "img_emb.proj.3"),
    AS(C "image_embedder.norm2", "img_emb.proj.4"),
    AS(C "image_embedder.pos_embed", "img_emb.emb_pos"),
    AS(B "scale_shift_table", B "modulation"),
    AS(B "norm2", B "norm3"),
    AS(B "attn1.to_q", B "self_attn.q"),
    AS(B "attn1.to_k", B "self_attn.k"),
    AS(B "attn1.to_v", B "self_attn.v"),
    AS(B "attn1.to_out.0", B "self_attn.o"),
    AS(B "attn1.norm_q", B "self_attn.norm_q"),
    AS(B "attn1.norm_k", B "self_attn.norm_k"),
    AS(B "attn2.to_q", B "cross_attn.q"),
    AS(B "attn2.to_k", B "cross_attn.k"),
    AS(B "attn2.to_v", B "cross_attn.v"),
    AS(B "attn2.to_out.0", B "cross_attn.o"),
    AS(B "attn2.norm_q", B "cross_attn.norm_q"),
    AS(B "attn2.norm_k", B "cross_attn.norm_k"),
    AS(B "attn2.add_k_proj", B "cross_attn.k_img"),
    AS(B "attn2.add_v_proj", B "cross_attn.v_img"),
    AS(B "attn2.norm_added_k", B "cross_attn.norm_k_img"),
    AS(B "ffn.net.0.proj", B "ffn.0"),
    AS(B "ffn.net.2", B "ffn.2"),
};
const sg_name_map sg_wan_dit_names = {MAP(dit)};

/* ---- the VAE ---- */

#define RESIDUAL(bound, file)                                                                                          \
    AS(bound ".norm1", file ".residual.0"), AS(bound ".conv1", file ".residual.2"),                                    \
        AS(bound ".norm2", file ".residual.3"), AS(bound ".conv2", file ".residual.6"),                                \
        AS(bound ".conv_shortcut", file ".shortcut")
#define CODER(side)                                                                                                    \
    AS(side ".conv_in", side ".conv1"), AS(side ".norm_out", side ".head.0"), AS(side ".conv_out", side ".head.2"),    \
        RESIDUAL(side ".mid_block.resnets.0", side ".middle.0"),                                                       \
        RESIDUAL(side ".mid_block.resnets.1", side ".middle.2"), AS(side ".mid_block.attentions.0", side ".middle.1")
#define BOTH AS("quant_conv", "conv1"), AS("post_quant_conv", "conv2"), CODER("encoder"), CODER("decoder")

static const sg_name_rule vae[] = {
    BOTH,
    RESIDUAL("encoder.down_blocks.%d", "encoder.downsamples.%d"),
    AS("encoder.down_blocks.%d", "encoder.downsamples.%d"), /* resample.1, time_conv */
    RESIDUAL("decoder.up_blocks.%d.resnets.%d", "decoder.upsamples.%p"),
    AS("decoder.up_blocks.%d.upsamplers.0", "decoder.upsamples.%p"),
};
const sg_name_map sg_wan_vae_names = {MAP(vae), .span = 4};

static const sg_name_rule vae_residual[] = {
    BOTH,
    RESIDUAL("encoder.down_blocks.%d.resnets.%d", "encoder.downsamples.%d.downsamples.%d"),
    AS("encoder.down_blocks.%d.downsampler", "encoder.downsamples.%d.downsamples.%2"),
    RESIDUAL("decoder.up_blocks.%d.resnets.%d", "decoder.upsamples.%d.upsamples.%d"),
    AS("decoder.up_blocks.%d.upsampler", "decoder.upsamples.%d.upsamples.%1"),
};
const sg_name_map sg_wan_vae_residual_names = {MAP(vae_residual), .span = 4};
