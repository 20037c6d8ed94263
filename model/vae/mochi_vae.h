/* mochi_vae.h - AutoencoderKLMochi, the decoder: as a stream, or in tiles. All tensors are channels last. */
#ifndef SG_MOCHI_VAE_H
#define SG_MOCHI_VAE_H

#include "vae.h"

typedef struct sg_mochi_vae sg_mochi_vae;

/* Opens component "vae" of c: reads its config, binds and checks every tensor of the decoder; loads nothing. */
sg_status     sg_mochi_vae_open(sg_mochi_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_mochi_vae_close(sg_mochi_vae **v);
sg_component *sg_mochi_vae_component(sg_mochi_vae *v);

sg_vae_info sg_mochi_vae_describe(const sg_mochi_vae *v);

/* These ops are for an sg_mochi_vae. A chunk is one latent frame; in tiles it is all of them. The first latent frame
 * makes one frame, the others scale_time. Taps "vae.conv_in", "vae.block_in", "vae.up.%d", "vae.block_out",
 * "vae.conv_out", "vae.frames". */
extern const sg_vae_ops sg_mochi_vae_ops;

#endif
