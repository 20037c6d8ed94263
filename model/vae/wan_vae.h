/* wan_vae.h - AutoencoderKLWan of Wan 2.1 (plain) and 2.2 (is_residual, patch_size), streaming in both directions.
 * All tensors are channels last. */
#ifndef SG_WAN_VAE_H
#define SG_WAN_VAE_H

#include "component.h"
#include "op.h"
#include "vae.h"

typedef struct sg_wan_vae sg_wan_vae;

/* Opens component "vae" of c: reads its config, binds and checks every tensor of the decoder and of the encoder; loads
 * nothing. Each of the two components, the decoder's and the encoder's, loads its half. */
sg_status     sg_wan_vae_open(sg_wan_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_wan_vae_close(sg_wan_vae **v);
sg_component *sg_wan_vae_component(sg_wan_vae *v);
sg_component *sg_wan_vae_encoder(sg_wan_vae *v);

typedef struct sg_wan_vae_info {
    int  z, scale_time, scale_space; /* latent channels; pixels per latent place */
    int  levels, base;               /* for people */
    bool residual;
    int  patch;
} sg_wan_vae_info;
sg_wan_vae_info sg_wan_vae_describe(const sg_wan_vae *v);

/* These ops of vae.h are for an sg_wan_vae. A chunk is one latent frame: the first makes one pixel frame, the others
 * scale_time. The decoder taps "vae.post_quant", "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out", "vae.frames",
 * the encoder "enc.conv_in", "enc.down.%d" (as encoder.down_blocks counts), "enc.mid", "enc.quant", "enc.mean". */
extern const sg_vae_ops sg_wan_vae_ops;

#endif
