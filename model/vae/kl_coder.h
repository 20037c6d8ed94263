/* kl_coder.h - decoder and encoder that AutoencoderKL (of images) and AutoencoderKLHunyuanVideo have in common
 * (arXiv:2112.10752): a coder of vae_parts.h with group norms and attention in its middle. An image is one frame. */
#ifndef SG_KL_CODER_H
#define SG_KL_CODER_H

#include "vae_parts.h"

/* What a coder has beside its blocks. */
typedef struct sg_kl_side {
    bool             has_attention, has_quant;
    sg_vae_attention attention;
    sg_vae_map       quant; /* post_quant_conv, of latents on their way in; quant_conv, of those on their way out */
} sg_kl_side;

/* The structs of both VAEs begin with it. */
typedef struct sg_kl_model {
    sg_vae_model vae;
    sg_kl_side   side[2]; /* encoder, decoder */
} sg_kl_model;

/* silu(norm(x)): the norm of both kinds of blocks. */
void sg_kl_norm(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x);

/* Reads what the two have in common, all but which levels change what. Both sides have a quant then. */
void sg_kl_read(sg_kl_model *v, const sg_vae_kind *kind, int64_t layers, sg_config *f);
void sg_kl_bind(void *of, const sg_component *p, sg_vae_coder *k); /* of sg_vae_ops */

/* Decodes z F32 [f, y, x, c] to frames of act [f', H, W, 3], which are not clamped. What comes at once sees each
 * other. The frames lie in s->scratch, above other memory that the caller frees with them. Taps "vae.post_quant",
 * "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out". */
sg_tensor sg_kl_decode(const sg_vae_run *r, sg_stream *s, sg_tensor z);

/* Goes the other way round, from frames F32 [n, H, W, 3] to F32 [f, y, x, 2 c], the means of latents and the logarithms
 * of their variances, not normalised. Taps "enc.conv_in", "enc.down.%d", "enc.mid", "enc.quant". */
sg_tensor sg_kl_encode(const sg_vae_run *r, sg_stream *s, sg_tensor frames);

#endif
