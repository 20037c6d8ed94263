/* clip_text.h - CLIP's text encoder (Radford et al., 2021, arXiv:2103.00020), CLIP-L and OpenCLIP's bigG: transformers'
 * CLIPTextModel and CLIPTextModelWithProjection. */
#ifndef SG_CLIP_TEXT_H
#define SG_CLIP_TEXT_H

#include "component.h"
#include "text_encoder.h"

typedef struct sg_clip_text sg_clip_text;

/* Opens component `name` of c: config and weights; loads nothing (sg_bind_load on sg_clip_text_component does).
 * `projected` says that it is a CLIPTextModelWithProjection, and text_projection is there, unless its config's
 * projection_dim is 0: then it is the identity. With skip 0 its states are last_hidden_state, behind the final norm;
 * otherwise they are transformers' hidden_states[-1 - skip], without a norm. SD3 has 1. */
sg_status     sg_clip_text_open(sg_clip_text **out, const sg_checkpoint *c, const char *name, bool projected, int skip,
                                sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_clip_text_close(sg_clip_text **t);
sg_component *sg_clip_text_component(sg_clip_text *t);

typedef struct sg_clip_text_info {
    int width, layers, heads, ffn, vocab;
    int tokens; /* at most */
    int pooled; /* width, or what the projection has */
} sg_clip_text_info;
sg_clip_text_info sg_clip_text_describe(const sg_clip_text *t);

/* Computes in y F32 [n, width] the states of n tokens, and in row F32 [1, pooled] the state behind all layers at the
 * token that ends the text, behind the final norm, and projected. The end is the first token with the config's
 * eos_token_id; where that is 2, as old configs have it, the first with the largest id; where there is none, the first
 * token. A token sees itself and those before it. ids are on the host, each below vocab (SG_E_FORMAT is latched
 * otherwise). Uses s->scratch, leaves nothing in it. Taps "clip.embed", "clip.block.%d.attn", "clip.block.%d.ff",
 * "clip.final", "clip.row"; those of a model's second CLIP, SD3's bigG, are "clip_g.*". */
void sg_clip_text_encode(const sg_clip_text *t, sg_stream *s, sg_tensor y, sg_tensor row, const int32_t *ids, int n);

/* Opens components `name` and `tokenizer` of c as one text encoder, with a row. */
sg_status sg_clip_text_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name,
                                    const char *tokenizer, bool projected, int skip, sg_dtype act,
                                    sg_error *e) SG_MUST_USE;

#endif
