/* file_names.c - see file_names.h. Sources: Wan2.1 (wan/modules/t5.py, clip.py), llama.cpp (gguf-py),
 * CompVis/latent-diffusion (ldm/modules/diffusionmodules/model.py). */
#include "file_names.h"

/* ---- T5 ---- */

#define E "encoder.block.%d.layer."
#define A "0.SelfAttention."
#define F "1.DenseReluDense."
#define B "blocks.%d."

static const sg_name_rule t5[] = {
    AS("shared", "token_embedding"),
    AS("encoder.final_layer_norm", "norm"),
    AS(E "0.layer_norm", B "norm1"),
    AS(E "1.layer_norm", B "norm2"),
    AS(E A "q", B "attn.q"),
    AS(E A "k", B "attn.k"),
    AS(E A "v", B "attn.v"),
    AS(E A "o", B "attn.o"),
    AS(E A "relative_attention_bias", B "pos_embedding.embedding"),
    AS(E F "wi_0", B "ffn.gate.0"),
    AS(E F "wi_1", B "ffn.fc1"),
    AS(E F "wo", B "ffn.fc2"),
};
const sg_name_map sg_wan_t5_names = {MAP(t5)};

#define G "enc.blk.%d."

static const sg_name_rule t5_gguf[] = {
    AS("shared", "token_embd"),
    AS("encoder.final_layer_norm", "enc.output_norm"),
    AS(E "0.layer_norm", G "attn_norm"),
    AS(E "1.layer_norm", G "ffn_norm"),
    AS(E A "q", G "attn_q"),
    AS(E A "k", G "attn_k"),
    AS(E A "v", G "attn_v"),
    AS(E A "o", G "attn_o"),
    AS(E A "relative_attention_bias", G "attn_rel_b"),
    AS(E F "wi_0", G "ffn_gate"),
    AS(E F "wi_1", G "ffn_up"),
    AS(E F "wo", G "ffn_down"),
};
const sg_name_map sg_t5_gguf_names = {MAP(t5_gguf)};

/* ---- Llama ---- */

#define M "layers.%d."
#define K "blk.%d."

static const sg_name_rule llama_gguf[] = {
    AS("embed_tokens", "token_embd"),
    AS("norm", "output_norm"),
    AS("layers.%d", "blk.%d"), /* those as a whole that nobody reads */
    AS(M "input_layernorm", K "attn_norm"),
    AS(M "post_attention_layernorm", K "ffn_norm"),
    AS(M "self_attn.q_proj", K "attn_q"),
    AS(M "self_attn.k_proj", K "attn_k"),
    AS(M "self_attn.v_proj", K "attn_v"),
    AS(M "self_attn.o_proj", K "attn_output"),
    AS(M "mlp.gate_proj", K "ffn_gate"),
    AS(M "mlp.up_proj", K "ffn_up"),
    AS(M "mlp.down_proj", K "ffn_down"),
    {.file = "output"},
    {.file = "rope_freqs"},
};
const sg_name_map sg_llama_gguf_names = {MAP(llama_gguf)};

/* ---- a VAE ---- */

/* The encoder and the decoder have these names in common. */
#define CODER(side)                                                                                                    \
    AS(side ".conv_norm_out", side ".norm_out"), AS(side ".mid_block.resnets.0", side ".mid.block_1"),                 \
        AS(side ".mid_block.resnets.1", side ".mid.block_2"),                                                          \
        AS(side ".mid_block.attentions.0.group_norm", side ".mid.attn_1.norm"),                                        \
        AS(side ".mid_block.attentions.0.to_q", side ".mid.attn_1.q"),                                                 \
        AS(side ".mid_block.attentions.0.to_k", side ".mid.attn_1.k"),                                                 \
        AS(side ".mid_block.attentions.0.to_v", side ".mid.attn_1.v"),                                                 \
        AS(side ".mid_block.attentions.0.to_out.0", side ".mid.attn_1.proj_out")

static const sg_name_rule ldm_vae[] = {
    CODER("encoder"),
    CODER("decoder"),
    AS("encoder.down_blocks.%d.resnets.%d", "encoder.down.%d.block.%d"),
    AS("encoder.down_blocks.%d.resnets.%d.conv_shortcut", "encoder.down.%d.block.%d.nin_shortcut"),
    AS("encoder.down_blocks.%d.downsamplers.0", "encoder.down.%d.downsample"),
    AS("decoder.up_blocks.%d.resnets.%d", "decoder.up.%r.block.%d"),
    AS("decoder.up_blocks.%d.resnets.%d.conv_shortcut", "decoder.up.%r.block.%d.nin_shortcut"),
    AS("decoder.up_blocks.%d.upsamplers.0", "decoder.up.%r.upsample"),
};
const sg_name_map sg_ldm_vae_names = {MAP(ldm_vae)};

/* ---- CLIP ---- */

#define L "encoder.layers.%d."
#define T "transformer.%d."

static const sg_name_rule clip_vision[] = {
    AS("embeddings.class_embedding", "cls_embedding"),
    AS("embeddings.patch_embedding", "patch_embedding"),
    AS("embeddings.position_embedding.weight", "pos_embedding"),
    AS("pre_layrnorm", "pre_norm"),
    AS("encoder.layers.%d", "transformer.%d"), /* the last one as a whole, which nobody reads */
    AS(L "layer_norm1", T "norm1"),
    AS(L "layer_norm2", T "norm2"),
    PART(L "self_attn.q_proj", T "attn.to_qkv", 0, 3),
    PART(L "self_attn.k_proj", T "attn.to_qkv", 1, 3),
    PART(L "self_attn.v_proj", T "attn.to_qkv", 2, 3),
    AS(L "self_attn.out_proj", T "attn.proj"),
    AS(L "mlp.fc1", T "mlp.0"),
    AS(L "mlp.fc2", T "mlp.2"),
    {.file = "post_norm"},
    {.file = "head"},
};
const sg_name_map sg_wan_clip_vision_names = {MAP(clip_vision)};
