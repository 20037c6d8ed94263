/* cogvideox_vae.h - AutoencoderKLCogVideoX, streaming in both directions: two latent frames a chunk, eight
 * of pixels. All tensors are channels last. */
#ifndef SG_COGVIDEOX_VAE_H
#define SG_COGVIDEOX_VAE_H

#include "component.h"
#include "vae.h"

typedef struct sg_cogvideox_vae sg_cogvideox_vae;

/* Opens component "vae" of c: reads its config, binds and checks every tensor of the decoder and of the encoder; loads
 * nothing. The component's bind is the decoder's; the encoder has one of its own. */
sg_status sg_cogvideox_vae_open(sg_cogvideox_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void      sg_cogvideox_vae_close(sg_cogvideox_vae **v);
sg_component *sg_cogvideox_vae_component(sg_cogvideox_vae *v);
sg_component *sg_cogvideox_vae_encoder(sg_cogvideox_vae *v);

sg_vae_info sg_cogvideox_vae_describe(const sg_cogvideox_vae *v);

/* Returns by how much the denoiser's latents of a picture are those of the encoder: 1, but with
 * invert_scale_latents. */
double sg_cogvideox_vae_picture_scale(const sg_cogvideox_vae *v);

/* These ops are for an sg_cogvideox_vae. L latent frames give scale_time (L - 1) + 1 frames where L is odd, scale_time
 * L where it is even. Taps "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out", "vae.frames"; "enc.conv_in",
 * "enc.down.%d", "enc.mid", "enc.quant", which is not normalised. */
extern const sg_vae_ops sg_cogvideox_vae_ops;

#endif
