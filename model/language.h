/* language.h - a causal language model over long texts: prefill in pieces, likelihoods, the next token. It is an instrument to
 * measure attention by: there is no sampling and no chat.
 *
 * It is not for several threads at once. After a failure the sequence is as it was before the call. */
#ifndef SG_LANGUAGE_H
#define SG_LANGUAGE_H

#include "policy.h"
#include "run.h"
#include "status.h"

typedef struct sg_language sg_language;

typedef struct sg_language_options {
    const char *backend; /* "auto" (NULL), "cuda", "cpu", "ref" */
    int         threads, device;
    unsigned    cpu_mask, gpu_mask;
    const char *dtype;  /* "auto" (NULL), "f32", "bf16" */
    int64_t     tokens; /* room for a sequence of so many, prompt and answer; 0: the config's longest */
    bool        cap;    /* more tokens than the config's longest become as many as that; else they are SG_E_ARG */
    int64_t
           piece; /* tokens of one piece of a prefill, 0: as many as fit, up to 8192. Whole blocks of queries (128) keep
                         * blocks where they would be without pieces */
    size_t memory_limit; /* bytes of the device; 0: what it has */
} sg_language_options;

/* Opens a folder of transformers' (config.json, tokenizer.json, safetensors) or a GGUF. The plan comes before the weights:
 * what does not fit is SG_E_MEMORY, with figures. Returns SG_E_ARG for options that do not fit the model, SG_E_FILE,
 * SG_E_FORMAT, SG_E_UNSUPPORTED for its files. */
sg_status sg_language_open(sg_language **out, const char *path, const sg_language_options *o, sg_error *e) SG_MUST_USE;
void      sg_language_close(sg_language **l);

typedef struct sg_language_info {
    const char *kind; /* "llama", "qwen2", "qwen3" */
    int         width, layers, heads, key_heads, head_dim, ffn, vocab;
    int64_t     longest;       /* max_position_embeddings; 0: the config does not say */
    int64_t     tokens, piece; /* as opened */
    const char *device, *dtype;
    size_t      weights, cache, scratch; /* bytes, by the plan */
    uint64_t    hash;                    /* of the tensors (sg_source_hash) */
} sg_language_info;

sg_language_info sg_language_describe(const sg_language *l);

/* Makes the ids of bytes of UTF-8, at most 64 MiB; with_bos puts the tokenizer's own beginning before them. Added tokens in
 * the text are recognised. The caller frees *ids, which is never NULL. */
sg_status sg_language_encode(const sg_language *l, const char *text, size_t bytes, bool with_bos, int32_t **ids,
                             int64_t *n, sg_error *e) SG_MUST_USE;
/* Makes the text of n ids, without added tokens, and a NUL behind it. The caller frees *text. It is no UTF-8 where a character
 * was cut. */
sg_status sg_language_decode(const sg_language *l, const int32_t *ids, int64_t n, char **text, sg_error *e) SG_MUST_USE;
/* Tells whether the config, generation_config.json or the GGUF says that id ends a text. */
bool sg_language_ends(const sg_language *l, int32_t id);

/* Returns the policy that texts are usually read by: sg_policy_default's with blocks of keys judged, similarity 0.6. Without that
 * a key that answers far away is lost among others in its block (attention/NOTES.md). */
sg_policy sg_language_default(void);
/* From now on pieces attend by p, whose strings are borrowed; NULL: exactly. A piece of one token is always dense. There are no
 * steps, so dense_steps does not count, and one order. Tuned top-k shares are always of the visible blocks. A sequence is short by its length with the whole append. Returns
 * SG_E_UNSUPPORTED for a block mask, SG_E_MEMORY where it takes more than there is, else as sg_attention_open and
 * sg_thresholds_read; the policy then stays as it was. */
sg_status sg_language_policy(sg_language *l, const sg_policy *p, sg_error *e) SG_MUST_USE;
/* From now on w sees what pieces of several tokens attend to; NULL: nobody does. What it takes is planned by the next
 * append. */
void sg_language_watch(sg_language *l, const sg_attention_watch *w);

/* This is called between layers. true cancels: SG_E_CANCELLED. It may be NULL. */
typedef struct sg_language_progress {
    bool (*call)(void *context, int64_t tokens_done, int64_t tokens);
    void *context;
} sg_language_progress;

/* Appends n ids. logp, [n] or NULL, gets the log-likelihood of each id given all before it. logp[0] is NaN at the beginning of a
 * sequence, and behind a rewind to where none of the last 16 appends had ended. states, F32 [n, width] or NULL, gets the states
 * behind each id, of which sg_language_head makes logits.
 * Returns SG_E_ARG where there is no room for n more, SG_E_FORMAT for an id beyond the vocabulary. */
sg_status sg_language_append(sg_language *l, const int32_t *ids, int64_t n, float *logp, float *states,
                             const sg_language_progress *p, sg_error *e) SG_MUST_USE;
/* Sets logits, F32 [n, vocab] on the host, to those of n states of sg_language_append. */
sg_status sg_language_head(sg_language *l, const float *states, int64_t n, float *logits, sg_error *e) SG_MUST_USE;
/* Sets logits, F32 [vocab] on the host, to those behind the last token. SG_E_ARG where logp[0] would be NaN. */
sg_status sg_language_logits(sg_language *l, float *logits, sg_error *e) SG_MUST_USE;
/* Returns the likeliest token by logits [vocab], of equal ones the lowest id. */
int32_t sg_language_likeliest(const sg_language *l, const float *logits);
/* Appends the n likeliest tokens one by one, of equal ones the lowest id, and ends after one that ends a text. *count of them are
 * in ids. */
sg_status sg_language_greedy(sg_language *l, int32_t *ids, int64_t n, int64_t *count, const sg_language_progress *p,
                             sg_error *e) SG_MUST_USE;
int64_t   sg_language_length(const sg_language *l);
/* Forgets what is behind the first `tokens`, of which there are as many or more. */
void sg_language_rewind(sg_language *l, int64_t tokens);

/* Sums since the last rewind to 0, or policy, over the pieces of several tokens: [layers]. mass and skipped_mass are means by
 * blocks; kind and why are the last piece's. */
void sg_language_counts(const sg_language *l, sg_attention_count *out);

#endif
