/* flux_rules.h - what tables of names of Flux.1 and of HunyuanVideo have in common, for these tables alone: ComfyUI saves the second
 * in the names of the first. Both have one set of Diffusers names. */
#ifndef SG_FLUX_RULES_H
#define SG_FLUX_RULES_H

#include "family_files.h"

#define E "time_text_embed."
#define T "transformer_blocks.%d."
#define D "double_blocks.%d."
#define U "single_transformer_blocks.%d."
#define S "single_blocks.%d."

/* linear1 of a block of one stream is [q | k | v | up], and up is four times as wide as the others in every published model. */
#define LINEAR1                                                                                                        \
    QKV_OF(U "attn.to_q", U "attn.to_k", U "attn.to_v", S "linear1", 7),                                               \
    {                                                                                                                  \
        .bound = U "proj_mlp", .file = S "linear1", .of = 7, .rows = { {3, 4} }                                        \
    }

/* `norm` is what the weights of the norms of queries and keys are called; their authors say "scale". */
#define SG_FLUX_RULES(norm)                                                                                            \
    AS("x_embedder", "img_in"), AS(E "timestep_embedder.linear_1", "time_in.in_layer"),                                \
        AS(E "timestep_embedder.linear_2", "time_in.out_layer"),                                                       \
        AS(E "guidance_embedder.linear_1", "guidance_in.in_layer"),                                                    \
        AS(E "guidance_embedder.linear_2", "guidance_in.out_layer"),                                                   \
        AS(E "text_embedder.linear_1", "vector_in.in_layer"), AS(E "text_embedder.linear_2", "vector_in.out_layer"),   \
        AS(T "norm1.linear", D "img_mod.lin"), AS(T "norm1_context.linear", D "txt_mod.lin"),                          \
        QKV(T "attn.to_q", T "attn.to_k", T "attn.to_v", D "img_attn.qkv"),                                            \
        QKV(T "attn.add_q_proj", T "attn.add_k_proj", T "attn.add_v_proj", D "txt_attn.qkv"),                          \
        AS(T "attn.norm_q.weight", D "img_attn.norm.query_norm." norm),                                                \
        AS(T "attn.norm_k.weight", D "img_attn.norm.key_norm." norm),                                                  \
        AS(T "attn.norm_added_q.weight", D "txt_attn.norm.query_norm." norm),                                          \
        AS(T "attn.norm_added_k.weight", D "txt_attn.norm.key_norm." norm), AS(T "attn.to_out.0", D "img_attn.proj"),  \
        AS(T "attn.to_add_out", D "txt_attn.proj"), AS(T "ff.net.0.proj", D "img_mlp.0"),                              \
        AS(T "ff.net.2", D "img_mlp.2"), AS(T "ff_context.net.0.proj", D "txt_mlp.0"),                                 \
        AS(T "ff_context.net.2", D "txt_mlp.2"), LINEAR1, AS(U "proj_out", S "linear2"),                               \
        AS(U "attn.norm_q.weight", S "norm.query_norm." norm), AS(U "attn.norm_k.weight", S "norm.key_norm." norm),    \
        AS(U "norm.linear", S "modulation.lin"), AS("proj_out", "final_layer.linear"),                                 \
        SWAPPED("norm_out.linear", "final_layer.adaLN_modulation.1")

#endif
