/* t5.h - the T5-family text encoder: T5 v1.1 and mT5 (position bias in the first block, shared), UMT5 (in every
 * block); feed-forward gated-gelu or relu as config.json says. */
#ifndef SG_T5_H
#define SG_T5_H

#include "component.h"
#include "text_encoder.h"

typedef struct sg_t5 sg_t5;

/* Opens component `name` of c: config and weights; loads nothing (sg_bind_load on sg_t5_component does). */
sg_status     sg_t5_open(sg_t5 **out, const sg_checkpoint *c, const char *name, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_t5_close(sg_t5 **t);
sg_component *sg_t5_component(sg_t5 *t);

typedef struct sg_t5_info {
    int width, layers, heads, head_dim, ffn, vocab;
} sg_t5_info;
sg_t5_info sg_t5_describe(const sg_t5 *t);

/* Opens components `name` and `tokenizer` of c as one text encoder. Returns SG_E_FORMAT when the tokenizer has ids that
 * the encoder's table has no row for. */
sg_status sg_t5_encoder_open(sg_text_encoder *out, const sg_checkpoint *c, const char *name, const char *tokenizer,
                             sg_dtype act, sg_error *e) SG_MUST_USE;

/* Computes the final hidden states of n real tokens (no padding, no mask) in y F32 [n, width], which the caller gives.
 * ids are on the host, each below vocab (SG_E_FORMAT is latched otherwise). Uses s->scratch, leaves nothing in it. Taps
 * "text.embed", "text.block.%d.attn", "text.block.%d.ff", "text.final". The rows of the embedding table are read from
 * the mapped file on the host; SG_E_NUMERIC is latched when one of them is not finite. */
void sg_t5_encode(const sg_t5 *t, sg_stream *s, sg_tensor y, const int32_t *ids, int n);

/* Returns the row of a bias table for a key `distance` tokens to the right of its query. One half of the buckets is for
 * keys to the right. The first half of each half has one distance a bucket, the rest grow with the logarithm of the
 * distance and the last takes everything from max_distance on. buckets is 4 or more, max_distance above buckets / 4. */
int32_t sg_t5_bucket(int buckets, int max_distance, int distance);

#endif
