/* wan_vae.h - AutoencoderKLWan of Wan 2.1 (plain) and 2.2 (is_residual, patch_size), streaming in both directions.
 * All tensors are channels last. */
#ifndef SG_WAN_VAE_H
#define SG_WAN_VAE_H

#include "component.h"
#include "op.h"
#include "vae.h"

typedef struct sg_wan_vae sg_wan_vae;

/* Of component "vae" of c: reads its config, binds and checks every tensor of the decoder and of the encoder; loads nothing. sg_bind_load on
 * the component's bind loads the decoder; the encoder has a binding of its own. */
sg_status     sg_wan_vae_open(sg_wan_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_wan_vae_close(sg_wan_vae **v);
sg_component *sg_wan_vae_component(sg_wan_vae *v);
sg_bind      *sg_wan_vae_encoder_bind(sg_wan_vae *v); /* v owns it */

typedef struct sg_wan_vae_info {
    int  z, scale_time, scale_space; /* latent channels; pixels per latent place */
    int  levels, base;               /* for people */
    bool residual;
    int  patch;
} sg_wan_vae_info;
sg_wan_vae_info sg_wan_vae_describe(const sg_wan_vae *v);

/* One clip being decoded or encoded: the history of every causal convolution. Lives in s->keep. */
typedef struct sg_wan_vae_run sg_wan_vae_run;

/* Starts decoding latents of grid y x x. The run's memory comes from s->keep (host part by malloc: close it). Failures
 * of the stream latch there. */
sg_status sg_wan_vae_decode_open(sg_wan_vae_run **out, sg_wan_vae *v, sg_stream *s, int64_t y, int64_t x,
                                 sg_error *e) SG_MUST_USE;
/* The next latent frame z F32 [1, y, x, c], normalised as the denoiser leaves it (z std + mean is applied here). Gives
 * the pixel frames that follow from it: F32 [1 or scale_time, H, W, 3] in s->scratch, clamped to [-1, 1]: 1 for the
 * first latent frame. Taps "vae.post_quant", "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out", "vae.frames". */
sg_tensor sg_wan_vae_decode_next(sg_wan_vae_run *r, sg_stream *s, sg_tensor z);

/* The same for encoding pixel frames of H x W, multiples of scale_space. */
sg_status sg_wan_vae_encode_open(sg_wan_vae_run **out, sg_wan_vae *v, sg_stream *s, int64_t height, int64_t width,
                                 sg_error *e) SG_MUST_USE;
/* The next frames, F32 [1 (first call) or scale_time, H, W, 3] in [-1, 1]: gives one normalised latent frame
 * F32 [1, y, x, c] (the mean; no sampling) in s->scratch. Taps "enc.conv_in", "enc.down.%d" (as encoder.down_blocks
 * counts), "enc.mid", "enc.quant", "enc.mean". */
sg_tensor sg_wan_vae_encode_next(sg_wan_vae_run *r, sg_stream *s, sg_tensor frames);

void sg_wan_vae_run_close(sg_wan_vae_run **r);

/* Of an sg_wan_vae: one latent frame a chunk. */
extern const sg_vae_ops sg_wan_vae_ops;

#endif
