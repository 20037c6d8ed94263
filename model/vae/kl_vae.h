/* kl_vae.h - AutoencoderKL, of images: Flux.1's and Stable Diffusion 3's. A frame of a clip is an image by itself. All tensors
 * are channels last. */
#ifndef SG_KL_VAE_H
#define SG_KL_VAE_H

#include "vae.h"

typedef struct sg_kl_vae sg_kl_vae;

/* Opens component "vae" of c: reads its config, binds and checks every tensor of decoder and encoder; loads nothing. */
sg_status     sg_kl_vae_open(sg_kl_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_kl_vae_close(sg_kl_vae **v);
sg_component *sg_kl_vae_component(sg_kl_vae *v); /* the decoder's weights */
sg_component *sg_kl_vae_encoder(sg_kl_vae *v);

sg_vae_info sg_kl_vae_describe(const sg_kl_vae *v);

/* These ops are for an sg_kl_vae. In tiles both decoder and encoder work in tiles of the config's sample_size. The taps
 * of each tile are "vae.post_quant", "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out", "enc.conv_in",
 * "enc.down.%d", "enc.mid", "enc.quant"; then comes "vae.frames". */
extern const sg_vae_ops sg_kl_vae_ops;

#endif
