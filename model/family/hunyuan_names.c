/* hunyuan_names.c - see hunyuan_names.h. Sources: the modules of Tencent/HunyuanVideo (hyvideo/modules) and diffusers'
 * converter; ComfyUI (comfy/ldm/modules/diffusionmodules/model.py) for the VAE.
 *
 * What bites: linear1 of a single block is [q | k | v | up], and up is four times as wide as the others in every published
 * model. */
#include "hunyuan_names.h"
#include "file_names.h"

/* ---- the denoiser ---- */

#define E "time_text_embed."
#define C "context_embedder."
#define R "context_embedder.token_refiner.refiner_blocks.%d."
#define I "txt_in.individual_token_refiner.blocks.%d."
#define T "transformer_blocks.%d."
#define D "double_blocks.%d."
#define U "single_transformer_blocks.%d."
#define S "single_blocks.%d."
#define SWAPPED(bound_, file_)                                                                                         \
    {                                                                                                                  \
        .bound = (bound_), .file = (file_), .of = 2, .rows = { {1, 1}, {0, 1} }                                        \
    } /* halves */

static const sg_name_rule dit[] = {
    AS("x_embedder", "img_in"),
    AS(C "proj_in", "txt_in.input_embedder"),
    AS(C E "text_embedder", "txt_in.c_embedder"),
    AS(C E "timestep_embedder.linear_1", "txt_in.t_embedder.mlp.0"),
    AS(C E "timestep_embedder.linear_2", "txt_in.t_embedder.mlp.2"),
    AS(R "norm1", I "norm1"),
    AS(R "norm2", I "norm2"),
    PART(R "attn.to_q", I "self_attn_qkv", 0, 3),
    PART(R "attn.to_k", I "self_attn_qkv", 1, 3),
    PART(R "attn.to_v", I "self_attn_qkv", 2, 3),
    AS(R "attn.to_out.0", I "self_attn_proj"),
    AS(R "ff.net.0.proj", I "mlp.fc1"),
    AS(R "ff.net.2", I "mlp.fc2"),
    AS(R "norm_out.linear", I "adaLN_modulation.1"),
    AS(E "timestep_embedder.linear_1", "time_in.mlp.0"),
    AS(E "timestep_embedder.linear_2", "time_in.mlp.2"),
    AS(E "guidance_embedder.linear_1", "guidance_in.mlp.0"),
    AS(E "guidance_embedder.linear_2", "guidance_in.mlp.2"),
    AS(E "text_embedder.linear_1", "vector_in.in_layer"),
    AS(E "text_embedder.linear_2", "vector_in.out_layer"),
    AS(T "norm1.linear", D "img_mod.linear"),
    AS(T "norm1_context.linear", D "txt_mod.linear"),
    PART(T "attn.to_q", D "img_attn_qkv", 0, 3),
    PART(T "attn.to_k", D "img_attn_qkv", 1, 3),
    PART(T "attn.to_v", D "img_attn_qkv", 2, 3),
    PART(T "attn.add_q_proj", D "txt_attn_qkv", 0, 3),
    PART(T "attn.add_k_proj", D "txt_attn_qkv", 1, 3),
    PART(T "attn.add_v_proj", D "txt_attn_qkv", 2, 3),
    AS(T "attn.norm_q", D "img_attn_q_norm"),
    AS(T "attn.norm_k", D "img_attn_k_norm"),
    AS(T "attn.norm_added_q", D "txt_attn_q_norm"),
    AS(T "attn.norm_added_k", D "txt_attn_k_norm"),
    AS(T "attn.to_out.0", D "img_attn_proj"),
    AS(T "attn.to_add_out", D "txt_attn_proj"),
    AS(T "ff.net.0.proj", D "img_mlp.fc1"),
    AS(T "ff.net.2", D "img_mlp.fc2"),
    AS(T "ff_context.net.0.proj", D "txt_mlp.fc1"),
    AS(T "ff_context.net.2", D "txt_mlp.fc2"),
    PART(U "attn.to_q", S "linear1", 0, 7),
    PART(U "attn.to_k", S "linear1", 1, 7),
    PART(U "attn.to_v", S "linear1", 2, 7),
    {.bound = U "proj_mlp", .file = S "linear1", .of = 7, .rows = {{3, 4}}},
    AS(U "proj_out", S "linear2"),
    AS(U "attn.norm_q", S "q_norm"),
    AS(U "attn.norm_k", S "k_norm"),
    AS(U "norm.linear", S "modulation.linear"),
    AS("proj_out", "final_layer.linear"),
    SWAPPED("norm_out.linear", "final_layer.adaLN_modulation.1"),
};
const sg_name_map sg_hunyuan_dit_names = {MAP(dit)};

/* ---- the VAE ---- */

/* Of the encoder, of the decoder. */
#define CODER(side)                                                                                                    \
    AS(side ".conv_norm_out", side ".norm_out"), AS(side ".mid_block.resnets.0", side ".mid.block_1"),                 \
        AS(side ".mid_block.resnets.1", side ".mid.block_2"),                                                          \
        AS(side ".mid_block.attentions.0.group_norm", side ".mid.attn_1.norm"),                                        \
        AS(side ".mid_block.attentions.0.to_q", side ".mid.attn_1.q"),                                                 \
        AS(side ".mid_block.attentions.0.to_k", side ".mid.attn_1.k"),                                                 \
        AS(side ".mid_block.attentions.0.to_v", side ".mid.attn_1.v"),                                                 \
        AS(side ".mid_block.attentions.0.to_out.0", side ".mid.attn_1.proj_out")

static const sg_name_rule vae[] = {
    CODER("encoder"),
    CODER("decoder"),
    AS("encoder.down_blocks.%d.resnets.%d", "encoder.down.%d.block.%d"),
    AS("encoder.down_blocks.%d.resnets.%d.conv_shortcut", "encoder.down.%d.block.%d.nin_shortcut"),
    AS("encoder.down_blocks.%d.downsamplers.0", "encoder.down.%d.downsample"),
    AS("decoder.up_blocks.%d.resnets.%d", "decoder.up.%r.block.%d"),
    AS("decoder.up_blocks.%d.resnets.%d.conv_shortcut", "decoder.up.%r.block.%d.nin_shortcut"),
    AS("decoder.up_blocks.%d.upsamplers.0", "decoder.up.%r.upsample"),
};
const sg_name_map sg_hunyuan_vae_names = {MAP(vae)};
