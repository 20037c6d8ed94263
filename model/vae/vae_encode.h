/* vae_encode.h - a clip through the encoder of a VAE, chunk by chunk, from frames of the host to latents of the
 * host. */
#ifndef SG_VAE_ENCODE_H
#define SG_VAE_ENCODE_H

#include "vae.h"

/* tell is called after each unit of a phase's work, with how many of total are done. True cancels. */
typedef struct sg_watch {
    bool (*tell)(void *context, int done, int total);
    void *context;
} sg_watch;

/* Tells w; latches SG_E_CANCELLED in s when that cancels. */
void sg_watch_tell(sg_watch w, sg_stream *s, int done, int total);

/* Describes a clip that is to be encoded. */
typedef struct sg_vae_clip {
    int64_t frames, height, width;
    /* fill sets rgb [count, height, width, 3] to the clip's frames from number `first` on, in [-1, 1]. It is not called
     * on a plan. */
    void (*fill)(const void *context, float *rgb, int64_t first, int64_t count);
    const void *context;
    bool        taps; /* the encoder tells its taps: of a clip that is encoded for itself, not for a render */
} sg_vae_clip;

/* Sets `to` to n bytes as samples in [-1, 1], as diffusers' image processor has them. */
void sg_vae_samples(float *to, const uint8_t *bytes, size_t n);

/* Sets latents F32 [c, f, y, x] of the host, or with `sampled` [2 c, f, y, x], to the clip's, as encode_next makes
 * them, but logarithms of variances between -30 and 20 before normalisation, as in diffusers'
 * DiagonalGaussianDistribution; they are NULL on a plan. latent is [c, f, y, x]. The encoder's weights are loaded.
 * watch is called after each chunk. Failures latch in s. */
void sg_vae_encode(const sg_vae *v, sg_stream *s, const sg_vae_clip *clip, const int64_t latent[4], float *latents,
                   sg_watch watch);

#endif
