/* sd3_names.c - see sd3_names.h. Sources: the modules of Stability-AI/sd3.5 (mmditx.py) and diffusers' converter.
 *
 * What bites: the modulation of the text's stream is six parts in every block but the last, where it is shift and scale in the file,
 * scale and shift in Diffusers. */
#include "sd3_names.h"
#include "file_names.h"

#define E "time_text_embed."
#define T "transformer_blocks.%d."
#define X "joint_blocks.%d.x_block."
#define C "joint_blocks.%d.context_block."

static const sg_name_rule dit[] = {
    AS("pos_embed.pos_embed", "pos_embed"),
    AS("pos_embed.proj", "x_embedder.proj"),
    AS(E "timestep_embedder.linear_1", "t_embedder.mlp.0"),
    AS(E "timestep_embedder.linear_2", "t_embedder.mlp.2"),
    AS(E "text_embedder.linear_1", "y_embedder.mlp.0"),
    AS(E "text_embedder.linear_2", "y_embedder.mlp.2"),
    SWAPPED("transformer_blocks.%1.norm1_context.linear", "joint_blocks.%1.context_block.adaLN_modulation.1"),
    AS("last_block", "joint_blocks.%1"),
    AS(T "norm1.linear", X "adaLN_modulation.1"),
    AS(T "norm1_context.linear", C "adaLN_modulation.1"),
    QKV(T "attn.to_q", T "attn.to_k", T "attn.to_v", X "attn.qkv"),
    QKV(T "attn2.to_q", T "attn2.to_k", T "attn2.to_v", X "attn2.qkv"),
    QKV(T "attn.add_q_proj", T "attn.add_k_proj", T "attn.add_v_proj", C "attn.qkv"),
    AS(T "attn.norm_q", X "attn.ln_q"),
    AS(T "attn.norm_k", X "attn.ln_k"),
    AS(T "attn.to_out.0", X "attn.proj"),
    AS(T "attn2.norm_q", X "attn2.ln_q"),
    AS(T "attn2.norm_k", X "attn2.ln_k"),
    AS(T "attn2.to_out.0", X "attn2.proj"),
    AS(T "attn.norm_added_q", C "attn.ln_q"),
    AS(T "attn.norm_added_k", C "attn.ln_k"),
    AS(T "attn.to_add_out", C "attn.proj"),
    AS(T "ff.net.0.proj", X "mlp.fc1"),
    AS(T "ff.net.2", X "mlp.fc2"),
    AS(T "ff_context.net.0.proj", C "mlp.fc1"),
    AS(T "ff_context.net.2", C "mlp.fc2"),
    AS("proj_out", "final_layer.linear"),
    SWAPPED("norm_out.linear", "final_layer.adaLN_modulation.1"),
};
const sg_name_map sg_sd3_dit_names = {MAP(dit)};
