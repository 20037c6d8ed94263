/* decoder.h - one causal decoder by its config: Llama 3 (Touvron et al., 2023, arXiv:2302.13971; Llama team, 2024,
 * arXiv:2407.21783), Qwen2 and Qwen2.5 (arXiv:2407.10671: q, k and v have a bias), Qwen3 (arXiv:2505.09388: the heads of q and
 * k have a norm); transformers' LlamaModel, Qwen2Model, Qwen3Model and their ForCausalLM. As a text encoder it makes
 * states; as a language model it keeps keys and values, and makes logits. */
#ifndef SG_DECODER_H
#define SG_DECODER_H

#include "component.h"
#include "text_encoder.h"

typedef struct sg_decoder sg_decoder;

typedef struct sg_decoder_info {
    const char *kind; /* "llama", "qwen2" or "qwen3": model_type of config.json */
    int     width, layers, heads, key_heads, head_dim, ffn, vocab; /* layers: those of the model, skipped ones too */
    int64_t longest; /* max_position_embeddings; 0: the config does not say */
    bool    tied;    /* the head is the table of embeddings */
} sg_decoder_info;

/* Opens component `name` of c: config and weights; loads nothing (sg_bind_load on sg_decoder_component does). Its states
 * are transformers' hidden_states[-1 - skip]. With 0 these are those behind the final norm, else those before the last
 * `skip` layers, which are then not loaded. HunyuanVideo has 2. With `head`, and skip 0, it is a language model: the table of
 * embeddings is on the device, and the head with it, which is lm_head, or the table where the config or the file says so.
 * SG_E_FORMAT, SG_E_UNSUPPORTED for what the three models may have and is not computed. */
sg_status sg_decoder_open(sg_decoder **out, const sg_checkpoint *c, const char *name, int skip, bool head, sg_dtype act,
                          sg_error *e) SG_MUST_USE;
void      sg_decoder_close(sg_decoder **d);
sg_component   *sg_decoder_component(sg_decoder *d);
sg_decoder_info sg_decoder_describe(const sg_decoder *d);

/* ---- a text encoder ---- */

/* Computes the states of n tokens in y F32 [n, width]. A token sees itself and those before it, so that pads at the end
 * change nothing: leave them out. ids are on the host, each below vocab (SG_E_FORMAT is latched otherwise). Uses
 * s->scratch, leaves nothing in it. Taps "text.embed", "text.block.%d.attn", "text.block.%d.ff", "text.final". */
void sg_decoder_encode(const sg_decoder *d, sg_stream *s, sg_tensor y, const int32_t *ids, int n);

/* Opens components `name` and `tokenizer` of c as one text encoder, without a row. */
sg_status sg_decoder_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name, const char *tokenizer,
                                  int skip, sg_dtype act, sg_error *e) SG_MUST_USE;

/* ---- a language model ---- */

/* What a sequence keeps. The caller allocates it, for `tokens` tokens. */
typedef struct sg_decoder_cache {
    sg_tensor cos, sin; /* F32 [tokens, head_dim / 2]: sg_decoder_rotation fills them */
    sg_tensor k, v;     /* [layers, tokens, key_heads, head_dim], in the component's act dtype */
} sg_decoder_cache;

/* Sets cos and sin to the rotations of places 0 and up. They depend on config and weights alone. */
void sg_decoder_rotation(const sg_decoder *d, sg_stream *s, sg_tensor cos, sg_tensor sin);

/* One piece of a sequence on its way through the layers. */
typedef struct sg_decoder_piece {
    sg_decoder_cache cache;
    int64_t          at; /* so many tokens of the sequence have keys and values */
    /* attend computes a->y of a->q, [n, heads, d], and of all keys and values so far, [at + n, key_heads, d]. NULL: causal
     * attention by sg_attend. */
    void (*attend)(void *context, sg_stream *s, int layer, const sg_attend_args *a);
    /* Called before each layer. True cancels: SG_E_CANCELLED is latched. May be NULL. */
    bool (*layer)(void *context, int layer);
    void *context;
} sg_decoder_piece;

/* Computes x F32 [n, width], the states of the next n tokens before the final norm, and puts keys and values behind the first
 * `at`. ids are on the host, each below vocab (SG_E_FORMAT is latched otherwise); NULL on a plan. Uses s->scratch, leaves
 * nothing in it. Taps as sg_decoder_encode. */
void sg_decoder_run(const sg_decoder *d, sg_stream *s, const sg_decoder_piece *p, sg_tensor x, const int32_t *ids);

/* Computes y F32 [n, vocab], the logits behind the tokens whose states x [n, width] are. */
void sg_decoder_logits(const sg_decoder *d, sg_stream *s, sg_tensor y, sg_tensor x);

/* Returns how many of n rows of logits are made at once: as many as take 128 MiB, 512 at most. */
int64_t sg_decoder_logit_rows(const sg_decoder *d, int64_t n);

/* Sets out[r], on the host, to the log-likelihood of target[r] behind the states x[r]. On a plan target is NULL. Latches
 * SG_E_NUMERIC where one is not a number. */
void sg_decoder_likelihoods(const sg_decoder *d, sg_stream *s, sg_tensor x, const int32_t *target, float *out);

#endif
