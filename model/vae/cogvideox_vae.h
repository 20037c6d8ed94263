/* cogvideox_vae.h - the decoder of AutoencoderKLCogVideoX, streaming: two latent frames a chunk. */
#ifndef SG_COGVIDEOX_VAE_H
#define SG_COGVIDEOX_VAE_H

#include "component.h"
#include "vae.h"

typedef struct sg_cogvideox_vae sg_cogvideox_vae;

/* Of component "vae" of c: reads its config, binds and checks every tensor of the decoder; loads nothing. */
sg_status sg_cogvideox_vae_open(sg_cogvideox_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void      sg_cogvideox_vae_close(sg_cogvideox_vae **v);
sg_component *sg_cogvideox_vae_component(sg_cogvideox_vae *v);

sg_vae_info sg_cogvideox_vae_describe(const sg_cogvideox_vae *v);

/* Of an sg_cogvideox_vae. L latent frames give scale_time (L - 1) + 1 frames where L is odd, scale_time L where it is even.
 * Taps "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out", "vae.frames". */
extern const sg_vae_ops sg_cogvideox_vae_ops;

#endif
