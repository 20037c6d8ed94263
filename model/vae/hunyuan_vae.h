/* hunyuan_vae.h - AutoencoderKLHunyuanVideo: in windows of five latent frames, the decoder in tiles if asked. All tensors
 * are channels last. */
#ifndef SG_HUNYUAN_VAE_H
#define SG_HUNYUAN_VAE_H

#include "vae.h"

typedef struct sg_hunyuan_vae sg_hunyuan_vae;

/* Opens component "vae" of c: reads its config, binds and checks every tensor of decoder and encoder; loads nothing. */
sg_status     sg_hunyuan_vae_open(sg_hunyuan_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_hunyuan_vae_close(sg_hunyuan_vae **v);
sg_component *sg_hunyuan_vae_component(sg_hunyuan_vae *v); /* the decoder's weights */
sg_component *sg_hunyuan_vae_encoder(sg_hunyuan_vae *v);

sg_vae_info sg_hunyuan_vae_describe(const sg_hunyuan_vae *v);

/* These ops are for an sg_hunyuan_vae. L latent frames give scale_time (L - 1) + 1 frames. The taps of each window, in
 * tiles of each tile of it, are "vae.post_quant", "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out"; then comes
 * "vae.frames". The encoder always takes whole frames, and taps "enc.conv_in", "enc.down.%d", "enc.mid", "enc.quant";
 * "enc.mean". */
extern const sg_vae_ops sg_hunyuan_vae_ops;

#endif
