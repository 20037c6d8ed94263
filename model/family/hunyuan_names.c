/* hunyuan_names.c - see hunyuan_names.h. Sources: the modules of Tencent/HunyuanVideo (hyvideo/modules) and diffusers'
 * converter; ComfyUI (comfy/supported_models.py) for what it saves. */
#include "hunyuan_names.h"
#include "flux_rules.h"

#define C "context_embedder."
#define R "context_embedder.token_refiner.refiner_blocks.%d."
#define I "txt_in.individual_token_refiner.blocks.%d."

static const sg_name_rule dit[] = {
    AS("x_embedder", "img_in"),
    AS(C "proj_in", "txt_in.input_embedder"),
    AS(C E "text_embedder", "txt_in.c_embedder"),
    AS(C E "timestep_embedder.linear_1", "txt_in.t_embedder.mlp.0"),
    AS(C E "timestep_embedder.linear_2", "txt_in.t_embedder.mlp.2"),
    AS(R "norm1", I "norm1"),
    AS(R "norm2", I "norm2"),
    QKV(R "attn.to_q", R "attn.to_k", R "attn.to_v", I "self_attn_qkv"),
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
    QKV(T "attn.to_q", T "attn.to_k", T "attn.to_v", D "img_attn_qkv"),
    QKV(T "attn.add_q_proj", T "attn.add_k_proj", T "attn.add_v_proj", D "txt_attn_qkv"),
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
    LINEAR1,
    AS(U "proj_out", S "linear2"),
    AS(U "attn.norm_q", S "q_norm"),
    AS(U "attn.norm_k", S "k_norm"),
    AS(U "norm.linear", S "modulation.linear"),
    AS("proj_out", "final_layer.linear"),
    SWAPPED("norm_out.linear", "final_layer.adaLN_modulation.1"),
};
const sg_name_map sg_hunyuan_dit_names = {MAP(dit)};

/* As ComfyUI saves it: of its blocks and their norms what Flux.1 has. */
#define SAVED(norm)                                                                                                    \
    SG_FLUX_RULES(norm), AS(C "proj_in", "txt_in.input_embedder"),                                                     \
        AS(C E "text_embedder.linear_1", "txt_in.c_embedder.in_layer"),                                                \
        AS(C E "text_embedder.linear_2", "txt_in.c_embedder.out_layer"),                                               \
        AS(C E "timestep_embedder.linear_1", "txt_in.t_embedder.in_layer"),                                            \
        AS(C E "timestep_embedder.linear_2", "txt_in.t_embedder.out_layer"), AS(R "norm1", I "norm1"),                 \
        AS(R "norm2", I "norm2"), QKV(R "attn.to_q", R "attn.to_k", R "attn.to_v", I "self_attn.qkv"),                 \
        AS(R "attn.to_out.0", I "self_attn.proj"), AS(R "ff.net.0.proj", I "mlp.0"), AS(R "ff.net.2", I "mlp.2"),      \
        AS(R "norm_out.linear", I "adaLN_modulation.1")

static const sg_name_rule saved[] = {SAVED("weight")};
const sg_name_map         sg_hunyuan_dit_saved_names = {MAP(saved)};

static const sg_name_rule saved_before[] = {SAVED("scale")};
const sg_name_map         sg_hunyuan_dit_saved_before_names = {MAP(saved_before)};
