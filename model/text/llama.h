/* llama.h - Llama-3's decoder as a text encoder (Touvron et al., 2023, arXiv:2302.13971; Llama team, 2024, arXiv:2407.21783):
 * transformers' LlamaModel, causal. */
#ifndef SG_LLAMA_H
#define SG_LLAMA_H

#include "component.h"
#include "text_encoder.h"

typedef struct sg_llama sg_llama;

/* Opens component `name` of c: config and weights; loads nothing (sg_bind_load on sg_llama_component does). Its states
 * are transformers' hidden_states[-1 - skip]. With 0 these are those behind the final norm, else those before the last
 * `skip` layers, which are then not loaded. HunyuanVideo has 2. */
sg_status     sg_llama_open(sg_llama **out, const sg_checkpoint *c, const char *name, int skip, sg_dtype act,
                            sg_error *e) SG_MUST_USE;
void          sg_llama_close(sg_llama **l);
sg_component *sg_llama_component(sg_llama *l);

typedef struct sg_llama_info {
    int width, layers, heads, key_heads, head_dim, ffn, vocab; /* layers: those of the model, skipped ones too */
} sg_llama_info;
sg_llama_info sg_llama_describe(const sg_llama *l);

/* Computes the states of n tokens in y F32 [n, width]. A token sees itself and those before it, so that pads at the end
 * change nothing: leave them out. ids are on the host, each below vocab (SG_E_FORMAT is latched otherwise). Uses
 * s->scratch, leaves nothing in it. Taps "text.embed", "text.block.%d.attn", "text.block.%d.ff", "text.final". */
void sg_llama_encode(const sg_llama *l, sg_stream *s, sg_tensor y, const int32_t *ids, int n);

/* Opens components `name` and `tokenizer` of c as one text encoder, without a row. */
sg_status sg_llama_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name, const char *tokenizer,
                                int skip, sg_dtype act, sg_error *e) SG_MUST_USE;

#endif
