/* cogvideox_names.c - see cogvideox_names.h. Source: the modules of CogVideo (sat/dit_video_concat.py, sat/vae_modules) and
 * diffusers' converter. */
#include "cogvideox_names.h"
#include "file_names.h"

/* ---- the denoiser ---- */

#define B "transformer_blocks.%d."
#define L "transformer.layers.%d."
#define M "mixins."
#define N "mixins.adaln_layer."

static const sg_name_rule dit[] = {
    AS("patch_embed", M "patch_embed"),
    AS("patch_embed.pos_embedding", M "pos_embed.pos_embedding"),
    AS("norm_final", "transformer.final_layernorm"),
    AS("time_embedding.linear_1", "time_embed.0"),
    AS("time_embedding.linear_2", "time_embed.2"),
    AS("ofs_embedding.linear_1", "ofs_embed.0"),
    AS("ofs_embedding.linear_2", "ofs_embed.2"),
    AS(B "norm1.norm", L "input_layernorm"),
    AS(B "norm2.norm", L "post_attention_layernorm"),
    /* shift, scale, gate of attention, the same of the feed-forward; the six of the video, then of the text */
    {B "norm1.linear", N "adaLN_modulations.%d.1", 12, {{0, 3}, {6, 3}}},
    {B "norm2.linear", N "adaLN_modulations.%d.1", 12, {{3, 3}, {9, 3}}},
    PART(B "attn1.to_q", L "attention.query_key_value", 0, 3),
    PART(B "attn1.to_k", L "attention.query_key_value", 1, 3),
    PART(B "attn1.to_v", L "attention.query_key_value", 2, 3),
    AS(B "attn1.to_out.0", L "attention.dense"),
    AS(B "attn1.norm_q", N "query_layernorm_list.%d"),
    AS(B "attn1.norm_k", N "key_layernorm_list.%d"),
    AS(B "ff.net.0.proj", L "mlp.dense_h_to_4h"),
    AS(B "ff.net.2", L "mlp.dense_4h_to_h"),
    AS("norm_out.norm", M "final_layer.norm_final"),
    AS("norm_out.linear", M "final_layer.adaLN_modulation.1"),
    AS("proj_out", M "final_layer.linear"),
};
const sg_name_map sg_cogvideox_dit_names = {MAP(dit)};

/* ---- the VAE ---- */

/* Levels of the decoder count from the other end. */
static const sg_name_rule vae[] = {
    AS("encoder.mid_block.resnets.0", "encoder.mid.block_1"),
    AS("encoder.mid_block.resnets.1", "encoder.mid.block_2"),
    AS("decoder.mid_block.resnets.0", "decoder.mid.block_1"),
    AS("decoder.mid_block.resnets.1", "decoder.mid.block_2"),
    AS("encoder.down_blocks.%d.resnets.%d", "encoder.down.%d.block.%d"),
    AS("encoder.down_blocks.%d.resnets.%d.conv_shortcut", "encoder.down.%d.block.%d.nin_shortcut"),
    AS("encoder.down_blocks.%d.downsamplers.0", "encoder.down.%d.downsample"),
    AS("decoder.up_blocks.%d.resnets.%d", "decoder.up.%r.block.%d"),
    AS("decoder.up_blocks.%d.resnets.%d.conv_shortcut", "decoder.up.%r.block.%d.nin_shortcut"),
    AS("decoder.up_blocks.%d.upsamplers.0", "decoder.up.%r.upsample"),
    {.file = "loss"},
};
const sg_name_map sg_cogvideox_vae_names = {MAP(vae), .span = 4};
